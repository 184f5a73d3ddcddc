package estimate

import (
	"context"
	"errors"
	"sync"
	"time"

	"berth/api"
	"berth/buildplan"
)

// errTooSlow is the cause for which a call is ended that the plan can do without.
var errTooSlow = errors.New("estimate: the others have enough, and the child is too slow")

// usual keeps how long a child usually takes to answer a select, on this node.
type usual struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]time.Duration
}

// usualShare is the part that one answer has in the usual time.
const usualShare = 8

// note adds the time of one answer.
func (u *usual) note(l api.LinkID, took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if was, ok := u.of[l]; ok {
		took = was + (took-was)/usualShare
	}
	u.of[l] = took
}

// patienceFor returns for how long to wait for some children before others are asked as well.
func (u *usual) patienceFor(answers []childAnswer, some []int) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := fanoutPatienceMin
	for _, i := range some {
		took, ok := u.of[answers[i].link.ID]
		if !ok {
			return fanoutPatience
		}
		out = max(out, fanoutSlow*took)
	}
	return min(out, fanoutPatience)
}

// lateAnswer is the answer to one question of a fan-out.
type lateAnswer struct {
	i      int // of the answers
	answer childAnswer
}

// startAsking asks children, and sends the answer of each to a channel with room for all.
func (f *fanout) startAsking(ctx context.Context, some []int, to chan<- lateAnswer) {
	for _, i := range some {
		a := &f.answers[i]
		link, ask := a.link, a.ask
		go func() { to <- lateAnswer{i, f.e.askChild(ctx, link, ask, f.w.Request)} }()
	}
}

// askFirst asks the children that are picked. When one of them is slow, it asks those that are left out as
// well, and gives up those that are slower still if the others have enough. A late answer counts until then. It
// returns when every call has ended.
func (f *fanout) askFirst(ctx context.Context, own buildplan.Plan) {
	var picked, spare []int
	for i := range f.answers {
		switch a := &f.answers[i]; {
		case a.outcome == "":
			picked = append(picked, i)
		case a.spare:
			spare = append(spare, i)
		}
	}
	ctx, stop := f.e.withinHop(ctx)
	defer stop()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	answered := make(chan lateAnswer, len(f.answers))
	f.startAsking(ctx, picked, answered)
	wait := f.e.usual.patienceFor(f.answers, picked)
	patience, end := time.NewTimer(wait), time.NewTimer(fanoutGiveUp*wait)
	defer patience.Stop()
	defer end.Stop()
	tooSlow := false
	for left := len(picked); left > 0; {
		select {
		case a := <-answered:
			f.answers[a.i] = a.answer
			left--
		case <-patience.C:
			f.startAsking(ctx, spare, answered)
			left += len(spare)
		case <-end.C:
			tooSlow = true
		}
		if tooSlow && f.hasEnough(own) {
			giveUp(errTooSlow)
		}
	}
}

// hasEnough reports whether the answers so far are enough for a plan of everything.
func (f *fanout) hasEnough(own buildplan.Plan) bool {
	p := mergeOffers(f.v, f.w, own, f.answers)
	return p.unmet == "" && p.Offered() >= f.w.Request.Count()
}
