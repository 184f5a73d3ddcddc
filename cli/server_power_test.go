package cli

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serverIn returns the answer that shows a server with a status.
func serverIn(status string) answer {
	return answer{status: http.StatusOK, body: `{"server": ` + strings.Replace(cannedServer, `"status": "ACTIVE"`, `"status": "`+status+`", "fault": "f"`, 1) + `}`}
}

// TestOrdersAreAwaited: each order is given once, and waited for until it is carried out or cannot be.
func TestOrdersAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			verb, ordered string
			then          []string
			exit          int
			is            string
		}{
			{"stop", "ACTIVE", []string{"ACTIVE", "SHUTOFF"}, 0, "SHUTOFF"},
			{"stop", "SHUTOFF", nil, 0, "SHUTOFF"},
			{"stop", "ERROR", nil, 0, "ERROR"},
			{"start", "BUILD", []string{"ACTIVE"}, 0, "ACTIVE"},
			{"start", "ACTIVE", nil, 0, "ACTIVE"},
			{"restart", "BUILD", []string{"SHUTOFF"}, 0, "SHUTOFF"}, // it has ended already
			{"restart", "BUILD", []string{"ERROR"}, exitNoneRuns, "ERROR"},
			{"restart --no-wait", "BUILD", nil, 0, "BUILD"},
			{"stop --timeout 1ms", "ACTIVE", []string{"ACTIVE"}, exitTimeout, ""},
		} {
			z := newFakeZone(t)
			verb, flags, _ := strings.Cut(tt.verb, " ")
			z.on("POST /servers/i-1/"+verb, serverIn(tt.ordered))
			looks := []answer{serverIn("ACTIVE")} // the one that finds it
			for _, st := range tt.then {
				looks = append(looks, serverIn(st))
			}
			z.on("GET /servers/i-1", looks...)
			r := z.berth(t.Context(), append([]string{"server", verb, "i-1"}, strings.Fields(flags)...)...)
			if tt.exit == exitTimeout { // in whichever call
				assert.NotZero(t, r.exit)
				continue
			}
			require.Equal(t, tt.exit, r.exit, "%v: %s", tt, r.errOut)
			assert.Contains(t, r.out, tt.is)
			assert.Len(t, z.asked("POST /servers/i-1/"), 1)
			assert.Len(t, z.asked("GET /servers/i-1"), 1+len(tt.then))
		}
	})
}

// TestOrdersToServersThatAreNotThere: nothing is ordered twice, and the refusal names the server.
func TestOrdersToServersThatAreNotThere(t *testing.T) {
	z := newFakeZone(t)
	z.on("POST /servers/i-1/stop", answer{status: http.StatusConflict, body: refusalOf("conflict", "the server is being deleted")})
	r := z.berth(t.Context(), "server", "stop", "i-1")
	assert.Equal(t, exitConflict, r.exit)
	assert.Contains(t, r.errOut, "server i-1: ")
	assert.Contains(t, r.errOut, "the server is being deleted")
	r = z.berth(t.Context(), "server", "restart", "nobody")
	assert.Equal(t, exitNotFound, r.exit)
	r = z.berth(t.Context(), "server", "start")
	assert.Equal(t, exitUsage, r.exit)
}

// TestReservationsAreRestarted: its servers in ERROR, or all that are to stay.
func TestReservationsAreRestarted(t *testing.T) {
	z := newFakeZone(t)
	failed := strings.Replace(cannedServer, `"ACTIVE"`, `"ERROR"`, 1)
	z.on("GET /servers/detail", answer{status: http.StatusOK, body: `{"servers": [` + failed + `, ` + strings.Replace(cannedPreempted, `"ACTIVE"`, `"DELETING"`, 1) + `]}`})
	r := z.berth(t.Context(), "reservation", "restart", "r-1")
	require.Zero(t, r.exit, r.errOut)
	require.Len(t, z.asked("GET /servers/detail"), 1)
	assert.Contains(t, z.asked("GET /servers/detail")[0].call, "status=ERROR")
	assert.Contains(t, z.asked("GET /servers/detail")[0].call, "reservation_id=r-1")
	assert.Len(t, z.asked("POST /servers/"), 1)
	r = z.berth(t.Context(), "reservation", "restart", "r-1", "--all")
	require.Zero(t, r.exit, r.errOut)
	assert.NotContains(t, z.asked("GET /servers/detail")[1].call, "status=")
	z.on("GET /servers/detail", answer{status: http.StatusOK, body: `{"servers": []}`})
	r = z.berth(t.Context(), "reservation", "restart", "r-1")
	require.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.errOut, "nothing to restart")
	assert.Equal(t, exitNotFound, z.berth(t.Context(), "reservation", "restart", "r-none").exit)
}
