package state

import (
	"slices"
	"strings"

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

// choiceOf returns the child that an undecided hold has chosen for a key.
func (h *Hold) choiceOf(k api.BindingKey) api.LinkID {
	i := slices.IndexFunc(h.Choices, func(c api.BindingChoice) bool { return c.Key.String() == k.String() })
	return h.Choices[i].Link
}

// scanChoosing visits the undecided holds of a tenant that have chosen a child for a key: those of one reservation, or
// with "" all, until visit returns false.
func (s *sagaBook) scanChoosing(t api.Tenant, k api.BindingKey, r api.ReservationID, visit func(h *Hold, link api.LinkID) bool) {
	all := joinKey(bindingKey(t, k), "")
	prefix := all
	if r != "" {
		prefix = joinKey(all+string(r), "")
	}
	s.choosing.Ascend(prefix, func(of string) bool {
		if !strings.HasPrefix(of, prefix) {
			return false
		}
		_, hold, _ := strings.Cut(of[len(all):], "\x00")
		h, _ := s.holds.Get(hold)
		return visit(h, h.choiceOf(k))
	})
}

// chosenBeside returns the child that undecided holds have chosen for a key of a request. A hold that has nothing
// of that child, because it was refused, has chosen none, and neither has an obsolete attempt of the request.
func (s *sagaBook) chosenBeside(t api.Tenant, k api.BindingKey, req *api.Request) (link api.LinkID, undecided bool) {
	s.scanChoosing(t, k, "", func(h *Hold, l api.LinkID) bool {
		if !s.limits.choicesHeld || h.hasPartAt(l) && (!h.For(t.Origin, req) || h.Attempt >= req.Attempt) {
			link, undecided = l, true
		}
		return !undecided
	})
	return link, undecided
}

// ChosenLinks returns the child that undecided holds of others have chosen for a key of a request, and the one
// that holds of the request itself have: "" for none. origin is the parent that the request is from, "" for this
// zone. A hold that has nothing of the child that it chose has chosen none.
func (s *sagaBook) ChosenLinks(origin api.LinkID, req *api.Request, k api.BindingKey) (others, own api.LinkID) {
	t := api.Tenant{Origin: origin, Project: req.Project}
	s.scanChoosing(t, k, "", func(h *Hold, l api.LinkID) bool {
		if h.hasPartAt(l) && !h.For(origin, req) {
			others = l
		}
		return others == ""
	})
	if req.Reservation == "" {
		return others, ""
	}
	s.scanChoosing(t, k, req.Reservation, func(h *Hold, l api.LinkID) bool {
		if h.hasPartAt(l) && h.Attempt >= req.Attempt {
			own = l
		}
		return own == ""
	})
	return others, own
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
