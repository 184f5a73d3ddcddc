package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
)

const cannedLost = `{"lost": {"host": "h1", "down_since": "2026-06-01T12:00:00.000Z", "servers": 12, "volumes": 1, "slots": 0, "allocations": 2, "forgotten": true,
	"list": [{"id": "i-1", "name": "web-1", "kind": "server", "project_id": "shop", "status": "ACTIVE", "reservation_id": "r-1"},
		{"id": "v-1", "name": "data", "kind": "volume", "project_id": "shop", "status": "ACTIVE", "reservation_id": "r-2"}]}}`

// TestHostForgetShowsTheLossesAndAsks: what would be given up is said first, with names, by a call that
// changes nothing, and nothing is given up before it is confirmed.
func TestHostForgetShowsTheLossesAndAsks(t *testing.T) {
	forget := []string{"host", "forget", "h1", "--lost"}
	const says = "12 servers, 1 volume, 2 allocations would be given up: web-1 (server of project shop, ACTIVE), data (volume of project shop, ACTIVE), and 11 more"
	z := newFakeZone(t)
	assert.Equal(t, exitUsage, z.berth(t.Context(), "host", "forget", "h1", "--yes").exit, "without --lost")
	assert.Empty(t, z.asked("POST"))
	r := z.berth(t.Context(), forget...)
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, says)
	r = z.onTerminal(t.Context(), "n\n", forget...)
	assert.Equal(t, exitFailed, r.exit)
	assert.Contains(t, r.errOut, `This will forget host "h1" and all that is on it. Continue? [y/N]`)
	for _, s := range z.asked("POST") {
		assert.Equal(t, `{"dry_run":true}`, s.body)
	}
	r = z.onTerminal(t.Context(), "y\n", append(forget, "-o", "json")...)
	assert.Zero(t, r.exit, r.errOut)
	assert.JSONEq(t, cannedLost, r.out)
	assert.Equal(t, `{}`, z.asked("POST")[3].body)
}

// TestServerDeleteLost: as with a host, and a refusal of one server is shown before anything is asked.
func TestServerDeleteLost(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "server", "delete", "i-1", "--lost", "--yes")
	assert.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.errOut, "1 server would be given up: web-1 (server of project shop, DELETING)")
	assert.Contains(t, r.errOut, "server i-1 counts as gone")
	assert.Empty(t, z.asked("DELETE"))

	z = newFakeZone(t)
	z.on("POST /servers/i-1/write-off", answer{status: http.StatusConflict, body: refusalOf("conflict", `host \"h1\" is up`)})
	r = z.berth(t.Context(), "server", "delete", "i-1", "--lost", "--yes")
	assert.NotZero(t, r.exit)
	assert.Contains(t, r.errOut, "is up")
	assert.Len(t, z.asked("POST"), 1)
}

// TestVolumeDeleteLost: as with a server; who asks for it is told which server loses the volume.
func TestVolumeDeleteLost(t *testing.T) {
	z := newFakeZone(t)
	r := z.onTerminal(t.Context(), "n\n", "volume", "delete", "v-1", "--lost")
	assert.Equal(t, exitFailed, r.exit)
	assert.Contains(t, r.errOut, "1 volume would be given up: data (volume of project shop, ACTIVE)")
	assert.Contains(t, r.errOut, "it is attached to server i-1, which loses it")
	require.Len(t, z.asked("POST"), 1)
	assert.Equal(t, `{"dry_run":true}`, z.asked("POST")[0].body)
	r = z.berth(t.Context(), "volume", "delete", "v-1", "--lost", "--yes")
	assert.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.errOut, "volume v-1 counts as gone")
	assert.Equal(t, `{}`, z.asked("POST")[2].body)
	assert.Empty(t, z.asked("DELETE"))
}

// TestANoteNamesSomeOfWhatIsLost: at most lostShown, and how many more there are.
func TestANoteNamesSomeOfWhatIsLost(t *testing.T) {
	l := rest.LostHost{Host: "h1", Servers: lostShown, List: make([]rest.LostServer, lostShown)}
	assert.Equal(t, lostShown, strings.Count(describeLost(&l), " of project "))
	assert.NotContains(t, describeLost(&l), "more")
	l.Servers, l.List = lostShown+1, make([]rest.LostServer, lostShown+1)
	assert.Equal(t, lostShown, strings.Count(describeLost(&l), " of project "))
	assert.Contains(t, describeLost(&l), ", and 1 more")
	l = rest.LostHost{Host: "h1", Slots: 3} // of others
	assert.True(t, strings.HasSuffix(describeLost(&l), "3 slots would be given up"))
}
