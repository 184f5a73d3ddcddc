package capacity

import (
	"math"
	"slices"

	"berth/api"
)

// chunkHosts is the number of hosts in one chunk. It is a multiple of the word
// size of a bitset, so that chunk words line up with the words of a Set. A larger one makes
// scans of many hosts up to a fifth faster, and claims on many hosts copy more.
const chunkHosts = 256

// mask is one bit for each host of a chunk.
type mask [chunkHosts / wordBits]uint64

func (m *mask) has(i int) bool { return m[i/wordBits]>>(i%wordBits)&1 == 1 }

func (m *mask) set(i int, on bool) {
	if on {
		m[i/wordBits] |= 1 << (i % wordBits)
	} else {
		m[i/wordBits] &^= 1 << (i % wordBits)
	}
}

// block is one column of a chunk and the epoch that it was last copied in.
type block[T any] struct {
	epoch uint64
	at    [chunkHosts]T
}

// ownBlock returns the values of *b for writing. It first makes the block if there is none,
// or copies it if a view may still see it.
func ownBlock[T any](b **block[T], epoch uint64) *[chunkHosts]T {
	switch {
	case *b == nil:
		*b = &block[T]{epoch: epoch}
	case (*b).epoch != epoch:
		c := **b
		c.epoch = epoch
		*b = &c
	}
	return &(*b).at
}

// value returns the value of host i; 0 if the block was never made.
func (b *block[T]) value(i int) T {
	if b == nil {
		var none T
		return none
	}
	return b.at[i]
}

// column is one resource class of a chunk. Invariants for each host:
// free == capacity - peak of firm use from now on,
// now == capacity - firm - preemptible use now, and so free <= capacity.
type column struct {
	capacity *block[int64]
	firm     *block[int64] // firm use now
	free     *block[int64]
	now      *block[int64]
	closed   *block[int64] // closed to preemptibles now, beside what is in use; nil is all 0
	odd      mask          // hosts whose unit rules must be checked: not plain 1 to capacity
	soft     mask          // hosts on which preemptibles use something now; on all others free <= now
	low      wordBounds    // of free in each word of hosts, holes included
	high     wordBounds
}

// wordBounds is one bound for each word of hosts of a chunk.
type wordBounds [chunkHosts / wordBits]int64

// setFree sets the free of host i and updates the bounds of its word. That costs a look at the
// word only if the host had the lowest or the highest.
func (c *column) setFree(i int, free int64, epoch uint64) {
	at, n := ownBlock(&c.free, epoch), i/wordBits
	was := at[i]
	at[i] = free
	if was == c.low[n] && free > was || was == c.high[n] && free < was {
		word := at[n*wordBits:][:wordBits]
		c.low[n], c.high[n] = slices.Min(word), slices.Max(word)
	}
	c.low[n], c.high[n] = min(c.low[n], free), max(c.high[n], free)
}

// refreshSoft updates the bit of host i in soft.
func (c *column) refreshSoft(i int) {
	c.soft.set(i, c.capacity.at[i]-c.firm.at[i] != c.now.at[i])
}

// The numbers of hidden classes: they count claims instead of amounts, and no inventory has
// anything of them.
const (
	wholeClass = -2 - iota // claims of whole hosts
	emptyClass             // claims of nothing
	hiddenEnd
)

// chunk is chunkHosts rows. It is copied as a whole when it is first written
// after a view was taken; its blocks are copied one by one as they are touched.
type chunk struct {
	epoch       uint64
	specs       *block[*Spec]                 // nil is a hole; what is pointed at never changes
	prefixes    *block[uint64]                // see View.IDPrefix
	lowest      [chunkHosts / wordBits]uint64 // by word: a lower bound of the prefixes of its rows; of removed ones too
	generations *block[uint64]
	timelines   *block[timeline]
	gaps        *block[api.Instant] // cleaning times; nil is all 0
	rooms       *block[[]room]      // claims with others within; nil is all nil
	columns     []column            // by interned class; may be shorter than the classes
	hidden      [wholeClass - hiddenEnd]column
	parents     *block[int32]  // rows of parents, plus 1; nil is all 0
	reaches     *block[*reach] // of roots; nil is all nil
	live        mask
	hosting     mask // live and not passive
	nested      mask // has a parent
	compound    mask // hosting and has a reach
	up          mask
	enabled     mask
	maintenance mask
	needs       mask            // needs a command
	timed       mask            // has a timeline
	exclusive   mask            // has a claim of the whole host, now or later
	traits      []*mask         // by interned trait; may be shorter; nil is empty; masks are replaced, never written
	groups      []*mask         // by interned aggregate, likewise
	azs         []*mask         // by interned availability zone, likewise
	attributes  []*block[Value] // by interned attribute; may be shorter; nil has none
	claims      *block[int32]   // made and not released; nil is all 0
	failures    *block[int32]   // nil is all 0
	pools       [len(pools)]mask
	next        api.Instant // no timeline of the chunk has an edge before it
}

var pools = [...]api.Pool{api.PoolOnDemand, api.PoolReservable, api.PoolShared}

func newChunk(epoch uint64) *chunk {
	c := &chunk{epoch: epoch, next: api.Forever}
	for n := range c.lowest {
		c.lowest[n] = math.MaxUint64
	}
	ownBlock(&c.specs, epoch)
	ownBlock(&c.prefixes, epoch)
	ownBlock(&c.generations, epoch)
	ownBlock(&c.timelines, epoch)
	return c
}

func (c *chunk) clone(epoch uint64) *chunk {
	d := *c
	d.epoch = epoch
	d.columns = slices.Clone(c.columns)
	d.traits = slices.Clone(c.traits)
	d.groups = slices.Clone(c.groups)
	d.azs = slices.Clone(c.azs)
	d.attributes = slices.Clone(c.attributes)
	return &d
}

// column returns the column of class, nil if no host of the chunk ever had it.
func (c *chunk) column(class int) *column {
	var col *column
	switch {
	case class <= wholeClass:
		col = &c.hidden[wholeClass-class]
	case class < 0 || class >= len(c.columns):
		return nil
	default:
		col = &c.columns[class]
	}
	if col.capacity == nil {
		return nil
	}
	return col
}

// allColumns yields every column that was made, hidden ones too.
func (c *chunk) allColumns(yield func(*column) bool) {
	for _, list := range [...][]column{c.columns, c.hidden[:]} {
		for i := range list {
			if list[i].capacity != nil && !yield(&list[i]) {
				return
			}
		}
	}
}

// ownColumn returns the column of class with all its blocks made. The chunk is
// the writer's own.
func (c *chunk) ownColumn(class int, epoch uint64) *column {
	for len(c.columns) <= class {
		c.columns = append(c.columns, column{})
	}
	var col *column
	if class <= wholeClass {
		col = &c.hidden[wholeClass-class]
	} else {
		col = &c.columns[class]
	}
	if col.capacity == nil {
		ownBlock(&col.capacity, epoch)
		ownBlock(&col.firm, epoch)
		ownBlock(&col.free, epoch)
		ownBlock(&col.now, epoch)
	}
	return col
}

// setAll moves host i from the masks of one list of names to those of another.
func setAll(masks *[]*mask, numbers *names[string], i int, from, to []string) {
	for _, n := range from {
		if !slices.Contains(to, n) {
			setBit(masks, numbers.intern(n), i, false)
		}
	}
	for _, n := range to {
		setBit(masks, numbers.intern(n), i, true)
	}
}

// setBit sets or clears the bit of host i in masks[n].
func setBit(masks *[]*mask, n, i int, on bool) {
	for len(*masks) <= n {
		*masks = append(*masks, nil)
	}
	var m mask
	if old := (*masks)[n]; old != nil {
		m = *old
	}
	if m.has(i) == on {
		return
	}
	m.set(i, on)
	if m == (mask{}) {
		(*masks)[n] = nil
	} else {
		(*masks)[n] = &m
	}
}

// attributeBlock returns the place of the column of an interned attribute. The chunk
// is the writer's own.
func (c *chunk) attributeBlock(number int) **block[Value] {
	for len(c.attributes) <= number {
		c.attributes = append(c.attributes, nil)
	}
	return &c.attributes[number]
}

// freeOver returns the room of host i in class over w for a claim of kind: at most 0 where
// the whole host is claimed.
func (c *chunk) freeOver(i, class int, w api.Window, kind api.Class, now api.Instant) int64 {
	col := c.column(class)
	if col == nil || w.End <= now {
		return 0
	}
	free := c.freeBeside(i, class, w, kind, now)
	if free > 0 && c.exclusive.has(i) && c.isWhole(i, w, kind, now) {
		return 0
	}
	return free
}

// freeBeside is freeOver whether the whole host is claimed or not, of a class with a column over
// a window that has not passed.
func (c *chunk) freeBeside(i, class int, w api.Window, kind api.Class, now api.Instant) int64 {
	if kind == api.Preemptible {
		col := c.column(class)
		return col.now.at[i] - col.closed.value(i)
	}
	return c.freeDuring(i, class, w.Start, c.endOf(i, w), kind, now)
}

// isWhole reports whether the whole host i is claimed at an instant of w that counts for a
// claim of kind.
func (c *chunk) isWhole(i int, w api.Window, kind api.Class, now api.Instant) bool {
	if !c.exclusive.has(i) {
		return false
	}
	if kind == api.Preemptible {
		col := c.column(wholeClass)
		return col.now.at[i]-col.closed.value(i) < 0
	}
	return c.freeDuring(i, wholeClass, w.Start, c.endOf(i, w), kind, now) < 0
}

// endOf returns until when a claim over w is kept on host i. Without a timeline it is the same
// for all that ends later than now.
func (c *chunk) endOf(i int, w api.Window) api.Instant {
	if c.gaps == nil || !c.timed.has(i) || w.End > api.Forever-c.gaps.at[i] {
		return w.End
	}
	return w.End + c.gaps.at[i]
}

// freeDuring returns the room of host i in class at every instant of [start, end) from now on
// for claims of kind, which is not preemptible, whether the whole host is claimed or not. The
// span has not passed.
func (c *chunk) freeDuring(i, class int, start, end api.Instant, kind api.Class, now api.Instant) int64 {
	col := c.column(class)
	if col == nil {
		return 0
	}
	free := col.free.at[i]
	if c.timed.has(i) && (start > now || end != api.Forever) {
		free = col.capacity.at[i] - c.timelines.at[i].peakUse(class, col.firm.at[i], max(start, now), end)
	}
	if start <= now && kind != api.Preempting {
		free = min(free, col.now.at[i])
	}
	return free
}

// isIdle reports whether nothing is claimed on host i at any instant of [start, end) from now
// on; preemptibles count if the span has begun and kind does not preempt.
func (c *chunk) isIdle(i int, start, end api.Instant, kind api.Class, now api.Instant) bool {
	var use int64 // of all classes: none is below 0
	for col := range c.allColumns {
		use += col.firm.at[i]
		if start <= now && kind != api.Preempting && col.now.at[i] != col.capacity.at[i] {
			return false
		}
	}
	start = max(start, now)
	for _, e := range c.timelines.at[i] {
		switch {
		case e.at <= start:
			use += e.firm
		case e.at < end && e.firm != 0: // the first change after nothing is a claim
			return false
		}
	}
	return use == 0
}
