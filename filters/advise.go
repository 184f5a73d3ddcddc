package filters

import (
	"cmp"
	"slices"

	"berth/api"
	"berth/capacity"
)

// Advise returns the smallest single changes of the request after which more
// hosts would pass fs, or one at all, at most api.AdviceMax:
//
//   - AdviceLifetime: the longest lifetime with which the group has all its slots, if others
//     are promised the room only later.
//   - AdviceAmount: another amount of one class in each slot, if no host passes
//     as it is: the largest below what was asked for that a host has, or else the
//     smallest above. The smallest change in proportion comes first, then by class.
//   - AdviceDrop: a demand of the request that alone keeps hosts from passing, in
//     the order of fs.
//
// It costs a run of fs and more for each filter that dropped a host: it is for
// plans that fell short.
func Advise(fs []Filter, l *Look) []api.Advice {
	out := adviseLifetime(fs, l)
	before := make([]capacity.Set, len(fs)) // what reached each filter
	pass := l.View.Hosts()
	for i := range fs {
		before[i] = pass.Clone()
		fs[i].Apply(l, &pass)
	}
	if pass.Empty() {
		out = append(out, adviseAmounts(fs, l, before)...)
	}
	offering := pass.Len()
	for i := range fs {
		if !fs[i].Demand || !droppedBy(before, pass, i) {
			continue
		}
		without := before[i].Clone()
		for j := i + 1; j < len(fs); j++ {
			fs[j].Apply(l, &without)
		}
		if without.Len() > offering {
			out = append(out, api.Advice{Change: api.AdviceDrop, Name: fs[i].Name})
		}
	}
	return out[:min(len(out), api.AdviceMax)]
}

// droppedBy reports whether filter i took anything out.
func droppedBy(before []capacity.Set, pass capacity.Set, i int) bool {
	after := pass
	if i+1 < len(before) {
		after = before[i+1]
	}
	return after.Len() < before[i].Len()
}

// adviseAmounts returns the advice to ask for another amount of one class.
func adviseAmounts(fs []Filter, l *Look, before []capacity.Set) []api.Advice {
	at := slices.IndexFunc(fs, func(f Filter) bool { return f.Name == NameCapacity })
	if at < 0 {
		return nil
	}
	rest := before[at].Clone() // what passes all but capacity
	for j := at + 1; j < len(fs); j++ {
		fs[j].Apply(l, &rest)
	}
	r := l.Group().Resources
	var out []api.Advice
	for _, class := range r.Classes() {
		others := api.Resources{}
		for c, n := range r {
			if c != class {
				others[c] = n
			}
		}
		hosts := rest.Clone()
		l.View.KeepFitting(&hosts, others, l.Window, l.Req.ClaimClass())
		if n := nearestAmount(l, hosts, class, r[class]); n > 0 {
			out = append(out, api.Advice{Change: api.AdviceAmount, Class: class, Value: n})
		}
	}
	slices.SortStableFunc(out, func(a, b api.Advice) int {
		return cmp.Compare(relativeChange(r[a.Class], a.Value), relativeChange(r[b.Class], b.Value))
	})
	return out
}

// relativeChange returns how large a change is, in millionths of what was asked for.
// Amounts are at most api.AmountMax, so nothing overflows.
func relativeChange(from, to int64) int64 { return max(from-to, to-from) * 1_000_000 / from }

// nearestAmount returns the largest amount of class up to want that one of hosts could
// give one slot, or else the smallest above want; 0 if there is none. A slot has
// all of a class from one provider, so each that a host draws from is looked at
// alone.
func nearestAmount(l *Look, hosts capacity.Set, class api.ResourceClass, want int64) int64 {
	var below, above int64 // where something above want is allowed but nothing below, it is the least unit
	for row := range sourcesOf(l.View, hosts).All() {
		v, ok := l.View.Spec(row).Inventory[class]
		free := l.View.FreeOver(row, class, l.Window, l.Req.ClaimClass())
		if !ok || free < 1 {
			continue
		}
		below = max(below, largestAdmitted(v, min(want, free)))
		if n := v.Normal().MinUnit; n > want && n <= min(free, v.Normal().MaxUnit) && (above == 0 || n < above) {
			above = n
		}
	}
	return cmp.Or(below, above)
}

// sourcesOf returns the providers that slots on some hosts can draw from.
func sourcesOf(v capacity.View, hosts capacity.Set) capacity.Set {
	out := hosts.Clone()
	for host := range hosts.All() {
		if !v.Compound(host) {
			continue
		}
		for _, row := range v.Tree(host) {
			out.Add(int(row))
		}
		for _, row := range v.Sharers(host) {
			out.Add(int(row))
		}
	}
	return out
}

// largestAdmitted returns the largest amount up to most that v allows, 0 for none.
func largestAdmitted(v api.Inventory, most int64) int64 {
	n := v.Normal()
	most = min(most, n.MaxUnit)
	if step := most - most%n.StepSize; step >= n.MinUnit {
		return step
	}
	if most >= n.MinUnit {
		return n.MinUnit
	}
	return 0
}
