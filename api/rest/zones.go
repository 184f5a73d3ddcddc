package rest

import "berth/api"

// Root is what a zone says of itself to everybody.
type Root struct {
	Name    string `json:"name"` // berth
	Version string `json:"version"`
	Zone    string `json:"zone"` // name of the zone
}

// Zone is a zone that is linked to this one.
type Zone struct {
	ID        api.LinkID    `json:"id"`   // of the link
	Name      string        `json:"name"` // of the link
	Role      api.LinkRole  `json:"role"` // child or parent
	Zone      api.ZoneID    `json:"zone_id"`
	Endpoints []string      `json:"gateways"` // host:port; for admins only
	Offset    int64         `json:"weight_offset"`
	Scale     int64         `json:"weight_scale"`
	State     api.LinkState `json:"state"` // active or paused
	Created   api.Instant   `json:"created"`
	Updated   api.Instant   `json:"updated"`
	Health    string        `json:"health,omitempty"` // up, down or unknown
	Digest    *Digest       `json:"digest,omitempty"` // the last one heard; for admins only
}

// ZoneInfo is what this zone says of itself.
type ZoneInfo struct {
	ID      api.ZoneID `json:"id"`
	Name    string     `json:"name"`
	Version string     `json:"version"`
	Digest  *Digest    `json:"digest,omitempty"`
}

// Digest is what a zone says of itself by gossip.
type Digest struct {
	Zone     api.ZoneID                        `json:"zone_id"`
	Sequence uint64                            `json:"sequence"` // applied log index
	At       api.Instant                       `json:"at"`
	Health   string                            `json:"health"` // up or leaderless
	Paused   bool                              `json:"paused"`
	Tags     []string                          `json:"tags,omitempty"`
	Traits   []string                          `json:"traits,omitempty"`
	Classes  map[api.ResourceClass]ClassTotals `json:"classes"`
	Sketches []FitSketch                       `json:"fits,omitempty"`
	Partial  bool                              `json:"partial,omitempty"` // a zone below was not heard lately
	AZs      []string                          `json:"availability_zones,omitempty"`
}

// ClassTotals are rounded sums of one resource class over the hosts of a zone and
// all below it.
type ClassTotals struct {
	Total   int64 `json:"total"`
	Free    int64 `json:"free"`
	SlotMin int64 `json:"slot_min"` // the smallest amount that one instance may have
	SlotMax int64 `json:"slot_max"` // the largest
}

// FitSketch says, rounded, how many instances of one shape would fit.
type FitSketch struct {
	Flavor    api.FlavorID  `json:"flavor"`
	Resources api.Resources `json:"resources"`
	Fits      int64         `json:"fits"`
}

// LinkOf returns the body of a linked zone as it was heard lately.
func LinkOf(l *api.Link, health string, d *api.Digest) Zone {
	return Zone{
		l.ID, l.Name, l.Role, l.Zone, l.Endpoints, l.Offset, l.Scale, l.State, l.Created, l.Updated, health, DigestOf(d),
	}
}

// DigestOf returns the body of a digest, nil for nil.
func DigestOf(d *api.Digest) *Digest {
	if d == nil {
		return nil
	}
	out := &Digest{
		Zone: d.Zone, Sequence: d.Sequence, At: d.At, Health: d.Health, Paused: d.Paused, Tags: d.Tags, Traits: d.Traits,
		Sketches: each(d.Sketches, func(s api.FitSketch) FitSketch { return FitSketch{s.Flavor, s.Resources, s.Fits} }),
		Partial:  d.Partial, AZs: d.AZs,
	}
	if d.Classes != nil {
		out.Classes = make(map[api.ResourceClass]ClassTotals, len(d.Classes))
	}
	for class, t := range d.Classes {
		out.Classes[class] = ClassTotals(t)
	}
	return out
}

// Capacity is how much a zone and those below it have, can hand out and hand out.
type Capacity struct {
	At    api.Instant    `json:"at"`            // that free_at is about
	Zones []ZoneCapacity `json:"zones"`         // the zone itself, exactly, and its direct children by link
	Sum   *CapacitySum   `json:"sum,omitempty"` // absent if one zone was asked for
}

// ZoneCapacity is the capacity of one zone; of a child, of all zones below it too.
type ZoneCapacity struct {
	Name    string                              `json:"name"`
	Exact   bool                                `json:"exact"`             // false: rounded, as the zone said it age_ms ago
	Heard   bool                                `json:"heard"`             // false: the zone has said nothing yet
	AgeMS   int64                               `json:"age_ms,omitempty"`  // of what was heard
	Partial bool                                `json:"partial,omitempty"` // it is old, or something below the zone has not been heard lately
	Paused  bool                                `json:"paused,omitempty"`  // it gets no new work, and is not in the sum
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}

// ClassCapacity is the capacity of one class. What nobody says is absent: a child
// says capacity and free alone, of its hosts that serve.
type ClassCapacity struct {
	Total    *int64 `json:"total,omitempty"` // before reserves and ratios
	Reserved *int64 `json:"reserved,omitempty"`
	Capacity int64  `json:"capacity"`          // that can be handed out
	Used     *int64 `json:"used,omitempty"`    // now
	Free     int64  `json:"free"`              // now, beside everything
	FreeAt   *int64 `json:"free_at,omitempty"` // at the instant, beside what is firm
}

// CapacitySum is the sum over all zones that are not paused. It has capacity and
// free alone.
type CapacitySum struct {
	Rounded bool                                `json:"rounded,omitempty"` // a child is in it
	Partial bool                                `json:"partial,omitempty"` // a zone is missing, or has not been heard lately
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}
