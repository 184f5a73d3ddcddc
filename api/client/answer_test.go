package client

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFindValue(t *testing.T) {
	for body, want := range map[string]string{
		`{"key": {"a": "x"}}`:                           "",
		`{"other": [1, {"key": 2}], "key": {"a": "x"}}`: "",
		` {"key": {"a": "x"}, "more": null} `:           "",
		`{"other": 1}`:                                  "has no key",
		`{}`:                                            "has no key",
		`[]`:                                            "not an object",
		`"key"`:                                         "not an object",
		``:                                              "EOF",
		`{"key": {"a": "x"}`:                            "EOF",
		`{"key": {"a": "x"}} {}`:                        "goes on",
		`{"key": {"a": "x"}} x`:                         "invalid character",
		`{"key": {"a": 1}}`:                             "cannot unmarshal",
		`{"key" {"a": "x"}}`:                            "colon",
	} {
		var v struct{ A string }
		err := findValue([]byte(body), "key", &v)
		if want != "" {
			require.ErrorContains(t, err, want, body)
			continue
		}
		require.NoError(t, err, body)
		assert.Equal(t, "x", v.A, body)
	}
}
