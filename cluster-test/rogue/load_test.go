package rogue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
)

// honest is the project of those who must not notice any rogue.
const honest = "honest"

// standing is what others run while rogues are there.
type standing struct {
	token       string // of the project
	client      *client.Client
	reservation api.ReservationID
	instances   []api.InstanceID // in root and in west
}

const standingCount = 8

// stand boots what stays.
func (w *world) stand() standing {
	t := w.t
	t.Helper()
	s := standing{token: w.root.member(honest, api.RoleMember), reservation: secret + "-r"}
	s.client = w.root.client(s.token)
	n := standingCount
	b, err := bootWith(w.ctx, s.client, rest.ServerCreate{
		Name: "standing", FlavorRef: "small", MinCount: &n, MaxCount: &n, Reservation: string(s.reservation), Metadata: others,
		Zones: &rest.ZoneRule{MinZones: 2},
	})
	require.NoError(t, err)
	require.Equal(t, api.BootActive, b.State, b.Reason)
	page, err := s.client.Servers(w.ctx, client.ServerQuery{Reservation: s.reservation}, client.ListOptions{})
	require.NoError(t, err)
	for _, i := range page.Items {
		s.instances = append(s.instances, i.ID)
	}
	require.Len(t, s.instances, n)
	return s
}

// bootWith boots, and waits for the outcome.
func bootWith(ctx context.Context, c *client.Client, in rest.ServerCreate) (rest.Boot, error) {
	b, err := c.BootAndWait(ctx, in, "", longPoll)
	if err != nil {
		return b, err
	}
	err = await.Wait(ctx, func(ctx context.Context) (err error) {
		if b.State.Outcome() {
			return nil
		}
		if b, err = c.Reservation(ctx, b.Reservation, lookWait); err == nil && !b.State.Outcome() {
			err = fmt.Errorf("the boot is %s", b.State)
		}
		return err
	})
	return b, err
}

// lookWait is how long the zone may wait with an answer to one look.
const lookWait = 200 * time.Millisecond

// others is the metadata of what others run.
var others = map[string]string{"db_password": secret}

// untouched checks that all that stands still runs.
func (w *world) untouched(t *testing.T) {
	t.Helper()
	page, err := w.standing.client.Linearizable().Servers(w.ctx, client.ServerQuery{Reservation: w.standing.reservation}, client.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, page.Items, standingCount)
	for _, i := range page.Items {
		if i.Status != api.StatusActive {
			t.Errorf("instance %s of others is %s", i.ID, i.Status)
		}
	}
}

// load is what became of the boots of others in one phase. Its methods may be called concurrently.
type load struct {
	zones int // in which each boot is, 0 for any

	mu     sync.Mutex // guards the fields below
	took   []time.Duration
	ended  []time.Duration // how long releases took
	failed []string
}

// Limits of the load.
const (
	callers  = 3                      // at once
	dueEvery = 100 * time.Millisecond // a boot of one caller
	bootsMin = 20                     // of one phase: with fewer it shows nothing
)

// run boots and releases until done is closed and there were enough boots.
func (l *load) run(w *world, done <-chan struct{}) {
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			due := time.NewTicker(dueEvery)
			defer due.Stop()
			for n := 0; w.ctx.Err() == nil; n++ {
				select {
				case <-done:
					if l.count() >= bootsMin {
						return
					}
				default:
				}
				<-due.C
				l.boot(w, 1+n%3)
			}
		})
	}
	wg.Wait()
}

// boot boots n instances, waits until they run, and releases them.
func (l *load) boot(w *world, n int) {
	ctx := w.ctx
	c, id := w.standing.client, name("r-")
	began := time.Now()
	n = max(n, l.zones)
	b, err := bootWith(ctx, c, rest.ServerCreate{
		Name: "web", FlavorRef: "small", MinCount: &n, MaxCount: &n, Reservation: id, Metadata: others,
		Zones: &rest.ZoneRule{MinZones: l.zones},
	})
	took := time.Since(began)
	began = time.Now()
	if err == nil && b.State != api.BootActive {
		err = fmt.Errorf("the boot of %d is %s: %s %v", n, b.State, b.Reason, b.Attempts)
	}
	_, released := c.Release(ctx, api.ReservationID(id), longPoll)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range []error{err, released} {
		if err != nil && w.ctx.Err() == nil {
			l.failed = append(l.failed, fmt.Sprintf("%s after %s: %v", id, took, err))
		}
	}
	l.took, l.ended = append(l.took, took), append(l.ended, time.Since(began))
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.took)
}

// quantile returns a quantile of durations, 0 without any.
func quantile(of []time.Duration, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	of = slices.Sorted(slices.Values(of))
	return of[min(int(q*float64(len(of))), len(of)-1)]
}

// String says it for people.
func (l *load) String() string {
	return fmt.Sprintf("%d boots, p50 %s, p99 %s, releases p99 %s, %d failed", len(l.took),
		quantile(l.took, 0.5).Round(time.Millisecond), quantile(l.took, 0.99).Round(time.Millisecond),
		quantile(l.ended, 0.99).Round(time.Millisecond), len(l.failed))
}
