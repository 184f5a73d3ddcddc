//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// Sizes of the campaign of restores in a federation.
const (
	rewoundRoom    = 60 // instances in each zone
	rewoundClients = 4  // of root; half as many of west itself
	rewoundLive    = 3  // boots of each client at a time
	rewoundWhile   = 60 * time.Second
)

// rewound is a federation whose zones are restored one by one: edge, below west, has one node and loses its disk.
type rewound struct {
	*fleet
	nemesis *nemesis
	acks    *ackLog
	wg      sync.WaitGroup
}

// TestRestoresOfAFederation restores a zone with zones above and below it, in turn with the others, while clients boot over
// all of them and leaders are killed, cut off and paused; one child returns from a backup on an empty disk. Afterwards all zones
// tell the same of every instance, nothing is stuck, what was acknowledged after the last restore is there, and all room is
// free when everything that is known is given back: nothing that a zone has forgotten keeps room in another.
func TestRestoresOfAFederation(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{Machines: lab.Best(t), Quick: true, Env: []string{"BERTH_COMPACT=300:1000000"}})
	w.FromBackup()
	w.MayMove()
	f := &fleet{World: w, dice: rngOf(w.Seed)}
	f.root, f.west, f.edge = w.Zone("root", 3), w.Zone("west", 3), w.Zone("edge", 1)
	f.root.Link(f.west)
	f.west.Link(f.edge)
	for _, z := range f.zones() {
		z.Flavor("unit", unitMB)
		z.FakeAgentWithCPUs(z.Name+"-simulated", 2, rewoundRoom/2*unitMB, fleetCPUs)
	}
	f.token = f.root.MemberToken("web", api.RoleMember)
	f.supervise()
	r := &rewound{fleet: f, acks: newAckLog()}
	r.nemesis = &nemesis{fleet: f, dice: f.dice, only: []*lab.Zone{f.root, f.west}, busy: map[*lab.NodeProc]bool{}}
	f.Allow(r.nemesis.handedOver)
	ctx, quit := context.WithCancel(t.Context())
	for i := range rewoundClients + rewoundClients/2 {
		c := &rewinder{rewound: r, zone: f.root, name: fmt.Sprint("top", i), dice: rand.New(rand.NewPCG(r.Seed, uint64(i)+900))}
		if i >= rewoundClients {
			c.zone, c.name = f.west, fmt.Sprint("own", i)
		}
		r.wg.Go(func() { c.run(ctx) })
	}
	began, least := time.Now(), time.Duration(float64(rewoundWhile)**scaleFlag)
	for round := 0; round < 4 || time.Since(began) < least; round++ {
		r.round(t, round)
	}
	since := r.acks.now()
	lab.Pass(t.Context(), restoredLoad)
	quit()
	r.wg.Wait()
	kinds := r.nemesis.count(t)
	r.agreeOnInstances(t)
	r.clear(t)
	r.judge(t, since, kinds)
}

// round takes one zone back to an earlier time, while something else breaks.
func (r *rewound) round(t *testing.T, round int) {
	t.Helper()
	n := r.nemesis
	var beside fault
	kind := besideRestores[n.intn(len(besideRestores))]
	beside = faults[slices.IndexFunc(faults, func(f fault) bool { return f.kind == kind })]
	done := make(chan error, 1)
	go func() {
		n.hold(t.Context(), 0, 3*time.Second)
		_, err := n.inject(t.Context(), beside)
		done <- err
	}()
	var err error
	switch round % 4 {
	case 0, 2:
		_, err = n.inject(t.Context(), fault{snapshotRestore.kind + " of a child", false, func(n *nemesis, ctx context.Context, h *hit) error { return n.restoreZone(ctx, h, r.west) }})
	case 1:
		_, err = n.inject(t.Context(), fault{snapshotRestore.kind + " of the root", false, func(n *nemesis, ctx context.Context, h *hit) error { return n.restoreZone(ctx, h, r.root) }})
	default:
		_, err = n.inject(t.Context(), fault{"return from a backup", false, func(n *nemesis, ctx context.Context, h *hit) error { return r.bringBack(t, ctx, h) }})
	}
	require.NoError(t, errors.Join(err, <-done), "beside %s", kind)
	require.NoError(t, n.rest(t.Context()))
}

// bringBack lets edge lose its disk, brings it back from a backup, and has its parent use it again.
func (r *rewound) bringBack(t *testing.T, ctx context.Context, h *hit) error {
	t.Helper()
	node := r.edge.Nodes[0]
	h.of, h.slow = r.edge, true
	dir := t.TempDir()
	file, kek := filepath.Join(dir, "backup"), filepath.Join(dir, "kek")
	r.edge.CLI("operator", "snapshot", "save", file)
	key, err := os.ReadFile(filepath.Join(node.Dir, "kek"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(kek, key, 0o600))
	r.nemesis.hold(ctx, 500*time.Millisecond, 3*time.Second)
	node.Kill()
	r.edge.BringBack(node, file, kek, api.NodeID(fmt.Sprint("back-", r.nemesis.intn(1<<30))))
	asked := false
	return await.Wait(ctx, func(ctx context.Context) error { // until west has heard of it
		return do(ctx, r.west, func(ctx context.Context, c *client.Client) error {
			to, err := c.RelinkZone(ctx, "edge", rest.Relink{DryRun: true})
			if asked && api.CodeOf(err) == api.CodeConflict {
				return nil // it was confirmed by a call that had no answer
			}
			if err != nil {
				return err
			}
			asked = true
			_, err = c.RelinkZone(ctx, "edge", rest.Relink{Incarnation: to.Incarnation})
			return err
		})
	})
}

// agreeOnInstances waits until every zone tells the same of the instances of root's boots, and each boot is decided.
func (r *rewound) agreeOnInstances(t *testing.T) {
	t.Helper()
	await.Until(t, "the zones tell the same of every instance", func(context.Context) error {
		told, there := map[api.InstanceID]string{}, map[api.InstanceID]string{}
		for _, s := range r.root.Servers() {
			if s.Status != api.StatusDeleted && s.Status != api.StatusError {
				told[s.ID] = string(s.Status)
			}
		}
		for _, z := range r.zones() {
			for _, s := range z.Servers() {
				if s.Host != "" && s.Status != api.StatusDeleted && strings.HasPrefix(string(s.Reservation), "top") {
					there[s.ID] = string(s.Status)
				}
			}
		}
		var errs []error
		for id, status := range told {
			if there[id] != status {
				errs = append(errs, fmt.Errorf("root says that %s is %s, its zone %q", id, status, there[id]))
			}
		}
		for id, status := range there {
			if told[id] == "" {
				errs = append(errs, fmt.Errorf("%s is %s in its zone, and root does not have it", id, status))
			}
		}
		return errors.Join(errs...)
	})
}

// clear gives everything back that root and west know, and waits until no zone has anything in use.
func (r *rewound) clear(t *testing.T) {
	t.Helper()
	await.Until(t, "nothing is used any more", func(ctx context.Context) error {
		var errs []error
		for _, z := range []*lab.Zone{r.root, r.west} {
			errs = append(errs, do(ctx, z, func(ctx context.Context, c *client.Client) error { return releaseAll(ctx, c) }))
		}
		for _, z := range r.zones() {
			if used := z.Usage(); len(used) > 0 {
				errs = append(errs, fmt.Errorf("%s has %v in use", z.Name, used))
			}
		}
		return errors.Join(errs...)
	})
}

// releaseAll gives back whatever a zone has that is not over.
func releaseAll(ctx context.Context, c *client.Client) error {
	boots, err := c.Linearizable().Reservations(ctx, client.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range boots.Items {
		if b.State != api.BootReleased && b.State != api.BootFailed {
			_, err := c.Release(ctx, b.Reservation, 0)
			errs = append(errs, err, fmt.Errorf("%s is %s", b.Reservation, b.State))
		}
	}
	return errors.Join(errs...)
}

// judge checks what the zones leave. The log of edge begins with its last return.
func (r *rewound) judge(t *testing.T, since int64, kinds map[string]int) {
	t.Helper()
	r.Audit()
	r.agree(t)
	e := r.stopAndRead(t, r.root, r.west)
	sum := check.Summary{Faults: kinds}
	var found []check.Violation
	for _, z := range []*lab.Zone{r.root, r.west} {
		ls, v := check.Log(e.logs[z.Name])
		sum.Logs = append(sum.Logs, ls)
		found = append(found, v...)
		t.Logf("log of %s: %+v", z.Name, ls)
	}
	acks := slices.DeleteFunc(r.acks.end(), func(k check.Ack) bool { return k.Call < since })
	var v []check.Violation
	sum.Acks, v = check.Acks(acks, e.finals)
	found = append(found, v...)
	t.Logf("acknowledgements after the last restore: %+v", sum.Acks)
	found = append(found, check.Gate(sum, check.Floor{
		Commands: 200, Claims: 40, States: 6,
		Kinds: []string{snapshotRestore.kind + " of a child", snapshotRestore.kind + " of the root", "return from a backup"},
		Acked: map[check.AckKind]int{check.AckBoot: 4},
	})...)
	for _, one := range found {
		assert.Fail(t, "a promise was broken", one.String())
	}
}

// rewinder is one client, of root or of west itself.
type rewinder struct {
	*rewound
	zone *lab.Zone
	name string
	dice *rand.Rand
	next int
	live []api.ReservationID
}

func (c *rewinder) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.one(context.WithoutCancel(ctx))
		lab.Pass(ctx, time.Duration(50+c.dice.IntN(100))*time.Millisecond)
	}
}

// one boots, or releases the oldest.
func (c *rewinder) one(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if len(c.live) == rewoundLive {
		id := c.live[0]
		c.live = c.live[1:]
		k := check.Ack{Kind: check.AckRelease, Project: adminProject, Reservation: id}
		_ = c.acks.do(ctx, c.zone, k, func(ctx context.Context, cl *client.Client, _ *check.Ack) error { // what comes of it is recorded
			_, err := cl.Release(ctx, id, 0)
			return err
		})
		return
	}
	c.next++
	id, count := api.ReservationID(fmt.Sprint(c.name, "-", c.next)), 1+c.dice.IntN(4)
	c.live = append(c.live, id)
	in := rest.ServerCreate{Name: string(id), FlavorRef: "unit", MinCount: &count, MaxCount: &count, Reservation: string(id)}
	in.Zones = &rest.ZoneRule{MinZones: min(c.dice.IntN(4), 2, count)}
	k := check.Ack{Kind: check.AckBoot, Project: adminProject, Reservation: id}
	_ = c.acks.do(ctx, c.zone, k, func(ctx context.Context, cl *client.Client, _ *check.Ack) error {
		_, err := cl.Boot(ctx, in, string(id))
		return err
	})
}
