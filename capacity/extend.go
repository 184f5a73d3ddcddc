package capacity

import (
	"cmp"
	"maps"
	"slices"

	"berth/api"
)

// A claim is replaced in place in two steps. Extend charges what the new one needs beyond the
// old one: from then on both are charged for, at each instant and of each class the greater.
// Shrink then releases what the one that is not wanted needs beyond the other.

// Extend charges a provider for to beside from, which was made and not released: of each class
// max(from, to) at each instant from now on, each claim over its window and the gap after it. To
// end it, Shrink(id, from, to) leaves to in place of from, and Shrink(id, to, from) leaves from.
//
// It changes nothing and fails like Fits if what to needs beyond from does not fit, and also
// with no_capacity if the claims within from would not fit into to; with invalid if one of the
// two is not firm, is within another, or only one is of the whole host. Units count for the
// classes of which to wants another amount than from.
func (t *Table) Extend(id api.HostID, from, to api.Claim) error {
	row, known := t.rowOf(id)
	if !known {
		return api.Errorf(api.CodeNotFound, "no such host")
	}
	if err := t.checkInstead(row, from, to); err != nil {
		return err
	}
	t.addExtension(row, &from, &to, 1)
	return nil
}

// RestoreExtension charges for to beside from as Extend has done before, whether it fits or
// not. It returns false for an unknown provider.
func (t *Table) RestoreExtension(id api.HostID, from, to api.Claim) bool {
	row, known := t.rowOf(id)
	if known {
		t.addExtension(row, &from, &to, 1)
	}
	return known
}

// Shrink ends Extend(id, from, to) or Extend(id, to, from) so that only to is left: it releases
// what from needs beyond to. The claims within from are within to from then on. An unknown
// provider is not an error.
func (t *Table) Shrink(id api.HostID, from, to api.Claim) {
	if row, known := t.rowOf(id); known {
		t.addExtension(row, &to, &from, -1)
		t.moveRoom(row, from.Consumer, to.Consumer)
	}
}

// FitsInstead is the error of Extend on the view.
func (v View) FitsInstead(id api.HostID, from, to api.Claim) error {
	row, known := v.Row(id)
	if !known {
		return api.Errorf(api.CodeNotFound, "no such host")
	}
	return v.data().checkInstead(row, from, to)
}

// checkInstead returns why to cannot be in place of from on row alone, or nil.
func (d *data) checkInstead(row int, from, to api.Claim) error {
	if err := d.checkSwap(from, to); err != nil {
		return err
	}
	return d.checkExtension(row, &from, &to)
}

// checkSwap returns what is wrong with replacing from by to on any provider, or nil.
func (d *data) checkSwap(from, to api.Claim) error {
	switch {
	case from.Class == api.Preemptible || to.Class == api.Preemptible:
		return api.Errorf(api.CodeInvalid, "only a firm claim can be replaced, and only by another")
	case from.Within != nil || to.Within != nil:
		return api.Errorf(api.CodeInvalid, "a claim within another cannot be replaced")
	case from.Whole != to.Whole:
		return api.Errorf(api.CodeInvalid, "a claim of a whole host can only replace another")
	}
	return d.checkClaim(to)
}

// checkExtension returns why row cannot be charged for to beside from, or nil. Either may be
// nil for nothing.
func (d *data) checkExtension(row int, from, to *api.Claim) error {
	if from != nil {
		if err := d.checkRoom(row, from, to); err != nil {
			return err
		}
	}
	if err := d.checkSpans(row, from, to); err != nil || to == nil || to.Whole {
		return err
	}
	spec := d.specOf(row)
	for _, name := range to.Resources.Classes() {
		want := to.Resources[name]
		if same := from != nil && from.Resources[name] == want; !same && !spec.Inventory[name].Admits(want) {
			return api.Errorf(api.CodeInvalid, "the host does not hand out %d of %s", want, name)
		}
	}
	return nil
}

// checkSpans returns no_capacity if row has no room for what to needs beyond from.
func (d *data) checkSpans(row int, from, to *api.Claim) error {
	k, i := d.chunkOf(row)
	spec := k.specs.at[i]
	kind := api.Firm
	if to != nil {
		kind = to.Class
	}
	for _, s := range d.extensionOf(from, to, useOver(spec), d.classes.numberOf) {
		free := k.freeDuring(i, s.class, s.start, s.end, kind, d.now)
		switch {
		case s.class == emptyClass: // it has room everywhere
		case s.class == wholeClass:
			if !k.isIdle(i, s.start, s.end, kind, d.now) {
				return errNotIdle
			}
		case s.amount > free:
			return api.Errorf(api.CodeNoCapacity, "the host has %d of %s left for the change, %d wanted",
				max(free, 0), d.nameOf(s.class, to), s.amount)
		}
	}
	if to == nil || to.Whole {
		return nil
	}
	if end := to.Window.End.Add(spec.Gap); end > d.now && k.exclusive.has(i) &&
		k.freeDuring(i, wholeClass, to.Window.Start, end, kind, d.now) < 0 {
		return errWhole
	}
	return nil
}

// nameOf returns the name of a class of c that may never have been interned.
func (d *data) nameOf(class int, c *api.Claim) api.ResourceClass {
	if class >= 0 {
		return d.classes.list[class]
	}
	for _, name := range c.Resources.Classes() {
		if d.classes.numberOf(name) < 0 {
			return name
		}
	}
	return ""
}

// checkRoom returns no_capacity if the claims within from do not all fit into to from now on.
func (d *data) checkRoom(row int, from, to *api.Claim) error {
	k, i := d.chunkOf(row)
	r, _, found := k.roomOf(i, from)
	if !found {
		return nil
	}
	var start, end api.Instant // of to; nothing may be used outside of it
	if to != nil {
		start, end = to.Window.Start, to.Window.End
	}
	for class, name := range d.classes.list {
		most := int64(0)
		if to != nil {
			most = to.Resources[name]
		}
		inside, outside := int64(0), int64(0)
		if end > d.now {
			inside = r.line.peakUse(class, 0, max(start, d.now), end)
		}
		if start > d.now {
			outside = r.line.peakUse(class, 0, d.now, start)
		}
		if end != api.Forever {
			outside = max(outside, r.line.peakUse(class, 0, max(end, d.now), api.Forever))
		}
		if inside > most || outside > 0 {
			return api.Errorf(api.CodeNoCapacity, "what is within the claim needs %d of %s", max(inside, outside), name)
		}
	}
	return nil
}

// useOver returns over which span a claim of a provider uses what it takes.
func useOver(spec *Spec) func(*api.Claim) api.Window {
	return func(c *api.Claim) api.Window {
		return api.Window{Start: c.Window.Start, End: c.Window.End.Add(spec.Gap)}
	}
}

// extensionOf returns the spans over which to needs more of a class than from, and how much
// more, if each needs it over the window that over returns. Spans of one class do not meet, and
// none has passed. Nil is a claim of nothing.
func (d *data) extensionOf(from, to *api.Claim, over func(*api.Claim) api.Window, number func(api.ResourceClass) int) []span {
	if to == nil {
		return nil
	}
	w := over(to)
	var out []span
	add := func(class int, start, end api.Instant, amount int64) {
		if start < end && end > d.now && amount > 0 {
			out = append(out, span{class: class, start: start, end: end, amount: amount})
		}
	}
	var had map[int]int64
	was := api.Window{Start: w.End, End: w.End} // beside to: it is before it altogether
	if from != nil {
		had = maps.Collect(d.countedOf(from, number))
		was = over(from)
	}
	for class, amount := range d.countedOf(to, number) {
		if had[class] == 0 {
			add(class, w.Start, w.End, amount)
			continue
		}
		add(class, w.Start, min(w.End, was.Start), amount)
		add(class, max(w.Start, was.Start), min(w.End, was.End), amount-had[class])
		add(class, max(w.Start, was.End), w.End, amount)
	}
	return out
}

// addExtension adds sign times what to needs beyond from to the sums of row, from now on.
func (t *Table) addExtension(row int, from, to *api.Claim, sign int64) {
	spans := t.extensionOf(from, to, useOver(t.specOf(row)), t.classes.intern)
	for _, s := range t.extensionOf(from, to, closingOf, t.classes.intern) {
		s.kind = useClosing
		spans = append(spans, s)
	}
	for i := range spans {
		spans[i].amount *= sign
	}
	if len(spans) > 0 {
		t.sumSpans(row, spans)
	}
}

// moveRoom makes the claims within one claim on row claims within another.
func (t *Table) moveRoom(row int, from, to api.InstanceID) {
	k, i := t.chunkOf(row)
	r, at, found := k.roomOf(i, &api.Claim{Consumer: from})
	if !found || from == to {
		return
	}
	rooms := slices.Delete(slices.Clone(k.rooms.value(i)), at, at+1)
	if o := slices.IndexFunc(rooms, func(r room) bool { return r.outer == to }); o >= 0 {
		for _, e := range rooms[o].line {
			r.line = r.line.withEdge(e)
		}
		r.claims += rooms[o].claims
		rooms = slices.Delete(rooms, o, o+1)
	}
	r.outer = to
	k, i = t.ownChunk(row)
	ownBlock(&k.rooms, t.epoch)[i] = append(rooms, r)
}

// OwnPart returns what the claim c of a slot takes from its host itself: everything that its
// shares do not give.
func OwnPart(c api.Claim, shares []api.Share) api.Claim {
	if len(shares) == 0 {
		return c
	}
	c.Resources = maps.Clone(c.Resources)
	for _, sh := range shares {
		for class, n := range sh.Resources {
			if left := c.Resources[class] - n; left > 0 {
				c.Resources[class] = left
			} else {
				delete(c.Resources, class)
			}
		}
	}
	return c
}

// swap is what one provider gives to a slot before and after, nil for nothing.
type swap struct {
	row      int
	from, to *api.Claim
}

// swapsOf returns the parts of two claims of slots on the host in row by provider, the host
// first. A provider that is not known any more has no part.
func (d *data) swapsOf(row int, from api.Claim, shares []api.Share, to api.Claim, toShares []api.Share) []swap {
	before, after := d.partsOf(row, from, shares), d.partsOf(row, to, toShares)
	out := []swap{{row, before[row], after[row]}}
	others := maps.Clone(before)
	maps.Copy(others, after)
	delete(others, row)
	for _, at := range slices.Sorted(maps.Keys(others)) {
		out = append(out, swap{at, before[at], after[at]})
	}
	return out
}

// partsOf returns what each row gives to a slot on the host in row.
func (d *data) partsOf(row int, c api.Claim, shares []api.Share) map[int]*api.Claim {
	own := OwnPart(c, shares)
	out := map[int]*api.Claim{row: &own}
	for _, sh := range shares {
		if at, known := d.rowOf(sh.Provider); known {
			part := c
			part.Resources = sh.Resources
			out[at] = &part
		}
	}
	return out
}

// sharesOf is the reverse of partsOf.
func (d *data) sharesOf(row int, parts map[int]*api.Claim) []api.Share {
	var out []api.Share
	for at, part := range parts {
		if at != row && len(part.Resources) > 0 {
			out = append(out, api.Share{Provider: d.specOf(at).ID, Resources: part.Resources})
		}
	}
	slices.SortFunc(out, func(a, b api.Share) int { return cmp.Compare(a.Provider, b.Provider) })
	return out
}
