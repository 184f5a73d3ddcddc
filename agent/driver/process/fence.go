package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"berth/agent/driver"
	"berth/api"
)

// An instance with a fence must not outlive its agent, however that ends. The kernel
// kills its process with the thread that forked it, and a warden kills the processes
// started by it: the warden is a shell in the same group that waits for the end of a pipe
// which only the agent holds open. Processes that have left the group are killed with its
// version 2 control group, if there is one, and otherwise by the next driver.
//
// The words of fencedGate before the command's are the file that kills the
// control group, or nothing. The warden is a grandchild, so that a command that
// waits for all of its children does not wait for it.
const fencedGate = `end=$1; shift
( ( trap '' HUP INT TERM
exec 3<&-
read -r word <&4
[ -z "$end" ] || echo 1 >"$end"
kill -KILL 0 ) & )
unset end
exec 4<&-
` + gate

// severTime bounds how long Close waits for instances with a fence.
const severTime = 5 * time.Second

// fencePipe is a pipe between the driver and a warden.
type fencePipe struct{ childEnd, driverEnd *os.File }

// tieFence makes cmd the gate of an instance with a fence. The caller closes both ends of
// the pipe: the child's once it has started, the driver's when the instance may end.
func (d *Driver) tieFence(cmd *exec.Cmd, id api.InstanceID) (fencePipe, error) {
	held, fenceEnd, err := os.Pipe()
	if err != nil {
		return fencePipe{}, fmt.Errorf("opening the pipe of the instance's fence: %w", err)
	}
	end := ""
	if d.groups.v2 != "" {
		end = filepath.Join(d.groups.v2, d.groups.leafName(id), "cgroup.kill")
	}
	command := cmd.Args[4:] // after: sh -c gate berth-gate
	cmd.Args = append([]string{"sh", "-c", fencedGate, "berth-gate", end}, command...)
	cmd.ExtraFiles = append(cmd.ExtraFiles, held) // descriptor 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return fencePipe{childEnd: held, driverEnd: fenceEnd}, nil
}

// runTether runs the functions that it receives on one thread, until the driver is closed.
// Then the thread ends, and the kernel kills the processes forked there.
func (d *Driver) runTether() {
	runtime.LockOSThread() // for ever: a thread in Go's pool may end at any time
	for {
		select {
		case f := <-d.forks:
			f()
		case <-d.closed:
			return
		}
	}
}

// startFromTether starts cmd from the tether.
func (d *Driver) startFromTether(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	select {
	case d.forks <- func() { done <- cmd.Start() }:
		return <-done
	case <-d.closed:
		return errClosed
	}
}

// closeFenceEnd closes the driver's end of the pipe of a fence, if there is one.
func (i *instance) closeFenceEnd() {
	if i.fenceEnd != nil {
		_ = i.fenceEnd.Close() // nothing was written through it; a driver that closes may have done so already
	}
}

// isClosing reports whether Close has begun.
func (d *Driver) isClosing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut
}

// killFenced kills the instances that must not outlive the driver.
func (d *Driver) killFenced(held []record) error {
	ctx, cancel := context.WithTimeout(context.Background(), severTime)
	defer cancel()
	var errs []error
	for _, r := range held {
		if err := d.killAll(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("ending instance %s with its agent: %w", r.Instance, err))
		}
	}
	return errors.Join(errs...)
}

// buryFenced kills and forgets an instance with a fence that ran under an earlier
// driver. Its outcome does not matter: it may run again if the zone lists it.
func (d *Driver) buryFenced(ctx context.Context, r record) error {
	if err := d.killAll(ctx, r); err != nil {
		return err
	}
	ran := d.isReleased(r.Instance) // checked after its gate is gone
	if err := d.keepOutputs(r.Instance, ran); err != nil {
		d.conf.Log.Warn("output of a run that was killed is lost", "instance", r.Instance, "err", err)
	}
	if err := d.forgetInstance(r.Instance); err != nil {
		return err
	}
	if ran {
		d.conf.Log.Info("process did not outlive its agent", "instance", r.Instance, "pid", r.PID)
		d.severed = append(d.severed, r.stateOf())
	}
	return nil
}

// Severed returns the instances that Open has killed and forgotten. See driver.Driver.
func (d *Driver) Severed() []driver.State { return d.severed }
