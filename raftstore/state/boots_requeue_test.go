package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// preemptible boots n preemptible instances on a host, which are to be booted again if they have to leave.
func preemptible(w *world, res string, least int, host string, ids ...string) {
	c := create(w.stamp(), res, len(ids), least)
	c.Request.Class, c.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	c.Instances = specs(ids...)
	bootWith(w, c, host)
}

// bootWith records a boot and commits it with all of its instances on a host.
func bootWith(w *world, c command.BootCreate, host string) {
	w.ok(c)
	w.ok(holdFor(w, c.BootTerms, host, len(c.Instances)))
	w.ok(bootDecide(w.stamp(), string(c.Request.Reservation), api.DecisionCommit))
}

// holdFor holds the first n instances of a boot on a host.
func holdFor(w *world, terms command.BootTerms, host string, n int) command.Hold {
	c := hold(w.stamp(), fmt.Sprintf("k-%s-%d", terms.Request.Reservation, terms.Refill), string(terms.Request.Reservation), nil)
	c.Request, c.Refill = terms.Request, terms.Refill
	group, left := 0, terms.Request.Groups[0].Count
	for _, i := range terms.Instances[:n] {
		for left == 0 {
			group++
			left = terms.Request.Groups[group].Count
		}
		left--
		c.Slots = append(c.Slots, command.Slot{Instance: i, Host: api.HostID(host), Group: group})
	}
	return c
}

// evict has instances leave their room, as a lease does.
func evict(w *world, ids ...string) {
	for _, id := range ids {
		old, _ := w.s.Instance(api.InstanceID(id))
		i := *old
		i.ChangeTerms(func(t *api.InstanceTerms) { t.OnPreempt = api.PreemptRequeue })
		i.ChangeExtras(func(x *api.InstanceExtras) {
			x.Eviction = &api.Eviction{For: "lease", Lease: true, At: w.now, By: w.now + 10}
		})
		w.s.putInstance(old, &i)
		w.s.endInstance(&i)
	}
	w.s.passFacts()
}

// leave reports that instances on a host are gone.
func leave(w *world, host string, ids ...string) {
	w.ok(reports(w.stamp(), "a1", host, api.StatusDeleted, ids...))
}

// again is the command that boots the instances of an entry again, or says that there is no room if there are no ids.
func again(w *world, res string, ids ...string) command.Requeue {
	r, ok := w.s.Requeued("p", api.ReservationID(res))
	require.True(w.tb, ok, "the queue has nothing of %s", res)
	c := command.Requeue{Stamp: w.stamp(), Project: "p", Reservation: api.ReservationID(res), Seen: r.ModIndex, Instances: specs(ids...)}
	if len(ids) > 0 {
		c.Refill = w.boot(res).Refills + 1
	}
	return c
}

// decideRefill decides the order for the preempted instances of a boot.
func decideRefill(w *world, res string, d api.Decision) command.BootDecide {
	c := bootDecide(w.stamp(), res, d)
	c.Refill = w.boot(res).Refills
	return c
}

// pending returns the undecided order for the preempted instances of a boot, or nil.
func pending(w *world, res string) *Boot {
	b, _ := w.s.Refill("p", api.ReservationID(res), w.boot(res).Refills)
	return b
}

func dueIn(w *world, now api.Instant) (out []api.ReservationID) {
	for _, r := range w.s.DueRequeued(now, 9) {
		out = append(out, r.Reservation)
	}
	return out
}

// TestRequeueOfTheSecond boots the second of two again, for which there is room, and not the first:
// the first one waits on, and the second is not booted twice.
func TestRequeueOfTheSecond(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 4)
	preemptible(w, "r1", 1, "h1", "a", "b")
	evict(w, "a", "b")
	leave(w, "h1", "a", "b")
	terms := w.ok(again(w, "r1", "x", "y")).Boot.BootTerms
	c := holdFor(w, terms, "h1", 2)
	c.Slots = c.Slots[1:]
	w.ok(c)
	w.ok(decideRefill(w, "r1", api.DecisionCommit))
	r, ok := w.s.Requeued("p", "r1")
	require.True(t, ok)
	assert.Equal(t, []RequeuedInstance{{ID: "a", Name: "name-a"}}, r.Instances)
	assert.Equal(t, "name-a", w.ok(again(w, "r1", "z")).Boot.Instances[0].Name)
}

func TestRequeue(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 4)
	preemptible(w, "r1", 2, "h1", "a", "b", "c")
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "c"})
	leave(w, "h1", "c")
	require.Zero(t, w.s.CountRequeued(), "nobody has preempted it")
	evict(w, "a", "b")
	leave(w, "h1", "b")
	require.Equal(t, 1, w.s.CountRequeued())
	require.Empty(t, dueIn(w, w.now), "one more is to come")
	w.refused(api.CodeConflict, again(w, "r1", "x"))
	leave(w, "h1", "a")
	require.Equal(t, 2, w.s.CountRequeued())
	require.Equal(t, []api.ReservationID{"r1"}, dueIn(w, w.now))

	// The entry is as it was when the leader read it, or nothing happens.
	good := again(w, "r1", "x", "y")
	for name, c := range map[string]struct {
		code api.Code
		edit func(*command.Requeue)
	}{
		"another boot":            {api.CodeNotFound, func(c *command.Requeue) { c.Reservation = "r9" }},
		"it has changed":          {api.CodeConflict, func(c *command.Requeue) { c.Seen-- }},
		"too few ids":             {api.CodeInvalid, func(c *command.Requeue) { c.Instances = specs("x") }},
		"an instance never again": {api.CodeConflict, func(c *command.Requeue) { c.Instances = specs("x", "a") }},
		"another order is next":   {api.CodeConflict, func(c *command.Requeue) { c.Refill++ }},
	} {
		bad := good
		c.edit(&bad)
		bad.Stamp = w.stamp()
		require.Equal(t, c.code, api.CodeOf(w.do(bad).Err), name)
	}
	b := w.ok(good).Boot
	require.Equal(t, api.ReservationID("r1"), b.Request.Reservation, "it is the same boot")
	assert.Equal(t, 1, b.Refill)
	assert.Equal(t, 2, b.Request.Groups[0].Count)
	assert.Equal(t, 2, b.Min, "the boot lacks two of its minimum")
	assert.Equal(t, "name-a", b.Instances[0].Name)
	assert.Equal(t, 1, w.boot("r1").Refills)
	assert.Equal(t, api.BootBuilding, w.boot("r1").State())
	w.unchanged(good)
	require.Empty(t, dueIn(w, w.now.Add(time.Hour)), "it is being booted: never twice")
	c := again(w, "r1", "v", "w")
	w.refused(api.CodeConflict, c)
	assert.Len(t, w.s.BootsPage("p", Page{Limit: 9}), 1, "nobody sees another boot")
	assert.Len(t, w.s.AllBootsPage(Page{Limit: 9}), 1)

	w.ok(holdFor(w, b.BootTerms, "h1", 2))
	text := saved(t, w.s)
	require.Equal(t, text, saved(t, loaded(t, text)))
	w.ok(decideRefill(w, "r1", api.DecisionCommit))
	w.refused(api.CodeConflict, decideRefill(w, "r1", api.DecisionCommit))
	require.Zero(t, w.s.CountRequeued())
	require.Nil(t, pending(w, "r1"))
	assert.Equal(t, []api.HoldID{"k-r1-0", "k-r1-1"}, w.boot("r1").Holds)
	assert.Equal(t, Counts{Build: 2, Deleted: 3}, w.boot("r1").Counts)
	w.refused(api.CodeNotFound, c)
	checkIndexes(t, w.s)

	// What was booted again can be preempted again.
	evict(w, "x")
	leave(w, "h1", "x")
	require.Equal(t, []api.ReservationID{"r1"}, dueIn(w, w.now))
	assert.Equal(t, 2, w.ok(again(w, "r1", "z")).Boot.Refill)
	text = saved(t, w.s)
	require.Equal(t, text, saved(t, loaded(t, text)))
	require.Equal(t, 1, loaded(t, text).CountRequeued())
	checkIndexes(t, w.s)

	// The end of the boot is the end of all that was booted for it.
	release(w, "r1")
	require.Nil(t, pending(w, "r1"))
	leave(w, "h1", "y")
	assert.Equal(t, api.BootReleased, w.boot("r1").State())
	w.now = w.now.Add(time.Hour)
	w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 99})
	w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 99})
	require.Zero(t, w.s.boots.Len())
	require.Zero(t, w.s.holds.Len())
	checkIndexes(t, w.s)
}

// TestRefillsAreOneBoot: the rules of a boot count what was not preempted of it when the others are booted again.
func TestRefillsAreOneBoot(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	for _, h := range []string{"h1", "h2", "h3"} {
		w.host(h, 4)
	}
	c := create(w.stamp(), "r1", 2, 2)
	c.Request.Class, c.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	c.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	c.Instances = specs("a", "b")
	w.ok(c)
	h := holdFor(w, c.BootTerms, "h1", 2)
	h.Slots[1].Host = "h2"
	w.ok(h)
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	evict(w, "a")
	leave(w, "h1", "a")
	terms := w.ok(again(w, "r1", "x")).Boot.BootTerms
	beside := holdFor(w, terms, "h2", 1)
	beside.ID, beside.Attempt = "k-beside", 1
	assert.Equal(t, []api.InstanceID{"x"}, w.ok(beside).Hold.Refused, "b is there")
	apart := holdFor(w, terms, "h3", 1)
	apart.Slots[0].Instance.ID, apart.Attempt = "y", 2
	w.ok(apart)
	w.ok(decideRefill(w, "r1", api.DecisionCommit))
	hosts, _ := w.s.Members(api.Tenant{Project: "p"}, c.Request.RuleKey(0))
	assert.Equal(t, map[api.HostID]int{"h2": 1, "h3": 1}, hosts)
	checkIndexes(t, w.s)
}

// TestRefillsKeepTheZoneRule: how a boot is spread over zones is about all of it, whenever it was booted.
func TestRefillsKeepTheZoneRule(t *testing.T) {
	for name, c := range map[string]struct {
		rule api.ZoneRule
		at   map[api.LinkID]bool // where what is booted again may be
		says string
	}{
		"all in one":    {api.ZoneRule{Pack: true}, map[api.LinkID]bool{"c1": false, "c2": true}, "must be in one"},
		"two zones":     {api.ZoneRule{MinZones: 2}, map[api.LinkID]bool{"c1": true, "c2": false}, "needs 2"},
		"even":          {api.ZoneRule{MaxSkew: 1}, map[api.LinkID]bool{"c1": true, "c2": true}, ""},
		"nothing of it": {api.ZoneRule{}, map[api.LinkID]bool{"c1": true, "c2": true}, ""},
	} {
		for at, may := range c.at {
			t.Run(name+" "+string(at), func(t *testing.T) {
				w := newWorld(t)
				w.form = api.FormFifth
				w.link("c1", api.LinkChild)
				w.link("c2", api.LinkChild)
				b := create(w.stamp(), "r1", 2, 2)
				b.Request.Class, b.Request.OnPreempt, b.Request.Zones = api.Preemptible, api.PreemptRequeue, c.rule
				b.Instances = specs("a", "b")
				w.ok(b)
				first := api.LinkID("c1")
				if c.rule.Pack {
					first = "c2"
				}
				heldBelow(w, b.BootTerms, "k1", part(string(first), "a"), part("c2", "b"))
				w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
				evictBelow(w, string(first), "a")
				terms := w.ok(again(w, "r1", "x")).Boot.BootTerms
				heldBelow(w, terms, "k2", part(string(at), "x"))
				if text := w.s.DescribeShortfall(pending(w, "r1")); may {
					require.Empty(t, text)
					w.ok(decideRefill(w, "r1", api.DecisionCommit))
				} else {
					require.Contains(t, text, c.says)
					w.refused(api.CodeConflict, decideRefill(w, "r1", api.DecisionCommit))
				}
			})
		}
	}
}

// heldBelow holds instances of a boot in children.
func heldBelow(w *world, terms command.BootTerms, id string, parts ...command.Part) {
	all := map[api.LinkID]command.Part{}
	for _, p := range parts { // one for each child
		was := all[p.Link]
		if was.Link != "" {
			p.Instances = [][]api.InstanceSpec{append(was.Instances[0], p.Instances[0]...)}
		}
		all[p.Link] = p
	}
	h := hold(w.stamp(), id, string(terms.Request.Reservation), nil)
	h.Request, h.Refill, h.Parts = terms.Request, terms.Refill, nil
	answers := command.HoldParts{ID: api.HoldID(id)}
	for _, l := range slices.Sorted(maps.Keys(all)) {
		h.Parts = append(h.Parts, all[l])
		a := command.PartAnswer{Link: l}
		for _, i := range all[l].Instances[0] {
			a.Held = append(a.Held, i.ID)
		}
		answers.Answers = append(answers.Answers, a)
	}
	w.ok(h)
	answers.Stamp = w.stamp()
	w.ok(answers)
}

// evictBelow has a child report that an instance was preempted, and is gone.
func evictBelow(w *world, link, id string) {
	l, _ := w.s.Link(api.LinkID(link))
	ch := api.InstanceChange{ID: api.InstanceID(id), Index: l.ChangesNext + 1, Status: api.StatusDeleted, Eviction: &api.Eviction{For: "x", By: 5}}
	w.ok(command.InstanceChanges{Stamp: w.stamp(), Link: api.LinkID(link), After: l.ChangesNext, Next: l.ChangesNext + 1, Items: []api.InstanceChange{ch}})
}

// TestRequeueFails: an entry whose boot fails comes back, with a pause that doubles.
func TestRequeueFails(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 4)
	w.host("h2", 4)
	preemptible(w, "r1", 1, "h1", "a")
	evict(w, "a")
	leave(w, "h1", "a")
	w.ok(again(w, "r1", "x"))
	w.ok(decideRefill(w, "r1", api.DecisionAbort))
	r, ok := w.s.Requeued("p", "r1")
	require.True(t, ok)
	assert.Equal(t, 1, r.Tries)
	assert.Zero(t, r.Refill)
	pauses := []time.Duration{time.Second}
	require.Equal(t, w.now.Add(pauses[0]), r.Next)
	for range 8 {
		c := again(w, "r1")
		w.ok(c)
		w.refused(api.CodeConflict, c) // the answer was lost
		r, _ = w.s.Requeued("p", "r1")
		require.Equal(t, c.At, r.Tried)
		pauses = append(pauses, time.Duration(r.Next-c.At)*time.Millisecond)
	}
	assert.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 60e9, 60e9, 60e9}, pauses)

	// Room that becomes free makes it due at once, but never twice in a second.
	w.now = r.Tried.Add(10 * time.Second)
	require.Empty(t, dueIn(w, w.now))
	preemptible(w, "r3", 1, "h2", "b")
	require.Empty(t, dueIn(w, w.now))
	leave(w, "h2", "b")
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "b"})
	leave(w, "h2", "b")
	require.Equal(t, []api.ReservationID{"r1"}, dueIn(w, w.now))
	w.ok(again(w, "r1"))
	w.ok(command.HostsState{Stamp: w.stamp(), Hosts: []api.HostID{"h1"}, State: api.HostDown})
	w.ok(command.HostsState{Stamp: w.stamp(), Hosts: []api.HostID{"h1"}, State: api.HostUp})
	require.Empty(t, dueIn(w, w.now))
	require.NotEmpty(t, dueIn(w, w.now.Add(time.Second)), "a host is back")
}

// TestRequeueInPart: what a boot does not get waits again.
func TestRequeueInPart(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 9)
	c := create(w.stamp(), "r1", 3, 3)
	c.Request.Class, c.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	g := c.Request.Groups[0]
	g.Name, g.Min = "first", 1
	c.Request.Groups = []api.Group{g, g}
	c.Request.Groups[1].Name, c.Request.Groups[1].Min = "second", 2
	c.Instances = specs("a", "b", "c", "d", "e", "f")
	bootWith(w, c, "h1")
	evict(w, "f", "c", "d", "a")
	leave(w, "h1", "f", "c", "d", "a")
	b := w.ok(again(w, "r1", "w", "x", "y", "z")).Boot
	assert.Equal(t, 2, b.Request.Groups[0].Count)
	assert.Equal(t, 2, b.Request.Groups[1].Count)
	assert.Zero(t, b.Request.Groups[0].Min, "b is left of it")
	assert.Equal(t, 1, b.Request.Groups[1].Min, "e is left of it")
	assert.Equal(t, 1, b.Min)
	w.ok(holdFor(w, b.BootTerms, "h1", 3))
	evict(w, "e")
	leave(w, "h1", "e")
	w.ok(decideRefill(w, "r1", api.DecisionCommit))
	r, ok := w.s.Requeued("p", "r1")
	require.True(t, ok)
	assert.Equal(t, []RequeuedInstance{{"e", "name-e", 1}, {"f", "name-f", 1}}, r.Instances)
	require.Equal(t, 2, w.s.CountRequeued())
	assert.Equal(t, 1, w.s.RequeueTerms(r).Min, "the minimum was reached")
	checkIndexes(t, w.s)
}

// TestRequeueEnds: nothing is booted again for an owner who has ended it, or when its time is over.
func TestRequeueEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end func(w *world)
		due bool
	}{
		"nobody":           {func(w *world) { leave(w, "h1", "a") }, true},
		"the owner before": {func(w *world) { release(w, "r1"); leave(w, "h1", "a") }, false},
		"the owner after":  {func(w *world) { leave(w, "h1", "a"); release(w, "r1") }, false},
		"the owner of one": {func(w *world) {
			w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
			w.unchanged(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
			leave(w, "h1", "a")
			i, _ := w.s.Instance("a")
			assert.Equal(w.tb, api.RequeueEnded, i.Eviction.Stays)
		}, false},
		"its time, first": {func(w *world) { w.now = w.now.Add(time.Minute); leave(w, "h1", "a") }, false},
		"its time, later": {func(w *world) {
			leave(w, "h1", "a")
			w.now = w.now.Add(time.Minute)
			require.Equal(w.tb, []api.ReservationID{"r1"}, dueIn(w, w.now))
			w.ok(again(w, "r1", "x"))
		}, false},
		"the owner while it is booted": {func(w *world) {
			leave(w, "h1", "a")
			w.ok(again(w, "r1", "x"))
			release(w, "r1")
			require.Nil(w.tb, pending(w, "r1"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.form = api.FormFifth
			w.host("h1", 4)
			b := create(w.stamp(), "r1", 1, 1)
			b.Request.Class, b.Request.OnPreempt, b.Request.Lifetime = api.Preemptible, api.PreemptRequeue, time.Minute
			b.Instances = specs("a")
			bootWith(w, b, "h1")
			evict(w, "a")
			c.end(w)
			if !c.due {
				require.Zero(t, w.s.CountRequeued())
				_, found := w.s.Requeued("p", "r1")
				require.False(t, found)
				w.now = w.now.Add(time.Hour)
				w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 99})
				w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 99})
				require.Zero(t, w.s.boots.Len(), "the boot is forgotten in time")
				checkIndexes(t, w.s)
				return
			}
			r, _ := w.s.Requeued("p", "r1")
			left := w.s.RequeueTerms(r).Request.Lifetime
			assert.Equal(t, r.Until, w.s.Now().Add(left), "the time that is left")
			w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 99})
			w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 99})
			require.NotNil(t, w.boot("r1"), "it is kept for what waits")
			checkIndexes(t, w.s)
		})
	}
}

func release(w *world, res string) {
	w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: api.ReservationID(res)})
}

// TestRequeueFairly: the project with the fewest instances comes first, then the oldest entry.
func TestRequeueFairly(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 20)
	for _, b := range []struct {
		project api.ProjectID
		res     string
		ids     []string
	}{{"rich", "r0", []string{"r-a", "r-b"}}, {"rich", "r1", []string{"a"}}, {"poor", "p1", []string{"b"}}, {"poor", "p2", []string{"c"}}, {"poor", "p3", []string{"d"}}} {
		c := create(w.stamp(), b.res, len(b.ids), 1)
		c.Request.Project, c.Request.Class, c.Request.OnPreempt = b.project, api.Preemptible, api.PreemptRequeue
		c.Instances = specs(b.ids...)
		w.ok(c)
		w.ok(holdFor(w, c.BootTerms, "h1", len(b.ids)))
		w.ok(command.BootDecide{Stamp: w.stamp(), Project: b.project, Reservation: c.Request.Reservation, Decision: api.DecisionCommit})
	}
	for _, id := range []string{"a", "d", "c", "b"} {
		evict(w, id)
		leave(w, "h1", id)
	}
	assert.Equal(t, []api.ReservationID{"p3", "p2", "r1", "p1"}, dueIn(w, w.now), "two of poor make it as rich as the other, whose entry is older")
	assert.Len(t, w.s.DueRequeued(w.now, 2), 2)
}

// TestRequeueQuota: a boot over a quota of its project is a try that fails.
func TestRequeueQuota(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.host("h1", 4)
	preemptible(w, "r1", 1, "h1", "a", "b")
	evict(w, "a")
	leave(w, "h1", "a")
	w.ok(command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: quota.Limits{quota.Preemptibles: 1}})
	require.Nil(t, w.ok(again(w, "r1", "x")).Boot)
	r, _ := w.s.Requeued("p", "r1")
	assert.Equal(t, 1, r.Tries)
	w.ok(command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: quota.Limits{quota.Preemptibles: 2}})
	require.NotNil(t, w.ok(again(w, "r1", "x")).Boot)
}

// TestRequeueLimit: when too many wait, no more are queued, and the eviction says so.
func TestRequeueLimit(t *testing.T) {
	old := limitsOf[len(limitsOf)-1].limits.requeued
	require.Equal(t, api.RequeuedMax, old)
	t.Cleanup(func() { limitsOf[len(limitsOf)-1].limits.requeued = old })
	limitsOf[len(limitsOf)-1].limits.requeued = 2
	w := newWorld(t)
	w.form = api.FormNewest
	w.host("h1", 4)
	preemptible(w, "r1", 1, "h1", "a", "b", "c")
	evict(w, "a", "b", "c")
	leave(w, "h1", "a", "b")
	require.Equal(t, 2, w.s.CountRequeued())
	leave(w, "h1", "c")
	require.Equal(t, 2, w.s.CountRequeued())
	for id, why := range map[api.InstanceID]api.RequeueRefusal{"a": "", "b": "", "c": api.RequeueFull} {
		i, _ := w.s.Instance(id)
		assert.Equal(t, why, i.Eviction.Stays, id)
	}
	checkIndexes(t, w.s)
}

// TestRequeueFromBelow: a child reports that an instance was preempted, before it is gone or together
// with that. What its owner ends before is not booted again.
func TestRequeueFromBelow(t *testing.T) {
	for name, c := range map[string]struct {
		changes []api.InstanceChange
		ended   bool
		queued  int
	}{
		"both at once": {[]api.InstanceChange{{Status: api.StatusDeleted, Eviction: &api.Eviction{For: "x", By: 5}}}, false, 1},
		"one by one":   {[]api.InstanceChange{{Status: api.StatusDeleting, Eviction: &api.Eviction{By: 5}}, {Status: api.StatusDeleted, Eviction: &api.Eviction{By: 5}}}, false, 1},
		"not preempted": {
			[]api.InstanceChange{{Status: api.StatusDeleting}, {Status: api.StatusDeleted}}, false, 0,
		},
		"ended by its owner before": {[]api.InstanceChange{{Status: api.StatusDeleted, Eviction: &api.Eviction{By: 5}}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.form = api.FormFifth
			w.link("c1", api.LinkChild)
			b := create(w.stamp(), "r1", 1, 1)
			b.Request.Class, b.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
			b.Instances = specs("a")
			w.ok(b)
			h := hold(w.stamp(), "k1", "r1", nil, part("c1", "a"))
			h.Request, h.Commit = b.Request, true
			w.ok(h)
			w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{{Link: "c1", Held: []api.InstanceID{"a"}, Committed: true}}})
			old, _ := w.s.Instance("a")
			i := *old
			i.ChangeTerms(func(t *api.InstanceTerms) { t.OnPreempt = api.PreemptRequeue })
			w.s.putInstance(old, &i)
			if c.ended {
				w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
			}
			for n, ch := range c.changes {
				ch.ID, ch.Index = "a", uint64(n+1)
				w.ok(command.InstanceChanges{Stamp: w.stamp(), Link: "c1", After: uint64(n), Next: uint64(n + 1), Items: []api.InstanceChange{ch}})
			}
			require.Equal(t, c.queued, w.s.CountRequeued())
			now, _ := w.s.Instance("a")
			require.Equal(t, c.queued > 0, now.Eviction != nil)
			checkIndexes(t, w.s)
		})
	}
}

// TestEvictionsOfOthersAreNotTold: a parent learns that an instance of its own was preempted, and by
// which of its leases, but not by whose in this zone.
func TestEvictionsOfOthersAreNotTold(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.link("up", api.LinkParent)
	w.host("h1", 4)
	w.ok(asked(w.stamp(), "k1", slots("h1", "a")))
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionCommit})
	evict(w, "a")
	ch := w.s.Clone().Changes("up", 0, 10)
	require.Len(t, ch.Items, 1)
	require.NotNil(t, ch.Items[0].Eviction)
	assert.Empty(t, ch.Items[0].Eviction.For)
	i, _ := w.s.Instance("a")
	assert.Equal(t, api.ReservationID("lease"), i.Eviction.For)
	assert.Equal(t, i.Eviction.By, ch.Items[0].Eviction.By)
}
