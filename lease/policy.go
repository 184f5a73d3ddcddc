package lease

import (
	"slices"
	"time"

	"berth/api"
)

// Policy is how long an operator lets leases be. The zero Policy allows everything.
type Policy struct {
	Longest time.Duration // of one lease; 0 for no limit. Exactly as long is allowed
	// Extension is how long before its end a lease may be extended beyond Longest; 0 for
	// never. Longest counts from the old end then.
	Extension time.Duration
	Exempt    []api.ProjectID // projects that none of this holds for
}

// CheckCreate refuses a new lease that is too long.
func (p *Policy) CheckCreate(t *api.LeaseTerms) error {
	if p.allows(t, t.Window) {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "Lease duration is too long: a lease may last at most %s here", spell(p.Longest))
}

// CheckUpdate refuses an update that makes a lease too long. One that is no longer than it
// was, or than it may be, is allowed at any time.
func (p *Policy) CheckUpdate(cur, next *api.LeaseTerms, now api.Instant) error {
	was, becomes := cur.Window, next.Window
	grows := becomes.End-becomes.Start > was.End-was.Start
	switch {
	case !grows || p.allows(next, becomes):
		return nil
	case p.Extension <= 0:
		return p.CheckCreate(next)
	case becomes.Start != was.Start || now < was.End.Add(-p.Extension):
		return api.Errorf(api.CodeForbidden, "Lease duration is too long: a lease may last at most %s here, and be extended beyond that only within %s of its end",
			spell(p.Longest), spell(p.Extension))
	case !p.allows(next, api.Window{Start: was.End, End: becomes.End}):
		return api.Errorf(api.CodeForbidden, "Lease duration is too long: a lease may be extended by at most %s here", spell(p.Longest))
	}
	return nil
}

// allows reports whether the lease may have room over w. Maintenance takes what it takes.
func (p *Policy) allows(t *api.LeaseTerms, w api.Window) bool {
	return p.Longest <= 0 || len(t.Hosts) > 0 || w.End <= w.Start.Add(p.Longest) || slices.Contains(p.Exempt, t.Project)
}
