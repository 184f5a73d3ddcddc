package rogue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
)

// Sizes of a crowd.
const (
	crowdSize    = 4000         // connections at once
	crowdFew     = 240          // of the short form
	crowdWorkers = 32           // of the tenant who asks for too much, at once
	crowdAsks    = api.CountMax // instances of one boot of it: the root and all below have room for a tenth
	crowdEvery   = 50           // boots of it, of which one is so large

	crowdHolds   = time.Second            // a short crowd
	crowdArrives = 5 * time.Second        // in which the others come, one after the other
	crowdPace    = 500 * time.Millisecond // between two bytes that a slow caller sends or reads

	// crowdMemory is how much memory the process may have while there is a crowd: with five zones
	// and the crowd itself, which is more than the node that is attacked has.
	crowdMemory = 1 << 30
	// crowdFiles is how many files a process with all of these needs: both ends of each connection.
	crowdFiles = 2*crowdSize + 2000
)

// horde is the project of the tenant in the crowd. Its quotas are higher than what there is.
const horde = "horde"

// crowd is thousands of slow callers from few and from many addresses, some of them with a token, and
// a tenant who asks for ten times what there is, as often as it is answered.
func crowd() party {
	kinds := len(crowdKinds(nil))
	return party{
		name: "crowd", budget: size{state: 192 << 20, log: 1 << 30, index: 200_000}, lanes: kinds + 1, triesMin: 1, memory: crowdMemory,
		attacks: func(t *testing.T, p *phase) []attack {
			t.Helper()
			c := &crowdCalls{phase: p, size: crowdFew, until: time.Now(), workers: crowdWorkers / 4}
			if *forFlag > 0 {
				c.size, c.until, c.workers = crowdSize, time.Now().Add(*forFlag), crowdWorkers
				openFiles(t, crowdFiles)
			}
			p.root.allow(horde, map[quota.Item]int64{quota.Boots: 1000, quota.Records: 50_000, quota.Instances: 2 * crowdAsks})
			c.token = p.root.member(horde, api.RoleMember)
			c.member = p.caller(plain(), "http://"+p.root.node.Addresses().API, jsonHead(c.token))
			out := []attack{{"boots of ten times what there is", c.askForTooMuch}}
			for _, k := range crowdKinds(c) {
				out = append(out, attack{k.name, func(_ context.Context, r *record) error { return c.hold(r, k, c.size/kinds) }})
			}
			return out
		},
	}
}

// openFiles lets this process open so many files.
func openFiles(t *testing.T, n uint64) {
	t.Helper()
	var had syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had))
	if had.Cur >= n {
		return
	}
	more := syscall.Rlimit{Cur: n, Max: max(had.Max, n)}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more), "a crowd needs %d open files", n)
	t.Cleanup(func() { assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had)) })
}

// crowdCalls are the calls of a crowd.
type crowdCalls struct {
	*phase
	size    int       // connections at once
	until   time.Time // when a long crowd goes
	workers int
	token   string
	member  *caller
	from    atomic.Uint32 // addresses that were used
}

// crowdKind is what some callers of a crowd do on a connection until they are hung up on.
type crowdKind struct {
	name string
	to   func(a *zone) string
	does func(ctx context.Context, r *record, c net.Conn) error
}

func crowdKinds(c *crowdCalls) []crowdKind {
	public := func(z *zone) string { return z.node.Addresses().API }
	return []crowdKind{
		{"headers byte by byte", public, func(ctx context.Context, _ *record, conn net.Conn) error {
			return c.drip(ctx, conn, "GET /servers HTTP/1.1\r\nHost: x\r\n")
		}},
		{"headers byte by byte, after a token", public, func(ctx context.Context, _ *record, conn net.Conn) error {
			return c.drip(ctx, conn, "GET /servers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+c.token+"\r\n")
		}},
		{"bodies byte by byte, after a token", public, func(ctx context.Context, _ *record, conn net.Conn) error {
			return c.drip(ctx, conn, "POST /zones/boot HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\nAuthorization: Bearer "+c.token+"\r\n\r\n")
		}},
		{"answers read byte by byte", public, func(ctx context.Context, r *record, conn net.Conn) error { return c.sip(ctx, r, conn) }},
		{"idle after a call", public, func(ctx context.Context, r *record, conn net.Conn) error { return c.idle(ctx, r, conn, c.token) }},
		{"idle after a call without a token", public, func(ctx context.Context, r *record, conn net.Conn) error { return c.idle(ctx, r, conn, "") }},
		{"handshakes that never end", func(z *zone) string { return z.node.Addresses().Gateway }, func(ctx context.Context, _ *record, conn net.Conn) error {
			return c.drip(ctx, conn, "\x16\x03\x01")
		}},
	}
}

// addr is where the next connection comes from: each second one from one of four addresses, the others
// from an address of their own.
func (c *crowdCalls) addr() string {
	n := c.from.Add(1)
	if n%crowdEvery == 0 {
		return fmt.Sprintf("127.0.67.%d", 1+n/2%4)
	}
	return fmt.Sprintf("127.1.%d.%d", n>>8&0xff, 1+n&0xfe)
}

// staying returns a context that ends when the crowd goes.
func (c *crowdCalls) staying() (context.Context, context.CancelFunc) {
	if *forFlag == 0 {
		return context.WithTimeout(c.ctx, crowdHolds)
	}
	return context.WithDeadline(c.ctx, c.until)
}

// hold keeps so many connections of a kind open for a while: one that is hung up on is made again.
func (c *crowdCalls) hold(r *record, k crowdKind, n int) error {
	ctx, cancel := c.staying()
	defer cancel()
	arrives := min(crowdArrives, *forFlag)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			pauseFor(ctx, time.Duration(i)*arrives/time.Duration(n))
			for ctx.Err() == nil {
				conn, err := from(c.addr())(ctx, k.to(c.root))
				if err != nil {
					r.note("not connected")
					pauseFor(ctx, crowdPace)
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // whatever it was doing
				err = k.does(ctx, r, conn)
				stop()
				_ = conn.Close() // it may be closed
				switch {
				case ctx.Err() != nil:
					r.note("held to the end")
				case err != nil:
					r.note("hung up on")
				}
				pauseFor(ctx, crowdPace)
			}
		})
	}
	wg.Wait()
	return nil
}

// pauseFor waits a while, as slow callers do.
func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// drip says something, and then one byte after the other until it is hung up on.
func (c *crowdCalls) drip(ctx context.Context, conn net.Conn, first string) error {
	said := []byte(first + "X-Slow: ")
	for ctx.Err() == nil {
		if _, err := conn.Write(said); err != nil {
			return err
		}
		said = []byte("x")
		pauseFor(ctx, crowdPace)
	}
	return nil
}

// sip asks for more than it wants to know, and reads a byte now and then.
func (c *crowdCalls) sip(ctx context.Context, r *record, conn net.Conn) error {
	if err := conn.(*net.TCPConn).SetReadBuffer(1 << 10); err != nil {
		return err
	}
	for range 4 {
		if _, err := io.WriteString(conn, "GET /servers/detail?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+c.token+"\r\n\r\n"); err != nil {
			return err
		}
	}
	b := make([]byte, 1)
	for ctx.Err() == nil {
		if _, err := conn.Read(b); err != nil {
			return err
		}
		r.keep(b)
		pauseFor(ctx, crowdPace)
	}
	return nil
}

// idle makes a call and keeps its connection for nothing.
func (c *crowdCalls) idle(ctx context.Context, r *record, conn net.Conn, token string) error {
	if _, err := io.WriteString(conn, "GET /flavors HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
		return err
	}
	b := make([]byte, 4<<10)
	for ctx.Err() == nil {
		n, err := conn.Read(b)
		if err != nil {
			return err
		}
		r.keep(b[:n])
	}
	return nil
}

// askForTooMuch boots ten times what there is room for, all or nothing, and boots one instance and
// releases it, from many callers that do not wait.
func (c *crowdCalls) askForTooMuch(_ context.Context, r *record) error {
	ctx, cancel := c.staying()
	defer cancel()
	var wg sync.WaitGroup
	var had error
	var mu sync.Mutex // guards had
	for range c.workers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				count := 1
				if n%crowdEvery == 0 {
					count = crowdAsks
				}
				id := name("h-")
				c.member.call(ctx, r, "POST", "/zones/boot", fmt.Sprintf(
					`{"server":{"name":"x","flavorRef":"small","min_count":%d,"max_count":%d,"reservation_id":%q}}`, count, count, id))
				_, b := c.member.call(context.WithoutCancel(ctx), r, "DELETE", "/zones/boot/"+id, nil)
				if count > 1 && bytes.Contains(b, []byte(string(api.BootActive))) {
					mu.Lock()
					had = errors.New("it had more than there is")
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return had
}

// memory returns how much memory this process has.
func memory() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0, fmt.Errorf("statm says %q", b)
	}
	pages, err := strconv.ParseInt(string(f[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// mostMemory returns the most memory that this process has until done is closed.
func mostMemory(t *testing.T, done <-chan struct{}) (most int64) {
	t.Helper()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		now, err := memory()
		assert.NoError(t, err)
		most = max(most, now)
		select {
		case <-done:
			return most
		case <-look.C:
		}
	}
}
