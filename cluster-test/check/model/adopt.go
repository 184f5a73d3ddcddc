package model

import (
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// adopted are the commands whose refusal depends on tokens, names, limits or parts of
// backups that the model does not have.
var adopted = []command.Kind{
	command.KindTokenPut, command.KindTokenDelete, command.KindJoinPut, command.KindJoinUse, command.KindFlavorPut,
	command.KindFlavorDelete, command.KindLinkPut, command.KindLinkSet, command.KindLinkDelete,
	command.KindAgentRevoke, command.KindAgentRenew, command.KindKEKUse, command.KindTokensUsed, command.KindRoleSet, command.KindRoleDelete, command.KindRestore,
	command.KindQuotaSet, command.KindQuotaDelete,
	command.KindCAAdd, command.KindCAUse, command.KindCADrop, command.KindLinkPin, command.KindAgentTrust, command.KindFormRaise,
}

// Judged reports whether the model decides by itself if c is refused.
func Judged(c command.Command) bool { return !slices.Contains(adopted, c.Kind()) }

// Adopt applies an accepted command that the model does not judge.
func (m *Model) Adopt(c command.Command) {
	if put, ok := c.(command.LinkPut); ok {
		m.Links[put.Link.ID] = &Link{Role: put.Link.Role, Next: put.Link.ChangesNext, Paused: put.Link.State == api.LinkPaused, Held: put.Link.Share.Held, Committed: put.Link.Share.Committed}
	}
	if set, ok := c.(command.LinkSet); ok && m.Links[set.ID] != nil {
		m.linkSet(set)
	}
	if del, ok := c.(command.LinkDelete); ok {
		m.unbindFrom(del.ID)
		delete(m.Links, del.ID)
	}
	m.adoptAgents(c)
	if set, ok := c.(command.QuotaSet); ok {
		m.setLimits(set)
	}
	if del, ok := c.(command.QuotaDelete); ok {
		delete(m.Limits, del.Project)
	}
}

func (m *Model) linkSet(c command.LinkSet) {
	l := m.Links[c.ID]
	l.shares(c.ShareHeld, c.ShareCommitted)
	if c.State != nil {
		l.Paused = *c.State == api.LinkPaused
	}
	if c.Silent == nil || *c.Silent == l.Silent {
		return
	}
	l.Silent = min(*c.Silent, m.Now)
	for id, i := range m.Instances {
		if i.Link == c.ID && i.Live() {
			m.Hit[id] = true
		}
	}
}

// LeaveGone leaves out of what this command has changed what it has then pruned.
func (m *Model) LeaveGone() {
	maps.DeleteFunc(m.Moved, func(id HoldID, _ bool) bool { return m.Holds[id] == nil })
	maps.DeleteFunc(m.Told, func(id BootID, _ bool) bool { return m.Boots[id] == nil })
	maps.DeleteFunc(m.Hit, func(id api.InstanceID, _ bool) bool { return m.Instances[id] == nil })
}

// adoptAgents notes on which terms agents join, and takes the hosts of revoked ones down.
func (m *Model) adoptAgents(c command.Command) {
	if put, ok := c.(command.JoinPut); ok && put.Token.Kind == api.JoinAgent {
		if _, repeat := m.Joins[put.Token.ID]; !repeat {
			m.Joins[put.Token.ID] = put.Token
		}
	}
	if use, ok := c.(command.JoinUse); ok && m.form >= api.FormFifth {
		if t, ok := m.Joins[use.ID]; ok && !t.Used {
			t.Used = true
			m.Joins[use.ID] = t
			a := &Agent{}
			if t.Terms != nil {
				a.Terms = *t.Terms
			}
			m.Agents[api.AgentID(t.Name)] = a
		}
	}
	if end, ok := c.(command.AgentRevoke); ok && !m.agent(end.ID).Revoked {
		m.revokeAgent(end.ID)
		m.settle() // what waits on its hosts is looked at again
	}
}

func (m *Model) revokeAgent(id api.AgentID) {
	m.Agents[id] = &Agent{Revoked: true, Terms: m.agent(id).Terms}
	for _, h := range m.Hosts {
		if !h.Passive && h.Agent == id {
			m.noteHostReach(h, false)
			h.Enabled, h.Unserved = false, true
			m.bumpGeneration(h)
		}
	}
}

func (m *Model) agent(id api.AgentID) *Agent {
	if a := m.Agents[id]; a != nil {
		return a
	}
	return &Agent{}
}
