package native

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
	"berth/lease"
	"berth/raftstore/command"
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
