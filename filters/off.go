package filters

import (
	"slices"

	"berth/api"
	"berth/capacity"
)

// wishes are the filters that serve a wish which a caller states in the request,
// and how to tell that there is one.
var wishes = map[string]func(*Look) bool{
	NameForcedHosts:      func(l *Look) bool { return len(l.Group().Hints.ForceHosts) > 0 },
	NameIgnoredHosts:     func(l *Look) bool { return len(l.Group().Hints.IgnoreHosts) > 0 },
	NameSameHost:         func(l *Look) bool { return len(l.Group().Hints.SameHost) > 0 },
	NameDifferentHost:    func(l *Look) bool { return len(l.Group().Hints.DifferentHost) > 0 },
	NameNear:             func(l *Look) bool { return l.Group().Hints.Near != "" },
	NameQuery:            func(l *Look) bool { return l.Group().Hints.Query != "" },
	NameAvailabilityZone: func(l *Look) bool { return l.Group().AZ != "" },
	NameTraits:           func(l *Look) bool { return !l.Group().Traits.IsZero() },
	NameServerGroup: func(l *Look) bool {
		return slices.ContainsFunc(l.Req.RulesOf(l.Index), func(n int) bool {
			p := l.Req.Rules[n].Policy
			return p == api.Affinity || p == api.AntiAffinity
		})
	},
}

// Guard returns fs and, before them, for each wish of callers that none of fs
// serves, a filter of that name which drops every host for a group that has the
// wish. An operator may switch a filter off, but what a caller asks for is never
// passed over.
func Guard(fs []Filter) []Filter {
	var out []Filter
	for _, k := range kinds {
		wished, isWish := wishes[k.name]
		if !isWish || slices.ContainsFunc(fs, func(f Filter) bool { return f.Name == k.name }) {
			continue
		}
		out = append(out, Filter{Name: k.name, Tier: api.TierNotAllowed, Demand: true, Keep: func(l *Look, pass *capacity.Set) {
			if wished(l) {
				clearSet(pass)
			}
		}})
	}
	return append(out, fs...)
}
