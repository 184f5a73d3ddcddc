package check

import (
	"cmp"
	"reflect"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
)

// compareBindings compares all bindings, active and past, and what undecided holds have chosen.
func (r *replay) compareBindings(index uint64) {
	got, want := r.s.Bindings(), slices.Clone(r.m.Bindings)
	slices.SortFunc(want, func(a, b *api.Binding) int { return cmp.Compare(a.ID, b.ID) })
	if len(got) != len(want) {
		r.addViolation(promise.Binding, index, "there are %d bindings, not %d", len(got), len(want))
		return
	}
	for i := range got {
		is := *got[i]
		is.Zone = "" // the model has no names of zones
		if !reflect.DeepEqual(is, *want[i]) {
			r.addViolation(promise.Binding, index, "binding %s is %+v, not %+v", is.ID, is, *want[i])
		}
	}
}
