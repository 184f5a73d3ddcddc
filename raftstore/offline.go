package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Disk is the data directory of a stopped node, open for reading. While it is open
// the node cannot start. Its methods are for one goroutine at a time.
type Disk struct {
	dir       string
	rest      rest
	log       *logReader
	snapshots []*raft.SnapshotMeta
}

// Kinds of entries: commands of ours, and what Raft writes for itself.
const (
	EntryCommand       = "command"
	EntryConfiguration = "configuration"
	EntryNoop          = "noop"
	EntryBarrier       = "barrier"
)

// Entry is one entry of the log.
type Entry struct {
	Index, Term uint64
	Kind        string            // one of the constants Entry*
	Commands    []command.Command // of EntryCommand
	Members     []Member          // of EntryConfiguration
	Bytes       int               // length of its data, without the checksum
	Sum         uint32            // CRC32C over index, term, type and data
}

// SnapshotInfo is one snapshot of the state.
type SnapshotInfo struct {
	ID          string
	Index, Term uint64 // of the last entry in it
	Bytes       int64  // of the state
	Members     []Member
}

// OpenDisk opens the data directory of a stopped node (Config.Dir) and verifies all
// of it, as Open does, without changing anything. Errors: CodeNotFound when there is
// no node in dir; CodeInvalid when it was made with another disk key than key, nil for none; CodeConflict when a process uses it, then with the cause
// syscall.EWOULDBLOCK, and for damage, which the text names, with ErrDamaged.
func OpenDisk(dir string, key *DiskKey) (*Disk, error) {
	id, err := readIdentity(filepath.Join(dir, nodeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Wrap(api.CodeNotFound, "raftstore.OpenDisk", dir+" holds the log of no node", err)
	}
	if errors.Is(err, ErrDamaged) { // so the id in it is not to be named
		return nil, api.Wrap(api.CodeConflict, "raftstore.OpenDisk", fmt.Sprintf(
			"%v; it does not tell whose log this is: \"berth node --dir %s\" does, and what to do", err, filepath.Dir(dir)), err)
	}
	if err != nil {
		return nil, err
	}
	if err := checkDiskKey(dir, id.Key, key); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, logFile)
	log, err := openLog(path, id.Node)
	if errors.Is(err, fs.ErrNotExist) {
		err = damagef("%s is missing", path)
	}
	if err != nil {
		return nil, refuseDamage(id.Node, err)
	}
	d := &Disk{dir: filepath.Join(dir, snapshotDir), rest: rest{id.Node, key}, log: log}
	d.snapshots, err = listSnapshots(d.dir, id.Node)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a first start was cut off before it was made
	}
	newest := uint64(0)
	if len(d.snapshots) > 0 {
		newest = d.snapshots[0].Index
	}
	if err == nil {
		err = checkSnapshot(log.book, newest)
	}
	if err != nil {
		return nil, errors.Join(refuseDamage(id.Node, err), log.Close())
	}
	return d, nil
}

// Close releases the directory.
func (d *Disk) Close() error { return d.log.Close() }

// Node returns the node to which the directory belongs.
func (d *Disk) Node() api.NodeID { return d.rest.node }

// Range returns the first and the last index of the log; both are 0 when it is empty.
func (d *Disk) Range() (first, last uint64) {
	if d.log.book.isEmpty() {
		return 0, 0
	}
	return d.log.book.First, d.log.book.Last
}

// Term returns the term that the node was in.
func (d *Disk) Term() uint64 {
	b := d.log.votes.Values["CurrentTerm"]
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Vote returns the last term in which the node voted, and the address that it voted
// for; 0 and "" if it never did.
func (d *Disk) Vote() (term uint64, candidate string) {
	b := d.log.votes.Values["LastVoteTerm"]
	if len(b) != 8 {
		return 0, ""
	}
	return binary.BigEndian.Uint64(b), string(d.log.votes.Values["LastVoteCand"])
}

// Entries returns the entries of the log, in ascending order. An error ends them:
// one whose commands this version cannot read, or an error of the disk. The entry
// beside it then has no commands.
func (d *Disk) Entries() iter.Seq2[Entry, error] {
	stop := errors.New("stop")
	return func(yield func(Entry, error) bool) {
		err := d.log.eachStored(func(index uint64, l *raft.Log) error {
			if !d.log.book.hasEntry(index) {
				return nil
			}
			e, err := d.entryOfLog(index, l)
			if !yield(e, err) || err != nil {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(Entry{}, err)
		}
	}
}

func (d *Disk) entryOfLog(index uint64, stored *raft.Log) (Entry, error) {
	l, sum, err := openEntry(index, stored)
	if err != nil {
		return Entry{Index: index}, err
	}
	if err := d.rest.openData(&l); err != nil {
		return Entry{Index: index}, err
	}
	e := Entry{Index: l.Index, Term: l.Term, Bytes: len(l.Data), Sum: sum}
	switch l.Type { //nolint:exhaustive // the deprecated ones are never written
	case raft.LogCommand:
		e.Kind = EntryCommand
		if e.Commands, err = decodeEntry(l.Data, api.FormNewest); err != nil {
			return e, fmt.Errorf("the entry at index %d: %w", index, err)
		}
	case raft.LogConfiguration:
		e.Kind = EntryConfiguration
		e.Members = membersOf(raft.DecodeConfiguration(l.Data), "")
	case raft.LogNoop:
		e.Kind = EntryNoop
	case raft.LogBarrier:
		e.Kind = EntryBarrier
	default:
		return e, fmt.Errorf("%w: the entry at index %d has the type %s", errEntry, index, l.Type)
	}
	return e, nil
}

// Snapshots returns the snapshots, newest first.
func (d *Disk) Snapshots() []SnapshotInfo {
	var all []SnapshotInfo
	for _, m := range d.snapshots {
		m = d.rest.measureSnapshot(m)
		all = append(all, SnapshotInfo{
			ID: m.ID, Index: m.Index, Term: m.Term, Bytes: m.Size, Members: membersOf(m.Configuration, ""),
		})
	}
	return all
}

// State returns the state in the snapshot with an ID.
func (d *Disk) State(id string) (st *state.State, err error) {
	m, r, err := loadSnapshot(d.dir, id, d.rest.node)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Wrap(api.CodeNotFound, "raftstore.State", "there is no such snapshot", err)
	}
	if err == nil {
		_, r, err = d.rest.openSnapshot(m, r)
	}
	if err != nil {
		return nil, refuseDamage(d.rest.node, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return loadAll(io.Reader(r), api.FormNewest)
}
