package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/raftstore/command"
)

// Survivor is what a stopped node has of a zone that has lost its majority.
type Survivor struct {
	Node        api.NodeID
	Index, Term uint64      // of its newest entry
	At          api.Instant // of its newest command behind its snapshot, by the clock of the leader; 0 without one
	Members     []Member    // of the newest set of members that it knows, itself among them
}

// Lost returns the other voters of the zone.
func (s *Survivor) Lost() (out []Member) {
	for _, m := range s.Members {
		if m.Voter && m.ID != s.Node {
			out = append(out, m)
		}
	}
	return out
}

// Survey reads what the stopped node of a directory has, and changes nothing. Errors as for OpenDisk.
func Survey(dir string, key *DiskKey) (_ *Survivor, err error) {
	d, err := OpenDisk(dir, key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	s := &Survivor{Node: d.Node()}
	if all := d.Snapshots(); len(all) > 0 {
		s.Index, s.Term, s.Members = all[0].Index, all[0].Term, all[0].Members
	}
	from := s.Index
	err = d.log.eachStored(func(index uint64, l *raft.Log) error {
		if index <= from || !d.log.book.hasEntry(index) {
			return nil
		}
		e, err := d.entryOfLog(index, l)
		if err != nil {
			return err
		}
		if e.Kind == EntryConfiguration {
			s.Members = e.Members
		}
		s.Index, s.Term = e.Index, e.Term
		for _, c := range e.Commands {
			s.At = max(s.At, c.Time())
		}
		return nil
	})
	return s, err
}

// How far a recovered zone goes on behind what its survivor has. Agents, parents and children may have heard of later
// terms and entries from the members that are lost: what comes now is newer than all of that, and what the lost ones
// might still say is older.
const (
	recoverTerms   = 1 << 20
	recoverEntries = 1 << 32
)

// Recover makes the stopped node of a directory the only member of its zone, with all entries that it has,
// acknowledged or not. What only the lost members had is gone. All that agents and other zones follow counts as
// changed, so that they are told of it anew. cfg is as for Open, but for what is about a running node. It may be
// repeated until it has returned nil.
//
// Errors: those of OpenDisk; CodeConflict for a node that is no voter, or that is the only one.
func Recover(cfg Config) (_ *Survivor, err error) {
	cfg = cfg.withDefaults()
	s, err := Survey(cfg.Dir, cfg.DiskKey)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.Members, func(m Member) bool { return m.ID == s.Node })
	switch {
	case s.Node != cfg.ID:
		return nil, api.Errorf(api.CodeConflict, "data directory %s belongs to node %s, not to %s", cfg.Dir, s.Node, cfg.ID)
	case i < 0 || !s.Members[i].Voter:
		return nil, api.Errorf(api.CodeConflict, "node %s is no voter of its zone: it may lack what the zone has acknowledged; recover a voter", s.Node)
	case len(s.Lost()) == 0:
		return nil, api.Errorf(api.CodeConflict, "node %s is the only voter of its zone already; start it", s.Node)
	}
	st, failed, err := openStopped(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, failed.first(), st.close()) }()
	alone := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(s.Node), Address: raft.ServerAddress(s.Members[i].Addr)}}}
	if err = recoverStores(st, newFSM(cfg.Form, failed.note), alone); err != nil {
		return nil, fmt.Errorf("recovering node %s in %s: %w", s.Node, filepath.Dir(cfg.Dir), err)
	}
	return s, nil
}

// recoverStores replaces what Raft has of a node by a snapshot of its state with other members. It does what
// raft.RecoverCluster does, and goes on behind recoverTerms and recoverEntries.
func recoverStores(st stores, machine *fsm, members raft.Configuration) error {
	end, err := replay(st, machine)
	if err != nil {
		return err
	}
	term, err := st.stable.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		return err
	}
	if err = st.stable.SetUint64([]byte("CurrentTerm"), max(term, end.term)+recoverTerms); err != nil {
		return err
	}
	last, err := st.logs.LastIndex()
	if err != nil {
		return err
	}
	end.index += recoverEntries
	now := machine.board.cur.Load().state.Now()
	told, err := encodeCommands([]command.Command{command.Restored{Stamp: command.Stamp{At: now}}}, api.FormFirst)
	if err != nil {
		return err
	}
	if err, failed := machine.Apply(&raft.Log{Type: raft.LogCommand, Index: end.index, Term: end.term, Data: told}).(error); failed {
		return err
	}
	if err = keepSnapshot(st, machine, end, members); err != nil {
		return err
	}
	return st.logs.DeleteRange(1, last)
}

// keepSnapshot makes what a machine has the newest snapshot of a node.
func keepSnapshot(st stores, machine *fsm, end position, members raft.Configuration) error {
	snapshot, err := machine.Snapshot()
	if err != nil {
		return err
	}
	sink, err := st.snapshots.Create(raft.SnapshotVersionMax, end.index, end.term, members, 1, nil)
	if err != nil {
		return err
	}
	if err = snapshot.Persist(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// replay applies the newest snapshot and all entries behind it, and returns where they end.
func replay(st stores, machine *fsm) (end position, err error) {
	known, err := st.snapshots.List()
	if err != nil {
		return end, err
	}
	if len(known) > 0 {
		_, r, err := st.snapshots.Open(known[0].ID)
		if err != nil {
			return end, err
		}
		if err = errors.Join(machine.Restore(r), r.Close()); err != nil {
			return end, err
		}
		end = endOf(known[0])
	}
	last, err := st.logs.LastIndex()
	if err != nil {
		return end, err
	}
	for index := end.index + 1; index <= last; index++ {
		var l raft.Log
		if err = st.logs.GetLog(index, &l); err != nil {
			return end, err
		}
		if err, failed := machine.Apply(&l).(error); failed {
			return end, err
		}
		end = position{l.Index, l.Term}
	}
	return end, nil
}

// openStopped opens what Raft writes to of a node that does not run. Nobody waits for one, so its disk may take as long as that of a
// node which does not lead.
func openStopped(cfg Config) (stores, *failure, error) {
	failed := &failure{}
	never := func() bool { return false }
	st, err := openStores(cfg, newGuard(cfg, failed.note, never), never)
	return st, failed, err
}

// failure is why a node that does not run would have to end its process, if so.
type failure struct {
	mu  sync.Mutex // guards err, which a disk that hangs sets from elsewhere
	err error
}

func (f *failure) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *failure) first() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
