// Package filters drops hosts that may not take a slot, and counts why. A filter
// works on the columns and bitsets of a view, never host by host through an
// interface; what passes is a set of rows. It is pure and safe for concurrent
// use. It never chooses among the hosts that pass.
package filters

import (
	"iter"
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
)

// World is what a zone knows beside its host table. It is the same for all
// requests that are planned on one view.
type World struct {
	// HasCommand reports which flavors have a command here; nil means none.
	HasCommand func(api.FlavorID) bool
	Aggregates []*api.Aggregate
	Census     Census   // nil means no instances
	Public     []string // attributes that requests of other zones may ask for, beside AlwaysPublic
}

// Census locates instances and held slots in the view that is planned on. Every method
// may be called concurrently.
type Census interface {
	// HostOf returns the host of this zone with an instance of a tenant.
	HostOf(t api.Tenant, id api.InstanceID) (api.HostID, bool)
	// Members returns the number of a tenant's instances and held slots under a rule,
	// by host of this zone and by link elsewhere; see api.Request.RuleKey.
	Members(t api.Tenant, rule string) (here map[api.HostID]int, elsewhere map[api.LinkID]int)
	// Tenancy visits the hosts of this zone that a tenant has instances or held
	// slots on, with their number, in order of host ids.
	Tenancy(t api.Tenant) iter.Seq2[api.HostID, int]
}

// Look is one search for hosts: the request, and everything known about the hosts. It
// is built once for each group of a request, and one goroutine may use it at a time.
type Look struct {
	View   capacity.View
	World  *World
	Req    *api.Request
	Index  int        // of the group
	Window api.Window // of the claims: Req.WindowAt of the view's time
	// Placed returns the number of slots of earlier groups of the same request on a
	// row: of all of them, or with rule >= 0 of those that Req.Rules[rule] binds. Nil
	// means none.
	Placed func(row, rule int) int

	// Split runs part for all of 0 to n-1, in parts of its choice, each once, and returns when
	// they have ended. Parts may run at the same time. What is found does not depend on them.
	// Nil means one part.
	Split func(n int, part func(from, to int))

	rules []members // of the group, read on first use
}

// NewLook returns a look for Req.Groups[group] on v. World may be nil.
func NewLook(v capacity.View, w *World, req *api.Request, group int) *Look {
	if w == nil {
		w = &World{}
	}
	return &Look{View: v, World: w, Req: req, Index: group, Window: req.WindowAt(v.Now())}
}

// Group returns the group to find hosts for.
func (l *Look) Group() *api.Group { return &l.Req.Groups[l.Index] }

// attribute returns the values of an attribute, and false if the request must not ask for them: it comes from another
// zone, which would find by trying what each host has, and the attribute is not public.
func (l *Look) attribute(name string) (capacity.Column, bool) {
	if l.Req.Origin != "" && !slices.Contains(AlwaysPublic[:], name) && !slices.Contains(l.World.Public, name) {
		return capacity.Column{}, false
	}
	return l.View.Attribute(name), true
}

// AlwaysPublic are the attributes that requests of other zones may always ask for: those that the properties
// of images are matched with.
var AlwaysPublic = [...]string{"arch", "hypervisor_type", "os"}

// placedMembers is Placed, 0 without one.
func (l *Look) placedMembers(row, rule int) int {
	if l.Placed == nil {
		return 0
	}
	return l.Placed(row, rule)
}

// Filter is a named rule that drops hosts which may not take a slot of a group.
type Filter struct {
	Name string
	Tier api.Tier // how final it is to be dropped
	// Demand is true if the filter drops hosts only because of an optional demand of
	// the request, which advice may name.
	Demand bool
	// Asks reports whether the request, the world or the configuration gives the filter something
	// to do. If not, Keep keeps every row and is not called. Nil means always.
	Asks func(l *Look) bool
	// Keep clears in pass every row of l.View that must not take a slot. It adds no
	// rows and keeps nothing between calls. What it does to one row does not depend on
	// the others in pass.
	Keep func(l *Look, pass *capacity.Set)
	// Room returns the maximum number of slots of the group that a row may take under
	// this filter, in addition to placed ones: 1 or more for a row that Keep kept. A
	// rule of affinity limits nothing here. Nil means any number.
	Room func(l *Look, row int) int64
	// Sort divides the rows that Keep cleared among several names and tiers: each row
	// is in one part. Nil means one part of the filter's own name and tier.
	Sort func(l *Look, dropped capacity.Set) []Part
}

// OfKept returns those of fs that a host must pass to keep a slot of an earlier request: the
// slot is there already, so it matters neither whether the host takes new work nor what else
// is on it.
func OfKept(fs []Filter) []Filter {
	return slices.DeleteFunc(slices.Clone(fs), func(f Filter) bool {
		return f.Name == nameHostState || f.Name == nameInstances || f.Name == NameCapacity
	})
}

// OfAnyTime returns those of fs that keep the same hosts for a group whatever the window of its
// slots.
func OfAnyTime(fs []Filter, g *api.Group) []Filter {
	return slices.DeleteFunc(slices.Clone(fs), func(f Filter) bool {
		return f.Name == NameCapacity || f.Name == NameQuery && strings.Contains(g.Hints.Query, "free")
	})
}

// Part is a set of rows that a filter cleared, and the reason.
type Part struct {
	Name string
	Tier api.Tier
	Rows capacity.Set
}

// asks reports whether f has something to do for l.
func (f *Filter) asks(l *Look) bool { return f.Asks == nil || f.Asks(l) }

// Apply clears in pass every row that must not take a slot, if f has something to do for l.
func (f *Filter) Apply(l *Look, pass *capacity.Set) {
	if f.asks(l) {
		f.Keep(l, pass)
	}
}

// Run applies fs in order to every host of the look, and returns the hosts that passed
// all and the counts by reason of the others. Always Considered == Offering + the sum
// of Filters, because a host is counted by the first filter that drops it. Filters that
// are not asked for cost nothing. From SplitHostsMin hosts on it goes through them in the
// parts of l.Split.
func Run(fs []Filter, l *Look) (capacity.Set, api.Refusals) {
	if l.Split != nil && l.View.Len() >= SplitHostsMin {
		return runParts(fs, l)
	}
	pass := l.View.Hosts()
	out := api.Refusals{Considered: pass.Len()}
	out.Filters = countsOf(runOn(fs, l, &pass, 0))
	out.Offering = pass.Len()
	return pass, out
}

// Explain is Run that also names, for each reason, up to most of its hosts, at
// most api.ExplainNamesMax: those with the lowest names.
func Explain(fs []Filter, l *Look, most int) (capacity.Set, api.Refusals) {
	pass := l.View.Hosts()
	out := api.Refusals{Considered: pass.Len()}
	out.Filters = countsOf(runOn(fs, l, &pass, min(max(most, 0), api.ExplainNamesMax)))
	out.Offering = pass.Len()
	return pass, out
}

// count is the hosts that a filter dropped for one reason.
type count struct {
	filter, part int // indexes of the filter, and of the part that Sort made
	api.FilterCount
}

// countsOf returns the counts alone.
func countsOf(list []count) []api.FilterCount {
	var out []api.FilterCount
	for _, c := range list {
		out = append(out, c.FilterCount)
	}
	return out
}

// runOn applies fs to pass, and returns what it counted, in order.
func runOn(fs []Filter, l *Look, pass *capacity.Set, most int) []count {
	left := pass.Len()
	var out []count
	for i := range fs {
		f := &fs[i]
		if !f.asks(l) { // before anything of the set is read
			continue
		}
		var dropped capacity.Set
		if f.Sort != nil || most > 0 {
			dropped = pass.Clone()
		}
		f.Keep(l, pass)
		now := pass.Len()
		if now == left {
			continue
		}
		dropped.AndNot(*pass)
		parts := []Part{{f.Name, f.Tier, dropped}}
		if f.Sort != nil {
			parts = f.Sort(l, dropped)
		}
		for k, p := range parts {
			n := left - now
			if f.Sort != nil {
				n = p.Rows.Len()
			}
			if n > 0 {
				out = append(out, count{i, k, api.FilterCount{Filter: p.Name, Hosts: n, Tier: p.Tier, Names: hostNames(l.View, p.Rows, most)}})
			}
		}
		left = now
	}
	return out
}

// hostNames returns the lowest names of some rows, at most most of them. A host without
// a name appears by its id.
func hostNames(v capacity.View, rows capacity.Set, most int) []string {
	if most == 0 {
		return nil
	}
	var out []string
	for row := range rows.All() {
		name := v.Name(row)
		if name == "" {
			name = string(v.ID(row))
		}
		if len(out) == most && name >= out[most-1] {
			continue
		}
		i, _ := slices.BinarySearch(out, name)
		if len(out) == most {
			out = out[:most-1]
		}
		out = slices.Insert(out, i, name)
	}
	return out
}

// clearSet clears every row of pass.
func clearSet(pass *capacity.Set) { pass.And(capacity.NewSet(0)) }
