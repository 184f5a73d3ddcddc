package check

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// beginFrom makes a replay continue from a snapshot: model and states start with its
// content. The history before it is not checked.
func (r *replay) beginFrom(z *ZoneLog) error {
	for _, s := range []**state.State{&r.s, &r.twin} {
		loaded, err := state.Load(bytes.NewReader(z.Base.Bytes), api.FormNewest)
		if err != nil {
			return fmt.Errorf("loading the snapshot of %s: %w", z.Base.Node, err)
		}
		*s = loaded
	}
	r.m, r.based = modelOf(r.s, z.Projects), true
	return nil
}

// keepPart stores an accepted part of a backup. With the last one the state must equal the
// backup, and the model continues from it: the history before it is not checked. What a restore does
// not take back is the audit log, which is followed record by record, the authorities, which are followed
// step by step, and that a key-encryption key is due: kek was in use before, and another one due if due
// is not 0.
func (r *replay) keepPart(index uint64, c command.Restore, kek []byte, due uint64) {
	if c.Offset == 0 {
		r.backup = nil
	}
	r.backup = append(r.backup, c.Data...)
	if !c.Last() {
		return
	}
	want, err := state.Load(bytes.NewReader(r.backup), api.FormNewest)
	if sum := sha256.Sum256(r.backup); err != nil || !bytes.Equal(sum[:], c.Sum) {
		r.addViolation(promise.Agree, index, "a backup was taken up that is not whole: %v", err)
		return
	}
	want.Apply(index, command.Restored{Stamp: command.Stamp{At: r.m.Now}})
	want.BeginNewHistory(c.Sum)
	want.ContinueAudit(r.s)
	want.ContinueCA(r.s)
	if r.s.Form() >= api.FormFifth {
		want.SettleBackup(c.Form())
	}
	if due > 0 || !bytes.Equal(kek, want.KEK) {
		want.KEKDue = index
	}
	var is, should bytes.Buffer
	if err := errors.Join(r.s.Save(&is), want.Save(&should)); err != nil {
		r.addViolation(promise.Input, index, "the state cannot be saved: %v", err)
		return
	}
	if !bytes.Equal(is.Bytes(), should.Bytes()) {
		r.addViolation(promise.Agree, index, "the state is not that of the backup that was taken up")
		return
	}
	r.m, r.based, r.backup = modelOf(r.s, slices.Collect(maps.Keys(r.owns))), true, nil
	r.recount()
}

// recount begins to count anew what has happened to leases, with what has in the life that a backup has brought back. What
// happened since the backup happens again, at its time.
func (r *replay) recount() {
	r.happened, r.lastFact = map[api.LeaseID]happened{}, 0
	for _, l := range r.s.Leases("") {
		var has happened
		if e := l.Event(api.EventStartLease); e != nil && e.Status == api.EventDone {
			has.started = 1
		}
		if e := l.Event(api.EventEndLease); e != nil && e.Status == api.EventDone {
			has.ended = 1
		}
		r.happened[l.Terms.ID] = has
	}
}

// modelOf returns the model of a state. Boots are found by their projects: those
// that are given, and those of holds and of undecided boots.
func modelOf(s *state.State, projects []api.ProjectID) *model.Model {
	m := model.New()
	m.Begun, m.Now, m.Zone, m.DefaultAZ, m.Cleaning = s.Zone != "", s.Now(), s.Name, s.Config.DefaultAZ, s.Config.Leases.Cleaning
	m.Scheduler, m.Preempt = api.Scheduler{Filters: s.Config.Filters, Costs: s.Config.Costs}, s.Config.Preemptibles
	m.Hides, m.Public = s.Config.HidesLayout, s.Config.PublicAttributes
	for _, a := range s.Aggregates() {
		m.Aggregates[a.ID] = &model.Aggregate{Name: a.Name, AZ: a.Metadata[api.MetaAZ], Metadata: a.Metadata, Hosts: a.Hosts}
	}
	for _, l := range s.Links() {
		m.Links[l.ID] = &model.Link{
			Role: l.Role, Next: l.ChangesNext, Paused: l.State == api.LinkPaused, Silent: l.SilentSince,
			Held: l.Share.Held, Committed: l.Share.Committed, Incarnation: l.Incarnation, Reconcile: l.Reconcile,
			Restored: l.Restored, Forgot: l.Forgot,
		}
	}
	for _, raw := range s.AllHosts() {
		h, _ := s.Host(raw.ID)
		m.Names[h.Name] = h.ID
		m.Hosts[h.ID] = &model.Host{
			ID: h.ID, Name: h.Name, Agent: h.Agent, Inventory: raw.Inventory, Traits: raw.Traits, Pool: h.Pool,
			OwnInventory: raw.OwnInventory, OwnFields: raw.OwnFields, OwnTraits: raw.OwnTraits, OwnAggregates: raw.OwnAggregates,
			Up: h.State == api.HostUp, DownSince: h.DownSince, Enabled: h.Enabled, Generation: h.Generation,
			Maintenance: h.Maintenance, Drain: h.Drain, Overrides: h.Overrides, Failures: h.Failures, Unserved: h.Unserved, Cleaning: h.Cleaning,
			Attributes: raw.Attributes, Commands: model.NeedsCommand(raw.Driver, raw.Needs),
		}
	}
	for _, a := range s.Agents() {
		m.Agents[a.ID] = &model.Agent{Revoked: a.IsRevoked(), Terms: a.Terms}
	}
	for _, b := range s.Bindings() {
		own := *b
		own.Zone = ""
		m.Bindings = append(m.Bindings, &own)
	}
	for _, w := range s.Webhooks() {
		m.Webhooks[model.WebhookName{Project: w.Project, Name: w.Name}] = &model.Webhook{ID: w.ID, Failing: w.Failing, Paused: w.Paused, Reason: w.Reason, Told: w.Told}
	}
	addPlacement(m, s)
	for _, b := range s.UndecidedBoots() {
		projects = append(projects, b.Request.Project)
	}
	for _, h := range s.Holds() {
		projects = append(projects, h.Request.Project)
	}
	for _, l := range s.Leases("") {
		projects = append(projects, l.Terms.Project)
	}
	projects = append(projects, s.QuotaProjects(state.Page{Limit: math.MaxInt})...)
	for _, p := range projects {
		for _, g := range s.ServerGroups(p, state.Page{Limit: api.ServerGroupsMax}) {
			m.Groups[model.GroupID{Project: p, ID: g.ID}] = model.Group{Name: g.Name, Policy: g.Policy, Max: g.Max}
		}
		addBoots(m, s, p)
	}
	for _, h := range s.Holds() {
		addHold(m, s, h)
	}
	for _, h := range s.Holds() {
		joinKept(m, h)
	}
	joinBoots(m, s)
	addLeases(m, s)
	return m
}

// joinBoots gives the boots their holds, and counts the pruned ones.
func joinBoots(m *model.Model, s *state.State) {
	for id, b := range m.Boots {
		record, _ := recordOf(s, id)
		b.Gone = record.Counts.Deleted
		known := 0
		for _, k := range record.Holds {
			if h, ok := m.Holds[model.HoldID{Origin: "", ID: k}]; ok {
				h.Boot, b.Holds = b, append(b.Holds, h)
				if h.Decision == api.DecisionCommit {
					known += len(h.IDs())
				}
			} else {
				b.Faded = true
			}
		}
		b.Faded = b.Faded || known < record.Counts.Live()+record.Counts.Deleted // a hold that is pruned is in no list
	}
	for _, i := range m.Instances {
		if b := i.Hold.Boot; b != nil && !i.Live() {
			b.Gone--
		}
	}
}

func addBoots(m *model.Model, s *state.State, p api.ProjectID) {
	const page = 1000
	for marker := ""; ; {
		boots := s.BootsPage(p, state.Page{Marker: marker, Limit: page})
		for _, b := range boots {
			marker = string(b.Request.Reservation)
			id := model.BootID{Project: p, Reservation: b.Request.Reservation}
			addBoot(m, id, b)
			addQueued(m, s, id)
			if b.Key != "" {
				m.Keys[model.BootKey{Project: p, Key: b.Key}] = id
			}
		}
		if len(boots) < page {
			return
		}
	}
}

func addBoot(m *model.Model, id model.BootID, b *state.Boot) {
	m.Boots[id] = &model.Boot{
		ID: id, Key: b.Key, Digest: b.Digest, Least: b.Min, Request: b.Request, Decision: b.Decision, Code: b.Code, Ended: b.Ended, Refills: b.Refills,
		Metadata: b.Metadata, Data: model.DataOf(&b.BootTerms), Lifted: b.Lifted,
	}
}

// recordOf returns the record of a boot, or of an order for its preempted instances.
func recordOf(s *state.State, id model.BootID) (*state.Boot, bool) {
	if id.Refill > 0 {
		return s.Refill(id.Project, id.Reservation, id.Refill)
	}
	return s.Boot(id.Project, id.Reservation)
}

// addQueued adds what is queued of a boot, and the order for it.
func addQueued(m *model.Model, s *state.State, id model.BootID) {
	r, ok := s.Requeued(id.Project, id.Reservation)
	if !ok {
		return
	}
	q := &model.Queued{Since: r.Since, Until: r.Until, Tries: r.Tries, Next: r.Next, Refill: r.Refill, Sent: r.Sent, Enough: r.Enough, Changed: r.ModIndex}
	for _, i := range r.Instances {
		q.IDs = append(q.IDs, model.QueuedID{Group: i.Group, ID: i.ID, Name: i.Name})
	}
	m.Queue[id] = q
	if id.Refill = r.Refill; r.Refill > 0 {
		if b, ok := recordOf(s, id); ok {
			addBoot(m, id, b)
		}
	}
}

// addHold adds a hold with its claims and instances. An instance is never
// forgotten after its hold, so all of them are found here.
func addHold(m *model.Model, s *state.State, from *state.Hold) {
	h := &model.Hold{
		ID: model.HoldID{Origin: from.Origin, ID: from.ID}, Plan: from.Plan, Created: from.Created, Refused: len(from.Refused), AtOnce: from.Commit, Decision: from.Decision, Made: from.Firm,
		Request: from.Request, Groups: map[api.InstanceID]int{}, Names: map[api.InstanceID]string{}, Start: from.Window.Start, End: from.Window.End, Grace: from.Grace, Choices: from.Choices, Lifted: from.Lifted,
	}
	if len(from.Request.Groups) == 0 {
		h.Dead = from.Updated
	}
	m.Holds[h.ID] = h
	numberInstances(h, from)
	if from.Plan != "" {
		m.Plans[from.Plan] = 0 // its expiry is not in the record
	}
	for n := range from.Slots {
		h.Slots = append(h.Slots, claimOf(s, from, h, n))
	}
	for _, p := range from.Parts {
		mp := &model.Part{Link: p.Link, Answered: p.Answered, Acked: p.Acked, Committed: p.Committed}
		for _, i := range p.Instances {
			mp.IDs = append(mp.IDs, i.Spec.ID)
		}
		h.Parts = append(h.Parts, mp)
	}
	for _, id := range h.IDs() {
		if i, ok := s.Instance(id); ok && i.Hold == from.ID && i.Origin == from.Origin {
			m.Instances[id] = &model.Instance{
				Hold: h, Group: h.Groups[id], Host: i.Host, Target: i.Target, Link: i.Link, Status: i.Status, Stays: i.Moves, Away: i.Unreachable,
				Other: i.Replaced, Waits: i.Waits || i.Reserved && i.Host != "" && i.Status == api.StatusBuild && i.Window.Start <= s.Now(),
				Made: i.Created, Eviction: i.Eviction, Closed: i.Reserved && i.Window.Start.Add(-i.Grace) <= s.Now(), Attached: i.Attached,
				Halted: i.Halted, Orders: i.Runs, Restarts: i.Restarts, Restarted: i.Restarted,
			}
		} else if h.Decision == api.DecisionPending {
			m.Held[id] = h
		}
	}
	for _, c := range h.Slots {
		regrant(m, s, h, c)
		m.Rebind(h, c.Consumer, "")
	}
	for _, p := range h.Parts {
		for _, id := range p.IDs {
			m.Rebind(h, id, p.Link)
		}
	}
	for _, id := range h.IDs() {
		if i, ok := s.Instance(id); ok && m.MadeBy(h, id) != nil {
			m.LetGo(h, id, i.Rules)
		}
	}
}

// claimOf returns the claim of a slot of a hold.
func claimOf(s *state.State, from *state.Hold, of *model.Hold, n int) *model.Claim {
	sl := &from.Slots[n]
	c := &model.Claim{
		Consumer: sl.Instance.ID, Host: sl.Host, Want: from.Request.Groups[sl.Group].Resources,
		Start: of.Start, End: of.EndOf(sl.Group), Class: from.Request.Class,
		Whole: from.Request.Groups[sl.Group].Whole, Within: sl.Within, Keeps: sl.Keeps, Grace: from.Grace,
		Pushes: of.Pushes(sl.Group),
	}
	if sl.Until > 0 {
		c.End = min(c.End, sl.Until)
	}
	if sl.Whole != nil {
		c.Want = sl.Whole
	}
	if from.Decision != api.DecisionPending {
		c.Keeps = ""
	}
	becomeInstance(c, s, from)
	if from.Shares != nil {
		c.Draw(from.Shares[n])
	} else {
		c.Draw(nil)
	}
	return c
}

// becomeInstance gives the claim of a slot what its instance has changed since.
func becomeInstance(c *model.Claim, s *state.State, from *state.Hold) {
	i, ok := s.Instance(c.Consumer)
	if !ok || i.Hold != from.ID || i.Origin != from.Origin {
		return
	}
	c.Start, c.End, c.Within = i.Window.Start, i.Window.End, i.Within
	if c.Whole {
		c.Want = i.Resources
	}
	if i.Overdue {
		c.Over, c.End, c.Class, c.Whole = c.End, api.Forever, api.Preemptible, false
	}
}

// joinKept joins the slots of an undecided hold to those that they take over.
func joinKept(m *model.Model, from *state.Hold) {
	for _, sl := range from.Slots {
		c, old := m.Claims[sl.Instance.ID], m.Claims[sl.Keeps]
		if sl.Keeps == "" || from.Decision != api.DecisionPending || old == nil {
			continue
		}
		m.Kept[sl.Keeps] = c
		for _, p := range c.Pieces() {
			p.Keeps, p.Instead = sl.Keeps, old.PieceOn(p.Host)
		}
		for _, inner := range m.Inside(sl.Keeps) {
			if m.Instances[inner.Consumer] != nil && inner.End == c.End && inner.Over == 0 && c.End < old.End {
				c.Shortened = append(c.Shortened, inner)
			}
		}
	}
}

// addLeases adds the leases in s, and the limits of projects.
func addLeases(m *model.Model, s *state.State) {
	for _, p := range append(s.QuotaProjects(state.Page{Limit: api.PageMax}), "") {
		if limits := s.Quota(p); len(limits) > 0 {
			m.Limits[p] = limitsOf(limits)
		}
	}
	m.Asks = s.Config.Leases.Check.URL != ""
	for _, e := range s.LeaseEnds(api.LeaseEndName{}, api.LeaseEndsMax) {
		m.Ends[e.Name()] = e.Outcome
	}
	for _, all := range s.AllSeries("") {
		m.Series[all.ID] = &model.Series{ID: all.ID, Project: all.Project, Key: all.Key, Digest: all.Digest, Status: all.Status}
	}
	for _, l := range s.Leases("") {
		to := &model.Lease{
			Terms: l.Terms, Status: l.Status, Events: slices.Clone(l.Events), Key: l.Key, Digest: l.Digest, Order: l.Order,
			Replaced: slices.Clone(l.Replaced), Updated: l.Updated, Mod: l.ModIndex, Held: l.Held,
		}
		if l.Next != nil {
			to.Next = &model.LeaseUpdate{Terms: l.Next.Terms, Events: slices.Clone(l.Next.Events), Order: l.Next.Order, Was: l.Next.Status}
		}
		m.Leases[l.Terms.ID] = to
	}
}

func limitsOf(from quota.Limits) model.Limits {
	out := model.Limits{}
	for i, n := range from {
		out[model.Item(i)] = n
	}
	return out
}

// numberInstances records the group and the name of each instance of a hold.
func numberInstances(h *model.Hold, from *state.Hold) {
	for _, sl := range from.Slots {
		h.Groups[sl.Instance.ID], h.Names[sl.Instance.ID] = sl.Group, sl.Instance.Name
	}
	for _, p := range from.Parts {
		for _, i := range p.Instances {
			h.Groups[i.Spec.ID], h.Names[i.Spec.ID] = i.Group, i.Spec.Name
		}
	}
}

// regrant puts the claim of a slot on its present host, and on the one that it moves to.
func regrant(m *model.Model, s *state.State, h *model.Hold, c *model.Claim) {
	i := m.MadeBy(h, c.Consumer)
	on := func(id api.HostID, kept *model.Claim, draw func(*model.Claim)) *model.Claim {
		now := *c
		now.Host = id
		draw(&now)
		now.Keep(kept)
		for _, p := range now.Pieces() {
			if !slices.Contains(kept.Rest, p) {
				m.Hosts[p.Host].Claims = append(m.Hosts[p.Host].Claims, p)
			}
		}
		return &now
	}
	switch {
	case h.Decision == api.DecisionPending:
		m.Claims[c.Consumer] = on(c.Host, &model.Claim{}, func(*model.Claim) {})
	case i != nil && i.Live():
		record, _ := s.Instance(c.Consumer)
		m.Claims[c.Consumer] = on(i.Host, &model.Claim{}, func(at *model.Claim) { at.Draw(record.Shares) })
		if i.Target != "" {
			m.Coming[c.Consumer] = on(i.Target, m.Claims[c.Consumer], func(at *model.Claim) { at.Draw(record.TargetShares) })
		}
	}
}

// addPlacement adds the records of the placement API in s.
func addPlacement(m *model.Model, s *state.State) {
	for _, p := range s.Providers() {
		if p.CanHost {
			continue
		}
		m.Names[p.Name] = p.ID
		m.Hosts[p.ID] = &model.Host{
			ID: p.ID, Name: p.Name, Passive: true, Parent: p.Parent, Generation: p.Generation,
			OwnInventory: p.Inventory, OwnTraits: p.Traits, OwnAggregates: p.Aggregates,
		}
	}
	for _, c := range s.Consumers() {
		to := &model.Consumer{Project: c.Project, User: c.User, Kind: c.Type, Generation: c.Generation}
		for _, sh := range c.Shares {
			cl := &model.Claim{Consumer: c.ID, Host: sh.Provider, Amounts: sh.Resources, Start: c.Created, End: api.Forever, Class: api.Firm}
			to.Claims = append(to.Claims, cl)
			m.Hosts[cl.Host].Claims = append(m.Hosts[cl.Host].Claims, cl)
		}
		m.Consumers[c.ID] = to
	}
	for _, n := range s.ResourceClasses() {
		m.Classes[n.Name] = !slices.Contains(api.StandardClasses(), api.ResourceClass(n.Name))
	}
	for _, n := range s.Traits() {
		m.Traits[n.Name] = !slices.Contains(api.StandardTraits(), n.Name)
	}
	for _, p := range s.HostProperties() {
		m.Private[p.Name] = p.Private
	}
	maps.DeleteFunc(m.Classes, func(_ string, custom bool) bool { return !custom })
	maps.DeleteFunc(m.Traits, func(_ string, custom bool) bool { return !custom })
}
