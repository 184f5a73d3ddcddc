// Package filters drops hosts that may not take a slot, and counts why. A filter
// works on the columns and bitsets of a view, never host by host through an
// interface; what passes is a set of rows. It is pure and safe for concurrent
// use.
package filters

import (
	"iter"

	"berth/api"
	"berth/capacity"
)

// World is what a zone knows beside its host table. It is the same for all
// requests that are planned on one view.
type World struct {
	// HasCommand says which flavors have a command here; nil means that none has.
	HasCommand func(api.FlavorID) bool
	Aggregates []*api.Aggregate
	Census     Census // nil means that nobody is anywhere
}

// Census says who is where, as of the view that is planned on. Every method may
// be called concurrently.
type Census interface {
	// HostOf returns the host of this zone that an instance of a project is on.
	HostOf(p api.ProjectID, id api.InstanceID) (api.HostID, bool)
	// Members returns how many instances and held slots of a project there are
	// under a rule, by host of this zone and by link elsewhere; see api.Request.RuleKey.
	Members(p api.ProjectID, rule string) (here map[api.HostID]int, elsewhere map[api.LinkID]int)
	// Tenancy visits the hosts of this zone that a project has instances or held
	// slots on, with their number, in order of host ids.
	Tenancy(p api.ProjectID) iter.Seq2[api.HostID, int]
}

// Look is one look for hosts: what is wanted, and everything that may be known
// of the hosts. It is built once for each group of a request.
type Look struct {
	View   capacity.View
	World  *World
	Req    *api.Request
	Index  int        // of the group
	Window api.Window // of the claims: Req.WindowAt of the view's time
	// Placed returns how many slots of earlier groups of the same request lie on a
	// row: of all of them, or with rule >= 0 of those that Req.Rules[rule] binds. Nil
	// means none.
	Placed func(row, rule int) int
}

// NewLook returns a look for Req.Groups[group] on v. World may be nil.
func NewLook(v capacity.View, w *World, req *api.Request, group int) *Look {
	if w == nil {
		w = &World{}
	}
	return &Look{View: v, World: w, Req: req, Index: group, Window: req.WindowAt(v.Now())}
}

// Group returns the group that hosts are wanted for.
func (l *Look) Group() *api.Group { return &l.Req.Groups[l.Index] }

// Filter is a named rule that drops hosts which may not take a slot of a group.
type Filter struct {
	Name string
	Tier api.Tier // how final it is to be dropped
	// Keep takes out of pass every row of l.View that must not take a slot. It adds
	// none and holds nothing between calls. How many rows it took out is what a
	// refusal reports under Name.
	Keep func(l *Look, pass *capacity.Set)
	// Room returns how many slots of the group a row that was kept may take at most,
	// 1 or more. Nil means any number.
	Room func(l *Look, row int) int64
}

// The names that refusals carry.
const (
	NameHostState = "host_state"
	NamePool      = "pool"
	NameDriver    = "driver"
	NameCapacity  = "capacity"
)

// Default returns the filters of a zone that was told none, cheapest first.
func Default() []Filter { return []Filter{HostState(), Pool(), Driver(), Capacity()} }

// HostState passes hosts that are up and enabled.
func HostState() Filter {
	return Filter{Name: NameHostState, Tier: api.TierNotNow, Keep: func(l *Look, pass *capacity.Set) {
		pass.And(l.View.Up())
		pass.And(l.View.Enabled())
	}}
}

// Pool passes hosts whose pool takes the class of the request: a firm request
// goes to on_demand and shared hosts, whether its window is open or bounded by a
// lifetime; a preemptible one to reservable and shared hosts.
func Pool() Filter {
	return Filter{Name: NamePool, Tier: api.TierNotAllowed, Keep: func(l *Look, pass *capacity.Set) {
		own := api.PoolOnDemand
		if l.Req.Class == api.Preemptible {
			own = api.PoolReservable
		}
		takes := l.View.Pool(own)
		takes.Or(l.View.Pool(api.PoolShared))
		pass.And(takes)
	}}
}

// Driver passes hosts whose driver can run the flavor of the group: a host that
// needs a command takes only flavors that have one. A group without a flavor has
// none.
func Driver() Filter {
	return Filter{Name: NameDriver, Tier: api.TierNeverFits, Keep: func(l *Look, pass *capacity.Set) {
		if has := l.World.HasCommand; has == nil || !has(l.Group().Flavor) {
			pass.AndNot(l.View.NeedsCommand())
		}
	}}
}

// Capacity passes hosts that have room for one slot of the group over the whole
// window of the request, in amounts that the host's units allow. A host has
// nothing of a class that its inventory does not name.
func Capacity() Filter {
	return Filter{Name: NameCapacity, Tier: api.TierNotNow, Keep: func(l *Look, pass *capacity.Set) {
		l.View.KeepFitting(pass, l.Group().Resources, l.Window, l.Req.Class)
	}}
}

// Run puts every host of the look through fs in order, and returns those that
// passed all and the count of each filter that took some out. Always Considered ==
// Offering + the sum of Filters, because a host is counted by the first filter
// that drops it.
func Run(fs []Filter, l *Look) (capacity.Set, api.Refusals) {
	pass := l.View.Hosts()
	left := pass.Len()
	out := api.Refusals{Considered: left}
	for _, f := range fs {
		f.Keep(l, &pass)
		if now := pass.Len(); now < left {
			out.Filters = append(out.Filters, api.FilterCount{Filter: f.Name, Hosts: left - now, Tier: f.Tier})
			left = now
		}
	}
	out.Offering = left
	return pass, out
}
