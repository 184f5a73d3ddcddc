package state

import (
	"slices"

	"berth/api"
)

// OpenHolds returns the undecided holds with slots on own hosts, which other requests may
// be waiting for: first those of parents, then this zone's own, each by key.
func (s *sagaBook) OpenHolds() []*Hold {
	all := append(pickRecords(&s.prepared, s.holds), pickRecords(&s.open, s.holds)...)
	return slices.DeleteFunc(all, func(h *Hold) bool { return len(h.Slots) == 0 })
}

// whyFull returns why there is no room for a slot of a hold: CodeContended if undecided
// holds of others have some, else CodeNoCapacity.
func (s *sagaBook) whyFull(h *Hold) api.Code {
	if slices.ContainsFunc(s.OpenHolds(), func(o *Hold) bool { return !o.For(h.Origin, &h.Request) || o.Attempt < h.Request.Attempt }) {
		return api.CodeContended
	}
	return api.CodeNoCapacity
}

// For reports whether a hold and a request are for the same reservation. origin is the
// parent that the request is from, "" for this zone.
func (h *Hold) For(origin api.LinkID, r *api.Request) bool {
	return h.Origin == origin && h.Request.Project == r.Project && h.Request.Reservation == r.Reservation
}

// reasons are why slots are refused, in order of precedence.
var reasons = []api.Code{api.CodePlanRefused, api.CodePaused, api.CodeTimeout, api.CodeContended, api.CodeOverQuota, api.CodeNoCapacity}

// noteCause records why some slots of a hold are refused. Of several reasons the first in
// reasons stays; a code outside reasons counts as CodeNoCapacity.
func (h *Hold) noteCause(why api.Code) {
	rank := func(c api.Code) int {
		if n := slices.Index(reasons, c); n >= 0 {
			return n
		}
		return len(reasons)
	}
	if !slices.Contains(reasons, why) {
		why = api.CodeNoCapacity
	}
	if rank(why) < rank(h.Why) {
		h.Why = why
	}
}
