package check

import (
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
)

// compareProvider compares a provider, which may be a host, as shown by the placement API.
func (r *replay) compareProvider(index uint64, h *model.Host) {
	got, ok := r.s.Provider(h.ID)
	if !ok {
		r.addViolation(promise.Model, index, "provider %s is missing", h.ID)
		return
	}
	want := h.Used(r.m.Now)
	same := func(a, b api.Inventory) bool { return a.Normal() == b.Normal() }
	switch {
	case got.Generation != h.Generation:
		r.addViolation(promise.Generation, index, "provider %s is at generation %d, not %d", h.ID, got.Generation, h.Generation)
	case !got.Used.Equal(want):
		r.addViolation(promise.Model, index, "provider %s has %v in use, and its live claims add up to %v", h.ID, got.Used, want)
	case got.Name != h.Name || got.Parent != h.Parent || got.Root != r.m.Root(h).ID || got.CanHost == h.Passive:
		r.addViolation(promise.Model, index, "provider %s is %q, below %q in the tree of %q, a host: %v", h.ID, got.Name, got.Parent, got.Root, got.CanHost)
	case !maps.EqualFunc(got.Inventory, h.Stock(), same):
		r.addViolation(promise.Model, index, "provider %s has %v, not %v", h.ID, got.Inventory, h.Stock())
	case !slices.Equal(got.Traits, h.AllTraits()) || !slices.Equal(got.Aggregates, r.m.Sets(h)):
		r.addViolation(promise.Model, index, "provider %s has the traits %v and aggregates %v, not %v and %v", h.ID, got.Traits, got.Aggregates, h.AllTraits(), r.m.Sets(h))
	}
}

// compareConsumer compares one consumer that is not an instance.
func (r *replay) compareConsumer(index uint64, id api.ConsumerID) {
	got, ok := r.s.Consumer(id)
	want := r.m.Consumers[id]
	switch {
	case want == nil && ok && !got.Instance:
		r.addViolation(promise.Ghost, index, "consumer %s should be gone", id)
	case want == nil:
	case !ok:
		r.addViolation(promise.Model, index, "consumer %s is missing", id)
	case got.Generation != want.Generation:
		r.addViolation(promise.Generation, index, "consumer %s is at generation %d, not %d", id, got.Generation, want.Generation)
	case got.Project != want.Project || got.User != want.User || got.Type != want.Kind:
		r.addViolation(promise.Model, index, "consumer %s is of project %q, user %q and type %q", id, got.Project, got.User, got.Type)
	case !sharesEqual(got.Shares, want.Shares()):
		r.addViolation(promise.Model, index, "consumer %s holds %v, not %v", id, got.Shares, want.Shares())
	}
}

func sharesEqual(a, b []api.Share) bool {
	return slices.EqualFunc(a, b, func(x, y api.Share) bool { return x.Provider == y.Provider && x.Resources.Equal(y.Resources) })
}

// comparePlacement compares all consumers and names created by the placement API.
func (r *replay) comparePlacement(index uint64) {
	for id := range r.m.Consumers {
		r.compareConsumer(index, id)
	}
	if n := len(r.s.Consumers()); n != len(r.m.Consumers) {
		r.addViolation(promise.Ghost, index, "there are %d consumers that are no instances, not %d", n, len(r.m.Consumers))
	}
	if n := len(r.s.Providers()); n != len(r.m.Hosts) {
		r.addViolation(promise.Model, index, "there are %d providers, not %d", n, len(r.m.Hosts))
	}
	if n := len(r.s.ResourceClasses()); n != len(r.m.Classes)+len(api.StandardClasses()) {
		r.addViolation(promise.Model, index, "there are %d resource classes, not %d beside the standard ones", n, len(r.m.Classes))
	}
	properties := map[string]bool{}
	for _, p := range r.s.HostProperties() {
		properties[p.Name] = p.Private
	}
	if !maps.Equal(properties, r.m.Private) {
		r.addViolation(promise.Model, index, "the private properties of hosts are %v, not %v", properties, r.m.Private)
	}
	if n := len(r.s.Traits()); n != len(r.m.Traits)+len(api.StandardTraits()) {
		r.addViolation(promise.Model, index, "there are %d traits, not %d beside the standard ones", n, len(r.m.Traits))
	}
}

// compareRules compares the members and their places under each rule that the last command
// touched.
func (r *replay) compareRules(index uint64) {
	if text := r.m.Broken(); text != "" {
		r.addViolation(promise.Bound, index, "%s", text)
	}
	for name := range r.m.Ruled {
		hosts, links := r.s.Members(name.Tenant, name.Name)
		got := map[model.Spot]int{}
		for id, n := range hosts {
			got[model.Spot{Host: id}] = n
		}
		for id, n := range links {
			got[model.Spot{Link: id}] = n
		}
		if want := r.m.Members(name); !maps.Equal(got, want) {
			r.addViolation(promise.Bound, index, "the members of rule %s are %v, not %v", name.Name, got, want)
		}
	}
}
