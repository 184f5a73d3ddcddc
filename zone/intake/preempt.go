package intake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/api/rest"
)

// setPreempt says, in refusals, who can change the rule of a zone for preemptible instances.
const setPreempt = "an admin of the zone can change that with berth operator config set"

// kind is what the body, the flavor and the image say of one group.
type kind struct {
	part string     // path of the group in the body
	name string     // of the group; "" if it is the only one
	hint *rest.Flag // nil for none
	way  api.PreemptWay
}

// isText reports whether a value is the word that is given, in letters of any size.
func isText(value, word string) bool { return strings.EqualFold(strings.TrimSpace(value), word) }

// IsPreemptible reports whether a flavor asks for preemptible instances.
func IsPreemptible(f *api.Flavor) bool { return isText(f.ExtraSpecs[api.SpecPreemptible], "true") }

// kindOf returns whether a group is preemptible by what it says itself. A flavor of a
// reservation never says so: what runs in a lease is firm.
func (rd *reading) kindOf(part string, hint *rest.Flag, f *api.Flavor, g *rest.GroupCreate) kind {
	rule, out := &rd.v.Config.Preemptibles, kind{part: part, name: g.Name, hint: hint}
	_, own := rd.v.Flavor(api.FlavorID(g.FlavorRef))
	switch {
	case hint != nil && bool(*hint):
		out.way = api.PreemptByHint
	case rule.Counts(api.PreemptByFlavor) && own && IsPreemptible(f):
		out.way = api.PreemptByFlavor
	case rule.Counts(api.PreemptByImage) && isText(g.ImageProperties[api.SpecPreemptible], "true"):
		out.way = api.PreemptByImage
	}
	if v, ok := g.ImageProperties[api.SpecPreemptible]; ok && rule.Counts(api.PreemptByImage) && !isText(v, "true") && !isText(v, "false") {
		rd.refuse(api.CodeInvalid, "%simage_properties: %s must be true or false, got %q", part, api.SpecPreemptible, v)
	}
	return out
}

// hintsAsked returns what the hints of the groups say, for the digest of the order; nil if
// none says anything.
func (rd *reading) hintsAsked() []string {
	var out []string
	for i := range rd.kinds {
		if h := rd.kinds[i].hint; h != nil {
			if out == nil {
				out = make([]string, len(rd.kinds))
			}
			out[i] = strconv.FormatBool(bool(*h))
		}
	}
	return out
}

// resolveClass sets whether the boot is preemptible, and why. The digest of the order has
// only what was asked, so a repeat has its first answer after the rule of the zone has changed.
func (rd *reading) resolveClass() {
	rule, req := &rd.v.Config.Preemptibles, &rd.order.Request
	byProject := rule.Counts(api.PreemptByProject) && rule.Lists(req.Project) && rule.Allows(req.Project) && req.Within == "" && !req.Preempt && !req.HasVolumes()
	for i := range rd.kinds {
		k := &rd.kinds[i]
		switch {
		case k.way == "" && k.hint == nil && byProject:
			k.way = api.PreemptByProject
		case k.way != "" && k.way != api.PreemptByHint && k.hint != nil:
			rd.refuse(api.CodeInvalid, "%sscheduler_hints.preemptible is false, but the %s says %s=true; take another %s", k.part, k.way, api.SpecPreemptible, k.way)
		case k.way == api.PreemptByHint && !rule.Counts(api.PreemptByHint):
			rd.refuse(api.CodeForbidden, "%sscheduler_hints.preemptible does not count in this zone: preemptible instances are asked for by %s; %s --preemptible-way", k.part, waysOf(rule), setPreempt)
		}
	}
	for _, w := range api.PreemptWays() {
		if slices.ContainsFunc(rd.kinds, func(k kind) bool { return k.way == w }) {
			req.Class, req.Way = api.Preemptible, w
			break
		}
	}
	if req.Class == api.Preemptible {
		rd.checkPreemptible(rule)
	}
	if req.Preempt && !rd.caller.Allows(api.RoleAdmin) && !rule.AllowsFirm(req.Project) {
		rd.refuse(api.CodeForbidden, "preempt needs the role admin, or a project that may have preemptible instances ended; %s --preemptible-firm", setPreempt)
	}
}

// checkPreemptible refuses groups that disagree, and projects that may not have preemptible
// instances.
func (rd *reading) checkPreemptible(rule *api.PreemptRule) {
	is := slices.IndexFunc(rd.kinds, func(k kind) bool { return k.way != "" })
	if not := slices.IndexFunc(rd.kinds, func(k kind) bool { return k.way == "" }); not >= 0 {
		rd.refuse(
			api.CodeInvalid, "all groups of a boot are preemptible or none is: %q is, by its %s, and %q is not",
			rd.kinds[is].name, rd.kinds[is].way, rd.kinds[not].name,
		)
	}
	if p := rd.order.Request.Project; !rule.Allows(p) {
		rd.refuse(api.CodeForbidden, "the project %s may not have preemptible instances in this zone; %s --preemptible-allow", p, setPreempt)
	}
}

// refuse records a reason not to take the order, unless there was one before.
func (rd *reading) refuse(code api.Code, format string, args ...any) {
	if rd.gone == nil {
		rd.gone = api.Errorf(code, format, args...)
	}
}

// waysOf returns the ways that count in a zone, as a sentence lists them.
func waysOf(rule *api.PreemptRule) string {
	var out []string
	for _, w := range api.PreemptWays() {
		if rule.Counts(w) {
			out = append(out, fmt.Sprint(w))
		}
	}
	return strings.Join(out, ", ")
}
