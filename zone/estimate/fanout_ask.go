package estimate

import (
	"context"
	"errors"
	"sync"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
)

// errTooSlow is the cause for which a call is ended that the plan can do without.
var errTooSlow = errors.New("estimate: the others have enough, and the child is too slow")

// usual keeps how long a child usually takes to answer one kind of call, on this node.
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

// timeOf returns the usual time of a child; false if it has not answered yet.
func (u *usual) timeOf(l api.LinkID) (time.Duration, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	took, ok := u.of[l]
	return took, ok
}

// slowAfter returns after which time without an answer a child is slow.
func (u *usual) slowAfter(l api.LinkID) time.Duration {
	took, ok := u.timeOf(l)
	if !ok {
		return fanoutPatience
	}
	return max(fanoutSlow*took, fanoutPatienceMin)
}

// slowestOf returns the longest time after which one of some children is slow.
func (u *usual) slowestOf(answers []childAnswer, some []int) time.Duration {
	out := fanoutPatienceMin
	for _, i := range some {
		out = max(out, u.slowAfter(answers[i].link.ID))
	}
	return out
}

// lateAnswer is the answer to one question of a fan-out.
type lateAnswer struct {
	i      int // of the answers
	answer childAnswer
}

// inquiry asks the children of one request, and does without those that are slow if the others have enough.
type inquiry struct {
	e       *Estimator
	v       *state.State
	w       *Want
	answers []childAnswer
	own     func() buildplan.Plan // waits until own hosts are planned
}

// startAsking asks children, and sends the answer of each to a channel with room for all.
func (q *inquiry) startAsking(ctx context.Context, some []int, to chan<- lateAnswer) {
	for _, i := range some {
		a := &q.answers[i]
		link, ask := a.link, a.ask
		go func() { to <- lateAnswer{i, q.e.askChild(ctx, link, ask, q.w.Request)} }()
	}
}

// pickedAndSpare returns the children that are to be asked, and those that a lean fan-out leaves out.
func pickedAndSpare(answers []childAnswer) (picked, spare []int) {
	for i := range answers {
		switch a := &answers[i]; {
		case a.outcome == "":
			picked = append(picked, i)
		case a.spare:
			spare = append(spare, i)
		}
	}
	return picked, spare
}

// askLean asks the children that are picked. When one of them is slow, it asks those that are left out as
// well, and gives up those that are slower still if the others have enough.
func (q *inquiry) askLean(ctx context.Context) {
	picked, spare := pickedAndSpare(q.answers)
	wait := min(q.e.usual.slowestOf(q.answers, picked), fanoutPatience)
	q.ask(ctx, picked, spare, wait, fanoutGiveUp*wait)
}

// askAll asks all children, and gives up those that are slow if the others have enough. It waits as long as
// is in order for the slowest of them, and longer for one that was slow last time, so that one which has become slower
// is known again.
func (q *inquiry) askAll(ctx context.Context) {
	picked, _ := pickedAndSpare(q.answers)
	const least, most = fanoutGiveUp * fanoutPatienceMin, fanoutGiveUp * fanoutPatience
	wait := least
	for _, i := range picked {
		l := q.answers[i].link.ID
		wait = max(wait, min(least<<min(q.e.health.slowTimes(l), 8), most))
		if usual, ok := q.e.usual.timeOf(l); ok {
			wait = max(wait, fanoutSlow*usual)
		} else {
			wait = max(wait, most)
		}
	}
	q.ask(ctx, picked, nil, wait, wait)
}

// ask asks the children that are picked, the spare ones as well if one of them has not answered after
// patience, and after end waits only for as long as the answers are not enough. A late answer counts until then. It
// returns when every call has ended.
func (q *inquiry) ask(ctx context.Context, picked, spare []int, patience, end time.Duration) {
	ctx, stop := q.e.withinHop(ctx)
	defer stop()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	answered := make(chan lateAnswer, len(q.answers))
	q.startAsking(ctx, picked, answered)
	slow, over := time.NewTimer(patience), time.NewTimer(end)
	defer slow.Stop()
	defer over.Stop()
	tooSlow := false
	for left := len(picked); left > 0; {
		select {
		case a := <-answered:
			q.answers[a.i] = a.answer
			left--
		case <-slow.C:
			q.startAsking(ctx, spare, answered)
			left += len(spare)
		case <-over.C:
			tooSlow = true
		}
		if tooSlow && left > 0 && q.hasEnough() {
			giveUp(errTooSlow)
		}
	}
}

// hasEnough reports whether the answers so far are enough for a plan of everything.
func (q *inquiry) hasEnough() bool {
	p := mergeOffers(q.v, q.w, q.own(), q.answers)
	return p.unmet == "" && p.Offered() >= q.w.Request.Count()
}
