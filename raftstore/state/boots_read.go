package state

import (
	"slices"
	"strings"

	"berth/api"
)

// BootFor finds a boot by its reservation id, or by the idempotency key of its
// request.
func (s *bootsBook) BootFor(p api.ProjectID, r api.ReservationID, key string) (*Boot, bool) {
	if b, ok := s.boots.Get(joinKey(p, r)); ok || key == "" {
		return b, ok
	}
	r, ok := s.keys.Get(joinKey(p, key))
	if !ok {
		return nil, false
	}
	return s.boots.Get(joinKey(p, r))
}

// Boot returns the record of one boot of this zone.
func (s *bootsBook) Boot(p api.ProjectID, r api.ReservationID) (*Boot, bool) {
	return s.boots.Get(joinKey(p, r))
}

// AwaitedBy returns the children that a boot waits for, by link: they have not confirmed a decision, or
// the end of an instance.
func (s *bootsBook) AwaitedBy(b *Boot) []api.LinkID {
	var out []api.LinkID
	for _, id := range b.Holds {
		h, ok := s.holds.Get(joinKey(api.LinkID(""), id))
		if !ok || !h.mayLive() || h.Decision == api.DecisionPending {
			continue
		}
		for _, p := range h.Parts {
			if !p.Acked {
				out = append(out, p.Link)
			}
		}
	}
	for _, i := range s.OfReservation(b.Request.Project, b.Request.Reservation) {
		if i.Origin == "" && i.Link != "" && i.Status == api.StatusDeleting {
			out = append(out, i.Link)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Refill returns the undecided order n for preempted instances of a boot.
func (s *bootsBook) Refill(p api.ProjectID, r api.ReservationID, n int) (*Boot, bool) {
	return s.boots.Get(bootKey(p, r, n))
}

// FindBoot returns the first boot, by project and reservation, for which ok is
// true; nil for none. It looks at every boot.
func (s *bootsBook) FindBoot(ok func(*Boot) bool) *Boot {
	var out *Boot
	s.boots.Scan(func(_ string, b *Boot) bool {
		if b.Refill == 0 && ok(b) {
			out = b
		}
		return out == nil
	})
	return out
}

// UndecidedBoots returns the boots without a decision, by key.
func (s *bootsBook) UndecidedBoots() []*Boot { return pickRecords(&s.undecided, s.boots) }

// UndecidedBoot returns the boot with a key, if it has no decision.
func (s *bootsBook) UndecidedBoot(key string) (*Boot, bool) {
	return pickRecord(&s.undecided, s.boots, key)
}

// AllBootsPage returns boots of all projects, by project and reservation id. The marker is those of the last one, with
// a slash between them.
func (s *bootsBook) AllBootsPage(page Page) []*Boot {
	var out []*Boot
	project, reservation, _ := strings.Cut(page.Marker, "/")
	after := project + "\x00" + reservation
	s.boots.Ascend(after, func(k string, b *Boot) bool {
		if k != after && b.Refill == 0 {
			out = append(out, b)
		}
		return len(out) < page.Limit
	})
	return out
}

// BootsPage returns boots of a project by reservation id.
func (s *bootsBook) BootsPage(p api.ProjectID, page Page) []*Boot {
	var out []*Boot
	prefix := string(p) + "\x00"
	s.boots.Ascend(prefix+page.Marker, func(k string, b *Boot) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		if k != prefix+page.Marker && b.Refill == 0 {
			out = append(out, b)
		}
		return len(out) < page.Limit
	})
	return out
}
