package node

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/httpd/admin"
	"berth/internal/backoff"
	"berth/internal/durable"
)

// BackupSchedule says when a node writes backups of its zone, and how many it keeps.
type BackupSchedule struct {
	Dir   string        // "" for none; made if it is missing
	Every time.Duration // BackupEveryMin to BackupEveryMax
	Keep  int           // of the zone, the newest ones: 1 to BackupsKeptMax
}

// Limits and defaults of a BackupSchedule.
const (
	BackupEveryMin     = time.Minute
	BackupEveryMax     = 366 * 24 * time.Hour
	BackupEveryDefault = 24 * time.Hour
	BackupsKeptMax     = 1000
	BackupsKeptDefault = 7
)

const (
	backupTimeout   = time.Hour        // of one backup
	backupRetryMax  = 10 * time.Minute // after a failure, if Every is not shorter
	backupLook      = time.Minute      // how often the clock is compared with the schedule
	backupReadyWait = time.Minute      // for the zone, and for the node to catch up, before a backup fails

	backupTime   = "20060102T150405Z"
	backupSuffix = ".backup"
	partSuffix   = ".part"
)

// Validate returns an invalid-input error for a schedule out of range.
func (b *BackupSchedule) Validate() error {
	switch {
	case b.Dir == "":
		return nil
	case b.Every < BackupEveryMin || b.Every > BackupEveryMax:
		return api.Errorf(api.CodeInvalid, "backups are written every %v to %v, not every %v", BackupEveryMin, BackupEveryMax, b.Every)
	case b.Keep < 1 || b.Keep > BackupsKeptMax:
		return api.Errorf(api.CodeInvalid, "1 to %d backups are kept, not %d", BackupsKeptMax, b.Keep)
	}
	return nil
}

// backups writes backups on a schedule.
type backups struct {
	BackupSchedule
	zone   string
	write  func(ctx context.Context, w io.Writer) error
	verify func(r io.Reader) error // reads a backup to its end
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex // guards status
	status admin.Backups
}

// backupFile is a backup in the folder.
type backupFile struct {
	name string
	at   time.Time
}

func (b *backups) currentStatus() admin.Backups {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// runSchedule writes backups until ctx ends.
func (b *backups) runSchedule(ctx context.Context) {
	b.mu.Lock()
	b.status.Since = api.InstantOf(b.now())
	b.mu.Unlock()
	var pause time.Time // after a failure
	for ctx.Err() == nil {
		due, err := b.nextDue()
		switch now := b.now(); {
		case err == nil && (now.Before(due) || now.Before(pause)):
			if now.Before(pause) && due.Before(pause) {
				due = pause
			}
			backoff.Sleep(ctx, min(due.Sub(now), backupLook))
			continue
		case err == nil:
			err = b.writeOne(ctx)
		}
		if err != nil && ctx.Err() == nil {
			wait := min(b.Every, backupRetryMax)
			pause = b.now().Add(wait)
			b.noteFailure(ctx, err, wait)
			backoff.Sleep(ctx, wait)
		}
	}
}

func (b *backups) noteFailure(ctx context.Context, err error, again time.Duration) {
	b.mu.Lock()
	b.status.Failures++
	b.status.Failed, b.status.Error = api.InstantOf(b.now()), err.Error()
	newest := b.status.Newest
	b.mu.Unlock()
	b.log.ErrorContext(ctx, "the backup of the zone failed", "dir", b.Dir, "newest", newest, "again_in", again, "error", err)
}

// nextDue returns when the next backup is due, and notes the newest one.
func (b *backups) nextDue() (time.Time, error) {
	all, err := b.list()
	if err != nil {
		return time.Time{}, err
	}
	if len(all) == 0 || all[0].at.IsZero() {
		return b.now(), nil
	}
	b.noteNewest(all[0])
	return all[0].at.Add(b.Every), nil
}

func (b *backups) noteNewest(f backupFile) {
	var size int64
	if info, err := os.Stat(b.path(f.name)); err == nil {
		size = info.Size()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Newest, b.status.File, b.status.Bytes = api.InstantOf(f.at), f.name, size
}

func (b *backups) path(name string) string { return b.Dir + string(os.PathSeparator) + name }

// list returns the backups of the zone in the folder, newest first. It makes the folder. One with a time that has yet to come
// is of a clock that was ahead, and may be of any age: it counts as the oldest.
func (b *backups) list() ([]backupFile, error) {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of backups: %w", err)
	}
	entries, err := os.ReadDir(b.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of backups: %w", err)
	}
	var all []backupFile
	for _, e := range entries {
		stamp, own := strings.CutPrefix(e.Name(), b.zone+"-")
		stamp, done := strings.CutSuffix(stamp, backupSuffix)
		at, err := time.Parse(backupTime, stamp)
		if !own || !done || err != nil || !e.Type().IsRegular() {
			continue
		}
		if at.After(b.now()) {
			at = time.Time{}
		}
		all = append(all, backupFile{e.Name(), at})
	}
	slices.SortFunc(all, func(a, b backupFile) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(b.name, a.name)) })
	return all, nil
}

// writeOne writes a backup, reads it back to its end, and removes those that are too many.
func (b *backups) writeOne(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, backupTimeout)
	defer cancel()
	f := backupFile{at: b.now().UTC().Truncate(time.Second)}
	f.name = b.zone + "-" + f.at.Format(backupTime) + backupSuffix
	root, err := os.OpenRoot(b.Dir)
	if err != nil {
		return fmt.Errorf("opening the folder of backups: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written through it that is not on disk
	part := f.name + partSuffix
	err = b.writePart(ctx, root, part)
	if err == nil {
		err = b.verifyPart(root, part)
	}
	if err == nil {
		err = root.Rename(part, f.name)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(root, part))
	}
	if err = durable.SyncDir(root); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	b.noteNewest(f)
	b.mu.Lock()
	b.status.Written++
	b.status.Failed, b.status.Error = 0, ""
	b.mu.Unlock()
	b.log.InfoContext(ctx, "a backup of the zone was written and verified", "dir", b.Dir, "file", f.name)
	return b.removeOld(root)
}

func removeIfThere(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (b *backups) writePart(ctx context.Context, root *os.Root, part string) error {
	if err := removeIfThere(root, part); err != nil { // of a crash: its mode may be another
		return fmt.Errorf("writing the backup: %w", err)
	}
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err = b.write(ctx, w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

func (b *backups) verifyPart(root *os.Root, part string) error {
	f, err := root.Open(part)
	if err == nil {
		err = errors.Join(b.verify(f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("verifying the backup that was just written: %w", err)
	}
	return nil
}

// removeOld removes the backups that are too many, and what crashes have left.
func (b *backups) removeOld(root *os.Root) error {
	all, err := b.list()
	if err != nil {
		return err
	}
	for _, f := range all[min(len(all), b.Keep):] {
		err = errors.Join(err, removeIfThere(root, f.name))
	}
	left, globErr := os.ReadDir(b.Dir)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), b.zone+"-") && strings.HasSuffix(e.Name(), backupSuffix+partSuffix) {
			err = errors.Join(err, removeIfThere(root, e.Name()))
		}
	}
	if err = errors.Join(err, globErr); err != nil {
		return fmt.Errorf("removing old backups: %w", err)
	}
	return nil
}
