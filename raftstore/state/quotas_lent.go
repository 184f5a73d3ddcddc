package state

import (
	"berth/api"
	"berth/quota"
)

// What a parent has of this zone counts by its link, over time as capacity is:
//
//	hold       saga_lent.go   its slots on own hosts, until it is decided
//	instance   work_lent.go   on an own host, slots of leases included, until it is DELETED
//
// What is within a slot of a lease is not counted again. What a parent has in zones below counts there,
// as that of this zone.

// The items of a link. Each is an amount of a resource class, as lentHeld.Of(class).
const (
	lentHeld quota.Item = "held" // in undecided holds
	lentFirm quota.Item = "firm" // decided or not
	lentSoft quota.Item = "soft" // preemptible and overdue, decided or not; it counts now alone
)

// lentUse returns what a claim of a parent counts over a window.
func lentUse(w api.Window, c api.Class, r api.Resources, undecided bool) quota.Use {
	family := lentFirm
	if c == api.Preemptible {
		family = lentSoft
	}
	out := quota.Use{Window: w, Amounts: quota.Amounts{}}
	for class, n := range r {
		if n == 0 {
			continue
		}
		out.Amounts[family.Of(class)] = n
		if undecided {
			out.Amounts[lentHeld.Of(class)] = n
		}
	}
	return out
}

// countLent counts what a parent has, or no longer.
func (s *quotasBook) countLent(l api.LinkID, counted bool, uses ...quota.Use) {
	u, _ := s.lentTo.Get(string(l))
	for _, one := range uses {
		if counted {
			u = u.Add(one.Window, one.Amounts)
		} else {
			u = u.Remove(one.Window, one.Amounts)
		}
	}
	if u.Empty() {
		s.lentTo.Delete(string(l))
	} else {
		s.lentTo.Set(string(l), u)
	}
}

// share is how much of a zone a parent may have, in percent of each class.
type share struct{ held, committed int }

// shareOf returns the share of a parent, as an entry with some limits has it; false if these know none.
func (l *limits) shareOf(link *api.Link) (share, bool) {
	out := share{l.shareHeld, l.shareCommitted}
	if link.Share.Held != nil {
		out.held = *link.Share.Held
	}
	if link.Share.Committed != nil {
		out.committed = *link.Share.Committed
	}
	return out, l.shareCommitted > 0
}

// percentOf returns a part of an amount of at least 0, rounded down.
func percentOf(n int64, percent int) int64 {
	return n/100*int64(percent) + n%100*int64(percent)/100
}

// lentRoom returns how much more of a class a parent may hold over a window, of what has u already. It
// may be below 0.
func (s *quotasBook) lentRoom(u quota.Usage, may share, class api.ResourceClass, c api.Class, w api.Window) int64 {
	stock := s.stockOf(class)
	held, _ := u.Peak(lentHeld.Of(class), w)
	var has int64
	if c == api.Preemptible {
		now := api.Window{Start: s.now, End: s.now + 1}
		firm, _ := u.Peak(lentFirm.Of(class), now)
		soft, _ := u.Peak(lentSoft.Of(class), now)
		has = firm + soft
	} else {
		has, _ = u.Peak(lentFirm.Of(class), w)
	}
	return min(percentOf(stock, may.held)-held, percentOf(stock, may.committed)-has)
}

// LentClass is what a parent has now of a class, and what it may have.
type LentClass struct {
	Held, HeldMax           int64 // in undecided holds
	Committed, CommittedMax int64 // decided or not; preemptible included
}

// Lent returns what a parent has now of each class, and the percents that its share is. A class is absent
// of which the zone has nothing and the parent as well.
func (s *quotasBook) Lent(link *api.Link) (of map[api.ResourceClass]LentClass, held, committed int) {
	may, _ := limitsAt(api.FormNewest).shareOf(link)
	u, _ := s.lentTo.Get(string(link.ID))
	has := u.At(s.now)
	of = map[api.ResourceClass]LentClass{}
	for _, class := range s.Hosts().Classes() {
		stock := s.stockOf(class)
		one := LentClass{
			Held: has[lentHeld.Of(class)], HeldMax: percentOf(stock, may.held),
			Committed: has[lentFirm.Of(class)] + has[lentSoft.Of(class)], CommittedMax: percentOf(stock, may.committed),
		}
		if stock > 0 || one.Committed > 0 {
			of[class] = one
		}
	}
	return of, may.held, may.committed
}

// LentAt returns what a parent has of a class at an instant from now on: in undecided holds, and firm and
// preemptible claims, decided or not.
func (s *quotasBook) LentAt(l api.LinkID, class api.ResourceClass, at api.Instant) (held, firm, soft int64) {
	u, _ := s.lentTo.Get(string(l))
	has := u.At(at)
	return has[lentHeld.Of(class)], has[lentFirm.Of(class)], has[lentSoft.Of(class)]
}
