package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// silence is how long nothing must come through a cut.
const silence = 300 * time.Millisecond

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

// hears reports whether what src sends arrives at dst within d.
func hears(t *testing.T, src, dst net.Conn, d time.Duration) bool {
	t.Helper()
	_, err := src.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, dst.SetReadDeadline(time.Now().Add(d)))
	_, err = io.ReadFull(dst, make([]byte, 1))
	return err == nil
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
	require.True(t, hears(t, a, b, StartTimeout))

	// Each way of a connection needs the other one for acknowledgements, so what
	// passes is seen in datagrams.
	hear := func(from, to *Machine) bool {
		var got net.PacketConn
		require.NoError(t, runInside(to.ns, func() (err error) {
			got, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", to.Addr+":0")
			return err
		}))
		defer got.Close()
		require.NoError(t, runInside(from.ns, func() error {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "udp", got.LocalAddr().String())
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte{1})
			return err
		}))
		require.NoError(t, got.SetReadDeadline(time.Now().Add(silence)))
		_, _, err := got.ReadFrom(make([]byte, 1))
		return err == nil
	}
	require.NoError(t, w.CutOneWay(m[0], m[1]))
	assert.False(t, hear(m[0], m[1]), "this direction is cut")
	assert.True(t, hear(m[1], m[0]), "the other one is not")
	assert.True(t, hear(w.Clients, m[1]), "others are heard")
	assert.False(t, hears(t, a, b, silence), "also where they were connected")
	n, err := w.Dropped(m[1])
	require.NoError(t, err)
	assert.GreaterOrEqual(t, n, uint64(2), "what was dropped is counted")

	require.NoError(t, w.Heal())
	assert.True(t, hear(m[0], m[1]))
	require.NoError(t, b.SetReadDeadline(time.Now().Add(StartTimeout)))
	_, err = io.ReadFull(b, make([]byte, 1))
	require.NoError(t, err, "what was sent meanwhile arrives after all")
}

func TestShapesOfCuts(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 5)
	reach := func() string {
		said := make([]bool, len(m)*len(m))
		var all sync.WaitGroup
		for i := range said {
			all.Go(func() {
				ln, err := m[i%len(m)].Listen(t.Context(), 0)
				if err != nil {
					t.Error(err)
					return
				}
				defer ln.Close()
				ctx, cancel := context.WithTimeout(t.Context(), silence)
				defer cancel()
				conn, err := m[i/len(m)].Dial(ctx, ln.Addr().String())
				if err == nil {
					said[i] = true
					_ = conn.Close()
				}
			})
		}
		all.Wait()
		var out strings.Builder
		for i, yes := range said {
			if i > 0 && i%len(m) == 0 {
				out.WriteByte(' ')
			}
			out.WriteString(map[bool]string{true: "x", false: "."}[yes])
		}
		return out.String()
	}
	require.NoError(t, w.Isolate(m[1]))
	assert.Equal(t, "x.xxx .x... x.xxx x.xxx x.xxx", reach())
	require.NoError(t, w.Heal())
	assert.Equal(t, "xxxxx xxxxx xxxxx xxxxx xxxxx", reach())
}

func TestVanish(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 3)
	a, b := connect(t, m[0], m[1])
	own, self := connect(t, m[1], m[1])
	require.True(t, hears(t, a, b, StartTimeout))
	require.NoError(t, w.Vanish(m[1]))
	assert.False(t, hears(t, a, b, silence), "nothing reaches it, also where it was connected")
	assert.False(t, hears(t, b, a, silence), "and nothing comes from it")
	assert.True(t, hears(t, own, self, StartTimeout), "it does not know")
	for _, from := range []*Machine{m[0], w.Clients} {
		ctx, cancel := context.WithTimeout(t.Context(), silence)
		_, err := from.Dial(ctx, m[1].Addr+":1")
		cancel()
		require.ErrorContains(t, err, "i/o timeout", "nobody says that nobody listens")
	}
	n, err := w.Dropped(m[1])
	require.NoError(t, err)
	assert.Positive(t, n)
	others, far := connect(t, m[0], m[2])
	assert.True(t, hears(t, others, far, StartTimeout), "the others have one another")

	require.NoError(t, w.Cut(m[0], m[2]))
	require.NoError(t, w.Return(m[1]))
	require.NoError(t, b.SetReadDeadline(time.Now().Add(StartTimeout)))
	_, err = io.ReadFull(b, make([]byte, 1))
	require.NoError(t, err, "what was sent meanwhile arrives after all")
	assert.False(t, hears(t, others, far, silence), "what was cut stays so")
	require.NoError(t, w.Vanish(m[1]))
	require.NoError(t, w.Heal())
	a, b = connect(t, m[2], m[1])
	assert.True(t, hears(t, a, b, StartTimeout), "all is well again")

	plain := New(t, Options{})
	require.ErrorIs(t, plain.Vanish(plain.Clients), ErrNoWire)
}

func TestSlow(t *testing.T) {
	t.Parallel()
	Need(t)
	w := New(t, Options{Machines: Namespaces})
	m := machines(t, w, 2)
	send := func() time.Duration {
		a, b := connect(t, m[0], m[1])
		began := time.Now()
		go func() { _, _ = a.Write(make([]byte, 200<<10)) }() // the reader sees whether it came
		require.NoError(t, b.SetReadDeadline(time.Now().Add(StartTimeout)))
		_, err := io.ReadFull(b, make([]byte, 200<<10))
		require.NoError(t, err)
		return time.Since(began)
	}
	require.NoError(t, w.Slow(m[0], 200<<10))
	slow := send()
	assert.Greater(t, slow, 500*time.Millisecond)
	waited, err := w.Delayed(m[0])
	require.NoError(t, err)
	assert.Positive(t, waited)
	require.NoError(t, w.Fast(m[0]))
	assert.Less(t, send(), slow)
	require.NoError(t, w.Slow(m[0], 200<<10))
	require.NoError(t, w.Heal())
	require.NoError(t, w.Fast(m[0]), "it is fast already")
	assert.Less(t, send(), slow)
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
	require.NotEqual(t, m.Addr, hiddenAddr(m.Addr))
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", hiddenAddr(m.Addr)+":7602")
	require.NoError(t, err)
	defer ln.Close()
	a, err := w.Dial(t.Context(), m.Addr+":7602")
	require.NoError(t, err)
	defer a.Close()
	b, err := ln.Accept()
	require.NoError(t, err)
	defer b.Close()
	require.True(t, hears(t, a, b, StartTimeout))
	require.True(t, hears(t, b, a, StartTimeout))

	require.NoError(t, w.CutOneWay(w.Clients, m))
	assert.False(t, hears(t, a, b, silence), "this direction is cut")
	assert.True(t, hears(t, b, a, StartTimeout), "the other one is not")
	n, err := w.Dropped(m)
	require.NoError(t, err)
	assert.Equal(t, uint64(1), n)
	require.NoError(t, w.Heal())
	require.NoError(t, b.SetReadDeadline(time.Now().Add(StartTimeout)))
	_, err = io.ReadFull(b, make([]byte, 1))
	require.NoError(t, err, "what was sent meanwhile arrives after all")

	require.NoError(t, w.Cut(w.Clients, m))
	assert.False(t, hears(t, a, b, silence))
	assert.False(t, hears(t, b, a, silence))
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
	assert.Zero(t, users(t, spaces[0]), "somebody is still in the namespace")
	text, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	assert.NotContains(t, string(text), dir)
	assert.NoDirExists(t, dir)
	back, err := os.ReadFile("/sys/block/" + filepath.Base(loop) + "/loop/backing_file")
	if err == nil {
		assert.NotContains(t, string(back), dir, "the loop device is given back")
	}
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
