package raftstore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/crash"
)

// faulty is a store whose writes may fail or hang, and whose reads may lie.
type faulty struct {
	under
	write func() error // called before each write; nil for none
	read  func(l *raft.Log) error
}

func (f *faulty) before() error {
	if f.write == nil {
		return nil
	}
	return f.write()
}

func (f *faulty) StoreLogs(logs []*raft.Log) error {
	return errors.Join(f.before(), f.under.StoreLogs(logs))
}

func (f *faulty) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

func (f *faulty) Set(key, value []byte) error {
	return errors.Join(f.before(), f.under.Set(key, value))
}

func (f *faulty) DeleteRange(from, to uint64) error {
	return errors.Join(f.before(), f.under.DeleteRange(from, to))
}

func (f *faulty) GetLog(index uint64, l *raft.Log) error {
	err := f.under.GetLog(index, l)
	if err == nil && f.read != nil {
		err = f.read(l)
	}
	return err
}

// checkedOver opens a checked store over memory, and returns what it told Fatal.
func checkedOver(t *testing.T, hook crash.Hook) (*checked, *faulty, *[]error) {
	t.Helper()
	told := &[]error{}
	g := newGuard(Config{ID: "n1", Crash: hook}.withDefaults(), func(err error) { *told = append(*told, err) }, func() bool { return false })
	mem := NewMemory()
	d := &memoryDisk{Memory: mem}
	require.NoError(t, formatChecked(d, votes{Node: "n1"}, ledger{Node: "n1", First: 1}))
	f := &faulty{under: d}
	c, err := openChecked(f, g, position{}, func() bool { return false })
	require.NoError(t, err)
	return c, f, told
}

func TestEveryFailedWriteEndsTheProcess(t *testing.T) {
	broken := errors.New("no space left on device")
	for name, do := range map[string]func(c *checked) error{
		"entries": func(c *checked) error { return c.StoreLogs(logEntries([]byte("d"), []byte("e"))[1:]) },
		"delete":  func(c *checked) error { return c.DeleteRange(1, 1) },
		"vote":    func(c *checked) error { return c.SetUint64([]byte("CurrentTerm"), 7) },
		"noting":  func(c *checked) error { return c.noteSnapshot(position{1, 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, f, told := checkedOver(t, nil)
			require.NoError(t, c.StoreLog(logEntry(1, []byte("a"))))
			f.write = func() error { return broken }
			require.ErrorIs(t, do(c), broken)
			require.Len(t, *told, 1)
			require.ErrorIs(t, (*told)[0], broken)
			f.write = nil
			require.ErrorIs(t, do(c), broken, "nobody knows what the disk holds")
			assert.Len(t, *told, 1, "once")
		})
	}
}

func TestEveryBadReadEndsTheProcess(t *testing.T) {
	for name, read := range map[string]func(l *raft.Log) error{
		"an error":    func(*raft.Log) error { return errors.New("input/output error") },
		"a panic":     func(*raft.Log) error { panic("unexpected page") },
		"lost":        func(*raft.Log) error { return raft.ErrLogNotFound },
		"another":     func(l *raft.Log) error { l.Index++; return nil },
		"data":        func(l *raft.Log) error { l.Data = append([]byte{1}, l.Data[1:]...); return nil },
		"term":        func(l *raft.Log) error { l.Term++; return nil },
		"type":        func(l *raft.Log) error { l.Type = raft.LogNoop; return nil },
		"cut short":   func(l *raft.Log) error { l.Data = l.Data[:3]; return nil },
		"the sum":     func(l *raft.Log) error { l.Data = slices.Clone(l.Data); l.Data[len(l.Data)-1]++; return nil },
		"nothing":     func(l *raft.Log) error { l.Data = nil; return nil },
		"appended at": func(l *raft.Log) error { l.Data = slices.Clone(l.Data); l.Data[len(l.Data)-6]++; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			c, f, told := checkedOver(t, nil)
			require.NoError(t, c.StoreLog(logEntry(1, []byte("abc"))))
			var l raft.Log
			require.NoError(t, c.GetLog(1, &l))
			assert.Equal(t, *logEntry(1, []byte("abc")), l)
			require.ErrorIs(t, c.GetLog(2, &l), raft.ErrLogNotFound)
			require.Empty(t, *told, "what was never there is not missed")
			f.read = read
			require.Error(t, c.GetLog(1, &l))
			require.Len(t, *told, 1)
		})
	}
}

func TestSealKeepsAllOfAnEntry(t *testing.T) {
	at := time.Unix(1700000000, 123456789)
	for _, l := range []raft.Log{
		{Index: 1, Term: 2, Type: raft.LogNoop},
		{Index: 7, Term: 1 << 40, Data: []byte("data"), Extensions: []byte("more"), AppendedAt: at},
		{Index: 9, Term: 3, Extensions: []byte("only")},
	} {
		got, _, err := openEntry(l.Index, sealEntry(&l))
		require.NoError(t, err)
		assert.Equal(t, string(l.Data)+"|"+string(l.Extensions), string(got.Data)+"|"+string(got.Extensions))
		assert.True(t, l.AppendedAt.Equal(got.AppendedAt))
		assert.Equal(t, []any{l.Index, l.Term, l.Type}, []any{got.Index, got.Term, got.Type})
	}
}

// TestEntriesFollowEachOther holds the log to what Raft does with it.
func TestEntriesFollowEachOther(t *testing.T) {
	c, _, told := checkedOver(t, nil)
	entries := logEntries(make([][]byte, 10)...)
	bounds := func(first, last uint64) {
		t.Helper()
		f, err := c.FirstIndex()
		require.NoError(t, err)
		l, err := c.LastIndex()
		require.NoError(t, err)
		assert.Equal(t, []uint64{first, last}, []uint64{f, l})
	}
	bounds(0, 0)
	require.NoError(t, c.DeleteRange(0, 99), "nothing is there")
	require.NoError(t, c.noteSnapshot(position{1, 1}))
	require.ErrorIs(t, c.GetLog(1, new(raft.Log)), raft.ErrLogNotFound, "the first entry would be sent to others")
	require.NoError(t, c.StoreLogs(nil))
	require.NoError(t, c.StoreLogs(entries))
	bounds(1, 10)
	require.NoError(t, c.DeleteRange(8, 10))
	require.NoError(t, c.noteSnapshot(position{7, 1}))
	require.NoError(t, c.DeleteRange(1, 3))
	bounds(4, 7)
	var l raft.Log
	require.ErrorIs(t, c.GetLog(3, &l), raft.ErrLogNotFound)
	require.ErrorIs(t, c.GetLog(8, &l), raft.ErrLogNotFound)
	require.NoError(t, c.DeleteRange(4, 7))
	bounds(0, 0)
	require.NoError(t, c.GetLog(7, &l), "of what a snapshot ends with, the term is known")
	require.Equal(t, raft.Log{Index: 7, Term: 1, Type: raft.LogNoop}, l)
	require.NoError(t, c.noteSnapshot(position{20, 1}))
	require.NoError(t, c.StoreLog(logEntry(21, nil)), "behind the snapshot")
	bounds(21, 21)
	require.NoError(t, c.DeleteRange(21, 21))
	require.NoError(t, c.StoreLog(logEntry(21, nil)), "where it was")
	require.Empty(t, *told)
	require.ErrorContains(t, c.StoreLog(logEntry(23, nil)), "should be at index 22")
	require.Len(t, *told, 1)
}

// TestDeletionMayBeCutOff leaves a deletion off after each of its steps.
func TestDeletionMayBeCutOff(t *testing.T) {
	for cut := range 3 {
		for _, tail := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d, tail %v", cut, tail), func(t *testing.T) {
				c, f, _ := checkedOver(t, nil)
				require.NoError(t, c.StoreLogs(logEntries(make([][]byte, 10)...)))
				require.NoError(t, c.noteSnapshot(position{5, 1}))
				writes := 0
				f.under = &stopping{under: f.under, after: cut, writes: &writes}
				from, to := uint64(1), uint64(4)
				if tail {
					from, to = 7, 10
				}
				err := c.DeleteRange(from, to)
				assert.Equal(t, cut < 2, err != nil)
				f.under.(*stopping).after = 99
				again, err := openChecked(f, guardOf("n1"), position{5, 1}, func() bool { return false })
				require.NoError(t, err)
				b := again.currentLedger()
				want := uint64(6)
				if cut == 0 {
					want = 10
				}
				assert.Equal(t, want, b.Last-b.First+1)
				var stored []uint64
				for i := range uint64(12) {
					var l raft.Log
					if f.under.GetLog(i, &l) == nil {
						stored = append(stored, i)
					}
				}
				assert.Len(t, stored, int(want), "what was being deleted is gone, nothing else")
			})
		}
	}
}

// stopping is a store whose process dies after some writes.
type stopping struct {
	under
	after  int
	writes *int
}

func (s *stopping) dead() error {
	if *s.writes++; *s.writes > s.after {
		return errors.New("killed")
	}
	return nil
}

func (s *stopping) StoreLogs(l []*raft.Log) error {
	if err := s.dead(); err != nil {
		return err
	}
	return s.under.StoreLogs(l)
}

func (s *stopping) DeleteRange(from, to uint64) error {
	if err := s.dead(); err != nil {
		return err
	}
	return s.under.DeleteRange(from, to)
}

// TestHungDiskEndsTheProcess hangs the disk of a node that leads, and of one that
// does not.
func TestHungDiskEndsTheProcess(t *testing.T) {
	for _, leads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var hang atomic.Bool
			release := make(chan struct{})
			told := make(chan error, 1)
			nodes := trio(t, newNetwork(), func(c *Config) {
				if (c.ID == "n1") != leads {
					return
				}
				c.Fatal = func(err error) { told <- err }
				c.wrap = func(u under) under {
					return &faulty{under: u, write: func() error {
						if hang.Load() {
							<-release
						}
						return nil
					}}
				}
			})
			nodes[0].leads()
			hang.Store(true)
			begin := time.Now()
			var asking sync.WaitGroup
			asking.Go(func() { _, _ = nodes[0].Propose(t.Context(), put("a", "1")) }) // its fate does not matter
			var err error
			select {
			case err = <-told:
			case <-within(t).Done():
				err = errors.New("nobody noticed")
			}
			limit := HungOtherwiseDefault
			if leads {
				limit = HungLeadingDefault
			}
			took := time.Since(begin)
			hang.Store(false)
			close(release)
			asking.Wait()
			require.ErrorContains(t, err, "has hung for "+limit.String())
			assert.InDelta(t, limit, took, float64(100*time.Millisecond))
		})
	}
}

func TestSlowDiskIsNoHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f, told := checkedOver(t, nil)
		f.write = func() error {
			await.Sleep(HungOtherwiseDefault - time.Millisecond)
			return nil
		}
		require.NoError(t, c.StoreLog(logEntry(1, nil)))
		await.Sleep(time.Hour)
		assert.Empty(t, *told)
	})
}

// TestFailedWriteStopsTheNode fails one write of a running leader.
func TestFailedWriteStopsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		told := make(chan error, 1)
		nodes := trio(t, newNetwork(), func(c *Config) {
			if c.ID == "n1" {
				c.Fatal = func(err error) { told <- err }
				c.wrap = func(u under) under {
					return &faulty{under: u, write: func() error {
						if full.Load() {
							return errors.New("no space left on device")
						}
						return nil
					}}
				}
			}
		})
		nodes[0].leads()
		full.Store(true)
		_, err := nodes[0].Propose(t.Context(), put("a", "1"))
		require.Error(t, err)
		require.ErrorContains(t, <-told, "no space left")
		leaderOf(t, nodes[1:]...).must(put("b", "1"))
		<-nodes[0].failed
		require.ErrorContains(t, nodes[0].failure, "no space left", "which Run returns")
	})
}

// TestCrashPointsOfTheDisk drives a node through every point of the disk.
func TestCrashPointsOfTheDisk(t *testing.T) {
	disk := []crash.Point{
		crash.LogWriting, crash.LogWritten, crash.VoteWriting, crash.VoteWritten, crash.TruncateWriting, crash.TruncateWritten,
		crash.SnapshotWriting, crash.SnapshotWritten, crash.SnapshotKept, crash.RestoreLoading, crash.RestoreLoaded,
	}
	for _, kind := range []string{"files", "memory"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				seen := map[crash.Point]int{}
				n := solo(t, func(c *Config) {
					c.Compact = Compaction{Threshold: 1 << 20, Interval: time.Hour, Trailing: 1}
					c.Crash = func(p crash.Point) {
						mu.Lock()
						defer mu.Unlock()
						seen[p]++
					}
					if kind == "memory" {
						c.Dir, c.Memory = "", NewMemory()
					}
				})
				for i := range 20 {
					n.must(put(fmt.Sprint("k", i), "x"))
				}
				require.NoError(t, n.raft.Snapshot().Error())
				n.restart().leads()
				mu.Lock()
				defer mu.Unlock()
				for _, p := range disk {
					assert.Positive(t, seen[p], p)
				}
			})
		})
	}
}

// TestFrozenMemory kills a node in front of a write: what it had written stays, what
// comes later does not, and the memory opens again.
func TestFrozenMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		var armed atomic.Bool
		mem := NewMemory()
		told := make(chan error, 1)
		nodes := trio(t, over, func(c *Config) {
			if c.ID == "n1" {
				c.Memory = mem
				c.Fatal = func(err error) { told <- err }
				c.Crash = func(p crash.Point) {
					if p == crash.LogWriting && armed.Load() {
						mem.Freeze()
					}
				}
			}
		})
		n := nodes[0].leads()
		n.must(put("a", "1"))
		armed.Store(true)
		_, err := n.Propose(t.Context(), put("b", "lost"))
		require.Error(t, err)
		await.Sleep(time.Minute) // it would seek votes, and cannot
		require.Empty(t, told, "nobody hears of the dead")
		_, err = Open(Config{ID: "n1", Memory: mem, Advertise: "x:1", Stream: over.listen("x:1"), Log: discard()})
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "frozen")
		armed.Store(false)
		n.stop()
		mem.Thaw()
		cfg := n.cfg
		cfg.Stream = over.listen(cfg.Advertise)
		n = start(t, cfg)
		leaderOf(t, append(nodes[1:], n)...).must(put("c", "3"))
		n.sees("c", "3")
		assert.Equal(t, "1", addrOf(n.View(), "a"))
		assert.Empty(t, addrOf(n.View(), "b"))
	})
}

// TestFailedSnapshotEndsTheProcess takes the folder of the snapshots away.
func TestFailedSnapshotEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan error, 1)
		n := solo(t, func(c *Config) { c.Fatal = func(err error) { told <- err } })
		require.NoError(t, os.RemoveAll(n.cfg.Dir+"/"+snapshotDir))
		require.Error(t, n.raft.Snapshot().Error())
		require.ErrorContains(t, <-told, "making a snapshot")
	})
}
