package check_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/cluster-test/check"
)

// TestOverlaps holds that more than a room has is seen, to the millisecond.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	const room = 8
	slot := func(units int, from, until api.Instant) check.Span {
		return check.Span{What: "slot", Room: "h", Units: units, From: from, Until: until}
	}
	runs := func(host string, from, until api.Instant) check.Span {
		return check.Span{What: "instance", Room: host, Units: 1, From: from, Until: until}
	}
	for name, c := range map[string]struct {
		spans []check.Span
		want  int
	}{
		"a full host":     {[]check.Span{slot(room-1, 5, 9), runs("h", 1, 20)}, 0},
		"gone in time":    {[]check.Span{slot(room, 5, api.Forever), runs("h", 1, 5)}, 0},
		"gone too late":   {[]check.Span{slot(room, 5, api.Forever), runs("h", 1, 6)}, 1},
		"started early":   {[]check.Span{slot(room, 5, 9), runs("h", 8, 20)}, 1},
		"started after":   {[]check.Span{slot(room, 5, 9), runs("h", 9, 20)}, 0},
		"never there":     {[]check.Span{slot(room, 5, 9), runs("h", 8, 8)}, 0},
		"another host":    {[]check.Span{slot(room, 5, 9), runs("g", 1, 20)}, 0},
		"one is too much": {[]check.Span{slot(room-1, 5, 9), runs("h", 1, 20), runs("h", 2, 6)}, 1},
	} {
		assert.Len(t, check.Overlaps(c.spans, func(string) int { return room }), c.want, name)
	}
}
