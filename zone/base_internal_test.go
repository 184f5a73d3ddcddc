package zone

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/actor"
	"berth/internal/crash"
	"berth/internal/memstore"
	"berth/internal/requestid"
	"berth/internal/tracing"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// recorder is a store that notes what is proposed, reads a form, and may fail.
type recorder struct {
	*memstore.Store
	form api.Form
	got  [][]command.Command
	fail error
	each int // lists of commands
}

func newRecorder() *recorder {
	return &recorder{Store: memstore.NewOfForm(api.FormNewest), form: api.FormNewest}
}

func (r *recorder) Form() api.Form { return r.form }

func (r *recorder) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	r.got = append(r.got, cmds)
	if r.fail != nil {
		return nil, r.fail
	}
	return r.Store.Propose(ctx, cmds...)
}

func (r *recorder) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	r.each += len(lists)
	return memstore.Each(ctx, r.Propose, lists)
}

func newBase(s Store) *Zone {
	return New(Config{Store: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

// TestRecordedCommandsSayWhoProposesThem: with the call, cut to what the log takes, before all that is proposed with them; in a zone whose
// nodes all read that.
func TestRecordedCommandsSayWhoProposesThem(t *testing.T) {
	long := strings.Repeat("p", api.AuditCallMaxBytes)
	by := api.AuditActor{Kind: api.ActorToken, ID: "t", Project: "ops"}
	ctx := requestid.With(actor.With(t.Context(), actor.Call{By: by, Path: long + "x"}), "req-1")
	daily, recorded := command.Tick{Stamp: command.Stamp{At: 5}}, command.TokenDelete{Stamp: command.Stamp{At: 5}, ID: "none"}
	for name, c := range map[string]struct {
		form  api.Form
		cmds  []command.Command
		count int // of the note; 0 for none
	}{
		"recorded":        {api.FormFifth, []command.Command{daily, recorded}, 2},
		"daily work":      {api.FormFifth, []command.Command{daily}, 0},
		"an earlier form": {api.FormFourth, []command.Command{daily, recorded}, 0},
	} {
		r := newRecorder()
		r.Must(t, command.Init{Stamp: command.Stamp{At: 1}, Zone: "z", Name: "zone"})
		r.form = c.form
		z := newBase(r)
		results, err := z.ProposeAll(ctx, c.cmds...)
		require.NoError(t, err, name)
		require.Len(t, r.got, 1, name)
		got := r.got[0]
		if c.count > 0 {
			note, is := got[0].(command.Audit)
			require.True(t, is, name)
			assert.Equal(t, command.Audit{Stamp: note.Stamp, Actor: by, Request: "req-1", Call: long, Count: c.count}, note)
			assert.NotZero(t, note.At)
			got = got[1:]
		}
		assert.Equal(t, c.cmds, got, name)
		require.Len(t, results, len(c.cmds), name)
		last := results[len(results)-1]
		assert.Equal(t, len(c.cmds) > 1, api.CodeOf(last.Err) == api.CodeNotFound, "%s: each has its own result: %v", name, last.Err)
		r.fail = errors.New("no disk")
		_, err = z.ProposeAll(ctx, c.cmds...)
		require.ErrorIs(t, err, r.fail, name)
		_, err = z.Propose(ctx, daily)
		require.ErrorIs(t, err, r.fail, name)
	}
	r := newRecorder()
	r.Must(t, command.Init{Stamp: command.Stamp{At: 1}, Zone: "z", Name: "zone"})
	z := newBase(r)
	require.NoError(t, z.Audit(ctx, "backup"))
	require.Len(t, r.got, 1)
	note, _ := r.got[0][0].(command.Audit)
	assert.Equal(t, command.Audit{Stamp: note.Stamp, Actor: by, Request: "req-1", Call: long, Target: "backup"}, note)
	r.fail = errors.New("no disk")
	require.ErrorIs(t, z.Audit(ctx, "backup"), r.fail)
	r.form = api.FormFourth
	require.NoError(t, z.Audit(ctx, "backup"), "it is not written")
	assert.Len(t, r.got, 2)
}

// TestEntriesThatFailedWereNotMade: the points after them are not reached, alone or among others.
func TestEntriesThatFailedWereNotMade(t *testing.T) {
	r := newRecorder()
	r.Must(t, command.Init{Stamp: command.Stamp{At: 1}, Zone: "z", Name: "zone"})
	var reached []crash.Point
	z := New(Config{Store: r, Now: time.Now, Log: slog.New(slog.DiscardHandler), Crash: func(p crash.Point) { reached = append(reached, p) }})
	tick := command.Tick{Stamp: command.Stamp{At: 5}}
	all := func() []crash.Point {
		out := reached
		reached = nil
		return out
	}
	_, err := z.Propose(t.Context(), tick)
	require.NoError(t, err)
	assert.Equal(t, []crash.Point{crash.TickLogging, crash.TickLogged}, all())
	for _, a := range z.ProposeEach(t.Context(), [][]command.Command{{tick}, {tick, command.Prune{Stamp: command.Stamp{At: 5}}}}) {
		require.NoError(t, a.Err)
	}
	assert.Equal(t, 2, r.each)
	assert.Equal(t, []crash.Point{crash.TickLogging, crash.TickLogging, crash.TickLogged, crash.TickLogged}, all())
	r.fail = errors.New("no disk")
	_, err = z.Propose(t.Context(), tick)
	require.ErrorIs(t, err, r.fail)
	z.ProposeEach(t.Context(), [][]command.Command{{tick}})
	assert.Equal(t, []crash.Point{crash.TickLogging, crash.TickLogging}, all())
	z.Reach(crash.SelectPlanning)
	assert.Equal(t, []crash.Point{crash.SelectPlanning}, all())
}

// TestRefusalsAreConfirmed: a refusal that is about the state counts if the log has accepted an entry for the call, or if a majority has
// that same state; otherwise the call is made once more. What is about this node, and what succeeds, asks nobody.
func TestRefusalsAreConfirmed(t *testing.T) {
	no := api.Errorf(api.CodeNotFound, "no")
	for name, c := range map[string]struct {
		refusals []error // of each use
		deposed  bool
		behind   bool
		logs     bool // the first use writes an entry
		within   bool // of another confirmation
		code     api.Code
		uses     int
		asked    bool
	}{
		"success":              {refusals: []error{nil}, behind: true, uses: 1},
		"of this node":         {refusals: []error{api.Errorf(api.CodeUnavailable, "no")}, behind: true, code: api.CodeUnavailable, uses: 1},
		"of the same state":    {refusals: []error{no}, code: api.CodeNotFound, uses: 1, asked: true},
		"of an old state":      {refusals: []error{no, nil}, behind: true, uses: 2, asked: true},
		"also of the new one":  {refusals: []error{no, no, nil}, behind: true, code: api.CodeNotFound, uses: 2, asked: true},
		"by a deposed leader":  {refusals: []error{no, nil}, behind: true, deposed: true, code: api.CodeUnavailable, uses: 1, asked: true},
		"by the log":           {refusals: []error{no, nil}, behind: true, logs: true, code: api.CodeNotFound, uses: 1, asked: true},
		"within another one's": {refusals: []error{no, nil}, behind: true, within: true, code: "", uses: 2, asked: true},
	} {
		m := memstore.New()
		old := m.View()
		if c.behind {
			m.Must(t, command.Init{Zone: "z", Name: "zone"})
		}
		past := memstore.NewPast(m, old, c.deposed)
		z := newBase(past)
		uses := 0
		use := func(ctx context.Context) error {
			uses++
			if c.logs {
				_, _ = z.Propose(ctx, command.Tick{Stamp: command.Stamp{At: 5}})
			}
			return c.refusals[uses-1]
		}
		err := z.Confirmed(t.Context(), func(ctx context.Context) error {
			if c.within {
				return z.Confirmed(ctx, use)
			}
			return use(ctx)
		})
		assert.Equal(t, c.code, api.CodeOf(err), "%s: %v", name, err)
		assert.Equal(t, c.uses, uses, name)
		if !c.deposed {
			assert.Equal(t, c.asked, past.Asked(), name)
		}
	}
	for code, want := range map[api.Code]bool{
		api.CodeUnavailable: false, api.CodeTimeout: false, api.CodeOverloaded: false, api.CodeInternal: false, api.CodeTooLarge: false,
		api.CodeMediaType: false, api.CodeMethod: false, api.CodeSlow: false, api.CodeNotFound: true, api.CodeConflict: true, api.CodeNoCapacity: true, "": true,
	} {
		assert.Equal(t, want, isDecisive(code), code)
	}
}

// TestWhatIsNotThereCostsNoEntry: a change of what this node does not find is looked up in a state that a majority has, and only then
// proposed.
func TestWhatIsNotThereCostsNoEntry(t *testing.T) {
	no := api.Errorf(api.CodeNotFound, "no")
	for name, c := range map[string]struct {
		here, there error
		deposed     bool
		code        api.Code
		looks       int
	}{
		"found here":          {nil, no, false, "", 1},
		"found by others":     {no, nil, false, "", 2},
		"found by nobody":     {no, no, false, api.CodeNotFound, 2},
		"not of a leader":     {no, nil, true, api.CodeUnavailable, 1},
		"here, and no leader": {nil, nil, true, api.CodeUnavailable, 1},
	} {
		m := memstore.New()
		old := m.View()
		m.Must(t, command.Init{Zone: "z", Name: "zone"})
		index := m.View().Index()
		z := newBase(memstore.NewPast(m, old, c.deposed))
		looks := 0
		_, err := z.Change(t.Context(), command.Tick{Stamp: command.Stamp{At: 5}}, func(v *state.State) error {
			looks++
			if v.Index() == old.Index() {
				return c.here
			}
			return c.there
		})
		assert.Equal(t, c.code, api.CodeOf(err), name)
		assert.Equal(t, c.looks, looks, name)
		want := index
		if c.code == "" {
			want++
		}
		assert.Equal(t, want, m.View().Index(), name)
	}
}

// TestTheTimeOfAZone: the clock since this process began, and never before what the zone has agreed on; a node is young for as long as
// a zone may go unheard.
func TestTheTimeOfAZone(t *testing.T) {
	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	m := memstore.New()
	z := New(Config{Store: m, Now: func() time.Time { return clock }})
	began := api.InstantOf(clock)
	assert.True(t, z.IsYoung())
	clock = clock.Add(LinkFresh)
	assert.True(t, z.IsYoung())
	assert.Equal(t, began.Add(LinkFresh), z.Instant())
	clock = clock.Add(1)
	assert.False(t, z.IsYoung())
	m.Must(t, command.Init{Stamp: command.Stamp{At: began.Add(time.Hour)}, Zone: "z", Name: "zone"})
	assert.Equal(t, began.Add(time.Hour), z.Stamp().At)
	clock = clock.Add(2 * time.Hour)
	assert.Equal(t, began.Add(2*time.Hour+LinkFresh), z.Instant())
	assert.Equal(t, clock, z.Now())
	assert.Zero(t, Depth(t.Context()))
	assert.Equal(t, 3, Depth(WithDepth(t.Context(), 3)))
	assert.Equal(t, z.store, z.Store())
}

// TestAStateThatIsTooLargeSaysSo in MiB, with its limits.
func TestAStateThatIsTooLargeSaysSo(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Zone: "z", Name: "zone"}, command.HostsPut{Agent: "a", Hosts: []command.HostEntry{{ID: "h", Host: api.AgentHost{
		Name: "h", Driver: "fake", Pool: api.PoolShared, Attributes: map[string]string{"a": strings.Repeat("v", 5<<20)},
	}}}})
	z := New(Config{Store: m, Now: time.Now, StateMaxBytes: 2 << 20})
	err := z.CheckSize()
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(err))
	assert.ErrorContains(t, err, "has about 5 MiB, and takes nothing new from 2 MiB on, because a backup may have 1024 MiB")
}

// digests is Digests of one zone.
type digests struct {
	age   time.Duration
	heard bool
}

func (d digests) Digest(z api.ZoneID) (api.Digest, time.Duration, bool) {
	return api.Digest{AZs: []string{string(z)}}, d.age, d.heard
}

// TestAChildAsBindingsSeeIt: with its digest if that is recent, and away once it has been silent for long.
func TestAChildAsBindingsSeeIt(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Zone: "z", Name: "zone", Config: api.ZoneConfig{Bindings: api.BindingRule{LostAfter: time.Minute, UsageAge: 10 * time.Second}}})
	const since = api.Instant(1000)
	for name, c := range map[string]struct {
		d      digests
		silent api.Instant
		now    api.Instant
		heard  bool
		away   bool
	}{
		"recent":              {digests{10 * time.Second, true}, 0, since, true, false},
		"old":                 {digests{10*time.Second + 1, true}, 0, since, false, false},
		"none":                {digests{0, false}, 0, since, false, false},
		"silent a while":      {digests{0, true}, since, since.Add(time.Minute) - 1, true, false},
		"silent for so long":  {digests{0, true}, since, since.Add(time.Minute), true, true},
		"heard since forever": {digests{0, true}, 0, api.Instant(1).Add(time.Hour), true, false},
	} {
		child := SeeChild(m.View(), c.d, c.now, &api.Link{ID: "l", Zone: "kid", SilentSince: c.silent, State: api.LinkActive})
		assert.Equal(t, c.away, child.Away, name)
		assert.Equal(t, c.heard, child.AZs != nil, name)
	}
}

// TestProposalsAreTraced: with a tracer each has a span, and its error; without one nothing is put on the store.
func TestProposalsAreTraced(t *testing.T) {
	r := newRecorder()
	r.Must(t, command.Init{Stamp: command.Stamp{At: 1}, Zone: "z", Name: "zone"})
	assert.Same(t, r, WithTracer(r, nil))
	s := WithTracer(r, tracing.New(tracing.Config{Ratio: 1, Zone: "z", Now: time.Now}))
	assert.NotSame(t, r, s)
	tick := command.Tick{Stamp: command.Stamp{At: 5}}
	res, err := s.Propose(t.Context(), tick)
	require.NoError(t, err)
	assert.Len(t, res, 1)
	assert.Len(t, s.ProposeEach(t.Context(), [][]command.Command{{tick}, {tick}}), 2)
	r.fail = errors.New("no disk")
	_, err = s.Propose(t.Context(), tick)
	require.ErrorIs(t, err, r.fail)
	ctx, end := newBase(r).BeginSpan(t.Context(), "work")
	assert.NotNil(t, ctx)
	end(nil)
	end(r.fail)
}
