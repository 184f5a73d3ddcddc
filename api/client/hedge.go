package client

import (
	"context"
	"time"

	"berth/api"
)

// HedgeAfter is how long one endpoint of a child may take over a select before a
// second one is asked as well. The first answer counts and ends the other call.
const HedgeAfter = 150 * time.Millisecond

// What hedging may cost a child: a tenth of its selects, and a burst of hedgeBurst
// after quiet times. So a child that is slow because it is busy gets hardly busier.
const (
	hedgeCost  = 10 // selects that earn one hedge
	hedgeBurst = 10 // hedges that may be saved up
)

// hedges is the budget of one link, a token bucket that selects fill.
type hedges struct{ credit int }

// earn counts a select.
func (h *hedges) earn() { h.credit = min(h.credit+1, hedgeCost*hedgeBurst) }

// spend takes the price of one hedge, if there is enough.
func (h *hedges) spend() bool {
	if h.credit < hedgeCost {
		return false
	}
	h.credit -= hedgeCost
	return true
}

// mayHedge reports whether the link has a hedge left, and takes it.
func (p *Peers) mayHedge(l *api.Link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link(l).hedges.spend()
}

// reply is what one endpoint answered.
type reply[A any] struct {
	endpoint string
	answer   *A
	err      error
}

// hedged makes one call that changes nothing: at the first endpoint, at the next
// one as soon as nobody is left who might answer, and once at most at the next one
// though another is still at work. A refusal ends it; that an endpoint cannot be
// reached, is late or has no leader is none.
func hedged[A any](ctx context.Context, p *Peers, l *api.Link, method, path string, body []byte) (*A, error) {
	p.mu.Lock()
	p.link(l).hedges.earn()
	p.mu.Unlock()
	left := p.endpoints(l)
	if len(left) == 0 {
		return nil, noAddress(l)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the loser
	replies := make(chan reply[A], len(left))
	working := 0
	next := func() {
		e := left[0]
		left = left[1:]
		working++
		p.losers.Go(func() {
			a := new(A)
			err := p.once(ctx, l, e, method, path, body, a)
			replies <- reply[A]{e, a, err}
		})
	}
	next()
	slow := time.NewTimer(HedgeAfter)
	defer slow.Stop()
	for {
		select {
		case <-slow.C:
			if len(left) > 0 && p.mayHedge(l) {
				next()
			}
		case r := <-replies:
			working--
			switch code := api.CodeOf(r.err); {
			case r.err == nil:
				p.remember(l, r.endpoint)
				return r.answer, nil
			case code != api.CodeUnavailable && code != api.CodeTimeout:
				return nil, r.err
			case working > 0: // the other one may answer
			case len(left) == 0 || ctx.Err() != nil:
				return nil, r.err
			default:
				next()
			}
		}
	}
}
