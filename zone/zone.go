// Package zone is the base of all use cases of a zone: the replicated state and its
// clock, proposals of commands, confirmation of refusals, and the loops of a leader.
// The use cases are in its subfolders: estimate, saga, fleet, intake and resources.
//
// It must never decide what is proposed, keep a fact outside the log, or know HTTP, TLS
// or Raft: those are passed in.
package zone

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"berth/api"
	"berth/internal/crash"
	"berth/internal/tracing"
	"berth/internal/watch"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Store is the replicated state. All methods may be called concurrently.
type Store interface {
	// View returns the latest state applied on this node. It never waits.
	View() *state.State
	// Wait returns the first state after a log index, or ctx's error.
	Wait(ctx context.Context, after uint64) (*state.State, error)
	// WaitFor returns the first state for which ok holds, or the latest state and ctx's
	// error. It calls ok at once, and again only after entries that touch topic.
	WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error)
	// Feed returns a feed of the topics, among those that wanted accepts, that entries touch, until
	// remove is called. A reader that is woken finds the entry in View.
	Feed(wanted func(state.Topic) bool) (f *watch.Feed[state.Topic], remove func())
	// Propose appends the commands to the log as one entry and returns the result of
	// each. It fails with CodeUnavailable when nothing was appended, and with
	// CodeTimeout when the outcome is unknown.
	Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error)
	// ProposeEach proposes several lists of commands, each as Propose does, in as few
	// entries as they fit into. It returns the answer to each.
	ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer
	// Linearizable returns a state that holds everything acknowledged before the
	// call. It fails with CodeUnavailable unless this node leads.
	Linearizable(ctx context.Context) (*state.State, error)
	// Term returns the current leadership term.
	Term() uint64
	// Form returns the newest form that all nodes of the zone read. Propose refuses
	// commands that need a newer one with CodeUnavailable.
	Form() api.Form
}

// Digests returns the newest digest of a zone that gossip has delivered, and its age.
type Digests interface {
	Digest(zone api.ZoneID) (d api.Digest, age time.Duration, ok bool)
}

// LinkFresh is how old the newest digest of a zone may be for its link to count as up.
// A zone sends one each second.
const LinkFresh = 10 * time.Second

// Zone is one zone on one node, the common base of its use cases. Its methods may be
// called concurrently.
type Zone struct {
	store Store
	now   func() time.Time
	began time.Time
	log   *slog.Logger
	crash crash.Hook
	trace *tracing.Tracer

	stateMax int64
}

// Config holds what a zone needs.
type Config struct {
	Store Store
	Now   func() time.Time
	Log   *slog.Logger
	Crash crash.Hook      // nil in production
	Trace *tracing.Tracer // nil for no traces

	// StateMaxBytes is the size of the state from which on it takes nothing new; 0 for the constant.
	StateMaxBytes int64
}

// StateMaxBytes is three quarters of what a backup may have: the size of a state is an estimate, and
// what is on its way into the log is not in it.
const StateMaxBytes = command.BackupMaxBytes / 4 * 3

// New returns a zone. It starts nothing.
func New(c Config) *Zone {
	return &Zone{store: c.Store, now: c.Now, began: c.Now(), log: c.Log, crash: c.Crash, trace: c.Trace, stateMax: cmp.Or(c.StateMaxBytes, StateMaxBytes)}
}

// CheckSize refuses new work while the state is so large that its backup might not be taken up any more.
func (z *Zone) CheckSize() error {
	n := z.store.View().SizeBytes()
	if n < z.stateMax {
		return nil
	}
	const mib = 1 << 20
	return api.Errorf(api.CodeOverloaded, "the state of the zone has about %d MiB, and takes nothing new from %d MiB on, because a backup may have %d MiB; release what nobody needs, and wait until it is forgotten",
		n/mib, z.stateMax/mib, int64(command.BackupMaxBytes/mib))
}

// View returns the latest state applied on this node.
func (z *Zone) View() *state.State { return z.store.View() }

// Form returns the newest form that all nodes of the zone read.
func (z *Zone) Form() api.Form { return z.store.Form() }

// Store returns the replicated state.
func (z *Zone) Store() Store { return z.store }

// Now returns the time by this node's clock, for measurements on this node only.
func (z *Zone) Now() time.Time { return z.now() }

// Log returns where the zone's use cases log.
func (z *Zone) Log() *slog.Logger { return z.log }

// Reach marks a point at which a test may end the process.
func (z *Zone) Reach(p crash.Point) { z.crash.At(p) }

// Instant returns the zone's time on this node: the wall clock at the start of the
// process plus the monotonic time since, so that a jump of the wall clock expires
// nothing; and never less than the agreed time.
func (z *Zone) Instant() api.Instant {
	return max(api.InstantOf(z.began.Add(z.now().Sub(z.began))), z.store.View().Now())
}

// IsYoung reports whether this node has run for so short a time that a zone which is up need not have been
// heard yet.
func (z *Zone) IsYoung() bool { return z.now().Sub(z.began) <= LinkFresh }

// Stamp returns the time for a command that is proposed now.
func (z *Zone) Stamp() command.Stamp { return command.Stamp{At: z.Instant()} }

// Propose appends one command and returns its result; a refusal is the error.
func (z *Zone) Propose(ctx context.Context, c command.Command) (state.Result, error) {
	rs, err := z.ProposeAll(ctx, c)
	if err != nil {
		return state.Result{}, err
	}
	return rs[0], rs[0].Err
}

// ProposeAll appends commands as one entry and returns the result of each, which may be a
// refusal.
func (z *Zone) ProposeAll(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	z.reachBefore(cmds)
	noted := z.withAudit(ctx, cmds)
	rs, err := z.store.Propose(ctx, noted...)
	if err != nil {
		return nil, err
	}
	rs = rs[len(noted)-len(cmds):]
	z.NoteLogged(ctx)
	z.reachAfter(cmds)
	return rs, nil
}

// ProposeEach proposes several lists of commands, each as ProposeAll does, in as few entries
// as they fit into. It returns the answer to each. A call that one of the lists belongs to has
// to hear of it by NoteLogged.
func (z *Zone) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	for _, cmds := range lists {
		z.reachBefore(cmds)
	}
	answers := z.store.ProposeEach(ctx, lists)
	for i, a := range answers {
		if a.Err == nil {
			z.reachAfter(lists[i])
		}
	}
	return answers
}

func (z *Zone) reachBefore(cmds []command.Command) {
	for _, c := range cmds {
		if step, named := steps[c.Kind()]; named {
			z.crash.At(step.before)
		}
	}
}

func (z *Zone) reachAfter(cmds []command.Command) {
	for _, c := range cmds {
		if step, named := steps[c.Kind()]; named {
			z.crash.At(step.after)
		}
	}
}

// Change proposes a command that changes, ends or deletes the object that find finds.
// If find refuses both the view of this node and one that holds everything acknowledged
// before the call, Change returns its refusal and proposes nothing: a call with an
// unknown name writes no log entry.
func (z *Zone) Change(ctx context.Context, c command.Command, find func(*state.State) error) (state.Result, error) {
	if err := z.Check(ctx, find); err != nil {
		return state.Result{}, err
	}
	return z.Propose(ctx, c)
}

// Check returns what may returns, nil for what is allowed. What it refuses in the view of this
// node it must refuse in one as well that holds everything acknowledged before the call.
func (z *Zone) Check(ctx context.Context, may func(*state.State) error) error {
	if may(z.store.View()) == nil {
		return nil
	}
	v, err := z.Latest(ctx)
	if err != nil {
		return err
	}
	return may(v)
}

// steps has the crash points before and after each command that makes a promise.
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
	command.KindWebhooksTold:    {crash.WebhookLogging, crash.WebhookLogged},
	command.KindLeaseEndsTold:   {crash.LeaseEndLogging, crash.LeaseEndLogged},
	command.KindLeaseCreate:     {crash.LeaseLogging, crash.LeaseLogged},
	command.KindLeaseSet:        {crash.ChangeLogging, crash.ChangeLogged},
	command.KindLeaseDelete:     {crash.EndLogging, crash.EndLogged},
	command.KindRequeue:         {crash.RequeueLogging, crash.RequeueLogged},
	command.KindTick:            {crash.TickLogging, crash.TickLogged},
	command.KindNodeRemove:      {crash.RemovalLogging, crash.RemovalLogged},
}

// Latest returns a state that holds everything acknowledged before the call.
func (z *Zone) Latest(ctx context.Context) (*state.State, error) { return z.store.Linearizable(ctx) }

type depthKey struct{}

// WithDepth stores the number of links that a call has crossed.
func WithDepth(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, depthKey{}, n)
}

// Depth returns the number of links that a call has crossed; 0 for a caller of this
// zone.
func Depth(ctx context.Context) int {
	n, _ := ctx.Value(depthKey{}).(int)
	return n
}
