package raftstore

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/raft"

	"berth/api"
)

// Backup says what a backup holds.
type Backup struct {
	Node   api.NodeID        // who wrote it
	Index  uint64            // last entry it holds
	Term   uint64            // the writer's term
	Bytes  int64             // length of the file
	SHA256 [sha256.Size]byte // of all but its last 32 bytes, which hold the same sum
}

// Snapshot returns a backup of View as one self-describing, checksummed file, which
// Restore takes. It is written to the data directory first, so a slow reader holds
// up nobody; the caller closes it. Call Linearizable before to be sure that it holds
// everything that was acknowledged.
func (s *Store) Snapshot(ctx context.Context) (io.ReadCloser, Backup, error) {
	st := s.View()
	f, err := s.scratch()
	if err != nil {
		return nil, Backup{}, fmt.Errorf("writing a backup: %w", err)
	}
	about := Backup{Node: s.cfg.ID, Index: st.Index(), Term: s.Term()}
	to := &countingWriter{ctx: ctx.Err, to: f}
	buffer := bufio.NewWriterSize(to, archiveBufBytes)
	w, err := beginArchive(buffer, archiveHeader{Node: about.Node, Index: about.Index, Term: about.Term})
	if err == nil {
		err = saveState(st, w)
	}
	if err == nil {
		about.SHA256, err = w.finish()
	}
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		return nil, Backup{}, errors.Join(fmt.Errorf("writing a backup: %w", err), f.Close())
	}
	about.Bytes = to.bytes
	return fileReader{io.NewSectionReader(f, 0, to.bytes), f}, about, nil
}

// Restore replaces the state of the whole zone by the one in a backup. Only the
// leader can; the members stay as they are. The backup is read to its end, verified
// and loaded on trial before anything changes. What was acknowledged since it was
// written is gone, and the index of the state goes back to the backup's until the
// next command: the caller should propose one that says what has happened.
//
// Errors: CodeInvalid for a backup that is damaged or cannot be loaded, CodeTooLarge
// above BackupMaxBytes, CodeUnavailable when nothing was changed, CodeTimeout when
// that is not known.
func (s *Store) Restore(ctx context.Context, from io.Reader) error {
	const op = "raftstore.Restore"
	if !s.IsLeader() {
		return notLeader(op)
	}
	f, err := s.scratch()
	if err != nil {
		return fmt.Errorf("receiving a backup: %w", err)
	}
	a, err := receive(ctx, from, f, BackupMaxBytes)
	if err == nil {
		err = tryLoad(a, s.View().Zone)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.ready.Store(0) // reads need a barrier behind the entry that Raft is about to write
	defer s.ready.Store(0)
	err = s.await(ctx, func() error {
		meta := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: a.Index, Term: a.Term, Size: a.payload.Size()}
		return errors.Join(s.raft.Restore(meta, a.payload, s.cfg.Timeout), f.Close())
	})
	if errors.Is(err, errClosing) {
		return errors.Join(closed(op), f.Close())
	}
	if err == nil {
		err = s.barrier(ctx)
	}
	if err != nil { // even "not the leader" may mean that it was until the last step
		return api.Wrap(api.CodeTimeout, op, msgUnknown, err)
	}
	return nil
}

// receive copies a backup into f and verifies it.
func receive(ctx context.Context, from io.Reader, f scratchFile, limit int64) (*archive, error) {
	to := &countingWriter{ctx: ctx.Err, to: f}
	if _, err := io.Copy(to, io.LimitReader(from, limit+1)); err != nil {
		return nil, fmt.Errorf("receiving a backup: %w", err)
	}
	if to.bytes > limit {
		return nil, api.Errorf(api.CodeTooLarge, "a backup has at most %d bytes", limit)
	}
	a, err := openArchive(f, to.bytes)
	if errors.Is(err, errDamaged) {
		return nil, api.Wrap(api.CodeInvalid, "raftstore.Restore", "the backup is damaged; nothing was changed", err)
	}
	return a, err
}

// tryLoad loads a verified backup once, into nothing. Raft would panic later, and
// a backup of another zone would bring its identity and keys along.
func tryLoad(a *archive, zone api.ZoneID) error {
	st, err := loadAll(io.NewSectionReader(a.payload, 0, a.payload.Size()))
	if err == nil && st.Index() != a.Index {
		err = fmt.Errorf("its state is at index %d, its header at %d", st.Index(), a.Index)
	}
	if err != nil {
		return api.Wrap(api.CodeInvalid, "raftstore.Restore",
			"this version cannot load the backup; nothing was changed", err)
	}
	if zone != "" && st.Zone != zone {
		return api.Errorf(api.CodeInvalid, "the backup is of zone %q (%s), not of this one; nothing was changed", st.Name, string(st.Zone))
	}
	return nil
}

// scratchFile is written once and then read, and gone when it is closed.
type scratchFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

func (s *Store) scratch() (scratchFile, error) {
	if s.cfg.Memory != nil {
		return &scratchMemory{}, nil
	}
	f, err := os.CreateTemp(s.cfg.Dir, "backup-*"+tempSuffix)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // it lives until it is closed
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// scratchMemory is a scratchFile for a Store in memory.
type scratchMemory struct{ b []byte }

// Write implements io.Writer.
func (m *scratchMemory) Write(p []byte) (int, error) {
	m.b = append(m.b, p...)
	return len(p), nil
}

// ReadAt implements io.ReaderAt.
func (m *scratchMemory) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (m *scratchMemory) Close() error { return nil }

// countingWriter counts what it passes on, until its caller has gone.
type countingWriter struct {
	ctx   func() error
	to    io.Writer
	bytes int64
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	if err := w.ctx(); err != nil {
		return 0, err
	}
	n, err := w.to.Write(p)
	w.bytes += int64(n)
	return n, err
}
