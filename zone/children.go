package zone

import (
	"berth/api"
	"berth/binding"
	"berth/raftstore/state"
)

// SeeChild returns a child as the rule of bindings sees it at a time: with its digest unless that is
// too old, and away if it has been silent for too long.
func SeeChild(v *state.State, digests Digests, now api.Instant, l *api.Link) binding.Child {
	rule := &v.Config.Bindings
	var recent *api.Digest
	if d, age, ok := digests.Digest(l.Zone); ok && age <= rule.UsageAgeMost() {
		recent = &d
	}
	lost := l.SilentSince != 0 && now >= l.SilentSince.Add(rule.LostAfterAll())
	return binding.ChildOf(rule, l, recent, lost)
}
