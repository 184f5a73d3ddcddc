package estimate

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestWhatFitsForSure: what the zones have together is enough unless a rule decides which of them count, and too little for sure only
// without zones below.
func TestWhatFitsForSure(t *testing.T) {
	for name, c := range map[string]struct {
		step       api.RoomStep
		change     func(s *roomSearch)
		fits, sure bool
	}{
		"enough":          {api.RoomStep{Together: []int{2, 1}}, nil, true, true},
		"too little":      {api.RoomStep{Together: []int{2, 0}}, nil, false, true},
		"not together":    {api.RoomStep{Together: []int{2, 0}, Alone: []int{2, 1}}, nil, false, true},
		"of nothing":      {api.RoomStep{}, nil, false, true},
		"not alone":       {api.RoomStep{Together: []int{2, 0}, Alone: []int{1, 1}}, func(s *roomSearch) { s.children = answered }, false, true},
		"with children":   {api.RoomStep{Together: []int{2, 0}, Alone: []int{2, 1}}, func(s *roomSearch) { s.children = answered }, false, false},
		"silent children": {api.RoomStep{Together: []int{2, 0}, Alone: []int{2, 1}}, func(s *roomSearch) { s.children = make([]childRoom, 1) }, false, true},
		"bound":           {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.binder = &binder{strict: true} }, false, false},
		"bound loosely":   {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.binder = &binder{} }, true, true},
		"packed":          {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.q.Request.Zones.Pack = true }, false, false},
		"one zone":        {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.q.Request.Zones.MinZones = 1 }, true, true},
		"two zones":       {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.q.Request.Zones.MinZones = 2 }, false, false},
		"skew":            {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.q.Request.Zones.MaxSkew = 1 }, false, false},
		"a rule":          {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.q.Request.Rules = []api.Rule{{Groups: []int{0}}} }, true, true},
		"a rule of two":   {api.RoomStep{Together: []int{2, 1}}, func(s *roomSearch) { s.q.Request.Rules = []api.Rule{{Groups: []int{0, 1}}} }, false, false},
	} {
		s := &roomSearch{q: &api.RoomQuestion{Request: api.Request{Groups: []api.Group{{Count: 2}, {Count: 1}}}}}
		if c.change != nil {
			c.change(s)
		}
		fits, sure := s.fitsIn(&c.step)
		assert.Equal(t, []bool{c.fits, c.sure}, []bool{fits, sure}, name)
	}
}

var answered = []childRoom{{room: &api.RoomAnswer{}}}

// TestStepAt: the last step that has begun.
func TestStepAt(t *testing.T) {
	steps := []api.RoomStep{{At: 10, Together: []int{1}}, {At: 20, Together: []int{2}}}
	for at, want := range map[api.Instant][]int{9: nil, 10: {1}, 19: {1}, 20: {2}, 99: {2}} {
		assert.Equal(t, want, stepAt(steps, at).Together, "%d", at)
	}
}

// TestSumsOfBothStopAtTheirEnds.
func TestSumsOfBothStopAtTheirEnds(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {-1, -2, -3}, {1, -2, -1}, {-1, 2, 1}, {0, 0, 0}, {0, -1, -1}, {math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64, 1, math.MaxInt64},
		{1, math.MaxInt64, math.MaxInt64}, {math.MaxInt64, math.MinInt64, -1}, {math.MinInt64, -1, math.MinInt64}, {-1, math.MinInt64, math.MinInt64},
		{math.MinInt64, math.MinInt64, math.MinInt64}, {math.MinInt64, 0, math.MinInt64}, {math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		assert.Equal(t, c.want, addCapped(c.a, c.b), "%d + %d", c.a, c.b)
	}
}
