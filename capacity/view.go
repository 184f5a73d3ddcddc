package capacity

import (
	"math"
	"math/bits"
	"slices"

	"berth/api"
)

// View is an immutable snapshot of a table. Providers are numbered by row, from 0
// to Rows()-1, with holes where some were removed; a row means nothing outside its
// view, and nothing may be decided by the order of rows. The zero View has no
// providers. Any number of goroutines may use one.
//
// Methods about one row report on that provider only, not on what it reaches.
type View struct{ d *data }

var nothing data

func (v View) data() *data {
	if v.d == nil {
		return &nothing
	}
	return v.d
}

// Len returns the number of hosts.
func (v View) Len() int { return v.data().hosts }

// Rows returns the number of rows, holes included.
func (v View) Rows() int { return len(v.data().chunks) * chunkHosts }

// Now returns the zone time that the view was taken at.
func (v View) Now() api.Instant { return v.data().now }

// Row returns the row of a provider.
func (v View) Row(id api.HostID) (row int, known bool) { return v.data().rowOf(id) }

// ID returns the provider in row, "" for a hole.
func (v View) ID(row int) api.HostID {
	if s := v.data().specOf(row); s != nil {
		return s.ID
	}
	return ""
}

// IDPrefix returns the first eight bytes of the id in row as a number:
// where two differ, they order as the ids do.
func (v View) IDPrefix(row int) uint64 {
	c, i := v.data().chunkOf(row)
	return c.prefixes.at[i]
}

// UpToPrefix returns those of some rows of word n whose IDPrefix is at most prefix. It looks at no
// row if all of the word are above.
func (v View) UpToPrefix(n int, rows, prefix uint64) uint64 {
	c, at := v.data().chunks[n/len(mask{})], n%len(mask{})
	if c.lowest[at] > prefix {
		return 0
	}
	prefixes := (*[wordBits]uint64)(c.prefixes.at[at*wordBits:])
	var out uint64
	for i, p := range prefixes {
		if p <= prefix {
			out |= 1 << i
		}
	}
	return out & rows
}

// Spec returns the description of the provider in row, zero for a hole. Its maps
// and slices belong to the view and must not be written.
func (v View) Spec(row int) Spec {
	if s := v.data().specOf(row); s != nil {
		return *s
	}
	return Spec{}
}

// Generation returns the generation of the provider in row.
func (v View) Generation(row int) uint64 {
	c, i := v.data().chunkOf(row)
	return c.generations.at[i]
}

// Classes returns every resource class that a provider has or had, in order.
func (v View) Classes() []api.ResourceClass {
	return slices.Sorted(slices.Values(v.data().classes.list))
}

// Capacity returns the capacity of the provider in row; 0 for a class it lacks.
func (v View) Capacity(row int, class api.ResourceClass) int64 {
	return v.readCell(row, class, func(c *column) *block[int64] { return c.capacity })
}

// FreeFromNow returns the capacity less the peak of firm use from now on. It is
// below 0 on an over-full host.
func (v View) FreeFromNow(row int, class api.ResourceClass) int64 {
	return v.readCell(row, class, func(c *column) *block[int64] { return c.free })
}

// FreeNow returns the capacity less firm and preemptible use at this instant.
// It is below 0 on an over-full host.
func (v View) FreeNow(row int, class api.ResourceClass) int64 {
	return v.readCell(row, class, func(c *column) *block[int64] { return c.now })
}

func (v View) readCell(row int, class api.ResourceClass, pick func(*column) *block[int64]) int64 {
	c, i := v.data().chunkOf(row)
	if col := c.column(v.data().classes.numberOf(class)); col != nil {
		return pick(col).at[i]
	}
	return 0
}

// FreeOver returns how much of class a claim of kind over w could have on the
// host in row, whatever its units: the least room at any instant of the window
// from now on. A firm claim also needs room beside the preemptibles if its
// window has begun, unless it preempts; a preemptible needs room at this instant only,
// beside what is closed to it. It is below 0 on an over-full host, and 0 for a window that has passed.
func (v View) FreeOver(row int, class api.ResourceClass, w api.Window, kind api.Class) int64 {
	c, i := v.data().chunkOf(row)
	if c.specs.at[i] == nil {
		return 0
	}
	return c.freeOver(i, v.data().classes.numberOf(class), w, kind, v.data().now)
}

// Fits is Table.Fits on the view.
func (v View) Fits(id api.HostID, c api.Claim) error {
	row, known := v.Row(id)
	if !known {
		return api.Errorf(api.CodeNotFound, "no such host")
	}
	return v.data().checkFit(row, c)
}

// Usage returns the use of a provider at this instant, firm and preemptible. Unused classes
// are absent, and the use of an unknown provider is empty.
func (v View) Usage(id api.HostID) api.Resources {
	row, known := v.Row(id)
	if !known {
		return api.Resources{}
	}
	used := api.Resources{}
	for _, class := range v.data().classes.list {
		if n := v.Capacity(row, class) - v.FreeNow(row, class); n != 0 {
			used[class] = n
		}
	}
	return used
}

// Name returns the name of the provider in row, "" for a hole or one without.
func (v View) Name(row int) string {
	if s := v.data().specOf(row); s != nil {
		return s.Name
	}
	return ""
}

// Named returns the row of the provider of that name.
func (v View) Named(name string) (row int, known bool) { return v.data().named.findRow(name) }

// Instances returns the number of claims on the host in row that have not been released,
// even if their windows have not begun or have passed.
func (v View) Instances(row int) int {
	c, i := v.data().chunkOf(row)
	return int(c.claims.value(i))
}

// Failures returns Spec.Failures of the host in row; 0 for a hole.
func (v View) Failures(row int) int {
	c, i := v.data().chunkOf(row)
	return int(c.failures.value(i))
}

// CapacityColumn returns Capacity for every row; holes are 0. For a compound host
// it is the sum over everything that slots there may draw from, at most the
// largest int64.
func (v View) CapacityColumn(class api.ResourceClass) []int64 {
	out := make([]int64, v.Rows())
	number := v.data().classes.numberOf(class)
	for n, c := range v.data().chunks {
		if col := c.column(number); col != nil {
			copy(out[n*chunkHosts:], col.capacity.at[:])
		}
	}
	v.addReached(out)
	return out
}

// InstanceColumn returns Instances for every row; holes are 0.
func (v View) InstanceColumn() []int64 {
	return v.spreadBlocks(func(c *chunk) *block[int32] { return c.claims })
}

// FailureColumn returns Failures for every row; holes are 0.
func (v View) FailureColumn() []int64 {
	return v.spreadBlocks(func(c *chunk) *block[int32] { return c.failures })
}

// spreadBlocks copies one block of each chunk into a column; nil is all 0.
func (v View) spreadBlocks(pick func(*chunk) *block[int32]) []int64 {
	out := make([]int64, v.Rows())
	for n, c := range v.data().chunks {
		b := pick(c)
		if b == nil {
			continue
		}
		for i, x := range b.at {
			out[n*chunkHosts+i] = int64(x)
		}
	}
	return out
}

// addCapped returns a + b, for amounts of at least 0, or the largest int64.
func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Without returns a view without some of the claims in v, or with others: change gets a table
// of the same providers, of which it may change claims and nothing else. v stays as it is.
func (v View) Without(change func(*Table)) View {
	t := v.Copy()
	change(t)
	return t.View()
}

// Among returns a view of the same providers in which only the hosts in some rows are hosts: the
// others take no slots, and count as providers that are no hosts. v stays as it is.
func (v View) Among(rows Set) View {
	d := *v.data()
	d.chunks = slices.Clone(d.chunks)
	for n, c := range d.chunks {
		its, words := c.hosting, rows.wordsOf(n)
		for i := range its {
			d.hosts -= bits.OnesCount64(its[i] &^ words[i])
			its[i] &= words[i]
		}
		if its != c.hosting {
			copied := *c
			copied.hosting = its
			d.chunks[n] = &copied
		}
	}
	return View{&d}
}

// Copy returns a table of its own with all that v has, of which claims, generations and the time
// may change, and nothing else. v stays as it is.
func (v View) Copy() *Table {
	t := &Table{data: *v.data(), epoch: 1}
	t.chunks = slices.Clone(t.chunks)
	for _, c := range t.chunks {
		t.epoch = max(t.epoch, c.epoch+1) // every chunk is copied before it is written
	}
	return t
}
