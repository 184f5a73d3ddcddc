package raftstore

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// seedOf returns a backup of a node, moved to where an incarnation begins.
func seedOf(t *testing.T, n *node, incarnation api.Incarnation) *BackupFile {
	t.Helper()
	b, _ := n.backup()
	f, err := ReadBackup(bytes.NewReader(b))
	require.NoError(t, err)
	require.NoError(t, f.State.BringBack(state.Return{Incarnation: incarnation, At: max(f.State.Now(), 1)}))
	f.Index, f.Term = incarnation.Begin()
	return f
}

// onDisk returns a node with a disk on which each write to the log takes some time and fails with err.
func (c Config) onDisk(takes time.Duration, err error) Config {
	c.wrap = func(u under) under {
		return &faulty{under: u, write: func() error {
			await.Sleep(takes)
			return err
		}}
	}
	return c
}

// slowStopped is longer than a write to the log of a leader may take: nobody waits for a node that does not run.
const slowStopped = HungLeadingDefault + time.Second

// TestSeed: a node of a fresh directory begins with what is in a backup, behind all that others may have heard, and takes in others.
// Begun anew at any point, it ends the same.
func TestSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := solo(t, nil)
		from.must(put("a", "1"))
		f := seedOf(t, from, 7)
		from.stop()
		key := &DiskKey{3}
		cfg := Config{ID: "fresh", Dir: t.TempDir(), Advertise: from.cfg.Advertise, DiskKey: key, Timing: steady, Log: slog.New(slog.DiscardHandler)}
		seedTo := func(at crash.Point) (err error) {
			c := cfg
			c.Crash = func(p crash.Point) {
				if p == at {
					panic(cutOff{})
				}
			}
			defer func() {
				if p := recover(); p != nil {
					require.Equal(t, cutOff{}, p)
				}
			}()
			err = Seed(c, f)
			return err
		}
		for _, at := range []crash.Point{crash.VoteWriting, crash.VoteWritten, crash.SnapshotWriting} {
			require.NoError(t, seedTo(at), "%s was not reached", at)
		}
		require.ErrorContains(t, Seed(cfg.onDisk(0, errors.New("no space left")), f), "no space left")
		require.NoError(t, Seed(cfg.onDisk(slowStopped, nil), f))
		require.NoError(t, Seed(cfg, f), "a repeat")
		left, err := Survey(cfg.Dir, key)
		require.NoError(t, err)
		assert.Equal(t, f.Index, left.Index)
		assert.Empty(t, left.Lost())

		cfg.Log = nil
		n := start(t, cfg).leads()
		assert.Greater(t, n.Term(), f.Term)
		assert.Empty(t, addrOf(n.View(), "a"), "nodes of before are forgotten")
		assert.Equal(t, api.Incarnation(7), n.View().Incarnation)
		n.must(command.NodePut{Node: api.Node{ID: "b", APIAddr: "2", Form: api.FormNewest}}) // the form of a zone that came back
		assert.Greater(t, n.View().Index(), f.Index)
		second := start(t, Config{ID: "n4", Dir: t.TempDir(), Timing: steady})
		require.NoError(t, n.AddVoter(within(t), "n4", second.cfg.Advertise))
		second.sees("b", "2")
		n = n.restart()
		require.NotNil(t, leaderOf(t, n, second))
		n.sees("b", "2")

		other := Config{ID: "n9", Dir: from.cfg.Dir, Log: slog.New(slog.DiscardHandler)}
		assert.Equal(t, api.CodeConflict, api.CodeOf(Seed(other, f)), "a node with another id")
		other.ID = "n1"
		assert.Equal(t, api.CodeConflict, api.CodeOf(Seed(other, f)), "a node with a log")
	})
}
