package api_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestRoomAnswersAreChecked: at most RoomStepsMax steps in order, with counts of what was asked
// for.
func TestRoomAnswersAreChecked(t *testing.T) {
	q := &api.RoomQuestion{Request: api.Request{Groups: []api.Group{{Count: 3}}, Window: api.Window{Start: 60_000, End: 120_000}}, Until: 60_000_000}
	steps := func(n int) []api.RoomStep {
		out := make([]api.RoomStep, n)
		for i := range out {
			out[i] = api.RoomStep{At: api.Instant(60_000 * (i + 1)), Together: []int{3}}
		}
		return out
	}
	assert.True(t, (&api.RoomAnswer{Until: 60_000}).IsSound(q))
	assert.True(t, (&api.RoomAnswer{Steps: steps(api.RoomStepsMax), Until: q.Until}).IsSound(q))
	assert.False(t, (&api.RoomAnswer{Steps: steps(api.RoomStepsMax + 1), Until: q.Until}).IsSound(q))
	for name, spoil := range map[string]func(*api.RoomAnswer){
		"until too early": func(a *api.RoomAnswer) { a.Until = 59_999 },
		"until too late":  func(a *api.RoomAnswer) { a.Until++ },
		"a step before":   func(a *api.RoomAnswer) { a.Steps[0].At = 59_999 },
		"a step after":    func(a *api.RoomAnswer) { a.Steps[1].At = q.Until },
		"out of order":    func(a *api.RoomAnswer) { a.Steps[1].At = a.Steps[0].At },
		"no counts":       func(a *api.RoomAnswer) { a.Steps[0].Together = nil },
		"too many groups": func(a *api.RoomAnswer) { a.Steps[0].Together = []int{1, 1} },
		"more than asked": func(a *api.RoomAnswer) { a.Steps[0].Together = []int{4} },
		"less than none":  func(a *api.RoomAnswer) { a.Steps[0].Alone = []int{-1} },
	} {
		a := &api.RoomAnswer{Steps: steps(2), Until: q.Until}
		assert.True(t, a.IsSound(q))
		spoil(a)
		assert.False(t, a.IsSound(q), name)
	}
}
