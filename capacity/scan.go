package capacity

import (
	"math/bits"
	"slices"

	"berth/api"
)

// Hosts returns the hosts, the rows that can take slots. This and the sets below are fresh
// copies that the caller may change.
func (v View) Hosts() Set { return v.gatherMask(func(c *chunk) *mask { return &c.hosting }) }

// Providers returns the rows that are not holes: hosts and other providers.
func (v View) Providers() Set { return v.gatherMask(func(c *chunk) *mask { return &c.live }) }

// Up returns the hosts that are up.
func (v View) Up() Set { return v.gatherMask(func(c *chunk) *mask { return &c.up }) }

// Enabled returns the hosts that are enabled for work.
func (v View) Enabled() Set { return v.gatherMask(func(c *chunk) *mask { return &c.enabled }) }

// DropCommanded removes from pass the hosts that run only flavors with a command.
func (v View) DropCommanded(pass *Set) {
	for n, c := range v.data().chunks {
		words := pass.wordsOf(n)
		for i := range words {
			words[i] &^= c.needs[i]
		}
	}
}

// KeepPools removes from pass every row that is not a host of pool a or of pool b.
func (v View) KeepPools(pass *Set, a, b api.Pool) {
	var none mask
	pick := func(c *chunk, p api.Pool) *mask {
		if k := slices.Index(pools[:], p); k >= 0 {
			return &c.pools[k]
		}
		return &none
	}
	for n, c := range v.data().chunks {
		words, first, second := pass.wordsOf(n), pick(c, a), pick(c, b)
		for i := range words {
			words[i] &= first[i] | second[i]
		}
	}
}

// Maintenance returns the hosts in maintenance.
func (v View) Maintenance() Set { return v.gatherMask(func(c *chunk) *mask { return &c.maintenance }) }

// Serving returns the hosts that may take new work: up, enabled and not in maintenance.
func (v View) Serving() Set {
	s := v.Hosts()
	v.KeepServing(&s)
	return s
}

// KeepServing removes from pass every row that is not one of Serving.
func (v View) KeepServing(pass *Set) {
	for n, c := range v.data().chunks {
		words := pass.wordsOf(n)
		for i := range words {
			words[i] &= c.up[i] & c.enabled[i] &^ c.maintenance[i]
		}
	}
}

// Trait returns the providers that have the trait themselves; see TreeTrait.
func (v View) Trait(name string) Set {
	return v.maskByName(&v.data().traits, name, func(c *chunk) []*mask { return c.traits })
}

// Aggregate returns the providers that are in the aggregate with an id.
func (v View) Aggregate(id string) Set {
	return v.maskByName(&v.data().groups, id, func(c *chunk) []*mask { return c.groups })
}

// AZ returns the providers of an availability zone; none for "".
func (v View) AZ(name string) Set {
	return v.maskByName(&v.data().azs, name, func(c *chunk) []*mask { return c.azs })
}

// Traits returns, in order, every trait of a host that is serving, or of a provider
// that slots there may draw from.
func (v View) Traits() []string { return v.servedNames(v.data().traits.list, v.Trait) }

// AZs returns, in order, every availability zone of such a provider.
func (v View) AZs() []string { return v.servedNames(v.data().azs.list, v.AZ) }

// servedNames returns, in order, the names that serving hosts and what they reach have.
func (v View) servedNames(list []string, of func(string) Set) []string {
	serving := v.withSources(v.Serving())
	var out []string
	for _, name := range list {
		if s := of(name); s.Meets(serving) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// maskByName lines up the masks of a name.
func (v View) maskByName(numbers *names[string], name string, pick func(*chunk) []*mask) Set {
	k := numbers.numberOf(name)
	return v.gatherMask(func(c *chunk) *mask {
		if list := pick(c); k >= 0 && k < len(list) {
			return list[k]
		}
		return nil
	})
}

// gatherMask lines up one mask of each chunk as a Set; nil is an empty mask.
func (v View) gatherMask(pick func(*chunk) *mask) Set {
	s := NewSet(v.Rows())
	for n, c := range v.data().chunks {
		if m := pick(c); m != nil {
			copy(s.words[n*len(m):], m[:])
		}
	}
	return s
}

// KeepFitting takes out of pass every row on which a slot of r over w by kind does
// not fit, units included: what is left is exactly the rows of pass for which Fits
// returns nil or, for compound hosts, Place would. An empty r fits everywhere.
func (v View) KeepFitting(pass *Set, r api.Resources, w api.Window, kind api.Class) {
	if w.End <= v.Now() {
		clear(pass.words)
	}
	v.dropWhole(pass, w, kind)
	for _, name := range r.Classes() {
		v.keepAny(pass, func(s *Set) { v.keepFitting(s, name, r[name], w, kind) }, func(givers *Set) { v.dropWhole(givers, w, kind) })
	}
}

// dropWhole removes the rows that are wholly claimed over w.
func (v View) dropWhole(pass *Set, w api.Window, kind api.Class) {
	for n, c := range v.data().chunks {
		for at, rows := range c.exclusive {
			if n*len(c.live)+at >= len(pass.words) || rows&pass.words[n*len(c.live)+at] == 0 {
				continue
			}
			word := &pass.words[n*len(c.live)+at]
			for i := range (Set{[]uint64{rows & *word}}).All() {
				if c.isWhole(at*wordBits+i, w, kind, v.Now()) {
					*word &^= 1 << i
				}
			}
		}
	}
}

// KeepFittingAlone is KeepFitting, but no row draws from others: what is left is
// exactly the rows of pass for which Fits returns nil.
func (v View) KeepFittingAlone(pass *Set, r api.Resources, w api.Window, kind api.Class) {
	if w.End <= v.Now() {
		clear(pass.words)
	}
	v.dropWhole(pass, w, kind)
	for _, name := range r.Classes() {
		v.keepFitting(pass, name, r[name], w, kind)
	}
}

// keepFitting keeps the rows that have want of a class themselves, even if they are wholly
// claimed. The window has not passed.
func (v View) keepFitting(pass *Set, name api.ResourceClass, want int64, w api.Window, kind api.Class) {
	f := v.Free(name, w, kind)
	v.eachChunk(pass, name, func(c *chunk, class int, words []uint64) {
		if c.column(class) == nil {
			clear(words)
			return
		}
		c.clearUnfit(words, class, want, &f)
	})
}

// KeepLarge removes from pass every row whose total capacity in some class is less than r; a
// compound host, if that is so for each provider from which its slots may draw the class.
func (v View) KeepLarge(pass *Set, r api.Resources) {
	for _, name := range r.Classes() {
		v.keepAny(pass, func(s *Set) { v.keepLarge(s, name, r[name]) }, func(*Set) {})
	}
}

// keepLarge keeps the rows whose own capacity in a class is at least want.
func (v View) keepLarge(pass *Set, name api.ResourceClass, want int64) {
	v.eachChunk(pass, name, func(c *chunk, class int, words []uint64) {
		col := c.column(class)
		if col == nil {
			clear(words)
			return
		}
		for n, word := range words {
			if word != 0 {
				words[n] = word & fittingBits(wordOf(col.capacity, n), want)
			}
		}
	})
}

// KeepAdmitting takes out of pass every row whose units do not allow the amount
// of r in some class, though its whole capacity is no less; a compound host, if
// that is so for each provider that slots there may draw the class from and whose
// capacity is no less.
func (v View) KeepAdmitting(pass *Set, r api.Resources) {
	for _, name := range r.Classes() {
		compound := v.compoundHosts(*pass)
		v.dropUnitMismatches(pass, name, r[name])
		if compound.Empty() {
			continue
		}
		large := v.Providers()
		v.keepLarge(&large, name, r[name])
		fine := large.Clone()
		v.dropUnitMismatches(&fine, name, r[name])
		for row := range compound.All() {
			if v.mayDrawFrom(row, large) && !v.mayDrawFrom(row, fine) {
				pass.Remove(row)
			} else {
				pass.Add(row)
			}
		}
	}
}

// dropUnitMismatches takes out the rows whose own units do not allow want of a class that
// they have as much of.
func (v View) dropUnitMismatches(pass *Set, name api.ResourceClass, want int64) {
	v.eachChunk(pass, name, func(c *chunk, class int, words []uint64) {
		col := c.column(class)
		if col == nil {
			return
		}
		for n, word := range words {
			odd := word & col.odd[n]
			for ; odd != 0; odd &= odd - 1 {
				i := bits.TrailingZeros64(odd)
				row := n*wordBits + i
				if want <= col.capacity.at[row] && !c.specs.at[row].Inventory[name].Admits(want) {
					words[n] &^= 1 << i
				}
			}
		}
	})
}

// eachChunk calls do for each chunk with the number of a class and the words of pass.
func (v View) eachChunk(pass *Set, name api.ResourceClass, do func(c *chunk, class int, words []uint64)) {
	d := v.data()
	class := d.classes.numberOf(name)
	for n, c := range d.chunks {
		do(c, class, pass.wordsOf(n))
	}
}

// keepAny keeps the rows that keep does, and the compound hosts that draw from a
// row that keep would, of those that limit leaves.
func (v View) keepAny(pass *Set, keep, limit func(*Set)) {
	short := v.compoundHosts(*pass)
	keep(pass)
	short.AndNot(*pass)
	if short.Empty() {
		return
	}
	givers := v.Providers()
	limit(&givers)
	keep(&givers)
	for row := range short.All() {
		if v.mayDrawFrom(row, givers) {
			pass.Add(row)
		}
	}
}

// compoundHosts returns the compound hosts of pass.
func (v View) compoundHosts(pass Set) Set {
	if v.data().compounds == 0 {
		return Set{}
	}
	s := v.Compounds()
	s.And(pass)
	return s
}

// mayDrawFrom reports whether slots on a compound host may draw from a row of s.
func (v View) mayDrawFrom(row int, s Set) bool {
	if s.Has(row) {
		return true
	}
	r := v.data().reachFor(row)
	for _, list := range [...][]int32{r.tree[1:], r.sharers} {
		for _, at := range list {
			if s.Has(int(at)) {
				return true
			}
		}
	}
	return false
}

// AnyAggregate returns the providers that are in at least one of some aggregates.
func (v View) AnyAggregate(ids []string) Set {
	out := NewSet(v.Rows())
	for _, id := range ids {
		k := v.data().groups.numberOf(id)
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

// clearUnfit clears in words the hosts of c that cannot give want of class. It looks at the hosts
// of a word only if the bounds of the word do not decide.
func (c *chunk) clearUnfit(words []uint64, class int, want int64, f *Free) {
	col := c.column(class)
	soft := f.kind == api.Preemptible
	for n, word := range words {
		if word == 0 {
			continue
		}
		two := soft || f.begun && col.soft[n] != 0
		timed := c.timed[n] & word
		if f.whole || soft {
			timed = 0 // the columns say it all
		}
		odd := col.odd[n] & word
		switch {
		case !two && odd == 0 && want <= col.low[n]: // over a part of its timeline a host has no less than over all of it
			continue
		case !soft && timed == 0 && want > col.high[n]:
			words[n] = 0
			continue
		}
		fit := word & col.fittingWord(n, want, soft, two)
		slow := timed&^fit | odd
		words[n] = fit &^ slow
		for ; slow != 0; slow &= slow - 1 {
			i := n*wordBits + bits.TrailingZeros64(slow)
			if want <= c.freeBeside(i, class, f.w, f.kind, f.d.now) &&
				(!col.odd.has(i) || c.specs.at[i].Inventory[f.d.classes.list[class]].Admits(want)) {
				words[n] |= 1 << (i % wordBits)
			}
		}
	}
}

// fittingWord returns a word with a bit for each host of word n that has at least want by its
// columns: of what is open to preemptibles if soft, else of what is free, and also of what is left
// now if two.
func (c *column) fittingWord(n int, want int64, soft, two bool) uint64 {
	switch {
	case soft && c.closed != nil:
		return fittingOpen(wordOf(c.now, n), wordOf(c.closed, n), want)
	case soft:
		return fittingBits(wordOf(c.now, n), want)
	case two:
		return fittingBits(wordOf(c.free, n), want) & fittingBits(wordOf(c.now, n), want)
	}
	return fittingBits(wordOf(c.free, n), want)
}

// fittingBits returns a word with a bit for each of 64 hosts where a is at least want. It does
// not branch: the sign of a difference is the answer. Four of them at a time do not wait for each
// other.
func fittingBits(a *[wordBits]int64, want int64) uint64 {
	const sign = wordBits - 1
	var less uint64
	for i := 0; i < wordBits; i += 4 {
		less |= (uint64(a[i]-want)>>sign | uint64(a[i+1]-want)>>sign<<1 | uint64(a[i+2]-want)>>sign<<2 | uint64(a[i+3]-want)>>sign<<3) << i
	}
	return ^less
}

// fittingOpen is fittingBits of now less closed.
func fittingOpen(now, closed *[wordBits]int64, want int64) uint64 {
	var open [wordBits]int64
	for i := range open {
		open[i] = now[i] - closed[i]
	}
	return fittingBits(&open, want)
}

// FreeColumn returns FreeOver for every row, in one pass over the columns; the
// values of holes are 0. For a compound host it is the sum over everything that
// slots there may draw from, at most the largest int64, what is over-full counting
// as 0.
func (v View) FreeColumn(class api.ResourceClass, w api.Window, kind api.Class) []int64 {
	out := make([]int64, v.Rows())
	f := v.Free(class, w, kind)
	for n := range len(out) / WordRows {
		room := (*[WordRows]int64)(out[n*WordRows:])
		if at := f.Word(n, room); at != room {
			*room = *at
		}
	}
	v.addReached(out)
	return out
}

// addReached makes the values of compound hosts the sums over what they reach;
// values below 0 count as 0. The sum over a list of sharers is kept for the next
// host, which often has the same one.
func (v View) addReached(column []int64) {
	if v.data().compounds == 0 {
		return
	}
	own := slices.Clone(column)
	var sharers []int32
	var shared int64
	for row := range v.Compounds().All() {
		r := v.data().reachFor(row)
		if !sameSlice(sharers, r.sharers) {
			sharers, shared = r.sharers, sumOf(own, r.sharers)
		}
		column[row] = addCapped(sumOf(own, r.tree), shared)
	}
}

// sumOf adds up the values of some rows, those below 0 as 0, to at most the largest
// int64.
func sumOf(column []int64, rows []int32) int64 {
	var sum int64
	for _, row := range rows {
		sum = addCapped(sum, max(column[row], 0))
	}
	return sum
}

// sameSlice reports whether a and b are one slice.
func sameSlice(a, b []int32) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
