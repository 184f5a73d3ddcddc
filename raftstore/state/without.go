package state

import (
	"berth/capacity"
	"berth/raftstore/state/table"
)

// Without returns a view of the zone in which the slots of some undecided holds are free. It
// is for planning: records of holds and boots stay as they are.
func (s *State) Without(holds []*Hold) *State {
	c := *s
	c.hostTable, c.bumped, c.gone = nil, nil, map[string]int{}
	c.view = s.Hosts().Without(func(t *capacity.Table) {
		for _, h := range holds {
			s.giveBack(t, h)
		}
	})
	table.Of(&c.lentTo).SetCopy(table.Of(&s.lentTo))
	for _, h := range holds {
		c.countLentBy(h, false)
		for _, sl := range h.Slots {
			for _, rule := range rulesOf(&h.Request, sl.Group) {
				c.gone[memberKey(h.Tenant(), rule, hostPlace(sl.Host))]++
			}
			c.gone[joinKey(tenantKey(h.Tenant()), sl.Host)]++
		}
	}
	return &c
}
