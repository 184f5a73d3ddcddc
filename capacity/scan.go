package capacity

import (
	"math/bits"
	"slices"

	"berth/api"
)

// Hosts returns the rows that are not holes. It and the sets below are fresh
// copies that the caller may change.
func (v View) Hosts() Set { return v.gather(func(c *chunk) *mask { return &c.live }) }

// Up returns the hosts that are up.
func (v View) Up() Set { return v.gather(func(c *chunk) *mask { return &c.up }) }

// Enabled returns the hosts that an operator lets take work.
func (v View) Enabled() Set { return v.gather(func(c *chunk) *mask { return &c.enabled }) }

// NeedsCommand returns the hosts that run only flavors with a command.
func (v View) NeedsCommand() Set { return v.gather(func(c *chunk) *mask { return &c.needs }) }

// Pool returns the hosts of pool p.
func (v View) Pool(p api.Pool) Set {
	k := slices.Index(pools[:], p)
	if k < 0 {
		return NewSet(v.Rows())
	}
	return v.gather(func(c *chunk) *mask { return &c.pools[k] })
}

// Maintenance returns the hosts that an operator has taken out of service for a
// while.
func (v View) Maintenance() Set { return v.gather(func(c *chunk) *mask { return &c.maintenance }) }

// Serving returns the hosts that may take something new: up, enabled and not in
// maintenance.
func (v View) Serving() Set {
	s := v.Up()
	s.And(v.Enabled())
	s.AndNot(v.Maintenance())
	return s
}

// Trait returns the hosts that have the trait.
func (v View) Trait(name string) Set {
	return v.masked(&v.data().traits, name, func(c *chunk) []*mask { return c.traits })
}

// Aggregate returns the hosts that are in the aggregate with an id.
func (v View) Aggregate(id string) Set {
	return v.masked(&v.data().groups, id, func(c *chunk) []*mask { return c.groups })
}

// AZ returns the hosts of an availability zone; none for "".
func (v View) AZ(name string) Set {
	return v.masked(&v.data().azs, name, func(c *chunk) []*mask { return c.azs })
}

// Traits returns, in order, every trait of a host that is serving.
func (v View) Traits() []string { return v.served(v.data().traits.list, v.Trait) }

// AZs returns, in order, every availability zone of a host that is serving.
func (v View) AZs() []string { return v.served(v.data().azs.list, v.AZ) }

// served returns, in order, the names that a serving host has.
func (v View) served(list []string, of func(string) Set) []string {
	serving := v.Serving()
	var out []string
	for _, name := range list {
		if s := of(name); s.Meets(serving) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// masked lines up the masks of a name.
func (v View) masked(numbers *names[string], name string, pick func(*chunk) []*mask) Set {
	k := numbers.of(name)
	return v.gather(func(c *chunk) *mask {
		if list := pick(c); k >= 0 && k < len(list) {
			return list[k]
		}
		return nil
	})
}

// gather lines up one mask of each chunk as a Set; nil is an empty mask.
func (v View) gather(pick func(*chunk) *mask) Set {
	s := NewSet(v.Rows())
	for n, c := range v.data().chunks {
		if m := pick(c); m != nil {
			copy(s.words[n*len(m):], m[:])
		}
	}
	return s
}

// KeepFitting takes out of pass every row on which a claim of r over w by kind
// does not fit, units included: what is left is exactly the rows of pass for
// which Fits returns nil. An empty r fits everywhere.
func (v View) KeepFitting(pass *Set, r api.Resources, w api.Window, kind api.Class) {
	d := v.data()
	if w.End <= d.now {
		clear(pass.words)
	}
	for _, name := range r.Classes() {
		class := d.classes.of(name)
		for n, c := range d.chunks {
			words := pass.words[min(n*len(c.live), len(pass.words)):]
			if words = words[:min(len(words), len(c.live))]; c.column(class) == nil {
				clear(words)
				continue
			}
			c.keep(words, class, r[name], w, kind, d)
		}
	}
}

// KeepLarge takes out of pass every row whose whole capacity is less than r in
// some class.
func (v View) KeepLarge(pass *Set, r api.Resources) {
	v.keepWhole(pass, r, func(_ *chunk, col *column, words []uint64, name api.ResourceClass) {
		if col == nil {
			clear(words)
			return
		}
		for n, word := range words {
			if word != 0 {
				at := (*[wordBits]int64)(col.capacity.at[n*wordBits:])
				words[n] = word & fitting(at, at, r[name])
			}
		}
	})
}

// KeepAdmitting takes out of pass every row whose units do not allow the amount
// of r in some class, though its whole capacity is no less.
func (v View) KeepAdmitting(pass *Set, r api.Resources) {
	v.keepWhole(pass, r, func(c *chunk, col *column, words []uint64, name api.ResourceClass) {
		if col == nil {
			return
		}
		for n, word := range words {
			odd := word & col.odd[n]
			for ; odd != 0; odd &= odd - 1 {
				i := bits.TrailingZeros64(odd)
				row := n*wordBits + i
				if r[name] <= col.capacity.at[row] && !c.specs.at[row].Inventory[name].Admits(r[name]) {
					words[n] &^= 1 << i
				}
			}
		}
	})
}

// keepWhole calls keep for each class of r and each chunk, with the column, nil
// if no host has it, and the words of pass.
func (v View) keepWhole(pass *Set, r api.Resources, keep func(*chunk, *column, []uint64, api.ResourceClass)) {
	d := v.data()
	for _, name := range r.Classes() {
		class := d.classes.of(name)
		for n, c := range d.chunks {
			words := pass.words[min(n*len(c.live), len(pass.words)):]
			keep(c, c.column(class), words[:min(len(words), len(c.live))], name)
		}
	}
}

// AnyAggregate returns the hosts that are in at least one of some aggregates.
func (v View) AnyAggregate(ids []string) Set {
	out := NewSet(v.Rows())
	for _, id := range ids {
		k := v.data().groups.of(id)
		for n, c := range v.data().chunks {
			if k < 0 || k >= len(c.groups) || c.groups[k] == nil {
				continue
			}
			for i, word := range c.groups[k] {
				out.words[n*len(c.live)+i] |= word
			}
		}
	}
	return out
}

// keep clears in words the hosts of c that cannot give want of class.
func (c *chunk) keep(words []uint64, class int, want int64, w api.Window, kind api.Class, d *data) {
	col := c.column(class)
	first, second := col.tests(w, kind, d.now)
	for n, word := range words {
		if word == 0 {
			continue
		}
		slow := c.timed[n] | col.odd[n]
		at := n * wordBits
		fit := word & fitting((*[wordBits]int64)(first.at[at:]), (*[wordBits]int64)(second.at[at:]), want)
		words[n] = fit &^ slow
		for i := range (Set{[]uint64{word & slow}}).All() {
			if want <= c.freeOver(at+i, class, w, kind, d.now) && c.specs.at[at+i].Inventory[d.classes.list[class]].Admits(want) {
				words[n] |= 1 << i
			}
		}
	}
}

// tests returns the columns whose lesser value is the room of a host without a
// timeline, for a window that has not passed.
func (c *column) tests(w api.Window, kind api.Class, now api.Instant) (first, second *block[int64]) {
	switch {
	case kind == api.Preemptible:
		return c.now, c.now
	case w.Start <= now:
		return c.free, c.now
	}
	return c.free, c.free
}

// fitting returns a word with a bit for each of 64 hosts where both a and b are
// at least want. It does not branch: the sign of a difference is the answer, and
// it is shifted in from the top.
func fitting(a, b *[wordBits]int64, want int64) uint64 {
	var out uint64
	for i := range a {
		out = out>>1 | uint64(^((a[i]-want)|(b[i]-want)))&(1<<(wordBits-1))
	}
	return out
}

// FreeColumn returns FreeOver for every row, in one pass over the columns; the
// values of holes are 0.
func (v View) FreeColumn(class api.ResourceClass, w api.Window, kind api.Class) []int64 {
	d := v.data()
	out := make([]int64, v.Rows())
	number := d.classes.of(class)
	if w.End <= d.now {
		return out
	}
	for n, c := range d.chunks {
		col := c.column(number)
		if col == nil {
			continue
		}
		part := out[n*ChunkHosts:][:ChunkHosts]
		first, second := col.tests(w, kind, d.now)
		for i := range part {
			part[i] = min(first.at[i], second.at[i])
		}
		for i := range (Set{c.timed[:]}).All() {
			part[i] = c.freeOver(i, number, w, kind, d.now)
		}
	}
	return out
}
