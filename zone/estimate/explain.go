package estimate

import (
	"container/list"
	"slices"
	"sync"

	"berth/api"
	"berth/filters"
	"berth/raftstore/state"
)

// explanations holds the explanations of the latest selects on this node, by request id
// and by reservation. They are only in memory: the record of a boot has the lasting
// ones.
type explanations struct {
	mu   sync.Mutex                  // guards what follows
	list list.List                   // of explanation, in the order in which they were stored
	of   map[explained]*list.Element // the place of each
	each map[tenant]*list.List       // of those of one tenant, their places, in the same order
}

// tenant is whose explanations are limited together: a project of this zone, or all projects of
// parents, which can be invented.
type tenant struct {
	project api.ProjectID
	abroad  bool
}

// explanation is one of them. abroad is true if a parent asked: its projects are not
// those of this zone, whatever their names, so only operators may see it.
type explanation struct {
	*api.Explanation
	abroad bool
}

// explained names what an explanation is of.
type explained struct {
	request     api.RequestID
	project     api.ProjectID
	reservation api.ReservationID
	abroad      bool
}

func (e explanation) key() explained { return explained{e.Request, e.Project, e.Reservation, e.abroad} }

func (e explanation) tenant() tenant {
	if e.abroad {
		return tenant{abroad: true}
	}
	return tenant{project: e.Project}
}

// keepExplanation stores an explanation in place of an earlier one of the same request
// and reservation, and drops old and excess ones.
func (t *explanations) keepExplanation(e *api.Explanation, abroad bool) {
	x := explanation{e, abroad}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of, t.each = map[explained]*list.Element{}, map[tenant]*list.List{}
	}
	if was, again := t.of[x.key()]; again {
		t.drop(was)
	}
	own := t.each[x.tenant()]
	if own == nil {
		own = list.New()
		t.each[x.tenant()] = own
	}
	at := t.list.PushBack(x)
	t.of[x.key()] = at
	own.PushBack(at)
	if own.Len() > api.ExplainProjectMax {
		t.drop(own.Front().Value.(*list.Element)) //nolint:forcetypeassert // as the list says
	}
	before := e.At.Add(-api.ExplainKept)
	for {
		oldest := t.list.Front()
		if oldest.Value.(explanation).At >= before && t.list.Len() <= api.ExplainMax { //nolint:forcetypeassert // as the list says
			return
		}
		t.drop(oldest)
	}
}

// drop forgets the explanation at a place.
func (t *explanations) drop(at *list.Element) {
	x := t.list.Remove(at).(explanation) //nolint:forcetypeassert // as the list says
	delete(t.of, x.key())
	own := t.each[x.tenant()]
	for e := own.Front(); e != nil; e = e.Next() {
		if e.Value == at {
			own.Remove(e)
			break
		}
	}
	if own.Len() == 0 {
		delete(t.each, x.tenant())
	}
}

// findExplanation returns the latest explanation that ok accepts and that is not too
// old at now.
func (t *explanations) findExplanation(now api.Instant, ok func(explanation) bool) *api.Explanation {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := t.list.Back(); at != nil; at = at.Prev() {
		e := at.Value.(explanation) //nolint:forcetypeassert // as the list says
		if e.At >= now.Add(-api.ExplainKept) && ok(e) {
			return e.Explanation
		}
	}
	return nil
}

// KeepExplanation stores the explanation of a plan for a boot of this zone, until a
// later one of the same boot replaces it. call is the request that created the boot.
func (e *Estimator) KeepExplanation(v *state.State, call api.RequestID, req *api.Request, p *Plan) {
	e.explanations.keepExplanation(e.explainPlan(v, call, req, p), false)
}

// explainPlan explains a plan that was made on v. For groups that came out short it
// names refused hosts.
func (e *Estimator) explainPlan(v *state.State, call api.RequestID, req *api.Request, p *Plan) *api.Explanation {
	out := &api.Explanation{
		Request: call, Reservation: req.Reservation, Project: req.Project, Zone: v.Name, At: e.zone.Instant(), Zones: p.Zones,
	}
	for g := range req.Groups {
		t := api.GroupTale{
			Name: req.Groups[g].Name, Flavor: req.Groups[g].Flavor, Wanted: req.Groups[g].Count,
			Offered: len(p.Layer.Groups[g].Order), Refusals: p.Refusals[g],
		}
		if t.Offered < t.Wanted && allowsOwnHosts(v, &req.Zones) {
			e.nameHosts(v, req, g, &t.Refusals)
		}
		out.Groups = append(out.Groups, t)
	}
	out.Bindings = explainChoices(v, p.Layer.Choices)
	return out
}

// explainChoices explains what a plan or a hold has chosen for what is bound.
func explainChoices(v *state.State, choices []api.BindingChoice) []api.BindingUse {
	var out []api.BindingUse
	for i := range choices {
		c := &choices[i]
		use := api.BindingUse{Key: c.Key, Why: c.Why}
		if l, ok := v.Link(c.Link); ok {
			use.Zone = l.Name
		}
		if was, ok := v.Binding(c.Seen); ok && c.Why != "" {
			use.Was = was.Zone
		}
		out = append(out, use)
	}
	return out
}

// explainBindings explains what the holds of a boot have chosen that was not given up.
func explainBindings(v *state.State, b *state.Boot) []api.BindingUse {
	var out []api.BindingUse
	for _, id := range b.Holds {
		if h, ok := v.Hold("", id); ok && h.Decision != api.DecisionAbort {
			for _, use := range explainChoices(v, h.Choices) {
				if !slices.ContainsFunc(out, func(o api.BindingUse) bool { return o.Key.String() == use.Key.String() }) {
					out = append(out, use)
				}
			}
		}
	}
	return out
}

// nameHosts adds the names of some counted hosts to the counts of one group.
func (e *Estimator) nameHosts(v *state.State, req *api.Request, group int, r *api.Refusals) {
	s := e.Inputs(v, req)
	most := max(api.ExplainNamesMax/len(req.Groups), 1)
	_, again := filters.Explain(s.Filters, filters.NewLook(s.View, s.World, req, group), most)
	r.Filters = slices.Clone(r.Filters)
	for i := range r.Filters {
		f := &r.Filters[i]
		for _, o := range again.Filters {
			if o.Filter == f.Filter && o.Tier == f.Tier {
				f.Names = o.Names
			}
		}
	}
}

// Explanation explains the outcome of a request: id is its reservation id, or the id of
// the call that made it. Project "" stands for all projects, for an operator of this
// zone. The answer may be shared and must not be changed. It includes names of hosts
// where this node still knows them; the caller must remove them if needed.
func (e *Estimator) Explanation(project api.ProjectID, id string) (*api.Explanation, bool) {
	v := e.zone.View()
	kept := e.explanations.findExplanation(e.zone.Instant(), func(x explanation) bool {
		return (project == "" || x.Project == project && !x.abroad) && (string(x.Request) == id || string(x.Reservation) == id)
	})
	b := bootOf(v, project, id)
	switch {
	case b == nil:
		return kept, kept != nil
	case kept == nil || kept.Reservation != b.Request.Reservation:
		kept = explanationOf(v, b)
	}
	out := *kept
	out.Request, out.State = b.Call, b.State()
	out.Code, out.Reason = b.Cause()
	out.Attempts, out.Faults, out.Bindings = b.Attempts, countFaults(v, b), explainBindings(v, b)
	return &out, true
}

// countFaults counts the faults of the failed instances of a boot, the most frequent
// first.
func countFaults(v *state.State, b *state.Boot) []api.FaultCount {
	var out []api.FaultCount
	for _, i := range v.OfReservation(b.Request.Project, b.Request.Reservation) {
		if i.Status != api.StatusError || i.Reserved {
			continue
		}
		n := slices.IndexFunc(out, func(f api.FaultCount) bool { return f.Fault == i.Fault })
		if n < 0 {
			out = append(out, api.FaultCount{Fault: i.Fault, Example: i.ID})
			n = len(out) - 1
		}
		out[n].Instances++
	}
	slices.SortStableFunc(out, func(a, b api.FaultCount) int { return b.Instances - a.Instances })
	return out
}

// bootOf finds a boot by its reservation id, or by the id of the call. A lease and its
// reservations stand for the order of its room, which is a boot too.
func bootOf(v *state.State, project api.ProjectID, id string) *state.Boot {
	l, ok := v.Lease(api.LeaseID(id))
	if !ok {
		l, ok = v.LeaseWith(api.ReservationID(id))
	}
	if ok && (project == "" || l.Terms.Project == project) {
		order := l.Order
		if l.Next != nil {
			order = l.Next.Order
		}
		if b, ok := v.Boot(l.Terms.Project, order); ok {
			return b
		}
	}
	if b, ok := v.Boot(project, api.ReservationID(id)); ok {
		return b
	}
	return v.FindBoot(func(b *state.Boot) bool {
		return (project == "" || b.Request.Project == project) && (string(b.Call) == id || string(b.Request.Reservation) == id)
	})
}

// explanationOf explains a boot from the last attempt in its record.
func explanationOf(v *state.State, b *state.Boot) *api.Explanation {
	e := &api.Explanation{
		Reservation: b.Request.Reservation, Project: b.Request.Project, Zone: v.Name, At: b.Updated,
		Groups: []api.GroupTale{}, Zones: []api.ZoneOutcome{},
	}
	if len(b.Attempts) == 0 {
		return e
	}
	last := b.Attempts[len(b.Attempts)-1]
	e.Zones = last.Zones
	for g := range b.Request.Groups {
		t := api.GroupTale{Name: b.Request.Groups[g].Name, Flavor: b.Request.Groups[g].Flavor, Wanted: b.Request.Groups[g].Count}
		if g < len(last.Refusals) {
			t.Refusals = last.Refusals[g]
		}
		if g < len(last.Offered) {
			t.Wanted, t.Offered = last.Offered[g].Wanted, last.Offered[g].Offered
		}
		e.Groups = append(e.Groups, t)
	}
	return e
}
