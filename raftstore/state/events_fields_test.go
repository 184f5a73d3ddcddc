package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestEventsHaveWhatTheirFactsHave: each field of the event of each fact.
func TestEventsHaveWhatTheirFactsHave(t *testing.T) {
	i := api.NewInstance(&api.InstanceTerms{Origin: "up", Project: "p", Reservation: "r", Hold: "k"}, api.InstanceSpec{ID: "i"}, api.StatusActive)
	i.Host, i.Link = "h1", "c1"
	slot, volume := *i, *i
	slot.ChangeTerms(func(t *api.InstanceTerms) { t.Reserved = true })
	volume.ChangeTerms(func(t *api.InstanceTerms) { t.Volume = "disk" })
	evicted := *i
	why := &api.Eviction{For: "l", Lease: true, At: 1, By: 2}
	evicted.ChangeExtras(func(x *api.InstanceExtras) { x.Eviction = why })
	hold := &Hold{ID: "k", Origin: "up", Request: api.Request{Project: "p", Reservation: "r"}, Decision: api.DecisionCommit, Why: api.CodeContended}
	binding := api.Binding{ID: "b", Origin: "up", Project: "p", Reservation: "r", Link: "c1", Why: api.BindingFirst, End: api.Forever}
	ended := binding
	ended.End, ended.Ended = 5, api.BindingNoRoom
	of := Event{Origin: "up", Project: "p", Reservation: "r", Hold: "k", Instance: "i", Host: "h1", Link: "c1"}
	with := func(change func(e *Event)) Event {
		e := of
		change(&e)
		return e
	}
	was, active := string(api.StatusBuild), string(api.StatusActive)
	for name, c := range map[string]struct {
		fact fact
		want Event
	}{
		"instance": {instanceChanged{i, api.StatusBuild, api.StatusActive}, with(func(e *Event) { e.Kind, e.Was, e.Is = EventInstance, was, active })},
		"slot":     {instanceChanged{&slot, api.StatusBuild, api.StatusActive}, with(func(e *Event) { e.Kind, e.Was, e.Is, e.Slot = EventInstance, was, active, true })},
		"volume":   {instanceChanged{&volume, api.StatusBuild, api.StatusActive}, with(func(e *Event) { e.Kind, e.Was, e.Is, e.Volume = EventInstance, was, active, true })},
		"evicted":  {instanceEvicted{&evicted}, with(func(e *Event) { e.Kind, e.Eviction = EventEvicted, why })},
		"restarted": {
			instanceRestarted{i, api.RestartFenced}, with(func(e *Event) { e.Kind, e.Reason = EventInstanceRestarted, api.RestartFenced }),
		},
		"queued":     {instanceQueued{i}, Event{Kind: EventInstanceQueued, Project: "p", Reservation: "r", Instance: "i", Link: "c1"}},
		"requeued":   {bootRequeued{&Requeued{Project: "p", Reservation: "r"}}, Event{Kind: EventBootRequeued, Project: "p", Reservation: "r"}},
		"made":       {slotsTaken{hold: hold}, Event{Kind: EventHoldMade, Origin: "up", Project: "p", Reservation: "r", Hold: "k", Is: string(api.DecisionCommit), Code: api.CodeContended}},
		"decided":    {holdDecided{hold}, Event{Kind: EventHoldDecided, Origin: "up", Project: "p", Reservation: "r", Hold: "k", Is: string(api.DecisionCommit)}},
		"boot":       {bootChanged{EventBootDecided, "p", "r", api.DecisionAbort, api.CodeTimeout}, Event{Kind: EventBootDecided, Project: "p", Reservation: "r", Is: string(api.DecisionAbort), Code: api.CodeTimeout}},
		"bound":      {bindingChanged{&binding}, Event{Kind: EventBindingBegan, Origin: "up", Project: "p", Reservation: "r", Link: "c1", Is: string(api.BindingFirst), Binding: "b"}},
		"unbound":    {bindingChanged{&ended}, Event{Kind: EventBindingEnded, Origin: "up", Project: "p", Link: "c1", Is: string(api.BindingNoRoom), Binding: "b"}},
		"host down":  {hostReached{"h1", 5}, Event{Kind: EventHost, Host: "h1", Is: "down"}},
		"host up":    {hostReached{"h1", 0}, Event{Kind: EventHost, Host: "h1", Is: "up"}},
		"child down": {childReached{"c1", 5}, Event{Kind: EventLink, Link: "c1", Is: "down"}},
		"child up":   {childReached{"c1", 0}, Event{Kind: EventLink, Link: "c1", Is: "up"}},
		"lease": {
			leaseChanged{EventLeaseStatus, &Lease{Terms: api.LeaseTerms{ID: "l", Project: "p"}, Order: "o", Status: api.LeaseActive}, api.LeasePending},
			Event{Kind: EventLeaseStatus, Project: "p", Reservation: "o", Lease: "l", Was: string(api.LeasePending), Is: string(api.LeaseActive)},
		},
	} {
		w := newWorld(t)
		w.form = api.FormNewest
		w.host("h1", 1)
		w.s.events.Init()
		w.s.touched = nil
		w.s.note(c.fact)
		all := w.s.events.Values()
		require.Len(t, all, 1, name)
		c.want.Index, c.want.At = w.s.Index(), w.s.Now()
		assert.Equal(t, c.want, *all[0], name)
		topics := []Topic{EventsTopic("")}
		if c.want.Project != "" && c.want.Origin == "" {
			topics = append(topics, EventsTopic("p"))
		}
		assert.Equal(t, topics, w.s.touched, name)
		w.s.note(c.fact)
		assert.Equal(t, topics, w.s.touched, "once is enough: %s", name)
		assert.Equal(t, 1, w.s.events.Values()[1].Number, name)
		w.s.index++
		w.s.note(c.fact)
		assert.Zero(t, w.s.events.Values()[2].Number, "another entry: %s", name)
	}
}

// TestEventsOfALeaseThatHappen: each event of a lease has a kind of its own.
func TestEventsOfALeaseThatHappen(t *testing.T) {
	for event, kind := range map[api.LeaseEventType]EventKind{
		api.EventStartLease: EventLeaseStarted, api.EventBeforeEndLease: EventLeaseEndsSoon,
		api.EventEndLease: EventLeaseEnded, api.EventBeforeStartLease: EventLeaseStartsSoon,
	} {
		s := New()
		l := &Lease{}
		s.noteLeaseEvent(l, event)
		assert.Equal(t, []fact{leaseChanged{kind: kind, lease: l}}, s.facts, event)
	}
}

// TestWhichEventsOfALeaseAreDue: by the status of the lease, and of the event.
func TestWhichEventsOfALeaseAreDue(t *testing.T) {
	for status, due := range map[api.LeaseStatus][2]bool{ // the start, and the end
		api.LeasePending: {true, true}, api.LeaseStarting: {false, true}, api.LeaseActive: {false, true}, api.LeaseError: {false, true},
		api.LeaseCreating: {}, api.LeaseUpdating: {}, api.LeaseTerminating: {}, api.LeaseTerminated: {}, api.LeaseDeleting: {},
	} {
		l := &Lease{Status: status}
		is := func(e api.LeaseEventType, st api.LeaseEventStatus) bool {
			return l.isDue(&api.LeaseEvent{Type: e, Status: st})
		}
		assert.Equal(t, due, [2]bool{is(api.EventStartLease, api.EventUndone), is(api.EventEndLease, api.EventUndone)}, status)
		assert.Equal(t, due[1], is(api.EventBeforeEndLease, api.EventUndone), status)
		for _, st := range []api.LeaseEventStatus{api.EventInProgress, api.EventDone, api.EventError} {
			assert.False(t, is(api.EventEndLease, st), "%s %s", status, st)
		}
	}
}

// TestWhereEventsBegin: of events that older nodes have dropped nothing is known, and what is before the first that is kept may be
// missing.
func TestWhereEventsBegin(t *testing.T) {
	s := New()
	assert.Equal(t, api.EventID{}, s.EventsBegin())
	assert.Zero(t, s.Restored())
	s.events.Append(&Event{Index: 7, Number: 2})
	assert.Equal(t, api.EventID{Index: 7, Number: 2}, s.EventsBegin(), "what was before it is not known")
	s.form = api.FormThird
	s.beginHistory()
	assert.Nil(t, s.history)
	s.BeginNewHistory([]byte{1})
	assert.Nil(t, s.history)
	assert.Equal(t, 1, s.events.Len())
	s.form = api.FormFourth
	s.beginHistory()
	assert.Equal(t, &eventHistory{Whole: api.EventID{Index: 7, Number: 2}}, s.history)
	s.events.Append(&Event{Index: 9})
	s.beginHistory()
	assert.Equal(t, api.EventID{Index: 7, Number: 2}, s.EventsBegin(), "it has begun")
	s.index = 9
	assert.Equal(t, api.EventID{Index: 9, Number: 1}, s.EventsEnd())
	s.index = 10
	assert.Equal(t, api.EventID{Index: 10}, s.EventsEnd())
	s.BeginNewHistory([]byte{1})
	first := s.history.Name
	assert.Len(t, first, 2*historyNameBytes)
	assert.Zero(t, s.Restored())
	assert.Equal(t, api.EventID{Index: 10, History: first}, s.EventsEnd())
	assert.Equal(t, api.EventID{History: first}, s.EventsBegin())
	names := map[string]bool{first: true}
	for _, change := range []func(){func() { s.index++ }, func() { s.now++ }, func() {}} {
		change()
		s.BeginNewHistory([]byte{1})
		names[s.history.Name] = true
	}
	s.BeginNewHistory([]byte{2})
	names[s.history.Name] = true
	assert.Len(t, names, 4, "by index, time and backup")
	s.form = api.FormFifth
	s.BeginNewHistory([]byte{1})
	assert.Equal(t, s.Index(), s.Restored())
}
