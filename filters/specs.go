package filters

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
)

// Scopes of extra specs that filters here read.
const (
	scopeCapabilities = "capabilities:"
	ScopeAggregate    = "aggregate_instance_extra_specs:"
)

// newExtraSpecs returns the filter that passes hosts whose attributes match the extra specs of the group. A
// key is the name of an attribute, plain or behind scopeCapabilities; keys with
// any other scope, such as trait: or hw:, ask nothing here. A host without the
// attribute fails. The value is what the attribute must equal to the letter, or
// one of these, with blanks between the words:
//
//	= N   >= N                     at least N (yes, = too)
//	== N   != N   <= N   > N   < N a number; a host whose attribute is none fails
//	s== T   s!= T   s>= T   s> T   s<= T   s< T
//	                               a text, byte by byte
//	<in> T                         T is part of the attribute
//	<all-in> T U ...               each is part of the attribute
//	<or> T <or> U ...              the attribute equals one of them
//
// Numbers are exact decimals; see capacity.ParseValue. An operator without what
// it needs matches nothing, and neither does one about attributeIP, or for a request of
// another zone about an attribute that is not public. These are the rules of OpenStack Nova's
// ComputeCapabilitiesFilter, and > and < beside them.
// Keys in Group.Met ask nothing, either: the zone meets them as a whole.
func newExtraSpecs() Filter {
	return Filter{Name: NameExtraSpecs, Tier: api.TierNeverFits, Demand: true, Asks: asksSpecs(readAttributeKey), Keep: func(l *Look, pass *capacity.Set) {
		for key, want := range l.Group().ExtraSpecs { // in any order: all must match
			name, asks := readAttributeKey(l, key)
			if !asks {
				continue
			}
			if name == attributeIP {
				clearSet(pass)
				continue
			}
			values, may := l.attribute(name)
			if !may {
				clearSet(pass)
				continue
			}
			match := compileMatcher(want)
			values.Keep(pass, func(v *capacity.Value) bool { return v.Kind != capacity.KindNone && match(v) })
		}
	}}
}

// readKey returns what the key of an extra spec names, and whether it asks a filter anything.
type readKey func(l *Look, key string) (name string, asks bool)

// readAttributeKey is readKey for attributes of hosts.
func readAttributeKey(l *Look, key string) (string, bool) {
	name, scoped := strings.CutPrefix(key, scopeCapabilities)
	return name, (scoped || !strings.Contains(name, ":")) && !slices.Contains(l.Group().Met, key)
}

// readAggregateKey is readKey for metadata of aggregates.
func readAggregateKey(_ *Look, key string) (string, bool) {
	return strings.CutPrefix(key, ScopeAggregate)
}

// asksSpecs returns Filter.Asks of a filter that reads extra specs.
func asksSpecs(read readKey) func(*Look) bool {
	return func(l *Look) bool {
		for key := range l.Group().ExtraSpecs { // in any order: each is looked at alone
			if _, asks := read(l, key); asks {
				return true
			}
		}
		return false
	}
}

// newAggregateExtraSpecs returns the filter that passes hosts that, for each extra spec of the group behind
// ScopeAggregate, are in an aggregate whose metadata of that name matches. The
// metadata may be a comma separated list, one part of which must match. Values
// are read as ExtraSpecs reads them.
func newAggregateExtraSpecs() Filter {
	return Filter{Name: NameAggregateExtraSpecs, Tier: api.TierNeverFits, Demand: true, Asks: asksSpecs(readAggregateKey), Keep: func(l *Look, pass *capacity.Set) {
		for key, want := range l.Group().ExtraSpecs { // in any order: all must match
			name, asks := readAggregateKey(l, key)
			if !asks {
				continue
			}
			match := compileMatcher(want)
			var ids []string
			for _, a := range l.World.Aggregates {
				if slices.ContainsFunc(splitWords(a.Metadata[name]), func(w string) bool { return matchesText(match, w) }) {
					ids = append(ids, string(a.ID))
				}
			}
			pass.And(l.View.AnyAggregate(ids))
		}
	}}
}

// matcher says whether a value is as an extra spec wants it.
type matcher func(v *capacity.Value) bool

// matchesText reports whether a text, read as an attribute, is as match wants it.
func matchesText(match matcher, text string) bool {
	v := capacity.ParseValue(text)
	return match(&v)
}

// compare says whether values in an order (below 0, 0, above 0) are as an
// operator wants them.
var compare = map[string]func(order int) bool{
	"=":  func(o int) bool { return o >= 0 },
	">=": func(o int) bool { return o >= 0 },
	"==": func(o int) bool { return o == 0 },
	"!=": func(o int) bool { return o != 0 },
	"<=": func(o int) bool { return o <= 0 },
	">":  func(o int) bool { return o > 0 },
	"<":  func(o int) bool { return o < 0 },
}

// operators are all words that make an extra spec more than a text to equal.
var operators = slices.Concat(slices.Sorted(maps.Keys(compare)),
	[]string{"s==", "s!=", "s<=", "s>=", "s<", "s>", "<in>", "<all-in>", "<or>"})

// compileMatcher reads the value of an extra spec.
func compileMatcher(want string) matcher {
	list := strings.Fields(want)
	if len(list) == 0 || !slices.Contains(operators, list[0]) {
		return func(v *capacity.Value) bool { return v.Text == want }
	}
	op, args := list[0], list[1:]
	if len(args) == 0 {
		return func(*capacity.Value) bool { return false }
	}
	switch op {
	case "<in>":
		return func(v *capacity.Value) bool { return strings.Contains(v.Text, args[0]) }
	case "<all-in>":
		return func(v *capacity.Value) bool {
			return !slices.ContainsFunc(args, func(a string) bool { return !strings.Contains(v.Text, a) })
		}
	case "<or>":
		return matchEither(args)
	}
	if textual, ok := strings.CutPrefix(op, "s"); ok {
		holds := compare[textual]
		return func(v *capacity.Value) bool { return holds(strings.Compare(v.Text, args[0])) }
	}
	holds, number := compare[op], capacity.ParseValue(args[0])
	if number.Kind != capacity.KindNumber {
		return func(*capacity.Value) bool { return false }
	}
	return func(v *capacity.Value) bool {
		return v.Kind == capacity.KindNumber && holds(cmp.Compare(v.Number, number.Number))
	}
}

// matchEither matches every other one of args: "a <or> b <or> c".
func matchEither(args []string) matcher {
	var list []string
	for i := 0; i < len(args); i += 2 {
		list = append(list, args[i])
	}
	return func(v *capacity.Value) bool { return slices.Contains(list, v.Text) }
}
