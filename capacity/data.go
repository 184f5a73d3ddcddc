package capacity

import (
	"maps"
	"slices"
	"time"

	"berth/api"
)

// Spec describes a provider: its inventory and, if it is a host, which work it may take.
type Spec struct {
	ID           api.HostID
	Parent       api.HostID                          // "" for none; ignored for a host
	Passive      bool                                // it is not a host, and takes no slots itself
	Inventory    map[api.ResourceClass]api.Inventory // valid by Inventory.Validate
	Traits       []string
	Pool         api.Pool // a host of no valid pool takes no work
	Up, Enabled  bool
	NeedsCommand bool          // its driver runs only flavors that have a command
	Gap          time.Duration // cleaning time between two claims; below 0 means 0
	Name         string        // unique among the providers of a table; "" for none
	Attributes   map[string]string
	Aggregates   []string // ids of its aggregates
	AZ           string   // availability zone; "" for none
	Maintenance  bool     // takes nothing new
	Failures     int      // recent failed starts of instances, from 0
}

// data is the common part of a table and its views. A view's copy is never written: the
// writer copies what it is about to change.
type data struct {
	now       api.Instant
	live      int // number of rows that are not holes
	hosts     int // number of these that are hosts
	compounds int // number of hosts that reach others
	chunks    []*chunk
	rows      *index[api.HostID]
	named     *index[string] // rows by name
	classes   names[api.ResourceClass]
	traits    names[string]
	groups    names[string] // aggregates, by id
	azs       names[string]
	columns   names[string] // attributes that have a column, at most attributeColumnsMax
	stock     []int64       // by class: the sum of the capacity of all providers, each at most stockMax
	layout    *layout       // nil unless it is hidden
}

// names interns: it numbers names from 0 in order of first use. The map is
// replaced when a name is added, so views may keep the old one.
type names[T ~string] struct {
	number map[T]int
	list   []T
}

// numberOf returns the number of n, or -1.
func (x *names[T]) numberOf(n T) int {
	if i, ok := x.number[n]; ok {
		return i
	}
	return -1
}

// intern returns the number of n, giving it one if it has none.
func (x *names[T]) intern(n T) int {
	if i := x.numberOf(n); i >= 0 {
		return i
	}
	x.number = maps.Clone(x.number)
	if x.number == nil {
		x.number = map[T]int{}
	}
	x.number[n] = len(x.list)
	x.list = append(slices.Clip(x.list), n)
	return len(x.list) - 1
}

// index maps keys to rows. It is split, so that a new key costs a copy of one part instead
// of the whole map.
type index[K ~string] struct {
	epoch uint64
	parts [indexParts]part[K]
}

type part[K ~string] struct {
	epoch uint64
	rows  map[K]int
}

const indexParts = 256 // 400 rows each at 100,000

// partOf spreads keys over the parts (FNV-1a, folded to 8 bits). Nothing that
// leaves the package depends on it.
func partOf[K ~string](key K) int {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int((h ^ h>>8 ^ h>>16 ^ h>>24) % indexParts)
}

// findRow returns the row of key. A nil index is empty.
func (x *index[K]) findRow(key K) (int, bool) {
	if x == nil {
		return 0, false
	}
	r, ok := x.parts[partOf(key)].rows[key]
	return r, ok
}

// ownPart returns the part of the index at *x that key belongs to, for writing,
// after making or copying what a view may still see.
func ownPart[K ~string](x **index[K], key K, epoch uint64) map[K]int {
	switch {
	case *x == nil:
		*x = &index[K]{epoch: epoch}
	case (*x).epoch != epoch:
		c := **x
		c.epoch = epoch
		*x = &c
	}
	p := &(*x).parts[partOf(key)]
	if p.rows == nil {
		p.rows = map[K]int{}
	} else if p.epoch != epoch {
		p.rows = maps.Clone(p.rows)
	}
	p.epoch = epoch
	return p.rows
}

// rowOf returns the row of id.
func (d *data) rowOf(id api.HostID) (int, bool) { return d.rows.findRow(id) }

// chunkOf returns the chunk of row and its place there.
func (d *data) chunkOf(row int) (*chunk, int) { return d.chunks[row/chunkHosts], row % chunkHosts }

// specOf returns the description of row, nil for a hole.
func (d *data) specOf(row int) *Spec {
	c, i := d.chunkOf(row)
	return c.specs.at[i]
}

// checkFit returns why c does not fit on row, or nil. Only the instants and classes of the
// claim matter: the row may be over-full at others.
func (d *data) checkFit(row int, c api.Claim) error {
	if err := d.checkClaim(c); err != nil {
		return err
	}
	if c.Within != nil {
		return d.checkFitWithin(row, c)
	}
	k, i := d.chunkOf(row)
	if k.isWhole(i, c.Window, c.Class, d.now) {
		return errWhole
	}
	for _, name := range c.Resources.Classes() {
		want := c.Resources[name]
		if free := k.freeOver(i, d.classes.numberOf(name), c.Window, c.Class, d.now); want > free {
			return api.Errorf(api.CodeNoCapacity, "the host has %d of %s left over the window, %d wanted", max(free, 0), name, want)
		}
		if v := k.specs.at[i].Inventory[name]; !v.Admits(want) {
			v = v.Normal()
			return api.Errorf(api.CodeInvalid, "the host hands out %d to %d of %s in steps of %d, got %d",
				v.MinUnit, v.MaxUnit, name, v.StepSize, want)
		}
	}
	return nil
}

// checkClaim returns what is wrong with c on any provider, or nil.
func (d *data) checkClaim(c api.Claim) error {
	if err := c.Resources.Validate(); err != nil {
		return err
	}
	if !c.Window.Valid() {
		return api.Errorf(api.CodeInvalid, "window must end after it starts")
	}
	if c.Window.End <= d.now {
		return api.Errorf(api.CodeInvalid, "window has passed")
	}
	if !c.Class.Valid() && c.Class != api.Preempting {
		return api.Errorf(api.CodeInvalid, "class must be %q or %q", api.Firm, api.Preemptible)
	}
	return nil
}
