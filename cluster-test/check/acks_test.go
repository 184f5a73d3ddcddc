package check

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// family is a parent "top" and its child "low": a boot r1 of one instance here
// and one there, both ACTIVE.
type family struct {
	t        *testing.T
	top, low *world
}

func newFamily(t *testing.T) *family {
	t.Helper()
	f := &family{t, newWorld(1), newWorld(2)}
	name := func(w *world, id string) {
		w.s.Zone = api.ZoneID(id) // worlds are all called z
	}
	name(f.top, "zone-up")
	name(f.low, "zone-c1")
	f.top.must(t, command.BootCreate{Stamp: f.top.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r1", 1), Min: 2}})
	h := holdOf(f.top, "k1", "r1", "h0", 1, "i1")
	h.Parts = []command.Part{{Link: "c1", Instances: [][]api.InstanceSpec{{{ID: "i2", Name: "i2"}}}}}
	f.top.must(t, h)
	low := holdOf(f.low, "k1", "r1", "h0", 1, "i2")
	low.Origin = "up"
	f.low.must(t, low)
	f.top.must(t, command.HoldParts{Stamp: f.top.stamp(), ID: "k1", Answers: []command.PartAnswer{{Link: "c1", Held: []api.InstanceID{"i2"}}}})
	return f
}

func (f *family) commit() {
	f.t.Helper()
	f.top.must(f.t, command.BootDecide{Stamp: f.top.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionCommit})
	f.low.must(f.t, command.HoldDecide{Stamp: f.low.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionCommit})
	f.top.must(f.t, command.PartAck{Stamp: f.top.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionCommit})
	f.low.report(f.t, "i2", api.StatusActive)
	f.top.report(f.t, "i1", api.StatusActive)
	f.top.hear(f.t, "i2", api.StatusActive)
}

func (w *world) report(t *testing.T, id api.InstanceID, st api.Status) {
	t.Helper()
	w.must(t, command.InstanceReport{Stamp: w.stamp(), Agent: "a1", Items: []api.InstanceReport{{Host: "h0", Instance: id, Status: st}}})
}

func (w *world) claim(t *testing.T, id api.ConsumerID) {
	t.Helper()
	w.must(t, command.ConsumersPut{Stamp: w.stamp(), Consumers: []command.ConsumerEntry{
		{ID: id, Project: "p", User: "u", Shares: []api.Share{{Provider: "h0", Resources: api.Resources{api.VCPU: 1}}}},
	}})
}

func (w *world) hear(t *testing.T, id api.InstanceID, st api.Status) {
	t.Helper()
	l, _ := w.s.Link("c1")
	w.must(t, command.InstanceChanges{Stamp: w.stamp(), Link: "c1", After: l.ChangesNext, Next: l.ChangesNext + 1, Items: []api.InstanceChange{
		{ID: id, Status: st, Index: l.ChangesNext + 1},
	}})
}

func (f *family) finals() []Final {
	return []Final{
		{"top", "n1", f.top.s}, {"top", "n2", f.top.s.Clone()}, {"low", "m1", f.low.s},
	}
}

var told = Ack{Kind: AckBoot, Zone: "top", Outcome: OK, Project: "p", Reservation: "r1"}

func TestAcksOfAWholeBoot(t *testing.T) {
	f := newFamily(t)
	f.commit()
	f.top.claim(t, "k1")
	sum, bad := Acks([]Ack{
		told,
		{Kind: AckHost, Zone: "top", Outcome: OK, Host: "h0", Generation: 2},
		{Kind: AckBoot, Zone: "top", Outcome: Refused, Code: api.CodeOverloaded, Project: "p", Reservation: "r9"},
		{Kind: AckBoot, Zone: "top", Outcome: Unknown, Project: "p", Reservation: "r8"},
		{Kind: AckClaim, Zone: "top", Outcome: OK, Consumer: "k1"},
		{Kind: AckFree, Zone: "top", Outcome: OK, Consumer: "k2"},
	}, f.finals())
	require.Empty(t, bad)
	assert.Equal(t, AckSummary{
		Acks: 6, OK: 4, Refused: 1, Unknown: 1, Boots: 1, Whole: 1, Kinds: map[AckKind]int{AckBoot: 1, AckHost: 1, AckClaim: 1, AckFree: 1},
	}, sum)
}

func TestPlantedAcks(t *testing.T) {
	cases := []struct {
		name string
		rule promise.Name
		edit func(*family, *[]Final)
		ack  Ack
	}{
		{"a lost boot", promise.Durable, nil, Ack{Kind: AckBoot, Zone: "top", Outcome: OK, Project: "p", Reservation: "r7"}},
		{"lost on one node", promise.Durable, func(_ *family, all *[]Final) { (*all)[1].State = newWorld(3).s }, told},
		{"a lost release", promise.Durable, nil, Ack{Kind: AckRelease, Zone: "top", Outcome: OK, Project: "p", Reservation: "r1"}},
		{"a lost delete", promise.Durable, nil, Ack{Kind: AckDelete, Zone: "top", Outcome: OK, Instance: "i1"}},
		{"a lost change of a host", promise.Durable, nil, Ack{Kind: AckHost, Zone: "top", Outcome: OK, Host: "h0", Generation: 99}},
		{"a lost host", promise.Durable, nil, Ack{Kind: AckHost, Zone: "top", Outcome: OK, Host: "h99", Generation: 1}},
		{"a lost claim", promise.Durable, nil, Ack{Kind: AckClaim, Zone: "top", Outcome: OK, Consumer: "k1"}},
		{"a claim that lives on", promise.Durable, func(f *family, _ *[]Final) { f.top.claim(f.t, "k1") }, Ack{Kind: AckFree, Zone: "top", Outcome: OK, Consumer: "k1"}},
		{"nowhere to look", promise.Input, nil, Ack{Kind: AckBoot, Zone: "gone", Outcome: OK, Project: "p", Reservation: "r1"}},
		{"a ghost", promise.Ghost, nil, Ack{Kind: AckBoot, Zone: "top", Outcome: Refused, Code: api.CodeOverloaded, Project: "p", Reservation: "r1"}},
		{"a ghost that found no capacity", promise.Ghost, nil, Ack{Kind: AckBoot, Zone: "top", Outcome: Refused, Code: api.CodeNoCapacity, Project: "p", Reservation: "r1"}},
		{"an undecided boot", promise.Progress, func(f *family, _ *[]Final) {
			f.top.must(f.t, command.BootCreate{Stamp: f.top.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r2", 1), Min: 1}})
		}, told},
		{"a hold that nobody decides", promise.Progress, func(f *family, _ *[]Final) {
			h := holdOf(f.low, "k2", "r2", "h1", 1, "i3")
			h.Origin = "up"
			f.low.must(f.t, h)
		}, told},
		{"an instance that is never started", promise.Progress, func(f *family, _ *[]Final) {
			f.top.must(f.t, command.BootCreate{Stamp: f.top.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r2", 1), Min: 1}})
			f.top.must(f.t, holdOf(f.top, "k2", "r2", "h1", 1, "i3"))
			f.top.must(f.t, command.BootDecide{Stamp: f.top.stamp(), Project: "p", Reservation: "r2", Decision: api.DecisionCommit})
		}, told},
		{"an instance that never ends", promise.Progress, func(f *family, _ *[]Final) {
			f.top.must(f.t, command.BootRelease{Stamp: f.top.stamp(), Project: "p", Reservation: "r1"})
		}, told},
		{"released above, alive below", promise.Saga, func(f *family, _ *[]Final) {
			f.top.must(f.t, command.BootRelease{Stamp: f.top.stamp(), Project: "p", Reservation: "r1"})
			f.top.must(f.t, command.PartAck{Stamp: f.top.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionAbort})
			f.top.report(f.t, "i1", api.StatusDeleted)
			f.top.must(f.t, command.InstanceTold{Stamp: f.top.stamp(), Gone: []api.InstanceID{"i2"}})
		}, told},
		{"alive above, gone below", promise.Saga, func(f *family, _ *[]Final) {
			f.low.must(f.t, command.HoldDecide{Stamp: f.low.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionAbort})
			f.low.report(f.t, "i2", api.StatusDeleted)
		}, told},
		{"not the same above and below", promise.Progress, func(f *family, _ *[]Final) {
			f.low.report(f.t, "i2", api.StatusShutoff)
		}, told},
		{"made for a parent that knows nothing", promise.Saga, func(f *family, _ *[]Final) {
			h := holdOf(f.low, "k3", "r3", "h1", 1, "i4")
			h.Origin, h.Commit = "up", true
			f.low.must(f.t, h)
			f.low.must(f.t, command.InstanceReport{Stamp: f.low.stamp(), Agent: "a1", Items: []api.InstanceReport{{Host: "h1", Instance: "i4", Status: api.StatusActive}}})
		}, told},
		{"owned twice", promise.Once, func(f *family, all *[]Final) {
			*all = append(*all, Final{"copy", "c1", f.low.s.Clone()})
		}, told},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFamily(t)
			f.commit()
			finals := f.finals()
			if c.edit != nil {
				c.edit(f, &finals)
			}
			_, bad := Acks([]Ack{c.ack}, finals)
			require.NotEmpty(t, bad)
			assert.Contains(t, rules(bad), c.rule, "%v", bad)
		})
	}
}

// TestHalfHeld holds that what a child must still be told is not settled.
func TestHalfHeld(t *testing.T) {
	f := newFamily(t)
	f.top.must(t, command.BootDecide{Stamp: f.top.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionCommit})
	_, bad := Acks([]Ack{told}, f.finals())
	assert.Contains(t, rules(bad), promise.Progress)
	assert.Contains(t, rules(bad), promise.Saga, "above it is BUILD, and nobody owns it")
}

func TestRefusedForWantOfCapacity(t *testing.T) {
	w := newWorld(1)
	w.must(t, command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r1", 1), Min: 1}})
	w.must(t, command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionAbort})
	a := Ack{Kind: AckBoot, Zone: "z", Outcome: Refused, Code: api.CodeNoCapacity, Project: "p", Reservation: "r1"}
	_, bad := Acks([]Ack{a}, []Final{{"z", "n1", w.s}})
	require.Empty(t, bad)
	a.Code = api.CodeOverloaded
	_, bad = Acks([]Ack{a}, []Final{{"z", "n1", w.s}})
	assert.Equal(t, []promise.Name{promise.Ghost}, rules(bad))
}

func TestGate(t *testing.T) {
	s := Summary{
		Logs:    []LogSummary{{Commands: 5, Claims: 3, States: 1, Drawn: 2, Allocated: 1}, {Commands: 5, Claims: 3, States: 1, Allocated: 6}},
		History: HistorySummary{Ops: 9, OK: 8, Partitions: 2, Models: map[string]int{providers: 3}}, Journals: JournalSummary{Started: 4}, Acks: AckSummary{Boots: 6},
		Faults: map[string]int{"kill": 2, "cut": 1},
	}
	f := Floor{
		Ops: 9, OK: 8, Partitions: 2, Provided: 3, Commands: 10, Claims: 6, Drawn: 2, Allocated: 7, States: 2, Started: 4, Boots: 6,
		Faults: 3, Kinds: []string{"kill", "cut"},
	}
	assert.Empty(t, Gate(s, f))
	assert.Empty(t, Gate(Summary{}, Floor{}))
	high := Floor{
		Ops: 10, OK: 9, Partitions: 3, Provided: 4, Commands: 11, Claims: 7, Drawn: 3, Allocated: 8, States: 3, Started: 5, Boots: 7,
		Faults: 4, Kinds: []string{"kill", "flip"},
	}
	bad := Gate(s, high)
	assert.Len(t, bad, 13)
	for _, v := range bad {
		assert.Equal(t, promise.Traffic, v.Rule)
	}
	assert.Contains(t, bad[0].String(), "9 operations; at least 10 are needed")
	s = Summary{
		Logs:     []LogSummary{{Outcomes: Outcomes{"lease started": 2, "InstancePower ok": 1}}, {Outcomes: Outcomes{"lease started": 1}}},
		Journals: JournalSummary{Wanted: 1}, Acks: AckSummary{Values: 4, Into: 2, Kinds: map[AckKind]int{AckLease: 3, AckBind: 1}}, Requeues: RequeueSummary{Preempted: 5},
	}
	assert.Empty(t, Gate(s, Floor{
		Acked: map[AckKind]int{AckLease: 3, AckBind: 1}, Outcomes: Outcomes{"lease started": 3, "InstancePower ok": 1}, Values: 4, Into: 2, Wanted: 1, Preempted: 5,
	}))
	assert.Len(t, Gate(s, Floor{
		Acked: map[AckKind]int{AckLease: 4, AckBind: 2, AckAttach: 1}, Outcomes: Outcomes{"lease started": 4, "instance evicted": 1}, Values: 5, Into: 3, Wanted: 2, Preempted: 6,
	}), 9)
}
