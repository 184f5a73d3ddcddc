package state

import (
	"fmt"
	"math"
	"strconv"

	"berth/api"
)

// DescribeShortfall returns why b cannot be committed with the slots that it holds, or "" if it can.
// It checks min_count of the boot and of each group, and the rule for zones.
func (s *bootsBook) DescribeShortfall(b *Boot) string {
	held, total := s.HeldSlots(b), 0
	counts := make([]int, len(held))
	for g := range held {
		for _, n := range held[g] {
			counts[g] += n
		}
		total += counts[g]
	}
	if total < b.Min {
		return fmt.Sprintf("holds %d instances and needs %d", total, b.Min)
	}
	for g, n := range counts {
		if least := b.Request.Groups[g].Min; n < least {
			return fmt.Sprintf("holds %d instances of group %s and needs %d", n, groupName(&b.Request, g), least)
		}
	}
	if b.Refill > 0 {
		if first, ok := s.boots.Get(joinKey(b.Request.Project, b.Request.Reservation)); ok {
			addPlaces(held, s.Survivors(first))
		}
	}
	return describeZoneShortfall(&b.Request, held)
}

// addPlaces adds numbers of instances by group and place.
func addPlaces(to, more []map[api.LinkID]int) {
	for g := range more {
		for at, n := range more[g] {
			to[g][at] += n
		}
	}
}

// describeZoneShortfall is DescribeShortfall for the rule for zones. Zones that hold a slot of any group count.
// A group has no skew if fewer than two zones count, or if a rule of affinity keeps it
// together.
func describeZoneShortfall(r *api.Request, held []map[api.LinkID]int) string {
	zones := map[api.LinkID]bool{}
	for _, group := range held {
		for at := range group {
			zones[at] = true
		}
	}
	switch {
	case len(zones) < r.Zones.MinZones:
		return fmt.Sprintf("holds instances in %d zones and needs %d", len(zones), r.Zones.MinZones)
	case r.Zones.Pack && len(zones) > 1:
		return fmt.Sprintf("holds instances in %d zones and must be in one", len(zones))
	case r.Zones.MaxSkew == 0:
		return ""
	}
	for g := range held {
		if r.Together(g) {
			continue
		}
		if skew := skewOf(held[g], zones); skew > r.Zones.MaxSkew {
			return fmt.Sprintf("holds %d instances of group %s more in one zone than in another, and may %d",
				skew, groupName(r, g), r.Zones.MaxSkew)
		}
	}
	return ""
}

// skewOf returns the difference between a group's fullest and emptiest zone.
func skewOf(group map[api.LinkID]int, zones map[api.LinkID]bool) int {
	most, least := 0, math.MaxInt
	for at := range zones {
		most, least = max(most, group[at]), min(least, group[at])
	}
	return max(most-least, 0)
}

func groupName(r *api.Request, g int) string {
	if n := r.Groups[g].Name; n != "" {
		return fmt.Sprintf("%q", n)
	}
	return strconv.Itoa(g)
}

// HeldSlots counts the instances that a commit of b would make, for each group of its
// request, by place: the link to a child, or "" for own hosts.
func (s *bootsBook) HeldSlots(b *Boot) []map[api.LinkID]int {
	out := make([]map[api.LinkID]int, len(b.Request.Groups))
	for g := range out {
		out[g] = map[api.LinkID]int{}
	}
	for _, id := range b.Holds {
		h, ok := s.holds.Get(joinKey(api.LinkID(""), id))
		if !ok || h.Decision != api.DecisionPending || h.State != api.HoldHeld {
			continue
		}
		for _, sl := range h.Slots {
			out[sl.Group][""]++
		}
		for _, p := range h.Parts {
			for _, i := range p.Instances {
				out[i.Group][p.Link]++
			}
		}
	}
	return out
}
