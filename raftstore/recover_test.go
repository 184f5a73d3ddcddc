package raftstore

import (
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/crash"
	"berth/raftstore/command"
)

// TestRecover: of a zone of three that has lost two nodes for good, the third goes on alone, with all that it has, and
// takes in others again.
func TestRecover(t *testing.T) {
	for name, snapshot := range map[string]bool{"from its log": false, "from a snapshot": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key := &DiskKey{7}
				nodes := trio(t, nil, func(c *Config) { c.DiskKey = key })
				lead := nodes[0].leads()
				lead.must(put("a", "1"))
				if snapshot {
					nodes[2].catchUp(lead)
					require.NoError(t, nodes[2].raft.Snapshot().Error())
				}
				lead.must(command.NodePut{Stamp: command.Stamp{At: 5000}, Node: api.Node{ID: "b", APIAddr: "2", Form: api.FormNewest}})
				nodes[2].sees("b", "2")
				cfg := nodes[2].cfg
				cfg.Log = slog.New(slog.DiscardHandler)
				_, err := Recover(cfg)
				require.ErrorIs(t, err, syscall.EWOULDBLOCK, "it runs")
				for _, n := range nodes {
					n.stop()
				}
				other := cfg
				other.ID = "n2"
				_, err = Recover(other)
				assert.Equal(t, api.CodeConflict, api.CodeOf(err), "another node's directory")
				other = cfg
				other.DiskKey = nil
				_, err = Recover(other)
				require.Error(t, err, "without its key")

				before, err := Survey(cfg.Dir, key)
				require.NoError(t, err)
				_, err = Recover(cfg.onDisk(0, errors.New("no space left")))
				require.ErrorContains(t, err, "no space left")
				kept, err := Recover(cfg.onDisk(slowStopped, nil))
				require.NoError(t, err)
				assert.Equal(t, before, kept)
				assert.Equal(t, api.NodeID("n3"), kept.Node)
				assert.Equal(t, api.Instant(5000), kept.At)
				lost := kept.Lost()
				require.Len(t, lost, 2)
				assert.Equal(t, []api.NodeID{"n1", "n2"}, []api.NodeID{lost[0].ID, lost[1].ID})
				_, err = Recover(cfg)
				assert.ErrorContains(t, err, "is the only voter of its zone already")

				cfg.Ran = true
				cfg.Stream, cfg.Log = nil, nil // on the same address
				alone := start(t, cfg).leads()
				assert.Greater(t, alone.Term(), kept.Term+recoverTerms, "later than any term of the lost ones")
				assert.Greater(t, alone.View().Index(), kept.Index+recoverEntries-1, "behind all that they may have told")
				assert.Equal(t, "1", addrOf(alone.View(), "a"))
				assert.Equal(t, "2", addrOf(alone.View(), "b"))
				assert.Equal(t, []Member{{ID: "n3", Addr: cfg.Advertise, Voter: true, Leader: true}}, alone.Members())
				alone.must(put("c", "3"))
				fourth := start(t, Config{ID: "n4", Dir: t.TempDir(), Timing: steady})
				require.NoError(t, alone.AddVoter(within(t), "n4", fourth.cfg.Advertise))
				fourth.sees("c", "3")
			})
		})
	}
}

// TestWhatIsNotRecovered: a node that is alone, one without a vote, and a directory without a node. Nothing is changed.
func TestWhatIsNotRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		learner := start(t, Config{ID: "n2", Dir: t.TempDir(), Timing: steady})
		require.NoError(t, n.AddNonvoter(within(t), "n2", learner.cfg.Advertise))
		learner.catchUp(n)
		n.stop()
		learner.stop()
		for dir, id := range map[string]api.NodeID{n.cfg.Dir: "n1", learner.cfg.Dir: "n2"} {
			_, err := Recover(Config{ID: id, Dir: dir, Log: slog.New(slog.DiscardHandler)})
			assert.Equal(t, api.CodeConflict, api.CodeOf(err), id)
		}
		_, err := Recover(Config{ID: "n1", Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
		assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	})
}

// cutOff is the panic of a recovery that ends at a point.
type cutOff struct{}

// TestRecoveryCutOff: a recovery that ends anywhere is completed by another, or is done.
func TestRecoveryCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, nil, nil)
		lead := nodes[0].leads()
		lead.must(put("a", "1"))
		nodes[2].sees("a", "1")
		for _, n := range nodes {
			n.stop()
		}
		cfg := nodes[2].cfg
		cfg.Log = slog.New(slog.DiscardHandler)
		recoverTo := func(at crash.Point) (err error) {
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
			_, err = Recover(c)
			return err
		}
		for _, at := range []crash.Point{crash.VoteWriting, crash.VoteWritten, crash.SnapshotWriting, crash.TruncateWriting} {
			require.NoError(t, recoverTo(at), "%s was not reached", at)
			left, err := Survey(cfg.Dir, nil)
			require.NoError(t, err, at)
			if at == crash.TruncateWriting { // the new members are on the disk
				assert.Empty(t, left.Lost())
				continue
			}
			assert.Len(t, left.Lost(), 2, at)
		}
		cfg.Ran, cfg.Stream, cfg.Log = true, nil, nil
		alone := start(t, cfg).leads()
		assert.Equal(t, "1", addrOf(alone.View(), "a"))
		alone.must(put("b", "2"))
	})
}
