package check

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/internal/dice"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// few is how many of n seeds a short run plays.
func few(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

func TestCleanLogs(t *testing.T) {
	sum := LogSummary{Outcomes: Outcomes{}}
	moved, evacuated, returned := 0, 0, 0
	thin := func() bool { // what is rare may need some more
		return len(sum.Outcomes.Below(rareOutcomes())) > 0 || moved-evacuated <= 5 || evacuated <= 5 || returned == 0
	}
	for i, seed := range dice.Seeds(t, 8*few(50)) {
		if i >= few(50) && (testing.Short() || !thin()) {
			break
		}
		w := newWorld(seed)
		w.grow = seed%2 == 0
		for range 600 {
			w.step()
		}
		z := w.log()
		z.Nodes = append(z.Nodes, NodeLog{Node: "n2", Committed: 300, Entries: w.entries[100:]})
		z.States = []NodeState{{Node: "n1", Index: w.s.Index(), Bytes: saved(w.s)}}
		s, bad := Log(z)
		require.Empty(t, bad, "seed %d", seed)
		require.Equal(t, 1, s.States, "seed %d", seed)
		sum.Claims += s.Claims
		sum.Refused += s.Refused
		sum.Instances += s.Instances
		sum.Boots += s.Boots
		sum.Ruled += s.Ruled
		sum.Drawn += s.Drawn
		sum.Allocated += s.Allocated
		sum.Outcomes.Add(s.Outcomes)
		moved, evacuated = moved+len(s.Moved), evacuated+len(s.Evacuated)
		returned += len(s.Returned)
	}
	t.Logf("%+v", sum)
	for _, n := range []int{sum.Claims, sum.Refused, sum.Instances, sum.Boots, sum.Ruled, sum.Allocated, 5 * sum.Drawn} {
		require.Greater(t, n, few(300), "the histories are too thin: %+v", sum)
	}
	if testing.Short() {
		return
	}
	require.Empty(t, sum.Outcomes.Below(rareOutcomes()), "the generator draws too little")
	require.Greater(t, moved-evacuated, 5, "too few moves")
	require.Greater(t, evacuated, 5, "too few evacuations")
	require.Positive(t, returned, "nothing came back to where it was")
	require.Less(t, returned, moved, "most went on")
}

// rareOutcomes returns how often each outcome comes at least in whole histories.
func rareOutcomes() Outcomes {
	const least = 8
	floor := Outcomes{"WebhookPut exists": 1} // few have names alike
	for _, what := range []string{
		"AggregateDelete ok", "AggregatePut conflict", "AggregatePut ok", "BootCreate conflict", "BootCreate ok", "BootDecide conflict",
		"BootDecide ok", "BootRelease ok", "ClassDelete in_use", "ClassDelete ok", "ClassPut in_use", "ConfigSet ok", "ConsumerDelete conflict",
		"ConsumerDelete ok", "ConsumersPut conflict", "ConsumersPut no_capacity", "ConsumersPut ok", "ConsumersPut stale_generation",
		"GroupDelete ok", "GroupPut conflict", "GroupPut ok", "Hold conflict", "Hold ok", "Hold plan_refused", "HoldDecide conflict",
		"HoldDecide ok", "HoldParts ok", "HostDelete conflict", "HostDelete has_children", "HostDelete ok", "HostSet invalid", "HostSet ok",
		"BindingEnd not_found", "BindingEnd ok", "BindingSet conflict", "BindingSet ok", "Hold contended",
		"HostSet stale_generation", "HostsPut ok", "HostsSilent ok", "HostsState ok", "InstanceChanges conflict", "InstanceChanges ok", "InstanceDelete ok",
		"InstanceMove conflict", "InstanceMove no_capacity", "InstanceMove ok", "InstancePower conflict", "InstancePower invalid", "InstancePower not_found", "InstancePower ok", "InstanceReport ok", "InstanceTold ok", "LinkSet ok", "PartAck ok",
		"ProviderCreate ok", "ProviderDelete in_use", "ProviderDelete ok", "ProviderSet conflict", "ProviderSet ok", "ProviderSet stale_generation",
		"Prune ok", "Requeue conflict", "Requeue ok", "SchedulerSet ok", "TraitDelete in_use", "TraitDelete ok", "TraitPut ok", "instance evacuated", "slot on a spare", "slot refused",
		"VolumeAttach conflict", "VolumeAttach not_found", "VolumeAttach ok", "VolumeDetach ok", "WebhookDelete ok", "WebhookPut ok", "WebhooksTold ok",
	} {
		floor[what] = least
	}
	return floor
}

// TestFromASnapshot replays the second half of logs whose first half was cut off.
func TestFromASnapshot(t *testing.T) {
	claims := 0
	for _, seed := range dice.Seeds(t, few(30)) {
		w := newWorld(seed)
		w.grow = seed%2 == 0
		for range 200 {
			w.step()
		}
		z := ZoneLog{Zone: "z", Base: NodeState{Node: "n1", Index: uint64(len(w.entries)), Bytes: saved(w.s)}, Projects: []api.ProjectID{"p"}}
		for range 200 {
			w.step()
		}
		z.Nodes = []NodeLog{{Node: "n1", Committed: uint64(len(w.entries)), Entries: w.entries[z.Base.Index-5:]}}
		z.States = []NodeState{{Node: "n1", Index: w.s.Index(), Bytes: saved(w.s)}}
		sum, bad := Log(z)
		require.Empty(t, bad, "seed %d", seed)
		claims += sum.Claims

		z.Nodes[0].Entries = z.Nodes[0].Entries[7:] // more is missing than the snapshot has
		_, bad = Log(z)
		require.Equal(t, []promise.Name{promise.Input}, rules(bad))
	}
	require.Greater(t, claims, few(200))
	_, bad := Log(ZoneLog{Zone: "z", Base: NodeState{Index: 1, Bytes: []byte("x")}})
	require.Equal(t, []promise.Name{promise.Input}, rules(bad))
}

// restores adds a backup to the log, in parts between which others go on.
func (w *world) restores(t *testing.T, backup []byte) {
	t.Helper()
	sum, size := sha256.Sum256(backup), len(backup)/4+1
	for from := 0; from < len(backup); from += size {
		w.must(t, command.Restore{
			Stamp: w.stamp(), Sum: sum[:], Size: int64(len(backup)), Offset: int64(from), Data: backup[from:min(from+size, len(backup))],
		})
		w.step()
	}
}

// TestRestoredLogs replays logs in which a backup is taken up.
func TestRestoredLogs(t *testing.T) {
	claims := 0
	for _, seed := range dice.Seeds(t, few(30)) {
		w := newWorld(seed)
		for range 100 {
			w.step()
		}
		backup := saved(w.s)
		for range 50 {
			w.step()
		}
		w.restores(t, backup)
		for range 150 {
			w.step()
		}
		z := w.log()
		z.States = []NodeState{{Node: "n1", Index: w.s.Index(), Bytes: saved(w.s)}}
		sum, bad := Log(z)
		require.Empty(t, bad, "seed %d", seed)
		claims += sum.Claims
	}
	require.Greater(t, claims, few(200))
}

// TestRestoredLeases replays a log in which a lease starts again, because a backup from before its start was taken up, and one
// in which it has started in the backup and ends again.
func TestRestoredLeases(t *testing.T) {
	w := newWorld(1)
	pass := func(by api.Instant) {
		w.now += by
		w.must(t, command.Tick{Stamp: w.stamp()})
	}
	restore := func(backup []byte) {
		t.Helper()
		sum := sha256.Sum256(backup)
		w.must(t, command.Restore{Stamp: w.stamp(), Sum: sum[:], Size: int64(len(backup)), Data: backup})
	}
	w.must(t, bare(w, "l"))
	early := saved(w.s)
	other := bare(w, "other") // what happens to it is forgotten
	other.Terms.Window.Start += 60_000
	other.Events[0].Time += 60_000
	w.must(t, other)
	pass(180_000)
	restore(early)
	pass(1) // it starts at its time, which is before that of the other one
	late := saved(w.s)
	pass(3_600_000)
	restore(late)
	pass(1)
	sum, bad := Log(w.log())
	require.Empty(t, bad)
	require.Equal(t, 2, sum.Outcomes["Restore ok"])
	l, there := w.s.Lease("l")
	require.True(t, there)
	require.Equal(t, api.LeaseTerminated, l.Status)

	r := newReplay(&list{})
	r.s = w.s
	r.recount()
	require.Equal(t, map[api.LeaseID]happened{"l": {1, 1}}, r.happened)
	r.countFact(1, &state.Event{Kind: state.EventLeaseEnded, Lease: "l"})
	require.Equal(t, []promise.Name{promise.Lease}, rules(r.all), "what the backup has does not happen again")
}

// TestBackupThatIsNotTakenUp plants states that take up no backup, or another one.
func TestBackupThatIsNotTakenUp(t *testing.T) {
	w := newWorld(1)
	for range 100 {
		w.step()
	}
	backup := saved(w.s)
	w.step()
	w.restores(t, backup)
	w.step()
	for name, instead := range map[string]command.Command{
		"nothing": command.Restored{}, "pruned": command.Prune{Before: api.Forever, BeforeAbroad: api.Forever, Limit: 1000},
	} {
		bad := tampered(w.log(), func(s *state.State, index uint64, c command.Command) state.Result {
			r, ok := c.(command.Restore)
			switch {
			case !ok || !r.Last():
				return s.Apply(index, c)
			case name == "pruned":
				s.Apply(index, c)
			}
			return s.Apply(index, instead)
		})
		require.Equal(t, []promise.Name{promise.Agree}, rules(bad)[:1], name)
	}
}

func TestCleanLogsOfAnyKind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(rt, "seed"))
		w.grow = rapid.Bool().Draw(rt, "grow")
		for range rapid.IntRange(0, 80).Draw(rt, "entries") {
			w.step()
		}
		base := NodeState{Index: uint64(len(w.entries)), Bytes: saved(w.s)}
		for range rapid.IntRange(1, 80).Draw(rt, "more entries") {
			w.step()
		}
		z := w.log()
		if _, bad := Log(z); len(bad) > 0 {
			rt.Fatalf("%v", bad)
		}
		z.Base, z.Projects = base, []api.ProjectID{"p"}
		if _, bad := Log(z); len(bad) > 0 {
			rt.Fatalf("from a snapshot at %d: %v", base.Index, bad)
		}
	})
}

// tampered replays a log with a state that is tampered with before or instead of
// each command.
func tampered(z ZoneLog, apply func(*state.State, uint64, command.Command) state.Result) []Violation {
	_, bad := logWith(z, func(l *list) *replay {
		r := newReplay(l)
		r.apply = apply
		return r
	})
	return bad
}

func rules(bad []Violation) (out []promise.Name) {
	for _, v := range bad {
		out = append(out, v.Rule)
	}
	return out
}

// story is a zone with one host of 8 processors, one boot and a hold for it.
func story(t *testing.T) *world {
	t.Helper()
	w := newWorld(1)
	w.must(t, command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r1", 6), Min: 1}})
	w.must(t, holdOf(w, "k1", "r1", "h0", 6, "i1"))
	return w
}

func (w *world) must(t *testing.T, c command.Command) {
	t.Helper()
	require.NoError(t, w.add(c).Err, "%#v", c)
}

func whole(r api.ReservationID, cpus int64) api.Request {
	return api.Request{
		Reservation: r, Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: cpus}}},
	}
}

// bare is a lease of nothing, for an hour.
func bare(w *world, id api.LeaseID) command.LeaseCreate {
	at := w.stamp()
	window := api.Window{Start: at.At + 60_000, End: at.At + 3_600_000}
	return command.LeaseCreate{Stamp: at, Digest: []byte{1}, Terms: api.LeaseTerms{ID: id, Name: string(id), Project: "p", User: "u", Window: window}, Events: []api.LeaseEvent{
		{ID: "start", Type: api.EventStartLease, Time: window.Start, Status: api.EventUndone},
		{ID: "end", Type: api.EventEndLease, Time: window.End, Status: api.EventUndone},
	}}
}

// apart asks for instances of which no two may share a host.
func apart(r api.ReservationID) api.Request {
	req := whole(r, 1)
	req.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	return req
}

// change begins the change of the zone's authority.
func (w *world) change(to string) {
	w.add(command.CAAdd{Stamp: w.stamp(), Old: api.FingerprintOf(w.s.CA), Cert: []byte(to), Key: []byte("key"), Vouch: []byte{1}, KEK: w.s.KEK})
}

func holdOf(w *world, id api.HoldID, r api.ReservationID, h api.HostID, cpus int64, instances ...string) command.Hold {
	c := command.Hold{Stamp: w.stamp(), ID: id, Attempt: 1, Request: whole(r, cpus), Expires: api.Forever}
	for _, i := range instances {
		c.Slots = append(c.Slots, command.Slot{Instance: api.InstanceSpec{ID: api.InstanceID(i), Name: i}, Host: h})
	}
	return c
}

func TestPlantedFaultsOfTheState(t *testing.T) {
	honest := (*state.State).Apply
	onHold := func(before command.Command) func(*state.State, uint64, command.Command) state.Result {
		return func(s *state.State, i uint64, c command.Command) state.Result {
			if h, ok := c.(command.Hold); ok && h.ID == "bad" {
				honest(s, i, before)
			}
			return honest(s, i, c)
		}
	}
	big := map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 100}}
	grown := command.HostsPut{Agent: "a1", Hosts: []command.HostEntry{{Host: api.AgentHost{Name: "h0", Driver: "fake", Pool: api.PoolShared, Inventory: big}}}}
	instead := func(match func(command.Command) bool, do func(command.Command) command.Command) func(*state.State, uint64, command.Command) state.Result {
		return func(s *state.State, i uint64, c command.Command) state.Result {
			if match(c) {
				c = do(c)
			}
			return honest(s, i, c)
		}
	}
	is := func(k command.Kind) func(command.Command) bool {
		return func(c command.Command) bool { return c.Kind() == k }
	}
	off, on := false, true
	cases := []struct {
		name  string
		rule  promise.Name
		plant func(*world)
		apply func(*state.State, uint64, command.Command) state.Result
	}{
		{"oversold", promise.Capacity, func(w *world) { w.add(holdOf(w, "bad", "r1", "h0", 6, "i2")) }, onHold(grown)},
		{"a claim on an over-full host", promise.Shrink, func(w *world) {
			w.add(w.hostPut("h0", 4))
			w.add(holdOf(w, "bad", "r1", "h0", 1, "i2"))
		}, onHold(grown)},
		{"stale writer has its way", promise.Generation, func(w *world) {
			w.add(command.HostSet{Stamp: w.stamp(), ID: "h0", Generation: 77, Enabled: &off})
		}, instead(is(command.KindHostSet), func(c command.Command) command.Command {
			h := c.(command.HostSet)
			h.Generation = 0
			return h
		})},
		{"generation does not rise", promise.Generation, func(w *world) {
			w.add(command.HostSet{Stamp: w.stamp(), ID: "h1", Enabled: &off})
		}, instead(is(command.KindHostSet), func(c command.Command) command.Command {
			return command.ConfigSet{Stamp: command.Stamp{At: c.Time()}}
		})},
		{"too few committed", promise.Saga, func(w *world) {
			w.add(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r2", 1), Min: 9}})
			w.add(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r2", Decision: api.DecisionCommit})
		}, instead(is(command.KindBootCreate), func(c command.Command) command.Command {
			b := c.(command.BootCreate)
			b.Min = 0
			return b
		})},
		{"a decision is lost", promise.Saga, func(w *world) {
			w.add(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionCommit})
		}, instead(is(command.KindBootDecide), func(c command.Command) command.Command {
			return command.ConfigSet{Stamp: command.Stamp{At: c.Time()}}
		})},
		{
			"an instance id twice", promise.Once, func(w *world) { w.add(holdOf(w, "bad", "r1", "h1", 1, "i1")) },
			instead(func(c command.Command) bool { h, ok := c.(command.Hold); return ok && h.ID == "bad" }, func(c command.Command) command.Command {
				h := c.(command.Hold)
				h.Slots = nil
				return h
			}),
		},
		{"what is lost is not told", promise.Model, func(w *world) {
			w.add(command.HostsState{Stamp: w.stamp(), State: api.HostDown, Hosts: []api.HostID{"h0"}})
		}, instead(is(command.KindHostsState), func(c command.Command) command.Command {
			return command.ConfigSet{Stamp: command.Stamp{At: c.Time()}}
		})},
		{"a plan twice", promise.Plan, func(w *world) {
			a, b := holdOf(w, "k2", "r1", "h1", 1, "i2"), holdOf(w, "bad", "r1", "h1", 1, "i3")
			a.Plan, b.Plan = "plan", "plan"
			w.add(a)
			w.add(b)
		}, instead(is(command.KindHold), func(c command.Command) command.Command {
			h := c.(command.Hold)
			h.Plan += api.PlanID(h.ID)
			return h
		})},
		{"a plan too late", promise.PlanAge, func(w *world) {
			a := holdOf(w, "bad", "r1", "h1", 1, "i2")
			a.Plan, a.Expires = "plan", w.now
			w.add(a)
		}, instead(is(command.KindHold), func(c command.Command) command.Command {
			h := c.(command.Hold)
			h.Expires = api.Forever
			return h
		})},
		{"a repeat with another content", promise.Repeat, func(w *world) {
			w.add(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("other"), Name: "b", Request: whole("r1", 1)}})
		}, instead(is(command.KindBootCreate), func(c command.Command) command.Command {
			b := c.(command.BootCreate)
			b.Digest = []byte("d")
			return b
		})},
		{
			"a hold lapses", promise.Saga, func(w *world) { w.add(holdOf(w, "k2", "r1", "h1", 1, "i2")) },
			func(s *state.State, i uint64, c command.Command) state.Result {
				r := honest(s, i, c)
				if h, ok := c.(command.Hold); ok && h.ID == "k2" {
					honest(s, i, command.HoldDecide{ID: "k2", Decision: api.DecisionAbort})
				}
				return r
			},
		},
		{"a clock in apply", promise.Time, func(w *world) { w.add(w.hostPut("h1", 3)) }, func(s *state.State, i uint64, c command.Command) state.Result {
			if p, ok := c.(command.HostsPut); ok && p.At > began+10 {
				p.At += 60_000
				c = p
			}
			return honest(s, i, c)
		}},
		{"an instance that is freed too early", promise.Model, func(w *world) {
			w.add(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionCommit})
			w.add(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "r1"})
		}, func(s *state.State, i uint64, c command.Command) state.Result {
			r := honest(s, i, c)
			if c.Kind() == command.KindBootRelease {
				honest(s, i, command.InstanceReport{Agent: "a1", Items: []api.InstanceReport{{Host: "h0", Instance: "i1", Status: api.StatusDeleted}}})
			}
			return r
		}},
		{"a rule is broken", promise.Bound, func(w *world) {
			w.add(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: apart("r2"), Min: 1}})
			c := holdOf(w, "bad", "r2", "h1", 1, "i2", "i3")
			c.Request = apart("r2")
			w.add(c)
		}, instead(is(command.KindHold), func(c command.Command) command.Command {
			h := c.(command.Hold)
			h.Request.Rules = nil
			return h
		})},
		{"a group that is too small", promise.Saga, func(w *world) {
			r := whole("r2", 1)
			r.Groups[0].Min = 1
			w.add(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: r}})
			w.add(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r2", Decision: api.DecisionCommit})
		}, instead(is(command.KindBootCreate), func(c command.Command) command.Command {
			b := c.(command.BootCreate)
			b.Request.Groups = slices.Clone(b.Request.Groups)
			b.Request.Groups[0].Min = 0
			return b
		})},
		{"room for later for a parent", promise.Window, func(w *world) {
			c := holdOf(w, "bad", "r9", "h1", 1, "i2")
			c.Origin, c.Request.Window.Start = "up", w.stamp().At.Add(time.Hour)
			w.add(c)
		}, instead(is(command.KindHold), func(c command.Command) command.Command {
			h := c.(command.Hold)
			h.Request.Window.Start = 0
			return h
		})},
		{"a host in maintenance", promise.Capacity, func(w *world) {
			why := "disk"
			w.add(command.HostSet{Stamp: w.stamp(), ID: "h1", Maintenance: &why, Enabled: &on})
			w.add(holdOf(w, "bad", "r1", "h1", 1, "i2"))
		}, func(s *state.State, i uint64, c command.Command) state.Result {
			if h, ok := c.(command.Hold); ok && h.ID == "bad" {
				none := ""
				honest(s, i, command.HostSet{ID: "h1", Maintenance: &none})
			}
			return honest(s, i, c)
		}},
		{"started before it has stopped", promise.Move, func(w *world) {
			w.add(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionCommit})
			w.add(command.InstanceMove{Stamp: w.stamp(), ID: "i1", From: "h0", To: "h1"})
		}, func(s *state.State, i uint64, c command.Command) state.Result {
			r := honest(s, i, c)
			if c.Kind() == command.KindInstanceMove {
				honest(s, i, command.InstanceReport{Agent: "a1", Items: []api.InstanceReport{{Host: "h0", Instance: "i1", Status: api.StatusDeleted}}})
			}
			return r
		}},
		{"evacuated from a host that is up", promise.Move, func(w *world) {
			w.add(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionCommit})
			w.add(command.InstanceMove{Stamp: w.stamp(), ID: "i1", From: "h0", To: "h1", Evacuate: true})
		}, instead(is(command.KindInstanceMove), func(c command.Command) command.Command {
			m := c.(command.InstanceMove)
			m.Evacuate = false
			return m
		})},
		{"a window that is too long", promise.Model, func(w *world) {
			w.add(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r2", 1), Min: 1}})
			c := holdOf(w, "bad", "r2", "h1", 1, "i2")
			c.Request.Lifetime, c.Commit = time.Hour, true
			w.add(c)
		}, instead(is(command.KindHold), func(c command.Command) command.Command {
			h := c.(command.Hold)
			h.Request.Lifetime = 0
			return h
		})},
		{"more than a quota", promise.Quota, func(w *world) {
			w.add(command.QuotaSet{Stamp: w.stamp(), Set: quota.Limits{quota.Instances.Of(api.VCPU): 6}})
			w.add(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: whole("r2", 1), Min: 1}})
		}, instead(is(command.KindQuotaSet), func(c command.Command) command.Command {
			return command.ConfigSet{Stamp: command.Stamp{At: c.Time()}}
		})},
		{"less than a quota", promise.Model, func(w *world) {
			w.add(command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: quota.Limits{quota.Leases: 2}})
			w.add(bare(w, "l1"))
			w.add(bare(w, "l2"))
		}, instead(is(command.KindQuotaSet), func(c command.Command) command.Command {
			q := c.(command.QuotaSet)
			q.Set = quota.Limits{quota.Leases: 1}
			return q
		})},
		{"hosts of a revoked agent", promise.Model, func(w *world) {
			w.add(command.AgentRevoke{Stamp: w.stamp(), ID: "a1"})
			w.add(w.hostPut("h1", 3))
		}, instead(is(command.KindAgentRevoke), func(c command.Command) command.Command {
			return command.ConfigSet{Stamp: command.Stamp{At: c.Time()}}
		})},
		{"hosts beyond a join token", promise.Model, func(w *world) {
			t := api.JoinToken{ID: "t", Hash: []byte("h"), Kind: api.JoinAgent, Name: "a1", Expires: api.Forever, Terms: &api.AgentTerms{HostPrefix: "h", HostCapacity: api.Resources{api.VCPU: 1 << 20}}}
			w.add(command.JoinPut{Stamp: w.stamp(), Token: t})
			w.add(command.JoinUse{Stamp: w.stamp(), ID: "t", Hash: []byte("h"), Want: api.JoinAgent})
			w.add(w.hostPut("h1", 3))
			w.add(w.hostPut("x1", 3))
		}, instead(is(command.KindJoinPut), func(c command.Command) command.Command {
			p := c.(command.JoinPut)
			p.Token.Terms = nil
			return p
		})},
		{"a change under another's name", promise.Model, func(w *world) {
			by := api.AuditActor{Kind: api.ActorToken, ID: "t", User: "ada", Project: "ops"}
			w.add(command.Audit{Stamp: w.stamp(), Actor: by, Request: "r1", Call: "DELETE /quotas/p", Count: 1}, command.QuotaDelete{Stamp: w.stamp(), Project: "p"})
			w.add(command.Audit{Stamp: w.stamp(), Actor: by, Target: "sealed backup"})
		}, instead(is(command.KindAudit), func(c command.Command) command.Command {
			a := c.(command.Audit)
			a.Actor.ID = "u"
			return a
		})},
		{"a lost record of the audit log", promise.Model, func(w *world) {
			w.add(command.Audit{Stamp: w.stamp(), Count: 1}, command.ConfigSet{Stamp: w.stamp()})
		}, instead(is(command.KindAudit), func(c command.Command) command.Command {
			return command.Audit{Stamp: command.Stamp{At: c.Time()}, Count: 0, Target: "another"}
		})},
		{"a lease that ends later", promise.Lease, func(w *world) {
			w.add(bare(w, "l1"))
			w.now += 3_600_000
			w.add(w.hostPut("h1", 3))
		}, instead(is(command.KindLeaseCreate), func(c command.Command) command.Command {
			l := c.(command.LeaseCreate)
			l.Events = slices.Clone(l.Events)
			l.Events[1].Time += 7_200_000
			return l
		})},
		{"half a series", promise.Lease, func(w *world) {
			w.add(command.SeriesCreate{Stamp: w.stamp(), ID: "s", Project: "p", Digest: []byte{1}, Leases: []command.LeaseCreate{bare(w, "l1"), bare(w, "l2")}})
		}, instead(is(command.KindSeriesCreate), func(c command.Command) command.Command {
			s := c.(command.SeriesCreate)
			s.Leases = s.Leases[:1]
			return s
		})},
		{"authority used before all trust it", promise.Authority, func(w *world) {
			w.change("next")
			w.add(command.CAUse{Stamp: w.stamp(), New: w.s.NewestAuthority()})
		}, instead(is(command.KindCAUse), func(c command.Command) command.Command {
			u := c.(command.CAUse)
			u.Force = true
			return u
		})},
		{"authority dropped before all have certificates", promise.Authority, func(w *world) {
			w.change("next")
			w.add(command.CAUse{Stamp: w.stamp(), New: w.s.NewestAuthority(), Force: true})
			w.add(command.CADrop{Stamp: w.stamp(), Old: api.FingerprintOf(w.s.Change.Cert)})
		}, instead(is(command.KindCADrop), func(c command.Command) command.Command {
			d := c.(command.CADrop)
			d.Force = true
			return d
		})},
		{"authority exchanged", promise.Authority, func(w *world) { w.change("next") }, instead(is(command.KindCAAdd), func(c command.Command) command.Command {
			add := c.(command.CAAdd)
			add.Cert = []byte("another")
			return add
		})},
		{"pin exchanged", promise.Authority, func(w *world) {
			w.add(command.LinkPin{Stamp: w.stamp(), ID: "c1", Pins: [][]byte{[]byte("c1"), []byte("x")}})
			w.now += 60_000
			w.add(command.LinkPin{Stamp: w.stamp(), ID: "c1", Pins: [][]byte{[]byte("c1"), []byte("y")}})
		}, instead(func(c command.Command) bool {
			p, ok := c.(command.LinkPin)
			return ok && string(p.Pins[1]) == "x"
		}, func(c command.Command) command.Command {
			p := c.(command.LinkPin)
			p.Pins = p.Pins[:1]
			return p
		})},
		{
			"refused without a reason", promise.Model, func(w *world) { w.add(holdOf(w, "bad", "r1", "h1", 1, "i2")) },
			instead(func(c command.Command) bool { h, ok := c.(command.Hold); return ok && h.ID == "bad" }, func(c command.Command) command.Command {
				h := c.(command.Hold)
				h.Origin = "stranger"
				return h
			}),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := story(t)
			c.plant(w)
			_, clean := Log(w.log())
			require.Empty(t, clean)
			bad := tampered(w.log(), c.apply)
			require.NotEmpty(t, bad)
			assert.Contains(t, rules(bad), c.rule, "%v", bad)
		})
	}
}

// TestSweep shows that the sweep finds what the placing missed.
func TestSweep(t *testing.T) {
	at := func(start, end api.Instant) *model.Claim {
		return &model.Claim{Consumer: "c", Amounts: api.Resources{api.VCPU: 3}, Start: start, End: end, Class: api.Firm}
	}
	h := &model.Host{Up: true, Enabled: true, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}}}
	h.Claims = []*model.Claim{at(10, 30), at(20, 40)}
	c := at(5, 20)
	assert.True(t, h.Gives(api.VCPU, 3, c, 5), "they meet at 20, and a window does not hold its end")
	late := at(25, 26)
	assert.False(t, h.Gives(api.VCPU, 3, late, 5))
	h.Claims = append(h.Claims, late)
	class, when := h.Oversold(late, 5)
	assert.Equal(t, api.VCPU, class)
	assert.Equal(t, api.Instant(25), when)
	assert.False(t, h.Overfull(5))
	assert.True(t, h.Overfull(25))
	assert.Equal(t, api.Resources{api.VCPU: 9}, h.Used(25))
}

func TestSnapshotThatForgets(t *testing.T) {
	w := story(t)
	for range 60 {
		w.step()
	}
	_, bad := logWith(w.log(), func(l *list) *replay {
		r, honest := newReplay(l), func([]byte) (*state.State, error) { return state.New(), nil }
		r.load = honest
		return r
	})
	assert.Contains(t, rules(bad), promise.Agree)
}

func TestNodesThatDiffer(t *testing.T) {
	w := story(t)
	for range 20 {
		w.step()
	}
	last := uint64(len(w.entries))
	other := slices.Clone(w.entries)
	other[7].Data = append(slices.Clone(other[7].Data), 0)
	damaged := saved(w.s)
	damaged[len(damaged)/2] ^= 1
	early := slices.Clone(w.entries)
	early[last-1].Term = 9
	cases := []struct {
		name string
		rule promise.Name
		edit func(*ZoneLog)
	}{
		{"other bytes", promise.Agree, func(z *ZoneLog) { z.Nodes = append(z.Nodes, NodeLog{"n2", last, other}) }},
		{"other term", promise.Agree, func(z *ZoneLog) { z.Nodes = append(z.Nodes, NodeLog{"n2", last, early}) }},
		{"other sum", promise.Agree, func(z *ZoneLog) {
			summed := slices.Clone(w.entries)
			summed[3].Sum = 7
			z.Nodes[0].Entries = summed
			again := slices.Clone(summed)
			again[3].Sum = 8
			z.Nodes = append(z.Nodes, NodeLog{"n2", last, again})
		}},
		{"other state", promise.Agree, func(z *ZoneLog) { z.States = []NodeState{{"n2", w.s.Index(), damaged}} }},
		{"state of nowhere", promise.Input, func(z *ZoneLog) { z.States = []NodeState{{"n2", last + 5, damaged}} }},
		{"missing entries", promise.Input, func(z *ZoneLog) { z.Nodes[0].Entries = w.entries[3:] }},
		{"a gap", promise.Input, func(z *ZoneLog) {
			z.Nodes[0].Entries = append(slices.Clone(w.entries[:5]), w.entries[6:]...)
		}},
		{"torn entry", promise.Input, func(z *ZoneLog) {
			cut := slices.Clone(w.entries)
			cut[9].Data = cut[9].Data[:len(cut[9].Data)-1]
			z.Nodes[0].Entries = cut
		}},
		{"nothing", promise.Input, func(z *ZoneLog) { z.Nodes = nil }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			z := w.log()
			c.edit(&z)
			_, bad := Log(z)
			require.NotEmpty(t, bad)
			assert.Contains(t, rules(bad), c.rule, "%v", bad)
			assert.Contains(t, bad[0].String(), "in z")
		})
	}
	t.Run("an end that was never committed", func(t *testing.T) {
		z := w.log()
		z.Nodes = append(z.Nodes, NodeLog{"n2", last - 1, early})
		_, bad := Log(z)
		assert.Empty(t, bad)
	})
}

func TestSnapshotThatForgetsPlans(t *testing.T) {
	w := story(t)
	h := holdOf(w, "k2", "r1", "h1", 1, "i2")
	h.Plan, h.Expires = "plan", w.now+1000
	w.must(t, h)
	_, clean := Log(w.log())
	require.Empty(t, clean)
	bad := tampered(w.log(), func(s *state.State, i uint64, c command.Command) state.Result {
		if h, ok := c.(command.Hold); ok && h.ID == "again" { // as if it did not know the plan
			h.Plan = ""
			c = h
		}
		return s.Apply(i, c)
	})
	assert.Equal(t, []promise.Name{promise.Plan}, rules(bad))
}

func TestRestoredStateThatDisagrees(t *testing.T) {
	w := story(t)
	w.must(t, holdOf(w, "bad", "r1", "h1", 1, "i2"))
	calls := 0
	bad := tampered(w.log(), func(s *state.State, i uint64, c command.Command) state.Result {
		if h, ok := c.(command.Hold); ok && h.ID == "bad" {
			if calls++; calls == 2 { // the restored one is asked second
				h.Origin = "stranger"
				c = h
			}
		}
		return s.Apply(i, c)
	})
	assert.Equal(t, []promise.Name{promise.Agree}, rules(bad))
}

// TestForgottenAlive holds that what is pruned has ended.
func TestForgottenAlive(t *testing.T) {
	w := story(t)
	w.must(t, command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: "r1", Decision: api.DecisionCommit})
	w.must(t, command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 9})
	bad := tampered(w.log(), func(s *state.State, i uint64, c command.Command) state.Result {
		if c.Kind() != command.KindPrune {
			return s.Apply(i, c)
		}
		*s = *state.New()
		return s.Apply(i, w.init())
	})
	assert.Contains(t, rules(bad), promise.Durable, "%v", bad)
}

func (w *world) init() command.Init { return command.Init{Stamp: command.Stamp{At: w.now}, Zone: "z"} }

// busy returns the log of a zone of 100 hosts where boots come and go, three
// claims each and 200 boots at a time.
func busy(tb testing.TB, entries int) *world {
	tb.Helper()
	w := newWorld(5)
	for i := range 100 {
		w.add(w.hostPut(fmt.Sprint("b", i), 16))
	}
	for n := 0; len(w.entries) < entries; n++ {
		r := api.ReservationID(fmt.Sprint("r", n))
		host := api.HostID(fmt.Sprint("b", n%100))
		ids := []string{fmt.Sprint(n, "-0"), fmt.Sprint(n, "-1"), fmt.Sprint(n, "-2")}
		w.add(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte(r), Name: "b", Request: whole(r, 2), Min: 3}})
		h := holdOf(w, api.HoldID(r+"/1"), r, host, 2, ids...)
		h.Commit = true
		w.add(h)
		rep := command.InstanceReport{Stamp: w.stamp(), Agent: "a1"}
		for _, id := range ids {
			rep.Items = append(rep.Items, api.InstanceReport{Host: host, Instance: api.InstanceID(id), Status: api.StatusActive})
		}
		w.add(rep)
		if old := n - 200; old >= 0 {
			w.add(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: api.ReservationID(fmt.Sprint("r", old))})
			rep = command.InstanceReport{Stamp: w.stamp(), Agent: "a1"}
			for k := range 3 {
				rep.Items = append(rep.Items, api.InstanceReport{
					Host: api.HostID(fmt.Sprint("b", old%100)), Instance: api.InstanceID(fmt.Sprint(old, "-", k)), Status: api.StatusDeleted,
				})
			}
			w.add(rep)
		}
	}
	return w
}

func BenchmarkLog(b *testing.B) {
	for _, n := range []int{20_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			w := busy(b, n)
			b.ResetTimer()
			for range b.N {
				sum, bad := Log(w.log())
				require.Empty(b, bad)
				require.Greater(b, sum.Claims, n/3)
				b.ReportMetric(float64(sum.Claims), "claims")
			}
		})
	}
}
