package clustertest

import (
	"context"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
	"berth/internal/sysinfo"
)

func TestAgentRestart(t *testing.T) {
	t.Parallel()
	const first, more = 6, 2
	w := lab.New(t, lab.Options{})
	z := w.Zone("solo", 1)
	z.Flavor("unit", unitMB, "/bin/sleep", "1000")
	memory, err := sysinfo.MemoryMB()
	require.NoError(t, err)
	a := z.ProcessAgent("machine", memory-(first+more)*unitMB)
	active := func(id string, n int) {
		t.Helper()
		_, err := z.Admin().Boot(t.Context(), rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &n, Reservation: id}, "")
		require.NoError(t, err)
		b := z.Outcome(z.Token, api.ReservationID(id))
		require.Equal(t, api.BootActive, b.State, b.Reason)
	}
	active("r-first", first)
	before := a.Instances()
	require.Len(t, before, first)

	for _, end := range []func(){a.Kill, func() { require.NoError(t, a.Stop()) }} {
		end()
		assert.Equal(t, before, a.Instances(), "processes outlive their agent")
		a.Start()
		// It is heard again when something new runs.
		active("r-"+api.NewUUID()[:8], 1)
		now := a.Instances()
		for _, i := range before {
			assert.Contains(t, now, i, "the same process goes on")
		}
		assert.Len(t, now, len(before)+1, "none was started twice")
		assertRuns(t, z, a)
		before = now
	}

	// What it found is watched, not just remembered: the end of one is noticed.
	victim := before[0]
	require.NoError(t, syscall.Kill(victim.PID, syscall.SIGKILL))
	await.Until(t, "the end of a process is reported", func(ctx context.Context) error {
		s, err := z.Admin().Server(ctx, api.InstanceID(victim.ID))
		if err == nil && s.Status == api.StatusError {
			return nil
		}
		return lab.OrElse(err, "it is %s", s.Status)
	})
	assert.Equal(t, before[1:], a.Instances(), "and it is not started again")
	w.Audit()

	// What ends while the agent is away is seen when it is back, and what was
	// deleted meanwhile is ended then.
	a.Kill()
	require.NoError(t, syscall.Kill(before[1].PID, syscall.SIGKILL))
	require.NoError(t, z.Admin().DeleteServer(t.Context(), api.InstanceID(before[2].ID)))
	a.Start()
	await.Until(t, "what happened meanwhile is caught up with", func(ctx context.Context) error {
		s, err := z.Admin().Server(ctx, api.InstanceID(before[1].ID))
		if err != nil || s.Status != api.StatusError {
			return lab.OrElse(err, "the one that ended is %s", s.Status)
		}
		if slices.Contains(a.Instances(), before[2]) {
			return lab.OrElse(nil, "the one that was deleted still runs")
		}
		return nil
	})
	assert.Equal(t, before[3:], a.Instances())
	w.Audit()

	boots, err := z.Admin().Reservations(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	for _, b := range boots.Items {
		z.ReleaseAll(z.Token, b.Reservation)
	}
	assert.Empty(t, a.Instances())
	assert.Empty(t, z.Usage())
}
