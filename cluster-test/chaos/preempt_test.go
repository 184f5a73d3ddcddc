//go:build chaos

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"berth/internal/sysinfo"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

var preemptFlag = flag.Duration("preempt", 40*time.Second, "how long preemptible instances are booted and evicted")

// Sizes of the campaign against preemptible instances.
const (
	preemptRoom   = 8 // instances on each host
	preemptGrace  = 3 * time.Second
	preemptBoots  = 2                // clients that boot preemptible instances
	preemptLeases = 3                // clients that lease
	faultsFor     = 70 * time.Second // then a host is lost
	// lostFor is how long one host is cut off: its room is given up meanwhile.
	lostFor = 45 * time.Second
)

// preemptFaults are what breaks while leases start over preemptible instances.
var preemptFaults = []string{
	"kill leader", "isolate leader", "kill agent", "transfer leadership", "cut off agent", "pause leader", "kill follower", "nobody hears leader",
}

// evictors are clients of a zone of three nodes and two hosts that run real processes.
type evictors struct {
	*fleet
	hosts []*lab.AgentProc
	quit  context.CancelFunc
	wg    sync.WaitGroup
	acks  *ackLog
	log   *leaseLog
	kept  []api.InstanceID // firm, all the time

	mu    sync.Mutex // guards what follows
	count map[string]int
}

// TestPreemptibles boots preemptible instances all the time, as real processes of which some do not
// leave when they are asked to, and has leases and firm boots begin over them, while leaders are
// killed and agents are cut off and killed. By the journals of the agents none of them ever ran
// in room that a lease had, and no lease waits for ever. What was preempted and wants that runs again, each once, and
// firm instances that are stopped and started meanwhile run in the end.
func TestPreemptibles(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{Machines: lab.Best(t), Quick: true, Env: []string{"BERTH_COMPACT=300:1000000"}})
	w.MayMove()
	m := &evictors{fleet: &fleet{World: w, dice: rngOf(w.Seed)}, acks: newAckLog(), log: newLeaseLog(t, w.Dir), count: map[string]int{}}
	m.root = w.Zone("root", 3)
	m.west = m.root
	m.root.CLI("operator", "config", "set", "--preemptible-grace", preemptGrace.String())
	m.root.Flavor("unit", unitMB, "/bin/sleep", "36000")
	m.root.Flavor("stubborn", unitMB, "/bin/sh", "-c", "trap '' TERM; while :; do /bin/sleep 1; done")
	memory, err := sysinfo.MemoryMB()
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		m.hosts = append(m.hosts, m.root.ProcessAgent(name, memory-preemptRoom*unitMB))
	}
	m.token = m.root.MemberToken("web", api.RoleMember)
	m.supervise()
	n := &nemesis{fleet: m.fleet, dice: m.dice, busy: map[*lab.NodeProc]bool{}, agent: m.hosts[0]}
	m.Allow(n.handedOver)
	m.keep(t)
	m.start(t)
	m.disturb(t, n)
	m.quit()
	m.wg.Wait()
	n.count(t)
	m.clear(t)
	m.rest(t)
	m.Audit()
	m.agree(t)
	m.judge(t)
}

// keptBoot has firm instances that stay through all of it, on the host whose agent is killed: the other one is
// for leases of whole hosts.
const keptBoot = "kept"

// againBoot begins the names of boots of preemptible instances that stay, too: whenever they are preempted they are
// booted again, as often as it takes.
const (
	againBoot  = "again"
	againBoots = 3
	againCount = 2 // instances of each
)

func (m *evictors) keep(t *testing.T) {
	t.Helper()
	in := rest.ServerCreate{Name: keptBoot, FlavorRef: "unit", MinCount: new(2), MaxCount: new(2), Reservation: keptBoot}
	in.Hints = &rest.SchedulerHints{ForceHosts: []string{m.hosts[0].Name}}
	require.NoError(t, m.boot(t.Context(), in, ""))
	require.Equal(t, api.BootActive, m.root.Outcome(m.root.Token, keptBoot).State)
	for _, s := range m.root.Servers() {
		m.kept = append(m.kept, s.ID)
	}
	require.Len(t, m.kept, 2)
	for n := range againBoots {
		name := fmt.Sprint(againBoot, n)
		in := rest.ServerCreate{Name: name, FlavorRef: "unit", MinCount: new(againCount), MaxCount: new(againCount), Reservation: name, OnPreempt: api.PreemptRequeue}
		in.Hints = &rest.SchedulerHints{Preemptible: new(rest.Flag(true))}
		require.NoError(t, m.boot(t.Context(), in, ""))
		require.Equal(t, api.BootActive, m.root.Outcome(m.root.Token, api.ReservationID(name)).State)
	}
}

// boot boots into the slots of a reservation, or anywhere, and notes the answer.
func (m *evictors) boot(ctx context.Context, in rest.ServerCreate, into api.ReservationID) error {
	k := check.Ack{Kind: check.AckBoot, Project: adminProject, Reservation: api.ReservationID(in.Name), Into: into}
	return m.acks.do(ctx, m.root, k, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
		_, err := c.Boot(ctx, in, in.Name)
		return err
	})
}

// order stops or starts one of the instances that stay.
func (m *evictors) order(ctx context.Context, id api.InstanceID, o api.PowerOrder) error {
	k := check.Ack{Kind: check.AckPower, Instance: id, Halted: o == api.PowerStop}
	return m.acks.do(ctx, m.root, k, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
		_, err := c.OrderServer(ctx, id, o)
		return err
	})
}

// stays reports whether a boot is there until the end.
func stays(id api.ReservationID) bool {
	return id == keptBoot || strings.HasPrefix(string(id), againBoot)
}

// disturb breaks nodes and the agent of one host for a while, then loses the other host, and so
// on. Nodes are left in peace while a host is lost: a new leader counts its silence anew.
func (m *evictors) disturb(t *testing.T, n *nemesis) {
	t.Helper()
	until := time.Now().Add(*preemptFlag)
	for first := true; first || time.Until(until) > lostFor; first = false {
		for began := time.Now(); time.Since(began) < faultsFor && time.Now().Before(until); {
			kind := preemptFaults[n.intn(len(preemptFaults))]
			f := faults[slices.IndexFunc(faults, func(f fault) bool { return f.kind == kind })]
			_, err := n.inject(t.Context(), f)
			require.NoError(t, err)
			n.hold(t.Context(), time.Second, 3*time.Second)
		}
		require.NoError(t, m.lose(t.Context()))
	}
}

// lose cuts the second host off for so long that its room is given up.
func (m *evictors) lose(ctx context.Context) error {
	var errs []error
	for _, n := range m.root.Members() {
		errs = append(errs, m.Cut(m.hosts[1].Machine, n.Machine))
	}
	lab.Pass(ctx, lostFor)
	for _, n := range m.root.Members() {
		errs = append(errs, m.JoinOneWay(m.hosts[1].Machine, n.Machine), m.JoinOneWay(n.Machine, m.hosts[1].Machine))
	}
	m.note("host lost", nil)
	sums.fault("host lost", 1)
	return errors.Join(errs...)
}

func (m *evictors) start(t *testing.T) {
	t.Helper()
	var ctx context.Context
	ctx, m.quit = context.WithCancel(t.Context())
	each := func(what string, n int, pause time.Duration, act func(ctx context.Context, name string, dice *rand.Rand)) {
		dice := rand.New(rand.NewPCG(m.Seed, uint64(n)))
		m.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				act(context.WithoutCancel(ctx), fmt.Sprintf("%s%d-%d", what, n, i), dice)
				lab.Pass(ctx, pause)
			}
		})
	}
	for n := range preemptBoots {
		each("soft", n, 200*time.Millisecond, m.bootSoft)
	}
	for n := range preemptLeases {
		each("lease", n, time.Second, m.lease)
	}
	each("firm", 9, 2*time.Second, m.bootFirm)
	each("power", 10, 2*time.Second, m.power)
}

func (m *evictors) note(what string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.count[what]++
	} else {
		m.count[what+": "+string(api.CodeOf(err))]++
	}
}

// bootSoft boots one or two preemptible instances, and does not wait for them.
func (m *evictors) bootSoft(ctx context.Context, name string, dice *rand.Rand) {
	in := rest.ServerCreate{
		Name: name, FlavorRef: []string{"unit", "stubborn"}[dice.IntN(2)], MinCount: new(1), MaxCount: new(1 + dice.IntN(2)), Reservation: name,
		OnPreempt: []api.PreemptAction{api.PreemptStop, api.PreemptNotify, api.PreemptRequeue}[dice.IntN(3)],
	}
	in.Hints = &rest.SchedulerHints{Preemptible: new(rest.Flag(true))}
	m.note("booted preemptible", m.boot(ctx, in, ""))
}

// bootFirm boots a firm instance over preemptible ones, and releases it.
func (m *evictors) bootFirm(ctx context.Context, name string, _ *rand.Rand) {
	in := rest.ServerCreate{Name: name, FlavorRef: "unit", Reservation: name, Preempt: true}
	err := m.boot(ctx, in, "")
	if err == nil {
		err = do(ctx, m.root, func(ctx context.Context, c *client.Client) error {
			_, err := c.Reservation(ctx, api.ReservationID(name), 2*preemptGrace)
			return err
		})
	}
	m.note("booted over preemptible", err)
	_ = m.releaseAs(ctx, api.ReservationID(name)) // clear does it in the end
}

// lease makes a lease that starts now, or with the next minute, and uses and ends it.
func (m *evictors) lease(ctx context.Context, name string, dice *rand.Rand) {
	from := 0
	if dice.IntN(3) == 0 {
		from = 1
	}
	until := minute(from + 3)
	in := slotsOf(name, 1+dice.IntN(preemptRoom), minute(from), until)
	if dice.IntN(4) == 0 {
		in.Reservations = []rest.ReservationSpec{{Type: api.ReserveHosts, Min: new(1), Max: new(1)}}
	}
	var l rest.Lease
	err := m.acks.do(ctx, m.root, check.Ack{Kind: check.AckLease, End: until}, func(ctx context.Context, c *client.Client, k *check.Ack) (err error) {
		l, err = m.log.calls().Create(ctx, c, in)
		k.Lease = l.ID
		return err
	})
	m.note("leased", err)
	if err != nil {
		return
	}
	began := time.Now()
	err = await.Wait(ctx, func(ctx context.Context) error {
		return do(ctx, m.root, func(ctx context.Context, c *client.Client) error {
			now, err := m.log.calls().Read(ctx, c, l.ID)
			if err == nil && now.Status != api.LeaseActive {
				return fmt.Errorf("it is %s", now.Status)
			}
			return err
		})
	})
	if err != nil {
		m.note(fmt.Sprintf("late lease %s after %s: %s", l.ID, time.Since(began).Round(time.Second), err), nil)
	} else {
		m.note("lease active", nil)
		boot := rest.ServerCreate{Name: name, FlavorRef: "unit", Reservation: name}
		boot.Hints = &rest.SchedulerHints{Reservation: l.Reservations[0].ID}
		m.note("booted into", m.boot(ctx, boot, l.Reservations[0].ID))
		lab.Pass(ctx, time.Duration(dice.IntN(3000))*time.Millisecond)
	}
	m.note("lease deleted", m.endLease(ctx, l.ID))
}

// endLease ends a lease.
func (m *evictors) endLease(ctx context.Context, id api.LeaseID) error {
	return m.acks.do(ctx, m.root, check.Ack{Kind: check.AckLeaseDelete, Lease: id}, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
		return m.log.calls().End(ctx, c, id)
	})
}

// releaseAs is release as an administrator.
func (m *evictors) releaseAs(ctx context.Context, id api.ReservationID) error {
	k := check.Ack{Kind: check.AckRelease, Project: adminProject, Reservation: id}
	return m.acks.do(ctx, m.root, k, func(ctx context.Context, c *client.Client, _ *check.Ack) error {
		_, err := c.Release(ctx, id, 0)
		return err
	})
}

// power stops one of the instances that stay, and starts it again.
func (m *evictors) power(ctx context.Context, _ string, dice *rand.Rand) {
	id := m.kept[dice.IntN(len(m.kept))]
	m.note("stopped", m.order(ctx, id, api.PowerStop))
	lab.Pass(ctx, time.Duration(dice.IntN(2000))*time.Millisecond)
	m.note("started", m.order(ctx, id, api.PowerStart))
}

// rest lets all that stays run: what was stopped is started, and what was preempted has room again.
func (m *evictors) rest(t *testing.T) {
	t.Helper()
	for _, id := range m.kept {
		require.NoError(t, m.order(t.Context(), id, api.PowerStart))
	}
	await.Until(t, "all that stays runs", func(ctx context.Context) error {
		for _, s := range m.root.Servers() {
			if s.Status != api.StatusActive {
				return fmt.Errorf("server %s of %s is %s", s.ID, s.Reservation, s.Status)
			}
		}
		return do(ctx, m.root, func(ctx context.Context, c *client.Client) error {
			for n := range againBoots {
				b, err := c.Linearizable().Reservation(ctx, api.ReservationID(fmt.Sprint(againBoot, n)), 0)
				if err != nil {
					return err
				}
				if b.Queued != nil {
					return fmt.Errorf("of %s %d instances wait", b.Reservation, b.Queued.Count)
				}
			}
			return nil
		})
	})
}

// clear ends all leases and boots but what is kept, and waits until nothing is left of them.
func (m *evictors) clear(t *testing.T) {
	t.Helper()
	await.Until(t, "everything is gone", func(ctx context.Context) error {
		left := 0
		err := do(ctx, m.root, func(ctx context.Context, c *client.Client) error {
			leases, err := c.Linearizable().Leases(ctx)
			for _, l := range leases {
				if l.Status != api.LeaseTerminated {
					left++
					_ = m.endLease(ctx, l.ID) // until none is left
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		released := map[api.ReservationID]bool{}
		for _, s := range m.root.Servers() {
			if stays(s.Reservation) {
				continue
			}
			if left++; !released[s.Reservation] {
				released[s.Reservation] = true
				_ = m.releaseAs(ctx, s.Reservation) // until none is left
			}
		}
		if left > 0 {
			return fmt.Errorf("%d are left", left)
		}
		return nil
	})
}

// judge replays the log, and holds room that leases had beside what the agents ran.
func (m *evictors) judge(t *testing.T) {
	t.Helper()
	processes := map[api.InstanceID]int{}
	running, err := m.Instances()
	require.NoError(t, err)
	for _, i := range running {
		processes[api.InstanceID(i.ID)]++
	}
	there := 0
	for _, s := range m.root.Servers() {
		assert.True(t, stays(s.Reservation), "server %s of %s is left", s.ID, s.Reservation)
		there++
	}
	e := m.stopAndRead(t, m.zones()...)
	assert.Len(t, e.active, there, "what stays runs, and nothing else")
	ls, bad := check.Log(e.logs["root"])
	js, more := check.Journals(e.journals, check.JournalOptions{
		Active: e.active, Processes: processes, Moved: ls.Moved, Evacuated: ls.Evacuated, Returned: ls.Returned,
	})
	as, lost := check.Acks(m.acks.end(), e.finals)
	rs, again := check.Requeues(e.finals)
	gated := check.Gate(check.Summary{Logs: []check.LogSummary{ls}, Journals: js, Acks: as, Requeues: rs, History: m.log.judge(t, m.Dir)}, check.Floor{
		Leased: 20, Wanted: len(m.kept), Started: 20, Preempted: 1, Values: 3,
		Acked:    map[check.AckKind]int{check.AckLease: 3, check.AckLeaseDelete: 2, check.AckBoot: 20, check.AckRelease: 5, check.AckPower: 4},
		Outcomes: check.Outcomes{"instance evicted": 6, "instance queued": 1, "boot requeued": 1, "lease started": 2, "InstancePower ok": 4},
	})
	for _, v := range slices.Concat(bad, more, lost, again, gated) {
		assert.Fail(t, "a promise was broken", v.String())
	}
	t.Logf("acknowledgements: %+v; preempted ones that are booted again: %+v", as, rs)
	h := readHistory(t, m.root.Nodes[0])
	over := check.Overlaps(slices.Concat(h.slots.Spans(), h.ran(e.journals)), func(string) int { return preemptRoom })
	for _, o := range over {
		assert.Fail(t, "preemptible instances ran in room that was not theirs", o)
	}
	t.Logf("clients: %v", m.count)
	t.Logf("journals: %+v; killed at their deadline %d, asked %d, fenced %d, without an end %d", js, h.events["killed"], h.events["notice"], h.events["fenced"], h.open)
	started := len(h.late) + len(h.waited)
	t.Logf("slots started %d, instances started %d, evicted %d, given up on lost hosts %d, overlaps %d", started, h.events["running"], len(h.evicted), h.lost, len(over))
	t.Logf("slots began behind their start: %s; of leases that began at once: %s", describe(h.late), describe(h.waited))
	for what := range m.count {
		assert.NotContains(t, what, "late lease")
	}
	assert.Greater(t, len(h.evicted), 5, "hardly anything was evicted")
	assert.Greater(t, started, 5, "hardly anything started")
}

// describe returns the median of spans, the one that 19 of 20 do not exceed, and the longest.
func describe(all []time.Duration) string {
	slices.Sort(all)
	n := len(all)
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, median %s, 19 of 20 %s, most %s", n, all[n/2], all[n*19/20], all[n-1])
}

// history is what the log says of slots and evictions.
type history struct {
	slots   check.Slots
	late    []time.Duration // of each slot that was there before its grace began, behind its start
	waited  []time.Duration // of each other slot, since it was made
	evicted map[api.InstanceID]bool
	within  map[api.InstanceID]api.InstanceID // the slot that an instance ran in
	lost    int                               // instances that counted as gone on a lost host
	events  map[string]int
	open    int // instances whose end is in no journal, because their agent was killed then
}

// readHistory replays the log of a stopped node.
func readHistory(t *testing.T, n *lab.NodeProc) *history {
	t.Helper()
	d, err := raftstore.OpenDisk(filepath.Join(n.Dir, "raft"), nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	h := &history{evicted: map[api.InstanceID]bool{}, within: map[api.InstanceID]api.InstanceID{}, events: map[string]int{}}
	s := state.New()
	made := map[api.InstanceID]api.Instant{}
	h.slots.Units = func(i *api.Instance) int {
		if i.Whole {
			return preemptRoom
		}
		return 1
	}
	for entry, err := range d.Entries() {
		require.NoError(t, err)
		for _, c := range entry.Commands {
			before := s.CountByStatus()[api.StatusDeleted]
			s.Apply(entry.Index, c)
			if _, silent := c.(command.HostsSilent); silent {
				h.lost += s.CountByStatus()[api.StatusDeleted] - before
			}
		}
		if len(entry.Commands) > 0 {
			h.follow(s.Clone(), made)
		}
	}
	return h
}

// follow notes what one entry has changed.
func (h *history) follow(v *state.State, made map[api.InstanceID]api.Instant) {
	now := v.Now()
	for _, host := range v.AllHosts() {
		for _, i := range v.OnHost(host.ID) {
			if i.Eviction != nil {
				h.evicted[i.ID] = true
			}
			if i.Within != "" {
				h.within[i.ID] = i.Within
			}
		}
		for _, i := range v.SlotsOn(host.ID) {
			if made[i.ID] == 0 {
				made[i.ID] = now
			}
		}
	}
	for _, i := range h.slots.Note(v, now) {
		if since := made[i.ID]; since <= i.Window.Start.Add(-i.Grace) {
			h.late = append(h.late, now.Time().Sub(i.Window.Start.Time()))
		} else {
			h.waited = append(h.waited, now.Time().Sub(since.Time()))
		}
	}
}

// ran returns when the agents ran instances that were not in slots: from the line before the start
// to the line after the end.
func (h *history) ran(journals []check.Journal) []check.Span {
	open, last := map[api.InstanceID]check.Span{}, map[api.InstanceID]check.Line{}
	var out []check.Span
	for _, j := range journals {
		for _, l := range j.Lines {
			at := api.InstantOf(l.At)
			h.events[l.Event]++
			if l.Instance == "" || h.within[l.Instance] != "" {
				continue
			}
			last[l.Instance] = l
			switch _, runs := open[l.Instance]; {
			case l.Event == "start" && !runs:
				open[l.Instance] = check.Span{What: "instance " + string(l.Instance), Room: check.Room(l.Host), Units: 1, From: at, Until: api.Forever}
			case (l.Event == "gone" || l.Event == "failed") && runs:
				sp := open[l.Instance]
				sp.Until = at
				out = append(out, sp)
				delete(open, l.Instance)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(open)) { // its agent was killed then, and it with it
		sp := open[id]
		sp.Until = api.InstantOf(last[id].At)
		out = append(out, sp)
		h.open++
	}
	return out
}
