//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// one is a single zone of three nodes with room for many instances, and callers
// that boot in it all the time.
type one struct {
	*fleet
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	acked []api.ReservationID
}

// newOne makes the zone. The fleet's other zones are not there.
func newOne(t *testing.T, o lab.Options) *one {
	t.Helper()
	o.Machines, o.Quick = lab.Best(t), true
	w := lab.New(t, o)
	z := &one{fleet: &fleet{World: w, dice: rngOf(w.Seed)}}
	z.root = w.Zone("root", 3)
	z.root.Flavor("unit", unitMB)
	z.root.FakeAgent("root-simulated", 4, 1<<20)
	z.token = z.root.MemberToken("web", api.RoleMember)
	return z
}

// boots keeps so many callers booting until quiet is called.
func (z *one) boots(ctx context.Context, callers int) {
	ctx, z.stop = context.WithCancel(ctx)
	for n := range callers {
		z.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := api.ReservationID(fmt.Sprintf("n%d-%d", n, i))
				if z.boot(ctx, id, 1) == nil {
					z.mu.Lock()
					z.acked = append(z.acked, id)
					z.mu.Unlock()
				}
			}
		})
	}
}

// quiet ends what boots began.
func (z *one) quiet() {
	z.stop()
	z.wg.Wait()
}

// remembers checks that every boot that was acknowledged is there and comes to
// its end, and returns how many there are.
func (z *one) remembers(t *testing.T) int {
	t.Helper()
	z.mu.Lock()
	acked := append([]api.ReservationID(nil), z.acked...)
	z.mu.Unlock()
	states := map[api.ReservationID]api.BootState{}
	await.Until(t, "all boots have an outcome", func(ctx context.Context) error {
		clear(states)
		var o client.ListOptions
		for {
			var p client.Page[rest.Boot]
			err := z.root.Do(ctx, z.token, func(ctx context.Context, c *client.Client) error {
				var err error
				p, err = c.Linearizable().Reservations(ctx, o)
				return err
			})
			if err != nil {
				return err
			}
			for _, b := range p.Items {
				states[b.Reservation] = b.State
				if !b.State.Outcome() {
					return fmt.Errorf("%s is %s", b.Reservation, b.State)
				}
			}
			if o.Marker = p.Next; p.Next == "" {
				return nil
			}
		}
	})
	for _, id := range acked {
		assert.Equal(t, api.BootActive, states[id], "reservation %s was acknowledged", id)
	}
	sums.booted(len(acked))
	return len(acked)
}

// TestPowerCuts cuts the power of one, two or all nodes of a zone at once, again
// and again while boots are acknowledged, and looks for each of these boots.
func TestPowerCuts(t *testing.T) {
	lab.Need(t)
	t.Parallel()
	z := newOne(t, lab.Options{Env: []string{"BERTH_COMPACT=100:100"}})
	z.Allow(lab.Exit.DiskBroken)
	z.boots(t.Context(), 6)
	for cuts := 0; cuts < scaled(50); {
		lab.Pass(t.Context(), time.Duration(z.dice.Int64N(int64(time.Second))))
		nodes := z.root.Nodes
		first, n := z.dice.IntN(len(nodes)), 1+z.dice.IntN(len(nodes))
		var hit []*lab.NodeProc
		for i := range n {
			hit = append(hit, nodes[(first+i)%len(nodes)])
		}
		require.NoError(t, powerCut(t.Context(), hit))
		sums.fault("power cut", len(hit))
		cuts += n
		for _, o := range nodes {
			o.Ready()
		}
	}
	z.quiet()
	n := z.remembers(t)
	z.agree(t)
	z.Audit()
	t.Logf("%d acknowledged boots, none lost", n)
	assert.Greater(t, n, 100, "too little traffic to prove anything")
}

// replaceEvery is how many damaged files are mended by putting the old one back
// before a node is replaced by a new one for it.
const replaceEvery = 6

// TestDamage damages a file of one of three nodes, again and again while boots are
// acknowledged: the node must refuse to start and say what is damaged, or be none
// the worse for it.
func TestDamage(t *testing.T) {
	lab.Need(t)
	t.Parallel()
	z := newOne(t, lab.Options{Env: []string{"BERTH_COMPACT=100:100"}})
	z.boots(t.Context(), 3)
	var refused, unharmed, replaced int
	for n := range scaled(50) {
		victim := z.root.Nodes[z.dice.IntN(len(z.root.Nodes))]
		victim.Kill()
		path := z.aFile(t, victim)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		what, err := lab.Damage(path, z.dice)
		require.NoError(t, err)
		sums.fault("damaged file", 1)
		if z.starts(t, victim) {
			unharmed++
			victim.Ready()
			continue
		}
		refused++
		said := victim.Tail(3)
		assert.Contains(t, said, filepath.Base(path), "%s: the node does not say what is damaged: %s", what, said)
		if n%replaceEvery == 0 {
			replaced++
			z.replace(t, victim, fmt.Sprintf("node-%d", 10+n))
			continue
		}
		require.NoError(t, os.WriteFile(path, whole, 0o600))
		victim.Start()
		victim.Ready()
	}
	z.loseAll(t)
	z.quiet()
	acked := z.remembers(t)
	z.agree(t)
	z.Audit()
	t.Logf("%d refused, %d unharmed, %d replaced by new nodes; %d acknowledged boots, none lost", refused, unharmed, replaced, acked)
	assert.Positive(t, refused)
}

// loseAll takes away the whole folder of a node's log: it must not begin anew.
func (z *one) loseAll(t *testing.T) {
	t.Helper()
	victim := z.root.Nodes[0]
	victim.Kill()
	folder := filepath.Join(victim.Dir, "raft")
	require.NoError(t, os.Rename(folder, folder+".away"))
	require.False(t, z.starts(t, victim), "a node that has lost its log began anew")
	assert.Contains(t, victim.Tail(3), "is missing")
	sums.fault("lost log", 1)
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.Rename(folder+".away", folder))
	victim.Start()
	victim.Ready()
}

// aFile returns a file of a node's replicated state.
func (z *one) aFile(t *testing.T, n *lab.NodeProc) string {
	t.Helper()
	raft := filepath.Join(n.Dir, "raft")
	files, err := filepath.Glob(filepath.Join(raft, "snapshots", "*"))
	require.NoError(t, err)
	files = append(files, filepath.Join(raft, "raft.db"), filepath.Join(raft, "raft.db"), filepath.Join(raft, "node.json"))
	return files[z.dice.IntN(len(files))]
}

// starts starts a node that may be damaged, and reports whether it listens; if not
// it must have ended by itself.
func (z *one) starts(t *testing.T, n *lab.NodeProc) bool {
	t.Helper()
	z.Allow(func(e lab.Exit) bool { return e.Service == n.Name && strings.Contains(e.How, "exit status") })
	err := n.Up(t.Context())
	if err == nil {
		return true
	}
	require.False(t, n.Running(), "%s neither starts nor ends: %v", n.Name, err)
	return false
}

// replace removes a node that is damaged, and lets a new one join, as the manual
// says.
func (z *one) replace(t *testing.T, old *lab.NodeProc, id string) {
	t.Helper()
	z.root.CLI("operator", "remove", string(old.ID), "--yes")
	z.root.Forget(old)
	z.root.Join(id)
	sums.fault("replaced member", 1)
	// An agent learns of new nodes from those that it knows. Replaced faster than it
	// asks, all of those would be gone.
	run := api.ReservationID("after-" + id)
	await.Until(t, "an agent does what the zone says", func(ctx context.Context) error {
		if err := z.boot(ctx, run, 1); err != nil {
			return err
		}
		_, err := z.ends(ctx, run, func(s api.BootState) bool { return s == api.BootActive })
		return err
	})
}
