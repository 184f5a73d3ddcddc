package estimate

import (
	"context"
	"maps"
	"slices"

	"berth/api"
	"berth/binding"
	"berth/buildplan"
	"berth/filters"
	"berth/raftstore/state"
	"berth/zone"
)

// bounds says where the groups of a request may lie because of what its project is bound to. The
// zero bounds leave them anywhere.
type bounds struct {
	pins  []pin        // by group, nil for anywhere
	first []api.LinkID // by group: the child whose slots are taken before all others, "" for none
}

// allowsOwn reports whether slots of a group may lie on this zone's own hosts.
func (b *bounds) allowsOwn(g int) bool { return b.pins == nil || b.pins[g].allowsLink("") }

// narrow intersects other pins with the bounds.
func (b *bounds) narrow(pinned []pin) []pin {
	for g := range b.pins {
		pinned[g] = pinned[g].intersect(b.pins[g])
	}
	return pinned
}

// sourcesFirst returns, by group, the source whose slots are taken before all others, -1 for none.
func (b *bounds) sourcesFirst(heard []childAnswer) []int {
	if b.first == nil {
		return nil
	}
	out := make([]int, len(b.first))
	for g, link := range b.first {
		out[g] = slices.IndexFunc(heard, func(a childAnswer) bool { return a.link.ID == link })
		if out[g] >= 0 {
			out[g]++ // after this zone
		}
	}
	return out
}

// binder chooses the children for the groups of a request whose project is bound to one, or is to
// be: docs/adr/0044-bindings.md.
type binder struct {
	e      *Estimator
	v      *state.State
	w      *Want
	strict bool
	rule   binding.Rule
	all    []binding.Child // that the request does not exclude
	keys   []*keyChoice
}

// keyChoice is the choice for the groups of one key.
type keyChoice struct {
	key    api.BindingKey
	groups []int
	active *api.Binding      // nil for none
	leave  api.BindingReason // why its child is not the first to be asked; "" if it is
	stays  bool              // what its child cannot take goes elsewhere without a new binding
	fixed  bool              // the child is that of undecided holds
	rivals bool              // which are of others
	order  []api.LinkID      // to be asked, the best first
	at     int               // in order
	others pin               // where what the first of order does not have may lie
}

// newBinder returns the binder of a request, nil if nothing of it is bound.
func (e *Estimator) newBinder(v *state.State, w *Want) *binder {
	mode := v.Config.Bindings.Use()
	if mode == api.BindingOff || len(v.Children()) == 0 || isExempt(w.Request) {
		return nil
	}
	rule, err := binding.RuleOf(&v.Config.Bindings)
	if err != nil { // checked when it was set, so this node is older than the configuration
		e.noteUnknown("bindings", err)
		return nil
	}
	b := &binder{e: e, v: v, w: w, strict: mode == api.BindingStrict, rule: rule, all: e.childrenFor(v, w.Request)}
	b.findKeys()
	if len(b.keys) == 0 {
		return nil
	}
	for _, k := range b.keys {
		b.orderChildren(k)
	}
	return b
}

// isExempt reports whether a request itself says where it lies, or how it lies over zones.
func isExempt(req *api.Request) bool {
	z := &req.Zones
	return req.Within != "" || req.Replaces != "" || len(z.Allowed) > 0 || len(z.AllowedTags) > 0 || z.MinZones > 1 || z.MaxSkew > 0
}

// childrenFor returns the children that a request does not exclude.
func (e *Estimator) childrenFor(v *state.State, req *api.Request) []binding.Child {
	var out []binding.Child
	for _, l := range v.Children() {
		if allowsChild(&req.Zones, l.Name) {
			out = append(out, zone.SeeChild(v, e.digests, e.zone.Instant(), l))
		}
	}
	return out
}

// findKeys collects the groups by their keys. A group that names hosts, or must lie beside an instance,
// has none.
func (b *binder) findKeys() {
	pinned, children := pinsOf(b.v, b.w.Request), b.v.Children()
	for g := range b.w.Request.Groups {
		grp := &b.w.Request.Groups[g]
		k := binding.KeyOf(leaderOf(b.w.Request, g), children)
		if pinned[g] != nil || len(grp.Hints.ForceHosts) > 0 || grp.Hints.Near != "" || k.Validate() != nil {
			continue
		}
		i := slices.IndexFunc(b.keys, func(o *keyChoice) bool { return o.key.String() == k.String() })
		if i < 0 {
			i = len(b.keys)
			b.keys = append(b.keys, &keyChoice{key: k})
		}
		b.keys[i].groups = append(b.keys[i].groups, g)
	}
}

// leaderOf returns the group whose key a group has: of volumes that of the instances that they are
// booted with, so that both go to one child.
func leaderOf(req *api.Request, g int) *api.Group {
	grp := &req.Groups[g]
	if grp.Volume == "" {
		return grp
	}
	for i := range req.Groups {
		if o := &req.Groups[i]; o.Volume == "" && (grp.AttachTo == "" || grp.AttachTo == o.Name) {
			return o
		}
	}
	return grp
}

// workOf returns the work of the groups of a key.
func (b *binder) workOf(k *keyChoice) *binding.Work {
	w := &binding.Work{AZ: k.key.AZ, Tags: k.key.Tags, Resources: api.Resources{}}
	for _, g := range k.groups {
		grp := &b.w.Request.Groups[g]
		for class, n := range grp.Resources { // in any order
			if n > 0 && int64(grp.Count) > (api.AmountMax-w.Resources[class])/n {
				w.Resources[class] = api.AmountMax
				continue
			}
			w.Resources[class] += n * int64(grp.Count)
		}
	}
	return w
}

// leaveReasons says why a binding ends whose child a filter drops.
var leaveReasons = map[binding.Filter]api.BindingReason{
	binding.FilterAll: api.BindingAway, binding.FilterAZ: api.BindingUnfit, binding.FilterTag: api.BindingUnfit,
	binding.FilterMaintenance: api.BindingMaintenance, binding.FilterHeadroom: api.BindingHeadroom,
}

// orderChildren decides in which order the children are asked for a key: the one that is bound if
// nothing speaks against it, then the others by the rule. A child that only seems to be full is asked
// last, because a digest is a hint.
func (b *binder) orderChildren(k *keyChoice) {
	k.active, _ = b.v.ActiveBinding(b.w.Request.Tenant(), k.key)
	work := b.workOf(k)
	best, dropped := b.rule.Rank(work, b.all)
	for _, c := range best {
		k.order = append(k.order, c.Link)
	}
	for _, d := range dropped {
		if d.By == binding.FilterHeadroom {
			k.order = append(k.order, d.Link)
		}
		if k.active != nil && d.Link == k.active.Link && (d.By != binding.FilterHeadroom || b.mindsHeadroom(d.Link, work)) {
			k.leave = leaveReasons[d.By]
		}
	}
	k.others = slices.Sorted(slices.Values(k.order))
	if b.ownHasTags(k) {
		k.others = append(k.others, "")
	}
	k.stays = b.w.Request.Class == api.Preemptible // which goes where room is left, and says nothing of that for other work
	switch link, mine, chose := b.chosenFor(k); {
	case link != "":
		k.fixed, k.rivals, k.stays = true, !mine, k.stays || !chose
		rest := slices.DeleteFunc(k.order, func(l api.LinkID) bool { return l == link })
		if k.order = []api.LinkID{link}; !mine && k.active != nil && link == k.active.Link {
			k.order = append(k.order, rest...) // for what leaves the binding where it is
		}
	case k.active != nil && k.leave == "":
		k.order = slices.DeleteFunc(k.order, func(l api.LinkID) bool { return l == k.active.Link })
		if slices.ContainsFunc(b.all, func(c binding.Child) bool { return c.Link == k.active.Link }) {
			k.order = append([]api.LinkID{k.active.Link}, k.order...)
		} else {
			k.stays = true // the request excludes it
		}
	}
}

// mindsHeadroom reports whether some room of a child is to stay free beside work of which it has all classes. Other work
// it could not take if it were empty.
func (b *binder) mindsHeadroom(link api.LinkID, work *binding.Work) bool {
	i := slices.IndexFunc(b.all, func(c binding.Child) bool { return c.Link == link })
	for class, n := range work.Resources {
		if n > 0 && b.all[i].Usage[class].Total == 0 {
			return false
		}
	}
	for _, p := range b.all[i].Headroom {
		if p > 0 {
			return true
		}
	}
	return false
}

// ownHasTags reports whether this zone's own hosts have the tags of a key.
func (b *binder) ownHasTags(k *keyChoice) bool {
	return !slices.ContainsFunc(k.key.Tags, func(t string) bool { return !slices.Contains(b.v.Config.Tags, t) })
}

// chosenFor returns the child that undecided holds have chosen for a key, and whether they are of the
// request itself, which nobody waits for; "" for none. What the request holds where it has chosen nothing is there
// without a binding.
func (b *binder) chosenFor(k *keyChoice) (link api.LinkID, mine, chose bool) {
	others, own := b.v.ChosenLinks(b.w.Request.Origin, b.w.Request, k.key)
	if own != "" {
		return own, true, true
	}
	for _, g := range k.groups {
		if b.w.Held == nil {
			break
		}
		for _, l := range slices.Sorted(maps.Keys(b.w.Held[g])) {
			if l != "" && b.w.Held[g][l] > 0 {
				return l, true, false
			}
		}
	}
	return others, false, true
}

// layOutBound lays out a request with each group where its project is bound.
func (e *Estimator) layOutBound(ctx context.Context, v *state.State, w *Want) (*Plan, []childAnswer) {
	defer e.measurePhase(PhasePlan)()
	b := e.newBinder(v, w)
	if b == nil {
		return e.layOut(ctx, v, w)
	}
	p, answers := b.layOutOnce(ctx, b.boundsNow())
	if b.strict {
		p, answers = b.askNext(ctx, p, answers)
	} else if p.Offered() < w.Request.Count() {
		for _, k := range b.keys {
			b.noteStay(k, p, answers)
		}
		p, answers = b.layOutOnce(ctx, b.boundsOfAll())
	}
	p.binder = b
	return p, answers
}

func (b *binder) layOutOnce(ctx context.Context, at bounds) (*Plan, []childAnswer) {
	w := *b.w
	w.bounds = at
	if len(w.Avoid) > 0 { // it is not left because of one hold
		w.Avoid = maps.Clone(w.Avoid)
		for _, k := range b.keys {
			if len(k.order) > 0 {
				delete(w.Avoid, k.order[k.at])
			}
		}
	}
	return b.e.layOut(ctx, b.v, &w)
}

// boundsNow returns the bounds with which each key has the child that it is at, and no other.
func (b *binder) boundsNow() bounds {
	out := bounds{pins: make([]pin, len(b.w.Request.Groups))}
	for _, k := range b.keys {
		for _, g := range k.groups {
			if out.pins[g] = (pin{}); len(k.order) > 0 { // not nil: no child is not any child
				out.pins[g] = pin{k.order[k.at]}
			}
		}
	}
	return out
}

// boundsOfAll returns the bounds with which each key has its first child before all others that it may
// go to.
func (b *binder) boundsOfAll() bounds {
	n := len(b.w.Request.Groups)
	out := bounds{pins: make([]pin, n), first: make([]api.LinkID, n)}
	for _, k := range b.keys {
		for _, g := range k.groups {
			out.pins[g] = append(pin{}, k.order...) // not nil either
			if !b.strict {
				out.pins[g] = append(out.pins[g], k.others...)
			}
			if len(k.order) > 0 {
				out.first[g] = k.order[0]
			}
		}
	}
	return out
}

// isStrict reports whether all slots of a group must lie in one child, with all others of its key.
func (b *binder) isStrict(g int) bool {
	return b != nil && b.strict && slices.ContainsFunc(b.keys, func(k *keyChoice) bool { return slices.Contains(k.groups, g) })
}

// joinGroups lowers how many slots the groups of a key have in any one zone to what they have together
// in the zone with most of them.
func (b *binder) joinGroups(slots []int, zones []*api.RoomStep) {
	if b == nil || !b.strict {
		return
	}
	for _, k := range b.keys {
		best, most := zones[0], -1
		for _, z := range zones {
			n := 0
			for _, g := range k.groups {
				n += z.Together[g]
			}
			if n > most {
				best, most = z, n
			}
		}
		for _, g := range k.groups {
			slots[g] = best.Together[g]
		}
	}
}

// askNext moves keys that came out short on to their next children, until all is offered or no child
// is left. It returns the plan with the most slots, of equal ones the first.
func (b *binder) askNext(ctx context.Context, p *Plan, answers []childAnswer) (*Plan, []childAnswer) {
	best, its, where := p, answers, b.places()
	for p.Offered() < b.w.Request.Count() && ctx.Err() == nil && b.moveOn(p, answers) {
		if p, answers = b.layOutOnce(ctx, b.boundsNow()); p.Offered() > best.Offered() {
			best, its, where = p, answers, b.places()
		}
	}
	for i, k := range b.keys {
		k.at = where[i]
	}
	return best, its
}

// places returns where each key is in its order.
func (b *binder) places() []int {
	out := make([]int, len(b.keys))
	for i, k := range b.keys {
		out[i] = k.at
	}
	return out
}

// moveOn moves the first key that is short, and may leave its child, on to the next one.
func (b *binder) moveOn(p *Plan, answers []childAnswer) bool {
	for _, k := range b.keys {
		if k.at+1 < len(k.order) && b.isShort(k, p) && b.mayLeave(k, answers) {
			if b.noteStay(k, p, answers); k.fixed && !k.stays {
				continue
			}
			k.at++
			return true
		}
	}
	return false
}

// isShort reports whether a group of a key has fewer slots in a plan than it wants.
func (b *binder) isShort(k *keyChoice, p *Plan) bool {
	return slices.ContainsFunc(k.groups, func(g int) bool { return b.missesSlots(g, p) })
}

func (b *binder) missesSlots(g int, p *Plan) bool {
	return len(p.Layer.Groups[g].Order) < b.w.Request.Groups[g].Count
}

// noteStay has a binding stay if its child, which was asked, came out short for another reason than a lack of free
// room: it could not take that request if it were empty, and can take others.
func (b *binder) noteStay(k *keyChoice, p *Plan, answers []childAnswer) {
	if k.active == nil || k.at >= len(k.order) || k.order[k.at] != k.active.Link {
		return
	}
	i := slices.IndexFunc(answers, func(a childAnswer) bool { return a.link.ID == k.active.Link })
	if i < 0 || answers[i].answer == nil || !b.isShort(k, p) {
		return
	}
	refusals := answers[i].answer.Refusals
	k.stays = k.stays || !slices.ContainsFunc(k.groups, func(g int) bool {
		return b.missesSlots(g, p) && (g >= len(refusals) || lacksRoom(&refusals[g]))
	})
}

// lacksRoom reports whether a child may have refused slots of a group because its room is used up, or what it lends.
// What it does not show may be.
func lacksRoom(r *api.Refusals) bool {
	all := slices.Concat(r.Filters, r.Limits)
	return len(all) == 0 || slices.ContainsFunc(all, func(f api.FilterCount) bool {
		return f.Tier == api.TierNotNow && f.Filter != filters.NameServerGroup || f.Filter == limitedByShare || f.Filter == refusedLayout
	})
}

// mayLeave reports whether a key may leave the child that it is at, which came out short. One that is
// bound is not left because it does not answer, as long as it is not lost; nor for room that undecided
// requests hold there.
func (b *binder) mayLeave(k *keyChoice, answers []childAnswer) bool {
	i := slices.IndexFunc(answers, func(a childAnswer) bool { return a.link.ID == k.order[k.at] })
	if i < 0 {
		return true
	}
	a := &answers[i]
	if a.answer == nil {
		return a.outcome == api.OutcomeSkipped || k.active == nil || k.active.Link != a.link.ID
	}
	return !slices.ContainsFunc(k.groups, func(g int) bool {
		return g < len(a.answer.Contended) && a.answer.Contended[g].All > 0
	})
}

// choices returns what a plan chooses for the keys that have slots in it.
func (b *binder) choices(p *Plan) []api.BindingChoice {
	var out []api.BindingChoice
	for _, k := range b.keys {
		link := b.linkOf(k, p)
		if link == "" || k.stays && (k.active == nil || k.active.Link != link) {
			continue
		}
		c := api.BindingChoice{Key: k.key, Link: link}
		if k.active != nil {
			c.Seen = k.active.ID
		}
		switch {
		case k.active != nil && k.active.Link == link:
		case k.active == nil:
			c.Why = api.BindingFirst
		case k.leave != "":
			c.Why = k.leave
		default:
			c.Why = api.BindingNoRoom
		}
		if c.Why != "" {
			c.ID = api.BindingID(api.NewUUID())
		}
		out = append(out, c)
	}
	return out
}

// linkOf returns the child that a plan binds a key to, "" for none: the first one that was asked, or if
// that has not all, the one of the others that has most.
func (b *binder) linkOf(k *keyChoice, p *Plan) api.LinkID {
	if len(k.order) == 0 {
		return ""
	}
	first, taken := k.order[k.at], map[api.LinkID]int{}
	for _, g := range k.groups {
		for source, n := range p.merged[g].Taken {
			if source != buildplan.Own {
				taken[p.heard[source-1].link.ID] += n
			}
		}
	}
	best, most := first, 0
	for _, l := range k.order {
		if n := taken[l]; l != first && n > most {
			best, most = l, n
		}
	}
	if k.fixed || most == 0 || b.strict {
		best = first
	}
	if taken[best] == 0 {
		return ""
	}
	return best
}

// bindPlan records in a plan what it chooses for what is bound.
func (p *Plan) bindPlan() {
	if p.binder != nil {
		p.Layer.Choices = p.binder.choices(p)
	}
}

// Bound reports whether some of a plan lies where the project is bound.
func (p *Plan) Bound() bool { return p.binder != nil && p.binder.strict }

// isChoosing reports whether undecided requests of the project hold a plan that came out short to a
// child.
func (p *Plan) isChoosing() bool {
	return p.binder != nil && p.binder.strict && slices.ContainsFunc(p.binder.keys, func(k *keyChoice) bool { return k.rivals && k.at == 0 && p.binder.isShort(k, p) })
}
