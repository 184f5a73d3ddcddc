package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
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

// powered returns an instance that its owner has stopped or not, and had run again so often.
func powered(id string, halt bool, runs uint64) api.Workload {
	w := work(id)
	w.Halt, w.Runs, w.Stay = halt, runs, runs+1
	return w
}

func TestStopAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{StopDelay: time.Second})
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		defer run(t, c)()
		z.set("host-0001", powered("a", false, 0), powered("never", true, 0))
		settle()
		assert.Equal(t, []string{"a"}, running(t, d))
		assert.Equal(t, api.StatusShutoff, z.of("never"), "it is stopped before it ran")

		z.set("host-0001", powered("a", true, 0), powered("never", true, 0))
		settle()
		assert.Empty(t, running(t, d))
		assert.Equal(t, api.StatusShutoff, z.of("a"))

		z.set("host-0001", powered("a", false, 1), powered("never", false, 1))
		settle()
		assert.Equal(t, []string{"a", "never"}, running(t, d))
		assert.Equal(t, api.InstanceReport{Host: "id-of-host-0001", Instance: "a", Status: api.StatusActive, Stay: 2}, z.report("a"))

		z.set("host-0001", powered("a", false, 2), powered("never", false, 1))
		settle()
		assert.Equal(t, []string{"a", "never"}, running(t, d))
		assert.Equal(t, uint64(3), z.report("a").Stay)
		assert.Equal(t, 4, d.Starts(), "one for each run")

		d.Exit("a", 9)
		settle()
		assert.Equal(t, api.StatusError, z.of("a"))
		z.set("host-0001", powered("a", false, 3), powered("never", false, 1))
		settle()
		assert.Equal(t, api.StatusActive, z.of("a"))
		assert.Equal(t, []string{
			"start", "running", "halt", "halted", "ordered", "start", "running", "halt", "halted", "ordered", "start", "running",
			"ended", "ordered", "start", "running",
		}, events(t, c.Dir, "a"))
		z.set("host-0001", stopping("never"))
		settle()
		assert.Empty(t, running(t, d))
		assert.Equal(t, api.StatusDeleted, z.of("never"))
	})
}

// TestOrderAcrossRestartsOfTheAgent: each order is carried out once, whichever agent is there.
func TestOrderAcrossRestartsOfTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		end := run(t, config(z, d, 1))
		z.set("host-0001", powered("a", false, 0), powered("b", false, 0))
		settle()
		end()
		z.set("host-0001", powered("a", false, 1), powered("b", true, 0)) // while there is no agent
		end = run(t, config(z, d, 1))
		settle()
		assert.Equal(t, 3, d.Starts(), "a runs again")
		assert.Equal(t, []string{"a"}, running(t, d))
		assert.Equal(t, api.StatusShutoff, z.of("b"))
		for range 2 {
			end()
			end = run(t, config(z, d, 1))
			settle()
		}
		assert.Equal(t, 3, d.Starts(), "an order is carried out once")
		assert.Equal(t, []string{"a"}, running(t, d))
		assert.Equal(t, api.StatusShutoff, z.of("b"), "it stays stopped")
		end()
		z.set("host-0001", powered("a", true, 1), powered("b", false, 1))
		defer run(t, config(z, d, 1))()
		settle()
		assert.Equal(t, []string{"b"}, running(t, d))
		assert.Equal(t, api.StatusShutoff, z.of("a"))
		assert.Equal(t, 4, d.Starts())
	})
}

// TestRestartThatHangs: what does not end is not started a second time, and is not reported as running
// in the run that was ordered.
func TestRestartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		hangs.Store(true)
		z, d := newZone(), fake.New(fake.Options{FailStop: func(api.InstanceID) error {
			if hangs.Load() {
				return errors.New("it does not end")
			}
			return nil
		}})
		defer run(t, config(z, d, 1))()
		z.set("host-0001", powered("a", false, 0))
		settle()
		z.set("host-0001", powered("a", false, 1))
		settle()
		assert.Equal(t, 1, d.Starts())
		assert.Equal(t, uint64(1), z.report("a").Stay)
		hangs.Store(false)
		await.Sleep(2 * time.Minute)
		settle()
		assert.Equal(t, 2, d.Starts())
		assert.Equal(t, api.InstanceReport{Host: "id-of-host-0001", Instance: "a", Status: api.StatusActive, Stay: 2}, z.report("a"))
	})
}

// TestFenceOfWhatIsStopped: it has nothing to end, and keeps what it has; it is not started while the zone
// is silent.
func TestFenceOfWhatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		defer run(t, c)()
		fenced := func(halt bool, runs uint64) api.Workload {
			w := powered("a", halt, runs)
			w.Fence = 30 * time.Second
			return w
		}
		z.set("host-0001", fenced(false, 0))
		settle()
		z.set("host-0001", fenced(true, 0))
		settle()
		z.silence()
		await.Sleep(time.Minute)
		settle()
		all, err := d.List(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1, "nothing ran that had to be killed")
		assert.Equal(t, []string{"start", "running", "halt", "halted"}, events(t, c.Dir, "a"))
		z.do(func() { z.leader = "n1:1" })
		z.set("host-0001", fenced(false, 1))
		await.Sleep(time.Minute)
		settle()
		assert.Equal(t, []string{"a"}, running(t, d))
	})
}

// TestStoppedElsewhere: an instance that was stopped and has moved here is stopped without ever having run
// here, and runs when it is started.
func TestStoppedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		defer run(t, config(z, d, 2))()
		z.set("host-0001", powered("a", false, 1))
		settle()
		away := powered("a", true, 1)
		away.Stop = true
		z.set("host-0001", away)
		settle()
		require.Equal(t, api.StatusDeleted, z.of("a"))
		here := powered("a", true, 1)
		here.Stay++
		z.set("host-0002", here)
		settle()
		assert.Equal(t, api.InstanceReport{Host: "id-of-host-0002", Instance: "a", Status: api.StatusShutoff, Stay: 3}, z.report("a"))
		z.set("host-0001")
		here.Halt, here.Runs, here.Stay = false, 2, 4
		z.set("host-0002", here)
		settle()
		assert.Equal(t, []string{"a"}, running(t, d))
		assert.Equal(t, api.InstanceReport{Host: "id-of-host-0002", Instance: "a", Status: api.StatusActive, Stay: 4}, z.report("a"))
	})
}

// TestOrdersInTheLedger plays random orders, driver calls that succeed or come to nothing, exits, restarts of
// the agent and lost acknowledgements: nothing runs twice, each run is started at most once, and in the end
// all is as it was ordered, and the zone was told of it under the stay of that run.
func TestOrdersInTheLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := fake.New(fake.Options{})
		there := map[api.InstanceID]driver.State{} // what the driver holds
		told := map[api.InstanceID]api.InstanceReport{}
		wanted := map[api.InstanceID]api.Workload{}
		tried := map[string]int{} // starts with an outcome, of each run
		var b *ledger
		gen := uint64(0)
		observe := func() { b.applyStates(d, b.seq, slices.Collect(maps.Values(there))) }
		list := func() {
			gen++
			hw := api.HostWorkload{Host: "h", Generation: gen, Instances: slices.Collect(maps.Values(wanted))}
			b.applyLists(api.AgentWorkload{Generation: gen, Hosts: []api.HostWorkload{hw}}, b.nextQuestion(), time.Time{})
		}
		begin := func() {
			b = newLedger([]api.HostID{"h"}, []driver.Driver{d})
			if rapid.Bool().Draw(t, "listed first") {
				list()
				observe()
			} else {
				observe()
				list()
			}
		}
		carry := func(a action, works bool) bool {
			e := b.nextEntry(a)
			if e == nil {
				return false
			}
			id := e.work.Instance
			s, known := there[id]
			require.True(t, a == halt || !e.work.Halt, "what its owner has stopped is not started")
			require.Equal(t, a == halt, known && s.Status == api.StatusActive, "only what runs is ended, and only what does not is started")
			switch {
			case !works:
			case a == halt:
				s.Status = api.StatusShutoff
				there[id] = s
			default:
				require.True(t, !known || s.Runs < e.work.Runs, "%s: run %d is over", id, s.Runs)
				run := fmt.Sprint(id, e.work.Runs)
				tried[run]++
				require.Equal(t, 1, tried[run], "%s is started twice", run)
				there[id] = driver.State{Host: "h", Instance: id, Status: rapid.SampledFrom([]api.Status{api.StatusActive, api.StatusActive, api.StatusError}).Draw(t, "comes"), Runs: e.work.Runs}
			}
			e.runs = there[id].Runs
			b.endCall(e, there[id].Status, there[id].Fault)
			return true
		}
		tell := func(lost bool) bool {
			items := b.pendingReports(3)
			for _, r := range items {
				w := wanted[r.Instance]
				if r.Status == api.StatusActive && r.Stay == w.Stay {
					require.Equal(t, w.Runs, there[r.Instance].Runs, "it runs in the run before")
				}
				told[r.Instance] = r
			}
			if !lost {
				b.noteAcked(items)
			}
			return len(items) > 0
		}
		for _, id := range []api.InstanceID{"a", "b"} {
			wanted[id] = powered(string(id), false, 0)
		}
		begin()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.SampledFrom([]api.InstanceID{"a", "b"}).Draw(t, "id")
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				w := wanted[id]
				wanted[id] = powered(string(id), true, w.Runs)
				list()
			case 1:
				w := wanted[id]
				wanted[id] = powered(string(id), false, w.Runs+1)
				list()
			case 2, 3:
				carry(rapid.SampledFrom([]action{start, halt}).Draw(t, "lane"), rapid.Bool().Draw(t, "works"))
			case 4:
				if s, ok := there[id]; ok && s.Status == api.StatusActive {
					s.Status = rapid.SampledFrom([]api.Status{api.StatusShutoff, api.StatusError}).Draw(t, "ends")
					there[id] = s
				}
				observe()
			case 5:
				begin() // another agent
			case 6:
				tell(rapid.Bool().Draw(t, "lost"))
			}
		}
		observe()
		for carry(halt, true) || carry(start, true) || tell(false) {
		}
		for id, w := range wanted {
			s, ran := there[id]
			if w.Halt {
				require.NotEqual(t, api.StatusActive, s.Status)
			} else {
				require.True(t, ran)
				require.Equal(t, w.Runs, s.Runs)
			}
			if !ran {
				s.Status = api.StatusShutoff
			}
			require.Equal(t, s.Status, told[id].Status)
			require.Equal(t, w.Stay, told[id].Stay)
		}
	})
}
