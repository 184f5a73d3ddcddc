package openstack

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"berth/api"
)

// BadQuery refuses the query. It has no code of its own.
func BadQuery(format string, args ...any) error {
	return api.Errorf(api.CodeInvalid, "Invalid query string parameters: "+format, args...)
}

// Params reads the query of a call, which may have the names in known, and "read" for
// package door.
func Params(r *http.Request, known func(name string) bool) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, BadQuery("the query string cannot be read")
	}
	var strange []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if name != "read" && !known(name) {
			strange = append(strange, name)
		}
	}
	if len(strange) > 0 {
		return nil, BadQuery("%s", unexpectedProperties(strange))
	}
	return q, nil
}
