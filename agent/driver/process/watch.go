package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/backoff"
)

// watchProcess waits for the end of i's process, records the outcome and kills its
// remaining children. It returns early when the driver is closed.
func (d *Driver) watchProcess(i *instance) {
	if err := awaitExit(i.pidfd); err != nil {
		return
	}
	d.mu.Lock()
	r := i.record
	d.mu.Unlock()
	r.Status, r.Fault = d.outcomeOf(i, r)
	if r.Halted {
		r.Status, r.Fault = api.StatusShutoff, ""
	}
	d.mu.Lock()
	if i.verdict != "" {
		r.Status, r.Fault = api.StatusError, i.verdict
	}
	d.mu.Unlock()
	_ = i.pidfd.Close() // a driver that closes may have done so already
	i.closeFenceEnd()
	if r.Fenced && d.isClosing() {
		return // it was killed with its driver, which is not an outcome to record
	}
	d.killRest(r)
	if err := saveRecord(d.root, r); err != nil {
		d.conf.Log.Warn("record cannot be written", "instance", r.Instance, "err", err)
	}
	d.mu.Lock()
	i.Status, i.Fault = r.Status, r.Fault
	d.mu.Unlock()
	close(i.gone)
	d.conf.Log.Info("process ended", "instance", r.Instance, "pid", r.PID, "status", r.Status, "fault", r.Fault)
	select {
	case d.changed <- struct{}{}:
	default: // a pending value means the same
	}
}

// killRest kills what an ended process has left behind. Once is not enough: a child that
// begins a program at this moment cannot be identified yet. Nor may it wait for ever for one
// that does not die, because the outcome is to be told: Stop tries again.
func (d *Driver) killRest(r record) {
	ctx, cancel := context.WithTimeout(context.Background(), restMax)
	defer cancel()
	if err := d.killAll(ctx, r); err != nil {
		d.conf.Log.Warn("an ended instance has left processes behind", "instance", r.Instance, "err", err)
	}
}

// outcomeOf returns the outcome of an ended process. If it is our child, this waits for it.
func (d *Driver) outcomeOf(i *instance, r record) (api.Status, string) {
	if i.cmd == nil {
		status, known := exitOf(i.pidfd, r.PID)
		return d.statusOf(r, status, known)
	}
	_ = i.cmd.Wait() // its state has more than the error
	if i.cmd.ProcessState == nil {
		return d.statusOf(r, 0, false)
	}
	status, known := i.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return d.statusOf(r, unix.WaitStatus(status), known)
}

// statusOf returns the status and the fault for a wait status.
func (d *Driver) statusOf(r record, status unix.WaitStatus, known bool) (api.Status, string) {
	switch {
	case !known:
		return api.StatusError, "the process ended while no agent could see how"
	case status.Exited() && status.ExitStatus() == 0:
		return api.StatusShutoff, ""
	case d.groups.ranOutOfMemory(r.Instance):
		return api.StatusError, "the process was killed: it needed more memory than the instance has"
	case status.Signaled():
		return api.StatusError, "the process was killed by " + unix.SignalName(status.Signal())
	}
	return api.StatusError, fmt.Sprintf("the process ended with exit code %d", status.ExitStatus())
}

// adoptAll takes over the instances that an earlier driver left in the folder.
func (d *Driver) adoptAll(ctx context.Context) error {
	dir, err := d.root.Open(".")
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("looking for instances: %w", err)
	}
	for _, e := range entries {
		id := api.InstanceID(e.Name())
		if !e.IsDir() || !api.ValidName(e.Name()) {
			continue // not ours
		}
		if err := d.adoptInstance(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// adoptInstance takes over one instance.
func (d *Driver) adoptInstance(ctx context.Context, id api.InstanceID) error {
	r, err := loadRecord(d.root, id)
	switch {
	case isNotExist(err): // it was never released
		return d.discardStart(ctx, record{Instance: id})
	case err != nil:
		d.conf.Log.Warn("record is damaged", "instance", id, "err", err)
		lost := record{Instance: id, Status: api.StatusError, Fault: driver.Reason(err), Boot: d.boot}
		if d.conf.Users != nil {
			lost.UID = d.conf.Users.only(d.ownerOfWork(id)) // its processes, if any, still run as that
		}
		d.addInstance(endedInstance(lost))
		return nil
	case r.Status != api.StatusActive:
		d.addInstance(endedInstance(r))
		return nil
	case r.Volume:
		d.addInstance(endedInstance(r))
		return nil
	case r.Fenced:
		return d.buryFenced(ctx, r)
	}
	i, err := d.findProcess(r)
	if err != nil {
		return err
	}
	if i != nil && d.awaitRelease(ctx, i) {
		d.conf.Log.Info("process found again", "instance", id, "pid", r.PID)
		i.volumes = d.linkedVolumes(id)
		d.addInstance(i)
		return nil
	}
	if i != nil { // its gate has ended without a word, or is suspended
		_ = i.pidfd.Close() // nothing was written through it
	}
	status, fault := d.statusOfLost(r)
	if err := d.killAll(ctx, r); err != nil {
		return err
	}
	switch released := d.isReleased(id); { // checked after its gate is gone
	case released && r.Halted:
		status, fault = api.StatusShutoff, ""
	case !released && r.Again: // this run has not begun: the one before it has ended
		status, fault, r.Runs = api.StatusShutoff, "", r.Runs-1
	case !released:
		return d.discardStart(ctx, r)
	}
	r.Status, r.Fault = status, fault
	if err := saveRecord(d.root, r); err != nil {
		return err
	}
	d.addInstance(endedInstance(r))
	return nil
}

// discardStart removes the remains of an aborted start.
func (d *Driver) discardStart(ctx context.Context, r record) error {
	if err := d.killAll(ctx, r); err != nil {
		return err
	}
	if err := d.keepOutputs(r.Instance, false); err != nil {
		d.conf.Log.Warn("output of an earlier run is lost", "instance", r.Instance, "err", err)
	}
	return d.forgetInstance(r.Instance)
}

// findProcess returns the instance of r if its process runs, and nil if it does not.
// The descriptor is opened before the process is inspected, so that it refers to the
// inspected process.
func (d *Driver) findProcess(r record) (*instance, error) {
	if r.Boot != d.boot || r.PID <= 0 {
		return nil, nil
	}
	pidfd, err := openPidfd(r.PID)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // or a thread of another
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := readStat(r.PID)
	if err != nil || s.start != r.Start || s.isOver() {
		return nil, pidfd.Close()
	}
	return &instance{record: r, pidfd: pidfd, gone: make(chan struct{})}, nil
}

// statusOfLost returns the status of a process that ended while no driver watched.
func (d *Driver) statusOfLost(r record) (api.Status, string) {
	if r.Boot != d.boot {
		return api.StatusError, "the machine was restarted"
	}
	if s, err := readStat(r.PID); err == nil && s.start == r.Start && s.isOver() {
		return d.statusOf(r, unix.WaitStatus(s.exit), true)
	}
	return d.statusOf(r, 0, false)
}

// awaitRelease waits until the gate of i, which an earlier driver has left, is the
// command, and reports whether it is. It has its word or never gets it: that driver's
// end of the pipe is closed. Without the word it ends at once.
func (d *Driver) awaitRelease(ctx context.Context, i *instance) bool {
	if d.isReleased(i.Instance) {
		return true
	}
	d.conf.Log.Info("process was about to begin; waiting for it", "instance", i.Instance, "pid", i.PID)
	ctx, cancel := context.WithTimeout(ctx, releaseMax)
	defer cancel()
	for {
		s, err := readStat(i.PID)
		over := err != nil || s.start != i.Start || s.isOver()
		switch { // in this order: it may have been let go before it ended
		case d.isReleased(i.Instance):
			return true
		case over, !backoff.Sleep(ctx, releaseEvery):
			return false
		}
	}
}

// isReleased reports whether the gate of an instance has let its command go.
func (d *Driver) isReleased(id api.InstanceID) bool {
	_, err := d.root.Lstat(string(id) + "/" + releasedFile)
	return err == nil
}
