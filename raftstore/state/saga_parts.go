package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

func partOf(p command.Part) Part {
	out := Part{Link: p.Link}
	for g, specs := range p.Instances {
		for _, sp := range specs {
			out.Instances = append(out.Instances, PartInstance{Spec: sp, Group: g})
		}
	}
	return out
}

func (s *sagaBook) holdParts(c command.HoldParts) Result {
	old, ok := s.holds.Get(joinKey(c.Origin, c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "no such hold")
	}
	h := *old
	h.Parts, h.Refused = slices.Clone(h.Parts), slices.Clone(h.Refused)
	held, refused, news := 0, 0, false
	for _, a := range c.Answers {
		for i := range h.Parts {
			if p := &h.Parts[i]; p.Link == a.Link && !p.Answered {
				n := len(h.Refused)
				s.answerPart(&h, p, a)
				refused += len(h.Refused) - n
				held += len(p.Instances)
				news = true
			}
		}
	}
	if !news {
		return Result{Hold: old} // a repeat
	}
	s.addFact(partsAnswered{owner: h.Owner(), hold: &h, held: held, refused: refused, answers: c.Answers})
	if h.Decision == api.DecisionPending {
		s.advanceHold(&h)
	} else {
		s.putHold(&h)
	}
	stored, _ := s.holds.Get(h.Key())
	return Result{Hold: stored}
}

// answerPart splits what a child was asked for into held and refused.
func (s *sagaBook) answerPart(h *Hold, p *Part, a command.PartAnswer) {
	var keep []PartInstance
	held := make(map[api.InstanceID]bool, len(a.Held))
	for _, id := range a.Held {
		held[id] = true
	}
	for _, i := range p.Instances {
		if held[i.Spec.ID] {
			keep = append(keep, i)
			continue
		}
		h.Refused = append(h.Refused, i.Spec.ID)
		if hk, _ := s.held.Get(string(i.Spec.ID)); hk == h.Key() {
			s.held.Delete(string(i.Spec.ID))
			s.countPart(h, p.Link, i, -1)
		}
	}
	if len(keep) < len(p.Instances) {
		h.noteCause(a.Why)
	}
	p.Instances, p.Answered = keep, true
	if h.Decision == api.DecisionPending {
		p.Acked, p.Committed = a.Committed, a.Committed
	}
}
