package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// draining returns the answer that shows h1 with so many instances left.
func draining(left string) answer {
	return answer{status: http.StatusOK, body: `{"host": ` + strings.Replace(cannedDraining, `"left": 2`, `"left": `+left, 1) + `}`}
}

func TestADrainTellsEachStepOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /hosts/h1", draining("2"), draining("2"), draining("0"))
		r := z.berth(t.Context(), "host", "drain", "h1", "--policy", "move", "--wait")
		require.Zero(t, r.exit, r.errOut)
		assert.Equal(t, "host h1: 2 left, 0 of them ending, 1 moving\nhost h1: 0 left, 0 of them ending, 1 moving\n", r.errOut)
		assert.Contains(t, r.out, "STILL TO LEAVE")
	})
}

// TestADrainNamesTraits: a drain names the trait that no other host has, and who stays for it.
func TestADrainNamesTraits(t *testing.T) {
	l := rest.Leaving{Left: 1, Slots: 1, Traits: []rest.TraitDemand{{Traits: []string{"CUSTOM_SSD"}, Servers: []api.InstanceID{"i-1"}, Reservations: []api.ReservationID{"r-1"}, Count: 2}}}
	want := "1 left, 0 of them ending, 0 moving, and 1 slot of leases; no other host has CUSTOM_SSD, needed by reservation r-1, server i-1"
	assert.Equal(t, want, leavingText(&l))
	for n := range rest.DemandersMax {
		l.Traits[0].Servers = append(l.Traits[0].Servers[:n], api.InstanceID(strconv.Itoa(n)))
	}
	l.Traits[0].Count = 70
	assert.Contains(t, leavingText(&l), "server 19 and others: 70 in all")
}

// TestADrainWaitsForSlots: a drain by moving is over when the slots of leases have left too; by
// another policy they stay.
func TestADrainWaitsForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := func(n string) answer {
			a := draining("0")
			a.body = strings.Replace(a.body, `"moving": 1`, `"moving": 0, "slots": `+n, 1)
			return a
		}
		z := newFakeZone(t)
		z.on("GET /hosts/h1", slots("2"), slots("1"), slots("0"))
		r := z.berth(t.Context(), "host", "drain", "h1", "--policy", "move", "--wait")
		require.Zero(t, r.exit, r.errOut)
		assert.Equal(t, `host h1: 0 left, 0 of them ending, 0 moving, and 2 slots of leases
host h1: 0 left, 0 of them ending, 0 moving, and 1 slot of leases
host h1: 0 left, 0 of them ending, 0 moving
`, r.errOut)
		staying := slots("2")
		staying.body = strings.Replace(staying.body, `"drain": "move"`, `"drain": "wait"`, 1)
		z.on("GET /hosts/h1", staying)
		r = z.berth(t.Context(), "host", "drain", "h1", "--policy", "wait", "--wait", "--timeout", "2s")
		require.Zero(t, r.exit, r.errOut)
		assert.Contains(t, r.out, "0 left, 0 of them ending, 0 moving, and 2 slots of leases")
	})
}

func TestADrainThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /hosts/h1", draining("2"))
		r := z.berth(t.Context(), "host", "drain", "h1", "--policy", "wait", "--wait", "--timeout", "100ms")
		assert.Equal(t, exitTimeout, r.exit)
		assert.Contains(t, r.errOut, "host h1 is not empty after 100ms: 2 left")
		z.on("GET /hosts/h1", answer{status: http.StatusOK, body: canned["GET /hosts/h1"]})
		r = z.berth(t.Context(), "host", "drain", "h1", "--policy", "wait", "--wait")
		assert.Equal(t, exitConflict, r.exit)
		assert.Contains(t, r.errOut, "ended by another call")
	})
}

func TestADrainThatEndsInstancesAsksFirst(t *testing.T) {
	z := newFakeZone(t)
	end := []string{"host", "drain", "h1", "--policy", "end"}
	r := z.berth(t.Context(), end...)
	assert.Equal(t, exitUsage, r.exit)
	assert.Equal(t, "berth: this would end 2 instances on host \"h1\", which needs confirmation on a terminal\n  hint: repeat it with --yes\n", r.errOut)
	r = z.onTerminal(t.Context(), "n\n", end...)
	assert.Equal(t, exitFailed, r.exit)
	assert.Contains(t, r.errOut, "This will end 2 instances on host")
	assert.Empty(t, z.asked("POST"), "nothing was drained")
	require.Zero(t, z.onTerminal(t.Context(), "y\n", end...).exit)
	require.Zero(t, z.berth(t.Context(), append(end, "--yes")...).exit)
	require.Zero(t, z.berth(t.Context(), "host", "drain", "h1", "--policy", "move").exit, "what moves is not ended")
	assert.Len(t, z.asked("POST /hosts/h1/drain"), 3)
}

func TestWhichHostsTakeWork(t *testing.T) {
	z := newFakeZone(t)
	for change, says := range map[string]string{
		`"state": "up"|"state": "up"`:                            "yes",
		`"state": "up"|"state": "down"`:                          "no: down",
		`"enabled": true|"enabled": false`:                       "no: disabled",
		`"enabled": true|"enabled": true, "maintenance": "disk"`: "no: disk",
		`"enabled": true|"enabled": true, "drain": "end"`:        "no: draining, end",
	} {
		from, to, _ := strings.Cut(change, "|")
		z.on("GET /hosts", answer{status: http.StatusOK, body: `{"hosts": [` + strings.Replace(cannedHost, from, to, 1) + `]}`})
		r := z.berth(t.Context(), "host", "list", "--no-headers")
		require.Zero(t, r.exit, r.errOut)
		assert.Contains(t, r.out, "  "+says+"  ", change)
	}
}

func TestAnEvacuationThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /hosts/h1/evacuation", answer{status: http.StatusOK, body: `{"evacuation": {"movable": 3, "staying": 1, "wait_ms": 2000}}`})
		r := z.berth(t.Context(), "host", "evacuation", "h1", "--wait", "--timeout", "100ms")
		assert.Equal(t, exitTimeout, r.exit)
		assert.Contains(t, r.errOut, "host h1: 3 left to move, 1 staying\n")
		assert.Equal(t, "LEFT TO MOVE     3\nMOVABLE STOPPED  in 2s\nSTAYING          1, may still run there\n",
			z.berth(t.Context(), "host", "evacuation", "h1").out)
	})
}

func TestTheSchedulerGoesThroughAFile(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "scheduler", "show", "-o", "yaml")
	require.Zero(t, r.exit, r.errOut)
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	require.NoError(t, os.WriteFile(path, []byte(r.out), 0o600))
	r = z.berth(t.Context(), "scheduler", "set", "--file", path)
	require.Zero(t, r.exit, r.errOut)
	assert.JSONEq(t, `{"scheduler": {"filters": [{"name": "pool"}, {"name": "instances", "options": {"max": "50"}}], "costs": [{"name": "spread", "weight": 1}]}}`,
		z.asked("PUT")[0].body)
	for text, says := range map[string]string{"a: [": "neither YAML nor JSON", "known: {}": "holds no scheduler", "scheduler: {colour: red}": "unknown field"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		r := z.berth(t.Context(), "scheduler", "set", "--file", path)
		assert.Equal(t, exitUsage, r.exit, text)
		assert.Contains(t, r.errOut, says)
	}
	assert.Equal(t, exitUsage, z.berth(t.Context(), "scheduler", "set", "--file", path+".none").exit)
}

// TestHostListFitsATerminal: with names and states as long as they usually get, the list is at most 80
// columns wide; -o wide has the rest.
func TestHostListFitsATerminal(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /hosts", answer{status: http.StatusOK, body: `{"hosts": [{"name": "rack12-node07", "state": "down", "enabled": true, "pool": "reservable", "drain": "move",
		"availability_zone": "eu-west-1", "instances": 120, "slots": 3, "generation": 40211, "used": {"VCPU": 4, "MEMORY_MB": 131072},
		"inventory": {"VCPU": {"total": 16}, "MEMORY_MB": {"total": 262144}, "DISK_GB": {"total": 4000}}}]}`})
	r := z.berth(t.Context(), "host", "list")
	require.Zero(t, r.exit, r.errOut)
	for line := range strings.Lines(r.out) {
		assert.LessOrEqual(t, len(strings.TrimSpace(line)), 80, line)
	}
	assert.Contains(t, r.out, "MEMORY_MB 50%")
	assert.NotContains(t, r.out, "reservable")
	assert.Contains(t, z.berth(t.Context(), "host", "list", "-o", "wide").out, "reservable  3      DISK_GB 0/4000, MEMORY_MB 131072/262144, VCPU 4/16  40211")
}
