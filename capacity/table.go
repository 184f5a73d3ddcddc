package capacity

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"berth/api"
)

// Table is the writer's working copy of all providers and their claims. The table keeps
// sums, not claims: its caller keeps each claim, to release it or to rebuild the table.
//
// Equal sequences of calls give tables that answer alike. A table that is built
// anew from the descriptions, the generations and the claims that are left (Put,
// SetGeneration, Restore, after Advance to the same instant) answers like the
// old one, though its rows may differ.
type Table struct {
	data
	sharers
	epoch       uint64 // blocks of an older epoch may be seen by a view
	stockEpoch  uint64 // that the stock was copied in
	layoutStale stale
	holes       []int // rows to use again
}

// NewTable returns a table without providers, at instant 0.
func NewTable() *Table { return &Table{epoch: 1} }

// View returns an immutable snapshot. It costs a copy of the chunk pointers;
// later writes copy what they touch, once for each view taken.
func (t *Table) View() View {
	t.refreshReaches()
	t.refreshLayout()
	t.epoch++
	d := t.data
	d.chunks = slices.Clone(t.chunks)
	return View{&d}
}

// Put adds a provider, or replaces its description and keeps its claims. A
// capacity below the use is allowed: it is over-full until use has fallen. The
// table keeps the maps and slices of s: they must not be changed any more. Claims
// are kept under the gap that the provider was first put with; see SetGap.
//
// A child may be put before its parent: until then it is a root. The caller
// allows no loops; a parent that is below the provider itself does not count.
func (t *Table) Put(s Spec) {
	row, known := t.rowOf(s.ID)
	var old Spec
	if known {
		old = *t.specOf(row)
		s.Gap = old.Gap
	} else {
		row = t.newRow(s.ID)
	}
	s = s.normal(&old)
	t.layoutStale |= s.layoutChange(&old)
	c, i := t.ownChunk(row)
	t.setSpec(row, &s)
	t.setInventory(c, i, old.Inventory, s.Inventory)
	t.applySpec(row, &old, &s)
	t.updateRelations(row, &old, &s)
	c.live.set(i, true)
	t.setHosting(row, !s.Passive)
}

// SetGap changes the gap of a provider of which nothing is claimed: the caller knows that no
// claim on it, made or lent, is still to be released, even if its window has passed. An unknown
// provider is not an error.
func (t *Table) SetGap(id api.HostID, gap time.Duration) {
	row, known := t.rowOf(id)
	if !known || t.specOf(row).Gap == max(gap, 0) {
		return
	}
	s := *t.specOf(row)
	s.Gap = max(gap, 0)
	t.setSpec(row, &s)
}

// setSpec replaces the description of row, and its gap.
func (t *Table) setSpec(row int, s *Spec) {
	c, i := t.ownChunk(row)
	if gap := api.Instant(s.Gap.Milliseconds()); gap != c.gaps.value(i) {
		ownBlock(&c.gaps, t.epoch)[i] = gap
	}
	ownBlock(&c.specs, t.epoch)[i] = s
}

// setHosting records whether row is a host.
func (t *Table) setHosting(row int, on bool) {
	c, i := t.ownChunk(row)
	if c.hosting.has(i) == on {
		return
	}
	c.hosting.set(i, on)
	if on {
		t.hosts++
	} else {
		t.hosts--
	}
}

// normal returns s as the table keeps it, with the lists and attributes of old where they are
// equal.
func (s Spec) normal(old *Spec) Spec {
	if !s.Passive {
		s.Parent = ""
	}
	s.Gap, s.Failures = max(s.Gap, 0), min(max(s.Failures, 0), math.MaxInt32)
	if slices.Equal(s.Traits, old.Traits) {
		s.Traits = old.Traits
	}
	if slices.Equal(s.Aggregates, old.Aggregates) {
		s.Aggregates = old.Aggregates
	}
	if maps.Equal(s.Attributes, old.Attributes) {
		s.Attributes = old.Attributes
	}
	return s
}

// applySpec updates masks, attributes and the name of row from one description to another.
// It writes only what differs.
func (t *Table) applySpec(row int, old, s *Spec) {
	c, i := t.ownChunk(row)
	setAll(&c.traits, &t.traits, i, old.Traits, s.Traits)
	setAll(&c.groups, &t.groups, i, old.Aggregates, s.Aggregates)
	setAll(&c.azs, &t.azs, i, listOf(old.AZ), listOf(s.AZ))
	for p, name := range pools {
		c.pools[p].set(i, s.Pool == name && !s.Passive)
	}
	c.up.set(i, s.Up && !s.Passive)
	c.enabled.set(i, s.Enabled && !s.Passive)
	c.needs.set(i, s.NeedsCommand && !s.Passive)
	c.maintenance.set(i, s.Maintenance && !s.Passive)
	if old.Failures != s.Failures {
		ownBlock(&c.failures, t.epoch)[i] = int32(s.Failures)
	}
	t.setAttributes(c, i, old.Attributes, s.Attributes)
	if old.Name == s.Name {
		return
	}
	if was, ok := t.named.findRow(old.Name); ok && was == row {
		delete(ownPart(&t.named, old.Name, t.epoch), old.Name)
	}
	if s.Name != "" {
		ownPart(&t.named, s.Name, t.epoch)[s.Name] = row
	}
}

// listOf returns a list of name, empty for "".
func listOf(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// setAttributes moves the attribute columns of host i from one set to another.
func (t *Table) setAttributes(c *chunk, i int, from, to map[string]string) {
	for name := range from {
		if _, stays := to[name]; !stays && t.columns.numberOf(name) >= 0 {
			ownBlock(c.attributeBlock(t.columns.numberOf(name)), t.epoch)[i] = Value{}
		}
	}
	var changed []string
	for name, text := range to {
		if was, had := from[name]; !had || was != text {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed) // equal calls number names alike
	for _, name := range changed {
		if t.columns.numberOf(name) < 0 && len(t.columns.list) == attributeColumnsMax {
			continue // it is read from the description
		}
		ownBlock(c.attributeBlock(t.columns.intern(name)), t.epoch)[i] = ParseValue(to[name])
	}
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
	was := col.capacity.value(i)
	t.addStock(class, min(was+delta, stockMax)-min(was, stockMax))
	ownBlock(&col.capacity, t.epoch)[i] += delta
	col.setFree(i, col.free.at[i]+delta, t.epoch)
	ownBlock(&col.now, t.epoch)[i] += delta
}

// newRow assigns a row to id: a hole, or a new row at the end.
func (t *Table) newRow(id api.HostID) int {
	var row int
	if n := len(t.holes); n > 0 {
		row, t.holes = t.holes[n-1], t.holes[:n-1]
	} else if row = t.live; row%chunkHosts == 0 {
		t.chunks = append(t.chunks, newChunk(t.epoch))
	}
	t.live++
	ownPart(&t.rows, id, t.epoch)[id] = row
	c, i := t.ownChunk(row)
	prefix := prefixOf(id)
	ownBlock(&c.prefixes, t.epoch)[i] = prefix
	c.lowest[i/wordBits] = min(c.lowest[i/wordBits], prefix)
	return row
}

// prefixOf returns the first eight bytes of id as a number of the same order.
func prefixOf(id api.HostID) uint64 {
	var b [8]byte
	copy(b[:], id)
	return binary.BigEndian.Uint64(b[:])
}

// ownChunk returns the chunk of row for writing, and the place of row in it.
func (t *Table) ownChunk(row int) (*chunk, int) {
	c, i := t.chunkOf(row)
	if c.epoch != t.epoch {
		c = c.clone(t.epoch)
		t.chunks[row/chunkHosts] = c
	}
	return c, i
}

// Remove deletes a provider with all its claims; an unknown one is not an error. Its
// children become roots.
func (t *Table) Remove(id api.HostID) {
	row, known := t.rowOf(id)
	if !known {
		return
	}
	c, i := t.ownChunk(row)
	for class := range t.classes.list {
		if col := c.column(class); col != nil {
			t.addStock(class, -min(col.capacity.value(i), stockMax))
		}
	}
	for col := range c.allColumns {
		col.odd.set(i, false)
		ownBlock(&col.capacity, t.epoch)[i] = 0
		ownBlock(&col.firm, t.epoch)[i] = 0
		col.setFree(i, 0, t.epoch)
		ownBlock(&col.now, t.epoch)[i] = 0
		col.soft.set(i, false)
		if col.closed != nil {
			ownBlock(&col.closed, t.epoch)[i] = 0
		}
	}
	old := c.specs.at[i]
	t.layoutStale |= staleKinds
	t.applySpec(row, old, &Spec{})
	t.updateRelations(row, old, &Spec{})
	c.live.set(i, false)
	t.setHosting(row, false)
	c.timed.set(i, false)
	c.exclusive.set(i, false)
	if c.claims != nil {
		ownBlock(&c.claims, t.epoch)[i] = 0
	}
	if c.gaps != nil {
		ownBlock(&c.gaps, t.epoch)[i] = 0
	}
	if c.rooms != nil {
		ownBlock(&c.rooms, t.epoch)[i] = nil
	}
	ownBlock(&c.specs, t.epoch)[i] = nil
	ownBlock(&c.timelines, t.epoch)[i] = nil
	ownBlock(&c.generations, t.epoch)[i] = 0
	ownBlock(&c.prefixes, t.epoch)[i] = 0
	delete(ownPart(&t.rows, id, t.epoch), id)
	t.holes = append(t.holes, row)
	t.live--
}

// Generation returns the generation of a provider, 0 for one that is unknown or
// was never changed since it was put.
func (t *Table) Generation(id api.HostID) uint64 {
	row, known := t.rowOf(id)
	if !known {
		return 0
	}
	c, i := t.chunkOf(row)
	return c.generations.at[i]
}

// Bump raises the generation of a provider by one and returns it; 0 for an unknown
// one. The caller bumps once for each command that changed it.
func (t *Table) Bump(id api.HostID) uint64 {
	g := t.Generation(id) + 1
	if !t.SetGeneration(id, g) {
		return 0
	}
	return g
}

// SetGeneration sets the generation of a provider and reports whether it is known. It is for
// restoring a table; all others call Bump.
func (t *Table) SetGeneration(id api.HostID, generation uint64) bool {
	row, known := t.rowOf(id)
	if known {
		c, i := t.ownChunk(row)
		ownBlock(&c.generations, t.epoch)[i] = generation
	}
	return known
}
