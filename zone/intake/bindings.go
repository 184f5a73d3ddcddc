package intake

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"berth/api"
	"berth/api/rest"
	"berth/binding"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// maintenanceMovesMax bounds the bindings that a plan of a maintenance names one by one.
const maintenanceMovesMax = 1_000

// Binding finds a binding by its id, active or past.
func Binding(v *state.State, id api.BindingID) (*api.Binding, error) {
	if b, ok := v.Binding(id); ok {
		return b, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no binding %q", string(id))
}

// BindingBody returns the body of a binding.
func BindingBody(v *state.State, b *api.Binding) rest.Binding {
	return rest.BindingOf(b, parentOf(v, b))
}

// parentOf returns the name of the parent whose project is bound, "" for a project of this zone.
func parentOf(v *state.State, b *api.Binding) string {
	if b.Origin == "" {
		return ""
	}
	if l, ok := v.Link(b.Origin); ok {
		return l.Name
	}
	return string(b.Origin) // the link is gone
}

// SetBinding binds a project to a child, and ends the binding that it has for the same work. It
// returns the binding, which is the one before if that is to the same child.
func SetBinding(ctx context.Context, z *zone.Zone, user api.UserID, s *rest.BindingSpec) (*api.Binding, error) {
	c := command.BindingSet{Project: s.Project, Key: api.BindingKey{AZ: s.AZ, Tags: slices.Sorted(slices.Values(s.Tags))}, User: user}
	if err := api.CheckName("project_id", string(s.Project)); err != nil {
		return nil, err
	}
	if err := c.Key.Validate(); err != nil {
		return nil, err
	}
	v := z.View()
	l, err := child(v, s.Zone)
	if err != nil {
		return nil, err
	}
	if c.Origin, err = originOf(v, s.Parent); err != nil {
		return nil, err
	}
	c.Stamp, c.ID, c.Link = z.Stamp(), api.BindingID(api.NewUUID()), l.ID
	res, err := z.Propose(ctx, c)
	return res.Binding, err
}

// originOf finds the link to a parent, "" for "".
func originOf(v *state.State, ref string) (api.LinkID, error) {
	if ref == "" {
		return "", nil
	}
	l, err := Link(v, ref)
	switch {
	case err != nil:
		return "", err
	case l.Role != api.LinkParent:
		return "", api.Errorf(api.CodeInvalid, "zone %q is not the parent of this one", l.Name)
	}
	return l.ID, nil
}

// MoveBinding ends an active binding and binds its project to another child. A binding that is not
// active any more is a conflict, since another one may be.
func MoveBinding(ctx context.Context, z *zone.Zone, user api.UserID, id api.BindingID, to string) (*api.Binding, error) {
	v := z.View()
	b, err := Binding(v, id)
	if err != nil {
		return nil, err
	}
	l, err := child(v, to)
	if err != nil {
		return nil, err
	}
	res, err := z.Propose(ctx, command.BindingSet{
		Stamp: z.Stamp(), ID: api.BindingID(api.NewUUID()), Project: b.Project, Origin: b.Origin, Key: b.Key, Link: l.ID, Seen: b.ID, User: user,
	})
	return res.Binding, err
}

// EndBinding ends a binding: the next work of its project chooses anew. It may be repeated.
func EndBinding(ctx context.Context, z *zone.Zone, id api.BindingID) error {
	_, err := z.Change(ctx, command.BindingEnd{Stamp: z.Stamp(), ID: id}, func(v *state.State) error {
		_, err := Binding(v, id)
		return err
	})
	return err
}

// child finds a child by the name or id of its link.
func child(v *state.State, ref string) (*api.Link, error) {
	l, err := Link(v, ref)
	switch {
	case ref == "":
		return nil, api.Errorf(api.CodeInvalid, "zone is missing: the name of a child")
	case err != nil:
		return nil, err
	case l.Role != api.LinkChild:
		return nil, api.Errorf(api.CodeInvalid, "zone %q is the parent: projects are bound to children", l.Name)
	}
	return l, nil
}

// PlanMaintenance returns who would move if a child went into maintenance at a time, or what its end
// would change.
func PlanMaintenance(v *state.State, digests zone.Digests, now api.Instant, ref string, on bool) (rest.MaintenancePlan, error) {
	l, err := child(v, ref)
	if err != nil {
		return rest.MaintenancePlan{}, err
	}
	rule, err := binding.RuleOf(&v.Config.Bindings)
	if err != nil {
		return rest.MaintenancePlan{}, err
	}
	all := v.BindingsTo(l.ID)
	out := rest.MaintenancePlan{
		Zone: l.Name, Mode: v.Config.Bindings.Use(), Maintenance: on, Now: l.Terms.Maintenance, Bindings: len(all),
		To: []rest.MaintenanceGoal{}, Moves: []rest.MaintenanceMove{},
	}
	if !on || out.Mode == api.BindingOff {
		return out, nil
	}
	var others []binding.Child
	for _, o := range v.Children() {
		if o.ID != l.ID {
			others = append(others, zone.SeeChild(v, digests, now, o))
		}
	}
	type goal struct{ to, reason string }
	goals, count := map[string]goal{}, map[string]int{} // by key, and by name of a child
	for _, b := range all {
		g, known := goals[b.Key.String()]
		if !known {
			g.to, g.reason = nextChild(v, &rule, b.Key, others)
			goals[b.Key.String()] = g
		}
		if g.to != "" {
			count[g.to]++
		}
		if len(out.Moves) < maintenanceMovesMax {
			out.Moves = append(out.Moves, rest.MaintenanceMove{
				Binding: b.ID, Project: b.Project, Parent: parentOf(v, b), AZ: b.Key.AZ, Tags: append([]string{}, b.Key.Tags...), To: g.to, Reason: g.reason,
			})
		}
	}
	for name, n := range count { // in any order: sorted below
		out.To = append(out.To, rest.MaintenanceGoal{Zone: name, Bindings: n})
	}
	slices.SortFunc(out.To, func(a, b rest.MaintenanceGoal) int { return cmp.Compare(a.Zone, b.Zone) })
	return out, nil
}

// nextChild returns the name of the child that new work of a key would go to, or why none fits. How
// much the work needs is not known: only a child that has no room at all is full.
func nextChild(v *state.State, rule *binding.Rule, k api.BindingKey, others []binding.Child) (name, reason string) {
	best, dropped := rule.Rank(&binding.Work{AZ: k.AZ, Tags: k.Tags}, others)
	nameOf := func(id api.LinkID) string {
		if l, ok := v.Link(id); ok {
			return l.Name
		}
		return string(id)
	}
	if len(best) > 0 {
		return nameOf(best[0].Link), ""
	}
	why := make([]string, 0, len(dropped))
	for _, d := range dropped {
		why = append(why, nameOf(d.Link)+": "+dropText[d.By])
	}
	slices.Sort(why)
	return "", "no other child fits: " + cmp.Or(strings.Join(why, "; "), "there is none")
}

// dropText says why a child is dropped.
var dropText = map[binding.Filter]string{
	binding.FilterAll:         "paused or lost",
	binding.FilterAZ:          "not in the availability zone",
	binding.FilterTag:         "its affinity tags do not match",
	binding.FilterMaintenance: "in maintenance",
	binding.FilterHeadroom:    "above its headroom",
}
