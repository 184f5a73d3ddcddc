package model

import (
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// linkRelink accepts a zone that was brought back from a backup. A child is told again what lives there.
func (m *Model) linkRelink(c command.LinkRelink) *Refusal {
	l := m.Links[c.ID]
	switch {
	case l == nil:
		return &Refusal{promise.Model, string(c.ID) + " is not linked"}
	case c.Incarnation <= l.Incarnation:
		return &Refusal{promise.Model, "that incarnation was accepted already"}
	}
	l.Incarnation = c.Incarnation
	if l.Role != api.LinkChild {
		return nil
	}
	l.Reconcile, l.Next = max(m.Now, 1), 0
	for _, h := range m.Holds {
		for _, p := range h.Parts {
			if h.Decision == api.DecisionCommit && p.Link == c.ID && p.Acked && slices.ContainsFunc(p.IDs, func(id api.InstanceID) bool {
				i := m.MadeBy(h, id)
				return i != nil && i.Live()
			}) {
				p.Acked = false
			}
		}
	}
	return nil
}

// linkReconciled takes as gone what a child has forgotten.
func (m *Model) linkReconciled(c command.LinkReconciled) *Refusal {
	l := m.Links[c.ID]
	if l == nil || l.Reconcile == 0 || l.Reconcile != c.Since {
		return &Refusal{promise.Model, string(c.ID) + " is not being compared"}
	}
	for _, id := range c.Gone {
		if i := m.Instances[id]; i != nil && i.Link == c.ID && i.Live() {
			m.stayEnded(id)
			m.setStatus(id, api.StatusDeleted)
		}
	}
	if c.Done {
		l.Reconcile = 0
	}
	return nil
}
