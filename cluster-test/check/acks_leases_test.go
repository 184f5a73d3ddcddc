package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// leased is a zone of one lease "l" of two slots s1 and s2 on h0, whose window has begun, and of a boot "in" of
// one instance i1 in it; of a firm boot "r1" of one server and one volume; and of a binding and a quota.
type leased struct {
	*world
	t      *testing.T
	window api.Window
}

func newLeased(t *testing.T) *leased {
	t.Helper()
	w := &leased{world: newWorld(1), t: t}
	w.window = api.Window{Start: w.now.Add(time.Hour), End: w.now.Add(2 * time.Hour)}
	w.reserve("l", "h0", "s1", "s2")
	w.now = w.window.Start
	w.must(t, command.Tick{Stamp: w.stamp()})
	w.into("in", "i1")
	r := whole("r1", 1)
	r.Groups = append(r.Groups, api.Group{Count: 1, Name: "data", Volume: "standard", Resources: api.Resources{api.DiskGB: 1}})
	r.Groups[0].Name = "web"
	w.commit(r, "h1", "i2", "v1")
	w.must(t, command.InstanceReport{Stamp: w.stamp(), Agent: "a1", Items: []api.InstanceReport{{Host: "h1", Instance: "i2", Status: api.StatusActive}, {Host: "h1", Instance: "v1", Status: api.StatusActive}}})
	w.must(t, command.VolumeAttach{Stamp: w.stamp(), Volume: "v1", Instance: "i2"})
	w.must(t, command.BindingSet{Stamp: w.stamp(), ID: "b1", Project: "p", Link: "c1"})
	w.must(t, command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: quota.Limits{quota.Instances: 40}})
	w.must(t, command.InstancePower{Stamp: w.stamp(), ID: "i2", Order: api.PowerStop, Run: 1})
	return w
}

// reserve makes a lease with slots on a host.
func (w *leased) reserve(id api.LeaseID, host api.HostID, slots ...string) {
	w.t.Helper()
	r := whole(api.ReservationID(id)+"-o", 1)
	r.Window, r.Reserves = w.window, true
	r.Groups[0].Name, r.Groups[0].Count, r.Groups[0].Min = string(id)+"-r", len(slots), len(slots)
	c := bare(w.world, id)
	for i := range c.Events {
		c.Events[i].Time = []api.Instant{w.window.Start, w.window.End}[i]
	}
	c.Terms.Window = w.window
	c.Terms.Reservations = []api.Reservation{{
		ID: api.ReservationID(r.Groups[0].Name), Type: api.ReserveInstances, Min: len(slots), Max: len(slots), Resources: r.Groups[0].Resources,
	}}
	c.Order = &command.BootTerms{Digest: []byte{1}, Request: r, Min: len(slots)}
	w.must(w.t, c)
	h := holdOf(w.world, api.HoldID(id)+"-k", r.Reservation, host, 1, slots...)
	h.Request, h.Commit = r, true
	w.must(w.t, h)
}

// commit boots instances on a host, one of each group.
func (w *leased) commit(r api.Request, host api.HostID, ids ...string) {
	w.t.Helper()
	w.must(w.t, command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: r, Min: len(ids)}})
	h := holdOf(w.world, api.HoldID(r.Reservation)+"-k", r.Reservation, host, 1, ids...)
	h.Request = r
	for n := range h.Slots {
		h.Slots[n].Group = min(n, len(r.Groups)-1)
		if r.Within != "" {
			h.Slots[n].Host = "s1"
		}
	}
	w.must(w.t, h)
	w.must(w.t, command.BootDecide{Stamp: w.stamp(), Project: r.Project, Reservation: r.Reservation, Decision: api.DecisionCommit})
}

// into boots an instance into the slot s1 of the lease.
func (w *leased) into(id api.ReservationID, instance string) {
	w.t.Helper()
	r := whole(id, 1)
	r.Within, r.Window = "l-r", api.Window{End: w.window.End}
	w.commit(r, "h0", instance)
	w.report(w.t, api.InstanceID(instance), api.StatusActive)
}

func (w *leased) finals() []Final {
	return []Final{{"z", "n1", w.s}, {"z", "n2", w.s.Clone()}}
}

// said returns the acknowledgements of all that a leased zone has.
func (w *leased) said() []Ack {
	return []Ack{
		{Kind: AckLease, Lease: "l", End: w.window.End, Amount: 2, Call: 1, Return: 2},
		{Kind: AckBoot, Project: "p", Reservation: "in", Into: "l-r"},
		{Kind: AckVolume, Project: "p", Reservation: "r1"},
		{Kind: AckAttach, Instance: "v1", Server: "i2", Call: 3, Return: 4},
		{Kind: AckBind, Binding: "b1"},
		{Kind: AckQuota, Project: "p", Item: quota.Instances, Limit: 40, Call: 5, Return: 6},
		{Kind: AckPower, Instance: "i2", Halted: true, Call: 7, Return: 8},
	}
}

func settled(all []Ack) []Ack {
	for i := range all {
		all[i].Zone = "z"
		if all[i].Outcome == "" {
			all[i].Outcome = OK
		}
	}
	return all
}

func TestAcksOfLeases(t *testing.T) {
	w := newLeased(t)
	sum, bad := Acks(settled(w.said()), w.finals())
	require.Empty(t, bad)
	assert.Equal(t, 5, sum.Values, "end, size, server, quota and power")
	assert.Equal(t, 1, sum.Into)
	assert.Equal(t, 1, sum.Leases)
	assert.Equal(t, 2, sum.Slots)
	assert.Equal(t, map[AckKind]int{AckLease: 1, AckBoot: 1, AckVolume: 1, AckAttach: 1, AckBind: 1, AckQuota: 1, AckPower: 1}, sum.Kinds)
}

// TestPlantedAcksOfLeases has states without what was acknowledged, and holds that each is found.
func TestPlantedAcksOfLeases(t *testing.T) {
	cases := []struct {
		name string
		rule promise.Name
		ack  Ack
		do   func(*leased)
	}{
		{"a lost lease", promise.Durable, Ack{Kind: AckLease, Lease: "m"}, nil},
		{"a lost delete of a lease", promise.Durable, Ack{Kind: AckLeaseDelete, Lease: "l"}, nil},
		{"another end", promise.Durable, Ack{Kind: AckLeaseUpdate, Lease: "l", End: 5, Call: 9, Return: 10}, nil},
		{"another size", promise.Durable, Ack{Kind: AckLeaseUpdate, Lease: "l", Amount: 3, Call: 9, Return: 10}, nil},
		{"a lost series", promise.Durable, Ack{Kind: AckSeries, Series: "s"}, nil},
		{"a lost delete of a series", promise.Durable, Ack{Kind: AckSeriesDelete, Series: "all"}, func(w *leased) { w.repeat("m") }},
		{"a lost boot into a lease", promise.Durable, Ack{Kind: AckBoot, Project: "p", Reservation: "in2", Into: "l-r"}, nil},
		{"a boot that is not in the lease", promise.Durable, Ack{Kind: AckBoot, Project: "p", Reservation: "r1", Into: "l-r"}, nil},
		{"an instance that is not in the lease", promise.Within, Ack{Kind: AckBoot, Project: "p", Reservation: "r1", Into: "l-r"}, nil},
		{"a lost volume", promise.Durable, Ack{Kind: AckVolume, Project: "p", Reservation: "r9"}, nil},
		{"attached to another server", promise.Durable, Ack{Kind: AckAttach, Instance: "v1", Server: "i1", Call: 9, Return: 10}, nil},
		{"a lost attachment", promise.Durable, Ack{Kind: AckAttach, Instance: "v1", Server: "i2", Call: 9, Return: 10}, func(w *leased) {
			w.must(w.t, command.VolumeDetach{Stamp: w.stamp(), Volume: "v1"})
		}},
		{"a lost detachment", promise.Durable, Ack{Kind: AckDetach, Instance: "v1", Call: 9, Return: 10}, nil},
		{"a lost binding", promise.Durable, Ack{Kind: AckBind, Binding: "b2"}, nil},
		{"a binding that goes on", promise.Durable, Ack{Kind: AckBindingEnd, Binding: "b1"}, nil},
		{"a lost quota", promise.Durable, Ack{Kind: AckQuota, Project: "q", Item: quota.Instances, Limit: 3}, nil},
		{"another quota", promise.Durable, Ack{Kind: AckQuota, Project: "p", Item: quota.Instances, Limit: 3, Call: 9, Return: 10}, nil},
		{"a lost order to start", promise.Durable, Ack{Kind: AckPower, Instance: "i2", Call: 9, Return: 10}, nil},
		{"a lost order to stop", promise.Durable, Ack{Kind: AckPower, Instance: "i1", Halted: true}, nil},
		{"a lease that is stuck in its end", promise.Progress, Ack{}, func(w *leased) {
			w.must(w.t, command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "l"})
		}},
		{"a lease without a decision", promise.Progress, Ack{}, func(w *leased) { w.order("m") }},
		{"a lease that does not end", promise.Progress, Ack{}, func(w *leased) {
			w.now = w.window.End
			w.must(w.t, command.Tick{Stamp: w.stamp()})
		}},
		{"a series without a decision", promise.Progress, Ack{}, func(w *leased) { w.repeatOf("m", true) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newLeased(t)
			if c.do != nil {
				c.do(w)
			}
			var acks []Ack
			if c.ack.Kind != "" {
				acks = settled([]Ack{c.ack})
			}
			_, bad := Acks(acks, w.finals())
			require.NotEmpty(t, bad)
			assert.Contains(t, rules(bad), c.rule, "%v", bad)
		})
	}
}

// order asks for the room of a lease, and decides nothing.
func (w *leased) order(id api.LeaseID) {
	w.t.Helper()
	c := bare(w.world, id)
	r := whole(api.ReservationID(id)+"-o", 1)
	r.Window, r.Reserves, r.Groups[0].Name = c.Terms.Window, true, string(id)+"-r"
	c.Terms.Reservations = []api.Reservation{{ID: api.ReservationID(id) + "-r", Type: api.ReserveInstances, Min: 1, Max: 1, Resources: r.Groups[0].Resources}}
	c.Order = &command.BootTerms{Digest: []byte{1}, Request: r, Min: 1}
	w.must(w.t, c)
}

// repeat makes the series "all" of one lease of nothing.
func (w *leased) repeat(id api.LeaseID) { w.repeatOf(id, false) }

func (w *leased) repeatOf(id api.LeaseID, undecided bool) {
	w.t.Helper()
	c := bare(w.world, id)
	c.Terms.Series = "all"
	if undecided {
		r := whole(api.ReservationID(id)+"-o", 1)
		r.Window, r.Reserves, r.Groups[0].Name = c.Terms.Window, true, string(id)+"-r"
		c.Terms.Reservations = []api.Reservation{{ID: api.ReservationID(id) + "-r", Type: api.ReserveInstances, Min: 1, Max: 1, Resources: r.Groups[0].Resources}}
		c.Order = &command.BootTerms{Digest: []byte{1}, Request: r, Min: 1}
	}
	w.must(w.t, command.SeriesCreate{Stamp: c.Stamp, ID: "all", Project: "p", Digest: []byte{1}, Leases: []command.LeaseCreate{c}})
}

// TestLastValue holds which of several calls a value may be from.
func TestLastValue(t *testing.T) {
	call := func(value string, outcome Outcome, from, until int64) write {
		return write{&Ack{Outcome: outcome, Call: from, Return: until}, value}
	}
	cases := []struct {
		name string
		of   []write
		want []string
	}{
		{"the later one", []write{call("a", OK, 1, 2), call("b", OK, 3, 4)}, []string{"b"}},
		{"both at once", []write{call("a", OK, 1, 3), call("b", OK, 2, 4)}, []string{"a", "b"}},
		{"one of unknown outcome before", []write{call("a", Unknown, 1, 2), call("b", OK, 3, 4)}, []string{"a", "b"}},
		{"one of unknown outcome after", []write{call("a", OK, 1, 2), call("b", Unknown, 3, 4)}, []string{"a", "b"}},
		{"nothing that is certain", []write{call("a", Unknown, 1, 2)}, nil},
		{"an early one that took long", []write{call("a", OK, 1, 9), call("b", OK, 2, 3), call("c", OK, 5, 6)}, []string{"a", "c"}},
	}
	for _, c := range cases {
		assert.Equal(t, c.want, lastOf(c.of), c.name)
	}
}

// TestDeletedLeases holds that what somebody has asked to end may be gone, and may not be there in another form.
func TestDeletedLeases(t *testing.T) {
	w := newLeased(t)
	made := Ack{Kind: AckLease, Lease: "gone", End: 7, Call: 1, Return: 2}
	for outcome, want := range map[Outcome]int{OK: 0, Unknown: 0, Refused: 2} {
		_, bad := Acks(settled([]Ack{made, {Kind: AckLeaseDelete, Lease: "gone", Outcome: outcome}}), w.finals())
		assert.Len(t, bad, want, "%s: %v", outcome, bad)
	}
}

// TestSlotsOfNobody holds that a slot without a lease is found: here, and of a parent that does not know it.
func TestSlotsOfNobody(t *testing.T) {
	w := newLeased(t)
	h := holdOf(w.world, "k9", "o9", "h2", 1, "s9")
	h.Request.Window, h.Request.Reserves, h.Request.Groups[0].Name = api.Window{Start: w.now.Add(time.Hour), End: w.now.Add(2 * time.Hour)}, true, "r9"
	h.Origin, h.Commit = "up", true
	w.must(t, h)
	_, bad := Acks(nil, w.finals())
	require.Empty(t, bad, "its parent is not among the zones")
	up := newWorld(2)
	up.s.Zone = "zone-up"
	_, bad = Acks(nil, append(w.finals(), Final{"up", "u1", up.s}))
	assert.Equal(t, []promise.Name{promise.Saga}, rules(bad))
}

// preempted is a zone with a boot "soft" of one preemptible instance on h0 that was preempted and is to be booted
// again.
func preempted(t *testing.T) *leased {
	t.Helper()
	w := &leased{world: newWorld(1), t: t}
	r := whole("soft", 8)
	r.Class, r.OnPreempt = api.Preemptible, api.PreemptRequeue
	w.commit(r, "h0", "i1")
	w.report(t, "i1", api.StatusActive)
	firm := whole("firm", 8)
	firm.Preempt = true
	w.commit(firm, "h0", "i2")
	w.report(t, "i1", api.StatusDeleted)
	return w
}

func TestRequeues(t *testing.T) {
	w := preempted(t)
	sum, bad := Requeues(w.finals())
	require.Empty(t, bad)
	assert.Equal(t, RequeueSummary{Boots: 1, Names: 1, Preempted: 1, Waiting: 1}, sum)

	q, ok := w.s.Requeued("p", "soft")
	require.True(t, ok)
	w.must(t, command.Requeue{Stamp: w.stamp(), Project: "p", Reservation: "soft", Seen: q.ModIndex, Instances: []api.InstanceSpec{{ID: "i3", Name: "i1"}}, Refill: 1})
	refill, ok := w.s.Refill("p", "soft", 1)
	require.True(t, ok)
	h := holdOf(w.world, "soft-k1", "soft", "h1", 8, "i3")
	h.Request, h.Refill, h.Slots[0].Instance.Name = refill.Request, 1, "i1"
	w.must(t, h)
	sum, bad = Requeues(w.finals())
	require.Empty(t, bad)
	assert.Equal(t, 1, sum.Waiting, "it waits until the order for it is decided")
	w.must(t, command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "soft", Refill: 1, Decision: api.DecisionCommit})
	sum, bad = Requeues(w.finals())
	require.Empty(t, bad)
	assert.Equal(t, RequeueSummary{Boots: 1, Names: 1, Preempted: 1, Running: 1}, sum)

	w.must(t, command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "soft"})
	sum, bad = Requeues(w.finals())
	require.Empty(t, bad)
	assert.Equal(t, RequeueSummary{Boots: 1, Preempted: 1, Tidy: 1}, sum)
}

// TestPlantedRequeues has names that are there and wait, or neither, or twice.
func TestPlantedRequeues(t *testing.T) {
	out := &api.Instance{InstanceTerms: &api.InstanceTerms{Window: api.Window{End: api.Forever}}, InstanceExtras: &api.InstanceExtras{Eviction: &api.Eviction{}}}
	stays := *out
	stays.InstanceExtras = &api.InstanceExtras{Eviction: &api.Eviction{Stays: api.RequeueFull}}
	past := *out
	past.InstanceTerms = &api.InstanceTerms{Window: api.Window{End: 5}}
	lost := *out
	lost.InstanceExtras = &api.InstanceExtras{}
	for name, c := range map[string]struct {
		of   named
		rule promise.Name
	}{
		"there":              {named{there: 1, last: out}, ""},
		"waits":              {named{waits: 1, last: out}, ""},
		"lost with its host": {named{last: &lost}, ""},
		"the queue was full": {named{last: &stays}, ""},
		"its window is over": {named{last: &past}, ""},
		"forgotten":          {named{last: out}, promise.Preempt},
		"there and waits":    {named{there: 1, waits: 1, last: out}, promise.Once},
		"there twice":        {named{there: 2, last: out}, promise.Once},
		"waits twice":        {named{waits: 2, last: out}, promise.Once},
	} {
		l, sum := &list{}, RequeueSummary{}
		sum.checkName(l, model.BootID{Project: "p", Reservation: "soft"}, "i1", &c.of, 9)
		if c.rule == "" {
			assert.Empty(t, l.all, name)
			continue
		}
		assert.Equal(t, []promise.Name{c.rule}, rules(l.all), name)
	}
}

// TestMissingEvents holds that a checker which cannot compare the events about leases says so, unless a backup
// was taken up.
func TestMissingEvents(t *testing.T) {
	for _, restored := range []bool{false, true} {
		l := &list{}
		r := newReplay(l)
		r.s = state.New()
		r.compareFacts(1, api.EventID{History: "another"}, restored)
		assert.Equal(t, 1, r.sum.Untold)
		if restored {
			assert.Empty(t, l.all)
		} else {
			assert.Equal(t, []promise.Name{promise.Undecided}, rules(l.all))
		}
	}
}
