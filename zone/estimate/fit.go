package estimate

import (
	"context"

	"berth/api"
	"berth/buildplan"
	"berth/buildplan/seal"
	"berth/costs"
	"berth/raftstore/state"
)

// isSound reports whether a child's answer matches the question and is small enough for
// a plan.
func isSound(a *api.SelectAnswer, req *api.Request, levels int) bool {
	if len(a.Weights) != len(req.Groups) || len(a.Blob) == 0 || a.Expires < 0 {
		return false
	}
	slots := 0
	for g, ws := range a.Weights {
		if len(ws) > req.Groups[g].Count {
			return false
		}
		slots += len(ws)
	}
	return len(a.Blob) <= buildplan.BlobBound(slots, len(req.Groups), levels)
}

// limitWeights limits the weights of a child to the range of costs, so that the offset
// of its link can always outweigh them. Their order stays.
func limitWeights(weights [][]int64) {
	for _, ws := range weights {
		for i := range ws {
			ws[i] = min(max(ws[i], -costs.TotalMax), costs.TotalMax)
		}
	}
}

// fitPlan removes children from a plan that is too large to be sealed, the one with the
// largest plan first: that costs its slots, not everybody's.
func (e *Estimator) fitPlan(ctx context.Context, v *state.State, req *api.Request, p *Plan) *Plan {
	for p.Layer.Trim().SizeMax() > seal.PlaintextMaxBytes {
		answers, worst := p.answers, -1
		for i := range answers {
			if answers[i].answer != nil && (worst < 0 || len(answers[i].answer.Blob) > len(answers[worst].answer.Blob)) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		a := &answers[worst]
		e.zone.Log().WarnContext(ctx, "child removed from a plan that is too large", "link", a.link.Name, "bytes", len(a.answer.Blob))
		a.answer, a.outcome, a.reason = nil, api.OutcomeFailed, "its plan is too large"
		first, b := p.first, p.binder
		p = mergeOffers(v, &Want{Request: req, bounds: p.bounds}, p.own, answers)
		p.first, p.binder = first, b
		p.adviseCounts(req)
	}
	return p
}
