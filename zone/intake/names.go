package intake

import (
	"slices"

	"berth/api"
	"berth/raftstore/state"
)

// checkFree rejects malformed names and names that collide with a segment of a route.
func checkFree(what, name string, routes ...string) error {
	if slices.Contains(routes, name) {
		return api.Errorf(api.CodeInvalid, "a %s cannot be called %q: it is a call of the API", what, name)
	}
	return api.CheckName(what+" name", name)
}

// Host finds a host by its name or id.
func Host(v *state.State, ref string) (*state.Host, error) {
	if h, ok := v.HostByName(ref); ok {
		return h, nil
	}
	if h, ok := v.Host(api.HostID(ref)); ok {
		return h, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no host %q", ref)
}

// Aggregate finds an aggregate by its name or id.
func Aggregate(v *state.State, ref string) (*api.Aggregate, error) {
	if a, ok := v.AggregateByName(ref); ok {
		return a, nil
	}
	if a, ok := v.Aggregate(api.AggregateID(ref)); ok {
		return a, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no aggregate %q", ref)
}

// ServerGroup finds a server group of a project by its id or name.
func ServerGroup(v *state.State, project api.ProjectID, ref string) (*api.ServerGroup, error) {
	if g, ok := v.ServerGroup(project, api.ServerGroupID(ref)); ok {
		return g, nil
	}
	if g, ok := v.ServerGroupByName(project, ref); ok {
		return g, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no server group %q", ref)
}

// Link finds a link by the name or id.
func Link(v *state.State, ref string) (*api.Link, error) {
	if l, ok := v.LinkByName(ref); ok {
		return l, nil
	}
	if l, ok := v.Link(api.LinkID(ref)); ok {
		return l, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no zone %q is linked to this one", ref)
}

// Flavor finds a flavor by its id.
func Flavor(v *state.State, id api.FlavorID) (*api.Flavor, error) {
	if f, ok := v.Flavor(id); ok {
		return f, nil
	}
	return nil, api.Errorf(api.CodeNotFound, "no flavor %q", string(id))
}
