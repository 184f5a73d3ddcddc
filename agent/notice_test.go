package agent

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
)

// evicted is a preemptible instance that must leave.
func evicted(id string, left time.Duration) api.Workload {
	w := fenced(id)
	w.Stop, w.Notice = true, &api.PreemptNotice{Left: left, For: "r", Lease: true, Action: api.PreemptStop}
	return w
}

// quiet is one that is not asked to stop before its deadline.
func quiet(id string, left time.Duration) api.Workload {
	w := evicted(id, left)
	w.Notice.Quiet, w.Notice.Action = true, api.PreemptNotify
	return w
}

// told runs one host with instances on a driver, and then calls f.
func told(t *testing.T, o fake.Options, instances []api.Workload, f func(z *zone, d *timed, dir string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(o)
		c := config(z, d.Driver, 1)
		c.Hosts[0].Driver, c.Dir, c.Calls = d, t.TempDir(), 1
		defer run(t, c)()
		z.set("host-0001", instances...)
		settle()
		f(z, d, c.Dir)
	})
}

// TestNoticeAsksFirst: an instance that ends when it is asked to is gone long before its deadline.
func TestNoticeAsksFirst(t *testing.T) {
	told(t, fake.Options{}, []api.Workload{fenced("a")}, func(z *zone, d *timed, dir string) {
		z.set("host-0001", evicted("a", time.Hour))
		settle()
		assert.Empty(t, running(t, d.Driver))
		assert.Equal(t, api.StatusDeleted, z.of("a"))
		assert.Equal(t, []string{"start", "running", "notice", "ended", "stop", "gone"}, events(t, dir, "a"))
	})
}

// TestNoticeKillsAtItsDeadline: not a nanosecond before, and no later; what a quiet notice is for is
// not asked to end before.
func TestNoticeKillsAtItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		o    fake.Options
		told func(string, time.Duration) api.Workload
	}{
		"asked":       {fake.Options{Stubborn: true}, evicted},
		"quiet":       {fake.Options{}, quiet},
		"cannot know": {fake.Options{Stubborn: true, FailNotify: func(api.InstanceID) error { return errors.New("no room on the disk") }}, evicted},
	} {
		t.Run(name, func(t *testing.T) {
			told(t, c.o, []api.Workload{fenced("a"), fenced("b")}, func(z *zone, d *timed, dir string) {
				deadline := time.Now().Add(time.Minute)
				z.set("host-0001", c.told("a", time.Minute), fenced("b"))
				await.Sleep(30 * time.Second)
				synctest.Wait()
				n, ok := d.Notice("a")
				assert.Equal(t, c.o.FailNotify == nil, ok)
				if ok {
					want := *c.told("a", time.Minute).Notice
					assert.Equal(t, driver.Notice{Deadline: deadline.UTC(), PreemptNotice: want}, n)
				}
				z.set("host-0001", c.told("a", 45*time.Second), fenced("b")) // it never moves later
				await.Sleep(time.Until(deadline) - 1)
				synctest.Wait()
				assert.Equal(t, []string{"a", "b"}, running(t, d.Driver))
				await.Sleep(time.Nanosecond)
				synctest.Wait()
				assert.Equal(t, []string{"b"}, running(t, d.Driver))
				assert.Equal(t, deadline, d.at("a"))
				settle()
				assert.Equal(t, api.StatusDeleted, z.of("a"))
				all := events(t, dir, "a")
				assert.Equal(t, []string{"start", "running", "notice"}, all[:3])
				assert.Equal(t, []string{"killed", "gone"}, all[len(all)-2:])
			})
		})
	}
}

// TestNoticeIsBroughtForward: an earlier deadline counts, and the instance learns of it.
func TestNoticeIsBroughtForward(t *testing.T) {
	told(t, fake.Options{}, []api.Workload{fenced("a")}, func(z *zone, d *timed, dir string) {
		z.set("host-0001", quiet("a", time.Hour))
		settle()
		z.set("host-0001", quiet("a", time.Hour-settleTime-noticeStep+1))
		synctest.Wait()
		z.set("host-0001", quiet("a", time.Minute))
		synctest.Wait()
		n, _ := d.Notice("a")
		assert.Equal(t, time.Now().Add(time.Minute).UTC(), n.Deadline)
		deadline := time.Now().Add(time.Minute)
		z.set("host-0001", quiet("a", time.Hour))
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, deadline, d.at("a"))
		assert.Equal(t, []string{"start", "running", "notice", "notice", "killed", "gone"}, events(t, dir, "a"))
	})
}

// TestNoticeWithoutTime: an instance without time to leave is killed at once, also while it starts or is
// being stopped, whatever the other lanes wait for.
func TestNoticeWithoutTime(t *testing.T) {
	told(t, fake.Options{StopDelay: time.Hour}, []api.Workload{fenced("a"), fenced("b"), fenced("c")}, func(z *zone, d *timed, dir string) {
		soft := fenced("b")
		soft.Stop = true
		z.set("host-0001", fenced("a"), soft, fenced("c")) // the only call of its lane, for an hour
		settle()
		now := time.Now()
		z.set("host-0001", evicted("a", 0), evicted("b", 0), evicted("c", -time.Second))
		synctest.Wait()
		assert.Empty(t, running(t, d.Driver))
		for _, id := range []api.InstanceID{"a", "b", "c"} {
			assert.Equal(t, now, d.at(id), id)
		}
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("b"))
		assert.Equal(t, []string{"start", "running", "killed", "gone"}, events(t, dir, "a"))
	})
	told(t, fake.Options{StartDelay: 50 * time.Second}, []api.Workload{fenced("a")}, func(z *zone, d *timed, _ string) {
		z.set("host-0001", evicted("a", time.Second))
		await.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, time.Now(), d.at("a"))
		settle()
		assert.Zero(t, d.Starts(), "it was cut short")
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}

// TestNoticeAndFence: an instance that may go on until its deadline does not run while the zone
// cannot know about it.
func TestNoticeAndFence(t *testing.T) {
	told(t, fake.Options{}, []api.Workload{fenced("a")}, func(z *zone, d *timed, dir string) {
		z.set("host-0001", quiet("a", time.Hour))
		settle()
		last := z.silence()
		await.Sleep(time.Until(last.Add(testFence)))
		synctest.Wait()
		assert.Equal(t, last.Add(testFence), d.at("a"))
		z.do(func() { z.leader = "n1:1" })
		await.Sleep(time.Minute)
		assert.Equal(t, api.StatusDeleted, z.of("a"))
		assert.Equal(t, []string{"start", "running", "notice", "fenced", "gone", "absent"}, events(t, dir, "a"))
	})
}

// TestNoticeIsBounded: no instance that must leave stays for longer than any grace.
func TestNoticeIsBounded(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		api.PreemptGraceMax - 1: api.PreemptGraceMax - 1, api.PreemptGraceMax: api.PreemptGraceMax,
		api.PreemptGraceMax + 1: api.PreemptGraceMax, math.MaxInt64: api.PreemptGraceMax,
	} {
		told(t, fake.Options{}, []api.Workload{fenced("a")}, func(z *zone, d *timed, _ string) {
			began := time.Now()
			z.set("host-0001", quiet("a", left))
			await.Sleep(2 * api.PreemptGraceMax)
			assert.Equal(t, want, d.at("a").Sub(began))
		})
	}
}

// TestNoticeIsLifted: an instance that is wanted again runs on.
func TestNoticeIsLifted(t *testing.T) {
	told(t, fake.Options{}, []api.Workload{fenced("a")}, func(z *zone, d *timed, _ string) {
		z.set("host-0001", quiet("a", time.Minute))
		settle()
		z.set("host-0001", fenced("a"))
		await.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, running(t, d.Driver))
		z.set("host-0001", quiet("a", time.Minute))
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, time.Now(), d.at("a"))
	})
}

// TestNoticeOutlivesItsAgent: the next agent goes on where the one before was, by what its list says.
func TestNoticeOutlivesItsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{})
		c := config(z, d.Driver, 1)
		c.Hosts[0].Driver, c.Dir = d, t.TempDir()
		end := run(t, c)
		z.set("host-0001", fenced("a"))
		settle()
		z.set("host-0001", quiet("a", time.Minute))
		settle()
		end()
		z.set("host-0001", quiet("a", 40*time.Second))
		deadline := time.Now().Add(40 * time.Second)
		defer run(t, c)()
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, deadline, d.at("a"))
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}

// TestManyNotices: each of many has its own deadline, and ended ones are not waited for.
func TestManyNotices(t *testing.T) {
	const n = 300
	var all, leave []api.Workload
	for i := range n {
		id := fmt.Sprintf("i%03d", i)
		all, leave = append(all, fenced(id)), append(leave, evicted(id, time.Duration(i)*time.Second))
	}
	told(t, fake.Options{Stubborn: true}, all, func(z *zone, d *timed, _ string) {
		require.Len(t, running(t, d.Driver), n)
		began := time.Now()
		z.set("host-0001", leave...)
		settle()
		require.True(t, d.Exit("i299", 0), "it ends by itself")
		await.Sleep(n * time.Second)
		synctest.Wait()
		for i := range n - 1 {
			require.Equal(t, time.Duration(i)*time.Second, d.at(leave[i].Instance).Sub(began), i)
		}
		assert.True(t, d.at("i299").IsZero())
		assert.Equal(t, api.StatusDeleted, z.of("i299"))
	})
}

// TestADeadlineWithoutAFence is kept to the moment, with nothing else that is due.
func TestADeadlineWithoutAFence(t *testing.T) {
	told(t, fake.Options{}, []api.Workload{work("a"), work("b")}, func(z *zone, d *timed, _ string) {
		began := time.Now()
		first, last := quiet("a", time.Minute), quiet("b", 2*time.Minute)
		first.Fence, last.Fence = 0, 0
		z.set("host-0001", first, last)
		await.Sleep(3 * time.Minute)
		synctest.Wait()
		assert.Equal(t, time.Minute, d.at("a").Sub(began))
		assert.Equal(t, 2*time.Minute, d.at("b").Sub(began))
	})
}

// TestANoticeIsTriedAgain, noticeTries times in all, with what is left by then; after that the instance goes on without it.
func TestANoticeIsTriedAgain(t *testing.T) {
	for fails, c := range map[int]struct {
		between []string
		left    time.Duration // in the notice that is given; 0 for none
	}{
		0: {nil, time.Minute},
		1: {[]string{"37.5ms"}, time.Minute - 37_500*time.Microsecond},
		2: {[]string{"37.5ms", "75ms"}, time.Minute - 112_500*time.Microsecond},
		3: {[]string{"37.5ms", "75ms"}, 0},
	} {
		served(t, fake.Options{}, func(z *zone, d *failing, r *record, _ string) {
			z.set("host-0001", fenced("a"))
			settle()
			d.fail("notify", fails)
			deadline := time.Now().Add(time.Minute).UTC()
			z.set("host-0001", quiet("a", time.Minute))
			settle()
			assert.Equal(t, c.between, between(d.made("notify")), "%d fail", fails)
			n, ok := d.Notice("a")
			assert.Equal(t, c.left > 0, ok, "%d fail", fails)
			if ok {
				assert.Equal(t, c.left, n.Left)
				assert.Equal(t, deadline, n.Deadline)
			}
			assert.Len(t, r.of("instance cannot be given its notice"), fails)
			assert.Equal(t, []string{"a"}, running(t, d.Driver))
		})
	}
}

// TestANoticeThatIsLiftedWhileItIsGiven: the next one is given too, though its deadline is later.
func TestANoticeThatIsLiftedWhileItIsGiven(t *testing.T) {
	served(t, fake.Options{Stubborn: true}, func(z *zone, d *failing, _ *record, _ string) {
		z.set("host-0001", fenced("a"))
		settle()
		d.fail("notify", 1)
		z.set("host-0001", quiet("a", time.Minute))
		synctest.Wait()
		z.set("host-0001", fenced("a"))
		settle()
		require.Len(t, d.made("notify"), 2)
		z.set("host-0001", quiet("a", time.Hour))
		settle()
		assert.Len(t, d.made("notify"), 1)
		n, _ := d.Notice("a")
		assert.Equal(t, time.Hour, n.Left)
	})
}

// TestWhatADeadlineStrikes: what may run, once.
func TestWhatADeadlineStrikes(t *testing.T) {
	due := time.Unix(1_000, 0)
	for name, c := range map[string]struct {
		e    entry
		want bool
	}{
		"runs":             {entry{have: active, due: due}, true},
		"ended":            {entry{have: shutoff, due: due}, true},
		"is being started": {entry{busy: true, due: due}, true},
		"gone, and busy":   {entry{have: deleted, busy: true, due: due}, true},
		"gone":             {entry{have: deleted, due: due}, false},
		"not here":         {entry{due: due}, false},
		"struck before":    {entry{have: active, due: due, overdue: true}, false},
		"without one":      {entry{have: active}, false},
		"due later":        {entry{have: active, due: due.Add(1)}, false},
	} {
		b := bookOf(fake.New(fake.Options{}), "h")
		c.e.listed, c.e.work.Stop = true, true
		b.soonest = due
		e := b.put(c.e)
		struck, _ := b.expireNotices(due)
		assert.Equal(t, c.want, len(struck) == 1, name)
		assert.Equal(t, c.want || c.e.overdue, e.overdue, name)
		b.soonest = due
		struck, _ = b.expireNotices(due)
		assert.Empty(t, struck, "%s: once", name)
	}
}

// TestDeadlinesOfLists: the earliest counts until the instance is wanted again.
func TestDeadlinesOfLists(t *testing.T) {
	came := time.Unix(1_000, 0)
	leaves := func(left time.Duration) api.Workload {
		return api.Workload{Stop: true, Notice: &api.PreemptNotice{Left: left}}
	}
	old := entry{listed: true, due: came.Add(time.Minute), noticed: came, overdue: true}
	for name, c := range map[string]struct {
		w             api.Workload
		was           entry
		soonest       time.Time
		due, earliest time.Time
		kept          bool // noticed and overdue
	}{
		"first":               {leaves(time.Second), entry{}, time.Time{}, came.Add(time.Second), came.Add(time.Second), false},
		"earlier":             {leaves(time.Second), old, came.Add(time.Minute), came.Add(time.Second), came.Add(time.Second), true},
		"later":               {leaves(time.Hour), old, came.Add(time.Minute), came.Add(time.Minute), came.Add(time.Minute), true},
		"after another's":     {leaves(time.Hour), entry{}, came.Add(time.Second), came.Add(time.Hour), came.Add(time.Second), false},
		"negative":            {leaves(-1), entry{}, time.Time{}, came, came, false},
		"longer than any":     {leaves(api.PreemptGraceMax + 1), entry{}, time.Time{}, came.Add(api.PreemptGraceMax), came.Add(api.PreemptGraceMax), false},
		"stopped, unnoticed":  {api.Workload{Stop: true}, old, came.Add(time.Minute), came.Add(time.Minute), came.Add(time.Minute), true},
		"unnoticed, and new":  {api.Workload{Stop: true}, entry{}, time.Time{}, time.Time{}, time.Time{}, false},
		"wanted":              {api.Workload{}, old, came.Add(time.Minute), time.Time{}, came.Add(time.Minute), false},
		"wanted, with notice": {api.Workload{Notice: &api.PreemptNotice{}}, old, came.Add(time.Minute), time.Time{}, came.Add(time.Minute), false},
	} {
		b := bookOf(fake.New(fake.Options{}), "h")
		b.soonest = c.soonest
		c.was.listed, c.was.work = true, c.w
		e := b.put(c.was)
		b.setDeadline(e, came)
		assert.Equal(t, c.due, e.due, name)
		assert.Equal(t, c.earliest, b.soonest, name)
		assert.Equal(t, c.kept, !e.noticed.IsZero(), name)
		assert.Equal(t, c.kept, e.overdue, name)
	}
}
