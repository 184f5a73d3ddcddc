package estimate

import (
	"sync"
	"time"

	"berth/api"
)

// When a failing child is left alone.
const (
	// failuresToPause is how many selects in a row must fail, or be late, or holds not
	// be held, before a child is not asked any more.
	failuresToPause = 3
	// probeEvery is how long such a child is left alone before one select tries it
	// again; the time doubles with each try that fails, up to probeEveryMax.
	probeEvery    = 2 * time.Second
	probeEveryMax = 60 * time.Second
)

// health remembers how selects to each child went, on this node. It is a hint:
// a node that has just started asks everybody.
type health struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]*childHealth
}

// childHealth is how one child has answered lately.
type childHealth struct {
	failures int
	wait     time.Duration
	until    time.Time
	trying   bool // one select was let through; others may have been under way before
	unheld   bool // it has offered and not held, and has held nothing since
}

// mayAsk reports whether a child may be asked at now. For a child that fails it
// says yes once, to try it, and then no until that try has had its time.
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

// noteSelect notes how a select to a child went. Selects that were under way when it
// came to be paused say nothing new.
func (h *health) noteSelect(l api.LinkID, ok bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[l]
	if ok {
		if p != nil && !p.unheld { // whoever does not hold what it offers is not well for offering more
			delete(h.of, l)
		}
		return
	}
	h.noteFailure(l, now)
}

// noteHold notes whether a child that was asked to hold what it had offered did so.
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

// NoteHeld notes whether a child that was asked to hold what it had offered did so.
func (e *Estimator) NoteHeld(l api.LinkID, ok bool) { e.health.noteHold(l, ok, e.zone.Now()) }

// NoteFailure notes that a child gave an answer that cannot be used.
func (e *Estimator) NoteFailure(l api.LinkID) { e.health.noteSelect(l, false, e.zone.Now()) }

// underWay is the requests that this node selects for just now. In a tree a request
// reaches a zone at one depth only, though perhaps more than once: by a hedge, or
// by a repeat. One that is under way at another depth has gone in a circle.
type underWay struct {
	mu sync.Mutex // guards of
	of map[string]flight
}

// flight is one request under way.
type flight struct{ depth, calls int }

// beginRequest reports whether a request may go on at a depth, and if so notes it until
// end.
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
