package native

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// live runs test in virtual time, in a world whose leader works.
func live(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAt(t, "zone-root", time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		w.fleet.BeginTerm()
		wg.Go(func() { w.saga.Lead(ctx) })
		wg.Go(func() { w.fleet.Lead(ctx) })
		defer wg.Wait()
		defer stop()
		test(t, w)
	})
}

// run reports every instance of a boot as running.
func (w *world) run(t *testing.T, p api.ProjectID, r api.ReservationID) {
	t.Helper()
	c := command.InstanceReport{Stamp: w.zone.Stamp(), Agent: "agent-1"}
	for _, i := range w.store.View().OfReservation(p, r) {
		c.Items = append(c.Items, api.InstanceReport{Host: i.Host, Instance: i.ID, Status: api.StatusActive})
	}
	require.NotEmpty(t, c.Items)
	w.store.Must(t, c)
}

func TestAServerIsAnsweredOnceItIsDecided(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		t.Helper()
		var got struct {
			Server      struct{ ID, Name, Status, Zone, Host string }
			Reservation string `json:"reservation_id"`
		}
		c := call{method: "POST", target: "/servers", token: member, body: order(`"reservation_id":"r-up"`)}
		w.answered(t, c, 202, &got)
		assert.Equal(t, "web", got.Server.Name)
		assert.Equal(t, "BUILD", got.Server.Status)
		assert.Equal(t, "root", got.Server.Zone)
		assert.Empty(t, got.Server.Host, "a member sees no host")
		first := got.Server.ID
		w.answered(t, c, 202, &got)
		assert.Equal(t, first, got.Server.ID, "a repeat gives the first answer")
		rec := w.do(call{method: "POST", target: "/servers", token: member, body: order(`"flavorRef":"huge"`)})
		assert.Equal(t, api.CodeUnreached.HTTPStatus(), rec.Code)
		assert.Contains(t, rec.Body.String(), "unreached: 0 of 1 could be had")
	})
}

// TestABootThatRunsIntoItsTimeoutSaysSo: its code is timeout in the answers of every
// call, whether the record has it or, as earlier releases wrote it, the sentence alone.
func TestABootThatRunsIntoItsTimeoutSaysSo(t *testing.T) {
	for name, decide := range map[string]command.BootDecide{
		"with a code": {Code: api.CodeTimeout, Reason: "it was not decided within 5s"},
		"without":     {Reason: "timeout: it was not decided within 5s"},
	} {
		w := newWorld(t)
		w.answered(t, call{method: "POST", target: "/zones/boot", token: member, body: order(`"reservation_id":"r-late"`, `"timeout":"5s"`)}, 202, nil)
		decide.Stamp, decide.Project, decide.Reservation, decide.Decision = w.zone.Stamp(), "p1", "r-late", api.DecisionAbort
		w.store.Must(t, decide)
		var got struct{ Boot rest.Boot }
		w.answered(t, call{method: "GET", target: "/zones/boot/r-late", token: member}, 200, &got)
		assert.Equal(t, api.BootFailed, got.Boot.State, name)
		assert.Equal(t, api.CodeTimeout, got.Boot.Code, name)
		assert.Equal(t, "timeout: it was not decided within 5s", got.Boot.Reason, name)
		var told struct{ Explanation rest.Explanation }
		w.answered(t, call{method: "GET", target: "/explain/r-late", token: member}, 200, &told)
		assert.Equal(t, api.CodeTimeout, told.Explanation.Code, name)
		assert.Equal(t, got.Boot.Reason, told.Explanation.Reason, name)
		w.refused(
			t, call{method: "POST", target: "/servers", token: member, body: order(`"reservation_id":"r-late"`, `"timeout":"5s"`)},
			api.CodeTimeout, "reservation r-late: timeout: it was not decided within 5s",
		)
	}
}

func TestABootCanBeWaitedFor(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		t.Helper()
		var got rest.Boot
		waited := struct{ Boot *rest.Boot }{&got}
		begun := time.Now()
		w.answered(t, call{method: "POST", target: "/zones/boot?wait=30s", token: member, body: order(`"reservation_id":"r-mine"`, `"max_count":3`)}, 202, &waited)
		assert.Equal(t, api.BootBuilding, got.State, "no agent has reported it")
		assert.Equal(t, 30*time.Second, time.Since(begun))
		assert.Equal(t, rest.BootCounts{api.StatusBuild: 3}, got.Instances)

		var wg sync.WaitGroup
		var shown struct{ Boot rest.Boot }
		var body []byte
		wg.Go(func() {
			body = w.do(call{method: "GET", target: "/zones/boot/r-mine?wait=5m", token: reader}).Body.Bytes()
		})
		synctest.Wait()
		begun = time.Now()
		w.run(t, "p1", "r-mine")
		wg.Wait()
		assert.Zero(t, time.Since(begun))
		require.NoError(t, json.Unmarshal(body, &shown))
		assert.Equal(t, api.BootActive, shown.Boot.State)
		assert.Equal(t, []rest.ZoneCounts{{Zone: "root", Counts: rest.BootCounts{api.StatusActive: 3}, Unreachable: 3}}, shown.Boot.Zones, "its hosts count as down: no agent has called for 30 s")
		for _, a := range shown.Boot.Attempts {
			assert.Equal(t, a.Wanted, a.Held+a.Refused+a.Short)
			for _, z := range a.Zones {
				assert.Equal(t, z.Wanted, z.Offered+z.Short)
			}
		}
	})
}

func TestABootThatCannotBeHadSaysWhy(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		t.Helper()
		var got rest.Boot
		waited := struct{ Boot *rest.Boot }{&got}
		before := w.store.View().Hosts().Totals()
		w.answered(t, call{method: "POST", target: "/zones/boot?wait=30s", token: member, body: order(`"max_count":100`)}, 202, &waited)
		assert.Equal(t, api.BootFailed, got.State)
		assert.Contains(t, got.Reason, "unreached: 9 of 100 could be had, 100 are needed")
		assert.Empty(t, got.Instances)
		assert.Equal(t, before, w.store.View().Hosts().Totals(), "nothing is held")
	})
}

func TestAPlanIsTakenUpExactlyOrNotAtAll(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		t.Helper()
		e := w.estimate(t, `"max_count":9`)
		require.Len(t, e.Weights[0], 9)
		w.answered(t, call{method: "POST", target: "/servers", token: other, body: order(`"max_count":5`)}, 202, nil)
		rec := w.do(take(e, `"max_count":9`, `"return_reservation_id":false`))
		assert.Equal(t, api.CodeNoCapacity.HTTPStatus(), rec.Code, "%s", rec.Body)
		assert.Empty(t, w.store.View().OfReservation("p1", api.ReservationID(e.Reservation)))
		e = w.estimate(t, `"max_count":4`)
		w.answered(t, take(e, `"max_count":4`, `"return_reservation_id":false`), 202, nil)
		assert.Len(t, w.store.View().OfReservation("p1", api.ReservationID(e.Reservation)), 4)
	})
}

func TestAServerThatIsNotDecidedInTimeMayStillCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAt(t, "zone-root", time.Now) // nobody leads
		begun := time.Now()
		rec := w.do(call{method: "POST", target: "/servers", token: member, body: order(`"reservation_id":"r-mine"`)})
		assert.Equal(t, api.CodeTimeout.HTTPStatus(), rec.Code)
		assert.Contains(t, rec.Body.String(), "see GET /zones/boot/r-mine")
		assert.Equal(t, createWait, time.Since(begun))
	})
}

func TestABootIsGivenBack(t *testing.T) {
	live(t, func(t *testing.T, w *world) {
		t.Helper()
		w.answered(t, call{method: "POST", target: "/servers", token: member, body: order(`"reservation_id":"r-mine"`)}, 202, nil)
		w.run(t, "p1", "r-mine")
		var got struct{ Boot rest.Boot }
		w.answered(t, call{method: "DELETE", target: "/zones/boot/r-mine?wait=10s", token: member}, 202, &got)
		assert.Equal(t, api.BootReleasing, got.Boot.State, "its host has not ended it")
		i := w.store.View().OfReservation("p1", "r-mine")[0]
		w.store.Must(t, command.InstanceReport{Stamp: w.zone.Stamp(), Agent: "agent-1", Items: []api.InstanceReport{
			{Host: i.Host, Instance: i.ID, Status: api.StatusDeleted},
		}})
		w.answered(t, call{method: "GET", target: "/zones/boot/r-mine", token: member}, 200, &got)
		assert.Equal(t, api.BootReleased, got.Boot.State)
	})
}

// TestALongPollEndsWithItsToken: whoever waits when his token is revoked is told so soon, and
// nothing of what he waited for.
func TestALongPollEndsWithItsToken(t *testing.T) {
	for target, c := range map[string]call{
		"boot":   {method: "GET", target: "/zones/boot/r-mine?wait=5m", token: member},
		"order":  {method: "POST", target: "/zones/boot?wait=5m", token: member, body: order(`"reservation_id":"r-other"`)},
		"server": {method: "POST", target: "/servers", token: member, body: order(`"reservation_id":"r-other"`)},
		"volume": {method: "POST", target: "/volumes", token: member, body: `{"volume":{"name":"a","size":1}}`},
	} {
		t.Run(target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldAt(t, "zone-root", time.Now) // nobody leads
				w.do(call{method: "POST", target: "/zones/boot", token: member, body: order(`"reservation_id":"r-mine"`)})
				var wg sync.WaitGroup
				begun := time.Now()
				wg.Go(func() {
					rec := w.do(c)
					assert.Equal(t, http.StatusUnauthorized, rec.Code, "%s", rec.Body)
					assert.NotContains(t, rec.Body.String(), "r-")
				})
				synctest.Wait()
				w.store.Must(t, command.TokenDelete{Stamp: w.zone.Stamp(), ID: "member"})
				wg.Wait()
				assert.LessOrEqual(t, time.Since(begun), time.Second)
			})
		})
	}
}
