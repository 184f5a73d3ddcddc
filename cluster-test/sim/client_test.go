package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
)

// callTimeout bounds one call of a client, with all its repeats.
const callTimeout = 2 * time.Minute

// tally counts what a world has been through.
type tally struct {
	mu       sync.Mutex // guards what follows
	ops      map[string]int
	answered int
	faults   map[string]int
	restarts int
}

func newTally() tally { return tally{ops: map[string]int{}, faults: map[string]int{}} }

func (c *tally) op(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops[what]++
	if err == nil {
		c.answered++
	}
}

func (c *tally) fault(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[what]++
}

func (c *tally) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts++
}

// call makes one call to a zone as a client of one of its nodes does, and does not
// wait for it.
func (z *zone) call(what string, p *process, f func(ctx context.Context, c *client.Client) error) {
	z.w.ops.Go(func() {
		ctx, cancel := context.WithTimeout(z.w.ctx, callTimeout)
		defer cancel()
		z.w.tally.op(what, f(ctx, z.client(p)))
	})
}

// boot asks for instances. If nobody knows what became of that, it asks again, at
// another node.
func (z *zone) boot(p, again *process, o rest.ServerCreate) {
	z.call("boot", p, func(ctx context.Context, c *client.Client) error {
		r, err := c.Boot(ctx, o, "")
		if err != nil && again != p {
			r, err = z.client(again).Boot(ctx, o, "")
		}
		if err == nil {
			z.note(func(t *told) { t.booted = append(t.booted, r) })
		}
		return err
	})
}

// release gives a reservation back after a while.
func (z *zone) release(p *process, r api.ReservationID, after time.Duration) {
	z.call("release", p, func(ctx context.Context, c *client.Client) error {
		await.Sleep(after)
		_, err := c.Release(ctx, r, 0)
		if err == nil {
			z.note(func(t *told) { t.released = append(t.released, r) })
		}
		return err
	})
}

func order(res string, least, most int) rest.ServerCreate {
	return rest.ServerCreate{Name: "i", FlavorRef: string(fixed), MinCount: &least, MaxCount: &most, Reservation: res}
}

// act lets a client do something that the seed chooses.
func (w *world) act(step int) {
	z := w.root()
	if w.dice.IntN(4) == 0 {
		z = w.zones[w.dice.IntN(len(w.zones))]
	}
	if z.lost {
		return
	}
	p, pick := w.nodeOf(z), w.dice.Uint64()
	switch w.dice.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		most, res := 1+w.dice.IntN(8), fmt.Sprintf("r%d", step)
		z.boot(p, w.nodeOf(z), w.wish(z, order(res, 1+w.dice.IntN(most), most)))
		if w.dice.IntN(4) == 0 {
			z.release(w.nodeOf(z), api.ReservationID(res), time.Duration(w.dice.IntN(4000))*time.Millisecond)
		}
	case 6, 7, 8, 9, 10:
		z.call("release", p, func(ctx context.Context, c *client.Client) error {
			b, err := c.Reservations(ctx, client.ListOptions{})
			open := slices.DeleteFunc(b.Items, func(b rest.Boot) bool {
				return b.State != api.BootActive && b.State != api.BootDegraded && b.State != api.BootError
			})
			if err != nil || len(open) == 0 {
				return err
			}
			r := open[pick%uint64(len(open))].Reservation
			if _, err = c.Release(ctx, r, 0); err == nil {
				z.note(func(t *told) { t.released = append(t.released, r) })
			}
			return err
		})
	case 11, 12, 13:
		z.call("delete", p, func(ctx context.Context, c *client.Client) error {
			s, err := c.Servers(ctx, client.ServerQuery{Status: api.StatusActive}, client.ListOptions{})
			if err != nil || len(s.Items) == 0 {
				return err
			}
			id := s.Items[pick%uint64(len(s.Items))].ID
			if err = c.DeleteServer(ctx, id); err == nil {
				z.note(func(t *told) { t.deleted = append(t.deleted, id) })
			}
			return err
		})
	case 14:
		z.call("select", p, func(ctx context.Context, c *client.Client) error {
			_, err := c.Select(ctx, order("", 1, 3))
			return err
		})
	case 15:
		z.call("snapshot", p, func(ctx context.Context, c *client.Client) error {
			var b bytes.Buffer
			_, err := c.Snapshot(ctx, &b)
			return err
		})
	case 16, 17:
		z.drain(p, w.nodeOf(z), policies[w.dice.IntN(len(policies))], pick, w.lasts())
	case 18, 19:
		amount := 1 + w.dice.Int64N(claimMost)
		z.claim(p, w.nodeOf(z), z.consumerOf(step), amount, time.Duration(1+w.dice.IntN(60))*time.Second)
	}
}

// run boots and waits for the outcome.
func (z *zone) run(res string, least, most int) rest.Boot {
	z.w.t.Helper()
	ctx, cancel := context.WithTimeout(z.w.ctx, patience)
	defer cancel()
	z.tell(res, least, most)
	for {
		b, err := z.client(z.nodes[0]).Reservation(ctx, api.ReservationID(res), time.Minute)
		if err == nil && b.State.Outcome() {
			return b
		}
		require.NoError(z.w.t, ctx.Err(), "boot %s: %v %v", res, b.State, err)
		await.Sleep(time.Second)
	}
}

// tell boots, and repeats that until it is acknowledged.
func (z *zone) tell(res string, least, most int) {
	z.w.t.Helper()
	z.insist("boot", func(ctx context.Context, c *client.Client) error {
		_, err := c.Boot(ctx, order(res, least, most), "")
		return err
	})
	z.note(func(t *told) { t.booted = append(t.booted, api.ReservationID(res)) })
}

// insist repeats a call at one node after the other until it succeeds.
func (z *zone) insist(what string, f func(ctx context.Context, c *client.Client) error) {
	z.w.t.Helper()
	ctx, cancel := context.WithTimeout(z.w.ctx, patience)
	defer cancel()
	for i := 0; ; i++ {
		err := f(ctx, z.client(z.nodes[i%len(z.nodes)]))
		z.w.tally.op(what, err)
		if err == nil {
			return
		}
		require.NoError(z.w.t, ctx.Err(), "%s: %v", what, err)
		await.Sleep(time.Second)
	}
}
