//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	"berth/quota"
	"berth/raftstore/state"
)

// Sizes of the campaign against leases.
const (
	leaseRoom   = 40  // slots in each zone
	leaseMost   = 70  // slots of one lease: then it needs all zones
	leaseCalls  = 6   // clients
	leasesScale = 0.5 // least scale of leasesWhile: leases last a minute or more
	leasesWhile = 45 * time.Second
	leasesDown  = 70 * time.Second // all zones: longer than a lease of a minute

	sleepMargin = 8 * time.Second // before a lease begins that is to begin while all sleep
	leaseMargin = 3 * time.Second // before the end of a lease, in which some zone may have ended its part
)

// leaseFaults are what breaks while leases are made, start and end.
var leaseFaults = []string{
	"kill leader", "kill follower", "kill majority", "kill all nodes", "isolate leader", "pause leader", "cut link", "cut link one way",
	"transfer leadership", "kill leader", "cut link",
}

// leasesLeast is what clients must have done and seen to show something, and roundsMost how many faults they
// have for that: a busy machine does less in the same time.
var leasesLeast = map[string]int{"made": 10, "booted into": 2, "looked at ACTIVE": 5, "looked at PENDING": 2, "deleted": 2, "resized": 1, "series made": 1, "quota set": 5}

const roundsMost = 100

// enough reports whether clients have done and seen so much.
func (m *tenants) enough() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for what, least := range leasesLeast {
		if m.count[what] < least {
			return false
		}
	}
	return true
}

// tenants are clients that lease hosts and slots of a federation.
type tenants struct {
	*fleet
	quit context.CancelFunc
	wg   sync.WaitGroup
	acks *ackLog
	log  *leaseLog

	mu     sync.Mutex // guards what follows
	dice   *rand.Rand
	series []api.SeriesID       // acknowledged
	made   []api.LeaseID        // acknowledged
	ended  map[api.LeaseID]bool // somebody has asked for their end
	count  map[string]int
	half   []string // what was seen of leases that were not whole
}

// TestLeases makes, changes, uses and ends leases over three zones while leaders are killed and
// links are cut, and then stops all zones for longer than several events. No lease is ever half,
// none starts or ends twice, what was due happens in order, nothing is left in the end of those that ended, and
// what was acknowledged of leases is in the final state of every node, and there is an order of all calls about them that explains
// the answers.
func TestLeases(t *testing.T) {
	t.Parallel()
	f := newFleet(t, lab.Options{Env: []string{"BERTH_COMPACT=300:1000000"}, Tap: true}, 3, leaseRoom)
	f.supervise()
	n := &nemesis{fleet: f, dice: f.dice, busy: map[*lab.NodeProc]bool{}}
	f.Allow(n.handedOver)
	m := &tenants{fleet: f, acks: newAckLog(), log: newLeaseLog(t, f.Dir), dice: rngOf(f.Seed + 1), ended: map[api.LeaseID]bool{}, count: map[string]int{}}
	kept := m.keep(t)
	m.start(t)
	least := time.Duration(float64(leasesWhile) * max(*scaleFlag, leasesScale))
	for began, rounds := time.Now(), 0; time.Since(began) < least || time.Now().Second() < 15 || time.Now().Second() > 40 || rounds < roundsMost && !m.enough(); rounds++ {
		kind := leaseFaults[n.intn(len(leaseFaults))]
		f := faults[slices.IndexFunc(faults, func(f fault) bool { return f.kind == kind })]
		_, err := n.inject(t.Context(), f)
		require.NoError(t, err)
		lab.Pass(t.Context(), time.Second)
	}
	m.quit()
	m.wg.Wait()
	n.count(t)
	before, after, window := m.sleep(t)
	m.finish(t, kept)
	m.agree(t)
	m.judge(t, kept, before, after, window)
}

// slotsOf is a lease of some slots.
func slotsOf(name string, slots int, from, until api.Instant) rest.LeaseCreate {
	return rest.LeaseCreate{
		Name: name, Start: rest.LeaseDateOf(from), End: rest.LeaseDateOf(until),
		Reservations: []rest.ReservationSpec{{
			Type: api.ReserveFlavor, Amount: &slots, Flavor: "unit",
		}},
	}
}

// bySize makes a lease one of slots of a size of its own, which may be changed: one of a flavor may not.
func bySize(l rest.LeaseCreate) rest.LeaseCreate {
	l.Reservations[0] = rest.ReservationSpec{
		Type: api.ReserveInstances, Amount: l.Reservations[0].Amount, VCPUs: new(int64(1)), Memory: new(int64(unitMB)), Disk: new(int64(0)), Affinity: "none",
	}
	return l
}

// minute returns an instant so many minutes after the beginning of this one.
func minute(n int) api.Instant {
	return api.InstantOf(time.Now().Truncate(time.Minute).Add(time.Duration(n) * time.Minute))
}

// do makes a call at a zone as an administrator.
func do(ctx context.Context, z *lab.Zone, f func(ctx context.Context, c *client.Client) error) error {
	return z.Do(ctx, z.Token, f)
}

// keep gives every zone a lease of tomorrow that nobody touches, with a name that must not leave it.
func (m *tenants) keep(t *testing.T) map[string]api.LeaseID {
	t.Helper()
	out := map[string]api.LeaseID{}
	for _, z := range m.zones() {
		slots := 1
		if z == m.root {
			slots = leaseRoom + 1
		}
		lease := slotsOf("secret-lease-of-"+z.Name, slots, minute(24*60), minute(25*60))
		await.Until(t, "there is room in "+z.Name, func(ctx context.Context) error { // it hears from below
			return do(ctx, z, func(ctx context.Context, c *client.Client) error {
				l, err := c.CreateLease(ctx, lease, "kept")
				out[z.Name] = l.ID
				return err
			})
		})
	}
	return out
}

func (m *tenants) start(t *testing.T) {
	t.Helper()
	var ctx context.Context
	ctx, m.quit = context.WithCancel(t.Context())
	for n := range leaseCalls {
		dice := rand.New(rand.NewPCG(m.Seed, uint64(n)+77))
		m.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m.act(context.WithoutCancel(ctx), fmt.Sprintf("l%d-%d", n, i), dice)
			}
		})
	}
	limits := rand.New(rand.NewPCG(m.Seed, 78))
	m.wg.Go(func() {
		for ; ctx.Err() == nil; lab.Pass(ctx, time.Second) {
			m.limit(context.WithoutCancel(ctx), limits)
		}
	})
	m.wg.Go(func() {
		for ; ctx.Err() == nil; lab.Pass(ctx, lookEvery) {
			m.look(context.WithoutCancel(ctx))
		}
	})
}

func (m *tenants) note(what string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.count[what]++
	} else {
		m.count[what+": "+string(api.CodeOf(err))]++
	}
}

// any draws a lease that was acknowledged, rather a late one.
func (m *tenants) any(dice *rand.Rand) (api.LeaseID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.made) == 0 {
		return "", false
	}
	return m.made[len(m.made)-1-dice.IntN(min(8, len(m.made)))], true
}

// act does one thing that a client does.
func (m *tenants) act(ctx context.Context, name string, dice *rand.Rand) {
	id, some := m.any(dice)
	switch what := dice.IntN(10); {
	case what == 8: // it stays until the end
		m.make(ctx, bySize(slotsOf("far-"+name, 1+dice.IntN(2), minute(24*60), minute(25*60))))
	case what == 9:
		m.repeat(ctx, slotsOf("series-"+name, 1, minute(25*60), minute(25*60+30)))
	case !some || what < 3:
		from := dice.IntN(2)
		l := slotsOf(name, 1+dice.IntN(leaseMost), minute(from), minute(from+1+dice.IntN(2)))
		if dice.IntN(2) == 0 {
			l = bySize(l)
		}
		m.make(ctx, l)
	default:
		m.use(ctx, id, what, name, dice)
	}
}

// use changes, ends or uses a lease.
func (m *tenants) use(ctx context.Context, id api.LeaseID, what int, name string, dice *rand.Rand) {
	does := []string{3: "prolonged", 4: "resized", 5: "deleted", 6: "booted into", 7: "booted into"}[what]
	var l rest.Lease
	err := do(ctx, m.root, func(ctx context.Context, c *client.Client) (err error) {
		l, err = m.log.calls().Read(ctx, c, id)
		return err
	})
	if err != nil || len(l.Reservations) == 0 {
		m.note(does, err)
		return
	}
	switch what {
	case 3:
		err = m.update(ctx, check.Ack{Lease: id, End: api.Instant(l.End).Add(time.Minute)}, l.Reservations[0].ID)
	case 4:
		err = m.update(ctx, check.Ack{Lease: id, Amount: 1 + dice.IntN(leaseMost)}, l.Reservations[0].ID)
	case 5:
		err = m.end(ctx, id)
	default:
		into := l.Reservations[0].ID
		in := rest.ServerCreate{Name: name, FlavorRef: "unit", MinCount: new(1 + dice.IntN(8)), Reservation: name}
		in.MaxCount = in.MinCount
		in.Hints = &rest.SchedulerHints{Reservation: into}
		k := check.Ack{Kind: check.AckBoot, Project: adminProject, Reservation: api.ReservationID(name), Into: into}
		err = m.acks.do(ctx, m.root, k, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
			_, err := c.Boot(ctx, in, name)
			return err
		})
	}
	m.note(does, err)
}

// update gives a lease the end or the size of an acknowledgement.
func (m *tenants) update(ctx context.Context, k check.Ack, reservation api.ReservationID) error {
	k.Kind = check.AckLeaseUpdate
	u := rest.LeaseUpdate{}
	if k.End != 0 {
		u.End = rest.LeaseDateOf(k.End)
	}
	if k.Amount != 0 {
		u.Reservations = []rest.ReservationSpec{{ID: reservation, Amount: &k.Amount}}
	}
	return m.acks.do(ctx, m.root, k, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
		return m.log.calls().Update(ctx, c, k.Lease, u)
	})
}

// end ends a lease.
func (m *tenants) end(ctx context.Context, id api.LeaseID) error {
	m.mu.Lock()
	m.ended[id] = true
	m.mu.Unlock()
	return m.acks.do(ctx, m.root, check.Ack{Kind: check.AckLeaseDelete, Lease: id}, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
		return m.log.calls().End(ctx, c, id)
	})
}

// make makes a lease.
func (m *tenants) make(ctx context.Context, l rest.LeaseCreate) api.LeaseID {
	k := check.Ack{Kind: check.AckLease, Amount: *l.Reservations[0].Amount}
	var got rest.Lease
	err := m.acks.do(ctx, m.root, k, func(ctx context.Context, c *client.Client, k *check.Ack) (err error) {
		got, err = m.log.calls().Create(ctx, c, l)
		k.Lease = got.ID
		return err
	})
	m.note("made", err)
	if err != nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made = append(m.made, got.ID)
	return got.ID
}

// repeat makes a series of leases.
func (m *tenants) repeat(ctx context.Context, l rest.LeaseCreate) {
	in := rest.SeriesCreate{LeaseCreate: l, Rule: "FREQ=DAILY;COUNT=3", TimeZone: "UTC"}
	var got rest.Series
	err := m.acks.do(ctx, m.root, check.Ack{Kind: check.AckSeries}, func(ctx context.Context, c *client.Client, k *check.Ack) (err error) {
		got, err = c.CreateSeries(ctx, in, l.Name)
		k.Series = got.ID
		return err
	})
	m.note("series made", err)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.series = append(m.series, got.ID)
	}
}

// limit gives a project that nobody uses another quota.
func (m *tenants) limit(ctx context.Context, dice *rand.Rand) {
	p, n := api.ProjectID(fmt.Sprint("limited-", dice.IntN(3))), 1+dice.Int64N(1000)
	k := check.Ack{Kind: check.AckQuota, Project: p, Item: quota.Instances, Limit: n}
	m.note("quota set", m.acks.do(ctx, m.root, k, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
		_, err := c.SetQuota(ctx, p, map[string]*int64{string(quota.Instances): &n})
		return err
	}))
}

// endLast ends the newest lease, other than but, that nobody has ended.
func (m *tenants) endLast(ctx context.Context, but api.LeaseID) {
	m.mu.Lock()
	i := len(m.made) - 1
	for i >= 0 && (m.made[i] == but || m.ended[m.made[i]]) {
		i--
	}
	if i < 0 {
		m.mu.Unlock()
		return
	}
	id := m.made[i]
	m.mu.Unlock()
	m.note("deleted", m.end(ctx, id))
}

// look holds, from outside, that a lease which is there has all of its slots, and that nobody has
// lost one that was acknowledged.
func (m *tenants) look(ctx context.Context) {
	m.mu.Lock()
	made := slices.Clone(m.made[max(0, len(m.made)-8):])
	m.mu.Unlock()
	for _, id := range made {
		var was, is rest.Lease
		var slots []rest.LeaseSlot
		err := do(ctx, m.root, func(ctx context.Context, c *client.Client) (err error) {
			if was, err = m.log.calls().Read(ctx, c, id); err != nil {
				return err
			}
			if slots, err = c.Linearizable().LeaseSlots(ctx, id); err != nil {
				return err
			}
			is, err = m.log.calls().Read(ctx, c, id)
			return err
		})
		m.mu.Lock()
		switch {
		case api.CodeOf(err) == api.CodeNotFound && !m.ended[id]:
			m.half = append(m.half, fmt.Sprintf("lease %s was acknowledged, and is gone", id))
		case err != nil || was.Status != is.Status || was.Updated != is.Updated || was.Reservations[0].Amount != is.Reservations[0].Amount:
		case is.Status != api.LeasePending && is.Status != api.LeaseActive || time.Until(api.Instant(is.End).Time()) < leaseMargin:
		default:
			m.count["looked at "+string(is.Status)]++
			if len(slots) != is.Reservations[0].Amount {
				m.half = append(m.half, fmt.Sprintf("lease %s is %s and has %d of %d slots", id, is.Status, len(slots), is.Reservations[0].Amount))
			}
		}
		m.mu.Unlock()
	}
}

// sleep ends all nodes of all zones for longer than a lease lasts that begins meanwhile, and another
// one begins. It returns both, and the window of the first.
func (m *tenants) sleep(t *testing.T) (before, after api.LeaseID, window api.Window) {
	t.Helper()
	// Leases of the next minutes may have all room, and one that waits for others that are
	// undecided is refused after half a minute only.
	await.Until(t, "the room of the next minutes is free", func(ctx context.Context) error {
		m.endLast(ctx, before)
		if before == "" || api.InstantOf(time.Now()).Add(sleepMargin) > window.Start {
			window = api.Window{Start: minute(1), End: minute(2)}
			before = m.make(ctx, slotsOf(fmt.Sprintf("before-%d", window.Start), 2, window.Start, window.End))
		}
		if before != "" {
			after = m.make(ctx, slotsOf(fmt.Sprintf("after-%d", window.Start), 2, window.End, window.Start.Add(5*time.Minute)))
		}
		if after == "" {
			return fmt.Errorf("there is %q", before)
		}
		return nil
	})
	lab.Pass(t.Context(), time.Until(window.Start.Time())-5*time.Second)
	began := time.Now()
	for _, z := range m.zones() {
		for _, n := range z.Nodes {
			n.Kill()
		}
	}
	lab.Pass(t.Context(), leasesDown)
	var wg sync.WaitGroup
	errs := make(chan error, 9)
	for _, z := range m.zones() {
		for _, n := range z.Nodes {
			wg.Go(func() { errs <- n.Up(t.Context()) })
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	await.Until(t, "the next lease is active", func(ctx context.Context) error {
		return do(ctx, m.root, func(ctx context.Context, c *client.Client) error {
			l, err := c.Linearizable().Lease(ctx, after)
			if err == nil && l.Status != api.LeaseActive {
				err = fmt.Errorf("it is %s", l.Status)
			}
			return err
		})
	})
	t.Logf("all zones were down for %s, and the next lease is active %s after that", leasesDown, time.Since(began.Add(leasesDown)).Round(100*time.Millisecond))
	return before, after, window
}

// farMin is how far away a lease begins at least that stays until the end.
const farMin = time.Hour

// finish ends all leases but those that are kept, that begin tomorrow or that have ended, and waits until nothing is
// left of them. Every other series ends with its leases.
func (m *tenants) finish(t *testing.T, kept map[string]api.LeaseID) {
	t.Helper()
	for n, id := range m.series {
		if n%2 == 0 {
			require.NoError(t, m.acks.do(t.Context(), m.root, check.Ack{Kind: check.AckSeriesDelete, Series: id}, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
				return c.DeleteSeries(ctx, id)
			}))
		}
	}
	await.Until(t, "all leases are gone", func(ctx context.Context) error {
		return do(ctx, m.root, func(ctx context.Context, c *client.Client) error {
			all, err := c.Linearizable().Leases(ctx)
			if err != nil {
				return err
			}
			var left []string
			for _, l := range all {
				switch {
				case l.ID == kept["root"] || l.Status == api.LeaseTerminated:
				case l.Status == api.LeasePending && time.Until(api.Instant(l.Start).Time()) > farMin:
				default:
					left = append(left, l.Name+" "+string(l.Status))
					_ = m.end(ctx, l.ID) // until none is left
				}
			}
			if len(left) > 0 {
				return fmt.Errorf("left: %v", left)
			}
			return nil
		})
	})
	for _, z := range m.zones() {
		await.Until(t, "nothing is used any more in "+z.Name, func(ctx context.Context) error {
			return do(ctx, z, func(ctx context.Context, c *client.Client) error {
				hosts, err := c.Linearizable().Hosts(ctx, client.ListOptions{})
				for _, h := range hosts.Items {
					if len(h.Used) > 0 {
						err = fmt.Errorf("host %s: %v", h.Name, h.Used)
					}
				}
				return err
			})
		})
	}
}

// judge checks everything that the zones leave.
func (m *tenants) judge(t *testing.T, kept map[string]api.LeaseID, before, after api.LeaseID, window api.Window) {
	t.Helper()
	m.Audit()
	e := m.stopAndRead(t, m.zones()...)
	outcomes := check.Outcomes{}
	var logs []check.LogSummary
	for _, z := range m.zones() {
		ls, bad := check.Log(e.logs[z.Name])
		for _, v := range bad {
			assert.Fail(t, "a promise was broken", "%s: %s", z.Name, v)
		}
		logs = append(logs, ls)
		if z == m.root {
			outcomes = ls.Outcomes
		}
		s := e.states[z.Name]
		assert.Empty(t, s.UndecidedBoots(), z.Name)
		assert.Empty(t, s.UntoldHolds(), z.Name)
		for _, h := range s.AllHosts() {
			for _, i := range s.SlotsOn(h.ID) {
				assert.Greater(t, i.Window.Start, minute(60), "zone %s: slot %s of %s is left", z.Name, i.ID, i.Reservation)
			}
		}
		_, there := s.Lease(kept[z.Name])
		assert.True(t, there, "%s has lost a lease", z.Name)
	}
	js, bad := check.Journals(e.journals, check.JournalOptions{Active: e.active})
	as, more := check.Acks(m.acks.end(), e.finals)
	gated := check.Gate(check.Summary{Logs: logs, Acks: as, History: m.log.judge(t, m.Dir)}, check.Floor{
		Values: 10, Leased: 150, Acked: map[check.AckKind]int{check.AckLease: 10, check.AckLeaseUpdate: 2, check.AckLeaseDelete: 2, check.AckSeries: 1, check.AckQuota: 5, check.AckBoot: 2},
		Outcomes: check.Outcomes{"lease started": 5, "lease ended": 1, "lease updated": 2},
	})
	for _, v := range slices.Concat(bad, more, gated) {
		assert.Fail(t, "a promise was broken", v.String())
	}
	t.Logf("acknowledgements: %+v", as)
	t.Logf("clients: %v; root: %v; journals: %+v", m.count, outcomes, js)
	assert.Empty(t, m.half)
	m.judgeOrder(t, e.states["root"], before, after, window)
	for what, least := range leasesLeast {
		assert.GreaterOrEqual(t, m.count[what], least, what)
	}
	m.scan(t, e)
}

// judgeOrder holds that what was due while all zones were down has happened at its time, each
// once, and in order.
func (m *tenants) judgeOrder(t *testing.T, s *state.State, before, after api.LeaseID, window api.Window) {
	t.Helper()
	list, whole := s.Events(s.EventsBegin(), math.MaxInt) // a zone keeps the newest of its events
	require.True(t, whole)
	require.NotEmpty(t, list)
	require.Less(t, list[0].At, window.Start, "the events of both leases are kept")
	type step struct {
		lease api.LeaseID
		is    string
		at    api.Instant
	}
	var steps []step
	at := api.Instant(0)
	for _, e := range list {
		if e.Lease == "" || e.Kind != state.EventLeaseStatus {
			continue
		}
		assert.GreaterOrEqual(t, e.At, at, "what was due happens in order")
		at = e.At
		if (e.Lease == before || e.Lease == after) && (e.Is == string(api.LeaseStarting) || e.Is == string(api.LeaseTerminating)) {
			steps = append(steps, step{e.Lease, e.Is, e.At})
		}
	}
	assert.Equal(t, []step{
		{before, string(api.LeaseStarting), window.Start}, {before, string(api.LeaseTerminating), window.End}, {after, string(api.LeaseStarting), window.End},
	}, steps)
}
