package fleet_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/backoff"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/fleet"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// leaseStarts is how many leases start over preemptibles in TestPreemptiblesAreNeverInTheWay.
var leaseStarts = flag.Int("lease-starts", 60, "leases that start over preemptible instances")

// Hosts of the race, and how busy it is.
const (
	raceAgents  = 4
	raceHosts   = 5 // of each agent
	raceCPUs    = 8 // of each host
	raceBooters = 12
	raceLeases  = 40 // asked for in each minute
)

// span is a time in which something used processors of a host.
type span struct {
	what       string
	host       api.HostID
	cpus       int64
	start, end time.Time // end is zero while it lasts
}

// raceJournal has what ran where and when by the word of agents, and when slots of leases were
// active.
type raceJournal struct {
	mu    sync.Mutex // guards spans
	spans map[string]*span
	past  []*span
}

func (j *raceJournal) begin(what string, host api.HostID, cpus int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.spans[what] == nil {
		j.spans[what] = &span{what: what, host: host, cpus: cpus, start: time.Now()}
	}
}

func (j *raceJournal) finish(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.spans[what]; s != nil {
		s.end = time.Now()
		j.past = append(j.past, s)
		delete(j.spans, what)
	}
}

// overlap returns for how long a host had more in use than it has, over all hosts.
func (j *raceJournal) overlap() (total time.Duration, worst string) {
	type edge struct {
		at   time.Time
		cpus int64
		what string
	}
	byHost := map[api.HostID][]edge{}
	j.mu.Lock()
	all := slices.Clone(j.past)
	for _, s := range j.spans {
		open := *s
		open.end = time.Now()
		all = append(all, &open)
	}
	j.mu.Unlock()
	for _, s := range all {
		if s.end.After(s.start) {
			byHost[s.host] = append(byHost[s.host], edge{s.start, s.cpus, s.what}, edge{s.end, -s.cpus, s.what})
		}
	}
	for host, edges := range byHost {
		slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.cpus, b.cpus)) })
		use := int64(0)
		for n, e := range edges {
			use += e.cpus
			if use <= raceCPUs || n+1 == len(edges) {
				continue
			}
			if d := edges[n+1].at.Sub(e.at); d > 0 {
				total += d
				worst = fmt.Sprintf("%s on %s at %s for %s: %d", e.what, host, e.at.Format(time.TimeOnly), d, use)
			}
		}
	}
	return total, worst
}

// gentle is an agent whose instances take their time to stop.
type gentle struct {
	m       *zonetest.Member
	name    string
	journal *raceJournal
	rnd     *rand.Rand

	mu    sync.Mutex // guards the fields below
	heard time.Time
	runs  map[api.InstanceID]*gentleRun
	lists uint64 // generation to ask after; 0 for everything
	mute  bool
}

// gentleRun is an instance on a gentle agent.
type gentleRun struct {
	host  api.HostID
	stay  uint64
	fence time.Duration
	dies  time.Time // zero until it was asked to stop
}

func (a *gentle) id() api.AgentID { return api.AgentID("agent-" + a.name) }

// register registers the hosts of the agent.
func (a *gentle) register(ctx context.Context, z *zonetest.Conduct) error {
	var hosts []api.AgentHost
	for n := range raceHosts {
		hosts = append(hosts, api.AgentHost{
			Name: fmt.Sprintf("%s-%d", a.name, n), Driver: "fake", Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: raceCPUs}, api.MemoryMB: {Total: 1024 * raceCPUs}},
		})
	}
	_, err := z.RegisterHosts(ctx, a.id(), &api.AgentRegister{Hosts: hosts})
	return err
}

// run polls, and ends what is due, until ctx ends.
func (a *gentle) run(ctx context.Context) {
	var term uint64
	go a.reap(ctx)
	for ctx.Err() == nil {
		z, leads := a.m.Node()
		a.mu.Lock()
		mute, after := a.mute, a.lists
		a.mu.Unlock()
		if !leads || mute {
			backoff.Sleep(ctx, 300*time.Millisecond)
			continue
		}
		if now := z.Store().Term(); now != term {
			if a.register(ctx, z) != nil {
				backoff.Sleep(ctx, 300*time.Millisecond)
				continue
			}
			term, after = now, 0
		}
		sent := time.Now()
		work, err := z.Work(ctx, a.id(), &api.AgentWork{After: after, Wait: fleet.AgentBeat})
		if err != nil {
			backoff.Sleep(ctx, 300*time.Millisecond)
			continue
		}
		a.obey(ctx, z, work, sent)
	}
}

// obey starts what is listed, and notes until when what must stop may run.
func (a *gentle) obey(ctx context.Context, z *zonetest.Conduct, work *api.AgentWorkload, sent time.Time) {
	a.mu.Lock()
	if a.mute {
		a.mu.Unlock()
		return
	}
	a.strike(time.Now())
	a.heard, a.lists = sent, work.Generation
	var r api.AgentReport
	for _, h := range work.Hosts {
		for _, i := range h.Instances {
			a.obeyOne(&r, h.Host, &i)
		}
	}
	a.mu.Unlock()
	if len(r.Items) > 0 {
		if _, err := z.Report(ctx, a.id(), &r); err != nil {
			a.mu.Lock()
			a.lists = 0
			a.mu.Unlock()
		}
	}
}

func (a *gentle) obeyOne(r *api.AgentReport, host api.HostID, i *api.Workload) {
	run := a.runs[i.Instance]
	item := api.InstanceReport{Host: host, Instance: i.Instance, Stay: i.Stay, Status: api.StatusActive}
	switch {
	case !i.Stop && run == nil:
		a.runs[i.Instance] = &gentleRun{host: host, stay: i.Stay, fence: i.Fence}
		a.journal.begin(string(i.Instance), host, i.Resources[api.VCPU])
	case i.Stop && run == nil:
		item.Status = api.StatusDeleted
	case i.Stop:
		soft := time.Duration(a.rnd.Int64N(int64(90 * time.Second)))
		if i.Notice != nil {
			soft = min(soft, i.Notice.Left)
		}
		if dies := time.Now().Add(soft); run.dies.IsZero() || dies.Before(run.dies) {
			run.dies = dies
		}
		return
	}
	r.Items = append(r.Items, item)
}

// reap ends what is due, reports it, and watches the fences.
func (a *gentle) reap(ctx context.Context) {
	for ctx.Err() == nil {
		a.mu.Lock()
		now := time.Now()
		a.strike(now)
		var r api.AgentReport
		for id, run := range a.runs {
			if !run.dies.IsZero() && !run.dies.After(now) {
				a.journal.finish(string(id))
				r.Items = append(r.Items, api.InstanceReport{Host: run.host, Instance: id, Stay: run.stay, Status: api.StatusDeleted})
				delete(a.runs, id)
			}
		}
		mute := a.mute
		a.mu.Unlock()
		if z, leads := a.m.Node(); len(r.Items) > 0 {
			if mute || !leads {
				a.forgetList()
			} else if _, err := z.Report(ctx, a.id(), &r); err != nil {
				a.forgetList()
			}
		}
		backoff.Sleep(ctx, 100*time.Millisecond)
	}
}

// forgetList has the agent ask for all lists again.
func (a *gentle) forgetList() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists = 0
}

// strike ends what has a fence that the zone's silence has reached.
func (a *gentle) strike(now time.Time) {
	for id, run := range a.runs {
		if run.fence > 0 && now.Sub(a.heard) >= run.fence {
			a.journal.finish(string(id))
			delete(a.runs, id)
			a.lists = 0
		}
	}
}

// race is leases that start over preemptibles.
type race struct {
	w       *zonetest.World
	m       *zonetest.Member
	journal *raceJournal
	agents  []*gentle

	mu                    sync.Mutex // guards the fields below
	starts, late, evicted int
	lateness              time.Duration
}

// follow writes what slots and instances of leases do into the journal.
func (r *race) follow(ctx context.Context) {
	seen := r.m.View().EventsEnd()
	for {
		v, err := r.m.Log.Wait(ctx, seen.Index)
		if err != nil {
			return
		}
		all, whole := v.Events(seen, math.MaxInt)
		assert.True(r.w.T, whole, "no event is missed")
		for _, e := range all {
			r.note(v, e)
		}
		seen = v.EventsEnd()
	}
}

func (r *race) note(v *state.State, e *state.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Kind == state.EventEvicted:
		r.evicted++
	case e.Kind == state.EventLeaseStarted:
		r.starts++
		if l, ok := v.Lease(e.Lease); ok {
			if late := e.At.Time().Sub(max(l.Terms.Window.Start, l.Created).Time()); late > 0 {
				r.late++
				r.lateness = max(r.lateness, late)
			}
		}
	case e.Kind == state.EventInstance && e.Slot && e.Is == string(api.StatusActive):
		if i, ok := v.Instance(e.Instance); ok {
			r.journal.begin("slot "+string(e.Instance), e.Host, i.Resources[api.VCPU])
		}
	case e.Kind == state.EventInstance && e.Slot && e.Is != string(api.StatusDeleting): // gone, or healed elsewhere
		r.journal.finish("slot " + string(e.Instance))
	}
}

func (r *race) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts
}

// bootOn boots preemptibles again and again.
func (r *race) bootOn(ctx context.Context, booter int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(booter)))
	for n := 0; ctx.Err() == nil; n++ {
		res := fmt.Sprintf("soft-%d-%d", booter, n)
		o := zonetest.Order(res, 1, 1+rnd.IntN(6))
		o.Request.Class = api.Preemptible
		o.Request.OnPreempt = []api.PreemptAction{"", api.PreemptStop, api.PreemptNotify, api.PreemptRequeue}[rnd.IntN(4)]
		o.Instances = zonetest.Specs(res, o.Request.Count())
		call, end := context.WithTimeout(ctx, time.Minute)
		_, err := r.m.Lead().Boot(call, o)
		end()
		pause := time.Duration(rnd.Int64N(int64(8 * time.Second)))
		if err != nil {
			pause += 2 * time.Second
		}
		backoff.Sleep(ctx, pause)
		if rnd.IntN(4) == 0 {
			_ = intake.ReleaseBoot(ctx, r.m.Lead().Zone, "p", api.ReservationID(res)) // it may have failed
		}
	}
}

// leaseOn asks for leases: some at once, some of whole hosts, some with a grace of their own, and
// some that are pulled forward.
func (r *race) leaseOn(ctx context.Context, n int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(1000+n)))
	call, end := context.WithTimeout(ctx, 2*time.Minute)
	defer end()
	backoff.Sleep(ctx, time.Duration(rnd.Int64N(int64(time.Minute))))
	z := r.m.Lead()
	start := z.Instant()
	if rnd.IntN(3) > 0 {
		start = start.Add(time.Duration(rnd.IntN(5)) * time.Minute)
	}
	start -= start % api.Instant(time.Minute.Milliseconds())
	t := api.LeaseTerms{
		Name: fmt.Sprint("l", n), Window: api.Window{Start: start, End: start.Add(time.Duration(1+rnd.IntN(3)) * time.Minute)},
		Grace:        []time.Duration{0, 0, 10 * time.Second, 2 * time.Minute}[rnd.IntN(4)],
		Reservations: []api.Reservation{{Type: api.ReserveInstances, Min: 0, Max: 0, Resources: zonetest.Flavor.Resources}},
	}
	t.Window.End = t.Window.End.Add(3 * time.Minute) // it begins before its end, whatever happens
	amount := 1 + rnd.IntN(5)
	t.Reservations[0].Min, t.Reservations[0].Max = amount, amount
	if rnd.IntN(8) == 0 {
		t.Reservations[0] = api.Reservation{Type: api.ReserveHosts, Min: 1, Max: 1}
	}
	id, err := z.Create(call, zonetest.Caller, t, "")
	if err != nil || rnd.IntN(5) > 0 {
		return
	}
	sooner := z.Instant()
	_ = r.m.Lead().Update(call, zonetest.Caller, id, api.LeaseChange{Start: &sooner}) // it may have begun
}

// disturb changes the grace, makes new leaders whose clocks differ, and cuts agents off.
func (r *race) disturb(ctx context.Context, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7000))
	for ctx.Err() == nil {
		backoff.Sleep(ctx, time.Duration(20+rnd.IntN(100))*time.Second)
		switch rnd.IntN(3) {
		case 0:
			config := r.m.View().Config
			config.Preemptibles.Grace = []time.Duration{-1, 0, 5 * time.Second, 30 * time.Second}[rnd.IntN(4)]
			_, _ = r.m.Lead().Propose(ctx, command.ConfigSet{Stamp: r.m.Lead().Stamp(), Config: config}) // again later
		case 1:
			r.m.SetSkew(time.Duration(rnd.IntN(90)) * time.Second)
			r.m.Elect()
		case 2:
			a := r.agents[rnd.IntN(len(r.agents))]
			a.setMute(true)
			backoff.Sleep(ctx, time.Duration(5+rnd.IntN(80))*time.Second)
			a.setMute(false)
		}
	}
}

func (a *gentle) setMute(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mute = on
}

// Preemptibles are booted without a pause while leases start over them, leaders with other clocks
// take over and agents are cut off. By the journals of agents nothing preemptible uses room of an
// active slot, not for a millisecond, and every lease starts.
func TestPreemptiblesAreNeverInTheWay(t *testing.T) {
	seed, starts := dice.Seed(t), zonetest.Few(*leaseStarts, *leaseStarts/6)
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("one", nil)
		r := &race{w: w, m: m, journal: &raceJournal{spans: map[string]*span{}}}
		ctx, stop := context.WithCancel(w.Ctx)
		defer stop()
		for n := range raceAgents {
			a := &gentle{m: m, name: fmt.Sprint("a", n), journal: r.journal, rnd: rand.New(rand.NewPCG(seed, uint64(2000+n))), runs: map[api.InstanceID]*gentleRun{}, heard: time.Now()}
			r.agents = append(r.agents, a)
			w.Go(func() { a.run(w.Ctx) })
		}
		m.Until("hosts are there", func(v *state.State) bool { return len(v.AllHosts()) == raceAgents*raceHosts })
		w.Go(func() { r.follow(w.Ctx) })
		for n := range raceBooters {
			w.Go(func() { r.bootOn(ctx, n, seed) })
		}
		w.Go(func() { r.disturb(ctx, seed) })
		for n := 0; r.started() < starts; n += raceLeases {
			for i := range raceLeases {
				w.Go(func() { r.leaseOn(w.Ctx, n+i, seed) })
			}
			await.Sleep(time.Minute)
			require.Less(t, n, 20*starts+1000, "leases do not start")
		}
		stop()
		for _, a := range r.agents {
			a.setMute(false)
		}
		r.m.Until("every lease has ended", func(v *state.State) bool {
			return !slices.ContainsFunc(v.Leases(""), func(l *state.Lease) bool { return l.Status != api.LeaseTerminated })
		})
		overlap, worst := r.journal.overlap()
		assert.Zero(t, overlap, "%s", worst)
		assert.Positive(t, r.evicted)
		t.Logf("%d leases started, %d of them late, at most by %s; %d instances were evicted; overlap %s", r.starts, r.late, r.lateness, r.evicted, overlap)
		for _, l := range m.View().Leases("") {
			assert.Empty(t, l.Reason, "lease %s", l.Terms.Name)
		}
	})
}
