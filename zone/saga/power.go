package saga

import (
	"context"
	"time"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// powerSeenMax is how long an order to a zone below waits until that has reported what it has changed: then
// whoever looks at the instance does not see it as it was before.
const powerSeenMax = 2 * time.Second

// OrderPower stops, starts or restarts an instance of a tenant, here or in a zone below. It fails with
// CodeNotFound if the tenant has none with this id, with CodeConflict if it is being deleted, and with
// CodeUnavailable if the zone that has it cannot be reached or is of an older release; then nothing was ordered.
func (s *Saga) OrderPower(ctx context.Context, t api.Tenant, id api.InstanceID, o api.PowerOrder) error {
	if !o.Valid() {
		return api.Errorf(api.CodeInvalid, "the order must be %s, %s or %s", api.PowerStop, api.PowerStart, api.PowerRestart)
	}
	now, err := s.Power(ctx, t, &api.PowerCall{Instance: id})
	if err != nil {
		return err
	}
	_, err = s.Power(ctx, t, &api.PowerCall{Instance: id, Order: o, Run: now.Run})
	return err
}

// Power answers a call about an instance of a tenant, or passes it on to the child that leads to the zone that
// has it. A repeat is harmless: an order is for one run of the instance.
func (s *Saga) Power(ctx context.Context, t api.Tenant, q *api.PowerCall) (a *api.PowerAnswer, err error) {
	err = s.zone.Confirmed(ctx, func(ctx context.Context) error {
		a, err = s.power(ctx, s.zone.View(), t, q)
		return err
	})
	return a, err
}

func (s *Saga) power(ctx context.Context, v *state.State, t api.Tenant, q *api.PowerCall) (*api.PowerAnswer, error) {
	i, ok := v.Instance(q.Instance)
	switch {
	case !ok || !i.Live() || i.Reserved || i.Tenant() != t:
		return nil, api.Errorf(api.CodeNotFound, "no such server")
	case i.Volume != "":
		return nil, api.Errorf(api.CodeConflict, "nothing runs in a volume that could be stopped or started")
	case i.Host == "":
		return s.powerBelow(ctx, i, q)
	case q.Run == 0:
		return s.runOf(ctx, i.ID)
	}
	_, err := s.zone.Propose(ctx, command.InstancePower{Stamp: s.zone.Stamp(), ID: i.ID, Order: q.Order, Run: q.Run})
	if err != nil {
		return nil, err
	}
	return answerPower(s.zone.View(), i.ID)
}

// runOf returns the run of an instance here, as a majority has it: an order that is given to an earlier run
// changes nothing.
func (s *Saga) runOf(ctx context.Context, id api.InstanceID) (*api.PowerAnswer, error) {
	v, err := s.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	return answerPower(v, id)
}

func answerPower(v *state.State, id api.InstanceID) (*api.PowerAnswer, error) {
	i, ok := v.Instance(id)
	if !ok || !i.Live() {
		return nil, api.Errorf(api.CodeNotFound, "no such server")
	}
	return &api.PowerAnswer{Run: i.Run()}, nil
}

// powerBelow passes a call on to the child that leads to an instance. Nothing is recorded here but what the
// child reports of the instance.
func (s *Saga) powerBelow(ctx context.Context, i *api.Instance, q *api.PowerCall) (a *api.PowerAnswer, err error) {
	err = s.askBelow(ctx, i, func(ctx context.Context, l *api.Link) error {
		a, err = s.peers.Power(ctx, l, q)
		return err
	})
	if err == nil && q.Run > 0 && a.Run > q.Run && i.Status != api.StatusBuild {
		s.awaitNews(ctx, i)
	}
	return a, err
}

// awaitNews waits until the child of an instance has reported a change of it; for powerSeenMax at most.
func (s *Saga) awaitNews(ctx context.Context, i *api.Instance) {
	ctx, cancel := context.WithTimeout(ctx, powerSeenMax)
	defer cancel()
	_, _ = s.zone.Store().WaitFor(ctx, newsTopic(i), func(v *state.State) bool { // what is not seen in time comes later
		now, ok := v.Instance(i.ID)
		return !ok || now.ModIndex != i.ModIndex
	})
}

// PowerAbroad is Power for a parent, of an instance that was made for it.
func (s *Saga) PowerAbroad(ctx context.Context, parent *api.Link, q *api.PowerCall) (a *api.PowerAnswer, err error) {
	err = s.zone.Confirmed(ctx, func(ctx context.Context) error {
		a, err = s.Power(ctx, s.tenantAbroad(parent, q.Instance), q)
		return err
	})
	return a, err
}
