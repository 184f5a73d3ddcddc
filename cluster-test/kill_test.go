package clustertest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/dice"
)

// killer boots over two zones of three nodes each while it kills them.
type killer struct {
	t          *testing.T
	w          *lab.World
	root, west *lab.Zone
	token      string
	dice       *rand.Rand
	kept       map[string]api.BootState // reservations that are left, and how they ended
}

// killCount is how many instances each round boots: more than one zone has.
const killCount = 24

func TestKillLeaderDuringBoot(t *testing.T) {
	w := lab.New(t, lab.Options{Quick: true})
	k := &killer{
		t: t, w: w, root: w.Zone("root", 3), west: w.Zone("west", 3),
		dice: rand.New(rand.NewPCG(w.Seed, 0)), kept: map[string]api.BootState{},
	}
	k.root.Link(k.west)
	k.root.Flavor("unit", unitMB)
	k.root.FakeAgent("fake", 4, 12*unitMB)
	k.west.FakeAgent("fake", 4, 12*unitMB)
	k.token = k.root.MemberToken("web", api.RoleMember)

	type victims func() []*lab.NodeProc
	rounds := []victims{
		func() []*lab.NodeProc { return []*lab.NodeProc{k.root.Leader(), k.west.Leader()} },
		func() []*lab.NodeProc { return k.root.Running() },
	}
	for range *roundsFlag {
		rounds = append(rounds, func() []*lab.NodeProc { return []*lab.NodeProc{k.root.Leader()} })
	}
	for range (*roundsFlag + 1) / 3 {
		rounds = append(rounds, func() []*lab.NodeProc { return []*lab.NodeProc{k.west.Leader()} })
	}
	for n, choose := range dice.Part(t, rounds, 2) {
		k.round(fmt.Sprintf("r-%d", n), choose)
	}

	k.release()
	assert.Empty(t, k.root.Usage())
	assert.Empty(t, k.west.Usage())
	for id, l := range w.Lives() {
		assert.True(t, l.Gone || l.Ran == 0, "instance %s was given back and never ended", id)
	}
}

// round kills the victims at a random moment after a boot was sent, and checks
// what became of it.
func (k *killer) round(id string, choose func() []*lab.NodeProc) {
	t := k.t
	t.Helper()
	victims := choose()
	// Most boots take some tens of milliseconds: half of the moments lie there.
	span := []time.Duration{30 * time.Millisecond, 150 * time.Millisecond}[k.dice.IntN(2)]
	delay := time.Duration(k.dice.Int64N(int64(span)))
	t.Logf("%s: %d of %s killed after %s", id, len(victims), victims[0].Zone.Name, delay)

	sent := make(chan error, 1)
	go func() { sent <- k.boot(id) }()
	lab.Pass(t.Context(), delay)
	for _, v := range victims {
		v.Signal(syscall.SIGKILL) // all of them before the first has been waited for
	}
	for _, v := range victims {
		v.Kill()
	}
	whole := len(victims) == len(victims[0].Zone.Nodes)
	if whole {
		k.restart(victims) // nobody else is left to answer
	}
	require.NoError(t, <-sent, "%s: some node must have recorded it", id)

	b := k.root.Outcome(k.token, api.ReservationID(id))
	switch b.State {
	case api.BootActive:
		assert.Equal(t, killCount, b.Instances[api.StatusActive], "%s: all or nothing", id)
	case api.BootFailed:
		assert.Empty(t, b.Instances, "%s: a boot that failed has started nothing", id)
	default:
		require.Failf(t, "outcome", "%s ended %s: %s", id, b.State, b.Reason)
	}
	t.Logf("%s: %s %v after %d attempts; %s", id, b.State, b.Instances, len(b.Attempts), b.Reason)
	k.kept[id] = b.State
	if !whole {
		k.restart(victims)
	}
	k.w.Audit()
	k.remembered()
	if len(k.kept) == 3 { // three fit
		k.release()
		k.w.Audit()
	}
}

// boot sends one boot, to one node after the other until one has recorded it.
func (k *killer) boot(id string) error {
	count := killCount
	return k.root.Do(k.t.Context(), k.token, func(ctx context.Context, c *client.Client) error {
		_, err := c.Boot(ctx, rest.ServerCreate{
			Name: id, FlavorRef: "unit", MinCount: &count, MaxCount: &count, Reservation: id,
		}, "")
		return err
	})
}

// restart starts nodes from the disks that they left.
func (k *killer) restart(nodes []*lab.NodeProc) {
	k.t.Helper()
	for _, n := range nodes {
		n.Start()
	}
	for _, n := range nodes {
		n.Ready()
	}
}

// remembered checks that every reservation that had an outcome still has it, at
// every node.
func (k *killer) remembered() {
	k.t.Helper()
	for _, n := range k.root.Nodes {
		c := n.Client(k.token)
		await.Until(k.t, string(n.ID)+" remembers", func(ctx context.Context) error {
			for id, want := range k.kept {
				b, err := c.Reservation(ctx, api.ReservationID(id), 0)
				if err != nil || b.State != want {
					return lab.OrElse(err, "%s is %s, was %s", id, b.State, want)
				}
			}
			return nil
		})
	}
}

// release gives everything back, while one of the leaders is killed.
func (k *killer) release() {
	k.t.Helper()
	victim := []*lab.Zone{k.root, k.west}[k.dice.IntN(2)].Leader()
	delay := time.Duration(k.dice.Int64N(int64(50 * time.Millisecond)))
	k.t.Logf("%s of %s killed %s into the release", victim.ID, victim.Zone.Name, delay)
	var active []api.ReservationID
	for _, id := range slices.Sorted(maps.Keys(k.kept)) {
		if k.kept[id] == api.BootActive {
			active = append(active, api.ReservationID(id))
		}
	}
	released := make(chan error, len(active))
	for _, id := range active {
		go func() {
			released <- k.root.Do(k.t.Context(), k.token, func(ctx context.Context, c *client.Client) error {
				_, err := c.Release(ctx, id, 0)
				return err
			})
		}()
	}
	lab.Pass(k.t.Context(), delay)
	victim.Kill()
	for range active {
		require.NoError(k.t, <-released)
	}
	k.restart([]*lab.NodeProc{victim})
	for _, id := range active {
		k.root.ReleaseAll(k.token, id)
	}
	clear(k.kept)
}
