// Package zone is what every use case of a zone stands on: the replicated state and its
// clock, the proposal of a command, the confirmation of a refusal, and the loops that a
// leader runs. The use cases are in the packages below it: estimate, saga, fleet, intake
// and resources.
//
// It must never decide what is proposed, keep a fact outside the log, or know HTTP, TLS
// or Raft: those are handed in.
package zone

import (
	"context"
	"log/slog"
	"time"

	"berth/api"
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
	// Form returns the newest form that all nodes of the zone read. Propose refuses
	// what needs a newer one with CodeUnavailable.
	Form() api.Form
}

// Digests tells what was last heard of a zone by gossip, and how long ago.
type Digests interface {
	Digest(zone api.ZoneID) (d api.Digest, age time.Duration, ok bool)
}

// LinkFresh is how old the newest digest of a zone may be for its link to count as
// up. One is said each second.
const LinkFresh = 10 * time.Second

// Zone is one zone on one node, as all its use cases need it. Its methods may be called
// concurrently.
type Zone struct {
	store Store
	now   func() time.Time
	began time.Time
	log   *slog.Logger
	crash crash.Hook
}

// Config is what a zone is made of.
type Config struct {
	Store Store
	Now   func() time.Time
	Log   *slog.Logger
	Crash crash.Hook // nil in production
}

// New returns a zone. Nothing runs by itself.
func New(c Config) *Zone {
	return &Zone{store: c.Store, now: c.Now, began: c.Now(), log: c.Log, crash: c.Crash}
}

// View returns the latest state applied on this node.
func (z *Zone) View() *state.State { return z.store.View() }

// Form returns the newest form that all nodes of the zone read.
func (z *Zone) Form() api.Form { return z.store.Form() }

// Store returns the replicated state.
func (z *Zone) Store() Store { return z.store }

// Now returns the time by this node's clock, for what is measured on this node alone.
func (z *Zone) Now() time.Time { return z.now() }

// Log returns where the zone's use cases log.
func (z *Zone) Log() *slog.Logger { return z.log }

// Reach marks that a call is at a point at which a test may end the process.
func (z *Zone) Reach(p crash.Point) { z.crash.At(p) }

// Instant is the zone's time on this node: the wall clock when the process began,
// and what has passed since by the monotonic clock, so that a wall clock that
// jumps while the node runs expires nothing; and never less than what is agreed.
func (z *Zone) Instant() api.Instant {
	return max(api.InstantOf(z.began.Add(z.now().Sub(z.began))), z.store.View().Now())
}

// Stamp returns the time for a command that is proposed now.
func (z *Zone) Stamp() command.Stamp { return command.Stamp{At: z.Instant()} }

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
	noteLogged(ctx)
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
