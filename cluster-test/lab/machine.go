package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/await"
)

// Kind is the kind of machines that processes run on.
type Kind int

// The kinds of machines.
const (
	Plain      Kind = iota // this machine: folders, and free ports of addresses of 127.0.0.0/8
	Loopback               // folders, and addresses of 127.0.0.0/8 behind a proxy that can be cut
	Namespaces             // a network namespace and a disk each; needs root
)

// String returns the kind's name.
func (k Kind) String() string { return [...]string{"plain", "loopback", "namespaces"}[k] }

// syscallKill ends a process at once.
const syscallKill = syscall.SIGKILL

// Errors of faults.
var (
	ErrNoDisk = errors.New("lab: the machine has no disk of its own")
	ErrNoWire = errors.New("lab: machines of this kind share their wires")
)

// Best returns Namespaces if this process has the rights, and otherwise Loopback, and logs
// the reason.
func Best(t *testing.T) Kind {
	t.Helper()
	if err := mayNamespaces(); err != nil {
		t.Logf("machines are loopback addresses with a proxy, and have no disks: %v", err)
		return Loopback
	}
	t.Log("machines are network namespaces with disks of their own")
	return Namespaces
}

// Environment variables with the requirements of a run. CI sets the first; the second
// cancels it on systems without separate machines.
const (
	needVar    = "BERTH_NEED_MACHINES"
	withoutVar = "BERTH_CHAOS_WITHOUT"
)

// Need skips the test unless this process may have Namespaces. It fails instead if
// the environment says that there must be some.
func Need(t *testing.T) {
	t.Helper()
	if err := mayNamespaces(); err != nil {
		if os.Getenv(needVar) != "" && os.Getenv(withoutVar) == "" {
			t.Fatalf("%s is set, and there are no network namespaces and loop devices: %v", needVar, err)
		}
		t.Skipf("needs network namespaces and loop devices: %v", err)
	}
}

// MayNamespaces returns the reason why this process may not have Namespaces, nil if it may.
func MayNamespaces() error { return mayNamespaces() }

// mayNamespaces returns the reason why there can be no namespaces and disks.
var mayNamespaces = sync.OnceValue(func() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	for _, tool := range []string{"ip", "nft", "mkfs.ext4"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("a tool is missing: %w", err)
		}
	}
	if _, err := os.Stat(loopControl); err != nil {
		return fmt.Errorf("no loop devices: %w", err)
	}
	ns, err := newNamespace()
	if err != nil {
		return err
	}
	return ns.Close()
})

// Machine is the place of one service. The methods that break it return ErrNoDisk or
// ErrNoWire if its kind has no disk or wire.
type Machine struct {
	Name string
	Addr string // its IPv4 address
	Dir  string // of its disk

	w     *World
	ports []string // of a node in a Loopback world
	ns    *os.File // its network namespace; nil for that of this process
	disk  *disk    // nil if it has none of its own

	mu       sync.Mutex // guards what follows
	services []*Service
	broken   []span    // when its disk was
	unread   []excerpt // of logs, from where its disk was gone
}

// span is how long a disk was broken; it still is if until is zero.
type span struct{ from, until time.Time }

// excerpt is a part of a log.
type excerpt struct {
	log         string
	from, until int64
}

// lateMax is how long after the repair of its disk a process may end because of an earlier
// failure.
const lateMax = 10 * time.Second

// noteBroken records that the disk is broken from now on.
func (m *Machine) noteBroken() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = append(m.broken, span{from: time.Now()})
}

// noteMended records that the disk works again.
func (m *Machine) noteMended() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.broken {
		if m.broken[i].until.IsZero() {
			m.broken[i].until = time.Now()
		}
	}
}

// wasBroken reports whether the disk was broken by a test at a moment, or shortly
// before.
func (m *Machine) wasBroken(at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.broken, func(s span) bool {
		return !at.Before(s.from) && (s.until.IsZero() || at.Sub(s.until) <= lateMax)
	})
}

// withoutDiskErrors returns the text of a log without what Go says when a page of a mapped
// file cannot be read, where that was said while the power was cut.
func (m *Machine) withoutDiskErrors(log string, text []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []byte
	next := 0
	for _, e := range m.unread {
		if from, until := int(e.from), min(int(e.until), len(text)); e.log == log && from <= until {
			out = append(out, text[next:from]...)
			out = append(out, bytes.ReplaceAll(text[from:until], []byte("fatal error: fault"), nil)...)
			next = until
		}
	}
	return append(out, text[next:]...)
}

// Machine makes a machine. Names are unique within a world.
func (w *World) Machine(name string) (*Machine, error) {
	m := &Machine{Name: name, Dir: filepath.Join(w.Dir, name), w: w}
	if err := os.Mkdir(m.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making machine %s: %w", name, err)
	}
	if err := w.net.plug(m); err != nil {
		return nil, fmt.Errorf("wiring machine %s: %w", name, err)
	}
	w.mu.Lock()
	w.machines = append(w.machines, m)
	w.mu.Unlock()
	if err := w.wires.admitMachine(m); err != nil {
		return nil, err
	}
	if w.opts.Machines != Namespaces {
		return m, nil
	}
	size := w.opts.DiskBytes
	if size == 0 {
		size = DiskBytes
	}
	var err error
	if m.disk, err = newDisk(filepath.Join(w.Dir, name+".img"), m.Dir, size); err != nil {
		return nil, fmt.Errorf("the disk of machine %s: %w", name, err)
	}
	return m, nil
}

// Machines returns all machines, in the order of their making.
func (w *World) Machines() []*Machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*Machine(nil), w.machines...)
}

// addService adds a service that runs here.
func (m *Machine) addService(name string) *Service {
	s := &Service{Name: name, Machine: m, w: m.w}
	s.Env = []string{"BERTH_CRASH_FILE=" + s.crashFile()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services = append(m.services, s)
	return s
}

// thawDisk ends the hang of a disk.
func (m *Machine) thawDisk() error {
	if m.disk == nil {
		return nil
	}
	return m.disk.thaw()
}

// close releases the system resources of the machine. Nothing runs there any more.
func (m *Machine) close() error {
	var errs []error
	if m.disk != nil {
		errs = append(errs, m.disk.close())
	}
	if m.ns != nil {
		errs = append(errs, m.ns.Close())
	}
	return errors.Join(errs...)
}

// PowerCut makes the disk refuse everything from now on, with only durable data kept, and
// kills all processes here. It returns when they have ended. Then call Remount and start
// the services again.
func (m *Machine) PowerCut() error {
	if m.disk == nil {
		return ErrNoDisk
	}
	m.mu.Lock()
	services := append([]*Service(nil), m.services...)
	m.mu.Unlock()
	m.noteBroken()
	var logs []excerpt
	for _, s := range services {
		if p := s.newestProcess(); p != nil {
			logs = append(logs, excerpt{log: p.Log, from: sizeOf(p.Log)})
		}
	}
	if err := m.disk.shutdown(); err != nil {
		return err
	}
	for _, s := range services {
		if p := s.stopRestarts(); p != nil {
			p.kill()
		}
	}
	for i := range logs {
		logs[i].until = sizeOf(logs[i].log)
	}
	m.mu.Lock()
	m.unread = append(m.unread, logs...)
	m.mu.Unlock()
	return killInstances(m.Dir)
}

// sizeOf returns the length of a file, 0 if there is none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Remount mounts the disk again, which replays its journal. Nothing runs here.
func (m *Machine) Remount() error {
	if m.disk == nil {
		return ErrNoDisk
	}
	// Who unshares its mounts at this moment has a copy of this one, until it lets go.
	return await.Wait(context.Background(), func(context.Context) error { return m.tryRemount() })
}

// tryRemount is Remount unless somebody has a copy of the mount.
func (m *Machine) tryRemount() error {
	if err := errors.Join(m.disk.unmount(), m.disk.mount()); err != nil {
		return err
	}
	// Another mount namespace may still use the file system that was shut down, and a mount
	// then returns the same one: that is not a power cut.
	root, err := os.Open(m.Dir)
	if err == nil {
		err = errors.Join(root.Sync(), root.Close())
	}
	if err != nil {
		return fmt.Errorf("the disk of %s was not let go, perhaps by a process that has unshared its mounts: %w", m.Name, err)
	}
	m.noteMended()
	return nil
}

// Hang makes every write to the disk wait until Unhang. A process that waits for it
// cannot end.
func (m *Machine) Hang() error {
	if m.disk == nil {
		return ErrNoDisk
	}
	m.noteBroken()
	return m.disk.freeze()
}

// Unhang ends Hang; without it, it does nothing.
func (m *Machine) Unhang() error {
	if m.disk == nil {
		return ErrNoDisk
	}
	defer m.noteMended()
	return m.disk.thaw()
}

// Fill takes all room that is left on the disk.
func (m *Machine) Fill() error {
	if m.disk == nil {
		return ErrNoDisk
	}
	m.noteBroken()
	return m.disk.fillUp()
}

// Space frees the room that Fill took.
func (m *Machine) Space() error {
	if m.disk == nil {
		return ErrNoDisk
	}
	defer m.noteMended()
	return m.disk.space()
}

// Dial connects to an address from where clients are.
func (w *World) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return w.Clients.Dial(ctx, addr)
}

// Dial connects to an address from this machine. In a Loopback world whoever dials
// from this process is taken for a client.
func (m *Machine) Dial(ctx context.Context, addr string) (net.Conn, error) {
	var conn net.Conn
	err := runInside(m.ns, func() error {
		var d net.Dialer
		var err error
		conn, err = d.DialContext(ctx, "tcp", addr)
		return err
	})
	return conn, err
}

// Listen listens at a port of a machine's address, 0 for a free one.
func (m *Machine) Listen(ctx context.Context, port int) (net.Listener, error) {
	var ln net.Listener
	err := runInside(m.ns, func() error {
		var lc net.ListenConfig
		var err error
		ln, err = lc.Listen(ctx, "tcp", fmt.Sprintf("%s:%d", m.Addr, port))
		return err
	})
	return ln, err
}

// ioctl makes an ioctl system call.
func ioctl(fd uintptr, request uintptr, arg uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, arg); errno != 0 {
		return errno
	}
	return nil
}
