package capacity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
)

// The reservation book is a plain list of what was granted, and looks at every instant. Random
// histories of leases are kept in it and in a table, which must say the same of each step.

// bookHistories is how many histories are played, and bookShort how many in short tests.
const (
	bookHistories = 50_000
	bookShort     = 5_000
	bookTables    = 500 // histories on one table
)

// entry is one slot in the book.
type entry struct {
	name  api.InstanceID
	host  int
	claim api.Claim   // as the table has it
	next  *api.Claim  // what it is being changed to
	inner []api.Claim // within it
}

// seen counts what the histories have met.
type seen map[string]int

// history is one history.
type history struct {
	t     *testing.T
	dice  *rand.Rand
	table *Table
	base  api.Instant // its instant 0
	now   api.Instant // from base
	gaps  []api.Instant
	total []api.Resources // by host
	list  []*entry
	soft  []entry // preemptibles
	names int
	seen  seen
	log   []logged
}

// logged is one answer of the table; it is spelt out only if it was wrong.
type logged struct {
	at     api.Instant
	format string
	args   []any
	err    error
}

// String spells out what has happened.
func (h *history) String() string {
	out := fmt.Sprintf("gaps %v, hosts %v, preemptibles %+v\n", h.gaps, h.total, h.soft)
	for _, l := range h.log {
		out += fmt.Sprintf("at %d: "+l.format+": %v\n", slices.Concat([]any{l.at}, l.args, []any{l.err})...)
	}
	for _, e := range h.list {
		out += fmt.Sprintf("%+v -> %+v\n", *e, e.next)
	}
	return out
}

var bookHosts = []api.HostID{"b0", "b1", "b2"}

// newHistory empties a table and puts its hosts anew.
func newHistory(t *testing.T, table *Table, n uint64, s seen) *history {
	t.Helper()
	h := &history{t: t, dice: rand.New(rand.NewPCG(n, 12)), table: table, base: table.now, seen: s}
	for _, id := range bookHosts {
		table.Remove(id)
	}
	for range 1 + h.dice.IntN(len(bookHosts)) {
		h.gaps = append(h.gaps, api.Instant(h.dice.IntN(3)))
		h.total = append(h.total, nil)
		h.putHost(len(h.gaps) - 1)
	}
	return h
}

// putHost says what a host has.
func (h *history) putHost(i int) {
	h.total[i] = api.Resources{api.VCPU: 4 + h.dice.Int64N(5), api.MemoryMB: 8}
	inventory := map[api.ResourceClass]api.Inventory{}
	for class, n := range h.total[i] {
		inventory[class] = api.Inventory{Total: n}
	}
	h.table.Put(Spec{
		ID: bookHosts[i], Up: true, Enabled: true, Pool: api.PoolShared, Gap: time.Duration(h.gaps[i]) * time.Millisecond, Inventory: inventory,
	})
}

func (h *history) window() api.Window {
	start := h.base + max(h.now-2, 0) + api.Instant(h.dice.IntN(12))
	return api.Window{Start: start, End: start + 1 + api.Instant(h.dice.IntN(8))}
}

// covers reports whether a claim on a host counts at an instant: until its gap has passed.
func (h *history) covers(c *api.Claim, host int, at api.Instant) bool {
	return c.Window.Start <= at && at < c.Window.End+h.gaps[host]
}

// useAt sums what is taken of a class at an instant, leaving out one entry.
func (h *history) useAt(host int, class api.ResourceClass, at api.Instant, without *entry) (use int64) {
	for _, e := range h.list {
		if e.host != host || e == without {
			continue
		}
		n := int64(0)
		for _, c := range []*api.Claim{&e.claim, e.next} {
			if c != nil && h.covers(c, host, at) {
				n = max(n, c.Resources[class])
			}
		}
		use += n
	}
	if at <= h.table.now {
		for _, e := range h.soft {
			if e.host == host && h.table.now < e.claim.Window.End+h.gaps[host] {
				use += e.claim.Resources[class]
			}
		}
	}
	return use
}

// others returns the entries of a host that count at an instant, and whether one is of all of it.
func (h *history) others(host int, at api.Instant, without *entry) (some, whole bool) {
	for _, e := range h.list {
		for _, c := range []*api.Claim{&e.claim, e.next} {
			if e.host == host && e != without && c != nil && h.covers(c, host, at) {
				some, whole = true, whole || c.Whole
			}
		}
	}
	for _, e := range h.soft {
		some = some || e.host == host && at <= h.table.now && h.table.now < e.claim.Window.End+h.gaps[host]
	}
	return some, whole
}

// fits reports whether c may be on a host beside everything but one entry, which then counts
// only for what is less than c.
func (h *history) fits(host int, c *api.Claim, without *entry) bool {
	if c.Window.End <= h.table.now {
		return false
	}
	for at := max(c.Window.Start, h.table.now); at < c.Window.End+h.gaps[host]; at++ {
		some, whole := h.others(host, at, without)
		if whole || c.Whole && some && h.had(without, host, api.VCPU, at) < 0 {
			return false
		}
		for class, n := range c.Resources {
			if n > h.total[host][class]-h.useAt(host, class, at, without) && n > h.had(without, host, class, at) {
				return false
			}
		}
	}
	return true
}

// had returns what an entry takes already, -1 for nothing at all.
func (h *history) had(e *entry, host int, class api.ResourceClass, at api.Instant) int64 {
	if e == nil || !h.covers(&e.claim, host, at) {
		return -1
	}
	return e.claim.Resources[class]
}

// hold reports whether everything within an entry fits into c at every instant from now on.
func (h *history) hold(e *entry, c *api.Claim) bool {
	for at := h.table.now; at < h.table.now+60; at++ {
		for class := range h.total[e.host] {
			var use, room int64
			for _, in := range e.inner {
				if in.Window.Contains(at) {
					use += in.Resources[class]
				}
			}
			if c.Window.Contains(at) {
				room = c.Resources[class]
			}
			if use > room {
				return false
			}
		}
	}
	return true
}

// check compares an answer of the table with that of the book.
func (h *history) check(want bool, err error, format string, args ...any) {
	h.log = append(h.log, logged{h.table.now, format, args, err})
	if want != (err == nil) {
		h.t.Fatalf("the book says %v: %v", want, h)
	}
}

// note counts what an answer has met.
func (h *history) note(host int, c *api.Claim, ok bool) {
	if ok {
		for _, e := range h.list {
			if e.host == host && (e.claim.Window.End+h.gaps[host] == c.Window.Start || c.Window.End+h.gaps[host] == e.claim.Window.Start) {
				h.seen["touching"]++
				if c.Whole || e.claim.Whole {
					h.seen["touching whole"]++
				}
			}
		}
		return
	}
	gap := h.gaps[host]
	h.gaps[host] = 0
	if gap > 0 && h.fits(host, c, nil) {
		h.seen["refused for the gap"]++
	}
	h.gaps[host] = gap
	for _, e := range h.list {
		switch {
		case e.host != host:
		case c.Whole && !e.claim.Whole:
			h.seen["whole after instance"]++
		case e.claim.Whole && !c.Whole:
			h.seen["instance after whole"]++
		}
	}
}

// slot places one slot on the first host that has room, and asks all of them.
func (h *history) slot(c api.Claim, not int) *entry {
	h.names++
	c.Consumer = api.InstanceID(fmt.Sprint("s", h.names))
	var out *entry
	for host := range h.gaps {
		if host == not {
			continue
		}
		want := h.fits(host, &c, nil)
		if c.Whole && out != nil {
			continue // it could only be asked by claiming it
		}
		h.note(host, &c, want)
		e := &entry{name: c.Consumer, host: host, claim: c}
		switch {
		case c.Whole:
			_, all, err := h.table.PlaceWhole(bookHosts[host], c)
			h.check(want, err, "whole %s over %v", bookHosts[host], c.Window)
			e.claim.Resources = all
			require.True(h.t, err != nil || maps.Equal(all, h.total[host]))
		case out == nil:
			_, err := h.table.Place(bookHosts[host], c)
			h.check(want, err, "place %v on %s over %v", c.Resources, bookHosts[host], c.Window)
		default:
			h.check(want, h.table.Fits(bookHosts[host], c), "fits %v on %s over %v", c.Resources, bookHosts[host], c.Window)
			want = false
		}
		if want {
			out = e
		}
	}
	return out
}

// create makes a lease of some slots, all or nothing.
func (h *history) create() {
	c := api.Claim{Class: api.Firm, Window: h.window(), Whole: h.dice.IntN(4) == 0}
	if !c.Whole {
		c.Resources = api.Resources{api.VCPU: 1 + h.dice.Int64N(4), api.MemoryMB: 1 + h.dice.Int64N(4)}
		if h.dice.IntN(12) == 0 {
			c.Resources = nil // a slot of nothing is a slot too
		}
	}
	before := len(h.list)
	for range 1 + h.dice.IntN(3) {
		e := h.slot(c, -1)
		if e == nil {
			for _, e := range h.list[before:] {
				h.table.Release(bookHosts[e.host], e.claim)
			}
			h.list = h.list[:before]
			return
		}
		h.list = append(h.list, e)
	}
}

func (h *history) remove(e *entry) {
	for _, in := range e.inner {
		h.table.Release(bookHosts[e.host], in)
	}
	if e.next != nil {
		h.table.Shrink(bookHosts[e.host], *e.next, e.claim)
	}
	h.table.Release(bookHosts[e.host], e.claim)
	h.list = slices.DeleteFunc(h.list, func(o *entry) bool { return o == e })
}

// update begins to change a slot where it is, or ends that.
func (h *history) update(e *entry) {
	id := bookHosts[e.host]
	if e.next != nil {
		if h.dice.IntN(2) == 0 {
			h.table.ShrinkSlot(id, *e.next, nil, e.claim, nil)
			h.seen["aborted"]++
		} else {
			h.table.ShrinkSlot(id, e.claim, nil, *e.next, nil)
			e.claim = *e.next
			for i := range e.inner {
				e.inner[i].Within = &e.claim
				h.seen["within what was changed"]++
			}
			h.seen["committed"]++
		}
		e.next = nil
		return
	}
	to := e.claim
	to.Window = h.window()
	h.names++
	to.Consumer = api.InstanceID(fmt.Sprint("s", h.names))
	if h.dice.IntN(2) == 0 && e.claim.Window.End > h.table.now { // prolong
		to.Window = api.Window{Start: e.claim.Window.Start, End: e.claim.Window.End + api.Instant(h.dice.IntN(4))}
	}
	switch {
	case to.Whole:
		to.Resources = maps.Clone(h.total[e.host])
	case h.dice.IntN(2) == 0 && len(to.Resources) > 0:
		to.Resources = api.Resources{api.VCPU: 1 + h.dice.Int64N(5), api.MemoryMB: 1 + h.dice.Int64N(4)}
	}
	want := h.fits(e.host, &to, e) && h.hold(e, &to)
	copies := want && h.fits(e.host, &to, nil)
	_, all, err := h.table.ExtendSlot(id, e.claim, nil, to)
	h.check(want, err, "change %s on %s to %v over %v", e.name, id, to.Resources, to.Window)
	if err == nil {
		require.True(h.t, maps.Equal(to.Resources, all))
		e.next = &to
		if !copies {
			h.seen["no room for a copy"]++
			if to.Whole {
				h.seen["no room for a copy of a whole host"]++
			}
		}
	}
}

// heal moves what is on a host elsewhere, as far as there is room.
func (h *history) heal(host int) {
	for _, e := range slices.Clone(h.list) {
		if e.host != host || e.next != nil || len(e.inner) > 0 || e.claim.Window.End <= h.table.now {
			continue
		}
		c := e.claim
		if c.Whole {
			c.Resources = nil
		}
		if moved := h.slot(c, host); moved != nil {
			h.remove(e)
			h.list = append(h.list, moved)
			h.seen["healed"]++
		}
	}
}

// boot claims something within a slot.
func (h *history) boot(e *entry) {
	c := api.Claim{
		Consumer: "inner", Class: api.Firm, Window: e.claim.Window, Within: &e.claim,
		Resources: api.Resources{api.VCPU: 1 + h.dice.Int64N(2)},
	}
	ends := e.claim.Window.End <= h.table.now
	e.inner = append(e.inner, c)
	want := !ends && h.hold(e, &e.claim)
	err := h.table.Claim(bookHosts[e.host], c)
	h.check(want, err, "boot within %s", e.name)
	if err != nil {
		e.inner = e.inner[:len(e.inner)-1]
	} else if e.claim.Whole {
		h.seen["within a whole host"]++
	}
}

// preempt places a preemptible.
func (h *history) preempt(host int) {
	c := api.Claim{Class: api.Preemptible, Window: h.window(), Resources: api.Resources{api.VCPU: 1}}
	c.Window.Start = h.table.now
	_, whole := h.others(host, h.table.now, nil)
	want := c.Window.End > h.table.now && !whole && h.total[host][api.VCPU] > h.useAt(host, api.VCPU, h.table.now, nil)
	err := h.table.Claim(bookHosts[host], c)
	h.check(want, err, "preemptible on %s over %v", bookHosts[host], c.Window)
	if err == nil {
		h.soft = append(h.soft, entry{host: host, claim: c})
	}
}

// step makes one random step.
func (h *history) step() {
	var e *entry
	if len(h.list) > 0 {
		e = h.list[h.dice.IntN(len(h.list))]
	}
	host := h.dice.IntN(len(h.gaps))
	switch n := h.dice.IntN(20); {
	case n < 7 || e == nil:
		h.create()
	case n < 12:
		h.update(e)
	case n < 13:
		h.remove(e)
	case n < 14:
		h.heal(host)
	case n < 16 && e.next == nil:
		h.boot(e)
	case n < 17:
		h.preempt(host)
	case n < 18:
		h.putHost(host)
	default:
		h.now += api.Instant(h.dice.IntN(4))
		h.table.Advance(h.base + h.now)
	}
}

// compare compares the room of every host at every instant, and empties the table.
func (h *history) compare() {
	for host, id := range bookHosts[:len(h.gaps)] {
		row, _ := h.table.rowOf(id)
		k, i := h.table.chunkOf(row)
		for at := h.table.now; at < h.table.now+30; at++ {
			if some, _ := h.others(host, at, nil); some == k.isIdle(i, at, at+1, api.Firm, h.table.now) {
				h.t.Fatalf("%s is not idle at %d, or is: %v", id, at, h)
			}
			for class, total := range h.total[host] {
				want := total - h.useAt(host, class, at, nil)
				if got := k.freeDuring(i, h.table.classes.numberOf(class), at, at+1, api.Firm, h.table.now); got != want {
					h.t.Fatalf("%s has %d of %s at %d, not %d: %v", id, got, class, at, want, h)
				}
			}
		}
	}
	for _, e := range slices.Clone(h.list) {
		h.remove(e)
	}
	for _, e := range h.soft {
		h.table.Release(bookHosts[e.host], e.claim)
	}
	for _, id := range bookHosts[:len(h.gaps)] {
		row, _ := h.table.rowOf(id)
		k, i := h.table.chunkOf(row)
		if !k.isIdle(i, h.table.now, api.Forever, api.Firm, h.table.now) || k.timelines.at[i] != nil || k.rooms.value(i) != nil || k.claims.value(i) != 0 {
			h.t.Fatalf("something is left on %s: %v", id, h)
		}
	}
}

// A slow reservation book agrees with the table over random histories of leases: created,
// changed in place, healed, used, ended and deleted, with gaps after each.
func TestTableKeepsReservationBook(t *testing.T) {
	histories, s := bookHistories, seen{}
	if testing.Short() {
		histories = bookShort
	}
	var table *Table
	first := dice.Seed(t)
	for n := range histories {
		if n%bookTables == 0 {
			table = NewTable()
		}
		h := newHistory(t, table, first+uint64(n), s)
		for range 4 + h.dice.IntN(10) {
			h.step()
		}
		h.compare()
	}
	t.Log(histories, "histories:", s)
	for _, what := range []string{
		"touching", "touching whole", "refused for the gap", "whole after instance", "instance after whole", "no room for a copy",
		"no room for a copy of a whole host", "committed", "aborted", "healed", "within what was changed", "within a whole host",
	} {
		require.Greater(t, s[what], histories/200, what)
	}
}
