package clustertest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/sysinfo"
)

// How much memory an instance has, and how many of them fit where.
const (
	unitMB    = 64
	rootFits  = 4 * 30
	westFits  = 4 * 25
	eastFits  = 4 * 25
	edgeFits  = 60
	realFits  = 24
	wholeFits = rootFits + westFits + eastFits + edgeFits + realFits
	wanted    = 400
)

// tree is a root with two children, one of which has a child itself.
type tree struct{ root, west, edge, east *lab.Zone }

func newTree(w *lab.World) tree {
	t := tree{root: w.Zone("root", 3), west: w.Zone("west", 3), edge: w.Zone("edge", 1), east: w.Zone("east", 1)}
	t.root.Link(t.west)
	t.root.Link(t.east)
	t.west.Link(t.edge)
	return t
}

func TestTreeOfRealProcesses(t *testing.T) {
	w := lab.New(t, lab.Options{})
	tr := newTree(w)
	tr.root.Flavor("unit", unitMB)
	tr.edge.Flavor("unit", unitMB, "/bin/sh", "-c", `echo "$BERTH_INSTANCE_ID"; exec /bin/sleep 1000`) // what runs there is the owning operator's to say
	tr.root.FakeAgent("fake", 4, rootFits/4*unitMB)
	tr.west.FakeAgent("fake", 4, westFits/4*unitMB)
	tr.east.FakeAgent("fake", 4, eastFits/4*unitMB)
	tr.edge.FakeAgent("fake", 1, edgeFits*unitMB)
	memory, err := sysinfo.MemoryMB()
	require.NoError(t, err)
	require.Greater(t, memory, int64(realFits*unitMB), "this machine is too small")
	machine := tr.edge.ProcessAgent("machine", memory-realFits*unitMB)

	free := func() []int64 {
		var out []int64
		for _, z := range w.Zones {
			out = append(out, z.Free()/unitMB)
		}
		return out
	}
	empty := free()
	require.Equal(t, []int64{rootFits, westFits, edgeFits + realFits, eastFits}, empty)

	token := tr.root.MemberToken("web", api.RoleMember)
	b := tr.boot(t, token, "r-tree", wanted, api.BootActive)
	assert.Equal(t, wanted, b.Instances[api.StatusActive])
	assert.Len(t, b.Zones, 3, "here and both children: %v", b.Zones)

	servers := tr.list(t, token, "r-tree")
	require.Len(t, servers, wanted)
	for _, s := range servers {
		assert.Equal(t, api.StatusActive, s.Status)
		assert.Empty(t, s.Host, "a member must not see hosts")
	}
	w.Audit()
	at, err := w.Owners()
	require.NoError(t, err)
	require.Len(t, at, wanted, "each instance is on one host of one zone")
	assertRuns(t, tr.edge, machine)
	tr.assertReads(t, token, machine)

	// More than fits is refused as a whole.
	full := free()
	b = tr.boot(t, token, "r-more", wholeFits-wanted+1, api.BootFailed)
	assert.Zero(t, b.Instances[api.StatusActive])
	assert.NotEmpty(t, b.Reason)
	assert.Equal(t, full, free(), "a boot that failed has taken nothing")
	assert.Empty(t, tr.list(t, token, "r-more"))

	tr.root.ReleaseAll(token, "r-tree")
	assert.Empty(t, machine.Instances(), "the processes have ended")
	await.Until(t, "all room is free again", func(context.Context) error {
		if now := free(); !slices.Equal(now, empty) {
			return lab.OrElse(nil, "free %v, was %v", now, empty)
		}
		return nil
	})
	w.Audit()
}

// boot asks the root for all or none of so many instances, and waits.
func (tr tree) boot(t *testing.T, token, id string, count int, want api.BootState) rest.Boot {
	t.Helper()
	err := tr.root.Do(t.Context(), token, func(ctx context.Context, c *client.Client) error {
		_, err := c.Boot(ctx, rest.ServerCreate{
			Name: "web", FlavorRef: "unit", MinCount: &count, MaxCount: &count, Reservation: id,
		}, "")
		return err
	})
	require.NoError(t, err)
	b := tr.root.Outcome(token, api.ReservationID(id))
	require.Equal(t, want, b.State, "%s: %s; %v", id, b.Reason, b.Instances)
	return b
}

// assertReads checks that what a process on a machine two zones below the root has printed can be read at the root: with the
// token of its project, and no other, and with the command line.
func (tr tree) assertReads(t *testing.T, token string, machine *lab.AgentProc) {
	t.Helper()
	id := machine.Instances()[0].ID
	for _, n := range tr.root.Nodes { // whichever is asked
		await.Until(t, "it has printed", func(ctx context.Context) error {
			out, err := n.Client(token).ServerOutput(ctx, api.InstanceID(id), client.OutputQuery{})
			if err == nil && string(out.Data) == id+"\n" {
				return nil
			}
			return lab.OrElse(err, "it is %q", out.Data)
		})
	}
	_, err := tr.root.Nodes[0].Client(tr.root.MemberToken("other", api.RoleMember)).ServerOutput(t.Context(), api.InstanceID(id), client.OutputQuery{})
	assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	assert.Equal(t, id, strings.TrimSpace(tr.root.CLI("server", "logs", id)))
}

// list returns the servers of a reservation as a caller at the root sees them.
func (tr tree) list(t *testing.T, token, id string) []rest.Server {
	t.Helper()
	p, err := tr.root.Nodes[0].Client(token).Servers(t.Context(), client.ServerQuery{Reservation: api.ReservationID(id)}, client.ListOptions{})
	require.NoError(t, err)
	return p.Items
}

// assertRuns checks that the processes on an agent's machine are exactly the
// instances that its operator sees there.
func assertRuns(t *testing.T, z *lab.Zone, a *lab.AgentProc) {
	t.Helper()
	var want []string
	for _, s := range z.Servers() {
		if s.Host == z.Name+"-"+a.Agent && s.Status == api.StatusActive {
			want = append(want, string(s.ID))
		}
	}
	slices.Sort(want)
	assert.NotEmpty(t, want, "nothing was placed on the machine")
	assert.Equal(t, want, ids(a.Instances()))
}

// ids returns the ids of real instances, sorted.
func ids(of []lab.RealInstance) []string {
	var out []string
	for _, i := range of {
		out = append(out, i.ID)
	}
	slices.Sort(out)
	return out
}
