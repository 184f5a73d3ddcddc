package rest

import "berth/api"

// Root is what everybody may know of a node. ZoneInfo has the name and version of its zone.
type Root struct {
	Name string `json:"name"` // berth
}

// Zone is a zone that is linked to this one.
type Zone struct {
	ID        api.LinkID    `json:"id"`   // id of the link
	Name      string        `json:"name"` // name of the link
	Role      api.LinkRole  `json:"role"` // child or parent
	Zone      api.ZoneID    `json:"zone_id"`
	Endpoints []string      `json:"gateways"` // host:port; only for admins
	Offset    int64         `json:"weight_offset"`
	Scale     int64         `json:"weight_scale"`
	State     api.LinkState `json:"state"` // active or paused
	Created   api.Instant   `json:"created"`
	Updated   api.Instant   `json:"updated"`
	Health    string        `json:"health,omitempty"` // up, down or unknown
	Digest    *Digest       `json:"digest,omitempty"` // the last one received; only for admins

	Clock *Clock `json:"clock,omitempty"` // by how much the clock of that zone is ahead of that of the node that answers; absent where it is unknown, as on nodes that do not lead; only for admins

	Unconfirmed api.Incarnation `json:"unconfirmed_incarnation,omitempty"` // in which the zone was brought back from a backup, and which is to be confirmed with POST /zones/{id}/relink, as far as the node that answers has heard; only for admins

	// What an operator says of a child, for the choice of the zone that a project is bound to; only
	// for admins.
	AZ          string                      `json:"availability_zone,omitempty"` // the one that it offers; absent for those that it reports
	Tags        []string                    `json:"tags,omitempty"`              // affinity tags, as key=value
	Maintenance bool                        `json:"maintenance,omitempty"`       // new work goes elsewhere, what runs stays
	Headroom    map[api.ResourceClass]int64 `json:"headroom,omitempty"`          // percent of a class that stays free; absent for that of the configuration

	Share *ZoneShare `json:"share,omitempty"` // how much of this zone a parent may have, and has; only for admins
}

// ZoneShare is how much of a zone its parent may have at any instant, and has now.
type ZoneShare struct {
	Held      int                              `json:"held"`      // percent of each class in holds that the parent has not decided
	Committed int                              `json:"committed"` // percent of each class, decided or not
	Classes   map[api.ResourceClass]ClassShare `json:"classes"`   // that the zone has
}

// ClassShare is the part of a parent in one resource class of a zone.
type ClassShare struct {
	Held         int64 `json:"held"`          // now, in holds that the parent has not decided
	HeldMax      int64 `json:"held_max"`      // that it may have so
	Committed    int64 `json:"committed"`     // now, decided or not, preemptible instances included
	CommittedMax int64 `json:"committed_max"` // that it may have so
}

// ZoneInfo describes this zone itself.
type ZoneInfo struct {
	ID      api.ZoneID `json:"id"`
	Name    string     `json:"name"`
	Version string     `json:"version"`
	Digest  *Digest    `json:"digest,omitempty"`
}

// Relink is the body of a call that accepts the incarnation of a linked zone which was brought back from a backup.
type Relink struct {
	Incarnation api.Incarnation `json:"incarnation,omitempty"` // that a dry run has shown
	Gateways    []string        `json:"gateways,omitempty"`    // of the zone now; none keeps those of the link
	DryRun      bool            `json:"dry_run,omitempty"`     // ask the zone, and change nothing
}

// Relinked is what is known of a linked zone that was brought back from a backup.
type Relinked struct {
	Zone        string          `json:"zone"`
	Role        api.LinkRole    `json:"role"`
	Before      api.Incarnation `json:"before"`      // that was accepted before; 0 for a zone that was never brought back
	Incarnation api.Incarnation `json:"incarnation"` // that it has now
	At          api.Instant     `json:"at"`          // when it was brought back, by its clock
	Instances   int             `json:"instances"`   // of this zone in it, slots of leases included, that are compared with what it has
	DryRun      bool            `json:"dry_run,omitempty"`
}

// WriteOff is the body of a call that writes off the link to a zone which is gone for good.
type WriteOff struct {
	EndWork bool `json:"end_work,omitempty"` // end what a parent has in this zone; without it such work refuses the call
	DryRun  bool `json:"dry_run,omitempty"`  // change nothing, and answer what would be lost
}

// Losses is what is given up with a zone that is written off.
type Losses struct {
	Zone      string       `json:"zone"` // name of the link
	Role      api.LinkRole `json:"role"`
	Parts     int          `json:"parts"`            // of reservations, of which a child has not confirmed what was decided
	Instances int          `json:"instances"`        // in a child, slots of leases included: they count as gone
	Holds     int          `json:"holds"`            // of a parent, which it has not decided: they are aborted
	Ending    int          `json:"instances_to_end"` // of a parent, slots of leases included: they end first, and the link stays until then
	Unlinked  bool         `json:"unlinked"`         // the link is removed
	DryRun    bool         `json:"dry_run,omitempty"`
}

// Digest is the summary that a zone spreads by gossip.
type Digest struct {
	Zone     api.ZoneID                        `json:"zone_id"`
	Sequence uint64                            `json:"sequence"` // log index of the summary
	At       api.Instant                       `json:"at"`
	Health   string                            `json:"health"` // up or leaderless
	Paused   bool                              `json:"paused"`
	Tags     []string                          `json:"tags,omitempty"`
	Traits   []string                          `json:"traits,omitempty"`
	Classes  map[api.ResourceClass]ClassTotals `json:"classes"`
	Sketches []FitSketch                       `json:"fits,omitempty"`
	Partial  bool                              `json:"partial,omitempty"` // a zone below has not been heard from recently
	AZs      []string                          `json:"availability_zones,omitempty"`
}

// ClassTotals are rounded sums of one resource class over the hosts of a zone and
// all below it.
type ClassTotals struct {
	Total   int64 `json:"total"`
	Free    int64 `json:"free"`
	SlotMin int64 `json:"slot_min"` // smallest amount for one instance
	SlotMax int64 `json:"slot_max"` // largest amount for one instance
}

// FitSketch is the rounded number of instances of one shape that would fit.
type FitSketch struct {
	Flavor    api.FlavorID  `json:"flavor"`
	Resources api.Resources `json:"resources"`
	Fits      int64         `json:"fits"`
}

// LinkOf returns the body of a linked zone with its health and latest digest.
func LinkOf(l *api.Link, health string, d *api.Digest) Zone {
	return Zone{
		ID: l.ID, Name: l.Name, Role: l.Role, Zone: l.Zone, Endpoints: l.Endpoints, Offset: l.Offset, Scale: l.Scale, State: l.State,
		Created: l.Created, Updated: l.Updated, Health: health, Digest: DigestOf(d),
		AZ: l.Terms.AZ, Tags: l.Terms.Tags, Maintenance: l.Terms.Maintenance, Headroom: l.Terms.Headroom,
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

// Capacity is the total, usable and used capacity of a zone and its children.
type Capacity struct {
	At    api.Instant    `json:"at"`            // the instant of free_at
	Zones []ZoneCapacity `json:"zones"`         // the zone itself, exact, and its direct children
	Sum   *CapacitySum   `json:"sum,omitempty"` // absent if a single zone was requested
}

// ZoneCapacity is the capacity of one zone; for a child, including all zones below it.
type ZoneCapacity struct {
	Name    string                              `json:"name"`
	Exact   bool                                `json:"exact"`             // false: rounded, as reported age_ms ago
	Heard   bool                                `json:"heard"`             // false: the zone has reported nothing yet
	AgeMS   int64                               `json:"age_ms,omitempty"`  // age of the report
	Partial bool                                `json:"partial,omitempty"` // the report is old, or a zone below has not been heard from recently
	Paused  bool                                `json:"paused,omitempty"`  // the zone gets no new work, and is not in the sum
	Silent  bool                                `json:"silent,omitempty"`  // the zone is taken for down: nothing of it is free, and it is not in the sum
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}

// ClassCapacity is the capacity of one class. Unknown figures are absent: a child reports
// only capacity and free, for its hosts that serve.
type ClassCapacity struct {
	Total    *int64 `json:"total,omitempty"` // before reserves and ratios
	Reserved *int64 `json:"reserved,omitempty"`
	Capacity int64  `json:"capacity"`          // amount that can be allocated
	Used     *int64 `json:"used,omitempty"`    // allocated now
	Free     int64  `json:"free"`              // not allocated now
	FreeAt   *int64 `json:"free_at,omitempty"` // not taken by firm claims at the instant
}

// CapacitySum is the sum over all zones that are neither paused nor silent. It has only capacity and
// free.
type CapacitySum struct {
	Rounded bool                                `json:"rounded,omitempty"` // the sum includes a child
	Partial bool                                `json:"partial,omitempty"` // a zone is missing, or has not been heard from recently
	Classes map[api.ResourceClass]ClassCapacity `json:"classes"`
}
