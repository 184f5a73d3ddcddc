package raftstore

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/internal/crash"
	"berth/internal/measure"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// errBroken answers for every entry after one that could not be applied.
var errBroken = errors.New("the state machine has stopped")

// fsm is the state machine as Raft sees it. Raft calls all but Persist from one
// goroutine (and Restore from Open, before that goroutine exists), so its fields
// need no lock.
type fsm struct {
	live   *state.State
	board  *viewBoard
	newest api.Form // that it reads
	broken error
	fail   func(error) // called once, with the reason why the node must stop
	crash  crash.Hook

	now     func() time.Time // nil to measure nothing
	applied *measure.Histogram

	touched []state.Topic // by the entries of the batch that is being applied

	members atomic.Uint64 // index of the newest change of members that was applied; 0 if a snapshot may hold a newer one
}

var _ raft.BatchingFSM = (*fsm)(nil)

func newFSM(newest api.Form, fail func(error)) *fsm {
	live := emptyState()
	return &fsm{live: live, newest: newest, board: newBoard(freezeState(live)), fail: fail}
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies committed entries and then publishes one view. The answer to
// a command entry is a []state.Result, or an error once the machine has stopped.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	if f.now != nil {
		defer func(began time.Time) { f.applied.NoteTime(f.now().Sub(began)) }(f.now())
	}
	f.touched = f.touched[:0]
	for i, l := range logs {
		if l.Type == raft.LogConfiguration {
			f.members.Store(l.Index)
		}
		if l.Type != raft.LogCommand || f.broken != nil {
			answers[i] = f.broken
			continue
		}
		results, err := f.applyEntry(l)
		if err != nil {
			f.broken = fmt.Errorf("%w: applying the entry at index %d: %w", errBroken, l.Index, err)
			f.fail(f.broken)
			answers[i] = f.broken
			continue
		}
		answers[i] = results
	}
	if f.broken == nil {
		f.board.postView(freezeState(f.live), logs[len(logs)-1].Index, f.touched...)
	}
	return answers
}

func (f *fsm) applyEntry(l *raft.Log) (results []state.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	cmds, err := decodeEntry(l.Data, f.newest)
	if err != nil {
		return nil, err
	}
	for _, c := range cmds {
		results = append(results, f.applyOne(l.Index, c))
		f.touched = append(f.touched, f.live.Touched()...)
	}
	return results, nil
}

func (f *fsm) applyOne(index uint64, c command.Command) state.Result {
	if !takesUp(c) {
		return applyCommand(f.live, index, c)
	}
	f.crash.At(crash.RestoreLoading)
	result := applyCommand(f.live, index, c)
	f.crash.At(crash.RestoreLoaded)
	return result
}

// Snapshot implements raft.FSM. The view that is up is immutable, so it is the
// snapshot. A stopped machine has none: Raft would stamp it with an index whose
// entries it lacks.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	return frozen{f.board.cur.Load().state}, nil
}

// Restore implements raft.FSM. The stream has been verified by the snapshot
// store. The old state stays in place unless all of it could be read.
func (f *fsm) Restore(r io.ReadCloser) error {
	if f.broken != nil {
		return f.broken
	}
	f.crash.At(crash.RestoreLoading)
	st, err := loadAll(r, f.newest)
	if newer, is := errors.AsType[*state.NewerFormError](err); is { // Raft would be sent it again for ever
		f.fail(errNewerForm(newer.Form, newer.Newest))
	}
	if err != nil {
		return err
	}
	f.crash.At(crash.RestoreLoaded)
	f.live = st
	f.members.Store(0)
	f.board.postView(freezeState(st), st.Index(), state.Everything)
	return nil
}

// loadAll reads a state, in forms up to newest, that must end where the stream ends.
func loadAll(r io.Reader, newest api.Form) (st *state.State, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("loading the state: panic: %v", p)
		}
	}()
	if st, err = loadState(r, newest); err != nil {
		return nil, fmt.Errorf("loading the state: %w", err)
	}
	// Load may have read ahead, so only bytes that it has left behind show here.
	n, err := io.Copy(io.Discard, r)
	if err != nil {
		return nil, fmt.Errorf("loading the state: %w", err)
	}
	if n > 0 {
		return nil, fmt.Errorf("loading the state: %d bytes are left over", n)
	}
	return st, nil
}

// frozen is a view on its way to a snapshot.
type frozen struct{ state *state.State }

// Persist implements raft.FSMSnapshot.
func (s frozen) Persist(sink raft.SnapshotSink) error {
	if err := saveState(s.state, sink); err != nil {
		return errors.Join(fmt.Errorf("saving the state: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (frozen) Release() {}
