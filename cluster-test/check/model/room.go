package model

import (
	"cmp"

	"berth/api"
)

// capacityOf returns floor((total - reserved) * ratio).
func capacityOf(v api.Inventory) int64 {
	ratio := int64(cmp.Or(v.AllocationRatio, 10_000))
	return (v.Total - v.Reserved) * ratio / 10_000
}

// admitsUnits reports whether one claim may have n of what v describes.
func admitsUnits(v api.Inventory, n int64) bool {
	least, most, step := cmp.Or(v.MinUnit, 1), cmp.Or(v.MaxUnit, capacityOf(v)), cmp.Or(v.StepSize, 1)
	return n >= least && n <= most && (n == least || n%step == 0)
}

// useAt sums up the firm claims whose window holds t, and the preemptible ones that
// have not ended by then. A claim within another adds nothing; one that is to replace
// another adds what it needs beyond it.
func (h *Host) useAt(class api.ResourceClass, t api.Instant) (firm, preemptible int64) {
	for _, c := range h.Claims {
		switch {
		case c.Within != "" || h.until(c) <= t:
		case c.Class == api.Preemptible:
			preemptible += c.Amounts[class]
		case c.Start <= t:
			firm += h.beyond(c, class, t)
		}
	}
	return firm, preemptible
}

// covers reports whether the window of c holds t.
func (c *Claim) covers(t api.Instant) bool { return c != nil && c.Start <= t && t < c.End }

// until returns when the room of a claim on h is free again, and clean.
func (h *Host) until(c *Claim) api.Instant { return c.End.Add(h.Cleaning) }

// occupies reports whether c keeps others out of its room on h at t.
func (h *Host) occupies(c *Claim, t api.Instant) bool {
	return c != nil && c.Start <= t && t < h.until(c)
}

// beyond returns what c needs of a class on h at t beyond the claim that it is to replace.
func (h *Host) beyond(c *Claim, class api.ResourceClass, t api.Instant) int64 {
	n := c.Amounts[class]
	if h.occupies(c.Instead, t) {
		n = max(0, n-c.Instead.Amounts[class])
	}
	return n
}

// occupiesAny reports whether c keeps others out of its room on h at an instant of [from, to)
// from now on.
func (h *Host) occupiesAny(c *Claim, from, to, now api.Instant) bool {
	return max(c.Start, from, now) < min(h.until(c), to)
}

// isReserved reports whether all of h is claimed at an instant that counts for c.
func (h *Host) isReserved(c *Claim, now api.Instant) bool {
	for _, o := range h.Claims {
		if o.Whole && (c.Class == api.Preemptible && (h.occupies(o, now) || o.isClosed(now)) ||
			c.Class != api.Preemptible && h.occupiesAny(o, c.Start, h.until(c), now)) {
			return true
		}
	}
	return false
}

// isIdle reports whether nothing is claimed on h over [from, to), from now on. Preemptibles
// count if it has begun, unless whoever asks has them leave.
func (h *Host) isIdle(from, to, now api.Instant, pushes bool) bool {
	for _, o := range h.Claims {
		switch {
		case o.Within != "":
		case o.Class == api.Preemptible && from <= now && now < h.until(o) && !pushes:
			return false
		case o.Class != api.Preemptible && h.occupiesAny(o, from, to, now):
			return false
		}
	}
	return true
}

// changeInstants returns where the use of a host may change within c, from now on.
func (h *Host) changeInstants(c *Claim, now api.Instant) []api.Instant {
	from := max(c.Start, now)
	at := []api.Instant{from}
	for _, o := range h.Claims {
		for _, t := range []api.Instant{o.Start, h.until(o)} {
			if t > from && t < h.until(c) {
				at = append(at, t)
			}
		}
	}
	return at
}

// takesWork reports whether slots may come to h.
func (h *Host) takesWork() bool { return !h.Passive && h.Up && h.Enabled && h.Maintenance == "" }

// Gives reports whether h has room for n of a class over the window of c: at every
// instant among firm claims, and at this instant beside all claims.
func (h *Host) Gives(class api.ResourceClass, n int64, c *Claim, now api.Instant) bool {
	v, has := h.Stock()[class]
	if !has || !admitsUnits(v, n) || h.isReserved(c, now) {
		return false
	}
	room := capacityOf(v) - n
	firm, preemptible := h.useAt(class, now)
	if c.Class == api.Preemptible {
		return firm+preemptible+h.closedNow(class, now) <= room
	}
	if c.Start <= now && !c.Pushes && firm+preemptible > room {
		return false
	}
	for _, t := range h.changeInstants(c, now) {
		if firm, _ := h.useAt(class, t); firm > room {
			return false
		}
	}
	return true
}

// peakUse returns the most that is in use of a class at any instant from now on.
func (h *Host) peakUse(class api.ResourceClass, now api.Instant) int64 {
	firm, preemptible := h.useAt(class, now)
	most := firm + preemptible
	for _, t := range h.changeInstants(&Claim{Start: now, End: api.Forever}, now) {
		firm, _ := h.useAt(class, t)
		most = max(most, firm)
	}
	return most
}

// sumClaims returns all that claims on h have of a class, now or later.
func (h *Host) sumClaims(class api.ResourceClass) (n int64) {
	for _, c := range h.Claims {
		n += c.Amounts[class]
	}
	return n
}

// Oversold returns the first class of c that is above the capacity of h at some
// instant of c, "" if none is.
func (h *Host) Oversold(c *Claim, now api.Instant) (api.ResourceClass, api.Instant) {
	instants := h.changeInstants(c, now)
	if c.Class == api.Preemptible {
		instants = []api.Instant{now} // it has no room of its own later
	}
	for _, class := range c.Amounts.Classes() {
		for _, t := range instants {
			if had := c.Replaced; c.Within != "" || h.occupies(had, t) && had.Amounts[class] >= c.Amounts[class] {
				continue // it takes nothing that was not taken before
			}
			firm, preemptible := h.useAt(class, t)
			if t == now && !c.Pushes {
				firm += preemptible
			}
			if firm > capacityOf(h.Stock()[class]) {
				return class, t
			}
		}
	}
	return "", 0
}

// Overfull reports whether h has less of anything than is in use now.
func (h *Host) Overfull(now api.Instant) bool {
	for _, c := range h.Claims {
		for class := range c.Amounts {
			if firm, preemptible := h.useAt(class, now); firm+preemptible > capacityOf(h.Stock()[class]) {
				return true
			}
		}
	}
	return false
}

// Used returns what is in use on h now.
func (h *Host) Used(now api.Instant) api.Resources {
	out := api.Resources{}
	for _, c := range h.Claims {
		for class := range c.Amounts {
			if firm, preemptible := h.useAt(class, now); firm+preemptible > 0 {
				out[class] = firm + preemptible
			}
		}
	}
	return out
}

// UsedBy returns what is in use on h now, by consumer. What an undecided slot needs beyond the one
// that it takes over is nobody's yet.
func (h *Host) UsedBy(now api.Instant) map[api.ConsumerID]api.Resources {
	out := map[api.ConsumerID]api.Resources{}
	for _, c := range h.Claims {
		if c.End <= now || c.Class != api.Preemptible && c.Start > now || len(c.Amounts) == 0 || c.Within != "" || c.Keeps != "" {
			continue
		}
		if out[c.Consumer] == nil {
			out[c.Consumer] = api.Resources{}
		}
		for class, n := range c.Amounts {
			out[c.Consumer][class] += n
		}
	}
	return out
}

// UserOf returns the project of this zone that a consumer is of, and its type; "" for
// one of a parent.
func (m *Model) UserOf(id api.ConsumerID) (p api.ProjectID, kind string) {
	if c := m.Consumers[id]; c != nil {
		return c.Project, c.Kind
	}
	h := m.Held[id]
	if i := m.Instances[id]; h == nil && i != nil {
		h = i.Hold
	}
	if h == nil || h.ID.Origin != "" {
		return "", ""
	}
	return h.Request.Project, api.ConsumerInstance
}
