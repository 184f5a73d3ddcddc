package capacity

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// loops reports whether a provider would be its own ancestor under parent.
func (m *model) loops(id, parent api.HostID) bool {
	for parent != "" && parent != id {
		parent = m.specs[parent].Parent
	}
	return parent == id
}

// parent returns the parent that counts.
func (m *model) parent(id api.HostID) (api.HostID, bool) {
	up := m.specs[id].Parent
	_, known := m.specs[up]
	return up, known
}

func (m *model) root(id api.HostID) api.HostID {
	if up, ok := m.parent(id); ok {
		return m.root(up)
	}
	return id
}

func (m *model) tree(id api.HostID) []api.HostID {
	out := []api.HostID{id}
	for _, child := range slices.Sorted(maps.Keys(m.specs)) {
		if up, ok := m.parent(child); ok && up == id {
			out = append(out, m.tree(child)...)
		}
	}
	return out
}

func (m *model) sharers(root api.HostID) []api.HostID {
	var out []api.HostID
	for _, id := range slices.Sorted(maps.Keys(m.specs)) {
		if m.root(id) == root || !slices.Contains(m.specs[id].Traits, api.TraitShares) {
			continue
		}
		common := false
		for _, at := range m.tree(root) {
			for _, group := range m.specs[at].Aggregates {
				common = common || slices.Contains(m.specs[id].Aggregates, group)
			}
		}
		if common {
			out = append(out, id)
		}
	}
	return out
}

// sources returns what slots on id draw from, itself first.
func (m *model) sources(id api.HostID) []api.HostID {
	if m.specs[id].Passive {
		return []api.HostID{id}
	}
	return append(m.tree(id), m.sharers(id)...)
}

// sum adds up what is above 0 over what a compound host draws from; what is none
// is as it is.
func (m *model) sum(id api.HostID, of func(api.HostID) int64) int64 {
	list := m.sources(id)
	if len(list) == 1 {
		return of(id)
	}
	var sum int64
	for _, at := range list {
		sum += max(of(at), 0)
	}
	return sum
}

func (m *model) serving(id api.HostID) bool {
	s := m.specs[id]
	return s.Up && s.Enabled && !s.Maintenance && !s.Passive
}

// gives reports whether id has room for n of class as c wants it.
func (m *model) gives(id api.HostID, class api.ResourceClass, n int64, c api.Claim) bool {
	return m.freeOver(id, class, c.Window, c.Class) >= n && m.specs[id].Inventory[class].Admits(n)
}

// drawn is who gives what to one slot; classes that nobody gives are absent.
func (m *model) drawn(host api.HostID, c api.Claim) map[api.ResourceClass]api.HostID {
	from := map[api.ResourceClass]api.HostID{}
	can := func(at api.HostID) []api.ResourceClass {
		var out []api.ResourceClass
		for class, n := range c.Resources {
			if _, done := from[class]; !done && m.gives(at, class, n, c) {
				out = append(out, class)
			}
		}
		return out
	}
	give := func(at api.HostID) {
		for _, class := range can(at) {
			from[class] = at
		}
	}
	give(host)
	if m.specs[host].Passive {
		return from
	}
	tree := m.tree(host)
	for {
		best := slices.MaxFunc(tree, func(a, b api.HostID) int { return len(can(a)) - len(can(b)) }) // the first of equals
		if len(can(best)) == 0 {
			break
		}
		give(best)
	}
	for _, at := range m.sharers(host) {
		give(at)
	}
	return from
}

// slots counts by trying how many slots fit, at most most, and leaves no trace.
func (m *model) slots(host api.HostID, c api.Claim, most int64) int64 {
	if c.Window.End <= m.now || m.isWhole(host, c.Window, c.Class) {
		return 0
	}
	held := m.held
	defer func() { m.held = held }()
	m.held = map[api.HostID][]api.Claim{}
	for id, list := range held {
		m.held[id] = slices.Clone(list)
	}
	for n := range most {
		from := m.drawn(host, c)
		if len(from) < len(c.Resources) {
			return n
		}
		for class, at := range from {
			part := c
			part.Resources = api.Resources{class: c.Resources[class]}
			m.held[at] = append(m.held[at], part)
		}
	}
	return most
}

// place places in both and checks that they do the same.
func (m *model) place(t *rapid.T, table *Table, host api.HostID, c api.Claim) {
	shares, err := table.Place(host, c)
	s, known := m.specs[host]
	switch {
	case !known || s.Passive:
		require.Equal(t, api.CodeNotFound, api.CodeOf(err))
		return
	case len(m.sources(host)) == 1:
		require.Equal(t, m.fits(host, c), api.CodeOf(err))
	}
	from := m.drawn(host, c)
	if len(from) < len(c.Resources) || c.Window.End <= m.now || m.isWhole(host, c.Window, c.Class) {
		require.Equal(t, m.refusal(host, c, from), api.CodeOf(err))
		require.Empty(t, shares)
		return
	}
	require.NoError(t, err)
	parts := map[api.HostID]api.Resources{host: {}}
	for class, at := range from {
		if parts[at] == nil {
			parts[at] = api.Resources{}
		}
		parts[at][class] = c.Resources[class]
	}
	var want []api.Share
	for _, at := range slices.Sorted(maps.Keys(parts)) {
		part := c
		part.Resources = parts[at]
		if at != host {
			part.Consumer = lent
		}
		m.held[at] = append(m.held[at], part)
		if at != host {
			want = append(want, api.Share{Provider: at, Resources: parts[at]})
		}
	}
	require.Equal(t, want, shares)
}

// refusal is the code for the first class that nobody gives.
func (m *model) refusal(host api.HostID, c api.Claim, from map[api.ResourceClass]api.HostID) api.Code {
	if c.Window.End <= m.now {
		return api.CodeInvalid
	}
	if m.isWhole(host, c.Window, c.Class) {
		return api.CodeNoCapacity
	}
	for _, class := range c.Resources.Classes() {
		if _, ok := from[class]; ok {
			continue
		}
		room, admits := false, false
		for _, at := range m.sources(host) {
			room = room || m.freeOver(at, class, c.Window, c.Class) >= c.Resources[class]
			admits = admits || m.specs[at].Inventory[class].Admits(c.Resources[class])
		}
		if room && !admits {
			return api.CodeInvalid
		}
		return api.CodeNoCapacity
	}
	return ""
}

// checkTrees compares what a view says of how providers hang together.
func (m *model) checkTrees(t *rapid.T, v View) {
	ids := func(rows []int32) []api.HostID {
		var out []api.HostID
		for _, row := range rows {
			out = append(out, v.ID(int(row)))
		}
		return out
	}
	hosts, reached := 0, map[api.HostID]bool{}
	for id, s := range m.specs {
		row, _ := v.Row(id)
		up, ok := m.parent(id)
		require.Equal(t, ok, v.Parent(row) >= 0)
		if ok {
			require.Equal(t, up, v.ID(v.Parent(row)))
		}
		require.Equal(t, m.root(id), v.ID(v.Root(row)))
		require.Equal(t, m.tree(id), ids(v.Tree(row)))
		require.Equal(t, m.sharers(m.root(id)), ids(v.Sharers(row)))
		require.Equal(t, len(m.sources(id)) > 1, v.Compound(row))
		require.Equal(t, len(m.sources(id)) > 1, v.Compounds().Has(row))
		for _, name := range testTraits {
			has := !ok && slices.ContainsFunc(m.tree(id), func(at api.HostID) bool { return slices.Contains(m.specs[at].Traits, name) })
			require.Equal(t, has, v.TreeTrait(name).Has(row))
		}
		if !s.Passive {
			hosts++
		}
		if m.serving(id) {
			for _, at := range m.sources(id) {
				reached[at] = true
			}
		}
	}
	require.Equal(t, hosts, v.Len())
	m.checkSums(t, v, reached)
	m.checkDraft(t, v)
}

// checkSums compares what a view says of many providers, of which some are
// reached by serving hosts.
func (m *model) checkSums(t *rapid.T, v View, reached map[api.HostID]bool) {
	at := api.Instant(rapid.Int64Range(0, 45).Draw(t, "at"))
	report, totals := v.Report(at), v.Totals()
	for _, class := range testClasses {
		var want ClassReport
		var sum api.ClassTotals
		some := false
		for id, s := range m.specs {
			all, use := m.capacity(id, class), m.useNow(id, class)
			want.Capacity += all
			want.Used += use
			want.FreeNow += max(all-use, 0)
			want.FreeAt += max(all-m.firmAt(id, class, max(at, m.now)), 0)
			have, ok := s.Inventory[class]
			if !ok {
				continue
			}
			want.Providers++
			want.Total += have.Total
			want.Reserved += have.Reserved
			if reached[id] {
				some = true
				row, _ := v.Row(id)
				sum.Total += all
				if !m.isWhole(id, api.Window{Start: m.now, End: api.Forever}, api.Firm) {
					sum.Free += max(0, min(v.FreeFromNow(row, class), v.FreeNow(row, class)))
				}
				sum.SlotMax = max(sum.SlotMax, min(have.Normal().MaxUnit, all))
				if n := have.Normal().MinUnit; sum.SlotMin == 0 || n < sum.SlotMin {
					sum.SlotMin = n
				}
			}
		}
		require.Equal(t, want, report[class], "%s at %d", class, at)
		got, ok := totals[class]
		require.Equal(t, some, ok)
		require.Equal(t, sum, got)
	}
	traits, azs := map[string]bool{}, map[string]bool{}
	for id := range reached {
		for _, name := range m.specs[id].Traits {
			traits[name] = true
		}
		if az := m.specs[id].AZ; az != "" {
			azs[az] = true
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(traits)), v.Traits())
	require.Equal(t, slices.Sorted(maps.Keys(azs)), v.AZs())
}

// checkDraft takes slots from a draft and from the model, undoes some of it in both,
// and lets the model forget the rest again.
func (m *model) checkDraft(t *rapid.T, v View) {
	if len(m.specs) == 0 {
		return
	}
	c := drawClaim(t)
	d := v.Draft(c.Window, c.Class)
	held := m.held
	defer func() { m.held = held }()
	marks, were := []int{d.Mark()}, []map[api.HostID][]api.Claim{held}
	ids := slices.Sorted(maps.Keys(m.specs))
	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		id := rapid.SampledFrom(ids).Draw(t, "of")
		row, _ := v.Row(id)
		most := rapid.Int64Range(0, 6).Draw(t, "most")
		c.Resources = drawClaim(t).Resources
		n := m.slots(id, c, most)
		require.Equal(t, n, d.Slots(row, c.Resources, most), "slots of %v", c)
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			marks, were = append(marks, d.Mark()), append(were, m.held)
		case 1:
			k := rapid.IntRange(0, len(marks)-1).Draw(t, "mark")
			d.Undo(marks[k])
			m.held = were[k]
			marks, were = marks[:k+1], were[:k+1]
		default:
			require.Equal(t, n, d.Take(row, c.Resources, most))
			m.take(id, c, n)
		}
	}
	d.Undo(marks[0])
	m.held = held
	row, _ := v.Row(ids[0])
	require.Equal(t, m.slots(ids[0], c, 6), d.Slots(row, c.Resources, 6), "nothing is taken any more")
}

// take takes n slots that fit, one after another. It writes to nothing that was
// there before.
func (m *model) take(host api.HostID, c api.Claim, n int64) {
	m.held = maps.Clone(m.held)
	for range n {
		for class, at := range m.drawn(host, c) {
			part := c
			part.Resources = api.Resources{class: c.Resources[class]}
			m.held[at] = append(slices.Clip(m.held[at]), part)
		}
	}
}
