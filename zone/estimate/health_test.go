package estimate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestLateChildIsNotPausedAtOnce: a child that is late, or not reached, and was heard lately is asked until that has
// lasted; then it is tried at even times. One that is not heard is paused after a few failures.
func TestLateChildIsNotPausedAtOnce(t *testing.T) {
	began := time.Now()
	at := began.Add
	for name, c := range map[string]struct {
		heard []bool // the failures
		every time.Duration
		asks  bool
	}{
		"heard":             {[]bool{true, true, true, true}, time.Second, true},
		"heard, for long":   {[]bool{true, true, true}, lateToPause / 2, false},
		"just not so long":  {[]bool{true, true, true}, lateToPause/2 - 1, true},
		"not heard":         {[]bool{false, false, false}, time.Second, false},
		"not heard, twice":  {[]bool{false, false}, lateToPause, true},
		"heard, seldom":     {[]bool{true, true}, lateToPause, true},
		"not heard at last": {[]bool{true, true, false}, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := health{of: map[api.LinkID]*childHealth{}}
			for i, heard := range c.heard {
				h.noteSelect("l", heard, at(time.Duration(i)*c.every))
			}
			assert.Equal(t, c.asks, h.mayAsk("l", at(time.Duration(len(c.heard)-1)*c.every)))
			assert.Equal(t, c.asks, !h.isFailing("l"))
			h.noteAnswer("l")
			assert.True(t, h.mayAsk("l", began))
		})
	}
}

// TestPausedChildIsTriedAgain: at even times while it is heard, and otherwise with longer and longer pauses. A
// select that was under way adds nothing.
func TestPausedChildIsTriedAgain(t *testing.T) {
	for heard, pauses := range map[bool][]time.Duration{
		true:  {probeEvery, probeEvery, probeEvery},
		false: {probeEvery, 2 * probeEvery, 4 * probeEvery},
	} {
		h := health{of: map[api.LinkID]*childHealth{}}
		now := time.Now()
		for range failuresToPause {
			h.noteSelect("l", heard, now)
			now = now.Add(lateToPause)
		}
		now = now.Add(-lateToPause)
		for _, p := range pauses {
			h.noteSelect("l", heard, now)
			assert.False(t, h.mayAsk("l", now.Add(p-1)), "heard %v, pause %v", heard, p)
			now = now.Add(p)
			assert.True(t, h.mayAsk("l", now), "heard %v, pause %v", heard, p)
			assert.False(t, h.mayAsk("l", now), "one select tries it")
			h.noteSelect("l", heard, now)
		}
	}
}
