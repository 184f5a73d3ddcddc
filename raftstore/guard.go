package raftstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/api"
	"berth/internal/crash"
	"berth/internal/measure"
)

// snapshotPatience is how many times as long one write of a snapshot may take as
// one write of the log: it may be behind many megabytes of its own.
const snapshotPatience = 4

// errFrozen is what a write to a frozen Memory returns. Nobody is told: the node
// counts as dead.
var errFrozen = errors.New("the memory is frozen")

// guard stands over every write. The first one that fails, or that hangs, ends the
// process through fail; nothing is written after that, because after a failed fsync
// nobody knows what the disk holds.
type guard struct {
	node      api.NodeID
	crash     crash.Hook
	fail      func(error) // ends the process; may return, in tests
	leads     func() bool // this node leads, as far as it knows
	leading   time.Duration
	otherwise time.Duration
	wrap      func(under) under
	one       chan struct{} // holds one token while nothing is written
	now       func() time.Time
	written   *measure.Histogram // times of writes to the log
	paces     *paces             // the latest of them
	mu        sync.Mutex         // guards the fields below
	dead      error
}

func newGuard(cfg Config, fail func(error), leads func() bool) *guard {
	g := &guard{
		node: cfg.ID, crash: cfg.Crash, fail: fail, leads: leads,
		now: cfg.Now, paces: newPaces(cfg.Now), leading: cfg.HungLeading, otherwise: cfg.HungOtherwise, one: make(chan struct{}, 1), wrap: cfg.wrap,
	}
	g.one <- struct{}{}
	return g
}

// writeEntry makes one write of log, term or vote; there is one at a time.
func (g *guard) writeEntry(what string, f func() error) error {
	defer g.startWatchdog(what, g.leading, g.otherwise)()
	<-g.one
	defer func() { g.one <- struct{}{} }()
	began := g.now()
	defer func() {
		took := g.now().Sub(began)
		g.written.NoteTime(took)
		g.paces.noteOwn(took)
	}()
	return g.runWatched(what, f)
}

// writeSnapshotStep makes one write to a file of its own: of a snapshot.
func (g *guard) writeSnapshotStep(what string, f func() error) error {
	long := g.otherwise * snapshotPatience
	defer g.startWatchdog(what, long, long)()
	return g.runWatched(what, f)
}

func (g *guard) runWatched(what string, f func() error) error {
	if err := g.endedError(); err != nil {
		return fmt.Errorf("%s: the node has stopped: %w", what, err)
	}
	err := f()
	if err != nil {
		return g.endProcess(fmt.Errorf("%s: %w", what, err))
	}
	return nil
}

// endProcess ends the process because of err, and returns it.
func (g *guard) endProcess(err error) error {
	g.mu.Lock()
	first := g.dead == nil
	if first {
		g.dead = err
	}
	g.mu.Unlock()
	if first && !errors.Is(err, errFrozen) {
		g.fail(refuseDamage(g.node, err))
	}
	return err
}

// endedError returns why nothing is written any more, if so.
func (g *guard) endedError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead
}

// startWatchdog ends the process when the returned function is not called in time. Raft
// alone would wait for ever, and go on leading. Time in which the process itself was
// stopped does not count.
func (g *guard) startWatchdog(what string, leading, otherwise time.Duration) (stop func() bool) {
	hung := func(after time.Duration) {
		_ = g.endProcess(fmt.Errorf("%s has hung for %s; the process ends so that another node can lead", what, after)) // it is told by fail
	}
	last := startCountdown(otherwise, func() { hung(otherwise) })
	if leading >= otherwise {
		return last.stopWait
	}
	first := startCountdown(leading, func() {
		if g.leads() {
			hung(leading)
		}
	})
	return func() bool {
		first.stopWait()
		return last.stopWait()
	}
}
