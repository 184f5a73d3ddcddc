//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// Sizes of the traffic.
const (
	clientsAtOnce = 32
	selectorsMax  = 3   // clients that do nothing but select
	selectCount   = 400 // instances of each select: many, so that much is said between zones
	liveMax       = 2   // reservations that one client keeps
	bootMax       = 4   // instances of one boot
	callMax       = 8 * time.Second
	operationsMin = 60_000
	gatewayMBMin  = 60
)

// traffic is clients that use a federation, and the history of what they were told.
type traffic struct {
	f     *fleet
	rec   *check.Recorder
	hosts map[*lab.Zone][]rest.Host

	stop    context.CancelFunc
	wg      sync.WaitGroup
	file    *os.File
	probers []*prober // one for each zone

	mu   sync.Mutex // guards what follows
	acks []check.Ack
	ids  []api.ReservationID // every one that was ever asked for
	done int

	log      *ackLog      // of volumes and bindings
	attached atomic.Int64 // answered calls that attach a volume or detach one
}

// newTraffic starts clients. They go on until end.
func newTraffic(t *testing.T, f *fleet) *traffic {
	t.Helper()
	file, err := os.Create(filepath.Join(f.Dir, "history.json"))
	require.NoError(t, err)
	began := time.Now()
	tr := &traffic{f: f, log: newAckLog(), file: file, hosts: map[*lab.Zone][]rest.Host{}}
	tr.rec = check.NewRecorder(func() int64 { return int64(time.Since(began)) }, file)
	for _, z := range f.zones() {
		tr.hosts[z] = z.Hosts()
	}
	keepers := newKeepers(t, tr)
	for _, z := range f.zones() {
		tr.probers = append(tr.probers, newProber(t, z))
	}
	var ctx context.Context
	ctx, tr.stop = context.WithCancel(t.Context())
	for _, k := range keepers {
		tr.wg.Go(func() { k.run(ctx) })
	}
	for _, p := range tr.probers {
		tr.wg.Go(func() { p.run(ctx) })
	}
	for n := range clientsAtOnce {
		c := &caller{tr: tr, n: n, dice: rand.New(rand.NewPCG(f.Seed, uint64(n)+1))}
		tr.wg.Go(func() { c.run(ctx) })
	}
	for _, b := range newBinders(f, tr.log) {
		tr.wg.Go(func() { b.run(ctx) })
	}
	for range selectorsMax {
		tr.wg.Go(func() { tr.selects(ctx) })
	}
	return tr
}

// reach lets the clients go on until there are so many operations, and so many bytes
// have left gateways: a busy machine has fewer while things break.
func (tr *traffic) reach(t *testing.T, count int, bytes int64) {
	t.Helper()
	began, before := time.Now(), tr.count()
	_ = await.Wait(t.Context(), func(ctx context.Context) error { // too few fail a gate
		lab.Pass(ctx, lookEvery)
		n, left := tr.count(), tr.tapped()
		if n < count || left < bytes+bytes/4 { // files hold a little more than what was sent
			return fmt.Errorf("%d operations of %d, %d bytes of %d", n, count, left, bytes)
		}
		return nil
	})
	t.Logf("%d operations in %.1f s without faults", tr.count()-before, time.Since(began).Seconds())
}

// tapped returns how many bytes the taps of the gateways have written.
func (tr *traffic) tapped() (sum int64) {
	_ = filepath.WalkDir(tr.f.TapDir(""), func(_ string, e fs.DirEntry, err error) error { // what goes meanwhile does not count
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// end stops the clients and returns the history.
func (tr *traffic) end() ([]check.Op, error) {
	tr.stop()
	tr.wg.Wait()
	ops, err := tr.rec.Close()
	if e := tr.file.Close(); err == nil {
		err = e
	}
	return ops, err
}

// count returns how many operations have an answer.
func (tr *traffic) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.done
}

// one counts an operation that has an answer.
func (tr *traffic) one() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.done++
}

func (tr *traffic) note(a check.Ack) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.acks = append(tr.acks, a)
}

// caller is one client.
type caller struct {
	tr   *traffic
	n    int
	dice *rand.Rand
	next int
	live []api.ReservationID
	gens map[api.HostID]uint64
}

func (c *caller) run(ctx context.Context) {
	c.gens = map[api.HostID]uint64{}
	for ctx.Err() == nil {
		switch r := c.dice.IntN(100); {
		case r < 7 && len(c.live) < liveMax:
			id := c.name()
			c.live = append(c.live, id)
			c.tr.mu.Lock()
			c.tr.ids = append(c.tr.ids, id)
			c.tr.mu.Unlock()
			c.ask(ctx, id, 1+c.dice.IntN(bootMax))
		case r < 10 && len(c.live) > 0:
			c.ask(ctx, c.any(), 1+c.dice.IntN(bootMax)) // a repeat, or a conflict
		case r < 16 && len(c.live) == liveMax:
			id := c.live[0]
			c.live = c.live[1:]
			c.release(ctx, id)
		case r < 18:
			c.useVolume(ctx)
		case r < 26:
			c.setHost(ctx)
		case r < 55:
			c.readHost(ctx)
		case r < 60 && len(c.live) > 0:
			c.peekBoot(ctx, c.any())
		case len(c.live) > 0:
			c.readBoot(ctx, c.any())
		}
		c.tr.one()
	}
}

// name returns the name of a new reservation. Every third one needs licences, every fourth volumes.
func (c *caller) name() api.ReservationID {
	c.next++
	switch {
	case c.next%3 == 0:
		return api.ReservationID(fmt.Sprintf("%s-%d-%d", licensed, c.n, c.next))
	case c.next%4 == 0:
		return api.ReservationID(fmt.Sprintf("%s-%d-%d", withVolumes, c.n, c.next))
	}
	return api.ReservationID(fmt.Sprintf("c%d-%d", c.n, c.next))
}

func (c *caller) any() api.ReservationID { return c.live[c.dice.IntN(len(c.live))] }

// call makes one call at a zone, with repeats where the client makes them by itself.
func (c *caller) call(ctx context.Context, z *lab.Zone, token string, f func(ctx context.Context, cl *client.Client) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callMax)
	defer cancel()
	return z.Do(ctx, token, f)
}

// ask boots, or asks again.
func (c *caller) ask(ctx context.Context, id api.ReservationID, count int) {
	p := c.tr.rec.Begin(check.Op{
		Client: c.n, Kind: check.BootAsk, Zone: "root",
		In: check.Input{Project: "web", Reservation: id, Digest: strconv.Itoa(count)},
	})
	flavor := "unit"
	if strings.HasPrefix(string(id), licensed) {
		flavor = licensed
	}
	order := rest.ServerCreate{Name: string(id), FlavorRef: flavor, MinCount: &count, MaxCount: &count, Reservation: string(id)}
	if strings.HasPrefix(string(id), withVolumes) {
		order = orderVolumes(id, count)
	}
	var got api.ReservationID
	err := c.call(ctx, c.tr.f.root, c.tr.f.token, func(ctx context.Context, cl *client.Client) error {
		var err error
		got, err = cl.Boot(ctx, order, string(id))
		return err
	})
	out := check.OutcomeOf(err)
	p.End(out, check.Output{Code: api.CodeOf(err), Reservation: got})
	if out != check.Refused { // a conflict says nothing of the reservation itself
		c.tr.note(check.Ack{Kind: check.AckBoot, Zone: "root", Outcome: out, Project: "web", Reservation: id})
	}
}

func (c *caller) release(ctx context.Context, id api.ReservationID) {
	p := c.tr.rec.Begin(check.Op{Client: c.n, Kind: check.BootRelease, Zone: "root", In: check.Input{Project: "web", Reservation: id}})
	err := c.call(ctx, c.tr.f.root, c.tr.f.token, func(ctx context.Context, cl *client.Client) error {
		_, err := cl.Release(ctx, id, 0)
		return err
	})
	out := check.OutcomeOf(err)
	p.End(out, check.Output{Code: api.CodeOf(err)})
	c.tr.note(check.Ack{Kind: check.AckRelease, Zone: "root", Outcome: out, Code: api.CodeOf(err), Project: "web", Reservation: id})
}

func (c *caller) readBoot(ctx context.Context, id api.ReservationID) {
	p := c.tr.rec.Begin(check.Op{Client: c.n, Kind: check.BootRead, Zone: "root", In: check.Input{Project: "web", Reservation: id}})
	var b rest.Boot
	err := c.call(ctx, c.tr.f.root, c.tr.f.token, func(ctx context.Context, cl *client.Client) error {
		var err error
		b, err = cl.Linearizable().Reservation(ctx, id, 0)
		return err
	})
	p.End(check.OutcomeOf(err), check.Output{Code: api.CodeOf(err), Reservation: b.Reservation, State: b.State})
}

// peekBoot reads a reservation from the view of one node, which may be old. A node
// that was started again meanwhile is not judged.
func (c *caller) peekBoot(ctx context.Context, id api.ReservationID) {
	nodes := c.tr.f.root.Members()
	n := nodes[c.dice.IntN(len(nodes))]
	life := n.Life()
	cl, err := n.TryClient(c.tr.f.token)
	if err != nil || !n.Running() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callMax)
	defer cancel()
	p := c.tr.rec.Begin(check.Op{Client: c.n, Kind: check.BootRead, Zone: "root", In: check.Input{Project: "web", Reservation: id}})
	b, err := cl.Reservation(ctx, id, 0)
	out := check.OutcomeOf(err)
	if n.Life() != life {
		out = check.Unknown
	}
	p.EndLocal(out, check.Output{Code: api.CodeOf(err), Reservation: b.Reservation, State: b.State}, life, b.Index)
}

// place returns a zone and a host of it.
func (c *caller) place() (*lab.Zone, rest.Host) {
	zs := c.tr.f.zones()
	z := zs[c.dice.IntN(len(zs))]
	hs := c.tr.hosts[z]
	return z, hs[c.dice.IntN(len(hs))]
}

func (c *caller) readHost(ctx context.Context) {
	z, h := c.place()
	p := c.tr.rec.Begin(check.Op{Client: c.n, Kind: check.HostRead, Zone: z.Name, In: check.Input{Host: h.ID}})
	var got rest.Host
	err := c.call(ctx, z, z.Token, func(ctx context.Context, cl *client.Client) error {
		var err error
		got, err = cl.Linearizable().Host(ctx, string(h.ID))
		return err
	})
	if err == nil {
		c.gens[h.ID] = got.Generation
	}
	p.End(check.OutcomeOf(err), check.Output{Code: api.CodeOf(err), Generation: got.Generation, Enabled: got.Enabled, Used: got.Used})
}

// setHost enables or, now and then, disables a host that this client has read, if
// nobody has changed it since. The call is made once: a second one might be refused
// for what the first has done.
func (c *caller) setHost(ctx context.Context) {
	z, h := c.place()
	gen, enabled := c.gens[h.ID], c.dice.IntN(4) > 0
	if gen == 0 {
		return
	}
	p := c.tr.rec.Begin(check.Op{
		Client: c.n, Kind: check.HostSet, Zone: z.Name, In: check.Input{Host: h.ID, Generation: gen, Enabled: enabled},
	})
	var got rest.Host
	err := error(errUnsent)
	_ = c.call(ctx, z, z.Token, func(ctx context.Context, cl *client.Client) error {
		got, err = cl.UpdateHost(ctx, string(h.ID), rest.HostSpec{Enabled: &enabled, Generation: gen})
		return nil // whatever came of it
	})
	out := check.OutcomeOf(err)
	p.End(out, check.Output{Code: api.CodeOf(err), Generation: got.Generation, Enabled: got.Enabled})
	delete(c.gens, h.ID)
	if out == check.OK {
		c.gens[h.ID] = got.Generation
		c.tr.note(check.Ack{Kind: check.AckHost, Zone: z.Name, Outcome: out, Host: h.ID, Generation: got.Generation})
	}
}

// selects asks for large plans, of which nothing comes but words between zones.
func (tr *traffic) selects(ctx context.Context) {
	count := selectCount
	least := 1
	for ctx.Err() == nil {
		_ = tr.f.root.Do(ctx, tr.f.token, func(ctx context.Context, c *client.Client) error { // an estimate binds nobody
			_, err := c.Select(ctx, rest.ServerCreate{Name: "estimate", FlavorRef: "unit", MinCount: &least, MaxCount: &count})
			return err
		})
	}
}
