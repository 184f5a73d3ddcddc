package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestInstancesRunAsAnotherUser: what runs has another user, no capability and none to get, and
// reads neither the agent's files nor those of another instance's folder; its own it may write.
func TestInstancesRunAsAnotherUser(t *testing.T) {
	needRoot(t)
	dir := passableDir(t)
	secret := filepath.Join(dir, "agent.pem")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	d, err := Open(t.Context(), Config{Dir: filepath.Join(dir, "instances"), User: nobody, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	w := shellWork(fmt.Sprintf(`id -u; id -g; id -G; grep -h -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status; echo mine > own && cat own
cat %s; ls %s; ls ../..; cat ../stdout.log; echo x > ../released; ls "$BERTH_VOLUMES"; echo end`, secret, dir))
	require.NoError(t, d.Start(t.Context(), "h", w))
	untilEnded(t, d, w.Instance)
	assert.Equal(t, "65534\n65534\n65534\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nmine\nend\n", read(t, d, w.Instance, stdoutFile))
	told := read(t, d, w.Instance, stderrFile)
	assert.Equal(t, 5, strings.Count(told, "ermission denied")+strings.Count(told, "o such file"), "%s", told) // it has a /tmp of its own
	require.NoError(t, d.Stop(t.Context(), w.Instance))
}

// TestUsersAreChecked before anything runs.
func TestUsersAreChecked(t *testing.T) {
	for _, name := range []string{"root", "0", "no-such-user"} {
		_, err := FindUser(name)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
	}
	needRoot(t)
	u, err := FindUser("65534")
	require.NoError(t, err)
	assert.Equal(t, nobody, u)
	dir := t.TempDir()                       // 0700 somewhere above
	require.NoError(t, os.Chmod(dir, 0o700)) //nolint:gosec // a folder
	_, err = Open(t.Context(), Config{Dir: filepath.Join(dir, "instances"), User: nobody, Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "chmod o+x "+dir)
}

// TestNoSeparationIsLoud: an agent whose instances may read its key says so.
func TestNoSeparationIsLoud(t *testing.T) {
	var logged bytes.Buffer
	d, err := Open(t.Context(), Config{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	assert.Contains(t, logged.String(), "level=WARN msg=\"instances run as the agent's own user")
}

var nobody = &Identity{UID: 65534, GID: 65534}

// needRoot skips the test where commands cannot run as other users, and fails it if the environment
// says that they must.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		skipUnlessNeeded(t, "only root may run processes as another user")
	}
	if err := nobody.checkReach(sharedTemp()); err != nil {
		skipUnlessNeeded(t, err.Error())
	}
}

func skipUnlessNeeded(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("BERTH_NEED_MACHINES") != "" && os.Getenv("BERTH_CHAOS_WITHOUT") == "" {
		require.Fail(t, "BERTH_NEED_MACHINES is set, and this cannot run", why)
	}
	t.Skip(why)
}

// sharedTemp returns a folder for temporary files that every user can get through, if there is one.
func sharedTemp() string {
	if nobody.checkReach(os.TempDir()) == nil {
		return os.TempDir()
	}
	return "/tmp"
}

// passableDir returns a folder that every user can get through.
func passableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(sharedTemp(), "berth-process-") //nolint:usetesting // t.TempDir may be where no other user gets
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, passable)) //nolint:gosec // a folder
	return dir
}
