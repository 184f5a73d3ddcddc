package saga

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// leaving says when an owner leaves children that do not answer within their usual time.
type leaving struct {
	// may reports whether what a hold asks of late children can be had without them. It may take a while,
	// and is called by one goroutine at a time.
	may  func(ctx context.Context, h *state.Hold, late map[api.LinkID]bool) bool
	left map[api.LinkID]bool // those that were left
}

// partsQuestion asks the children of one hold, all at once.
type partsQuestion struct {
	s     *Saga
	hold  *state.Hold
	layer *buildplan.Layer
	leave *leaving              // nil if nobody is left
	late  map[api.LinkID]bool   // have not answered within their usual time
	stops map[api.LinkID]func() // of those that have not answered
}

// ask asks the children that have not answered yet, and returns their answers, and how many it has asked. A
// child is asked last by others from when it is late until it holds something, and it is left if what it
// was asked for can be had without it. It returns when every call has ended.
func (q *partsQuestion) ask(ctx context.Context) (out []partAnswer, asked int) {
	answers, overdue := make(chan partAnswer, len(q.hold.Parts)), make(chan api.LinkID, len(q.hold.Parts))
	q.stops = map[api.LinkID]func(){}
	for _, p := range q.hold.Parts {
		if p.Answered {
			continue
		}
		asked++
		its, stop := context.WithCancel(ctx)
		defer stop()
		q.stops[p.Link] = stop
		patience, began := q.s.estimator.HoldPatience(p.Link), q.s.zone.Now()
		slow := time.AfterFunc(patience, func() {
			q.s.estimator.NoteHold(p.Link, estimate.Late, patience)
			overdue <- p.Link
		})
		go func() {
			a := q.s.askPart(its, q.hold, p, q.layer)
			slow.Stop()
			q.noteHeld(&a, its.Err() != nil, q.s.zone.Now().Sub(began))
			answers <- a
		}()
	}
	search, end := context.WithCancel(ctx)
	defer end()
	var found chan map[api.LinkID]bool // the late children that can be done without; nil while nobody looks
	for len(out) < asked {
		select {
		case a := <-answers:
			delete(q.stops, a.Link)
			out = append(out, a)
		case l := <-overdue:
			q.late[l] = true
			if found == nil {
				found = q.search(search)
			}
		case some := <-found:
			found = nil
			if q.leaveSome(some) {
				found = q.search(search)
			}
		}
	}
	if end(); found != nil {
		<-found
	}
	return out, asked
}

// search finds out whether the late children that have not answered can be done without. The channel gets them if
// so, and otherwise none. It is nil if there are none.
func (q *partsQuestion) search(ctx context.Context) chan map[api.LinkID]bool {
	late := maps.Clone(q.late)
	maps.DeleteFunc(late, func(l api.LinkID, _ bool) bool { return q.stops[l] == nil })
	if q.leave == nil || len(late) == 0 {
		return nil
	}
	found := make(chan map[api.LinkID]bool, 1)
	go func() {
		if !q.leave.may(ctx, q.hold, late) {
			clear(late)
		}
		found <- late
	}()
	return found
}

// leaveSome leaves children, and reports whether there are late ones besides that nobody has looked for.
func (q *partsQuestion) leaveSome(some map[api.LinkID]bool) bool {
	for l := range some {
		if stop := q.stops[l]; stop != nil {
			q.leave.left[l] = true
			stop()
		}
		delete(q.late, l)
	}
	return len(some) > 0 && len(q.late) > 0
}

// noteHeld records whether a child holds what it offered, and after which time it said so. A refusal does not count
// against a child that was asked with a foreign plan, or whose room was taken by others
// first. Of one that nobody waits for any more no more is known than that it was late.
func (q *partsQuestion) noteHeld(a *partAnswer, left bool, took time.Duration) {
	o := estimate.Refused
	switch h := q.hold; {
	case len(a.Held) > 0:
		o = estimate.Held
	case h.Origin == "" && h.Attempt != h.Request.Attempt: // once for a boot is enough
		return
	case a.Why == api.CodeTimeout && left && took < holdTimeout:
		return
	case a.Why == api.CodeTimeout:
		o = estimate.Unanswered
	case h.Plan != "" || a.Why == api.CodeContended || a.Why == api.CodePaused || a.Why == api.CodeOverQuota:
		return
	}
	q.s.estimator.NoteHold(a.Link, o, took)
}

// mayLeave reports whether an owner finds without some children what a hold asks of them, if the others hold
// what they are asked for.
func (r *run) mayLeave(ctx context.Context, h *state.Hold, late map[api.LinkID]bool) bool {
	its := *r
	its.last = maps.Clone(r.last)
	maps.Copy(its.last, late)
	its.held, its.missing = nil, make([][]api.InstanceSpec, len(r.missing))
	for _, held := range r.held {
		its.held = append(its.held, maps.Clone(held))
	}
	for _, sl := range h.Slots {
		its.held[sl.Group][""]++
	}
	wanted := 0
	for _, p := range h.Parts {
		for _, i := range p.Instances {
			if late[p.Link] {
				its.missing[i.Group] = append(its.missing[i.Group], i.Spec)
				wanted++
			} else {
				its.held[i.Group][p.Link]++
			}
		}
	}
	req := its.remainingRequest()
	ctx, cancel := context.WithTimeout(ctx, api.SelectTimeout)
	defer cancel()
	p := r.s.estimator.PlanFor(ctx, r.s.zone.View(), &estimate.Want{Request: &req, Held: its.held, Beside: its.want.beside, Avoid: its.last, Vain: r.vain})
	room := p.Room()
	for l := range late { // in any order
		if room.Places[l] { // what is bound goes nowhere else
			return false
		}
	}
	return ctx.Err() == nil && p.Offered() >= wanted && its.describeShortfall(room) == ""
}

// leaving returns when the owner leaves children: nil if it must not, because its plan is fixed or it takes over
// what these have. A child that it comes back to is waited for.
func (r *run) leaving() *leaving {
	if req := &r.want.request; r.first != nil || req.Replaces != "" || req.Within != "" {
		return nil
	}
	return &leaving{left: map[api.LinkID]bool{}, may: func(ctx context.Context, h *state.Hold, late map[api.LinkID]bool) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(late)), func(l api.LinkID) bool { return r.last[l] }) && r.mayLeave(ctx, h, late)
	}}
}
