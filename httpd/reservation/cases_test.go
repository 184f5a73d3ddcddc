package reservation

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/zone/fleet"
)

// sized asks for room for instances of a size, on hosts that meet a condition.
func sized(amount, vcpus, memoryMB int, affinity, condition string) string {
	return fmt.Sprintf(`{"resource_type": "virtual:instance", "amount": %d, "vcpus": %d, "memory_mb": %d, "disk_gb": 1, "affinity": %s, "resource_properties": %q}`,
		amount, vcpus, memoryMB, affinity, condition)
}

// put changes a lease and returns the status and the lease.
func (w *living) put(l map[string]any, body string, args ...any) (int, map[string]any) {
	w.t.Helper()
	status, out := w.call(http.MethodPut, leasePath(l), fmt.Sprintf(body, args...))
	now, _ := out["lease"].(map[string]any)
	return status, now
}

// see returns a lease as it is now.
func (w *living) see(l map[string]any) map[string]any {
	w.t.Helper()
	synctest.Wait()
	status, out := w.call(http.MethodGet, leasePath(l), "")
	require.Equal(w.t, http.StatusOK, status)
	return out["lease"].(map[string]any)
}

func leasePath(l map[string]any) string { return "/leases/" + l["id"].(string) }

// eventOf returns the time and the status of an event of a lease.
func eventOf(l map[string]any, kind string) (at, status string) {
	for _, e := range l["events"].([]any) {
		if e := e.(map[string]any); e["event_type"] == kind {
			return e["time"].(string), e["status"].(string)
		}
	}
	return "", ""
}

// flags returns what is said of the first reservation of a lease, and of the lease.
func flags(l map[string]any) string {
	r := reservationsOf(l)[0]
	return fmt.Sprintf("missing %v, changed %v, degraded %v", r["missing_resources"], r["resources_changed"], l["degraded"])
}

// Cases 34 and 35: memory and disk bound the room as processors do, and slots are packed.
func TestSlotsByMemory(t *testing.T) {
	live(t, func(w *living) {
		w.refused(10, 20, sized(2, 1, 9*1024, "true", ""))
		assert.Equal(t, map[string]int{"compute-1": 1, "compute-2": 1}, w.on(w.accepted(10, 20, sized(2, 1, 9*1024, "null", ""))[0]))

		first := w.on(w.accepted(30, 40, sized(1, 1, 1, "null", ""))[0])
		assert.Equal(t, first, w.on(w.accepted(30, 40, sized(1, 1, 1, "null", ""))[0]), "they share a host")
		other := w.on(w.accepted(30, 40, wholeHosts(1, 1, ""))[0])
		require.Len(t, other, 1)
		assert.NotEqual(t, first, other)

		assert.Equal(t, map[string]int{"compute-2": 2}, w.on(w.accepted(50, 60, sized(2, 1, 1, "null", `["==", "$ssd", "true"]`))[0]))
		w.refused(50, 60, sized(1, 1, 1, "null", `["==", "$gpu", "A"]`))
	}, "", "ssd=true")
}

// Case 37: 60 VCPU and 240 GB of memory for three months, once.
func TestASummer(t *testing.T) {
	const day = 24 * 60
	live(t, func(w *living) {
		summer := sized(60, 1, 4096, "null", "")
		assert.Len(t, w.on(w.accepted(30*day, 122*day, summer)[0]), 8)
		w.refused(30*day, 122*day, summer)
		w.refused(121*day, 123*day, summer)
		w.accepted(122*day, 123*day, summer)
	}, slices.Repeat([]string{"memory=65536"}, 8)...)
}

// Case 42: many lists at once.
func TestListsAtOnce(t *testing.T) {
	live(t, func(w *living) {
		w.accepted(10, 20, room(1, 1, "null"))
		codes := make(chan int, 10)
		for range cap(codes) {
			go func() {
				rec := httptest.NewRecorder()
				w.at.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, Mount+root+"/leases", http.NoBody))
				codes <- rec.Code
			}()
		}
		for range cap(codes) {
			assert.Equal(t, http.StatusOK, <-codes)
		}
	}, "")
}

// Case 43: one lease takes over all hosts of another.
func TestLeasesFollowEachOther(t *testing.T) {
	live(t, func(w *living) {
		_, a := w.lease(1, 2, wholeHosts(2, 2, ""))
		_, b := w.lease(2, 6, wholeHosts(2, 2, ""))
		await.Sleep(90 * time.Second)
		assert.Equal(t, "ACTIVE", w.see(a)["status"])
		assert.Equal(t, "PENDING", w.see(b)["status"])
		await.Sleep(time.Minute)
		assert.Equal(t, "TERMINATED", w.see(a)["status"])
		assert.Equal(t, "ACTIVE", w.see(b)["status"])
	}, "", "")
}

// Case 52: what a lease had is free as soon as it is deleted.
func TestRoomOfADeletedLease(t *testing.T) {
	live(t, func(w *living) {
		_, l := w.lease(0, 60, wholeHosts(2, 2, ""))
		await.Sleep(time.Second)
		require.Equal(t, "ACTIVE", w.see(l)["status"])
		w.refused(30, 40, room(1, 1, "null"))
		status, _ := w.call(http.MethodDelete, leasePath(l), "")
		require.Equal(t, http.StatusNoContent, status)
		status, _ = w.call(http.MethodGet, leasePath(l), "")
		assert.Equal(t, http.StatusNotFound, status)
		w.accepted(30, 40, wholeHosts(2, 2, ""))
	}, "", "")
}

// Case 54: the event before the end happens again, as long before the new end.
func TestEndsSoonAgain(t *testing.T) {
	live(t, func(w *living) {
		_, l := w.lease(0, 120, room(1, 1, "null"))
		await.Sleep(61 * time.Minute)
		at, status := eventOf(w.see(l), "before_end_lease")
		assert.Equal(t, []string{"2000-01-01T01:00:00.000000", "DONE"}, []string{at, status})
		code, _ := w.put(l, `{"end_date": %q}`, date(120))
		require.Equal(t, http.StatusOK, code)
		at, status = eventOf(w.see(l), "before_end_lease")
		assert.Equal(t, []string{"2000-01-01T02:01:00.000000", "UNDONE"}, []string{at, status})
		await.Sleep(61 * time.Minute)
		_, status = eventOf(w.see(l), "before_end_lease")
		assert.Equal(t, "DONE", status)
	}, "")
}

// Case 58: a lease that has not begun moves when it grows into another one; one that has begun
// keeps its hosts, and is refused.
func TestLeasesThatGrowIntoOthers(t *testing.T) {
	live(t, func(w *living) {
		_, l := w.lease(60, 120, wholeHosts(1, 1, ""))
		was := w.on(reservationsOf(l)[0])
		only := wholeHosts(1, 1, fmt.Sprintf(`["==", "$hypervisor_hostname", %q]`, slices.Collect(maps.Keys(was))[0]))
		_, next := w.lease(120, 180, only)
		code, now := w.put(l, `{"end_date": %q}`, date(150))
		require.Equal(t, http.StatusOK, code)
		assert.NotEqual(t, was, w.on(reservationsOf(now)[0]))
		assert.Equal(t, "missing false, changed false, degraded false", flags(w.see(l)))
		assert.Equal(t, was, w.on(reservationsOf(next)[0]))

		_, begun := w.lease(0, 30, only)
		_, after := w.lease(30, 50, only)
		await.Sleep(time.Second)
		require.Equal(t, "ACTIVE", w.see(begun)["status"])
		before := untouched(w.see(begun))
		code, _ = w.put(begun, `{"end_date": %q}`, date(40))
		assert.Equal(t, http.StatusConflict, code)
		assert.Equal(t, before, untouched(w.see(begun)))
		assert.Equal(t, was, w.on(reservationsOf(after)[0]))
	}, "", "")
}

// untouched returns a lease without when something was asked of it last, also if that was refused.
func untouched(l map[string]any) map[string]any {
	delete(l, "updated_at")
	for _, r := range reservationsOf(l) {
		delete(r, "updated_at")
	}
	return l
}

// Case 60: a lease that has begun gets more hosts at once, and gives none back.
func TestHostsAreAdded(t *testing.T) {
	live(t, func(w *living) {
		_, l := w.lease(0, 60, wholeHosts(1, 1, ""))
		await.Sleep(time.Second)
		was := w.on(reservationsOf(w.see(l))[0])
		id := reservationsOf(l)[0]["id"]
		code, _ := w.put(l, `{"reservations": [{"id": %q, "min": 2, "max": 2}]}`, id)
		require.Equal(t, http.StatusOK, code)
		await.Sleep(time.Second)
		now := w.on(reservationsOf(w.see(l))[0])
		assert.Len(t, now, 2)
		for host := range was {
			assert.Contains(t, now, host)
		}
		assert.Equal(t, "active", reservationsOf(w.see(l))[0]["status"])
		code, _ = w.put(l, `{"reservations": [{"id": %q, "min": 1, "max": 1}]}`, id)
		assert.Equal(t, http.StatusConflict, code)
		assert.Equal(t, now, w.on(reservationsOf(w.see(l))[0]))
	}, "", "", "")
}

// lose silences the agent of a host for as long as it takes until the zone has noticed.
func (w *living) lose(host string) {
	w.silent.Store(host, true)
	await.Sleep(2 * fleet.HostGraceDefault)
}

// back lets the agent of a host be heard again.
func (w *living) back(host string) {
	w.silent.Delete(host)
	await.Sleep(2 * fleet.HostGraceDefault)
}

// only returns the one host of a lease.
func (w *living) only(l map[string]any) string {
	w.t.Helper()
	on := w.on(reservationsOf(w.see(l))[0])
	require.Len(w.t, on, 1)
	return slices.Collect(maps.Keys(on))[0]
}

// Case 65: the host of a lease is lost, with another one free and with none.
func TestHostsAreLost(t *testing.T) {
	live(t, func(w *living) {
		_, soon := w.lease(30, 60, wholeHosts(1, 1, ""))
		was := w.only(soon)
		w.lose(was)
		assert.NotEqual(t, was, w.only(soon))
		assert.Equal(t, "missing false, changed false, degraded false", flags(w.see(soon)))

		w.lose(w.only(soon))
		assert.Equal(t, "missing true, changed false, degraded true", flags(w.see(soon)), "none is free")
		w.refused(70, 80, room(1, 1, "null")) // case 69: all hosts are down
		w.back(was)
		assert.Equal(t, was, w.only(soon))
		assert.Equal(t, "missing false, changed false, degraded false", flags(w.see(soon)))
	}, "", "")
	live(t, func(w *living) {
		_, l := w.lease(0, 60, wholeHosts(1, 1, ""))
		await.Sleep(time.Second)
		require.Equal(t, "ACTIVE", w.see(l)["status"])
		was := w.only(l)
		w.lose(was)
		assert.NotEqual(t, was, w.only(l))
		assert.Equal(t, "missing false, changed true, degraded true", flags(w.see(l)))
		w.lose(w.only(l))
		assert.Equal(t, "missing true, changed true, degraded true", flags(w.see(l)))
	}, "", "")
}

// Case 66: a lease that begins later keeps its host while that may come back.
func TestHostsThatComeBack(t *testing.T) {
	for _, back := range []bool{true, false} {
		live(t, func(w *living) {
			_, l := w.lease(180, 240, wholeHosts(1, 1, ""))
			was := w.only(l)
			w.lose(was)
			await.Sleep(100 * time.Minute)
			assert.Equal(t, was, w.only(l), "it begins later than in an hour")
			if back {
				w.back(was)
			}
			await.Sleep(25 * time.Minute)
			assert.Equal(t, back, was == w.only(l))
			assert.Equal(t, "missing false, changed false, degraded false", flags(w.see(l)))
		}, "", "")
	}
}

// Case 5, and the rest of case 29: numbers may be texts.
func TestNumbersAsTexts(t *testing.T) {
	live(t, func(w *living) {
		r := w.accepted(10, 20, strings.ReplaceAll(room(2, 1, "null"), `"amount": 2`, `"amount": "2"`))[0]
		assert.InEpsilon(t, 2, r["amount"], 0)
		r = w.accepted(10, 20, `{"resource_type": "physical:host", "min": "1", "max": "1", "resource_properties": ""}`)[0]
		assert.InEpsilon(t, 1, r["min"], 0)
	}, "", "")
}
