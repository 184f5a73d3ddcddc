//go:build chaos

package lab

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/crash"
)

func TestCrashPoints(t *testing.T) {
	t.Parallel()
	w := New(t, Options{})
	z := w.Zone("solo", 1)
	z.Flavor("unit", 1)
	n := z.Nodes[0]
	n.Supervise()
	w.Allow(func(e Exit) bool { return e.Service == n.Name && e.How == "signal: killed" })
	boot := func(id string) {
		t.Helper()
		one := 1
		require.NoError(t, z.Do(t.Context(), z.Token, func(ctx context.Context, c *client.Client) error {
			_, err := c.Boot(ctx, rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &one, Reservation: id}, "")
			return err
		}))
	}
	ends := func(want int) {
		t.Helper()
		await.Until(t, "it is back", n.AskReady)
		exits := w.Exits()
		require.Len(t, exits, want)
		for _, e := range exits {
			assert.False(t, e.Meant)
			assert.Equal(t, "berth: crash point boot.logging", e.Last)
		}
	}

	require.NoError(t, n.Arm(t.Context(), crash.BootLogging, 2))
	boot("r-1")
	ends(0)
	hits, err := n.Points(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, hits[crash.BootLogging])
	boot("r-2") // again, after the crash
	ends(1)

	require.NoError(t, n.Arm(t.Context(), crash.BootLogging, 1))
	require.NoError(t, n.Disarm(t.Context()))
	boot("r-3")
	ends(1)

	n.Kill()
	require.NoError(t, n.ArmStart(crash.BootLogging, 1))
	n.Start()
	n.Ready()
	boot("r-4")
	await.Until(t, "it is back", n.AskReady)
	require.Len(t, w.Exits(), 3)
	boot("r-5") // in the next process
	require.Len(t, w.Exits(), 3)

	require.Error(t, n.Arm(t.Context(), "no.such", 1))
	require.Error(t, n.ArmStart(crash.BootLogging, 0))
}

func TestTap(t *testing.T) {
	t.Parallel()
	w := New(t, Options{Tap: true})
	z, child := w.Zone("solo", 1), w.Zone("child", 1)
	z.Link(child)
	for _, n := range []*NodeProc{z.Nodes[0], child.Nodes[0]} {
		taps, err := filepath.Glob(filepath.Join(w.TapDir(n.Name), "*"))
		require.NoError(t, err)
		var size int64
		for _, tap := range taps {
			info, err := os.Stat(tap)
			require.NoError(t, err)
			size += info.Size()
		}
		assert.Positive(t, size, "%s: what leaves a zone is written down", n.Name)
	}
}
