package client

import (
	"time"

	"berth/api"
)

// HedgeAfter is how long one endpoint of a child may take to answer a select before a second
// one is tried as well. The first answer counts and ends the other call.
const HedgeAfter = 150 * time.Millisecond

// The budget of hedging for a child: a tenth of its selects, and a burst of hedgeBurst
// after quiet times. So hedging hardly adds load to a child that is slow because it is busy.
const (
	hedgeCost  = 10 // selects that earn one hedge
	hedgeBurst = 10 // hedges that may be saved up
)

// hedges is the budget of one link, a token bucket filled by selects.
type hedges struct{ credit int }

// earnHedge counts a select.
func (h *hedges) earnHedge() { h.credit = min(h.credit+1, hedgeCost*hedgeBurst) }

// spendHedge takes the price of one hedge, if the budget has it.
func (h *hedges) spendHedge() bool {
	if h.credit < hedgeCost {
		return false
	}
	h.credit -= hedgeCost
	return true
}

// earnHedge counts a select over a link.
func (p *Peers) earnHedge(l *api.Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.linkState(l).hedges.earnHedge()
}

// mayHedge reports whether the link has a hedge left, and takes it.
func (p *Peers) mayHedge(l *api.Link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.linkState(l).hedges.spendHedge()
}
