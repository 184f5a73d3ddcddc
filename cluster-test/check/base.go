package check

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// from makes a replay go on from a snapshot: model and states begin with what is
// in it. What led to it is taken on trust.
func (r *replay) from(z *ZoneLog) error {
	for _, s := range []**state.State{&r.s, &r.twin} {
		loaded, err := state.Load(bytes.NewReader(z.Base.Bytes))
		if err != nil {
			return fmt.Errorf("loading the snapshot of %s: %w", z.Base.Node, err)
		}
		*s = loaded
	}
	r.m, r.based = modelOf(r.s, z.Projects), true
	return nil
}

// restore keeps a part of a backup that was accepted. With the last one the state
// must be what the backup holds, and the model goes on from it: what led to it is
// taken on trust.
func (r *replay) restore(index uint64, c command.Restore) {
	if c.Offset == 0 {
		r.backup = nil
	}
	r.backup = append(r.backup, c.Data...)
	if !c.Last() {
		return
	}
	want, err := state.Load(bytes.NewReader(r.backup))
	if sum := sha256.Sum256(r.backup); err != nil || !bytes.Equal(sum[:], c.Sum) {
		r.add(RuleAgree, index, "a backup was taken up that is not whole: %v", err)
		return
	}
	want.Apply(index, command.Restored{Stamp: command.Stamp{At: r.m.now}})
	var is, should bytes.Buffer
	if err := errors.Join(r.s.Save(&is), want.Save(&should)); err != nil {
		r.add(RuleInput, index, "the state cannot be saved: %v", err)
		return
	}
	if !bytes.Equal(is.Bytes(), should.Bytes()) {
		r.add(RuleAgree, index, "the state is not that of the backup that was taken up")
		return
	}
	r.m, r.based, r.backup = modelOf(r.s, slices.Collect(maps.Keys(r.owns))), true, nil
}

// modelOf returns the model of a state. Boots are found by their projects: those
// that are given, and those of holds and of undecided boots.
func modelOf(s *state.State, projects []api.ProjectID) *model {
	m := newModel()
	m.begun, m.now, m.zone, m.defaultAZ = s.Zone != "", s.Now(), s.Name, s.Config.DefaultAZ
	m.scheduler = api.Scheduler{Filters: s.Config.Filters, Costs: s.Config.Costs}
	for _, a := range s.Aggregates() {
		m.aggregates[a.ID] = &aggregate{a.Name, a.Metadata[api.MetaAZ], a.Metadata, a.Hosts}
	}
	for _, l := range s.Links() {
		m.links[l.ID] = &link{role: l.Role, next: l.ChangesNext, paused: l.State == api.LinkPaused, silent: l.SilentSince}
	}
	for _, raw := range s.AllHosts() {
		h, _ := s.Host(raw.ID)
		m.names[h.Name] = h.ID
		m.hosts[h.ID] = &host{
			id: h.ID, name: h.Name, agent: h.Agent, inventory: raw.Inventory, traits: raw.Traits, pool: h.Pool,
			ownInventory: raw.OwnInventory, ownTraits: raw.OwnTraits, ownAggregates: raw.OwnAggregates,
			up: h.State == api.HostUp, downSince: h.DownSince, enabled: h.Enabled, generation: h.Generation,
			maintenance: h.Maintenance, drain: h.Drain, overrides: h.Overrides, failures: h.Failures, unserved: h.Unserved,
		}
	}
	m.addPlacement(s)
	for _, b := range s.UndecidedBoots() {
		projects = append(projects, b.Request.Project)
	}
	for _, h := range s.Holds() {
		projects = append(projects, h.Request.Project)
	}
	for _, p := range projects {
		for _, g := range s.ServerGroups(p, state.Page{Limit: api.ServerGroupsMax}) {
			m.groups[groupID{p, g.ID}] = group{g.Name, g.Policy, g.Max}
		}
		m.addBoots(s, p)
	}
	for _, h := range s.Holds() {
		m.addHold(s, h)
	}
	for id, b := range m.boots {
		record, _ := s.Boot(id.project, id.reservation)
		for _, k := range record.Holds {
			if h, ok := m.holds[holdID{"", k}]; ok {
				h.boot, b.holds = b, append(b.holds, h)
			} else {
				b.faded = true
			}
		}
	}
	return m
}

func (m *model) addBoots(s *state.State, p api.ProjectID) {
	const page = 1000
	for marker := ""; ; {
		boots := s.BootsPage(p, state.Page{Marker: marker, Limit: page})
		for _, b := range boots {
			marker = string(b.Request.Reservation)
			id := bootID{p, b.Request.Reservation}
			m.boots[id] = &boot{id: id, key: b.Key, digest: b.Digest, least: b.Min, request: b.Request, decision: b.Decision, code: b.Code, ended: b.Ended}
			if b.Key != "" {
				m.keys[bootKey{p, b.Key}] = id
			}
		}
		if len(boots) < page {
			return
		}
	}
}

// addHold adds a hold with its claims and instances. An instance is never
// forgotten after its hold, so all of them are found here.
func (m *model) addHold(s *state.State, from *state.Hold) {
	h := &hold{
		id: holdID{from.Origin, from.ID}, plan: from.Plan, refused: len(from.Refused), atOnce: from.Commit, decision: from.Decision,
		request: from.Request, groups: map[api.InstanceID]int{},
	}
	if len(from.Request.Groups) == 0 {
		h.dead = from.Updated
	}
	m.holds[h.id] = h
	h.number(from)
	if from.Plan != "" {
		m.plans[from.Plan] = 0 // its expiry is not in the record
	}
	for n, sl := range from.Slots {
		c := &claim{
			consumer: sl.Instance.ID, host: sl.Host, want: from.Request.Groups[sl.Group].Resources,
			start: from.Window.Start, end: from.Window.End, class: from.Request.Class,
		}
		if from.Shares != nil {
			c.draw(from.Shares[n])
		} else {
			c.draw(nil)
		}
		h.slots = append(h.slots, c)
	}
	for _, p := range from.Parts {
		mp := &part{link: p.Link, answered: p.Answered, acked: p.Acked, committed: p.Committed}
		for _, i := range p.Instances {
			mp.ids = append(mp.ids, i.Spec.ID)
		}
		h.parts = append(h.parts, mp)
	}
	for _, id := range h.ids() {
		if i, ok := s.Instance(id); ok && i.Hold == from.ID && i.Origin == from.Origin {
			m.instances[id] = &instance{hold: h, group: h.groups[id], host: i.Host, target: i.Target, link: i.Link, status: i.Status, stays: i.Moves, away: i.Unreachable}
		} else if h.decision == api.DecisionPending {
			m.held[id] = h
		}
	}
	for _, c := range h.slots {
		m.regrant(s, h, c)
		m.rebind(h, c.consumer, "")
	}
	for _, p := range h.parts {
		for _, id := range p.ids {
			m.rebind(h, id, p.link)
		}
	}
}

// number notes the group of each instance of a hold.
func (h *hold) number(from *state.Hold) {
	for _, sl := range from.Slots {
		h.groups[sl.Instance.ID] = sl.Group
	}
	for _, p := range from.Parts {
		for _, i := range p.Instances {
			h.groups[i.Spec.ID] = i.Group
		}
	}
}

// rebind binds what is held or live to its rules.
func (m *model) rebind(h *hold, id api.InstanceID, link api.LinkID) {
	if i := m.madeBy(h, id); m.held[id] == h || i != nil && i.live() {
		m.bind(h, h.groups[id], id, link)
	}
}

// draw divides what c wants as shares say.
func (c *claim) draw(shares []api.Share) {
	c.amounts, c.rest = maps.Clone(c.want), nil
	for _, sh := range shares {
		piece := *c
		piece.host, piece.amounts, piece.want, piece.rest = sh.Provider, sh.Resources, nil, nil
		c.rest = append(c.rest, &piece)
		for class := range sh.Resources {
			delete(c.amounts, class)
		}
	}
}

// regrant puts the claim of a slot on the host that it is on now, and on the one
// that it moves to.
func (m *model) regrant(s *state.State, h *hold, c *claim) {
	i := m.madeBy(h, c.consumer)
	on := func(id api.HostID, kept *claim, draw func(*claim)) *claim {
		now := *c
		now.host = id
		draw(&now)
		now.keep(kept)
		for _, p := range now.pieces() {
			if !slices.Contains(kept.rest, p) {
				m.hosts[p.host].claims = append(m.hosts[p.host].claims, p)
			}
		}
		return &now
	}
	switch {
	case h.decision == api.DecisionPending:
		m.claims[c.consumer] = on(c.host, &claim{}, func(*claim) {})
	case i != nil && i.live():
		record, _ := s.Instance(c.consumer)
		m.claims[c.consumer] = on(i.host, &claim{}, func(at *claim) { at.draw(record.Shares) })
		if i.target != "" {
			m.coming[c.consumer] = on(i.target, m.claims[c.consumer], func(at *claim) { at.draw(record.TargetShares) })
		}
	}
}
