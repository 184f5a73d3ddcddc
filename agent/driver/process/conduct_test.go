package process

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/agent/driver/drivertest"
	"berth/api"
)

// endsWithCode runs until it finds a code to end with.
const endsWithCode = `while [ ! -e code ]; do /bin/sleep 0.01; done; exit $(cat code)`

func TestConduct(t *testing.T) { runConduct(t, nil) }

func TestConductAsAnotherUser(t *testing.T) {
	needRoot(t)
	runConduct(t, nobody)
}

func runConduct(t *testing.T, user *Identity) {
	t.Helper()
	drivertest.Run(t, func(t *testing.T) drivertest.Rig {
		t.Helper()
		dir := passableDir(t)
		t.Cleanup(func() { sweep(t, dir) })
		d := openAs(t, dir, "", user)
		return drivertest.Rig{
			Driver: d,
			Work:   func() api.Workload { return shellWork(endsWithCode) },
			Broken: func() api.Workload {
				w := sleeper()
				w.Command = []string{"/no/such/program"}
				return w
			},
			End: func(t *testing.T, id api.InstanceID, code int) {
				t.Helper()
				folder := filepath.Join(dir, string(id), workFolder)
				require.NoError(t, os.WriteFile(filepath.Join(folder, "part"), []byte(strconv.Itoa(code)), 0o644)) //nolint:gosec // the command reads it
				require.NoError(t, os.Rename(filepath.Join(folder, "part"), filepath.Join(folder, "code")))
			},
			Rewind: func(t *testing.T, id api.InstanceID) {
				t.Helper()
				require.NoError(t, os.Remove(filepath.Join(dir, string(id), workFolder, "code")), "its files are kept")
			},
			Notice: func(t *testing.T, id api.InstanceID) (time.Time, bool) {
				t.Helper()
				n, ok := readNotice(t, d, id)
				return n.Deadline, ok
			},
			Copies: sessions,
			Restart: func(t *testing.T) driver.Driver {
				t.Helper()
				require.NoError(t, d.Close())
				d = openAs(t, dir, "", user)
				return d
			},
		}
	})
}

// sessions counts the sessions in which processes carry the mark of an instance: one
// for each time that its command runs, whatever that starts.
func sessions(t *testing.T, id api.InstanceID) int {
	t.Helper()
	all, err := listPIDs()
	require.NoError(t, err)
	found := map[int]bool{}
	for _, pid := range all {
		if s, err := readStat(pid); err == nil && !s.isOver() && carries(t, pid, id) {
			found[s.session] = true
		}
	}
	return len(found)
}
