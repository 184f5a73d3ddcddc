//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/sysinfo"
)

// unitMB is the memory of one instance of flavor unit, in MiB.
const unitMB = 64

// fleetCPUs are the processors of a simulated host: more than there is memory for. Only leases by size need any.
const fleetCPUs = 1000

// fleet is a federation of three zones, each below the one before: root, west and
// edge. West runs its instances as real processes.
type fleet struct {
	*lab.World
	root, west, edge *lab.Zone
	token            string // of a member of project web, at root
	dice             *rand.Rand
}

// newFleet makes the zones, of so many nodes each, and hosts with room for so many
// instances of flavor unit in each zone.
func newFleet(t *testing.T, o lab.Options, nodes, room int) *fleet {
	t.Helper()
	o.Machines, o.Quick = lab.Best(t), true // faults and probers count on the timing of the product
	w := lab.New(t, o)
	f := &fleet{World: w, dice: rngOf(w.Seed)}
	f.root, f.west, f.edge = w.Zone("root", nodes), w.Zone("west", nodes), w.Zone("edge", nodes)
	f.root.Link(f.west)
	f.west.Link(f.edge)
	f.root.Flavor("unit", unitMB)
	f.west.Flavor("unit", unitMB, "/bin/sleep", "36000")
	f.edge.Flavor("unit", unitMB)
	const hosts = 4
	each := int64((room + hosts - 1) / hosts * unitMB)
	for _, z := range f.zones() {
		z.FakeAgentWithCPUs(z.Name+"-simulated", hosts, each, fleetCPUs)
	}
	f.token = f.root.MemberToken("web", api.RoleMember)
	return f
}

func rngOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// realAgent adds a host to west that runs up to so many instances as processes.
func (f *fleet) realAgent(t *testing.T, room int64) *lab.AgentProc {
	t.Helper()
	memory, err := sysinfo.MemoryMB()
	require.NoError(t, err)
	return f.west.ProcessAgent("west-processes", memory-room*unitMB)
}

// zones returns all zones, the root first.
func (f *fleet) zones() []*lab.Zone { return f.Zones }

// supervise lets every node and agent be started again when it ends.
func (f *fleet) supervise() {
	for _, z := range f.zones() {
		for _, n := range z.Nodes {
			n.Supervise()
		}
		for _, a := range z.Agents {
			a.Supervise()
		}
	}
}

// boot sends one boot until some node has recorded it.
func (f *fleet) boot(ctx context.Context, id api.ReservationID, count int) error {
	return f.root.Do(ctx, f.token, func(ctx context.Context, c *client.Client) error {
		_, err := c.Boot(ctx, rest.ServerCreate{
			Name: string(id), FlavorRef: "unit", MinCount: &count, MaxCount: &count, Reservation: string(id),
		}, "")
		return err
	})
}

// release gives a reservation back; that there is none is no error.
func (f *fleet) release(ctx context.Context, id api.ReservationID) error {
	err := f.root.Do(ctx, f.token, func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, id, 0)
		return err
	})
	if api.CodeOf(err) == api.CodeNotFound {
		return nil
	}
	return err
}

// ends waits until a reservation is in a state that will do, and returns it. That there
// is none it returns at once: the zone has confirmed it.
func (f *fleet) ends(ctx context.Context, id api.ReservationID, will func(api.BootState) bool) (b rest.Boot, err error) {
	var missing error
	err = await.Wait(ctx, func(ctx context.Context) error {
		err := f.root.Do(ctx, f.token, func(ctx context.Context, c *client.Client) error {
			var err error
			b, err = c.Reservation(ctx, id, lookEvery)
			return err
		})
		if err == nil && will(b.State) {
			return nil
		}
		if api.CodeOf(err) == api.CodeNotFound {
			missing = err
			return nil
		}
		return lab.OrElse(err, "reservation %s is %s: %v", id, b.State, b.Instances)
	})
	return b, cmp.Or(missing, err)
}

func gone(s api.BootState) bool { return s == api.BootReleased || s == api.BootFailed }

// whole returns an error unless a boot that has come to an outcome is all or nothing.
func whole(b *rest.Boot) error {
	live := 0
	for _, n := range b.Instances {
		live += n
	}
	switch {
	case b.State == api.BootActive && b.Instances[api.StatusActive] == b.MinCount && live == b.MinCount:
	case b.State == api.BootFailed && live == 0:
	default:
		return fmt.Errorf("reservation %s is neither whole nor gone: %s, %v, %d wanted", b.Reservation, b.State, b.Instances, b.MinCount)
	}
	return nil
}

// agree waits until all nodes of each zone have applied the same entries, and fails
// the test if their states differ.
func (f *fleet) agree(t *testing.T) {
	t.Helper()
	for _, z := range f.zones() {
		await.Until(t, "the nodes of "+z.Name+" are level", func(ctx context.Context) error {
			var seen []string
			index := uint64(0)
			for _, n := range z.Running() {
				at, sum, err := n.State(ctx)
				if err != nil {
					return err
				}
				if len(seen) > 0 && at != index {
					return fmt.Errorf("%s is at index %d and another node at %d", n.Name, at, index)
				}
				index, seen = at, append(seen, sum)
			}
			for _, sum := range seen {
				require.Equal(t, seen[0], sum, "%s: two nodes have different states at index %d: %s", z.Name, index, strings.Join(seen, ", "))
			}
			return nil
		})
	}
}
