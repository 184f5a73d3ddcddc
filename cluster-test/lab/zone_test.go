package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
	"berth/internal/await"
)

func TestSupervisor(t *testing.T) {
	t.Parallel()
	w := New(t, Options{})
	z := w.Zone("solo", 1)
	n := z.Nodes[0]
	n.Supervise()
	back := func() {
		t.Helper()
		await.Until(t, "it is back", n.AskReady)
	}
	first := n.newestProcess()
	n.Crash()
	assert.False(t, first.running())
	back()
	require.NotSame(t, first, n.newestProcess())
	n.Kill()
	await.True(t, "both ends are recorded", func() bool { return len(w.Exits()) == 2 })
	n.mu.Lock()
	again := n.isWanted(n.proc)
	n.mu.Unlock()
	require.False(t, again, "what was killed for good stays so")
	n.Start()
	back()
	exits := w.Exits()
	require.Len(t, exits, 2)
	for _, e := range exits {
		assert.Equal(t, "solo-node-1", e.Service)
		assert.Equal(t, "signal: killed", e.How)
		assert.True(t, e.Meant)
		assert.NotEmpty(t, e.Last)
	}
}

func TestEndsThatNobodyMeant(t *testing.T) {
	t.Parallel()
	w := New(t, Options{})
	m, err := w.Machine("m")
	require.NoError(t, err)
	s := m.addService("wrong")
	require.NoError(t, s.launchProcess("node", "--dir", m.Dir))
	await.Until(t, "its end is recorded", func(context.Context) error {
		return orNil(len(w.Exits()) == 1, "%d ends", len(w.Exits()))
	})
	e := w.Exits()[0]
	assert.Equal(t, "exit status 3", e.How)
	assert.False(t, e.Meant)
	assert.Contains(t, s.Tail(2), "holds no node")
	require.Error(t, w.unexpectedExits(), "this fails the test when it ends")
	w.Allow(func(e Exit) bool { return e.Service == "wrong" })
	require.NoError(t, w.unexpectedExits(), "unless it is allowed")
}

// TestZoneWithoutItsLeader cuts a leader off and then, where there are disks, the
// power of a node.
func TestZoneWithoutItsLeader(t *testing.T) {
	t.Parallel()
	kinds := []Kind{Loopback}
	if Best(t) == Namespaces {
		kinds = append(kinds, Namespaces)
	}
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			w := New(t, Options{Machines: kind})
			z := w.Zone("solo", 3)
			z.FakeAgent("fake", 1, 1024)
			old := z.Leader()
			rest := slices.DeleteFunc(slices.Clone(z.Nodes), func(n *NodeProc) bool { return n == old })
			require.NoError(t, w.Isolate(old.Machine))
			await.Until(t, "the others have a leader", func(ctx context.Context) error {
				now, err := z.AskLeader(ctx, rest...)
				if err == nil && now == old {
					return orNil(false, "%s still leads", now.ID)
				}
				return err
			})
			require.NoError(t, old.Health(t.Context()), "clients still reach the one that is cut off")
			dropped, err := w.Dropped(old.Machine)
			require.NoError(t, err)
			assert.Positive(t, dropped)
			require.NoError(t, w.Heal())
			require.NotEqual(t, old, z.Leader())

			if kind == Namespaces {
				z.powerCut(t, z.Leader())
			}
			w.Audit()
		})
	}
}

// powerCut cuts the power of a node just after it has acknowledged something.
func (z *Zone) powerCut(t *testing.T, n *NodeProc) {
	t.Helper()
	_, err := n.Client(z.Token).CreateFlavor(t.Context(), rest.FlavorSpec{Name: "durable", RAM: new(int64(1))})
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, n.Machine.PowerCut())
	require.False(t, n.Running())
	require.NoError(t, n.Machine.Remount())
	t.Logf("power was cut, and is back, after %s", time.Since(began))
	n.Start()
	n.Ready()
	await.Until(t, "what was acknowledged is there", func(ctx context.Context) error { // the new leader has to confirm it
		_, err := n.Client(z.Token).Flavor(ctx, "durable")
		return err
	})
}

// runs is a node of which nothing but its process is there: a sleep.
func runs(t *testing.T, z *Zone, name string) *NodeProc {
	t.Helper()
	p := &proc{Name: name, done: make(chan struct{}), cmd: exec.CommandContext(t.Context(), "sleep", "600")}
	return &NodeProc{Service: &Service{Name: name, proc: p}, Zone: z}
}

// TestTurns holds callers of Do to going on: however many have failed at a node at
// the same time, the next call of each of them is at another node that runs.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{1, 2, 3, 6, 7} {
		z := &Zone{}
		z.Nodes = []*NodeProc{runs(t, z, "a"), runs(t, z, "b"), runs(t, z, "c"), runs(t, z, "d")}
		close(z.Nodes[0].proc.done) // it does not run
		var wg sync.WaitGroup
		first, second := make([]*NodeProc, callers), make([]*NodeProc, callers)
		var failed sync.WaitGroup
		failed.Add(callers)
		for i := range callers {
			wg.Go(func() {
				turn := z.turn.Load()
				first[i] = z.nodeAt(turn)
				failed.Done()
				failed.Wait() // all at once
				second[i] = z.nodeAt(z.turnAfter(turn, first[i]))
			})
		}
		wg.Wait()
		for i := range callers {
			assert.Equal(t, "b", first[i].Name, "the first that runs")
			assert.Equal(t, "c", second[i].Name, "with %d callers", callers)
		}
	}
	z := &Zone{}
	z.Nodes = []*NodeProc{runs(t, z, "a")}
	assert.Same(t, z.Nodes[0], z.nodeAt(z.turnAfter(0, z.Nodes[0])), "there is no other")
	close(z.Nodes[0].proc.done)
	assert.Nil(t, z.nodeAt(z.turnAfter(7, nil)))
}

// TestOnlyABrokenDiskExcusesAnEnd holds what is taken for the end of a process
// whose disk a test has broken: its own, and then.
func TestOnlyABrokenDiskExcusesAnEnd(t *testing.T) {
	t.Parallel()
	m := &Machine{}
	now := time.Now()
	assert.False(t, m.wasBroken(now))
	m.noteBroken()
	assert.True(t, m.wasBroken(time.Now().Add(time.Hour)), "as long as it is broken")
	assert.False(t, m.wasBroken(now.Add(-time.Second)), "not before")
	m.noteMended()
	until := m.broken[0].until
	assert.True(t, m.wasBroken(until.Add(lateMax)))
	assert.False(t, m.wasBroken(until.Add(lateMax+1)))
	assert.False(t, (&Machine{}).wasBroken(until), "nor elsewhere")

	for _, e := range []Exit{{How: "exit status 9"}, {How: "exit status 1", Last: "x: no space left on device"}, {Last: "input/output error"}} {
		assert.False(t, e.DiskBroken(), "nobody has broken its disk: %+v", e)
		e.Broken = true
		assert.True(t, e.DiskBroken(), "%+v", e)
	}
	assert.False(t, Exit{How: "exit status 2", Last: "panic: x", Broken: true}.DiskBroken())
}

// TestOnlyAPowerCutExcusesAFault holds which "fatal error: fault" is passed over:
// what was said while the power was cut, in the log of that machine.
func TestOnlyAPowerCutExcusesAFault(t *testing.T) {
	t.Parallel()
	const bad = "fatal error: fault\n"
	path := filepath.Join(t.TempDir(), "log")
	assert.Zero(t, sizeOf(path))
	require.NoError(t, os.WriteFile(path, []byte("all is well\n"), 0o600))
	from := sizeOf(path)
	text := "all is well\n" + bad
	m := &Machine{unread: []excerpt{{path, from, int64(len(text))}}}
	assert.NotContains(t, string(m.withoutDiskErrors(path, []byte(text))), "fatal error")
	assert.Equal(t, "all is well\n\n"+bad, string(m.withoutDiskErrors(path, []byte(text+bad))), "a later one counts")
	assert.Equal(t, text, string(m.withoutDiskErrors("another", []byte(text))))
}
