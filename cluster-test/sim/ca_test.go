package sim

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/dice"
	"berth/node"
	"berth/raftstore/state"
)

// TestAllZonesChangeTheirAuthority: the zones of three levels do it at the same time, while boots go through all of
// them, with a node away from before the new authorities are used until they are. Nobody is refused. In the end the
// certificate of the gateway of a node that was removed before is refused by the zones on both sides, where it was good.
func TestAllZonesChangeTheirAuthority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), plot{"root", 1, nil, []plot{{"west", 3, []int{1, 1}, []plot{{"edge", 1, []int{2}, nil}}}}})
		root, west, edge := w.root(), w.zone("west"), w.zone("edge")
		former, err := identity.LoadDir(west.nodes[0].dir, identity.RoleGateway)
		require.NoError(t, err)
		west.replaceNode()
		first := map[*zone][]byte{}
		for _, z := range w.zones {
			first[z] = z.view().CA
		}
		require.Equal(t, api.BootActive, root.run("stays", 2, 2).State)
		for _, z := range []*zone{root, edge} {
			z.until("it knows the gateways", func(v *state.State) bool { _, ok := v.LinkByZone(west.id); return ok })
			assert.NotZero(t, w.shows(former, z), "it is good until then")
		}
		stop := w.bootAlways(root)

		w.each(func(ctx context.Context, c *client.Client) error { return c.RotateCA(ctx, rest.CABrought{}) }, api.CATrusted)
		w.waitForNobody()
		away := west.nodes[(slices.Index(west.nodes, west.leader())+1)%len(west.nodes)]
		away.kill()
		away.reap()
		w.each(func(ctx context.Context, c *client.Client) error { return c.UseCA(ctx, false) }, api.CAUsed)
		west.until("it waits for the node alone", func(v *state.State) bool {
			return slices.Equal(v.CAWaits(), []api.CAWait{{Kind: api.CAWaitNode, Name: string(away.id)}})
		})
		away.start()
		w.waitForNobody()
		for _, z := range []*zone{root, edge} {
			assert.NotZero(t, w.shows(former, z), "both are trusted")
		}
		w.each(func(ctx context.Context, c *client.Client) error { return c.FinishCA(ctx, false) }, api.CAStable)
		for _, z := range w.zones {
			z.until("all links have one pin", func(v *state.State) bool {
				return !slices.ContainsFunc(v.Links(), func(l *api.Link) bool { return len(l.Pins()) > 1 || len(l.Told) != 1 })
			})
			assert.NotEqual(t, first[z], z.view().CA)
			assert.Zero(t, z.view().CADue)
		}
		stop()
		for _, z := range []*zone{root, edge} {
			assert.Zero(t, w.shows(former, z), "%s", z.name)
		}
		w.settle()
		require.Equal(t, api.BootActive, root.run("after", 2, 2).State)
		w.check()
	})
}

// TestTheFormerAuthorityIsLetGo: one zone changes its authority, and its neighbour keeps its own. What a connection that
// was opened with the former one asks the neighbour for when the change is finished is not answered.
func TestTheFormerAuthorityIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), plot{"root", 1, nil, []plot{{"west", 1, []int{1}, nil}}})
		root, west := w.root(), w.zone("west")
		former, err := identity.LoadDir(west.nodes[0].dir, identity.RoleGateway)
		require.NoError(t, err)
		root.until("it knows the gateways", func(v *state.State) bool { _, ok := v.LinkByZone(west.id); return ok })
		step := func(act func(context.Context, *client.Client) error, after api.CAPhase) {
			west.insist("change the authority", act)
			west.until("the step is taken", func(v *state.State) bool { return v.CAPhase() == after && len(v.CAWaits()) == 0 })
		}
		step(func(ctx context.Context, c *client.Client) error { return c.RotateCA(ctx, rest.CABrought{}) }, api.CATrusted)
		step(func(ctx context.Context, c *client.Client) error { return c.UseCA(ctx, false) }, api.CAUsed)
		step(func(ctx context.Context, c *client.Client) error { return c.FinishCA(ctx, false) }, api.CAStable)
		var kept *tls.Conn
		root.until("it trusts the new one alone", func(v *state.State) bool {
			if l, _ := v.LinkByZone(west.id); len(l.Pins()) == 1 {
				return true
			}
			if kept != nil { // one that says nothing would be closed soon
				_ = kept.Close()
			}
			kept, err = w.opens(former, root)
			require.NoError(t, err)
			return false
		})
		require.NotNil(t, kept, "it was trusted until now")
		defer func() { _ = kept.Close() }() // by then root has closed it
		assert.NotEqual(t, http.StatusOK, ask(kept, bufio.NewReader(kept)), "what it asks for is answered still")
		assert.Zero(t, w.shows(former, root))
		w.check()
	})
}

// each makes a step of the change in every zone, and waits for the phase after it.
func (w *world) each(step func(context.Context, *client.Client) error, after api.CAPhase) {
	w.t.Helper()
	for _, z := range w.zones {
		z.insist("change the authority", func(ctx context.Context, c *client.Client) error {
			if z.view().CAPhase() == after {
				return nil // by a call whose answer was lost
			}
			return step(ctx, c)
		})
	}
}

// waitForNobody waits until the change could go on in every zone.
func (w *world) waitForNobody() {
	w.t.Helper()
	for _, z := range w.zones {
		z.until("it waits for nobody", func(v *state.State) bool { return len(v.CAWaits()) == 0 })
	}
}

// bootAlways boots and releases in a zone until it is stopped: each boot must succeed.
func (w *world) bootAlways(z *zone) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	done, n := make(chan struct{}), 0
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; n++ {
			res := fmt.Sprint("always-", n)
			if b := z.run(res, 2, 2); b.State != api.BootActive {
				w.fail("boot %s is %s: %s %+v", res, b.State, b.Reason, b.Attempts)
			}
			z.insist("release", func(ctx context.Context, c *client.Client) error {
				_, err := c.Release(ctx, api.ReservationID(res), 0)
				return err
			})
		}
	}()
	return func() {
		cancel()
		<-done
		require.Greater(w.t, n, 5)
	}
}

// opens connects to the gateway of a zone with a certificate of another one.
func (w *world) opens(as *identity.Credentials, z *zone) (*tls.Conn, error) {
	n := z.leads()
	raw, err := w.net.Host(clientHost).Dial(w.ctx, node.DefaultAddresses(z.leader().host.Name()).Gateway)
	if err != nil {
		return nil, err
	}
	pinned := func() (pins []identity.Pin) {
		for _, a := range n.Store().View().Authorities() {
			pins = append(pins, identity.PinOf(a.Cert))
		}
		return pins
	}
	c := tls.Client(raw, identity.ClientTLS(func() *identity.Credentials { return as }, api.ALPNHTTP, pinned,
		identity.Subject{Zone: z.id, Role: identity.RoleGateway}, newClock().now))
	if err = c.SetDeadline(time.Now().Add(time.Minute)); err == nil {
		err = c.HandshakeContext(w.ctx)
	}
	if err != nil {
		_ = raw.Close() // the other error says more
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}

// ask makes a call on a connection, and returns its status, 0 for no answer.
func ask(c *tls.Conn, from *bufio.Reader) int {
	err := c.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = fmt.Fprint(c, "GET /zones/info HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	if err != nil {
		return 0
	}
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		return 0
	}
	if _, err = io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

// shows makes a call at the gateway of a zone, and returns its status, 0 for no answer.
func (w *world) shows(as *identity.Credentials, z *zone) int {
	c, err := w.opens(as, z)
	if err != nil {
		return 0
	}
	defer func() { _ = c.Close() }() // nothing more is said
	return ask(c, bufio.NewReader(c))
}

// actOnAuthority takes the next step of a change of a zone's authority, which is refused while somebody would be.
func (w *world) actOnAuthority() {
	z := w.anyZone()
	p := w.nodeOf(z)
	switch z.view().CAPhase() {
	case api.CAStable:
		z.call("rotate the authority", p, func(ctx context.Context, c *client.Client) error { return c.RotateCA(ctx, rest.CABrought{}) })
	case api.CATrusted:
		z.call("use the authority", p, func(ctx context.Context, c *client.Client) error { return c.UseCA(ctx, false) })
	case api.CAUsed:
		z.call("finish the authority", p, func(ctx context.Context, c *client.Client) error { return c.FinishCA(ctx, false) })
	}
}
