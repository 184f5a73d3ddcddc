package raftstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"berth/internal/dice"
)

// TestLogAgainstAModel does at random what Raft does with a log, opens it again and
// again, and compares it with a plain list. No good file may be refused.
func TestLogAgainstAModel(t *testing.T) {
	seed := dice.Seed(t)
	draw := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), logFile)
	require.NoError(t, makeLog(path, "n1"))
	var model []raft.Log // the entries, ascending
	next, snap, term := uint64(1), position{}, uint64(0)
	for round := range 40 {
		bolt, err := openBolt(path)
		require.NoError(t, err)
		c, err := openChecked(bolt, guardOf("n1"), snap, func() bool { return false })
		require.NoError(t, err, "seed %d round %d", seed, round)
		for range 1 + draw.IntN(25) {
			switch n := uint64(len(model)); draw.IntN(8) {
			case 0: // a snapshot, and the log is compacted
				if n == 0 {
					continue
				}
				if l := model[draw.IntN(len(model))]; l.Index > snap.index {
					snap = position{l.Index, l.Term}
				}
				require.NoError(t, c.noteSnapshot(snap))
				from, to := model[0].Index, model[0].Index+uint64(draw.IntN(int(n)))
				if to > snap.index {
					continue
				}
				require.NoError(t, c.DeleteRange(from, to))
				model = model[to-from+1:]
			case 1: // another leader's entries replace the tail
				from := max(snap.index+1, next-min(next-1, uint64(draw.IntN(40))))
				if n == 0 || from >= next || from < model[0].Index {
					continue
				}
				require.NoError(t, c.DeleteRange(from, next-1))
				model, next = model[:from-model[0].Index], from
			case 2: // a snapshot from elsewhere overtakes the log
				if draw.IntN(10) > 0 {
					continue
				}
				snap = position{next + uint64(draw.IntN(100)), term + 1}
				require.NoError(t, c.noteSnapshot(snap))
				if n > 0 {
					require.NoError(t, c.DeleteRange(model[0].Index, next-1))
				}
				model, next = nil, snap.index+1
			case 3:
				term++
				require.NoError(t, c.SetUint64([]byte("CurrentTerm"), term))
			default:
				var logs []*raft.Log
				for range 1 + draw.IntN(64) {
					l := raft.Log{Index: next, Term: term, AppendedAt: time.Unix(0, int64(next)).UTC(), Data: make([]byte, draw.IntN(300))}
					if draw.IntN(50) == 0 {
						l.Data = make([]byte, draw.IntN(50_000))
					}
					logs = append(logs, &l)
					model = append(model, l)
					next++
				}
				require.NoError(t, c.StoreLogs(logs))
			}
		}
		require.NoError(t, bolt.Close())
		got, err := contentOf(path)
		require.NoError(t, err, "seed %d round %d", seed, round)
		require.Len(t, got.entries, len(model), "seed %d round %d", seed, round)
		for i := range model {
			require.Equal(t, fmt.Sprint(model[i]), fmt.Sprint(got.entries[i]), "seed %d round %d", seed, round)
		}
	}
}

// BenchmarkCheck measures what the checks add to one entry of a kilobyte: seal and
// open it, and watch the write.
func BenchmarkCheck(b *testing.B) {
	l := logEntry(7, make([]byte, 1024))
	g := guardOf("n1")
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			sealEntry(l)
		}
	})
	b.Run("open", func(b *testing.B) {
		sealed := sealEntry(l)
		for b.Loop() {
			if _, _, err := openEntry(7, sealed); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("watch", func(b *testing.B) {
		for b.Loop() {
			if err := g.writeEntry("nothing", func() error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestALogThatASnapshotOvertook: a node that ended after it had kept a snapshot from
// elsewhere, and before it had dropped its log, drops it when it starts; also if the
// log is longer and contradicts the snapshot.
func TestALogThatASnapshotOvertook(t *testing.T) {
	logs := make([]*raft.Log, 5)
	for i := range logs {
		logs[i] = &raft.Log{Index: uint64(i) + 1, Term: 1}
	}
	for newest, last := range map[position]uint64{{}: 5, {4, 1}: 5, {5, 1}: 5, {6, 1}: 0, {9, 2}: 0, {4, 2}: 0, {5, 2}: 0} {
		path := filepath.Join(t.TempDir(), logFile)
		require.NoError(t, makeLog(path, "n1"))
		opened := func(snap position, do func(*checked)) {
			bolt, err := openBolt(path)
			require.NoError(t, err)
			c, err := openChecked(bolt, guardOf("n1"), snap, func() bool { return false })
			require.NoError(t, err)
			do(c)
			require.NoError(t, bolt.Close())
		}
		opened(position{}, func(c *checked) { require.NoError(t, c.StoreLogs(logs)) })
		opened(newest, func(c *checked) {
			got, err := c.LastIndex()
			require.NoError(t, err)
			require.Equal(t, last, got, "a snapshot up to %v", newest)
		})
	}
}

// TestBucketsBeginWithinTheFile: a bucket that is said to begin elsewhere is damage.
func TestBucketsBeginWithinTheFile(t *testing.T) {
	whole, sound := emptyLog(t)
	first := sound.root*sound.pageSize + boltHeader
	key := uint64(native.Uint32(whole[first+8:]))
	value := first + uint64(native.Uint32(whole[first+4:])) + key
	for _, page := range []uint64{1, sound.pages, sound.pages + 1, 1 << 62} {
		bad := bytes.Clone(whole)
		native.PutUint64(bad[value:], page)
		b, err := readBolt(bytes.NewReader(bad), int64(len(bad)))
		require.NoError(t, err)
		err = b.walkBucket(string(bad[value-key:value]), func([]byte, []byte) error { return nil })
		require.ErrorIs(t, err, ErrDamaged, "page %d", page)
		require.ErrorContains(t, err, "is out of bounds")
	}
}

// TestARootOfOtherThanBuckets: what stands where the buckets should be is damage.
func TestARootOfOtherThanBuckets(t *testing.T) {
	whole, sound := emptyLog(t)
	first := sound.root*sound.pageSize + boltHeader // its flags, and behind its place and its key's length that of its value
	for offset, value := range map[uint64]uint32{0: 0, 12: boltElement - 1} {
		bad := bytes.Clone(whole)
		native.PutUint32(bad[first+offset:], value)
		_, err := readBolt(bytes.NewReader(bad), int64(len(bad)))
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "is no bucket")
	}
}

// emptyLog returns the file of a new log, and what it says of itself.
func emptyLog(t *testing.T) ([]byte, *boltFile) {
	t.Helper()
	path := filepath.Join(t.TempDir(), logFile)
	require.NoError(t, makeLog(path, "n1"))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	sound, err := readBolt(bytes.NewReader(whole), int64(len(whole)))
	require.NoError(t, err)
	return whole, sound
}
