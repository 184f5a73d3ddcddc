package estimate

import (
	"time"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/state"
)

// Capacity is how much a zone and those below it have, can hand out and hand out.
type Capacity struct {
	At    api.Instant    `json:"at"`            // that FreeAt is about
	Zones []ZoneCapacity `json:"zones"`         // the zone itself, exactly, and its direct children by link
	Sum   *CapacitySum   `json:"sum,omitempty"` // nil if one zone was asked for
}

// ZoneCapacity is the capacity of one zone; of a child, of all zones below it too.
type ZoneCapacity struct {
	Name    string                              `json:"name"`
	Exact   bool                                `json:"exact"`             // false: rounded, as the zone said it AgeMS ago
	Heard   bool                                `json:"heard"`             // false: the zone has said nothing yet
	AgeMS   int64                               `json:"age_ms,omitempty"`  // of what was heard
	Partial bool                                `json:"partial,omitempty"` // it is old, or something below the zone has not been heard lately
	Paused  bool                                `json:"paused,omitempty"`  // it gets no new work, and is not in the sum
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}

// ClassCapacity is the capacity of one class. What nobody says is nil: a child says
// Capacity and Free alone, of its hosts that serve.
type ClassCapacity struct {
	Total    *int64 `json:"total,omitempty"` // before reserves and ratios
	Reserved *int64 `json:"reserved,omitempty"`
	Capacity int64  `json:"capacity"`          // that can be handed out
	Used     *int64 `json:"used,omitempty"`    // now
	Free     int64  `json:"free"`              // now, beside everything
	FreeAt   *int64 `json:"free_at,omitempty"` // at the instant, beside what is firm
}

// CapacitySum is the sum over all zones that are not paused. It has Capacity and
// Free alone.
type CapacitySum struct {
	Rounded bool                                `json:"rounded,omitempty"` // a child is in it
	Partial bool                                `json:"partial,omitempty"` // a zone is missing, or has not been heard lately
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}

// CapacityOf tells the capacity of the zone at v and of its children, with what is
// free at an instant; 0 stands for now. With name it tells of that zone alone. It
// fails with CodeInvalid for an instant that has passed or is more than
// api.WindowMax ahead, and with CodeNotFound for a zone that is neither this one
// nor a direct child.
func (e *Estimator) CapacityOf(v *state.State, at api.Instant, name string) (*Capacity, error) {
	now := e.zone.Instant()
	if at == 0 {
		at = now
	}
	if at < now || at > now.Add(api.WindowMax) {
		return nil, api.Errorf(api.CodeInvalid, "at must be from now on, which is %s, and at most %d days ahead", now, api.WindowMax/(24*time.Hour))
	}
	c := &Capacity{At: at, Zones: []ZoneCapacity{{Name: v.Name, Exact: true, Heard: true, Classes: ownCapacity(v.Hosts(), at)}}}
	for _, l := range v.Children() {
		c.Zones = append(c.Zones, e.childCapacity(l))
	}
	if name == "" {
		c.Sum = sumCapacity(c.Zones)
		return c, nil
	}
	for _, one := range c.Zones {
		if one.Name == name {
			c.Zones = []ZoneCapacity{one}
			return c, nil
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no zone %q is this one, or a child of it", name)
}

// ownCapacity tells what all providers of a view have, each once.
func ownCapacity(h capacity.View, at api.Instant) map[api.ResourceClass]ClassCapacity {
	out := map[api.ResourceClass]ClassCapacity{}
	for class, r := range h.Report(at) {
		out[class] = ClassCapacity{
			Total: &r.Total, Reserved: &r.Reserved, Capacity: r.Capacity, Used: &r.Used, Free: r.FreeNow, FreeAt: &r.FreeAt,
		}
	}
	return out
}

// childCapacity tells what a child has said of itself and of all below it.
func (e *Estimator) childCapacity(l *api.Link) ZoneCapacity {
	c := ZoneCapacity{Name: l.Name, Paused: l.State == api.LinkPaused, Classes: map[api.ResourceClass]ClassCapacity{}}
	d, age, heard := e.digests.Digest(l.Zone)
	if !heard {
		c.Partial = true
		return c
	}
	c.Heard, c.AgeMS, c.Partial = true, age.Milliseconds(), d.Partial || age > digestAgeMax
	for class, t := range d.Classes {
		c.Classes[class] = ClassCapacity{Capacity: t.Total, Free: t.Free}
	}
	return c
}

// sumCapacity adds up all zones that are not paused.
func sumCapacity(zones []ZoneCapacity) *CapacitySum {
	sum := &CapacitySum{Classes: map[api.ResourceClass]ClassCapacity{}}
	for _, one := range zones {
		if one.Paused {
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
