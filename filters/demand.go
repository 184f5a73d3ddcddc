package filters

import (
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
)

// demand is the part of a request that a filter serves, if the request
// could do without it.
type demand struct {
	advice string                      // the advice if this demand alone keeps hosts away
	stated func(*Look) bool            // whether the caller states it; nil for what comes with a flavor or an image
	drop   func(r *api.Request, g int) // takes it out of a request, for one group
}

var demands = map[string]demand{
	NameForcedHosts: {
		"naming no hosts that it must be on would work", func(l *Look) bool { return len(l.Group().Hints.ForceHosts) > 0 },
		func(r *api.Request, g int) { r.Groups[g].Hints.ForceHosts = nil },
	},
	NameIgnoredHosts: {
		"leaving out the hosts to stay away from would work", func(l *Look) bool { return len(l.Group().Hints.IgnoreHosts) > 0 },
		func(r *api.Request, g int) { r.Groups[g].Hints.IgnoreHosts = nil },
	},
	NameSameHost: {
		"leaving out the servers to share a host with would work", func(l *Look) bool { return len(l.Group().Hints.SameHost) > 0 },
		func(r *api.Request, g int) { r.Groups[g].Hints.SameHost = nil },
	},
	NameDifferentHost: {
		"leaving out the servers to stay apart from would work", func(l *Look) bool { return len(l.Group().Hints.DifferentHost) > 0 },
		func(r *api.Request, g int) { r.Groups[g].Hints.DifferentHost = nil },
	},
	NameNear: {
		"leaving out the address to be near would work", func(l *Look) bool { return l.Group().Hints.Near != "" },
		func(r *api.Request, g int) { r.Groups[g].Hints.Near = "" },
	},
	NameQuery: {
		"leaving out the query would work", func(l *Look) bool { return l.Group().Hints.Query != "" },
		func(r *api.Request, g int) { r.Groups[g].Hints.Query = "" },
	},
	NameAvailabilityZone: {
		"asking for no availability zone, or another one, would work", func(l *Look) bool { return l.Group().AZ != "" },
		func(r *api.Request, g int) { r.Groups[g].AZ = "" },
	},
	NameTraits: {
		"asking for no traits would work; some may come from the flavor", func(l *Look) bool { return !l.Group().Traits.IsZero() },
		func(r *api.Request, g int) { r.Groups[g].Traits = api.Traits{} },
	},
	NameAggregateExtraSpecs: {
		"a flavor without extra specs about aggregates would work", nil, func(r *api.Request, g int) { dropSpecs(&r.Groups[g], true) },
	},
	NameImageProperties: {
		"leaving out the image properties would work", nil, func(r *api.Request, g int) { r.Groups[g].Image.Properties = nil },
	},
	NameExtraSpecs: {
		"a flavor without extra specs about the host would work", nil, func(r *api.Request, g int) { dropSpecs(&r.Groups[g], false) },
	},
	NameServerGroup: {"without the rule or server group it would work", hasHardRule, softenRules},
}

// hasHardRule reports whether a rule of affinity or anti-affinity binds the group.
func hasHardRule(l *Look) bool {
	return slices.ContainsFunc(l.Req.RulesOf(l.Index), func(n int) bool {
		p := l.Req.Rules[n].Policy
		return p == api.Affinity || p == api.AntiAffinity
	})
}

// dropSpecs takes out extra specs about aggregates, or those about hosts.
func dropSpecs(g *api.Group, aggregates bool) {
	out := map[string]string{}
	for k, v := range g.ExtraSpecs {
		if strings.HasPrefix(k, ScopeAggregate) != aggregates {
			out[k] = v
		}
	}
	g.ExtraSpecs = out
}

// softenRules makes hard rules that bind a group wishes: they keep their numbers.
func softenRules(r *api.Request, group int) {
	for _, n := range r.RulesOf(group) {
		switch rule := &r.Rules[n]; rule.Policy {
		case api.Affinity:
			rule.Policy = api.SoftAffinity
		case api.AntiAffinity:
			rule.Policy, rule.Max = api.SoftAntiAffinity, 0
		case api.SoftAffinity, api.SoftAntiAffinity:
		}
	}
}

// AdviceWithout returns, in a sentence, that leaving out the demand which the named
// filter serves would work; "" for a filter that serves none.
func AdviceWithout(name string) string { return demands[name].advice }

// DropDemand takes out of a request, which it owns but for what its fields refer to, the demand
// that the named filter serves for a group. It reports whether there is such a filter.
func DropDemand(r *api.Request, group int, name string) bool {
	d, ok := demands[name]
	if ok {
		d.drop(r, group)
	}
	return ok
}

// Guard returns fs and, before them, for each wish of callers that none of fs
// serves, a filter of that name which drops every host for a group that has the
// wish. An operator may switch a filter off, but what a caller asks for is never
// passed over.
func Guard(fs []Filter) []Filter {
	var out []Filter
	for _, k := range kinds {
		stated := demands[k.name].stated
		if stated == nil || slices.ContainsFunc(fs, func(f Filter) bool { return f.Name == k.name }) {
			continue
		}
		out = append(out, Filter{Name: k.name, Tier: api.TierNotAllowed, Demand: true, Asks: stated, Keep: func(_ *Look, pass *capacity.Set) { clearSet(pass) }})
	}
	return append(out, fs...)
}
