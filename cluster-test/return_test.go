package clustertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// TestReturnFromABackup: a child zone loses the disk of its only node. It comes back from a backup, its parent does not use it
// before an operator has confirmed that, and its agent goes on. What the backup has runs on; what the child has forgotten is gone at
// the parent, with a fault that says why; and what the parent ended since ends.
func TestReturnFromABackup(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{})
	top, kid := w.Zone("top", 1), w.Zone("kid", 1)
	top.Link(kid)
	top.Flavor("unit", unitMB)
	kid.FakeAgent("fake", 2, 8*unitMB)
	boot := func(id string) {
		t.Helper()
		count := 2
		_, err := top.Admin().Boot(t.Context(), rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &count, Reservation: id}, "")
		require.NoError(t, err)
		require.Equal(t, api.BootActive, top.Outcome(top.Token, api.ReservationID(id)).State)
	}
	boot("r-kept")
	boot("r-ended")
	n := kid.Nodes[0]
	dir := t.TempDir()
	file, kek := filepath.Join(dir, "kid.backup"), filepath.Join(dir, "kek")
	kid.CLI("operator", "snapshot", "save", file)
	key, err := os.ReadFile(filepath.Join(n.Dir, "kek"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(kek, key, 0o600))
	top.ReleaseAll(top.Token, "r-ended")
	boot("r-lost")

	n.Kill()
	kid.BringBack(n, file, kek, "node-back")
	seeVoters(t, kid, "node-back")
	await.Until(t, "the agent goes on", func(context.Context) error {
		for _, h := range kid.Hosts() {
			if h.State != api.HostUp {
				return errors.New(string(h.State))
			}
		}
		return nil
	})
	out, err := top.TryCLI(top.Nodes[0], "zone", "list", "-o", "json")
	require.NoError(t, err)
	assert.Contains(t, out, "kid")
	assert.Len(t, statuses(t, top, "r-lost"), 2, "nothing is concluded before it is confirmed")

	out, err = top.TryCLI(top.Nodes[0], "zone", "relink", "kid", "--yes", "-o", "json")
	require.NoError(t, err, out)
	_, err = top.TryCLI(top.Nodes[0], "zone", "relink", "kid", "--yes")
	require.ErrorContains(t, err, "nothing to confirm")
	await.Until(t, "what was forgotten is gone, and what ended ends", func(context.Context) error {
		for _, s := range kid.Servers() {
			if s.Status != api.StatusDeleted && s.Reservation != "r-kept" {
				return errors.New("kid still has " + string(s.ID) + " of " + string(s.Reservation))
			}
		}
		for _, s := range statuses(t, top, "r-lost") {
			if s.Status != api.StatusDeleted {
				return errors.New("top still has " + string(s.ID))
			}
		}
		return nil
	})
	for _, s := range statuses(t, top, "r-lost") {
		assert.Contains(t, s.Fault, "was brought back from a backup")
	}
	for _, s := range statuses(t, top, "r-kept") {
		assert.Equal(t, api.StatusActive, s.Status)
	}
	boot("r-after")
	for _, id := range []api.ReservationID{"r-kept", "r-after"} {
		top.ReleaseAll(top.Token, id)
	}
	assert.Empty(t, kid.Usage())
}

// statuses returns the servers of a reservation as its zone has them.
func statuses(t *testing.T, z *lab.Zone, id api.ReservationID) []rest.Server {
	t.Helper()
	p, err := z.Admin().Servers(t.Context(), client.ServerQuery{Reservation: id}, client.ListOptions{})
	require.NoError(t, err)
	return p.Items
}
