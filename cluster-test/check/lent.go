package check

import (
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
)

// compareLent compares what parents have of the zone, at every instant from now on, with the claims of
// their holds and instances, and what their shares are of with the hosts.
func (r *replay) compareLent(index uint64) {
	classes := map[api.ResourceClass]bool{}
	for _, c := range r.m.Claims {
		for class := range c.Want {
			classes[class] = true
		}
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if got, want := r.s.Hosts().Stock(class), r.m.StockOf(class); got != want {
			r.addViolation(promise.Share, index, "shares are of %d of %s, not of %d", got, class, want)
			return
		}
	}
	for _, l := range r.s.Links() {
		if l.Role != api.LinkParent {
			continue
		}
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			for _, at := range r.m.LentInstants() {
				want := r.m.OwedAt(l.ID, class, at)
				if held, firm, soft := r.s.LentAt(l.ID, class, at); held != want.Held || firm != want.Firm || soft != want.Soft {
					r.addViolation(promise.Share, index, "at %d parent %s holds %d of %s and has %d firm and %d preemptible, not %+v", at, l.ID, held, class, firm, soft, want)
					return
				}
			}
		}
	}
}
