package filters

import (
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
)

// newPool returns the filter that passes hosts whose pool takes the request: one that reserves
// goes to reservable and shared hosts, and so does a preemptible one; any other firm request
// goes to on_demand and shared hosts, whether its window is open or bounded by a lifetime. What
// is within a reservation goes wherever its slots are, and maintenance to the hosts that it names.
func newPool() Filter {
	asks := func(l *Look) bool { return l.Req.Within == "" && !l.Req.Maintains() }
	return Filter{Name: namePool, Tier: api.TierNotAllowed, Asks: asks, Keep: func(l *Look, pass *capacity.Set) {
		own := api.PoolOnDemand
		if l.Req.Reserves || l.Req.Class == api.Preemptible {
			own = api.PoolReservable
		}
		l.View.KeepPools(pass, own, api.PoolShared)
	}}
}

// newProjectIsolation returns the filter that keeps projects to their hosts. An aggregate with metadata
// whose key begins with api.MetaProjects is for the projects that those values
// name. A host in such aggregates takes only projects that one of them names. If
// strict, a project that any aggregate names also takes no other host. A parent's
// projects are none that an aggregate of this zone names.
func newProjectIsolation(strict bool) Filter {
	asks := func(l *Look) bool { return slices.ContainsFunc(l.World.Aggregates, isClosed) }
	return Filter{Name: nameProjectIsolation, Tier: api.TierNotAllowed, Asks: asks, Keep: func(l *Look, pass *capacity.Set) {
		var isolated, mine []string
		for _, a := range l.World.Aggregates {
			is, names := isIsolated(a, string(l.Req.Project))
			if is {
				isolated = append(isolated, string(a.ID))
			}
			if names && l.Req.Origin == "" {
				mine = append(mine, string(a.ID))
			}
		}
		allowed := l.View.AnyAggregate(mine)
		if strict && len(mine) > 0 {
			pass.And(allowed)
			return
		}
		closed := l.View.AnyAggregate(isolated)
		closed.AndNot(allowed)
		pass.AndNot(closed)
	}}
}

// isClosed reports whether an aggregate is for some projects alone.
func isClosed(a *api.Aggregate) bool {
	for key := range a.Metadata { // in any order: each is looked at alone
		if strings.HasPrefix(key, api.MetaProjects) {
			return true
		}
	}
	return false
}

// isIsolated reports whether an aggregate is for some projects alone, and whether
// project is one of them.
func isIsolated(a *api.Aggregate, project string) (is, names bool) {
	for key, list := range a.Metadata { // in any order: each is looked at alone
		if strings.HasPrefix(key, api.MetaProjects) {
			is = true
			names = names || slices.Contains(splitWords(list), project)
		}
	}
	return is, names
}

// splitWords returns the parts of a comma separated list, without blanks around them
// and without empty ones.
func splitWords(list string) []string {
	var out []string
	for w := range strings.SplitSeq(list, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// newIsolated returns the filter that keeps some images to some hosts, both by name: these images run on
// these hosts only. If restrict, these hosts run these images only.
func newIsolated(images, hosts []string, restrict bool) Filter {
	asks := func(l *Look) bool { return restrict || slices.Contains(images, l.Group().Image.Ref) }
	return Filter{Name: nameIsolated, Tier: api.TierNotAllowed, Asks: asks, Keep: func(l *Look, pass *capacity.Set) {
		if slices.Contains(images, l.Group().Image.Ref) {
			pass.And(rowsByName(l.View, hosts))
		} else {
			pass.AndNot(rowsByName(l.View, hosts))
		}
	}}
}
