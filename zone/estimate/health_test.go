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
			assert.Equal(t, !c.asks, h.of["l"].paused)
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

// TestSlowChildIsAskedLast: from when it is slow until it answers; meanwhile one tries it now and then, with longer
// and longer pauses, and whoever needs it asks it.
func TestSlowChildIsAskedLast(t *testing.T) {
	h := health{of: map[api.LinkID]*childHealth{}}
	now := time.Now()
	assert.Equal(t, turnNow, h.turnOf("l", now))
	h.noteSlow("l", now)
	for _, p := range []time.Duration{probeEvery, 2 * probeEvery, 4 * probeEvery, 8 * probeEvery, lastEveryMax, lastEveryMax} {
		h.noteSlow("l", now) // it was under way
		assert.Equal(t, turnLast, h.turnOf("l", now.Add(p-1)), "pause %v", p)
		assert.True(t, h.mayAsk("l", now.Add(p-1)), "it is needed")
		now = now.Add(p)
		assert.Equal(t, turnTry, h.turnOf("l", now), "pause %v", p)
		assert.Equal(t, turnLast, h.turnOf("l", now), "one tries it")
		h.noteSlow("l", now)
	}
	assert.Equal(t, 6, h.slowTimes("l")-1)
	h.noteAnswer("l")
	assert.Equal(t, turnNow, h.turnOf("l", now))
	assert.Zero(t, h.slowTimes("l"))
}

// TestHoldsAreJudged: a child that is late to hold is asked last at once, and one that refuses what it has offered
// the second time. Answers to selects do not make up for that, and a hold does.
func TestHoldsAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes []HoldOutcome
		want     turn
	}{
		"late":          {[]HoldOutcome{Late}, turnLast},
		"not answered":  {[]HoldOutcome{Unanswered}, turnLast},
		"refused":       {[]HoldOutcome{Refused}, turnNow},
		"refused again": {[]HoldOutcome{Refused, Refused}, turnLast},
		"refused often": {[]HoldOutcome{Refused, Refused, Refused, Refused}, turnLast},
		"late often":    {[]HoldOutcome{Late, Late, Late, Late}, turnLast},
		"held at last":  {[]HoldOutcome{Late, Refused, Unanswered, Held}, turnNow},
	} {
		t.Run(name, func(t *testing.T) {
			h := health{of: map[api.LinkID]*childHealth{}}
			now := time.Now()
			for _, o := range c.outcomes {
				h.noteHold("l", o, now)
				h.noteAnswer("l")
			}
			assert.True(t, h.mayAsk("l", now), "whoever needs it asks it")
			assert.Equal(t, c.want, h.turnOf("l", now))
		})
	}
}

// TestHoldPatience: it goes by what is usual, within bounds, and grows for one that was late.
func TestHoldPatience(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		usual time.Duration // 0 for none
		late  int
		want  time.Duration
	}{
		{0, 0, holdPatienceUnused},
		{0, 3, holdPatienceUnused},
		{ms, 0, holdPatienceMin},
		{holdPatienceMin / holdSlow, 0, holdPatienceMin},
		{holdPatienceMin/holdSlow + ms, 0, holdPatienceMin + holdSlow*ms},
		{ms, 1, 2 * holdPatienceMin},
		{ms, 2, holdPatienceUnused},
		{ms, 60, holdPatienceUnused},
		{time.Second, 0, holdSlow * time.Second},
		{time.Second, 60, holdSlow * time.Second},
	} {
		e := &Estimator{health: health{of: map[api.LinkID]*childHealth{}}, holds: usual{of: map[api.LinkID]time.Duration{}}}
		if c.usual > 0 {
			e.holds.note("l", c.usual)
		}
		now := time.Now()
		for range c.late {
			e.health.noteSlow("l", now)
			now = now.Add(lastEveryMax)
			e.health.turnOf("l", now)
		}
		assert.Equal(t, c.want, e.HoldPatience("l"), "%+v", c)
	}
}
