package state

import (
	"slices"

	"berth/api"
	"berth/quota"
)

// A lease counts by its record alone, the same whether its room is being held, is there, or is
// moving. An update that is being decided may end either way, so at each instant the greater
// of the old and the new terms counts.

// countLease counts l in place of old; either may be nil.
func (s *leasesBook) countLease(old, l *Lease) {
	if old != nil && l != nil && countsAlike(old, l) {
		return
	}
	if old != nil {
		s.removeUse(old.Terms.Project, usesOfLease(old)...)
	}
	if l != nil {
		s.addUse(l.Terms.Project, usesOfLease(l)...)
	}
}

// countsAlike reports whether two records of a lease surely count the same.
func countsAlike(a, b *Lease) bool {
	return (a.Status == api.LeaseTerminated) == (b.Status == api.LeaseTerminated) && a.Next == b.Next && a.Terms.Window == b.Terms.Window &&
		slices.EqualFunc(a.Terms.Reservations, b.Terms.Reservations, func(r, o api.Reservation) bool {
			return r.Type == o.Type && r.Max == o.Max && r.Resources.Equal(o.Resources)
		})
}

// usesOfLease returns what a lease counts.
func usesOfLease(l *Lease) []quota.Use {
	switch {
	case l.Status == api.LeaseTerminated:
		return nil
	case l.Next != nil:
		return quota.Max(useOfTerms(&l.Terms), useOfTerms(&l.Next.Terms))
	}
	return []quota.Use{useOfTerms(&l.Terms)}
}

// useOfTerms returns what a lease of these terms counts: as many hosts as it may have.
func useOfTerms(t *api.LeaseTerms) quota.Use {
	out := quota.Amounts{}
	if len(t.Hosts) > 0 { // the operator's own
		return quota.Use{Window: t.Window, Amounts: out}
	}
	out = quota.Amounts{quota.Leases: 1}
	for i := range t.Reservations {
		r := &t.Reservations[i]
		if r.Whole() {
			out = out.Plus(quota.Amounts{quota.Hosts: int64(r.Max)})
		} else {
			out = out.Plus(quota.Count(quota.Reserved, r.Max, r.Resources))
		}
	}
	return quota.Use{Window: t.Window, Amounts: out}
}

// CheckLeaseQuota returns why a project may not have a new lease, or with old the change of one
// that it has, because of its quotas; nil if it may. Only windows from now on count.
func (s *leasesBook) CheckLeaseQuota(old, next *api.LeaseTerms) error {
	if old == nil {
		return s.checkQuota(next.Project, useOfTerms(next)).Err
	}
	return s.checkGrowth(next.Project, useOfTerms(old), useOfTerms(next)).Err
}

// FirstQuotaStart returns the first start, not before that of a new lease and at the latest at the
// horizon, from which the quotas of its project allow it, and whether there is one.
func (s *leasesBook) FirstQuotaStart(t *api.LeaseTerms, horizon api.Instant) (api.Instant, bool) {
	limits := s.LimitsOf(t.Project)
	if len(limits) == 0 {
		return t.Window.Start, true
	}
	ask := useOfTerms(t)
	return quota.FirstFit(s.Usage(t.Project), limits, &ask, horizon)
}
