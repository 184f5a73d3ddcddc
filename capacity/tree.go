package capacity

import (
	"cmp"
	"encoding/binary"
	"slices"

	"berth/api"
)

// reach lists the rows that a root's tree covers and those that share with it. It is
// immutable and rebuilt when either changes. A root without descendants and sharers has none.
type reach struct {
	tree    []int32 // the rows of its tree: itself, then depth first in order of ids
	sharers []int32 // by id; none of the tree
}

// sharers holds the relations between providers that only the writer needs.
type sharers struct {
	children map[api.HostID][]int32 // rows by the parent that they name, known or not, in order of ids
	sharing  map[string][]int32     // rows of sharing providers by aggregate
	moved    []int                  // rows whose reach, or that of their root, may be out of date
	reshared []string               // aggregates whose members' roots may be out of date as well
}

// sharedIn returns the aggregates in which a provider shares its inventory.
func (s *Spec) sharedIn() []string {
	if slices.Contains(s.Traits, api.TraitShares) {
		return s.Aggregates
	}
	return nil
}

// parentOf returns the row of the parent, -1 for a root.
func (d *data) parentOf(row int) int {
	c, i := d.chunkOf(row)
	return int(c.parents.value(i)) - 1
}

// rootOf returns the row of the root. Links never make a loop.
func (d *data) rootOf(row int) int {
	for up := d.parentOf(row); up >= 0; up = d.parentOf(row) {
		row = up
	}
	return row
}

// reachFor returns the reach of a root, nil for none.
func (d *data) reachFor(row int) *reach {
	c, i := d.chunkOf(row)
	return c.reaches.value(i)
}

// sourcesOf returns the rows besides row from which its slots may draw: nil unless row is a
// compound host.
func (d *data) sourcesOf(row int) *reach {
	if c, i := d.chunkOf(row); c.compound.has(i) {
		return c.reaches.at[i]
	}
	return nil
}

// byID orders rows by the ids of their providers.
func (d *data) byID(a, b int32) int {
	return cmp.Compare(d.specOf(int(a)).ID, d.specOf(int(b)).ID)
}

// updateRelations updates the parent and children of row, and the lists of pending
// changes, from one description to another; the zero Spec is none. The chunk has the
// new one already.
func (t *Table) updateRelations(row int, old, s *Spec) {
	was, is := old.sharedIn(), s.sharedIn()
	moved := old.ID != s.ID || old.Parent != s.Parent
	same := slices.Equal(old.Aggregates, s.Aggregates)
	if !moved && same && len(was) == len(is) && old.Passive == s.Passive {
		return
	}
	t.moved = append(t.moved, row, t.rootOf(row))
	if moved {
		t.updateParent(row, old, s)
	}
	if len(was)+len(is) > 0 {
		t.reshared = append(append(t.reshared, was...), is...)
		t.moveBetweenAggregates(row, was, is)
	}
}

// updateParent links row with its parent and its children.
func (t *Table) updateParent(row int, old, s *Spec) {
	at := int32(row)
	if old.Parent != "" {
		t.children[old.Parent] = slices.DeleteFunc(t.children[old.Parent], func(o int32) bool { return o == at })
		t.setParent(row, -1)
		if len(t.children[old.Parent]) == 0 {
			delete(t.children, old.Parent)
		}
	}
	if s.Parent != "" {
		list := t.children[s.Parent]
		i, _ := slices.BinarySearchFunc(list, at, t.byID)
		if t.children == nil {
			t.children = map[api.HostID][]int32{}
		}
		t.children[s.Parent] = slices.Insert(list, i, at)
		if up, known := t.rowOf(s.Parent); known {
			t.setParent(row, up)
		}
	}
	if old.ID == s.ID {
		return
	}
	for _, child := range t.children[old.ID] {
		t.setParent(int(child), -1)
	}
	for _, child := range t.children[s.ID] {
		t.setParent(int(child), row)
	}
}

// setParent sets the parent of row. A parent of -1, or one below row, makes row a root.
func (t *Table) setParent(row, up int) {
	if up >= 0 && t.rootOf(up) == row {
		up = -1
	}
	t.moved = append(t.moved, row)
	if t.parentOf(row) == up {
		return
	}
	c, i := t.ownChunk(row)
	ownBlock(&c.parents, t.epoch)[i] = int32(up + 1)
	c.nested.set(i, up >= 0)
}

// moveBetweenAggregates moves row from the lists of some aggregates to those of others.
func (t *Table) moveBetweenAggregates(row int, was, is []string) {
	for _, id := range was {
		t.sharing[id] = slices.DeleteFunc(t.sharing[id], func(o int32) bool { return o == int32(row) })
		if len(t.sharing[id]) == 0 {
			delete(t.sharing, id)
		}
	}
	if t.sharing == nil && len(is) > 0 {
		t.sharing = map[string][]int32{}
	}
	for _, id := range is {
		t.sharing[id] = append(t.sharing[id], int32(row))
	}
}

// refreshReaches updates every reach that a change may have touched. It is deferred until
// the next read, so that building a table visits each tree once.
func (t *Table) refreshReaches() {
	if len(t.moved)+len(t.reshared) == 0 {
		return
	}
	todo := NewSet(len(t.chunks) * chunkHosts)
	for _, row := range t.moved {
		todo.Add(row)
		todo.Add(t.rootOf(row))
	}
	slices.Sort(t.reshared)
	for _, id := range slices.Compact(t.reshared) {
		for row := range (View{&t.data}).Aggregate(id).All() {
			todo.Add(t.rootOf(row))
		}
	}
	t.moved, t.reshared = nil, nil
	lists := map[string][]int32{}
	for row := range todo.All() {
		t.setReach(row, t.reachOf(row, lists))
	}
}

// reachOf computes the reach of row: nil unless it is a root with descendants or sharers. See
// sharersIn for lists.
func (t *Table) reachOf(row int, lists map[string][]int32) *reach {
	s := t.specOf(row)
	if s == nil || t.parentOf(row) >= 0 || len(s.Aggregates)+len(t.children[s.ID]) == 0 {
		return nil
	}
	r := reach{tree: t.appendSubtree(nil, row)}
	var groups []int // the aggregates with a sharing provider
	within := false
	for _, at := range r.tree {
		member := t.specOf(int(at))
		for _, id := range member.Aggregates {
			if len(t.sharing[id]) > 0 {
				groups = append(groups, t.groups.numberOf(id))
			}
		}
		within = within || len(member.sharedIn()) > 0
	}
	if len(groups) > 0 {
		r.sharers = t.sharersIn(groups, lists)
	}
	if within {
		r.sharers = slices.DeleteFunc(slices.Clone(r.sharers), func(at int32) bool { return t.rootOf(int(at)) == row })
	}
	if len(r.tree)+len(r.sharers) == 1 {
		return nil
	}
	return &r
}

// sharersIn returns the sharing providers of some aggregates, given by number, in order
// of ids. Roots in the same aggregates share one slice: lists holds those made so far.
func (t *Table) sharersIn(groups []int, lists map[string][]int32) []int32 {
	slices.Sort(groups)
	groups = slices.Compact(groups)
	var key []byte
	for _, n := range groups {
		key = binary.AppendUvarint(key, uint64(n))
	}
	if list, ok := lists[string(key)]; ok {
		return list
	}
	var list []int32
	for _, n := range groups {
		list = append(list, t.sharing[t.groups.list[n]]...)
	}
	slices.SortFunc(list, t.byID)
	list = slices.Clip(slices.Compact(list))
	lists[string(key)] = list
	return list
}

// appendSubtree adds row and its descendants to list.
func (t *Table) appendSubtree(list []int32, row int) []int32 {
	list = append(list, int32(row))
	for _, child := range t.children[t.specOf(row).ID] {
		if t.parentOf(int(child)) == row {
			list = t.appendSubtree(list, int(child))
		}
	}
	return list
}

// setReach stores r as the reach of row.
func (t *Table) setReach(row int, r *reach) {
	was := t.reachFor(row)
	s := t.specOf(row)
	compound := r != nil && !s.Passive
	c, i := t.chunkOf(row)
	if c.compound.has(i) != compound {
		c, i = t.ownChunk(row)
		c.compound.set(i, compound)
		if compound {
			t.compounds++
		} else {
			t.compounds--
		}
	}
	if was == nil && r == nil || was != nil && r != nil && slices.Equal(was.tree, r.tree) && slices.Equal(was.sharers, r.sharers) {
		return
	}
	c, i = t.ownChunk(row)
	ownBlock(&c.reaches, t.epoch)[i] = r
}

// Compounds returns the hosts whose slots may draw from others: from providers
// of their tree, or from sharing ones.
func (v View) Compounds() Set { return v.gatherMask(func(c *chunk) *mask { return &c.compound }) }

// HasCompounds reports whether there are compound hosts.
func (v View) HasCompounds() bool { return v.data().compounds > 0 }

// Compound reports whether the host in row is one of Compounds.
func (v View) Compound(row int) bool {
	c, i := v.data().chunkOf(row)
	return c.compound.has(i)
}

// Parent returns the row of the parent of the provider in row; -1 for a root, if
// the parent is unknown, and for a hole.
func (v View) Parent(row int) int { return v.data().parentOf(row) }

// Root returns the row of the root of the tree that the provider in row is in:
// row itself if it has no parent.
func (v View) Root(row int) int { return v.data().rootOf(row) }

// Tree returns the rows of the provider in row and of all below it: itself first,
// then depth first, those with one parent in order of ids. The slice belongs to
// the view and must not be written.
func (v View) Tree(row int) []int32 {
	d := v.data()
	r := d.reachFor(d.rootOf(row))
	if r == nil {
		return []int32{int32(row)}
	}
	start := slices.Index(r.tree, int32(row))
	if start < 0 { // a host without descendants, or a hole
		return []int32{int32(row)}
	}
	end := start + 1
	for end < len(r.tree) && d.isBelow(int(r.tree[end]), row) {
		end++
	}
	return r.tree[start:end:end]
}

// isBelow reports whether row is below top.
func (d *data) isBelow(row, top int) bool {
	for row = d.parentOf(row); row >= 0 && row != top; {
		row = d.parentOf(row)
	}
	return row >= 0
}

// Sharers returns the rows of the sharing providers that the tree with row in it
// reaches, in order of ids: those that have api.TraitShares and an aggregate in
// common with a provider of the tree, and are not in the tree themselves. The
// slice belongs to the view and must not be written.
func (v View) Sharers(row int) []int32 {
	if r := v.data().reachFor(v.data().rootOf(row)); r != nil {
		return r.sharers
	}
	return nil
}

// TreeTrait returns the roots in whose tree a provider has the trait.
func (v View) TreeTrait(name string) Set {
	s := v.Trait(name)
	nested := v.gatherMask(func(c *chunk) *mask { return &c.nested })
	nested.And(s)
	s.AndNot(nested)
	for row := range nested.All() {
		s.Add(v.Root(row))
	}
	return s
}

// withSources returns rows and all rows from which their slots may draw.
func (v View) withSources(rows Set) Set {
	d := v.data()
	if d.compounds == 0 {
		return rows
	}
	compound := v.Compounds()
	compound.And(rows)
	for row := range compound.All() {
		r := d.reachFor(row)
		for _, at := range r.tree {
			rows.Add(int(at))
		}
		for _, at := range r.sharers {
			rows.Add(int(at))
		}
	}
	return rows
}
