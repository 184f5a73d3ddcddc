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
