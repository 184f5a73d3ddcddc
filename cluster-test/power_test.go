package clustertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/dice"
)

// What happens to a zone whose power is cut.
const (
	powerClients = 4  // that boot until the cut
	powerBoots   = 20 // that are acknowledged before a cut, at least
)

// outage is a zone that loses its power, all of it at once.
type outage struct {
	t     *testing.T
	zone  *lab.Zone
	cuts  []time.Time
	backs []time.Time // of the power, one for each cut

	mu    sync.Mutex // guards what follows
	acked []api.ReservationID
}

func TestPowerCutOfAllNodes(t *testing.T) {
	t.Parallel()
	lab.Need(t)
	w := lab.New(t, lab.Options{Machines: lab.Namespaces})
	draws := dice.Rand(t)
	o := &outage{t: t, zone: w.Zone("solo", 3)}
	w.Allow(o.dark)
	o.zone.Flavor("unit", unitMB)
	o.zone.FakeAgent("fake", 4, 1000*unitMB)
	o.sync()
	for _, n := range dice.Part(t, []int{1, 2, 3, 4, 5}, 2) {
		o.round(n, powerBoots+draws.IntN(powerBoots))
	}
	w.Audit()
}

// sync makes all that the nodes wrote so far durable, whatever they do themselves:
// what a cut can lose is boots.
func (o *outage) sync() {
	o.t.Helper()
	for _, node := range o.zone.Nodes {
		dir, err := os.Open(node.Dir)
		require.NoError(o.t, err)
		require.NoError(o.t, unix.Syncfs(int(dir.Fd())))
		require.NoError(o.t, dir.Close())
	}
}

// round boots until so many more are acknowledged, cuts the power, and looks for
// all that were ever acknowledged.
func (o *outage) round(n, boots int) {
	t := o.t
	t.Helper()
	before := len(o.acked)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for c := range powerClients {
		clients.Go(func() { o.boot(ctx, fmt.Sprintf("r-%d-%d", n, c)) })
	}
	await.Until(t, "boots are acknowledged", func(context.Context) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if now := len(o.acked) - before; now < boots {
			return fmt.Errorf("%d of %d", now, boots)
		}
		return nil
	})
	o.cut()
	stop()
	clients.Wait()
	for _, node := range o.zone.Nodes {
		require.NoError(t, node.Machine.Remount())
	}
	o.backs = append(o.backs, time.Now())
	for _, node := range o.zone.Nodes {
		node.Start()
	}
	for _, node := range o.zone.Nodes {
		node.Ready()
	}
	t.Logf("cut %d: %d boots acknowledged before it, %d in all", n, len(o.acked)-before, len(o.acked))
	o.remembered()
}

// boot boots one server after the other until ctx ends, and notes those that were
// acknowledged.
func (o *outage) boot(ctx context.Context, prefix string) {
	one := 1
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d", prefix, i)
		err := o.zone.Do(ctx, o.zone.Token, func(ctx context.Context, c *client.Client) error {
			_, err := c.Boot(ctx, rest.ServerCreate{Name: id, FlavorRef: "unit", MaxCount: &one, Reservation: id}, "")
			return err
		})
		if err == nil {
			o.mu.Lock()
			o.acked = append(o.acked, api.ReservationID(id))
			o.mu.Unlock()
		}
	}
}

// cut cuts the power of all nodes at the same moment.
func (o *outage) cut() {
	o.t.Helper()
	o.cuts = append(o.cuts, time.Now())
	errs := make(chan error, len(o.zone.Nodes))
	for _, node := range o.zone.Nodes {
		go func() { errs <- node.Machine.PowerCut() }()
	}
	for range o.zone.Nodes {
		require.NoError(o.t, <-errs)
	}
}

// dark reports whether a process ended while there was no power: it may notice
// that its disk is gone before it is killed.
func (o *outage) dark(e lab.Exit) bool {
	for i, back := range o.backs {
		if e.At.After(o.cuts[i]) && e.At.Before(back) {
			return true
		}
	}
	return false
}

// remembered fails the test unless the zone has every boot that it acknowledged.
func (o *outage) remembered() {
	o.t.Helper()
	var lost []api.ReservationID
	for _, id := range o.acked {
		err := o.zone.Do(o.t.Context(), o.zone.Token, func(ctx context.Context, c *client.Client) error {
			_, err := c.Reservation(ctx, id, 0)
			return err
		})
		if api.CodeOf(err) == api.CodeNotFound {
			lost = append(lost, id)
			continue
		}
		require.NoError(o.t, err)
	}
	require.Empty(o.t, lost, "%d of %d acknowledged boots are gone", len(lost), len(o.acked))
}
