package state

import (
	"cmp"
	"slices"

	"berth/api"
	"berth/quota"
)

// CountRequeued counts the preempted instances that wait to be booted again.
func (s *bootsBook) CountRequeued() int { return s.queued }

// Requeued returns the preempted instances of a boot that are to be booted again.
func (s *bootsBook) Requeued(p api.ProjectID, r api.ReservationID) (*Requeued, bool) {
	return s.queue.Get(joinKey(p, r))
}

// AllRequeued returns all preempted instances that are to be booted again, by boot.
func (s *bootsBook) AllRequeued() []*Requeued { return s.queue.Values() }

// DueRequeued returns at most limit of the entries of the queue for which a leader should look for
// room now, in order: first that of the project with the fewest preemptible instances, those of the
// entries before included, and of these the oldest. An entry is due again when its pause is over, and
// earlier if room may have become free.
func (s *bootsBook) DueRequeued(now api.Instant, limit int) []*Requeued {
	byProject := map[api.ProjectID][]*Requeued{}
	s.queue.Scan(func(_ string, r *Requeued) bool {
		if s.isDue(r, now) {
			byProject[r.Project] = append(byProject[r.Project], r)
		}
		return true
	})
	lines := make([]*line, 0, len(byProject))
	for p, entries := range byProject {
		slices.SortFunc(entries, func(a, b *Requeued) int {
			return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Reservation, b.Reservation))
		})
		has, _ := s.Usage(p).Peak(quota.Preemptibles, api.Window{Start: now, End: now + 1})
		lines = append(lines, &line{p, has, entries})
	}
	var out []*Requeued
	for len(lines) > 0 && len(out) < limit {
		next := slices.MinFunc(lines, compareLines)
		r := next.entries[0]
		if next.entries = next.entries[1:]; len(next.entries) == 0 {
			lines = slices.DeleteFunc(lines, func(l *line) bool { return l == next })
		}
		if r.Until <= now || !s.awaitsPreempted(r) {
			out, next.has = append(out, r), next.has+int64(len(r.Instances))
		}
	}
	return out
}

// line is the due entries of one project.
type line struct {
	project api.ProjectID
	has     int64 // preemptible instances
	entries []*Requeued
}

func compareLines(a, b *line) int {
	return cmp.Or(cmp.Compare(a.has, b.has), cmp.Compare(a.entries[0].Since, b.entries[0].Since), cmp.Compare(a.project, b.project))
}

func (s *bootsBook) isDue(r *Requeued, now api.Instant) bool {
	switch {
	case r.Refill > 0:
		return false
	case r.Until <= now, r.Next <= now:
		return true
	}
	return s.freed > r.TriedAt && r.Tried.Add(api.RequeuePause) <= now
}
