package clustertest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
)

// TestRecovery: a child zone of three loses two nodes for good. One command makes a zone of the third, which its parent, its
// agent and its users go on with: what ran runs, what was promised can be released, and new nodes join.
func TestRecovery(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{})
	top, kid := w.Zone("top", 1), w.Zone("kid", 3)
	top.Link(kid)
	top.Flavor("unit", unitMB)
	kid.FakeAgent("fake", 2, 8*unitMB)
	boot := func(id string) {
		count := 2
		_, err := top.Admin().Boot(t.Context(), rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &count, Reservation: id}, "")
		require.NoError(t, err)
		b := top.Outcome(top.Token, api.ReservationID(id))
		require.Equal(t, api.BootActive, b.State, "%+v", b)
	}
	boot("r-before")

	leader := kid.Leader()
	lost := slices.DeleteFunc(slices.Clone(kid.Nodes), func(n *lab.NodeProc) bool { return n == leader })
	for _, n := range lost {
		n.Kill()
		kid.Forget(n)
	}
	_, err := kid.TryCLI(leader, "operator", "recover", "--dir", leader.Dir, "--yes")
	require.Error(t, err, "it runs")
	require.NoError(t, leader.Stop())
	out, err := kid.TryCLI(leader, "operator", "recover", "--dir", leader.Dir, "--yes", "-o", "json")
	require.NoError(t, err)
	for _, n := range lost {
		assert.Contains(t, out, string(n.ID))
	}
	leader.Start()
	seeVoters(t, kid, string(leader.ID))
	seeAddresses(t, kid)

	servers, err := top.Admin().Servers(t.Context(), client.ServerQuery{Reservation: "r-before"}, client.ListOptions{})
	require.NoError(t, err)
	require.Len(t, servers.Items, 2)
	w.Audit()
	boot("r-after")
	for _, id := range []string{"node-4", "node-5"} {
		kid.Join(id)
	}
	top.ReleaseAll(top.Token, "r-before")
	boot("r-again")
	for _, id := range []api.ReservationID{"r-after", "r-again"} {
		top.ReleaseAll(top.Token, id)
	}
	assert.Empty(t, kid.Usage())
	w.Audit()
}
