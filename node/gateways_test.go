package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
)

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
	parent, child := newZone(t, "p").run(), newZone(t, "c").run()
	child.isBelow(parent)
	parent.home.clock.setForward(gatewaysPause)
	child.home.clock.setForward(gatewaysPause)
	parent.knows(child, child, child.adopt("node-2"))
	child.knows(parent, parent, parent.adopt("node-2"))
}

// TestStrangeGatewaysChangeNothing: what a zone says of where it is is kept within
// limits, not too often, and in its own link alone.
func TestStrangeGatewaysChangeNothing(t *testing.T) {
	t.Parallel()
	parent, child, other := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "o").run()
	child.isBelow(parent)
	other.isBelow(parent)
	require.NoError(t, child.stop()) // it says nothing by itself any more
	before, others := parent.linkTo(child).Endpoints, parent.linkTo(other).Endpoints
	says := func(gateways ...string) error {
		return parent.hello(t.Context(), parent.linkTo(child), &api.Hello{Endpoints: gateways})
	}
	var many []string
	for i := range api.GatewaysMax + 1 {
		many = append(many, fmt.Sprintf("gw-%02d:7601", i))
	}
	refusedAs(t, api.CodeOverloaded, says("gw:7601"))
	parent.home.clock.setForward(gatewaysPause)
	for _, bad := range [][]string{many, {"gw"}, {""}, {"gw:7601", "gw:0"}, {"gw:7601/x"}, {"a\x00b:1"}, {"gw:7601\n"}} {
		refusedAs(t, api.CodeInvalid, says(bad...))
	}
	require.NoError(t, says(), "it may say nothing of it")
	require.NoError(t, says(before...))
	assert.Equal(t, before, parent.linkTo(child).Endpoints)
	require.NoError(t, says(many[:api.GatewaysMax]...))
	assert.Equal(t, many[:api.GatewaysMax], parent.linkTo(child).Endpoints)
	refusedAs(t, api.CodeOverloaded, says("gw:7601"))
	parent.home.clock.setForward(gatewaysPause)
	require.NoError(t, says("gw:7601", "gw:7601"))
	assert.Equal(t, []string{"gw:7601"}, parent.linkTo(child).Endpoints)
	assert.Equal(t, others, parent.linkTo(other).Endpoints)
}
