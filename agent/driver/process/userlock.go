package process

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/backoff"
)

// userLocks is a file of the machine. A driver with users of a range holds a lock on the bytes with
// their numbers, so that two ranges that overlap are not in use at once.
const userLocks = "/run/berth-users.lock"

// lockUsers locks the users of the range until the returned file is closed, also by the end of the
// process. A child that another driver was starting when it was killed has the lock for a moment: it
// tries a few times.
func (r UserRange) lockUsers(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(userLocks, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking users %d-%d: %w", r.First, r.Last, err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(r.First), Len: int64(r.Last-r.First) + 1}
	for range lockTries {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		if !errors.Is(err, unix.EAGAIN) || !backoff.Sleep(ctx, lockEvery) {
			break
		}
	}
	if errors.Is(err, unix.EAGAIN) {
		err = errors.New("another agent of this machine has some of them")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking users %d-%d: %w", r.First, r.Last, err), f.Close())
	}
	return f, nil
}
