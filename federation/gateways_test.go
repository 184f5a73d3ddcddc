package federation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TestStrangeGatewaysChangeNothing: what a zone says of where it is is kept within
// limits, not too often, and in its own link alone.
func TestStrangeGatewaysChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child, other := w.add("p", nil), w.add("c", nil), w.add("o", nil)
	child.isBelow(parent)
	other.isBelow(parent)
	before, others := parent.linkTo(child).Endpoints, parent.linkTo(other).Endpoints
	says := func(gateways ...string) error {
		return parent.Hello(t.Context(), parent.linkTo(child), child.pin(), &api.Hello{Endpoints: gateways})
	}
	var many []string
	for i := range api.GatewaysMax + 1 {
		many = append(many, fmt.Sprintf("gw-%02d:7601", i))
	}
	refusedAs(t, api.CodeOverloaded, says("gw:7601"))
	parent.setForward(gatewaysPause)
	for _, bad := range [][]string{many, {"gw"}, {""}, {"gw:7601", "gw:0"}, {"gw:7601/x"}, {"a\x00b:1"}, {"gw:7601\n"}} {
		refusedAs(t, api.CodeInvalid, says(bad...))
	}
	require.NoError(t, says(), "it may say nothing of it")
	require.NoError(t, says(before...))
	assert.Equal(t, before, parent.linkTo(child).Endpoints)
	require.NoError(t, says(many[:api.GatewaysMax]...))
	assert.Equal(t, many[:api.GatewaysMax], parent.linkTo(child).Endpoints)
	refusedAs(t, api.CodeOverloaded, says("gw:7601"))
	parent.setForward(gatewaysPause)
	require.NoError(t, says("gw:7601", "gw:7601"))
	assert.Equal(t, []string{"gw:7601"}, parent.linkTo(child).Endpoints)
	assert.Equal(t, others, parent.linkTo(other).Endpoints)
}

// TestHelloRefusesASharedKey and takes nothing else from the zone that has it.
func TestHelloRefusesASharedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child := w.add("p", keyA), w.add("c", keyB)
	child.isBelow(parent)
	parent.setForward(gatewaysPause)
	child.serve(keyA)
	check, err := child.keys.checkValue(child.view(), parent.id)
	require.NoError(t, err)
	before := parent.linkTo(child)
	err = parent.Hello(t.Context(), before, child.pin(), &api.Hello{KeyCheck: check, Endpoints: []string{"gw:7601"}})
	require.ErrorIs(t, err, ErrSharedKey)
	assert.Equal(t, before, parent.linkTo(child))
}

// TestWhatGossipSaysOfGateways is kept while it is fresh.
func TestWhatGossipSaysOfGateways(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, fresh, stale, silent := w.add("p", nil), w.add("f", nil), w.add("s", nil), w.add("n", nil)
		for _, child := range []*place{fresh, stale, silent} {
			child.isBelow(parent)
		}
		parent.setForward(gatewaysPause)
		parent.heard[fresh.id] = api.Digest{Gateways: []string{"new:7601"}, Sequence: uint64(gatewaysFresh)}
		parent.heard[stale.id] = api.Digest{Gateways: []string{"old:7601"}, Sequence: uint64(gatewaysFresh + 1)}
		parent.heard[silent.id] = api.Digest{}
		before := parent.linkTo(stale).Endpoints
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); parent.FollowGateways(ctx) }()
		parent.until(func(v *state.State) bool {
			l, _ := v.LinkByZone(fresh.id)
			return slices.Equal(l.Endpoints, []string{"new:7601"})
		})
		cancel()
		<-done
		assert.Equal(t, before, parent.linkTo(stale).Endpoints)
		assert.Equal(t, gatewaysOf(silent.view()), parent.linkTo(silent).Endpoints)
	})
}

// TestGatewaysAreAnnounced to each linked zone.
func TestGatewaysAreAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, child := w.add("p", nil), w.add("c", nil)
		child.isBelow(parent)
		parent.setForward(gatewaysPause)
		child.joins("node-2")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); child.AnnounceGateways(ctx) }()
		parent.until(func(v *state.State) bool {
			l, _ := v.LinkByZone(child.id)
			return slices.Equal(l.Endpoints, gatewaysOf(child.view()))
		})
		cancel()
		<-done
		assert.Len(t, parent.linkTo(child).Endpoints, 2)
	})
}

// TestWhatLinkedZonesAreTold: a child learns nothing of its siblings, and a parent that a
// link is paused.
func TestWhatLinkedZonesAreTold(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("p", nil)
	p.linked("up", api.LinkParent)
	p.linked("down", api.LinkChild)
	link := func(id api.LinkID) *api.Link {
		l, ok := p.view().Link(id)
		require.True(t, ok)
		return l
	}
	up, down := link("up"), link("down")
	full := p.Digest()
	assert.Equal(t, &api.Digest{Zone: p.id, Health: "up", Traits: []string{"CUSTOM_GPU"}, Gateways: gatewaysOf(p.view())}, full)
	assert.Equal(t, full, p.DigestFor(up))
	assert.Equal(t, &api.Digest{Zone: p.id, Health: "up", Gateways: full.Gateways}, p.DigestFor(down))

	paused := api.LinkPaused
	p.propose(command.LinkSet{Stamp: p.zone.Stamp(), ID: "up", State: &paused})
	p.propose(command.LinkSet{Stamp: p.zone.Stamp(), ID: "down", State: &paused})
	assert.True(t, p.DigestFor(up).Paused)
	assert.False(t, p.DigestFor(down).Paused)
	assert.False(t, p.Digest().Paused, "its own nodes hear no such thing")

	p.digest = digestCache{now: p.time, make: func() *api.Digest { return nil }}
	assert.Nil(t, p.DigestFor(up), "there is no zone yet")
	assert.Nil(t, p.DigestFor(down))
}

func TestMayGossip(t *testing.T) {
	t.Parallel()
	node, gateway := identity.RoleNode, identity.RoleGateway
	for _, c := range []struct {
		pool   string
		linked api.ZoneID
		who    identity.Subject
		want   bool
	}{
		{OwnPool, "", identity.Subject{Zone: "own", Role: node}, true},
		{OwnPool, "", identity.Subject{Zone: "own", Role: gateway}, false},
		{OwnPool, "", identity.Subject{Zone: "child", Role: gateway}, false},
		{"l1", "child", identity.Subject{Zone: "child", Role: gateway}, true},
		{"l1", "child", identity.Subject{Zone: "own", Role: gateway}, true},
		{"l1", "child", identity.Subject{Zone: "own", Role: node}, false},
		{"l1", "child", identity.Subject{Zone: "sibling", Role: gateway}, false},
		{"l2", "", identity.Subject{Zone: "child", Role: gateway}, false}, // there is no such link
		{"l2", "", identity.Subject{Zone: "own", Role: gateway}, false},
		{"l2", "", identity.Subject{Zone: "", Role: gateway}, false},
	} {
		assert.Equal(t, c.want, MayGossip(c.pool, "own", c.linked, c.who), "%+v", c)
	}
}
