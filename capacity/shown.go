package capacity

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"strconv"

	"berth/api"
)

// layout is what other zones are shown of the hosts while the layout is hidden. It is immutable, and
// depends on descriptions alone: claims have no part in it, else who makes them could change it.
type layout struct {
	public []string                    // attributes that other zones may ask for
	kinds  [][]int                     // the hosts of each kind, in order of ids; the kinds in that of their first hosts
	rows   Set                         // the hosts that are shown
	stock  map[api.ResourceClass]int64 // what hosts would add that are shown if all served, and what all share
}

// stale says what of a layout is of earlier descriptions.
type stale uint8

const (
	staleRows  stale = 1 << iota // which hosts serve
	staleKinds                   // all
)

// HideLayout makes the hosts a secret of the zone, from the next view on: other zones are shown a part of them, see
// View.Shown. What they may ask for, beside amounts, are traits, aggregates, zones, pools and these attributes.
func (t *Table) HideLayout(public []string) {
	if t.layout != nil && slices.Equal(t.layout.public, public) {
		return
	}
	t.layout, t.layoutStale = &layout{public: slices.Clone(public)}, staleKinds
}

// ShowLayout undoes HideLayout.
func (t *Table) ShowLayout() { t.layout, t.layoutStale = nil, 0 }

// Shown returns the host table as other zones are shown it: v itself unless the layout is hidden. Then only some of the
// hosts that serve are hosts in it. Of each kind no more are than a power of two of them, and of all no more than the largest
// power of two of the sum of these: of all that serve more than a quarter, and of those that are alike more than half.
func (v View) Shown() View {
	if l := v.data().layout; l != nil {
		return v.Among(l.rows)
	}
	return v
}

// refreshLayout chooses again which hosts are shown, if a change may concern that. It looks at all hosts: at each one's
// description only if one that makes a kind has changed.
func (t *Table) refreshLayout() {
	if t.layout == nil || t.layoutStale == 0 {
		return
	}
	t.refreshReaches()
	v, l := View{&t.data}, *t.layout
	if t.layoutStale&staleKinds != 0 {
		l.kinds = v.kindsOf(l.public)
		l.stock = v.stockOfShown(v.showSome(l.kinds, v.Hosts()))
	}
	l.rows = v.showSome(l.kinds, v.Serving())
	t.layout, t.layoutStale = &l, 0
}

// kindsOf returns the hosts of each kind, each kind in order of ids, and the kinds in that of their first hosts.
func (v View) kindsOf(public []string) [][]int {
	rows := slices.SortedFunc(v.Hosts().All(), func(a, b int) int {
		return cmp.Or(cmp.Compare(v.IDPrefix(a), v.IDPrefix(b)), cmp.Compare(v.ID(a), v.ID(b)))
	})
	var kinds [][]int
	var key []byte
	numbers := map[string]int{}
	for _, row := range rows {
		key = v.appendKind(key[:0], row, public)
		n, known := numbers[string(key)]
		if !known {
			n = len(kinds)
			numbers[string(key)], kinds = n, append(kinds, nil)
		}
		kinds[n] = append(kinds[n], row)
	}
	return kinds
}

// appendKind appends what two hosts have in common if another zone could not ask for one and not for
// the other while nothing is claimed of them.
func (v View) appendKind(b []byte, row int, public []string) []byte {
	s := v.data().specOf(row)
	for _, class := range slices.Sorted(maps.Keys(s.Inventory)) {
		n := s.Inventory[class].Normal()
		b = appendText(b, string(class))
		for _, x := range [...]int64{n.Total, n.Reserved, n.MinUnit, n.MaxUnit, n.StepSize, int64(n.AllocationRatio)} {
			b = binary.AppendVarint(b, x)
		}
	}
	for _, list := range [...][]string{s.Traits, s.Aggregates} {
		if !slices.IsSorted(list) {
			list = slices.Sorted(slices.Values(list))
		}
		b = binary.AppendVarint(b, int64(len(list)))
		for _, text := range list {
			b = appendText(b, text)
		}
	}
	b = appendText(appendText(b, s.AZ), string(s.Pool))
	b = strconv.AppendBool(b, s.NeedsCommand)
	for _, name := range public {
		b = appendText(b, s.Attributes[name])
	}
	return binary.AppendVarint(binary.AppendVarint(b, int64(len(v.Tree(row)))), int64(len(v.Sharers(row))))
}

// appendText appends a text and its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendVarint(b, int64(len(text))), text...)
}

// showSome returns those of some hosts that are shown: the first ones of each kind.
func (v View) showSome(kinds [][]int, of Set) Set {
	sizes, number := make([]int, 0, len(kinds)), make([]int, len(kinds)) // of the kinds that have any
	for i, kind := range kinds {
		n := 0
		for _, row := range kind {
			if of.Has(row) {
				n++
			}
		}
		if number[i] = -1; n > 0 {
			number[i] = len(sizes)
			sizes = append(sizes, n)
		}
	}
	counts, out := countsShown(sizes), NewSet(v.Rows())
	for i, kind := range kinds {
		for at := 0; number[i] >= 0 && counts[number[i]] > 0; at++ {
			if of.Has(kind[at]) {
				out.Add(kind[at])
				counts[number[i]]--
			}
		}
	}
	return out
}

// countsShown returns how many hosts of each kind are shown, of which there are sizes. Of a kind that does not come up to the
// level of the others it is the largest power of two, so that its number is known no better.
func countsShown(sizes []int) []int {
	places, level := 0, 0
	for _, n := range sizes {
		places += floorPower(n)
	}
	places = floorPower(places)
	counts := make([]int, len(sizes))
	if len(sizes) > places { // one of some kinds
		for i := range places {
			counts[i] = 1
		}
		return counts
	}
	for {
		sum, grows := 0, false
		for _, n := range sizes {
			sum += min(floorPower(n), level+1)
			grows = grows || floorPower(n) > level
		}
		if !grows || sum > places {
			break
		}
		level++
	}
	for i, n := range sizes {
		counts[i] = min(floorPower(n), level)
	}
	return counts
}

// floorPower returns the largest power of two that is at most n, 0 for 0.
func floorPower(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// stockOfShown returns the stock of each class without the hosts that are not shown, and what is below them.
func (v View) stockOfShown(shown Set) map[api.ResourceClass]int64 {
	d := v.data()
	out := make(map[api.ResourceClass]int64, len(d.classes.list))
	for n, class := range d.classes.list {
		if n < len(d.stock) {
			out[class] = d.stock[n]
		}
	}
	hidden := v.Hosts()
	hidden.AndNot(shown)
	for row := range hidden.All() {
		for _, part := range v.Tree(row) {
			c, i := d.chunkOf(int(part))
			for n, class := range d.classes.list {
				if col := c.column(n); col != nil {
					out[class] -= min(col.capacity.value(i), stockMax)
				}
			}
		}
	}
	return out
}

// layoutChange returns what of the layout depends on what differs between two descriptions of a provider.
func (s *Spec) layoutChange(old *Spec) (out stale) {
	if s.Up != old.Up || s.Enabled != old.Enabled || s.Maintenance != old.Maintenance {
		out = staleRows
	}
	if s.ID != old.ID || s.Parent != old.Parent || s.Passive != old.Passive || s.Pool != old.Pool || s.AZ != old.AZ || s.NeedsCommand != old.NeedsCommand ||
		!maps.Equal(s.Inventory, old.Inventory) || !slices.Equal(s.Traits, old.Traits) || !slices.Equal(s.Aggregates, old.Aggregates) ||
		!maps.Equal(s.Attributes, old.Attributes) {
		out = staleKinds
	}
	return out
}
