package zonetest

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/memstore"
	"berth/internal/watch"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/saga"
)

// Log is the replicated state of a zone without Raft: what is proposed is applied
// at once. It outlives leaders.
type Log struct {
	t    *testing.T
	name string
	form atomic.Uint32 // what all nodes read; 0 for the newest

	mu       sync.Mutex // guards the fields below
	state    *state.State
	view     *state.State
	next     chan struct{} // closed when view is replaced
	watchers watch.List[state.Topic]
	term     uint64
	kinds    map[command.Kind]int
	indexes  map[command.Kind]uint64            // of the last entry with one
	items    int                                // of a child's changes that were proposed at once, the most
	disturb  func(k command.Kind, n int) Mishap // of the n-th command of a kind; nil for none
	waiting  []command.Command                  // delayed
}

// Mishap is what befalls a proposal.
type Mishap string

// Mishaps of proposals.
const (
	NotLeader   Mishap = "not leader"     // refused, and nothing was done
	Unapplied   Mishap = "lost"           // unknown to the caller; was not done
	Unconfirmed Mishap = "unconfirmed"    // unknown to the caller; was done
	Doubled     Mishap = "applied twice"  // as a client that repeats
	Deposed     Mishap = "leader changed" // done, and nobody is left to go on
	Delayed     Mishap = "delayed"        // unknown to the caller; done just before the caller tries again
)

func newLog(t *testing.T, name string) *Log {
	t.Helper()
	l := &Log{t: t, name: name, state: state.New(), next: make(chan struct{}), kinds: map[command.Kind]int{}, indexes: map[command.Kind]uint64{}}
	l.view = l.state.Clone()
	return l
}

// When says what befalls proposals from now on; nil for nothing.
func (l *Log) When(disturb func(command.Kind, int) Mishap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disturb = disturb
}

// Count returns how often a kind of command was proposed.
func (l *Log) Count(k command.Kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kinds[k]
}

// Counts returns how often each kind of command was proposed.
func (l *Log) Counts() map[command.Kind]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.kinds)
}

// Recount begins to count anew.
func (l *Log) Recount() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds = map[command.Kind]int{}
}

// MostChanges returns how many changes of a child were proposed at once, at most.
func (l *Log) MostChanges() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items
}

// SetForm sets what all nodes read; 0 for the newest.
func (l *Log) SetForm(f api.Form) { l.form.Store(uint32(f)) }

// Last returns the index of the last entry with a kind of command.
func (l *Log) Last(k command.Kind) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.indexes[k]
}

func (l *Log) latest() *state.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view
}

func (l *Log) nextTerm() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term++
	return l.term
}

// Wait returns the state once it has an entry after an index.
func (l *Log) Wait(ctx context.Context, after uint64) (*state.State, error) {
	for {
		l.mu.Lock()
		v, next := l.view, l.next
		l.mu.Unlock()
		if v.Index() > after {
			return v, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return v, api.Wrap(api.CodeTimeout, "log.wait", "", ctx.Err())
		}
	}
}

func (l *Log) waitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	woken, remove := l.watchers.Add(topic)
	defer remove()
	for {
		v := l.latest()
		if ok(v) {
			return v, nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return l.latest(), api.Wrap(api.CodeTimeout, "log.waitFor", "", ctx.Err())
		}
	}
}

func (l *Log) apply(cs ...command.Command) ([]state.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applyLocked(cs)
}

// applyLocked applies what was spelt and read, as every node does, and checks
// that no host is ever promised twice.
func (l *Log) applyLocked(cs []command.Command) ([]state.Result, error) {
	index := l.state.Index() + 1
	var out []state.Result
	var touched []state.Topic
	for _, c := range cs {
		b, err := command.Encode(c, api.FormNewest)
		if err != nil {
			return nil, err
		}
		if c, err = command.Decode(b, api.FormNewest); err != nil {
			return nil, err
		}
		out = append(out, l.state.Apply(index, c))
		touched = append(touched, l.state.Touched()...)
		l.indexes[c.Kind()] = index
	}
	l.view = l.state.Clone()
	defer l.watchers.Wake(touched...)
	close(l.next)
	l.next = make(chan struct{})
	for _, h := range l.view.AllHosts() {
		full, _ := l.view.Host(h.ID)
		for c, used := range full.Used {
			for _, i := range l.view.OnHost(h.ID) {
				if i.Overdue || i.Class == api.Preemptible && i.Within == "" { // it leaves if somebody has its room
					used -= i.Resources[c] // it is promised to nobody any more
				}
			}
			assert.LessOrEqual(l.t, used, full.Inventory[c].Capacity(), "zone %s: %s of %s at index %d", l.name, c, h.Name, index)
		}
	}
	return out, nil
}

// mishapOf says what befalls a proposal.
func (l *Log) mishapOf(cs []command.Command) Mishap {
	var out Mishap
	for _, c := range cs {
		l.kinds[c.Kind()]++
		if ch, ok := c.(command.InstanceChanges); ok {
			l.items = max(l.items, len(ch.Items))
		}
		if l.disturb != nil {
			if m := l.disturb(c.Kind(), l.kinds[c.Kind()]); m != "" {
				out = m
			}
		}
	}
	return out
}

// seat is the log as one leader reaches it.
type seat struct {
	log  *Log
	term uint64
}

var _ zone.Store = (*seat)(nil)

func (s *seat) View() *state.State { return s.log.latest() }

func (s *seat) Wait(ctx context.Context, after uint64) (*state.State, error) {
	return s.log.Wait(ctx, after)
}

func (s *seat) WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	return s.log.waitFor(ctx, topic, ok)
}

func (s *seat) Feed(wanted func(state.Topic) bool) (f *watch.Feed[state.Topic], remove func()) {
	return s.log.watchers.AddFeed(wanted)
}

func (s *seat) Term() uint64 { return s.term }

// Form is the newest, unless a test has set another one.
func (s *seat) Form() api.Form { return cmp.Or(api.Form(s.log.form.Load()), api.FormNewest) }

func (s *seat) Linearizable(context.Context) (*state.State, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.term != s.log.term {
		return nil, api.Errorf(api.CodeUnavailable, "not the leader")
	}
	return s.log.view, nil
}

func (s *seat) Propose(ctx context.Context, cs ...command.Command) ([]state.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, api.Wrap(api.CodeUnavailable, "seat.Propose", "", err)
	}
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.term != l.term {
		return nil, api.Errorf(api.CodeUnavailable, "not the leader")
	}
	for _, c := range cs {
		assert.Positive(l.t, c.Time(), "%T says when it was proposed", c)
	}
	what := l.mishapOf(cs)
	if len(l.waiting) > 0 && l.waiting[0].Kind() == cs[0].Kind() {
		if _, err := l.applyLocked(l.waiting); err != nil {
			return nil, err
		}
		l.waiting = nil
	}
	switch what {
	case Delayed:
		l.waiting = cs
		return nil, api.Errorf(api.CodeTimeout, "not known")
	case NotLeader:
		return nil, api.Errorf(api.CodeUnavailable, "no leader just now")
	case Unapplied:
		return nil, api.Errorf(api.CodeTimeout, "not known")
	case Unconfirmed, Deposed:
		if what == Deposed {
			l.term++
		}
		if _, err := l.applyLocked(cs); err != nil {
			return nil, err
		}
		return nil, api.Errorf(api.CodeTimeout, "not known")
	case Doubled:
		if _, err := l.applyLocked(cs); err != nil {
			return nil, err
		}
	}
	return l.applyLocked(cs)
}

func (s *seat) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

var (
	_ estimate.Peers = peers{}
	_ saga.Peers     = peers{}
)
