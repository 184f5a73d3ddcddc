//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// Sizes of the campaign of restores.
const (
	restoreRoom    = 80 // slots of the zone
	restoreClients = 4
	restoreLive    = 4 // boots, and leases, of each client at a time
	restoresWhile  = 60 * time.Second
	restoresLeast  = 3               // restores of any run
	restoredLoad   = 4 * time.Second // of the clients after the last restore
)

// besideRestores are what breaks while a zone is restored.
var besideRestores = []string{
	"kill leader", "kill follower", "isolate leader", "pause leader", "transfer leadership", "stop and start", "nobody hears leader", "wrong clock",
}

// snapshotRestore restores a zone. Only a campaign whose history has backups and restores draws it.
var snapshotRestore = fault{"snapshot restore", false, (*nemesis).restoreBackup}

// restoreBackup restores a zone that it draws.
func (n *nemesis) restoreBackup(ctx context.Context, h *hit) error {
	return n.restoreZone(ctx, h, n.zone())
}

// restoreZone saves a backup of a zone, and restores it while clients go on, and whatever else breaks.
func (n *nemesis) restoreZone(ctx context.Context, h *hit, z *lab.Zone) error {
	h.of, h.slow = z, true
	name := fmt.Sprint("backup-", n.intn(1<<30))
	do := func(k check.Kind, f func(ctx context.Context, c *client.Client) error) error {
		return await.Wait(ctx, func(ctx context.Context) error { // until it is certain that it was done
			return z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error {
				if n.history == nil {
					return f(ctx, c)
				}
				p := n.history.Begin(check.Op{Kind: k, Zone: z.Name, In: check.Input{Key: name}})
				err := f(ctx, c)
				p.End(check.OutcomeOf(err), check.Output{Code: api.CodeOf(err)})
				return err
			})
		})
	}
	var b bytes.Buffer
	err := do(check.ZoneBackup, func(ctx context.Context, c *client.Client) error {
		b.Reset()
		_, err := c.Snapshot(ctx, &b)
		return err
	})
	if err != nil {
		return err
	}
	n.hold(ctx, 500*time.Millisecond, 3*time.Second)
	return do(check.ZoneRestore, func(ctx context.Context, c *client.Client) error { return c.Restore(ctx, bytes.NewReader(b.Bytes())) })
}

// restored is a zone of three nodes that is restored again and again under load.
type restored struct {
	*fleet
	hosts []rest.Host
	rec   *check.Recorder
	acks  *ackLog
	wg    sync.WaitGroup
}

// TestRestores saves backups of a zone and restores them while clients boot, lease and change hosts, and while leaders are
// killed, cut off, paused, replaced and started with wrong clocks. There is an order of all calls, backups and restores that
// explains every answer, the replay of the log agrees with every node, and what was acknowledged after the last restore is there.
func TestRestores(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{Machines: lab.Best(t), Quick: true, Env: []string{"BERTH_COMPACT=300:1000000"}})
	w.FromBackup()
	w.MayMove()
	r := &restored{fleet: &fleet{World: w, dice: rngOf(w.Seed)}, acks: newAckLog()}
	r.root = w.Zone("root", 3)
	r.root.Flavor("unit", unitMB)
	r.root.FakeAgentWithCPUs("simulated", 4, restoreRoom/4*unitMB, fleetCPUs)
	r.hosts = r.root.Hosts()
	r.supervise()
	file, err := os.Create(filepath.Join(r.Dir, "history.json"))
	require.NoError(t, err)
	began := time.Now()
	r.rec = check.NewRecorder(func() int64 { return int64(time.Since(began)) }, file)
	n := &nemesis{fleet: r.fleet, dice: r.dice, busy: map[*lab.NodeProc]bool{}, history: r.rec}
	r.Allow(n.handedOver)
	ctx, quit := context.WithCancel(t.Context())
	for i := range restoreClients {
		c := &restorer{restored: r, n: i, dice: rand.New(rand.NewPCG(r.Seed, uint64(i)+500))}
		r.wg.Go(func() { c.run(ctx) })
	}
	rounds := 0
	for least := time.Duration(float64(restoresWhile) * *scaleFlag); rounds < restoresLeast || time.Since(began) < least; rounds++ {
		r.round(t, n, rounds)
	}
	since := r.acks.now()
	lab.Pass(t.Context(), restoredLoad)
	quit()
	r.wg.Wait()
	ops, err := r.rec.Close()
	require.NoError(t, errors.Join(err, file.Close()))
	kinds := n.count(t)
	assert.GreaterOrEqual(t, kinds[snapshotRestore.kind], restoresLeast)
	r.clear(t)
	r.judge(t, ops, since, kinds)
}

// round restores the zone, every second time while something else breaks.
func (r *restored) round(t *testing.T, n *nemesis, round int) {
	t.Helper()
	at := []fault{snapshotRestore}
	if kind := besideRestores[n.intn(len(besideRestores))]; round%2 == 1 {
		at = append(at, faults[slices.IndexFunc(faults, func(f fault) bool { return f.kind == kind })])
	}
	errs := make(chan error, len(at))
	for i, f := range at {
		go func() {
			if i > 0 {
				n.hold(t.Context(), 0, 3*time.Second)
			}
			_, err := n.inject(t.Context(), f)
			errs <- err
		}()
	}
	for range at {
		require.NoError(t, <-errs)
	}
	require.NoError(t, n.rest(t.Context()), "after %v", at)
}

// clear gives everything back, and waits until nothing is used any more.
func (r *restored) clear(t *testing.T) {
	t.Helper()
	r.enableAll(t.Context(), t)
	await.Until(t, "nothing is used any more", func(ctx context.Context) error {
		return do(ctx, r.root, func(ctx context.Context, c *client.Client) error {
			leases, err := c.Linearizable().Leases(ctx)
			for _, l := range leases {
				err = errors.Join(err, r.acks.do(ctx, r.root, check.Ack{Kind: check.AckLeaseDelete, Lease: l.ID}, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
					return c.DeleteLease(ctx, l.ID)
				}))
			}
			boots, bad := c.Linearizable().Reservations(ctx, client.ListOptions{})
			err = errors.Join(err, bad)
			for _, b := range boots.Items {
				if b.State != api.BootReleased && b.State != api.BootFailed {
					_, bad = c.Release(ctx, b.Reservation, 0)
					err = errors.Join(err, bad)
				}
			}
			hosts, bad := c.Linearizable().Hosts(ctx, client.ListOptions{})
			err = errors.Join(err, bad)
			for _, h := range hosts.Items {
				if len(h.Used) > 0 || h.State != api.HostUp {
					err = errors.Join(err, fmt.Errorf("host %s is %s and has %v", h.Name, h.State, h.Used))
				}
			}
			return err
		})
	})
}

// judge checks everything that the zone leaves. What was acknowledged before the last restore may be lost.
func (r *restored) judge(t *testing.T, ops []check.Op, since int64, kinds map[string]int) {
	t.Helper()
	r.Audit()
	r.agree(t)
	e := r.stopAndRead(t, r.zones()...)
	ls, found := check.Log(e.logs["root"])
	js, bad := check.Journals(e.journals, check.JournalOptions{
		Active: e.active, Restored: true, Moved: ls.Moved, Evacuated: ls.Evacuated, Returned: ls.Returned,
	})
	found = append(found, bad...)
	acks := slices.DeleteFunc(r.acks.end(), func(k check.Ack) bool { return k.Call < since })
	as, bad := check.Acks(acks, e.finals)
	found = append(found, bad...)
	hs, bad := check.History(ops, check.HistoryOptions{Dir: r.Dir})
	found = append(found, bad...)
	found = append(found, check.Gate(check.Summary{Logs: []check.LogSummary{ls}, Journals: js, Acks: as, History: hs, Faults: kinds}, check.Floor{
		Ops: 200, OK: 100, Leased: 20, Partitions: 20, Commands: 100, Claims: 20, States: 3, Kinds: []string{snapshotRestore.kind},
		Outcomes: check.Outcomes{"Restore ok": restoresLeast},
	})...)
	for _, v := range found {
		assert.Fail(t, "a promise was broken", v.String())
	}
	t.Logf("history: %+v", hs)
	t.Logf("log: %+v", ls)
	t.Logf("acknowledgements after the last restore: %+v; journals: %+v", as, js)
}

// restorer is one client of a zone that is restored.
type restorer struct {
	*restored
	n      int
	dice   *rand.Rand
	next   int
	boots  []api.ReservationID
	leases []api.LeaseID
	gens   map[api.HostID]uint64
}

func (c *restorer) run(ctx context.Context) {
	c.gens = map[api.HostID]uint64{}
	calls := check.LeaseCalls{To: c.rec, Zone: "root", Client: c.n}
	for ctx.Err() == nil {
		on := context.WithoutCancel(ctx)
		switch what := c.dice.IntN(20); {
		case what < 4:
			c.host(on, what == 0)
		case what < 11:
			c.boot(on, what)
		default:
			c.lease(on, calls, what)
		}
		lab.Pass(ctx, time.Duration(c.dice.IntN(60))*time.Millisecond)
	}
}

// once makes one call once, and records it.
func (c *restorer) once(ctx context.Context, op check.Op, f func(ctx context.Context, cl *client.Client) (check.Output, error)) error {
	op.Client, op.Zone = c.n, "root"
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	return do(ctx, c.root, func(ctx context.Context, cl *client.Client) error { // each attempt is an operation
		p := c.rec.Begin(op)
		out, err := f(ctx, cl)
		out.Code = api.CodeOf(err)
		p.End(check.OutcomeOf(err), out)
		if op.Kind == check.HostSet && err != nil {
			delete(c.gens, op.In.Host)
		}
		return err
	})
}

// host reads a host, or enables or disables it if nobody has changed it since.
func (c *restorer) host(ctx context.Context, set bool) {
	h := c.hosts[c.dice.IntN(len(c.hosts))].ID
	op := check.Op{Kind: check.HostRead, In: check.Input{Host: h}}
	if set = set && c.gens[h] != 0; set {
		op.Kind, op.In.Generation, op.In.Enabled = check.HostSet, c.gens[h], c.dice.IntN(4) > 0
	}
	_ = c.once(ctx, op, func(ctx context.Context, cl *client.Client) (check.Output, error) { // what comes of it is recorded
		var got rest.Host
		var err error
		if set {
			got, err = cl.UpdateHost(ctx, string(h), rest.HostSpec{Enabled: &op.In.Enabled, Generation: op.In.Generation})
		} else {
			got, err = cl.Linearizable().Host(ctx, string(h))
		}
		if err == nil {
			c.gens[h] = got.Generation
		}
		return check.Output{Generation: got.Generation, Enabled: got.Enabled, Used: got.Used}, err
	})
}

// boot boots, repeats a boot, reads one or releases the oldest.
func (c *restorer) boot(ctx context.Context, what int) {
	op := check.Op{Kind: check.BootRead, In: check.Input{Project: adminProject}}
	count := 1 + c.dice.IntN(3)
	switch {
	case what < 6 && len(c.boots) < restoreLive:
		c.next++
		c.boots = append(c.boots, api.ReservationID(fmt.Sprintf("r%d-%d", c.n, c.next)))
		op.Kind, op.In.Reservation = check.BootAsk, c.boots[len(c.boots)-1]
	case len(c.boots) == 0:
		return
	case what == 6:
		op.Kind, op.In.Reservation = check.BootAsk, c.boots[c.dice.IntN(len(c.boots))]
	case what == 7 && len(c.boots) == restoreLive:
		op.Kind, op.In.Reservation = check.BootRelease, c.boots[0]
		c.boots = c.boots[1:]
	default:
		op.In.Reservation = c.boots[c.dice.IntN(len(c.boots))]
	}
	id := op.In.Reservation
	kinds := map[check.Kind]check.AckKind{check.BootAsk: check.AckBoot, check.BootRelease: check.AckRelease}
	if op.Kind == check.BootAsk {
		op.In.Digest = strconv.Itoa(count)
	}
	called := c.acks.now()
	err := c.once(ctx, op, func(ctx context.Context, cl *client.Client) (out check.Output, err error) {
		switch op.Kind { //nolint:exhaustive // there are no others
		case check.BootAsk:
			in := rest.ServerCreate{Name: string(id), FlavorRef: "unit", MinCount: &count, MaxCount: &count, Reservation: string(id)}
			out.Reservation, err = cl.Boot(ctx, in, string(id))
		case check.BootRelease:
			_, err = cl.Release(ctx, id, 0)
		default:
			var b rest.Boot
			b, err = cl.Linearizable().Reservation(ctx, id, 0)
			out.Reservation, out.State = b.Reservation, b.State
		}
		return out, err
	})
	if k, writes := kinds[op.Kind]; writes && check.OutcomeOf(err) != check.Refused { // a conflict says nothing of the reservation
		c.acks.add(check.Ack{Kind: k, Zone: "root", Project: adminProject, Reservation: id}, called, 1, err)
	}
}

// lease makes a lease of tomorrow or of this minute, changes one, ends the oldest or reads one.
func (c *restorer) lease(ctx context.Context, calls check.LeaseCalls, what int) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if len(c.leases) < restoreLive && what < 14 {
		c.next++
		from := []int{0, 24 * 60}[c.dice.IntN(2)]
		in := bySize(slotsOf(fmt.Sprintf("l%d-%d", c.n, c.next), 1+c.dice.IntN(3), minute(from), minute(from+2)))
		var got rest.Lease
		err := c.acks.do(ctx, c.root, check.Ack{Kind: check.AckLease, Amount: *in.Reservations[0].Amount}, func(ctx context.Context, cl *client.Client, k *check.Ack) (err error) {
			got, err = calls.Create(ctx, cl, in)
			k.Lease = got.ID
			return err
		})
		if err == nil {
			c.leases = append(c.leases, got.ID)
		}
		return
	}
	if len(c.leases) == 0 {
		return
	}
	id := c.leases[c.dice.IntN(len(c.leases))]
	if what == 14 && len(c.leases) == restoreLive {
		id, c.leases = c.leases[0], c.leases[1:]
		_ = c.acks.do(ctx, c.root, check.Ack{Kind: check.AckLeaseDelete, Lease: id}, func(ctx context.Context, cl *client.Client, _ *check.Ack) error {
			return calls.End(ctx, cl, id)
		})
		return
	}
	var l rest.Lease
	err := do(ctx, c.root, func(ctx context.Context, cl *client.Client) (err error) {
		l, err = calls.Read(ctx, cl, id)
		return err
	})
	if api.CodeOf(err) == api.CodeNotFound {
		c.leases = slices.DeleteFunc(c.leases, func(o api.LeaseID) bool { return o == id })
	}
	if err == nil && what < 17 && len(l.Reservations) > 0 {
		amount := 1 + c.dice.IntN(4)
		k := check.Ack{Kind: check.AckLeaseUpdate, Lease: id, Amount: amount}
		_ = c.acks.do(ctx, c.root, k, func(ctx context.Context, cl *client.Client, _ *check.Ack) error {
			return calls.Update(ctx, cl, id, rest.LeaseUpdate{Reservations: []rest.ReservationSpec{{ID: l.Reservations[0].ID, Amount: &amount}}})
		})
	}
}
