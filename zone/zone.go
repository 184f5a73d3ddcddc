// Package zone is the conduct of a zone: it takes a request, looks at a view,
// plans, proposes and answers, and it runs the loops that only a leader may run.
//
// Everything it decides it decides from a view of the replicated state, and
// everything that must last it proposes to the log. What it keeps in memory are
// hints (who was heard when) and the plans of calls in flight. It knows no HTTP,
// no TLS and no Raft: those are handed in.
package zone

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/api"
	"berth/buildplan/seal"
	"berth/internal/crash"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Store is the replicated state. All methods may be called concurrently.
type Store interface {
	// View returns the latest state applied here. It never waits.
	View() *state.State
	// Wait returns the first state after a log index, or ctx's error.
	Wait(ctx context.Context, after uint64) (*state.State, error)
	// WaitFor returns the first state for which ok holds, or the latest and ctx's
	// error. It asks ok at once, and again only after entries that touch topic.
	WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error)
	// Propose appends the commands to the log as one entry and returns what
	// became of each. It fails with CodeUnavailable when nothing was appended,
	// and with CodeTimeout when the outcome is unknown.
	Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error)
	// Linearizable returns a state that holds everything acknowledged before the
	// call. It fails with CodeUnavailable unless this node leads.
	Linearizable(ctx context.Context) (*state.State, error)
	// Term returns the current leadership term.
	Term() uint64
}

// Peers calls the zones at the other ends of links. Every method carries the
// caller's deadline along and returns *api.Error with the other zone's code.
type Peers interface {
	Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error)
	Hold(ctx context.Context, l *api.Link, r *api.HoldRequest) (*api.HoldAnswer, error)
	Decide(ctx context.Context, l *api.Link, id api.HoldID, d api.Decision) (*api.HoldAnswer, error)
	Decision(ctx context.Context, l *api.Link, id api.HoldID) (api.Decision, error)
	Changes(ctx context.Context, l *api.Link, after uint64, wait time.Duration) (*api.Changes, error)
	EndInstance(ctx context.Context, l *api.Link, id api.InstanceID) error
}

// Digests tells what was last heard of a zone by gossip, and how long ago.
type Digests interface {
	Digest(zone api.ZoneID) (d api.Digest, age time.Duration, ok bool)
}

// Keys opens the sealing keys of a state.
type Keys interface {
	// Ring returns the keys, the active one first.
	Ring(v *state.State) (seal.Keyring, error)
}

// Zone conducts one zone on one node. Its methods may be called concurrently.
type Zone struct {
	store   Store
	peers   Peers
	digests Digests
	keys    Keys
	now     func() time.Time
	began   time.Time
	log     *slog.Logger
	crash   crash.Hook

	plans  plans  // sealed plans of boots in flight on this leader
	beats  beats  // when each agent was last heard
	health health // how selects to children went
	asking asking // selects for other zones in flight
	tales  tales  // what became of the latest selects
}

// Config is what a zone is made of.
type Config struct {
	Store   Store
	Peers   Peers
	Digests Digests
	Keys    Keys
	Now     func() time.Time
	Log     *slog.Logger
	Crash   crash.Hook // nil in production
}

// New returns a zone. Nothing runs until Lead is called.
func New(c Config) *Zone {
	return &Zone{
		store: c.Store, peers: c.Peers, digests: c.Digests, keys: c.Keys, now: c.Now, began: c.Now(), log: c.Log, crash: c.Crash,
		plans: plans{of: map[string]*planned{}}, beats: beats{last: map[api.AgentID]time.Time{}},
		health: health{of: map[api.LinkID]*pulse{}}, asking: asking{of: map[string]flight{}},
	}
}

// View returns the latest state applied on this node.
func (z *Zone) View() *state.State { return z.store.View() }

// Store returns the replicated state that the zone conducts.
func (z *Zone) Store() Store { return z.store }

// instant is the zone's time on this node: the wall clock when the process began,
// and what has passed since by the monotonic clock, so that a wall clock that
// jumps while the node runs expires nothing; and never less than what is agreed.
func (z *Zone) instant() api.Instant {
	return max(api.InstantOf(z.began.Add(z.now().Sub(z.began))), z.store.View().Now())
}

func (z *Zone) stamp() command.Stamp { return command.Stamp{At: z.instant()} }

// Stamp returns the time for a command that is proposed now.
func (z *Zone) Stamp() command.Stamp { return z.stamp() }

// Propose appends one command and returns what became of it, its refusal as the
// error.
func (z *Zone) Propose(ctx context.Context, c command.Command) (state.Result, error) {
	step, named := steps[c.Kind()]
	if named {
		z.crash.At(step.before)
	}
	rs, err := z.store.Propose(ctx, c)
	if err != nil {
		return state.Result{}, err
	}
	logged(ctx)
	if named {
		z.crash.At(step.after)
	}
	return rs[0], rs[0].Err
}

// Change proposes a command that changes, ends or deletes what find finds. If find
// refuses the view of this node, and one that holds everything acknowledged before the
// call too, its refusal is returned and the log stays as it is: who names what is unknown
// writes nothing.
func (z *Zone) Change(ctx context.Context, c command.Command, find func(*state.State) error) (state.Result, error) {
	if find(z.store.View()) != nil {
		v, err := z.Latest(ctx)
		if err == nil {
			err = find(v)
		}
		if err != nil {
			return state.Result{}, err
		}
	}
	return z.Propose(ctx, c)
}

// steps are the points on both sides of the commands that promise something.
var steps = map[command.Kind]struct{ before, after crash.Point }{
	command.KindBootCreate:      {crash.BootLogging, crash.BootLogged},
	command.KindHold:            {crash.HoldLogging, crash.HoldLogged},
	command.KindHoldParts:       {crash.PartsLogging, crash.PartsLogged},
	command.KindBootDecide:      {crash.DecisionLogging, crash.DecisionLogged},
	command.KindHoldDecide:      {crash.VerdictLogging, crash.VerdictLogged},
	command.KindPartAck:         {crash.AckLogging, crash.AckLogged},
	command.KindBootRelease:     {crash.ReleaseLogging, crash.ReleaseLogged},
	command.KindInstanceDelete:  {crash.DeleteLogging, crash.DeleteLogged},
	command.KindInstanceMove:    {crash.MoveLogging, crash.MoveLogged},
	command.KindInstanceReport:  {crash.ReportLogging, crash.ReportLogged},
	command.KindInstanceChanges: {crash.FollowLogging, crash.FollowLogged},
}

// Latest returns a state that holds everything acknowledged before the call.
func (z *Zone) Latest(ctx context.Context) (*state.State, error) { return z.store.Linearizable(ctx) }

type depthKey struct{}

// WithDepth notes how many links a call has crossed to get here.
func WithDepth(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, depthKey{}, n)
}

// Depth returns how many links a call has crossed to get here; 0 for a caller
// of this zone's own.
func Depth(ctx context.Context) int {
	n, _ := ctx.Value(depthKey{}).(int)
	return n
}

// plans holds, by the call that brought it, a plan that came with its request. It is
// memory only: a boot whose plan is lost with its leader is aborted.
type plans struct {
	mu sync.Mutex // guards of
	of map[string]*planned
}

func (p *plans) put(call string, pl *planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[call] = pl
}

func (p *plans) take(call string) (*planned, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl, ok := p.of[call]
	delete(p.of, call)
	return pl, ok
}
