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
	// probeEvery is the pause before one select tries such a child again; it doubles
	// with each failed try, up to probeEveryMax.
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
	if p == nil || p.failures < failuresToPause {
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
	return p != nil && p.failures >= failuresToPause
}

// noteSelect records the outcome of a select to a child. Selects that were under way
// when the child was paused add nothing.
func (h *health) noteSelect(l api.LinkID, ok bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[l]
	if ok {
		if p != nil && !p.unheld { // another offer does not make up for one that was not held
			delete(h.of, l)
		}
		return
	}
	h.noteFailure(l, now)
}

// noteHold records whether a child held what it had offered.
func (h *health) noteHold(l api.LinkID, ok bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok {
		delete(h.of, l)
		return
	}
	h.noteFailure(l, now).unheld = true
}

func (h *health) noteFailure(l api.LinkID, now time.Time) *childHealth {
	p := h.of[l]
	if p == nil {
		p = &childHealth{}
		h.of[l] = p
	}
	if p.failures++; p.failures == failuresToPause || p.trying {
		p.trying = false
		p.wait = min(max(2*p.wait, probeEvery), probeEveryMax)
		p.until = now.Add(p.wait)
	}
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
