package estimate

import (
	"sync"
	"time"

	"berth/api"
)

// When a failing child is not asked.
const (
	// failuresToPause is how many selects in a row must fail or be late, or holds have no answer,
	// before a child is no longer asked. One that answers, if only with refusals, is asked last instead:
	// others may want the same room, and some requests cannot do without it.
	failuresToPause = 3
	// failuresToLast is how many offers in a row a child must refuse to hold before it is asked last: others
	// may have been faster once. One that does not answer is asked last at once.
	failuresToLast = 2
	// lateToPause is for how long a child that was heard lately must be late, or not be reached, before it
	// is no longer asked: one that has much to do, or restarts, is late a few times in a row.
	lateToPause = 10 * time.Second
	// probeEvery is the pause before one select tries such a child again. It doubles
	// with each failed try, up to probeEveryMax, unless the child was heard lately.
	probeEvery    = 2 * time.Second
	probeEveryMax = 60 * time.Second
	// lastEveryMax bounds the pause before a child that is asked last is tried by one that can do without it;
	// the pause begins with probeEvery and doubles with each failed try.
	lastEveryMax = 30 * time.Second
)

// health records the outcomes of selects and holds of each child on this node. It is a hint: a
// node that has just started asks every child.
type health struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]*childHealth
}

// childHealth is the recent record of one child.
type childHealth struct {
	failures int
	slow     int       // of these, in a row: it did not answer within its time
	since    time.Time // the first of them
	unheld   bool      // it did not hold what it had offered, and has held nothing since

	paused bool // it is asked only to try it
	wait   time.Duration
	until  time.Time
	trying bool // one select is probing; others may have been under way before

	last     bool // whoever can do without it does not ask it, but one now and then, to try it
	lastWait time.Duration
	lastTill time.Time
	lastTry  bool // one is trying it
}

// turn is when to ask a child.
type turn int

const (
	turnNow   turn = iota
	turnTry        // now, by this one alone: it fails, or has failed
	turnLast       // only if the others have not enough
	turnNever      // not for now
)

// turnOf returns when to ask a child for a request at now. For one that fails it returns turnTry once, and
// then something else until that try has had its time.
func (h *health) turnOf(l api.LinkID, now time.Time) turn {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[l]
	switch {
	case p == nil || !p.paused && !p.last:
		return turnNow
	case p.paused && now.Before(p.until):
		return turnNever
	case p.last && now.Before(p.lastTill):
		return turnLast
	}
	p.try(now)
	return turnTry
}

// mayAsk reports whether a child may be asked at now, for a request for which the others have not enough. For a
// paused child it returns true once, as a probe, and then false until the probe has had its time.
func (h *health) mayAsk(l api.LinkID, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[l]
	switch {
	case p == nil || !p.paused:
		return true
	case now.Before(p.until):
		return false
	}
	p.try(now)
	return true
}

// try notes that somebody tries a child at now.
func (p *childHealth) try(now time.Time) {
	if p.paused {
		p.until, p.trying = now.Add(p.wait), true
	}
	if p.last {
		p.lastTill, p.lastTry = now.Add(p.lastWait), true
	}
}

// slowTimes returns how often in a row a child has not answered within its time.
func (h *health) slowTimes(l api.LinkID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[l]; p != nil {
		return p.slow
	}
	return 0
}

// noteAnswer records that a child has answered a select.
func (h *health) noteAnswer(l api.LinkID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[l]; p != nil && !p.unheld { // another offer does not make up for one that was not held
		delete(h.of, l)
	}
}

// noteSlow records at now that a child has not answered within its time, although it may still do so: it is
// asked last until it does.
func (h *health) noteSlow(l api.LinkID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.find(l, now).putLast(true, now)
}

// noteSelect records that a select to a child has failed. heard says that the child was only late or
// not reached, and was heard lately. Selects that were under way when the child was paused add nothing.
func (h *health) noteSelect(l api.LinkID, heard bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.find(l, now).noteFailure(heard, now)
}

// noteHold records at now what became of a hold that a child was asked for.
func (h *health) noteHold(l api.LinkID, o HoldOutcome, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o == Held {
		delete(h.of, l)
		return
	}
	p := h.find(l, now)
	p.unheld = true
	switch o {
	case Refused: // it is there: whoever needs it asks it still
		p.failures++
	case Unanswered:
		p.noteFailure(false, now)
	}
	if o != Refused || p.failures >= failuresToLast {
		p.putLast(o != Refused, now)
	}
}

// find returns the record of a child, which is new if nothing has failed before.
func (h *health) find(l api.LinkID, now time.Time) *childHealth {
	p := h.of[l]
	if p == nil {
		p = &childHealth{since: now}
		h.of[l] = p
	}
	return p
}

// putLast has a child asked last, for longer after each failed try. What was under way before adds nothing.
func (p *childHealth) putLast(slow bool, now time.Time) {
	if p.last && !p.lastTry {
		return
	}
	if slow {
		p.slow++
	}
	p.lastWait = min(max(2*p.lastWait, probeEvery), lastEveryMax)
	p.last, p.lastTry, p.lastTill = true, false, now.Add(p.lastWait)
}

func (p *childHealth) noteFailure(heard bool, now time.Time) {
	p.failures++
	switch {
	case p.paused && !p.trying:
		return
	case !p.paused && (p.failures < failuresToPause || heard && now.Sub(p.since) < lateToPause):
		return
	case heard:
		p.wait = probeEvery
	default:
		p.wait = min(max(2*p.wait, probeEvery), probeEveryMax)
	}
	p.paused, p.trying, p.until = true, false, now.Add(p.wait)
}

// HoldOutcome is what became of a hold that a child was asked for.
type HoldOutcome int

// Outcomes of holds.
const (
	Held       HoldOutcome = iota
	Refused                // it answered that it does not hold what it had offered
	Late                   // it did not answer within its usual time, or only that it is not available, and nobody waited longer
	Unanswered             // it did not answer within the time of a hold
)

// NoteHold records what became of a hold that a child was asked for, and after which time.
func (e *Estimator) NoteHold(l api.LinkID, o HoldOutcome, took time.Duration) {
	if o == Held || o == Refused {
		e.holds.note(l, took)
	}
	e.health.noteHold(l, o, e.zone.Now())
}

// NoteSlow records that a child has not answered a call within its time, although it may still do so.
func (e *Estimator) NoteSlow(l api.LinkID) { e.health.noteSlow(l, e.zone.Now()) }

// NoteFailure records that a child gave an unusable answer.
func (e *Estimator) NoteFailure(l api.LinkID) { e.health.noteSelect(l, false, e.zone.Now()) }

// Bounds of the time within which a child is expected to hold.
const (
	holdSlow           = 8 // times as long as usual
	holdPatienceMin    = 250 * time.Millisecond
	holdPatienceUnused = time.Second // of a child that has not answered any hold; and what others may come up to by being late
)

// HoldPatience returns for how long a child should be waited for when it is asked for a hold, by one that may
// find room elsewhere: holdSlow times as long as usual. A child that was late last time has more, so
// that one which has become slower is known again.
func (e *Estimator) HoldPatience(l api.LinkID) time.Duration {
	usual, ok := e.holds.timeOf(l)
	if !ok {
		return holdPatienceUnused
	}
	usual = max(holdSlow*usual, holdPatienceMin)
	return max(usual, min(usual<<min(e.health.slowTimes(l), 8), holdPatienceUnused))
}

// underWay is the set of requests that this node is selecting for. In a tree a request
// reaches a zone at one depth only, though a hedge or a repeat may bring it twice. A
// request at two depths has gone in a circle.
type underWay struct {
	mu sync.Mutex // guards of
	of map[string]flight
}

// flight is one request under way.
type flight struct{ depth, calls int }

// beginRequest reports whether a request may go on at a depth, and if so records it
// until end.
func (a *underWay) beginRequest(request string, depth int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.of[request]
	if f.calls > 0 && f.depth != depth {
		return false
	}
	a.of[request] = flight{depth, f.calls + 1}
	return true
}

func (a *underWay) endRequest(request string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.of[request]; f.calls > 1 {
		a.of[request] = flight{f.depth, f.calls - 1}
	} else {
		delete(a.of, request)
	}
}
