package model

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"berth/api"
)

// amount names one class of one provider.
type amount struct {
	host  api.HostID
	class api.ResourceClass
}

// victim is an instance that may leave, or a gang of them.
type victim struct {
	name  string
	id    api.InstanceID
	gang  string
	frees map[amount]int64
	lost  int64       // run time
	start api.Instant // the latest of a gang
}

// compareVictims orders victims: the least run time lost, then the youngest, then by name.
func compareVictims(a, b victim) int {
	return cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(b.start, a.start), cmp.Compare(a.name, b.name))
}

// choose returns which of some instances leave, so that what is needed becomes free, or as much of it
// as can be: the fewest gangs, then the least run time lost, then the youngest. It computes
// everything anew at each step.
func (m *Model) choose(need map[amount]int64, staying []api.InstanceID) (leave []api.InstanceID) {
	var all []victim
	for _, id := range staying {
		i := m.Instances[id]
		r := &i.Hold.Request
		v := victim{
			name: string(id), id: id, gang: string(i.Hold.ID.Origin) + "\x00" + string(r.Project) + "\x00" + string(r.Reservation),
			frees: m.usesOf(id), start: i.Made,
		}
		if i.Status != api.StatusActive {
			v.start = m.Now // nothing runs that could be lost
		}
		v.lost = max(int64(m.Now-v.start), 0)
		all = append(all, v)
	}
	can := map[amount]int64{}
	for k, n := range need {
		if n = min(n, freed(all, k)); n > 0 {
			can[k] = n
		}
	}
	for _, v := range choosable(can, all) {
		leave = append(leave, v.id)
	}
	slices.Sort(leave)
	return leave
}

// freed returns how much of one amount is free without some victims.
func freed(vs []victim, k amount) (sum int64) {
	for _, v := range vs {
		sum += v.frees[k]
	}
	return sum
}

// enough reports whether what is needed is free without some victims.
func enough(need map[amount]int64, vs []victim) bool {
	for k, n := range need {
		if freed(vs, k) < n {
			return false
		}
	}
	return true
}

// inGang returns those of a gang.
func inGang(vs []victim, gang string) (out []victim) {
	for _, v := range vs {
		if v.gang == gang {
			out = append(out, v)
		}
	}
	return out
}

// asOne returns the loss of several victims as that of one.
func asOne(name string, vs []victim) victim {
	out := victim{name: name, start: vs[0].start}
	for _, v := range vs {
		out.lost += v.lost
		out.start = max(out.start, v.start)
	}
	return out
}

// without leaves out victims as long as the others are enough, the worst loss first.
func without(need map[amount]int64, vs []victim) []victim {
	worst := slices.SortedFunc(slices.Values(vs), func(a, b victim) int { return compareVictims(b, a) })
	for _, v := range worst {
		if rest := slices.DeleteFunc(slices.Clone(vs), func(o victim) bool { return o.id == v.id }); enough(need, rest) {
			vs = rest
		}
	}
	return vs
}

// helps reports whether v frees anything that is needed.
func (v *victim) helps(need map[amount]int64) bool {
	for k := range need {
		if v.frees[k] > 0 {
			return true
		}
	}
	return false
}

// choosable is choose for what all victims together can free.
func choosable(need map[amount]int64, all []victim) []victim {
	gangs := map[string][]victim{}
	for _, v := range all {
		if v.helps(need) {
			gangs[v.gang] = inGang(all, v.gang)
		}
	}
	useful := func(vs []victim) []victim {
		return slices.DeleteFunc(slices.Clone(vs), func(v victim) bool { return !v.helps(need) })
	}
	var taken []string
	left := maps.Clone(need)
	for len(left) > 0 {
		next := bestGang(need, left, gangs, taken, useful)
		taken = append(taken, next)
		for k := range left {
			if left[k] -= freed(gangs[next], k); left[k] <= 0 {
				delete(left, k)
			}
		}
	}
	of := func(names []string) (out []victim) {
		for _, n := range names {
			out = append(out, useful(gangs[n])...)
		}
		return out
	}
	worst := slices.SortedFunc(slices.Values(taken), func(a, b string) int {
		return compareVictims(asOne(b, useful(gangs[b])), asOne(a, useful(gangs[a])))
	})
	for _, g := range worst { // whole gangs that are not needed
		if rest := slices.DeleteFunc(slices.Clone(taken), func(o string) bool { return o == g }); enough(need, of(rest)) {
			taken = rest
		}
	}
	return without(need, of(taken))
}

// bestGang returns the gang that leaves next: of those that can free all that is left, the one with the
// least loss; else the one that frees the largest part of what was needed.
func bestGang(need, left map[amount]int64, gangs map[string][]victim, taken []string, useful func([]victim) []victim) string {
	best, last := "", false
	var most *big.Int
	var loss victim
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		if slices.Contains(taken, name) {
			continue
		}
		all := enough(left, gangs[name])
		part, l := partOf(need, left, gangs[name]), asOne(name, useful(gangs[name]))
		if all {
			l = asOne(name, without(left, gangs[name]))
		}
		better := best == "" || all && !last
		if !better && all == last {
			bySize := 0
			if !all {
				bySize = part.Cmp(most)
			}
			better = bySize > 0 || bySize == 0 && compareVictims(l, loss) < 0
		}
		if better {
			best, last, most, loss = name, all, part, l
		}
	}
	return best
}

// partOf returns which part of what was needed a gang frees, if only left is needed still: for each
// amount the share, in units of 2^-32 and rounded up, and their sum.
func partOf(need, left map[amount]int64, gang []victim) *big.Int {
	sum := new(big.Int)
	for k, n := range left {
		part := new(big.Int).Lsh(big.NewInt(min(n, freed(gang, k))), 32)
		part.Add(part, big.NewInt(need[k]-1))
		sum.Add(sum, part.Div(part, big.NewInt(need[k])))
	}
	return sum
}
