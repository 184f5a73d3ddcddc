package intake

import (
	"slices"

	"berth/api"
	"berth/raftstore/state"
)

// checkAZOfChild refuses to take the name of its availability zone from a child, nil for no change, if something that stands names it: a
// binding, or preemptible instances that are booted again, whose work would go nowhere if no other child has the name; and
// reservations there, which no update would find again. Names that a child reports itself are its own operator's. The error is CodeInUse.
func checkAZOfChild(v *state.State, id api.LinkID, az *string) error {
	l, ok := v.Link(id)
	if az == nil || !ok || *az == l.Terms.AZ {
		return nil
	}
	c := &azChange{v: v, link: l, az: *az}
	for _, b := range v.BindingsTo(id) {
		if c.leaves(b.Key.AZ) && !c.isElsewhere(b.Key) {
			return api.Errorf(api.CodeInUse, "zone %q must stay in availability zone %q: binding %s of project %q is for work that asks for it, and no other child is in it; end it first, or set that of another child",
				l.Name, b.Key.AZ, string(b.ID), string(b.Project))
		}
	}
	for _, h := range v.Holds() {
		for _, p := range h.Parts {
			if i, named := c.findStanding(h, &p); i != nil {
				return api.Errorf(api.CodeInUse, "zone %q must stay in availability zone %q: %s, which is there, names it in its conditions; end that first", l.Name, named, state.DescribeStanding(i))
			}
		}
	}
	if r, named := c.findWaiting(); r != nil {
		return api.Errorf(api.CodeInUse, "zone %q must stay in availability zone %q: instances of reservation %q wait to be booted again there, and no other child is in it; end that first, or set that of another child",
			l.Name, named, string(r.Reservation))
	}
	return nil
}

// checkNameOfChild refuses to rename a child, nil for no change, if a reservation, or preemptible instances that are booted again, may be only there, or
// only elsewhere: with an update, or booted again, they would be where they must not be, or nowhere. The error is CodeInUse.
func checkNameOfChild(v *state.State, id api.LinkID, name *string) error {
	l, ok := v.Link(id)
	if name == nil || !ok || *name == l.Name || l.Role != api.LinkChild {
		return nil
	}
	named := func(r *api.Request) bool {
		return slices.Contains(r.Zones.Allowed, l.Name) || slices.Contains(r.Zones.Excluded, l.Name)
	}
	for _, h := range v.Holds() {
		if h.Decision != api.DecisionCommit || !named(&h.Request) {
			continue
		}
		for _, one := range h.Held() {
			if i, ok := v.Instance(one); ok && i.Live() && i.Status != api.StatusDeleting && readsAgain(i) {
				return api.Errorf(api.CodeInUse, "zone %q must keep its name: %s names it in its conditions; end that first", l.Name, state.DescribeStanding(i))
			}
		}
	}
	for _, r := range v.AllRequeued() {
		if b, ok := v.Boot(r.Project, r.Reservation); ok && named(&b.Request) {
			return api.Errorf(api.CodeInUse, "zone %q must keep its name: reservation %q, of which instances wait to be booted again, names it in its conditions; end that first", l.Name, string(r.Reservation))
		}
	}
	return nil
}

// readsAgain reports whether the conditions of an instance or slot count again after it was placed, also in a zone below: of a reservation when
// it is updated, and of a preemptible instance when it is booted again.
func readsAgain(i *api.Instance) bool { return i.Reserved || i.OnPreempt == api.PreemptRequeue }

// azChange is a change of the availability zone that an operator says a child is.
type azChange struct {
	v    *state.State
	link *api.Link
	az   string // "" for those that the child reports
}

// leaves reports whether work that names an availability zone may have come to the child because of it, and cannot any more. Where projects are
// bound, the operator's name takes the place of those that the child reports.
func (c *azChange) leaves(named string) bool {
	if named == "" || named == c.az {
		return false
	}
	return named == c.link.Terms.AZ || c.link.Terms.AZ == "" && c.v.Config.Bindings.Use() != api.BindingOff
}

// isElsewhere reports whether an operator says that another child is in the availability zone of a key, and has its tags.
func (c *azChange) isElsewhere(k api.BindingKey) bool {
	return slices.ContainsFunc(c.v.Children(), func(o *api.Link) bool {
		return o.ID != c.link.ID && o.Terms.AZ == k.AZ && !lacksTags(o.Terms.Tags, k)
	})
}

// findStanding returns what a hold has in the child that would be missed there, with the availability zone that it names.
func (c *azChange) findStanding(h *state.Hold, p *state.Part) (*api.Instance, string) {
	if p.Link != c.link.ID || h.Decision != api.DecisionCommit {
		return nil, ""
	}
	for _, one := range p.Instances {
		named := h.Request.Groups[one.Group].AZ
		i, ok := c.v.Instance(one.Spec.ID)
		if !ok || !c.leaves(named) || i.Link != p.Link || !i.Live() || i.Status == api.StatusDeleting {
			continue
		}
		if readsAgain(i) && (i.Reserved || !c.isServed(named)) {
			return i, named
		}
	}
	return nil, ""
}

// findWaiting returns preempted instances that are to be booted again, and that only the child could take.
func (c *azChange) findWaiting() (*state.Requeued, string) {
	for _, r := range c.v.AllRequeued() {
		b, ok := c.v.Boot(r.Project, r.Reservation)
		if !ok {
			continue
		}
		for _, i := range r.Instances {
			if named := b.Request.Groups[i.Group].AZ; named == c.link.Terms.AZ && c.leaves(named) && !c.isServed(named) {
				return r, named
			}
		}
	}
	return nil, ""
}

// isServed reports whether own hosts, or another child, are in an availability zone.
func (c *azChange) isServed(named string) bool {
	return slices.Contains(c.v.AZs(), named) || c.isElsewhere(api.BindingKey{AZ: named})
}
