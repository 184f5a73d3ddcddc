package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/api/client"
	"berth/cluster-test/check/promise"
	"berth/internal/dice"
)

// store is a zone as clients see it, with everything at once.
type store struct {
	dice  *rand.Rand
	quiet bool
	hosts map[api.HostID]*Output
	boots map[api.ReservationID]*stored
}

type stored struct {
	digest string
	saga   sagaState
}

// do carries an operation out.
func (s *store) do(op Op) (Outcome, Output) {
	switch op.Kind {
	case HostSet, HostRead:
		return s.host(op)
	case BootAsk:
		b, ok := s.boots[op.In.Reservation]
		if !ok {
			s.boots[op.In.Reservation] = &stored{op.In.Digest, sagaState{there: true, stage: api.BootAccepted}}
		} else if b.digest != op.In.Digest {
			return Refused, Output{Code: api.CodeConflict}
		}
		return OK, Output{Reservation: op.In.Reservation}
	case BootRelease, BootRead:
	}
	b, ok := s.boots[op.In.Reservation]
	if !ok {
		return Refused, Output{Code: api.CodeNotFound}
	}
	b.saga.ended = b.saga.ended || op.Kind == BootRelease
	all := []api.BootState{api.BootHolding, api.BootBuilding, api.BootActive, api.BootDegraded, api.BootError, api.BootReleasing, api.BootFailed, api.BootReleased}
	for range 4 { // the zone goes on by itself
		st := all[s.dice.IntN(len(all))]
		if st == api.BootReleasing && !b.saga.ended {
			continue
		}
		if ok, next := b.saga.seeState(st); ok {
			b.saga = next
		}
	}
	if b.saga.ended && stages[b.saga.stage] < stages[api.BootReleasing] {
		b.saga.stage = api.BootReleasing
	}
	if b.saga.ended && b.saga.stage == api.BootFailed {
		b.saga.stage = api.BootReleased
	}
	return OK, Output{State: b.saga.stage}
}

func (s *store) host(op Op) (Outcome, Output) {
	h := s.hosts[op.In.Host]
	if h == nil {
		h = &Output{Generation: 5, Enabled: true, Used: api.Resources{}}
		s.hosts[op.In.Host] = h
	}
	if !s.quiet && s.dice.IntN(4) == 0 {
		h.Generation++
		h.Used = api.Resources{api.VCPU: int64(h.Generation)}
	}
	if op.Kind == HostSet && op.In.Generation != 0 && op.In.Generation != h.Generation {
		return Refused, Output{Code: api.CodeStale, Generation: h.Generation}
	}
	if op.Kind == HostSet && op.In.Enabled != h.Enabled {
		h.Enabled = op.In.Enabled
		h.Generation++
	}
	return OK, *h
}

// play has clients call a store, each with one call at a time, for n operations.
func play(seed uint64, quiet bool, n, clients, things int) []Op {
	dice := rand.New(rand.NewPCG(seed, 3))
	s := &store{dice, quiet, map[api.HostID]*Output{}, map[api.ReservationID]*stored{}}
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
	seen := map[api.HostID]uint64{}
	for made := 0; made < n; {
		c := dice.IntN(clients)
		switch it := calls[c]; {
		case it == nil:
			op := Op{Client: c, Zone: "z"}
			drawOp(dice, &op, things, seen)
			calls[c] = &call{op: op, p: r.Begin(op)}
			made++
		case !it.done:
			if dice.IntN(60) == 0 { // lost on the way there
				it.p.End(Unknown, Output{})
				calls[c] = nil
				continue
			}
			it.how, it.out = s.do(it.op)
			it.done = true
		default:
			if dice.IntN(60) == 0 { // lost on the way back
				it.how, it.out = Unknown, Output{}
			}
			if it.out.Generation != 0 {
				seen[it.op.In.Host] = it.out.Generation
			}
			it.p.End(it.how, it.out)
			calls[c] = nil
		}
	}
	ops, _ := r.Close()
	return ops
}

func drawOp(dice *rand.Rand, op *Op, things int, seen map[api.HostID]uint64) {
	op.Kind = []Kind{HostSet, HostRead, HostSet, BootAsk, BootRead, BootRelease, BootRead}[dice.IntN(7)]
	if op.Kind == HostSet || op.Kind == HostRead {
		op.In.Host = api.HostID(fmt.Sprint("h", dice.IntN(things)))
		op.In.Enabled = op.Kind == HostSet && dice.IntN(2) == 0
		if op.Kind == HostSet && dice.IntN(3) > 0 {
			op.In.Generation = seen[op.In.Host]
		}
		return
	}
	op.In.Project, op.In.Reservation = "p", api.ReservationID(fmt.Sprint("r", dice.IntN(things*4)))
	if op.Kind == BootRelease && dice.IntN(3) > 0 {
		op.Kind = BootRead
	}
	if op.Kind == BootAsk {
		op.In.Digest = fmt.Sprint("d", dice.IntN(2))
	}
}

func TestCleanHistories(t *testing.T) {
	for i, seed := range dice.Seeds(t, few(20)) {
		ops := play(seed, i%2 == 0, 1500, 8, 5)
		sum, bad := History(ops, HistoryOptions{Quiet: i%2 == 0, Limit: time.Hour})
		require.Empty(t, bad, "seed %d", seed)
		assert.Equal(t, 1500, sum.Ops)
		assert.Positive(t, sum.Unknown)
		for _, m := range []string{hosts, repeats, sagas} {
			assert.Greater(t, sum.Models[m], 100, m)
		}
	}
}

func TestCleanHistoriesOfAnyKind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		quiet := rapid.Bool().Draw(rt, "quiet")
		ops := play(rapid.Uint64().Draw(rt, "seed"), quiet, rapid.IntRange(1, 200).Draw(rt, "ops"), 5, 2)
		if _, bad := History(ops, HistoryOptions{Quiet: quiet}); len(bad) > 0 {
			rt.Fatalf("%v", bad)
		}
	})
}

// op returns an operation from call to the next instant.
func op(call int64, k Kind, in Input, how Outcome, out Output) Op {
	in.Project = "p"
	if k == HostSet || k == HostRead {
		in.Host = "h"
	} else if in.Reservation == "" {
		in.Reservation = "r"
	}
	return Op{Call: call, Return: call + 5, Kind: k, Zone: "z", In: in, Out: out, Outcome: how}
}

func local(o Op, node string, index uint64) Op {
	o.Local, o.Node, o.Index = true, node, index
	return o
}

func TestPlantedHistories(t *testing.T) {
	ask := op(0, BootAsk, Input{Digest: "d"}, OK, Output{Reservation: "r"})
	see := func(call int64, st api.BootState) Op { return op(call, BootRead, Input{}, OK, Output{State: st}) }
	read := func(call int64, g uint64, on bool, used int64) Op {
		return op(call, HostRead, Input{}, OK, Output{Generation: g, Enabled: on, Used: api.Resources{api.VCPU: used}})
	}
	cases := []struct {
		name  string
		rule  promise.Name // "" for none
		quiet bool
		ops   []Op
	}{
		{"a generation falls", promise.Read, false, []Op{read(0, 5, true, 0), read(10, 4, true, 0)}},
		{"reads at once may be turned round", "", false, []Op{read(0, 5, true, 0), read(2, 4, true, 0)}},
		{"a generation jumps where nobody is", promise.Read, true, []Op{read(0, 5, true, 0), read(10, 6, true, 0)}},
		{"a generation jumps among boots", "", false, []Op{read(0, 5, true, 0), read(10, 6, true, 2)}},
		{"one generation, two uses", promise.Read, false, []Op{read(0, 5, true, 0), read(10, 5, true, 2)}},
		{"an acknowledged update is not seen", promise.Read, false, []Op{
			read(0, 5, true, 0), op(10, HostSet, Input{Generation: 5}, OK, Output{Generation: 6}), read(20, 7, true, 0),
		}},
		{"a stale writer has its way", promise.Read, false, []Op{
			read(0, 7, true, 0), op(10, HostSet, Input{Generation: 6}, OK, Output{Generation: 8}),
		}},
		{"two writers of one generation", promise.Read, false, []Op{
			read(0, 7, true, 0), op(10, HostSet, Input{Generation: 7}, OK, Output{}), op(12, HostSet, Input{Generation: 7}, OK, Output{}),
		}},
		{"a refusal that tells the writer's own generation", promise.Read, false, []Op{
			op(10, HostSet, Input{Generation: 7}, Refused, Output{Code: api.CodeStale, Generation: 7}),
		}},
		{"a refusal that tells an old generation", promise.Read, false, []Op{
			read(0, 7, true, 0), op(10, HostSet, Input{Generation: 99}, Refused, Output{Code: api.CodeStale, Generation: 6}),
		}},
		{"a refused update is seen", promise.Read, false, []Op{
			read(0, 7, true, 0), op(10, HostSet, Input{Generation: 6}, Refused, Output{Code: api.CodeStale, Generation: 7}), read(20, 8, false, 0),
		}},
		{"an unknown update may be seen", "", true, []Op{
			read(0, 7, true, 0), op(10, HostSet, Input{Generation: 7}, Unknown, Output{}), read(20, 7, true, 0), read(30, 8, false, 0),
		}},
		{"a generation that rises without need", promise.Read, true, []Op{
			read(0, 7, true, 0), op(10, HostSet, Input{Enabled: true}, OK, Output{Generation: 8}),
		}},
		{"a repeat with another answer", promise.Repeat, false, []Op{
			op(0, BootAsk, Input{Digest: "d", Key: "k"}, OK, Output{Reservation: "r1"}),
			op(10, BootAsk, Input{Digest: "d", Key: "k"}, OK, Output{Reservation: "r2"}),
		}},
		{"another content under one key", promise.Repeat, false, []Op{ask, op(10, BootAsk, Input{Digest: "e"}, OK, Output{Reservation: "r"})}},
		{"a conflict with nothing", promise.Repeat, false, []Op{op(0, BootAsk, Input{Digest: "d"}, Refused, Output{Code: api.CodeConflict})}},
		{"a conflict with what may be there", "", false, []Op{
			op(0, BootAsk, Input{Digest: "e"}, Unknown, Output{}), op(10, BootAsk, Input{Digest: "d"}, Refused, Output{Code: api.CodeConflict}),
		}},
		{"an acknowledged boot is lost", promise.Read, false, []Op{ask, op(10, BootRead, Input{}, Refused, Output{Code: api.CodeNotFound})}},
		{"a boot that nobody asked for", promise.Read, false, []Op{see(0, api.BootActive)}},
		{"a refused boot is there", promise.Read, false, []Op{
			op(0, BootAsk, Input{Digest: "d"}, Refused, Output{Code: api.CodeOverloaded}), see(10, api.BootActive),
		}},
		{"a saga goes back", promise.Read, false, []Op{ask, see(10, api.BootActive), see(20, api.BootHolding)}},
		{"built, then failed", promise.Read, false, []Op{ask, see(10, api.BootBuilding), see(20, api.BootFailed)}},
		{"active after its release", promise.Read, false, []Op{ask, op(10, BootRelease, Input{}, OK, Output{}), see(20, api.BootActive)}},
		{"released after it failed, unasked", promise.Read, false, []Op{ask, see(10, api.BootFailed), see(20, api.BootReleased)}},
		{"a whole life", "", false, []Op{
			ask, see(10, api.BootHolding), see(20, api.BootActive), see(30, api.BootDegraded), see(31, api.BootError), see(32, api.BootActive), op(40, BootRelease, Input{}, OK, Output{}), see(50, api.BootReleased),
		}},
		{"a node's view goes back", promise.Read, false, []Op{local(see(0, api.BootActive), "n1", 9), local(see(10, api.BootActive), "n1", 8)}},
		{"another node's view is older", "", false, []Op{local(see(0, api.BootActive), "n1", 9), local(see(10, api.BootHolding), "n2", 8)}},
		{"two nodes, one index, two states", promise.Read, false, []Op{local(see(0, api.BootActive), "n1", 9), local(see(10, api.BootHolding), "n2", 9)}},
		{"a saga that goes back along the log", promise.Read, false, []Op{local(see(0, api.BootHolding), "n1", 9), local(see(10, api.BootActive), "n2", 8)}},
		{"a host that is two things", promise.Read, false, []Op{local(read(0, 5, true, 1), "n1", 0), local(read(10, 5, true, 2), "n2", 0)}},
		{"returned before it was called", promise.Input, false, []Op{{Call: 9, Return: 3, Kind: BootAsk, Outcome: OK}}},
		{"no outcome", promise.Input, false, []Op{{Kind: BootAsk}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, bad := History(c.ops, HistoryOptions{Quiet: c.quiet})
			if c.rule == "" {
				require.Empty(t, bad)
				return
			}
			require.NotEmpty(t, bad)
			assert.Contains(t, rules(bad), c.rule)
		})
	}
}

// TestOneFalseRead plants one lie in a long history.
func TestOneFalseRead(t *testing.T) {
	dir := t.TempDir()
	ops := play(4, true, 2000, 8, 5)
	i := slices.IndexFunc(ops, func(o Op) bool { return o.Call > 900 && o.Kind == HostRead && o.Outcome == OK })
	ops[i].Out.Generation--
	_, bad := History(ops, HistoryOptions{Quiet: true, Dir: dir})
	require.Equal(t, []promise.Name{promise.Read}, rules(bad))
	drawing, err := os.ReadFile(filepath.Join(dir, "history-000.html"))
	require.NoError(t, err)
	assert.Contains(t, string(drawing), "host.read")
	assert.Contains(t, bad[0].Text, "history-000.html")
}

// readOps reads the lines that a Recorder wrote, in order of their calls.
func readOps(from io.Reader) ([]Op, error) {
	d := json.NewDecoder(bufio.NewReader(from))
	d.DisallowUnknownFields()
	var ops []Op
	for {
		var op Op
		err := d.Decode(&op)
		if errors.Is(err, io.EOF) {
			sortOps(ops)
			return ops, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading operation %d of a history: %w", len(ops)+1, err)
		}
		ops = append(ops, op)
	}
}

func TestNoTimeIsAViolation(t *testing.T) {
	sum, bad := History(play(4, true, 200, 4, 2), HistoryOptions{Limit: time.Nanosecond})
	assert.Contains(t, rules(bad), promise.Undecided)
	assert.Positive(t, sum.Undecided)
	assert.Contains(t, rules(Gate(Summary{History: sum}, Floor{})), promise.Undecided)
}

func TestRecorder(t *testing.T) {
	var file bytes.Buffer
	now := int64(0)
	r := NewRecorder(func() int64 { now += 10; return now }, &file)
	a := r.Begin(Op{Client: 1, Kind: HostRead, Zone: "z", In: Input{Host: "h"}})
	b := r.Begin(Op{Client: 2, Kind: BootAsk, Zone: "z", In: Input{Project: "p", Reservation: "r", Digest: "d"}, Outcome: OK})
	r.Begin(Op{Client: 3, Kind: BootRelease, Zone: "z"})
	gone := r.Begin(Op{Client: 4, Kind: ProviderClaim, Zone: "z"})
	gone.Drop()
	gone.End(OK, Output{})
	b.End(OK, Output{Reservation: "r"})
	a.EndLocal(OK, Output{Generation: 3, Used: api.Resources{api.VCPU: 1}}, "n1", 44)
	a.End(Refused, Output{})
	ops, err := r.Close()
	require.NoError(t, err)
	require.Len(t, ops, 3)
	assert.Equal(t, []Outcome{OK, OK, Unknown}, []Outcome{ops[0].Outcome, ops[1].Outcome, ops[2].Outcome})
	assert.Equal(t, []int64{10, 20, 30}, []int64{ops[0].Call, ops[1].Call, ops[2].Call})
	assert.Equal(t, []int64{70, 60, 0}, []int64{ops[0].Return, ops[1].Return, ops[2].Return})
	assert.True(t, ops[0].Local)
	assert.Equal(t, 3, strings.Count(file.String(), "\n"))
	got, err := readOps(&file)
	require.NoError(t, err)
	assert.Equal(t, ops, got)

	_, err = readOps(strings.NewReader(`{"client":1}` + "\n" + `{"client":`))
	require.ErrorContains(t, err, "operation 2")
	broken := NewRecorder(func() int64 { return 1 }, failing{})
	broken.Begin(Op{Kind: HostRead}).End(OK, Output{})
	_, err = broken.Close()
	require.ErrorContains(t, err, "writing the history")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestOutcomeOf(t *testing.T) {
	assert.Equal(t, OK, OutcomeOf(nil))
	for _, c := range []api.Code{api.CodeStale, api.CodeNoCapacity, api.CodeContended, api.CodePaused, api.CodeUnreached} {
		assert.Equal(t, Refused, OutcomeOf(api.Errorf(c, "x")))
	}
	for _, c := range []api.Code{api.CodeTimeout, api.CodeUnavailable, api.CodeInternal} {
		assert.Equal(t, Unknown, OutcomeOf(api.Errorf(c, "x")))
	}
	assert.Equal(t, Unknown, OutcomeOf(errors.New("x")))
	from := func(c api.Code, r client.RefusedError) error { return api.Wrap(c, "op", "x", &r) }
	for _, c := range []api.Code{api.CodeTimeout, api.CodeInternal} {
		assert.Equal(t, Unknown, OutcomeOf(from(c, client.RefusedError{RequestID: "r"})))
	}
	assert.Equal(t, Refused, OutcomeOf(from(api.CodeUnavailable, client.RefusedError{RequestID: "r"})), "the zone has said so")
	assert.Equal(t, Unknown, OutcomeOf(from(api.CodeUnavailable, client.RefusedError{})), "somebody on the way has")
	for _, c := range []api.Code{api.CodeUnavailable, api.CodeNotFound} {
		assert.Equal(t, Unknown, OutcomeOf(from(c, client.RefusedError{RequestID: "r", Unsure: true})), "an earlier attempt may have done it")
	}
}

// What was refused as unavailable has changed nothing, and nothing is told by it.
func TestUnavailableChangesNothing(t *testing.T) {
	refused := Output{Code: api.CodeUnavailable}
	ask := Op{Kind: BootAsk, Zone: "z", Call: 1, Return: 2, In: Input{Project: "p", Reservation: "r"}, Outcome: Refused, Out: refused}
	seen := Op{Kind: BootRead, Zone: "z", Call: 3, Return: 4, In: ask.In, Outcome: OK, Out: Output{Reservation: "r", State: api.BootActive}}
	claim := Op{Kind: ProviderClaim, Zone: "z", Call: 1, Return: 2, In: Input{Provider: "p", Amount: 1}, Outcome: Refused, Out: refused}
	size := Op{Kind: ProviderSet, Zone: "z", Call: 0, Return: 1, In: Input{Provider: "p", Amount: 4}, Outcome: OK}
	use := func(n int64) Op {
		return Op{
			Kind: ProviderRead, Zone: "z", Call: 3, Return: 4, In: Input{Provider: "p"},
			Outcome: OK, Out: Output{Generation: 1 + uint64(n), Amount: n},
		}
	}
	silent := use(0)
	silent.Outcome, silent.Out = Refused, refused
	for name, c := range map[string]struct {
		ops []Op
		bad bool
	}{
		"a boot that is there":      {[]Op{ask, seen}, true},
		"a boot that is not":        {[]Op{ask}, false},
		"a claim that counts":       {[]Op{size, claim, use(1)}, true},
		"a claim that does not":     {[]Op{size, claim, use(0)}, false},
		"a read that tells nothing": {[]Op{size, silent}, false},
	} {
		_, bad := History(c.ops, HistoryOptions{})
		assert.Equal(t, c.bad, len(bad) > 0, "%s: %v", name, bad)
	}
}

func BenchmarkHistory(b *testing.B) {
	for _, hosts := range []int{20, 1000} {
		ops := play(1, false, 100_000, 64, hosts)
		b.Run(fmt.Sprint("hosts ", hosts), func(b *testing.B) {
			for range b.N {
				sum, bad := History(ops, HistoryOptions{})
				require.Empty(b, bad)
				b.ReportMetric(float64(sum.Ops), "operations")
			}
		})
	}
}
