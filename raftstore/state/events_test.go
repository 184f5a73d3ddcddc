package state

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	draws "berth/internal/dice"
	"berth/raftstore/command"
)

// history is what events tell of a zone.
type history struct {
	instances map[api.InstanceID]string
	holds     map[string]string
	boots     map[string]string
	hosts     map[api.HostID]string
	links     map[api.LinkID]string
	kinds     map[EventKind]int
}

func (h *history) read(t require.TestingT, e *Event) {
	h.kinds[e.Kind]++
	switch e.Kind {
	case EventInstance:
		require.Equal(t, h.instances[e.Instance], e.Was, "%+v", e)
		h.instances[e.Instance] = e.Is
		if e.Is == string(api.StatusDeleted) {
			delete(h.instances, e.Instance) // it may be pruned, and the id used again
		}
	case EventHoldMade, EventHoldDecided:
		h.holds[joinKey(e.Origin, e.Hold)] = e.Is
	case EventBootCreated, EventBootDecided, EventBootReleased:
		h.boots[joinKey(e.Project, e.Reservation)] = e.Is
	case EventHost:
		h.hosts[e.Host] = e.Is
	case EventLink:
		h.links[e.Link] = e.Is
	}
}

// compare holds that records are as events have told.
func (h *history) compare(t require.TestingT, s *State) {
	live := 0
	for _, i := range s.instances.Values() {
		if i.Live() {
			live++
			require.Equal(t, string(i.Status), h.instances[i.ID], "instance %s", i.ID)
		}
	}
	require.Len(t, h.instances, live)
	for _, one := range s.holds.Values() {
		if !one.neverArrived() {
			require.Equal(t, string(one.Decision), h.holds[one.Key()], "hold %s", one.ID)
		}
	}
	for _, b := range s.boots.Values() {
		require.Equal(t, string(b.Decision), h.boots[b.ID()], "boot %s", b.ID())
	}
	for _, one := range s.hosts.Values() {
		require.Equal(t, one.DownSince != 0, h.hosts[one.ID] == "down", "host %s", one.Name)
	}
	for id := range h.links {
		if _, linked := s.Link(id); !linked {
			delete(h.links, id) // another one of that id is another link: outside of tests none has it
		}
	}
	for _, l := range s.links.Values() {
		require.Equal(t, l.SilentSince != 0, h.links[l.ID] == "down", "link %s", l.Name)
	}
}

// TestEventsAreTheHistory: whoever reads all events of a random history knows the status
// of everything.
func TestEventsAreTheHistory(t *testing.T) {
	kinds := map[EventKind]int{}
	play := func(rt *rapid.T) {
		d := newDice(rt)
		h := history{
			instances: map[api.InstanceID]string{}, holds: map[string]string{}, boots: map[string]string{},
			hosts: map[api.HostID]string{}, links: map[api.LinkID]string{}, kinds: kinds,
		}
		read := api.EventID{}
		for range 60 {
			list, whole := d.w.s.Events(read, 1_000)
			require.True(rt, whole, "nothing was dropped after %s", read)
			for _, e := range list {
				h.read(rt, e)
				read = d.w.s.EventID(e)
			}
			h.compare(rt, d.w.s)
			d.w.do(d.command())
		}
	}
	draws.Enough(t, func() { rapid.Check(t, play) }, func() string {
		for kind := EventInstance; kind <= EventHost; kind++ {
			if kinds[kind] == 0 {
				return fmt.Sprintf("no event of kind %d", kind)
			}
		}
		return ""
	})
}

// TestEventsAreBounded: beyond a number or an age the oldest go, and readers are told.
func TestEventsAreBounded(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFourth
	most := limitsAt(api.FormFourth)
	boot := func(n int) command.BootCreate {
		return command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Request: api.Request{Project: "p", Reservation: api.ReservationID(fmt.Sprint("r", n)), Groups: []api.Group{{Count: 1}}}}}
	}
	apply := func(c command.Command) { w.index++; w.s.Apply(w.index, w.reread(c)) }
	for n := range most.events {
		apply(boot(n))
	}
	require.Equal(t, most.events, w.s.events.Len())
	list, whole := w.s.Events(api.EventID{}, most.events)
	require.True(t, whole, "nothing was dropped, although the first event is not of the first entry")
	require.Equal(t, Event{Index: 2, At: start + 1, Kind: EventBootCreated, Project: "p", Reservation: "r0", Is: string(api.DecisionPending)}, *list[0])
	apply(boot(most.events))
	require.Equal(t, most.events, w.s.events.Len())
	list, whole = w.s.Events(api.EventID{Index: 2}, 1)
	require.False(t, whole)
	require.Equal(t, uint64(3), list[0].Index, "the oldest that is kept")
	list, whole = w.s.Events(api.EventID{Index: 2, Number: 1}, 3)
	require.True(t, whole, "after the event that was dropped")
	require.Len(t, list, 3)

	w.now = list[1].At.Add(most.eventAge)
	apply(command.Prune{Stamp: at(w.now)})
	list, _ = w.s.Events(api.EventID{}, 1)
	require.Equal(t, uint64(5), list[0].Index, "those before are as old as may be, or older")
	apply(command.Prune{Stamp: at(w.now.Add(2 * most.eventAge))})
	require.Equal(t, 1, w.s.events.Len(), "the newest stays: it tells how far events go")
	_, whole = w.s.Events(api.EventID{Index: 3}, 1)
	require.False(t, whole)
	text := saved(t, w.s)
	require.Equal(t, text, saved(t, loaded(t, text)))
	_, whole = loaded(t, text).Events(api.EventID{Index: 3}, 1)
	require.False(t, whole, "a snapshot knows what was dropped")
	_, whole = loaded(t, text).Events(w.s.EventsBegin(), 1)
	require.True(t, whole)
}

// TestNoEventsForOlderNodes: before all nodes of a zone read events nothing is kept, and a
// snapshot has no section that they do not know.
func TestNoEventsForOlderNodes(t *testing.T) {
	w := newWorld(t)
	create := command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Request: api.Request{Project: "p", Reservation: "r", Groups: []api.Group{{Count: 1}}}}}
	w.form = api.FormSecond
	w.ok(create)
	require.Zero(t, w.s.events.Len())
	_, err := Load(bytes.NewReader([]byte(saved(t, w.s))), api.FormSecond)
	require.NoError(t, err)

	w.form = api.FormThird
	create.Request.Reservation, create.At = "r2", w.now+api.Instant(time.Second.Milliseconds())
	w.ok(create)
	require.Equal(t, 1, w.s.events.Len())
	text := saved(t, w.s)
	_, err = Load(bytes.NewReader([]byte(text)), api.FormSecond)
	require.ErrorContains(t, err, "of form 3")
	require.Equal(t, text, saved(t, loaded(t, text)), "a snapshot has the events")

	w.form = api.FormSecond
	w.ok(command.Prune{Stamp: w.stamp(), Limit: 10})
	require.Equal(t, 1, w.s.events.Len(), "an older entry drops none")
}
