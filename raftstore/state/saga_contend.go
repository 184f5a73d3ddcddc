package state

import (
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// OpenHolds returns the holds that are not decided and have slots on own hosts: what
// others may be waiting for. Those of parents come first, each by key.
func (s *sagaBook) OpenHolds() []*Hold {
	all := append(pickRecords(&s.prepared, &s.holds), pickRecords(&s.open, &s.holds)...)
	return slices.DeleteFunc(all, func(h *Hold) bool { return len(h.Slots) == 0 })
}

// Without returns a view of the zone as its hosts would be if some undecided holds
// were given back. It is for planning: records of holds and boots stay as they are.
func (s *State) Without(holds []*Hold) *State {
	c := *s
	c.hostTable, c.bumped, c.gone = nil, nil, map[string]int{}
	c.view = s.Hosts().Without(func(t *capacity.Table) {
		for _, h := range holds {
			h.giveBack(t)
		}
	})
	for _, h := range holds {
		for _, sl := range h.Slots {
			for _, rule := range rulesOf(&h.Request, sl.Group) {
				c.gone[memberKey(h.Tenant(), rule, hostPlace(sl.Host))]++
			}
			c.gone[joinKey(tenantKey(h.Tenant()), sl.Host)]++
		}
	}
	return &c
}

// giveBack takes what a hold draws out of a table.
func (h *Hold) giveBack(t *capacity.Table) {
	for n, sl := range h.Slots {
		for id, part := range allocations(sl.Host, h.claimOfSlot(sl), h.sharesOf(n)) {
			if id == sl.Host {
				t.Release(id, part)
			} else {
				t.Return(id, part)
			}
		}
	}
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

// isPaused reports whether a link takes nothing new.
func (s *membersBook) isPaused(id api.LinkID) bool {
	l, ok := s.links.Get(string(id))
	return ok && l.State == api.LinkPaused
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

// tellAnswers notes in the tale of an attempt why children refused slots.
func tellAnswers(t *api.BootAttempt, answers []command.PartAnswer) {
	t.Zones = slices.Clone(t.Zones)
	for _, a := range answers {
		for i := range t.Zones {
			if z := &t.Zones[i]; z.Link == a.Link && a.Why != "" {
				z.Reason = refusedBecause(a.Why)
			}
		}
	}
}

// refusedBecause returns what an explanation says of a zone that refused slots.
func refusedBecause(why api.Code) string {
	switch why { //nolint:exhaustive // the others say that there is no room
	case api.CodePlanRefused:
		return "it refused its part of the plan, which had expired or was used before; select again"
	case api.CodePaused:
		return "the link takes no new work"
	case api.CodeTimeout:
		return "it did not answer in time when it was asked to hold"
	case api.CodeContended:
		return "others, not decided yet, held room that it had offered"
	}
	return "it had no room any more for some that it had offered"
}
