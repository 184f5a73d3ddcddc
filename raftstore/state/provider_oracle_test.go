package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// modelProvider is a provider as who reads of it has it in mind.
type modelProvider struct {
	id                 api.ProviderID
	host               bool
	name               string
	parent             api.ProviderID
	agent, own         inventory
	traits, aggregates []string
}

type modelConsumer struct {
	project    api.ProjectID
	kind       string
	generation uint64
	from       map[api.ProviderID]api.Resources
}

// source says which provider gives each class of a slot.
type source map[api.ResourceClass]api.ProviderID

// elsewhere returns what others than the host give.
func (f source) elsewhere(host api.HostID, want api.Resources) []api.Share {
	sums := map[api.ProviderID]api.Resources{}
	for class, id := range f {
		if id != host {
			if sums[id] == nil {
				sums[id] = api.Resources{}
			}
			sums[id][class] = want[class]
		}
	}
	return sharesOf(sums)
}

func sharesOf(sums map[api.ProviderID]api.Resources) []api.Share {
	var out []api.Share
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, api.Share{Provider: id, Resources: sums[id]})
	}
	return out
}

// modelClaim is one claim in the lists.
type modelClaim struct {
	who   api.ConsumerID
	at    api.ProviderID
	class api.ResourceClass // "" for a slot on a host that gives nothing of itself
	n     int64
	now   bool // its window is not over
	other bool // a consumer that is no instance
}

// claims lists everything that is claimed.
func (m *model) claims() []modelClaim {
	var out []modelClaim
	add := func(who api.InstanceID, host api.HostID, from source, h *modelHold, kept ...api.Share) {
		out = append(out, modelClaim{who: who, at: host})
		for _, class := range h.want.Classes() {
			if slices.ContainsFunc(kept, func(sh api.Share) bool { return sh.Provider == from[class] }) {
				continue
			}
			out = append(out, modelClaim{who: who, at: from[class], class: class, n: h.want[class], now: h.end > m.now})
		}
	}
	for _, h := range m.holds {
		if h.decision == api.DecisionPending {
			for _, sl := range h.own {
				add(sl.Instance.ID, sl.Host, h.from[sl.Instance.ID], h)
			}
		}
	}
	for id, i := range m.instances {
		if i.status == api.StatusDeleted || i.host == "" {
			continue
		}
		at, to := i.from.elsewhere(i.host, i.hold.want), i.toFrom.elsewhere(i.target, i.hold.want)
		if id == m.leaving {
			add(id, i.host, i.from, i.hold, m.lent...)
			continue
		}
		add(id, i.host, i.from, i.hold)
		if i.target != "" {
			add(id, i.target, i.toFrom, i.hold, slices.DeleteFunc(to, func(sh api.Share) bool { return !slices.ContainsFunc(at, sh.Equal) })...)
		}
	}
	for id, c := range m.consumers {
		for at, r := range c.from {
			for class, n := range r {
				out = append(out, modelClaim{who: id, at: at, class: class, n: n, now: true, other: true})
			}
		}
	}
	return out
}

// used sums up what is in use of a class.
func (m *model) used(id api.ProviderID, class api.ResourceClass) (n int64) {
	for _, c := range m.claims() {
		if c.at == id && c.class == class && c.now {
			n += c.n
		}
	}
	return n
}

func (p *modelProvider) seen() inventory {
	out := maps.Clone(p.agent)
	if out == nil {
		out = inventory{}
	}
	maps.Copy(out, p.own)
	return out
}

// aggregatesOf returns the aggregates of a provider, those of operators too.
func (m *model) aggregatesOf(p *modelProvider) []string {
	out := slices.Clone(p.aggregates)
	for _, a := range m.aggregates() {
		if slices.Contains(a.Hosts, p.id) {
			out = append(out, string(a.ID))
		}
	}
	return sorted(out)
}

// below returns a tree depth first, in order of ids.
func (m *model) below(id api.ProviderID) []api.ProviderID {
	out := []api.ProviderID{id}
	for _, child := range slices.Sorted(maps.Keys(m.providers)) {
		if m.providers[child].parent == id {
			out = append(out, m.below(child)...)
		}
	}
	return out
}

func (m *model) sharers(tree []api.ProviderID) (out []api.ProviderID) {
	met := map[string]bool{}
	for _, id := range tree {
		for _, a := range m.aggregatesOf(m.providers[id]) {
			met[a] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.providers)) {
		p := m.providers[id]
		if slices.Contains(tree, id) || !slices.Contains(p.traits, api.TraitShares) {
			continue
		}
		if slices.ContainsFunc(m.aggregatesOf(p), func(a string) bool { return met[a] }) {
			out = append(out, id)
		}
	}
	return out
}

// fits says what a slot of a hold would draw from where on a host.
func (m *model) fits(host api.HostID, h *modelHold) (source, bool) {
	mh, ok := m.hosts[host]
	if !ok || mh.serving != [3]bool{true, true, true} || h.end <= m.now {
		return nil, false
	}
	from := source{}
	gives := func(id api.ProviderID) (out []api.ResourceClass) {
		for _, class := range h.want.Classes() {
			v, has := m.providers[id].seen()[class]
			if _, done := from[class]; !done && has && v.Admits(h.want[class]) && m.used(id, class)+h.want[class] <= v.Capacity() {
				out = append(out, class)
			}
		}
		return out
	}
	take := func(id api.ProviderID) {
		for _, class := range gives(id) {
			from[class] = id
		}
	}
	take(host)
	tree := m.below(host)
	for {
		var best api.ProviderID
		for _, id := range tree[1:] {
			if n := len(gives(id)); n > 0 && (best == "" || n > len(gives(best))) {
				best = id
			}
		}
		if best == "" {
			break
		}
		take(best)
	}
	for _, id := range m.sharers(tree) {
		take(id)
	}
	return from, len(from) == len(h.want)
}

// fitsBeside is fits for an instance that moves to a host: what pools give it where it
// is they need not give twice, if it is the same there.
func (m *model) fitsBeside(id api.InstanceID, i *modelInstance, to api.HostID) (source, bool) {
	lent := slices.DeleteFunc(i.from.elsewhere(i.host, i.hold.want), func(sh api.Share) bool {
		return slices.Contains(m.below(i.host), sh.Provider) || sh.Provider == to
	})
	for {
		m.leaving, m.lent = id, lent
		from, fits := m.fits(to, i.hold)
		m.leaving, m.lent = "", nil
		there := from.elsewhere(to, i.hold.want)
		same := slices.DeleteFunc(slices.Clone(lent), func(old api.Share) bool {
			return slices.ContainsFunc(there, func(sh api.Share) bool { return sh.Provider == old.Provider && !sh.Equal(old) })
		})
		if !fits || len(same) == len(lent) {
			return from, fits
		}
		lent = same
	}
}

// said folds in what an agent says of a host.
func (m *model) said(e command.HostEntry) {
	p := m.providers[e.ID]
	if p == nil {
		p = &modelProvider{id: e.ID, host: true, name: e.Host.Name}
		m.providers[e.ID] = p
	}
	p.agent = e.Host.Inventory
}

// idle reports whether nothing of a provider is claimed, and nobody is below it.
func (m *model) idle(id api.ProviderID) bool {
	for _, p := range m.providers {
		if p.parent == id {
			return false
		}
	}
	return !slices.ContainsFunc(m.claims(), func(c modelClaim) bool { return c.at == id })
}

func (m *model) forget(id api.ProviderID) {
	require.True(m.rt, m.idle(id), "%s was deleted", id)
	delete(m.providers, id)
	delete(m.hosts, id)
}

// isInstance reports whether an id is or was that of an instance, or is held for one.
func (m *model) isInstance(id api.ConsumerID) bool {
	_, was := m.instances[id]
	return was || m.undecided(id) > 0
}

// judge says whether a command must be accepted, if that can be told.
func (m *model) judge(s *State, c command.Command) (may, judged bool) {
	switch c := c.(type) {
	case command.ConsumersPut:
		return m.mayPut(s, c), true
	case command.ConsumerDelete:
		return m.consumers[c.ID] != nil, true
	case command.ProviderDelete:
		return m.providers[c.ID] != nil && m.idle(c.ID), true
	}
	return false, false
}

// mayPut goes through what would be claimed after a ConsumersPut.
func (m *model) mayPut(s *State, c command.ConsumersPut) bool {
	have := map[api.ProviderID]inventory{}
	for id, p := range m.providers {
		have[id] = p.seen()
	}
	for _, r := range c.Reshape {
		p := m.providers[r.ID]
		if p == nil || s.generation(r.ID) != r.Generation {
			return false
		}
		for class := range r.Inventory {
			if class == "CUSTOM_X" && !m.custom {
				return false
			}
		}
		for class := range p.agent {
			if _, ok := r.Inventory[class]; !ok {
				return false
			}
		}
		have[r.ID] = r.Inventory
	}
	names := map[api.ConsumerID]bool{}
	type pair struct {
		id    api.ProviderID
		class api.ResourceClass
	}
	before, after := map[pair]int64{}, map[pair]int64{}
	for _, e := range c.Consumers {
		old := m.consumers[e.ID]
		if names[e.ID] || m.isInstance(e.ID) || e.Generation != nil && *e.Generation != old.at() {
			return false
		}
		names[e.ID] = true
		from := map[api.ProviderID]bool{}
		for _, sh := range e.Shares {
			if from[sh.Provider] {
				return false
			}
			from[sh.Provider] = true
			for class, n := range sh.Resources {
				v, ok := have[sh.Provider][class]
				if !ok || !v.Admits(n) {
					return false
				}
				after[pair{sh.Provider, class}] += n
			}
		}
	}
	for _, cl := range m.claims() {
		p := pair{cl.at, cl.class}
		if cl.now {
			before[p] += cl.n
		}
		if cl.other && names[cl.who] {
			continue
		}
		if cl.now {
			after[p] += cl.n
		}
		if _, ok := have[cl.at][cl.class]; !ok && cl.class != "" && slices.ContainsFunc(c.Reshape, func(r command.Reshape) bool { return r.ID == cl.at }) {
			if _, had := m.providers[cl.at].seen()[cl.class]; had {
				return false // somebody is left behind
			}
		}
	}
	for p, n := range after {
		if n > before[p] && (m.shut(p.id) || n > have[p.id][p.class].Capacity()) {
			return false
		}
	}
	return true
}

// shut reports whether a provider is, or is part of, a host that takes no work.
func (m *model) shut(id api.ProviderID) bool {
	for m.providers[id].parent != "" {
		id = m.providers[id].parent
	}
	h, ok := m.hosts[id]
	return ok && slices.Contains(h.serving[:], false)
}

// at returns the generation of a consumer, 0 for nobody.
func (c *modelConsumer) at() uint64 {
	if c == nil {
		return 0
	}
	return c.generation
}

// place folds in what the placement API did.
func (m *model) place(c command.Command) {
	switch c := c.(type) {
	case command.ProviderCreate:
		require.Nil(m.rt, m.providers[c.ID])
		m.providers[c.ID] = &modelProvider{id: c.ID, name: c.Name, parent: c.Parent}
	case command.ProviderDelete:
		m.forget(c.ID)
	case command.ProviderSet:
		p := m.providers[c.ID]
		if c.Inventory != nil {
			m.setInventory(p, *c.Inventory)
		}
		if c.Traits != nil {
			p.traits = sorted(*c.Traits)
		}
		if c.Aggregates != nil {
			p.aggregates = nil
			if theirs := m.aggregatesOf(p); p.host {
				p.aggregates = less(sorted(*c.Aggregates), theirs)
			} else {
				p.aggregates = sorted(*c.Aggregates)
			}
		}
		assign(&p.name, c.Name)
		assign(&p.parent, c.Parent)
		require.Less(m.rt, len(m.below(c.ID)), 99, "a loop of parents")
	case command.ConsumersPut:
		for _, r := range c.Reshape {
			m.providers[r.ID].own = nil
			m.setOwn(m.providers[r.ID], r.Inventory)
		}
		for _, e := range c.Consumers {
			m.consumer(e)
		}
	case command.ConsumerDelete:
		delete(m.consumers, c.ID)
	case command.ClassPut:
		m.custom = true
	case command.ClassDelete:
		m.custom = false
		for _, p := range m.providers {
			require.NotContains(m.rt, p.seen(), c.Name)
		}
	}
}

// setInventory gives a provider an inventory which must keep what is claimed.
func (m *model) setInventory(p *modelProvider, have inventory) {
	for class := range p.seen() {
		if _, stays := have[class]; stays {
			continue
		}
		require.NotContains(m.rt, p.agent, class)
		require.False(m.rt, slices.ContainsFunc(m.claims(), func(c modelClaim) bool { return c.at == p.id && c.class == class }))
	}
	m.setOwn(p, have)
}

func (m *model) setOwn(p *modelProvider, have inventory) {
	p.own = inventory{}
	for class, v := range have {
		if said, ok := p.agent[class]; !ok || said.Normal() != v.Normal() {
			p.own[class] = v
		}
	}
}

func (m *model) consumer(e command.ConsumerEntry) {
	old := m.consumers[e.ID]
	if len(e.Shares) == 0 {
		delete(m.consumers, e.ID)
		return
	}
	c := &modelConsumer{project: e.Project, generation: old.at() + 1, from: map[api.ProviderID]api.Resources{}}
	if old != nil {
		c.kind = old.kind
	}
	assign(&c.kind, e.Type)
	for _, sh := range e.Shares {
		c.from[sh.Provider] = sh.Resources
	}
	m.consumers[e.ID] = c
}

// checkProviders compares what readers see of providers and consumers with the lists.
func (m *model) checkProviders(v *State) {
	require.Equal(m.rt, len(m.providers), v.hosts.Len()+v.providers.Len())
	now := map[api.ProviderID]map[api.ConsumerID]api.Resources{}
	usage := map[string]api.Resources{}
	for _, c := range m.claims() {
		if !c.now || c.class == "" {
			continue
		}
		if now[c.at] == nil {
			now[c.at] = map[api.ConsumerID]api.Resources{}
		}
		if now[c.at][c.who] == nil {
			now[c.at][c.who] = api.Resources{}
		}
		now[c.at][c.who][c.class] += c.n
		kind := api.ConsumerInstance
		if !c.other && !m.ours(c.who) {
			continue
		}
		if c.other {
			if m.consumers[c.who].project != "p" {
				continue
			}
			kind = m.consumers[c.who].kind
		}
		if usage[kind] == nil {
			usage[kind] = api.Resources{}
		}
		usage[kind][c.class] += c.n
	}
	for id, want := range m.providers {
		p, ok := v.Provider(id)
		require.True(m.rt, ok)
		require.Equal(m.rt, want.host, p.CanHost)
		require.Equal(m.rt, want.name, p.Name)
		require.Equal(m.rt, want.parent, p.Parent)
		require.Contains(m.rt, m.below(p.Root), id)
		require.Empty(m.rt, m.providers[p.Root].parent)
		seen := want.seen()
		for class, inv := range seen {
			seen[class] = inv.Normal()
		}
		require.Equal(m.rt, seen, p.Inventory)
		require.Equal(m.rt, append([]string{}, want.traits...), p.Traits)
		require.Equal(m.rt, append([]string{}, m.aggregatesOf(want)...), p.Aggregates)
		sum := api.Resources{}
		var list []Allocation
		for _, who := range slices.Sorted(maps.Keys(now[id])) {
			c, ok := v.Consumer(who)
			require.True(m.rt, ok)
			require.Equal(m.rt, m.consumers[who] == nil, c.Instance)
			list = append(list, Allocation{Consumer: who, Generation: c.Generation, Resources: now[id][who]})
			for class, n := range now[id][who] {
				sum[class] += n
			}
		}
		require.Equal(m.rt, list, v.AllocationsOn(id))
		require.Equal(m.rt, sum, p.Used, "use of %s", id)
	}
	require.Equal(m.rt, len(m.consumers), v.consumers.Len(), "no consumer is lost, and there is no ghost")
	for id, c := range m.consumers {
		got, ok := v.Consumer(id)
		require.True(m.rt, ok)
		require.Equal(m.rt, c.generation, got.Generation)
		require.Equal(m.rt, c.kind, got.Type)
		require.Equal(m.rt, sharesOf(c.from), got.Shares)
		require.False(m.rt, m.isInstance(id), "%s is an instance too", id)
	}
	got := map[string]api.Resources{}
	for _, u := range v.Usages("p", nil) {
		got[u.Type] = u.Resources
	}
	require.Equal(m.rt, usage, got)
	_, custom := v.ResourceClass("CUSTOM_X")
	require.Equal(m.rt, m.custom, custom)
}

// balance is what was in use, and the generations, before a command.
type balance struct {
	used   map[string]int64
	drawn  map[api.ProviderID]string
	at     map[api.ProviderID]uint64
	traits map[api.ProviderID][]string
}

func (m *model) balance(s *State) balance {
	b := balance{map[string]int64{}, map[api.ProviderID]string{}, map[api.ProviderID]uint64{}, map[api.ProviderID][]string{}}
	claims := m.claims()
	for id, p := range m.providers {
		for class := range p.seen() {
			b.used[key(id, class)] = m.used(id, class)
		}
		var drawn []string
		for _, c := range claims {
			if c.at == id {
				drawn = append(drawn, fmt.Sprintf("%s %s %d", c.who, c.class, c.n))
			}
		}
		slices.Sort(drawn)
		b.drawn[id], b.at[id], b.traits[id] = fmt.Sprint(drawn), s.generation(id), p.traits
	}
	return b
}

// checkBalance says what a command may have done to generations, and that it sold
// nothing twice.
func (m *model) checkBalance(s *State, before balance, c command.Command, done bool) {
	after := m.balance(s)
	rises := map[api.ProviderID]bool{}
	exact := done
	switch c := c.(type) {
	case command.ProviderSet:
		rises[c.ID] = c.Inventory != nil || c.Aggregates != nil && c.Bump || !slices.Equal(before.traits[c.ID], after.traits[c.ID])
	case command.ConsumersPut:
		for _, r := range c.Reshape {
			rises[r.ID] = true
		}
		for _, e := range c.Consumers {
			for id := range m.providers {
				left := len(e.Shares) == 0 && strings.Contains(before.drawn[id], string(e.ID)+" ")
				rises[id] = rises[id] || left
			}
			for _, sh := range e.Shares {
				rises[sh.Provider] = true
			}
		}
	case command.ProviderCreate, command.ProviderDelete, command.ConsumerDelete, command.ClassPut, command.ClassDelete,
		command.TraitPut, command.TraitDelete:
	default:
		exact = false
	}
	for id, p := range m.providers {
		was, old := before.at[id]
		rise := s.generation(id) - was
		switch {
		case !old:
			require.True(m.rt, p.host || s.generation(id) == 0, "%s is new", id)
		case exact:
			require.Equal(m.rt, rises[id], rise == 1, "generation of %s after %#v", id, c)
		case before.drawn[id] != after.drawn[id]:
			require.EqualValues(m.rt, 1, rise, "generation of %s after %#v", id, c)
		}
		for class, v := range p.seen() {
			if used := after.used[key(id, class)]; used > before.used[key(id, class)] {
				require.LessOrEqual(m.rt, used, v.Capacity(), "%s of %s was oversold by %#v", class, id, c)
			}
		}
	}
}
