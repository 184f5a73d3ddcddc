package candidates

import (
	"iter"
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/capacity/queue"
)

// bounds are the limits of the work of one search.
type bounds struct{ found, tree, all int }

// Each yields the candidates for q, each once and at most FoundMax. An invalid q has none;
// call Query.Validate before. The view and q must not change meanwhile. A candidate belongs
// to the caller, except for its Resources. Each call of the result searches again.
func Each(v capacity.View, q *Query) iter.Seq[Candidate] {
	return eachCandidate(v, q, bounds{found: FoundMax, tree: treeWorkMax, all: workMax})
}

func eachCandidate(v capacity.View, q *Query, limit bounds) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		work := q.Work
		if work == nil {
			work = &Work{}
		}
		*work = Work{}
		if q.Validate() != nil {
			return
		}
		s := &search{v: v, q: q, limit: limit, work: work, yield: yield, free: q.groupIndex("")}
		if s.prepareQuery() {
			s.searchTrees()
		}
	}
}

// want is one choice: the provider of a suffixed group, or of one class of the group without
// a suffix.
type want struct {
	group   int // index in Query.Groups
	amounts []amount
	most    int64        // of amounts
	rows    capacity.Set // that may be chosen at some anchor
}

type amount struct {
	class int // index in search.classes
	n     int64
}

// search is one run of Each.
type search struct {
	v         capacity.View
	q         *Query
	limit     bounds
	work      *Work
	yield     func(Candidate) bool
	free      int // index of the group without a suffix, or -1
	classes   []api.ResourceClass
	wants     []want
	open      capacity.Set // providers that take new claims: not in trees of hosts that take none
	sharing   capacity.Set // providers that share
	rootOf    []int32      // row of the root, by row
	roots     capacity.Set // that may be anchors
	subtrees  [][]int      // wants, for each list of Query.Subtrees
	rivalries []rivalry

	// Of the group without a suffix:
	having   []capacity.Set     // who has one trait of each list that is demanded
	isMember func(row int) bool // who meets MemberOf; nil if all do

	since   int  // steps since a candidate was found
	offered keys // what sharing providers offered to trees that were searched
	given   keys // candidates of sharing providers alone
	stop    bool
	tree    tree // that is being searched
}

// prepareQuery computes what does not depend on single trees. It returns false if there can
// be no candidate.
func (s *search) prepareQuery() bool {
	s.sharing = s.v.Trait(api.TraitShares)
	s.given, s.offered = keys{}, keys{}
	s.findRoots()
	for _, name := range s.q.RootRequired {
		s.roots.And(s.v.Trait(name))
	}
	s.roots.AndNot(anyTrait(s.v, s.q.RootForbidden))
	for i := range s.q.Groups {
		if i == s.free {
			s.addUnsuffixed(i)
		} else {
			s.addSuffixed(i)
		}
		if s.roots.Empty() {
			return false
		}
	}
	for i := range s.wants {
		s.roots.And(s.anchorsOf(s.wants[i].rows))
	}
	for _, list := range s.q.Subtrees {
		var wants []int
		for i := range s.wants {
			if slices.Contains(list, s.q.Groups[s.wants[i].group].Suffix) {
				wants = append(wants, i)
			}
		}
		s.subtrees = append(s.subtrees, wants)
	}
	s.findRivals()
	return !s.roots.Empty()
}

// findRoots finds the root of each provider, and the open providers.
func (s *search) findRoots() {
	all, hosts := s.v.Providers(), s.v.Hosts()
	closed := hosts.Clone()
	closed.AndNot(s.v.Serving())
	s.open = all.Clone()
	s.rootOf = make([]int32, s.v.Rows())
	s.roots = hosts
	for row := range all.All() {
		root := row
		if !hosts.Has(row) {
			root = s.v.Root(row)
		}
		s.rootOf[row] = int32(root)
		s.roots.Add(root)
		if closed.Has(root) {
			s.open.Remove(row)
		}
	}
}

// addSuffixed adds the want of a suffixed group.
func (s *search) addSuffixed(i int) {
	g := &s.q.Groups[i]
	w := want{group: i, rows: s.open.Clone()}
	if len(g.Resources) == 0 && len(g.Traits.Required)+len(g.Traits.AnyOf)+len(g.MemberOf) == 0 {
		w.rows = capacity.NewSet(s.v.Rows())
	}
	keepTraits(s.v, &w.rows, g.Traits)
	keepMembers(s.v, &w.rows, g.MemberOf)
	w.rows.AndNot(s.v.AnyAggregate(g.NotMemberOf))
	if g.InTree != "" {
		tree, _ := treeOf(s.v, g.InTree)
		w.rows.And(tree)
	}
	keepRoom(s.v, &w.rows, g.Resources)
	for _, class := range g.Resources.Classes() {
		w.amounts = append(w.amounts, amount{s.classIndex(class), g.Resources[class]})
		w.most = max(w.most, g.Resources[class])
	}
	s.wants = append(s.wants, w)
}

// addUnsuffixed adds the wants of the group without a suffix.
func (s *search) addUnsuffixed(i int) {
	g := &s.q.Groups[i]
	rows := s.open.Clone()
	rows.AndNot(anyTrait(s.v, g.Traits.Forbidden))
	barred := s.v.AnyAggregate(g.NotMemberOf)
	rows.AndNot(barred)
	s.roots.AndNot(barred)
	if g.InTree != "" {
		tree, root := treeOf(s.v, g.InTree)
		rows.And(tree)
		only := capacity.NewSet(s.v.Rows())
		only.Add(root)
		s.roots.And(only)
	}
	if len(g.MemberOf) > 0 {
		member := s.v.Providers()
		keepMembers(s.v, &member, g.MemberOf)
		s.isMember = member.Has
	}
	givers := capacity.NewSet(s.v.Rows())
	for _, class := range g.Resources.Classes() {
		n := g.Resources[class]
		w := want{group: i, rows: rows.Clone(), amounts: []amount{{s.classIndex(class), n}}, most: n}
		keepRoom(s.v, &w.rows, api.Resources{class: n})
		givers.Or(w.rows)
		s.wants = append(s.wants, w)
	}
	for _, demand := range demandsOf(g.Traits) {
		having := anyTrait(s.v, demand)
		having.And(givers)
		s.having = append(s.having, having)
		s.roots.And(s.anchorsOf(having))
	}
}

// classIndex returns the index of a class in classes.
func (s *search) classIndex(name api.ResourceClass) int {
	i := slices.Index(s.classes, name)
	if i < 0 {
		i = len(s.classes)
		s.classes = append(s.classes, name)
	}
	return i
}

// anchorsOf returns the roots of the trees that may draw from one of rows: the trees that
// contain them, and those that sharing providers among them reach.
func (s *search) anchorsOf(rows capacity.Set) capacity.Set {
	out := capacity.NewSet(s.v.Rows())
	for row := range rows.All() {
		out.Add(int(s.rootOf[row]))
	}
	shared := rows.Clone()
	shared.And(s.sharing)
	var aggregates []string
	for row := range shared.All() {
		aggregates = append(aggregates, s.v.Spec(row).Aggregates...)
	}
	slices.Sort(aggregates)
	near := s.v.AnyAggregate(slices.Compact(aggregates))
	for row := range near.All() {
		out.Add(int(s.rootOf[row]))
	}
	return out
}

// searchTrees searches tree after tree.
func (s *search) searchTrees() {
	order := queue.New(s.v, s.roots.Len()) // sorted only as far as it is read: the first few of many cost little
	for row := range s.roots.All() {
		order.Add(row, 0, 0)
	}
	order.Sort()
	compounds, hosts := s.v.Compounds(), s.v.Hosts()
	for o := order.First(); o != nil && !s.stop; o = order.First() {
		at := int(o.Row)
		order.Pop()
		s.work.Trees++
		s.tree.searchFrom(s, at, hosts.Has(at) && !compounds.Has(at))
	}
}

// spendWork counts work.
func (s *search) spendWork(n int) {
	s.work.Steps += n
	s.since += n
	s.tree.since += n
}

// countStep counts work and reports whether more is allowed. If not, the search ends, of
// this tree or as a whole.
func (s *search) countStep(n int) bool {
	s.spendWork(n)
	if s.since > s.limit.all {
		s.stop, s.work.Cut = true, true
	} else if s.tree.since > s.limit.tree {
		s.work.Cut = true
		return false
	}
	return !s.stop
}

// yieldCandidate yields a candidate and reports whether the caller wants more.
func (s *search) yieldCandidate(c Candidate) bool {
	if s.work.Found == s.limit.found {
		s.stop, s.work.Cut = true, true
		return false
	}
	s.work.Found++
	s.since, s.tree.since = 0, 0
	s.stop = !s.yield(c)
	return !s.stop
}
