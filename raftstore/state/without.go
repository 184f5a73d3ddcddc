package state

import "berth/capacity"

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
