package filters

import (
	"cmp"
	"slices"

	"berth/api"
	"berth/capacity"
)

// SplitHostsMin is the number of hosts from which on a look goes through them in parts, if it
// has a way to.
const SplitHostsMin = 50_000

// partWords is the least that a part has, in words of a set.
const partWords = 16

// runParts is Run in the parts of l.Split. Each part has a set of its own with its words of the
// hosts; a filter clears each row by itself, so they come out as in one.
func runParts(fs []Filter, l *Look) (capacity.Set, api.Refusals) {
	hosts := l.View.Hosts()
	pass := capacity.NewSet(l.View.Rows())
	l.hardRules() // read once, and then by all
	found := make([][]count, (hosts.Words()+partWords-1)/partWords)
	l.Split(len(found), func(from, to int) {
		first, end := from*partWords, min(to*partWords, hosts.Words())
		own, mine := capacity.NewSet(l.View.Rows()), *l
		own.Copy(hosts, first, end)
		found[from] = runOn(fs, &mine, &own, 0)
		pass.Copy(own, first, end)
	})
	return pass, api.Refusals{Considered: hosts.Len(), Offering: pass.Len(), Filters: countsOf(addCounts(slices.Concat(found...)))}
}

// addCounts adds up counts of the same reason, and brings all into the order of a single run.
func addCounts(list []count) []count {
	slices.SortStableFunc(list, func(a, b count) int {
		return cmp.Or(cmp.Compare(a.filter, b.filter), cmp.Compare(a.part, b.part))
	})
	var out []count
	for _, c := range list {
		if last := len(out) - 1; last >= 0 && out[last].filter == c.filter && out[last].part == c.part {
			out[last].Hosts += c.Hosts
			continue
		}
		out = append(out, c)
	}
	return out
}
