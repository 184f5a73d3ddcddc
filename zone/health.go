package zone

import (
	"sync"
	"time"

	"berth/api"
)

// When a failing child is left alone.
const (
	// FailuresToPause is how many selects in a row must fail, or be late, before a
	// child is not asked any more.
	FailuresToPause = 3
	// probeEvery is how long such a child is left alone before one select tries it
	// again; the time doubles with each try that fails, up to probeEveryMax.
	probeEvery    = 5 * time.Second
	probeEveryMax = 60 * time.Second
)

// health remembers how selects to each child went, on this node. It is a hint:
// a node that has just started asks everybody.
type health struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]*pulse
}

// pulse is how one child has answered lately.
type pulse struct {
	failures int
	wait     time.Duration
	until    time.Time
}

// mayAsk reports whether a child may be asked at now. For a child that fails it
// says yes once, to try it, and then no until that try has had its time.
func (h *health) mayAsk(l api.LinkID, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[l]
	if p == nil || p.failures < FailuresToPause {
		return true
	}
	if now.Before(p.until) {
		return false
	}
	p.until = now.Add(p.wait)
	return true
}

// heard notes how a select to a child went.
func (h *health) heard(l api.LinkID, ok bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok {
		delete(h.of, l)
		return
	}
	p := h.of[l]
	if p == nil {
		p = &pulse{}
		h.of[l] = p
	}
	if p.failures++; p.failures >= FailuresToPause {
		p.wait = min(max(2*p.wait, probeEvery), probeEveryMax)
		p.until = now.Add(p.wait)
	}
}

// asking is the calls that this node selects for just now, by request id: a call
// that comes back to a zone which is still working on it has gone in a circle.
type asking struct {
	mu sync.Mutex // guards of
	of map[api.RequestID]bool
}

// begin reports whether id is new, and notes it until end.
func (a *asking) begin(id api.RequestID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[id] {
		return false
	}
	a.of[id] = true
	return true
}

func (a *asking) end(id api.RequestID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, id)
}
