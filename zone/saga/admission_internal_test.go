package saga

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

func ticketOf(project string, number, count int) *ticket {
	return &ticket{turn: make(chan turn, 1), want: &want{request: api.Request{
		Project: api.ProjectID(project), Reservation: api.ReservationID(strconv.Itoa(number)), Groups: []api.Group{{Count: count}},
	}}}
}

func namesOf(ts []*ticket) (out []string) {
	for _, t := range ts {
		out = append(out, string(t.want.request.Project)+string(t.want.request.Reservation))
	}
	return out
}

// TestNextBatchIsFair: each project has its turn, and what is left keeps its order.
func TestNextBatchIsFair(t *testing.T) {
	var waiting []*ticket
	for n := range admitMax + 2 {
		waiting = append(waiting, ticketOf("a", n, 1))
	}
	waiting = append(waiting, ticketOf("b", 0, 1), ticketOf("b", 1, 1), ticketOf("c", 0, 1))
	batch, rest := nextBatch(waiting)
	assert.Len(t, batch, admitMax)
	assert.Equal(t, []string{"a0", "b0", "c0", "a1", "b1", "a2"}, namesOf(batch[:6]))
	assert.Equal(t, []string{"a253", "a254", "a255", "a256", "a257"}, namesOf(rest))
	last, none := nextBatch(rest)
	assert.Equal(t, rest, last)
	assert.Empty(t, none)
}

// TestBatchLimits holds the limit of instances at it and one above, and that a boot is never
// too large for a batch of its own.
func TestBatchLimits(t *testing.T) {
	for _, c := range []struct {
		counts []int
		batch  int
	}{
		{[]int{admitSlotsMax - 1, 1}, 2},
		{[]int{admitSlotsMax - 1, 2}, 1},
		{[]int{admitSlotsMax + 1, 1}, 1},
	} {
		var waiting []*ticket
		for i, n := range c.counts {
			waiting = append(waiting, ticketOf("a", i, n))
		}
		batch, rest := nextBatch(waiting)
		assert.Len(t, batch, c.batch, "%v", c.counts)
		assert.Len(t, rest, len(c.counts)-c.batch, "%v", c.counts)
	}
}

// TestAdmission: one batch is under way at a time, the first of a batch gets all of it, and
// the queue is bounded.
func TestAdmission(t *testing.T) {
	var a admission
	first := ticketOf("a", 0, 1)
	require.True(t, a.enter(first))
	assert.Equal(t, []*ticket{first}, (<-first.turn).batch)
	var waiting []*ticket
	for n := range admitQueueMax {
		one := ticketOf("a", n+1, 1)
		require.True(t, a.enter(one))
		waiting = append(waiting, one)
	}
	assert.False(t, a.enter(ticketOf("a", 0, 1)), "the queue is full")
	assert.Empty(t, waiting[0].turn, "the first batch is not over")
	require.True(t, a.withdraw(waiting[1]))
	assert.False(t, a.withdraw(waiting[1]))
	a.leave()
	batch := (<-waiting[0].turn).batch
	assert.Len(t, batch, admitMax)
	assert.Equal(t, waiting[2], batch[1])
	assert.False(t, a.withdraw(batch[1]), "it is in a batch")
	assert.Empty(t, waiting[admitMax+1].turn)
	a.leave()
	assert.Len(t, (<-waiting[admitMax+1].turn).batch, admitMax)
}

// TestAwaitIsBounded: a boot that waits for admitWait goes on alone; one that is in a batch
// by then waits for its plan.
func TestAwaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a admission
		first, second, third := ticketOf("a", 0, 1), ticketOf("a", 1, 1), ticketOf("a", 2, 1)
		require.True(t, a.enter(first))
		got, ok := a.await(t.Context(), first)
		assert.True(t, ok)
		assert.Equal(t, []*ticket{first}, got.batch)
		require.True(t, a.enter(second))
		_, ok = a.await(t.Context(), second)
		assert.False(t, ok)
		require.True(t, a.enter(third))
		go a.leave()
		got, ok = a.await(t.Context(), third)
		assert.True(t, ok)
		assert.Equal(t, []*ticket{third}, got.batch)
	})
}

// TestKinds: what differs in more than its reservation, time and count is planned apart, and
// so is what has rules or several groups; a repeat is not planned at all.
func TestKinds(t *testing.T) {
	base := func(n int) *ticket { return ticketOf("a", n, n+1) }
	other := base(2)
	other.want.request.Groups[0].Flavor = "large"
	ruled := base(3)
	ruled.want.request.Rules = []api.Rule{{Policy: api.AntiAffinity}}
	two := base(4)
	two.want.request.Groups = append(two.want.request.Groups, api.Group{Count: 1})
	repeat, keyed, again := base(1), base(5), base(6)
	keyed.key, again.key = "k", "k"
	got := sortByKind([]*ticket{base(0), base(1), other, ruled, two, repeat, keyed, again, ticketOf("b", 0, 1)}, 7)
	var names [][]string
	for _, kind := range got {
		names = append(names, namesOf(kind))
	}
	assert.Equal(t, [][]string{{"a0", "a1", "a5"}, {"a2"}, {"a3"}, {"a4"}, {"b0"}}, names)
	assert.Equal(t, api.Instant(7), got[0][0].req.Since)
	assert.Equal(t, 1, got[0][0].req.Attempt)
}

// impatient is a store whose caller leaves just before it proposes. It proposes nothing for a
// call that has ended.
type impatient struct {
	zone.Store
	leave func()
}

func (s impatient) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	s.leave()
	if err := ctx.Err(); err != nil {
		answers := make([]state.Answer, len(lists))
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	return s.Store.ProposeEach(ctx, lists)
}

// bootOne boots one instance of some processors.
func bootOne(ctx context.Context, s *Saga, id api.ReservationID, vcpus int64) (*state.Boot, error) {
	return s.Boot(ctx, command.BootCreate{Stamp: s.zone.Stamp(), BootTerms: command.BootTerms{
		Name: "b", Min: 1, Instances: []api.InstanceSpec{{ID: api.InstanceID(id), Name: "b-1"}},
		Request: api.Request{
			Reservation: id, Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Count: 1, Min: 1, Flavor: "f", Resources: api.Resources{api.VCPU: vcpus}}},
		},
	}}, nil)
}

// TestABatchTellsEachItsOwn: boots of a batch for which there is no room are recorded after it,
// and the others get their own answers.
func TestABatchTellsEachItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSaga(t, func(s zone.Store) zone.Store { return s })
		s.admission.busy = true // until all wait
		var boots sync.WaitGroup
		for n, vcpus := range []int64{3, 1, 3, 1} { // the host has 2
			boots.Go(func() {
				id := api.ReservationID(strconv.Itoa(n))
				b, err := bootOne(t.Context(), s, id, vcpus)
				if assert.NoError(t, err) {
					assert.Equal(t, id, b.Request.Reservation)
					assert.Equal(t, vcpus == 1, b.Decision == api.DecisionCommit)
				}
			})
			synctest.Wait() // it waits behind those before it
		}
		s.admission.leave()
		boots.Wait()
		assert.Equal(t, Admission{Batches: 1, Planned: 2, Alone: 2}, s.Admission())
	})
}

// TestABatchIsPlannedInOrder: unlike boots of one batch get the hosts that they get when each is booted after the
// one before, as rules and costs want it.
func TestABatchIsPlannedInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.SliceOfN(rapid.Int64Range(2, 12), 2, 5).Draw(rt, "hosts")
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 6), 2, 8).Draw(rt, "sizes")
		synctest.Test(t, func(t *testing.T) {
			together, one := newSaga(t, func(s zone.Store) zone.Store { return s })
			apart, other := newSaga(t, func(s zone.Store) zone.Store { return s })
			for _, store := range []*memstore.Store{one, other} {
				store.Must(t, command.SchedulerSet{Stamp: command.Stamp{At: 2}})
				for n, size := range hosts {
					store.Must(t, command.HostsPut{Stamp: command.Stamp{At: 2}, Agent: "a", Hosts: []command.HostEntry{{
						ID: api.HostID("h" + strconv.Itoa(n)), Host: api.AgentHost{
							Name: "h" + strconv.Itoa(n), Driver: "fake", Pool: api.PoolShared,
							Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: size}},
						},
					}}})
				}
			}
			together.admission.busy = true // until all wait
			var boots sync.WaitGroup
			for n, vcpus := range sizes {
				boots.Go(func() { _, _ = bootOne(t.Context(), together, api.ReservationID(strconv.Itoa(n)), vcpus) })
				synctest.Wait() // it waits behind those before it
			}
			together.admission.leave()
			boots.Wait()
			assert.EqualValues(t, 1, together.Admission().Batches)
			for n := range sizes { // those that are alike are planned together, with the first of them
				for m, vcpus := range sizes {
					if vcpus == sizes[n] && slices.Index(sizes, vcpus) == n {
						_, err := bootOne(t.Context(), apart, api.ReservationID(strconv.Itoa(m)), vcpus)
						require.NoError(t, err)
					}
				}
			}
			for n := range sizes {
				id := api.InstanceID(strconv.Itoa(n))
				got, held := one.View().Instance(id)
				want, wanted := other.View().Instance(id)
				require.Equal(t, wanted, held)
				if held {
					assert.Equal(t, want.Host, got.Host, "hosts %v, sizes %v, boot %d", hosts, sizes, n)
				}
			}
		})
	})
}

// TestABatchOutlivesItsFirstCall: the first boot of a batch may go, and all are recorded with
// their slots.
func TestABatchOutlivesItsFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, leave := context.WithCancel(t.Context())
		s, store := newSaga(t, func(s zone.Store) zone.Store { return impatient{s, leave} })
		s.admission.busy = true // until both wait
		errs := make(chan error, 2)
		for n, ctx := range []context.Context{gone, t.Context()} {
			go func() {
				_, err := bootOne(ctx, s, []api.ReservationID{"first", "second"}[n], 1)
				errs <- err
			}()
			synctest.Wait() // it waits behind those before it
		}
		s.admission.leave()
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		for _, id := range []api.ReservationID{"first", "second"} {
			b, ok := store.View().Boot("p", id)
			require.True(t, ok, id)
			assert.Equal(t, api.DecisionCommit, b.Decision, id)
		}
		assert.Equal(t, Admission{Batches: 1, Planned: 2}, s.Admission())
	})
}
