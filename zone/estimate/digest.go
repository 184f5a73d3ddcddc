package estimate

import (
	"slices"

	"berth/api"
	"berth/binding"
	"berth/buildplan"
	"berth/capacity"
	"berth/filters"
	"berth/raftstore/state"
	"berth/zone"
)

// Digest returns what neighbours may know of this zone: rounded totals over its own
// hosts and everything below, and how many instances of each flavor would fit. It is
// nil before the zone has a name.
func (e *Estimator) Digest() *api.Digest { return e.DigestOf(e.zone.View()) }

// DigestOf returns the digest of the zone at v.
func (e *Estimator) DigestOf(v *state.State) *api.Digest {
	if v.Zone == "" {
		return nil
	}
	d := &api.Digest{
		Zone: v.Zone, Sequence: v.Index(), At: e.zone.Instant(), Health: "up", Tags: v.Config.Tags,
		Classes: map[api.ResourceClass]api.ClassTotals{},
	}
	h := v.Hosts().Shown()
	d.Traits, d.AZs = h.Traits(), v.AZs()
	for c, t := range h.Totals() {
		if t.Total > 0 {
			d.Classes[c] = api.ClassTotals{Total: api.RoundUp(t.Total), Free: api.RoundUp(t.Free), SlotMin: api.RoundDown(t.SlotMin), SlotMax: api.RoundUp(t.SlotMax)}
		}
	}
	for _, f := range v.Flavors() {
		if len(d.Sketches) == sketchesMax {
			break
		}
		d.Sketches = append(d.Sketches, e.sketchFlavor(v, h, f))
	}
	e.addBelow(v, d)
	return d
}

// sketchesMax bounds a digest: flavors beyond it, by id, have no sketch, and no
// sketch never rules a zone out.
const sketchesMax = 64

// fitsMax is where a sketch stops counting.
const fitsMax = 1024

// sketchFlavor counts the slots with the shape of a flavor that fit, and prices the cheapest of them,
// ignoring its other demands: a sketch applies to every request of that shape. Other demands only leave
// fewer and dearer slots.
func (e *Estimator) sketchFlavor(v *state.State, h capacity.View, f *api.Flavor) api.FitSketch {
	req := &api.Request{
		Groups: []api.Group{{Count: 1, Flavor: f.ID, Resources: f.Resources}},
		Window: api.Window{Start: e.zone.Instant(), End: api.Forever}, Class: api.Firm,
	}
	s := &buildplan.Inputs{View: h, World: worldOf(v, req), Filters: filters.Default(), Costs: e.zoneCosts(v, req), Split: runParts}
	out := api.FitSketch{Flavor: f.ID, Resources: f.Resources}
	fits, price := buildplan.Sketch(s, req, 0, fitsMax)
	if out.Fits = roundToPower(fits); fits > 0 {
		out.Price = new(quantiseWeight(price))
	}
	return out
}

// addBelow adds the children's digests. A child without a recent digest makes the sum
// partial.
func (e *Estimator) addBelow(v *state.State, d *api.Digest) {
	for _, l := range v.Children() {
		if l.State == api.LinkPaused {
			continue
		}
		below, age, ok := e.digests.Digest(l.Zone)
		if !ok || age > zone.LinkFresh { // what it has cannot be had
			d.Partial = true
			continue
		}
		d.Partial = d.Partial || below.Partial
		addDigest(d, &below, l)
		d.AZs = sortedUnion(d.AZs, binding.AZsOf(&v.Config.Bindings, l, &below))
	}
}

// addDigest adds the digest of a child to one of this zone.
func addDigest(d, below *api.Digest, l *api.Link) {
	d.Tags, d.Traits = sortedUnion(d.Tags, below.Tags), sortedUnion(d.Traits, below.Traits)
	for c, t := range below.Classes {
		sum := d.Classes[c]
		sum.Total += t.Total
		sum.Free = min(sum.Free+t.Free, api.AmountMax)
		sum.SlotMax = max(sum.SlotMax, t.SlotMax)
		if sum.SlotMin == 0 || t.SlotMin < sum.SlotMin {
			sum.SlotMin = t.SlotMin
		}
		d.Classes[c] = sum
	}
	for i := range d.Sketches {
		addSketch(&d.Sketches[i], below, l)
	}
}

// addSketch adds what a child fits of a shape, and its price as the link adjusts it. If the child has
// slots of unknown price, so has the sum.
func addSketch(s *api.FitSketch, below *api.Digest, l *api.Link) {
	n := fitsIn(below, s.Resources)
	known := s.Fits == 0 || s.Price != nil
	s.Fits += n
	if n == 0 {
		return
	}
	price := priceIn(below, s.Resources, l)
	switch {
	case !known || price == nil:
		s.Price = nil
	case s.Price == nil || quantiseWeight(*price) < *s.Price:
		s.Price = new(quantiseWeight(*price))
	}
}

// sortedUnion returns the elements of a or b, sorted.
func sortedUnion(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// fitsIn returns the fits of a shape in a digest. Without a sketch it is 1, so that the
// zone is asked.
func fitsIn(d *api.Digest, shape api.Resources) int64 {
	for i := range d.Sketches {
		if d.Sketches[i].Resources.Equal(shape) {
			return d.Sketches[i].Fits
		}
	}
	return 1
}

// priceIn returns the price of the cheapest slot of a shape in a child's digest, as its link adjusts it;
// nil if it is not known.
func priceIn(d *api.Digest, shape api.Resources, l *api.Link) *int64 {
	for i := range d.Sketches {
		if s := &d.Sketches[i]; s.StartIn == 0 && s.Resources.Equal(shape) && s.Price != nil {
			price := []int64{*s.Price}
			limitWeights([][]int64{price})
			return &buildplan.Adjust(price, l.Offset, l.Scale)[0]
		}
	}
	return nil
}

// quantiseWeight rounds a weight down to a multiple of WeightQuantum.
func quantiseWeight(w int64) int64 { return w - ((w%WeightQuantum)+WeightQuantum)%WeightQuantum }

// roundToPower rounds a count down to a power of two.
func roundToPower(n int64) int64 {
	q := int64(0)
	for p := int64(1); p <= n; p *= 2 {
		q = p
	}
	return q
}
