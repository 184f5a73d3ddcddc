package zonetest

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/internal/codec"
	"berth/internal/requestid"
	"berth/zone"
)

// Call is the n-th call of a kind from one zone to another.
type Call struct {
	Op, From, To string
	N            int
}

// Fault is what befalls a call.
type Fault string

// Faults of calls.
const (
	Refused  Fault = "refused"        // nobody listens
	Vanished Fault = "request lost"   // the caller waits for its whole budget
	Silenced Fault = "answer lost"    // carried out; the caller waits for its whole budget
	CutOff   Fault = "answer cut off" // carried out; the caller learns at once that it does not know
	Repeated Fault = "made twice"     // carried out twice
	Ghost    Fault = "comes late"     // the caller gives up, and then it is carried out
)

// peers makes the calls of one zone: what a gateway would do, on the other zone
// itself, with bodies spelt and read on the way.
type peers struct{ from *Member }

func (p peers) Select(ctx context.Context, l *api.Link, r *api.Request) (*api.SelectAnswer, error) {
	return ask(ctx, p, l, "select", r, func(ctx context.Context, z *Conduct, back *api.Link, r *api.Request) (*api.SelectAnswer, error) {
		if back.State == api.LinkPaused {
			return nil, api.Errorf(api.CodePaused, "the link takes no new work")
		}
		a, err := z.Select(ctx, back.Zone, r)
		if twist := p.from.World.twistOf(back.ID); twist != nil && err == nil {
			twist(a)
		}
		return a, err
	})
}

func (p peers) Room(ctx context.Context, l *api.Link, q *api.RoomQuestion) (*api.RoomAnswer, error) {
	return ask(ctx, p, l, "room", q, func(ctx context.Context, z *Conduct, back *api.Link, q *api.RoomQuestion) (*api.RoomAnswer, error) {
		if back.State == api.LinkPaused {
			return nil, api.Errorf(api.CodePaused, "the link takes no new work")
		}
		a, err := z.Room(ctx, back.Zone, q)
		if lie := p.from.World.roomLieOf(back.ID); lie != nil && err == nil {
			lie(a)
		}
		return a, err
	})
}

func (p peers) Hold(ctx context.Context, l *api.Link, r *api.HoldRequest) (*api.HoldAnswer, error) {
	op := "hold"
	if r.Commit {
		op = "hold and commit"
	}
	return ask(ctx, p, l, op, r, func(ctx context.Context, z *Conduct, back *api.Link, r *api.HoldRequest) (*api.HoldAnswer, error) {
		return z.Hold(ctx, back, r)
	})
}

func (p peers) SharesHolds(*api.Link) bool { return true }

func (p peers) HoldAll(ctx context.Context, l *api.Link, rs []api.HoldRequest) ([]*api.HoldAnswer, error) {
	a, err := ask(ctx, p, l, "holds", &api.Holds{Items: rs}, func(ctx context.Context, z *Conduct, back *api.Link, q *api.Holds) (*api.HoldsAnswer, error) {
		return z.HoldAll(ctx, back, q.Items)
	})
	if err != nil {
		return nil, err
	}
	out := make([]*api.HoldAnswer, len(rs))
	for i := range a.Items {
		out[i] = a.Items[i].Answer
	}
	return out, nil
}

func (p peers) Decide(ctx context.Context, l *api.Link, id api.HoldID, d api.Decision) (*api.HoldAnswer, error) {
	return ask(ctx, p, l, string(d), &id, func(ctx context.Context, z *Conduct, back *api.Link, id *api.HoldID) (*api.HoldAnswer, error) {
		return z.Decide(ctx, back, *id, d)
	})
}

func (p peers) DecideAll(ctx context.Context, l *api.Link, ds []api.HoldDecision) ([]error, error) {
	a, err := ask(ctx, p, l, "decisions", &api.Decisions{Holds: ds}, func(ctx context.Context, z *Conduct, back *api.Link, q *api.Decisions) (*api.DecisionsAnswer, error) {
		return z.DecideAll(ctx, back, q.Holds)
	})
	if err != nil {
		return nil, err
	}
	refusals := make([]error, len(ds))
	for i, code := range a.Codes {
		if code != "" {
			refusals[i] = api.Errorf(code, "refused")
		}
	}
	return refusals, nil
}

func (p peers) Decision(ctx context.Context, l *api.Link, id api.HoldID) (api.Decision, error) {
	a, err := ask(ctx, p, l, "decision", &id, func(ctx context.Context, z *Conduct, back *api.Link, id *api.HoldID) (*api.DecisionAnswer, error) {
		d, err := z.Decision(ctx, back, *id)
		return &api.DecisionAnswer{Decision: d}, err
	})
	if err != nil {
		return "", err
	}
	return a.Decision, nil
}

func (p peers) Changes(ctx context.Context, l *api.Link, after uint64, wait time.Duration) (*api.Changes, error) {
	return ask(ctx, p, l, "changes", &after, func(ctx context.Context, z *Conduct, back *api.Link, after *uint64) (*api.Changes, error) {
		if lie := p.from.World.lieOf(back.ID); lie != nil {
			return lie(*after), nil
		}
		c := z.Changes(ctx, back, *after, l.Restored, wait)
		return &c, nil
	})
}

func (p peers) ConfirmedChanges(ctx context.Context, l *api.Link, after uint64) (*api.Changes, error) {
	return ask(ctx, p, l, "changes", &after, func(ctx context.Context, z *Conduct, back *api.Link, after *uint64) (*api.Changes, error) {
		if lie := p.from.World.confirmedLieOf(back.ID); lie != nil {
			return lie(*after), nil
		}
		c, err := z.ConfirmedChanges(ctx, back, *after)
		return &c, err
	})
}

func (p peers) EndInstance(ctx context.Context, l *api.Link, id api.InstanceID) error {
	_, err := ask(ctx, p, l, "end", &id, func(ctx context.Context, z *Conduct, back *api.Link, id *api.InstanceID) (*struct{}, error) {
		return &struct{}{}, z.EndInstance(ctx, back, *id)
	})
	return err
}

func (p peers) Attach(ctx context.Context, l *api.Link, q *api.VolumeCall) error {
	_, err := ask(ctx, p, l, "attach", q, func(ctx context.Context, z *Conduct, back *api.Link, q *api.VolumeCall) (*struct{}, error) {
		return &struct{}{}, z.AttachAbroad(ctx, back, q)
	})
	return err
}

func (p peers) Power(ctx context.Context, l *api.Link, q *api.PowerCall) (*api.PowerAnswer, error) {
	return ask(ctx, p, l, "power", q, func(ctx context.Context, z *Conduct, back *api.Link, q *api.PowerCall) (*api.PowerAnswer, error) {
		return z.PowerAbroad(ctx, back, q)
	})
}

func (p peers) Detach(ctx context.Context, l *api.Link, q *api.VolumeCall) error {
	_, err := ask(ctx, p, l, "detach", q, func(ctx context.Context, z *Conduct, back *api.Link, q *api.VolumeCall) (*struct{}, error) {
		return &struct{}{}, z.DetachAbroad(ctx, back, q)
	})
	return err
}

// ask makes one call, and lets happen to it what the world wants.
func ask[Q, A any](ctx context.Context, p peers, l *api.Link, op string, q *Q,
	do func(context.Context, *Conduct, *api.Link, *Q) (*A, error),
) (*A, error) {
	w := p.from.World
	to, f, lag := w.route(p.from, l, op)
	w.noteID(Call{Op: op, From: p.from.Name, To: to.Name}, requestid.Of(ctx))
	serve := func(ctx context.Context) (*A, error) {
		backoff.Sleep(ctx, lag)
		defer backoff.Sleep(ctx, lag)
		z, back, err := to.door(p.from, op)
		if err != nil {
			return nil, err
		}
		a, err := do(zone.WithDepth(ctx, zone.Depth(ctx)+1), z, back, Spelt(q))
		if err != nil {
			return nil, api.Errorf(api.CodeOf(err), "%s", api.MessageOf(err))
		}
		return Spelt(a), nil
	}
	unknown := func() (*A, error) {
		return nil, api.Wrap(api.CodeTimeout, "peers.ask", "no answer", ctx.Err())
	}
	switch f {
	case Refused:
		return nil, api.Errorf(api.CodeUnavailable, "nobody listens")
	case Vanished:
		<-ctx.Done()
		return unknown()
	case Silenced:
		_, _ = serve(ctx) // nobody hears it
		<-ctx.Done()
		return unknown()
	case CutOff:
		_, _ = serve(ctx) // nobody hears it
		return unknown()
	case Repeated:
		_, _ = serve(ctx) // the second answer counts
	case Ghost:
		<-ctx.Done()
		w.wg.Go(func() {
			backoff.Sleep(w.Ctx, 30*time.Second)
			_, _ = serve(w.Ctx) // nobody hears it
		})
		return unknown()
	}
	if ctx.Err() != nil {
		return unknown()
	}
	a, err := serve(ctx)
	if err == nil && ctx.Err() != nil {
		return unknown()
	}
	return a, err
}

// Spelt returns v as it arrives at the other end of a wire.
func Spelt[V any](v *V) *V {
	b, err := codec.Marshal(v)
	if err != nil {
		panic(err)
	}
	out := new(V)
	if err := codec.Unmarshal(b, out); err != nil {
		panic(err)
	}
	return out
}

// route finds who is called, counts the call, and says what befalls it.
func (w *World) route(from *Member, l *api.Link, op string) (to *Member, f Fault, lag time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range w.Zones {
		if to.ID != l.Zone {
			continue
		}
		c := Call{Op: op, From: from.Name, To: to.Name}
		w.calls[c]++
		c.N = w.calls[c]
		if w.lag != nil {
			lag = w.lag(c)
		}
		switch {
		case w.cut[from.Name+">"+to.Name]:
			return to, Vanished, lag
		case w.disturb != nil:
			return to, w.disturb(c), lag
		}
		return to, "", lag
	}
	return nil, Refused, 0
}

// door is the gateway's part of a call: who is there, over which link.
func (m *Member) door(from *Member, op string) (*Conduct, *api.Link, error) {
	z, leads := m.Node()
	m.mu.Lock()
	dead := m.dead
	m.mu.Unlock()
	if dead || !leads && op != "select" {
		return nil, nil, api.Errorf(api.CodeUnavailable, "no leader just now")
	}
	back, ok := z.View().LinkByZone(from.ID)
	if !ok {
		return nil, nil, api.Errorf(api.CodeForbidden, "the zones are not linked")
	}
	if back.Role != api.LinkParent && op != "decision" {
		return nil, nil, api.Errorf(api.CodeForbidden, "only the parent zone may do this")
	}
	return z, back, nil
}

// noteID notes with which id a call is made.
func (w *World) noteID(c Call, id api.RequestID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids[c] == nil {
		w.ids[c] = map[api.RequestID]bool{}
	}
	w.ids[c][id] = true
}
