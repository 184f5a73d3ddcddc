package api

import (
	"maps"
	"slices"
	"time"
)

// Status is the life of an instance as its owner sees it.
type Status string

// The statuses, in the order of a life.
const (
	StatusBuild    Status = "BUILD"    // decided; its agent has not reported it running yet
	StatusActive   Status = "ACTIVE"   // runs
	StatusShutoff  Status = "SHUTOFF"  // its process ended by itself with exit code 0
	StatusError    Status = "ERROR"    // could not be started, or ended badly; Fault is the reason
	StatusDeleting Status = "DELETING" // ordered to stop; its claim stays until it is gone
	StatusDeleted  Status = "DELETED"  // gone, and its claim with it
)

// Instance is an instance on a host. The record of the owning zone has Host set; those of
// zones above are directory entries with Link set instead.
type Instance struct {
	// InstanceTerms and InstanceExtras are never nil. They are shared, so whoever changes one
	// makes a copy of them first: see ChangeTerms and ChangeExtras.
	*InstanceTerms
	*InstanceExtras

	ID       InstanceID `cbor:"1,keyasint"`
	Name     string     `cbor:"2,keyasint"`
	Status   Status     `cbor:"9,keyasint"`
	Host     HostID     `cbor:"11,keyasint,omitempty"` // "" in a zone that does not own it
	Link     LinkID     `cbor:"12,keyasint,omitempty"` // the child that owns it or leads there
	Updated  Instant    `cbor:"18,keyasint"`
	ModIndex uint64     `cbor:"19,keyasint"` // log index of the last change
	// Overdue is set when its window has passed and it is not gone: its room counts as used
	// now, and no longer as promised.
	Overdue bool `cbor:"32,keyasint,omitempty" form:"4"`
	// Waits is set for a firm instance whose room preemptible instances still use. Its agent
	// learns of it when they are gone.
	Waits bool `cbor:"40,keyasint,omitempty" form:"4"`
}

// InstanceExtras are what few instances have: faults, moves, leases, volumes. In memory those
// without any share one record.
type InstanceExtras struct {
	Fault  string `cbor:"10,keyasint,omitempty"`
	Target HostID `cbor:"23,keyasint,omitempty"` // next host, once it has stopped here; its claim is there already
	// Shares are its resources from providers other than the host, and TargetShares those
	// from providers other than the target; see capacity.Table.Place.
	Shares       []Share `cbor:"24,keyasint,omitempty"`
	TargetShares []Share `cbor:"25,keyasint,omitempty"`
	Moves        uint64  `cbor:"26,keyasint,omitempty"` // number of moves to another host
	Unreachable  Instant `cbor:"27,keyasint,omitempty"` // start of being unreachable, as reported by its zone; 0 while it is reachable, and for instances on hosts here

	Within   InstanceID `cbor:"31,keyasint,omitempty" form:"4"` // the slot in whose room the instance runs; "" for none
	Replaced bool       `cbor:"33,keyasint,omitempty" form:"4"` // the slot has left its host after its window began
	Eviction *Eviction  `cbor:"37,keyasint,omitempty" form:"4"` // nil unless its room is needed

	Attached InstanceID `cbor:"42,keyasint,omitempty" form:"4"` // of a volume: the instance that it is attached to
	// Volumes are the volumes that are attached to an instance, by id, at most AttachedMax; only
	// in the zone that owns its host.
	Volumes []InstanceID `cbor:"43,keyasint,omitempty" form:"4"`

	// Halted and Runs are set only in the zone that owns its host.
	Halted bool   `cbor:"44,keyasint,omitempty" form:"5"` // its owner has stopped it: it keeps its room, and nothing runs
	Runs   uint64 `cbor:"45,keyasint,omitempty" form:"5"` // how often its owner has ordered that it runs again

	// Restarts counts how often its agent has started it anew unasked, and Restarted is when it last
	// did, by the clock of the agent: that only in the zone that owns its host.
	Restarts  uint64  `cbor:"46,keyasint,omitempty" form:"5"`
	Restarted Instant `cbor:"47,keyasint,omitempty" form:"5"`
}

// noExtras are the extras of most instances. Nobody writes to them.
var noExtras InstanceExtras

// NewInstance returns an instance without extras.
func NewInstance(terms *InstanceTerms, spec InstanceSpec, status Status) *Instance {
	return &Instance{InstanceTerms: terms, InstanceExtras: &noExtras, ID: spec.ID, Name: spec.Name, Status: status}
}

// Complete gives an instance that was read what its record lacks.
func (i *Instance) Complete() {
	if i.InstanceTerms == nil {
		i.InstanceTerms = &InstanceTerms{}
	}
	if i.InstanceExtras == nil {
		i.InstanceExtras = &noExtras
	}
}

// HasExtras reports whether the instance has any extras.
func (i *Instance) HasExtras() bool { return i.InstanceExtras != &noExtras }

// ChangeExtras gives the instance extras of its own, with a change. The instance must not be
// shared.
func (i *Instance) ChangeExtras(change func(*InstanceExtras)) {
	x := *i.InstanceExtras
	change(&x)
	if i.InstanceExtras = &noExtras; !x.empty() {
		i.InstanceExtras = &x
	}
}

// empty reports whether there are none.
func (x *InstanceExtras) empty() bool {
	return x.Fault == "" && x.Target == "" && len(x.Shares) == 0 && len(x.TargetShares) == 0 && x.Moves == 0 && x.Unreachable == 0 &&
		x.Within == "" && !x.Replaced && x.Eviction == nil && x.Attached == "" && len(x.Volumes) == 0 && !x.Halted && x.Runs == 0 && x.Restarts == 0 && x.Restarted == 0
}

// InstanceTerms are what the instances of one hold and group have in common. In memory they are
// there once for all of these, and never changed.
type InstanceTerms struct {
	Reservation ReservationID     `cbor:"3,keyasint" log:"reservation_id"`
	Project     ProjectID         `cbor:"4,keyasint" log:"project_id"`
	User        UserID            `cbor:"5,keyasint,omitempty" log:"user_id"`
	Flavor      FlavorID          `cbor:"6,keyasint"`
	Resources   Resources         `cbor:"7,keyasint"`
	Metadata    map[string]string `cbor:"8,keyasint,omitempty"`
	Origin      LinkID            `cbor:"13,keyasint,omitempty"` // the parent it was created for; "" for this zone's own
	Hold        HoldID            `cbor:"14,keyasint,omitempty"`
	Window      Window            `cbor:"15,keyasint"`
	Class       Class             `cbor:"16,keyasint"`
	Created     Instant           `cbor:"17,keyasint"`
	Rules       []string          `cbor:"20,keyasint,omitempty"` // keys of the rules it was booted under; see Request.RuleKey
	Group       string            `cbor:"21,keyasint,omitempty"` // name of its group in the request
	Movable     bool              `cbor:"22,keyasint,omitempty"` // it may be started elsewhere if its host is lost

	// Reserved is set for a slot of a lease: room on a host, in which nothing runs by itself.
	// It is BUILD until its window has begun and its room is free, then ACTIVE. Reservation
	// names the order that holds it, and Group the reservation of the lease.
	Reserved bool        `cbor:"28,keyasint,omitempty" form:"4"`
	Whole    bool        `cbor:"29,keyasint,omitempty" form:"4"` // the slot is a whole host
	Shared   []ProjectID `cbor:"30,keyasint,omitempty" form:"4"` // other projects of its zone that may use the slot
	InLease  bool        `cbor:"34,keyasint,omitempty" form:"4"` // it runs in a slot of a lease, here or in another zone

	OnPreempt PreemptAction `cbor:"35,keyasint,omitempty" form:"4"` // of a preemptible instance; "" for PreemptStop
	Way       PreemptWay    `cbor:"36,keyasint,omitempty" form:"4"` // see Request.Way
	// Grace is how long before its start the room of a slot is closed to preemptible instances.
	Grace     time.Duration `cbor:"38,keyasint,omitempty" form:"4"`
	ShareIdle bool          `cbor:"39,keyasint,omitempty" form:"4"` // see Group.ShareIdle

	Volume string `cbor:"41,keyasint,omitempty" form:"4"` // type of a volume; "" for an instance
}

// ChangeTerms gives the instance terms of its own, with a change. The instance must not be
// shared.
func (i *Instance) ChangeTerms(change func(*InstanceTerms)) {
	t := *i.InstanceTerms
	change(&t)
	i.InstanceTerms = &t
}

// Equal reports whether two terms are the same.
func (t *InstanceTerms) Equal(o *InstanceTerms) bool {
	return t.Reservation == o.Reservation && t.Project == o.Project && t.User == o.User && t.Flavor == o.Flavor &&
		maps.Equal(t.Resources, o.Resources) && maps.Equal(t.Metadata, o.Metadata) &&
		t.Origin == o.Origin && t.Hold == o.Hold && t.Window == o.Window && t.Class == o.Class && t.Created == o.Created &&
		slices.Equal(t.Rules, o.Rules) && t.Group == o.Group && t.Movable == o.Movable &&
		t.Reserved == o.Reserved && t.Whole == o.Whole && slices.Equal(t.Shared, o.Shared) && t.InLease == o.InLease &&
		t.OnPreempt == o.OnPreempt && t.Way == o.Way && t.Grace == o.Grace && t.ShareIdle == o.ShareIdle && t.Volume == o.Volume
}

// Stay numbers the stays of an instance on hosts, from 1, and within a stay the runs that its owner has
// ordered: an agent's report on an earlier one does not apply to this one.
func (i *Instance) Stay() uint64 { return i.Moves + i.Run() }

// Kept returns the shares that a moving instance has at both its old and its new host:
// they are claimed once.
func (i *Instance) Kept() []Share {
	var out []Share
	for _, sh := range i.TargetShares {
		if slices.ContainsFunc(i.Shares, sh.Equal) {
			out = append(out, sh)
		}
	}
	return out
}

// Tenant returns the tenant that owns the instance.
func (i *Instance) Tenant() Tenant { return Tenant{i.Origin, i.Project} }

// Live reports whether the instance is not DELETED.
func (i *Instance) Live() bool { return i.Status != StatusDeleted }

// Fenced reports whether the instance ends when its agent hears nothing of its zone, or ends
// itself: its room is needed elsewhere, or it is started elsewhere.
func (i *Instance) Fenced() bool { return i.Movable || i.Class == Preemptible }

// InstanceChange is a child's report to its parent about one instance that it created for
// that parent. It names no host, and has no field that could.
type InstanceChange struct {
	ID      InstanceID `cbor:"1,keyasint"`
	Status  Status     `cbor:"2,keyasint"`
	Fault   string     `cbor:"3,keyasint,omitempty"` // a fixed sentence, never a driver's own words
	Updated Instant    `cbor:"4,keyasint"`
	Index   uint64     `cbor:"5,keyasint"` // index of this change in the child's log
	// Unreachable is the start of being unreachable there or below; 0 while it is reachable.
	Unreachable Instant   `cbor:"6,keyasint,omitempty"`
	Replaced    bool      `cbor:"7,keyasint,omitempty" form:"4"` // see Instance.Replaced
	Eviction    *Eviction `cbor:"8,keyasint,omitempty" form:"4"` // see Instance.Eviction

	Attached InstanceID `cbor:"9,keyasint,omitempty" form:"4"`  // see Instance.Attached
	Restarts uint64     `cbor:"10,keyasint,omitempty" form:"5"` // see Instance.Restarts
}

// Changes is the answer to GET /zones/changes: the changes after an index, in order. Next
// is the index to continue at; More is set if there are further changes. A zone with another Restored than before may have
// forgotten instances, and have some again that had ended.
type Changes struct {
	Items []InstanceChange `cbor:"1,keyasint"`
	Next  uint64           `cbor:"2,keyasint"`
	More  bool             `cbor:"3,keyasint,omitempty"`

	Restored uint64 `cbor:"4,keyasint,omitempty" form:"5"` // log index at which a backup last replaced the zone's state; 0 for never
	Index    uint64 `cbor:"5,keyasint,omitempty" form:"5"` // last log index of the state that the answer is from: nothing in it is later
}
