package native

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/await"
	"berth/lease"
	"berth/raftstore/command"
	"berth/zone/leases"
)

// placePreemptible makes a preemptible instance of p1 on host-3.
func (w *world) placePreemptible(tb testing.TB, name string) {
	tb.Helper()
	req, at := request("p1", api.ReservationID("r-"+name)), w.zone.Stamp()
	req.Class, req.Way, req.OnPreempt = api.Preemptible, api.PreemptByFlavor, api.PreemptRequeue
	spec := api.InstanceSpec{ID: api.InstanceID("id-" + name), Name: name}
	w.store.Must(
		tb, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte(name), Name: name, Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}},
		command.Hold{
			Stamp: at, ID: api.HoldID("hold-" + name), Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: spec, Host: "host-id-3"}},
		},
	)
}

// reserve makes the lease l of p2 with the reservation r, which has the whole host host-3.
func (w *world) reserve(tb testing.TB, window api.Window) {
	tb.Helper()
	at, spec := w.zone.Stamp(), api.InstanceSpec{ID: "slot", Name: "slot"}
	req := api.Request{
		Reservation: "order", Project: "p2", User: "u", Class: api.Firm, Window: window, Reserves: true,
		Groups: []api.Group{{Name: "r", Count: 1, Min: 1, Whole: true}},
	}
	terms := api.LeaseTerms{
		ID: "l", Name: "l", Project: "p2", User: "u", Window: window,
		Reservations: []api.Reservation{{ID: "r", Type: api.ReserveHosts, Min: 1, Max: 1}},
	}
	events := lease.Events(&terms, api.PreemptGraceDefault, at.At, lease.EventIDs{BeforeStart: "a", Start: "b", End: "c"})
	order := command.BootTerms{Name: "l", Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}
	w.store.Must(
		tb, command.LeaseCreate{Stamp: at, Terms: terms, Events: events, Order: &order, Digest: []byte("l")},
		command.Hold{
			Stamp: at, ID: "hold-order", Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: spec, Host: "host-id-3"}},
		},
	)
}

func TestListsOfPreemptibleServers(t *testing.T) {
	w := newWorld(t)
	w.placePreemptible(t, "batch")
	for query, want := range map[string][]string{
		"": {"batch", "far", "web"}, "?preemptible=true": {"batch"}, "?preemptible=false": {"far", "web"}, "?preemptible=true&name=web": nil,
	} {
		var got []string
		for _, path := range []string{"/servers", "/servers/detail"} {
			var a struct {
				Servers []rest.ServerSummary `json:"servers"`
			}
			w.answered(t, call{method: "GET", target: path + query, token: reader}, http.StatusOK, &a)
			got = nil
			for _, s := range a.Servers {
				got = append(got, s.Name)
			}
			assert.ElementsMatch(t, want, got, path+query)
		}
	}
	for _, bad := range []string{"yes", "1"} {
		w.refused(t, call{method: "GET", target: "/servers?preemptible=" + bad, token: reader}, api.CodeInvalid, "preemptible must be true or false")
	}
	var a struct {
		Server rest.Server `json:"server"`
	}
	w.answered(t, call{method: "GET", target: "/servers/id-web", token: reader}, http.StatusOK, &a)
	assert.Zero(t, a.Server.Preempted)
	w.answered(t, call{method: "GET", target: "/servers/id-batch", token: reader}, http.StatusOK, &a)
	assert.True(t, a.Server.Preemptible)
	assert.Equal(t, []any{api.PreemptByFlavor, api.PreemptRequeue}, []any{a.Server.By, a.Server.OnPreempt})
	var b struct {
		Boot rest.Boot `json:"boot"`
	}
	w.answered(t, call{method: "GET", target: "/zones/boot/r-batch", token: reader}, http.StatusOK, &b)
	assert.Equal(t, a.Server.PreemptTerms, b.Boot.PreemptTerms, "its boot says the same")
	assert.Nil(t, a.Server.Eviction)
	assert.Equal(t, api.Forever, a.Server.Until)

	window := api.Window{Start: w.zone.Instant().Add(time.Hour), End: w.zone.Instant().Add(2 * time.Hour)}
	w.reserve(t, window)
	w.answered(t, call{method: "GET", target: "/servers/id-batch", token: reader}, http.StatusOK, &a)
	assert.Equal(t, window.Start.Add(-api.PreemptGraceDefault), a.Server.Until)
}

// servers returns the servers that a caller finds.
func (w *world) servers(tb testing.TB, token, query string) []rest.Server {
	tb.Helper()
	var a struct {
		Servers []rest.Server `json:"servers"`
	}
	w.answered(tb, call{method: "GET", target: "/servers/detail?" + query, token: token}, http.StatusOK, &a)
	return a.Servers
}

// Preemptibles leave a host for a lease of somebody else, and another for a firm boot: each
// says for what, since when and until when.
func TestServersSayWhatTheyMustLeaveFor(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		t.Helper()
		l := leases.New(w.zone, w.estimator, w.fleet)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { l.Lead(ctx) })
		defer wg.Wait()
		defer stop()
		const soft = `"reservation_id":"r-soft","max_count":9,"scheduler_hints":{"preemptible":true},"on_preempt":"notify"`
		w.answered(t, call{method: "POST", target: "/zones/boot", token: member, body: order(soft)}, http.StatusAccepted, nil)
		synctest.Wait()
		w.run(t, "p1", "r-soft")
		require.Len(t, w.servers(t, reader, "preemptible=true"), 9)

		begun := w.zone.Instant()
		start := begun.Add(api.PreemptGraceDefault + 5*time.Second)
		w.reserve(t, api.Window{Start: start, End: start.Add(time.Hour)})
		until := map[api.Instant]int{}
		for _, s := range w.servers(t, reader, "preemptible=true") {
			until[s.Until]++
			assert.Nil(t, s.Eviction)
		}
		assert.Equal(t, map[api.Instant]int{begun.Add(5 * time.Second): 4, api.Forever: 5}, until)

		await.Sleep(5 * time.Second)
		synctest.Wait()
		left := w.servers(t, reader, "preemptible=true&status=DELETING")
		require.Len(t, left, 4)
		for _, s := range left {
			assert.Equal(t, &rest.Eviction{
				For: rest.EvictedForLease, Reservation: "r", Lease: "l", At: begun.Add(5 * time.Second), Deadline: start,
			}, s.Eviction)
			assert.Equal(t, api.PreemptNotify, s.OnPreempt)
			assert.Zero(t, s.Until, "it is leaving")
		}

		w.refused(
			t, call{method: "POST", target: "/servers", token: member, body: order(`"preempt":true`)}, api.CodeForbidden, "preempt needs the role admin",
		)
		w.answered(t, call{method: "POST", target: "/servers", token: admin, body: order(`"reservation_id":"r-firm","preempt":true`)}, http.StatusAccepted, nil)
		synctest.Wait()
		var forBoot []*rest.Eviction
		for _, s := range w.servers(t, reader, "preemptible=true&status=DELETING") {
			if s.Eviction.For == rest.EvictedForBoot {
				forBoot = append(forBoot, s.Eviction)
			}
		}
		at := begun.Add(5 * time.Second)
		assert.Equal(t, []*rest.Eviction{{For: rest.EvictedForBoot, Reservation: "r-firm", At: at, Deadline: at.Add(api.PreemptGraceDefault)}}, forBoot)
		assert.Empty(t, w.servers(t, other, "preemptible=true"), "of another project")
	})
}
