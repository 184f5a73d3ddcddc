// Package filters drops hosts that may not take a slot, and counts why. A filter
// works on the columns and bitsets of a view, never host by host through an
// interface; what passes is a set of rows. It is pure and safe for concurrent
// use.
package filters

import (
	"berth/api"
	"berth/capacity"
)

// Filter is a named rule that drops hosts which may not take a slot of g.
type Filter struct {
	Name string
	// Keep takes out of pass every row of v that must not take a slot. It adds
	// none and holds nothing between calls. How many rows it took out is what a
	// refusal reports under Name.
	Keep func(v capacity.View, req *api.Request, g *api.Group, pass *capacity.Set)
}

// The names that refusals carry.
const (
	NameHostState = "host_state"
	NamePool      = "pool"
	NameDriver    = "driver"
	NameCapacity  = "capacity"
)

// Default returns the filters of a zone, cheapest first. hasCommand says which
// flavors have a command, for the driver filter; nil means that none has.
func Default(hasCommand func(api.FlavorID) bool) []Filter {
	return []Filter{HostState(), Pool(), Driver(hasCommand), Capacity()}
}

// HostState passes hosts that are up and enabled.
func HostState() Filter {
	return Filter{NameHostState, func(v capacity.View, _ *api.Request, _ *api.Group, pass *capacity.Set) {
		pass.And(v.Up())
		pass.And(v.Enabled())
	}}
}

// Pool passes hosts whose pool takes the class of the request: a firm request
// goes to on_demand and shared hosts, whether its window is open or bounded by a
// lifetime; a preemptible one to reservable and shared hosts.
func Pool() Filter {
	return Filter{NamePool, func(v capacity.View, req *api.Request, _ *api.Group, pass *capacity.Set) {
		own := api.PoolOnDemand
		if req.Class == api.Preemptible {
			own = api.PoolReservable
		}
		takes := v.Pool(own)
		takes.Or(v.Pool(api.PoolShared))
		pass.And(takes)
	}}
}

// Driver passes hosts whose driver can run the flavor of the group: a host that
// needs a command takes only flavors for which hasCommand is true. A group
// without a flavor has no command, and a nil hasCommand says no to all.
func Driver(hasCommand func(api.FlavorID) bool) Filter {
	return Filter{NameDriver, func(v capacity.View, _ *api.Request, g *api.Group, pass *capacity.Set) {
		if hasCommand == nil || !hasCommand(g.Flavor) {
			pass.AndNot(v.NeedsCommand())
		}
	}}
}

// Capacity passes hosts that have room for one slot of the group over the whole
// window of the request, in amounts that the host's units allow. A host has
// nothing of a class that its inventory does not name.
func Capacity() Filter {
	return Filter{NameCapacity, func(v capacity.View, req *api.Request, g *api.Group, pass *capacity.Set) {
		v.KeepFitting(pass, g.Resources, req.Window, req.Class)
	}}
}

// Run puts every host of v through fs in order, and returns those that passed
// all and the count of each filter that took some out. Always Considered ==
// Offering + the sum of Filters, because a host is counted by the first filter
// that drops it.
func Run(fs []Filter, v capacity.View, req *api.Request, g *api.Group) (capacity.Set, api.Refusals) {
	pass := v.Hosts()
	left := pass.Len()
	out := api.Refusals{Considered: left}
	for _, f := range fs {
		f.Keep(v, req, g, &pass)
		if now := pass.Len(); now < left {
			out.Filters = append(out.Filters, api.FilterCount{Filter: f.Name, Hosts: left - now})
			left = now
		}
	}
	out.Offering = left
	return pass, out
}
