package leasecheck

import (
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/internal/backoff"
	"berth/internal/crash"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Limits of telling ends.
const (
	batchMax   = 50          // ends between two entries of the log; at most api.LeaseEndsToldMax
	endsAtOnce = 8           // calls under way
	retryFirst = time.Second // pause after ends of which none was confirmed; doubles
	retryMax   = 5 * time.Minute
)

// Lead tells the service of ends until ctx ends and no call is under way. An end that is not
// confirmed holds up no other: it is told again in the next round.
func (c *Check) Lead(ctx context.Context) {
	r := round{Check: c}
	for ctx.Err() == nil {
		if ends := c.conf.Zone.View().LeaseEnds(r.after, batchMax); len(ends) > 0 {
			r.tell(ctx, ends)
		} else {
			r.next(ctx)
		}
	}
}

// round is one pass over all ends that are to be told.
type round struct {
	*Check
	after api.LeaseEndName // the ends up to here were tried
	left  bool             // some of them were not confirmed
	tries int              // pauses since one was
}

// tell tells some ends, and records those that are confirmed.
func (r *round) tell(ctx context.Context, ends []*api.LeaseEnd) {
	told := r.tellEnds(ctx, ends)
	if ctx.Err() != nil {
		return
	}
	r.after = ends[len(ends)-1].Name()
	r.left = r.left || len(told) < len(ends)
	if len(told) == 0 {
		r.pause(ctx)
		return
	}
	r.tries = 0
	if _, err := r.conf.Zone.Propose(ctx, command.LeaseEndsTold{Stamp: r.conf.Zone.Stamp(), Ends: told}); err != nil {
		r.left = true // they are told again
	}
}

// next begins another round when there is something to tell. After one that has left some it
// waits for a while, but not if there is a new one.
func (r *round) next(ctx context.Context) {
	if r.left {
		if r.pause(ctx); len(r.conf.Zone.View().LeaseEnds(r.after, 1)) > 0 {
			return
		}
	}
	r.after, r.left = api.LeaseEndName{}, false
	_, _ = r.conf.Zone.Store().WaitFor(ctx, state.LeaseEndsTopic(), hasEndsAfter(r.after)) // Lead looks at ctx
}

// pause waits for longer each time, or until there is an end that was not tried in this round.
func (r *round) pause(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, backoff.Double(retryFirst, retryMax, r.tries))
	defer cancel()
	r.tries++
	_, _ = r.conf.Zone.Store().WaitFor(ctx, state.LeaseEndsTopic(), hasEndsAfter(r.after)) // either is the end of the pause
}

func hasEndsAfter(n api.LeaseEndName) func(*state.State) bool {
	return func(v *state.State) bool { return len(v.LeaseEnds(n, 1)) > 0 }
}

// tellEnds tells some ends, a few at once, and returns those that were confirmed. If the zone
// has no service any more, there is nobody to tell and all of them are.
func (c *Check) tellEnds(ctx context.Context, ends []*api.LeaseEnd) (told []api.LeaseEndName) {
	service := c.service()
	done := make([]bool, len(ends))
	var wg sync.WaitGroup
	room := make(chan struct{}, endsAtOnce)
	for i, e := range ends {
		room <- struct{}{} // given back when a call ends, which takes no longer than its timeout
		wg.Go(func() {
			defer func() { <-room }()
			done[i] = service.URL == "" || c.tellEnd(ctx, service, e)
		})
	}
	wg.Wait()
	for i, e := range ends {
		if done[i] {
			told = append(told, e.Name())
		}
	}
	return told
}

// tellEnd tells one end, and reports whether it was confirmed.
func (c *Check) tellEnd(ctx context.Context, service *api.LeaseCheck, e *api.LeaseEnd) bool {
	c.conf.Zone.Reach(crash.LeaseEndTelling)
	answer, err := c.call(ctx, service, rest.LeaseCheckOnEnd, &rest.LeaseCheckCall{
		Context: c.contextOf(e.Terms.User, e.Terms.Project), Lease: rest.CheckedEndOf(e),
	})
	if err == nil {
		err = answer.CheckDone()
	}
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		c.count(func(n *Counts) { n.Untold++ })
		c.conf.Zone.Log().WarnContext(ctx, "the external service for leases has not confirmed an end", "lease", e.Terms.ID, "error", err)
		return false
	}
	c.count(func(n *Counts) { n.Told++ })
	c.conf.Zone.Reach(crash.LeaseEndTold)
	return true
}
