package openstack

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"berth/api"
)

// showMax bounds the characters of a value in a refusal.
const showMax = 300

// Show formats a value for a refusal.
func Show(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return "'" + Cut(v) + "'"
	}
	b, _ := json.Marshal(v) // it was decoded from JSON
	return Cut(string(b))
}

// Cut shortens a text to showMax characters.
func Cut(s string) string {
	if utf8.RuneCountInString(s) <= showMax {
		return s
	}
	return string([]rune(s)[:showMax]) + "..."
}

// ParseUUID returns a UUID in its canonical form. It accepts upper case, missing
// dashes, braces and the prefix urn:uuid:.
func ParseUUID(text string) (string, bool) {
	s := strings.ToLower(text)
	s = strings.ReplaceAll(s, "urn:", "")
	s = strings.ReplaceAll(s, "uuid:", "")
	s = strings.Trim(s, "{}")
	s = strings.ReplaceAll(s, "-", "")
	if len(s) != 32 {
		return "", false
	}
	s = s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
	return s, api.ValidUUID(s)
}
