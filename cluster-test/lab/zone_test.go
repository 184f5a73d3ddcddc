package lab

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/client"
)

func TestSupervisor(t *testing.T) {
	t.Parallel()
	w := New(t, Options{Seed: *seedFlag})
	z := w.Zone("solo", 1)
	n := z.Nodes[0]
	n.Supervise()
	back := func() {
		t.Helper()
		Within(t, StartTimeout, "it is back", n.AskReady)
	}
	n.Crash()
	assert.False(t, n.Running(), "not at once")
	back()
	n.Kill()
	Pass(t.Context(), 2*pauseMax)
	require.False(t, n.Running(), "what was killed for good stays so")
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
	s := m.service("wrong")
	require.NoError(t, s.launch("node", "--dir", m.Dir))
	Within(t, StartTimeout, "its end is recorded", func(context.Context) error {
		return orNil(len(w.Exits()) == 1, "%d ends", len(w.Exits()))
	})
	e := w.Exits()[0]
	assert.Equal(t, "exit status 3", e.How)
	assert.False(t, e.Meant)
	assert.Contains(t, s.Tail(2), "holds no node")
	require.Error(t, w.unmeant(), "this fails the test when it ends")
	w.Allow(func(e Exit) bool { return e.Service == "wrong" })
	require.NoError(t, w.unmeant(), "unless it is allowed")
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
			w := New(t, Options{Machines: kind, Seed: *seedFlag})
			z := w.Zone("solo", 3)
			z.FakeAgent("fake", 1, 1024)
			old := z.Leader()
			rest := slices.DeleteFunc(slices.Clone(z.Nodes), func(n *NodeProc) bool { return n == old })
			require.NoError(t, w.Isolate(old.Machine))
			Within(t, SettleTimeout, "the others have a leader", func(ctx context.Context) error {
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
	_, err := n.Client(z.Token).CreateFlavor(t.Context(), client.FlavorSpec{Name: "durable", RAM: 1})
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, n.Machine.PowerCut())
	require.False(t, n.Running())
	require.NoError(t, n.Machine.Remount())
	t.Logf("power was cut, and is back, after %s", time.Since(began))
	n.Start()
	n.Ready()
	_, err = n.Client(z.Token).Flavor(t.Context(), "durable")
	require.NoError(t, err)
}
