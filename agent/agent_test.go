package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
	"berth/internal/backoff"
)

func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{StartDelay: time.Second, StopDelay: time.Second})
		defer run(t, config(z, d, 2))()
		z.set("host-0001", work("a"), work("b"))
		z.set("host-0002", work("c"))
		settle()
		assert.Equal(t, []string{"a", "b", "c"}, running(t, d))
		assert.Equal(t, api.StatusActive, z.of("a"))
		assert.Equal(t, api.HostID("id-of-host-0002"), z.report("c").Host)

		z.set("host-0001", stopping("a"), work("b"))
		settle()
		assert.Equal(t, []string{"b", "c"}, running(t, d))
		assert.Equal(t, api.StatusDeleted, z.of("a"))

		z.set("host-0001") // absent is stop
		settle()
		assert.Equal(t, []string{"c"}, running(t, d))
		assert.Equal(t, api.StatusDeleted, z.of("b"))

		z.set("host-0002", work("c"), stopping("never-here"))
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("never-here"))
		assert.Equal(t, 3, d.Starts())
	})
}

func TestAttributesAreRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		c := config(z, fake.New(fake.Options{}), 1)
		Describe(&c.Hosts[0].AgentHost, map[string]string{"price": "3.5"}, []string{"CUSTOM_SSD"})
		defer run(t, c)()
		settle()
		z.do(func() {
			require.Len(t, z.hosts, 1)
			assert.Equal(t, "3.5", z.hosts[0].Attributes["price"])
			assert.Equal(t, driverFake, z.hosts[0].Attributes[attributeHypervisor])
			assert.Equal(t, []string{api.TraitVolumes, "CUSTOM_SSD"}, z.hosts[0].Traits)
		})
	})
}

func TestExitsAreReportedAndNotRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		defer run(t, c)()
		z.set("host-0001", work("a"), work("b"))
		settle()
		d.Exit("a", 0)
		d.Exit("b", 9)
		settle()
		assert.Equal(t, api.StatusShutoff, z.of("a"))
		assert.Equal(t, api.StatusError, z.of("b"))
		assert.Equal(t, "exit code 9", z.report("b").Fault)
		z.set("host-0001", work("a"), work("b"), work("c"))
		settle()
		assert.Equal(t, []string{"c"}, running(t, d), "what ended stays ended")
		z.set("host-0001", stopping("a"), stopping("b"), work("c"))
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("a"))
		assert.Equal(t, api.StatusDeleted, z.of("b"))
		for _, id := range []api.InstanceID{"a", "b"} {
			assert.Equal(t, []string{"start", "running", "ended", "stop", "gone"}, events(t, c.Dir, id))
		}
		assert.Equal(t, []string{"start", "running"}, events(t, c.Dir, "c"))
	})
}

func TestFailedStartIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		d := fake.New(fake.Options{FailStart: func(api.HostID, api.Workload) error {
			return errors.New(strings.Repeat("no room ", 100))
		}})
		end := run(t, config(z, d, 1))
		z.set("host-0001", work("a"))
		settle()
		assert.Equal(t, api.StatusError, z.of("a"))
		assert.Len(t, z.report("a").Fault, api.FaultMaxBytes)
		end()
		defer run(t, config(z, d, 1))()
		settle()
		assert.Equal(t, 1, d.Starts(), "an ERROR is not started again, not even by a new agent")
	})
}

func TestStopIsRepeatedUntilConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		stuck.Store(true)
		z := newZone()
		d := fake.New(fake.Options{FailStop: func(api.InstanceID) error {
			if stuck.Load() {
				return errors.New("still there")
			}
			return nil
		}})
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"))
		settle()
		z.set("host-0001", stopping("a"))
		settle()
		assert.Equal(t, api.StatusActive, z.of("a"), "it is not gone, so it is not reported gone")
		stuck.Store(false)
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}

// TestAStopOfWhatIsNotHereIsInTheJournal: an agent that is killed in a start leaves a line of the start
// alone, and the next one says that nothing came of it.
func TestAStopOfWhatIsNotHereIsInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		defer run(t, c)()
		z.set("host-0001", stopping("a"))
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("a"))
		journal, err := os.ReadFile(filepath.Join(c.Dir, journalFile))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(journal), `"event":"`+eventAbsent+`","host":"id-of-host-0001","instance":"a"`), "%s", journal)
	})
}

// haunted is a driver on whose machine another agent has started an instance, until a call ends that.
type haunted struct {
	*fake.Driver
	mu    sync.Mutex // guards what follows
	stray api.InstanceID
	calls []string
}

func (d *haunted) HasStray(id api.InstanceID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stray == id
}

func (d *haunted) end(call string, id api.InstanceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call+" "+string(id))
	if d.stray == id {
		d.stray = ""
	}
}

func (d *haunted) Stop(ctx context.Context, id api.InstanceID) error {
	d.end("stop", id)
	return d.Driver.Stop(ctx, id)
}

func (d *haunted) Halt(ctx context.Context, id api.InstanceID) error {
	d.end("halt", id)
	return d.Driver.Halt(ctx, id)
}

// TestWhatAnotherAgentHasStartedIsEnded: what is to end and is not in the driver's list is ended by the driver if it runs all the same;
// only then is it said to be gone.
func TestWhatAnotherAgentHasStartedIsEnded(t *testing.T) {
	for _, c := range []struct {
		work api.Workload
		call string
		is   api.Status
	}{
		{stopping("a"), "stop a", api.StatusDeleted},
		{api.Workload{Instance: "a", Halt: true}, "halt a", api.StatusShutoff},
	} {
		synctest.Test(t, func(t *testing.T) {
			z, d := newZone(), &haunted{Driver: fake.New(fake.Options{}), stray: "a"}
			defer run(t, config(z, d, 1))()
			z.set("host-0001", c.work, stopping("b"))
			settle()
			assert.Equal(t, c.is, z.of("a"))
			assert.Equal(t, api.StatusDeleted, z.of("b"))
			d.mu.Lock()
			defer d.mu.Unlock()
			assert.Equal(t, []string{c.call}, d.calls, "b is not here at all")
		})
	}
}

func TestSlowStartIsLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		d := fake.New(fake.Options{StartDelay: startTimeout + time.Second})
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"))
		await.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Equal(t, api.Status(""), z.of("a"), "nothing is known, so nothing is said")
		z.set("host-0001", stopping("a"))
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}

func TestLeaderIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		z.leader = "n3:1"
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"))
		settle()
		assert.Equal(t, api.StatusActive, z.of("a"))

		z.do(func() { z.down["n3:1"], z.leader, z.term = true, "n2:1", 2 })
		z.set("host-0001", work("a"), work("b"))
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, api.StatusActive, z.of("b"))

		// Nodes nobody configured are learned, and a zone without a leader is waited for.
		z.do(func() { z.addresses, z.leader = []string{"n2:1", "n4:1"}, "" })
		settle()
		z.do(func() { z.leader, z.term = "n4:1", 3 })
		z.do(func() { z.down["n2:1"] = true })
		z.set("host-0001", work("a"), work("b"), work("c"))
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, api.StatusActive, z.of("c"))
		assert.Equal(t, 3, d.Starts())
	})
}

// TestAddressesAreKept: the addresses of the zone are written when they change, and an agent
// that starts with them finds a zone whose nodes are all new.
func TestAddressesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		var kept [][]string
		var refuse bool
		c := config(z, d, 1)
		c.Keep = func(addresses []string) error {
			if refuse {
				refuse = false
				return errors.New("the disk is full")
			}
			kept = append(kept, addresses)
			return nil
		}
		end := run(t, c)
		z.set("host-0001", work("a"))
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Empty(t, kept, "nothing has changed")

		for _, now := range [][]string{{"n2:1", "n3:1", "n4:1"}, {"n3:1", "n4:1", "n5:1"}, {"n6:1", "n5:1", "n4:1", "n4:1", "", "x:1/y"}} {
			z.do(func() { z.addresses, z.leader, z.term = now, now[0], z.term+1; refuse = true })
			await.Sleep(3 * time.Minute)
			synctest.Wait()
		}
		assert.Equal(t, [][]string{{"n2:1", "n3:1", "n4:1"}, {"n3:1", "n4:1", "n5:1"}, {"n4:1", "n5:1", "n6:1"}}, kept)
		end()

		c.Addresses = kept[len(kept)-1]
		defer run(t, c)()
		z.set("host-0001", work("a"), work("b"))
		settle()
		assert.Equal(t, []string{"a", "b"}, running(t, d))
		for _, none := range [][]string{{}, {"", "x:1/y"}} {
			z.do(func() { z.tells = none })
			await.Sleep(3 * time.Minute)
			synctest.Wait()
			assert.Len(t, kept, 3, "none is no news")
		}
	})
}

// TestAHastyZoneIsNotAskedWithoutPause: after an immediate empty answer the agent pauses
// before the next poll.
func TestAHastyZoneIsNotAskedWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		z.hasty = true
		defer run(t, config(z, d, 1))()
		await.Sleep(time.Minute)
		z.mu.Lock()
		defer z.mu.Unlock()
		assert.Less(t, z.calls, int(2*time.Minute/idlePause))
	})
}

// TestStrangeHostsAreTold: an agent that gets work for a host that it does not serve
// registers its hosts again, once, and warns about hosts that it has served before.
func TestStrangeHostsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		c := config(z, d, 2)
		c.Dir = t.TempDir()
		var log bytes.Buffer
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		end := run(t, c)
		settle()
		end()
		assert.NotContains(t, log.String(), "other hosts before")

		c.Hosts = c.Hosts[:1]
		registered := z.registered
		end = run(t, c)
		settle()
		z.set("host-0002", work("a"))
		settle()
		z.set("host-0002", work("a"), work("b"))
		settle()
		end()
		assert.Equal(t, registered+2, z.registered)
		assert.Equal(t, []api.AgentHost{c.Hosts[0].AgentHost}, z.hosts)
		assert.Empty(t, running(t, d))
		assert.Contains(t, log.String(), "first=host-0002 now=host-0001")
	})
}

func TestLowerTermIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		z.term = 7
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		end := run(t, c)
		z.set("host-0001", work("a"))
		settle()
		require.Equal(t, []string{"a"}, running(t, d))

		z.do(func() { z.term = 6 }) // a leader of the past
		z.set("host-0001")
		settle()
		assert.Equal(t, []string{"a"}, running(t, d))
		end()

		end = run(t, c) // the term outlives the agent
		settle()
		assert.Equal(t, []string{"a"}, running(t, d))
		z.do(func() { z.term = 7 })
		settle()
		assert.Empty(t, running(t, d))
		end()
		journal, err := os.ReadFile(filepath.Join(c.Dir, journalFile))
		require.NoError(t, err)
		for _, event := range []string{eventTerm, eventRefused, eventStart, eventRunning, eventStop, eventGone} {
			assert.Contains(t, string(journal), `"event":"`+event+`"`)
		}
	})
}

func TestNewTermStartsWithEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		defer run(t, config(z, d, 1))()
		z.do(func() { z.generation = 1000 })
		z.set("host-0001", work("a"))
		settle()
		z.do(func() { z.term, z.generation = 2, 10 }) // restored from an earlier snapshot
		z.set("host-0001", work("b"))
		await.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"b"}, running(t, d))
	})
}

func TestLostAcknowledgementsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		z.loseAcks = 3
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"))
		settle()
		told := 0
		z.do(func() {
			for _, r := range z.reports {
				told += len(r.Items)
			}
		})
		assert.Equal(t, 4, told, "three without an answer and one with")
		settle()
		z.set("host-0001", stopping("a"))
		z.do(func() { z.loseAcks = 1 })
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("a"))
	})
}

func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone() // beat 4 s, so that the agent speaks every 3 s
		defer run(t, config(z, fake.New(fake.Options{}), 1))()
		await.Sleep(time.Minute + time.Second)
		synctest.Wait()
		z.do(func() {
			assert.Equal(t, 21, z.beats)
			assert.Less(t, z.calls, 30, "an idle agent is quiet")
		})
	})
	for _, c := range []struct{ mine, theirs, want time.Duration }{
		{time.Second, 4 * time.Second, 750 * time.Millisecond}, {4 * time.Second, time.Second, 750 * time.Millisecond},
		{0, 4 * time.Second, 3 * time.Second}, {time.Second, 0, 750 * time.Millisecond}, {time.Second, -1, 750 * time.Millisecond},
		{0, 0, BeatDefault * 3 / 4}, {0, -1, BeatDefault * 3 / 4}, {time.Nanosecond, 0, beatMin}, {time.Nanosecond, time.Second, beatMin},
	} {
		assert.Equal(t, c.want, beatOf(c.mine, c.theirs), "%s, %s", c.mine, c.theirs)
	}
}

func TestForgottenHostsRegisterAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		c := config(z, d, 1)
		var log bytes.Buffer
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		end := run(t, c)
		z.set("host-0001", work("a"))
		settle()
		z.do(func() { z.forgot = true; clear(z.status) })
		settle()
		await.Sleep(time.Minute)
		synctest.Wait()
		z.do(func() { assert.Equal(t, 2, z.registered) })
		assert.Equal(t, api.StatusActive, z.of("a"), "it is told again what runs")

		// A zone made anew gives other ids; what ran for the old ones is left alone.
		z.do(func() { z.forgot, z.ids["host-0001"] = true, "another-id" })
		z.set("host-0001", work("b"))
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, running(t, d))
		end()
		assert.Contains(t, log.String(), "left alone\" instances=1")
	})
}

// TestInstancesOfLostHostsEnd: what an agent still has of a host that was written off ends, volumes too, when it
// registers the host again, whether it was restarted since or not; what it has of others is left alone.
func TestInstancesOfLostHostsEnd(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			z, d := newZone(), fake.New(fake.Options{})
			c := config(z, d, 2)
			c.Dir = t.TempDir()
			end := run(t, c)
			volume := work("v")
			volume.Volume = "standard"
			z.set("host-0001", work("a"), volume)
			z.set("host-0002", work("b"))
			settle()
			assert.Equal(t, []string{"a", "b", "v"}, running(t, d))
			if restarts {
				end()
			}
			z.do(func() {
				z.lost = []api.HostID{z.ids["host-0001"]}
				z.forgot, z.ids["host-0001"] = true, "another-id"
			})
			z.set("host-0001", work("c"))
			if restarts {
				end = run(t, c)
			}
			await.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, []string{"b", "c"}, running(t, d))
			z.do(func() { assert.Empty(t, z.status["a"].Fault) })
			end()
		})
	}
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), fake.New(fake.Options{})
		end := run(t, config(z, d, 1))
		z.set("host-0001", work("a"), work("b"))
		settle()
		end()
		assert.Equal(t, []string{"a", "b"}, running(t, d), "instances outlive the agent")
		z.set("host-0001", work("a"), work("c"))
		end = run(t, config(z, d, 1))
		settle()
		assert.Equal(t, []string{"a", "c"}, running(t, d))
		assert.Equal(t, 3, d.Starts(), "no second copy of a")
		assert.Equal(t, api.StatusDeleted, z.of("b"))
		end()

		fresh := fake.New(fake.Options{}) // its memory is lost
		defer run(t, config(z, fresh, 1))()
		settle()
		assert.Equal(t, []string{"a", "c"}, running(t, fresh))
	})
}

func TestExitDuringStartIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		d := &hasty{Driver: fake.New(fake.Options{})}
		defer run(t, config(z, d, 1))()
		z.set("host-0001", work("a"))
		settle()
		assert.Equal(t, api.StatusShutoff, z.of("a"))
	})
}

// hasty is a driver whose instances have ended, and are reported so, before their start
// has returned.
type hasty struct{ *fake.Driver }

func (h *hasty) Start(ctx context.Context, host api.HostID, w api.Workload) error {
	err := h.Driver.Start(ctx, host, w)
	h.Exit(w.Instance, 0)
	backoff.Sleep(ctx, time.Second)
	return err
}

func TestThousandHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts, each = 1000, 6
		z, d := newZone(), fake.New(fake.Options{})
		defer run(t, config(z, d, hosts))()
		settle()
		z.do(func() {
			for i := range hosts {
				z.generation++
				id := z.id(fmt.Sprintf("host-%04d", i+1))
				l := api.HostWorkload{Host: id, Generation: z.generation}
				for j := range each {
					l.Instances = append(l.Instances, work(fmt.Sprintf("i-%d-%d", i, j)))
				}
				z.lists[id] = l
			}
		})
		settle()
		assert.Equal(t, hosts*each, d.Starts())
		z.do(func() {
			assert.Len(t, z.status, hosts*each)
			for _, r := range z.reports {
				assert.LessOrEqual(t, len(r.Items), api.ReportsMax)
			}
			assert.Less(t, z.calls, 100, "one conversation serves them all")
		})
	})
}
