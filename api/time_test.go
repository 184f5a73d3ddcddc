package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

func TestInstantJSON(t *testing.T) {
	for text, want := range map[string]api.Instant{
		`"1970-01-01T00:00:00Z"`:           0,
		`"1970-01-01T00:00:00.001Z"`:       1,
		`"1970-01-01T02:00:00+02:00"`:      0,
		`"1969-12-31T23:59:59.999Z"`:       -1,
		`"1970-01-01T00:00:00.0019999Z"`:   1, // rounded down
		`"2030-06-01T12:00:00.123456789Z"`: 1906545600123,
		`null`:                             api.Forever,
	} {
		var i api.Instant
		require.NoError(t, json.Unmarshal([]byte(text), &i), text)
		assert.Equal(t, want, i, text)
	}
	for _, text := range []string{`""`, `5`, `"soon"`, `"2030-01-01"`, `"2030-13-01T00:00:00Z"`, `true`, `{}`} {
		var i api.Instant
		require.Error(t, json.Unmarshal([]byte(text), &i), text)
	}
	assert.Equal(t, "forever", api.Forever.String())
	rapid.Check(t, func(t *rapid.T) {
		want := api.Instant(rapid.Int64Range(-62_000_000_000_000, 253_000_000_000_000).Draw(t, "ms")) // years 5 to 9987
		b, err := json.Marshal(want)
		require.NoError(t, err)
		var got api.Instant
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, want, got, "%s", b)
		require.Equal(t, want, api.InstantOf(want.Time()))
	})
}

func TestInstantAdd(t *testing.T) {
	for _, c := range []struct {
		from api.Instant
		d    time.Duration
		want api.Instant
	}{
		{0, time.Second, 1000},
		{1000, -time.Second, 0},
		{5, 999 * time.Microsecond, 5},
		{api.Forever, time.Hour, api.Forever},
		{api.Forever, -time.Hour, api.Forever},
		{api.Forever - 1, time.Millisecond, api.Forever},
		{api.Forever - 1, time.Hour, api.Forever},
		{api.Forever - 1, 0, api.Forever - 1},
	} {
		assert.Equal(t, c.want, c.from.Add(c.d), "%d + %v", c.from, c.d)
	}
}

func TestWindows(t *testing.T) {
	w := api.Window{Start: 10, End: 20}
	assert.True(t, w.Valid())
	assert.False(t, api.Window{Start: 10, End: 10}.Valid() || api.Window{Start: 11, End: 10}.Valid())
	for at, want := range map[api.Instant]bool{9: false, 10: true, 19: true, 20: false} {
		assert.Equal(t, want, w.Contains(at), at)
	}
	assert.True(t, api.Window{Start: 0, End: api.Forever}.Contains(api.Forever-1))
}
