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
	dir  string
	node api.NodeID

	mu    sync.Mutex           // guards known
	known []*raft.SnapshotMeta // newest first
}

var _ raft.SnapshotStore = (*snapshots)(nil)

// openSnapshots verifies what dir holds and removes what a crash left half
// written.
func openSnapshots(dir string, node api.NodeID) (*snapshots, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := sweep(dir); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &snapshots{dir: dir, node: node}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), snapshotSuffix)
		if !ok {
			continue
		}
		meta, r, err := s.Open(id)
		if err != nil {
			return nil, err
		}
		_ = r.Close() // it was only read
		s.known = append(s.known, meta)
	}
	slices.SortFunc(s.known, newestFirst)
	return s, nil
}

func newestFirst(a, b *raft.SnapshotMeta) int {
	return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Index, a.Index))
}

func snapshotID(index, term uint64) string { return fmt.Sprintf("%020d-%020d", term, index) }

func (s *snapshots) path(id string) string { return filepath.Join(s.dir, id+snapshotSuffix) }

// List implements raft.SnapshotStore: verified snapshots, newest first.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known), nil
}

// Open implements raft.SnapshotStore. The whole file is verified first.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	f, err := os.Open(s.path(id))
	if err != nil {
		return nil, nil, err
	}
	meta, payload, err := openSnapshot(f, id)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("snapshot %s: %w", f.Name(), err), f.Close())
	}
	return meta, fileReader{bufio.NewReaderSize(payload, archiveBufBytes), f}, nil
}

func openSnapshot(f *os.File, id string) (*raft.SnapshotMeta, io.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	a, err := openArchive(f, info.Size())
	if err != nil {
		return nil, nil, err
	}
	if id != snapshotID(a.Index, a.Term) {
		return nil, nil, fmt.Errorf("%w: it holds snapshot %s", errDamaged, snapshotID(a.Index, a.Term))
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
	f, err := os.CreateTemp(s.dir, "*"+tempSuffix)
	if err != nil {
		return nil, err
	}
	meta := &raft.SnapshotMeta{
		Version: version, ID: snapshotID(index, term), Index: index, Term: term,
		Configuration: members, ConfigurationIndex: membersFrom,
	}
	buffer := bufio.NewWriterSize(f, archiveBufBytes)
	w, err := beginArchive(buffer, archiveHeader{
		Node: s.node, Index: index, Term: term,
		Members: raft.EncodeConfiguration(members), MembersFrom: membersFrom,
	})
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &snapshotSink{archiveWriter: w, store: s, file: f, buffer: buffer, meta: meta}, nil
}

// keep makes meta known and removes what is too old.
func (s *snapshots) keep(meta *raft.SnapshotMeta) error {
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
		if err := os.Remove(s.path(m.ID)); err != nil {
			return fmt.Errorf("removing an old snapshot: %w", err)
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
	_, err := k.finish()
	if err == nil {
		err = k.buffer.Flush()
	}
	if err == nil {
		err = k.file.Sync()
	}
	err = errors.Join(err, k.file.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("writing a snapshot: %w", err), os.Remove(k.file.Name()))
	}
	if err := renameDurably(k.file.Name(), k.store.path(k.meta.ID)); err != nil {
		return fmt.Errorf("keeping a snapshot: %w", err)
	}
	k.meta.Size = k.payload
	return k.store.keep(k.meta)
}

// Cancel implements raft.SnapshotSink.
func (k *snapshotSink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	return errors.Join(k.file.Close(), os.Remove(k.file.Name()))
}
