package check

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check/promise"
)

// noon and one are ends of leases.
const (
	noon = api.Instant(12 * time.Hour)
	one  = noon + api.Instant(time.Hour)
)

// onLease is one operation on the lease of a story, between two times.
func onLease(call, end int64, k Kind, in Input, how Outcome, out Output) Op {
	if k != LeaseCreate {
		in.Lease = "l"
	}
	return Op{Client: int(call), Call: call, Return: end, Kind: k, Zone: "z", In: in, Out: out, Outcome: how}
}

func TestLeaseHistories(t *testing.T) {
	made := onLease(1, 2, LeaseCreate, Input{Amount: 4, End: noon}, OK, Output{Lease: "l"})
	see := func(call, end int64, st api.LeaseStatus, amount int64, until api.Instant) Op {
		return onLease(call, end, LeaseRead, Input{}, OK, Output{Lease: "l", Status: st, Amount: amount, End: until})
	}
	at := func(call int64, st api.LeaseStatus) Op { return see(call, call+1, st, 4, noon) }
	miss := func(call int64, k Kind) Op {
		return onLease(call, call+1, k, Input{}, Refused, Output{Code: api.CodeNotFound})
	}
	size := func(call, end, amount int64, how Outcome, code api.Code) Op {
		return onLease(call, end, LeaseUpdate, Input{Amount: amount}, how, Output{Code: code})
	}
	end := func(call int64, until api.Instant) Op {
		return onLease(call, call+1, LeaseUpdate, Input{End: until}, OK, Output{})
	}
	drop := func(call int64, how Outcome) Op { return onLease(call, call+1, LeaseDelete, Input{}, how, Output{}) }
	for _, c := range []struct {
		name string
		ops  []Op
		good bool
	}{
		{"a whole life", []Op{
			made, at(3, api.LeasePending), at(5, api.LeaseStarting), at(7, api.LeaseActive), at(9, api.LeaseUpdating), at(11, api.LeaseActive),
			at(13, api.LeaseTerminating), at(15, api.LeaseTerminated), drop(17, OK), at(19, api.LeaseDeleting), miss(21, LeaseRead), miss(23, LeaseDelete),
		}, true},
		{"the clock is not looked at", []Op{made, at(3, api.LeaseTerminated)}, true},
		{"a step back", []Op{made, at(3, api.LeaseActive), at(5, api.LeasePending)}, false},
		{"an end that is undone", []Op{made, at(3, api.LeaseTerminating), at(5, api.LeaseActive)}, false},
		{"a failed start that goes on", []Op{made, at(3, api.LeaseError), at(5, api.LeaseActive)}, false},
		{"a failed start that ends", []Op{made, at(3, api.LeaseError), at(5, api.LeaseTerminated)}, true},
		{"steps of reads at once", []Op{made, see(3, 9, api.LeaseActive, 4, noon), see(3, 9, api.LeasePending, 4, noon)}, true},
		{"a status from nowhere", []Op{made, at(3, "SLEEPING")}, false},

		{"a lease that nobody made", []Op{at(3, api.LeasePending)}, false},
		{"a lease before its answer", []Op{onLease(1, 9, LeaseCreate, Input{Amount: 4, End: noon}, OK, Output{Lease: "l"}), at(3, api.LeaseCreating), at(5, api.LeasePending)}, true},
		{"an answer before the room is held", []Op{made, at(3, api.LeaseCreating)}, false},
		{"a lost lease", []Op{made, miss(3, LeaseRead)}, false},
		{"a lost lease, by its update", []Op{made, miss(3, LeaseUpdate)}, false},
		{"a repeat", []Op{made, onLease(3, 4, LeaseCreate, Input{Amount: 4, End: noon}, OK, Output{Lease: "l"}), at(5, api.LeasePending)}, true},
		{"a repeat that brings back what is gone", []Op{
			made, drop(3, OK), miss(5, LeaseRead), onLease(7, 8, LeaseCreate, Input{Amount: 4, End: noon}, OK, Output{Lease: "l"}),
		}, false},

		{"another size", []Op{made, size(3, 4, 5, OK, ""), see(5, 6, api.LeasePending, 5, noon)}, true},
		{"an update that is acknowledged and dropped", []Op{made, size(3, 4, 5, OK, ""), at(5, api.LeasePending)}, false},
		{"a read from before an update", []Op{made, size(3, 4, 5, OK, ""), see(5, 6, api.LeasePending, 5, noon), at(7, api.LeasePending)}, false},
		{"a read beside an update", []Op{made, size(3, 9, 5, OK, ""), at(4, api.LeaseUpdating), see(6, 7, api.LeasePending, 5, noon)}, true},
		{"a read beside an update that goes back", []Op{made, size(3, 9, 5, OK, ""), see(4, 5, api.LeasePending, 5, noon), at(6, api.LeaseUpdating)}, false},
		{"a refused update", []Op{made, size(3, 4, 5, Refused, api.CodeNoCapacity), at(5, api.LeasePending)}, true},
		{"a refused update that is there", []Op{made, size(3, 4, 5, Refused, api.CodeConflict), see(5, 6, api.LeasePending, 5, noon)}, false},
		{"an update that may be there", []Op{made, size(3, 4, 5, Unknown, ""), at(5, api.LeasePending), see(7, 8, api.LeasePending, 5, noon)}, true},
		{"an update that was there", []Op{made, size(3, 4, 5, Unknown, ""), see(5, 6, api.LeasePending, 5, noon), at(7, api.LeasePending)}, false},
		{"the last of two at once", []Op{made, size(3, 9, 5, OK, ""), size(3, 9, 6, OK, ""), see(10, 11, api.LeasePending, 5, noon)}, true},
		{"both of two at once", []Op{
			made, size(3, 9, 5, OK, ""), size(3, 9, 6, OK, ""), see(10, 11, api.LeasePending, 5, noon), see(12, 13, api.LeasePending, 6, noon),
		}, false},
		{"the later of two", []Op{made, size(3, 4, 5, OK, ""), size(5, 6, 6, OK, ""), see(10, 11, api.LeasePending, 5, noon)}, false},
		{"one keeps what the other sets", []Op{made, size(3, 9, 5, OK, ""), end(3, one), see(10, 11, api.LeasePending, 5, one)}, true},
		{"one undoes what the other sets", []Op{made, size(3, 4, 5, OK, ""), end(5, one), see(10, 11, api.LeasePending, 4, one)}, false},
		{"an update of what has ended", []Op{made, at(3, api.LeaseTerminated), end(5, one)}, false},
		{"an update to what it is", []Op{made, at(3, api.LeaseTerminated), end(5, noon)}, true},
		{"an update that is lost with the lease", []Op{made, drop(3, OK), size(5, 6, 5, Unknown, ""), miss(7, LeaseRead)}, true},

		{"an end at once", []Op{made, end(3, noon-api.Instant(time.Hour)), see(5, 6, api.LeaseTerminated, 4, noon-api.Instant(time.Hour)+30)}, true},
		{"an end at another time", []Op{made, end(3, one), see(5, 6, api.LeasePending, 4, one.Add(time.Minute))}, false},
		{"an end that moves", []Op{made, see(3, 4, api.LeasePending, 4, noon), see(5, 6, api.LeasePending, 4, noon+30)}, false},

		{"alive after its delete", []Op{made, drop(3, OK), at(5, api.LeaseActive)}, false},
		{"deleted by nobody", []Op{made, at(3, api.LeaseDeleting)}, false},
		{"a delete that may be there", []Op{made, drop(3, Unknown), at(5, api.LeaseActive), at(7, api.LeaseDeleting), miss(9, LeaseRead)}, true},
		{"back from its delete", []Op{made, drop(3, Unknown), at(5, api.LeaseDeleting), at(7, api.LeaseActive)}, false},
		{"back from nothing", []Op{made, drop(3, OK), miss(5, LeaseRead), at(7, api.LeaseDeleting)}, false},
		{"a refused delete", []Op{made, onLease(3, 4, LeaseDelete, Input{}, Refused, Output{Code: api.CodeForbidden}), at(5, api.LeaseActive)}, true},
		{"what tells nothing", []Op{made, onLease(3, 4, LeaseRead, Input{}, Unknown, Output{Status: "?"}), at(5, api.LeaseActive)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum, bad := History(c.ops, HistoryOptions{Limit: time.Hour})
			assert.Equal(t, 1, sum.Partitions)
			assert.Equal(t, c.good, len(bad) == 0, "%v", bad)
			if !c.good {
				assert.Equal(t, []promise.Name{promise.Read}, rules(bad))
			}
		})
	}
}

// TestManyAttempts holds that a call which was made again and again without an answer keeps no search from its end, and that one
// whose effect is seen is still one of them.
func TestManyAttempts(t *testing.T) {
	ops := []Op{onLease(1, 2, LeaseCreate, Input{Amount: 4, End: noon}, OK, Output{Lease: "l"})}
	for n := range int64(60) {
		ops = append(ops, onLease(3+n, 0, LeaseUpdate, Input{Amount: 5 + n%2}, Unknown, Output{}))
	}
	see := func(call, amount int64) Op {
		return onLease(call, call+1, LeaseRead, Input{}, OK, Output{Lease: "l", Status: api.LeasePending, Amount: amount, End: noon})
	}
	ops = append(ops, see(100, 4), see(102, 5), see(104, 6), see(106, 5))
	_, bad := History(ops, HistoryOptions{Limit: time.Hour})
	assert.Empty(t, bad)
	_, bad = History(append(ops, see(108, 7)), HistoryOptions{Limit: time.Hour})
	assert.Equal(t, []promise.Name{promise.Read}, rules(bad))
}

// leaseStore is a zone as those see it who lease, with everything at once. Its leases move on by themselves.
type leaseStore struct {
	dice *rand.Rand
	all  map[api.LeaseID]*Output
	next int
}

// do carries an operation out.
func (s *leaseStore) do(op Op) (Outcome, Output) {
	if op.Kind == LeaseCreate {
		s.next++
		id := api.LeaseID(fmt.Sprint("l", s.next))
		s.all[id] = &Output{Lease: id, Status: api.LeasePending, Amount: op.In.Amount, End: op.In.End}
		return OK, *s.all[id]
	}
	l := s.all[op.In.Lease]
	if l != nil && s.dice.IntN(6) == 0 {
		s.pass(l)
	}
	if l = s.all[op.In.Lease]; l == nil {
		return Refused, Output{Code: api.CodeNotFound}
	}
	switch {
	case op.Kind == LeaseDelete:
		l.Status = api.LeaseDeleting
	case op.Kind == LeaseUpdate && (l.Status != api.LeasePending && l.Status != api.LeaseActive || s.dice.IntN(4) == 0):
		return Refused, Output{Code: api.CodeConflict}
	case op.Kind == LeaseUpdate && op.In.Amount != 0:
		l.Amount = op.In.Amount
	case op.Kind == LeaseUpdate && op.In.End != l.End:
		if l.End = op.In.End; l.Status == api.LeaseActive && s.dice.IntN(4) == 0 {
			l.End, l.Status = l.End+1, api.LeaseTerminating
		}
	}
	return OK, *l
}

// pass lets the time of a lease pass.
func (s *leaseStore) pass(l *Output) {
	next := map[api.LeaseStatus]api.LeaseStatus{
		api.LeasePending: api.LeaseStarting, api.LeaseStarting: api.LeaseActive, api.LeaseActive: api.LeaseTerminating, api.LeaseTerminating: api.LeaseTerminated,
	}
	switch st, on := next[l.Status]; {
	case l.Status == api.LeaseDeleting:
		delete(s.all, l.Lease)
	case on:
		l.Status = st
	}
}

// playLeases has clients call a store, each with one call at a time, for n operations.
func playLeases(seed uint64, n, clients int) []Op {
	dice := rand.New(rand.NewPCG(seed, 4))
	s := &leaseStore{dice: dice, all: map[api.LeaseID]*Output{}}
	now := int64(0)
	r := NewRecorder(func() int64 { now++; return now }, nil)
	type call struct {
		op   Op
		p    *Pending
		done bool
		how  Outcome
		out  Output
	}
	calls := make([]*call, clients)
	known := []api.LeaseID{}
	for made := 0; made < n; {
		c := dice.IntN(clients)
		it := calls[c]
		switch {
		case it == nil:
			op := drawLeaseOp(dice, known)
			op.Client = c
			calls[c] = &call{op: op, p: r.Begin(op)}
			made++
			continue
		case !it.done && dice.IntN(40) > 0:
			it.how, it.out = s.do(it.op)
			it.done = true
			continue
		case !it.done, dice.IntN(40) == 0: // lost on the way there, or back
			it.how, it.out = Unknown, Output{}
		case it.op.Kind == LeaseCreate:
			known = append(known, it.out.Lease)
		}
		it.p.End(it.how, it.out)
		calls[c] = nil
	}
	ops, _ := r.Close()
	return ops
}

func drawLeaseOp(dice *rand.Rand, known []api.LeaseID) Op {
	until := noon.Add(time.Duration(dice.IntN(4)) * time.Hour)
	if len(known) == 0 || dice.IntN(30) == 0 {
		return Op{Zone: "z", Kind: LeaseCreate, In: Input{Amount: 1 + dice.Int64N(4), End: until}}
	}
	op := Op{Zone: "z", In: Input{Lease: known[len(known)-1-dice.IntN(min(3, len(known)))]}}
	switch dice.IntN(8) {
	case 0, 1:
		op.Kind, op.In.Amount = LeaseUpdate, 1+dice.Int64N(4)
	case 2:
		op.Kind, op.In.End = LeaseUpdate, until
	case 3:
		op.Kind = []Kind{LeaseDelete, LeaseRead}[min(1, dice.IntN(4))]
	default:
		op.Kind = LeaseRead
	}
	return op
}

// TestLeaseHistoriesOfAnyKind holds that the model takes whatever a zone may do, and that it is looked at.
func TestLeaseHistoriesOfAnyKind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ops := playLeases(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 300).Draw(rt, "ops"), 6)
		if _, bad := History(ops, HistoryOptions{Limit: time.Hour}); len(bad) > 0 {
			rt.Fatalf("%v", bad)
		}
	})
	sum, bad := History(playLeases(1, 3000, 6), HistoryOptions{Limit: time.Hour})
	require.Empty(t, bad)
	assert.Greater(t, sum.Models[leases], 2000)
	assert.Greater(t, sum.Partitions, 20)
	assert.Empty(t, Gate(Summary{History: sum}, Floor{Leased: 2000}))
	assert.NotEmpty(t, Gate(Summary{}, Floor{Leased: 1}))
}

// TestOneFalseLease plants one lie in a long history: what one read says.
func TestOneFalseLease(t *testing.T) {
	for name, lie := range map[string]func(*Output){
		"the size":   func(o *Output) { o.Amount += 7 },
		"the end":    func(o *Output) { o.End = o.End.Add(-time.Second) },
		"the status": func(o *Output) { o.Status = api.LeaseCreating },
	} {
		t.Run(name, func(t *testing.T) {
			ops := playLeases(3, 600, 6)
			for i := len(ops) / 2; ; i++ {
				if ops[i].Kind == LeaseRead && ops[i].Outcome == OK {
					lie(&ops[i].Out)
					break
				}
			}
			_, bad := History(ops, HistoryOptions{Limit: time.Hour})
			assert.Equal(t, []promise.Name{promise.Read}, rules(bad))
		})
	}
}

// TestLeasesAreRecorded holds what calls about leases leave in a history.
func TestLeasesAreRecorded(t *testing.T) {
	var answers []string
	zone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers = append(answers, r.Method+" "+r.URL.RequestURI())
		lease := map[string]any{
			"id": "l", "status": "ACTIVE", "start_date": "2030-01-01T10:00:00.000000", "end_date": "2030-01-01T12:00:00.000000",
			"reservations": []any{map[string]any{"id": "r", "amount": 4}},
		}
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
			return
		case r.Method == http.MethodPut:
			lease["reservations"] = []any{map[string]any{"id": "r", "min": 1, "max": 2}}
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"lease": lease})
	}))
	defer zone.Close()
	c, err := client.New(client.Config{Addr: zone.URL})
	require.NoError(t, err)
	now := int64(0)
	r := NewRecorder(func() int64 { now++; return now }, nil)
	calls := LeaseCalls{r, "z", 7}
	until := rest.LeaseDate("2030-01-01 12:00")
	end, _ := until.Instant()
	l, err := calls.Create(t.Context(), c, rest.LeaseCreate{Name: "n", End: until, Reservations: []rest.ReservationSpec{{Amount: new(4)}}})
	require.NoError(t, err)
	_, err = calls.Read(t.Context(), c, l.ID)
	require.NoError(t, err)
	require.NoError(t, calls.Update(t.Context(), c, l.ID, rest.LeaseUpdate{Reservations: []rest.ReservationSpec{{Min: new(1), Max: new(2)}}}))
	require.Error(t, calls.End(t.Context(), c, l.ID))
	ops, err := r.Close()
	require.NoError(t, err)
	assert.Contains(t, answers[1], "read=linearizable")
	out := Output{Lease: "l", Status: api.LeaseActive, Amount: 4, End: end}
	hosts := out
	hosts.Amount = 2
	assert.Equal(t, []Op{
		{Client: 7, Call: 1, Return: 2, Kind: LeaseCreate, Zone: "z", In: Input{Amount: 4, End: end}, Out: out, Outcome: OK},
		{Client: 7, Call: 3, Return: 4, Kind: LeaseRead, Zone: "z", In: Input{Lease: "l"}, Out: out, Outcome: OK},
		{Client: 7, Call: 5, Return: 6, Kind: LeaseUpdate, Zone: "z", In: Input{Lease: "l", Amount: 2}, Out: hosts, Outcome: OK},
		{Client: 7, Call: 7, Return: 8, Kind: LeaseDelete, Zone: "z", In: Input{Lease: "l"}, Out: Output{Code: ops[3].Out.Code}, Outcome: ops[3].Outcome},
	}, ops)
	assert.NotEqual(t, OK, ops[3].Outcome)
	assert.Zero(t, amountOf(nil))
}
