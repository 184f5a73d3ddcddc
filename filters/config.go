package filters

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/api"
)

// The names of filters, which configuration and refusals carry.
const (
	NameAllHosts            = "all_hosts"
	NameForcedHosts         = "forced_hosts"
	NameIgnoredHosts        = "ignored_hosts"
	NameSameHost            = "same_host"
	NameDifferentHost       = "different_host"
	NameNear                = "near"
	NameQuery               = "query"
	namePool                = "pool"
	nameProjectIsolation    = "project_isolation"
	nameIsolated            = "isolated"
	NameAvailabilityZone    = "availability_zone"
	nameDriver              = "driver"
	NameTraits              = "traits"
	NameAggregateExtraSpecs = "aggregate_extra_specs"
	NameImageProperties     = "image_properties"
	NameExtraSpecs          = "extra_specs"
	nameHostState           = "host_state"
	NameServerGroup         = "server_group"
	nameInstances           = "instances"
	NameCapacity            = "capacity"
)

// The names that refusals carry beside those of filters: what the filter
// capacity drops for another reason than room.
const (
	nameUnits = "units"
	nameSize  = "size"
	nameInUse = "in_use"

	NamePromised = "promised" // there is room when the window opens, and others are promised it later
)

// Info describes a filter and its configuration.
type Info struct {
	Name    string
	Help    string // one line
	Tier    api.Tier
	Default bool // is in DefaultSpecs
	Options []Option
	Example api.FilterSpec // New takes it
}

// Option is one option of a filter.
type Option struct {
	Name     string
	Help     string
	Required bool
}

// kind is one filter that can be configured.
type kind struct {
	help     string
	optional bool // not in the default
	options  []Option
	example  map[string]string
	// build makes the filter and returns the errors in its options. All required ones
	// are set.
	build func(o map[string]string) (Filter, []string)
	name  string
}

// withoutOptions makes a filter without options.
func withoutOptions(f func() Filter) func(map[string]string) (Filter, []string) {
	return func(map[string]string) (Filter, []string) { return f(), nil }
}

// kinds are all filters in their default order: the caller's hints about single hosts,
// the policies of the operator, properties of hosts, their current state, and room. The
// first filter that drops a host counts it, so the further down the reason, the closer
// the host is to taking the slot. The first filters are also the cheapest: most do
// nothing without a demand, and the rest are a few operations on bitsets.
var kinds = []kind{
	{name: NameAllHosts, help: "passes every host; alone, it switches all others off", optional: true, build: withoutOptions(newAllHosts)},
	{name: NameForcedHosts, help: "passes only hosts that the hint force_hosts names", build: withoutOptions(newForcedHosts)},
	{name: NameIgnoredHosts, help: "drops hosts that the hint ignore_hosts names", build: withoutOptions(newIgnoredHosts)},
	{name: NameSameHost, help: "passes hosts of the instances in the hint same_host", build: withoutOptions(newSameHost)},
	{name: NameDifferentHost, help: "drops hosts of the instances in the hint different_host", build: withoutOptions(newDifferentHost)},
	{name: NameNear, help: "passes hosts whose attribute ip lies in the network of the hint near", build: withoutOptions(newNear)},
	{name: NameQuery, help: "passes hosts for which the hint query is true", build: withoutOptions(newQuery)},
	{name: namePool, help: "passes hosts whose pool takes the request", build: withoutOptions(newPool)},
	{
		name: nameProjectIsolation, help: "keeps hosts of aggregates with metadata " + api.MetaProjects + "* to the projects named there",
		options: []Option{{Name: optionStrict, Help: "true: a project that is named takes no other host; default false"}},
		example: map[string]string{optionStrict: "true"}, build: buildProjectIsolation,
	},
	{
		name: nameIsolated, help: "keeps some images to some hosts", optional: true,
		options: []Option{
			{Name: optionImages, Help: "comma separated image references", Required: true},
			{Name: optionHosts, Help: "comma separated names of the hosts that run them", Required: true},
			{Name: optionRestrict, Help: "true: these hosts run nothing else; default true"},
		},
		example: map[string]string{optionImages: "win", optionHosts: "node1,node2"}, build: buildIsolated,
	},
	{name: nameDriver, help: "drops hosts that need a command when the flavor has none", build: withoutOptions(newDriver)},
	{name: NameAvailabilityZone, help: "passes hosts of the availability zone that is asked for", build: withoutOptions(newAvailabilityZone)},
	{name: NameTraits, help: "passes hosts with the traits that are required, and without those forbidden", build: withoutOptions(newTraits)},
	{name: NameAggregateExtraSpecs, help: "matches extra specs " + ScopeAggregate + "KEY with metadata of aggregates", build: withoutOptions(newAggregateExtraSpecs)},
	{name: NameImageProperties, help: "matches architecture, hypervisor_type and os_type of the image with attributes", build: withoutOptions(newImageProperties)},
	{name: NameExtraSpecs, help: "matches plain extra specs and " + scopeCapabilities + "KEY with attributes", build: withoutOptions(newExtraSpecs)},
	{name: nameHostState, help: "passes hosts that are up, enabled and not in maintenance", build: withoutOptions(newHostState)},
	{name: NameServerGroup, help: "holds affinity and anti-affinity", build: withoutOptions(newServerGroup)},
	{
		name: nameInstances, help: "limits the instances on one host", optional: true,
		options: []Option{{Name: optionMax, Help: "instances on one host, 1 to " + strconv.Itoa(instancesMax), Required: true}},
		example: map[string]string{optionMax: "50"}, build: buildInstances,
	},
	{name: NameCapacity, help: "passes hosts with room for one slot, or idle ones; reports " + nameUnits + ", " + nameSize + ", " + nameInUse + " and " + NamePromised + " apart", build: withoutOptions(newCapacity)},
}

// The options.
const (
	optionStrict   = "strict"
	optionImages   = "images"
	optionHosts    = "hosts"
	optionRestrict = "restrict"
	optionMax      = "max"
)

// instancesMax bounds the option max of the filter instances.
const instancesMax = 1_000_000

func buildProjectIsolation(o map[string]string) (Filter, []string) {
	strict, wrong := readBool(o, optionStrict, false)
	return newProjectIsolation(strict), wrong
}

func buildIsolated(o map[string]string) (Filter, []string) {
	restrict, wrong := readBool(o, optionRestrict, true)
	return newIsolated(splitWords(o[optionImages]), splitWords(o[optionHosts]), restrict), wrong
}

func buildInstances(o map[string]string) (Filter, []string) {
	most, err := strconv.Atoi(o[optionMax])
	if err != nil || most < 1 || most > instancesMax {
		return Filter{}, []string{fmt.Sprintf("option %s must be 1 to %d, got %q", optionMax, instancesMax, o[optionMax])}
	}
	return newInstances(most), nil
}

func readBool(o map[string]string, name string, otherwise bool) (bool, []string) {
	switch text, there := o[name]; {
	case !there:
		return otherwise, nil
	case text == "true" || text == "false":
		return text == "true", nil
	default:
		return false, []string{fmt.Sprintf("option %s must be true or false, got %q", name, text)}
	}
}

// makeFilter builds the filter, or returns all errors in its options.
func (k *kind) makeFilter(o map[string]string) (Filter, []string) {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.ContainsFunc(k.options, func(x Option) bool { return x.Name == name }) {
			wrong = append(wrong, fmt.Sprintf("has no option %q", name))
		}
	}
	complete := true
	for _, x := range k.options {
		if x.Required && len(splitWords(o[x.Name])) == 0 {
			complete = false
			wrong = append(wrong, "needs the option "+x.Name)
		}
	}
	if !complete {
		return Filter{}, wrong
	}
	f, more := k.build(o)
	return f, append(wrong, more...)
}

// New returns the filters that specs name, in that order; those of Default for none.
// One error of CodeInvalid lists everything wrong: unknown names and options, options
// that are missing or out of range, filters named twice, and more than api.FiltersMax.
func New(specs []api.FilterSpec) ([]Filter, error) {
	if len(specs) > api.FiltersMax {
		return nil, api.Errorf(api.CodeInvalid, "a zone may have at most %d filters, got %d", api.FiltersMax, len(specs))
	}
	if len(specs) == 0 {
		return Default(), nil
	}
	var out []Filter
	var unknown, wrong []string
	seen := map[string]int{}
	for _, s := range specs {
		if seen[s.Name]++; seen[s.Name] == 2 {
			wrong = append(wrong, fmt.Sprintf("%q is there twice", s.Name))
		}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == s.Name })
		if i < 0 {
			unknown = append(unknown, strconv.Quote(s.Name))
			continue
		}
		f, bad := kinds[i].makeFilter(s.Options)
		for _, text := range bad {
			wrong = append(wrong, s.Name+" "+text)
		}
		out = append(out, f)
	}
	if len(unknown) > 0 {
		var known []string
		for _, k := range kinds {
			known = append(known, k.name)
		}
		wrong = append(wrong, "there is no filter "+strings.Join(unknown, ", ")+"; there are "+strings.Join(known, ", "))
	}
	if len(wrong) > 0 {
		return nil, api.Errorf(api.CodeInvalid, "filters: %s", strings.Join(wrong, "; "))
	}
	return out, nil
}

// DefaultSpecs returns the configuration of a zone without one: every filter that needs
// no option.
func DefaultSpecs() []api.FilterSpec {
	var out []api.FilterSpec
	for _, k := range kinds {
		if !k.optional {
			out = append(out, api.FilterSpec{Name: k.name})
		}
	}
	return out
}

// Default returns the filters of DefaultSpecs.
func Default() []Filter {
	var out []Filter
	for _, k := range kinds {
		if k.optional {
			continue
		}
		f, _ := k.build(nil) // cannot fail without options; a test builds them all
		out = append(out, f)
	}
	return out
}

// Known returns every filter in the order of the default.
func Known() []Info {
	var out []Info
	for _, k := range kinds {
		f, _ := k.build(k.example) // examples are valid; a test passes them to New
		out = append(out, Info{
			Name: k.name, Help: k.help, Tier: f.Tier, Default: !k.optional, Options: slices.Clone(k.options),
			Example: api.FilterSpec{Name: k.name, Options: maps.Clone(k.example)},
		})
	}
	return out
}
