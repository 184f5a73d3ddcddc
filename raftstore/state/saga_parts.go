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
	if s.limits.shareCommitted == 0 {
		c.Answers = withoutShares(c.Answers)
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
	s.addFact(partsAnswered{owner: h.owner(), hold: &h, held: held, refused: refused, answers: c.Answers})
	if h.Decision == api.DecisionPending {
		s.advanceHold(&h)
	} else {
		s.putHold(&h)
	}
	stored, _ := s.holds.Get(h.Key())
	return Result{Hold: stored}
}

// withoutShares returns the answers of children as entries of before there were shares have them.
func withoutShares(answers []command.PartAnswer) []command.PartAnswer {
	out := slices.Clone(answers)
	for i := range out {
		if out[i].Why == api.CodeOverQuota {
			out[i].Why = api.CodeNoCapacity
		}
	}
	return out
}

// answerPart splits the instances requested from a child into held and refused.
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
			s.touchTopic(HoldTopic(h.Key()))
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

// takeParts records what to request from children. It refuses at once what a rule keeps out
// of a child, and everything behind a paused link, and skips a part that is left empty.
func (s *sagaBook) takeParts(h *Hold, c command.Hold) {
	for _, p := range c.Parts {
		out, refused := Part{Link: p.Link}, len(h.Refused)
		paused := s.isPaused(p.Link)
		for _, i := range partOf(p).Instances {
			if paused || !s.rulesAllow(h, i.Group, linkPlace(p.Link)) {
				h.Refused = append(h.Refused, i.Spec.ID)
				continue
			}
			out.Instances = append(out.Instances, i)
			s.countPart(h, p.Link, i, +1)
		}
		switch {
		case paused:
			h.noteCause(api.CodePaused)
		case len(h.Refused) > refused:
			h.noteCause(api.CodeNoCapacity)
		}
		if len(out.Instances) > 0 || len(h.Refused) == refused {
			h.Parts = append(h.Parts, out)
		}
	}
}

func (s *sagaBook) partAck(c command.PartAck) Result {
	old, ok := s.holds.Get(joinKey(c.Origin, c.ID))
	if !ok || old.Decision != c.Decision || c.Decision == api.DecisionPending || c.Lifted < len(old.Lifted) {
		return Result{} // decided again meanwhile, or forgotten; or a rule was lifted
	}
	h := *old
	h.Parts = slices.Clone(h.Parts)
	for i := range h.Parts {
		p := &h.Parts[i]
		if p.Link != c.Link || p.Acked {
			continue
		}
		p.Acked = true
		switch {
		case c.Lost:
			s.losePart(&h, p)
		case c.Decision == api.DecisionCommit:
			p.Committed = true
			s.endPart(&h, p)
		case !p.Committed: // else it ends what it made, and reports it
			s.endPart(&h, p)
		}
	}
	s.putHold(&h)
	s.noteUntold(&h, -1)
	return Result{Hold: &h}
}

// losePart marks the instances that a child gave up although it held them: its operator had
// released the hold by force. Instances that should end are gone, and so are those that it has forgotten
// because it went back to a backup since they were held.
func (s *sagaBook) losePart(h *Hold, p *Part) {
	l, ok := s.links.Get(string(p.Link))
	forgotten := ok && l.Forgot > 0 && h.Created <= l.Forgot
	for _, pi := range p.Instances {
		switch i := s.madeBy(h, pi.Spec.ID); {
		case i == nil || !i.Live():
		case i.Status == api.StatusDeleting:
			s.setStatus(i, api.StatusDeleted, "")
		case forgotten:
			s.giveUpInstance(i.ID, forgottenBelow)
		default:
			s.setStatus(i, api.StatusError, "the zone's operator released it before it was decided")
		}
	}
}

// endPart queues one stop message to the child for each instance that must end. These
// were given up before the child confirmed the commit: either it has them and was not
// asked to end them, or it never made them and will not report on them.
func (s *sagaBook) endPart(h *Hold, p *Part) {
	for _, pi := range p.Instances {
		if i := s.madeBy(h, pi.Spec.ID); i != nil && i.Status == api.StatusDeleting {
			s.mustEnd(i)
		}
	}
}
