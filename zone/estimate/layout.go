package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/filters"
	"berth/raftstore/state"
)

// refusedLayout is the name under which a refusal says that the zone does not show parents all of its
// hosts. It counts one host, however many are hidden, and is there even if none is.
const refusedLayout = "layout"

// shownCache has the hosts that parents are shown at one log index: they are the same whatever is
// claimed.
type shownCache struct{ at atomic.Pointer[shownRows] }

// shownRows are the rows of hosts that are shown at an index.
type shownRows struct {
	index uint64
	rows  capacity.Set
}

// hostsFor returns the host table that a request is planned on: all hosts for one of this zone, those
// that are shown for one of a parent.
func (e *Estimator) hostsFor(v *state.State, req *api.Request) capacity.View {
	if req.Origin == "" {
		return v.Hosts()
	}
	return e.shownHosts(v)
}

// shownHosts returns the host table as parents are shown it. All that they are told of own hosts comes
// from it, so that nothing which they ask or hold depends on more.
func (e *Estimator) shownHosts(v *state.State) capacity.View {
	if !v.Config.HidesLayout {
		return v.Hosts()
	}
	c := e.shown.at.Load()
	if c == nil || c.index != v.Index() {
		c = &shownRows{v.Index(), chooseShown(v.Hosts(), v.Config.PublicAttributes)}
		e.shown.at.Store(c)
	}
	return v.Hosts().Among(c.rows)
}

// chooseShown returns the rows of the hosts that are shown: of n that serve, the largest power of two
// that is at most n. Of each kind there are as many as of any other while there are that many, so that a rare
// kind can be had. What is claimed has no part in the choice: else a parent could change it.
func chooseShown(v capacity.View, public []string) capacity.Set {
	serving := v.Serving()
	kinds := map[string][]int{}
	for row := range serving.All() {
		k := kindOf(v, row, public)
		kinds[k] = append(kinds[k], row)
	}
	out := capacity.NewSet(v.Rows())
	left, order := roundToPower(int64(serving.Len())), slices.Sorted(maps.Keys(kinds))
	for _, rows := range kinds {
		slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(v.ID(a), v.ID(b)) })
	}
	for nth := 0; left > 0; nth++ {
		for _, k := range order {
			if rows := kinds[k]; nth < len(rows) && left > 0 {
				out.Add(rows[nth])
				left--
			}
		}
	}
	return out
}

// kindOf returns a text that two hosts have in common if a parent could not ask for one and not for
// the other while nothing is claimed of them.
func kindOf(v capacity.View, row int, public []string) string {
	s := v.Spec(row)
	var b strings.Builder
	for _, class := range slices.Sorted(maps.Keys(s.Inventory)) {
		fmt.Fprintf(&b, "%s%+v ", class, s.Inventory[class])
	}
	fmt.Fprintf(&b, "%q %q %q %q %t", slices.Sorted(slices.Values(s.Traits)), slices.Sorted(slices.Values(s.Aggregates)), s.AZ, s.Pool, s.NeedsCommand)
	for _, name := range slices.Concat(filters.AlwaysPublic[:], public) {
		fmt.Fprintf(&b, " %q", s.Attributes[name])
	}
	for _, list := range [][]int32{v.Tree(row)[1:], v.Sharers(row)} {
		fmt.Fprintf(&b, " %d", len(list))
	}
	return b.String()
}

// explainHidden says in the refusals of a plan for a parent that came out short that there may be hosts
// which it is not shown.
func explainHidden(v *state.State, req *api.Request, p *buildplan.Plan) {
	if req.Origin == "" || req.Within != "" || !v.Config.HidesLayout {
		return
	}
	for g := range p.Groups {
		if gp := &p.Groups[g]; len(gp.Slots) < req.Groups[g].Count {
			gp.Refusals.Filters = append(gp.Refusals.Filters, api.FilterCount{Filter: refusedLayout, Hosts: 1, Tier: api.TierNotAllowed})
			gp.Refusals.Considered++
		}
	}
}
