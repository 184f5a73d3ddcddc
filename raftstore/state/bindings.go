package state

import (
	"cmp"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// bindingsBook has which child zone the new work of a project goes to, and where it went before.
//
// A plan chooses a child for each key of a request, and the hold fixes the choice: until it is
// decided, no other hold may choose another child for that key. The commit of the hold begins the
// binding, and an abort leaves nothing.
type bindingsBook struct {
	quotasBook

	bindings table.Map[*api.Binding] // id
	active   table.Map[string]       // tenant and key: id
	past     table.Set               // tenant, end, id
	choosing table.Set               // tenant and key, reservation, hold: undecided holds that have chosen a child
}

func (s *bindingsBook) tables(into []table.Table) []table.Table {
	return append(s.quotasBook.tables(into), table.Of(&s.bindings), table.Of(&s.active), &s.past, &s.choosing)
}

func (s *bindingsBook) sections() []section {
	all := sectionOf("bindings", s.bindings.Values, func(b *api.Binding) { s.putBinding(b) })
	all.form = api.FormFourth
	return append(s.quotasBook.sections(), all)
}

// apply applies a command that is for this book.
func (s *bindingsBook) apply(c command.ForBindings) Result {
	switch c := c.(type) {
	case command.BindingSet:
		return s.bindingSet(c)
	case command.BindingEnd:
		return s.bindingEnd(c)
	}
	return Result{}
}

// bindingKey names a key of a tenant.
func bindingKey(t api.Tenant, k api.BindingKey) string { return tenantKey(t) + "\x00" + k.String() }

// pastKey orders what a tenant had by the end.
func pastKey(b *api.Binding) string {
	return tenantKey(tenantOf(b)) + "\x00" + timeKey(b.End) + string(b.ID)
}

func tenantOf(b *api.Binding) api.Tenant { return api.Tenant{Origin: b.Origin, Project: b.Project} }

// putBinding adds a binding, or replaces the one with its id.
func (s *bindingsBook) putBinding(b *api.Binding) {
	s.bindings.Set(string(b.ID), b)
	if b.Active() {
		s.active.Set(bindingKey(tenantOf(b), b.Key), string(b.ID))
	} else {
		s.past.Insert(pastKey(b))
	}
}

// bindingSet begins a binding by the word of an operator, and ends the one before.
func (s *bindingsBook) bindingSet(c command.BindingSet) Result {
	l, ok := s.links.Get(string(c.Link))
	if !ok || l.Role != api.LinkChild {
		return refuseWith(api.CodeNotFound, "no child zone %q", string(c.Link))
	}
	if err := cmp.Or(c.Key.Validate(), s.limits.checkTags(c.Key.Tags)); err != nil {
		return Result{Err: err}
	}
	t := api.Tenant{Origin: c.Origin, Project: c.Project}
	old, bound := s.ActiveBinding(t, c.Key)
	switch {
	case c.Seen != "" && (!bound || old.ID != c.Seen):
		return refuseWith(api.CodeConflict, "binding %s is not active any more", string(c.Seen))
	case bound && old.Link == c.Link:
		return Result{Binding: old}
	case !s.isFreeBinding(c.ID):
		return refuseWith(api.CodeConflict, "binding id %s is taken", string(c.ID))
	}
	if r := s.checkRoomForBinding(t, bound); r.Err != nil {
		return r
	}
	return Result{Binding: s.beginBinding(t, api.BindingChoice{Key: c.Key, Link: c.Link, Why: api.BindingOperator, ID: c.ID}, "", c.User)}
}

// bindingEnd ends the active binding with an id: the next request chooses anew.
func (s *bindingsBook) bindingEnd(c command.BindingEnd) Result {
	b, ok := s.bindings.Get(string(c.ID))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no binding %q", string(c.ID))
	case !b.Active():
		return Result{Binding: b} // a repeat
	}
	return Result{Binding: s.endBinding(b, api.BindingOperator)}
}

// isFreeBinding reports whether a binding may have the id.
func (s *bindingsBook) isFreeBinding(id api.BindingID) bool {
	_, taken := s.bindings.Get(string(id))
	return id != "" && !taken
}

// checkRoomForBinding refuses one more active binding of a tenant beyond the limits.
func (s *bindingsBook) checkRoomForBinding(t api.Tenant, replaces bool) Result {
	if replaces {
		return Result{}
	}
	if n := s.active.Len(); n >= s.limits.bindings {
		return refuseWith(api.CodeOverloaded, "the zone has %d bindings, which is the most", n)
	}
	if n := len(s.ActiveBindings(t)); n >= s.limits.bindingsProject {
		return refuseWith(api.CodeOverloaded, "the project has %d bindings, which is the most", n)
	}
	return Result{}
}

// checkChoices refuses the choices of a hold if they are not those that other undecided holds have
// made, which chosen returns by key, or if the plan has not seen the binding that is active. It must be planned again.
func (s *bindingsBook) checkChoices(t api.Tenant, choices []api.BindingChoice, chosen func(api.BindingKey) (api.LinkID, bool)) Result {
	for i := range choices {
		c := &choices[i]
		l, known := s.links.Get(string(c.Link))
		if !known || l.Role != api.LinkChild || c.Key.Validate() != nil || s.limits.checkTags(c.Key.Tags) != nil {
			return refuseWith(api.CodePlanRefused, "%s", api.PlanRefusedMessage)
		}
		others, undecided := chosen(c.Key)
		old, bound := s.ActiveBinding(t, c.Key)
		switch {
		case c.Why != "" && !s.isFreeBinding(c.ID) || slices.ContainsFunc(choices[:i], c.Clashes):
			return refuseWith(api.CodeConflict, "binding id %s is taken", string(c.ID))
		case undecided && others != c.Link:
			return refuseWith(api.CodeContended, "another request of the project is choosing its zone")
		case undecided:
			continue
		case bound && old.Link != c.Link && old.ID != c.Seen, bound && old.Link != c.Link && c.Why == "", !bound && c.Why == "":
			return refuseWith(api.CodeContended, "the project is bound to another zone by now")
		}
		if r := s.checkRoomForBinding(t, bound); r.Err != nil {
			return r
		}
	}
	return Result{}
}

// indexChoices lists an undecided hold among those that have made its choices, or no longer.
func (s *bindingsBook) indexChoices(h *Hold, undecided bool) {
	for i := range h.Choices {
		k := joinKey(joinKey(bindingKey(h.Tenant(), h.Choices[i].Key), h.Request.Reservation), h.Key())
		if undecided {
			s.choosing.Insert(k)
		} else {
			s.choosing.Delete(k)
		}
	}
}

// bindChoices makes bindings of the choices of a hold that is committed, of those children that have
// a part in it.
func (s *bindingsBook) bindChoices(h *Hold) {
	for i := range h.Choices {
		c := h.Choices[i]
		old, bound := s.ActiveBinding(h.Tenant(), c.Key)
		if !h.hasPartAt(c.Link) || bound && (old.Link == c.Link || old.ID != c.Seen) || c.Why == "" || !s.isFreeBinding(c.ID) {
			continue // it is bound there, or the word of an operator stands
		}
		s.beginBinding(h.Tenant(), c, h.Request.Reservation, h.Request.User)
	}
}

// hasPartAt reports whether a child has instances of the hold.
func (h *Hold) hasPartAt(link api.LinkID) bool {
	return slices.ContainsFunc(h.Parts, func(p Part) bool { return p.Link == link && len(p.Instances) > 0 })
}

// beginBinding begins a binding, and ends the one before for the same reason.
func (s *bindingsBook) beginBinding(t api.Tenant, c api.BindingChoice, r api.ReservationID, u api.UserID) *api.Binding {
	if old, bound := s.ActiveBinding(t, c.Key); bound {
		s.endBinding(old, c.Why)
	}
	b := &api.Binding{
		ID: c.ID, Project: t.Project, Origin: t.Origin, Key: c.Key, Link: c.Link, Start: s.now, End: api.Forever, Why: c.Why,
		Reservation: r, User: u,
	}
	if l, ok := s.links.Get(string(c.Link)); ok {
		b.Zone = l.Name
	}
	s.putBinding(b)
	s.addFact(bindingChanged{b})
	return b
}

// endBinding ends an active binding, and forgets the oldest past ones of the tenant beyond the limit.
func (s *bindingsBook) endBinding(old *api.Binding, why api.BindingReason) *api.Binding {
	b := *old
	b.End, b.Ended = s.now, why
	s.active.Delete(bindingKey(tenantOf(old), old.Key))
	s.putBinding(&b)
	prefix, over := tenantKey(tenantOf(old))+"\x00", -s.limits.bindingsPast
	var oldest []string
	eachUnder(&s.past, prefix, func(rest string) {
		over++
		oldest = append(oldest, rest)
	})
	for _, rest := range oldest[:max(0, over)] {
		s.past.Delete(prefix + rest)
		s.bindings.Delete(rest[8:])
	}
	if why != api.BindingUnlinked { // all of a child at once: whoever ended the link knows
		s.addFact(bindingChanged{&b})
	}
	return &b
}

// endBindingsTo ends the bindings to a child that is no longer one, and those of a parent's projects.
func (s *bindingsBook) endBindingsTo(link api.LinkID) {
	for _, id := range s.active.Values() {
		if b, ok := s.bindings.Get(id); ok && (b.Link == link || b.Origin == link) {
			s.endBinding(b, api.BindingUnlinked)
		}
	}
}

// Binding returns one binding, active or past.
func (s *bindingsBook) Binding(id api.BindingID) (*api.Binding, bool) {
	return s.bindings.Get(string(id))
}

// ActiveBinding returns the active binding of a tenant for a key.
func (s *bindingsBook) ActiveBinding(t api.Tenant, k api.BindingKey) (*api.Binding, bool) {
	id, ok := s.active.Get(bindingKey(t, k))
	if !ok {
		return nil, false
	}
	return s.bindings.Get(id)
}

// CountBindings returns the number of active bindings, and of past ones that are kept.
func (s *bindingsBook) CountBindings() (active, past int) {
	return s.active.Len(), s.bindings.Len() - s.active.Len()
}

// BindingsTo returns the active bindings to a child, by tenant and key.
func (s *bindingsBook) BindingsTo(link api.LinkID) []*api.Binding {
	var out []*api.Binding
	for _, id := range s.active.Values() {
		if b, ok := s.bindings.Get(id); ok && b.Link == link {
			out = append(out, b)
		}
	}
	return out
}

// Bindings returns all bindings of the zone, active and past, by id.
func (s *bindingsBook) Bindings() []*api.Binding { return s.bindings.Values() }

// ActiveBindings returns the active bindings of a tenant, by key.
func (s *bindingsBook) ActiveBindings(t api.Tenant) []*api.Binding {
	var out []*api.Binding
	eachRecordUnder(s.active, tenantKey(t)+"\x00", func(_, id string) {
		if b, ok := s.bindings.Get(id); ok {
			out = append(out, b)
		}
	})
	return out
}

// PastBindings returns the bindings that a tenant had, the newest first.
func (s *bindingsBook) PastBindings(t api.Tenant) []*api.Binding {
	var out []*api.Binding
	eachUnder(&s.past, tenantKey(t)+"\x00", func(rest string) {
		if b, ok := s.bindings.Get(rest[8:]); ok {
			out = append(out, b)
		}
	})
	slices.Reverse(out)
	return out
}
