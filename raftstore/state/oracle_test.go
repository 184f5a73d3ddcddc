package state

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// model is a zone as plain lists: who wants which room where, until when. It is
// told what was accepted and says what must be seen.
type model struct {
	rt        *rapid.T
	now       api.Instant
	hosts     map[api.HostID]*modelHost
	boots     map[api.ReservationID]*modelBoot
	holds     map[string]*modelHold
	instances map[api.InstanceID]*modelInstance // DELETED ones until they are pruned
	pruned    map[api.ReservationID]Counts
	providers map[api.ProviderID]*modelProvider // hosts too
	consumers map[api.ConsumerID]*modelConsumer
	custom    bool           // there is the class CUSTOM_X
	leaving   api.InstanceID // of it, what it is lent is not looked at
	lent      []api.Share

	aggregates func() []*api.Aggregate
}

type modelHost struct {
	serving [3]bool // up, enabled, not in maintenance
}

type modelBoot struct {
	least    int
	request  api.Request
	decision api.Decision
}

type modelHold struct {
	key      string
	boot     api.ReservationID // "" for a parent's
	origin   api.LinkID
	request  api.Request
	groups   map[api.InstanceID]int
	want     api.Resources
	end      api.Instant
	own      []command.Slot
	from     map[api.InstanceID]source
	parts    []modelPart
	refused  int
	commit   bool
	decision api.Decision
	firm     bool // it was decided commit once
}

type modelPart struct {
	link            api.LinkID
	ids             []api.InstanceID
	answered, acked bool
}

type modelInstance struct {
	boot   api.ReservationID
	hold   *modelHold
	host   api.HostID
	target api.HostID
	from   source
	toFrom source // on the target
	link   api.LinkID
	status api.Status
	group  int
}

// apply folds in a command that was accepted. r is what the state answered.
func (m *model) apply(w *world, c command.Command, r Result) {
	m.now = w.s.Now()
	switch c := c.(type) {
	case command.HostsPut:
		h := &modelHost{serving: [3]bool{true, true, true}}
		if old, ok := m.hosts[c.Hosts[0].ID]; ok {
			h.serving[1], h.serving[2] = old.serving[1], old.serving[2]
		}
		m.hosts[c.Hosts[0].ID] = h
		m.said(c.Hosts[0])
	case command.HostsState:
		if h, ok := m.hosts[c.Hosts[0]]; ok {
			h.serving[0] = c.State == api.HostUp
		}
	case command.HostSet:
		if c.Enabled != nil {
			m.hosts[c.ID].serving[1] = *c.Enabled
		}
		if c.Maintenance != nil {
			m.hosts[c.ID].serving[2] = *c.Maintenance == ""
		}
	case command.HostDelete:
		m.forget(c.ID)
	case command.BootCreate:
		if _, ok := m.boots[r.Boot.Request.Reservation]; !ok {
			m.boots[c.Request.Reservation] = &modelBoot{least: c.Min, request: c.Request, decision: api.DecisionPending}
		}
	case command.Hold:
		m.hold(c, r.Hold)
	case command.HoldParts:
		m.parts(c)
	case command.HoldDecide:
		if h, ok := m.holds[key(c.Origin, c.ID)]; ok {
			m.decide(h, c.Decision)
		} else {
			m.holds[key(c.Origin, c.ID)] = &modelHold{decision: api.DecisionAbort}
		}
	case command.BootDecide:
		m.decideBoot(c.Reservation, c.Decision)
	case command.BootRelease:
		if b := m.boots[c.Reservation]; b.decision == api.DecisionPending {
			m.decideBoot(c.Reservation, api.DecisionAbort)
		}
		for _, h := range m.holdsOf(c.Reservation) {
			m.decide(h, api.DecisionAbort)
		}
	default:
		m.applyLater(w, c)
	}
}

// applyLater folds in what comes after a decision.
func (m *model) applyLater(w *world, c command.Command) {
	switch c := c.(type) {
	case command.PartAck:
		m.ack(c)
	case command.InstanceDelete:
		m.instances[c.ID].end()
	case command.InstanceMove:
		m.move(c)
	case command.InstanceReport:
		for _, r := range c.Items {
			if i, ok := m.instances[r.Instance]; ok && i.host == r.Host && c.Agent == "a1" {
				if _, known := m.hosts[r.Host]; known && r.Status != api.StatusBuild && r.Status != api.StatusDeleting {
					i.hear(r.Status, api.StatusError)
				}
			}
		}
	case command.InstanceChanges:
		for _, ch := range c.Items {
			if m.undecided(ch.ID) > 0 {
				return
			}
			if i, ok := m.instances[ch.ID]; ok && i.link == c.Link {
				i.hear(ch.Status, api.StatusDeleted)
			}
		}
	case command.InstanceTold:
		for _, id := range c.Gone {
			if i, ok := m.instances[id]; ok && i.link != "" && i.status == api.StatusDeleting {
				i.status = api.StatusDeleted
			}
		}
	case command.Prune:
		m.prune(w)
	default:
		m.place(c)
	}
}

// end asks for the end of an instance.
func (i *modelInstance) end() { i.status, i.target = api.StatusDeleting, "" }

// hear moves an instance on; gone is what it becomes when it is gone unasked.
func (i *modelInstance) hear(st, gone api.Status) {
	switch {
	case st == api.StatusDeleted && i.target != "":
		i.host, i.from, i.target, i.status = i.target, i.toFrom, "", api.StatusBuild
	case i.status == api.StatusDeleted || !slices.Contains(statuses, st):
	case i.status == api.StatusDeleting:
		if st == api.StatusDeleted {
			i.status = st
		}
	case st == api.StatusDeleted:
		i.status = gone
	default:
		i.status = st
	}
}

// hold places the slots one by one: on the host, else on the first spare.
func (m *model) hold(c command.Hold, got *Hold) {
	k := key(c.Origin, c.ID)
	if _, repeat := m.holds[k]; repeat {
		return
	}
	h := &modelHold{
		key: k, origin: c.Origin, want: c.Request.Groups[0].Resources, end: c.Request.Window.End, from: map[api.InstanceID]source{},
		commit: c.Commit, decision: api.DecisionPending, request: c.Request, groups: map[api.InstanceID]int{},
	}
	if c.Request.Lifetime > 0 {
		h.end = m.now.Add(c.Request.Lifetime)
	}
	if c.Origin == "" {
		h.boot = c.Request.Reservation
	}
	m.holds[k] = h
	for _, sl := range c.Slots {
		hosts := []api.HostID{sl.Host}
		if sl.Group < len(c.Spares) {
			hosts = append(hosts, c.Spares[sl.Group]...)
		}
		h.groups[sl.Instance.ID] = sl.Group
		i := slices.IndexFunc(hosts, func(id api.HostID) bool {
			if !m.obeys(h, sl.Group, string(id), nil) {
				return false
			}
			from, fits := m.fits(id, h)
			h.from[sl.Instance.ID] = from
			return fits
		})
		if i < 0 {
			h.refused++
			continue
		}
		sl.Host = hosts[i]
		h.own = append(h.own, sl)
	}
	require.Equal(m.rt, h.own, got.Slots, "where the slots are")
	for n, sl := range h.own {
		require.Equal(m.rt, h.from[sl.Instance.ID].elsewhere(sl.Host, h.want), got.sharesOf(n), "where %s draws", sl.Instance.ID)
	}
	for _, p := range c.Parts {
		m.holdPart(h, p)
	}
	require.Len(m.rt, got.Parts, len(h.parts))
	m.advance(h)
}

// holdPart asks a child for all that rules do not keep out of it.
func (m *model) holdPart(h *modelHold, p command.Part) {
	h.parts = append(h.parts, modelPart{link: p.Link})
	mp, asked := &h.parts[len(h.parts)-1], 0
	for g, specs := range p.Instances {
		for _, i := range specs {
			asked++
			if !m.obeys(h, g, "link "+string(p.Link), nil) {
				h.refused++
				continue
			}
			h.groups[i.ID] = g
			mp.ids = append(mp.ids, i.ID)
		}
	}
	if asked > 0 && len(mp.ids) == 0 {
		h.parts = h.parts[:len(h.parts)-1]
	}
}

func (m *model) parts(c command.HoldParts) {
	h, news := m.holds[key(c.Origin, c.ID)], false
	for _, a := range c.Answers {
		for i := range h.parts {
			p := &h.parts[i]
			if p.link != a.Link || p.answered {
				continue
			}
			asked := len(p.ids)
			p.ids = slices.DeleteFunc(p.ids, func(id api.InstanceID) bool { return !slices.Contains(a.Held, id) })
			h.refused += asked - len(p.ids)
			p.answered, news = true, true
			if h.decision == api.DecisionPending {
				p.acked = a.Committed
			}
		}
	}
	if news {
		m.advance(h)
	}
}

func (h *modelHold) complete() bool {
	return !slices.ContainsFunc(h.parts, func(p modelPart) bool { return !p.answered })
}

func (h *modelHold) held() (ids []api.InstanceID) {
	for _, sl := range h.own {
		ids = append(ids, sl.Instance.ID)
	}
	for _, p := range h.parts {
		ids = append(ids, p.ids...)
	}
	return ids
}

// advance decides a hold that was asked to decide for itself.
func (m *model) advance(h *modelHold) {
	switch {
	case !h.commit || !h.complete() || h.decision != api.DecisionPending:
	case h.boot == "" && h.refused > 0:
		m.decide(h, api.DecisionAbort)
	case h.boot == "":
		m.decide(h, api.DecisionCommit)
	case h.refused == 0 && m.suffices(h.boot):
		m.decideBoot(h.boot, api.DecisionCommit)
	}
}

func (m *model) holdsOf(boot api.ReservationID) (out []*modelHold) {
	for _, k := range slices.Sorted(maps.Keys(m.holds)) {
		if m.holds[k].boot == boot {
			out = append(out, m.holds[k])
		}
	}
	return out
}

func (m *model) decideBoot(id api.ReservationID, d api.Decision) {
	b := m.boots[id]
	if b.decision != api.DecisionPending {
		return
	}
	if d == api.DecisionCommit {
		require.True(m.rt, m.suffices(id), "min_count, also of groups, or the rule for zones")
	}
	b.decision = d
	for _, h := range m.holdsOf(id) {
		switch {
		case h.decision != api.DecisionPending:
		case h.complete():
			m.decide(h, d)
		default:
			m.decide(h, api.DecisionAbort)
		}
	}
}

func (m *model) decide(h *modelHold, d api.Decision) {
	if h.decision == d {
		return
	}
	committed := h.decision == api.DecisionCommit
	h.decision = d
	if d == api.DecisionCommit {
		h.firm = true
		require.True(m.rt, h.complete(), "a commit needs every answer")
		for _, sl := range h.own {
			m.start(sl.Instance.ID, &modelInstance{
				boot: h.boot, hold: h, host: sl.Host, group: sl.Group, from: h.from[sl.Instance.ID],
			})
		}
		for _, p := range h.parts {
			for _, id := range p.ids {
				m.start(id, &modelInstance{boot: h.boot, hold: h, link: p.link, group: h.groups[id]})
			}
		}
		return
	}
	for i := range h.parts {
		h.parts[i].acked = false
	}
	if committed {
		for _, id := range h.held() {
			if i, ok := m.instances[id]; ok && i.hold == h && i.status != api.StatusDeleted {
				i.end()
			}
		}
	}
}

func (m *model) start(id api.InstanceID, i *modelInstance) {
	require.NotContains(m.rt, m.instances, id, "an instance id was used twice")
	i.status = api.StatusBuild
	m.instances[id] = i
}

func (m *model) ack(c command.PartAck) {
	h, ok := m.holds[key(c.Origin, c.ID)]
	if !ok || h.decision != c.Decision {
		return
	}
	for i := range h.parts {
		p := &h.parts[i]
		if p.link != c.Link || p.acked {
			continue
		}
		p.acked = true
		for _, id := range p.ids {
			i, ok := m.instances[id]
			switch {
			case !ok || i.hold != h || i.status == api.StatusDeleted || !c.Lost:
			case i.status == api.StatusDeleting:
				i.status = api.StatusDeleted
			default:
				i.status = api.StatusError
			}
		}
	}
}

// prune forgets what the state forgot, which must have ended.
func (m *model) prune(w *world) {
	for id, i := range m.instances {
		if _, ok := w.s.Instance(id); ok {
			continue
		}
		require.Equal(m.rt, api.StatusDeleted, i.status, "%s was forgotten", id)
		delete(m.instances, id)
		if i.boot != "" {
			n := m.pruned[i.boot]
			n.add(api.StatusDeleted, 1)
			m.pruned[i.boot] = n
		}
	}
	for k, h := range m.holds {
		if _, ok := w.s.holds.Get(k); !ok {
			require.NotEqual(m.rt, api.DecisionPending, h.decision, "hold %q was forgotten", k)
			delete(m.holds, k)
		}
	}
	for id := range m.boots {
		if _, ok := w.s.Boot("p", id); !ok {
			require.Empty(m.rt, m.holdsOf(id), "boot %s was forgotten before its holds", id)
			delete(m.boots, id)
			delete(m.pruned, id)
		}
	}
}

// undecided counts the undecided holds that an instance id is in.
func (m *model) undecided(id api.InstanceID) (n int) {
	for _, h := range m.holds {
		if h.decision == api.DecisionPending && slices.Contains(h.held(), id) {
			n++
		}
	}
	return n
}

// ours reports whether an instance, or a slot that is held for one, is of this zone.
func (m *model) ours(id api.InstanceID) bool {
	if i, ok := m.instances[id]; ok {
		return i.hold.origin == ""
	}
	for _, h := range m.holds {
		if h.decision == api.DecisionPending && slices.Contains(h.held(), id) {
			return h.origin == ""
		}
	}
	return false
}

// check compares what readers see with the lists.
func (m *model) check(s *State) {
	m.now = s.Now()
	v := s.Clone()
	for id, h := range m.hosts {
		host, ok := v.Host(id)
		require.True(m.rt, ok)
		require.Equal(m.rt, [3]bool{host.State == api.HostUp, host.Enabled, host.Maintenance == ""}, h.serving)
		require.Equal(m.rt, m.listed(func(i *modelInstance) bool { return i.host == id }), idsOf(v.OnHost(id)), "on %s", id)
		coming := m.listed(func(i *modelInstance) bool { return i.target == id })
		require.Equal(m.rt, len(v.OnHost(id))+len(coming), host.Instances)
	}
	require.Len(m.rt, v.AllHosts(), len(m.hosts))
	m.checkProviders(v)
	m.checkRules(v)
	page := Page{Limit: 100}
	require.Equal(m.rt, m.listed(func(i *modelInstance) bool { return i.hold.origin == "" }), idsOf(v.InstancesPage(InstanceQuery{Project: "p", Page: page})))
	for _, id := range someBoots {
		res := api.ReservationID(id)
		b, ok := v.Boot("p", res)
		mb, known := m.boots[res]
		require.Equal(m.rt, known, ok, "boot %s", id)
		if !ok {
			continue
		}
		require.Equal(m.rt, mb.decision, b.Decision, "boot %s", id)
		want, unacked := m.pruned[res], 0
		for _, i := range m.instances {
			if i.boot == res {
				want.add(i.status, 1)
			}
		}
		for _, h := range m.holdsOf(res) {
			// An abort of what was never decided commit is final when it is logged.
			if (h.firm || h.commit) && h.decision != api.DecisionPending && slices.ContainsFunc(h.parts, func(p modelPart) bool { return !p.acked }) {
				unacked++
			}
		}
		require.Equal(m.rt, want, b.Counts, "counts of %s", id)
		require.Equal(m.rt, unacked, b.Unacked, "holds of %s that a child has not confirmed", id)
		require.Equal(m.rt, m.listed(func(i *modelInstance) bool { return i.boot == res }),
			idsOf(v.InstancesPage(InstanceQuery{Project: "p", Reservation: res, Page: page})))
	}
	for id := range m.instances {
		require.Zero(m.rt, m.undecided(id), "%s lives and is held", id)
	}
	for _, id := range someInstances {
		require.LessOrEqual(m.rt, m.undecided(api.InstanceID(id)), 1, "%s is held twice", id)
	}
}

// listed returns the live instances that ok picks, by id.
func (m *model) listed(ok func(*modelInstance) bool) []api.InstanceID {
	out := []api.InstanceID{}
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		if i := m.instances[id]; i.status != api.StatusDeleted && ok(i) {
			out = append(out, id)
		}
	}
	return out
}

func idsOf(is []*api.Instance) []api.InstanceID {
	out := []api.InstanceID{}
	for _, i := range is {
		out = append(out, i.ID)
	}
	return out
}

// newModel returns the lists of what newDice made.
func newModel(d dice) *model {
	m := &model{
		rt: d.rt, hosts: map[api.HostID]*modelHost{}, boots: map[api.ReservationID]*modelBoot{},
		holds: map[string]*modelHold{}, instances: map[api.InstanceID]*modelInstance{}, pruned: map[api.ReservationID]Counts{},
		providers: map[api.ProviderID]*modelProvider{}, consumers: map[api.ConsumerID]*modelConsumer{},
		aggregates: d.w.s.Aggregates,
	}
	for _, c := range d.made {
		m.apply(d.w, c.Command, c.Result)
	}
	return m
}

// TestOracle plays random histories against the lists.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDice(rt)
		m := newModel(d)
		for range 1 + d.n(150) {
			c := d.command()
			m.now = max(d.w.now, m.now)
			before := m.balance(d.w.s)
			may, judged := m.judge(d.w.s, c)
			r := d.w.do(c)
			if judged {
				require.Equal(rt, may, r.Err == nil, "%v: %#v", r.Err, c)
			}
			if r.Err == nil {
				m.apply(d.w, c, r)
			}
			m.check(d.w.s)
			m.checkBalance(d.w.s, before, c, r.Err == nil)
			checkIndexes(rt, d.w.s)
			checkWork(rt, d.w.s, uint64(d.n(int(d.w.index))))
		}
	})
}
