package agent

import (
	"slices"
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

// restartsOf returns what the zone was told of restarts of an instance, each once, and forgets the reports.
func (z *zone) restartsOf(id api.InstanceID) (reasons []api.RestartReason) {
	var seen []api.Instant
	z.do(func() {
		for _, r := range z.reports {
			for _, i := range r.Items {
				if i.Instance == id && i.Restarted != 0 && !slices.Contains(seen, i.Restarted) {
					seen, reasons = append(seen, i.Restarted), append(reasons, i.Reason)
				}
			}
		}
		z.reports = nil
	})
	return reasons
}

// TestRestartsAreReported: an instance that was killed because no zone was heard, and is started anew
// by the next list, is reported again although it is ACTIVE as before; one that has gone on is not.
func TestRestartsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{})
		c := config(z, d.Driver, 1)
		c.Hosts[0].Driver = d
		end := run(t, c)
		z.set("host-0001", work("a"), fenced("b"))
		settle()
		assert.Empty(t, z.restartsOf("b"), "its first run")
		for term := range uint64(2) {
			z.silence()
			await.Sleep(2 * testFence)
			synctest.Wait()
			require.Equal(t, []string{"a"}, running(t, d.Driver))
			z.do(func() { z.leader, z.term = "n1:1", term+2 })
			await.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Equal(t, []string{"a", "b"}, running(t, d.Driver))
			assert.Equal(t, []api.RestartReason{api.RestartFenced}, z.restartsOf("b"))
			assert.Empty(t, z.restartsOf("a"))
		}
		end()
	})
}

// keeper is a driver that keeps outputs, and notes of whom they are wanted.
type keeper struct {
	*timed
	asked func(wanted func(api.InstanceID) bool)
}

func (k *keeper) ForgetOutputs(wanted func(api.InstanceID) bool) error { k.asked(wanted); return nil }

// TestOutputsAreForgotten: once the lists of all hosts are known, a driver may forget the outputs of what no list has.
func TestOutputsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{})
		var wanted []string
		k := &keeper{d, func(is func(api.InstanceID) bool) {
			wanted = nil
			for _, id := range []string{"a", "b", "c"} {
				if is(api.InstanceID(id)) {
					wanted = append(wanted, id)
				}
			}
		}}
		c := config(z, k, 2)
		end := run(t, c)
		z.set("host-0001", work("a"), fenced("b"))
		settle()
		z.set("host-0002", fenced("c"))
		settle()
		assert.Equal(t, []string{"a", "b", "c"}, wanted)
		z.set("host-0001", work("a"))
		settle()
		assert.Equal(t, []string{"a", "c"}, wanted)
		end()

		b := newLedger([]api.HostID{"h1", "h2"}, []driver.Driver{d, d})
		for _, h := range []api.HostID{"h1", "h2"} {
			assert.False(t, b.knowsLists(), "another host may have it")
			b.applyLists(api.AgentWorkload{Hosts: []api.HostWorkload{{Host: h}}}, b.nextQuestion(), time.Now())
		}
		assert.True(t, b.knowsLists())
	})
}

// TestRestartsAfterAnAgent: what an earlier agent has left, and this one killed, is reported as started anew.
// What has another host since is not, nor is what is started once more later.
func TestRestartsAfterAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newTimed(fake.Options{})
		d.severed = []driver.State{{Host: "id-of-host-0001", Instance: "a", Fenced: true}, {Host: "id-of-host-0009", Instance: "b", Fenced: true}}
		c := config(z, d, 1)
		end := run(t, c)
		z.set("host-0001", fenced("a"), fenced("b"), fenced("c"))
		settle()
		require.Equal(t, []string{"a", "b", "c"}, running(t, d.Driver))
		z.set("host-0001")
		settle()
		require.Empty(t, running(t, d.Driver))
		z.set("host-0001", fenced("a"), fenced("b"), fenced("c")) // another stay
		settle()
		require.Equal(t, []string{"a", "b", "c"}, running(t, d.Driver))
		end()
		restarts := map[api.InstanceID][]api.RestartReason{}
		for _, id := range []api.InstanceID{"a", "b", "c"} {
			reports := slices.Clone(z.reports)
			restarts[id] = z.restartsOf(id)
			z.reports = reports
		}
		assert.Equal(t, map[api.InstanceID][]api.RestartReason{"a": {api.RestartAgent}, "b": nil, "c": nil}, restarts)
	})
}

// TestWhatIsARestart: a start counts as one if what ran was killed unasked, nothing else ended it since, and nobody ordered it.
func TestWhatIsARestart(t *testing.T) {
	severed := []driver.State{{Host: "id-of-host-0001", Instance: "a", Fenced: true}}
	silent := func(z *zone) {
		z.silence()
		await.Sleep(2 * testFence)
		z.do(func() { z.leader, z.term = "n1:1", z.term+1 })
		await.Sleep(2 * time.Minute)
		synctest.Wait()
	}
	for name, c := range map[string]struct {
		o       fake.Options
		severed []driver.State
		play    func(t *testing.T, z *zone, d *timed)
		want    []api.RestartReason
	}{
		"it cannot be started again": {
			fake.Options{FailEvery: 1}, severed,
			func(_ *testing.T, z *zone, _ *timed) { z.set("host-0001", fenced("a")) },
			[]api.RestartReason{api.RestartAgent},
		},
		"its start was cut short": {
			fake.Options{StartDelay: 45 * time.Second}, nil,
			func(_ *testing.T, z *zone, _ *timed) {
				z.set("host-0001", fenced("a"))
				await.Sleep(time.Second)
				silent(z)
			}, nil,
		},
		"it was lost after a restart": {
			fake.Options{}, nil,
			func(t *testing.T, z *zone, d *timed) {
				z.set("host-0001", fenced("a"), fenced("b"))
				settle()
				silent(z)
				require.NoError(t, d.Driver.Kill(t.Context(), "a"))
				d.Exit("b", 0) // so that it is listed
				settle()
				require.Equal(t, []string{"a"}, running(t, d.Driver))
			},
			[]api.RestartReason{api.RestartFenced},
		},
		"its owner had stopped it": {
			fake.Options{}, severed,
			func(t *testing.T, z *zone, d *timed) {
				w := powered("a", true, 0)
				w.Fence = testFence
				z.set("host-0001", w)
				settle()
				w.Halt, w.Runs = false, 1
				z.set("host-0001", w)
				settle()
				require.Equal(t, []string{"a"}, running(t, d.Driver))
			}, nil,
		},
		"its notice was over": {
			fake.Options{}, nil,
			func(t *testing.T, z *zone, d *timed) {
				z.set("host-0001", fenced("a"))
				settle()
				z.set("host-0001", evicted("a", 0))
				settle()
				z.set("host-0001", fenced("a"))
				settle()
				require.Equal(t, []string{"a"}, running(t, d.Driver))
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z, d := newZone(), newTimed(c.o)
				d.severed = c.severed
				defer run(t, config(z, d, 1))()
				c.play(t, z, d)
				settle()
				assert.Equal(t, c.want, z.restartsOf("a"))
			})
		})
	}
}
