package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/node"
)

// Limits of loopback addresses and of the proxy.
const (
	pieceBytes = 16 << 10 // to pass at once
	looksMax   = 20       // at the list of all sockets: it may lack one that is there while others come and go
	lookPause  = 5 * time.Millisecond
	hiddenLast = ".2" // of the address at which a process listens
	publicLast = ".1" // of the address at which others reach it
)

// portsOfNode is how many ports a node listens at: those of node.Addresses, in their order here.
const portsOfNode = 5

// hidden returns where the process of a node on m listens, and public where others reach it: its admin
// listener is not behind the proxy.
func (m *Machine) hidden() node.Addresses { return m.addressesAt(hiddenAddr(m.Addr)) }

func (m *Machine) public() node.Addresses {
	a := m.addressesAt(m.Addr)
	a.Admin = m.hidden().Admin
	return a
}

func (m *Machine) addressesAt(host string) node.Addresses {
	at := func(i int) string { return net.JoinHostPort(host, m.ports[i]) }
	return node.Addresses{API: at(0), Gateway: at(1), Node: at(2), Agent: at(3), Admin: at(4)}
}

// hiddenAddr returns the listening address of the process behind a public address.
func hiddenAddr(public string) string { return strings.TrimSuffix(public, publicLast) + hiddenLast }

// loopback has machines at 127.x.y.1, where a proxy listens, and at 127.x.y.2, where their
// processes listen. The proxy identifies callers by the process at the other end. A cut
// holds back bytes, like a wire that loses them and is mended; unlike there, a connection
// can be opened, and is then silent.
type loopback struct {
	w    *World
	stop context.CancelFunc
	ctx  context.Context //nolint:containedctx // the life of the proxy, which close ends
	busy sync.WaitGroup

	mu      sync.Mutex    // guards what follows
	changed chan struct{} // closed when a cut changes
	deaf    map[*Machine]map[*Machine]bool
	rate    map[*Machine]int
	held    map[*Machine]uint64
}

func newLoopback(w *World) *loopback {
	ctx, stop := context.WithCancel(context.Background())
	return &loopback{
		w: w, ctx: ctx, stop: stop, changed: make(chan struct{}),
		deaf: map[*Machine]map[*Machine]bool{}, rate: map[*Machine]int{}, held: map[*Machine]uint64{},
	}
}

// plug listens at an address, at ports that are free there. The process will listen at the same
// ports of the address beside it, which nobody else draws.
func (l *loopback) plug(m *Machine) error {
	m.Addr = l.unusedAddr()
	for range portsOfNode {
		var lc net.ListenConfig
		ln, err := lc.Listen(l.ctx, "tcp", net.JoinHostPort(m.Addr, "0"))
		if err != nil {
			return fmt.Errorf("listening at a loopback address: %w", err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String()) // it is a TCP address
		m.ports = append(m.ports, port)
		l.busy.Go(func() { l.acceptPort(m, ln) })
	}
	return nil
}

// unusedAddr draws an address that no other machine of this world has.
func (l *loopback) unusedAddr() string {
	for {
		addr := fmt.Sprintf("127.%d.%d%s", 1+rand.N(250), rand.N(250), publicLast)
		if !slices.ContainsFunc(l.w.Machines(), func(m *Machine) bool { return m.Addr == addr }) {
			return addr
		}
	}
}

func (l *loopback) deafen(to *Machine, from []*Machine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf[to] = map[*Machine]bool{}
	for _, m := range from {
		l.deaf[to][m] = true
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

func (*loopback) lose(*Machine, int) error { return ErrNoWire }

func (*loopback) double(*Machine, int) error { return ErrNoWire }

func (*loopback) doubled(*Machine) (uint64, error) { return 0, ErrNoWire }

func (l *loopback) slow(m *Machine, bytesPerSecond int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate[m] = bytesPerSecond
	return nil
}

func (l *loopback) delayed(*Machine) (uint64, error) { return 0, ErrNoWire }

func (l *loopback) dropped(m *Machine) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[m], nil
}

func (l *loopback) close() error {
	l.stop()
	l.busy.Wait()
	return nil
}

// acceptPort serves one port of a machine until the proxy is closed.
func (l *loopback) acceptPort(m *Machine, ln net.Listener) {
	stop := context.AfterFunc(l.ctx, func() { _ = ln.Close() })
	defer stop()
	_, port, _ := net.SplitHostPort(ln.Addr().String()) // it is a TCP address
	for {
		conn, err := ln.Accept()
		if err != nil {
			if l.ctx.Err() == nil {
				l.w.failAtEnd(fmt.Errorf("the proxy of %s: %w", m.Name, err))
			}
			return
		}
		l.busy.Go(func() { l.serveCaller(m, port, conn) })
	}
}

// serveCaller connects one caller with the process that it called, and closes both ends when
// one of them ends.
func (l *loopback) serveCaller(to *Machine, port string, caller net.Conn) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = caller.Close() })
	from, err := l.callerOf(caller)
	if err != nil {
		return // it has hung up
	}
	if l.awaitPassage(ctx, from, to, 0) != nil {
		return
	}
	var d net.Dialer
	called, err := d.DialContext(ctx, "tcp", net.JoinHostPort(hiddenAddr(to.Addr), port))
	if err != nil {
		return // nobody listens
	}
	context.AfterFunc(ctx, func() { _ = called.Close() })
	var both sync.WaitGroup
	both.Go(func() { defer cancel(); l.copyBytes(ctx, called, caller, from, to) })
	both.Go(func() { defer cancel(); l.copyBytes(ctx, caller, called, to, from) })
	both.Wait()
}

// copyBytes copies bytes from from to to, until either end is closed.
func (l *loopback) copyBytes(ctx context.Context, dst io.Writer, src io.Reader, from, to *Machine) {
	piece := make([]byte, pieceBytes)
	for {
		n, err := src.Read(piece)
		if n > 0 {
			if l.awaitPassage(ctx, from, to, n) != nil {
				return
			}
			if _, gone := dst.Write(piece[:n]); gone != nil {
				return
			}
		}
		if err != nil {
			// The end, too, has to pass the wire.
			_ = l.awaitPassage(ctx, from, to, 0)
			return
		}
	}
}

// awaitPassage waits while traffic from from to to is cut, and as long as n bytes take.
func (l *loopback) awaitPassage(ctx context.Context, from, to *Machine, n int) error {
	for first := true; ; first = false {
		l.mu.Lock()
		deaf, changed, rate := l.deaf[to][from], l.changed, l.rate[from]
		if deaf && first {
			l.held[to]++
		}
		l.mu.Unlock()
		if !deaf {
			if rate > 0 {
				Pass(ctx, time.Duration(n)*time.Second/time.Duration(rate))
			}
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// callerOf returns the machine whose process has the other end of a connection; if no
// service has it, a client does.
func (l *loopback) callerOf(conn net.Conn) (*Machine, error) {
	theirs, ok := conn.RemoteAddr().(*net.TCPAddr)
	ours, also := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !also {
		return nil, fmt.Errorf("%s is no TCP address", conn.RemoteAddr())
	}
	inode, err := inodeOf(theirs, ours)
	for looks := 1; err != nil && looks < looksMax && l.ctx.Err() == nil; looks++ {
		Pass(l.ctx, lookPause)
		inode, err = inodeOf(theirs, ours)
	}
	if err != nil {
		return nil, err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, p := range l.w.procs {
		if p.running() && hasOpen(p.cmd.Process.Pid, "socket:["+inode+"]") {
			return p.machine, nil
		}
	}
	return l.w.Clients, nil
}

// inodeOf returns the inode of the socket that has one end of a connection over IPv4. It takes both ends to tell
// that: other connections from the same address, at the same port, go elsewhere.
func inodeOf(local, remote *net.TCPAddr) (string, error) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", fmt.Errorf("listing sockets: %w", err)
	}
	var ends []string
	for _, at := range []*net.TCPAddr{local, remote} {
		ip := at.IP.To4()
		if ip == nil {
			return "", fmt.Errorf("%s is not IPv4", at)
		}
		ends = append(ends, fmt.Sprintf("%08X:%04X", binary.LittleEndian.Uint32(ip), at.Port))
	}
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) > 9 && f[1] == ends[0] && f[2] == ends[1] && f[9] != "0" {
			return f[9], nil
		}
	}
	return "", errors.New("the socket is gone")
}

// hasOpen reports whether a process has this file open.
func hasOpen(pid int, file string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && to == file {
			return true
		}
	}
	return false
}
