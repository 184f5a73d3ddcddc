package federation

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/raftstore"
)

const (
	// autopilotEvery is the time between two looks at the members.
	autopilotEvery = 30 * time.Second
	// evenAfter is for how long a zone has an even number of voters before that is worth a warning: a change
	// of nodes passes through it.
	evenAfter = 10 * time.Minute
)

// deadWatch notices for how long members are silent. One goroutine uses it.
type deadWatch struct {
	last   time.Time                    // look
	silent map[api.NodeID]time.Duration // those that were at the last look, and for how long
	even   time.Duration                // with an even number of voters
	warned bool
}

// note takes who is silent at a look. A clock that is set forward counts as at most two pauses between looks, so that it
// makes nobody dead.
func (w *deadWatch) note(now time.Time, silent []api.NodeID, voters int) {
	var passed time.Duration
	if !w.last.IsZero() {
		passed = max(min(now.Sub(w.last), 2*autopilotEvery), 0)
	}
	w.last = now
	next := make(map[api.NodeID]time.Duration, len(silent))
	for _, id := range silent {
		before, was := w.silent[id]
		if was {
			before += passed
		}
		next[id] = before
	}
	w.silent = next
	if voters%2 == 0 {
		w.even += passed
	} else {
		w.even = 0
	}
}

// majority is how many of some voters must agree.
func majority(voters int) int { return voters/2 + 1 }

// findRemovable returns the voter that has been silent for longest of those that were for at least after, "" if nobody
// should be removed: the voters that answer must be a majority before and after, and fewer of them must be enough once
// all dead ones are removed. Three voters of which one is dead stay three: two need both, as three do, and the third may come back.
func findRemovable(members []raftstore.Member, silent map[api.NodeID]time.Duration, after time.Duration) (dead api.NodeID) {
	if after <= 0 {
		return ""
	}
	voters, lively, gone, longest := 0, 0, 0, time.Duration(0)
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		long, isSilent := silent[m.ID]
		switch {
		case !isSilent:
			lively++
		case long >= after && !m.Leader:
			gone++
			if long > longest {
				dead, longest = m.ID, long
			}
		}
	}
	switch {
	case dead == "", lively < majority(voters), lively < majority(voters-1), majority(voters-gone) == majority(voters):
		return ""
	}
	return dead
}

// RunAutopilot removes voters that are dead, one at a time, as the configuration of the zone allows, and warns of an even number of
// voters, until ctx ends. The leader runs it: a new one counts the silence of others anew.
func (f *Federation) RunAutopilot(ctx context.Context) {
	var w deadWatch
	for ctx.Err() == nil {
		f.lookAtMembers(ctx, &w)
		backoff.Sleep(ctx, autopilotEvery)
	}
}

func (f *Federation) lookAtMembers(ctx context.Context, w *deadWatch) {
	members, voters := f.members.Members(), 0
	for _, m := range members {
		if m.Voter {
			voters++
		}
	}
	w.note(f.now(), f.silent(), voters)
	switch {
	case w.even >= evenAfter && !w.warned:
		w.warned = true
		f.log.WarnContext(ctx, "the zone has an even number of voters, which may lose no more of them than one less could: add a node or remove one", "voters", voters)
	case w.even == 0 && w.warned:
		w.warned = false
		f.log.InfoContext(ctx, "the zone has an odd number of voters again", "voters", voters)
	}
	if err := f.ForgetRemoved(ctx); err != nil {
		f.log.InfoContext(ctx, "removed nodes are still recorded, which is tried again", "error", err)
	}
	var dead api.NodeID
	err := f.changeMembers(ctx, func() error { // of the members as they are once no other removal runs
		if dead = findRemovable(f.members.Members(), w.silent, f.view().Config.RemoveDeadAfter); dead == "" {
			return nil
		}
		return f.removeMember(ctx, dead)
	})
	if dead == "" {
		return
	}
	silent := w.silent[dead]
	if err != nil {
		f.log.WarnContext(ctx, "a dead node could not be removed from the zone, which is tried again", "member", dead, "silent", silent, "error", err)
		return
	}
	f.log.WarnContext(ctx, "a dead node was removed from the zone; should it come back, a new one must join in its place", "member", dead, "silent", silent)
}
