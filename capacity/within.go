package capacity

import (
	"slices"

	"berth/api"
)

// room is the use of one claim by the claims within it, found by the consumer of the outer
// claim. It exists as long as there is a claim within. Its timeline begins before any of
// them, and is replaced, never written in place.
type room struct {
	outer  api.InstanceID
	claims int
	line   timeline
}

// roomOf returns the room of a claim on row i, and its index in the list.
func (c *chunk) roomOf(i int, outer *api.Claim) (r room, at int, found bool) {
	rooms := c.rooms.value(i)
	at = slices.IndexFunc(rooms, func(r room) bool { return r.outer == outer.Consumer })
	if at < 0 {
		return room{outer: outer.Consumer}, len(rooms), false
	}
	return rooms[at], at, true
}

// checkFitWithin is checkFit for a claim within another, which was made and not released.
func (d *data) checkFitWithin(row int, c api.Claim) error {
	outer := c.Within
	switch {
	case outer.Within != nil:
		return api.Errorf(api.CodeInvalid, "a claim is within one that is not within another")
	case c.Window.Start < outer.Window.Start || c.Window.End > outer.Window.End:
		return api.Errorf(api.CodeInvalid, "window is not within that of the claim around it")
	}
	k, i := d.chunkOf(row)
	r, _, _ := k.roomOf(i, outer)
	spec := k.specs.at[i]
	for _, name := range c.Resources.Classes() {
		want, used := c.Resources[name], int64(0)
		if class := d.classes.numberOf(name); class >= 0 {
			used = r.line.useWithin(class, c, d.now)
		}
		if free := outer.Resources[name] - used; want > free {
			return api.Errorf(api.CodeNoCapacity, "the claim around it has %d of %s left over the window, %d wanted", max(free, 0), name, want)
		}
		if !spec.Inventory[name].Admits(want) {
			return api.Errorf(api.CodeInvalid, "the host does not hand out %d of %s", want, name)
		}
	}
	return nil
}

// useWithin returns what a claim c within another finds in use of class. A preemptible one finds
// everything that is firm from now on, and all preemptibles now; any other finds what is firm
// over its window: the room is its owner's.
func (t timeline) useWithin(class int, c api.Claim, now api.Instant) int64 {
	if c.Class == api.Preemptible {
		return t.peakUse(class, 0, now, api.Forever) + t.preemptibleUse(class, now)
	}
	return t.peakUse(class, 0, max(c.Window.Start, now), c.Window.End)
}

// preemptibleUse returns the preemptible use of class at now in the timeline of a room.
func (t timeline) preemptibleUse(class int, now api.Instant) int64 {
	var use int64
	for _, e := range t {
		if e.at <= now && e.class == class {
			use += e.pre
		}
	}
	return use
}

// sumWithin adds sign times a claim within another to the room of the other.
func (t *Table) sumWithin(row int, c api.Claim, sign int) {
	k, i := t.ownChunk(row)
	end := c.Window.End
	r, at, found := k.roomOf(i, c.Within)
	r.claims += sign
	for _, name := range c.Resources.Classes() {
		s := span{t.classes.intern(name), c.Window.Start, end, int64(sign) * c.Resources[name], useFirm}
		if c.Class == api.Preemptible {
			s.kind = usePreemptible
		}
		up, down := s.edges()
		r.line = r.line.withEdge(up)
		if end != api.Forever {
			r.line = r.line.withEdge(down)
		}
	}
	rooms := slices.Clone(k.rooms.value(i))
	switch {
	case r.claims == 0:
		rooms = slices.Delete(rooms, at, at+1)
	case found:
		rooms[at] = r
	default:
		rooms = append(rooms, r)
	}
	if len(rooms) == 0 {
		rooms = nil
	}
	ownBlock(&k.rooms, t.epoch)[i] = rooms
}
