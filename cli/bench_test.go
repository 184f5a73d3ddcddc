package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/bench/load"
)

const briefly = " --warmup 0 --duration 1ms --rate 2000 --callers 2 " // two operations

// newBusyZone returns a zone that boots at once.
func newBusyZone(t *testing.T) *fakeZone {
	t.Helper()
	z := newFakeZone(t)
	z.on("POST /zones/boot", answer{status: http.StatusAccepted, body: `{"reservation_id": "r-1", "boot": {"reservation_id": "r-1", "state": "ACTIVE"}}`})
	return z
}

func TestBenchRefusesFlags(t *testing.T) {
	for line, want := range map[string]string{
		"bench boots":                                       "--flavor is required without --hosts",
		"bench":                                             "needs a WORK",
		"bench rest --flavor f":                             "the work must be one of boots",
		"bench boots --nodes 3 --flavor f":                  "--nodes goes with --hosts",
		"bench boots --zones 3 --flavor f":                  "--zones goes with --hosts",
		"bench boots --standing 3 --flavor f":               "--standing goes with --hosts",
		"bench boots --hosts 1 --addr https://a:1":          "--addr names a zone, and --hosts starts one",
		"bench boots --hosts 1 --nodes 2":                   "nodes must be 1, 3 or 5",
		"bench boots --hosts 1 --zones 32":                  "zones must be 1 to 31",
		"bench boots --hosts -1":                            "hosts must be 1 to 100000",
		"bench boots --hosts 100001":                        "hosts must be 1 to 100000",
		"bench boots --hosts 1 --standing 2000001":          "standing must be 0 to 2000000",
		"bench boots --hosts 1 --callers 4097":              "callers must be 1 to 4096",
		"bench boots --hosts 1 --count 10001":               "count must be 1 to 10000",
		"bench boots --hosts 1 --rate 200001":               "rate must be 0 to 200000",
		"bench boots --hosts 1 --duration 61m":              "duration must be",
		"bench boots --hosts 1 --warmup 61m":                "warmup must be",
		"bench boots --hosts 1 --timeout 11m":               "timeout must be",
		"bench boots --hosts 1 --until soon":                "until must be one of recorded, decided, active",
		"bench federated --hosts 1 --count 2 --min-zones 3": "2 instances cannot be in 3 zones",
		"bench boots --hosts 1":                             "this program cannot start a federation",
	} {
		r := newFakeZone(t).berth(t.Context(), strings.Fields(line)...)
		assert.Equal(t, exitUsage, r.exit, line)
		assert.Contains(t, r.errOut, want, line)
	}
}

func TestBenchAsksBeforeItLoadsAZone(t *testing.T) {
	args := strings.Fields("bench boots --flavor small" + briefly)
	z := newBusyZone(t)
	r := z.berth(t.Context(), args...)
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, "put load on the zone")
	r = z.onTerminal(t.Context(), "n\n", args...)
	assert.Equal(t, exitFailed, r.exit)
	assert.Empty(t, z.asked("POST"))
}

// TestBenchMeasuresAndReleases boots, shows what that came to, and deletes each boot.
func TestBenchMeasuresAndReleases(t *testing.T) {
	z := newBusyZone(t)
	r := z.berth(t.Context(), strings.Fields("bench boots --flavor small --yes -o json --count 3"+briefly)...)
	require.Zero(t, r.exit, r.errOut)
	var got load.Result
	require.NoError(t, json.Unmarshal([]byte(r.out), &got))
	assert.Equal(t, load.Boots, got.Work)
	assert.EqualValues(t, len(z.asked("POST /zones/boot?wait=1m0s")), got.Operations)
	assert.EqualValues(t, 2, got.Operations)
	assert.Equal(t, 3*got.Operations, got.Instances)
	assert.Zero(t, got.Failed)
	assert.Len(t, z.asked("DELETE /zones/boot/"), int(got.Operations))

	r = z.berth(t.Context(), strings.Fields("bench boots --flavor small --yes"+briefly)...)
	require.Zero(t, r.exit, r.errOut)
	for _, want := range []string{"WANTED", "2000/s", "LATE", "P99.9", "with the load generator"} {
		assert.Contains(t, r.out, want)
	}
}

func TestBenchShowsWhatFailed(t *testing.T) {
	z := newFakeZone(t)
	z.on("POST /zones/boot", answer{status: http.StatusConflict, body: refusalOf("no_capacity", "there is no room")})
	r := z.berth(t.Context(), strings.Fields("bench boots --flavor small --yes"+briefly)...)
	require.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.out, "no_capacity")
	assert.Contains(t, r.out, "there is no room")
	assert.Regexp(t, `OPERATIONS  0 in [0-9.]+ s, [1-9][0-9]* failed`, r.out)
}

// TestBenchOfItsOwnFederation hands the size on, and stops what it started, also after an error.
func TestBenchOfItsOwnFederation(t *testing.T) {
	for name, federateErr := range map[string]error{"starts": nil, "fails": api.Errorf(api.CodeTimeout, "no zone")} {
		z := newBusyZone(t)
		stops := 0
		var size load.Federation
		var out, errOut bytes.Buffer
		p := Program{Out: &out, ErrOut: &errOut, Getenv: func(string) string { return "" }, Now: time.Now}
		p.Federate = func(_ context.Context, f load.Federation, callers int) (*client.Client, func() error, error) {
			size = f
			assert.Equal(t, 2, callers)
			if federateErr != nil {
				return nil, nil, federateErr
			}
			c, err := client.New(client.Config{Addr: z.URL, Idle: callers})
			return c, func() error { stops++; c.Close(); return nil }, err
		}
		err := p.Run(t.Context(), strings.Fields("bench federated --hosts 7 --nodes 3 --zones 5 --standing 11 --count 4"+briefly))
		assert.Equal(t, load.Federation{Nodes: 3, Zones: 5, Hosts: 7, Standing: 11}, size)
		if federateErr != nil {
			require.ErrorIs(t, err, federateErr, name)
			continue
		}
		require.NoError(t, err, fmt.Sprint(name, errOut.String()))
		assert.Equal(t, 1, stops)
		assert.Contains(t, out.String(), "federated")
		assert.Contains(t, z.asked("POST /zones/boot")[0].body, `"min_zones":2`)
		assert.Empty(t, z.asked("DELETE"), "it is deleted as a whole")
	}
}
