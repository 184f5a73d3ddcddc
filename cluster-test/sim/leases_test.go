package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/state"
)

// three is a federation of three zones whose leases need more than one of them.
var three = plot{"root", 3, []int{1}, []plot{{"west", 3, []int{1, 1}, nil}, {"east", 1, []int{1}, nil}}}

// tenancy is what clients know of the leases of a zone.
type tenancy struct {
	made  []api.LeaseID          // acknowledged
	ended map[api.LeaseID]bool   // somebody has asked for their end
	tried map[string]bool        // by name: the answer may have been lost
	count map[string]int         // what happened to how many
	seen  map[api.LeaseID]counts // starts and ends that were told, each once
	after api.EventID            // up to which events were read
	rec   *check.Recorder        // of calls about leases
}

type counts struct{ started, ended int }

func newTenancy() *tenancy {
	return &tenancy{ended: map[api.LeaseID]bool{}, tried: map[string]bool{}, count: map[string]int{}, seen: map[api.LeaseID]counts{}, rec: newRecorder()}
}

// calls returns the calls of the client that does one thing after the other.
func (t *tenancy) calls(z *zone) check.LeaseCalls { return check.LeaseCalls{To: t.rec, Zone: z.name} }

// leaseOf asks for a lease of some slots, from in so many minutes on and for so many.
func leaseOf(name string, slots, in, minutes int) rest.LeaseCreate {
	now := api.InstantOf(time.Now())
	return rest.LeaseCreate{
		Name: name, Start: rest.LeaseDateOf(now.Add(time.Duration(in) * time.Minute)), End: rest.LeaseDateOf(now.Add(time.Duration(in+minutes) * time.Minute)),
		Reservations: []rest.ReservationSpec{{
			Type: api.ReserveInstances, Amount: &slots, VCPUs: new(int64(1)), Memory: new(int64(64)), Disk: new(int64(1)),
		}},
	}
}

// lease makes a lease, and does not insist.
func (z *zone) lease(t *tenancy, s rest.LeaseCreate) {
	t.tried[s.Name] = true
	ctx, cancel := context.WithTimeout(z.w.ctx, callTimeout)
	defer cancel()
	l, err := t.calls(z).Create(ctx, z.client(z.w.nodeOf(z)), s)
	z.w.tally.op("lease", err)
	if err == nil {
		t.made = append(t.made, l.ID)
		t.count["created"]++
	}
}

// actOnLease lets a client do something to a lease that the seed chooses.
func (w *world) actOnLease(t *tenancy, step int) {
	root := w.root()
	ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
	defer cancel()
	c := root.client(w.nodeOf(root))
	what := w.dice.IntN(8)
	if len(t.made) == 0 || what < 3 {
		root.lease(t, w.lend(leaseOf(fmt.Sprint("l", step), 1+w.dice.IntN(10), 1+w.dice.IntN(4), 2+w.dice.IntN(8))))
		return
	}
	id := t.made[len(t.made)-1-w.dice.IntN(min(4, len(t.made)))]
	calls := t.calls(root)
	l, err := calls.Read(ctx, c, id)
	if err != nil || len(l.Reservations) == 0 {
		return
	}
	r := l.Reservations[0].ID
	switch what {
	case 3, 4:
		later := rest.LeaseDateOf(api.Instant(l.End).Add(time.Duration(1+w.dice.IntN(5)) * time.Minute))
		t.note("updated", calls.Update(ctx, c, id, rest.LeaseUpdate{End: later}))
		_, _ = calls.Read(ctx, root.client(w.nodeOf(root)), id) // what it answers is judged in the end
	case 5:
		u := rest.LeaseUpdate{Reservations: []rest.ReservationSpec{{ID: r, Amount: new(1 + w.dice.IntN(12))}}}
		t.note("updated", calls.Update(ctx, c, id, u))
		_, _ = calls.Read(ctx, root.client(w.nodeOf(root)), id)
	case 6:
		t.ended[id] = true
		t.note("deleted", calls.End(ctx, c, id))
		_, _ = calls.Read(ctx, root.client(w.nodeOf(root)), id)
	case 7:
		o := order(fmt.Sprint("in", step), 1, 1+w.dice.IntN(2))
		o.Hints = &rest.SchedulerHints{Reservation: r}
		_, err = c.Boot(ctx, o, "")
		t.note("booted into", err)
	}
}

func (t *tenancy) note(what string, err error) {
	if err == nil {
		t.count[what]++
	}
}

// glanceAtLeases holds what must hold of leases at every moment.
func (w *world) glanceAtLeases(t *tenancy) {
	k, ok := w.root().knows()
	if !ok {
		return
	}
	for _, id := range t.made {
		if _, there := k.view.Lease(id); !there && !t.ended[id] {
			w.fail("lease %s was acknowledged, and is gone", id)
		}
	}
	for _, l := range k.view.Leases("") {
		if (l.Status == api.LeasePending || l.Status == api.LeaseActive) && !w.isOverSomewhere(l) {
			w.checkHalf(k.view, l)
		}
	}
	w.readEvents(t, k.view)
	for _, z := range w.zones {
		z.checkWithin()
	}
}

// isOverSomewhere reports whether a lease has ended by the time of some zone: a clock of it may
// be wrong, and each zone ends its own slots.
func (w *world) isOverSomewhere(l *state.Lease) bool {
	return slices.ContainsFunc(w.zones, func(z *zone) bool {
		v := z.newest()
		return v == nil || v.Now() >= l.Terms.Window.End
	})
}

// checkHalf holds that a lease has all it must have, over all zones.
func (w *world) checkHalf(v *state.State, l *state.Lease) {
	b, ok := v.Boot(l.Terms.Project, l.Order)
	if !ok || b.Decision != api.DecisionCommit {
		w.fail("lease %s is %s, and its order is not committed", l.Terms.ID, l.Status)
		return
	}
	has := map[string]int{}
	for _, i := range v.LeaseSlots(l) {
		has[i.Group]++
	}
	for _, r := range l.Terms.Reservations {
		if has[string(r.ID)] < r.Min {
			w.fail("lease %s is %s and has %d of %d slots", l.Terms.ID, l.Status, has[string(r.ID)], r.Min)
		}
	}
}

// readEvents holds that every lease starts once and ends once, not before its time and in order.
func (w *world) readEvents(t *tenancy, v *state.State) {
	list, whole := v.Events(t.after, math.MaxInt)
	require.True(w.t, whole)
	for _, e := range list {
		t.after = v.EventID(e)
		was := t.seen[e.Lease]
		switch e.Kind {
		case state.EventLeaseStarted:
			was.started++
			t.count["started"]++
		case state.EventLeaseEnded:
			was.ended++
			t.count["ended"]++
		default:
			continue
		}
		if t.seen[e.Lease] = was; was.started > 1 || was.ended > 1 || e.Kind == state.EventLeaseStarted && was.ended > 0 {
			w.fail("lease %s started %d times and ended %d times", e.Lease, was.started, was.ended)
		}
	}
}

// checkWithin holds that nothing runs in a slot before its window has begun, nor more than it has.
func (z *zone) checkWithin() {
	v := z.newest()
	if v == nil {
		return
	}
	for _, h := range v.AllHosts() {
		for _, slot := range v.SlotsOn(h.ID) {
			in := v.Within(slot.ID)
			used := map[bool]int{} // by whether it is lent, and not by what waits for that
			for _, i := range in {
				used[i.Class == api.Preemptible]++
			}
			if used[true] > 1 || used[false] > 1 || len(in) == 1 && (v.Now() < slot.Window.Start || in[0].Project != slot.Project) {
				z.w.fail("zone %s: %d instances are within slot %s over %v", z.name, len(in), slot.ID, slot.Window)
			}
		}
	}
}

// dueLeases returns how many leases of a zone are not at rest for good.
func dueLeases(v *state.State) int {
	n := 0
	for _, l := range v.Leases("") {
		if l.Status != api.LeaseTerminated {
			n++
		}
	}
	return n
}

// outlive waits until every lease has ended by itself.
func (w *world) outlive(t *tenancy) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < time.Hour; await.Sleep(5 * time.Second) {
		w.glanceAtLeases(t)
		w.holds()
		if dueLeases(w.root().view()) == 0 {
			break
		}
	}
	w.settle()
	w.glanceAtLeases(t)
	w.check()
	v := w.root().view()
	for _, l := range v.Leases("") {
		assert.Equal(w.t, api.LeaseTerminated, l.Status, "lease %s %s: %s", l.Terms.ID, l.Terms.Name, l.Reason)
		assert.Equal(w.t, 1, t.seen[l.Terms.ID].ended, "lease %s ended", l.Terms.ID)
		if l.Event(api.EventStartLease).Status == api.EventDone {
			assert.Equal(w.t, 1, t.seen[l.Terms.ID].started, "lease %s started", l.Terms.ID)
		}
	}
	for _, z := range w.zones {
		for _, h := range z.view().AllHosts() {
			assert.Empty(w.t, z.view().SlotsOn(h.ID), "zone %s: slots on %s", z.name, h.Name)
		}
		assert.Empty(w.t, z.view().OpenHolds(), "zone %s", z.name)
	}
}

// leaseLife is the life of leases over three zones, through faults that a seed draws.
func leaseLife(t *testing.T, seed uint64, sum map[string]int) {
	t.Helper()
	w := newWorld(t, seed, three)
	ten := newTenancy()
	steps := 60
	if testing.Short() {
		steps = 12
	}
	for step := range steps {
		w.useBeside(ten)
		w.actOnLease(ten, step)
		if w.dice.IntN(2) == 0 {
			w.bootBeside(step)
		}
		if w.dice.IntN(3) == 0 {
			w.disturb()
		}
		await.Sleep(time.Duration(w.dice.IntN(40_000)) * time.Millisecond)
		w.glance()
		w.glanceAtLeases(ten)
		w.holds()
	}
	w.heal()
	w.outlive(ten)
	w.judgeCalls(ten)
	w.journals()
	w.awaitRequeued()
	w.checkRooms()
	w.empty()
	for _, counts := range []map[string]int{ten.count, w.tally.ops} {
		for what, n := range counts {
			sum[what] += n
		}
	}
}

// bootBeside boots outside of all leases. What is firm does not stay for long.
func (w *world) bootBeside(step int) {
	root, most := w.root(), 1+w.dice.IntN(8)
	o := order(fmt.Sprint("r", step), 1+w.dice.IntN(most), most)
	w.soften(&o)
	root.boot(w.nodeOf(root), w.nodeOf(root), o)
	if o.Hints == nil || w.dice.IntN(3) == 0 {
		root.release(w.nodeOf(root), api.ReservationID(o.Reservation), time.Duration(5+w.dice.IntN(60))*time.Second)
	}
}

// TestLeasesOverZones lets clients make, change and end leases over three zones and boot into
// them and beside them, while leaders are killed, links are cut and clocks jump: no lease is ever half, what was
// acknowledged is kept, each starts once and ends once, and nothing is left of those that ended.
func TestLeasesOverZones(t *testing.T) {
	if *seedFlag != 0 {
		synctest.Test(t, func(t *testing.T) { leaseLife(t, *seedFlag, map[string]int{}) })
		return
	}
	floor := map[string]int{
		"created": 5, "updated": 3, "deleted": 1, "started": 3, "ended": 3, "booted into": 1, "evictions": 4, "refills": 2, "lent": 1,
		"calls about leases": 400, "histories of leases": 10,
	}
	sum := map[string]int{}
	lacks := func() (what []string) {
		for k, least := range floor {
			if sum[k] < least {
				what = append(what, k)
			}
		}
		return what
	}
	seeds := dice.Seeds(t, 16)
	for i, seed := range seeds {
		if kept := len(seeds) - 16; i > kept && (len(lacks()) == 0 || testing.Short()) { // who runs first is not drawn, so what happens is not always the same
			break
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leaseLife(t, seed, sum) })
		})
	}
	t.Log(sum)
	if !testing.Short() {
		assert.Empty(t, lacks())
	}
}

// TestLeasesOfZonesThatWereAway lets all zones be away for longer than several events of
// leases. When they are back, all that was due happens in order, each once.
func TestLeasesOfZonesThatWereAway(t *testing.T) {
	type story struct {
		name   string
		slots  int
		zones  []string
		missed api.LeaseEventStatus // of the start of a lease that nobody was there for
	}
	for _, at := range dice.Part(t, []story{
		{"in one zone", 4, []string{"root"}, api.EventDone},
		// Its parts begin and end in zones that have not answered again: it never started as a whole.
		{"over three zones", 14, nil, api.EventError},
	}, 1) {
		t.Run(at.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { awayStory(t, at.slots, at.zones, at.missed) })
		})
	}
}

func awayStory(t *testing.T, slots int, zones []string, missed api.LeaseEventStatus) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), three)
	root, ten := w.root(), newTenancy()
	for n := range 3 { // one after the other, each with nearly all room
		l := leaseOf(fmt.Sprint("l", n), slots, 2+3*n, 3)
		l.Zones = zones
		root.insistLease(ten, l)
	}
	w.glanceAtLeases(ten)
	for _, z := range w.zones {
		for _, p := range z.nodes {
			p.kill()
		}
	}
	await.Sleep(9 * time.Minute) // two have ended, and the third has begun
	for _, z := range w.zones {
		for _, p := range z.nodes {
			p.reap()
			p.start()
		}
	}
	root.until("the third lease is active", func(v *state.State) bool {
		l, ok := v.Lease(ten.made[2])
		return ok && l.Status == api.LeaseActive
	})
	w.outlive(ten)

	v := root.view()
	for n, id := range ten.made {
		l, _ := v.Lease(id)
		want := missed
		if n == 2 {
			want = api.EventDone
		}
		assert.Equal(t, want, l.Event(api.EventStartLease).Status, "the start of lease %d", n)
	}
	var begun []string
	list, _ := v.Events(api.EventID{}, math.MaxInt)
	for _, e := range list {
		if is := api.LeaseStatus(e.Is); e.Kind == state.EventLeaseStatus && (is == api.LeaseStarting || is == api.LeaseTerminating) {
			l, _ := v.Lease(e.Lease)
			begun = append(begun, l.Terms.Name+" "+e.Is)
			due := l.Terms.Window.Start
			if is == api.LeaseTerminating {
				due = l.Terms.Window.End
			}
			assert.Equal(t, due, e.At, "%s of %s happens at its time", is, l.Terms.Name)
		}
	}
	assert.Equal(t, []string{
		"l0 STARTING", "l0 TERMINATING", "l1 STARTING", "l1 TERMINATING", "l2 STARTING", "l2 TERMINATING",
	}, begun, "in order, each once")
	w.empty()
}

// insistLease makes a lease, and repeats that until it is acknowledged.
func (z *zone) insistLease(t *tenancy, s rest.LeaseCreate) {
	z.w.t.Helper()
	z.insist("lease", func(ctx context.Context, c *client.Client) error {
		l, err := t.calls(z).Create(ctx, c, s)
		if err == nil && !slices.Contains(t.made, l.ID) {
			t.made = append(t.made, l.ID)
		}
		return err
	})
}
