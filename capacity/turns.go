package capacity

import (
	"slices"
	"time"

	"berth/api"
)

// Turns returns the starts in w, in order, at which it may change what fits: from one to the
// instant before the next, whatever a firm claim of that length could have on the rows of
// pass is the same. The first is w.Start, or now if that is later. Every row that gives to
// others counts, in pass or not.
//
// There is one wherever use falls, and one where such a claim would begin to reach into a
// rise of use. Time must not pass meanwhile: turns belong to the view.
func (v View) Turns(pass Set, w api.Window, length time.Duration) []api.Instant {
	d := v.data()
	from := max(w.Start, d.now)
	if from >= w.End {
		return nil
	}
	turns := []api.Instant{from}
	add := func(at api.Instant) {
		if at > from && at < w.End {
			turns = append(turns, at)
		}
	}
	add(d.now + 1) // from then on nothing that can be preempted is in the way
	for n, c := range d.chunks {
		for row := range (Set{c.timed[:]}).All() {
			if !c.specs.at[row].Passive && !pass.Has(n*chunkHosts+row) {
				continue
			}
			for _, e := range c.timelines.at[row] {
				switch {
				case e.firm < 0:
					add(e.at)
				case e.firm > 0:
					add(e.at - api.Instant((length + c.specs.at[row].Gap).Milliseconds()) + 1)
				}
			}
		}
	}
	slices.Sort(turns)
	return slices.Compact(turns)
}
