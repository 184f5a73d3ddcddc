package capacity

import (
	"cmp"
	"maps"
	"slices"

	"berth/api"
)

// amount is how much of a class one slot takes.
type amount struct {
	name  api.ResourceClass
	class int // interned, -1 if nobody ever had it
	n     int64
}

// appendAmounts adds what one slot takes to out, which is empty, in order of classes.
func (d *data) appendAmounts(out []amount, r api.Resources) []amount {
	for name, n := range r { // in any order
		if n > 0 {
			out = append(out, amount{name, d.classes.numberOf(name), n})
		}
	}
	slices.SortFunc(out, func(a, b amount) int { return cmp.Compare(a.name, b.name) })
	return out
}

// nobody is what gives an amount that no row can give.
const nobody = -1

// chooseSources writes to from, which is as long as need, the row that gives each amount to
// a slot on a host: the host first, then rows of its tree, each time the one that can give
// the most of the rest, in order of the tree if equal, then the sharers in order. An amount
// comes whole from one row. The amounts are independent: the row that gives one never
// decides whether the others can be given. It reports whether everything is given.
func (d *data) chooseSources(row int, need []amount, from []int, gives func(row int, a *amount) bool) bool {
	left := len(need)
	take := func(at int) { // the amounts still needed that at can give
		for i := range need {
			if from[i] == nobody && gives(at, &need[i]) {
				from[i] = at
				left--
			}
		}
	}
	for i := range from {
		from[i] = nobody
	}
	take(row)
	r := d.sourcesOf(row)
	if r == nil {
		return left == 0
	}
	for left > 0 {
		best := d.findRichest(r.tree[1:], need, from, gives)
		if best == nobody {
			break
		}
		take(best)
	}
	for i := 0; left > 0 && i < len(r.sharers); i++ {
		take(int(r.sharers[i]))
	}
	return left == 0
}

// findRichest returns the first row of tree that can give the most amounts still needed, or
// nobody if no row can give any.
func (d *data) findRichest(tree []int32, need []amount, from []int, gives func(int, *amount) bool) int {
	best, high := nobody, 0
	for _, at := range tree {
		n := 0
		for i := range need {
			if from[i] == nobody && gives(int(at), &need[i]) {
				n++
			}
		}
		if n > high {
			best, high = int(at), n
		}
	}
	return best
}

// admitsAmount reports whether the units of row allow one claim of a.
func (d *data) admitsAmount(row int, a *amount) bool {
	return d.specOf(row).Inventory[a.name].Admits(a.n)
}

// Place takes a slot for c on a host. What the host cannot give comes from providers that it
// reaches: each class whole from the host, else from a provider of its tree, first the one
// that can give the most classes still needed and otherwise in order of the tree, else from
// the sharing providers in order of ids. It returns the shares of others, in order of
// providers; the host has a claim for the rest, even if that is nothing. To release or
// restore the slot, Release or Restore the rest on the host, and Return or Lend each share.
//
// If the slot does not fit, nothing changes and the error is that of Fits:
// not_found for what is no host, no_capacity for a class that nobody has room for,
// and invalid if those that have the room do not hand out such an amount and
// neither does any other.
func (t *Table) Place(id api.HostID, c api.Claim) ([]api.Share, error) {
	t.refreshReaches()
	row, known := t.rowOf(id)
	if !known || t.specOf(row).Passive {
		return nil, api.Errorf(api.CodeNotFound, "no such host")
	}
	if t.sourcesOf(row) == nil || c.Within != nil {
		return nil, t.Claim(id, c)
	}
	if err := t.checkClaim(c); err != nil {
		return nil, err
	}
	if k, i := t.chunkOf(row); k.isWhole(i, c.Window, c.Class, t.now) {
		return nil, errWhole
	}
	need := t.appendAmounts(nil, c.Resources)
	from := make([]int, len(need))
	if !t.chooseSources(row, need, from, func(at int, a *amount) bool { return t.roomFor(at, a, c) >= a.n && t.admitsAmount(at, a) }) {
		return nil, t.explainLack(row, &need[slices.Index(from, nobody)], c)
	}
	parts := map[int]api.Resources{row: {}}
	for i, at := range from {
		if parts[at] == nil {
			parts[at] = api.Resources{}
		}
		parts[at][need[i].name] = need[i].n
	}
	var out []api.Share
	for _, at := range slices.Sorted(maps.Keys(parts)) {
		part := c
		part.Resources = parts[at]
		if at == row {
			t.addClaim(at, part, 1)
			continue
		}
		t.sumClaim(at, part, 1)
		out = append(out, api.Share{Provider: t.specOf(at).ID, Resources: parts[at]})
	}
	slices.SortFunc(out, func(a, b api.Share) int { return cmp.Compare(a.Provider, b.Provider) })
	return out, nil
}

// roomFor returns how much of a's class row has left for c.
func (d *data) roomFor(row int, a *amount, c api.Claim) int64 {
	k, i := d.chunkOf(row)
	return k.freeOver(i, a.class, c.Window, c.Class, d.now)
}

// explainLack returns why no source of slots on row gives a.
func (d *data) explainLack(row int, a *amount, c api.Claim) error {
	sources := []int32{int32(row)}
	if r := d.sourcesOf(row); r != nil {
		sources = slices.Concat(r.tree, r.sharers)
	}
	var most int64
	admitted := false
	for _, at := range sources {
		most = max(most, d.roomFor(int(at), a, c))
		admitted = admitted || d.admitsAmount(int(at), a)
	}
	if most >= a.n && !admitted {
		return api.Errorf(api.CodeInvalid, "neither the host nor what it draws from hands out %d of %s", a.n, a.name)
	}
	return api.Errorf(api.CodeNoCapacity, "neither the host nor what it draws from has %d of %s left in one place over the window, at most %d", a.n, a.name, most)
}
