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

// Times of waiting for the undecided holds of others.
const (
	contendPause    = 50 * time.Millisecond // before the second look; the pause doubles
	contendPauseMax = time.Second
)

// contendForRoom handles an owner whose plan is too small. If undecided holds of others
// have the rest, it waits for them: it keeps and takes what it can while only younger
// owners are in its way, and releases everything while it needs the room of an older
// one. So the oldest of all owners that want the same room never waits for one that
// waits for it. It returns false if nobody is in the way.
func (r *run) contendForRoom(ctx context.Context, req *api.Request, p *estimate.Plan) (again bool, err error) {
	switch {
	case r.first != nil:
		return false, nil
	case p.Contended() && (r.describeShortfall(p.RoomWithoutYounger(req)) == ""):
		if p.Offered() > 0 && r.attempt < api.HoldsPerBootMax/2 { // the other half is for complete attempts
			if err := r.takePart(ctx, req, p); err != nil || r.decided {
				return false, err
			}
		}
	case p.Contended() && r.describeShortfall(p.RoomWithoutOthers(req)) == "":
		if err := r.yieldHolds(ctx); err != nil {
			return false, err
		}
	case (r.waits > 0 || r.unsure) && r.holdsAny(): // what it kept while waiting, or a child holds without having said so, may be in its own way
		r.waits, r.unsure = 0, false
		return true, r.yieldHolds(ctx)
	default:
		return false, nil
	}
	return true, r.waitForOthers(ctx, req, p)
}

// waitForOthers waits a while, or decides an owner that has waited for too long.
func (r *run) waitForOthers(ctx context.Context, req *api.Request, p *estimate.Plan) error {
	wait := r.nextWait()
	if r.s.zone.Instant().Add(wait) >= r.waitDeadline() {
		return r.failOwner(ctx, req, p, waitedInVain)
	}
	r.rest(ctx, wait)
	if _, ok := r.owner.find(r.s.zone.View()); !ok {
		r.decided = true // its caller was faster
	}
	return ctx.Err()
}

// awaitChoice handles an owner whose hold the log has refused, because another request of the project
// is choosing the child that the project is bound to, or has: it is planned again.
func (r *run) awaitChoice(ctx context.Context, req *api.Request, p *estimate.Plan) (again bool, why cause, err error) {
	r.attempt-- // nothing was recorded
	err = r.waitForOthers(ctx, req, p)
	return err == nil && !r.decided, cause{}, err
}

// waitDeadline is when the owner stops waiting for others.
func (r *run) waitDeadline() api.Instant {
	if r.want.timeout > 0 {
		return r.want.created.Add(r.want.timeout)
	}
	return r.want.created.Add(BootTimeout)
}

// takePart holds the available slots, although they are too few, and keeps trying for
// the rest.
func (r *run) takePart(ctx context.Context, req *api.Request, p *estimate.Plan) error {
	r.attempt++
	_, err := r.takeHold(ctx, req, p, false)
	if api.CodeOf(err) == api.CodeContended { // as in awaitChoice; its caller waits
		r.attempt--
		return nil
	}
	return err
}

// yieldHolds releases everything that the owner holds, here at once and below in time.
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

// nextWait returns the time until the next look: it grows, and differs between owners.
func (r *run) nextWait() time.Duration {
	d := backoff.Double(contendPause, contendPauseMax, r.waits)
	r.waits++
	return r.spread(d, r.waits)
}

// spread returns the n-th pause of an owner, which differs from those of others.
func (r *run) spread(d time.Duration, n int) time.Duration {
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s %s %d", r.want.request.Project, r.want.request.Reservation, n) // a hash never fails
	return backoff.Jitter(d, float64(sum.Sum32()%1024)/1024)
}

// waitedInVain is the cause of failure of an owner that has waited for others.
var waitedInVain = cause{api.CodeContended, "the room that it needs is held by others that are not decided yet; repeat the request"}

// failOwner decides an owner that cannot be served now, and records why.
func (r *run) failOwner(ctx context.Context, req *api.Request, p *estimate.Plan, why cause) error {
	r.decided = true
	t := r.recordAttempt(req, p)
	t.Short, t.Contended = t.Wanted, p.Contended()
	return r.s.logDecision(ctx, r.owner, api.DecisionAbort, why, t)
}
