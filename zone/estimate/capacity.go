package estimate

import (
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/capacity"
	"berth/raftstore/state"
	"berth/zone"
)

// CapacityOf returns the capacity of the zone at v and of its children, with the free
// amounts at an instant; 0 stands for now. With name it returns only that zone. It
// fails with CodeInvalid for an instant in the past or more than api.WindowMax ahead,
// and with CodeNotFound for a zone that is neither this one nor a direct child.
func (e *Estimator) CapacityOf(v *state.State, at api.Instant, name string) (*rest.Capacity, error) {
	now := e.zone.Instant()
	if at == 0 {
		at = now
	}
	if at < now || at > now.Add(api.WindowMax) {
		return nil, api.Errorf(api.CodeInvalid, "at must be from now on, which is %s, and at most %d days ahead", now, api.WindowMax/(24*time.Hour))
	}
	c := &rest.Capacity{At: at, Zones: []rest.ZoneCapacity{{Name: v.Name, Exact: true, Heard: true, Classes: ownCapacity(v.Hosts(), at)}}}
	for _, l := range v.Children() {
		c.Zones = append(c.Zones, e.childCapacity(l))
	}
	if name == "" {
		c.Sum = sumCapacity(c.Zones)
		return c, nil
	}
	for _, one := range c.Zones {
		if one.Name == name {
			c.Zones = []rest.ZoneCapacity{one}
			return c, nil
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no zone %q is this one, or a child of it", name)
}

// ownCapacity sums up all providers of a view, each once.
func ownCapacity(h capacity.View, at api.Instant) map[api.ResourceClass]rest.ClassCapacity {
	out := map[api.ResourceClass]rest.ClassCapacity{}
	for class, r := range h.Report(at) {
		out[class] = rest.ClassCapacity{
			Total: &r.Total, Reserved: &r.Reserved, Capacity: r.Capacity, Used: &r.Used, Free: r.FreeNow, FreeAt: &r.FreeAt,
		}
	}
	return out
}

// childCapacity returns the capacity that a child has reported for itself and
// everything below it.
func (e *Estimator) childCapacity(l *api.Link) rest.ZoneCapacity {
	c := rest.ZoneCapacity{Name: l.Name, Paused: l.State == api.LinkPaused, Classes: map[api.ResourceClass]rest.ClassCapacity{}}
	d, age, heard := e.digests.Digest(l.Zone)
	if !heard {
		c.Partial = true
		return c
	}
	c.Silent = age > zone.LinkFresh
	c.Heard, c.AgeMS, c.Partial = true, age.Milliseconds(), d.Partial || c.Silent
	for class, t := range d.Classes {
		if c.Silent {
			t.Free = 0
		}
		c.Classes[class] = rest.ClassCapacity{Capacity: t.Total, Free: t.Free}
	}
	return c
}

// sumCapacity adds up all zones that are neither paused nor silent.
func sumCapacity(zones []rest.ZoneCapacity) *rest.CapacitySum {
	sum := &rest.CapacitySum{Classes: map[api.ResourceClass]rest.ClassCapacity{}}
	for _, one := range zones {
		if one.Paused {
			continue
		}
		if one.Silent {
			sum.Partial = true
			continue
		}
		sum.Rounded = sum.Rounded || !one.Exact
		sum.Partial = sum.Partial || one.Partial
		for class, c := range one.Classes {
			s := sum.Classes[class]
			s.Capacity += c.Capacity
			s.Free += c.Free
			sum.Classes[class] = s
		}
	}
	return sum
}
