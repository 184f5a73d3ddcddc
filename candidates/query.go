package candidates

import (
	"slices"

	"berth/api"
)

// Limits of one query and of the search for it. Each is inclusive and has a test at
// the limit and one past it.
const (
	GroupsMax   = 64      // groups of one query, and lists of Subtrees
	demandsMax  = 64      // lists of traits, Required and AnyOf together, of one group
	namesMax    = 1_000   // traits of one group, of the root, or aggregates of one group, in all lists together
	FoundMax    = 1 << 20 // candidates
	treeWorkMax = 1 << 20 // steps in one tree since a candidate was last found
	workMax     = 1 << 23 // steps in all since a candidate was last found
)

// Group is a part of a request that has a name. One provider serves all of a group
// with a suffix. The group without one may draw each class from another provider
// of the tree, or from a sharing one.
type Group struct {
	Suffix string
	// Resources of a suffixed group may be empty: the group then names a provider that
	// gives nothing. Such a group without required traits and without MemberOf has no
	// candidates.
	Resources api.Resources
	// Traits of a suffixed group are those of its provider. Of the other group,
	// all providers together have what is required, and none has what is forbidden.
	Traits api.Traits
	// MemberOf and NotMemberOf are about the provider of a suffixed group. Of the
	// other group, it suffices for a provider of the tree that its root is a member,
	// and neither it nor the root may be in an aggregate of NotMemberOf.
	MemberOf    [][]string     // in at least one aggregate of each list
	NotMemberOf []string       // in none of these aggregates
	InTree      api.ProviderID // each provider belongs to the tree that this one is in; "" for any
}

// Query is a request for candidates.
type Query struct {
	Groups        []Group    // 1 to GroupsMax, with different suffixes
	Isolate       bool       // no two suffixed groups are served by one provider
	Subtrees      [][]string // suffixes: one provider of these groups is an ancestor of all others of them, or each of them itself
	RootRequired  []string   // traits that the root of the anchor has
	RootForbidden []string   // and has not
	Flat          bool       // no two providers of a candidate belong to one tree
	Work          *Work      // if not nil, is written while candidates are taken
}

// Work reports the course of a search.
type Work struct {
	Trees int  // trees that were searched
	Steps int  // providers looked at, and choices tried
	Found int  // candidates yielded
	Cut   bool // a limit ended the search, of a tree or in all: there may be more candidates
}

// Part is the share of one provider in one group.
type Part struct {
	Group     int           // index in Query.Groups
	Row       int           // of the view
	Resources api.Resources // may be empty; shared, and must not be written
}

// Candidate is one way to serve a query: parts in order of groups, and those of
// the group without a suffix in the order of View.Tree and then of View.Sharers.
type Candidate struct{ Parts []Part }

// Validate returns an invalid-input error for a query beyond a limit, without a group, with
// two groups of one suffix, with a group without a suffix that requests nothing, or with a
// subtree of unknown groups.
func (q *Query) Validate() error {
	if len(q.Groups) < 1 || len(q.Groups) > GroupsMax {
		return api.Errorf(api.CodeInvalid, "a request must have 1 to %d groups, got %d", GroupsMax, len(q.Groups))
	}
	for i := range q.Groups {
		if err := q.Groups[i].validate(); err != nil {
			return err
		}
		if q.groupIndex(q.Groups[i].Suffix) != i {
			return api.Errorf(api.CodeInvalid, "two groups have the suffix %q", q.Groups[i].Suffix)
		}
	}
	if len(q.RootRequired)+len(q.RootForbidden) > namesMax {
		return api.Errorf(api.CodeInvalid, "at most %d traits of the root are allowed", namesMax)
	}
	if len(q.Subtrees) > GroupsMax {
		return api.Errorf(api.CodeInvalid, "at most %d subtrees are allowed, got %d", GroupsMax, len(q.Subtrees))
	}
	for _, list := range q.Subtrees {
		for _, suffix := range list {
			if suffix == "" || q.groupIndex(suffix) < 0 {
				return api.Errorf(api.CodeInvalid, "no group with the suffix %q can be in a subtree", suffix)
			}
		}
	}
	return nil
}

// groupIndex returns the index of the first group with a suffix, or -1.
func (q *Query) groupIndex(suffix string) int {
	return slices.IndexFunc(q.Groups, func(g Group) bool { return g.Suffix == suffix })
}

func (g *Group) validate() error {
	if err := g.Resources.Validate(); err != nil {
		return err
	}
	if g.Suffix == "" && len(g.Resources) == 0 {
		return api.Errorf(api.CodeInvalid, "the group without a suffix must want resources")
	}
	if n := len(g.Traits.Required) + len(g.Traits.AnyOf); n > demandsMax {
		return api.Errorf(api.CodeInvalid, "a group may require at most %d traits, got %d", demandsMax, n)
	}
	traits := len(g.Traits.Required) + len(g.Traits.Forbidden) + countNames(g.Traits.AnyOf)
	if aggregates := len(g.NotMemberOf) + countNames(g.MemberOf); max(traits, aggregates) > namesMax {
		return api.Errorf(api.CodeInvalid, "a group may name at most %d traits and %d aggregates", namesMax, namesMax)
	}
	return nil
}

// countNames returns the number of names in lists.
func countNames(lists [][]string) int {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	return n
}
