package saga

import (
	"sync"

	"berth/zone/estimate"
)

// plans holds, by the call that brought it, a plan that came with its request. It is
// memory only: a boot whose plan is lost with its leader is aborted.
type plans struct {
	mu sync.Mutex // guards of
	of map[string]*estimate.Plan
}

func (p *plans) putPlan(call string, pl *estimate.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[call] = pl
}

func (p *plans) takePlan(call string) (*estimate.Plan, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl, ok := p.of[call]
	delete(p.of, call)
	return pl, ok
}
