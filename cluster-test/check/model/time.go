package model

import (
	"cmp"
	"maps"
	"slices"

	"berth/api"
)

// passTime ends the own instances whose windows have passed, the earliest first. What is not
// gone by then has no right to its room any more: it counts like a preemptible.
func (m *Model) passTime(form api.Form) {
	if form < api.FormFourth {
		return
	}
	var over []*Claim
	for _, id := range slices.Sorted(maps.Keys(m.Claims)) {
		if c := m.Claims[id]; c.End <= m.Now {
			over = append(over, c)
		}
	}
	slices.SortStableFunc(over, func(a, b *Claim) int { return cmp.Compare(a.End, b.End) })
	for _, c := range over {
		if i, ok := m.Instances[c.Consumer]; !ok || !i.Live() {
			continue // an undecided hold: nothing runs yet
		}
		m.setStatus(c.Consumer, api.StatusDeleting)
		for _, part := range append([]*Claim{c}, c.Rest...) {
			part.Over, part.End, part.Class = part.End, api.Forever, api.Preemptible
		}
	}
}
