package node

import (
	"encoding/binary"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/federation"
	"berth/gossip"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/codec"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

func (r *running) linkToken(name string) string {
	r.t.Helper()
	token, err := r.LinkToken(r.t.Context(), name, 0, 1)
	require.NoError(r.t, err)
	return token
}

// isBelow links this zone to a parent.
func (r *running) isBelow(parent *running) {
	r.t.Helper()
	_, err := r.Link(r.t.Context(), parent.linkToken(r.rec.ZoneName), "parent")
	require.NoError(r.t, err)
}

func (r *running) linkTo(other *running) *api.Link {
	r.t.Helper()
	l, ok := r.view().LinkByZone(other.rec.Zone)
	require.True(r.t, ok)
	return l
}

func TestLinkPinsBothAuthorities(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		parent, child := newZone(t, "p").run(), newZone(t, "c").run()
		token, err := parent.LinkToken(t.Context(), "east", 7, 3)
		require.NoError(t, err)
		_, err = child.Link(t.Context(), token, "up")
		require.NoError(t, err)

		down, up := parent.linkTo(child), child.linkTo(parent)
		assert.Equal(t, down.ID, up.ID)
		assert.Equal(t, child.nodeCredentials().CA.Raw, down.CA)
		assert.Equal(t, parent.nodeCredentials().CA.Raw, up.CA)
		assert.Equal(t, []string{child.Addresses().Gateway}, down.Endpoints)
		assert.Equal(t, []string{parent.Addresses().Gateway}, up.Endpoints)
		assert.Equal(t, []any{"east", api.LinkChild, int64(7), int64(3)}, []any{down.Name, down.Role, down.Offset, down.Scale})
		assert.Equal(t, []any{"up", api.LinkParent}, []any{up.Name, up.Role})

		_, err = parent.LinkToken(t.Context(), "east", 0, 1)
		refusedAs(t, api.CodeConflict, err)
	})
}

// TestAParentHasThePinnedAuthority, or a child sends it nothing.
func TestAParentHasThePinnedAuthority(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		parent, child, third := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "t").run()
		_, err := child.Link(t.Context(), altered(t, parent.linkToken("c"), func(j *identity.JoinToken) {
			j.CA = identity.PinOf(third.nodeCredentials().CA.Raw)
		}), "parent")
		refusedAs(t, api.CodeUnavailable, err)
		assert.Empty(t, parent.view().Links())
	})
}

// TestARingIsRefused: a zone asks those above it over their gateways.
func TestARingIsRefused(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		top, mid, low := newZone(t, "top").run(), newZone(t, "mid").run(), newZone(t, "low").run()
		mid.isBelow(top)
		low.isBelow(mid)
		_, err := top.Link(t.Context(), low.linkToken("top"), "parent")
		refusedAs(t, api.CodeConflict, err)
		assert.Contains(t, err.Error(), "the tree would become a ring")

		a, err := low.peers.Above(t.Context(), low.linkTo(mid), "nobody")
		require.NoError(t, err)
		assert.Equal(t, &api.AboveAnswer{Zones: 1}, a)
		_, err = mid.peers.Above(t.Context(), mid.linkTo(low), top.rec.Zone)
		refusedAs(t, api.CodeForbidden, err) // it is for children
		assert.Equal(t, 2, top.federation.LevelsBelow(t.Context()))
	})
}

// knows waits until this zone's link to another one shows these nodes as gateways.
func (r *running) knows(other *running, nodes ...*running) {
	r.t.Helper()
	var want []string
	for _, n := range nodes {
		want = append(want, n.Addresses().Gateway)
	}
	slices.Sort(want)
	r.until("the gateways of "+other.rec.ZoneName, func(v *state.State) bool {
		l, ok := v.LinkByZone(other.rec.Zone)
		return ok && slices.Equal(slices.Sorted(slices.Values(l.Endpoints)), want)
	})
}

// TestGatewaysOfALinkAreFollowed on both sides, when a zone gets a node.
func TestGatewaysOfALinkAreFollowed(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		const pause = 10 * time.Second // between two changes of one link
		parent, child := newZone(t, "p").run(), newZone(t, "c").run()
		child.isBelow(parent)
		parent.home.clock.setForward(pause)
		child.home.clock.setForward(pause)
		parent.knows(child, child, child.adopt("node-2"))
		child.knows(parent, parent, parent.adopt("node-2"))
	})
}

// enrolsWith sends an enrolment over a connection of this zone.
func (r *running) enrolsWith(parent *running, e *api.Enrolment) error {
	conf := identity.ClientTLS(r.gatewayCredentials, api.ALPNEnrol, identity.PinTo(parent.nodeCredentials().CA.Raw),
		identity.Subject{Zone: parent.rec.Zone, Role: identity.RoleGateway}, time.Now)
	rt := &http.Transport{DialTLSContext: dialTLS(r.t.net, conf), DisableKeepAlives: true}
	_, err := client.Enrol(r.t.Context(), rt, time.Now, []string{parent.Addresses().Gateway}, e)
	return err
}

func (r *running) enrolment(token string) *api.Enrolment {
	return &api.Enrolment{
		Token: token, Zone: r.rec.Zone, Name: r.rec.ZoneName, CA: r.nodeCredentials().CA.Raw,
		Endpoints: []string{r.Addresses().Gateway}, KeyCheck: []byte("x"),
	}
}

// TestAZoneEnrolsItselfAlone: neither under another's name nor with another's
// authority, whatever headers it sends.
func TestAZoneEnrolsItselfAlone(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		parent, child, other := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "o").run()
		token := parent.linkToken("c")
		for name, lie := range map[string]func(*api.Enrolment){
			"another zone":      func(e *api.Enrolment) { e.Zone = other.rec.Zone },
			"another authority": func(e *api.Enrolment) { e.CA = other.nodeCredentials().CA.Raw },
			"both":              func(e *api.Enrolment) { e.Zone, e.CA = other.rec.Zone, other.nodeCredentials().CA.Raw },
		} {
			e := child.enrolment(token)
			lie(e)
			err := child.enrolsWith(parent, e)
			assert.Equal(t, api.CodeForbidden, api.CodeOf(err), "%s: %v", name, err)
		}
		assert.Empty(t, parent.view().Links())
		require.NoError(t, child.enrolsWith(parent, child.enrolment(token)), "the lies have not used up the token")
	})
}

// TestOneKeyForTwoZonesDoesNotRun: of two linked zones that are given one key
// later on, the one that asks first does not go on.
func TestOneKeyForTwoZonesDoesNotRun(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		parent, child := newZone(t, "p", withPlanKey(keyA)).run(), newZone(t, "c", withPlanKey(keyB)).run()
		child.isBelow(parent)
		require.NoError(t, child.stop())
		require.NoError(t, parent.stop())
		child.home.opts.PlanKey = keyA
		parent, child = parent.home.start(), child.home.start()
		var err error
		await.True(t, "one of them ends", func() bool {
			select {
			case err = <-parent.ended:
				parent.stop = func() error { return err }
			case err = <-child.ended:
				child.stop = func() error { return err }
			default:
				return false
			}
			return true
		})
		assert.ErrorIs(t, err, federation.ErrSharedKey)
	})
}

// hasHost gives the zone a host without an agent.
func (r *running) hasHost(name string) {
	r.t.Helper()
	r.propose(command.HostsPut{Stamp: r.zone.Stamp(), Agent: "agent-0", Hosts: []command.HostEntry{{
		ID: api.HostID(name), Host: api.AgentHost{
			Name: name, Driver: "fake", Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		},
	}}})
}

// TestDigests: a parent hears what its child has, a child only that its parent is
// there.
func TestDigests(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		parent, child := newZone(t, "p").run(), newZone(t, "c").run()
		for _, r := range []*running{parent, child} {
			r.offers("small")
			r.hasHost("host-" + r.rec.ZoneName)
		}
		child.isBelow(parent)
		withHost := parent.view().Index()
		var full, bare api.Digest
		await.True(t, "the child is heard", func() (heard bool) { // the first word may be older than the host
			full, _, heard = parent.pools.Digest(child.rec.Zone)
			return heard && full.Classes[api.VCPU].Total > 0
		})
		assert.Equal(t, child.rec.Zone, full.Zone)
		assert.Len(t, full.Sketches, 1)

		await.True(t, "the parent is heard, and knows its host", func() (heard bool) {
			bare, _, heard = child.pools.Digest(parent.rec.Zone)
			return heard && bare.Sequence >= withHost
		})
		assert.NotEmpty(t, parent.federation.Digest().Sketches, "there would be more to say")
		assert.Equal(t, api.Digest{
			Zone: parent.rec.Zone, Sequence: bare.Sequence, At: bare.At, Health: "up", Gateways: []string{parent.Addresses().Gateway},
		}, bare, "and where its gateways are, which the child must know")

		parent.propose(command.LinkDelete{Stamp: parent.zone.Stamp(), ID: parent.linkTo(child).ID})
		await.True(t, "what ends with the link", func() bool {
			_, _, ok := parent.pools.Digest(child.rec.Zone)
			return !ok
		})
	})
}

// TestPoolsAdmitTheirOwn: a pool is for its two zones, and the zone's own for its
// nodes.
func TestPoolsAdmitTheirOwn(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		parent, one, two := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "d").run()
		one.isBelow(parent)
		two.isBelow(parent)
		pool := string(parent.linkTo(one).ID)
		await.True(t, "the pools are joined", func() bool { return parent.pools.findPool(pool, gatewayOf(one)) != nil })
		assert.NotNil(t, parent.pools.findPool(pool, gatewayOf(parent)))
		assert.Nil(t, parent.pools.findPool(pool, gatewayOf(two)), "two children never share a pool")
		assert.Nil(t, parent.pools.findPool(federation.OwnPool, gatewayOf(one)))
		node := peer{Subject: identity.Subject{Zone: parent.rec.Zone, Role: identity.RoleNode, ID: "node-1"}}
		assert.NotNil(t, parent.pools.findPool(federation.OwnPool, node))
		assert.Nil(t, parent.pools.findPool(pool, node))

		// A child that names another's pool is hung up on.
		conf := two.toZone(two.linkTo(parent), api.ALPNGossip)
		c, err := dialTLS(t.net, conf)(t.Context(), "tcp", parent.Addresses().Gateway)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		hello, err := codec.Marshal(gossip.Hello{Version: 1, Pool: pool, Name: two.gossipName(pool, "node-1"), Kind: gossip.KindPacket})
		require.NoError(t, err)
		_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(hello))), hello...))
		require.NoError(t, err)
		hangsUp(t, c)
	})
}

func gatewayOf(r *running) peer {
	return peer{Subject: identity.Subject{Zone: r.rec.Zone, Role: identity.RoleGateway, ID: "node-1"}}
}
