package raftstore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/api"
	"berth/internal/crash"
	"berth/internal/mutant"
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
	mu        sync.Mutex    // guards the fields below
	dead      error
}

func newGuard(cfg Config, fail func(error), leads func() bool) *guard {
	g := &guard{
		node: cfg.ID, crash: cfg.Crash, fail: fail, leads: leads,
		leading: cfg.HungLeading, otherwise: cfg.HungOtherwise, one: make(chan struct{}, 1), wrap: cfg.wrap,
	}
	g.one <- struct{}{}
	return g
}

// write makes one write of log, term or vote; there is one at a time.
func (g *guard) write(what string, f func() error) error {
	defer g.watch(what, g.leading, g.otherwise)()
	<-g.one
	defer func() { g.one <- struct{}{} }()
	return g.did(what, f)
}

// step makes one write to a file of its own: of a snapshot.
func (g *guard) step(what string, f func() error) error {
	long := g.otherwise * snapshotPatience
	defer g.watch(what, long, long)()
	return g.did(what, f)
}

func (g *guard) did(what string, f func() error) error {
	if err := g.ended(); err != nil {
		return fmt.Errorf("%s: the node has stopped: %w", what, err)
	}
	err := f()
	if err != nil {
		return g.broken(fmt.Errorf("%s: %w", what, err))
	}
	return nil
}

// broken ends the process because of err, and returns it.
func (g *guard) broken(err error) error {
	g.mu.Lock()
	first := g.dead == nil
	if first {
		g.dead = err
	}
	g.mu.Unlock()
	if first && !errors.Is(err, errFrozen) {
		g.fail(refuse(g.node, err))
	}
	return err
}

// ended returns why nothing is written any more, if so.
func (g *guard) ended() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead
}

// watch ends the process when the returned function is not called in time. Raft
// alone would wait for ever, and go on leading. Time in which the process itself was
// stopped does not count.
func (g *guard) watch(what string, leading, otherwise time.Duration) (stop func() bool) {
	if mutant.On(mutant.WatchdogOff) {
		return func() bool { return true }
	}
	hung := func(after time.Duration) {
		_ = g.broken(fmt.Errorf("%s has hung for %s; the process ends so that another node can lead", what, after)) // it is told by fail
	}
	last := startCountdown(otherwise, func() { hung(otherwise) })
	if leading >= otherwise {
		return last.stop
	}
	first := startCountdown(leading, func() {
		if g.leads() {
			hung(leading)
		}
	})
	return func() bool {
		first.stop()
		return last.stop()
	}
}
