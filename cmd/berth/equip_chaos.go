//go:build chaos

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"berth/agent"
	"berth/internal/crash"
	"berth/node"
	"berth/raftstore"
)

// This binary can kill itself in the middle of a step, and record what it sends to other
// zones:
//
//	BERTH_CRASH_FILE=FILE        kill -9 itself when it reaches a point for the N-th time; FILE contains
//	                             "POINT N" when the process starts, which removes it
//	POST /crash?point=POINT&n=N  the same at run time, on the admin listener; without a point, never
//	GET /crash                   how often each point was reached
//	BERTH_COMPACT=N:KEEP         take a snapshot after N entries, and keep the last KEEP entries before it
//	BERTH_TIMING=DURATION        wait that long without a word of the leader, and for votes, before another election
//	BERTH_TAP=DIR                write the plaintext of every connection with another zone to DIR
//	BERTH_CLOCK=OFFSET           take the clock of the machine to be off by that much, such as -48h

// compactEvery is how often a node checks whether a snapshot is due.
const compactEvery = time.Second

// commitEvery is how often an idle leader sends the commit index, as by default.
const commitEvery = 50 * time.Millisecond

// equip gives a node its faults.
func equip(o *node.Options) {
	b := newBomb()
	o.Crash, o.Admin = b.atPoint, b.serveCrash
	if c := (raftstore.Compaction{Interval: compactEvery}); os.Getenv("BERTH_COMPACT") != "" {
		if _, err := fmt.Sscanf(os.Getenv("BERTH_COMPACT"), "%d:%d", &c.Threshold, &c.Trailing); err != nil {
			panic(fmt.Sprintf("berth: reading BERTH_COMPACT: %v", err))
		}
		o.Compact = c
	}
	if quiet := durationOf("BERTH_TIMING"); quiet > 0 {
		o.Timing = raftstore.Timing{Heartbeat: quiet, Election: quiet, LeaderLease: quiet * 2 / 3, Commit: commitEvery}
	}
	if dir := os.Getenv("BERTH_TAP"); dir != "" {
		o.Tap = (&recorder{dir: dir}).tapConn
	}
}

// equipAgent gives an agent its faults.
func equipAgent(c *agent.Config) { c.Crash = newBomb().atPoint }

// clockOffset is how far the clock of this process is off.
var clockOffset = sync.OnceValue(func() time.Duration { return durationOf("BERTH_CLOCK") })

// durationOf returns the duration in a variable, 0 without it.
func durationOf(name string) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("berth: reading %s: %v", name, err))
	}
	return d
}

// readClock is the clock of every process of this binary.
func readClock() time.Time { return time.Now().Add(clockOffset()) }

// bomb ends the process at a point.
type bomb struct {
	mu    sync.Mutex // guards what follows
	point crash.Point
	left  int
	hits  map[crash.Point]int
}

func newBomb() *bomb {
	b := &bomb{hits: map[crash.Point]int{}}
	file := os.Getenv("BERTH_CRASH_FILE")
	text, err := os.ReadFile(file)
	if err != nil {
		return b // none, or used up
	}
	_, err = fmt.Sscan(string(text), &b.point, &b.left)
	if err = errors.Join(err, os.Remove(file)); err != nil {
		panic(fmt.Sprintf("berth: reading %s: %v", file, err))
	}
	return b
}

func (b *bomb) atPoint(p crash.Point) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hits[p]++
	if p != b.point {
		return
	}
	if b.left--; b.left == 0 {
		fmt.Fprintf(os.Stderr, "berth: crash point %s\n", p)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // an error could not be reported
		select {}                                      // the process must not take another step; the lock stays held
	}
}

// serveCrash answers /crash in front of the admin door.
func (b *bomb) serveCrash(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/crash" {
			next.ServeHTTP(w, r)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if r.Method == http.MethodPost {
			b.point, b.left = crash.Point(r.FormValue("point")), 1
			if n, err := strconv.Atoi(r.FormValue("n")); err == nil {
				b.left = n
			}
		}
		_ = json.NewEncoder(w).Encode(b.hits) // without the answer the test fails
	})
}

// recorder writes the bytes that leave this zone to files, one for each connection.
type recorder struct {
	dir  string
	next atomic.Int64
}

func (t *recorder) tapConn(at node.Crossing, c net.Conn) net.Conn {
	side := "gateway"
	if at.Dialled {
		side = "dial"
	}
	name := filepath.Join(t.dir, fmt.Sprintf("%d-%06d", os.Getpid(), t.next.Add(1)))
	var chain []byte
	for _, der := range at.Chain {
		chain = append(chain, der...)
	}
	f, err := os.Create(fmt.Sprintf("%s-out-%s-%s.bin", name, side, strings.ReplaceAll(at.ALPN, "/", "_")))
	if err == nil {
		err = os.WriteFile(name+"-cert.der", chain, 0o600)
	}
	if err != nil {
		panic(fmt.Sprintf("berth: recording what leaves the zone: %v", err))
	}
	return &recorded{Conn: c, file: f}
}

// recorded is a connection whose outgoing bytes are recorded. A failure to record ends
// the process: a scan of incomplete records would prove nothing.
type recorded struct {
	net.Conn
	file *os.File
}

func (r *recorded) Write(p []byte) (int, error) {
	_, err := r.file.Write(p)
	if errors.Is(err, os.ErrClosed) {
		return 0, net.ErrClosed // none of it leaves
	}
	if err != nil {
		panic(fmt.Sprintf("berth: recording what leaves the zone: %v", err))
	}
	return r.Conn.Write(p)
}

func (r *recorded) Close() error {
	_ = r.file.Close() // a second Close fails, and every byte is written
	return r.Conn.Close()
}
