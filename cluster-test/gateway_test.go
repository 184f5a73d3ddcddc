package clustertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/dice"
)

// What one bad gateway of three may cost. When it was the leader, its zone has to elect another one besides.
// That is promised for a machine that does nothing else: here it is more by what the same steps take without
// a fault, which pauses, timeouts and elections make several of.
const (
	deleteWithin = 2 * time.Second
	bootWithin   = 2 * time.Second // until its instance is seen to run
	electWithin  = 4 * time.Second // and until agents have found the new leader
	plainFactor  = 10
	stallMax     = 250 * time.Millisecond // of the machine, in a step that fails
)

// gateways are a root of one node, and west, of three, where all hosts are.
type gateways struct {
	*testing.T
	w          *lab.World
	root, west *lab.Zone
	token      string
	boots      int
}

func TestFrozenGateway(t *testing.T) {
	testOneBadGateway(t, false, func(_ *lab.World, n *lab.NodeProc) error { n.Pause(); return nil },
		func(_ *lab.World, n *lab.NodeProc) error { n.Resume(); return nil })
}

func TestVanishedGateway(t *testing.T) {
	testOneBadGateway(t, true, func(w *lab.World, n *lab.NodeProc) error { return w.Vanish(n.Machine) },
		func(w *lab.World, n *lab.NodeProc) error { return w.Return(n.Machine) })
}

// testOneBadGateway breaks the gateway that the parent uses, once where it leads its
// zone and once where it does not; what comes first then is a boot or a delete.
func testOneBadGateway(t *testing.T, bootFirst bool, hurt, mend func(w *lab.World, n *lab.NodeProc) error) {
	t.Helper()
	t.Parallel()
	lab.Need(t)
	w := lab.New(t, lab.Options{Machines: lab.Namespaces, Quick: true})
	g := &gateways{T: t, w: w, root: w.Zone("root", 1), west: w.Zone("west", 3)}
	g.root.Link(g.west)
	g.root.Flavor("unit", unitMB)
	g.west.FakeAgent("fake", 1, 64*unitMB)
	g.token = g.root.MemberToken("web", api.RoleMember)
	for _, leads := range dice.Part(t, []bool{true, false}, 1) {
		await.Steadily(t, stallMax, func(context.Context) error {
			victim := g.prefer(leads)
			t.Logf("%s, which leads: %v", victim.Name, leads)
			plain := g.plain()
			old := g.boot()
			require.NoError(t, hurt(w, victim))
			extra := time.Duration(0)
			if leads {
				extra = electWithin
			}
			var fresh rest.Server
			var first, second took
			boot := func() { fresh = g.boot() }
			remove := func() { g.delete(old) }
			if bootFirst {
				first = g.measured("boot", bootWithin+extra, boot)
				second = g.measured("delete", deleteWithin, remove)
			} else {
				first = g.measured("delete", deleteWithin+extra, remove)
				second = g.measured("boot", bootWithin, boot)
			}
			g.delete(fresh)
			require.NoError(t, mend(w, victim))
			victim.Ready()
			plain = max(plain, g.plain())
			return errors.Join(first.judge(t, plain), second.judge(t, plain))
		})
	}
}

// plain returns how long a boot and a delete take without a fault.
func (g *gateways) plain() time.Duration {
	g.Helper()
	began := time.Now()
	g.delete(g.boot())
	return time.Since(began)
}

// took is how long something took, and was promised to take.
type took struct {
	what             string
	promised, really time.Duration
}

// measured measures how long something takes.
func (g *gateways) measured(what string, promised time.Duration, f func()) took {
	g.Helper()
	began := time.Now()
	f()
	return took{what, promised, time.Since(began)}
}

// judge returns an error if something took longer than it may where other steps take so long.
func (k took) judge(t *testing.T, plain time.Duration) error {
	t.Helper()
	t.Logf("%s: %s, promised within %s; without a fault %s", k.what, k.really.Round(time.Millisecond), k.promised, plain.Round(time.Millisecond))
	if most := k.promised + plainFactor*plain; k.really > most {
		return fmt.Errorf("%s: %s, at most %s", k.what, k.really, most)
	}
	return nil
}

// prefer makes a node of west the gateway that the root uses, and returns it: the
// leader, or one that does not lead.
func (g *gateways) prefer(leads bool) *lab.NodeProc {
	g.Helper()
	victim := g.west.Leader()
	if !leads {
		victim = followers(g.T, g.west)[0]
	}
	for _, n := range g.west.Nodes {
		if n != victim {
			require.NoError(g, g.w.Cut(g.root.Nodes[0].Machine, n.Machine))
		}
	}
	g.delete(g.boot())
	require.NoError(g, g.w.Heal())
	return victim
}

// boot boots one instance through the root and waits until it runs.
func (g *gateways) boot() rest.Server {
	g.Helper()
	g.boots++
	id, one := fmt.Sprintf("r-%d", g.boots), 1
	c := g.root.Nodes[0].Client(g.token)
	_, err := c.Boot(g.Context(), rest.ServerCreate{Name: "web", FlavorRef: "unit", MinCount: &one, MaxCount: &one, Reservation: id}, "")
	require.NoError(g, err)
	var s rest.Server
	await.Until(g.T, "the instance runs", func(ctx context.Context) error {
		b, err := c.Reservation(ctx, api.ReservationID(id), time.Second)
		if err != nil || b.State == api.BootFailed {
			return lab.OrElse(err, "it failed: %s", b.Reason)
		}
		p, err := c.Servers(ctx, client.ServerQuery{Reservation: api.ReservationID(id)}, client.ListOptions{})
		if err != nil || len(p.Items) != 1 || p.Items[0].Status != api.StatusActive {
			return lab.OrElse(err, "its servers are %v", p.Items)
		}
		s = p.Items[0]
		return nil
	})
	return s
}

// delete deletes an instance through the root and waits until it is gone.
func (g *gateways) delete(s rest.Server) {
	g.Helper()
	c := g.root.Nodes[0].Client(g.token)
	require.NoError(g, c.DeleteServer(g.Context(), s.ID))
	await.Until(g.T, "the instance is gone", func(ctx context.Context) error {
		now, err := c.Server(ctx, s.ID)
		if api.CodeOf(err) == api.CodeNotFound || (err == nil && now.Status == api.StatusDeleted) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is %s", now.Status))
	})
}
