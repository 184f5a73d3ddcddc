package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// runInside calls f on a thread in a network namespace: processes and sockets that f opens
// are there, and stay there. nil is the namespace of this process.
func runInside(ns *os.File, f func() error) error {
	if ns == nil {
		return f()
	}
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("finding the network namespace: %w", err)
	}
	defer func() { _ = home.Close() }() // nothing was written
	if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering a network namespace: %w", err)
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread is of no use to anybody: it stays locked, and ends with its goroutine.
		return errors.Join(err, fmt.Errorf("leaving a network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// newNamespace returns a new network namespace. It has no name: it ends with the file and
// the last process in it, even if this process is killed.
func newNamespace() (*os.File, error) {
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("finding the network namespace: %w", err)
	}
	defer func() { _ = here.Close() }() // nothing was written
	var ns *os.File
	err = runInside(here, func() error {
		failed := unix.Unshare(unix.CLONE_NEWNET)
		if failed == nil {
			ns, failed = os.Open("/proc/thread-self/ns/net")
		}
		return failed
	})
	if err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	return ns, nil
}

// Limits of addresses: 10.99.x.y, where clients have the first.
const (
	subnet      = "10.99."
	hostsPerNet = 250
	machinesMax = 1000
)

// namespaces are machines on a bridge, each of them and the bridge in a network
// namespace of its own.
type namespaces struct {
	bridge *os.File
	count  int
	client *Machine
}

func newNamespaces(client *Machine) (*namespaces, error) {
	if err := mayNamespaces(); err != nil {
		return nil, err
	}
	bridge, err := newNamespace()
	if err != nil {
		return nil, err
	}
	n := &namespaces{bridge: bridge, client: client}
	if err := runTool(bridge, "link add br0 type bridge\nlink set br0 up\n", "ip", "-batch", "-"); err != nil {
		return nil, errors.Join(err, bridge.Close())
	}
	if err := n.plug(client); err != nil {
		return nil, errors.Join(err, bridge.Close())
	}
	return n, nil
}

// runTool runs a program inside ns with this input.
func runTool(ns *os.File, input string, name string, args ...string) error {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Stdin = strings.NewReader(input)
	return runInside(ns, func() error {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
		}
		return nil
	})
}

// deafness has the rules of one machine: packets from a peer in the set are dropped.
const deafness = `table inet berth {
	set deaf { type ipv4_addr; }
	counter dropped { }
	chain arriving {
		type filter hook input priority 0;
		ip saddr @deaf counter name dropped drop
	}
}
`

func (n *namespaces) plug(m *Machine) error {
	if n.count == machinesMax {
		return fmt.Errorf("a world has at most %d machines", machinesMax)
	}
	var err error
	if m.ns, err = newNamespace(); err != nil {
		return err
	}
	m.Addr = fmt.Sprintf("%s%d.%d", subnet, n.count/hostsPerNet, n.count%hostsPerNet+1)
	port := fmt.Sprintf("port%d", n.count)
	n.count++
	err = errors.Join(
		runTool(m.ns, fmt.Sprintf("link set lo up\nlink add eth0 type veth peer name %s netns /proc/%d/fd/%d\naddr add %s/16 dev eth0\nlink set eth0 up\n",
			port, os.Getpid(), n.bridge.Fd(), m.Addr), "ip", "-batch", "-"),
		runTool(n.bridge, "link set "+port+" master br0 up\n", "ip", "-batch", "-"),
		runTool(m.ns, deafness, "nft", "-f", "-"))
	if err != nil {
		err = errors.Join(err, m.ns.Close())
	}
	return err
}

func (n *namespaces) deafen(to *Machine, from []*Machine) error {
	script := "flush set inet berth deaf\n"
	for _, m := range from {
		script += "add element inet berth deaf { " + m.Addr + " }\n"
	}
	return runTool(to.ns, script, "nft", "-f", "-")
}

func (n *namespaces) lose(m *Machine, percent int) error {
	script := "add chain inet berth losing { type filter hook input priority 1; }\nflush chain inet berth losing\n"
	if percent > 0 {
		script += fmt.Sprintf("add rule inet berth losing iifname eth0 numgen random mod 100 < %d counter name dropped drop\n", percent)
	}
	return runTool(m.ns, script, "nft", "-f", "-")
}

// doubling has the rule of one machine that sends packets twice: the second time to where the first goes.
const doubling = `add table ip berth
add counter ip berth doubled
add chain ip berth leaving { type filter hook output priority 1; }
flush chain ip berth leaving
`

func (n *namespaces) double(m *Machine, percent int) error {
	script := doubling
	if percent > 0 {
		script += fmt.Sprintf("add rule ip berth leaving oifname eth0 numgen random mod 100 < %d counter name doubled dup to ip daddr device eth0\n", percent)
	}
	return runTool(m.ns, script, "nft", "-f", "-")
}

func (n *namespaces) doubled(m *Machine) (uint64, error) {
	return countWith(m, packets, "nft", "list", "counter", "ip", "berth", "doubled")
}

func (n *namespaces) slow(m *Machine, bytesPerSecond int) error {
	if bytesPerSecond == 0 {
		return runTool(m.ns, "", "tc", "qdisc", "del", "dev", "eth0", "root")
	}
	return runTool(m.ns, "", "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf",
		"rate", strconv.Itoa(bytesPerSecond)+"bps", "burst", "16kb", "latency", "400ms")
}

var packets = regexp.MustCompile(`packets (\d+)`)

var overlimits = regexp.MustCompile(`overlimits (\d+)`)

func (n *namespaces) delayed(m *Machine) (uint64, error) {
	return countWith(m, overlimits, "tc", "-s", "qdisc", "show", "dev", "eth0")
}

func (n *namespaces) dropped(m *Machine) (uint64, error) {
	return countWith(m, packets, "nft", "list", "counter", "inet", "berth", "dropped")
}

// countWith runs a tool where m is and returns the number that it prints.
func countWith(m *Machine, number *regexp.Regexp, name string, args ...string) (uint64, error) {
	var out []byte
	err := runInside(m.ns, func() error {
		var err error
		out, err = exec.CommandContext(context.Background(), name, args...).Output()
		return err
	})
	found := number.FindSubmatch(out)
	if err != nil || found == nil {
		return 0, OrElse(err, "%s prints no count: %q", name, out)
	}
	return strconv.ParseUint(string(found[1]), 10, 64)
}

func (n *namespaces) close() error { return errors.Join(n.client.close(), n.bridge.Close()) }
