package raftstore

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
)

// journal keeps the lines of several nodes from info on, without their times.
type journal struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(b)
}

// linesWith returns the lines with one of some texts, in order.
func (j *journal) linesWith(some ...string) (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.all.String()) {
		for _, text := range some {
			if strings.Contains(line, text) {
				out = append(out, strings.TrimSpace(line))
				break
			}
		}
	}
	return out
}

// untimed leaves times out of lines.
func untimed(_ []string, a slog.Attr) slog.Attr {
	if _, ok := a.Value.Any().(time.Time); ok {
		return slog.Attr{}
	}
	return a
}

// TestASilentMemberIsTwoLines: while a member is away, however long and often that is noticed, the zone
// logs one warning and nothing else above info; and one line when it is back. A zone that starts warns of
// nothing, and neither does one that a member leaves for less than a restart takes.
func TestASilentMemberIsTwoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, over := &journal{}, newNetwork()
		log := slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: untimed}))
		nodes := trio(t, over, func(c *Config) { c.Log = log.With("node", c.ID) })
		lead := leaderOf(t, nodes...)
		assert.Empty(t, j.linesWith("level=WARN", "level=ERROR"), "a normal start")

		away := others(nodes, lead)[0]
		cut := func(off bool, d time.Duration) {
			over.cut(away.cfg.Advertise, off)
			await.Sleep(d)
		}
		cut(true, time.Second)
		cut(false, 10*time.Second)
		assert.Empty(t, j.linesWith("silent", "heard"), "a short while")
		for round := 1; round <= 2; round++ {
			cut(true, 5*time.Minute)
			assert.Equal(t, []api.NodeID{away.ID()}, lead.Silent())
			down := fmt.Sprintf("level=WARN msg=\"member is silent\" node=%s member=%s", lead.ID(), away.ID())
			assert.Len(t, j.linesWith("level=WARN", "level=ERROR"), round)
			require.Len(t, j.linesWith(down), round)
			cut(false, 30*time.Second)
			assert.Empty(t, lead.Silent())
			assert.Len(t, j.linesWith(fmt.Sprintf("level=INFO msg=\"member is heard again\" node=%s member=%s", lead.ID(), away.ID())), round)
		}
	})
}

// TestPeersAreForgotten: a member that is removed, or that this node no longer leads, is not silent, and is
// not heard again.
func TestPeersAreForgotten(t *testing.T) {
	for name, o := range map[string]any{
		"removed":      raft.PeerObservation{Peer: raft.Server{ID: "n2"}, Removed: true},
		"deposed":      raft.Follower,
		"shut down":    raft.Shutdown,
		"other member": raft.PeerObservation{Peer: raft.Server{ID: "n3"}},
		"elected":      raft.Leader,
	} {
		t.Run(name, func(t *testing.T) {
			j, now := &journal{}, time.Unix(1, 0)
			w := newPeerWatch(Config{Log: slog.New(slog.NewTextHandler(j, nil)), Now: func() time.Time { return now }, Timing: Timing{Heartbeat: time.Second}})
			see := func(data any) { assert.False(t, w.note(&raft.Observation{Data: data})) }
			see(raft.FailedHeartbeatObservation{PeerID: "n2"})
			now = now.Add(silentBeats*time.Second - 1)
			see(raft.FailedHeartbeatObservation{PeerID: "n2"})
			assert.Empty(t, w.silent())
			now = now.Add(1)
			see(raft.FailedHeartbeatObservation{PeerID: "n2"})
			assert.Equal(t, []api.NodeID{"n2"}, w.silent())
			see(o)
			kept := name == "other member" || name == "elected"
			assert.Equal(t, kept, len(w.silent()) == 1)
			see(raft.ResumedHeartbeatObservation{PeerID: "n2"})
			assert.Equal(t, kept, len(j.linesWith("member is heard again")) == 1)
		})
	}
}
