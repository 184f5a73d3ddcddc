package placement

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/candidates"
	"berth/httpd/openstack"
)

// suffixMax bounds the characters of the suffix of a request group.
const suffixMax = 64

// The policies on groups with a suffix.
const (
	policyNone    = "none"    // one provider may serve several of them
	policyIsolate = "isolate" // each has its own provider
)

// parseQuery reads the query string. A call takes the names that known admits, and
// "read" for package door.
func parseQuery(raw string, known func(name string) bool) (url.Values, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, openstack.BadQuery("the query string cannot be read")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if name != "read" && !known(name) {
			return nil, openstack.BadQuery("this call does not take %q at this microversion", name)
		}
	}
	return q, nil
}

// lastValue returns the last value of a parameter, which counts if it is repeated
// although it must not be.
func lastValue(q url.Values, name string) (string, bool) {
	values := q[name]
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

// groupSince has the first microversion of each parameter of a request group for
// candidates. The suffix of the group follows the name.
var groupSince = map[string]version{"resources": 10, "required": 17, "member_of": 21, "in_tree": 31}

// splitParam splits the name of a parameter of a request group from its suffix.
func splitParam(name string, v version) (param, suffix string, ok bool) {
	for param, since := range groupSince {
		suffix, found := strings.CutPrefix(name, param)
		if found && v >= since && validSuffix(suffix, v) {
			return param, suffix, true
		}
	}
	return "", "", false
}

// validSuffix reports whether a request group may have this suffix: numbers since
// 1.25, words since 1.33.
func validSuffix(s string, v version) bool {
	if s == "" {
		return true
	}
	for i := range len(s) {
		digit := s[i] >= '0' && s[i] <= '9'
		word := digit || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] == '_' || s[i] == '-'
		if v >= 33 && !word || v < 33 && !digit {
			return false
		}
	}
	return len(s) <= suffixMax && (v >= 33 || v >= 25 && s[0] != '0')
}

// wideSince has the first microversion of each parameter of a query for candidates that
// belongs to no group.
var wideSince = map[string]version{"limit": 16, "group_policy": 25, "root_required": 35, "same_subtree": 36}

// parseCandidates reads a query for allocation candidates, and the number of wanted
// candidates: api.CandidatesMax, or the caller's limit (then asked is true), at most
// api.CandidatesCallMax.
func parseCandidates(raw string, v version) (q *candidates.Query, limit int, asked bool, err error) {
	values, err := parseQuery(raw, func(name string) bool {
		since, wide := wideSince[name]
		_, _, group := splitParam(name, v)
		return wide && v >= since || group
	})
	if err != nil {
		return nil, 0, false, err
	}
	if v < 25 && !values.Has("resources") {
		return nil, 0, false, openstack.BadQuery("resources must be given")
	}
	q = &candidates.Query{Flat: v < 29}
	limit, asked, err = parseLimit(values["limit"])
	if err != nil {
		return nil, 0, false, err
	}
	if err = parseWide(values, q); err != nil {
		return nil, 0, false, err
	}
	if q.Groups, err = parseGroups(values, v); err != nil {
		return nil, 0, false, err
	}
	if v >= 36 {
		err = checkSubtrees(q)
	} else {
		err = checkOrphans(q.Groups)
	}
	if err != nil {
		return nil, 0, false, err
	}
	return q, limit, asked, checkPolicy(values, q.Groups)
}

// parseLimit reads the number of wanted candidates. The first of several counts.
func parseLimit(values []string) (limit int, asked bool, err error) {
	for _, s := range values {
		if strings.Trim(s, "0123456789") != "" || s == "" || s[0] == '0' {
			return 0, false, openstack.BadQuery("limit must be a whole number from 1, got %q", s)
		}
	}
	if len(values) == 0 {
		return api.CandidatesMax, false, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || n > api.CandidatesCallMax {
		return api.CandidatesCallMax, false, nil //nolint:nilerr // only digits: it is larger than any limit
	}
	return n, true, nil
}

// parseWide reads the parameters that belong to no group.
func parseWide(values url.Values, q *candidates.Query) error {
	for _, s := range values["group_policy"] {
		if s != policyNone && s != policyIsolate {
			return openstack.BadQuery("group_policy must be %s or %s, got %q", policyNone, policyIsolate, s)
		}
	}
	q.Isolate = values.Get("group_policy") == policyIsolate
	root := values["root_required"]
	if len(root) > 1 {
		return openstack.WithCode(codeDuplicateKey, invalidError("the query parameter root_required may be given once only"))
	}
	if len(root) == 1 {
		t, err := parseTraits(root, false, true)
		if err != nil {
			return err
		}
		if both := conflictingTraits(t); len(both) > 0 {
			return openstack.WithCode(codeBadValue, invalidError("root_required both demands and forbids %s", strings.Join(both, ", ")))
		}
		q.RootRequired, q.RootForbidden = t.Required, t.Forbidden
	}
	if n := len(values["same_subtree"]); n > candidates.GroupsMax {
		return openstack.BadQuery("same_subtree may be given at most %d times, got %d", candidates.GroupsMax, n)
	}
	for _, s := range values["same_subtree"] {
		list := sortedSet(splitList(s))
		if list[0] == "" {
			return openstack.WithCode(codeBadValue, invalidError("same_subtree names groups that have a suffix, got %q", s))
		}
		q.Subtrees = append(q.Subtrees, list)
	}
	return nil
}

// parseGroups reads the request groups of a query, by their suffixes.
func parseGroups(values url.Values, v version) ([]candidates.Group, error) {
	seen := map[string]bool{}
	for name := range values {
		if _, suffix, ok := splitParam(name, v); ok {
			seen[suffix] = true
		}
	}
	if len(seen) > candidates.GroupsMax {
		return nil, openstack.BadQuery("at most %d request groups are allowed, got %d", candidates.GroupsMax, len(seen))
	}
	var out []candidates.Group
	for _, suffix := range slices.Sorted(maps.Keys(seen)) {
		g, err := parseGroup(values, suffix, v)
		if err != nil {
			return nil, err
		}
		if both := conflictingTraits(g.Traits); len(both) > 0 {
			return nil, openstack.BadQuery("required%s both demands and forbids %s", suffix, strings.Join(both, ", "))
		}
		out = append(out, g)
	}
	return out, nil
}

// parseGroup reads resources, required, member_of and in_tree of one suffix. It does
// not check that classes, traits and providers are known.
func parseGroup(values url.Values, suffix string, v version) (candidates.Group, error) {
	g := candidates.Group{Suffix: suffix}
	var err error
	for _, s := range values["resources"+suffix] { // the last one counts, but each must be well formed
		if g.Resources, err = parseResources(s); err != nil {
			return g, err
		}
	}
	required := values["required"+suffix]
	if v < 39 && len(required) > 1 {
		required = required[len(required)-1:]
	}
	if g.Traits, err = parseTraits(required, v >= 39, v >= 22); err != nil {
		return g, err
	}
	if g.MemberOf, g.NotMemberOf, err = parseMembers(values["member_of"+suffix], suffix, v); err != nil {
		return g, err
	}
	for _, s := range values["in_tree"+suffix] {
		id, ok := openstack.ParseUUID(strings.TrimSpace(s))
		if !ok {
			return g, openstack.BadQuery("in_tree%s must be the UUID of a provider, got %q", suffix, s)
		}
		g.InTree = api.ProviderID(id)
	}
	return g, nil
}

// parseResources reads amounts by class, such as VCPU:2,MEMORY_MB:1024. If a class is
// repeated, the last amount counts. Any amount above api.AmountMax, however large,
// becomes api.AmountMax+1.
func parseResources(text string) (api.Resources, error) {
	const form = "must look like VCPU:2,MEMORY_MB:1024"
	if strings.TrimSpace(text) == "" {
		return nil, invalidError("Badly formed resources parameter: it %s, and is empty", form)
	}
	out := api.Resources{}
	for one := range strings.SplitSeq(text, ",") {
		class, amount, found := strings.Cut(one, ":")
		if !found || strings.Contains(amount, ":") {
			return nil, invalidError("Badly formed resources parameter: it %s, got %q", form, one)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(amount), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 {
			return nil, invalidError("the amount of %q must be a whole number from 1, got %q", class, amount)
		}
		out[api.ResourceClass(class)] = min(n, api.AmountMax+1)
		if len(out) > api.ClassesMax {
			return nil, openstack.BadQuery("at most %d resource classes are allowed in one group", api.ClassesMax)
		}
	}
	return out, nil
}

// parseTraits reads lists of traits that must all hold: T1,!T2 demands T1 and
// forbids T2, and in:T1,T2 demands one of them.
func parseTraits(values []string, mayAny, mayForbid bool) (api.Traits, error) {
	var t api.Traits
	for _, s := range values {
		list, anyOf := strings.CutPrefix(s, "in:")
		names := splitList(list)
		if len(names) > api.TraitsMax {
			return t, openstack.BadQuery("at most %d traits are allowed in one group", api.TraitsMax)
		}
		if err := addTraits(&t, s, names, anyOf, mayAny, mayForbid); err != nil {
			return t, err
		}
	}
	t.Required, t.Forbidden = sortedSet(t.Required), sortedSet(t.Forbidden)
	slices.SortFunc(t.AnyOf, slices.Compare)
	t.AnyOf = slices.CompactFunc(t.AnyOf, slices.Equal)
	n := len(t.Required) + len(t.Forbidden)
	for _, list := range t.AnyOf {
		n += len(list)
	}
	if n > api.TraitsMax {
		return t, openstack.BadQuery("at most %d traits are allowed in one group", api.TraitsMax)
	}
	return t, nil
}

// addTraits adds the names of one list, whose text is s, to t.
func addTraits(t *api.Traits, s string, names []string, anyOf, mayAny, mayForbid bool) error {
	if anyOf && !mayAny {
		return openstack.BadQuery("a list of traits that begins with in: needs required and microversion 1.39, got %q", s)
	}
	for _, name := range names {
		bare := strings.TrimLeft(name, "!") // repeated exclamation marks mean the same
		switch {
		case bare == "":
			return openstack.BadQuery("a trait is empty in %q", s)
		case bare != name && anyOf:
			return openstack.BadQuery("a list that begins with in: cannot forbid a trait, got %q", s)
		case bare != name && !mayForbid:
			return openstack.BadQuery("forbidding a trait needs microversion 1.22, got %q", s)
		case bare != name:
			t.Forbidden = append(t.Forbidden, bare)
		case !anyOf:
			t.Required = append(t.Required, name)
		}
	}
	if !anyOf {
		return nil
	}
	if names = sortedSet(names); len(names) == 1 {
		t.Required = append(t.Required, names[0])
	} else {
		t.AnyOf = append(t.AnyOf, names)
	}
	return nil
}

// conflictingTraits returns the traits that t both demands and forbids.
func conflictingTraits(t api.Traits) []string {
	forbidden := func(name string) bool { return slices.Contains(t.Forbidden, name) }
	var out []string
	for _, name := range t.Required {
		if forbidden(name) {
			out = append(out, name)
		}
	}
	for _, list := range t.AnyOf {
		if !slices.ContainsFunc(list, func(name string) bool { return !forbidden(name) }) {
			out = append(out, "any of "+strings.Join(list, ", "))
		}
	}
	return out
}

// parseMembers reads lists of aggregates that must all hold: A or in:A,B demands
// one of those named, !A or !in:A,B forbids them all.
func parseMembers(values []string, suffix string, v version) (all [][]string, none []string, err error) {
	if v < 24 && len(values) > 1 {
		return nil, nil, openstack.BadQuery("giving member_of%s more than once needs microversion 1.24", suffix)
	}
	n := 0
	for _, s := range values {
		rest, forbid := strings.CutPrefix(s, "!")
		list, in := strings.CutPrefix(rest, "in:")
		names := []string{list}
		if in {
			names = strings.Split(list, ",")
		} else if strings.Contains(list, ",") {
			return nil, nil, openstack.BadQuery("several aggregates in one member_of%s need in: or !in: before them, got %q", suffix, s)
		}
		if n += len(names); n > api.ProviderAggsMax {
			return nil, nil, openstack.BadQuery("at most %d aggregates are allowed in one group", api.ProviderAggsMax)
		}
		for i, name := range names {
			id, ok := openstack.ParseUUID(name)
			if !ok {
				return nil, nil, openstack.BadQuery("member_of%s takes UUIDs of aggregates, got %q", suffix, name)
			}
			names[i] = id
		}
		if forbid && v < 32 {
			return nil, nil, openstack.BadQuery("forbidding an aggregate needs microversion 1.32, got member_of%s=%s", suffix, s)
		}
		if forbid {
			none = append(none, names...)
		} else {
			all = append(all, sortedSet(names))
		}
	}
	return all, sortedSet(none), nil
}

// checkOrphans refuses, before 1.36, groups that ask for no resources.
func checkOrphans(groups []candidates.Group) error {
	if len(groups) == 0 {
		return openstack.BadQuery("at least one request group must be given, such as resources=VCPU:1")
	}
	for _, g := range groups {
		if len(g.Resources) == 0 {
			return openstack.BadQuery("the request group %q asks for no resources%s", g.Suffix, g.Suffix)
		}
	}
	return nil
}

// checkSubtrees refuses, since 1.36, groups that ask for no resources unless a
// same_subtree names them, and names there that no group has.
func checkSubtrees(q *candidates.Query) error {
	named := map[string]bool{}
	for _, list := range q.Subtrees {
		for _, suffix := range list {
			named[suffix] = true
		}
	}
	empty := 0
	for _, g := range q.Groups {
		if len(g.Resources) == 0 {
			empty++
		}
	}
	if empty == len(q.Groups) {
		return openstack.WithCode(codeMissingValue, invalidError("at least one request group must ask for resources"))
	}
	for _, g := range q.Groups {
		if len(g.Resources) == 0 && !named[g.Suffix] {
			return openstack.WithCode(codeBadValue, invalidError("the request group %q asks for no resources, and no same_subtree names it", g.Suffix))
		}
		delete(named, g.Suffix)
	}
	if len(named) > 0 {
		return openstack.WithCode(codeBadValue, invalidError("same_subtree names %q, which no request group has for a suffix", slices.Sorted(maps.Keys(named))))
	}
	return nil
}

// checkPolicy refuses several groups with a suffix but without group_policy.
func checkPolicy(values url.Values, groups []candidates.Group) error {
	n := len(groups)
	if n > 0 && groups[0].Suffix == "" {
		n--
	}
	if n > 1 && !values.Has("group_policy") {
		return invalidError("group_policy must be given when several request groups have a suffix")
	}
	return nil
}

// splitList splits a list at its commas and trims each item.
func splitList(s string) []string {
	out := strings.Split(s, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// sortedSet returns the items in order, each once; nil for none.
func sortedSet(items []string) []string {
	if len(items) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(items)))
}
