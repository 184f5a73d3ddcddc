package intake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/binding"
	"berth/raftstore/state"
)

// digestAgeMax is how old the digest of a child may be and still tell which names it lacks.
const digestAgeMax = 30 * time.Second

// Sizes of what a refusal names.
const (
	knownMax = 10 // names that there are
	nearMax  = 3  // names like the unknown one
	farMax   = 2  // single changes of characters between names that are alike
)

// UnknownZone describes the first name that is neither this zone nor a direct child; ""
// if there is none.
func UnknownZone(v *state.State, names ...string) string {
	known := []string{v.Name}
	for _, l := range v.Children() {
		known = append(known, l.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Sprintf("there is no zone %q here%s; this is zone %s, and its direct children are %s",
				name, near(name, known), known[0], listOf(known[1:]))
		}
	}
	return ""
}

// there is what a zone and all below it are known to have, and whether whoever asks may be told.
type there struct {
	azs, tags map[string]bool
	all       bool // nothing else can be there
}

// seeThere gathers the availability zones and tags that this zone has, or hears of its children. A
// child that is silent, knows too little of those below it, or has no hosts yet, may have others.
// Tags are told to admins alone.
func (rd *reading) seeThere() *there {
	admin := rd.caller.Allows(api.RoleAdmin)
	out := &there{azs: map[string]bool{}, tags: map[string]bool{}, all: true}
	add := func(to map[string]bool, told bool, names ...string) {
		for _, name := range names {
			to[name] = name != "" && (told || to[name])
		}
	}
	add(out.azs, true, rd.v.AZs()...)
	add(out.azs, true, rd.v.Config.DefaultAZ, rd.v.Name)
	for _, a := range rd.v.Aggregates() {
		add(out.azs, true, a.Metadata[api.MetaAZ])
	}
	add(out.tags, admin, rd.v.Config.Tags...)
	for _, l := range rd.v.Children() {
		dg, age, ok := rd.heardOf(l.Zone)
		if !ok || age > digestAgeMax || dg.Partial || len(dg.Classes) == 0 {
			out.all = false
		}
		add(out.azs, true, binding.AZsOf(&rd.v.Config.Bindings, l, &dg)...)
		add(out.azs, false, dg.AZs...)
		add(out.tags, admin, dg.Tags...)
	}
	return out
}

// heardOf returns the newest digest of a child.
func (rd *reading) heardOf(id api.ZoneID) (api.Digest, time.Duration, bool) {
	if rd.digests == nil {
		return api.Digest{}, 0, false
	}
	return rd.digests.Digest(id)
}

// noteUnheard records a name that nobody has told of, unless there was another before. A digest is some seconds old, so it refuses nothing
// before the children are asked.
func (rd *reading) noteUnheard(format string, args ...any) {
	if rd.unheard == nil {
		rd.unheard = api.Errorf(api.CodeInvalid, format, args...)
	}
}

// checkAZ refuses an availability zone that is neither here nor in any child.
func (rd *reading) checkAZ(part, az string) {
	if az == "" || slices.Contains(rd.v.AZs(), az) {
		return
	}
	t := rd.seeThere()
	if _, ok := t.azs[az]; t.all && !ok {
		rd.noteUnheard("%savailability_zone: %s", part, notThere("availability zone", az, t.azs))
	}
}

// checkTags refuses wanted tags of which neither this zone nor any child has one.
func (rd *reading) checkTags(tags []string) {
	if len(tags) == 0 {
		return
	}
	t := rd.seeThere()
	if !t.all {
		return
	}
	for _, tag := range tags {
		if _, ok := t.tags[tag]; !ok {
			rd.noteUnheard("zones.allowed_tags: %s", notThere("zone with the tag", tag, t.tags))
		}
	}
}

// notThere says that a name is missing, and of those that may be told which are like it, and which
// there are.
func notThere(what, name string, known map[string]bool) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(n string) bool { return !known[n] })
	out := fmt.Sprintf("there is no %s %q here or below", what, name)
	if len(names) > 0 {
		out += near(name, names) + "; there are " + listOf(names)
	}
	return out
}

// near returns a question whether one of the known names that are like a name was meant; "" if none is.
func near(name string, known []string) string {
	var like []string
	for _, k := range known {
		if len(like) < nearMax && alike(strings.ToLower(name), strings.ToLower(k)) {
			like = append(like, fmt.Sprintf("%q", k))
		}
	}
	if len(like) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(like, " or ") + "?)"
}

// alike reports whether at most farMax characters must be changed, added or removed, and at most half,
// to get one name from the other.
func alike(a, b string) bool {
	x, y := []rune(a), []rune(b)
	if d := len(x) - len(y); d > farMax || d < -farMax {
		return false
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		before := row[0]
		row[0] = i + 1
		for j := range y {
			cost := before
			if x[i] != y[j] {
				cost++
			}
			before, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	far := row[len(y)]
	return far <= farMax && 2*far <= max(len(x), len(y))
}

// listOf formats the names of some zones.
func listOf(names []string) string {
	n := len(names)
	if n == 0 {
		return "none"
	}
	out := strings.Join(names[:min(n, knownMax)], ", ")
	if n > knownMax {
		out += fmt.Sprintf(" and %d more", n-knownMax)
	}
	return out
}

// flavorNames returns the names of all flavors.
func flavorNames(v *state.State) []string {
	var out []string
	for _, f := range v.Flavors() {
		out = append(out, f.Name)
	}
	return out
}
