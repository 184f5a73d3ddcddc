package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/raftstore/state"
)

// appendMax is how many entries one message to a follower may hold, and how many
// are applied between two views. An entry is a batch already.
const appendMax = 32

// Store is one node's copy of the zone's state. Its methods may be called from
// several goroutines.
type Store struct {
	cfg      Config
	raft     *raft.Raft
	stores   stores
	views    *viewBoard
	queue    *queue
	asks     *asks
	progress *progress
	paces    *paces
	fsm      *fsm
	changing chan struct{} // holds a value while this node changes the members
	term     atomic.Pointer[term]
	ready    atomic.Uint64 // the term in which a barrier has passed; 0 for none
	caught   atomic.Bool   // CaughtUp has been true
	peers    *peerWatch
	measures Measures
	quiet    atomic.Bool // set by Close: Raft's complaints no longer matter

	failing sync.Once     // guards the start of the end
	failure error         // set before failed is closed
	failed  chan struct{} // closed when the node must not go on
	opened  atomic.Bool   // Open has returned, or is about to
	closing chan struct{} // closed by Close
	started atomic.Bool   // Run has been called

	mu     sync.Mutex // guards closed, and so the start of calls
	closed bool
	calls  sync.WaitGroup // what must end before Raft is shut down
}

// Open opens the data directory, making it if need be, and takes part in the
// zone. It returns when the newest snapshot has been loaded; entries behind it
// are applied as the zone confirms them. Run must be called to propose, to read
// linearizably and to lead; Close must be called in the end.
//
// Errors: CodeInvalid for a Config that cannot be; CodeConflict for a directory
// that belongs to another node, lost its log, or is in use; anything else is
// CodeInternal, damage on the disk above all.
func Open(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.checkConfig(); err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, queue: newQueue(), asks: newAsks(), progress: newProgress(), paces: newPaces(cfg.Now),
		failed: make(chan struct{}), closing: make(chan struct{}), changing: make(chan struct{}, 1), peers: newPeerWatch(cfg), measures: newMeasures(),
	}
	g := newGuard(cfg, s.failNode, func() bool { return s.opened.Load() && s.IsLeader() })
	g.written, g.paces = s.measures.Write, s.paces
	st, err := openStores(cfg, g, s.opened.Load)
	if err != nil {
		return nil, fmt.Errorf("opening node %s: %w", cfg.ID, err)
	}
	if err = checkForms(st.logs, cfg.Form); err != nil {
		return nil, errors.Join(fmt.Errorf("opening node %s: %w", cfg.ID, err), st.close())
	}
	s.stores = st
	s.term.Store(&term{changed: make(chan struct{})})
	machine := newFSM(cfg.Form, s.failNode)
	machine.applied, machine.now = s.measures.Apply, cfg.Now
	machine.crash = cfg.Crash
	s.views, s.fsm = machine.board, machine
	if s.raft, err = s.startRaft(machine); err != nil {
		return nil, errors.Join(fmt.Errorf("opening node %s: %w", cfg.ID, err), st.close())
	}
	s.opened.Store(true)
	return s, nil
}

// startRaft never panics, although raft does when the log has a hole.
func (s *Store) startRaft(machine *fsm) (r *raft.Raft, err error) {
	logger := newRaftLog(s.cfg.Log, &s.quiet)
	conf := raftConfig(s.cfg)
	conf.Logger = logger
	if err = raft.ValidateConfig(conf); err != nil {
		return nil, api.Wrap(api.CodeInvalid, "raftstore.Open", "the timing does not fit together", err)
	}
	transport := newTransport(s.cfg, logger, s.progress, s.paces, s.stores.stable, s.failNode)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("starting raft: panic: %v", p)
		}
		if err != nil {
			s.quiet.Store(true)
			err = errors.Join(err, transport.Close())
		}
	}()
	if s.cfg.Bootstrap {
		err = raft.BootstrapCluster(conf, s.stores.logs, s.stores.stable, s.stores.snapshots, transport,
			raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: transport.LocalAddr()}}})
		if err != nil && !errors.Is(err, raft.ErrCantBootstrap) { // it is there already
			return nil, fmt.Errorf("making a zone of one node: %w", err)
		}
	}
	r, err = raft.NewRaft(conf, machine, s.stores.logs, s.stores.stable, s.stores.snapshots, transport)
	if err == nil {
		r.RegisterObserver(raft.NewObserver(nil, false, s.peers.note))
	}
	return r, err
}

func raftConfig(cfg Config) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(cfg.ID)
	conf.HeartbeatTimeout = cfg.Timing.Heartbeat
	conf.ElectionTimeout = cfg.Timing.Election
	conf.LeaderLeaseTimeout = cfg.Timing.LeaderLease
	conf.CommitTimeout = cfg.Timing.Commit
	conf.SnapshotThreshold = cfg.Compact.Threshold
	conf.SnapshotInterval = cfg.Compact.Interval
	conf.TrailingLogs = cfg.Compact.Trailing
	conf.MaxAppendEntries = appendMax
	conf.ShutdownOnRemove = false // a removed node still answers local reads until it is stopped
	conf.NoLegacyTelemetry = true
	return conf
}

// Run does the work of the store until ctx ends or Close is called, and returns
// nil then. It returns an error when the state machine has stopped: the process
// should end. Proposals that wait when Run returns are refused. Run may be called
// once.
func (s *Store) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return api.Errorf(api.CodeConflict, "the store runs already")
	}
	if !s.enterCall() {
		return closedError("raftstore.Run")
	}
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.proposeQueued(ctx) })
	wg.Go(func() { s.confirmAsks(ctx) })
	wg.Go(func() { s.watchLeadership(ctx) })
	wg.Go(func() { s.watchPace(ctx) })
	select {
	case <-ctx.Done():
	case <-s.closing:
	case <-s.failed:
	}
	cancel()
	s.queue.close()
	s.asks.close()
	wg.Wait()
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// Close stops taking part in the zone and closes the stream and the files. It
// waits for Run and for every call inside Raft. A second call does nothing.
//
// A leader that wants to be missed for a shorter time calls Transfer before.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	close(s.closing)
	s.queue.close()
	s.asks.close()
	s.calls.Wait()
	s.quiet.Store(true)
	return errors.Join(s.raft.Shutdown().Error(), s.stores.close())
}

// enterCall starts a call that Close waits for, unless Close has begun. The caller
// owes s.calls.Done when it returned true.
func (s *Store) enterCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.calls.Add(1)
	return true
}

// errClosing is what await returns when it has not made the call.
var errClosing = fmt.Errorf("the store closes: %w", raft.ErrRaftShutdown)

// awaitCall makes a call that Raft may answer late or, on a hung disk, never, and
// waits no longer than ctx. The call goes on by itself then; Close waits for it.
func (s *Store) awaitCall(ctx context.Context, call func() error) error {
	if !s.enterCall() {
		return errClosing
	}
	done := make(chan error, 1)
	go func() {
		defer s.calls.Done()
		done <- call()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failNode is called when the node must not go on; the first call counts.
func (s *Store) failNode(err error) {
	s.failing.Do(func() {
		s.failure = err
		close(s.failed)
		s.cfg.Fatal(err) // before anything that may hang
		s.cfg.Log.Error("the node must not go on; this process must end", "error", err)
	})
}

// View returns the newest state that this node has applied: immutable, possibly
// behind the leader's. It takes no lock. After Propose has returned on this node,
// View holds what was proposed.
func (s *Store) View() *state.State { return s.views.cur.Load().state }

// Form returns the form that the zone writes: that in which it was initialised, until command.FormRaise raises it. All members
// read it. Before the zone is initialised it is the newest that this node reads.
func (s *Store) Form() api.Form {
	if v := s.View(); v.Zone != "" {
		return v.Form()
	}
	return s.cfg.Form
}

// FormAllRead returns the newest form that all members of the zone read, as far as this node knows. Of a member without a record
// it is only known that it reads what the zone writes: it would not have been let in.
func (s *Store) FormAllRead() api.Form {
	form, v := s.cfg.Form, s.View()
	for _, m := range s.Members() {
		switch n, known := v.Node(m.ID); {
		case known:
			form = min(form, max(n.Form, api.FormFirst))
		case m.ID != s.cfg.ID:
			form = min(form, s.Form())
		}
	}
	return form
}

// ID returns the id of this node.
func (s *Store) ID() api.NodeID { return s.cfg.ID }

// Leader returns the id and the address of the leader as far as this node knows;
// both are empty when it knows of none.
func (s *Store) Leader() (api.NodeID, string) {
	a, id := s.raft.LeaderWithID()
	return api.NodeID(id), string(a)
}

// IsLeader reports whether this node holds itself for the leader. Another may have
// been elected since; Propose and Linearizable find out.
func (s *Store) IsLeader() bool { return s.raft.State() == raft.Leader }

// Term returns the current term. It rises with every election and never falls.
func (s *Store) Term() uint64 { return s.raft.CurrentTerm() }

// CaughtUp reports whether View has, at any time since the store was opened, held
// all that this node knew to be committed. Until then View goes through the past
// of the zone, beginning with its last snapshot or with nothing: a caller who
// looks for something in it may not conclude that it is not there.
func (s *Store) CaughtUp() bool {
	if s.caught.Load() {
		return true
	}
	commit := s.raft.CommitIndex() // 0 until a leader has told it
	if commit == 0 {
		return false
	}
	for i := s.views.cur.Load().applied + 1; i <= commit; i++ {
		// Raft's own entries are not shown to the state machine.
		var l raft.Log
		if err := s.stores.logs.GetLog(i, &l); err != nil || l.Type != raft.LogNoop && l.Type != raft.LogBarrier {
			return false
		}
	}
	s.caught.Store(true)
	return true
}

// KnownUntil returns the time of the newest entry that this node has, committed or not: it
// knows who was a member then. It is not later than 1970 on a node that has nothing.
func (s *Store) KnownUntil() time.Time {
	known := s.View().Now().Time()
	var l raft.Log
	last, _ := s.stores.logs.LastIndex() // it never fails; of an empty log there is none
	if s.stores.logs.GetLog(last, &l) == nil && l.AppendedAt.After(known) {
		known = l.AppendedAt
	}
	return known
}

// Age returns how old View may be at least: the time since a follower heard of
// its leader, and zero on the leader. It is false on a node that has not heard of
// one since it was opened.
func (s *Store) Age(now time.Time) (time.Duration, bool) {
	if s.IsLeader() {
		return 0, true
	}
	last := s.raft.LastContact()
	return max(now.Sub(last), 0), !last.IsZero()
}
