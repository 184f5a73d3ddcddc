package raftstore

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/internal/crash"
)

const (
	snapshotsKept  = 2
	snapshotSuffix = ".snap"
	tempSuffix     = ".tmp"
)

// snapshots keeps the newest snapshots of Raft as one archive each. A file is
// written under another name, made durable, and then renamed, so what bears the
// suffix is whole. All of them are verified when the store is opened, and each
// again whenever it is read: raft's own store would pass over a damaged one in
// silence and start from an older state.
type snapshots struct {
	dir   string
	guard *guard
	kept  func(end position) error // tells the log of a new one

	mu    sync.Mutex           // guards known
	known []*raft.SnapshotMeta // newest first
}

var _ snapshotKeeper = (*snapshots)(nil)

// openSnapshots verifies what dir holds and removes what a crash left half
// written.
func openSnapshots(dir string, g *guard) (*snapshots, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if err := removeLeftovers(dir); err != nil {
		return nil, err
	}
	known, err := listSnapshots(dir, g.node)
	if err != nil {
		return nil, err
	}
	return &snapshots{dir: dir, guard: g, known: known}, nil
}

// listSnapshots verifies the snapshots in dir, which node wrote, and returns them,
// newest first.
func listSnapshots(dir string, node api.NodeID) ([]*raft.SnapshotMeta, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var known []*raft.SnapshotMeta
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), snapshotSuffix)
		if !ok {
			continue
		}
		meta, r, err := loadSnapshot(dir, id, node)
		if err != nil {
			return nil, err
		}
		_ = r.Close() // it was only read
		known = append(known, meta)
	}
	slices.SortFunc(known, newestFirst)
	return known, nil
}

func newestFirst(a, b *raft.SnapshotMeta) int {
	return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Index, a.Index))
}

func snapshotID(index, term uint64) string { return fmt.Sprintf("%020d-%020d", term, index) }

func (s *snapshots) pathOf(id string) string { return filepath.Join(s.dir, id+snapshotSuffix) }

func (s *snapshots) tell(kept func(position) error) { s.kept = kept }

func (s *snapshots) newest() position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) == 0 {
		return position{}
	}
	return endOf(s.known[0])
}

// List implements raft.SnapshotStore: verified snapshots, newest first.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known), nil
}

// Open implements raft.SnapshotStore. The whole file is verified first.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := loadSnapshot(s.dir, id, s.guard.node)
	if err != nil {
		return nil, nil, s.guard.endProcess(err)
	}
	return meta, r, nil
}

// loadSnapshot verifies and opens the snapshot id in dir, which node wrote.
func loadSnapshot(dir, id string, node api.NodeID) (*raft.SnapshotMeta, io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(dir, id+snapshotSuffix))
	if err != nil {
		return nil, nil, err
	}
	meta, payload, err := openSnapshot(f, id, node)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("snapshot %s: %w", f.Name(), err), f.Close())
	}
	return meta, fileReader{bufio.NewReaderSize(payload, archiveBufBytes), f}, nil
}

func openSnapshot(f *os.File, id string, node api.NodeID) (*raft.SnapshotMeta, io.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	a, err := openArchive(f, info.Size())
	if err != nil {
		return nil, nil, err
	}
	if id != snapshotID(a.Index, a.Term) || a.Node != node {
		return nil, nil, damagef("it holds snapshot %s of node %s", snapshotID(a.Index, a.Term), a.Node)
	}
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: id, Index: a.Index, Term: a.Term,
		Configuration: raft.DecodeConfiguration(a.Members), ConfigurationIndex: a.MembersFrom,
		Size: a.payload.Size(),
	}, a.payload, nil
}

// fileReader reads from a buffer and closes the file under it.
type fileReader struct {
	io.Reader
	io.Closer
}

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(
	version raft.SnapshotVersion, index, term uint64,
	members raft.Configuration, membersFrom uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("snapshot version %d is not %d", version, raft.SnapshotVersionMax)
	}
	s.guard.crash.At(crash.SnapshotWriting)
	var f *os.File
	err := s.guard.writeSnapshotStep("making a snapshot", func() (err error) {
		f, err = os.CreateTemp(s.dir, "*"+tempSuffix)
		return err
	})
	if err != nil {
		return nil, err
	}
	meta := &raft.SnapshotMeta{
		Version: version, ID: snapshotID(index, term), Index: index, Term: term,
		Configuration: members, ConfigurationIndex: membersFrom,
	}
	buffer := bufio.NewWriterSize(guardedFile{f, s.guard}, archiveBufBytes)
	w, err := beginArchive(buffer, archiveHeader{
		Node: s.guard.node, Index: index, Term: term,
		Members: raft.EncodeConfiguration(members), MembersFrom: membersFrom,
	})
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &snapshotSink{archiveWriter: w, store: s, file: f, buffer: buffer, meta: meta}, nil
}

// guardedFile is a file whose writes are watched.
type guardedFile struct {
	*os.File
	guard *guard
}

// Write implements io.Writer.
func (f guardedFile) Write(p []byte) (n int, err error) {
	err = f.guard.writeSnapshotStep("a write of a snapshot", func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

// keepSnapshot tells the log of meta, makes it known, and removes what is too old.
func (s *snapshots) keepSnapshot(meta *raft.SnapshotMeta) error {
	if err := s.kept(endOf(meta)); err != nil {
		return err
	}
	s.mu.Lock()
	s.known = slices.DeleteFunc(s.known, func(m *raft.SnapshotMeta) bool { return m.ID == meta.ID })
	s.known = append(s.known, meta)
	slices.SortFunc(s.known, newestFirst)
	var old []*raft.SnapshotMeta
	if len(s.known) > snapshotsKept {
		old = slices.Clone(s.known[snapshotsKept:])
		s.known = s.known[:snapshotsKept:snapshotsKept]
	}
	s.mu.Unlock()
	for _, m := range old {
		err := s.guard.writeSnapshotStep("removing an old snapshot", func() error { return os.Remove(s.pathOf(m.ID)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshotSink is a snapshot that is being written.
type snapshotSink struct {
	*archiveWriter
	store  *snapshots
	file   *os.File
	buffer *bufio.Writer
	meta   *raft.SnapshotMeta
	done   bool
}

// ID implements raft.SnapshotSink.
func (k *snapshotSink) ID() string { return k.meta.ID }

// Close implements raft.SnapshotSink: the snapshot is durable when it returns nil.
func (k *snapshotSink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	_, err := k.finishArchive()
	if err == nil {
		err = k.buffer.Flush()
	}
	if err == nil {
		err = k.store.guard.writeSnapshotStep("making a snapshot durable", k.file.Sync)
	}
	err = errors.Join(err, k.file.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("writing a snapshot: %w", err), os.Remove(k.file.Name()))
	}
	k.store.guard.crash.At(crash.SnapshotWritten)
	err = k.store.guard.writeSnapshotStep("keeping a snapshot", func() error {
		return renameDurably(k.file.Name(), k.store.pathOf(k.meta.ID))
	})
	if err != nil {
		return err
	}
	k.store.guard.crash.At(crash.SnapshotKept)
	k.meta.Size = k.payload
	return k.store.keepSnapshot(k.meta)
}

// Cancel implements raft.SnapshotSink.
func (k *snapshotSink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	return errors.Join(k.file.Close(), os.Remove(k.file.Name()))
}
