package raftstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		before := n.View()
		r := n.must(put("a", "1"), refusable(), put("a", "2"))
		require.Len(t, r, 3)
		require.NoError(t, r[0].Err)
		assert.Equal(t, api.CodeNotFound, api.CodeOf(r[1].Err), "results are in the order of the commands")
		require.NoError(t, r[2].Err)
		assert.Equal(t, "2", addrOf(n.View(), "a"), "a proposer reads its own write")
		assert.Empty(t, addrOf(before, "a"), "a view never changes")

		st, err := n.Linearizable(within(t))
		require.NoError(t, err)
		assert.Equal(t, n.View().Index(), st.Index())

		id, at := n.Leader()
		assert.Equal(t, n.ID(), id)
		assert.Equal(t, n.cfg.Advertise, at)
		assert.Equal(t, []Member{{ID: "n1", Addr: at, Voter: true, Leader: true}}, n.Members())
		age, heard := n.Age(time.Time{})
		assert.True(t, heard)
		assert.Zero(t, age)
	})
}

func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, func(c *Config) { c.Compact = Compaction{Threshold: 20, Interval: 10 * time.Millisecond, Trailing: 5} })
		for i := range 100 {
			n.must(put(fmt.Sprint("k", i), "x"))
		}
		require.NoError(t, n.raft.Snapshot().Error())
		n.must(put("last", "y"))
		n = n.restart().leads()
		for i := range 100 {
			require.Equal(t, "x", addrOf(n.View(), fmt.Sprint("k", i)))
		}
		assert.Equal(t, "y", addrOf(n.View(), "last"))
		left, err := filepath.Glob(filepath.Join(n.cfg.Dir, snapshotDir, "*"))
		require.NoError(t, err)
		assert.LessOrEqual(t, len(left), snapshotsKept)
	})
}

func TestThreeNodesFollowAndFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, nil, nil)
		nodes[0].must(put("a", "1"))
		for _, n := range nodes {
			n.sees("a", "1")
		}
		_, err := nodes[1].Propose(within(t), put("a", "2"))
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), "a follower refuses for certain")
		assert.Equal(t, msgNotLeader, api.MessageOf(err))
		_, err = nodes[1].Linearizable(within(t))
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))

		nodes[0].stop()
		next := leaderOf(t, nodes[1:]...)
		assert.Equal(t, "1", addrOf(next.View(), "a"), "a leader leads only when it has caught up")
		next.must(put("a", "3"))
		back := nodes[0].restart()
		back.sees("a", "3")
	})
}

func TestSnapshotReachesANewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, func(c *Config) { c.Compact = Compaction{Threshold: 1, Interval: time.Hour, Trailing: 1} })
		for i := range 50 {
			n.must(put(fmt.Sprint("k", i), "x"))
		}
		require.NoError(t, n.raft.Snapshot().Error())
		late := start(t, Config{ID: "n2", Dir: t.TempDir()})
		require.NoError(t, n.AddNonvoter(within(t), "n2", late.cfg.Advertise))
		late.sees("k49", "x")
		late.catchUp(n)
		assert.Equal(t, "x", addrOf(late.View(), "k0"))
	})
}

func TestDirectoryRefused(t *testing.T) {
	dir := t.TempDir()
	open := func(id api.NodeID, dir string) error {
		cfg := Config{ID: id, Dir: dir, Advertise: "h:1", Stream: newNetwork().listen("h:1"), Log: discard()}
		s, err := Open(cfg)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, func(c *Config) { c.Dir, c.Compact.Interval = dir, time.Hour })
		assert.Equal(t, api.CodeConflict, api.CodeOf(open("n1", dir)), "in use")
		require.NoError(t, n.raft.Snapshot().Error())
	})
	assert.Equal(t, api.CodeConflict, api.CodeOf(open("n2", dir)), "another node's")
	require.NoError(t, open("n1", dir))

	t.Run("a damaged snapshot", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(dir, snapshotDir, "*"+snapshotSuffix))
		require.NoError(t, err)
		require.Len(t, files, 1)
		good, err := os.ReadFile(files[0])
		require.NoError(t, err)
		for at := range good {
			bad := append([]byte(nil), good...)
			bad[at] ^= 1
			require.NoError(t, os.WriteFile(files[0], bad, 0o600))
			require.ErrorIs(t, open("n1", dir), ErrDamaged, "byte %d", at)
			if at > 40 && at < len(good)-40 {
				break // the head, and one byte of the rest; TestArchive does all
			}
		}
		require.NoError(t, os.WriteFile(files[0], good, 0o600))
		require.NoError(t, open("n1", dir))
	})
	t.Run("a lost identity", func(t *testing.T) {
		name := filepath.Join(dir, nodeFile)
		keep, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.Remove(name))
		assert.Equal(t, api.CodeConflict, api.CodeOf(open("n1", dir)))
		require.NoError(t, os.WriteFile(name, []byte(`{"format":9}`), 0o600))
		assert.Equal(t, api.CodeConflict, api.CodeOf(open("n1", dir)))
		require.NoError(t, os.WriteFile(name, keep, 0o600))
	})
	t.Run("a lost log", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(dir, logFile)))
		assert.Equal(t, api.CodeConflict, api.CodeOf(open("n1", dir)))
	})
	t.Run("a directory that was lost", func(t *testing.T) {
		made := 0
		cfg := Config{
			ID: "n1", Dir: t.TempDir(), Advertise: "h:1", Stream: newNetwork().listen("h:1"), Log: discard(),
			Ran: true, Made: func() error { made++; return nil },
		}
		_, err := Open(cfg)
		require.ErrorIs(t, err, ErrDamaged)
		cfg.Ran = false
		s, err := Open(cfg)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		cfg.Ran, cfg.Stream = true, newNetwork().listen("h:1")
		s, err = Open(cfg)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		assert.Equal(t, 1, made)
	})
	t.Run("a first start that was cut off", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, logFile+tempSuffix), []byte("half"), 0o600))
		require.NoError(t, open("n1", dir))
		require.NoError(t, os.Remove(filepath.Join(dir, nodeFile)), "the last step had not been done")
		require.NoError(t, open("n1", dir))
	})
}

func TestConfigChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := Config{ID: "n1", Memory: NewMemory(), Advertise: "host.name:1", Stream: newNetwork().listen("x:1"), Log: discard()}
		for name, spoil := range map[string]func(*Config){
			"id":      func(c *Config) { c.ID = "" },
			"address": func(c *Config) { c.Advertise = ":1" },
			"stream":  func(c *Config) { c.Stream = nil },
			"log":     func(c *Config) { c.Log = nil },
			"dir":     func(c *Config) { c.Dir = "x" },
			"nowhere": func(c *Config) { c.Memory = nil },
			"timing":  func(c *Config) { c.Timing = Timing{time.Second, time.Millisecond, time.Hour, time.Second} },
		} {
			cfg := good
			cfg.Stream = newNetwork().listen("x:1")
			spoil(&cfg)
			_, err := Open(cfg)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
		}
		good.Stream = newNetwork().listen("x:1")
		s, err := Open(good)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "again")
		_, err = s.Propose(within(t), initZone())
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(s.Run(within(t))))
	})
}

func TestWaitWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		at := n.View().Index()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				st, err := n.Wait(within(t), at)
				require.NoError(t, err)
				assert.Equal(t, "1", addrOf(st, "a"))
			})
		}
		n.must(put("a", "1"))
		wg.Wait()

		ctx, cancel := context.WithCancel(within(t))
		cancel()
		st, err := n.Wait(ctx, n.View().Index())
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err))
		assert.Equal(t, n.View().Index(), st.Index(), "the view of the moment")

		wg.Go(func() {
			_, err := n.Wait(within(t), n.View().Index())
			assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		})
		n.stop()
		wg.Wait()
	})
}

// TestWaitForWakesThoseConcerned waits for two boots: an entry wakes who waits for
// what it touches, and a restore wakes both.
func TestWaitForWakesThoseConcerned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		boot := func(res string) command.Command {
			return command.BootCreate{BootTerms: command.BootTerms{Digest: []byte(res), Request: api.Request{Project: "p", Reservation: api.ReservationID(res)}}}
		}
		backup, _ := n.backup()
		var wg sync.WaitGroup
		waits := func(ctx context.Context, res string, there bool) (looks *atomic.Int64, done chan error) {
			looks, done = &atomic.Int64{}, make(chan error, 1)
			looked := make(chan struct{})
			wg.Go(func() {
				_, err := n.WaitFor(ctx, state.BootTopic("p", api.ReservationID(res)), func(st *state.State) bool {
					if looks.Add(1) == 1 {
						close(looked)
					}
					_, ok := st.Boot("p", api.ReservationID(res))
					return ok == there
				})
				done <- err
			})
			<-looked
			return looks, done
		}
		n.must(put("x", "0")) // a new node concerns everybody
		_, a := waits(within(t), "a", true)
		looks, b := waits(within(t), "b", true)
		n.must(put("x", "1"), boot("c"))
		n.must(boot("a"))
		require.NoError(t, <-a)
		assert.Equal(t, int64(1), looks.Load(), "nothing of this concerns it")
		n.must(boot("b"))
		require.NoError(t, <-b)

		_, a = waits(within(t), "a", false)
		_, b = waits(within(t), "b", false)
		require.NoError(t, n.restore(backup))
		require.NoError(t, <-a, "a restore concerns everybody")
		require.NoError(t, <-b)

		ctx, cancel := context.WithCancel(within(t))
		_, a = waits(ctx, "a", true)
		cancel()
		assert.Equal(t, api.CodeTimeout, api.CodeOf(<-a))
		_, b = waits(within(t), "b", true)
		n.stop()
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(<-b))
		wg.Wait()
	})
}

func TestUnreadableEntryStopsTheNode(t *testing.T) {
	for name, entry := range map[string][]byte{
		"unknown kind": {2, 255, 1},
		"cut short":    {9, 1},
		"empty":        {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan error, 1)
				n := start(t, Config{
					ID: "n1", Memory: NewMemory(), Bootstrap: true,
					Fatal: func(err error) { told <- err },
				}).leads()
				n.must(initZone(), put("a", "1"))
				before := n.View()
				future := n.raft.Apply(entry, patience)
				require.NoError(t, future.Error())
				require.ErrorIs(t, <-told, errEntry)
				require.ErrorIs(t, future.Response().(error), errBroken)
				assert.Same(t, before, n.View(), "nothing is applied from there on")
				require.Error(t, n.raft.Snapshot().Error(), "and nothing that lacks the entry is kept")
				after := n.raft.Apply(entryOf(t, put("a", "2")), patience)
				require.NoError(t, after.Error())
				require.ErrorIs(t, after.Response().(error), errBroken)
				assert.Equal(t, "1", addrOf(n.View(), "a"))
			})
		})
	}
}

func TestRunReportsTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Config{
			ID: "n1", Memory: NewMemory(), Bootstrap: true, Timing: quick,
			Advertise: "n1:1", Stream: newNetwork().listen("n1:1"), Log: discard(),
		})
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(within(t)) }()
		n := &node{Store: s, t: t}
		n.leads()
		require.NoError(t, s.raft.Apply([]byte{1, 1}, patience).Error())
		require.ErrorIs(t, <-ran, errBroken)
		assert.Equal(t, api.CodeConflict, api.CodeOf(s.Run(within(t))), "only once")
		require.NoError(t, s.Close())
	})
}

func entryOf(tb testing.TB, cmds ...command.Command) []byte {
	tb.Helper()
	b, err := encodeCommands(cmds, api.FormFirst)
	require.NoError(tb, err)
	return b
}

func TestPanicInApplyStopsTheNode(t *testing.T) {
	var told error
	f := newFSM(api.FormNewest, func(err error) { told = err })
	f.live = nil // applying to nothing panics
	answer := f.Apply(logEntry(1, entryOf(t, put("a", "1"))))
	require.ErrorIs(t, answer.(error), errBroken)
	require.ErrorIs(t, told, errBroken)
	assert.ErrorContains(t, told, "panic")
}

func TestOneViewPerBatch(t *testing.T) {
	f := newFSM(api.FormNewest, nil)
	first := f.board.cur.Load()
	f.ApplyBatch(logEntries(entryOf(t, initZone()), entryOf(t, put("a", "1")), entryOf(t, put("a", "2"))))
	p := f.board.cur.Load()
	select {
	case <-first.changed:
	default:
		t.Fatal("nobody was woken")
	}
	assert.Equal(t, uint64(3), p.applied)
	assert.Equal(t, uint64(3), p.state.Index())
	assert.Equal(t, "2", addrOf(p.state, "a"))
}

// TestASnapshotWakesEverybody installs the snapshot of another node: whatever somebody
// waits for may have changed.
func TestASnapshotWakesEverybody(t *testing.T) {
	f := newFSM(api.FormNewest, nil)
	woken, remove := f.board.watchers.Add(state.WorkTopic("a1"))
	defer remove()
	f.Apply(logEntry(1, entryOf(t, initZone())))
	assert.Empty(t, woken, "it does not concern the agent")
	m := &scratchMemory{}
	require.NoError(t, f.live.Save(m))
	require.NoError(t, f.Restore(io.NopCloser(bytes.NewReader(m.b))))
	assert.Len(t, woken, 1)
}

func TestLoadAllWantsAllOfIt(t *testing.T) {
	st := state.New()
	st.Apply(1, initZone())
	m := &scratchMemory{}
	require.NoError(t, st.Save(m))
	_, err := loadAll(&chunked{m.b}, api.FormNewest)
	require.NoError(t, err)
	_, err = loadAll(&chunked{m.b[:len(m.b)-1]}, api.FormNewest)
	require.Error(t, err)
	_, err = loadAll(&chunked{append(m.b, make([]byte, 1<<20)...)}, api.FormNewest)
	assert.Error(t, err)
}

// chunked hands out a little at a time.
type chunked struct{ b []byte }

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 512)], c.b)
	c.b = c.b[n:]
	return n, nil
}
