package saga

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/zone/estimate"
)

// How an owner waits for others that hold room and are not decided.
const (
	contendPause    = 50 * time.Millisecond // between its looks at first; the pause doubles
	contendPauseMax = time.Second
)

// contendForRoom is what is done for an owner whose plan has too little for it. If the rest is held
// by others that are not decided, it waits for them: it keeps and takes what it can
// while those alone are in its way that came after it, and gives everything back while
// it needs the room of one that came before it. So of all that want the same room the
// first is never waiting for one that waits for it. It returns false if nobody is in
// the way.
func (r *run) contendForRoom(ctx context.Context, req *api.Request, p *estimate.Plan) (again bool, err error) {
	switch {
	case r.first != nil:
		return false, nil
	case p.Contended() && (r.describeShortfall(p.RoomWithoutYounger(req)) == ""):
		if p.Offered() > 0 && r.attempt < api.HoldsPerBootMax/2 { // the other half is for all that it needs
			if err := r.takePart(ctx, req, p); err != nil || r.decided {
				return false, err
			}
		}
	case p.Contended() && r.describeShortfall(p.RoomWithoutOthers(req)) == "":
		if err := r.yieldHolds(ctx); err != nil {
			return false, err
		}
	case r.waits > 0 && r.holdsAny(): // what it kept while it waited may lie in its own way
		r.waits = 0
		return true, r.yieldHolds(ctx)
	default:
		return false, nil
	}
	wait := r.nextWait()
	if r.s.zone.Instant().Add(wait) >= r.waitDeadline() {
		return true, r.failOwner(ctx, req, p, waitedInVain)
	}
	backoff.Sleep(ctx, wait)
	if _, ok := r.owner.find(r.s.zone.View()); !ok {
		r.decided = true // whoever asked for it was faster
	}
	return true, ctx.Err()
}

// waitDeadline is when the owner stops waiting for others.
func (r *run) waitDeadline() api.Instant {
	if r.want.timeout > 0 {
		return r.want.created.Add(r.want.timeout)
	}
	return r.want.created.Add(BootTimeout)
}

// takePart holds what there is, though it is too little, and goes on wanting the rest.
func (r *run) takePart(ctx context.Context, req *api.Request, p *estimate.Plan) error {
	r.attempt++
	_, err := r.takeHold(ctx, req, p, false)
	return err
}

// yieldHolds gives back all that the owner holds, here and, in time, below.
func (r *run) yieldHolds(ctx context.Context) error {
	if !r.holdsAny() {
		return nil
	}
	w, ok := r.owner.find(r.s.zone.View())
	if !ok {
		return nil
	}
	if err := r.s.abandonAttempts(ctx, w); err != nil {
		return err
	}
	r.beginWith(w)
	return nil
}

// nextWait returns how long to wait before the next look: it grows, and no two owners
// wait alike.
func (r *run) nextWait() time.Duration {
	d := backoff.Double(contendPause, contendPauseMax, r.waits)
	r.waits++
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s %s %d", r.want.request.Project, r.want.request.Reservation, r.waits) // a hash takes everything
	return backoff.Jitter(d, float64(sum.Sum32()%1024)/1024)
}

// waitedInVain is why an owner gets nothing that has waited for others.
var waitedInVain = cause{api.CodeContended, "the room that it needs is held by others that are not decided yet; repeat the request"}

// failOwner decides an owner whose want cannot be had now, and records why.
func (r *run) failOwner(ctx context.Context, req *api.Request, p *estimate.Plan, why cause) error {
	r.decided = true
	t := r.recordAttempt(req, p)
	t.Short, t.Contended = t.Wanted, p.Contended()
	return r.s.logDecision(ctx, r.owner, api.DecisionAbort, why, t)
}
