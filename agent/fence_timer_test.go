package agent

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
)

const testFence = 20 * time.Second

func fenced(id string) api.Workload {
	w := work(id)
	w.Fence = testFence
	return w
}

// timed is a fake that records the times of kills.
type timed struct {
	*fake.Driver
	severed []driver.State

	mu     sync.Mutex
	killed map[api.InstanceID]time.Time // the first time of each
}

func newTimed(o fake.Options) *timed {
	return &timed{Driver: fake.New(o), killed: map[api.InstanceID]time.Time{}}
}

func (d *timed) Kill(ctx context.Context, id api.InstanceID) error {
	err := d.Driver.Kill(ctx, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.killed[id].IsZero() && err == nil {
		d.killed[id] = time.Now()
	}
	return err
}

func (d *timed) Severed() []driver.State { return d.severed }

func (d *timed) at(id api.InstanceID) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.killed[id]
}

// silence makes the zone answer nothing more and returns when it last did.
func (z *zone) silence() (last time.Time) {
	z.do(func() {
		z.leader, last = "", z.last
	})
	return last
}

func events(t *testing.T, dir string, id api.InstanceID) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	for l := range strings.Lines(string(text)) {
		if strings.Contains(l, `"instance":"`+string(id)+`"`) {
			_, rest, _ := strings.Cut(l, `"event":"`)
			event, _, _ := strings.Cut(rest, `"`)
			all = append(all, event)
		}
	}
	return all
}

// TestFenceStrikesAtItsLimit: not a nanosecond before the fence has passed since the last
// answered call was sent, and no later; and no new start before a list requires it.
func TestFenceStrikesAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{})
		c := config(z, d.Driver, 1)
		c.Hosts[0].Driver, c.Dir = d, t.TempDir()
		end := run(t, c)
		longer := fenced("c")
		longer.Fence = 2 * testFence
		z.set("host-0001", work("a"), fenced("b"), longer)
		settle()
		require.Equal(t, []string{"a", "b", "c"}, running(t, d.Driver))
		await.Sleep(10 * testFence)
		require.Equal(t, []string{"a", "b", "c"}, running(t, d.Driver), "a quiet zone is not a silent one")

		last := z.silence()
		await.Sleep(time.Until(last.Add(testFence)) - 1)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c"}, running(t, d.Driver))
		await.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"a", "c"}, running(t, d.Driver))
		await.Sleep(testFence)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, running(t, d.Driver))
		assert.Equal(t, last.Add(testFence), d.at("b"))
		assert.Equal(t, last.Add(2*testFence), d.at("c"))
		await.Sleep(10 * testFence)
		synctest.Wait()
		assert.Equal(t, 3, d.Starts(), "an old list starts nothing again")

		z.do(func() { z.leader, z.term = "n1:1", 2; z.reports = nil })
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c"}, running(t, d.Driver), "the zone has not moved them")
		z.do(func() {
			for _, r := range z.reports {
				for _, i := range r.Items {
					assert.NotEqual(t, api.StatusDeleted, i.Status, "%s was not told to end", i.Instance)
				}
			}
		})
		end()
		assert.Equal(t, []string{"start", "running", "fenced", "gone", "start", "running"}, events(t, c.Dir, "b"))
		assert.Equal(t, []string{"start", "running"}, events(t, c.Dir, "a"))
	})
}

// TestMovedMeanwhile: an instance that the zone has moved is not started again at its old
// host, and a deleted one is reported gone.
func TestMovedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		defer run(t, config(z, d, 2))()
		z.set("host-0001", fenced("a"), fenced("b"), fenced("c"))
		settle()
		z.silence()
		await.Sleep(2 * testFence)
		synctest.Wait()
		require.Empty(t, running(t, d))
		deleted := fenced("c")
		deleted.Stop = true
		z.set("host-0001", deleted)
		z.set("host-0002", fenced("a"))
		z.do(func() { z.leader = "n1:1" })
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, running(t, d))
		assert.Equal(t, api.HostID("id-of-host-0002"), z.report("a").Host)
		assert.Equal(t, api.StatusDeleted, z.of("c"))
		assert.Equal(t, 4, d.Starts())
	})
}

// TestMove: an instance that leaves one host of an agent for another ends before
// it starts.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{StopDelay: 5 * time.Second})
		defer run(t, config(z, d, 2))()
		z.set("host-0001", work("a"))
		settle()
		z.set("host-0001", stopping("a"))
		settle()
		require.Equal(t, api.StatusDeleted, z.of("a"))
		z.set("host-0001")
		z.set("host-0002", work("a"))
		settle()
		assert.Equal(t, api.InstanceReport{Host: "id-of-host-0002", Instance: "a", Status: api.StatusActive}, z.report("a"))
		// Also if the zone is in a hurry.
		z.set("host-0001", work("a"))
		settle()
		assert.Equal(t, 2, d.Starts())
		z.set("host-0002")
		await.Sleep(4 * time.Second)
		synctest.Wait()
		assert.Equal(t, api.HostID("id-of-host-0002"), z.report("a").Host)
		settle()
		assert.Equal(t, []string{"a"}, running(t, d))
		assert.Equal(t, api.InstanceReport{Host: "id-of-host-0001", Instance: "a", Status: api.StatusActive}, z.report("a"))
		assert.Equal(t, 3, d.Starts())
	})
}

// TestFenceCutsCallsShort: neither a slow start nor a slow stop holds it up, nor
// do those of other instances.
func TestFenceCutsCallsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{StopDelay: time.Hour})
		c := config(z, d, 1)
		c.Calls = 1
		defer run(t, c)()
		z.set("host-0001", work("a"), fenced("b"), fenced("c"))
		settle()
		z.set("host-0001", fenced("b"))
		settle()
		soft := fenced("c")
		soft.Stop = true
		z.set("host-0001", fenced("b"), soft)
		settle()
		last := z.silence()
		await.Sleep(time.Until(last.Add(testFence)))
		synctest.Wait()
		assert.Equal(t, []string{"a"}, running(t, d.Driver), "its stop goes on")
		assert.Equal(t, last.Add(testFence), d.at("b"))
		assert.Equal(t, last.Add(testFence), d.at("c"))
	})
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{StartDelay: 50 * time.Second})
		defer run(t, config(z, d, 1))()
		z.set("host-0001", fenced("a"))
		settle()
		last := z.silence()
		await.Sleep(time.Until(last.Add(10 * time.Minute)))
		synctest.Wait()
		assert.Equal(t, last.Add(testFence), d.at("a"))
		assert.Zero(t, d.Starts())
		z.do(func() { z.leader = "n1:1" })
		await.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, running(t, d.Driver))
	})
}

// TestSoftStopIsCut: a stop that has begun is soft no longer when the fence strikes.
func TestSoftStopIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{StopDelay: time.Minute})
		defer run(t, config(z, d, 1))()
		z.set("host-0001", fenced("a"))
		settle()
		soft := fenced("a")
		soft.Stop = true
		z.set("host-0001", soft)
		await.Sleep(time.Second)
		last := z.silence()
		await.Sleep(time.Until(last.Add(testFence)))
		synctest.Wait()
		assert.Empty(t, running(t, d.Driver))
		assert.Equal(t, last.Add(testFence), d.at("a"))
		z.do(func() { z.leader = "n1:1" })
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}

// TestHeldUpAgent: an agent whose timers did not run learns from the next answer how long
// the silence was, and still applies its fences to it.
func TestHeldUpAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ahead time.Duration
		z, d := newZone(), newTimed(fake.Options{})
		c := config(z, d, 1)
		c.Now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}
		defer run(t, c)()
		z.set("host-0001", fenced("a"))
		settle()
		mu.Lock()
		ahead = testFence
		mu.Unlock()
		await.Sleep(4 * time.Second) // one beat
		synctest.Wait()
		assert.False(t, d.at("a").IsZero())
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, running(t, d.Driver))
		assert.Equal(t, 2, d.Starts())
	})
}

// TestFenceOfForgottenHosts: no zone will ever ask an agent to stop instances of a host that
// it no longer serves.
func TestFenceOfForgottenHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"), fenced("b"))
		settle()
		z.do(func() { z.forgot, z.ids["host-0001"] = true, "another-id" })
		z.set("host-0001")
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, running(t, d))
	})
}

func TestSeveredIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{})
		d.severed = []driver.State{{Host: "h", Instance: "a", Fenced: true}}
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		end := run(t, c)
		z.set("host-0001", fenced("a"))
		settle()
		end()
		assert.Equal(t, []string{"fenced", "gone", "start", "running"}, events(t, c.Dir, "a"))
	})
}

// TestAnswerOfAnOldQuestion: a list that was requested before the fence expired may be older
// than the zone's decisions because of it.
func TestAnswerOfAnOldQuestion(t *testing.T) {
	d := fake.New(fake.Options{})
	b := newLedger([]api.HostID{"h"}, []driver.Driver{d})
	b.applyStates(d, 0, nil)
	lists := api.AgentWorkload{Generation: 1, Hosts: []api.HostWorkload{{Host: "h", Generation: 1, Instances: []api.Workload{fenced("a")}}}}
	b.applyLists(lists, b.nextQuestion(), time.Time{})
	b.endCall(b.nextEntry(start), api.StatusActive, "")
	old := b.nextQuestion()
	old.after = 0 // as after a new term
	struck, next := b.lapseFences(testFence - 1)
	assert.Empty(t, struck)
	assert.Equal(t, testFence, next)
	struck, next = b.lapseFences(testFence)
	assert.Len(t, struck, 1)
	assert.Zero(t, next)
	struck, _ = b.lapseFences(testFence)
	assert.Empty(t, struck, "it strikes once")
	e := b.nextEntry(kill)
	require.NotNil(t, e)
	e.lapsed = false
	b.endCall(e, "", "")
	b.applyLists(lists, old, time.Time{})
	assert.Nil(t, b.nextEntry(start))
	assert.Zero(t, b.after, "everything is asked for again")
	b.applyLists(lists, b.nextQuestion(), time.Time{})
	assert.NotNil(t, b.nextEntry(start))
}

// TestAnswerThatIsTooOld: an instance in a list whose request is as old as the fence is
// not started even for a moment.
func TestAnswerThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New(fake.Options{})
		a, err := New(config(newZone(), d, 1))
		require.NoError(t, err)
		a.ledger = newLedger([]api.HostID{"h"}, []driver.Driver{d})
		a.ledger.applyStates(d, 0, nil)
		lists := api.AgentWorkload{Generation: 1, Hosts: []api.HostWorkload{{Host: "h", Generation: 1, Instances: []api.Workload{fenced("a")}}}}
		a.contact = time.Now().Add(-testFence)
		a.applyWork(lists, a.ledger.nextQuestion())
		assert.Nil(t, a.ledger.nextEntry(start))
		a.contact = time.Now().Add(1 - testFence)
		a.applyWork(lists, a.ledger.nextQuestion())
		assert.NotNil(t, a.ledger.nextEntry(start))
	})
}

// movesWorld is a zone that keeps each instance at one host at a time, an agent
// that serves three, and their driver.
type movesWorld struct {
	t     *rapid.T
	b     *ledger
	d     *fake.Driver
	at    map[api.InstanceID]api.HostID // where the zone wants it; "" while it is nowhere
	stop  map[api.InstanceID]bool       // and whether it is to leave
	there map[api.InstanceID]api.HostID // what runs
	lists map[api.HostID]api.HostWorkload
	gen   uint64
	sent  []movesAnswer // that may come late, or again
	doing map[action][]*entry
}

type movesAnswer struct {
	work  api.AgentWorkload
	asked question
}

var movesHosts = []api.HostID{"h1", "h2", "h3"}

func newMovesWorld(t *rapid.T) *movesWorld {
	d := fake.New(fake.Options{})
	w := &movesWorld{
		t: t, d: d, b: newLedger(movesHosts, []driver.Driver{d, d, d}), at: map[api.InstanceID]api.HostID{},
		stop: map[api.InstanceID]bool{}, there: map[api.InstanceID]api.HostID{},
		lists: map[api.HostID]api.HostWorkload{}, doing: map[action][]*entry{},
	}
	w.b.applyStates(d, 0, nil)
	for _, h := range movesHosts {
		w.relist(h)
	}
	return w
}

// relist writes the list of a host anew.
func (w *movesWorld) relist(h api.HostID) {
	w.gen++
	l := api.HostWorkload{Host: h, Generation: w.gen}
	for _, id := range slices.Sorted(maps.Keys(w.at)) {
		if w.at[id] == h {
			one := fenced(string(id))
			one.Stop = w.stop[id]
			l.Instances = append(l.Instances, one)
		}
	}
	w.lists[h] = l
}

// answer is what the zone says now to what the agent asks now, of some hosts.
func (w *movesWorld) answer(hosts []api.HostID) movesAnswer {
	a := movesAnswer{asked: w.b.nextQuestion(), work: api.AgentWorkload{Generation: w.gen}}
	for _, h := range hosts {
		a.work.Hosts = append(a.work.Hosts, w.lists[h])
	}
	return a
}

// take lets one lane begin, and finish lets one driver call of it end.
func (w *movesWorld) take(a action) {
	e := w.b.nextEntry(a)
	if e == nil {
		return
	}
	if a == start {
		require.NotContains(w.t, w.there, e.work.Instance, "never twice")
		for _, o := range w.doing[start] {
			require.NotEqual(w.t, o.work.Instance, e.work.Instance, "nor may it come to that")
		}
		w.there[e.work.Instance] = e.host // from here on it may run
	}
	w.doing[a] = append(w.doing[a], e)
}

func (w *movesWorld) finish(a action) bool {
	if len(w.doing[a]) == 0 {
		return false
	}
	e := w.doing[a][0]
	w.doing[a] = w.doing[a][1:]
	if a == start {
		w.b.endCall(e, api.StatusActive, "")
		return true
	}
	if w.there[e.work.Instance] == e.host {
		delete(w.there, e.work.Instance)
	}
	if a == kill {
		e.lapsed = false
		w.b.endCall(e, "", "")
	} else {
		w.b.endCall(e, api.StatusDeleted, "")
	}
	return true
}

// tell reports to the zone, which sends on what is gone.
func (w *movesWorld) tell() bool {
	items := w.b.pendingReports(10)
	for _, r := range items {
		if r.Status != api.StatusDeleted {
			continue
		}
		require.NotEqual(w.t, r.Host, w.there[r.Instance], "gone is said of what is gone")
		if w.at[r.Instance] == r.Host && w.stop[r.Instance] {
			w.place(r.Instance)
			w.relist(r.Host)
		}
	}
	w.b.noteAcked(items)
	return len(items) > 0
}

// place puts an instance that is nowhere on a host.
func (w *movesWorld) place(id api.InstanceID) {
	h := rapid.SampledFrom(movesHosts).Draw(w.t, "to")
	w.at[id], w.stop[id] = h, false
	w.relist(h)
}

func (w *movesWorld) step() {
	id := api.InstanceID(fmt.Sprint("i", rapid.IntRange(0, 2).Draw(w.t, "instance")))
	lane := rapid.SampledFrom([]action{start, stop, kill}).Draw(w.t, "lane")
	switch rapid.IntRange(0, 8).Draw(w.t, "step") {
	case 0:
		switch old := w.at[id]; {
		case old == "":
			w.place(id)
		case rapid.Bool().Draw(w.t, "in a hurry"): // the agent must wait for itself
			w.place(id)
			w.relist(old)
		default:
			w.stop[id] = true
			w.relist(w.at[id])
		}
	case 1: // an answer of some hosts, now or later
		hosts := rapid.SliceOfDistinct(rapid.SampledFrom(movesHosts), rapid.ID).Draw(w.t, "hosts")
		w.sent = append(w.sent, w.answer(hosts))
	case 2, 3:
		if len(w.sent) > 0 { // in any order, and it may come again
			a := w.sent[rapid.IntRange(0, len(w.sent)-1).Draw(w.t, "arrives")]
			w.b.applyLists(a.work, a.asked, time.Time{})
		}
	case 4, 5:
		w.take(lane)
	case 6:
		w.finish(lane)
	case 7:
		w.tell()
	case 8:
		w.lapse()
	}
}

// lapse is an outage that is long enough: afterwards the zone starts elsewhere
// what it likes, once nothing runs here any more.
func (w *movesWorld) lapse() {
	w.b.lapseFences(testFence)
	for w.finish(start) || w.finish(stop) { // cut short
	}
	for w.take(kill); w.finish(kill); w.take(kill) {
	}
	require.Empty(w.t, w.there, "all of them have a fence")
	for _, id := range slices.Sorted(maps.Keys(w.at)) {
		if old := w.at[id]; rapid.Bool().Draw(w.t, "evacuated") {
			w.place(id)
			w.relist(old)
		}
	}
}

// TestBookOfMoves plays random moves between the hosts of one agent, with lists
// that come late, again and in any order, slow calls and outages: an instance
// never runs twice, and in the end each runs where the zone has it.
func TestBookOfMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newMovesWorld(t)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.step()
		}
		for busy := true; busy; {
			a := w.answer(movesHosts)
			w.b.applyLists(a.work, a.asked, time.Time{})
			w.take(start)
			w.take(stop)
			w.take(kill)
			busy = w.finish(start) || w.finish(stop) || w.finish(kill) || w.tell()
		}
		want := maps.Clone(w.at)
		require.Equal(t, want, w.there)
		for id, places := range w.b.every {
			require.Len(t, places, 1, "%s is forgotten where it was", id)
		}
	})
}

// TestWhatAFenceStrikes: what runs or may run is struck, what is about to run waits for another list, and all lists are requested
// only if there is one of these.
func TestWhatAFenceStrikes(t *testing.T) {
	stopped := api.Workload{Halt: true, Fence: testFence}
	for name, c := range map[string]struct {
		e             entry
		struck, stale bool
	}{
		"runs":                    {entry{listed: true, have: active}, true, true},
		"runs, and is busy":       {entry{listed: true, have: active, busy: true}, true, true},
		"runs unlisted":           {entry{have: active}, true, true},
		"is being started":        {entry{listed: true, busy: true}, true, true},
		"being started, unlisted": {entry{busy: true}, true, true},
		"is to be started":        {entry{listed: true}, false, true},
		"waits for another list":  {entry{listed: true, stale: true}, false, false},
		"struck before":           {entry{listed: true, have: active, lapsed: true}, false, false},
		"not listed":              {entry{}, false, false},
		"ended":                   {entry{listed: true, have: shutoff}, false, false},
		"stopped by its owner":    {entry{listed: true, have: shutoff, work: stopped}, false, false},
		"gone":                    {entry{have: deleted}, false, false},
	} {
		for fence, has := range map[time.Duration]bool{testFence: true, 1: true, 0: false} {
			b := bookOf(fake.New(fake.Options{}), "h")
			c.e.work.Fence = fence
			e := b.put(c.e)
			b.after, b.shortest = 7, 1
			struck, next := b.lapseFences(testFence)
			assert.Zero(t, next, name)
			assert.Equal(t, has && c.struck, len(struck) == 1, "%s, %s", name, fence)
			assert.Equal(t, has && c.struck, e.lapsed && !c.e.lapsed, "%s, %s", name, fence)
			assert.Equal(t, has && c.stale, e.stale && !c.e.stale, "%s, %s", name, fence)
			assert.Equal(t, has && c.stale, b.lapses == 1 && b.after == 0, "%s, %s: lists are requested", name, fence)
			assert.Equal(t, has && c.stale, e.lapse == 1)
			assert.Equal(t, has && c.struck, b.nextEntry(kill) != nil || c.e.busy && e.lapsed, "%s, %s", name, fence)
			struck, _ = b.lapseFences(testFence)
			assert.Empty(t, struck, "%s, %s: once", name, fence)
		}
	}
}

// manyEntries fills two hosts of a ledger with entries, made by f from a number.
func manyEntries(b *ledger, n int, f func(i int) entry) {
	for i := range n {
		host := api.HostID(fmt.Sprint("h", i%2+1))
		id := api.InstanceID(fmt.Sprintf("i%02d", n-i))
		e := f(i)
		e.host, e.work.Instance = host, id
		*b.entryOf(b.hosts[host], host, id) = e
		b.hosts[host].listed = true
	}
}

// orderOf returns the hosts and ids of entries.
func orderOf(all []*entry) (out []string) {
	for _, e := range all {
		out = append(out, string(e.host)+"/"+string(e.work.Instance))
	}
	return out
}

// TestManyAreStruckInOrder of hosts and ids, and what is left decides when the watch looks again.
func TestManyAreStruckInOrder(t *testing.T) {
	const n = 24
	began := time.Unix(1_000, 0)
	for name, c := range map[string]struct {
		fill   func(i int) entry
		strike func(b *ledger, at time.Duration) ([]*entry, time.Duration)
	}{
		"fences": {
			func(i int) entry {
				return entry{listed: true, have: active, work: api.Workload{Fence: time.Duration(1+i/8) * testFence}}
			},
			func(b *ledger, at time.Duration) ([]*entry, time.Duration) { return b.lapseFences(at) },
		},
		"notices": {
			func(i int) entry {
				return entry{listed: true, have: active, work: api.Workload{Stop: true}, due: began.Add(time.Duration(1+i/8) * testFence)}
			},
			func(b *ledger, at time.Duration) ([]*entry, time.Duration) {
				struck, next := b.expireNotices(began.Add(at))
				assert.Equal(t, next, b.soonest)
				return struck, max(next.Sub(began), 0)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bookOf(fake.New(fake.Options{}), "h1", "h2")
			manyEntries(b, n, c.fill)
			b.shortest, b.soonest = testFence, began.Add(testFence)
			struck, next := c.strike(b, testFence-1)
			assert.Empty(t, struck)
			assert.Equal(t, testFence, next)
			for k := range 3 {
				struck, next = c.strike(b, time.Duration(k+1)*testFence)
				require.Len(t, struck, 8)
				assert.True(t, slices.IsSorted(orderOf(struck)), "%v", orderOf(struck))
				if k < 2 {
					assert.Equal(t, time.Duration(k+2)*testFence, next)
				}
			}
			assert.Zero(t, next)
		})
	}
}

// TestNothingIsLookedAtTooEarly: while no fence and no deadline can be over, no entry is looked at, and there may be many.
func TestNothingIsLookedAtTooEarly(t *testing.T) {
	b := bookOf(fake.New(fake.Options{}), "h")
	b.hosts["h"].entries["a"] = nil // it would panic
	look := func() {
		struck, next := b.lapseFences(testFence - 1)
		assert.Empty(t, struck)
		assert.Equal(t, b.shortest, next)
		struck, soonest := b.expireNotices(time.Unix(999, 0))
		assert.Empty(t, struck)
		assert.Equal(t, b.soonest, soonest)
	}
	look()
	b.shortest, b.soonest = testFence, time.Unix(1_000, 0)
	look()
}

// TestTheLogTellsWhatWasKilled, and why; of nothing it tells nothing.
func TestTheLogTellsWhatWasKilled(t *testing.T) {
	const fences, notices = "zone does not answer: instances with a fence are killed", "preemptible instances are killed at their deadline"
	served(t, fake.Options{}, func(z *zone, _ *failing, r *record, _ string) {
		z.set("host-0001", fenced("a"), work("b"), work("c"), work("d"))
		settle()
		assert.Empty(t, r.of(fences))
		assert.Empty(t, r.of(notices))
		leaves := quiet("b", time.Minute)
		leaves.Fence = 0 // its deadline is all that is due
		z.set("host-0001", fenced("a"), leaves, work("c"), work("d"))
		await.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		text := r.b.String()
		r.b.Reset()
		r.mu.Unlock()
		assert.Equal(t, 1, strings.Count(text, "level=INFO msg=\""+notices+"\" instances=1"))
		assert.NotContains(t, text, fences)
		z.silence()
		await.Sleep(testFence)
		synctest.Wait()
		r.mu.Lock()
		text = r.b.String()
		r.mu.Unlock()
		assert.Equal(t, 1, strings.Count(text, "level=WARN msg=\""+fences+"\" instances=1"))
		assert.NotContains(t, text, notices)
	})
}
