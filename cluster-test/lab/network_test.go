package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/internal/await"
)

// connect returns both ends of a connection from one machine to another.
func connect(t *testing.T, from, to *Machine) (dialled, accepted net.Conn) {
	t.Helper()
	ln, err := to.Listen(t.Context(), 0)
	require.NoError(t, err)
	defer ln.Close()
	dialled, err = from.Dial(t.Context(), ln.Addr().String())
	require.NoError(t, err)
	accepted, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = dialled.Close(); _ = accepted.Close() })
	return dialled, accepted
}

// hears waits until what src sends arrives at dst.
func hears(t *testing.T, src, dst net.Conn) {
	t.Helper()
	_, err := src.Write([]byte{1})
	require.NoError(t, err)
	arrives(t, dst, 1)
}

// arrives waits until so many bytes come.
func arrives(t *testing.T, dst net.Conn, n int) {
	t.Helper()
	require.NoError(t, dst.SetReadDeadline(time.Now().Add(await.Limit)))
	_, err := io.ReadFull(dst, make([]byte, n))
	require.NoError(t, err)
}

// isDeaf sends from src to dst, which is at a machine, waits until the wire has held something back there, and
// fails if anything came.
func isDeaf(t *testing.T, src, dst net.Conn, at *Machine) {
	t.Helper()
	drops(t, at, func() {
		_, err := src.Write([]byte{1})
		require.NoError(t, err)
	})
	isSilent(t, dst)
}

// isSilent fails if there is something to read.
func isSilent(t *testing.T, dst net.Conn) {
	t.Helper()
	require.NoError(t, dst.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := io.ReadFull(dst, make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// drops waits until the wires have held something back at a machine since the beginning of what is done.
func drops(t *testing.T, at *Machine, does func()) {
	t.Helper()
	before, err := at.w.Dropped(at)
	require.NoError(t, err)
	does()
	await.Until(t, "what was sent to "+at.Name+" is held back", func(context.Context) error {
		now, err := at.w.Dropped(at)
		return cmp.Or(err, orNil(now > before, "nothing more than %d", before))
	})
}

func machines(t *testing.T, w *World, n int) []*Machine {
	t.Helper()
	var out []*Machine
	for i := range n {
		m, err := w.Machine(fmt.Sprintf("m%d", i))
		require.NoError(t, err)
		out = append(out, m)
	}
	return out
}

func TestOneWayCut(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 2)
	a, b := connect(t, m[0], m[1])
	hears(t, a, b)

	// Each way of a connection needs the other one for acknowledgements, so what
	// passes is seen in datagrams.
	listen := func(to *Machine) (got net.PacketConn) {
		require.NoError(t, runInside(to.ns, func() (err error) {
			got, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", to.Addr+":0")
			return err
		}))
		t.Cleanup(func() { _ = got.Close() })
		return got
	}
	say := func(from *Machine, to net.PacketConn) {
		require.NoError(t, runInside(from.ns, func() error {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "udp", to.LocalAddr().String())
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte{1})
			return err
		}))
	}
	heard := func(from, to *Machine) {
		got := listen(to)
		say(from, got)
		require.NoError(t, got.SetReadDeadline(time.Now().Add(await.Limit)))
		_, _, err := got.ReadFrom(make([]byte, 1))
		require.NoError(t, err)
	}
	require.NoError(t, w.CutOneWay(m[0], m[1]))
	got := listen(m[1])
	drops(t, m[1], func() { say(m[0], got) })
	require.NoError(t, got.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, _, err := got.ReadFrom(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "this direction is cut")
	heard(m[1], m[0])      // the other one is not
	heard(w.Clients, m[1]) // others are heard
	isDeaf(t, a, b, m[1])  // also where they were connected

	require.NoError(t, w.Heal())
	heard(m[0], m[1])
	arrives(t, b, 1) // what was sent meanwhile, after all
}

func TestShapesOfCuts(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 5)
	// Of each machine one row, of whom it reaches one column.
	see := func(want string) {
		t.Helper()
		for i, row := range strings.Fields(want) {
			for j, reached := range row {
				ln, err := m[j].Listen(t.Context(), 0)
				require.NoError(t, err)
				if reached == 'x' {
					conn, err := m[i].Dial(t.Context(), ln.Addr().String())
					require.NoError(t, err, "%s to %s", m[i].Name, m[j].Name)
					require.NoError(t, conn.Close())
				} else {
					waitsFor(t, m[i], m[j], ln.Addr().String())
				}
				require.NoError(t, ln.Close())
			}
		}
	}
	require.NoError(t, w.Isolate(m[1]))
	see("x.xxx .x... x.xxx x.xxx x.xxx")
	require.NoError(t, w.Heal())
	see("xxxxx xxxxx xxxxx xxxxx xxxxx")
}

// waitsFor fails unless a call from a machine is held back at another one, and so waits.
func waitsFor(t *testing.T, from, to *Machine, addr string) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	called := make(chan error, 1)
	drops(t, to, func() {
		go func() {
			conn, err := from.Dial(ctx, addr)
			if err == nil {
				_ = conn.Close() // it should not be there
			}
			called <- err
		}()
	})
	select {
	case err := <-called:
		require.Fail(t, "the call has an end", "%s to %s: %v", from.Name, to.Name, err)
	default:
	}
	hangUp()
	require.ErrorContains(t, <-called, "operation was canceled", "nobody says that nobody listens")
}

func TestVanish(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 3)
	a, b := connect(t, m[0], m[1])
	own, self := connect(t, m[1], m[1])
	hears(t, a, b)
	require.NoError(t, w.Vanish(m[1]))
	isDeaf(t, a, b, m[1]) // nothing reaches it, also where it was connected
	isDeaf(t, b, a, m[0]) // and nothing comes from it
	hears(t, own, self)   // it does not know
	for _, from := range []*Machine{m[0], w.Clients} {
		waitsFor(t, from, m[1], m[1].Addr+":1")
	}
	others, far := connect(t, m[0], m[2])
	hears(t, others, far) // the others have one another

	require.NoError(t, w.Cut(m[0], m[2]))
	require.NoError(t, w.Return(m[1]))
	arrives(t, b, 1)             // what was sent meanwhile, after all
	isDeaf(t, others, far, m[2]) // what was cut stays so
	require.NoError(t, w.Vanish(m[1]))
	require.NoError(t, w.Heal())
	a, b = connect(t, m[2], m[1])
	hears(t, a, b) // all is well again

	plain := New(t, Options{})
	require.ErrorIs(t, plain.Vanish(plain.Clients), ErrNoWire)
}

func TestSlow(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 2)
	// What is sent takes as long as the wire wants, and longer only where the machine does.
	send := func() (took time.Duration, waited uint64) {
		a, b := connect(t, m[0], m[1])
		began := time.Now()
		go func() { _, _ = a.Write(make([]byte, 200<<10)) }() // the reader sees whether it came
		arrives(t, b, 200<<10)
		took = time.Since(began)
		waited, err := w.Delayed(m[0])
		require.NoError(t, err)
		return took, waited
	}
	require.NoError(t, w.Slow(m[0], 200<<10))
	took, waited := send()
	assert.Greater(t, took, 500*time.Millisecond)
	assert.Positive(t, waited)
	require.NoError(t, w.Fast(m[0]))
	_, waited = send()
	assert.Zero(t, waited, "nothing had to wait")
	require.NoError(t, w.Slow(m[0], 200<<10))
	require.NoError(t, w.Heal())
	require.NoError(t, w.Fast(m[0]), "it is fast already")
	_, waited = send()
	assert.Zero(t, waited)
}

// TestLose holds that what is sent to a machine which loses packets arrives nevertheless, and that nothing is lost when that is over.
func TestLose(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 2)
	lost := func() uint64 {
		n, err := w.Dropped(m[1])
		require.NoError(t, err)
		return n
	}
	send := func() {
		a, b := connect(t, m[0], m[1])
		go func() { _, _ = a.Write(make([]byte, 1<<20)) }() // the reader sees whether it came
		arrives(t, b, 1<<20)
	}
	send()
	require.Zero(t, lost())
	require.NoError(t, w.Lose(m[1], 10))
	await.Until(t, "something is lost", func(context.Context) error {
		send()
		if lost() == 0 {
			return errors.New("nothing is")
		}
		return nil
	})
	for _, end := range []func() error{func() error { return w.Lose(m[1], 0) }, w.Heal} {
		require.NoError(t, end())
		before := lost()
		send()
		assert.Equal(t, before, lost())
		require.NoError(t, w.Lose(m[1], 10))
	}
	require.ErrorIs(t, New(t, Options{}).Lose(w.Clients, 1), ErrNoWire)
}

// TestDouble holds that what a machine sends twice arrives once, and that nothing is sent twice for long.
func TestDouble(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 2)
	require.NoError(t, w.Double(m[0], 0))
	doubled := func() uint64 {
		n, err := w.Doubled(m[0])
		require.NoError(t, err)
		return n
	}
	send := func() {
		a, b := connect(t, m[0], m[1])
		go func() { // the reader sees whether it came
			_, _ = a.Write(make([]byte, 1<<20))
			_ = a.Close()
		}()
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		assert.Len(t, got, 1<<20, "each byte once")
	}
	send()
	require.Zero(t, doubled())
	for _, end := range []func() error{func() error { return w.Double(m[0], 0) }, w.Heal} {
		require.NoError(t, w.Double(m[0], 50))
		before := doubled()
		await.Until(t, "something is sent twice", func(context.Context) error {
			send()
			if doubled() == before {
				return errors.New("nothing is")
			}
			return nil
		})
		require.NoError(t, end())
		before = doubled()
		send()
		assert.Equal(t, before, doubled())
	}
	require.ErrorIs(t, New(t, Options{}).Double(w.Clients, 1), ErrNoWire)
}

// TestCutsAreCounted holds that faults which cut the same wire do not mend one
// another's.
func TestCutsAreCounted(t *testing.T) {
	t.Parallel()
	w := New(t, Options{Machines: Loopback})
	m := machines(t, w, 2)
	deaf := func() bool { return w.wires.deaf[m[1]][m[0]] > 0 }
	require.NoError(t, w.CutOneWay(m[0], m[1]))
	require.NoError(t, w.Cut(m[0], m[1]))
	require.NoError(t, w.JoinOneWay(m[0], m[1]))
	assert.True(t, deaf(), "one cut is left")
	require.NoError(t, w.JoinOneWay(m[0], m[1]))
	assert.False(t, deaf())
	assert.Positive(t, w.wires.deaf[m[0]][m[1]], "the other way is another wire")
	require.NoError(t, w.Heal())
	require.NoError(t, w.JoinOneWay(m[0], m[1]), "there is nothing to join")
	require.NoError(t, w.CutOneWay(m[0], m[1]))
	assert.True(t, deaf())
}

func TestLoopbackCuts(t *testing.T) {
	t.Parallel()
	w := New(t, Options{Machines: Loopback})
	m := machines(t, w, 1)[0]
	require.NotEqual(t, m.hidden().Node, m.public().Node)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", m.hidden().Node)
	require.NoError(t, err)
	defer ln.Close()
	a, err := w.Dial(t.Context(), m.public().Node)
	require.NoError(t, err)
	defer a.Close()
	b, err := ln.Accept()
	require.NoError(t, err)
	defer b.Close()
	hears(t, a, b)
	hears(t, b, a)

	require.NoError(t, w.CutOneWay(w.Clients, m))
	isDeaf(t, a, b, m) // this direction is cut
	hears(t, b, a)     // the other one is not
	n, err := w.Dropped(m)
	require.NoError(t, err)
	assert.Equal(t, uint64(1), n)
	require.NoError(t, w.Heal())
	arrives(t, b, 1) // what was sent meanwhile, after all

	require.NoError(t, w.Cut(w.Clients, m))
	isDeaf(t, a, b, m)
	isDeaf(t, b, a, w.Clients)
}

// TestNothingIsLeft looks for what a world took from the operating system after
// its end.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	Need(t)
	var dir, loop string
	var spaces []string
	t.Run("world", func(t *testing.T) {
		w := New(t, Options{Machines: Namespaces})
		z := w.Zone("solo", 1)
		dir = w.Dir
		m := z.Nodes[0].Machine
		loop = m.disk.loop.Name()
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(int(m.ns.Fd()), &st))
		spaces = append(spaces, fmt.Sprintf("net:[%d]", st.Ino))
		require.Positive(t, users(t, spaces[0]), "the test can see who is there")
		require.NoError(t, z.Nodes[0].Health(t.Context()))
	})
	// The kernel gives back a moment later, and others that start a process have a copy of all files until it runs.
	await.Until(t, "nobody is in the namespace any more", func(context.Context) error {
		n := users(t, spaces[0])
		return orNil(n == 0, "%d are", n)
	})
	text, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	assert.NotContains(t, string(text), dir)
	assert.NoDirExists(t, dir)
	await.Until(t, "the loop device is given back", func(context.Context) error {
		back, err := os.ReadFile("/sys/block/" + filepath.Base(loop) + "/loop/backing_file")
		return orNil(err != nil || !strings.Contains(string(back), dir), "it has %s", back)
	})
}

// users returns how many threads are in a network namespace, and how many files
// hold it open.
func users(t *testing.T, ns string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/task/*/ns/net")
	require.NoError(t, err)
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	require.NoError(t, err)
	n := 0
	for _, l := range append(links, open...) {
		if to, err := os.Readlink(l); err == nil && to == ns {
			n++
		}
	}
	return n
}

// TestInodeOf: two connections may come from one port of one address, if they go to different places.
func TestInodeOf(t *testing.T) {
	t.Parallel()
	shared := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var refused error
		err := c.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		return errors.Join(err, refused)
	}, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	for range 3 {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = ln.Close() })
		conn, err := shared.DialContext(t.Context(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		local, remote := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
		shared.LocalAddr = local
		file, err := conn.(*net.TCPConn).File()
		require.NoError(t, err)
		info, err := file.Stat()
		require.NoError(t, err)
		require.NoError(t, file.Close())
		inode, err := inodeOf(local, remote)
		require.NoError(t, err)
		assert.Equal(t, strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10), inode)
	}
	_, err := inodeOf(&net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv6loopback})
	require.ErrorContains(t, err, "not IPv4")
}
