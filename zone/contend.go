package zone

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"berth/api"
	"berth/buildplan"
	"berth/internal/backoff"
	"berth/internal/crash"
	"berth/internal/mutant"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// How a boot waits for others that hold room and are not decided.
const (
	contendPause    = 50 * time.Millisecond // between its looks at first; the pause doubles
	contendPauseMax = time.Second
)

// rivals is what a plan would have if others gave way that hold room and are not
// decided: for each group and source, the slots that are offered and those that
// would be. It is nil if that is nothing more.
type rivals struct {
	younger, all [][]int // without those that the request goes before; without all
}

// planBoot plans for a boot of this zone. What would have worked is found out only if
// nobody is in the way: else the boot looks again soon.
func (z *Zone) planBoot(ctx context.Context, v *state.State, req *api.Request, lies []map[api.LinkID]int) *planned {
	z.crash.At(crash.SelectPlanning)
	p, answers := z.layOut(ctx, v, req, lies)
	z.rival(v, "", req, p)
	if p.rivals == nil {
		z.advise(ctx, v, req, p, answers, lies)
	}
	z.crash.At(crash.SelectPlanned)
	return p
}

// rival looks at what undecided holds keep from a plan that came out short. Of a
// child it takes what the child says; here it plans again as if the holds were given
// back, each group alone, so that it never says too little. origin is who asks, "" for
// a boot of this zone.
func (z *Zone) rival(v *state.State, origin api.LinkID, req *api.Request, p *planned) {
	if p.offered() == req.Count() && p.unmet == "" {
		return
	}
	younger, all := z.rivalOwn(v, origin, req)
	r, more, older := &rivals{}, false, false
	for g := range req.Groups {
		ys, as := slices.Clone(p.offers[g]), slices.Clone(p.offers[g])
		for s, n := range p.offers[g] {
			switch {
			case s != buildplan.Own:
				c := p.rivalsAt(p.heard[s-1], g)
				as[s] = max(n, min(n+c.All, req.Groups[g].Count))
				ys[s] = max(n, min(n+c.Younger, as[s]))
			case all != nil:
				as[s] = max(n, all[g])
				ys[s] = max(n, min(younger[g], as[s]))
			}
			more, older = more || as[s] > n, older || as[s] > ys[s]
		}
		r.younger, r.all = append(r.younger, ys), append(r.all, as)
	}
	if !more {
		return
	}
	for g := range req.Groups { // with room that is free again, groups may share all of it in another way
		if n := req.Groups[g].Count; len(req.Groups) > 1 {
			r.all[g][buildplan.Own] = n
			if !older {
				r.younger[g][buildplan.Own] = n
			}
		}
	}
	p.rivals = r
}

// rivalsAt returns what a child has said of one group when it was asked for all, or
// last.
func (p *planned) rivalsAt(a childAnswer, group int) (out api.Contended) {
	for _, o := range append([]childAnswer{a}, p.first...) {
		if o.link.ID == a.link.ID && o.answer != nil && group < len(o.answer.Contended) {
			c := o.answer.Contended[group]
			out.All, out.Younger = max(out.All, c.All), max(out.Younger, c.Younger)
		}
	}
	return out
}

// rivalOwn returns how many slots of each group this zone's own hosts would have
// without the undecided holds of others; nil if there are none. Earlier attempts of
// the same reservation that do not count any more are others, and give way.
func (z *Zone) rivalOwn(v *state.State, origin api.LinkID, req *api.Request) (younger, all []int) {
	var weak, every []*state.Hold
	for _, h := range v.OpenHolds() {
		mine := h.For(origin, req)
		if mine && h.Attempt >= req.Attempt {
			continue
		}
		every = append(every, h)
		if mine || !h.Request.Older(req) {
			weak = append(weak, h)
		}
	}
	if len(every) == 0 {
		return nil, nil
	}
	all = z.roomWithout(v, every, req)
	if len(weak) == len(every) {
		return all, all
	}
	return z.roomWithout(v, weak, req), all
}

func (z *Zone) roomWithout(v *state.State, holds []*state.Hold, req *api.Request) []int {
	v = v.Without(holds)
	out := make([]int, len(req.Groups))
	for g := range req.Groups {
		alone := *req
		alone.Groups = slices.Clone(req.Groups)
		for o := range alone.Groups {
			if o != g {
				alone.Groups[o].Count = 0
			}
		}
		if alone.Count() > 0 {
			plan := z.planOwn(v, &alone, nil)
			out[g] = len(plan.Groups[g].Slots)
		}
	}
	return out
}

// sum returns, by group, how many slots of all sources there would be at the most; of
// a pack, how many of the one source that has most.
func sum(req *api.Request, bySource [][]int) []int {
	out := make([]int, len(bySource))
	if !req.Zones.Pack {
		for g, ns := range bySource {
			for _, n := range ns {
				out[g] = min(out[g]+n, req.Groups[g].Count)
			}
		}
		return out
	}
	most := -1
	for s := range bySource[0] {
		total := 0
		for g := range bySource {
			total += bySource[g][s]
		}
		if total > most {
			most = total
			for g := range bySource {
				out[g] = bySource[g][s]
			}
		}
	}
	return out
}

// contended returns what the asker is told of the room that others hold.
func (p *planned) contended(req *api.Request) []api.Contended {
	if p.rivals == nil {
		return nil
	}
	out := make([]api.Contended, len(req.Groups))
	younger, all := sum(req, p.rivals.younger), sum(req, p.rivals.all)
	for g := range out {
		n := len(p.layer.Groups[g].Order)
		out[g] = api.Contended{Younger: max(younger[g]-n, 0), All: max(all[g]-n, 0)}
	}
	return out
}

// contend is what a boot does whose plan has too little for it. If the rest is held
// by others that are not decided, it waits for them: it keeps and takes what it can
// while those alone are in its way that came after it, and gives everything back while
// it needs the room of one that came before it. So of all that want the same room the
// first is never waiting for one that waits for it. It returns false if nobody is in
// the way.
func (r *bootRun) contend(ctx context.Context, req *api.Request, p *planned) (again bool, err error) {
	switch {
	case r.first != nil:
		return false, nil
	case p.rivals != nil && r.lacksOf(p, sum(req, p.rivals.younger)) == "" || mutant.On(mutant.OlderIgnored) && p.rivals != nil:
		if p.offered() > 0 && r.attempt < api.HoldsPerBootMax/2 { // the other half is for all that it needs
			if err := r.takePart(ctx, req, p); err != nil || r.decided {
				return false, err
			}
		}
	case p.rivals != nil && r.lacksOf(p, sum(req, p.rivals.all)) == "":
		if err := r.yield(ctx); err != nil {
			return false, err
		}
	case r.waits > 0 && r.holdsAny(): // what it kept while it waited may lie in its own way
		r.waits = 0
		return true, r.yield(ctx)
	default:
		return false, nil
	}
	wait := r.nextWait()
	if r.z.instant().Add(wait) >= r.deadline() {
		return true, r.giveUp(ctx, req, p)
	}
	backoff.Sleep(ctx, wait)
	if b, ok := r.z.store.View().Boot(r.boot.Request.Project, r.boot.Request.Reservation); !ok || b.Decision != api.DecisionPending {
		r.decided = true // its owner was faster
	}
	return true, ctx.Err()
}

// deadline is when the boot stops waiting for others.
func (r *bootRun) deadline() api.Instant {
	if r.boot.Timeout > 0 {
		return r.boot.Created.Add(r.boot.Timeout)
	}
	return r.boot.Created.Add(BootTimeout)
}

// takePart holds what there is, though it is too little, and goes on wanting the rest.
func (r *bootRun) takePart(ctx context.Context, req *api.Request, p *planned) error {
	r.attempt++
	_, err := r.hold(ctx, req, p, false)
	return err
}

// yield gives back all that the boot holds, here and, in time, below.
func (r *bootRun) yield(ctx context.Context) error {
	if !r.holdsAny() {
		return nil
	}
	b, ok := r.z.store.View().Boot(r.boot.Request.Project, r.boot.Request.Reservation)
	if !ok {
		return nil
	}
	if err := r.z.abandon(ctx, b); err != nil {
		return err
	}
	r.begin(b)
	return nil
}

// nextWait returns how long to wait before the next look: it grows, and no two boots
// wait alike.
func (r *bootRun) nextWait() time.Duration {
	d := backoff.Double(contendPause, contendPauseMax, r.waits)
	r.waits++
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s %s %d", r.boot.Request.Project, r.boot.Request.Reservation, r.waits) // a hash takes everything
	return backoff.Jitter(d, float64(sum.Sum32()%1024)/1024)
}

// waitedInVain is why a boot failed that has waited for others.
var waitedInVain = cause{api.CodeContended, "the room that it needs is held by others that are not decided yet; repeat the request"}

// giveUp ends a boot that has waited for others for as long as it may.
func (r *bootRun) giveUp(ctx context.Context, req *api.Request, p *planned) error {
	return r.fail(ctx, req, p, waitedInVain)
}

// fail decides a boot that cannot be had now, and tells why.
func (r *bootRun) fail(ctx context.Context, req *api.Request, p *planned, why cause) error {
	r.decided = true
	t := r.tale(req, p)
	t.Short, t.Contended = t.Wanted, p.rivals != nil
	_, err := r.z.Propose(ctx, command.BootDecide{
		Stamp: r.z.stamp(), Project: r.boot.Request.Project, Reservation: r.boot.Request.Reservation,
		Decision: api.DecisionAbort, Tale: t, Code: why.code, Reason: why.text,
	})
	if api.CodeOf(err) == api.CodeConflict { // its owner was faster
		return nil
	}
	return err
}
