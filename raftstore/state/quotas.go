package state

import (
	"maps"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// quotasBook has the limits of projects, and what the projects of this zone have over time.
// The books above count that where they make and end it.
type quotasBook struct {
	stockBook

	quotas table.Map[*Quota]      // project; "" has the defaults of the zone
	usage  table.Map[quota.Usage] // project of this zone that has something
	lentTo table.Map[quota.Usage] // link of a parent that has something
}

func (s *quotasBook) tables(into []table.Table) []table.Table {
	return append(s.stockBook.tables(into), table.Of(&s.quotas), table.Of(&s.usage), table.Of(&s.lentTo))
}

func (s *quotasBook) sections() []section {
	quotas := sectionOf("quotas", s.quotas.Values, func(q *Quota) { s.quotas.Set(string(q.Project), q) })
	quotas.form = api.FormFourth
	return append(s.stockBook.sections(), quotas)
}

// apply applies a command that is for this book.
func (s *quotasBook) apply(c command.ForQuotas) Result {
	switch c := c.(type) {
	case command.QuotaSet:
		return s.quotaSet(c)
	case command.QuotaDelete:
		s.quotas.Delete(string(c.Project))
	}
	return Result{}
}

// Quota is the limits of a project, or the defaults of the zone.
type Quota struct {
	Project api.ProjectID `cbor:"1,keyasint,omitempty"` // "" for the defaults
	Limits  quota.Limits  `cbor:"2,keyasint,omitempty"`
	Updated api.Instant   `cbor:"3,keyasint"`
}

func (s *quotasBook) quotaSet(c command.QuotaSet) Result {
	old, known := s.quotas.Get(string(c.Project))
	next := &Quota{Project: c.Project, Limits: quota.Limits{}, Updated: s.now}
	if known {
		maps.Copy(next.Limits, old.Limits)
	}
	maps.Copy(next.Limits, c.Set)
	for _, i := range c.Unset {
		delete(next.Limits, i)
	}
	switch {
	case len(next.Limits) == 0:
		s.quotas.Delete(string(c.Project))
		return Result{}
	case known && maps.Equal(old.Limits, next.Limits):
		return Result{} // a repeat
	case len(next.Limits) > s.limits.quotaItems:
		return refuseWith(api.CodeTooLarge, "a project may have at most %d limits, got %d", s.limits.quotaItems, len(next.Limits))
	case !known && c.Project != "" && s.countLimited() >= s.limits.quotas:
		return refuseWith(api.CodeOverloaded, "%d projects have limits of their own, which is the most", s.limits.quotas)
	}
	s.quotas.Set(string(c.Project), next)
	return Result{}
}

// countLimited returns the number of projects with limits of their own.
func (s *quotasBook) countLimited() int {
	n := s.quotas.Len()
	if _, ok := s.quotas.Get(""); ok {
		n--
	}
	return n
}

// CountQuotas returns how many projects have limits of their own, and how many have something that counts.
func (s *quotasBook) CountQuotas() (limited, using int) { return s.countLimited(), s.usage.Len() }

// Quota returns the limits of its own of a project, or the defaults of the zone for "".
func (s *quotasBook) Quota(p api.ProjectID) quota.Limits {
	if q, ok := s.quotas.Get(string(p)); ok {
		return q.Limits
	}
	return nil
}

// Usage returns what a project has over time.
func (s *quotasBook) Usage(p api.ProjectID) quota.Usage {
	u, _ := s.usage.Get(string(p))
	return u
}

// QuotaProjects returns the projects after marker, by name, that have limits or anything that
// counts: at most limit of them.
func (s *quotasBook) QuotaProjects(page Page) []api.ProjectID {
	var own, using []string
	gather := func(into *[]string) func(string) bool {
		return func(p string) bool {
			if p != "" && p != page.Marker {
				*into = append(*into, p)
			}
			return len(*into) < page.Limit
		}
	}
	limited, used := gather(&own), gather(&using)
	s.quotas.Ascend(page.Marker, func(p string, _ *Quota) bool { return limited(p) })
	s.usage.Ascend(page.Marker, func(p string, _ quota.Usage) bool { return used(p) })
	return mergeProjects(own, using, page.Limit)
}

// mergeProjects merges two sorted lists of projects, up to a limit.
func mergeProjects(a, b []string, limit int) []api.ProjectID {
	var out []api.ProjectID
	for len(out) < limit && len(a)+len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			out, a = append(out, api.ProjectID(a[0])), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			out, b = append(out, api.ProjectID(b[0])), b[1:]
		default:
			out, a, b = append(out, api.ProjectID(a[0])), a[1:], b[1:]
		}
	}
	return out
}
