package model

import (
	"cmp"
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// owe notes that the external service of the zone is to be told of the end of a lease.
func (m *Model) owe(l *Lease, outcome api.LeaseOutcome) {
	if !m.Asks || len(l.Terms.Hosts) > 0 {
		return
	}
	m.Ends[api.LeaseEndName{Lease: l.Terms.ID, At: m.Now}] = outcome
	if len(m.Ends) > api.LeaseEndsMax {
		delete(m.Ends, m.OwedEnds()[0])
	}
}

// OwedEnds returns the ends of leases that are still to be told, in the order of time.
func (m *Model) OwedEnds() []api.LeaseEndName {
	return slices.SortedFunc(maps.Keys(m.Ends), func(a, b api.LeaseEndName) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Lease, b.Lease))
	})
}

func (m *Model) leaseEndsTold(c command.LeaseEndsTold) *Refusal {
	if len(c.Ends) > api.LeaseEndsToldMax {
		return &Refusal{promise.Model, "there are too many ends of leases in one command"}
	}
	for _, n := range c.Ends {
		delete(m.Ends, n)
	}
	return nil
}
