package sim

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/state"
)

// TestUpgradeNodeByNode upgrades a loaded parent and its child node by node from one form
// to the next, turns back twice, also when all nodes were upgraded already, goes forward again, and
// finishes the upgrade. No node ends, everything that is asked for is done, and what needs the newer form is
// written once an operator has said so.
func TestUpgradeNodeByNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, dice.Seed(t), plot{"root", 3, []int{2}, []plot{{"west", 3, []int{2, 2}, nil}}}, api.FormFourth)
		root, west := w.root(), w.zone("west")
		require.Equal(t, api.BootActive, root.run("stays", 2, 2).State)
		round := 0
		load := func() {
			round++
			res := fmt.Sprint("round-", round)
			require.Equal(t, api.BootActive, root.run(res, 3, 3).State)
			require.Equal(t, api.BootFailed, root.run(res+"-too-many", 100, 100).State, "a decision has its reason in every form")
			root.insist("release", func(ctx context.Context, c *client.Client) error {
				_, err := c.Release(ctx, api.ReservationID(res), 0)
				return err
			})
		}
		move := func(form api.Form, nodes ...*process) {
			for _, p := range nodes {
				p.release(form)
				load()
			}
		}
		finish := func(z *zone) error {
			return z.leads().Federation().FinishUpgrade(w.ctx)
		}
		for _, z := range []*zone{west, root} {
			move(api.FormFifth, z.nodes[0], z.nodes[1])
			require.Equal(t, api.CodeConflict, api.CodeOf(finish(z)), "one node reads no more")
			move(api.FormFourth, z.nodes[1], z.nodes[0])
			move(api.FormFifth, z.nodes...)
			move(api.FormFourth, z.nodes[2], z.nodes[0], z.nodes[1])
			require.Equal(t, api.FormFourth, z.leads().Store().View().Form(), "nothing newer was written")
			move(api.FormFifth, z.nodes...)
			require.Equal(t, api.FormFourth, z.leads().Store().Form(), "the upgrade is not finished")
			z.until("the upgrade can be finished", func(*state.State) bool { return finish(z) == nil })
			z.until("the zone writes the newer form", func(v *state.State) bool { return v.Form() == api.FormFifth })
			load()
		}
		await.Sleep(time.Minute)
		w.settle()
		w.check()
		w.empty()
	})
}

// release ends the node and starts it again, as a release whose newest form is form.
func (p *process) release(form api.Form) {
	p.z.w.t.Helper()
	p.kill()
	p.reap()
	p.form = form
	p.start()
	ctx, cancel := context.WithTimeout(p.z.w.ctx, patience)
	defer cancel()
	require.NoError(p.z.w.t, p.node.Ready(ctx))
	p.z.until("its record is right", func(v *state.State) bool {
		n, ok := v.Node(p.id)
		return ok && n.Form == form
	})
}
