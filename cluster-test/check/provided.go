package check

import (
	"maps"
	"slices"

	"berth/api"
)

// provider compares what the placement API shows of a provider, a host too.
func (r *replay) provider(index uint64, h *host) {
	got, ok := r.s.Provider(h.id)
	if !ok {
		r.add(RuleModel, index, "provider %s is missing", h.id)
		return
	}
	want := h.used(r.m.now)
	same := func(a, b api.Inventory) bool { return a.Normal() == b.Normal() }
	switch {
	case got.Generation != h.generation:
		r.add(RuleGeneration, index, "provider %s is at generation %d, not %d", h.id, got.Generation, h.generation)
	case !got.Used.Equal(want):
		r.add(RuleModel, index, "provider %s has %v in use, and its live claims add up to %v", h.id, got.Used, want)
	case got.Name != h.name || got.Parent != h.parent || got.Root != r.m.root(h).id || got.CanHost == h.passive:
		r.add(RuleModel, index, "provider %s is %q, below %q in the tree of %q, a host: %v", h.id, got.Name, got.Parent, got.Root, got.CanHost)
	case !maps.EqualFunc(got.Inventory, h.stock(), same):
		r.add(RuleModel, index, "provider %s has %v, not %v", h.id, got.Inventory, h.stock())
	case !slices.Equal(got.Traits, h.allTraits()) || !slices.Equal(got.Aggregates, r.m.sets(h)):
		r.add(RuleModel, index, "provider %s has the traits %v and aggregates %v, not %v and %v", h.id, got.Traits, got.Aggregates, h.allTraits(), r.m.sets(h))
	}
}

// consumer compares one consumer that is no instance.
func (r *replay) consumer(index uint64, id api.ConsumerID) {
	got, ok := r.s.Consumer(id)
	want := r.m.consumers[id]
	switch {
	case want == nil && ok && !got.Instance:
		r.add(RuleGhost, index, "consumer %s should be gone", id)
	case want == nil:
	case !ok:
		r.add(RuleModel, index, "consumer %s is missing", id)
	case got.Generation != want.generation:
		r.add(RuleGeneration, index, "consumer %s is at generation %d, not %d", id, got.Generation, want.generation)
	case got.Project != want.project || got.User != want.user || got.Type != want.kind:
		r.add(RuleModel, index, "consumer %s is of project %q, user %q and type %q", id, got.Project, got.User, got.Type)
	case !sharesEqual(got.Shares, want.shares()):
		r.add(RuleModel, index, "consumer %s holds %v, not %v", id, got.Shares, want.shares())
	}
}

// shares returns what a consumer holds, by provider.
func (c *consumer) shares() (out []api.Share) {
	for _, cl := range c.claims {
		out = append(out, api.Share{Provider: cl.host, Resources: cl.amounts})
	}
	slices.SortFunc(out, func(a, b api.Share) int {
		if a.Provider < b.Provider {
			return -1
		}
		return 1
	})
	return out
}

func sharesEqual(a, b []api.Share) bool {
	return slices.EqualFunc(a, b, func(x, y api.Share) bool { return x.Provider == y.Provider && x.Resources.Equal(y.Resources) })
}

// placement compares all consumers and names that came by the placement API.
func (r *replay) placement(index uint64) {
	for id := range r.m.consumers {
		r.consumer(index, id)
	}
	if n := len(r.s.Consumers()); n != len(r.m.consumers) {
		r.add(RuleGhost, index, "there are %d consumers that are no instances, not %d", n, len(r.m.consumers))
	}
	if n := len(r.s.Providers()); n != len(r.m.hosts) {
		r.add(RuleModel, index, "there are %d providers, not %d", n, len(r.m.hosts))
	}
	if n := len(r.s.ResourceClasses()); n != len(r.m.classes)+len(api.StandardClasses()) {
		r.add(RuleModel, index, "there are %d resource classes, not %d beside the standard ones", n, len(r.m.classes))
	}
	if n := len(r.s.Traits()); n != len(r.m.traits)+len(api.StandardTraits()) {
		r.add(RuleModel, index, "there are %d traits, not %d beside the standard ones", n, len(r.m.traits))
	}
}
