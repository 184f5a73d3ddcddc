package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/await"
)

// readNotice returns the notice that an instance can read, and whether there is one.
func readNotice(t *testing.T, d *Driver, id api.InstanceID) (n notice, ok bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.conf.Dir, string(id), workFolder, noticeFile))
	if isNotExist(err) {
		return n, false
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &n))
	return n, true
}

func awaitOutput(t *testing.T, d *Driver, id api.InstanceID, want string) {
	t.Helper()
	await.Until(t, fmt.Sprintf("it has printed %q", want), func(context.Context) error {
		if got := read(t, d, id, stdoutFile); got != want {
			return fmt.Errorf("it has printed %q", got)
		}
		return nil
	})
}

func noticeFor(left time.Duration, quiet bool) driver.Notice {
	return driver.Notice{
		Deadline:      time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)),
		PreemptNotice: api.PreemptNotice{Left: left, Quiet: quiet, For: "res-1", Lease: true, Action: api.PreemptStop},
	}
}

// TestNoticeReachesTheCommand: a command finds its notice by its environment when it is asked to
// end, and is asked once.
func TestNoticeReachesTheCommand(t *testing.T) {
	d := fresh(t)
	w := fenced(shellWork(`trap 'cat "$BERTH_PREEMPT_NOTICE"' TERM; echo up; while :; do /bin/sleep 0.01; done`))
	require.NoError(t, d.Start(t.Context(), "h", w))
	awaitOutput(t, d, w.Instance, "up\n")
	require.NoError(t, d.Notify(t.Context(), w.Instance, noticeFor(90*time.Second+1, false)))
	one := `{"reason":"a lease needs the room","for":"res-1","deadline":"2030-01-02T02:04:05Z","seconds_left":90,"action":"stop"}` + "\n"
	awaitOutput(t, d, w.Instance, "up\n"+one)

	boot := noticeFor(0, false)
	boot.Lease = false
	require.NoError(t, d.Notify(t.Context(), w.Instance, boot))
	n, ok := readNotice(t, d, w.Instance)
	assert.True(t, ok)
	assert.Equal(t, "a boot needs the room", n.Reason)
	assert.Equal(t, api.StatusActive, state(t, d, w.Instance).Status)
	require.NoError(t, d.Kill(t.Context(), w.Instance))
	_, err := os.Stat(filepath.Join(d.conf.Dir, string(w.Instance)))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestNoticeThatCannotBeWritten: whatever the command has left at its place, nothing outside of the
// instance's folder is written, and the command is asked to end all the same.
func TestNoticeThatCannotBeWritten(t *testing.T) {
	for name, script := range map[string]string{
		"a folder":  `mkdir -p preempt-notice.json/x`,
		"no folder": `cd / && rm -r "${BERTH_PREEMPT_NOTICE%/*}"`,
		"a way out": `cd .. && rm -r work && ln -s /tmp work`,
	} {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			w := shellWork(script + `; echo up; exec /bin/sleep 1000`)
			require.NoError(t, d.Start(t.Context(), "h", w))
			awaitOutput(t, d, w.Instance, "up\n")
			require.ErrorContains(t, d.Notify(t.Context(), w.Instance, noticeFor(time.Minute, false)), "writing the notice of instance")
			until(t, "it has ended", func() bool { return state(t, d, w.Instance).Status == api.StatusError })
			assert.Contains(t, state(t, d, w.Instance).Fault, "SIGTERM")
		})
	}
	t.Run("traps", func(t *testing.T) {
		d := fresh(t)
		outside := filepath.Join(t.TempDir(), "outside")
		require.NoError(t, os.WriteFile(outside, []byte("mine"), 0o600))
		w := shellWork(`ln -s ` + outside + ` preempt-notice.json; mkfifo preempt-notice.json.next; echo up; exec /bin/sleep 1000`)
		require.NoError(t, d.Start(t.Context(), "h", w))
		awaitOutput(t, d, w.Instance, "up\n")
		require.NoError(t, d.Notify(t.Context(), w.Instance, noticeFor(time.Minute, true)))
		n, ok := readNotice(t, d, w.Instance)
		assert.True(t, ok)
		assert.Equal(t, int64(60), n.SecondsLeft)
		text, err := os.ReadFile(outside)
		require.NoError(t, err)
		assert.Equal(t, "mine", string(text))
	})
}
