package state

import (
	"berth/api"
	"berth/quota"
)

// What counts, and from when to when:
//
//	lease      leases_quotas.go   the terms of its record, over its window, until it is TERMINATED or gone
//	boot       boots_quotas.go    what it asks for, until it is decided; its record and texts, until it is forgotten
//	instance   work_quotas.go     what a boot got, until it is DELETED
//	group      work_groups.go     each server group
//
// Slots and orders of leases are not counted again, nor are instances in leases. Only what was
// asked for at this zone counts, wherever it is: a parent's projects are not those of this zone.

// always returns the use of something that counts until it is gone, whenever that is.
func always(amounts quota.Amounts) quota.Use {
	return quota.Use{Window: api.Window{End: api.Forever}, Amounts: amounts}
}

// limitsFor returns the limits of a project, those of its zone, and those of each zone, as an entry with
// some limits has them. Entries that came before these do not know what is kept for projects.
func (s *quotasBook) limitsFor(p api.ProjectID, l *limits) quota.Limits {
	out := s.Quota(p).Over(s.Quota("").Over(l.quotaDefaults))
	if l.quotaDefaults == nil {
		for i := range quota.Defaults() {
			delete(out, i)
		}
	}
	return out
}

// LimitsOf returns the limits that hold for a project, whoever set them; for "" those of projects
// without limits of their own.
func (s *quotasBook) LimitsOf(p api.ProjectID) quota.Limits { return s.limitsFor(p, limitsAt(s.form)) }

// addUse counts what a project of this zone has.
func (s *quotasBook) addUse(p api.ProjectID, uses ...quota.Use) {
	u := s.Usage(p)
	for _, one := range uses {
		u = u.Add(one.Window, one.Amounts)
	}
	s.setUsage(p, u)
}

// removeUse no longer counts what addUse has counted.
func (s *quotasBook) removeUse(p api.ProjectID, uses ...quota.Use) {
	u := s.Usage(p)
	for _, one := range uses {
		u = u.Remove(one.Window, one.Amounts)
	}
	s.setUsage(p, u)
}

func (s *quotasBook) setUsage(p api.ProjectID, u quota.Usage) {
	if u.Empty() {
		s.usage.Delete(string(p))
	} else {
		s.usage.Set(string(p), u)
	}
}

// checkQuota refuses what a project asks for if it would be over a limit at some instant from
// now on.
func (s *quotasBook) checkQuota(p api.ProjectID, ask quota.Use) Result {
	return s.checkGrowth(p, quota.Use{}, ask)
}

// checkGrowth is checkQuota for what takes the place of old, which is counted so far. What does
// not grow is not refused, whatever the limits are now.
func (s *quotasBook) checkGrowth(p api.ProjectID, old, ask quota.Use) Result {
	limits := s.limitsFor(p, s.limits)
	if len(limits) == 0 {
		return Result{}
	}
	u := s.Usage(p).Remove(old.Window, old.Amounts)
	for _, more := range quota.Growth(old, ask) {
		more.Window.Start = max(more.Window.Start, s.now)
		if !more.Window.Valid() {
			continue
		}
		refusal := quota.Check(u, limits, &more, 0)
		if refusal == nil {
			continue
		}
		if begun := old.Window.Valid() && old.Window.Start <= s.now; !begun {
			ask.Window.Start = max(ask.Window.Start, s.now)
			refusal.When, _ = quota.FirstFit(u, limits, &ask, s.now.Add(s.limits.quotaAhead))
			refusal.Fixed = false
		}
		return Result{Err: refusal.Err()}
	}
	return Result{}
}
