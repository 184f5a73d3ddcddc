package raftstore

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// takeUpTimeout bounds the wait for the last part of a backup: the state is loaded while the
// entry is applied. A deposed leader gets an error at once.
const takeUpTimeout = 5 * time.Minute

// Backup describes a backup.
type Backup struct {
	Node   api.NodeID        // the writer
	Index  uint64            // last entry it holds
	Term   uint64            // the writer's term
	Bytes  int64             // length of the file
	SHA256 [sha256.Size]byte // of all but its last 32 bytes, which are the same sum
}

// Snapshot returns a backup of View as one self-describing, checksummed file, which
// Restore takes. It is written to the data directory first, so a slow reader holds
// up nobody; the caller closes it. Call Linearizable before to be sure that it holds
// everything that was acknowledged.
func (s *Store) Snapshot(ctx context.Context) (io.ReadCloser, Backup, error) {
	st := s.View().WithoutUpload()
	f, err := s.openScratch()
	if err != nil {
		return nil, Backup{}, fmt.Errorf("writing a backup: %w", err)
	}
	about := Backup{Node: s.cfg.ID, Index: st.Index(), Term: s.Term()}
	if err = writeBackup(&countingWriter{ctx: ctx.Err, to: f}, st, &about); err != nil {
		return nil, Backup{}, errors.Join(fmt.Errorf("writing a backup: %w", err), f.Close())
	}
	return fileReader{io.NewSectionReader(f, 0, about.Bytes), f}, about, nil
}

// writeBackup writes a frozen state, and fills in what is known of the file then.
func writeBackup(to *countingWriter, st *state.State, about *Backup) error {
	buffer := bufio.NewWriterSize(to, archiveBufBytes)
	w, err := beginArchive(buffer, archiveHeader{Node: about.Node, Index: about.Index, Term: about.Term})
	if err == nil {
		err = saveState(st, w)
	}
	if err == nil {
		about.SHA256, err = w.finishArchive()
	}
	if err == nil {
		err = buffer.Flush()
	}
	about.Bytes = to.bytes
	return err
}

// Restore replaces the state of the whole zone by the one in a backup of the same
// zone. Only the leader can; the members stay as they are. The backup is read to its
// end, verified and loaded on trial first. Then it goes through the log in parts, and
// every node takes it up with the last one, at the same index. What was acknowledged
// since it was written is gone; index and time of the state go on. stamp gives the
// time of each part.
//
// Errors: CodeInvalid for a backup that is damaged, of another zone, or cannot be
// loaded, CodeTooLarge above BackupMaxBytes, CodeConflict when another restore has
// begun meanwhile, CodeUnavailable and CodeOverloaded: nothing was changed in any of
// these cases. CodeTimeout: not known; the zone may have taken it up, or still will.
func (s *Store) Restore(ctx context.Context, from io.Reader, stamp func() command.Stamp) error {
	if !s.IsLeader() {
		return notLeader("raftstore.Restore")
	}
	f, err := s.openScratch()
	if err != nil {
		return fmt.Errorf("receiving a backup: %w", err)
	}
	a, err := receiveArchive(ctx, from, f, BackupMaxBytes)
	if err == nil {
		err = tryLoad(a, s.View().Zone, s.Form())
	}
	if err == nil {
		err = s.proposeParts(ctx, a.payload, stamp)
	}
	return errors.Join(err, f.Close())
}

// proposeParts proposes the state in a backup part by part.
func (s *Store) proposeParts(ctx context.Context, payload *io.SectionReader, stamp func() command.Stamp) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, payload); err != nil {
		return fmt.Errorf("reading a backup: %w", err)
	}
	c := command.Restore{Sum: sum.Sum(nil), Size: payload.Size()}
	for last := false; !last; c.Offset += int64(len(c.Data)) {
		c.Data = make([]byte, min(command.BackupPartMaxBytes, c.Size-c.Offset))
		if _, err := payload.ReadAt(c.Data, c.Offset); err != nil && err != io.EOF {
			return fmt.Errorf("reading a backup: %w", err)
		}
		c.Stamp, last = stamp(), c.Last()
		patience := s.cfg.Timeout
		if last {
			patience = max(patience, takeUpTimeout)
		}
		results, err := s.proposePatiently(ctx, patience, []command.Command{c})
		if err == nil {
			err = results[0].Err
		}
		if api.CodeOf(err) == api.CodeTimeout && !last { // whatever becomes of this part, the last one will not follow
			return api.Wrap(api.CodeUnavailable, "raftstore.Restore", msgBusy, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// receiveArchive copies a backup into f and verifies it.
func receiveArchive(ctx context.Context, from io.Reader, f scratchFile, limit int64) (*archive, error) {
	to := &countingWriter{ctx: ctx.Err, to: f}
	if _, err := io.Copy(to, io.LimitReader(from, limit+1)); err != nil {
		return nil, fmt.Errorf("receiving a backup: %w", err)
	}
	if to.bytes > limit {
		return nil, api.Errorf(api.CodeTooLarge, "a backup has at most %d bytes", limit)
	}
	a, err := openArchive(f, to.bytes)
	if errors.Is(err, ErrDamaged) {
		return nil, api.Wrap(api.CodeInvalid, "raftstore.Restore", "the backup is damaged; nothing was changed", err)
	}
	return a, err
}

// tryLoad loads a verified backup once, in forms up to that of the zone, into nothing. A
// node that cannot load it from the log must stop.
func tryLoad(a *archive, zone api.ZoneID, form api.Form) error {
	st, err := loadAll(io.NewSectionReader(a.payload, 0, a.payload.Size()), form)
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

func (s *Store) openScratch() (scratchFile, error) {
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
