package capacity

import "berth/api"

// RoomUntil returns until when at least the preemptibles on the provider in row may stay: the
// first instant from now on at which what is firm then, what is closed to preemptibles then and
// what is preemptible now exceed the capacity in a class of r. It is api.Forever for never.
func (v View) RoomUntil(row int, r api.Resources) api.Instant {
	d := v.data()
	c, i := d.chunkOf(row)
	until := api.Forever
	for name := range r { // in any order: the earliest of all
		class := d.classes.numberOf(name)
		col := c.column(class)
		if col == nil || r[name] < 1 {
			continue
		}
		left := col.now.at[i] - col.fenced.value(i)
		if left < 0 {
			return d.now
		}
		for n, e := range c.timelines.at[i] {
			if e.class != class {
				continue
			}
			left -= e.firm + e.fence
			// What happens at one instant counts together: no class has two edges there.
			if left < 0 {
				until = min(until, c.timelines.at[i][n].at)
				break
			}
		}
	}
	return until
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
		for i := range chunkHosts {
			use := col.capacity.at[i] - col.now.at[i] - col.firm.at[i]
			if use == 0 {
				continue
			}
			if out == nil {
				out = make([]int64, v.Rows())
			}
			out[n*chunkHosts+i] = use
		}
	}
	if out != nil {
		v.addReached(out)
	}
	return out
}
