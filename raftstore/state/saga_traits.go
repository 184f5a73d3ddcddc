package state

import (
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// TraitDemand is one demand of a request for traits: a host must have one of them.
type TraitDemand struct {
	Traits []string // sorted
	// Of are the instances and slots on a host that were asked for with the demand, by id.
	Of []*api.Instance
}

// String returns the traits as people read them.
func (d TraitDemand) String() string { return strings.Join(d.Traits, " or ") }

// demandsOf returns the traits that a group demands. Forbidden ones are none: a host that has them again takes no
// more, and what stands on it can leave.
func demandsOf(t *api.Traits) []TraitDemand {
	out := make([]TraitDemand, 0, len(t.Required)+len(t.AnyOf))
	for _, name := range t.Required {
		out = append(out, TraitDemand{Traits: []string{name}})
	}
	for _, list := range t.AnyOf {
		out = append(out, TraitDemand{Traits: list})
	}
	return out
}

// meeting returns the hosts that meet a demand, with what the providers below them have.
func (d TraitDemand) meeting(v capacity.View) capacity.Set {
	out := capacity.NewSet(v.Rows())
	for _, name := range d.Traits {
		out.Or(v.TreeTrait(name))
	}
	return out
}

// TraitsNowhere returns the demands of a group for traits that no host of the zone meets, but for the one with this
// id, "" for none.
func (s *sagaBook) TraitsNowhere(g *api.Group, but api.HostID) []TraitDemand {
	return s.nowhere(demandsOf(&g.Traits), but)
}

// TraitsNowhereElse returns the demands for traits of what stands on a host that no other host of the zone meets,
// by name: what has them cannot leave.
func (s *sagaBook) TraitsNowhereElse(id api.HostID) []TraitDemand {
	return s.nowhere(s.standingDemands(id), id)
}

func (s *sagaBook) nowhere(all []TraitDemand, but api.HostID) []TraitDemand {
	v := s.Hosts()
	from, known := v.Row(but)
	return slices.DeleteFunc(all, func(d TraitDemand) bool {
		has := d.meeting(v)
		has.And(v.Hosts())
		if known {
			has.Remove(from)
		}
		return !has.Empty()
	})
}

// MissingTraits returns the demands for traits of what stands on a host that the host does not meet any more, by
// name: its agent, which nobody can refuse, reports them no longer.
func (s *sagaBook) MissingTraits(id api.HostID) []TraitDemand {
	row, known := s.Hosts().Row(id)
	if !known {
		return nil
	}
	return slices.DeleteFunc(s.standingDemands(id), func(d TraitDemand) bool { return d.meeting(s.Hosts()).Has(row) })
}

// TraitInUse returns a demand of what stands on a host that a provider meets alone, with its own traits or those of
// a provider below it, and would not meet with others: nil traits if it leaves the host.
func (s *sagaBook) TraitInUse(id api.ProviderID, traits []string) (TraitDemand, bool) {
	v := s.Hosts()
	row, known := v.Row(api.HostID(id))
	if !known {
		return TraitDemand{}, false
	}
	root := v.Root(row)
	changed := func(r int) bool { return r == row }
	if traits == nil {
		tree := v.Tree(row)
		changed = func(r int) bool { return slices.Contains(tree, int32(r)) }
	}
	for _, d := range s.standingDemands(v.ID(root)) {
		had, keeps := false, slices.ContainsFunc(d.Traits, func(t string) bool { return slices.Contains(traits, t) })
		for _, name := range d.Traits {
			has := v.Trait(name)
			for _, r := range v.Tree(root) {
				had = had || has.Has(int(r))
				keeps = keeps || has.Has(int(r)) && !changed(int(r))
			}
		}
		if had && !keeps {
			return d, true
		}
	}
	return TraitDemand{}, false
}

// standingDemands returns the demands for traits of what stands on a host, by name.
func (s *sagaBook) standingDemands(id api.HostID) []TraitDemand {
	var out []TraitDemand
	asking := map[*Hold]bool{} // whether a hold demands any: most do not, and may be long
	for _, i := range s.allOn(id) {
		h, ok := s.Hold(i.Origin, i.Hold)
		if !ok || !i.Live() || i.Status == api.StatusDeleting {
			continue
		}
		asks, seen := asking[h]
		if !seen {
			asks = slices.ContainsFunc(h.Request.Groups, func(g api.Group) bool { return len(demandsOf(&g.Traits)) > 0 })
			asking[h] = asks
		}
		if !asks {
			continue
		}
		if n := slices.IndexFunc(h.Slots, func(sl command.Slot) bool { return sl.Instance.ID == i.ID }); n >= 0 {
			out = addDemands(out, demandsOf(&h.Request.Groups[h.Slots[n].Group].Traits), i)
		}
	}
	slices.SortFunc(out, func(a, b TraitDemand) int { return slices.Compare(a.Traits, b.Traits) })
	return out
}

// addDemands notes that an instance has some demands.
func addDemands(to, more []TraitDemand, i *api.Instance) []TraitDemand {
	for _, d := range more {
		n := slices.IndexFunc(to, func(o TraitDemand) bool { return slices.Equal(o.Traits, d.Traits) })
		if n < 0 {
			n, to = len(to), append(to, d)
		}
		to[n].Of = append(to[n].Of, i)
	}
	return to
}

// DescribeStanding returns what an instance or slot is to people: a server, or part of a reservation.
func DescribeStanding(i *api.Instance) string {
	if i.Reserved {
		return "reservation " + i.Group
	}
	return "server " + string(i.ID)
}
