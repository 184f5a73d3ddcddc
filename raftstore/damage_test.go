package raftstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
)

// openAgain opens the store of n1 in dir and closes it.
func openAgain(dir string) error {
	s, err := Open(Config{ID: "n1", Dir: dir, Advertise: "h:1", Stream: newNetwork().listen("h:1"), Log: discard()})
	if err == nil {
		err = s.Close()
	}
	return err
}

// used returns the directory of a stopped node with a snapshot and some hundred
// entries, of which the oldest are compacted away.
func used(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, func(c *Config) {
			c.Dir, c.Compact = dir, Compaction{Threshold: 1 << 20, Interval: time.Hour, Trailing: 20}
		})
		for i := range 250 {
			n.must(put(fmt.Sprint("k", i%7), string(bytes.Repeat([]byte{'x'}, i%200))))
			if i == 100 {
				require.NoError(t, n.raft.Snapshot().Error())
			}
		}
		n.must(put("large", string(bytes.Repeat([]byte("large"), 4000)))) // more than a page
	})
	return dir
}

// content is all that a log holds, for comparison.
type content struct {
	book    ledger
	votes   votes
	entries []raft.Log
}

func contentOf(path string) (content, error) {
	r, err := openLog(path, "n1")
	if err != nil {
		return content{}, err
	}
	defer func() { _ = r.Close() }()
	c := content{book: r.book, votes: r.votes}
	err = r.eachStored(func(index uint64, l *raft.Log) error {
		if index == ledgerIndex {
			return nil
		}
		e, _, err := openEntry(index, l)
		e.Data = bytes.Clone(e.Data)
		c.entries = append(c.entries, e)
		return err
	})
	return c, err
}

// livePages returns where the pages begin that a bolt file is read from: its roots
// and what can be reached from them. The others hold what was given up, or nothing.
// How many there are is the affair of bolt, which may make a file larger than it has
// to be.
func livePages(t *testing.T, b []byte) []int {
	t.Helper()
	f, err := readBolt(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	for name := range f.buckets {
		require.NoError(t, f.walkBucket(name, func([]byte, []byte) error { return nil }))
	}
	pages := []int{0, int(f.pageSize)}
	for _, p := range slices.Sorted(maps.Keys(f.seen)) {
		pages = append(pages, int(p*f.pageSize))
	}
	return pages
}

// TestRandomDamage flips single bits and cuts the log. The node either refuses to
// start, and says what is damaged, or has everything that it had. Most of the bits
// are in pages that are read, where they are likely to count; some are anywhere.
func TestRandomDamage(t *testing.T) {
	dir := used(t)
	path := filepath.Join(dir, logFile)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	want, err := contentOf(path)
	require.NoError(t, err)
	require.Greater(t, len(want.entries), 150)
	seed := dice.Seed(t)
	draw := rand.New(rand.NewPCG(seed, 0))
	pages, size := livePages(t, good), os.Getpagesize()
	refused := 0
	for i := range 1200 {
		bad, what := bytes.Clone(good), ""
		if i%10 == 0 {
			at := draw.IntN(len(bad))
			bad, what = bad[:at], fmt.Sprintf("cut at %d", at)
		} else {
			at, bit := pages[draw.IntN(len(pages))]+draw.IntN(size), draw.IntN(8)
			if i%10 == 1 {
				at = draw.IntN(len(bad))
			}
			bad[at] ^= 1 << bit
			what = fmt.Sprintf("bit %d of byte %d", bit, at)
		}
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		got, err := contentOf(path)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged, "seed %d: %s", seed, what)
			refused++
			if refused%20 == 0 {
				err = openAgain(dir)
				require.ErrorIs(t, err, ErrDamaged, "seed %d: %s", seed, what)
				require.Equal(t, api.CodeConflict, api.CodeOf(err), "seed %d: %s", seed, what)
			}
			continue
		}
		require.Equal(t, want, got, "seed %d: %s", seed, what)
		if i%20 == 0 { // and bolt gets on with it
			require.NoError(t, openAgain(dir), "seed %d: %s", seed, what)
		}
	}
	assert.Greater(t, refused, 400, "seed %d: hardly any damage hit what counts", seed)
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.NoError(t, openAgain(dir))
}

// pageAt returns where the first page with the given flags that begins with its own
// number and holds at least two elements begins.
func pageAt(t *testing.T, b []byte, flags uint16) int {
	t.Helper()
	size := os.Getpagesize()
	f, err := readBolt(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	require.NoError(t, f.walkBucket(bucketLogs, func([]byte, []byte) error { return nil }))
	for at := 2 * size; at < len(b); at += size {
		live := f.seen[uint64(at/size)]
		if live && native.Uint64(b[at:]) == uint64(at/size) && native.Uint16(b[at+8:]) == flags && native.Uint16(b[at+10:]) > 1 {
			return at
		}
	}
	t.Fatalf("no page with flags %d", flags)
	return 0
}

// TestDamageIsNamed damages each kind of byte of a data directory once.
func TestDamageIsNamed(t *testing.T) {
	dir := used(t)
	path := filepath.Join(dir, logFile)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	size := os.Getpagesize()
	live, err := readBolt(bytes.NewReader(good), int64(len(good)))
	require.NoError(t, err)
	require.NoError(t, live.walkBucket(bucketLogs, func([]byte, []byte) error { return nil }))
	find := func(what string) int { // in a page that is in use: free ones still have what they had
		for i := len(good); ; {
			i = bytes.LastIndex(good[:i], []byte(what))
			require.Positive(t, i, what)
			if live.seen[uint64(i/size)] {
				return i
			}
		}
	}
	entry := func(index uint64) int { // of the key of a live entry
		key := binary.BigEndian.AppendUint64(nil, index)
		leaf := pageAt(t, good, boltLeaf)
		i := bytes.Index(good[leaf:leaf+size], key)
		require.Positive(t, i)
		return leaf + i
	}
	first := binary.BigEndian.Uint64(good[pageAt(t, good, boltLeaf)+boltHeader+int(native.Uint32(good[pageAt(t, good, boltLeaf)+boltHeader+4:])):])
	newest := 0
	if native.Uint64(good[size+boltHeader+48:]) > native.Uint64(good[boltHeader+48:]) {
		newest = size
	}
	for _, c := range []struct {
		name, says string
		at         int // a bit is flipped here
	}{
		{"the newer root", "the checksum of root", newest + boltHeader + 40},
		{"the older root", "the checksum of root", size - newest + boltHeader + 48},
		{"the sum of a root", "the checksum of root", boltHeader + 57},
		{"the magic of a root", "root 0", boltHeader},
		{"the key of an entry", "page", entry(first)},
		{"the head of an entry", "the entry at index", entry(first+1) + 8},
		{"the head of a length", "the entry at index", entry(first+1) + 8 + 11},
		{"the data of an entry", "checksum of the entry at index", bytes.LastIndex(good, []byte("xxxxxxxx"))},
		{"the number of a branch page", "page", pageAt(t, good, boltBranch)},
		{"the count of a branch page", "", pageAt(t, good, boltBranch) + 10},
		{"a key of a branch page", "page", pageAt(t, good, boltBranch) + boltHeader + int(native.Uint32(good[pageAt(t, good, boltBranch)+boltHeader:])) + 7},
		{"a child of a branch page", "page", pageAt(t, good, boltBranch) + boltHeader + 8},
		{"the count of a leaf page", "", pageAt(t, good, boltLeaf) + 10},
		{"the name of a bucket", "bucket", find("logs")},
		{"the votes", "term and vote", find("CurrentTerm")},
		{"the name of the votes", "", find("votes")},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := bytes.Clone(good)
			bad[c.at] ^= 1
			require.NoError(t, os.WriteFile(path, bad, 0o600))
			checkRefused(t, dir, logFile, c.says)
		})
	}
	for name, length := range map[string]int{
		"cut within a page": len(good) - 3*size/2, "cut at a page": 5 * size, "cut to the roots": 2 * size,
		"cut within a root": 40, "nothing left": 0,
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, good[:length], 0o600))
			if _, err := contentOf(path); err == nil && name == "cut within a page" {
				t.Skip("the file has room to spare")
			}
			checkRefused(t, dir, logFile, "")
		})
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.NoError(t, openAgain(dir))
}

func checkRefused(t *testing.T, dir string, says ...string) {
	t.Helper()
	err := openAgain(dir)
	require.ErrorIs(t, err, ErrDamaged)
	assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	for _, s := range append(says, "berth operator remove n1", "new id") {
		assert.Contains(t, api.MessageOf(err), s)
	}
}

// withLog opens the log of dir as bolt does, and lets change write to it.
func withLog(t *testing.T, dir string, change func(u under)) {
	t.Helper()
	b, err := openBolt(filepath.Join(dir, logFile))
	require.NoError(t, err)
	change(b)
	require.NoError(t, b.Close())
}

// TestLossIsNoticed takes things away so that bolt has nothing to complain about.
func TestLossIsNoticed(t *testing.T) {
	good := used(t)
	for name, c := range map[string]struct {
		says string
		do   func(t *testing.T, dir string)
	}{
		"the last entry": {"is missing", func(t *testing.T, dir string) {
			t.Helper()
			c, err := contentOf(filepath.Join(dir, logFile))
			require.NoError(t, err)
			withLog(t, dir, func(u under) { require.NoError(t, u.DeleteRange(c.book.Last, c.book.Last)) })
		}},
		"an entry in the middle": {"is missing", func(t *testing.T, dir string) {
			t.Helper()
			withLog(t, dir, func(u under) { require.NoError(t, u.DeleteRange(120, 120)) })
		}},
		"all entries": {"is missing", func(t *testing.T, dir string) {
			t.Helper()
			withLog(t, dir, func(u under) { require.NoError(t, u.DeleteRange(0, ledgerIndex-1)) })
		}},
		"the ledger": {"its ledger is missing", func(t *testing.T, dir string) {
			t.Helper()
			withLog(t, dir, func(u under) { require.NoError(t, u.DeleteRange(ledgerIndex, ledgerIndex)) })
		}},
		"an old ledger": {"outside of", func(t *testing.T, dir string) {
			t.Helper()
			c, err := contentOf(filepath.Join(dir, logFile))
			require.NoError(t, err)
			c.book.Last--
			page, err := c.book.encodePage()
			require.NoError(t, err)
			withLog(t, dir, func(u under) { require.NoError(t, u.StoreLog(page)) })
		}},
		"an entry at another place": {"checksum of the entry", func(t *testing.T, dir string) {
			t.Helper()
			withLog(t, dir, func(u under) {
				var l raft.Log
				require.NoError(t, u.GetLog(150, &l))
				l.Index = 151
				require.NoError(t, u.StoreLog(&l))
			})
		}},
		"the vote": {"checksum of its term and vote", func(t *testing.T, dir string) {
			t.Helper()
			withLog(t, dir, func(u under) { require.NoError(t, u.Set(votesKey, nil)) })
		}},
		"the snapshot": {"the snapshot up to index", func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(onlySnapshot(t, dir)))
		}},
		"the folder of snapshots": {"the snapshot up to index", func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(filepath.Join(dir, snapshotDir)))
		}},
		"a byte of the snapshot": {"its checksum does not match", func(t *testing.T, dir string) {
			t.Helper()
			b, err := os.ReadFile(onlySnapshot(t, dir))
			require.NoError(t, err)
			b[len(b)/2] ^= 1
			require.NoError(t, os.WriteFile(onlySnapshot(t, dir), b, 0o600))
		}},
		"the id in node.json": {nodeFile + ": damaged", func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, nodeFile)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			at := bytes.Index(b, []byte(`"node_id":"`)) + len(`"node_id":"`)
			b[at] ^= 1
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}},
		"node.json": {nodeFile, func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, nodeFile), []byte(`{"format":2,`), 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(dir, os.DirFS(good)))
			c.do(t, dir)
			checkRefused(t, dir, c.says)
		})
	}
}

// TestEveryBitOfTheIdentity flips each bit of node.json in turn: it is refused as
// damaged, or says what it said before.
func TestEveryBitOfTheIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), nodeFile)
	want := identity{Format: diskFormat, Node: "n1"}
	require.NoError(t, writeIdentity(path, want))
	want.Sum = want.checksum()
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for bit := range 8 * len(good) {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(path, b, 0o600))
		if got, err := readIdentity(path); err == nil {
			assert.Equal(t, want, got, "%s", b)
		} else {
			assert.ErrorIs(t, err, ErrDamaged, "%s", b)
		}
	}
}

func onlySnapshot(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, snapshotDir, "*"+snapshotSuffix))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// TestFilesOfAnotherNode puts a file of n2 where one of n1 belongs.
func TestFilesOfAnotherNode(t *testing.T) {
	mine := used(t)
	other := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, func(c *Config) { c.ID, c.Dir = "n2", other })
		require.NoError(t, n.raft.Snapshot().Error())
	})
	for _, name := range []string{logFile, filepath.Join(snapshotDir, filepath.Base(onlySnapshot(t, other)))} {
		b, err := os.ReadFile(filepath.Join(other, name))
		require.NoError(t, err)
		keep, _ := os.ReadFile(filepath.Join(mine, name)) // nil when there is none
		require.NoError(t, os.WriteFile(filepath.Join(mine, name), b, 0o600))
		checkRefused(t, mine, "n2")
		require.NoError(t, os.WriteFile(filepath.Join(mine, name), keep, 0o600))
	}
}

// TestFirstStartMayBeCutOff leaves off the first start after each of its steps.
func TestFirstStartMayBeCutOff(t *testing.T) {
	steps := map[string]func(t *testing.T, dir string){
		"nothing": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(dir))
		},
		"folder": func(*testing.T, string) {},
		"half a log": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, logFile+tempSuffix), make([]byte, 5000), 0o600))
		},
		"log of its own name": func(t *testing.T, dir string) {
			t.Helper()
			b, err := openBolt(filepath.Join(dir, logFile+tempSuffix))
			require.NoError(t, err)
			require.NoError(t, b.Close())
		},
		"whole log, not renamed": func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, logFile)
			require.NoError(t, makeLog(path, "n1"))
			require.NoError(t, os.Rename(path, path+tempSuffix))
		},
		"log": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, makeLog(filepath.Join(dir, logFile), "n1"))
		},
		"half a node.json": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, makeLog(filepath.Join(dir, logFile), "n1"))
			require.NoError(t, os.WriteFile(filepath.Join(dir, nodeFile+tempSuffix), []byte(`{"for`), 0o600))
		},
		"all but the snapshots": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, prepareDir(dir, rest{node: "n1"}, false))
		},
	}
	for name, leave := range steps {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "raft")
			require.NoError(t, os.Mkdir(dir, 0o700))
			leave(t, dir)
			for range 2 {
				require.NoError(t, openAgain(dir))
			}
			left, err := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}
