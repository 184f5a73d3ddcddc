package events_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/events"
)

// kindsInTheLog returns the names of the kinds of events that the state has.
func kindsInTheLog(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../raftstore/state/events.go", nil, 0)
	require.NoError(t, err)
	var out []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			if name := s.(*ast.ValueSpec).Names[0].Name; strings.HasPrefix(name, "Event") {
				out = append(out, name)
			}
		}
	}
	return out
}

// TestWhoSeesWhat goes through all kinds: what belongs to a project of this zone is shown to
// that project alone, and to operators; what belongs to a parent's project, to a host or to a
// link is shown to operators alone.
func TestWhoSeesWhat(t *testing.T) {
	names := kindsInTheLog(t)
	require.GreaterOrEqual(t, len(names), 18)
	forOperators := map[string]bool{"EventHoldMade": true, "EventHoldDecided": true, "EventHost": true, "EventLink": true}
	shown := map[string]bool{}
	for i, name := range names {
		kind := state.EventKind(i + 1)
		for _, e := range []*state.Event{
			{Kind: kind, Project: "p1"},
			{Kind: kind, Project: "p1", Slot: true, Is: "ACTIVE"},
			{Kind: kind, Project: "p1", Origin: "up"},
			{Kind: kind, Project: "p2"},
			{Kind: kind},
		} {
			tenant := events.Watch{Project: "p1"}
			mine := e.Project == "p1" && e.Origin == "" && !forOperators[name]
			assert.Equal(t, mine, tenant.Sees(e), "%s of %q, origin %q, for its project", name, e.Project, e.Origin)
			none := events.Watch{}
			assert.False(t, none.Sees(e), "%s: nobody sees all without the role", name)
			admin := events.Watch{Operator: true}
			assert.True(t, admin.Sees(e), "%s has no row in kinds.go", name)
			one := events.Watch{Operator: true, Project: "p1"}
			assert.Equal(t, e.Project == "p1" && e.Origin == "", one.Sees(e), "%s: an admin who wants one project", name)
			shown[name] = shown[name] || tenant.Sees(e)
		}
	}
	for _, name := range names {
		assert.Equal(t, !forOperators[name], shown[name], name)
	}
	unknown := &state.Event{Kind: state.EventKind(len(names) + 1), Project: "p1"}
	assert.False(t, (&events.Watch{Operator: true}).Sees(unknown), "what is not known is not shown")
}

func TestKindsAndTheirBeginnings(t *testing.T) {
	e := &state.Event{Kind: state.EventInstance, Project: "p", Is: "ACTIVE", Reservation: "r1", Lease: "l1", Instance: "i1"}
	slot := &state.Event{Kind: state.EventInstance, Project: "p", Is: "ACTIVE", Slot: true}
	volume := &state.Event{Kind: state.EventInstance, Project: "p", Is: "ACTIVE", Volume: true}
	assert.True(t, (&events.Watch{Project: "p", Kinds: []string{"volume.active"}}).Sees(volume))
	for _, c := range []struct {
		kinds   []string
		e, slot bool
	}{
		{nil, true, true},
		{[]string{"instance"}, true, false},
		{[]string{"instance.active", "boot"}, true, false},
		{[]string{"slot.active"}, false, true},
		{[]string{"instance.error", "slot.error"}, false, false},
	} {
		w := events.Watch{Project: "p", Kinds: c.kinds}
		assert.Equal(t, c.e, w.Sees(e), c.kinds)
		assert.Equal(t, c.slot, w.Sees(slot), c.kinds)
		assert.Equal(t, len(c.kinds) == 0, w.Sees(volume), c.kinds)
		require.NoError(t, events.CheckKinds(c.kinds))
	}
	for _, w := range []events.Watch{{Project: "p", Reservation: "r2"}, {Project: "p", Lease: "l2"}, {Project: "p", Server: "i2"}} {
		assert.False(t, w.Sees(e))
	}
	for _, w := range []events.Watch{{Project: "p", Reservation: "r1"}, {Project: "p", Lease: "l1"}, {Project: "p", Server: "i1"}} {
		assert.True(t, w.Sees(e))
	}
	for _, bad := range []string{"", "inst", "instance.", "instance.active.x", "host up"} {
		assert.Equal(t, api.CodeInvalid, api.CodeOf(events.CheckKinds([]string{bad})), bad)
	}
	many := make([]string, api.WebhookKindsMax)
	for i := range many {
		many[i] = "boot"
	}
	require.NoError(t, events.CheckKinds(many))
	require.Error(t, events.CheckKinds(append(many, "boot")))
	for _, name := range []string{
		"lease.create", "lease.update", "lease.delete", "lease.event.start_lease", "lease.event.before_end_lease", "lease.event.end_lease", events.KindGap,
	} {
		assert.Contains(t, events.Names(), name)
	}
}

// boot records a boot, which is one event.
func boot(tb testing.TB, s *memstore.Store, project, id string) {
	tb.Helper()
	s.Must(tb, command.BootCreate{
		Stamp:     command.Stamp{At: s.View().Now() + 1},
		BootTerms: command.BootTerms{Request: api.Request{Project: api.ProjectID(project), Reservation: api.ReservationID(id), Groups: []api.Group{{Count: 1}}}},
	})
}

// TestRead: pages go on behind each other, others' events move a position on, and a position
// that is not kept begins with a gap.
func TestRead(t *testing.T) {
	s := memstore.NewOfForm(api.FormNewest)
	s.Must(t, command.Init{Zone: "z", Name: "zone"})
	for _, id := range []string{"r1", "r2", "r3"} {
		boot(t, s, "p", id)
		boot(t, s, "other", id)
	}
	w, v := events.Watch{Project: "p"}, s.View()
	list, to := w.Read(v, api.EventID{}, 2)
	require.Len(t, list, 2)
	assert.Equal(t, []string{"2-1", "4-1"}, []string{list[0].ID, list[1].ID})
	assert.Equal(t, "boot.created", list[0].Kind)
	assert.Equal(t, api.EventID{Index: 4, Number: 1}, to)
	list, to = w.Read(v, to, 2)
	require.Len(t, list, 1)
	assert.Equal(t, v.EventsEnd(), to, "the end of the view")
	list, again := w.Read(v, to, 2)
	assert.Empty(t, list)
	assert.Equal(t, to, again)
	ahead := api.EventID{Index: 99, Number: 1}
	_, again = w.Read(v, ahead, 2)
	assert.Equal(t, ahead, again, "a position that this view has not reached stays")

	list, to = w.Read(v, api.EventID{Index: 4, Number: 1, History: "of another log"}, 9)
	require.Len(t, list, 4)
	assert.Equal(t, events.KindGap, list[0].Kind)
	assert.Equal(t, "restored", list[0].Gap.Reason)
	assert.Equal(t, v.EventsEnd(), to)
	assert.True(t, w.Any(v, api.EventID{Index: 4, Number: 1}))
	assert.False(t, w.Any(v, api.EventID{Index: 6, Number: 1}), "the last one is another project's")
	assert.True(t, (&events.Watch{Operator: true}).Any(v, api.EventID{Index: 6, Number: 1}))
}

// TestEventsBeforeTheEnd: whoever follows a project hears of the end of a lease before it comes,
// and what its owner wants to happen then.
func TestEventsBeforeTheEnd(t *testing.T) {
	s := memstore.NewOfForm(api.FormNewest)
	s.Must(t, command.Init{Zone: "z", Name: "zone"})
	var want []string
	for n, action := range []string{"", api.BeforeEndDefault, api.BeforeEndNotify, api.BeforeEndSnapshot} {
		id := api.LeaseID(fmt.Sprint("l", n))
		window := api.Window{Start: s.View().Now() + 100, End: s.View().Now() + 1_000}
		s.Must(t, command.LeaseCreate{
			Stamp: command.Stamp{At: s.View().Now() + 1}, Digest: []byte{1},
			Terms: api.LeaseTerms{ID: id, Project: "p", Window: window, BeforeEnd: window.End - 10, Reservations: []api.Reservation{
				{ID: api.ReservationID(fmt.Sprint("r", n)), Type: api.ReserveHosts, Min: 1, Max: 2, BeforeEnd: action},
			}},
			Events: []api.LeaseEvent{{ID: "e", Type: api.EventBeforeEndLease, Time: window.End - 10, Status: api.EventUndone}},
		})
		want = append(want, fmt.Sprintf("%s %q", id, action))
	}
	s.Must(t, command.Tick{Stamp: command.Stamp{At: s.View().Now() + 1_000}})
	w := events.Watch{Project: "p", Kinds: []string{"lease.event.before_end_lease"}}
	list, _ := w.Read(s.View(), api.EventID{}, 99)
	var got []string
	for _, e := range list {
		require.Len(t, e.Lease.Reservations, 1)
		got = append(got, fmt.Sprintf("%s %q", e.LeaseID, e.Lease.Reservations[0].BeforeEnd))
	}
	assert.Equal(t, want, got)
}
