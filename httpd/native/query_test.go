package native

import "strings"

// withQuery adds a query parameter to the target of a call.
func withQuery(target, q string) string {
	if strings.Contains(target, "?") {
		return target + "&" + q
	}
	return target + "?" + q
}
