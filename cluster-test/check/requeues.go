package check

import (
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/raftstore/state"
)

// RequeueSummary counts what Requeues has checked.
type RequeueSummary struct {
	Boots, Names         int // boots that want preempted instances booted again, and the names of their instances
	Preempted, Waiting   int // instances that were preempted; names that wait to be booted again
	Running, Ended, Tidy int // names that are there; that went for another reason; boots whose owner has ended them
}

// Requeues checks at the end of a run that each preempted instance that was to be booted again waits once or is
// there once, under its name and in its own reservation, in the zone where it was ordered. What went for another
// reason, such as with a lost host, is left out.
func Requeues(finals []Final) (RequeueSummary, []Violation) {
	l, sum, seen := &list{}, RequeueSummary{}, map[string]bool{}
	for _, f := range finals {
		if seen[f.Zone] {
			continue
		}
		seen[f.Zone], l.zone = true, f.Zone
		const page = 1000
		for marker := ""; ; {
			boots := f.State.AllBootsPage(state.Page{Marker: marker, Limit: page})
			for _, b := range boots {
				marker = string(b.Request.Project) + "/" + string(b.Request.Reservation)
				if b.Request.Class == api.Preemptible && b.Request.OnPreempt == api.PreemptRequeue && b.Refill == 0 {
					sum.checkRequeued(l, f.State, b)
				}
			}
			if len(boots) < page {
				break
			}
		}
	}
	return sum, l.all
}

// named is what there is of the instances of one name in a boot.
type named struct {
	there, waits int
	last         *api.Instance // the newest that is gone
}

// checkRequeued checks the instances of one boot, by their names.
func (s *RequeueSummary) checkRequeued(l *list, v *state.State, b *state.Boot) {
	p, r := b.Request.Project, b.Request.Reservation
	s.Boots++
	byName := map[string]*named{}
	of := func(name string) *named {
		if byName[name] == nil {
			byName[name] = &named{}
		}
		return byName[name]
	}
	for _, i := range v.OfReservation(p, r) {
		n := of(i.Name)
		if i.Eviction != nil {
			s.Preempted++
		}
		switch {
		case i.Live():
			n.there++
		case n.last == nil || n.last.Created < i.Created:
			n.last = i
		}
	}
	q, queued := v.Requeued(p, r)
	if queued {
		for _, i := range q.Instances {
			of(i.Name).waits++
		}
	}
	if b.Queued > 0 && !queued || queued && len(q.Instances) != b.Queued {
		l.addViolation(promise.Preempt, 0, "reservation %s says that %d instances wait, and the queue has other ones", r, b.Queued)
	}
	if b.Ended {
		s.Tidy++
		if queued {
			l.addViolation(promise.Preempt, 0, "reservation %s has ended, and instances of it wait to be booted again", r)
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s.checkName(l, model.BootID{Project: p, Reservation: r}, name, byName[name], v.Now())
	}
}

func (s *RequeueSummary) checkName(l *list, id model.BootID, name string, n *named, now api.Instant) {
	s.Names++
	switch {
	case n.there+n.waits > 1:
		l.addViolation(promise.Once, 0, "instance %q of reservation %s is there %d times and waits %d times to be booted again", name, id.Reservation, n.there, n.waits)
	case n.there == 1:
		s.Running++
	case n.waits == 1:
		s.Waiting++
	case n.last.Eviction != nil && n.last.Eviction.Stays == "" && n.last.Window.End > now:
		l.addViolation(promise.Preempt, 0, "instance %q of reservation %s was preempted, and neither waits nor is there again", name, id.Reservation)
	default:
		s.Ended++
	}
}
