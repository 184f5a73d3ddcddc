// Package output reads what instances have printed, wherever they run: it asks the agent of
// their host, or the child zone that leads there.
//
// Agents only ever call their zone. So a question waits at the leader until the agent polls for work the
// next time, and the reader waits for the answer. All of that is in memory, bounded, and over within
// api.OutputWait; nothing of it is logged, and nothing that was printed is kept.
//
// It must never take an answer of an agent or a zone that was not asked, or of which more was not asked.
package output

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone"
)

// Peers calls the zones at the other ends of links.
type Peers interface {
	// Output asks a child for what an instance made for this zone has printed.
	Output(ctx context.Context, l *api.Link, q *api.OutputQuestion) (*api.OutputAnswer, error)
}

// Reader reads outputs of instances of one zone on one node. Use New. Its methods may be called concurrently.
type Reader struct {
	zone  *zone.Zone
	peers Peers

	mu     sync.Mutex // guards what follows
	agents map[api.AgentID]*desk
	open   int // asks at all desks
}

// New returns a reader that has no questions.
func New(z *zone.Zone, p Peers) *Reader {
	return &Reader{zone: z, peers: p, agents: map[api.AgentID]*desk{}}
}

// Lead forgets, when ctx ends, what this leader was asked and what it knows of agents.
func (r *Reader) Lead(ctx context.Context) {
	<-ctx.Done()
	r.forgetAll()
}

// Read returns a piece of what an instance has printed, which whoever asks may see. It fails with
// CodeNotFound if there is no such instance. Only the leader can do it.
func (r *Reader) Read(ctx context.Context, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	return r.readIf(ctx, q, func(*api.Instance) bool { return true })
}

// ReadAbroad is Read for a parent: of instances that were made for it, and no others.
func (r *Reader) ReadAbroad(ctx context.Context, parent *api.Link, q *api.OutputQuestion) (*api.OutputAnswer, error) {
	return r.readIf(ctx, q, func(i *api.Instance) bool { return i.Origin == parent.ID })
}

func (r *Reader) readIf(ctx context.Context, q *api.OutputQuestion, may func(*api.Instance) bool) (*api.OutputAnswer, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	v, err := r.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	i, ok := v.Instance(q.Instance)
	if !ok || !i.Live() || i.Volume != "" || !may(i) {
		return nil, api.Errorf(api.CodeNotFound, "no such server")
	}
	ctx, cancel := r.withBudget(ctx)
	defer cancel()
	switch {
	case i.Reserved:
	case i.Host != "":
		return r.askHost(ctx, v, i, q), nil
	case i.Link != "":
		return r.askBelow(ctx, v, i, q), nil
	}
	return &api.OutputAnswer{Lack: api.OutputUnstarted}, nil
}

// withBudget limits ctx to api.OutputWait, and to the deadline of a caller above, who needs some time for the way
// back: a zone that answers that there is no answer is not taken for one that does not answer.
func (r *Reader) withBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := api.OutputWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, deadline.Sub(r.zone.Now())-api.HopReserve)
	}
	return context.WithTimeout(ctx, max(wait, time.Millisecond))
}

// askHost asks the agent of an instance's host, and waits for its answer.
func (r *Reader) askHost(ctx context.Context, v *state.State, i *api.Instance, q *api.OutputQuestion) *api.OutputAnswer {
	h, ok := v.Host(i.Host)
	if !ok || h.State != api.HostUp {
		return &api.OutputAnswer{Lack: api.OutputSilent}
	}
	a, lack := r.putAsk(h.Agent, h.ID, q)
	if lack != "" {
		return &api.OutputAnswer{Lack: lack}
	}
	defer r.endAsk(a)
	select {
	case got := <-a.answered:
		return got
	case <-ctx.Done():
		return &api.OutputAnswer{Lack: api.OutputSilent}
	}
}

// askBelow asks the child zone that leads to an instance.
func (r *Reader) askBelow(ctx context.Context, v *state.State, i *api.Instance, q *api.OutputQuestion) *api.OutputAnswer {
	l, ok := v.Link(i.Link)
	if !ok {
		return &api.OutputAnswer{Lack: api.OutputSilent}
	}
	got, err := r.peers.Output(ctx, l, q)
	switch {
	case err == nil && q.Accepts(got):
		return got
	case err == nil:
		r.zone.Log().WarnContext(ctx, "child gave an unusable answer", "link", l.Name, "call", "output")
		return &api.OutputAnswer{Lack: api.OutputUnreadable}
	case api.CodeOf(err) == api.CodeNotFound: // it has ended there, which is not known here yet
		return &api.OutputAnswer{Lack: api.OutputUnstarted}
	case api.CodeOf(err) == api.CodeOverloaded:
		return &api.OutputAnswer{Lack: api.OutputBusy}
	}
	r.zone.Log().InfoContext(ctx, "child did not return an output", "link", l.Name, "error", err)
	return &api.OutputAnswer{Lack: api.OutputSilent}
}
