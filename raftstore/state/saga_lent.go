package state

import (
	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// lending holds the slots of one hold of a parent against the share of its link.
type lending struct {
	hold *Hold
	may  share
	has  quota.Usage                 // of the parent, with what this hold has in place of other slots
	took api.Resources               // by other slots of this hold, which all have its window
	room map[api.ResourceClass]int64 // over that window beside has, as far as it was looked for
	over bool                        // it has refused the last slot that it was asked for
}

// newLending returns nil for a hold that no share limits.
func (s *sagaBook) newLending(h *Hold) *lending {
	l, ok := s.links.Get(string(h.Origin))
	if h.Origin == "" || !ok || !h.Request.NeedsRoom() {
		return nil
	}
	may, limited := s.limits.shareOf(l)
	if !limited {
		return nil
	}
	u, _ := s.lentTo.Get(string(h.Origin))
	return &lending{hold: h, may: may, has: u, took: api.Resources{}, room: map[api.ResourceClass]int64{}}
}

// mayLend reports whether the share leaves room for one more slot over the window of the hold. It is
// true for nil.
func (s *sagaBook) mayLend(l *lending, r api.Resources) bool {
	if l == nil {
		return true
	}
	w := l.hold.windowBeside()
	w.Start = max(w.Start, s.now)
	for class, n := range r { // all must fit, so their order does not count
		room, known := l.room[class]
		if !known {
			room = s.lentRoom(l.has, l.may, class, l.hold.Request.Class, w)
			l.room[class] = room
		}
		if n > 0 && l.took[class]+n > room {
			l.over = true
			return false
		}
	}
	l.over = false
	return true
}

// hasRefused reports whether the share, and not room, was why the last slot was refused.
func (l *lending) hasRefused() bool { return l != nil && l.over }

// take notes a slot that mayLend has allowed.
func (l *lending) take(r api.Resources) {
	if l == nil {
		return
	}
	for class, n := range r {
		l.took[class] += n
	}
}

// mayExtend reports whether the share leaves room for what a claim has beyond an instance of the
// parent that it takes the place of. It is true for nil.
func (s *sagaBook) mayExtend(l *lending, old *api.Instance, c api.Claim) bool {
	if l == nil {
		return true
	}
	has := l.has.Add(l.hold.Window, lentUse(l.hold.Window, c.Class, l.took, true).Amounts)
	for _, one := range beyondLent(old, c) {
		w := one.Window
		if w.Start = max(w.Start, s.now); !w.Valid() {
			continue
		}
		for class := range c.Resources { // all must fit, so their order does not count
			if n := one.Amounts[lentHeld.Of(class)]; n > 0 && n > s.lentRoom(has, l.may, class, c.Class, w) {
				l.over = true
				return false
			}
		}
	}
	l.over = false
	return true
}

// extend notes a claim that mayExtend has allowed.
func (l *lending) extend(old *api.Instance, c api.Claim) {
	if l == nil {
		return
	}
	for _, one := range beyondLent(old, c) {
		l.has = l.has.Add(one.Window, one.Amounts)
	}
	clear(l.room)
}

// beyondLent returns what an undecided claim counts beside the instance of the same parent that it takes
// the place of.
func beyondLent(old *api.Instance, c api.Claim) []quota.Use {
	return quota.Beyond(lentUse(old.Window, c.Class, old.Resources, true), lentUse(c.Window, c.Class, c.Resources, true))
}

// lentBy returns what the slots of an undecided hold of a parent count.
func (s *sagaBook) lentBy(h *Hold) []quota.Use {
	if h.Origin == "" {
		return nil
	}
	var out []quota.Use
	sum := api.Resources{}
	for _, sl := range h.Slots {
		switch old, ok := s.instances.Get(string(sl.Keeps)); {
		case sl.Within != "":
		case sl.Keeps != "" && ok:
			out = append(out, beyondLent(old, s.claimOfSlot(h, sl))...)
		default:
			for class, n := range s.claimOfSlot(h, sl).Resources {
				sum[class] += n
			}
		}
	}
	if len(sum) > 0 {
		w := h.windowBeside()
		if !h.Request.Reserves {
			w.Start = 0 // it has begun
		}
		out = append(out, lentUse(w, h.Request.Class, sum, true))
	}
	return out
}

// countLentBy counts an undecided hold of a parent, or no longer.
func (s *sagaBook) countLentBy(h *Hold, counted bool) {
	if uses := s.lentBy(h); len(uses) > 0 {
		s.countLent(h.Origin, counted, uses...)
	}
}

// takenBy returns what a slot of a hold takes of a host: what its group asks for, or all of the host.
func (s *sagaBook) takenBy(h *Hold, sl *command.Slot, id api.HostID) api.Resources {
	if g := &h.Request.Groups[sl.Group]; !g.Whole {
		return g.Resources
	}
	return s.hostTable.WholeCapacity(id)
}

// whyOver returns why the share of a parent leaves no room for a slot of a hold: CodeContended if other
// undecided holds of the parent have some of it, else CodeOverQuota. A parent that may have all finds the zone full.
func (s *sagaBook) whyOver(h *Hold, may share) api.Code {
	if min(may.held, may.committed) >= 100 {
		return s.whyFull(h)
	}
	for _, o := range s.OpenHolds() {
		if o.Origin == h.Origin && (!o.For(h.Origin, &h.Request) || o.Attempt < h.Request.Attempt) {
			return api.CodeContended
		}
	}
	return api.CodeOverQuota
}

// ShareRoom returns how much more of each class a parent may hold over a window, for claims of a kind; nil
// for no limit.
func (s *sagaBook) ShareRoom(origin api.LinkID, c api.Class, w api.Window) func(api.ResourceClass) int64 {
	l, ok := s.links.Get(string(origin))
	if origin == "" || !ok || l.Role != api.LinkParent {
		return nil
	}
	may, limited := limitsAt(s.form).shareOf(l)
	if !limited {
		return nil
	}
	u, _ := s.lentTo.Get(string(origin))
	w.Start = max(w.Start, s.now)
	rooms := map[api.ResourceClass]int64{}
	return func(class api.ResourceClass) int64 {
		if _, known := rooms[class]; !known {
			rooms[class] = s.lentRoom(u, may, class, c, w)
		}
		return rooms[class]
	}
}
