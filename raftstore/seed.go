package raftstore

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/raftstore/state"
)

// WriteBackup writes a state as Snapshot does: ReadBackup reads it. about has the writer, the index and the term.
func WriteBackup(w io.Writer, st *state.State, about Backup) error {
	if err := writeBackup(&countingWriter{ctx: func() error { return nil }, to: w}, st, &about); err != nil {
		return fmt.Errorf("writing a backup: %w", err)
	}
	return nil
}

// Seed makes a node that has never run the only member of a zone with the state in a backup, in its term and behind its
// index. cfg is as for Open, but for what is about a running node. It may be repeated until it has returned nil, and changes
// nothing then.
//
// Errors: those of Open for a directory of another node, or one that is damaged or sealed with another key.
func Seed(cfg Config, b *BackupFile) (err error) {
	cfg = cfg.withDefaults()
	st, failed, err := openStopped(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, failed.first(), st.close()) }()
	known, err := st.snapshots.List()
	if err != nil || len(known) > 0 {
		return err
	}
	if last, err := st.logs.LastIndex(); err != nil || last > 0 {
		return errors.Join(err, api.Errorf(api.CodeConflict, "node %s has a log already, at index %d", cfg.ID, last))
	}
	if err = st.stable.SetUint64([]byte("CurrentTerm"), b.Term); err != nil {
		return err
	}
	machine := newFSM(cfg.Form, failed.note)
	machine.live = b.State
	machine.board.postView(freezeState(b.State), b.Index, state.Everything)
	alone := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(cfg.ID), Address: raft.ServerAddress(cfg.Advertise)}}}
	if err = keepSnapshot(st, machine, position{b.Index, b.Term}, alone); err != nil {
		return fmt.Errorf("beginning node %s in %s from a backup: %w", cfg.ID, cfg.Dir, err)
	}
	return nil
}
