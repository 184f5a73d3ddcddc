package zones

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/bench/load"
	"berth/internal/await"
	"berth/internal/sysinfo"
)

// TestLoad puts each kind of work on a small federation of its own: everything succeeds, and is released again.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	r, err := Start(t.Context(), load.Federation{Nodes: 1, Zones: 2, Hosts: 2, Standing: 3}, 4, dir, time.Now)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, r.Stop())
		require.NoError(t, r.Stop(), "again")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left, "its data is deleted")
	}()
	assert.Len(t, r.Dev.Zones, 3)
	for _, p := range []load.Plan{
		{Work: load.Boots, Until: load.UntilRecorded, Count: 1},
		{Work: load.Boots, Until: load.UntilDecided, Count: 2},
		{Work: load.Federated, Until: load.UntilActive, Count: 4},
		{Work: load.Leases, Until: load.UntilActive, Count: 1},
	} {
		p.Flavor, p.MinZones, p.Callers, p.Rate = load.OwnFlavor, 2, 4, 40
		if p.Work != load.Federated {
			p.MinZones = 1
		}
		p.Duration, p.Timeout = 100*time.Millisecond, await.Limit
		exercise(t, r.Root, &p)
	}
	page, err := r.Root.Reservations(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	running := 0
	for _, b := range page.Items {
		running += b.Instances[api.StatusActive]
	}
	assert.Equal(t, 3, running, "the standing ones alone")
	leases, err := r.Root.Leases(t.Context())
	require.NoError(t, err)
	assert.Empty(t, leases)
}

// TestClaims claims from the hosts of one zone, which a root without hosts has not.
func TestClaims(t *testing.T) {
	r, err := Start(t.Context(), load.Federation{Nodes: 1, Zones: 1, Hosts: 2}, 4, t.TempDir(), time.Now)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Stop()) }()
	p := load.Plan{
		Work: load.Mixed, Until: load.UntilActive, Flavor: load.OwnFlavor, Count: 1, MinZones: 1, Callers: 4, Rate: 100,
		Duration: 100 * time.Millisecond, Timeout: await.Limit,
	}
	exercise(t, r.Root, &p)
	hosts, err := r.Root.Hosts(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	for _, h := range hosts.Items {
		assert.Empty(t, h.Used, h.Name)
	}
}

// exercise measures p and undoes what it made.
func exercise(t *testing.T, c *client.Client, p *load.Plan) {
	t.Helper()
	z, err := load.NewZone(t.Context(), c, p, time.Now)
	require.NoError(t, err)
	defer z.Close()
	got, undo, err := load.Measure(t.Context(), p, &load.Meter{Now: time.Now, CPU: sysinfo.ProcessTime}, z.Do)
	require.NoError(t, err)
	require.Empty(t, got.Errors, "%s until %s", p.Work, p.Until)
	assert.Equal(t, int64(p.Rate*p.Duration.Seconds()), got.Operations)
	assert.Positive(t, got.CPUMsOperation)
	require.Len(t, undo, int(got.Operations))
	for range 2 { // it may be repeated
		require.NoError(t, load.CallAll(t.Context(), 4, undo))
	}
}

func TestStartRefusesABadSize(t *testing.T) {
	_, err := Start(t.Context(), load.Federation{Nodes: 2, Zones: 1, Hosts: 1}, 1, t.TempDir(), time.Now)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
}
