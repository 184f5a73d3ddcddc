package capacity

import "berth/api"

// RoomUntil returns until when at least the preemptibles on the provider in row may stay: the
// first instant from now on at which what is firm then, what is closed to preemptibles then and
// what is preemptible now exceed the capacity in a class of r. It is api.Forever for never.
func (v View) RoomUntil(row int, r api.Resources) api.Instant { return v.roomUntil(row, r, 0) }

// roomUntil is RoomUntil beside that many more claims of r.
func (v View) roomUntil(row int, r api.Resources, more int64) api.Instant {
	d := v.data()
	c, i := d.chunkOf(row)
	until := api.Forever
	for name := range r { // in any order: the earliest of all counts
		class := d.classes.numberOf(name)
		col := c.column(class)
		if col == nil || r[name] < 1 {
			continue
		}
		left := col.now.at[i] - col.closed.value(i) - more*r[name]
		if left < 0 {
			return d.now
		}
		for n, e := range c.timelines.at[i] {
			if e.class != class {
				continue
			}
			left -= e.firm + e.closing
			// What happens at one instant counts together: no class has two edges there.
			if left < 0 {
				until = min(until, c.timelines.at[i][n].at)
				break
			}
		}
	}
	return until
}

// GapColumn returns, for every row, until when one more preemptible claim of r could stay on the
// provider if nothing new is asked for: see RoomUntil. Holes, and providers on which nothing is
// to come, have api.Forever, and it is nil if that is so of all. What a host draws from others does
// not count.
func (v View) GapColumn(r api.Resources) []api.Instant {
	var out []api.Instant
	for n, c := range v.data().chunks {
		for i := range (Set{c.timed[:]}).All() {
			until := v.roomUntil(n*chunkHosts+i, r, 1)
			if until == api.Forever {
				continue
			}
			if out == nil {
				out = make([]api.Instant, v.Rows())
				for row := range out {
					out[row] = api.Forever
				}
			}
			out[n*chunkHosts+i] = until
		}
	}
	return out
}

// PreemptibleColumn returns what preemptibles use of a class now, for every row; holes are 0. For
// a compound host it is the sum over everything that slots there may draw from, at most the
// largest int64. It is nil if they use nothing anywhere.
func (v View) PreemptibleColumn(class api.ResourceClass) []int64 {
	var out []int64
	number := v.data().classes.numberOf(class)
	for n, c := range v.data().chunks {
		col := c.column(number)
		if col == nil {
			continue
		}
		for i := range (Set{col.soft[:]}).All() {
			if out == nil {
				out = make([]int64, v.Rows())
			}
			out[n*chunkHosts+i] = col.capacity.at[i] - col.now.at[i] - col.firm.at[i]
		}
	}
	if out != nil {
		v.addReached(out)
	}
	return out
}
