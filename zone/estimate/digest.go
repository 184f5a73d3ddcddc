package estimate

import (
	"slices"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/filters"
	"berth/raftstore/state"
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
	h := v.Hosts()
	d.Traits, d.AZs = h.Traits(), v.AZs()
	for c, t := range h.Totals() {
		if t.Total > 0 {
			d.Classes[c] = api.ClassTotals{Total: roundUp(t.Total), Free: roundUp(t.Free), SlotMin: roundDown(t.SlotMin), SlotMax: roundUp(t.SlotMax)}
		}
	}
	for _, f := range v.Flavors() {
		if len(d.Sketches) == sketchesMax {
			break
		}
		d.Sketches = append(d.Sketches, api.FitSketch{Flavor: f.ID, Resources: f.Resources, Fits: e.countFits(v, h, f)})
	}
	e.addBelow(v, d)
	return d
}

// sketchesMax bounds a digest: flavors beyond it, by id, have no sketch, and no
// sketch never rules a zone out.
const sketchesMax = 64

// fitsMax is where a sketch stops counting.
const fitsMax = 1024

// countFits counts the slots with the shape of a flavor that fit, ignoring its other
// demands: a sketch applies to every request of that shape.
func (e *Estimator) countFits(v *state.State, h capacity.View, f *api.Flavor) int64 {
	req := &api.Request{
		Groups: []api.Group{{Count: 1, Flavor: f.ID, Resources: f.Resources}},
		Window: api.Window{Start: e.zone.Instant(), End: api.Forever}, Class: api.Firm,
	}
	s := &buildplan.Inputs{View: h, World: worldOf(v, req), Filters: filters.Default(), Split: runParts}
	return roundToPower(buildplan.Fits(s, req, 0, fitsMax))
}

// addBelow adds the children's digests. A child without a recent digest makes the sum
// partial.
func (e *Estimator) addBelow(v *state.State, d *api.Digest) {
	for _, l := range v.Children() {
		if l.State == api.LinkPaused {
			continue
		}
		below, age, ok := e.digests.Digest(l.Zone)
		if !ok || age > digestAgeMax {
			d.Partial = true
			continue
		}
		d.Partial = d.Partial || below.Partial
		addDigest(d, &below)
	}
}

func addDigest(d, below *api.Digest) {
	d.Tags, d.Traits, d.AZs = sortedUnion(d.Tags, below.Tags), sortedUnion(d.Traits, below.Traits), sortedUnion(d.AZs, below.AZs)
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
		d.Sketches[i].Fits += fitsIn(below, d.Sketches[i].Resources)
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

// roundingStep returns the distance between neighbours of n that have three leading
// binary digits, so that a rounded digest does not count hosts.
func roundingStep(n int64) int64 {
	s := int64(1)
	for n/s >= 8 {
		s *= 2
	}
	return s
}

// roundUp rounds up to three leading binary digits, so that rounding never hides free
// room.
func roundUp(n int64) int64 { return (n + roundingStep(n) - 1) / roundingStep(n) * roundingStep(n) }

// roundDown rounds down to three leading binary digits.
func roundDown(n int64) int64 { return n / roundingStep(n) * roundingStep(n) }

// roundToPower rounds a count down to a power of two.
func roundToPower(n int64) int64 {
	q := int64(0)
	for p := int64(1); p <= n; p *= 2 {
		q = p
	}
	return q
}
