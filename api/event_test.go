package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestEventIDs(t *testing.T) {
	for text, want := range map[string]api.EventID{
		"0-0":                    {},
		"4711-2":                 {Index: 4711, Number: 2},
		"18446744073709551615-1": {Index: 1<<64 - 1, Number: 1},
		"7-1-0a0b0c0d":           {Index: 7, Number: 1, History: "0a0b0c0d"},
		"1-1-" + strings.Repeat("h", api.EventIDMaxBytes-4): {Index: 1, Number: 1, History: strings.Repeat("h", api.EventIDMaxBytes-4)},
	} {
		got, err := api.ParseEventID(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{
		"", "7", "7-", "-1", "7-x", "x-1", "7--1", "07-1", "7-01", "+7-1", "7-1-", "7-1-a/b", "18446744073709551616-1", "7-1 ",
		"1-1-" + strings.Repeat("h", api.EventIDMaxBytes-3),
	} {
		_, err := api.ParseEventID(text)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), text)
	}
	a, b, c := api.EventID{Index: 7, Number: 2}, api.EventID{Index: 7, Number: 3}, api.EventID{Index: 8}
	assert.True(t, b.After(a) && c.After(b) && c.After(a))
	assert.False(t, a.After(a) || a.After(b) || b.After(c))
}
