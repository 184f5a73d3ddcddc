package reservation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/buildplan/seal"
	"berth/httpd/door"
	"berth/httpd/openstack/openstacktest"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/leases"
	"berth/zone/saga"
)

// ring has one key for plans.
type ring seal.Key

func (r ring) Ring(*state.State) (seal.Keyring, error) { return seal.Keyring{seal.Key(r)}, nil }

// living is a zone whose leader works, with leases that are real.
type living struct {
	t      *testing.T
	at     http.Handler
	v      func() *state.State
	silent *sync.Map // hosts whose agents are silent
}

// live runs test in virtual time, on a zone with hosts of 8 VCPU, 16 GiB and 200 GB that
// leases may use; each host has the attributes that are given for it, as "name=value", and in place
// of its memory what is given as "memory=MB".
func live(t *testing.T, test func(w *living), hosts ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, log := memstore.New(), slog.New(slog.DiscardHandler)
		z := zone.New(zone.Config{Store: openstacktest.Logged{Store: store, TB: t}, Now: time.Now, Log: log})
		e := estimate.New(estimate.Config{Zone: z, Keys: ring{Epoch: [4]byte{1}, Secret: [32]byte{2}}})
		s := saga.New(saga.Config{Zone: z, Estimator: e})
		f := fleet.New(z, e)
		l := leases.New(z, e, f)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.Lead(ctx) })
		wg.Go(func() { l.Lead(ctx) })
		wg.Go(func() { f.Lead(ctx) })
		defer wg.Wait()
		defer stop()
		cmds := []command.Command{command.Init{Stamp: z.Stamp(), Zone: "zone-root", Name: "root"}}
		silent := sync.Map{} // hosts that are lost
		for i, attributes := range hosts {
			h := api.AgentHost{
				Name: fmt.Sprintf("compute-%d", i+1), Driver: "fake", Pool: api.PoolReservable, Attributes: map[string]string{},
				Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}, api.MemoryMB: {Total: 16_384}, api.DiskGB: {Total: 200}},
			}
			for pair := range strings.FieldsSeq(attributes) {
				name, value, _ := strings.Cut(pair, "=")
				if mb, err := strconv.ParseInt(value, 10, 64); err == nil && name == "memory" {
					h.Inventory[api.MemoryMB] = api.Inventory{Total: mb}
					continue
				}
				h.Attributes[name] = strings.ReplaceAll(value, "_", " ")
			}
			cmds = append(cmds, command.HostsPut{
				Stamp: z.Stamp(), Agent: api.AgentID(h.Name), Hosts: []command.HostEntry{{ID: api.HostID(fmt.Sprintf("host-%d", i+1)), Host: h}},
			})
		}
		store.Must(t, cmds...)
		wg.Go(func() {
			for ; ctx.Err() == nil; await.Sleep(fleet.AgentBeat) {
				for _, h := range store.View().AllHosts() {
					if _, lost := silent.Load(h.Name); !lost {
						_, err := f.Work(ctx, h.Agent, &api.AgentWork{})
						assert.NoError(t, err)
					}
				}
			}
		})
		test(&living{t: t, v: store.View, silent: &silent, at: New(Config{Leases: l, Book: Records{}, Door: door.Config{
			Zone: z, Log: log, Now: time.Now, Leader: func() bool { return true }, Insecure: true,
		}})})
	})
}

// call makes a call and returns its status and its body.
func (w *living) call(method, path, body string) (int, map[string]any) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.at.ServeHTTP(rec, httptest.NewRequest(method, Mount+root+path, strings.NewReader(body)))
	var out map[string]any
	if rec.Body.Len() > 0 {
		require.NoError(w.t, json.Unmarshal(rec.Body.Bytes(), &out))
	}
	require.Less(w.t, rec.Code, http.StatusInternalServerError, "%s %s: %v", method, path, out)
	return rec.Code, out
}

// date returns a date some minutes from now.
func date(minutes int) string {
	return string(rest.LeaseDateOf(api.InstantOf(time.Now().Add(time.Duration(minutes) * time.Minute))))
}

// lease asks for a lease over some minutes from now, and returns the status and the lease.
func (w *living) lease(from, to int, reservations ...string) (int, map[string]any) {
	w.t.Helper()
	status, out := w.call(http.MethodPost, "/leases", fmt.Sprintf(`{"name": "a", "start_date": %q, "end_date": %q, "reservations": [%s]}`,
		date(from), date(to), strings.Join(reservations, ",")))
	l, _ := out["lease"].(map[string]any)
	return status, l
}

// accepted is lease for one that must be made; it returns its reservations.
func (w *living) accepted(from, to int, reservations ...string) []map[string]any {
	w.t.Helper()
	status, l := w.lease(from, to, reservations...)
	require.Equal(w.t, http.StatusCreated, status)
	require.Equal(w.t, "PENDING", l["status"])
	return reservationsOf(l)
}

func reservationsOf(l map[string]any) []map[string]any {
	var out []map[string]any
	for _, r := range l["reservations"].([]any) {
		out = append(out, r.(map[string]any))
	}
	return out
}

// refused is lease for one that finds no room, and must leave nothing behind.
func (w *living) refused(from, to int, reservations ...string) {
	w.t.Helper()
	before := w.slots()
	status, _ := w.lease(from, to, reservations...)
	require.Equal(w.t, http.StatusConflict, status)
	require.Equal(w.t, before, w.slots())
}

// slots returns how many slots each host has, by their reservation.
func (w *living) slots() map[string]map[string]int {
	w.t.Helper()
	names := map[string]string{}
	_, out := w.call(http.MethodGet, "/os-hosts", "")
	for _, h := range out["hosts"].([]any) {
		names[h.(map[string]any)["id"].(string)] = h.(map[string]any)["hypervisor_hostname"].(string)
	}
	found := map[string]map[string]int{}
	_, out = w.call(http.MethodGet, "/os-hosts/allocations", "")
	for _, a := range out["allocations"].([]any) {
		for _, r := range a.(map[string]any)["reservations"].([]any) {
			name := names[a.(map[string]any)["resource_id"].(string)]
			if found[name] == nil {
				found[name] = map[string]int{}
			}
			found[name][r.(map[string]any)["id"].(string)]++
		}
	}
	return found
}

// on returns the hosts of a reservation with the number of its slots there.
func (w *living) on(r map[string]any) map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for name, of := range w.slots() {
		if n := of[r["id"].(string)]; n > 0 {
			out[name] = n
		}
	}
	return out
}

// wholeHosts asks for whole hosts under a condition.
func wholeHosts(least, most int, condition string) string {
	return fmt.Sprintf(`{"resource_type": "physical:host", "min": %d, "max": %d, "resource_properties": %q}`, least, most, condition)
}

// room asks for room for instances.
func room(amount, vcpus int, affinity string) string {
	return fmt.Sprintf(`{"resource_type": "virtual:instance", "amount": %d, "vcpus": %d, "memory_mb": 1, "disk_gb": 1, "affinity": %s}`, amount, vcpus, affinity)
}

// Cases 13 and 15 to 20: how many hosts, and which.
func TestLeasesOfWholeHosts(t *testing.T) {
	live(t, func(w *living) {
		assert.Len(t, w.on(w.accepted(10, 20, wholeHosts(1, 1, ""))[0]), 1)
		all := w.accepted(30, 40, wholeHosts(1, 5, ""))[0]
		assert.Len(t, w.on(all), 4, "as many as there are")
		assert.InEpsilon(t, 4, all["allocated"], 0)
		w.refused(50, 60, wholeHosts(5, 6, ""))
		w.refused(30, 40, wholeHosts(1, 1, ""))
		assert.Equal(t, map[string]int{"compute-3": 1}, w.on(w.accepted(50, 60, wholeHosts(1, 1, `["==", "$hypervisor_hostname", "compute-3"]`))[0]))
		w.refused(50, 60, wholeHosts(1, 1, `[">=", "$vcpus", "9"]`))
		assert.Len(t, w.on(w.accepted(70, 80, wholeHosts(1, 5, `[">=", "$vcpus", "8"]`))[0]), 4)
	}, "", "", "", "")
	live(t, func(w *living) {
		for n, c := range []struct{ condition, host string }{
			{`["==", "$gpu", "A"]`, "compute-1"},
			{`["!=", "$gpu", "A"]`, ""},
			{`["==", "$unknown", "A"]`, ""},
			{`[">=", "$ram", "10"]`, "compute-2"},
			{`["==", "$zone", "a b"]`, "compute-3"},
			{`["==", "$architecture.smt_size", "2"]`, "compute-3"},
			{`["or", ["==", "$ram", "9"], ["and", ["==", "$gpu", "A"], ["==", "$ram", "9"]]]`, "compute-1"},
		} {
			from := 10 + 20*n
			if c.host == "" {
				w.refused(from, from+10, wholeHosts(1, 1, c.condition))
				continue
			}
			assert.Equal(t, map[string]int{c.host: 1}, w.on(w.accepted(from, from+10, wholeHosts(1, 5, c.condition))[0]), c.condition)
		}
	}, "gpu=A ram=9", "ram=10", "zone=a_b architecture.smt_size=2")
}

// Cases 21, 24, 32, 33 and 36: leases beside and after each other.
func TestLeasesShareTime(t *testing.T) {
	live(t, func(w *living) {
		w.accepted(60, 120, wholeHosts(1, 1, ""))
		w.refused(90, 150, wholeHosts(1, 1, ""))
		w.refused(90, 150, room(1, 1, "null"))
		w.accepted(120, 150, wholeHosts(1, 1, ""))
		w.accepted(30, 60, room(1, 8, "null"))
		w.accepted(150, 210, room(1, 4, "null"))
		w.accepted(240, 270, room(1, 4, "null"))
		w.accepted(150, 270, room(1, 4, "null"))
		w.refused(150, 270, room(1, 1, "null"))
		w.accepted(215, 235, room(4, 1, "null"))
		w.refused(300, 310, wholeHosts(1, 1, ""), room(1, 1, "null"))
	}, "")
}

// Cases 25 to 27 and 34 to 36: slots by affinity.
func TestSlotsByAffinity(t *testing.T) {
	live(t, func(w *living) {
		assert.Len(t, w.on(w.accepted(10, 20, room(2, 1, "false"))[0]), 2)
		w.refused(10, 20, room(3, 1, "false"))
		assert.Len(t, w.on(w.accepted(30, 40, room(8, 1, "true"))[0]), 1)
		w.refused(50, 60, room(9, 1, "true"))
		w.accepted(50, 60, room(16, 1, "null"))
		w.refused(70, 80, room(17, 1, "null"))
		both := w.accepted(70, 80, wholeHosts(1, 1, ""), room(2, 4, "null"))
		first, second := w.on(both[0]), w.on(both[1])
		require.Len(t, first, 1)
		require.Len(t, second, 1)
		assert.NotEqual(t, first, second)
	}, "", "")
}

// Cases 3, 6, 47, 50 to 52: a life.
func TestALeaseLives(t *testing.T) {
	live(t, func(w *living) {
		status := func(path string) any {
			t.Helper()
			code, out := w.call(http.MethodGet, path, "")
			if code != http.StatusOK {
				return code
			}
			return out["lease"].(map[string]any)["status"]
		}
		code, l := w.lease(-5, 60)
		assert.Equal(t, http.StatusBadRequest, code)
		assert.Nil(t, l)
		_, empty := w.lease(2, 4)
		_, soon := w.lease(2, 4, room(1, 8, "null"))
		none, one := "/leases/"+empty["id"].(string), "/leases/"+soon["id"].(string)
		await.Sleep(150 * time.Second)
		assert.Equal(t, "ACTIVE", status(none))
		assert.Equal(t, "ACTIVE", status(one))
		_, out := w.call(http.MethodGet, one, "")
		assert.Equal(t, "active", reservationsOf(out["lease"].(map[string]any))[0]["status"])
		await.Sleep(2 * time.Minute)
		assert.Equal(t, "TERMINATED", status(none))
		assert.Equal(t, "TERMINATED", status(one))
		code, _ = w.call(http.MethodPut, one, fmt.Sprintf(`{"end_date": %q}`, date(60)))
		assert.Equal(t, http.StatusBadRequest, code)
		code, _ = w.call(http.MethodPut, one, `{"name": "past"}`)
		assert.Equal(t, http.StatusOK, code)

		code, l = w.lease(0, 60, wholeHosts(1, 1, ""))
		require.Equal(t, http.StatusCreated, code)
		await.Sleep(time.Second)
		one = "/leases/" + l["id"].(string)
		assert.Equal(t, "ACTIVE", status(one))
		code, _ = w.call(http.MethodPut, one, `{"end_date": "now"}`)
		assert.Equal(t, http.StatusOK, code)
		await.Sleep(time.Second)
		assert.Equal(t, "TERMINATED", status(one))

		_, out = w.call(http.MethodGet, "/os-hosts", "")
		host := "/os-hosts/" + out["hosts"].([]any)[0].(map[string]any)["id"].(string)
		_, l = w.lease(0, 60, wholeHosts(1, 1, `["==", "$gpu", "A"]`))
		one = "/leases/" + l["id"].(string)
		code, out = w.call(http.MethodPut, host, `{"gpu": "B", "new": "1"}`)
		assert.Equal(t, http.StatusConflict, code, "%v", out)
		code, _ = w.call(http.MethodDelete, host, "")
		assert.Equal(t, http.StatusConflict, code)
		code, _ = w.call(http.MethodDelete, one, "")
		assert.Equal(t, http.StatusNoContent, code)
		assert.Equal(t, http.StatusNotFound, status(one))
		assert.Empty(t, w.slots())
		code, _ = w.call(http.MethodDelete, host, "")
		assert.Equal(t, http.StatusNoContent, code)
		h, _ := w.v().HostByName("compute-1")
		assert.Equal(t, api.PoolOnDemand, h.Pool)
	}, "gpu=A")
}

// Case 46: leases that start in the same minute are all ACTIVE soon after, each started once.
func TestLeasesOfOneMinute(t *testing.T) {
	const many = 100
	live(t, func(w *living) {
		for n := range many {
			if n%2 == 0 {
				w.accepted(10, 20, wholeHosts(1, 1, ""))
			} else {
				w.accepted(10, 20, room(8, 4, "null"))
			}
		}
		await.Sleep(10*time.Minute + 2*time.Second)
		_, out := w.call(http.MethodGet, "/leases", "")
		require.Len(t, out["leases"], many)
		for _, l := range out["leases"].([]any) {
			assert.Equal(t, "ACTIVE", l.(map[string]any)["status"])
		}
		list, whole := w.v().Events(api.EventID{}, math.MaxInt)
		require.True(t, whole)
		started := map[api.LeaseID]int{}
		for _, e := range list {
			if e.Kind == state.EventLeaseStarted {
				started[e.Lease]++
			}
		}
		assert.Len(t, started, many)
		for id, n := range started {
			assert.Equal(t, 1, n, id)
		}
	}, make([]string, 300)...)
}
