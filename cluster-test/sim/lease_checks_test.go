package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
	"berth/raftstore/state"
)

// clerk is the external service of a zone. It allows everything, and every third end that it
// is told is not confirmed.
type clerk struct {
	mu    sync.Mutex // guards the fields below
	asked map[string]int
	told  map[api.LeaseID]map[api.LeaseOutcome]int
	bad   []string
	ends  int
}

const clerkHost = "127.9.0.3"

// serve answers the zone until stop is called.
func (o *clerk) serve(z *zone, wg *sync.WaitGroup) (stop func()) {
	w := z.w
	host := w.net.Host(clerkHost)
	host.Up()
	ln, err := host.Listen(w.ctx, clerkHost+":80")
	require.NoError(w.t, err)
	server := http.Server{Handler: o}
	wg.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			w.fail("the external service ended: %v", err)
		}
	})
	return func() { _ = server.Close() }
}

// ServeHTTP implements http.Handler.
func (o *clerk) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var b rest.LeaseCheckCall
	err := json.NewDecoder(r.Body).Decode(&b)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || r.Header.Get("X-Auth-Token") != "a-token" {
		o.bad = append(o.bad, fmt.Sprintf("%s: %v", r.URL.Path, err))
	}
	o.asked[r.URL.Path]++
	if r.URL.Path == "/checks/on-end" {
		o.ends++
		if o.told[b.Lease.ID] == nil {
			o.told[b.Lease.ID] = map[api.LeaseOutcome]int{}
		}
		if o.ends%3 == 2 { // which is not the same as not having heard it
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		o.told[b.Lease.ID][b.Lease.Outcome]++
	}
	rw.WriteHeader(http.StatusNoContent)
}

// TestEndsOfLeasesAreTold although the leader is killed at each step of telling one: the
// external service hears of every end at least once, with its one outcome.
func TestEndsOfLeasesAreTold(t *testing.T) {
	for _, p := range dice.Part(t, crash.LeaseEndPoints(), 1) {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkStory(t, p) })
		})
	}
}

func checkStory(t *testing.T, p crash.Point) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), alone)
	z, ten := w.root(), newTenancy()
	o := &clerk{asked: map[string]int{}, told: map[api.LeaseID]map[api.LeaseOutcome]int{}}
	z.insist("config", func(ctx context.Context, c *client.Client) error {
		conf, err := c.Config(ctx)
		if err == nil {
			conf.WebhookNetworks = []string{"127.9.0.0/16"}
			conf.Leases.Check = &rest.LeaseCheck{URL: "http://" + clerkHost + "/checks/", Token: new("a-token")}
			_, err = c.SetConfig(ctx, conf)
		}
		return err
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer o.serve(z, &wg)()
	s := &shot{left: 2}
	for _, one := range z.nodes {
		one.bomb.arm(p, 0, func() { s.hit(func() { one.down(pointRest) }) })
	}
	want := map[api.LeaseID]api.LeaseOutcome{}
	for round := range 3 {
		z.insistLease(ten, leaseOf(fmt.Sprint("short-", round), 1, 1, 1))
		z.insistLease(ten, leaseOf(fmt.Sprint("long-", round), 1, 10, 10))
		short, long := ten.made[len(ten.made)-2], ten.made[len(ten.made)-1]
		want[short], want[long] = api.LeaseOutcomeEnded, api.LeaseOutcomeDeleted
		z.until("it is over", func(v *state.State) bool {
			l, ok := v.Lease(short)
			return ok && l.Status == api.LeaseTerminated
		})
		z.insist("delete", func(ctx context.Context, c *client.Client) error {
			err := c.DeleteLease(ctx, long)
			if api.CodeOf(err) == api.CodeNotFound { // the answer was lost
				return nil
			}
			return err
		})
		await.Sleep(30 * time.Second)
	}
	w.heal()
	await.Sleep(10 * time.Minute)
	require.LessOrEqual(t, s.remains(), 0, "%s was not reached so often", p)
	owed, _ := z.view().CountLeaseEnds()
	assert.Zero(t, owed)
	o.mu.Lock()
	defer o.mu.Unlock()
	assert.Empty(t, o.bad)
	assert.GreaterOrEqual(t, o.asked["/checks/check-create"], 6)
	for id, outcome := range want {
		require.Len(t, o.told[id], 1, "lease %s", id)
		assert.GreaterOrEqual(t, o.told[id][outcome], 1, "lease %s", id)
		assert.LessOrEqual(t, o.told[id][outcome], 4, "lease %s", id)
	}
}
