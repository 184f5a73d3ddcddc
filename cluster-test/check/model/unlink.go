package model

import (
	"cmp"
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// linkWriteOff gives up what depends on a zone that is gone for good.
func (m *Model) linkWriteOff(c command.LinkWriteOff) *Refusal {
	l := m.Links[c.ID]
	switch {
	case l == nil:
		return &Refusal{promise.Model, string(c.ID) + " is not linked"}
	case !l.Paused:
		return &Refusal{promise.Model, string(c.ID) + " is not paused"}
	case l.Role == api.LinkChild:
		if not := m.writeOffChild(c.ID); not != nil {
			return not
		}
	case !c.EndWork && m.hasWorkOf(c.ID):
		return &Refusal{promise.Durable, "work of " + string(c.ID) + " lives here, and nobody said that it ends"}
	default:
		m.writeOffParent(c.ID)
		if m.hasWorkOf(c.ID) {
			return nil
		}
	}
	m.unbindFrom(c.ID)
	delete(m.Links, c.ID)
	return nil
}

// writeOffChild takes what a child has as gone, and what it was told as confirmed. What is not decided
// may still get there.
func (m *Model) writeOffChild(link api.LinkID) *Refusal {
	for _, h := range m.Holds {
		if h.Decision == api.DecisionPending && slices.ContainsFunc(h.Parts, func(p *Part) bool { return p.Link == link }) {
			return &Refusal{promise.Saga, "it takes part in the undecided hold " + string(h.ID.ID)}
		}
	}
	for _, h := range m.Holds {
		for _, p := range h.Parts {
			if p.Link == link && !p.Acked {
				p.Acked, m.Moved[h.ID] = true, true
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.Instances)) {
		if i := m.Instances[id]; i.Link == link && i.Live() {
			m.giveUp(id)
		}
	}
	return nil
}

// writeOffParent aborts what a parent has not decided, and asks for the end of all that it has here.
func (m *Model) writeOffParent(link api.LinkID) {
	var undecided []HoldID
	for id, h := range m.Holds {
		if id.Origin == link && h.Decision == api.DecisionPending {
			undecided = append(undecided, id)
		}
	}
	slices.SortFunc(undecided, func(a, b HoldID) int { return cmp.Compare(a.ID, b.ID) })
	for _, id := range undecided {
		m.carryOut(m.Holds[id], api.DecisionAbort)
	}
	for _, id := range slices.Sorted(maps.Keys(m.Instances)) {
		if i := m.Instances[id]; i.Hold.ID.Origin == link && i.Live() {
			m.setStatus(id, api.StatusDeleting)
		}
	}
}

// hasWorkOf reports whether anything of a parent lives here.
func (m *Model) hasWorkOf(link api.LinkID) bool {
	for _, i := range m.Instances {
		if i.Hold.ID.Origin == link && i.Live() {
			return true
		}
	}
	return false
}
