package bench

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/costs"
	"berth/filters"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// How large the simulated zone of TestWeekOfPreemptibles is, and for how long it runs.
var (
	weekHosts = flag.Int("week-hosts", 20, "hosts of the simulated zone; 200 for docs/performance.md")
	weekHours = flag.Int("week-hours", 24, "hours that are simulated; 168 for docs/performance.md")
)

// The zone of the simulation, and what is asked of it.
const (
	weekCPUs    = 32 // of one host
	weekSlot    = 4  // processors of one slot or instance
	weekBacklog = 3  // preemptible boots that are tried each minute
)

// weekEvent is something that happens by itself at a time.
type weekEvent struct {
	at   api.Instant
	what func()
}

type weekQueue []weekEvent

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q weekQueue) Len() int           { return len(q) }
func (q weekQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q weekQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *weekQueue) Push(x any) { *q = append(*q, x.(weekEvent)) } //nolint:forcetypeassert // heap.Push gets no other

// Pop implements heap.Interface.
func (q *weekQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// week is a zone without nodes, agents and time of its own: its state, the real planner, and a
// list of what happens.
type week struct {
	t    *testing.T
	s    *state.State
	dice *rand.Rand // of leases and their owners: the same with and without preemptibles
	free *rand.Rand // of everything else
	now  api.Instant
	list weekQueue
	ids  int
	soft bool // preemptibles are booted
	seen api.EventID

	starts, asked, refused, evicted, booted int
	lateness, worst                         time.Duration
	late                                    int
	use                                     state.RoomUse // summed up over minutes
	minutes                                 int64
}

func (w *week) id(kind string) string {
	w.ids++
	return fmt.Sprintf("%s%06d", kind, w.ids)
}

func (w *week) apply(c command.Command) state.Result {
	b, err := command.Encode(c, api.FormNewest)
	require.NoError(w.t, err)
	c, err = command.Decode(b, api.FormNewest)
	require.NoError(w.t, err)
	r := w.s.Apply(w.s.Index()+1, c)
	w.follow()
	return r
}

func (w *week) stamp() command.Stamp { return command.Stamp{At: w.now} }

func (w *week) after(d time.Duration, what func()) {
	heap.Push(&w.list, weekEvent{w.now.Add(d), what})
}

// follow has agents do what the last entry wants of them.
func (w *week) follow() {
	v := w.s
	events, _ := v.Events(w.seen, 100_000)
	for _, e := range events {
		w.seen = v.EventID(e)
		switch e.Kind {
		case state.EventLeaseStarted:
			w.noteStart(e)
		case state.EventEvicted:
			w.evicted++
		case state.EventInstance:
			if e.Is == string(api.StatusDeleting) && !e.Slot {
				w.endSoon(e.Instance)
			}
		}
	}
}

func (w *week) noteStart(e *state.Event) {
	w.starts++
	if l, ok := w.s.Lease(e.Lease); ok {
		late := time.Duration(e.At-max(l.Terms.Window.Start, l.Created)) * time.Millisecond
		if late > 0 {
			w.late++
		}
		w.lateness += late
		w.worst = max(w.worst, late)
	}
}

// endSoon reports an instance gone when it has taken its time to stop, or at its deadline.
func (w *week) endSoon(id api.InstanceID) {
	i, _ := w.s.Instance(id)
	soft := time.Duration(1+w.free.IntN(45)) * time.Second
	if i.Eviction != nil {
		soft = min(soft, max(0, i.Eviction.By.Time().Sub(w.now.Time())))
	}
	w.after(soft, func() { w.report(api.StatusDeleted, id) })
}

func (w *week) report(st api.Status, ids ...api.InstanceID) {
	c := command.InstanceReport{Stamp: w.stamp(), Agent: "a"}
	for _, id := range ids {
		if i, ok := w.s.Instance(id); ok && i.Live() {
			c.Items = append(c.Items, api.InstanceReport{Host: i.Host, Instance: id, Status: st})
		}
	}
	w.apply(c)
}

// plan returns slots for a request on the hosts of the zone, or nil if not all have room.
func (w *week) plan(req *api.Request, weights []api.CostWeight) []command.Slot {
	set, err := costs.New(weights)
	require.NoError(w.t, err)
	in := &buildplan.Inputs{View: w.s.Hosts(), World: &filters.World{Census: w.s}, Filters: filters.Default(), Costs: set}
	var out []command.Slot
	p := buildplan.Select(in, req)
	for g := range p.Groups {
		if len(p.Groups[g].Slots) < req.Groups[g].Count {
			return nil
		}
		for _, sl := range p.Groups[g].Slots {
			id := w.id("i")
			out = append(out, command.Slot{Instance: api.InstanceSpec{ID: api.InstanceID(id), Name: id}, Group: g, Host: sl.Host})
		}
	}
	return out
}

// hold takes slots for a boot and returns the instances; none if something that is due at this
// moment has taken the room of one.
func (w *week) hold(req api.Request, slots []command.Slot) []api.InstanceID {
	h := command.Hold{Stamp: w.stamp(), ID: api.HoldID(w.id("k")), Attempt: 1, Request: req, Slots: slots, Commit: true}
	r := w.apply(h)
	require.NoError(w.t, r.Err)
	if r.Hold.Decision != api.DecisionCommit {
		require.NoError(w.t, w.apply(command.BootDecide{
			Stamp: w.stamp(), Project: req.Project, Reservation: req.Reservation, Decision: api.DecisionAbort, Reason: "the room is gone",
		}).Err)
		return nil
	}
	var ids []api.InstanceID
	for _, sl := range slots {
		ids = append(ids, sl.Instance.ID)
	}
	return ids
}

func (w *week) terms(req api.Request, slots []command.Slot) command.BootTerms {
	b := command.BootTerms{Digest: []byte{1}, Name: string(req.Reservation), Request: req, Min: len(slots)}
	for _, sl := range slots {
		b.Instances = append(b.Instances, sl.Instance)
	}
	return b
}

// lease asks for a lease: every fifth of whole hosts, some at once, most for later today.
func (w *week) lease() {
	w.asked++
	id := w.id("l")
	start := w.now
	if w.dice.IntN(5) > 0 {
		start = w.now.Add(time.Duration(5+w.dice.IntN(16*60)) * time.Minute)
	}
	window := api.Window{Start: start, End: start.Add(time.Duration(30+w.dice.IntN(10*60)) * time.Minute)}
	n, size := 2+w.dice.IntN(24), api.Resources{api.VCPU: weekSlot, api.MemoryMB: 4096 * weekSlot}
	r := api.Reservation{ID: api.ReservationID(id + "-r"), Type: api.ReserveInstances, Min: n, Max: n, Resources: size}
	g := api.Group{Name: string(r.ID), Count: n, Min: n, Resources: size, ShareIdle: w.dice.IntN(2) == 0}
	if w.dice.IntN(5) == 0 {
		n = 1 + w.dice.IntN(3)
		r = api.Reservation{ID: r.ID, Type: api.ReserveHosts, Min: n, Max: n}
		g.Count, g.Min, g.Whole, g.Resources = n, n, true, nil
	}
	req := api.Request{
		Reservation: api.ReservationID(id + "-o"), Project: "p", Class: api.Firm, Window: window, Reserves: true, Groups: []api.Group{g},
	}
	slots := w.plan(&req, []api.CostWeight{
		{Name: costs.FillFirst, Weight: 10}, {Name: costs.Evictions, Weight: costs.WeightMax, Options: map[string]string{"class": string(api.VCPU)}},
	})
	if slots == nil {
		w.refused++
		return
	}
	b := w.terms(req, slots)
	require.NoError(w.t, w.apply(command.LeaseCreate{
		Stamp: w.stamp(), Digest: []byte{1}, Order: &b,
		Terms: api.LeaseTerms{ID: api.LeaseID(id), Project: "p", Window: window, Reservations: []api.Reservation{r}},
		Events: []api.LeaseEvent{
			{ID: id + "1", Type: api.EventStartLease, Time: window.Start, Status: api.EventUndone},
			{ID: id + "2", Type: api.EventEndLease, Time: window.End, Status: api.EventUndone},
		},
	}).Err)
	w.hold(req, slots)
	owners := rand.New(rand.NewPCG(w.dice.Uint64(), 3))
	for _, sl := range slots { // they come when it has begun, and not to every slot
		if owners.IntN(4) > 0 && !g.Whole {
			from := window.Start.Time().Sub(w.now.Time()) + time.Duration(owners.IntN(60))*time.Minute
			w.after(from, func() { w.own(r.ID, sl.Instance.ID, size) })
		}
	}
}

// own boots an instance of its owner into a slot.
func (w *week) own(r api.ReservationID, slot api.InstanceID, size api.Resources) {
	if i, ok := w.s.Instance(slot); !ok || i.Status != api.StatusActive {
		return
	}
	req := api.Request{
		Reservation: api.ReservationID(w.id("b")), Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever}, Within: r,
		Groups: []api.Group{{Count: 1, Min: 1, Resources: size}},
	}
	id := w.id("i")
	slots := []command.Slot{{Instance: api.InstanceSpec{ID: api.InstanceID(id), Name: id}, Host: api.HostID(slot)}}
	require.NoError(w.t, w.apply(command.BootCreate{Stamp: w.stamp(), BootTerms: w.terms(req, slots)}).Err)
	w.report(api.StatusActive, w.hold(req, slots)...)
}

// bootSoft boots preemptibles of some length as long as there is room.
func (w *week) bootSoft() {
	for range weekBacklog {
		n := 1 + w.free.IntN(8)
		req := api.Request{
			Reservation: api.ReservationID(w.id("s")), Project: "q", Class: api.Preemptible, Window: api.Window{End: api.Forever},
			Lifetime: time.Duration(20+w.free.IntN(6*60)) * time.Minute,
			Groups:   []api.Group{{Count: n, Min: n, Resources: api.Resources{api.VCPU: weekSlot, api.MemoryMB: 4096 * weekSlot}}},
		}
		slots := w.plan(&req, append(costs.DefaultWeights(), api.CostWeight{Name: costs.Gap, Weight: 1}))
		if slots == nil {
			slots = w.lent(&req)
		}
		if slots == nil {
			return
		}
		w.booted += n
		require.NoError(w.t, w.apply(command.BootCreate{Stamp: w.stamp(), BootTerms: w.terms(req, slots)}).Err)
		w.report(api.StatusActive, w.hold(req, slots)...)
	}
}

// lent returns one slot that its owner lends and in which nothing runs.
func (w *week) lent(req *api.Request) []command.Slot {
	for _, slot := range w.s.LentSlots() {
		if len(w.s.Within(slot.ID)) == 0 {
			req.Groups[0].Count, req.Groups[0].Min = 1, 1
			id := w.id("i")
			return []command.Slot{{Instance: api.InstanceSpec{ID: api.InstanceID(id), Name: id}, Host: api.HostID(slot.ID)}}
		}
	}
	return nil
}

// minute is what happens each minute.
func (w *week) minute() {
	w.after(time.Minute, w.minute)
	if w.dice.IntN(2000) < 3**weekHosts { // about four leases an hour for 20 hosts
		w.lease()
	}
	if w.soft {
		w.bootSoft()
	}
	u := w.s.RoomUse()[api.VCPU]
	w.use.Reserved += u.Reserved
	w.use.Idle += u.Idle
	w.use.Lent += u.Lent
	w.use.Preemptible += u.Preemptible
	w.minutes++
	if w.minutes%60 == 0 {
		w.apply(command.Prune{Stamp: w.stamp(), Before: w.now.Add(-time.Hour), Limit: 10_000})
	}
}

// run simulates a zone from a seed.
func (w *week) run(seed uint64) {
	w.s, w.dice, w.now = state.New(), rand.New(rand.NewPCG(seed, 1)), 1_900_000_000_000
	w.free = rand.New(rand.NewPCG(seed, 2))
	require.NoError(w.t, w.apply(command.Init{Stamp: w.stamp(), Zone: "z", Name: "week"}).Err)
	for n := range *weekHosts {
		require.NoError(w.t, w.apply(command.HostsPut{Stamp: w.stamp(), Agent: "a", Hosts: []command.HostEntry{{
			ID: api.HostID(fmt.Sprintf("h%03d", n)),
			Host: api.AgentHost{
				Name: fmt.Sprintf("h%03d", n), Driver: "fake", Pool: api.PoolShared,
				Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: weekCPUs}, api.MemoryMB: {Total: 4096 * weekCPUs}},
			},
		}}}).Err)
	}
	end := w.now.Add(time.Duration(*weekHours) * time.Hour)
	w.after(0, w.minute)
	for w.now < end {
		next := w.list[0].at
		if due := w.s.NextDue(); due < next {
			w.now = max(w.now, due)
			w.apply(command.Tick{Stamp: w.stamp()})
			continue
		}
		e := heap.Pop(&w.list).(weekEvent) //nolint:forcetypeassert // it has no others
		w.now = e.at
		e.what()
	}
}

// Preemptibles fill what leases leave, and no lease that was known a minute before starts late for
// them. The table of docs/performance.md is from -week-hosts 200 -week-hours 168.
func TestWeekOfPreemptibles(t *testing.T) {
	total := float64(*weekHosts * weekCPUs)
	part := func(n, minutes int64) float64 { return 100 * float64(n) / (total * float64(minutes)) }
	var used [2]float64
	for n, soft := range []bool{false, true} {
		w := &week{t: t, soft: soft}
		w.run(dice.Seed(t))
		u := &w.use
		used[n] = part(u.Reserved-u.Idle+u.Lent+u.Preemptible, w.minutes)
		t.Logf("preemptibles %v: reserved %.1f %%, idle of that %.1f %%, preemptible %.1f %%, lent %.1f %%, in use %.1f %%; %d of %d leases started, %d refused",
			soft, part(u.Reserved, w.minutes), part(u.Idle, w.minutes), part(u.Preemptible, w.minutes), part(u.Lent, w.minutes), used[n], w.starts, w.asked, w.refused)
		t.Logf("%d preemptibles booted, %d evicted, %.2f a lease; %d starts late, %s a lease, at most %s",
			w.booted, w.evicted, float64(w.evicted)/float64(max(w.starts, 1)), w.late, (w.lateness / time.Duration(max(w.starts, 1))).Round(time.Millisecond), w.worst)
		assert.LessOrEqual(t, w.worst, api.PreemptGraceDefault, "no lease waits longer than the grace")
	}
	assert.Greater(t, used[1], used[0]+10)
}
