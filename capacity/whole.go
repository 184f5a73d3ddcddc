package capacity

import (
	"maps"

	"berth/api"
)

var (
	errWhole   = api.Errorf(api.CodeNoCapacity, "the whole host is reserved over the window")
	errNotIdle = api.Errorf(api.CodeNoCapacity, "the host is not idle over the window")
	errNothing = api.Errorf(api.CodeNoCapacity, "the host has nothing to reserve")
)

// PlaceWhole claims a whole host over the window of c, which is firm: all that the host and
// the providers of its tree have of every class, whatever c.Resources and their units say, and
// that nothing else is admitted there at any instant of the window, even if they get more
// later. What the host shares with others is not taken. It returns the shares of the tree
// below the host, in order of providers, and all that is taken, the host's own included. The
// claim is kept as any other of those resources with those shares, with Claim.Whole set.
//
// It fails with no_capacity unless the host and its tree are idle over the window: nothing is
// claimed there at any instant from now on, not even a slot of nothing. Preemptibles count if
// the window has begun and c does not preempt. A host whose tree has no inventory cannot be claimed.
func (t *Table) PlaceWhole(id api.HostID, c api.Claim) ([]api.Share, api.Resources, error) {
	t.refreshReaches()
	row, known := t.rowOf(id)
	if !known || t.specOf(row).Passive {
		return nil, nil, api.Errorf(api.CodeNotFound, "no such host")
	}
	c.Resources, c.Whole = nil, true
	if err := t.checkClaim(c); err != nil {
		return nil, nil, err
	}
	if c.Class == api.Preemptible || c.Within != nil {
		return nil, nil, api.Errorf(api.CodeInvalid, "a claim of a whole host is firm and not within another")
	}
	if !t.isTreeIdle(row, c.Window, c.Class) {
		return nil, nil, errNotIdle
	}
	parts, all := t.wholeParts(row, c)
	if len(all) == 0 {
		return nil, nil, errNothing
	}
	for at, part := range parts { // in any order: each is alone
		if at == row {
			t.addClaim(at, *part, 1)
		} else {
			t.sumClaim(at, *part, 1)
		}
	}
	return t.sharesOf(row, parts), all, nil
}

// wholeParts returns what each row of the tree of the host in row gives to a claim of all of
// it, and the sum.
func (d *data) wholeParts(row int, c api.Claim) (map[int]*api.Claim, api.Resources) {
	parts, all := map[int]*api.Claim{}, api.Resources{}
	for _, at := range (View{d}).Tree(row) {
		part := c
		part.Resources = api.Resources{}
		for class, v := range d.specOf(int(at)).Inventory {
			if n := v.Capacity(); n > 0 {
				part.Resources[class] = n
				all[class] = addCapped(all[class], n)
			}
		}
		if int(at) == row || len(part.Resources) > 0 {
			parts[int(at)] = &part
		}
	}
	return parts, all
}

// isTreeIdle reports whether nothing is claimed on a host and in its tree over w that keeps a
// claim of kind out.
func (d *data) isTreeIdle(row int, w api.Window, kind api.Class) bool {
	for _, at := range (View{d}).Tree(row) {
		c, i := d.chunkOf(int(at))
		if !c.isIdle(i, w.Start, w.End.Add(c.specs.at[i].Gap), kind, d.now) {
			return false
		}
	}
	return true
}

// WholeCapacity returns what PlaceWhole takes of the host in row.
func (v View) WholeCapacity(row int) api.Resources {
	if v.data().specOf(row) == nil {
		return api.Resources{}
	}
	_, all := v.data().wholeParts(row, api.Claim{})
	return maps.Clone(all)
}

// KeepStocked takes out of pass every row that PlaceWhole refuses however idle it is: what is
// no host, and hosts whose tree has no inventory.
func (v View) KeepStocked(pass *Set) {
	d := v.data()
	pass.And(v.Hosts())
	stocked := NewSet(v.Rows())
	for n, c := range d.chunks {
		for col := range c.allColumns {
			for at := range c.live {
				stocked.words[n*len(c.live)+at] |= fittingBits(wordOf(col.capacity, at), 1)
			}
		}
	}
	compound := v.compoundHosts(*pass)
	for row := range compound.All() {
		for _, at := range v.Tree(row) {
			if stocked.Has(int(at)) {
				stocked.Add(row)
			}
		}
	}
	pass.And(stocked)
}

// KeepIdle takes out of pass every row that is not idle over w: what is left is exactly the
// rows of pass for which PlaceWhole would work for a claim of kind, if KeepStocked keeps them.
func (v View) KeepIdle(pass *Set, w api.Window, kind api.Class) {
	d := v.data()
	if w.End <= d.now {
		clear(pass.words)
	}
	pass.And(v.Hosts())
	for n, c := range d.chunks {
		for at := range c.live {
			if n*len(c.live)+at < len(pass.words) {
				c.clearBusy(&pass.words[n*len(c.live)+at], at, w, kind, d.now)
			}
		}
	}
	compound := v.compoundHosts(*pass)
	for row := range compound.All() {
		if !d.isTreeIdle(row, w, kind) {
			pass.Remove(row)
		}
	}
}

// clearBusy clears in word the hosts of the given word of c on which something is claimed over w
// that keeps a claim of kind out.
func (c *chunk) clearBusy(word *uint64, at int, w api.Window, kind api.Class, now api.Instant) {
	if *word == 0 {
		return
	}
	slow := *word & c.timed[at]
	for col := range c.allColumns {
		low := at * wordBits
		all := (*[wordBits]int64)(col.capacity.at[low:])
		*word &= fittingPairs((*[wordBits]int64)(col.free.at[low:]), all)
		if w.Start <= now && kind != api.Preempting {
			*word &= fittingPairs((*[wordBits]int64)(col.now.at[low:]), all)
		}
	}
	*word &^= c.timed[at]
	for i := range (Set{[]uint64{slow}}).All() {
		row := at*wordBits + i
		if c.isIdle(row, w.Start, c.endOf(row, w), kind, now) {
			*word |= 1 << i
		}
	}
}

// fittingPairs returns a word with a bit for each of 64 hosts where a is at least b.
func fittingPairs(a, b *[wordBits]int64) uint64 {
	var out uint64
	for i := range a {
		out = out>>1 | uint64(^(a[i]-b[i]))&(1<<(wordBits-1))
	}
	return out
}
