package raftstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
	"berth/raftstore/state"
)

var errDisk = errors.New("the disk is broken")

// brokenReader fails at one of its reads.
type brokenReader struct {
	io.ReaderAt
	left int // reads that go well
}

func (r *brokenReader) ReadAt(p []byte, at int64) (int, error) {
	if r.left--; r.left == -1 {
		return 0, errDisk
	}
	return r.ReaderAt.ReadAt(p, at)
}

// eachRead calls read with a reader that fails at its first, second ... read, until none fails, and expects that error each time.
func eachRead(t *testing.T, of []byte, read func(r io.ReaderAt) error) {
	t.Helper()
	for n := 0; ; n++ {
		r := &brokenReader{bytes.NewReader(of), n}
		err := read(r)
		if r.left >= 0 {
			require.NoError(t, err)
			require.Positive(t, n, "it reads nothing")
			return
		}
		require.ErrorIs(t, err, errDisk, "read %d", n+1)
		require.NotErrorIs(t, err, ErrDamaged, "read %d", n+1)
	}
}

// brokenWriter fails once a number of bytes was written.
type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func summed(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

func archiveOf(t *testing.T, h archiveHeader, payload []byte) []byte {
	t.Helper()
	header, err := codec.Marshal(h)
	require.NoError(t, err)
	b := binary.LittleEndian.AppendUint32([]byte(archiveMagic), uint32(len(header)))
	return summed(append(append(b, header...), payload...))
}

// headerOfSize returns a header whose encoding has a number of bytes.
func headerOfSize(t *testing.T, n int) archiveHeader {
	t.Helper()
	h := archiveHeader{Node: "n1", Index: 1, Term: 1}
	h.Members = make([]byte, n-len(mustHeader(t, h))-6)
	for len(mustHeader(t, h)) != n {
		h.Members = make([]byte, len(h.Members)+n-len(mustHeader(t, h)))
	}
	return h
}

// TestArchivesThatNobodyWrote have a good checksum, and are no archives of ours all the same.
func TestArchivesThatNobodyWrote(t *testing.T) {
	good := archiveOf(t, archiveHeader{Node: "n1", Index: 1, Term: 1}, []byte("payload"))
	a, err := openArchive(bytes.NewReader(good), int64(len(good)))
	require.NoError(t, err)
	assert.Equal(t, archiveHeader{Node: "n1", Index: 1, Term: 1}, a.archiveHeader)
	eachRead(t, good, func(r io.ReaderAt) error { _, err := openArchive(r, int64(len(good))); return err })

	body := good[:len(good)-sha256.Size]
	with := func(change func(b []byte)) []byte {
		b := bytes.Clone(body)
		change(b)
		return summed(b)
	}
	length := func(n uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[len(archiveMagic):], n) }
	}
	for why, b := range map[string][]byte{
		"does not begin like one": with(func(b []byte) { b[0]++ }),
		"header is cut short":     with(length(uint32(len(body)-len(archiveMagic)-4) + 1)),
		"header is cut":           archiveOf(t, headerOfSize(t, headerMaxBytes+1), nil),
		"damaged":                 with(func(b []byte) { b[len(archiveMagic)+4] = 0xff }),
	} {
		_, err := openArchive(bytes.NewReader(b), int64(len(b)))
		require.ErrorIs(t, err, ErrDamaged, why)
		require.ErrorContains(t, err, why)
		_, err = ReadBackup(bytes.NewReader(b))
		require.Equal(t, api.CodeInvalid, api.CodeOf(err), why)
	}
	long := archiveOf(t, headerOfSize(t, headerMaxBytes), nil)
	_, err = openArchive(bytes.NewReader(long), int64(len(long)))
	require.NoError(t, err, "at the limit")
}

// TestBackupsThatLie about their index, or are of another zone, are refused by all that read them.
func TestBackupsThatLie(t *testing.T) {
	st := state.New()
	require.NoError(t, st.Apply(4, initZone()).Err)
	payload := &bytes.Buffer{}
	require.NoError(t, saveState(st, payload))
	for index, want := range map[uint64]api.Code{3: api.CodeInvalid, 4: "", 5: api.CodeInvalid} {
		b := archiveOf(t, archiveHeader{Node: "n1", Index: index, Term: 2}, payload.Bytes())
		got, err := ReadBackup(bytes.NewReader(b))
		if want == "" {
			require.NoError(t, err)
			assert.Equal(t, Backup{Node: "n1", Index: 4, Term: 2, Bytes: int64(len(b)), SHA256: [32]byte(b[len(b)-32:])}, got.Backup)
		} else {
			assert.Equal(t, want, api.CodeOf(err), "index %d", index)
		}
		for zone, also := range map[api.ZoneID]api.Code{"": want, "z": want, "other": api.CodeInvalid} {
			a, err := openArchive(bytes.NewReader(b), int64(len(b)))
			require.NoError(t, err)
			err = tryLoad(a, zone, api.FormNewest)
			assert.Equal(t, also == "", err == nil, "%q %d", zone, index)
			if err != nil {
				assert.Equal(t, also, api.CodeOf(err), "%q %d", zone, index)
			}
		}
	}
	whole := &bytes.Buffer{}
	require.NoError(t, WriteBackup(whole, st, Backup{Node: "n1", Index: 4, Term: 2}))
	_, err := ReadBackup(bytes.NewReader(whole.Bytes()))
	require.NoError(t, err)
	for _, left := range []int{0, whole.Len() / 2, whole.Len() - 1} {
		require.ErrorIs(t, WriteBackup(&brokenWriter{left}, st, Backup{Node: "n1", Index: 4, Term: 2}), errDisk, "%d bytes", left)
	}
	header := len(archiveMagic) + 4 + len(mustHeader(t, archiveHeader{Node: "n1"}))
	_, err = beginArchive(&brokenWriter{header - 1}, archiveHeader{Node: "n1"})
	require.ErrorIs(t, err, errDisk)
	w, err := beginArchive(&brokenWriter{header + 32}, archiveHeader{Node: "n1"})
	require.NoError(t, err)
	_, err = w.Write([]byte{1})
	require.NoError(t, err)
	_, err = w.finishArchive()
	require.ErrorIs(t, err, errDisk)
	_, err = receiveArchive(t.Context(), bytes.NewReader(whole.Bytes()), brokenScratch{}, BackupMaxBytes)
	require.ErrorIs(t, err, errDisk)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = receiveArchive(gone, bytes.NewReader(whole.Bytes()), &scratchMemory{}, BackupMaxBytes)
	require.ErrorIs(t, err, context.Canceled)
}

type brokenScratch struct{ scratchFile }

func (brokenScratch) Write([]byte) (int, error) { return 0, errDisk }

// TestMemoryIsReadLikeAFile.
func TestMemoryIsReadLikeAFile(t *testing.T) {
	m := &scratchMemory{b: []byte("abc")}
	for _, c := range []struct {
		at   int64
		want string
		err  error
	}{{0, "ab", nil}, {1, "bc", nil}, {2, "c", io.EOF}, {3, "", io.EOF}, {4, "", io.EOF}} {
		p := make([]byte, 2)
		n, err := m.ReadAt(p, c.at)
		assert.Equal(t, c.want, string(p[:n]), "%d", c.at)
		assert.Equal(t, c.err, err, "%d", c.at)
	}
}

// TestSealedThatNobodyWrote: records with good checksums that hold what no node writes.
func TestSealedThatNobodyWrote(t *testing.T) {
	entry := func(more uint32) *raft.Log {
		l := &raft.Log{Index: 3, Term: 1, Data: []byte("data")}
		b := binary.LittleEndian.AppendUint32(bytes.Clone(l.Data), more)
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint32(b, sealSum(l, b))
		return &raft.Log{Index: 3, Term: 1, Data: b}
	}
	for more, ok := range map[uint32]bool{0: true, 1: true, 4: true, 5: false, math.MaxUint32: false} {
		got, _, err := openEntry(3, entry(more))
		require.Equal(t, ok, err == nil, "%d", more)
		if ok {
			assert.Equal(t, "data"[:4-more], string(got.Data))
			assert.Equal(t, "data"[4-more:], string(got.Extensions))
		} else {
			require.ErrorIs(t, err, ErrDamaged)
		}
	}
	good := ledger{Node: "n1", First: 3, Last: 5}
	for name, c := range map[string]struct {
		change func(b *ledger)
		ok     bool
	}{
		"good":       {func(*ledger) {}, true},
		"empty":      {func(b *ledger) { b.Last = 2 }, true},
		"a hole":     {func(b *ledger) { b.Last = 1 }, false},
		"no first":   {func(b *ledger) { b.First = 0 }, false},
		"no end":     {func(b *ledger) { b.Last = math.MaxUint64 }, false},
		"last":       {func(b *ledger) { b.Last = math.MaxUint64 - 1 }, true},
		"one dead":   {func(b *ledger) { b.DeadFrom, b.DeadTo = 2, 2 }, true},
		"dead":       {func(b *ledger) { b.DeadFrom, b.DeadTo = 2, 1 }, false},
		"not its":    {func(b *ledger) { b.Node = "n2" }, false},
		"its own":    {func(b *ledger) { b.First = 1 }, true},
		"dead after": {func(b *ledger) { b.DeadFrom, b.DeadTo = 6, 9 }, true},
	} {
		b := good
		c.change(&b)
		page, err := b.encodePage()
		require.NoError(t, err)
		got, err := readLedger("n1", page)
		require.Equal(t, c.ok, err == nil, name)
		if c.ok {
			assert.Equal(t, b, got, name)
		} else {
			require.ErrorIs(t, err, ErrDamaged, name)
		}
	}
	for _, l := range []*raft.Log{
		{Index: ledgerIndex, Type: ledgerType, Data: []byte{0xff}}, {Index: ledgerIndex, Data: []byte{0xa0}}, {Index: 7, Type: ledgerType, Data: []byte{0xa0}},
	} {
		_, err := readLedger("n1", sealEntry(l))
		require.ErrorIs(t, err, ErrDamaged)
	}

	v, err := votes{Node: "n1"}.encodeVotes()
	require.NoError(t, err)
	read, err := readVotes("n1", v)
	require.NoError(t, err)
	assert.NotNil(t, read.Values)
	no := []byte{0xff}
	for why, b := range map[string][]byte{
		"checksum": {1, 2, 3}, "term and vote": binary.LittleEndian.AppendUint32(no, crc32.Checksum(no, castagnoli)),
	} {
		_, err = readVotes("n1", b)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, why)
	}
	_, err = readVotes("n2", v)
	require.ErrorContains(t, err, "votes of node n1")
}

// TestPackedEntriesThatAreCut: at each byte, or are longer, or have another field.
func TestPackedEntriesThatAreCut(t *testing.T) {
	name := func(s string) []byte { return append([]byte{0xa0 | byte(len(s))}, s...) }
	good := slices.Concat([]byte{0x86},
		name("Index"), []byte{0xcf, 0, 0, 0, 0, 0, 0, 1, 2}, name("Term"), []byte{0xcd, 1, 0}, name("Type"), []byte{3},
		name("Data"), []byte{0xd9, 2, 'x', 'y'}, name("Extensions"), []byte{0xc0}, name("AppendedAt"), []byte{0xa1, 'z'})
	l, err := readPacked(good)
	require.NoError(t, err)
	assert.Equal(t, &raft.Log{Index: 258, Term: 256, Type: 3, Data: []byte("xy")}, l)
	for n := range good {
		_, err := readPacked(good[:n:n])
		require.ErrorIs(t, err, ErrDamaged, "%d bytes", n)
	}
	_, err = readPacked(append(bytes.Clone(good), 0))
	require.ErrorContains(t, err, "1 bytes are left over")
	_, err = readPacked(bytes.Replace(good, []byte("Type"), []byte("Kind"), 1))
	require.ErrorContains(t, err, `a field "Kind"`)
	_, err = readPacked(append([]byte{0x87}, good[1:]...))
	require.ErrorContains(t, err, "no map of six")
}

// TestBoltFilesThatNobodyWrote: with good checksums of both roots, and what bolt writes nowhere.
func TestBoltFilesThatNobodyWrote(t *testing.T) {
	good, b := emptyLog(t)
	size := int(b.pageSize)
	read := func(b []byte) error { _, err := readBolt(bytes.NewReader(b), int64(len(b))); return err }
	require.NoError(t, read(good))
	eachRead(t, good, func(r io.ReaderAt) error {
		b, err := readBolt(r, int64(len(good)))
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(b.buckets)) {
			if err := b.walkBucket(name, func(_, _ []byte) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	newest := 0
	if native.Uint64(good[size+boltHeader+48:]) > native.Uint64(good[boltHeader+48:]) {
		newest = 1
	}
	for name, c := range map[string]struct {
		root   int
		change func(page, m []byte)
		why    string
	}{
		"magic":          {0, func(_, m []byte) { native.PutUint32(m, 1) }, "does not begin like one"},
		"version":        {1, func(_, m []byte) { native.PutUint32(m[4:], 1) }, "does not begin like one"},
		"small pages":    {0, func(_, m []byte) { native.PutUint32(m[8:], boltPageMin/2) }, "page size of 512"},
		"large pages":    {0, func(_, m []byte) { native.PutUint32(m[8:], boltPageMax*2) }, "page size of 131072"},
		"odd pages":      {0, func(_, m []byte) { native.PutUint32(m[8:], 5000) }, "page size of 5000"},
		"smallest pages": {0, func(_, m []byte) { native.PutUint32(m[8:], boltPageMin) }, "root 1 "},
		"largest pages":  {0, func(_, m []byte) { native.PutUint32(m[8:], boltPageMax) }, "cut short"},
		"other pages":    {1, func(_, m []byte) { native.PutUint32(m[8:], boltPageMin) }, "root 1 is not where it belongs"},
		"number":         {0, func(p, _ []byte) { native.PutUint64(p, 1) }, "root 0 is not where it belongs"},
		"kind":           {1, func(p, _ []byte) { native.PutUint16(p[8:], boltLeaf) }, "root 1 is not where it belongs"},
		"turn":           {0, func(_, m []byte) { native.PutUint64(m[48:], native.Uint64(m[48:])+1) }, "root 0 is not where it belongs"},
		"later":          {newest, func(_, m []byte) { native.PutUint64(m[48:], native.Uint64(m[48:])+2) }, "of transactions"},
		"earlier":        {1 - newest, func(_, m []byte) { native.PutUint64(m[48:], native.Uint64(m[48:])+4) }, "of transactions"},
		"free pages":     {newest, func(_, m []byte) { native.PutUint64(m[32:], 2) }, "names a list of free pages"},
		"pages":          {newest, func(_, m []byte) { native.PutUint64(m[40:], uint64(len(good)/size)+1) }, "and should have"},
	} {
		b := bytes.Clone(good)
		page := b[c.root*size:]
		m := page[boltHeader : boltHeader+boltMeta]
		c.change(page, m)
		sum := fnv.New64a()
		sum.Write(m[:56])
		native.PutUint64(m[56:], sum.Sum64())
		err := read(b)
		require.ErrorIs(t, err, ErrDamaged, name)
		require.ErrorContains(t, err, c.why, name)
	}
}

// TestBoltPagesThatNobodyWrote: pages and elements at their limits and past them.
func TestBoltPagesThatNobodyWrote(t *testing.T) {
	const size = boltPageMin
	file := make([]byte, 5*size)
	for id := range uint64(5) {
		native.PutUint64(file[id*size:], id)
		native.PutUint16(file[id*size+8:], boltLeaf)
	}
	native.PutUint32(file[3*size+12:], 1) // page 3 goes on in page 4
	open := func() *boltFile {
		return &boltFile{from: bytes.NewReader(file), pageSize: size, pages: 5, seen: map[uint64]bool{}}
	}
	for id, bytes := range map[uint64]int{0: 0, 1: 0, 2: size, 3: 2 * size, 5: 0, 6: 0} {
		page, err := open().readPage(id)
		assert.Equal(t, bytes > 0, err == nil, "page %d", id)
		assert.Len(t, page, bytes, "page %d", id)
	}
	b := open()
	_, err := b.readPage(4)
	require.NoError(t, err)
	_, err = b.readPage(3)
	require.ErrorContains(t, err, "page 4 is used twice")
	native.PutUint32(file[3*size+12:], 2)
	_, err = open().readPage(3)
	require.ErrorContains(t, err, "does not begin like one", "it would go on behind the end")
	native.PutUint64(file[2*size:], 3)
	_, err = open().readPage(2)
	require.ErrorContains(t, err, "does not begin like one")
	_, err = open().readNode(boltBucketRef{inline: make([]byte, boltHeader-1)}, nil)
	require.ErrorContains(t, err, "cut short")

	element := func(leaf bool, pos, key, value uint32) []byte {
		page := make([]byte, boltHeader+boltElement+8)
		e := page[boltHeader:]
		if leaf {
			native.PutUint32(e[4:], pos)
			native.PutUint32(e[8:], key)
			native.PutUint32(e[12:], value)
		} else {
			native.PutUint32(e, pos)
			native.PutUint32(e[4:], key)
		}
		return page
	}
	for _, c := range []struct {
		leaf            bool
		pos, key, value uint32
		ok              bool
	}{
		{true, boltElement, 3, 5, true}, {true, boltElement, 3, 6, false}, {true, boltElement, 4, 5, false}, {true, boltElement + 1, 3, 5, false},
		{true, boltElement, 0, 8, false}, {false, boltElement, 8, 0, true}, {false, boltElement, 9, 0, false}, {false, boltElement, 0, 0, false},
	} {
		page := element(c.leaf, c.pos, c.key, c.value)
		it, err := readElement(page, 0, c.leaf)
		require.Equal(t, c.ok, err == nil, "%+v", c)
		if c.ok {
			assert.Len(t, it.key, int(c.key))
			assert.Len(t, it.value, int(c.value))
		}
	}
	_, err = readElement(make([]byte, boltHeader+boltElement), 1, true)
	require.ErrorIs(t, err, ErrDamaged, "no room for a second")
}

// brokenUnder is a store under a checked one that fails at one of its calls.
type brokenUnder struct {
	under
	left int
}

func (u *brokenUnder) fail() error {
	if u.left--; u.left == -1 {
		return errDisk
	}
	return nil
}

func (u *brokenUnder) Set(key, value []byte) error {
	return errors.Join(u.fail(), u.under.Set(key, value))
}

func (u *brokenUnder) Get(key []byte) ([]byte, error) {
	if err := u.fail(); err != nil {
		return nil, err
	}
	return u.under.Get(key)
}

func (u *brokenUnder) GetLog(index uint64, l *raft.Log) error {
	if err := u.fail(); err != nil {
		return err
	}
	return u.under.GetLog(index, l)
}

func (u *brokenUnder) StoreLog(l *raft.Log) error { return errors.Join(u.fail(), u.under.StoreLog(l)) }

func (u *brokenUnder) DeleteRange(from, to uint64) error {
	return errors.Join(u.fail(), u.under.DeleteRange(from, to))
}

// TestALogThatCannotBeOpened: each failure of what is under it is an error, and so is what is missing.
func TestALogThatCannotBeOpened(t *testing.T) {
	closed := func() bool { return false }
	for n := 0; ; n++ {
		mem := &brokenUnder{raft.NewInmemStore(), n}
		err := formatChecked(mem, votes{Node: "n1"}, ledger{Node: "n1", First: 1, Last: 2, DeadFrom: 5, DeadTo: 6})
		if mem.left >= 0 {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, errDisk, "call %d", n)
	}
	format := func(b ledger) *raft.InmemStore {
		mem := raft.NewInmemStore()
		require.NoError(t, formatChecked(mem, votes{Node: "n1", Values: map[string][]byte{"x": {1}}}, b))
		require.NoError(t, mem.StoreLog(sealEntry(&raft.Log{Index: 2, Term: 4})))
		return mem
	}
	dead := ledger{Node: "n1", First: 1, Last: 2, DeadFrom: 5, DeadTo: 6}
	for n := 0; ; n++ {
		mem := &brokenUnder{format(dead), n}
		c, err := openChecked(mem, guardOf("n1"), position{2, 4}, closed)
		if mem.left >= 0 {
			require.NoError(t, err)
			assert.Equal(t, ledger{Node: "n1", First: 1, Last: 2, Snap: 2}, c.currentLedger())
			_, err = c.GetUint64([]byte("x"))
			require.ErrorIs(t, err, ErrDamaged)
			assert.Zero(t, c.term())
			mem.left = 100
			require.NoError(t, c.SetUint64(termKey, 9))
			assert.Equal(t, uint64(9), c.term())
			break
		}
		require.ErrorIs(t, err, errDisk, "call %d", n)
	}
	_, err := openChecked(raft.NewInmemStore(), guardOf("n1"), position{}, closed)
	require.ErrorContains(t, err, "its ledger is missing")
	page, err := ledger{Node: "n1", First: 1}.encodePage()
	require.NoError(t, err)
	bare := raft.NewInmemStore()
	require.NoError(t, bare.StoreLog(page))
	_, err = openChecked(bare, guardOf("n1"), position{}, closed)
	require.ErrorContains(t, err, "its term and vote are missing")
	for first, ok := range map[uint64]bool{1: true, 3: true, 4: false} {
		for snap, also := range map[uint64]bool{0: true, 2: true, 3: false} {
			err := checkSnapshot(ledger{First: first, Snap: snap}, 2)
			assert.Equal(t, ok && also, err == nil, "%d %d", first, snap)
		}
	}
}

// TestFoldersInTheWay of files that a node makes are errors, whose files are not made.
func TestFoldersInTheWay(t *testing.T) {
	at := rest{node: "n1"}
	id := identity{Format: diskFormat, Node: "n1"}
	full := func(t *testing.T, path string) { require.NoError(t, os.MkdirAll(filepath.Join(path, "x"), 0o700)) }
	for name, run := range map[string]func(t *testing.T, dir string) error{
		"identity": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, nodeFile))
			return writeIdentity(filepath.Join(dir, nodeFile), id)
		},
		"its own": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, nodeFile+tempSuffix))
			return writeIdentity(filepath.Join(dir, nodeFile), id)
		},
		"log": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, logFile))
			return makeLog(filepath.Join(dir, logFile), "n1")
		},
		"new log": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, logFile+tempSuffix))
			return makeLog(filepath.Join(dir, logFile), "n1")
		},
		"bolt": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, logFile))
			_, err := openBolt(filepath.Join(dir, logFile))
			return err
		},
		"leftovers": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, "a"+tempSuffix))
			return removeLeftovers(dir)
		},
		"snapshots": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, "a"+tempSuffix))
			_, err := openSnapshots(dir, guardOf("n1"))
			return err
		},
		"no folder": func(t *testing.T, dir string) error { return syncDir(filepath.Join(dir, "none")) },
		"no parent": func(t *testing.T, dir string) error {
			return renameDurably(filepath.Join(dir, "none"), filepath.Join(dir, "some"))
		},
		"no list": func(t *testing.T, dir string) error {
			_, err := listSnapshots(filepath.Join(dir, "none"), "n1")
			return err
		},
		"under file": func(t *testing.T, dir string) error {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
			return makeDir(filepath.Join(dir, "f", "g"))
		},
		"prepared": func(t *testing.T, dir string) error {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
			return prepareDir(filepath.Join(dir, "f", "g"), at, false)
		},
		"no snaps": func(t *testing.T, dir string) error {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
			_, err := openSnapshots(filepath.Join(dir, "f", "g"), guardOf("n1"))
			return err
		},
		"a log of nobody": func(t *testing.T, dir string) error {
			require.NoError(t, os.WriteFile(filepath.Join(dir, logFile), []byte("nonsense"), 0o600))
			return prepareDir(dir, at, false)
		},
		"another format": func(t *testing.T, dir string) error {
			require.NoError(t, writeIdentity(filepath.Join(dir, nodeFile), identity{Format: 9, Node: "n1"}))
			_, err := readIdentity(filepath.Join(dir, nodeFile))
			assert.Equal(t, api.CodeConflict, api.CodeOf(err))
			return err
		},
		"not noted": func(_ *testing.T, dir string) error {
			cfg := Config{ID: "n1", Dir: dir, Made: func() error { return errDisk }}
			_, err := openStores(cfg, guardOf("n1"), func() bool { return false })
			require.ErrorIs(t, err, errDisk)
			return err
		},
		"left in the folder": func(t *testing.T, dir string) error {
			full(t, filepath.Join(dir, "a"+tempSuffix))
			_, err := openStores(Config{ID: "n1", Dir: dir}, guardOf("n1"), func() bool { return false })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, run(t, t.TempDir())) })
	}
}

// TestSnapshotsThatCannotBeKept: of another version, and those that the log does not take note of.
func TestSnapshotsThatCannotBeKept(t *testing.T) {
	s, err := openSnapshots(t.TempDir(), guardOf("n1"))
	require.NoError(t, err)
	s.tell(func(position) error { return errDisk })
	_, err = s.Create(raft.SnapshotVersionMax+1, 1, 1, raft.Configuration{}, 0, nil)
	require.Error(t, err)
	sink, err := s.Create(raft.SnapshotVersionMax, 1, 1, raft.Configuration{}, 0, nil)
	require.NoError(t, err)
	require.ErrorIs(t, sink.Close(), errDisk)
	assert.Zero(t, s.newest())
	require.NoError(t, sink.Close(), "again")
	require.NoError(t, sink.Cancel(), "too late")
	sink, err = s.Create(raft.SnapshotVersionMax, 2, 1, raft.Configuration{}, 0, nil)
	require.NoError(t, err)
	require.NoError(t, sink.(*snapshotSink).file.Close())
	require.Error(t, sink.Close(), "it is not durable")
	_, _, err = s.Open("none")
	require.Error(t, err)
}

// TestAStoppedNodeThatKnowsNothing: no entries, no term and no vote.
func TestAStoppedNodeThatKnowsNothing(t *testing.T) {
	d := &Disk{log: &logReader{}}
	d.log.book = ledger{First: 4, Last: 3}
	first, last := d.Range()
	assert.Equal(t, [2]uint64{}, [2]uint64{first, last})
	assert.Zero(t, d.Term())
	term, candidate := d.Vote()
	assert.Zero(t, term)
	assert.Empty(t, candidate)
	d.log.book = ledger{First: 4, Last: 4}
	first, last = d.Range()
	assert.Equal(t, [2]uint64{4, 4}, [2]uint64{first, last})
}

// TestEntriesThatCannotBeRead have their place all the same.
func TestEntriesThatCannotBeRead(t *testing.T) {
	d := &Disk{}
	e, err := d.entryOfLog(7, &raft.Log{Data: []byte("cut")})
	require.ErrorIs(t, err, ErrDamaged)
	assert.Equal(t, Entry{Index: 7}, e)

	key := DiskKey{1}
	d.rest = rest{"n1", &key}
	e, err = d.entryOfLog(7, sealEntry(&raft.Log{Index: 7, Term: 3, Data: []byte("not sealed with a key")}))
	require.Error(t, err)
	assert.Equal(t, Entry{Index: 7}, e)

	d.rest.key = nil
	for kind, why := range map[raft.LogType]string{raft.LogCommand: "the entry at index 7", raft.LogType(99): "has the type"} {
		e, err = d.entryOfLog(7, sealEntry(&raft.Log{Index: 7, Term: 3, Type: kind, Data: []byte{0xff}}))
		require.ErrorContains(t, err, why)
		assert.Equal(t, []uint64{7, 3, 1}, []uint64{e.Index, e.Term, uint64(e.Bytes)})
		assert.NotZero(t, e.Sum)
	}
}

// TestAttributesOfRaft: formats with values, without, and without a text.
func TestAttributesOfRaft(t *testing.T) {
	var got []string
	for _, a := range attrsOf([]any{"a-b c", hclog.Fmt("%d of %d", 1, 2), "one", hclog.Fmt("text"), "none", hclog.Format{}, "n", 3, "odd"}) {
		got = append(got, a.String())
	}
	assert.Equal(t, []string{"a_b_c=1 of 2", "one=text", "none=[]", "n=3"}, got)
}

// TestOthersRunNowAndThen: not at each write, which would cost more than it gives.
func TestOthersRunNowAndThen(t *testing.T) {
	w := &yieldingWriter{to: io.Discard}
	for _, c := range []struct{ bytes, since int }{{1, 1}, {yieldBytes - 2, yieldBytes - 1}, {1, 0}, {5, 5}, {yieldBytes, 0}} {
		_, err := w.Write(make([]byte, c.bytes))
		require.NoError(t, err)
		assert.Equal(t, c.since, w.written)
	}
}
