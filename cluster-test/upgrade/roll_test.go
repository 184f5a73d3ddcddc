//go:build years

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
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

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// before is the release before this one, until there is a tag: the last commit whose newest form is the fourth.
const before = "f4fed6589194f43bb6571eb0b7f094654854ad3d"

// pause is between two boots of a worker.
const pause = 100 * time.Millisecond

// buildBefore builds the newest tag, or the commit that stands for it. A clone without history has neither.
func buildBefore(t *testing.T) string {
	t.Helper()
	release := before
	if tag, err := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--abbrev=0", "HEAD^").Output(); err == nil {
		release = strings.TrimSpace(string(tag))
	}
	err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", release+"^{commit}").Run()
	require.NoError(t, err, "the history of this clone does not have %s: git fetch --unshallow --tags", release)
	bin, err := lab.BuildCommit(release)
	require.NoError(t, err)
	return bin
}

// roll is a federation that is upgraded under load.
type roll struct {
	*lab.World
	t        *testing.T
	old, new string // binaries
}

// move starts nodes again with a binary, one after the other, as docs/upgrade.md says.
func (r *roll) move(z *lab.Zone, bin string, nodes ...*lab.NodeProc) {
	r.t.Helper()
	r.UseBinary(bin)
	for _, n := range nodes {
		if n.Running() {
			require.NoError(r.t, n.Stop())
		}
		n.Start()
		n.Ready()
		z.Leader()
	}
}

// status is what the zone's leader says of the upgrade.
func (r *roll) status(z *lab.Zone) (up rest.Upgrade) {
	r.t.Helper()
	await.Until(r.t, "the status of the upgrade of "+z.Name, func(ctx context.Context) (err error) {
		up, err = z.Leader().Client(z.Token).Upgrade(ctx)
		return err
	})
	return up
}

// phase waits until the upgrade of a zone is so far.
func (r *roll) phase(z *lab.Zone, want rest.UpgradePhase) {
	r.t.Helper()
	await.Until(r.t, "the upgrade of "+z.Name+" is "+string(want), func(context.Context) error {
		if got := r.status(z); got.Phase != want {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
}

// load boots over both zones and deletes again until stop is closed. Calls are repeated where the API says that this may help;
// nothing else may fail.
func (r *roll) load(z *lab.Zone, worker int, stop <-chan struct{}) (done int, err error) {
	for {
		select {
		case <-stop:
			return done, nil
		default:
		}
		id := fmt.Sprintf("load-%d-%d", worker, done)
		count := 4
		err = z.Do(r.t.Context(), z.Token, func(ctx context.Context, c *client.Client) error {
			_, err := c.Boot(ctx, rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &count, Reservation: id}, "")
			return err
		})
		if err != nil {
			return done, fmt.Errorf("booting %s: %w", id, err)
		}
		var b rest.Boot
		err = await.Wait(r.t.Context(), func(ctx context.Context) error {
			err := z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) (err error) {
				b, err = c.Reservation(ctx, api.ReservationID(id), time.Second)
				return err
			})
			if err == nil && !b.State.Outcome() {
				err = errors.New("it is " + string(b.State))
			}
			return err
		})
		if err != nil || b.State != api.BootActive {
			return done, fmt.Errorf("reservation %s is %s: %s %w", id, b.State, b.Reason, err)
		}
		err = z.Do(r.t.Context(), z.Token, func(ctx context.Context, c *client.Client) error {
			_, err := c.Release(ctx, api.ReservationID(id), 0)
			return err
		})
		if err != nil {
			return done, fmt.Errorf("releasing %s: %w", id, err)
		}
		done++
		lab.Pass(r.t.Context(), pause)
	}
}

// TestRoll: two linked zones under load are upgraded from the release before to this one node by node, turned back half way, turned
// back when all nodes are upgraded, and upgraded again. Nothing fails, nothing that ran is lost, and only the end of the upgrade is final.
func TestRoll(t *testing.T) {
	t.Parallel()
	r := &roll{t: t, old: buildBefore(t)}
	w := lab.New(t, lab.Options{})
	var err error
	r.World = w
	r.new, err = lab.BuildBinary()
	require.NoError(t, err)
	w.UseBinary(r.old)
	root, west := w.Zone("root", 1), w.Zone("west", 3)
	root.Link(west)
	root.Flavor("unit", 100)
	root.FakeAgent("fake", 2, 1000)
	west.FakeAgent("fake", 4, 1000)
	count := 25 // more than the root has room for
	await.Until(t, "instances run in both zones", func(ctx context.Context) error {
		_, err := root.Admin().Boot(ctx, rest.ServerCreate{Name: "stays", FlavorRef: "unit", MaxCount: &count, Reservation: "stays"}, "")
		if err == nil && root.Outcome(root.Token, "stays").State != api.BootActive {
			err = errors.New("it has failed")
		}
		return err
	})
	stayed := serversOf(root, "stays")
	require.Len(t, stayed, count)

	stop := make(chan struct{})
	var workers sync.WaitGroup
	booted, failed := make([]int, 2), make([]error, 2)
	for i := range booted {
		workers.Go(func() { booted[i], failed[i] = r.load(root, i, stop) })
	}
	end := sync.OnceFunc(func() { close(stop); workers.Wait() })
	defer end()

	t.Log("the child goes forward, back half way, and forward")
	r.move(west, r.new, west.Nodes[0], west.Nodes[1])
	r.move(west, r.old, west.Nodes[1])
	r.move(west, r.new, west.Nodes[1], west.Nodes[2])
	r.phase(west, rest.UpgradeReady)
	t.Log("the parent goes forward, and all of it back")
	r.move(root, r.new, root.Nodes...)
	r.phase(root, rest.UpgradeReady)
	r.move(root, r.old, root.Nodes...)
	r.move(root, r.new, root.Nodes...)
	r.phase(root, rest.UpgradeReady)
	for _, z := range []*lab.Zone{root, west} {
		for _, a := range z.Agents {
			require.NoError(t, a.Service.Stop())
			a.Start()
		}
		up := r.status(z)
		require.Less(t, up.Form, up.Next, "nothing newer is written")
	}
	t.Log("both are finished")
	for _, z := range []*lab.Zone{root, west} {
		z.CLI("operator", "upgrade", "finish", "--yes")
		r.phase(z, rest.UpgradeFinished)
	}
	assert.Equal(t, r.status(root).Form, r.status(root).Links[0].Form)

	t.Log("an older release does not come back, and the node is none the worse for it")
	n := west.Nodes[0]
	require.NoError(t, n.Stop())
	w.UseBinary(r.old)
	w.Allow(func(e lab.Exit) bool { return e.Service == n.Name && !e.Meant })
	_ = n.Up(t.Context()) // it may listen, or end before that
	await.Until(t, "the node ends", func(context.Context) error {
		if n.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	assert.Contains(t, n.Tail(3), "older than the log", "the release before says so in its own words")
	r.move(west, r.new, n)

	end()
	for i := range booted {
		require.NoError(t, failed[i])
		require.Positive(t, booted[i])
	}
	t.Logf("%v boots over both zones meanwhile", booted)
	assert.Equal(t, stayed, serversOf(root, "stays"), "what ran runs, and nothing else")
	root.ReleaseAll(root.Token, "stays")
	for _, z := range []*lab.Zone{root, west} {
		await.Until(t, "nothing is left in "+z.Name, func(context.Context) error {
			for _, h := range z.Hosts() {
				if h.Instances > 0 {
					return fmt.Errorf("host %s has %d instances", h.Name, h.Instances)
				}
			}
			return nil
		})
	}
}

// serversOf returns the ids of the active servers of a reservation.
func serversOf(z *lab.Zone, id api.ReservationID) (out []string) {
	for _, s := range z.Servers() {
		if s.Reservation == id {
			out = append(out, string(s.ID))
		}
	}
	slices.Sort(out)
	return out
}
