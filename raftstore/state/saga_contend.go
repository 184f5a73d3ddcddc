package state

import (
	"slices"

	"berth/api"
)

// OpenHolds returns the holds that are not decided and have slots on own hosts: what
// others may be waiting for. Those of parents come first, each by key.
func (s *sagaBook) OpenHolds() []*Hold {
	all := append(pickRecords(&s.prepared, &s.holds), pickRecords(&s.open, &s.holds)...)
	return slices.DeleteFunc(all, func(h *Hold) bool { return len(h.Slots) == 0 })
}

// whyFull says why there is no room for a slot of a hold: others that are not decided
// hold some, or there is none.
func (s *sagaBook) whyFull(h *Hold) api.Code {
	if slices.ContainsFunc(s.OpenHolds(), func(o *Hold) bool { return !o.For(h.Origin, &h.Request) || o.Attempt < h.Request.Attempt }) {
		return api.CodeContended
	}
	return api.CodeNoCapacity
}

// For reports whether a hold is an attempt of the reservation that a request of a
// parent, or with "" of this zone, is for.
func (h *Hold) For(origin api.LinkID, r *api.Request) bool {
	return h.Origin == origin && h.Request.Project == r.Project && h.Request.Reservation == r.Reservation
}

// reasons are why slots are refused, the one to be told before others first.
var reasons = []api.Code{api.CodePlanRefused, api.CodePaused, api.CodeTimeout, api.CodeContended, api.CodeNoCapacity}

// noteCause notes why some slots of a hold are refused. Of several reasons the first
// of reasons stays; one that is not among them means that there is no room.
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
