package check

import (
	"cmp"

	"berth/api"
)

// capacityOf returns floor((total - reserved) * ratio).
func capacityOf(v api.Inventory) int64 {
	ratio := int64(cmp.Or(v.AllocationRatio, 10_000))
	return (v.Total - v.Reserved) * ratio / 10_000
}

// admits reports whether one claim may have n of what v describes.
func admits(v api.Inventory, n int64) bool {
	least, most, step := cmp.Or(v.MinUnit, 1), cmp.Or(v.MaxUnit, capacityOf(v)), cmp.Or(v.StepSize, 1)
	return n >= least && n <= most && (n == least || n%step == 0)
}

// use sums up the firm claims whose window holds t, and the preemptible ones that
// have not ended by then.
func (h *host) use(class api.ResourceClass, t api.Instant) (firm, preemptible int64) {
	for _, c := range h.claims {
		switch {
		case c.end <= t:
		case c.class == api.Preemptible:
			preemptible += c.amounts[class]
		case c.start <= t:
			firm += c.amounts[class]
		}
	}
	return firm, preemptible
}

// instants returns where the use of a host may change within c, from now on.
func (h *host) instants(c *claim, now api.Instant) []api.Instant {
	from := max(c.start, now)
	at := []api.Instant{from}
	for _, o := range h.claims {
		if o.start > from && o.start < c.end {
			at = append(at, o.start)
		}
		if o.end > from && o.end < c.end {
			at = append(at, o.end)
		}
	}
	return at
}

// takesWork reports whether slots may come to h.
func (h *host) takesWork() bool { return !h.passive && h.up && h.enabled && h.maintenance == "" }

// gives reports whether h has room for n of a class over the window of c: at every
// instant among firm claims, and at this instant beside all claims.
func (h *host) gives(class api.ResourceClass, n int64, c *claim, now api.Instant) bool {
	v, has := h.stock()[class]
	if !has || !admits(v, n) {
		return false
	}
	room := capacityOf(v) - n
	firm, preemptible := h.use(class, now)
	if (c.class == api.Preemptible || c.start <= now) && firm+preemptible > room {
		return false
	}
	for _, t := range h.instants(c, now) {
		if firm, _ := h.use(class, t); c.class != api.Preemptible && firm > room {
			return false
		}
	}
	return true
}

// peak returns the most that is in use of a class at any instant from now on.
func (h *host) peak(class api.ResourceClass, now api.Instant) int64 {
	firm, preemptible := h.use(class, now)
	most := firm + preemptible
	for _, t := range h.instants(&claim{start: now, end: api.Forever}, now) {
		firm, _ := h.use(class, t)
		most = max(most, firm)
	}
	return most
}

// sum returns all that claims on h have of a class, now or later.
func (h *host) sum(class api.ResourceClass) (n int64) {
	for _, c := range h.claims {
		n += c.amounts[class]
	}
	return n
}

// oversold returns the first class of c that is above the capacity of h at some
// instant of c, "" if none is.
func (h *host) oversold(c *claim, now api.Instant) (api.ResourceClass, api.Instant) {
	instants := h.instants(c, now)
	if c.class == api.Preemptible {
		instants = []api.Instant{now} // it has no room of its own later
	}
	for _, class := range c.amounts.Classes() {
		for _, t := range instants {
			firm, preemptible := h.use(class, t)
			if t == now {
				firm += preemptible
			}
			if firm > capacityOf(h.stock()[class]) {
				return class, t
			}
		}
	}
	return "", 0
}

// overfull reports whether h has less of anything than is in use now.
func (h *host) overfull(now api.Instant) bool {
	for _, c := range h.claims {
		for class := range c.amounts {
			if firm, preemptible := h.use(class, now); firm+preemptible > capacityOf(h.stock()[class]) {
				return true
			}
		}
	}
	return false
}

// used returns what is in use on h now.
func (h *host) used(now api.Instant) api.Resources {
	out := api.Resources{}
	for _, c := range h.claims {
		if c.end <= now || c.class != api.Preemptible && c.start > now {
			continue
		}
		for class, n := range c.amounts {
			out[class] += n
		}
	}
	return out
}
