package sim

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"berth/cluster-test/simnet"
	"berth/internal/await"
)

// clock is the clock of one process. Its wall clock may be set; what it measures
// between two readings is then still true, as on a real machine.
type clock struct {
	base  time.Time
	ahead atomic.Int64
}

func newClock() *clock { return &clock{base: time.Now().Add(-time.Hour)} }

// The layout of time.Time, whose monotonic reading is missing in a bubble.
const (
	hasMonotonic = 1 << 63
	nsecBits     = 30
	unixTo1885   = 2682288000 // seconds from 1885 to 1970
)

// now reads the clock: a wall clock that may be wrong, and a monotonic reading.
func (c *clock) now() time.Time {
	truth := time.Now()
	wall := truth.Add(time.Duration(c.ahead.Load()))
	t := truth
	in := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t)) // a Time with both readings cannot be made in another way
	in.wall = hasMonotonic | uint64(wall.Unix()+unixTo1885)<<nsecBits | uint64(wall.Nanosecond())
	in.ext = int64(truth.Sub(c.base))
	return t
}

func (c *clock) jump(by time.Duration) { c.ahead.Add(int64(by)) }

func TestClockJumpsAndMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		before, truth := c.now(), time.Now()
		assert.Equal(t, truth.UnixNano(), before.UnixNano())
		c.jump(time.Hour)
		await.Sleep(time.Second)
		after := c.now()
		assert.Equal(t, time.Second, after.Sub(before))
		assert.Equal(t, truth.Add(time.Hour+time.Second).UnixMilli(), after.UnixMilli())
		assert.Equal(t, truth.Add(time.Hour+2*time.Second).UnixMilli(), after.Add(time.Second).UnixMilli())
	})
}

// nic is the network as one process sees it.
type nic struct {
	host  *simnet.Host
	clock *clock
}

// Listen implements node.Network.
func (n nic) Listen(ctx context.Context, addr string) (net.Listener, error) {
	ln, err := n.host.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return timedListener{ln, n.clock}, nil
}

// Dial implements node.Network.
func (n nic) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := n.host.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return timedConn{c, n.clock}, nil
}

type timedListener struct {
	net.Listener
	clock *clock
}

func (l timedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return timedConn{c, l.clock}, nil
}

// timedConn takes deadlines that were reckoned from the process's clock. The
// runtime would see their monotonic reading, which a bubble does not have.
type timedConn struct {
	net.Conn
	clock *clock
}

// farOff is further than any deadline of the product: one beyond it was reckoned
// from a wall clock that was set.
const farOff = 20 * time.Minute

func (c timedConn) true(t time.Time) time.Time {
	if d := time.Until(t); !t.IsZero() && t.Year() > 1990 && (d > farOff || d < -farOff) {
		return t.Add(-time.Duration(c.clock.ahead.Load())).Round(0)
	}
	return t.Round(0)
}

func (c timedConn) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(c.true(t)) }
func (c timedConn) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(c.true(t)) }
func (c timedConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.true(t)) }
