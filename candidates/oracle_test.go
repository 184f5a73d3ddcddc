package candidates

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
	"berth/internal/dice"
)

// fact is a provider as the oracle knows it.
type fact struct {
	spec capacity.Spec
	row  int
}

// brute finds candidates by trying everybody for everything at every anchor, and
// looking at the rules afterwards.
type brute struct {
	v     capacity.View
	q     *Query
	facts map[api.ProviderID]*fact
	found map[string]bool
}

func (b *brute) root(id api.ProviderID) api.ProviderID {
	for b.facts[id].spec.Parent != "" {
		id = b.facts[id].spec.Parent
	}
	return id
}

func (b *brute) above(a, id api.ProviderID) bool {
	for ; id != ""; id = b.facts[id].spec.Parent {
		if id == a {
			return true
		}
	}
	return false
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// reaches reports whether a tree may draw from a provider.
func (b *brute) reaches(anchor, id api.ProviderID) bool {
	if b.root(id) == anchor {
		return true
	}
	for other, f := range b.facts {
		if b.root(other) == anchor && slices.Contains(b.facts[id].spec.Traits, api.TraitShares) && meet(f.spec.Aggregates, b.facts[id].spec.Aggregates) {
			return true
		}
	}
	return false
}

func (b *brute) gives(id api.ProviderID, class api.ResourceClass, n int64) bool {
	f := b.facts[id]
	return f.spec.Inventory[class].Admits(n) && n <= b.v.FreeNow(f.row, class) && n <= b.v.FreeFromNow(f.row, class)
}

func (b *brute) member(id api.ProviderID, lists [][]string) bool {
	for _, list := range lists {
		if !meet(list, b.facts[id].spec.Aggregates) {
			return false
		}
	}
	return true
}

// cell is one thing to be served, and by whom.
type cell struct {
	group int
	class api.ResourceClass // of the group without a suffix
	by    api.ProviderID
}

func (b *brute) search(anchor api.ProviderID) {
	for _, t := range b.q.RootRequired {
		if !slices.Contains(b.facts[anchor].spec.Traits, t) {
			return
		}
	}
	if meet(b.q.RootForbidden, b.facts[anchor].spec.Traits) {
		return
	}
	var cells []cell
	for i, g := range b.q.Groups {
		if g.Suffix != "" {
			cells = append(cells, cell{group: i})
			continue
		}
		for _, class := range g.Resources.Classes() {
			cells = append(cells, cell{group: i, class: class})
		}
	}
	b.fill(anchor, cells, 0)
}

func (b *brute) fill(anchor api.ProviderID, cells []cell, at int) {
	if at == len(cells) {
		if b.right(anchor, cells) {
			b.found[b.tell(cells)] = true
		}
		return
	}
	for id := range b.facts {
		if b.reaches(anchor, id) {
			cells[at].by = id
			b.fill(anchor, cells, at+1)
		}
	}
}

// right looks at every rule.
func (b *brute) right(anchor api.ProviderID, cells []cell) bool {
	sums := map[api.ProviderID]api.Resources{}
	add := func(id api.ProviderID, class api.ResourceClass, n int64) {
		if sums[id] == nil {
			sums[id] = api.Resources{}
		}
		sums[id][class] += n
	}
	union := map[int][]string{}
	for _, c := range cells {
		g := b.q.Groups[c.group]
		f := b.facts[c.by]
		union[c.group] = append(union[c.group], f.spec.Traits...)
		if meet(g.Traits.Forbidden, f.spec.Traits) || meet(g.NotMemberOf, f.spec.Aggregates) {
			return false
		}
		if g.InTree != "" && (b.facts[g.InTree] == nil || b.root(g.InTree) != b.root(c.by)) {
			return false
		}
		if g.Suffix == "" {
			if !b.gives(c.by, c.class, g.Resources[c.class]) || !b.spreads(anchor, c.by, g) {
				return false
			}
			add(c.by, c.class, g.Resources[c.class])
			continue
		}
		if !b.member(c.by, g.MemberOf) || len(g.Resources)+len(g.MemberOf)+len(g.Traits.Required)+len(g.Traits.AnyOf) == 0 {
			return false
		}
		for class, n := range g.Resources {
			if !b.gives(c.by, class, n) {
				return false
			}
			add(c.by, class, n)
		}
	}
	for id, r := range sums {
		for class, n := range r {
			if !b.gives(id, class, n) {
				return false
			}
		}
	}
	for i, g := range b.q.Groups {
		for _, t := range g.Traits.Required {
			if !slices.Contains(union[i], t) {
				return false
			}
		}
		for _, list := range g.Traits.AnyOf {
			if !meet(list, union[i]) {
				return false
			}
		}
	}
	return b.related(cells)
}

// spreads looks at the rules of the group without a suffix that know of the
// anchor.
func (b *brute) spreads(anchor, by api.ProviderID, g Group) bool {
	if meet(g.NotMemberOf, b.facts[anchor].spec.Aggregates) || g.InTree != "" && b.root(g.InTree) != anchor {
		return false
	}
	return b.member(by, g.MemberOf) || b.root(by) == anchor && b.member(anchor, g.MemberOf)
}

// related looks at the rules between providers.
func (b *brute) related(cells []cell) bool {
	for i, c := range cells {
		for _, o := range cells[:i] {
			if b.q.Isolate && c.class == "" && o.class == "" && c.by == o.by {
				return false
			}
			if b.q.Flat && c.by != o.by && b.root(c.by) == b.root(o.by) {
				return false
			}
		}
	}
	for _, list := range b.q.Subtrees {
		var named []api.ProviderID
		for _, c := range cells {
			if slices.Contains(list, b.q.Groups[c.group].Suffix) {
				named = append(named, c.by)
			}
		}
		if !slices.ContainsFunc(named, func(top api.ProviderID) bool {
			return !slices.ContainsFunc(named, func(id api.ProviderID) bool { return !b.above(top, id) })
		}) {
			return false
		}
	}
	return true
}

// tell writes cells as tell writes a candidate, but for the order of parts.
func (b *brute) tell(cells []cell) string {
	var c Candidate
	for _, x := range cells {
		row := b.facts[x.by].row
		if x.class == "" {
			c.Parts = append(c.Parts, Part{x.group, row, b.q.Groups[x.group].Resources})
			continue
		}
		k := slices.IndexFunc(c.Parts, func(p Part) bool { return p.Group == x.group && p.Row == row })
		if k < 0 {
			k = len(c.Parts)
			c.Parts = append(c.Parts, Part{x.group, row, api.Resources{}})
		}
		c.Parts[k].Resources[x.class] = b.q.Groups[x.group].Resources[x.class]
	}
	return canonical(b.v, b.q, c)
}

func canonical(v capacity.View, q *Query, c Candidate) string {
	parts := make([]string, len(c.Parts))
	for i, p := range c.Parts {
		parts[i] = tell(v, q, Candidate{[]Part{p}})
	}
	return fmt.Sprint(sorted(parts))
}

var (
	someTraits     = []string{"A", "B", "C"}
	someAggregates = []string{"x", "y", "z"}
	someClasses    = []api.ResourceClass{api.VCPU, api.MemoryMB, api.DiskGB}
)

func chosen[T any](t *rapid.T, from []T, in int, label string) []T {
	var out []T
	for _, x := range from {
		if rapid.IntRange(1, in).Draw(t, label) == 1 {
			out = append(out, x)
		}
	}
	return out
}

// drawn makes a small world.
func drawn(t *rapid.T) (capacity.View, map[api.ProviderID]*fact) {
	table := capacity.NewTable()
	table.Advance(1000)
	facts := map[api.ProviderID]*fact{}
	depth := map[api.ProviderID]int{"": 0}
	n := rapid.IntRange(1, 7).Draw(t, "providers")
	names := rapid.Permutation([]api.ProviderID{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "names")[:n]
	for i, id := range names {
		s := capacity.Spec{Up: true, Enabled: true, ID: id, Inventory: map[api.ResourceClass]api.Inventory{}}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "nested") > 0 {
			if parent := names[rapid.IntRange(0, i-1).Draw(t, "parent")]; depth[parent] < 4 {
				s.Parent = parent
			}
		}
		depth[id] = depth[s.Parent] + 1
		s.Passive = s.Parent != "" || rapid.Bool().Draw(t, "passive")
		s.Traits = chosen(t, someTraits, 2, "trait")
		if rapid.IntRange(0, 2).Draw(t, "shares") == 0 {
			s.Traits = append(s.Traits, api.TraitShares)
		}
		s.Aggregates = chosen(t, someAggregates, 2, "aggregate")
		for _, class := range someClasses {
			if rapid.IntRange(0, 3).Draw(t, "class") == 0 {
				continue
			}
			s.Inventory[class] = api.Inventory{
				Total: rapid.Int64Range(1, 8).Draw(t, "total"), MinUnit: rapid.SampledFrom([]int64{0, 0, 1, 2}).Draw(t, "min"),
				MaxUnit: rapid.SampledFrom([]int64{0, 0, 0, 3}).Draw(t, "max"), StepSize: rapid.SampledFrom([]int64{0, 0, 0, 2}).Draw(t, "step"),
			}
		}
		table.Put(s)
		facts[id] = &fact{spec: s}
		if class := rapid.SampledFrom(someClasses).Draw(t, "used"); s.Inventory[class].Total > 1 {
			from := rapid.SampledFrom([]api.Instant{1000, 2000}).Draw(t, "from")
			table.Restore(id, api.Claim{
				Resources: api.Resources{class: rapid.Int64Range(1, 3).Draw(t, "use")},
				Window:    api.Window{Start: from, End: from.Add(time.Hour)}, Class: rapid.SampledFrom([]api.Class{api.Firm, api.Preemptible}).Draw(t, "kind"),
			})
		}
	}
	v := table.View()
	for id, f := range facts {
		f.row, _ = v.Row(id)
	}
	return v, facts
}

// wanted makes a query.
func wanted(t *rapid.T) *Query {
	q := &Query{Isolate: rapid.Bool().Draw(t, "isolate"), Flat: rapid.IntRange(0, 5).Draw(t, "flat") == 0}
	ids := append(slices.Repeat([]api.ProviderID{""}, 20), "a", "b", "nobody")
	suffixes := rapid.SampledFrom([][]string{{""}, {"", "1"}, {"1"}, {"1", "2"}, {"", "1", "2"}, {"1", "2", "3"}}).Draw(t, "suffixes")
	for _, suffix := range suffixes {
		g := Group{Suffix: suffix, Resources: api.Resources{}, InTree: rapid.SampledFrom(ids).Draw(t, "in tree")}
		for _, class := range chosen(t, someClasses, 2, "wanted") {
			g.Resources[class] = rapid.Int64Range(1, 2).Draw(t, "amount")
		}
		if len(g.Resources) == 0 && (suffix == "" || rapid.IntRange(0, 3).Draw(t, "nothing") > 0) {
			g.Resources[rapid.SampledFrom(someClasses).Draw(t, "class")] = 1
		}
		g.Traits.Required = chosen(t, someTraits, 8, "required")
		g.Traits.Forbidden = chosen(t, someTraits, 20, "forbidden")
		if rapid.IntRange(0, 5).Draw(t, "any") == 0 {
			g.Traits.AnyOf = [][]string{append(chosen(t, someTraits, 2, "any of"), "A")}
		}
		if rapid.IntRange(0, 8).Draw(t, "member") == 0 {
			g.MemberOf = [][]string{append(chosen(t, someAggregates, 2, "member of"), "x")}
		}
		g.NotMemberOf = chosen(t, someAggregates, 20, "not member of")
		q.Groups = append(q.Groups, g)
	}
	if suffixes[len(suffixes)-1] > "1" && rapid.Bool().Draw(t, "subtree") {
		q.Subtrees = [][]string{{"1", "2"}}
		if suffixes[len(suffixes)-1] == "3" {
			q.Subtrees = append(q.Subtrees, append(chosen(t, []string{"1", "2"}, 2, "list"), "3"))
		}
	}
	q.RootRequired = chosen(t, someTraits, 20, "root required")
	q.RootForbidden = chosen(t, someTraits, 20, "root forbidden")
	return q
}

// TestOracle holds Each to what trying everything finds, on small worlds.
func TestOracle(t *testing.T) {
	queries, served, most := 0, 0, 0
	compareOne := func(t *rapid.T) {
		v, facts := drawn(t)
		for range 20 {
			b := &brute{v: v, facts: facts, q: wanted(t), found: map[string]bool{}}
			n := b.compare(t)
			queries, most = queries+1, max(most, n)
			if n > 0 {
				served++
			}
		}
	}
	dice.Enough(t, func() { rapid.Check(t, compareOne) }, func() string {
		if served*20 > queries && most > 8 {
			return ""
		}
		return fmt.Sprintf("of %d queries %d had candidates, at most %d", queries, served, most)
	})
}

// compare returns how many candidates there are.
func (b *brute) compare(t *rapid.T) int {
	for id, f := range b.facts {
		if f.spec.Parent == "" {
			b.search(id)
		}
	}
	b.q.Work = &Work{}
	got, want := []string{}, []string{}
	for c := range Each(b.v, b.q) {
		got = append(got, canonical(b.v, b.q, c))
	}
	for s := range b.found {
		want = append(want, s)
	}
	require.Equal(t, sorted(want), sorted(got), "%+v", b.q)
	require.Equal(t, Work{Trees: b.q.Work.Trees, Steps: b.q.Work.Steps, Found: len(got)}, *b.q.Work)
	return len(got)
}
