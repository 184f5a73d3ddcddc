// Package costs prices the hosts that may take a slot. A cost is a whole number
// of points and lower is better; the price of a host is the sum of its costs
// times their weights.
//
// One point is the worth of 1 MiB of memory, in every zone and for ever; see
// [Points] for the other resource classes. The scale is fixed, never relative to
// the other candidates: a price means the same in every zone, so plans of several
// zones can be merged, and the price of one host changes only when that host does.
// Each cost lies in [0, ScaleMax] before its weight, and sums are exact.
//
// Every cost of a host is a straight line, cut off at both ends, over the slots
// that the group has taken there. So the costs are looked up once for all hosts,
// column by column, and a host that takes a slot is priced again from the same
// columns without looking at anything else. That holds too where several hosts
// draw from one pool: what one takes of it does not change the price of another
// within a request, only whether there is room.
//
// The package never drops a host: who may not take a slot is for package filters.
// It is pure and safe for concurrent use.
package costs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/api"
)

// ScaleMax is the largest value of a cost before its weight, in points: free memory of
// 1 PiB. Larger values count as ScaleMax.
const ScaleMax = 1 << 30

// TotalMax bounds the sum of all costs of a host: [-TotalMax, TotalMax].
const TotalMax = api.FiltersMax * WeightMax * ScaleMax

// WeightMax bounds a weight: [-WeightMax, WeightMax].
const WeightMax = 1000

// The names of the costs. Each is in points before its weight.
const (
	// Constant is 1 for every host.
	Constant = "constant"
	// FillFirst is the worth of what is free over the window of the request: fuller
	// hosts are cheaper. Option class; by default MEMORY_MB, or of a group that asks for none the
	// class of which it asks for the most, by points. For a host that draws from
	// others it is what is free in the view everywhere that it reaches, shared pools
	// whole, less what slots of the request on this host take.
	FillFirst = "fill_first"
	// Spread is ScaleMax less the worth of what is free: emptier hosts are cheaper.
	// Option class as for FillFirst.
	Spread = "spread"
	// specialCost is specialPoints for each special thing of the host that the group does
	// not ask for. Things are resource classes that the host has capacity of, option
	// classes, default all that IsSpecial; and traits, option traits, default none.
	// Capacity counts wherever the host may draw from, traits also below it. Both
	// options are lists with commas. A group asks for the classes of its resources and
	// for the traits that it requires or that one of its lists names.
	specialCost = "special"
	// ownerSpread is ownerPoints for each instance and held slot of the same project.
	ownerSpread = "owner_spread"
	// serverGroup is what the soft rules of the request make of the host: memberPoints
	// more for each member of a rule of soft anti-affinity, memberPoints less for each
	// member of a rule of soft affinity. It begins at 0, or at half of ScaleMax for a
	// group that a rule of soft affinity binds.
	serverGroup = "server_group"
	// Evictions is the worth of what preemptibles have to leave for the slot, where the
	// request may have their room; 0 for any other. Option class, default MEMORY_MB. Of a whole
	// host it is all that they use there.
	Evictions = "evictions"
	// Gap is for preemptible requests, 0 for any other: how badly the time until somebody has
	// the room fits. With a lifetime it is gapPoints for each second that the gap is longer, and
	// ScaleMax where it is shorter: short work goes into short gaps. Without one it is ScaleMax
	// less gapPoints for each second of the gap.
	Gap = "gap"
	// instancesCost is instancePoints for each instance and held slot.
	instancesCost = "instances"
	// buildFailures is failurePoints for each instance that could not be started since
	// one could; 64 of them reach ScaleMax.
	buildFailures = "build_failures"
	// attributeCost is the value of an attribute that is a number, such as price or power.
	// Option attribute names it; option scale says how many points 1 is worth, 1 to
	// ScaleMax, default attributeScale. Parts of a point are dropped, and what is below
	// 0 counts as 0. A host without such a number is dearest whatever the sign of the
	// weight: it costs ScaleMax under a weight above 0, and 0 under one below.
	attributeCost = "attribute"
)

// The weights of counted things, in points.
const (
	specialPoints  = 1 << 20 // each special thing that the group does not ask for
	ownerPoints    = 1 << 16 // each instance of the same project
	memberPoints   = 1 << 24 // each member of a soft rule
	instancePoints = 1 << 12 // each instance
	failurePoints  = 1 << 24 // each recent failure
	gapPoints      = 1 << 4  // each second of a gap
	attributeScale = 1000    // 1 of an attribute, by default
)

// cost is a named cost: which options it takes, and how it looks at the hosts.
type cost struct {
	name    string
	options []string
	help    string // what it makes dear
	line    func(l *Look, o options, weight int64) line
}

var all = []cost{
	{attributeCost, []string{"attribute", "scale"}, "the number that an attribute of the host has, such as a price (options attribute, scale)", attributeLine},
	{buildFailures, nil, "instances that could not be started there since one could", failureLine},
	{Constant, nil, "1 for every host", constantLine},
	{Evictions, []string{"class"}, "what preemptible instances have to leave for it (option class)", evictionLine},
	{FillFirst, []string{"class"}, "what is free: fuller hosts are cheaper (option class)", fillLine},
	{Gap, nil, "a time until a lease starts there that is shorter than the lifetime of a preemptible instance, or longer than needed", gapLine},
	{instancesCost, nil, "instances that are there", instanceLine},
	{ownerSpread, nil, "instances of the same project that are there", ownerLine},
	{serverGroup, nil, "what soft rules and server groups ask for", ruleLine},
	{specialCost, []string{"classes", "traits"}, "special things, such as accelerators, that are not asked for (options classes, traits)", specialLine},
	{Spread, []string{"class"}, "what is taken: emptier hosts are cheaper (option class)", spreadLine},
}

// Help describes in one line what makes a host dear; "" for an unknown cost.
func Help(name string) string {
	for _, c := range all {
		if c.name == name {
			return c.help
		}
	}
	return ""
}

// Names returns the names of all costs, in order.
func Names() []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.name
	}
	return out
}

// Set is costs with their weights. The zero Set prices every host 0, so that
// host ids alone decide.
type Set struct{ terms []term }

type term struct {
	weight  int64
	options options
	line    func(l *Look, o options, weight int64) line
}

// New returns the set of the given weights. A weight of 0 switches a cost off; a
// negative one reverses the preference. One cost may appear several times with
// different options. It returns one invalid-input error that names every cost that is
// unknown, given twice, or has an option that it does not take or a weight outside
// [-WeightMax, WeightMax], or more than api.FiltersMax costs.
func New(weights []api.CostWeight) (Set, error) {
	var s Set
	var wrong []string
	if len(weights) > api.FiltersMax {
		wrong = append(wrong, fmt.Sprintf("%d are more than %d", len(weights), api.FiltersMax))
	}
	seen := map[string]bool{}
	for _, w := range weights {
		i := slices.IndexFunc(all, func(c cost) bool { return c.name == w.Name })
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("%q is unknown", w.Name))
			continue
		}
		o, faults := all[i].readOptions(w.Options)
		for _, f := range faults {
			wrong = append(wrong, fmt.Sprintf("%q %s", w.Name, f))
		}
		if w.Weight < -WeightMax || w.Weight > WeightMax {
			wrong = append(wrong, fmt.Sprintf("%q has a weight of %d", w.Name, w.Weight))
		}
		key := w.Name + " " + o.String()
		if seen[key] && len(faults) == 0 {
			wrong = append(wrong, fmt.Sprintf("%q is given twice", w.Name))
		}
		seen[key] = true
		if w.Weight != 0 {
			s.terms = append(s.terms, term{w.Weight, o, all[i].line})
		}
	}
	if len(wrong) > 0 {
		return Set{}, api.Errorf(api.CodeInvalid, "costs: %s; known are %s, each once for the same options, with a weight from %d to %d",
			strings.Join(wrong, ", "), strings.Join(Names(), ", "), -WeightMax, WeightMax)
	}
	return s, nil
}

// readOptions reads the options of c and returns the errors in them, in order.
func (c *cost) readOptions(given map[string]string) (options, []string) {
	o := defaultOptions()
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(c.options, name) {
			wrong = append(wrong, fmt.Sprintf("has no option %q", name))
			continue
		}
		if fault := o.setOption(name, given[name]); fault != "" {
			wrong = append(wrong, fault)
		}
	}
	if c.name == attributeCost && given["attribute"] == "" {
		wrong = append(wrong, `needs the option "attribute"`)
	}
	return o, wrong
}

// DefaultWeights returns the weights of a zone without configuration: spread, 1, and
// server_group, 1.
func DefaultWeights() []api.CostWeight {
	return []api.CostWeight{{Name: Spread, Weight: 1}, {Name: serverGroup, Weight: 1}}
}

// Default returns the set of DefaultWeights.
func Default() Set {
	s, _ := New(DefaultWeights()) // known and in range; a test holds it
	return s
}

var special = map[api.ResourceClass]bool{"PGPU": true, "VGPU": true, "FPGA": true, "PCI_DEVICE": true, "SRIOV_NET_VF": true}

// IsSpecial reports whether a class is special hardware by default: PGPU, VGPU, FPGA,
// PCI_DEVICE, SRIOV_NET_VF, and every CUSTOM_ class.
func IsSpecial(c api.ResourceClass) bool {
	return special[c] || strings.HasPrefix(string(c), api.CustomPrefix)
}

// points is the worth of one unit of a class. Each is a power of two, so that
// ScaleMax is a whole number of units.
var points = map[api.ResourceClass]int64{
	api.MemoryMB: 1, "NUMA_MEMORY_MB": 1,
	api.VCPU: 1 << 12, "PCPU": 1 << 12, "NUMA_CORE": 1 << 12, "NUMA_THREAD": 1 << 12, "NUMA_SOCKET": 1 << 16,
	api.DiskGB: 1 << 6,
	"PGPU":     1 << 20, "FPGA": 1 << 20, "VGPU": 1 << 18, "VGPU_DISPLAY_HEAD": 1 << 14,
	"PCI_DEVICE": 1 << 18, "SRIOV_NET_VF": 1 << 14, "MEM_ENCRYPTION_CONTEXT": 1 << 14, "IPV4_ADDRESS": 1 << 10,
	"NET_BW_EGR_KILOBIT_PER_SEC": 1, "NET_BW_IGR_KILOBIT_PER_SEC": 1, "NET_PACKET_RATE_KILOPACKET_PER_SEC": 1,
	"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC": 1, "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC": 1,
}

// customPoints is the worth of one unit of each CUSTOM_ class.
const customPoints = 1 << 10

// Points returns the worth of one unit of a class, in points: 1 for MEMORY_MB,
// 4096 for VCPU, 64 for DISK_GB, customPoints for CUSTOM_*. The table never
// changes, because zones of different age merge their prices.
func Points(c api.ResourceClass) int64 { return cmp.Or(points[c], customPoints) }
