package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/api"
)

const (
	strikeEvery = 10 * time.Millisecond // pause between two checks for survivors of SIGKILL
	unsureMax   = 100                   // consecutive checks that found only unidentified processes
	restMax     = 2 * time.Second       // for what is left of an instance that has ended by itself
)

// Stop ends an instance's process and everything it started: SIGTERM to its
// group, SIGKILL to all of it after the grace, and then its folder. It returns
// nil when nothing is left. See driver.Driver.
func (d *Driver) Stop(ctx context.Context, id api.InstanceID) error {
	return errors.Join(d.stopInstance(ctx, id, unix.SIGTERM, d.conf.Grace), d.dropOutputs(id))
}

// Kill ends an instance as Stop does, with SIGKILL at once. See driver.Driver.
func (d *Driver) Kill(ctx context.Context, id api.InstanceID) error {
	return d.stopInstance(ctx, id, unix.SIGKILL, 0)
}

// takeTurn returns an instance and its record for a call that has its turn until leave. The
// instance is nil, and leave with it, if there is none.
func (d *Driver) takeTurn(ctx context.Context, id api.InstanceID) (i *instance, r record, leave func(), err error) {
	if !api.ValidName(string(id)) {
		return nil, record{}, nil, nil // no such thing was ever started
	}
	if leave, err = d.turns.Take(ctx, id); err != nil {
		return nil, record{}, nil, err
	}
	d.mu.Lock()
	i, shut := d.all[id], d.shut
	if i != nil {
		r = i.record
	}
	d.mu.Unlock()
	if shut {
		i, err = nil, errClosed
	}
	if i == nil {
		leave()
		return nil, record{}, nil, err
	}
	return i, r, leave, nil
}

func (d *Driver) stopInstance(ctx context.Context, id api.InstanceID, first unix.Signal, grace time.Duration) error {
	i, r, leave, err := d.takeTurn(ctx, id)
	if err != nil {
		return err
	}
	if i == nil {
		return d.endStrays(ctx, id)
	}
	defer leave()
	if !r.Volume {
		if err := d.endInstance(ctx, i, r, first, grace); err != nil {
			return err
		}
	}
	i.folder.Lock()
	defer i.folder.Unlock()
	if r.Fenced && r.Status == api.StatusActive && first == unix.SIGKILL { // it may be started anew
		if err := d.keepOutputs(id, true); err != nil {
			d.conf.Log.WarnContext(ctx, "output of a run that was killed is lost", "instance", id, "err", err)
		}
	}
	if err := d.forgetInstance(id); err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.all, id)
	d.mu.Unlock()
	return nil
}

// endInstance ends the process of i, whose record is r, and everything it started. Its
// group gets the first signal; what is left of it after the grace gets SIGKILL.
func (d *Driver) endInstance(ctx context.Context, i *instance, r record, first unix.Signal, grace time.Duration) error {
	if d.signalGroup(r, first) && first != unix.SIGKILL {
		if err := d.awaitEnd(ctx, i, grace); err != nil {
			return err
		}
	}
	if err := d.killAll(ctx, r); err != nil {
		return err
	}
	return d.awaitEnd(ctx, i, 0)
}

// awaitEnd waits until i's process has ended and its record has the outcome; with a limit,
// no longer than that.
func (d *Driver) awaitEnd(ctx context.Context, i *instance, limit time.Duration) error {
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-i.gone:
	case <-late:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.closed:
		return errClosed
	}
	return nil
}

// killAll kills the remaining processes of an instance until none is left, and removes its
// control groups. Its folder stays. It checks again while a process cannot be identified,
// but not for ever: that process may belong to anybody.
func (d *Driver) killAll(ctx context.Context, r record) error {
	t := time.NewTicker(strikeEvery)
	defer t.Stop()
	for unsure := 0; ; {
		d.groups.killGroup(r.Instance)
		left, sure := d.killOnce(r)
		if left > 0 || sure {
			unsure = 0
		} else {
			unsure++
		}
		var err error
		if left == 0 && (sure || unsure > unsureMax) {
			if err = d.groups.removeGroups(r.Instance); err == nil {
				return nil
			}
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("killing: %d processes are left: %w", left, context.Cause(ctx)), err)
		}
	}
}

// killOnce sends SIGKILL to every process of an instance, each by a descriptor that cannot
// refer to another one later. It returns their number, and whether it is sure that there
// were no more.
func (d *Driver) killOnce(r record) (n int, sure bool) {
	all, err := listPIDs()
	if err != nil {
		d.conf.Log.Warn("processes cannot be listed", "instance", r.Instance, "err", err)
		return 1, false // perhaps
	}
	in := map[int]bool{}
	for _, pid := range d.groups.processesIn(r.Instance) {
		in[pid] = true
	}
	ours := d.sessionIsOurs(r)
	sure = true
	for _, pid := range all {
		yes, known := d.belongs(pid, r, ours, in[pid])
		sure = sure && known
		if !yes {
			continue
		}
		pidfd, err := openPidfd(pid)
		if err != nil {
			continue // it has ended since
		}
		yes, known = d.belongs(pid, r, ours, in[pid])
		sure = sure && known
		if yes {
			n++
			if err := signalPidfd(pidfd, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				d.conf.Log.Warn("process cannot be killed", "instance", r.Instance, "pid", pid, "err", err)
			}
		}
		_ = pidfd.Close() // nothing was written through it
	}
	return n, sure
}

// belongs reports whether a process is part of an instance and has not ended: it
// is in its control group, runs as the user that it alone has, is in its session
// or group, or was started with its mark by something that was. The mark is looked at where no user tells. It is not sure while
// that cannot be read: see hasMark.
func (d *Driver) belongs(pid int, r record, ours, grouped bool) (yes, sure bool) {
	if pid == os.Getpid() {
		return false, true
	}
	s, err := readStat(pid)
	if err != nil || s.isOver() {
		return false, true
	}
	alone := r.UID != 0 && r.Boot == d.boot
	if grouped || alone && hasUser(pid, r.UID) || ours && (s.session == r.PID || s.group == r.PID) {
		return true, true
	}
	if alone {
		return false, true
	}
	return hasMark(pid, d.markOf(r))
}

// sessionIsOurs reports whether the number of r's process still names its
// session: not after a restart of the machine, nor when another process has it.
func (d *Driver) sessionIsOurs(r record) bool {
	if r.PID <= 0 || r.Boot != d.boot {
		return false
	}
	s, err := readStat(r.PID)
	return err != nil || s.start == r.Start
}

// forgetInstance removes an instance's folder and groups. Nothing of it runs. The
// record goes first, so that a crash half way leaves no instance behind.
func (d *Driver) forgetInstance(id api.InstanceID) error {
	if err := d.groups.removeGroups(id); err != nil {
		return err
	}
	if err := d.root.Remove(string(id) + "/" + recordFile); err != nil && !isNotExist(err) {
		return fmt.Errorf("removing the instance's folder: %w", err)
	}
	if err := d.root.RemoveAll(string(id)); err != nil {
		return fmt.Errorf("removing the instance's folder: %w", err)
	}
	return nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
