package intake

import (
	"slices"
	"strings"

	"berth/api"
	"berth/filters/query"
	"berth/raftstore/state"
)

// checkAZs refuses a change of availability zones, after which a host is in another one than now, if what stands on
// that host names it: no host would take that when it is moved, healed or updated. next returns where a host
// would be. The error is CodeInUse, with a host and who uses it.
func checkAZs(v *state.State, next func(id api.HostID) string) error {
	for _, h := range v.AllHosts() {
		was := v.AZOf(h.ID)
		if next(h.ID) == was {
			continue
		}
		for _, i := range slices.Concat(v.SlotsOn(h.ID), v.OnHost(h.ID)) {
			if i.Live() && i.Status != api.StatusDeleting && namesAZ(v, i, was) {
				return api.Errorf(api.CodeInUse, "host %q must stay in availability zone %q: %s names it in its conditions; end or move that first", h.Name, was, state.DescribeStanding(i))
			}
		}
	}
	return nil
}

// checkTags refuses to take affinity tags from a child, nil for no change, to which a binding is for work that asks for them, if
// no child would have them then: the work would go nowhere, or be taken for such that asks for none. If another one has
// them, the binding moves there. The error is CodeInUse, with the binding.
func checkTags(v *state.State, id api.LinkID, tags []string) error {
	if tags == nil {
		return nil
	}
	for _, b := range v.BindingsTo(id) {
		served := slices.ContainsFunc(v.Children(), func(l *api.Link) bool {
			if l.ID == id {
				return !lacksTags(tags, b.Key)
			}
			return !lacksTags(l.Terms.Tags, b.Key)
		})
		if l, ok := v.Link(id); ok && !served && !lacksTags(l.Terms.Tags, b.Key) {
			return api.Errorf(api.CodeInUse, "zone %q must keep the affinity tags %s: binding %s of project %q is for work that asks for them, and no other zone has them; end it first, or give them to another zone",
				l.Name, strings.Join(b.Key.Tags, ", "), string(b.ID), string(b.Project))
		}
	}
	return nil
}

// lacksTags reports whether affinity tags do not have all those of a binding.
func lacksTags(has []string, k api.BindingKey) bool {
	return slices.ContainsFunc(k.Tags, func(t string) bool { return !slices.Contains(has, t) })
}

// azAfter returns where hosts would be if an aggregate were changed to a, or deleted for nil.
func azAfter(v *state.State, id api.AggregateID, a *api.Aggregate) func(api.HostID) string {
	all := slices.DeleteFunc(slices.Clone(v.Aggregates()), func(o *api.Aggregate) bool { return o.ID == id })
	if a != nil {
		all = append(all, a)
	}
	at := map[api.HostID]string{}
	for _, o := range all {
		for _, h := range o.Hosts {
			if az := o.Metadata[api.MetaAZ]; az != "" {
				at[h] = az // of all that have one the same
			}
		}
	}
	return func(h api.HostID) string {
		if az := at[h]; az != "" {
			return az
		}
		return defaultAZ(v, v.Config.DefaultAZ)
	}
}

// azWithDefault returns where hosts would be with another default availability zone.
func azWithDefault(v *state.State, az string) func(api.HostID) string {
	return func(h api.HostID) string {
		for _, a := range v.Aggregates() {
			if in := a.Metadata[api.MetaAZ]; in != "" && slices.Contains(a.Hosts, h) {
				return in
			}
		}
		return defaultAZ(v, az)
	}
}

func defaultAZ(v *state.State, az string) string {
	if az == "" {
		return v.Name
	}
	return az
}

// namesAZ reports whether an instance or slot was asked for in an availability zone, or under a condition on it.
func namesAZ(v *state.State, i *api.Instance, az string) bool {
	h, ok := v.Hold(i.Origin, i.Hold)
	if !ok {
		return false
	}
	for _, sl := range h.Slots {
		if sl.Instance.ID != i.ID {
			continue
		}
		g := &h.Request.Groups[sl.Group]
		if g.AZ == az {
			return true
		}
		q, err := query.Compile(g.Hints.Query)
		return err == nil && slices.Contains(q.Variables(), query.VariableAZ)
	}
	return false
}
