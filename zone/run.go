package zone

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"berth/api"
	"berth/buildplan"
	"berth/internal/backoff"
	"berth/raftstore/state"
)

// bootRun is one leader's work on one boot.
type bootRun struct {
	z       *Zone
	boot    *state.Boot
	first   *planned             // the plan it came with
	attempt int                  // attempts so far
	from    int                  // the first attempt that counts: what earlier ones held is given back
	vain    int                  // attempts that had slots refused though nobody was in the way
	waits   int                  // waits for others in a row
	last    map[api.LinkID]bool  // children that held nothing of what they had offered: asked last
	silent  bool                 // one of them did not answer: asked only for what the boot cannot do without
	retries int                  // selects that were repeated because a zone was silent
	missing [][]api.InstanceSpec // per group: not held yet
	lies    []map[api.LinkID]int // per group: held, by child or "" for this zone
	decided bool                 // the hold's own entry has decided
}

func newRun(z *Zone, b *state.Boot) *bootRun {
	r := &bootRun{z: z, boot: b, last: map[api.LinkID]bool{}}
	for _, a := range b.Attempts {
		if !a.Contended {
			r.vain++
		}
	}
	r.begin(b)
	return r
}

// begin sets out to get all that is wanted: nothing is held.
func (r *bootRun) begin(b *state.Boot) {
	r.attempt = max(r.attempt, b.Tried())
	r.from, r.missing, r.lies = r.attempt+1, nil, nil
	ids := b.Instances
	for i := range b.Request.Groups {
		n := b.Request.Groups[i].Count
		r.missing = append(r.missing, ids[:n])
		r.lies = append(r.lies, map[api.LinkID]int{})
		ids = ids[n:]
	}
}

// held returns how many instances are held, of one group.
func (r *bootRun) held(group int) int {
	n := 0
	for _, k := range r.lies[group] {
		n += k
	}
	return n
}

// request returns what is still wanted: the boot's request, each group reduced to
// what is missing, and whose turn it is.
func (r *bootRun) request() api.Request {
	req := r.boot.Request
	req.Since, req.Attempt = r.boot.Created, min(r.from, api.HoldsPerBootMax)
	req.Groups = slices.Clone(req.Groups)
	for g := range req.Groups {
		req.Groups[g].Count = len(r.missing[g])
	}
	return req
}

// attempts selects and holds until all that is wanted is held, nobody offers
// more, or the attempts are used up. It returns why there are not more.
func (r *bootRun) attempts(ctx context.Context) (cause, error) {
	for r.vain < api.AttemptsMax && r.attempt < api.HoldsPerBootMax {
		if again, why, err := r.try(ctx); !again {
			return why, err
		}
	}
	if r.vain < api.AttemptsMax {
		return waitedInVain, ctx.Err()
	}
	return cause{text: "no attempt was left"}, ctx.Err()
}

// try selects and holds once, and reports whether to do it again. If not, it returns
// why nothing more is held.
func (r *bootRun) try(ctx context.Context) (again bool, why cause, err error) {
	req, plan := r.request(), r.first
	if plan == nil {
		plan = r.look(ctx, &req)
	}
	switch lacks := r.lacks(&plan.layer); {
	case lacks == "" && plan.offered() == 0:
		return false, cause{}, nil // what is held is enough, and there is no more
	case lacks == "":
		return r.tryHold(ctx, &req, plan)
	case r.hopes(plan):
		backoff.Sleep(ctx, replanPause)
		return true, cause{}, nil
	default:
		again, err := r.contend(ctx, &req, plan)
		if again || err != nil || r.decided {
			return again && err == nil && !r.decided, cause{}, err
		}
		return false, cause{api.CodeNoCapacity, lacks}, r.short(ctx, &req, plan, unreached(lacks, plan))
	}
}

// tryHold is try with a plan that would be enough.
func (r *bootRun) tryHold(ctx context.Context, req *api.Request, plan *planned) (again bool, why cause, err error) {
	r.attempt++
	h, err := r.hold(ctx, req, plan, true)
	if err != nil || r.decided {
		return false, cause{}, err
	}
	if len(h.Refused) == 0 || r.first != nil {
		return false, refusedPlan(r.lacks(nil), h.Why), nil
	}
	if h.Why != api.CodeContended {
		r.vain++
	}
	backoff.Sleep(ctx, replanPause)
	return true, cause{}, nil
}

// look plans what is still wanted: without the children that are asked last, if the
// others are enough.
func (r *bootRun) look(ctx context.Context, req *api.Request) *planned {
	ctx, cancel := context.WithTimeout(ctx, api.SelectTimeout)
	defer cancel()
	v := r.z.store.View()
	p := r.z.planBoot(avoiding(ctx, r.last), v, req, r.lies)
	if len(r.last) > 0 && (r.lacks(&p.layer) != "" || p.offered() < req.Count() && !r.silent) {
		p = r.z.planBoot(ctx, v, req, r.lies)
	}
	r.z.tales.keep(r.z.explain(v, r.boot.Call, req, p), false)
	return p
}

// lacks says what would be missing of the least that the boot needs, if all the
// slots of a plan were held beside what is; "" for nothing. A nil plan has no
// slots. The state machine has the last word.
func (r *bootRun) lacks(l *buildplan.Layer) string {
	more, places := make([]int, len(r.lies)), map[api.LinkID]bool{}
	if l != nil {
		for g := range r.lies {
			more[g] = len(l.Groups[g].Order)
			for _, s := range l.Groups[g].Order {
				places[sourceOf(l, s)] = true
			}
		}
	}
	return r.lacksWith(more, places)
}

// lacksOf says what would be missing if a plan had so many slots of each group,
// wherever they would lie of what was offered or is held by others.
func (r *bootRun) lacksOf(p *planned, more []int) string {
	places := map[api.LinkID]bool{}
	for g := range p.rivals.all {
		for s, n := range p.rivals.all[g] {
			if n > 0 {
				places[sourceOf(&p.layer, uint16(s))] = true //nolint:gosec // a zone has at most api.LinksMax children
			}
		}
	}
	return r.lacksWith(more, places)
}

// lacksWith says what would be missing with so many slots more of each group, in
// these places beside those that are in use.
func (r *bootRun) lacksWith(more []int, places map[api.LinkID]bool) string {
	all := 0
	for g := range r.lies {
		have := r.held(g) + more[g]
		for link, n := range r.lies[g] {
			places[link] = places[link] || n > 0
		}
		all += have
		if want := &r.boot.Request.Groups[g]; have < want.Min {
			return fmt.Sprintf("%d of %d%s could be had, %s needed", have, want.Count, named(want), are(want.Min))
		}
	}
	delete(places, noPlace)
	n := 0
	for _, used := range places {
		if used {
			n++
		}
	}
	switch least := r.boot.Request.Zones.MinZones; {
	case all < r.boot.Min || all == 0:
		return fmt.Sprintf("%d of %d could be had, %s needed", all, r.boot.Request.Count(), are(r.boot.Min))
	case n < least:
		return fmt.Sprintf("zones with slots for it: %d; %s needed", n, are(least))
	}
	return ""
}

// noPlace is no link's id: ids are not empty and have no space.
const noPlace api.LinkID = " "

// sourceOf returns which child a source of an order is, or "" for this zone.
func sourceOf(l *buildplan.Layer, source uint16) api.LinkID {
	switch i := int(source) - 1; {
	case source == buildplan.Own:
		return ""
	case i < len(l.Children):
		return l.Children[i].Link
	}
	return noPlace
}

// are returns a number and its verb.
func are(n int) string {
	if n == 1 {
		return "1 is"
	}
	return strconv.Itoa(n) + " are"
}

// named returns the name of a group for a sentence, if it has one.
func named(g *api.Group) string {
	if g.Name == "" {
		return ""
	}
	return " of group " + g.Name
}

// hopes reports whether a select that found too little is worth another try: a
// zone did not answer, and this has not been tried too often.
func (r *bootRun) hopes(p *planned) bool {
	if len(p.silent()) == 0 || r.first != nil || r.retries >= selectRetries {
		return false
	}
	r.retries++
	return true
}

// hold logs an attempt with everybody who takes part, claims own slots in the
// same entry, and asks the children. An attempt that is enough for the boot may be
// decided at once where it is held.
func (r *bootRun) hold(ctx context.Context, req *api.Request, p *planned, enough bool) (*state.Hold, error) {
	ids := r.next(&p.layer)
	c, err := holdCommand(r.z.stamp(), &p.layer, &api.HoldRequest{
		ID: holdID(r.z.View().Zone, req, r.attempt), Attempt: r.attempt, Request: *req,
		Instances: ids, Metadata: r.boot.Metadata,
	})
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "zone.boot", "", err)
	}
	parties := len(c.Parts)
	if len(c.Slots) > 0 {
		parties++
	}
	c.Commit = parties == 1 && enough && !r.holdsAny()
	c.Tale = r.tale(req, p)
	c.Tale.Contended = !enough
	if c.Plan == "" {
		c.Expires = api.Forever
	}
	res, err := r.z.Propose(ctx, c)
	if err != nil {
		return nil, err
	}
	if !asksFor(res.Hold, slices.Concat(ids...)) {
		return nil, api.Errorf(api.CodeUnavailable, "attempt %d was logged by an earlier try after all", r.attempt)
	}
	h, err := r.z.askParts(ctx, res.Hold, &p.layer)
	if err != nil {
		return nil, err
	}
	r.decided = h.Decision != api.DecisionPending
	r.keep(ids, h)
	return h, nil
}

func (r *bootRun) holdsAny() bool {
	for g := range r.lies {
		if r.held(g) > 0 {
			return true
		}
	}
	return false
}

// asksFor reports whether h is for exactly these instances. It is for others when
// a try whose outcome nobody knew has reached the log before this one.
func asksFor(h *state.Hold, ids []api.InstanceSpec) bool {
	asked := slices.Clone(h.Refused)
	for _, sl := range h.Slots {
		asked = append(asked, sl.Instance.ID)
	}
	for _, p := range h.Parts {
		for _, i := range p.Instances {
			asked = append(asked, i.Spec.ID)
		}
	}
	want := make([]api.InstanceID, len(ids))
	for i := range ids {
		want[i] = ids[i].ID
	}
	slices.Sort(asked)
	slices.Sort(want)
	return slices.Equal(asked, want)
}

// next returns, per group, as many of the missing instances as a plan has slots.
// An id that was asked for in an earlier attempt may live somewhere, so it is
// never used again.
func (r *bootRun) next(l *buildplan.Layer) [][]api.InstanceSpec {
	out := make([][]api.InstanceSpec, len(r.missing))
	for g := range out {
		out[g] = slices.Clone(r.missing[g][:min(len(l.Groups[g].Order), len(r.missing[g]))])
		for i := range out[g] {
			if r.attempt > 1 {
				out[g][i].ID = api.InstanceID(api.NewUUID())
			}
		}
	}
	return out
}

// keep leaves as missing what was refused, and what was not asked for, and notes
// where the rest lies.
func (r *bootRun) keep(asked [][]api.InstanceSpec, h *state.Hold) {
	refused := make(map[api.InstanceID]bool, len(h.Refused))
	for _, id := range h.Refused {
		refused[id] = true
	}
	for g := range asked {
		var missing []api.InstanceSpec
		for _, i := range asked[g] {
			if refused[i.ID] {
				missing = append(missing, i)
			}
		}
		r.missing[g] = append(missing, r.missing[g][len(asked[g]):]...)
	}
	for _, sl := range h.Slots {
		r.lies[sl.Group][""]++
	}
	for _, p := range h.Parts {
		if len(p.Instances) == 0 {
			r.last[p.Link], r.silent = true, r.silent || h.Why == api.CodeTimeout
		}
		for _, i := range p.Instances {
			r.lies[i.Group][p.Link]++
		}
	}
}

func (r *bootRun) tale(req *api.Request, p *planned) *api.BootAttempt {
	want := req.Count()
	t := &api.BootAttempt{
		Attempt: r.attempt, Wanted: want, Short: want - p.offered(), Zones: p.zones, Refusals: p.refusals,
	}
	for g := range req.Groups {
		t.Offered = append(t.Offered, api.Offer{Wanted: req.Groups[g].Count, Offered: len(p.layer.Groups[g].Order)})
	}
	return t
}

// short decides a boot that cannot be had, and tells why. What is held may be
// enough without the rest.
func (r *bootRun) short(ctx context.Context, req *api.Request, p *planned, why cause) error {
	if r.lacks(nil) == "" {
		return nil
	}
	return r.fail(ctx, req, p, why)
}
