package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// model is the slow, obvious table: it keeps the claims and looks at instants.
type model struct {
	now   api.Instant
	specs map[api.HostID]Spec
	held  map[api.HostID][]api.Claim
	inner map[api.HostID][]api.Claim // those within others
	swaps map[api.HostID][]swapped   // being replaced; they are in held no more
	outer int                        // claims so far that others may be within
	gens  map[api.HostID]uint64
}

func newModel() *model {
	return &model{
		specs: map[api.HostID]Spec{}, held: map[api.HostID][]api.Claim{}, inner: map[api.HostID][]api.Claim{},
		swaps: map[api.HostID][]swapped{}, gens: map[api.HostID]uint64{},
	}
}

func (m *model) span(id api.HostID, c api.Claim) api.Window {
	return api.Window{Start: c.Window.Start, End: c.Window.End.Add(m.specs[id].Gap)}
}

func (m *model) capacity(id api.HostID, class api.ResourceClass) int64 {
	return m.specs[id].Inventory[class].Capacity()
}

func (m *model) firmAt(id api.HostID, class api.ResourceClass, at api.Instant) int64 {
	var use int64
	for _, c := range m.held[id] {
		use += m.takes(id, c, class, at)
	}
	for _, s := range m.swaps[id] {
		use += max(m.takes(id, s.from, class, at), m.takes(id, s.to, class, at))
	}
	return use
}

// takes returns what a firm claim takes of a class at an instant.
func (m *model) takes(id api.HostID, c api.Claim, class api.ResourceClass, at api.Instant) int64 {
	if c.Class != api.Preemptible && m.span(id, c).Contains(at) {
		return c.Resources[class]
	}
	return 0
}

func (m *model) useNow(id api.HostID, class api.ResourceClass) int64 {
	use := m.firmAt(id, class, m.now)
	for _, c := range m.held[id] {
		if c.Class == api.Preemptible && m.span(id, c).End > m.now {
			use += c.Resources[class]
		}
	}
	return use
}

func (m *model) freeOver(id api.HostID, class api.ResourceClass, w api.Window, kind api.Class) int64 {
	if w.End <= m.now {
		return 0
	}
	if m.isWhole(id, w, kind) {
		return min(m.freeAtAll(id, class, w, kind), 0)
	}
	return m.freeAtAll(id, class, w, kind)
}

// freeAtAll is freeOver whether the whole host is claimed or not.
func (m *model) freeAtAll(id api.HostID, class api.ResourceClass, w api.Window, kind api.Class) int64 {
	total, end := m.capacity(id, class), w.End.Add(m.specs[id].Gap)
	if kind == api.Preemptible {
		return total - m.useNow(id, class) - m.closedNow(id, class)
	}
	instants := []api.Instant{max(w.Start, m.now)}
	for _, c := range m.firm(id) { // use rises only where a claim starts
		if s := c.Window.Start; s > instants[0] && s < end {
			instants = append(instants, s)
		}
	}
	free := total
	for _, at := range instants {
		free = min(free, total-m.firmAt(id, class, at))
	}
	if w.Start <= m.now && kind != api.Preempting {
		free = min(free, total-m.useNow(id, class))
	}
	return free
}

// closedNow returns what is closed to preemptibles now although it is not in use yet. Of a claim
// that is being replaced it is the greater of both.
func (m *model) closedNow(id api.HostID, class api.ResourceClass) int64 {
	closed := func(c api.Claim) int64 {
		if isClosed(c, m.now) {
			return c.Resources[class]
		}
		return 0
	}
	var sum int64
	for _, c := range m.held[id] {
		sum += closed(c)
	}
	for _, s := range m.swaps[id] {
		sum += max(closed(s.from), closed(s.to))
	}
	if sum > 0 {
		closedSeen++
	}
	return sum
}

// isClosed reports whether the room of a claim is closed to preemptibles before it is used.
func isClosed(c api.Claim, now api.Instant) bool {
	return c.Class != api.Preemptible && c.Window.Start.Add(-c.Grace) <= now && now < c.Window.Start
}

// closedSeen counts the answers in which a closing counted.
var closedSeen int

func (m *model) fits(id api.HostID, c api.Claim) api.Code {
	s, ok := m.specs[id]
	if !ok {
		return api.CodeNotFound
	}
	if c.Window.End <= m.now {
		return api.CodeInvalid
	}
	if m.isWhole(id, c.Window, c.Class) {
		return api.CodeNoCapacity
	}
	for _, class := range c.Resources.Classes() {
		if c.Resources[class] > m.freeOver(id, class, c.Window, c.Class) {
			return api.CodeNoCapacity
		}
		if !s.Inventory[class].Admits(c.Resources[class]) {
			return api.CodeInvalid
		}
	}
	return ""
}

// fitsWithin is fits for a claim within another: it looks at every instant at which one of
// those within begins.
func (m *model) fitsWithin(id api.HostID, c api.Claim) api.Code {
	s, outer := m.specs[id], c.Within
	if c.Window.End <= m.now || c.Window.Start < outer.Window.Start || c.Window.End > outer.Window.End {
		return api.CodeInvalid
	}
	for _, class := range c.Resources.Classes() {
		instants := []api.Instant{max(c.Window.Start, m.now)}
		for _, o := range m.inner[id] {
			if at := o.Window.Start; at > m.now && c.Window.Contains(at) {
				instants = append(instants, at)
			}
		}
		if c.Class == api.Preemptible { // it finds whatever is to come
			instants = []api.Instant{m.now}
			for _, o := range m.inner[id] {
				instants = append(instants, max(o.Window.Start, m.now))
			}
		}
		for _, at := range instants {
			used := c.Resources[class]
			for _, o := range m.inner[id] {
				switch {
				case o.Within.Consumer != outer.Consumer:
				case o.Class == api.Preemptible && (c.Class != api.Preemptible || !o.Window.Contains(m.now)):
				case o.Class == api.Preemptible || o.Window.Contains(at):
					used += o.Resources[class]
				}
			}
			if used > outer.Resources[class] {
				return api.CodeNoCapacity
			}
		}
		if !s.Inventory[class].Admits(c.Resources[class]) {
			return api.CodeInvalid
		}
	}
	return ""
}

// stepWithin makes a claim that others may be within, or claims within one, or releases that.
func (m *model) stepWithin(t *rapid.T, table *Table, id api.HostID) {
	outers := slices.DeleteFunc(slices.Clone(m.held[id]), func(c api.Claim) bool { return !strings.HasPrefix(string(c.Consumer), "outer") })
	inner := m.inner[id]
	switch op := rapid.IntRange(0, 3).Draw(t, "within"); {
	case len(outers) == 0 || op == 0:
		m.outer++
		c := drawClaim(t)
		c.Consumer = api.InstanceID(fmt.Sprint("outer", m.outer))
		if table.Claim(id, c) == nil {
			m.held[id] = append(m.held[id], c)
		}
	case op == 1 && len(inner) > 0:
		i := rapid.IntRange(0, len(inner)-1).Draw(t, "which")
		table.Release(id, inner[i])
		m.inner[id] = slices.Delete(slices.Clone(inner), i, i+1)
	default:
		c := drawClaim(t)
		c.Within = &outers[rapid.IntRange(0, len(outers)-1).Draw(t, "outer")]
		if rapid.IntRange(0, 2).Draw(t, "all its time") > 0 {
			c.Window = c.Within.Window
		}
		for class, n := range c.Resources {
			c.Resources[class] = min(n, c.Within.Resources[class]/2+1)
		}
		want := m.fitsWithin(id, c)
		require.Equal(t, want, api.CodeOf(table.Fits(id, c)), "%+v within %+v", c, c.Within)
		require.Equal(t, want, api.CodeOf(table.View().Fits(id, c)))
		_, err := table.Place(id, c)
		if m.specs[id].Passive {
			require.Equal(t, api.CodeNotFound, api.CodeOf(err))
			return
		}
		require.Equal(t, want, api.CodeOf(err))
		if err == nil {
			m.inner[id] = append(slices.Clip(inner), c)
			twice := c
			twice.Within = &c
			require.Equal(t, api.CodeInvalid, api.CodeOf(table.Fits(id, twice)))
			within++
		}
	}
}

// within counts the claims within others that were granted.
var within int

// hasInner reports whether a claim has others within it.
func (m *model) hasInner(id api.HostID, c api.Claim) bool {
	return slices.ContainsFunc(m.inner[id], func(o api.Claim) bool { return o.Within.Consumer == c.Consumer })
}

var (
	testIDs     = []api.HostID{"c", "d", "a", "b", "aaaaaaaa1", "aaaaaaaa2", "e"}
	testClasses = []api.ResourceClass{api.VCPU, api.MemoryMB, "CUSTOM_X"}
	testTraits  = []string{"SSD", "GPU"}
	testAZs     = []string{"", "az1", "az2"}

	testAttributes = []string{"arch", "price"}
)

func drawSpec(t *rapid.T) Spec {
	s := Spec{
		ID: rapid.SampledFrom(testIDs).Draw(t, "id"), Inventory: map[api.ResourceClass]api.Inventory{},
		Pool: rapid.SampledFrom(pools[:]).Draw(t, "pool"), Up: rapid.Bool().Draw(t, "up"),
		Enabled: rapid.Bool().Draw(t, "enabled"), NeedsCommand: rapid.Bool().Draw(t, "needs"),
		Gap:         time.Duration(rapid.IntRange(0, 2).Draw(t, "gap")) * time.Millisecond,
		Traits:      rapid.SliceOfN(rapid.SampledFrom(append(testTraits, api.TraitShares)), 0, 2).Draw(t, "traits"),
		Passive:     rapid.Bool().Draw(t, "passive"),
		Parent:      rapid.SampledFrom(append(testIDs, "")).Draw(t, "parent"),
		Aggregates:  rapid.SliceOfNDistinct(rapid.SampledFrom(testTraits), 0, 2, rapid.ID).Draw(t, "aggregates"),
		AZ:          rapid.SampledFrom(testAZs).Draw(t, "az"),
		Maintenance: rapid.Bool().Draw(t, "maintenance"), Failures: rapid.IntRange(0, 2).Draw(t, "failures"),
		Attributes: rapid.MapOfN(rapid.SampledFrom(testAttributes), rapid.SampledFrom([]string{"", "1.5", "true", "x"}), 0, 2).Draw(t, "attributes"),
	}
	s.Name = rapid.SampledFrom([]string{"", "one-", "two-"}).Draw(t, "name")
	if s.Name != "" {
		s.Name += string(s.ID)
	}
	for _, c := range testClasses {
		if rapid.IntRange(0, 3).Draw(t, "has") == 0 {
			continue
		}
		s.Inventory[c] = api.Inventory{
			Total:           rapid.Int64Range(0, 12).Draw(t, "total"),
			MinUnit:         rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(t, "min"),
			StepSize:        rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(t, "step"),
			MaxUnit:         rapid.SampledFrom([]int64{0, 0, 3}).Draw(t, "max"),
			AllocationRatio: rapid.SampledFrom([]api.Ratio{0, api.RatioOne / 2, 2 * api.RatioOne}).Draw(t, "ratio"),
		}
	}
	return s
}

func drawWindow(t *rapid.T) api.Window {
	start := api.Instant(rapid.Int64Range(0, 30).Draw(t, "start"))
	if rapid.Bool().Draw(t, "open") {
		return api.Window{Start: start, End: api.Forever}
	}
	return api.Window{Start: start, End: start + api.Instant(rapid.Int64Range(1, 12).Draw(t, "length"))}
}

func drawClaim(t *rapid.T) api.Claim {
	c := api.Claim{
		Resources: api.Resources{}, Window: drawWindow(t),
		Class: rapid.SampledFrom([]api.Class{api.Firm, api.Firm, api.Preemptible, api.Preempting}).Draw(t, "class"),
		Grace: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 4, 30}).Draw(t, "grace")) * time.Millisecond,
	}
	for _, k := range testClasses {
		if n := rapid.Int64Range(0, 4).Draw(t, "amount"); n > 0 {
			c.Resources[k] = n
		}
	}
	return c
}

// step makes one random change in both, and checks that they answer alike.
func step(t *rapid.T, table *Table, m *model) {
	id := rapid.SampledFrom(testIDs).Draw(t, "host")
	switch rapid.IntRange(0, 22).Draw(t, "op") {
	case 0, 1:
		s := drawSpec(t)
		if m.loops(s.ID, s.Parent) {
			s.Parent = ""
		}
		table.Put(s)
		if !s.Passive {
			s.Parent = ""
		}
		if old, known := m.specs[s.ID]; known {
			if idle := len(m.held[s.ID])+len(m.swaps[s.ID])+len(m.inner[s.ID]) == 0; idle && rapid.Bool().Draw(t, "regap") {
				table.SetGap(s.ID, s.Gap)
			} else {
				s.Gap = old.Gap
			}
		}
		m.specs[s.ID] = s
	case 2:
		if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
			table.Remove(id)
			delete(m.specs, id)
			delete(m.held, id)
			delete(m.inner, id)
			delete(m.swaps, id)
			delete(m.gens, id)
		}
	case 3:
		m.now += api.Instant(rapid.IntRange(0, 5).Draw(t, "later"))
		table.Advance(m.now)
		table.Advance(m.now - 3) // never back
	case 4, 5:
		if held := m.held[id]; len(held) > 0 {
			i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
			switch {
			case m.hasInner(id, held[i]):
				return
			case held[i].Consumer == lent:
				table.Return(id, held[i])
			default:
				table.Release(id, held[i])
			}
			m.held[id] = slices.Delete(slices.Clone(held), i, i+1)
		}
	case 6:
		_, known := m.specs[id]
		g := table.Bump(id)
		if known {
			m.gens[id]++
		}
		require.Equal(t, m.gens[id], g)
	case 7:
		c := drawClaim(t)
		if rapid.Bool().Draw(t, "lent") {
			c.Consumer = lent
		}
		if restore(table, id, c) {
			m.held[id] = append(m.held[id], c)
		}
	case 11, 12, 13:
		known := slices.DeleteFunc(slices.Clone(testIDs), func(id api.HostID) bool { _, ok := m.specs[id]; return !ok })
		for range min(len(known), 1) * 20 {
			m.stepWithin(t, table, known[0])
		}
	case 14, 15, 16:
		for range 4 {
			m.stepSwap(t, table, m.oneOf(t, id, func(id api.HostID) bool { return len(m.held[id])+len(m.swaps[id]) > 0 }))
		}
	case 17, 18:
		m.placeWhole(t, table, m.oneOf(t, id, func(id api.HostID) bool { return !m.specs[id].Passive }))
	case 8, 9, 10:
		m.place(t, table, id, drawClaim(t))
	default:
		c := drawClaim(t)
		want := m.fits(id, c)
		require.Equal(t, want, api.CodeOf(table.Fits(id, c)))
		require.Equal(t, want, api.CodeOf(table.Claim(id, c)))
		if want == "" {
			m.held[id] = append(m.held[id], c)
		}
	}
}

// check compares everything that a view says with the model.
func (m *model) check(t *rapid.T, v View) {
	require.Equal(t, len(m.specs), v.Providers().Len())
	require.Equal(t, m.now, v.Now())
	require.Equal(t, v.Len(), v.Hosts().Len())
	m.checkTrees(t, v)
	w, kind := drawWindow(t), rapid.SampledFrom([]api.Class{api.Firm, api.Preemptible, api.Preempting}).Draw(t, "kind")
	c := drawClaim(t)
	pass, alone := v.Providers(), v.Providers()
	v.KeepFitting(&pass, c.Resources, c.Window, c.Class)
	v.KeepFittingAlone(&alone, c.Resources, c.Window, c.Class)
	stocked, idle := v.Providers(), v.Providers()
	v.KeepStocked(&stocked)
	v.KeepIdle(&idle, w, kind)
	large, admitting := v.Providers(), v.Providers()
	v.KeepLarge(&large, c.Resources)
	v.KeepAdmitting(&admitting, c.Resources)
	for _, id := range testIDs {
		s, known := m.specs[id]
		row, found := v.Row(id)
		require.Equal(t, known, found)
		if !known {
			require.Equal(t, api.CodeNotFound, api.CodeOf(v.Fits(id, c)))
			continue
		}
		require.Equal(t, id, v.ID(row))
		require.Equal(t, m.gens[id], v.Generation(row))
		require.Equal(t, !s.Passive, v.Hosts().Has(row))
		require.Equal(t, s.Up && !s.Passive, v.Up().Has(row))
		require.Equal(t, s.Enabled && !s.Passive, v.Enabled().Has(row))
		free := v.Hosts()
		v.DropCommanded(&free)
		require.Equal(t, !s.NeedsCommand && !s.Passive, free.Has(row))
		for _, p := range pools {
			one, two := v.Hosts(), v.Hosts()
			v.KeepPools(&one, p, "none")
			v.KeepPools(&two, p, api.PoolShared)
			require.Equal(t, s.Pool == p && !s.Passive, one.Has(row))
			require.Equal(t, (s.Pool == p || s.Pool == api.PoolShared) && !s.Passive, two.Has(row))
		}
		for _, name := range testTraits {
			require.Equal(t, slices.Contains(s.Traits, name), v.Trait(name).Has(row))
			require.Equal(t, slices.Contains(s.Aggregates, name), v.Aggregate(name).Has(row))
			require.Equal(t, slices.Contains(s.Aggregates, name), v.AnyAggregate([]string{name, "none"}).Has(row))
		}
		require.Equal(t, len(s.Aggregates) > 0, v.AnyAggregate(testTraits).Has(row))
		m.checkDescription(t, v, row, s)
		require.Equal(t, m.fits(id, c) == "", alone.Has(row), "KeepFittingAlone %v", c)
		require.Equal(t, m.stocked(id), stocked.Has(row), "KeepStocked")
		require.Equal(t, !s.Passive && w.End > m.now && m.isIdle(id, w, kind), idle.Has(row), "KeepIdle %v", w)
		require.Equal(t, m.slots(id, c, 1) == 1, pass.Has(row), "KeepFitting %v", c)
		m.checkWhole(t, id, c.Resources, large.Has(row), admitting.Has(row))
		used := api.Resources{}
		for _, class := range testClasses {
			require.Equal(t, m.capacity(id, class), v.Capacity(row, class))
			require.Equal(t, m.sum(id, func(at api.HostID) int64 { return m.capacity(at, class) }), v.CapacityColumn(class)[row])
			use := m.useNow(id, class)
			if use != 0 {
				used[class] = use
			}
			require.Equal(t, m.capacity(id, class)-use, v.FreeNow(row, class))
			fromNow := m.capacity(id, class) - m.firmAt(id, class, m.now)
			for _, h := range m.firm(id) {
				if h.Window.Start > m.now {
					fromNow = min(fromNow, m.capacity(id, class)-m.firmAt(id, class, h.Window.Start))
				}
			}
			require.Equal(t, fromNow, v.FreeFromNow(row, class))
			free := m.freeOver(id, class, w, kind)
			require.Equal(t, free, v.FreeOver(row, class, w, kind), "FreeOver %v", w)
			free = m.sum(id, func(at api.HostID) int64 { return m.freeOver(at, class, w, kind) })
			require.Equal(t, free, v.FreeColumn(class, w, kind)[row], "FreeColumn %v", w)
		}
		require.Equal(t, used, v.Usage(id))
	}
}

// checkWhole compares what is said of an empty host.
func (m *model) checkWhole(t *rapid.T, id api.HostID, r api.Resources, large, admits bool) {
	wantLarge, wantAdmits := true, true
	for class, n := range r {
		someLarge, someFine := false, false
		for _, at := range m.sources(id) {
			if n <= m.capacity(at, class) {
				someLarge = true
				someFine = someFine || m.specs[at].Inventory[class].Admits(n)
			}
		}
		wantLarge = wantLarge && someLarge
		wantAdmits = wantAdmits && (!someLarge || someFine)
	}
	require.Equal(t, wantLarge, large, "KeepLarge %v", r)
	require.Equal(t, wantAdmits, admits, "KeepAdmitting %v", r)
}

// checkDescription compares what is said of the host in row beside its capacity.
func (m *model) checkDescription(t *rapid.T, v View, row int, s Spec) {
	for _, az := range testAZs {
		require.Equal(t, s.AZ == az && az != "", v.AZ(az).Has(row))
	}
	require.Equal(t, s.Maintenance && !s.Passive, v.Maintenance().Has(row))
	require.Equal(t, m.serving(s.ID), v.Serving().Has(row))
	require.Equal(t, s.Name, v.Name(row))
	require.Equal(t, s.Failures, v.Failures(row))
	require.Equal(t, int64(s.Failures), v.FailureColumn()[row])
	require.Equal(t, m.instances(s.ID), v.Instances(row))
	require.Equal(t, int64(m.instances(s.ID)), v.InstanceColumn()[row])
	for _, name := range testAttributes {
		want := Value{}
		if text, ok := s.Attributes[name]; ok {
			want = ParseValue(text)
		}
		require.Equal(t, want, v.Attribute(name).At(row))
		same := v.Providers()
		v.Attribute(name).Keep(&same, func(v *Value) bool { return *v == want })
		require.True(t, same.Has(row))
		v.Attribute(name).Keep(&same, func(v *Value) bool { return *v != want })
		require.Zero(t, same.Len())
	}
	for _, prefix := range []string{"one-", "two-"} {
		got, ok := v.Named(prefix + string(s.ID))
		require.Equal(t, s.Name == prefix+string(s.ID), ok)
		require.True(t, !ok || got == row)
	}
}

// fingerprint spells out everything that a view says.
func fingerprint(v View) string {
	out := fmt.Sprint(v.Len(), v.Now(), v.Classes(), v.Traits(), v.AZs(), v.Totals(), v.Report(5))
	for row := range v.Providers().All() {
		out += fmt.Sprint(v.Hosts().Has(row), v.Compound(row), v.Parent(row), v.Root(row), v.Tree(row), v.Sharers(row), v.TreeTrait("SSD").Has(row))
		out += fmt.Sprintln(row, v.ID(row), v.Spec(row), v.Generation(row), v.Usage(v.ID(row)),
			v.Up().Has(row), v.Enabled().Has(row), v.Trait("SSD").Has(row),
			v.Aggregate("SSD").Has(row), v.AZ("az1").Has(row), v.Maintenance().Has(row), v.Failures(row), v.Instances(row),
			v.Attribute("arch").At(row), v.Attribute("price").At(row))
		named, ok := v.Named("one-" + string(v.ID(row)))
		out += fmt.Sprint(named, ok)
		for _, c := range testClasses {
			out += fmt.Sprint(v.Capacity(row, c), v.FreeFromNow(row, c), v.FreeNow(row, c))
			for s := range api.Instant(30) {
				out += fmt.Sprint(" ", v.FreeOver(row, c, api.Window{Start: s, End: s + 1}, api.Firm))
			}
		}
	}
	return out
}

// checkUntil checks a property, and goes on for up to 20 times as many cases until it has seen enough of what is rare.
func checkUntil(t *testing.T, enough func() bool, prop func(*rapid.T)) {
	t.Helper()
	for round := 0; round == 0 || round < 20 && !enough(); round++ {
		rapid.Check(t, prop)
	}
}

func TestTableAgreesWithModel(t *testing.T) {
	within, closedSeen = 0, 0
	checkUntil(t, func() bool { return min(within, closedSeen) > 10 }, func(t *rapid.T) {
		table := NewTable()
		m := newModel()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			step(t, table, m)
			if rapid.IntRange(0, 2).Draw(t, "look") == 0 {
				m.check(t, table.View())
			}
		}
		m.check(t, table.View())
	})
	require.Greater(t, within, 10, "claims were granted within others")
	require.Greater(t, closedSeen, 10, "closings counted")
}

func TestViewsNeverChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable()
		m := newModel()
		var views []View
		var said []string
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			step(t, table, m)
			if rapid.IntRange(0, 3).Draw(t, "look") == 0 {
				v := table.View()
				views, said = append(views, v), append(said, fingerprint(v))
			}
		}
		for i, v := range views {
			require.Equal(t, said[i], fingerprint(v), "view %d", i)
		}
	})
}

// lent is the consumer of claims by somebody who is not on the provider.
const lent api.InstanceID = "lent"

// restore gives a table a claim that was made before.
func restore(table *Table, id api.HostID, c api.Claim) bool {
	if c.Consumer == lent {
		return table.Lend(id, c)
	}
	return table.Restore(id, c)
}

// instances counts the claims that are of those who are on a host.
func (m *model) instances(id api.HostID) int {
	n := 0
	for _, c := range m.held[id] {
		if c.Consumer != lent {
			n++
		}
	}
	for _, s := range m.swaps[id] {
		if s.from.Consumer != lent {
			n++
		}
	}
	return n + len(m.inner[id])
}

// A table that is built anew from what is left answers like the one that lived.
func TestRestoreAnswersAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable()
		m := newModel()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			step(t, table, m)
		}
		anew := NewTable()
		anew.Advance(m.now)
		for _, id := range testIDs {
			if s, ok := m.specs[id]; ok {
				anew.Put(s)
				require.True(t, anew.SetGeneration(id, m.gens[id]))
				for _, c := range slices.Concat(m.held[id], m.inner[id]) {
					require.True(t, restore(anew, id, c))
				}
				for _, s := range m.swaps[id] {
					require.True(t, restore(anew, id, s.from))
					require.True(t, anew.RestoreExtension(id, s.from, s.to))
				}
			}
		}
		m.check(t, anew.View())
		for range 10 {
			step(t, anew, m)
			m.check(t, anew.View())
		}
	})
}
