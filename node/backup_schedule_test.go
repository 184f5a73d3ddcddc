package node

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/admin"
	"berth/internal/await"
)

// scheduled is a schedule of backups that are the text "whole", and whether they are written and can be read.
type scheduled struct {
	*backups
	broken, damaged bool
}

func newScheduled(t *testing.T, dir string, keep int) *scheduled {
	s := &scheduled{}
	s.backups = &backups{
		BackupSchedule: BackupSchedule{Dir: dir, Every: 6 * time.Hour, Keep: keep}, zone: "west", now: time.Now, log: quiet,
		write: func(_ context.Context, w io.Writer) error {
			if s.broken {
				_, _ = w.Write([]byte("wh"))
				return errors.New("no leader")
			}
			_, err := w.Write([]byte("whole"))
			return err
		},
		verify: func(r io.Reader) error {
			b, err := io.ReadAll(r)
			if err == nil && (string(b) != "whole" || s.damaged) {
				err = errors.New("it is damaged")
			}
			return err
		},
	}
	return s
}

func (s *scheduled) files(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
		names = append(names, e.Name())
	}
	return names
}

// runFor runs a schedule for a time.
func (s *scheduled) runFor(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	s.runSchedule(ctx)
}

// TestBackupsAreScheduled: a backup every six hours, over restarts; the newest three are kept, and files of others.
func TestBackupsAreScheduled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backups")
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, dir, 3)
		s.runFor(t, 5*time.Hour)
		require.Equal(t, []string{"west-20000101T000000Z.backup"}, s.files(t))
		for _, name := range []string{"west-20000101T000000Z.backup.part", "other-19990101T000000Z.backup", "west-notes.backup"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		s = newScheduled(t, dir, 3) // restarted
		s.runFor(t, 30*time.Minute)
		assert.Equal(t, uint64(0), s.currentStatus().Written, "it is not due yet")
		s.runFor(t, 24*time.Hour)
		assert.Equal(t, uint64(4), s.currentStatus().Written)
		assert.Equal(t, []string{
			"other-19990101T000000Z.backup", "west-20000101T120000Z.backup", "west-20000101T180000Z.backup", "west-20000102T000000Z.backup", "west-notes.backup",
		}, s.files(t))
		got := s.currentStatus()
		assert.Equal(t, "west-20000102T000000Z.backup", got.File)
		assert.Equal(t, int64(5), got.Bytes)
		assert.Equal(t, api.InstantOf(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)), got.Newest)
	})
}

// TestBackupsThatFail: what cannot be written, or not be read back, is no backup: the older ones stay, the failure shows, and
// it is tried again. A file from the future holds nothing up.
func TestBackupsThatFail(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduled(t, dir, 1)
		s.runFor(t, time.Hour)
		s.damaged = true
		s.runFor(t, 5*time.Hour+time.Minute)
		got := s.currentStatus()
		assert.Equal(t, uint64(1), got.Failures)
		assert.Contains(t, got.Error, "it is damaged")
		assert.Equal(t, "west-20000101T000000Z.backup", got.File)
		assert.Equal(t, []string{got.File}, s.files(t))
		s.damaged, s.broken = false, true
		s.runFor(t, backupRetryMax+time.Minute)
		got = s.currentStatus()
		assert.Contains(t, got.Error, "no leader")
		assert.Greater(t, got.Failures, uint64(1))
		assert.Equal(t, []string{"west-20000101T000000Z.backup"}, s.files(t))
		s.broken = false
		require.NoError(t, os.WriteFile(filepath.Join(dir, "west-20300101T000000Z.backup"), nil, 0o600))
		s.runFor(t, backupRetryMax+time.Minute)
		got = s.currentStatus()
		assert.Equal(t, uint64(2), got.Written)
		assert.Equal(t, []string{got.File}, s.files(t))
		assert.Empty(t, got.Error)
		assert.Zero(t, got.Failed)
	})
}

func TestBackupScheduleLimits(t *testing.T) {
	for _, ok := range []BackupSchedule{{}, {"d", BackupEveryMin, 1}, {"d", BackupEveryMax, BackupsKeptMax}} {
		assert.NoError(t, ok.Validate())
	}
	for _, bad := range []BackupSchedule{
		{"d", BackupEveryMin - 1, 1}, {"d", BackupEveryMax + 1, 1}, {"d", BackupEveryMin, 0}, {"d", BackupEveryMin, BackupsKeptMax + 1},
	} {
		assert.Equal(t, api.CodeInvalid, api.CodeOf(bad.Validate()), bad)
	}
}

// TestEachNodeWritesBackups: also one that does not lead.
func TestEachNodeWritesBackups(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a")
		h.opts.Timing = patient
		leader := h.run()
		second := leader.joined("node-2")
		second.opts.Backups = BackupSchedule{Dir: filepath.Join(t.TempDir(), "kept"), Every: time.Hour, Keep: 2}
		other := second.run()
		await.True(t, "a backup is written", func() bool { return other.backups.now.Load().currentStatus().Written == 1 })
		assert.Zero(t, other.backups.now.Load().currentStatus().Failures)
		assert.False(t, other.leading.Load())
	})
}

// TestANodeWritesBackups: what a node writes by its schedule can be restored, and metrics tell of it.
func TestANodeWritesBackups(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		home := newZone(t, "a")
		home.opts.Backups = BackupSchedule{Dir: filepath.Join(t.TempDir(), "kept"), Every: time.Hour, Keep: 2}
		r := home.run()
		await.True(t, "a backup is written", func() bool { return r.backups.now.Load().currentStatus().Written == 1 })
		status, _ := r.backupStatus()
		f, err := os.Open(filepath.Join(home.opts.Backups.Dir, status.File))
		require.NoError(t, err)
		defer f.Close()
		b, sealed, err := ReadBackup(f, r.keys.KEKs())
		require.NoError(t, err)
		assert.True(t, sealed)
		assert.Equal(t, r.rec.Zone, b.State.Zone)
		w := httptest.NewRecorder()
		r.adminDoor().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		assert.Contains(t, w.Body.String(), "\nberth_backup_failed 0\n")
		assert.Regexp(t, `(?m)^berth_backup_age_seconds \d`, w.Body.String())
		w = httptest.NewRecorder()
		admin.NewLocal(r.adminConfig()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/state", http.NoBody))
		assert.Contains(t, w.Body.String(), status.File)
	})
}
