package capacity

import (
	"encoding/binary"
	"maps"
	"slices"

	"berth/api"
)

// Table is the writer's working copy of all hosts and their claims. The table
// keeps sums, not claims: whoever makes a claim keeps it, to release it or to
// build the table anew.
//
// Equal sequences of calls give tables that answer alike. A table that is built
// anew from the descriptions, the generations and the claims that are left (Put,
// SetGeneration, Restore, after Advance to the same instant) answers like the
// old one, though its rows may differ.
type Table struct {
	data
	epoch uint64 // blocks of an older epoch may be seen by a view
	holes []int  // rows to use again
}

// NewTable returns a table without hosts, at instant 0.
func NewTable() *Table { return &Table{epoch: 1} }

// View returns an immutable snapshot. It costs a copy of the chunk pointers;
// later writes copy what they touch, once for each view taken.
func (t *Table) View() View {
	t.epoch++
	d := t.data
	d.chunks = slices.Clone(t.chunks)
	return View{&d}
}

// Put adds a host, or replaces its description and keeps its claims. A capacity
// below the use is allowed: the host is over-full until use has fallen. The
// table keeps copies. Claims are kept under the gap that the host was first put
// with; to change it, Remove the host, Put it and Restore its claims.
func (t *Table) Put(s Spec) {
	s.Inventory, s.Traits, s.Gap = maps.Clone(s.Inventory), slices.Clone(s.Traits), max(s.Gap, 0)
	row, known := t.row(s.ID)
	var old Spec
	if known {
		old = *t.spec(row)
		s.Gap = old.Gap
	} else {
		row = t.newRow(s.ID)
	}
	c, i := t.own(row)
	own(&c.specs, t.epoch)[i] = &s
	t.setInventory(c, i, old.Inventory, s.Inventory)
	for _, n := range old.Traits {
		c.setTrait(t.traits.intern(n), i, false)
	}
	for _, n := range s.Traits {
		c.setTrait(t.traits.intern(n), i, true)
	}
	for p, name := range pools {
		c.pools[p].set(i, s.Pool == name)
	}
	c.live.set(i, true)
	c.up.set(i, s.Up)
	c.enabled.set(i, s.Enabled)
	c.needs.set(i, s.NeedsCommand)
}

// setInventory moves the columns of host i from one inventory to another.
func (t *Table) setInventory(c *chunk, i int, from, to map[api.ResourceClass]api.Inventory) {
	for name, v := range from {
		if _, stays := to[name]; !stays {
			t.setCapacity(c, i, t.classes.intern(name), -v.Capacity(), false)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		v := to[name]
		n := v.Normal()
		plain := n.MinUnit == 1 && n.StepSize == 1 && n.MaxUnit >= v.Capacity()
		t.setCapacity(c, i, t.classes.intern(name), v.Capacity()-from[name].Capacity(), !plain)
	}
}

// setCapacity adds delta to the capacity of host i in class.
func (t *Table) setCapacity(c *chunk, i, class int, delta int64, odd bool) {
	col := c.ownColumn(class, t.epoch)
	col.odd.set(i, odd)
	if delta == 0 {
		return
	}
	own(&col.capacity, t.epoch)[i] += delta
	own(&col.free, t.epoch)[i] += delta
	own(&col.now, t.epoch)[i] += delta
}

// newRow gives id a row: a hole, or one more at the end.
func (t *Table) newRow(id api.HostID) int {
	var row int
	if n := len(t.holes); n > 0 {
		row, t.holes = t.holes[n-1], t.holes[:n-1]
	} else if row = t.hosts; row%ChunkHosts == 0 {
		t.chunks = append(t.chunks, newChunk(t.epoch))
	}
	t.hosts++
	t.ownPart(id)[id] = row
	c, i := t.own(row)
	own(&c.prefixes, t.epoch)[i] = prefixOf(id)
	return row
}

// prefixOf returns the first eight bytes of id as a number that orders as they do.
func prefixOf(id api.HostID) uint64 {
	var b [8]byte
	copy(b[:], id)
	return binary.BigEndian.Uint64(b[:])
}

// own returns the chunk of row for writing, and the place of row in it.
func (t *Table) own(row int) (*chunk, int) {
	c, i := t.at(row)
	if c.epoch != t.epoch {
		c = c.clone(t.epoch)
		t.chunks[row/ChunkHosts] = c
	}
	return c, i
}

// ownPart returns the part of the index that id belongs to, for writing.
func (t *Table) ownPart(id api.HostID) map[api.HostID]int {
	switch {
	case t.rows == nil:
		t.rows = &index{epoch: t.epoch}
	case t.rows.epoch != t.epoch:
		x := *t.rows
		x.epoch = t.epoch
		t.rows = &x
	}
	p := &t.rows.parts[partOf(id)]
	if p.rows == nil {
		p.rows = map[api.HostID]int{}
	} else if p.epoch != t.epoch {
		p.rows = maps.Clone(p.rows)
	}
	p.epoch = t.epoch
	return p.rows
}

// Remove forgets a host with all its claims; an unknown host is no error.
func (t *Table) Remove(id api.HostID) {
	row, known := t.row(id)
	if !known {
		return
	}
	c, i := t.own(row)
	for k := range c.columns {
		if col := c.column(k); col != nil {
			col.odd.set(i, false)
			own(&col.capacity, t.epoch)[i] = 0
			own(&col.firm, t.epoch)[i] = 0
			own(&col.free, t.epoch)[i] = 0
			own(&col.now, t.epoch)[i] = 0
		}
	}
	for _, n := range c.specs.at[i].Traits {
		c.setTrait(t.traits.intern(n), i, false)
	}
	for p := range pools {
		c.pools[p].set(i, false)
	}
	for _, m := range []*mask{&c.live, &c.up, &c.enabled, &c.needs, &c.timed} {
		m.set(i, false)
	}
	own(&c.specs, t.epoch)[i] = nil
	own(&c.timelines, t.epoch)[i] = nil
	own(&c.generations, t.epoch)[i] = 0
	own(&c.prefixes, t.epoch)[i] = 0
	delete(t.ownPart(id), id)
	t.holes = append(t.holes, row)
	t.hosts--
}

// Generation returns the generation of a host, 0 for one that is unknown or
// was never changed since it was put.
func (t *Table) Generation(id api.HostID) uint64 {
	row, known := t.row(id)
	if !known {
		return 0
	}
	c, i := t.at(row)
	return c.generations.at[i]
}

// Bump raises the generation of a host by one and returns it; 0 for an unknown
// host. The caller bumps once for each command that changed the host.
func (t *Table) Bump(id api.HostID) uint64 {
	g := t.Generation(id) + 1
	if !t.SetGeneration(id, g) {
		return 0
	}
	return g
}

// SetGeneration sets the generation of a host and reports whether it is known.
// It is for restoring a table; everything else bumps.
func (t *Table) SetGeneration(id api.HostID, generation uint64) bool {
	row, known := t.row(id)
	if known {
		c, i := t.own(row)
		own(&c.generations, t.epoch)[i] = generation
	}
	return known
}
