package client

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"berth/api"
	"berth/internal/skew"
)

// How long an endpoint that did not answer is tried after all others: at first the
// minimum, doubled after each further failure up to the maximum.
const (
	penaltyMin = time.Second
	penaltyMax = time.Minute
)

// How long an endpoint may take before the next one is also tried: patienceOver times its
// usual time, between patienceMin and patienceMax, but no more than its share of the
// caller's budget.
const (
	patienceOver  = 4
	patienceMin   = 500 * time.Millisecond
	patienceMax   = 2 * time.Second
	patienceFloor = 10 * time.Millisecond // of a share, however small the budget
)

// endpoint is the history of one gateway of a linked zone.
type endpoint struct {
	addr     string
	client   *http.Client  // separate, so that its connections can be dropped alone
	answered uint64        // time of its last answer, counted in answers of all endpoints; 0 for never
	failures int           // consecutive calls without a timely answer
	penalty  time.Time     // end of the time in which it is tried after all others
	usual    time.Duration // duration of its answers; a moving average, 0 for unknown
}

// peerLink is the history of one link.
type peerLink struct {
	endpoints map[string]*endpoint
	answers   uint64
	good      *endpoint     // the one that answered last; nil at first
	moved     chan struct{} // closed when another one becomes good, or one fails
	hedges    hedges
	form      api.Form // newest that the zone reads, from its last answer; 0 before the first

	incarnation api.Incarnation // from its last answer
	newest      api.Incarnation // the latest that it has named, in answers and in calls
	clock       skew.Best
	heard       bool     // there was one since this was last cleared
	listening   []func() // called with the next answer
}

// wakeCalls notifies present calls that an endpoint has failed, or another one is good.
// The caller holds the lock.
func (pl *peerLink) wakeCalls() {
	close(pl.moved)
	pl.moved = make(chan struct{})
}

// linkState returns the history of a link. The caller holds p.mu.
func (p *Peers) linkState(l *api.Link) *peerLink {
	pl, ok := p.links[l.ID]
	if !ok {
		pl = &peerLink{endpoints: map[string]*endpoint{}, moved: make(chan struct{}), hedges: hedges{credit: hedgeCost * hedgeBurst}}
		p.links[l.ID] = pl
	}
	return pl
}

// orderEndpoints returns the endpoints of a link in the order in which to try them: the one
// that answered last first, and those with a penalty last, ordered by its end. Endpoints
// that the link no longer has are dropped.
func (p *Peers) orderEndpoints(l *api.Link) []*endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.linkState(l)
	out := make([]*endpoint, 0, len(l.Endpoints))
	for _, addr := range l.Endpoints {
		e := pl.endpoints[addr]
		if e == nil {
			e = &endpoint{addr: addr, client: &http.Client{
				Transport:     p.conf.Transport(l),
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}}
			pl.endpoints[addr] = e
		}
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	for addr, e := range pl.endpoints {
		if !slices.Contains(out, e) {
			delete(pl.endpoints, addr)
			e.client.CloseIdleConnections()
		}
	}
	now := p.conf.Now()
	slices.SortStableFunc(out, func(a, b *endpoint) int {
		if late, other := now.Before(a.penalty), now.Before(b.penalty); late || other {
			return cmp.Or(compareBool(late, other), a.penalty.Compare(b.penalty))
		}
		return cmp.Compare(b.answered, a.answered)
	})
	return out
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// noteAnswer records that an endpoint has answered a call after the time took, which may
// include an intended wait of up to wait.
func (p *Peers) noteAnswer(l *api.Link, e *endpoint, took, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.linkState(l)
	pl.answers++
	e.answered, e.failures, e.penalty = pl.answers, 0, time.Time{}
	if pl.good != e {
		pl.good = e
		pl.wakeCalls()
	}
	switch took -= wait; {
	case took < 0: // it had news before the wait was over
	case e.usual == 0:
		e.usual = took
	default:
		e.usual += (took - e.usual) / 4
	}
}

// noteFailure records that an endpoint did not answer in time, and drops its idle
// connections: those to a dead machine would each be tried in vain.
func (p *Peers) noteFailure(l *api.Link, e *endpoint) {
	p.mu.Lock()
	e.failures = min(e.failures+1, 16) // enough for any penalty, and no overflow
	e.penalty = p.conf.Now().Add(min(penaltyMin<<(e.failures-1), penaltyMax))
	p.linkState(l).wakeCalls()
	p.mu.Unlock()
	e.client.CloseIdleConnections()
}

// watchDoubtful returns a channel that is closed when findDoubtful should be called again.
func (p *Peers) watchDoubtful(l *api.Link) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.linkState(l).moved
}

// findDoubtful returns the endpoint that answered last if a call that waits for e should
// not wait alone: e has failed another call, or the call is a long poll, whose
// silence means nothing, and other calls have left e for another endpoint.
func (p *Peers) findDoubtful(l *api.Link, e *endpoint, poll bool) (good *endpoint, doubtful bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	good = p.linkState(l).good
	return good, good != e && (poll || p.conf.Now().Before(e.penalty))
}

// patienceFor returns how long an endpoint may take before the next one is tried, if others
// are left. An intended wait of the call is added. remaining is the caller's remaining
// budget, 0 for no limit.
func (p *Peers) patienceFor(e *endpoint, wait, remaining time.Duration, left int) time.Duration {
	p.mu.Lock()
	usual := e.usual
	p.mu.Unlock()
	d := min(max(patienceOver*usual, patienceMin), patienceMax)
	if remaining > 0 {
		d = min(d, max((remaining-wait)/time.Duration(left+1), patienceFloor))
	}
	return wait + d
}
