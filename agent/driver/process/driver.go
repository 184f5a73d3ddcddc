// Package process is a driver that runs a real process for each instance: the
// command of its flavor, in a session of its own, with its output in files, held
// to its resources by control groups where the machine has them.
//
// The processes are independent of the agent: they continue when it ends, for any reason,
// and the next agent finds them by the record that each has on disk. Those with a fence
// are the exception: they always end with it. The record is written before a command may
// run, so that no crash can start an instance twice. The driver needs Linux 5.10 and
// /bin/sh. Commands run as a user of their own if there is one, without capabilities and
// unable to get any, or as one for each instance; else as the agent's own, which separates nothing.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/backoff"
	"berth/internal/sysinfo"
)

// GraceDefault is how long a process has to end after SIGTERM.
const GraceDefault = 10 * time.Second

// lockFile is locked while a driver uses the folder. Another driver tries a few times to
// lock it.
const (
	lockFile  = ".lock" // no instance id begins with a dot
	lockTries = 150
	lockEvery = 20 * time.Millisecond
)

// A gate that has been released becomes the command as soon as it is scheduled.
// releaseEvery is the pause between two checks of that, and releaseMax how long the next
// driver waits for a gate that it finds: nothing else can release it any more, so it
// either continues or ends.
const (
	releaseEvery = 2 * time.Millisecond
	releaseMax   = 20 * time.Second
)

// errClosed is the cause that ends calls when the driver is closed.
var errClosed = errors.New("the process driver is closed")

// Config configures the driver.
type Config struct {
	Dir    string        // has a folder for each instance; created with 0700; used by one driver at a time
	Grace  time.Duration // between SIGTERM and SIGKILL; 0 for GraceDefault
	Cgroup string        // parent of the control groups, such as CgroupDefault; "" for no limits
	User   *Identity     // as whom all commands run; nil for the agent's own user, or for one of Users
	Users  *UserRange    // each instance runs as one that no other has; nil for User
	Log    *slog.Logger  // required

	OutputMax int64         // bytes to keep of each of an instance's outputs, OutputLeast to OutputMost; 0 for OutputDefault
	DiskEvery time.Duration // between two looks at what instances have on disk, DiskLeast to DiskMost; 0 for DiskDefault
}

// Driver runs processes. Use Open, and Close at the end.
type Driver struct {
	conf    Config
	shell   string   // runs gates
	setpriv string   // runs a command as another user; set once, by Open
	unshare string   // runs a command in namespaces of its own; set once, by Open
	places  []string // that instances find folders of their own in place of; set once, by Open
	here    string   // the folder of all instances, by its name without links; set once, by Open
	root    *os.Root
	lock    *os.File
	users   *os.File // locks conf.Users; nil without them
	boot    string
	groups  groups
	changed chan struct{}
	closed  chan struct{}
	turns   driver.Turns
	watches sync.WaitGroup
	forks   chan func()    // functions for the tether to run
	severed []driver.State // set once, by Open

	unbounded error // why volumes are not held to their size; nil if they are; set once, by Open

	mu   sync.Mutex // guards what follows
	all  map[api.InstanceID]*instance
	kept map[api.InstanceID]bool   // whose outputs are kept for their next run
	lent map[api.InstanceID]uint32 // users of instances that are starting, and are not in all
	last uint32                    // the user that was given last; 0 for none
	// strays are the owners of other folders that run an instance, or of this one if it was emptied since; found by Open
	strays map[api.InstanceID][]string
	shut   bool
}

// instance is one instance that is not forgotten. What changes of record (Status, Fault, Halted) is guarded by the
// driver's mutex; the rest is set once, unless it says otherwise.
type instance struct {
	record
	pidfd    *os.File      // nil if it had ended before it was found
	fenceEnd *os.File      // only with a fence: its warden kills it when this is closed
	cmd      *exec.Cmd     // nil if it is not our child
	gone     chan struct{} // closed when its process has ended and record has the outcome
	asked    bool          // a notice has asked it to end; only calls with its turn use it
	verdict  string        // why the driver has killed it, if it has; guarded like record
	folder   sync.Mutex    // held while its output is trimmed or its folder is removed
	rests    [2]int        // looks for which each of its outputs is left alone; guarded by folder

	volumes []api.InstanceID // attached; guarded like record
}

var _ driver.Driver = (*Driver)(nil)

// Open takes over conf.Dir with all its running and ended instances. It returns an error
// if another driver uses the folder. ctx bounds only Open.
func Open(ctx context.Context, conf Config) (*Driver, error) {
	if conf.Log == nil || conf.Dir == "" || conf.Grace < 0 {
		return nil, api.Errorf(api.CodeInvalid, "the process driver needs a folder, a log and a grace that is not negative")
	}
	if conf.Cgroup != "" && !api.ValidName(conf.Cgroup) {
		return nil, api.CheckName("control group", conf.Cgroup)
	}
	conf.Grace = cmp.Or(conf.Grace, GraceDefault)
	conf.OutputMax = cmp.Or(conf.OutputMax, OutputDefault)
	conf.DiskEvery = cmp.Or(conf.DiskEvery, DiskDefault)
	if conf.OutputMax < OutputLeast || conf.OutputMax > OutputMost {
		return nil, api.Errorf(api.CodeInvalid, "the output that is kept of an instance must be %d to %d bytes, not %d", OutputLeast, int64(OutputMost), conf.OutputMax)
	}
	if conf.DiskEvery < DiskLeast || conf.DiskEvery > DiskMost {
		return nil, api.Errorf(api.CodeInvalid, "the time between two looks at what instances have on disk must be %v to %v, not %v", DiskLeast, DiskMost, conf.DiskEvery)
	}
	d := &Driver{
		conf: conf, shell: shell, changed: make(chan struct{}, 1), closed: make(chan struct{}),
		forks: make(chan func()), all: map[api.InstanceID]*instance{}, lent: map[api.InstanceID]uint32{},
	}
	if err := d.openFolder(ctx); err != nil {
		return nil, errors.Join(err, d.Close()) //nolint:contextcheck // ctx may be the cause of the failure
	}
	return d, nil
}

func (d *Driver) openFolder(ctx context.Context) error {
	dir, err := filepath.Abs(d.conf.Dir)
	if err != nil {
		return err
	}
	d.conf.Dir = dir
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if d.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	if err = d.lockFolder(ctx); err != nil {
		return err
	}
	if err = d.separate(); err != nil {
		return err
	}
	if d.conf.Users != nil {
		if d.users, err = d.conf.Users.lockUsers(ctx); err != nil {
			return err
		}
		d.last = d.readLastUser()
	}
	d.unbounded = checkSizes(d.lock)
	// Descriptors that the agent inherited must not reach instances. Kernels before 5.11
	// cannot mark them all at once, and pass them on.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	self, err := openPidfd(os.Getpid())
	if err != nil {
		return fmt.Errorf("processes cannot be followed, which needs Linux 5.10: %w", err)
	}
	_ = self.Close() // nothing was written through it
	if d.boot, err = sysinfo.BootID(); err != nil {
		return err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("looking for control groups: %w", err)
	}
	folder, err := filepath.Abs(d.conf.Dir)
	if err != nil {
		return fmt.Errorf("finding the folder %s: %w", d.conf.Dir, err)
	}
	d.groups = findGroups(string(mountinfo), d.conf.Cgroup)
	d.groups.owner = ownerOf(folder)
	if err = d.findKept(); err != nil {
		return err
	}
	d.watches.Go(d.runTether)
	if err = d.adoptAll(ctx); err != nil {
		return err
	}
	if err = d.findStrays(); err != nil {
		return fmt.Errorf("looking for instances of other folders: %w", err)
	}
	d.watches.Go(d.runTrims)
	d.watches.Go(d.runDiskLooks)
	return nil
}

// lockFolder locks the folder. A child that an agent was starting when it was killed
// holds the lock until it has become the gate, which takes a moment; until then it may not
// be harmless.
func (d *Driver) lockFolder(ctx context.Context) (err error) {
	if d.lock, err = d.root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	for range lockTries {
		err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || !backoff.Sleep(ctx, lockEvery) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("locking %s: another agent has it: %w", d.conf.Dir, err)
	}
	return nil
}

// Close releases the processes, which continue to run, and returns when nothing watches
// them any more. Those with a fence are killed.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.shut {
		d.mu.Unlock()
		return nil
	}
	d.shut = true
	close(d.closed)
	var files []*os.File
	var held []record
	for _, i := range d.all {
		if i.pidfd != nil {
			files = append(files, i.pidfd)
		}
		if i.Fenced && i.Status == api.StatusActive {
			held = append(held, i.record)
			i.closeFenceEnd()
		}
	}
	d.mu.Unlock()
	err := d.killFenced(held)
	for _, f := range files {
		_ = f.Close() // wakes its watch, which may have closed it already
	}
	d.watches.Wait()
	errs := []error{err}
	for _, locked := range []*os.File{d.lock, d.users} {
		if locked != nil {
			errs = append(errs, locked.Close())
		}
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	return errors.Join(errs...)
}

// Start runs w's command. See driver.Driver.
func (d *Driver) Start(ctx context.Context, host api.HostID, w api.Workload) error {
	if !api.ValidName(string(w.Instance)) {
		return api.CheckName("instance id", string(w.Instance))
	}
	leave, err := d.turns.Take(ctx, w.Instance)
	if err != nil {
		return err
	}
	defer leave()
	i, outcome := d.findKnown(host, w.Instance)
	if ended := d.findEnded(host, w); ended != nil {
		return d.startAgain(ctx, ended, w)
	}
	switch {
	case outcome != nil:
		return outcome
	case i != nil && i.Volume:
		return nil
	case i != nil:
		return d.awaitCommand(ctx, i) // an earlier call may have ended before that
	}
	if w.Volume != "" {
		return d.makeVolume(host, w)
	}
	if err = d.endStrays(ctx, w.Instance); err != nil {
		return err
	}
	i, err = d.launchInstance(ctx, host, w)
	if err == nil {
		d.addInstance(i)
		return d.awaitCommand(ctx, i)
	}
	if ctx.Err() == nil {
		return d.noteFailure(i.record, err)
	}
	failed := d.discardFolder(w.Instance)
	if failed == nil {
		d.returnUser(w.Instance)
	}
	return errors.Join(err, failed)
}

// awaitCommand waits until the gate of i, which has been released, has become the command.
// If it ends before that, the instance is in ERROR; if ctx ends first, List shows ACTIVE:
// a release cannot be withdrawn.
func (d *Driver) awaitCommand(ctx context.Context, i *instance) error {
	t := time.NewTicker(releaseEvery)
	defer t.Stop()
	for !d.isReleased(i.Instance) {
		select {
		case <-t.C:
		case <-i.gone:
			if d.isReleased(i.Instance) {
				return nil
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			return fmt.Errorf("the command was not let go: %s", i.Fault)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-d.closed:
			return errClosed
		}
	}
	return nil
}

// findKnown returns the instance if it runs already, nil if it is unknown, and otherwise
// the reason why it cannot be started.
func (d *Driver) findKnown(host api.HostID, id api.InstanceID) (*instance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.all[id]
	switch {
	case d.shut:
		return nil, errClosed
	case i == nil || i.Host == host && i.Status == api.StatusActive:
		return i, nil
	case i.Host != host:
		return nil, fmt.Errorf("the instance is on host %s", i.Host)
	case i.Status == api.StatusError:
		return nil, errors.New(i.Fault)
	}
	return nil, driver.ErrEnded
}

// noteFailure records an instance that could not be started, and returns the reason.
func (d *Driver) noteFailure(r record, why error) error {
	r.Status, r.Fault, r.PID, r.Start = api.StatusError, driver.Reason(why), 0, 0
	if _, err := d.root.Stat(string(r.Instance)); errors.Is(err, fs.ErrNotExist) {
		_ = d.root.Mkdir(string(r.Instance), 0o700) // if it cannot be made, saving fails
	}
	if err := saveRecord(d.root, r); err != nil {
		d.conf.Log.Warn("record cannot be written", "instance", r.Instance, "err", err)
	}
	d.addInstance(endedInstance(r))
	return why
}

// endedInstance returns an instance without a process.
func endedInstance(r record) *instance {
	i := &instance{record: r, gone: make(chan struct{})}
	close(i.gone)
	return i
}

// addInstance adds an instance, and watches it if it has a process.
func (d *Driver) addInstance(i *instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[i.Instance] = i
	delete(d.lent, i.Instance) // its record says whose it is
	if i.pidfd == nil {
		return
	}
	if d.shut {
		_ = i.pidfd.Close() // nothing was written through it
		return
	}
	d.watches.Go(func() { d.watchProcess(i) })
}

// List returns every instance that has a folder, by id. See driver.Driver.
func (d *Driver) List(context.Context) ([]driver.State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return nil, errClosed
	}
	states := make([]driver.State, 0, len(d.all))
	for _, i := range d.all {
		s := i.stateOf()
		s.Volumes = i.volumes
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b driver.State) int {
		return strings.Compare(string(a.Instance), string(b.Instance))
	})
	return states, nil
}

// stateOf returns the state of a record for List.
func (r record) stateOf() driver.State {
	return driver.State{Host: r.Host, Instance: r.Instance, Status: r.Status, Fault: r.Fault, Fenced: r.Fenced, Runs: r.Runs}
}

// Changed gets a value after a process has ended by itself.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

// Needs is the command of a flavor.
func (d *Driver) Needs() api.Needs { return api.Needs{Command: true} }

// Describe describes where processes run and the limits on them and on volumes.
func (d *Driver) Describe() string {
	return "process: in " + d.conf.Dir + "; " + d.groups.String() + "; " + d.describeVolumes()
}
