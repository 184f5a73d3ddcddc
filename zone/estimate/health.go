package estimate

import (
	"sync"
	"time"

	"berth/api"
)

// When a failing child is not asked.
const (
	// failuresToPause is how many selects in a row must fail or be late, or offers not
	// be held, before a child is no longer asked.
	failuresToPause = 3
	// lateToPause is for how long a child that was heard lately must be late, or not be reached, before it
	// is no longer asked: one that has much to do, or restarts, is late a few times in a row.
	lateToPause = 10 * time.Second
	// probeEvery is the pause before one select tries such a child again. It doubles
	// with each failed try, up to probeEveryMax, unless the child was heard lately.
	probeEvery    = 2 * time.Second
	probeEveryMax = 60 * time.Second
)

// health records the outcomes of selects to each child on this node. It is a hint: a
// node that has just started asks every child.
type health struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]*childHealth
}

// childHealth is the recent record of one child.
type childHealth struct {
	failures int
	since    time.Time // the first of them
	paused   bool      // it is asked only to try it
	wait     time.Duration
	until    time.Time
	trying   bool // one select is probing; others may have been under way before
	unheld   bool // it did not hold what it had offered, and has held nothing since
}

// mayAsk reports whether a child may be asked at now. For a failing child it returns
// true once, as a probe, and then false until the probe has had its time.
func (h *health) mayAsk(l api.LinkID, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[l]
	if p == nil || !p.paused {
		return true
	}
	if now.Before(p.until) {
		return false
	}
	p.until, p.trying = now.Add(p.wait), true
	return true
}

// isFailing reports whether a child fails so often that it is asked only to try it.
func (h *health) isFailing(l api.LinkID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[l]
	return p != nil && p.paused
}

// noteAnswer records that a child has answered a select.
func (h *health) noteAnswer(l api.LinkID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[l]; p != nil && !p.unheld { // another offer does not make up for one that was not held
		delete(h.of, l)
	}
}

// noteSelect records that a select to a child has failed. heard says that the child was only late or
// not reached, and was heard lately. Selects that were under way when the child was paused add nothing.
func (h *health) noteSelect(l api.LinkID, heard bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteFailure(l, heard, now)
}

// noteHold records whether a child held what it had offered.
func (h *health) noteHold(l api.LinkID, ok bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok {
		delete(h.of, l)
		return
	}
	h.noteFailure(l, false, now).unheld = true
}

func (h *health) noteFailure(l api.LinkID, heard bool, now time.Time) *childHealth {
	p := h.of[l]
	if p == nil {
		p = &childHealth{since: now}
		h.of[l] = p
	}
	p.failures++
	switch {
	case p.paused && !p.trying:
		return p
	case !p.paused && (p.failures < failuresToPause || heard && now.Sub(p.since) < lateToPause):
		return p
	case heard:
		p.wait = probeEvery
	default:
		p.wait = min(max(2*p.wait, probeEvery), probeEveryMax)
	}
	p.paused, p.trying, p.until = true, false, now.Add(p.wait)
	return p
}

// NoteHeld records whether a child held what it had offered.
func (e *Estimator) NoteHeld(l api.LinkID, ok bool) { e.health.noteHold(l, ok, e.zone.Now()) }

// NoteFailure records that a child gave an unusable answer.
func (e *Estimator) NoteFailure(l api.LinkID) { e.health.noteSelect(l, false, e.zone.Now()) }

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
