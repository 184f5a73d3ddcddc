package saga

import (
	"context"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
)

// requeueAtOnce is for how many boots with preempted instances one leader looks for room at a time.
const requeueAtOnce = 8

// dueRequeued returns the jobs that boot preempted instances again, those that come first in the
// queue.
func (s *Saga) dueRequeued(v *state.State) []zone.Job {
	if v.CountRequeued() == 0 || s.zone.Store().Form() < api.FormFifth { // a member of the zone could not read it
		return nil
	}
	var out []zone.Job
	for _, r := range v.DueRequeued(s.zone.Instant(), requeueAtOnce) {
		key := string(r.Project) + "\x00" + string(r.Reservation)
		out = append(out, zone.Job{Key: key, Run: func(ctx context.Context) error { return s.bootAgain(ctx, r.Project, r.Reservation) }})
	}
	return out
}

// bootAgain looks for room for the preempted instances of a boot. If there is enough, it orders them
// as a refill, which goes the way of all boots. The log says how each try ended.
func (s *Saga) bootAgain(ctx context.Context, p api.ProjectID, id api.ReservationID) error {
	v := s.zone.View() // that in which it was due may be older than the end of an earlier run
	r, ok := v.Requeued(p, id)
	if !ok || r.Refill > 0 {
		return nil
	}
	c := command.Requeue{Stamp: s.zone.Stamp(), Project: p, Reservation: id, Seen: r.ModIndex}
	if r.Until > c.At {
		terms := v.RequeueTerms(r)
		if s.fits(ctx, v, wantBeside(v, &terms)) {
			c.Refill = terms.Refill
			for n, id := range api.NewInstanceIDs(len(r.Instances)) {
				c.Instances = append(c.Instances, api.InstanceSpec{ID: id, Name: r.Instances[n].Name})
			}
		}
	}
	_, err := s.zone.Propose(ctx, c)
	switch api.CodeOf(err) { //nolint:exhaustive // the others are for the next try
	case api.CodeConflict, api.CodeNotFound: // it has changed: what is due is read again
		return nil
	}
	return err
}

// fits reports whether there is room for the minimum of what is wanted, and of each of its groups. What it finds is the
// explanation of the boot: whoever waits learns for what.
func (s *Saga) fits(ctx context.Context, v *state.State, w *want) bool {
	ctx, cancel := context.WithTimeout(ctx, api.SelectTimeout)
	defer cancel()
	w.instances, w.created = make([]api.InstanceSpec, w.request.Count()), s.zone.Instant()
	r := newRun(s, nil, w)
	missing := r.remainingRequest()
	p := s.estimator.PlanFor(ctx, v, &estimate.Want{Request: &missing, Held: r.held, Beside: w.beside})
	s.estimator.KeepExplanation(v, w.call, &missing, p)
	return r.describeShortfall(p.Room()) == ""
}
