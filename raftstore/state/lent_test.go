package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// newLentWorld returns a zone with two hosts of ten processors and a parent that may have some percent
// of them.
func newLentWorld(t *testing.T, held, committed int) *world {
	t.Helper()
	w := newWorld(t)
	w.form = api.FormNewest
	w.link("up", api.LinkParent)
	w.host("h1", 10)
	w.host("h2", 10)
	w.share(held, committed)
	return w
}

func (w *world) share(held, committed int) {
	w.ok(command.LinkSet{Stamp: w.stamp(), ID: "up", ShareHeld: &held, ShareCommitted: &committed})
}

// takes has the parent hold n slots of one processor, and returns how many are refused and why.
func (w *world) takes(id string, n int, change ...func(*command.Hold)) (refused int, why api.Code) {
	w.tb.Helper()
	c := asked(w.stamp(), id, nil)
	for i, name := range numbered(id, n) {
		c.Slots = append(c.Slots, slots([]string{"h1", "h2"}[i%2], name)...)
	}
	c.Spares = [][]api.HostID{{"h1", "h2"}}
	c.Request.Reservation, c.Request.Groups[0].Count = api.ReservationID(id), n
	for _, f := range change {
		f(&c)
	}
	h := w.ok(c).Hold
	return len(h.Refused), h.Why
}

func (w *world) decides(id string, d api.Decision) {
	w.tb.Helper()
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: api.HoldID(id), Origin: "up", Decision: d})
}

// lent returns what the parent has now.
func (w *world) lent() LentClass {
	l, _ := w.s.Link("up")
	of, _, _ := w.s.Lent(l)
	return of[api.VCPU]
}

// TestShareOfAParent holds the shares at their limits and one above: in undecided holds, and in all.
func TestShareOfAParent(t *testing.T) {
	w := newLentWorld(t, 50, 80)
	refused, why := w.takes("k1", 11)
	assert.Equal(t, 1, refused, "10 of 20 may be held")
	assert.Equal(t, api.CodeOverQuota, why)
	refused, why = w.takes("k2", 1)
	assert.Equal(t, 1, refused)
	assert.Equal(t, api.CodeContended, why, "another hold of the parent has it")
	assert.Equal(t, LentClass{Held: 10, HeldMax: 10, Committed: 10, CommittedMax: 16}, w.lent())

	w.decides("k1", api.DecisionCommit)
	refused, why = w.takes("k3", 7)
	assert.Equal(t, 1, refused, "16 of 20 in all")
	assert.Equal(t, api.CodeOverQuota, why)
	w.decides("k3", api.DecisionAbort)
	assert.Equal(t, LentClass{HeldMax: 10, Committed: 10, CommittedMax: 16}, w.lent())

	w.ok(create(w.stamp(), "own", 10, 1)) // the zone's own boots have the rest
	own := w.ok(hold(w.stamp(), "own-k", "own", append(slots("h1", numbered("o", 5)...), slots("h2", numbered("p", 5)...)...))).Hold
	assert.Empty(t, own.Refused)
	refused, why = w.takes("k4", 1)
	assert.Equal(t, 1, refused)
	assert.Equal(t, api.CodeContended, why, "that is for want of room")
	w.ok(bootDecide(w.stamp(), "own", api.DecisionAbort))

	refused, _ = w.takes("k5", 6)
	assert.Zero(t, refused)
	w.decides("k5", api.DecisionCommit)
	refused, _ = w.takes("k6", 1)
	assert.Equal(t, 1, refused)
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "k5-00000"})
	refused, _ = w.takes("k7", 1)
	assert.Equal(t, 1, refused, "it is not gone")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "k5-00000"))
	refused, _ = w.takes("k8", 1)
	assert.Zero(t, refused)
	checkIndexes(t, w.s)
}

// TestAWholeShareIsNone: a parent that may have all of the zone finds it full, and not its share used up.
func TestAWholeShareIsNone(t *testing.T) {
	w := newLentWorld(t, 100, 100)
	refused, _ := w.takes("k1", 20)
	assert.Zero(t, refused)
	_, why := w.takes("k2", 1)
	assert.Equal(t, api.CodeContended, why)
	w.decides("k2", api.DecisionAbort)
	w.decides("k1", api.DecisionCommit)
	refused, why = w.takes("k3", 1)
	assert.Equal(t, 1, refused)
	assert.Equal(t, api.CodeNoCapacity, why)
}

// TestShareOfAHiddenLayout: while the layout is hidden a share is of the hosts that a parent would be shown, so that who is refused at his
// share learns no more than who is refused for want of room. So it is after a restart.
func TestShareOfAHiddenLayout(t *testing.T) {
	w := newLentWorld(t, 100, 50)
	w.host("h3", 10)
	hides := func(on bool) {
		c := w.s.Config
		c.HidesLayout = on
		w.ok(command.ConfigSet{Stamp: w.stamp(), Config: c})
	}
	assert.Equal(t, LentClass{HeldMax: 30, CommittedMax: 15}, w.lent())
	hides(true)
	assert.Equal(t, LentClass{HeldMax: 20, CommittedMax: 10}, w.lent(), "2 of 3 hosts")
	refused, why := w.takes("k1", 11)
	assert.Equal(t, 1, refused)
	assert.Equal(t, api.CodeOverQuota, why)
	assert.Equal(t, int64(20), loaded(t, saved(t, w.s)).Hosts().Stock(api.VCPU))
	assert.Equal(t, int64(20), w.s.Clone().Hosts().Stock(api.VCPU))
	w.decides("k1", api.DecisionAbort)
	w.host("h4", 10)
	assert.Equal(t, LentClass{HeldMax: 40, CommittedMax: 20}, w.lent())
	hides(false)
	assert.Equal(t, LentClass{HeldMax: 40, CommittedMax: 20}, w.lent())
	checkIndexes(t, w.s)
}

// TestShareThatShrinks: nothing is taken back when a share or the stock does, and nothing is added.
func TestShareThatShrinks(t *testing.T) {
	for name, shrink := range map[string]func(w *world){
		"the share": func(w *world) { w.share(100, 40) },
		"the stock": func(w *world) { w.host("h2", 1) },
	} {
		w := newLentWorld(t, 100, 60)
		refused, _ := w.takes("k1", 12)
		require.Zero(t, refused, name)
		w.decides("k1", api.DecisionCommit)
		shrink(w)
		assert.Equal(t, int64(12), w.lent().Committed, name)
		assert.Less(t, w.lent().CommittedMax, int64(12), name)
		refused, why := w.takes("k2", 1, func(c *command.Hold) { c.Slots[0].Host = "h1" })
		assert.Equal(t, 1, refused, name)
		assert.Equal(t, api.CodeOverQuota, why, name)
		w.host("h2", 20)
		w.share(100, 60)
		refused, _ = w.takes("k3", 1, func(c *command.Hold) { c.Slots[0].Host = "h2" })
		assert.Zero(t, refused, name)
		checkIndexes(t, w.s)
	}
}

// reserves makes a hold one of room over a window, for a lease of the parent.
func reserves(w api.Window) func(*command.Hold) {
	return func(c *command.Hold) {
		c.Request.Reserves, c.Request.Window = true, w
		c.Request.Groups[0].Name = "res"
	}
}

// TestShareOverTime: what has ended, or has not begun, leaves the share to others.
func TestShareOverTime(t *testing.T) {
	w := newLentWorld(t, 100, 50)
	from := func(start, end int) api.Window {
		return api.Window{Start: w.now + 1_000 + api.Instant(start), End: w.now + 1_000 + api.Instant(end)}
	}
	first := from(0, 100)
	refused, _ := w.takes("k1", 10, reserves(first))
	require.Zero(t, refused)
	for n, c := range []struct {
		w       api.Window
		refused int
	}{
		{api.Window{Start: first.Start - 50, End: first.Start}, 0},
		{api.Window{Start: first.Start - 50, End: first.Start + 1}, 1},
		{api.Window{Start: first.End - 1, End: first.End + 50}, 1},
		{api.Window{Start: first.End, End: first.End + 50}, 0},
		{api.Window{Start: first.Start - 50, End: first.End + 50}, 1},
	} {
		id := fmt.Sprint("n", n)
		refused, _ := w.takes(id, 1, reserves(c.w))
		assert.Equal(t, c.refused, refused, "%d", n)
		w.decides(id, api.DecisionAbort)
	}
	refused, _ = w.takes("now", 1)
	assert.Equal(t, 1, refused, "what has no end would be there with it")
	refused, _ = w.takes("short", 1, func(c *command.Hold) { c.Request.Window.End = first.Start })
	assert.Zero(t, refused)
	checkIndexes(t, w.s)
}

// TestShareOfALeaseThatChanges: a slot that an update takes over counts with what it has beyond the old
// one.
func TestShareOfALeaseThatChanges(t *testing.T) {
	w := newLentWorld(t, 50, 50)
	window := api.Window{Start: w.now + 1_000, End: w.now + 2_000}
	refused, _ := w.takes("k1", 10, reserves(window))
	require.Zero(t, refused)
	w.decides("k1", api.DecisionCommit)
	longer := api.Window{Start: window.Start, End: window.End + 1_000}
	update := func(amount int64) func(*command.Hold) {
		return func(c *command.Hold) {
			reserves(longer)(c)
			c.Request.Replaces = "k1"
			c.Request.Groups[0].Resources = api.Resources{api.VCPU: amount}
			for n := range c.Slots {
				c.Slots[n].Keeps = api.InstanceID(numbered("k1", len(c.Slots))[n])
			}
			c.Spares = nil
		}
	}
	refused, _ = w.takes("wider", 10, update(2))
	assert.Equal(t, 10, refused, "twice as much is above the share: the first would be 11 of 10")
	w.decides("wider", api.DecisionAbort)
	refused, _ = w.takes("longer", 10, update(1))
	assert.Zero(t, refused)
	held, firm, _ := w.s.LentAt("up", api.VCPU, window.Start)
	assert.Equal(t, [2]int64{0, 10}, [2]int64{held, firm}, "it has that already")
	held, firm, _ = w.s.LentAt("up", api.VCPU, window.End)
	assert.Equal(t, [2]int64{10, 10}, [2]int64{held, firm})
	checkIndexes(t, w.s)
	w.decides("longer", api.DecisionCommit)
	held, firm, _ = w.s.LentAt("up", api.VCPU, window.Start)
	assert.Equal(t, [2]int64{0, 10}, [2]int64{held, firm})
	checkIndexes(t, w.s)
}

// TestShareWithPreemptibles: they are taken beside all that the parent has now, and firm work beside firm
// work.
func TestShareWithPreemptibles(t *testing.T) {
	w := newLentWorld(t, 100, 50)
	soft := func(c *command.Hold) { c.Request.Class = api.Preemptible }
	refused, _ := w.takes("k1", 4)
	require.Zero(t, refused)
	w.decides("k1", api.DecisionCommit)
	refused, _ = w.takes("k2", 7, soft)
	assert.Equal(t, 1, refused, "6 beside the 4")
	w.decides("k2", api.DecisionCommit)
	assert.Equal(t, LentClass{HeldMax: 20, Committed: 10, CommittedMax: 10}, w.lent())
	refused, _ = w.takes("k3", 7)
	assert.Equal(t, 1, refused, "6 beside the 4 that are firm")
	checkIndexes(t, w.s)
}

// TestShareIsSetForAParent: in percent, at its limits and one beyond.
func TestShareIsSetForAParent(t *testing.T) {
	w := newLentWorld(t, 0, api.ShareMax)
	w.link("c1", api.LinkChild)
	l, _ := w.s.Link("up")
	assert.Equal(t, api.LinkShare{Held: new(0), Committed: new(api.ShareMax)}, l.Share)
	refused, why := w.takes("k1", 1)
	assert.Equal(t, 1, refused)
	assert.Equal(t, api.CodeOverQuota, why)
	for _, bad := range []command.LinkSet{
		{ID: "up", ShareHeld: new(-1)},
		{ID: "up", ShareHeld: new(api.ShareMax + 1)},
		{ID: "up", ShareCommitted: new(-1)},
		{ID: "up", ShareCommitted: new(api.ShareMax + 1)},
		{ID: "c1", ShareHeld: new(50)},
		{ID: "c1", ShareCommitted: new(50)},
	} {
		bad.Stamp = w.stamp()
		w.refused(api.CodeInvalid, bad)
	}
	w.ok(command.LinkSet{Stamp: w.stamp(), ID: "up", ShareHeld: new(5)})
	l, _ = w.s.Link("up")
	assert.Equal(t, api.LinkShare{Held: new(5), Committed: new(api.ShareMax)}, l.Share, "the other one stays")
}

// TestShareOfAnEarlierForm: an entry of before there were shares is held against none, and counts.
func TestShareOfAnEarlierForm(t *testing.T) {
	w := newLentWorld(t, 10, 10)
	w.form = api.FormFourth
	refused, _ := w.takes("k1", 5)
	assert.Zero(t, refused)
	w.form = api.FormNewest
	assert.Equal(t, LentClass{Held: 5, HeldMax: 2, Committed: 5, CommittedMax: 2}, w.lent())
	refused, _ = w.takes("k2", 1)
	assert.Equal(t, 1, refused)
}

// TestAChildThatLendsNoMore: a parent keeps why a child has refused slots, but not from an entry of before
// that was known.
func TestAChildThatLendsNoMore(t *testing.T) {
	for form, want := range map[api.Form]api.Code{api.FormFourth: api.CodeNoCapacity, api.FormFifth: api.CodeOverQuota} {
		w := newWorld(t)
		w.form = form
		w.link("c1", api.LinkChild)
		w.ok(create(w.stamp(), "r1", 2, 1))
		w.ok(hold(w.stamp(), "k1", "r1", nil, part("c1", "a", "b")))
		a := answer("c1", "a")
		a.Why = api.CodeOverQuota
		h := w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{a}}).Hold
		assert.Equal(t, want, h.Why, "%s", form)
	}
}
