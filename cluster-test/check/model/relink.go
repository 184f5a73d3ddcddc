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
	if l.Role == api.LinkChild {
		begin, _ := c.Incarnation.Begin()
		l.Restored = max(l.Restored, begin)
		m.compare(c.ID)
	}
	return nil
}

// linkRestored notes that a child went back to a backup, or that one which it had named never was.
func (m *Model) linkRestored(c command.LinkRestored) *Refusal {
	l := m.Links[c.ID]
	switch {
	case l == nil || l.Role != api.LinkChild:
		return &Refusal{promise.Model, string(c.ID) + " is no child"}
	case c.Was == 0 && c.Restored <= l.Restored:
		return &Refusal{promise.Model, "that restore was noted already"}
	case c.Was > 0 && (l.Restored != c.Was || c.Was <= c.Restored):
		return &Refusal{promise.Model, "that restore is not the one that never was"}
	}
	l.Restored = c.Restored
	m.compare(c.ID)
	return nil
}

// compare makes due again what a child has confirmed of what lives there.
func (m *Model) compare(child api.LinkID) {
	l := m.Links[child]
	l.Reconcile, l.Forgot, l.Next = max(m.Now, 1), max(m.Now, 1), 0
	for _, h := range m.Holds {
		for _, p := range h.Parts {
			if h.Decision == api.DecisionCommit && p.Link == child && p.Acked && slices.ContainsFunc(p.IDs, func(id api.InstanceID) bool {
				i := m.MadeBy(h, id)
				return i != nil && i.Live()
			}) {
				p.Acked = false
			}
		}
	}
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
