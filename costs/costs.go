// Package costs prices the hosts that may take a slot. A cost is a whole number
// and lower is better; the price of a host is the sum of its costs times their
// weights. Sums are exact and the scale is fixed, never relative to the other
// candidates: a price means the same in every zone, so plans of several zones
// can be merged, and the price of one host changes only when that host does.
//
// The package is pure and safe for concurrent use.
package costs

import (
	"fmt"
	"slices"
	"strings"

	"berth/api"
)

// ScaleMax is the largest value of a cost before its weight, in every zone and
// for ever: free memory of 1 PiB, in MiB. A host that has more counts as having
// that much.
const ScaleMax = 1 << 30

// WeightMax bounds a weight: [-WeightMax, WeightMax].
const WeightMax = 1000

// Host is what costs may look at, after everything that the same request has
// already placed there is taken off.
type Host struct {
	FreeMemoryMB int64 // over the window of the request, in MiB; below 0 on an over-full host
}

// The names of the costs.
const (
	FillFirst = "fill_first" // free memory: fuller hosts are cheaper
	Spread    = "spread"     // ScaleMax less free memory: emptier hosts are cheaper
	Constant  = "constant"   // 1 for every host
)

// cost is a named function from a host to [0, ScaleMax].
type cost struct {
	name string
	of   func(Host) int64
}

var all = []cost{
	{Constant, func(Host) int64 { return 1 }},
	{FillFirst, func(h Host) int64 { return clamp(h.FreeMemoryMB) }},
	{Spread, func(h Host) int64 { return ScaleMax - clamp(h.FreeMemoryMB) }},
}

func clamp(n int64) int64 { return min(max(n, 0), ScaleMax) }

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
	weight int64
	of     func(Host) int64
}

// New returns the set of the given weights. A weight of 0 switches a cost off;
// a negative one reverses the preference. It returns one invalid-input error
// that names every cost that is unknown, given twice, or has a weight outside
// [-WeightMax, WeightMax].
func New(weights []api.CostWeight) (Set, error) {
	var s Set
	var wrong []string
	seen := map[string]bool{}
	for _, w := range weights {
		i := slices.IndexFunc(all, func(c cost) bool { return c.name == w.Name })
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Sprintf("%q is unknown", w.Name))
		case seen[w.Name]:
			wrong = append(wrong, fmt.Sprintf("%q is given twice", w.Name))
		case w.Weight < -WeightMax || w.Weight > WeightMax:
			wrong = append(wrong, fmt.Sprintf("%q has a weight of %d", w.Name, w.Weight))
		case w.Weight != 0:
			s.terms = append(s.terms, term{w.Weight, all[i].of})
		}
		seen[w.Name] = true
	}
	if len(wrong) > 0 {
		return Set{}, api.Errorf(api.CodeInvalid, "costs: %s; known are %s, each once, with a weight from %d to %d",
			strings.Join(wrong, ", "), strings.Join(Names(), ", "), -WeightMax, WeightMax)
	}
	return s, nil
}

// DefaultWeights returns the weights of a zone that was told none: spread, 1.
func DefaultWeights() []api.CostWeight { return []api.CostWeight{{Name: Spread, Weight: 1}} }

// Default returns the set of DefaultWeights.
func Default() Set {
	s, _ := New(DefaultWeights()) // known and in range; a test holds it
	return s
}

// Of returns the price of h: the sum of weight times cost. It lies within
// ±ScaleMax * WeightMax for each cost in the set, so it never overflows.
func (s Set) Of(h Host) int64 {
	var sum int64
	for _, t := range s.terms {
		sum += t.weight * t.of(h)
	}
	return sum
}
