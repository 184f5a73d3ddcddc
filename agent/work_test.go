package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/internal/await"
	"berth/internal/crash"
)

// failing is a fake whose calls fail as often as is said, with their names as errors.
type failing struct {
	*fake.Driver
	mu    sync.Mutex // guards what follows
	fails map[string]int
	calls []madeCall
}

type madeCall struct {
	name string
	at   time.Time
}

func newFailing(o fake.Options) *failing {
	return &failing{Driver: fake.New(o), fails: map[string]int{}}
}

// fail has the next n calls of a name fail.
func (d *failing) fail(call string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails[call] = n
}

// made returns when there were calls of a name, and forgets all calls.
func (d *failing) made(call string) (at []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if c.name == call {
			at = append(at, c.at)
		}
	}
	d.calls = nil
	return at
}

// between returns the times between instants.
func between(at []time.Time) (out []string) {
	for n := 1; n < len(at); n++ {
		out = append(out, at[n].Sub(at[n-1]).String())
	}
	return out
}

func (d *failing) called(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, madeCall{call, time.Now()})
	if d.fails[call]--; d.fails[call] >= 0 {
		return errors.New(call + " fails")
	}
	return nil
}

func (d *failing) List(ctx context.Context) ([]driver.State, error) {
	if err := d.called("list"); err != nil {
		return nil, err
	}
	return d.Driver.List(ctx)
}

func (d *failing) Attach(ctx context.Context, id api.InstanceID, volumes []api.InstanceID) error {
	if err := d.called("attach"); err != nil {
		return err
	}
	return d.Driver.Attach(ctx, id, volumes)
}

func (d *failing) Stop(ctx context.Context, id api.InstanceID) error {
	if err := d.called("stop"); err != nil {
		return err
	}
	return d.Driver.Stop(ctx, id)
}

func (d *failing) Kill(ctx context.Context, id api.InstanceID) error {
	if err := d.called("kill"); err != nil {
		return err
	}
	return d.Driver.Kill(ctx, id)
}

func (d *failing) Halt(ctx context.Context, id api.InstanceID) error {
	if err := d.called("halt"); err != nil {
		return err
	}
	return d.Driver.Halt(ctx, id)
}

func (d *failing) Notify(ctx context.Context, id api.InstanceID, n driver.Notice) error {
	if err := d.called("notify"); err != nil {
		return err
	}
	return d.Driver.Notify(ctx, id, n)
}

// of returns the lines of a log with a message since it was last asked for any.
func (r *record) of(message string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.b.String()) {
		if strings.Contains(line, "msg=\""+message+"\"") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	r.b.Reset()
	return out
}

var retryIn = regexp.MustCompile(` retry_in=(\S+)`)

// pauses returns how long the lines of a log say that is waited.
func pauses(lines []string) (out []string) {
	for _, l := range lines {
		out = append(out, retryIn.FindStringSubmatch(l)[1])
	}
	return out
}

// served runs an agent of two hosts with a driver that may fail, until f ends.
func served(t *testing.T, o fake.Options, f func(z *zone, d *failing, r *record, dir string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z, d, r := newZone(), newFailing(o), &record{}
		c := config(z, d, 2)
		c.Dir, c.Log = t.TempDir(), r.logger(slog.LevelInfo)
		defer run(t, c)()
		f(z, d, r, c.Dir)
	})
}

// TestACallThatFailsIsRepeated after pauses that double, and that are short again after the next one that works.
func TestACallThatFailsIsRepeated(t *testing.T) {
	attached := func(volumes ...api.InstanceID) api.Workload {
		w := work("a")
		w.Volumes = volumes
		return w
	}
	const unknown = "driver call without an outcome"
	for call, c := range map[string]struct {
		message string
		first   func(z *zone, d *failing) // makes the call
		again   func(z *zone, d *failing) // makes it once more
	}{
		"list": {
			"driver cannot list its instances",
			func(_ *zone, d *failing) { d.Exit("a", 0) }, func(_ *zone, d *failing) { d.Exit("b", 0) },
		},
		"attach": {
			"volumes cannot be attached",
			func(z *zone, _ *failing) { z.set("host-0001", attached("b"), work("b")) },
			func(z *zone, _ *failing) { z.set("host-0001", attached(), work("b")) },
		},
		"stop": {
			unknown,
			func(z *zone, _ *failing) { z.set("host-0001", stopping("a"), work("b")) },
			func(z *zone, _ *failing) {
				z.set("host-0001", work("a"), work("b"))
				settle()
				z.set("host-0001", stopping("a"), work("b"))
			},
		},
		"halt": {
			unknown,
			func(z *zone, _ *failing) { z.set("host-0001", powered("a", true, 0), work("b")) },
			func(z *zone, _ *failing) {
				z.set("host-0001", powered("a", false, 1), work("b"))
				settle()
				z.set("host-0001", powered("a", true, 1), work("b"))
			},
		},
		"kill": {
			unknown,
			func(z *zone, _ *failing) { z.set("host-0001", evicted("a", 0), work("b")) },
			func(z *zone, _ *failing) {
				z.set("host-0001", work("a"), work("b"))
				settle()
				z.set("host-0001", evicted("a", 0), work("b"))
			},
		},
	} {
		t.Run(call, func(t *testing.T) {
			served(t, fake.Options{}, func(z *zone, d *failing, r *record, _ string) {
				z.set("host-0001", work("a"), work("b"))
				settle()
				d.made(call)
				d.fail(call, 3)
				c.first(z, d)
				settle()
				assert.Equal(t, []string{"37.5ms", "75ms", "150ms"}, between(d.made(call)))
				lines := r.of(c.message)
				assert.Equal(t, []string{"37.5ms", "75ms", "150ms"}, pauses(lines))
				for _, l := range lines {
					assert.Contains(t, l, "level=WARN")
					assert.Contains(t, l, call+" fails")
				}
				d.fail(call, 1)
				c.again(z, d)
				settle()
				assert.Equal(t, []string{"37.5ms"}, pauses(r.of(c.message)))
			})
		})
	}
}

// TestNothingStartsBeforeItsDriverIsListed: what the driver has may be what is listed.
func TestNothingStartsBeforeItsDriverIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newFailing(fake.Options{})
		d.fail("list", 1_000)
		z.set("host-0001", work("a"))
		defer run(t, config(z, d, 1))()
		settle()
		assert.Zero(t, d.Starts())
		d.fail("list", 0)
		settle()
		assert.Equal(t, 1, d.Starts())
	})
}

// journalOf returns the lines of the journal from their terms on.
func journalOf(t *testing.T, dir string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	for l := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(l), ",")
		lines = append(lines, rest)
	}
	return lines
}

// details returns the events of the journal about an instance, with their details, and holds that each has its host.
func details(t *testing.T, dir string, id api.InstanceID, host api.HostID) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	field := func(l, name string) string {
		_, rest, _ := strings.Cut(l, `"`+name+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for l := range strings.Lines(string(text)) {
		if field(l, "instance") == string(id) {
			assert.Equal(t, string(host), field(l, "host"), "%s", l)
			assert.Contains(t, l, `"term":1,`)
			all = append(all, strings.TrimSpace(field(l, "event")+" "+field(l, "detail")))
		}
	}
	return all
}

// TestWhatTheJournalTells of each step of an instance.
func TestWhatTheJournalTells(t *testing.T) {
	const host = "id-of-host-0001"
	o := fake.Options{Stubborn: true, FailStart: func(_ api.HostID, w api.Workload) error {
		if w.Instance == "bad" {
			return errors.New("no room")
		}
		return nil
	}}
	served(t, o, func(z *zone, d *failing, r *record, dir string) {
		ordered := fenced("ordered")
		ordered.Runs = 40
		z.set("host-0001", work("a"), fenced("f"), work("bad"), ordered, quiet("q", 0), work("n"))
		settle()
		until := time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)
		d.Exit("a", 7)
		ordered.Runs = 41
		leaves := quiet("n", time.Minute)
		leaves.Fence = 0
		z.set("host-0001", work("a"), fenced("f"), work("bad"), ordered, leaves)
		settle()
		assert.Len(t, r.of("instance cannot be started"), 1)
		z.set("host-0001", powered("a", false, 1), fenced("f"), powered("bad", false, 1), ordered, leaves)
		settle()
		z.silence()
		await.Sleep(2 * testFence)
		synctest.Wait()
		assert.Equal(t, []string{"start", "running", "ended exit code 7", "ordered run 2", "start", "running"}, details(t, dir, "a", host))
		assert.Equal(t, []string{"start fence 20s", "running", "fenced no answer of the zone for 20s", "gone"}, details(t, dir, "f", host))
		assert.Equal(t, []string{"start", "failed no room", "ordered run 2", "start", "failed no room"}, details(t, dir, "bad", host))
		assert.Equal(t, []string{
			"start fence 20s", "running", "halt", "halted", "ordered run 42", "start fence 20s", "running", "fenced no answer of the zone for 20s", "gone",
		}, details(t, dir, "ordered", host))
		assert.Equal(t, []string{"absent"}, details(t, dir, "q", host))
		assert.Equal(t, []string{"start", "running", "notice notify until " + until, "killed its notice is over", "gone"}, details(t, dir, "n", host))
	})
}

// TestARunThatMoves is the first one where it arrives: no order is in the journal.
func TestARunThatMoves(t *testing.T) {
	served(t, fake.Options{}, func(z *zone, _ *failing, _ *record, dir string) {
		z.set("host-0001", powered("a", false, 3))
		settle()
		away := powered("a", false, 3)
		away.Stop = true
		z.set("host-0001", away)
		settle()
		z.set("host-0001", powered("a", false, 3))
		settle()
		assert.Equal(t, []string{"start", "running", "stop", "gone", "start", "running"}, details(t, dir, "a", "id-of-host-0001"))
	})
}

// TestWhatRunsForOtherHosts is left alone and the log says so; what has a fence is killed, and what ran on a host that was written off.
func TestWhatRunsForOtherHosts(t *testing.T) {
	for name, c := range map[string]struct {
		host   api.HostID
		w      api.Workload
		exits  bool
		killed string // the event and its detail; "" for what is left alone
	}{
		"without a fence":          {"other", work("a"), false, ""},
		"ended, without a fence":   {"other", work("a"), true, ""},
		"with a fence":             {"other", fenced("a"), false, "fenced its host is not served here any more"},
		"ended, with a fence":      {"other", fenced("a"), true, ""},
		"of a lost host":           {"lost", work("a"), false, "stop its host was written off"},
		"ended, of a lost host":    {"lost", work("a"), true, "stop its host was written off"},
		"fenced, of a lost host":   {"lost", fenced("a"), false, "stop its host was written off"},
		"on a host that is served": {"id-of-host-0001", work("a"), false, "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z, d, r := newZone(), newFailing(fake.Options{}), &record{}
				z.lost = []api.HostID{"lost"}
				require.NoError(t, d.Start(t.Context(), c.host, c.w))
				if c.exits {
					d.Exit("a", 0)
				}
				d.fail("kill", 1)
				conf := config(z, d, 2)
				conf.Dir, conf.Log = t.TempDir(), r.logger(slog.LevelInfo)
				defer run(t, conf)()
				settle()
				list, err := d.Driver.List(t.Context())
				require.NoError(t, err)
				var left string
				if lines := r.of("instances of hosts that are not served here are left alone"); len(lines) > 0 {
					left = lines[0]
				}
				if c.killed == "" {
					assert.Len(t, list, 1)
					assert.Contains(t, left, "instances=1")
					assert.Empty(t, details(t, conf.Dir, "a", c.host))
					return
				}
				assert.Empty(t, list)
				assert.Empty(t, left)
				want := []string{c.killed, "gone"}
				if c.host != "id-of-host-0001" {
					want = []string{c.killed, c.killed, "gone"} // the first try fails
				}
				assert.Equal(t, want, details(t, conf.Dir, "a", c.host))
			})
		})
	}
}

// lasting is a fake of which some lists take as long as is wanted.
type lasting struct {
	*fake.Driver
	hold chan chan struct{} // has what the next lists wait for
}

func (d lasting) List(ctx context.Context) ([]driver.State, error) {
	all, err := d.Driver.List(ctx)
	select {
	case until := <-d.hold:
		<-until
	default:
	}
	return all, err
}

// TestAListFromBeforeTheHostsChanged is not taken over: it may lack what has been started since.
func TestAListFromBeforeTheHostsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), lasting{fake.New(fake.Options{StartDelay: 20 * time.Second}), make(chan chan struct{}, 2)}
		c := config(z, d, 2)
		c.Dir = t.TempDir()
		defer run(t, c)()
		z.set("host-0002", work("b"))
		await.Sleep(25 * time.Second)
		synctest.Wait()
		z.set("host-0001", work("a"))
		synctest.Wait() // it is being started
		first, second := make(chan struct{}), make(chan struct{})
		endFirst, endSecond := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(second) })
		defer endFirst()
		defer endSecond()
		d.hold <- first
		d.hold <- second
		d.Exit("b", 0)
		synctest.Wait() // and is not in that list
		z.do(func() { z.forgot, z.ids["host-0002"] = true, "another-id" })
		z.set("host-0002")
		await.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"a"}, running(t, d.Driver))
		endFirst()
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"start", "running"}, events(t, c.Dir, "a"), "it is not started again")
		endSecond()
		await.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"start", "running"}, events(t, c.Dir, "a"))
		assert.Equal(t, api.StatusActive, z.of("a"))
	})
}

// TestPointsOfACrash: an agent passes them in this order.
func TestPointsOfACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		c := config(z, fake.New(fake.Options{}), 1)
		var mu sync.Mutex
		var seen []crash.Point
		c.Crash = func(p crash.Point) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, p)
		}
		passed := func() []crash.Point {
			settle()
			mu.Lock()
			defer mu.Unlock()
			defer func() { seen = nil }()
			return seen
		}
		defer run(t, c)()
		assert.Empty(t, passed(), "a beat reports nothing")
		z.set("host-0001", work("a"))
		assert.Equal(t, []crash.Point{crash.AgentStarting, crash.AgentStarted, crash.AgentReporting, crash.AgentReported}, passed())
		for _, w := range []api.Workload{powered("a", true, 0), stopping("a")} {
			z.set("host-0001", w)
			assert.Equal(t, []crash.Point{crash.AgentStopping, crash.AgentStopped, crash.AgentReporting, crash.AgentReported}, passed())
		}
		z.set("host-0001", work("b"))
		passed()
		z.set("host-0001", evicted("b", 0))
		assert.Equal(t, []crash.Point{crash.AgentStopping, crash.AgentStopped, crash.AgentReporting, crash.AgentReported}, passed())
	})
}

// TestAnOutcomeThatCannotBeRead is not guessed: what may run is not reported gone, and is stopped again once the driver lists it.
func TestAnOutcomeThatCannotBeRead(t *testing.T) {
	served(t, fake.Options{}, func(z *zone, d *failing, _ *record, dir string) {
		z.set("host-0001", work("a"))
		settle()
		d.fail("stop", 1)
		d.fail("list", 1_000)
		z.set("host-0001", stopping("a"))
		settle()
		assert.Equal(t, api.StatusActive, z.of("a"))
		assert.Equal(t, []string{"start", "running", "stop"}, events(t, dir, "a"))
		d.fail("list", 0)
		settle()
		assert.Equal(t, api.StatusDeleted, z.of("a"))
		assert.Equal(t, []string{"start", "running", "stop", "stop", "gone"}, events(t, dir, "a"))
	})
}

// TestAnAgentEndsWhileADriverFails: it waits for no pause, and logs nothing of what it has not tried.
func TestAnAgentEndsWhileADriverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), newFailing(fake.Options{})
		end := run(t, config(z, d, 1))
		z.set("host-0001", work("a"))
		settle()
		d.fail("stop", 1_000)
		d.fail("list", 1_000)
		z.set("host-0001", stopping("a"))
		d.Exit("a", 0)
		await.Sleep(time.Minute)
		began := time.Now()
		end()
		assert.Zero(t, time.Since(began))
	})
}

// tardy is a fake whose starts work, and return only when their time is over.
type tardy struct{ *fake.Driver }

func (d tardy) Start(ctx context.Context, host api.HostID, w api.Workload) error {
	if err := d.Driver.Start(ctx, host, w); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestAStartThatIsLateCounts: what runs all the same is in the run that was ordered, and is not ended for another start.
func TestAStartThatIsLateCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, d := newZone(), tardy{fake.New(fake.Options{})}
		c := config(z, d, 1)
		c.Dir = t.TempDir()
		defer run(t, c)()
		z.set("host-0001", powered("a", false, 1))
		await.Sleep(startTimeout)
		assert.Empty(t, z.of("a"))
		settle()
		assert.Equal(t, api.InstanceReport{Host: "id-of-host-0001", Instance: "a", Status: api.StatusActive, Stay: 2}, z.report("a"))
		assert.Equal(t, []string{"start"}, events(t, c.Dir, "a"))
		assert.Equal(t, 1, d.Starts())
	})
}

// TestTimeLeft of a notice is never negative.
func TestTimeLeft(t *testing.T) {
	due := time.Unix(9, 0)
	for before, want := range map[time.Duration]time.Duration{time.Second: time.Second, 1: 1, 0: 0, -1: 0} {
		assert.Equal(t, want, (&task{due: due}).left(due.Add(-before)), before)
	}
}
