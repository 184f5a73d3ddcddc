package operate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/cluster-test/lab"
	"berth/internal/await"
)

// town is a network with machines on it, which nothing outside can see.
type town struct {
	t        *testing.T
	bin      string // the binary
	logs     string
	bridge   *os.Process // a process in the namespaces of the network
	machines map[string]*machine
}

// machine has a network stack, a host name and the folders of an operator and of Berth of its own.
type machine struct {
	*town
	name    string
	process *os.Process         // in the namespaces of the machine
	running map[string]*program // by the folder of the node or the agent
	admin   string              // address of the admin listener of its node
	units   map[string]string   // what a supervisor would start, by the name of its unit
	clock   string              // how far its clock is off, such as -48h; only in a town with the tag chaos
}

// program is a node or an agent that runs until it is stopped.
type program struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// newTown makes an empty network, for a binary with these tags.
func newTown(t *testing.T, tags ...string) *town {
	t.Helper()
	bin, err := lab.BuildBinary(tags...)
	require.NoError(t, err)
	w := &town{t: t, bin: bin, logs: t.TempDir(), machines: map[string]*machine{}}
	w.bridge = w.hold("unshare", "--net", "--mount")
	w.enter(w.bridge, "ip link add br0 type bridge && ip link set br0 up && ip link set lo up")
	return w
}

// hold starts a process that does nothing, in namespaces of its own, until the test ends.
func (w *town) hold(unshare ...string) *os.Process {
	w.t.Helper()
	c := exec.CommandContext(context.Background(), unshare[0], append(unshare[1:], "sh", "-c", "echo; exec sleep infinity")...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, c.Start())
	w.t.Cleanup(func() {
		killWithin(c.Process.Pid) // instances outlive their agent
		_ = c.Process.Kill()      // it is killed by nobody else
		_ = c.Wait()
	})
	_, err = out.Read(make([]byte, 1)) // it is in its namespaces now
	require.NoError(w.t, err)
	// Disks of other tests are mounted in the copy too, and could not be taken away there.
	// One is gone by itself when its test ends at this moment and removes the folder.
	w.enter(c.Process, `
awk '$5 ~ /berth-lab/ {print $5}' /proc/self/mountinfo | xargs -r umount -l || true
awk '$5 ~ /berth-lab/ {print "still mounted:", $5; left = 1} END {exit left}' /proc/self/mountinfo
`)
	return c.Process
}

// killWithin kills all processes in the network of a process.
func killWithin(pid int) {
	network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	all, globErr := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil || globErr != nil {
		return // it has ended
	}
	for _, path := range all {
		if its, err := os.Readlink(path); err == nil && its == network {
			var found int
			_, _ = fmt.Sscanf(path, "/proc/%d/", &found)
			_ = syscall.Kill(found, syscall.SIGKILL) // it may end at this very moment
		}
	}
}

// enter runs a script in the namespaces of a process.
func (w *town) enter(p *os.Process, script string) {
	w.t.Helper()
	c := within(context.Background(), p, "sh", "-ec", script)
	out, err := c.CombinedOutput()
	require.NoError(w.t, err, "%s\n%s", script, out)
}

// within is a command in the namespaces of a process.
func within(ctx context.Context, p *os.Process, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(p.Pid), "--net", "--mount", "--uts"}, args...)...)
}

// machine makes a machine with an address, or returns it.
func (w *town) machine(name, address string) *machine {
	w.t.Helper()
	if m := w.machines[name]; m != nil {
		return m
	}
	m := &machine{town: w, name: name, process: w.hold("unshare", "--net", "--mount", "--uts"), running: map[string]*program{}, units: map[string]string{}, admin: "127.0.0.1:7604"}
	w.machines[name] = m
	w.enter(w.bridge, fmt.Sprintf("ip link add to-%[1]s type veth peer name eth0 netns %[2]d && ip link set to-%[1]s master br0 up", name, m.process.Pid))
	w.enter(m.process, fmt.Sprintf(`
ip link set lo up
ip addr add %s/8 dev eth0
ip link set eth0 up
hostname %s
cp -a /etc /tmp/etc.$$
for d in /root /var/lib /var/backups /usr/local/bin /etc; do mount -t tmpfs none $d; done
cp -a /tmp/etc.$$/. /etc
rm -rf /tmp/etc.$$
touch /usr/local/bin/berth
mount --bind %s /usr/local/bin/berth
`, address, name, w.bin))
	w.t.Cleanup(func() {
		for dir := range m.running {
			m.stop(dir)
		}
	})
	return m
}

// lineMax ends a line that hangs. None takes a tenth of that.
const lineMax = 10 * time.Minute

// try runs a line as an operator does who is root on the machine: in his folder, with what he has exported so far.
// It returns what was printed on standard output and on standard error.
func (m *machine) try(line string) (stdout, both string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lineMax)
	defer cancel()
	c := within(ctx, m.process, "bash", "-c", "cd /root && umask 077 && { [ ! -e .env ] || . ./.env; } && export BERTH_CLOCK="+m.clock+" && "+line+"\nrc=$?; export -p > /root/.env; exit $rc")
	var out bytes.Buffer
	var all joined
	c.Stdout, c.Stderr = io.MultiWriter(&out, &all), &all
	err = c.Run()
	return out.String(), all.String(), err
}

// joined collects what several streams write at once.
type joined struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (j *joined) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *joined) String() string { return j.text.String() }

// do is try of a line that must succeed. It returns what was printed on standard output. While the zone has no
// leader, the line is repeated, as it says itself.
func (m *machine) do(line string) string {
	m.t.Helper()
	var out, all string
	var err error
	await.Until(m.t, m.name+"$ "+line, func(context.Context) error {
		if out, all, err = m.try(line); err != nil && strings.Contains(all, " (unavailable, ") {
			return fmt.Errorf("%w: %s", err, all)
		}
		return nil
	})
	m.t.Logf("%s$ %s\n%s", m.name, line, all)
	require.NoError(m.t, err, "%s$ %s\n%s", m.name, line, all)
	return out
}

// until repeats a line until it succeeds and prints what is wanted.
func (m *machine) until(line, prints string) {
	m.t.Helper()
	await.Until(m.t, m.name+"$ "+line, func(context.Context) error {
		out, all, err := m.try(line)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s", err, all)
		case !strings.Contains(out, prints):
			return fmt.Errorf("%q is not in: %s", prints, all)
		}
		return nil
	})
}

// environment is that of a process that starts now.
func (m *machine) environment() []string {
	return append(os.Environ(), "BERTH_CLOCK="+m.clock, "BERTH_TIMING="+lab.Patience.String())
}

// journal is the file with what the programs of a unit have logged.
func (m *machine) journal(unit string) string { return filepath.Join(m.logs, m.name+"-"+unit) }

// unitOf returns the name of the unit of a line.
func unitOf(line string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(line, "berth "), " ")
	return "berth-" + kind
}

// start runs a line that goes on until it is stopped: a node or an agent of one folder.
func (m *machine) start(line string) *program {
	m.t.Helper()
	p := &program{log: m.journal(unitOf(line)), done: make(chan struct{})}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(m.t, err)
	m.units[unitOf(line)] = line
	p.cmd = within(context.Background(), m.process, "bash", "-c", "cd /root && umask 077 && exec "+line)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = f, f, m.environment()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(m.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // what it says is in its log
		_ = f.Close()
		close(p.done)
	}()
	dir := dirOf(line)
	require.Nil(m.t, m.running[dir], "%s runs on %s already", dir, m.name)
	m.running[dir] = p
	m.t.Logf("%s$ %s &", m.name, line)
	m.t.Cleanup(func() {
		if m.t.Failed() {
			if b, err := os.ReadFile(p.log); err == nil {
				m.t.Logf("log of %s$ %s\n%s", m.name, line, b[max(0, len(b)-8<<10):])
			}
		}
	})
	return p
}

// dirOf returns the folder in a line.
func dirOf(line string) string {
	_, rest, _ := strings.Cut(line, "--dir ")
	dir, _, _ := strings.Cut(rest, " ")
	return dir
}

// kill ends a node or an agent as a power cut does; stop asks it to end.
func (m *machine) kill(dir string) { m.end(dir, syscall.SIGKILL) }
func (m *machine) stop(dir string) { m.end(dir, syscall.SIGTERM) }

func (m *machine) end(dir string, sig syscall.Signal) {
	m.t.Helper()
	p := m.running[dir]
	require.NotNil(m.t, p, "nothing runs in %s on %s", dir, m.name)
	delete(m.running, dir)
	_ = p.cmd.Process.Signal(sig)                                          // it may have ended
	ends := await.Wait(context.Background(), func(context.Context) error { // also when the test is over
		select {
		case <-p.done:
			return nil
		default:
			return fmt.Errorf("%s on %s does not end", dir, m.name)
		}
	})
	if ends != nil {
		m.t.Error(ends)
		_ = p.cmd.Process.Kill()
	}
}

// copy copies a file of the operator to another machine.
func (m *machine) copy(file string, to *machine, as string) {
	m.t.Helper()
	out := m.do("base64 -w0 " + file)
	to.do("echo " + out + " | base64 -d > " + as)
}
