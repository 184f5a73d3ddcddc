package command

import (
	"time"

	"berth/api"
)

// BootTerms are what is recorded of a boot as its caller ordered it, the same in the
// command and in the record. The record has keys of its own from 20 on.
type BootTerms struct {
	Key       string             `cbor:"2,keyasint,omitempty"` // Idempotency-Key, "" for none
	Digest    []byte             `cbor:"3,keyasint"`           // SHA-256 of the caller's order
	Name      string             `cbor:"4,keyasint"`
	Request   api.Request        `cbor:"5,keyasint"`
	Min       int                `cbor:"6,keyasint"`
	Instances []api.InstanceSpec `cbor:"7,keyasint"` // allotted; the first ones are used first
	Metadata  map[string]string  `cbor:"8,keyasint,omitempty"`
	Fixed     bool               `cbor:"9,keyasint,omitempty"`  // it came with its plan: never select again
	Call      api.RequestID      `cbor:"10,keyasint,omitempty"` // the call that requested it
	Timeout   time.Duration      `cbor:"11,keyasint,omitempty"` // aborted if it is not decided so long after it was recorded; 0 for never
	// Refill is 0 for what the caller ordered, and n for the n-th order of the same boot for preempted instances of it.
	Refill int `cbor:"13,keyasint,omitempty" form:"5"`
	// Cut is set if a quota allowed fewer instances than the caller asked for, and still his minimum.
	Cut *QuotaCut `cbor:"14,keyasint,omitempty" form:"5"`
}

// QuotaCut is what a quota has made of a boot.
type QuotaCut struct {
	Asked int    `cbor:"1,keyasint"` // instances that the caller asked for
	Item  string `cbor:"2,keyasint"` // of the quota that allows no more, such as instances.VCPU
}

// BootCreate records a boot before anything is scheduled. A repeat with the same
// digest gives the first answer; with another digest it is a conflict.
type BootCreate struct {
	Stamp
	BootTerms
}

// Hold takes slots for instances in one entry: those on own hosts at once, and those of
// children as a record of what to ask them for. A repeat changes nothing.
type Hold struct {
	Stamp
	ID       api.HoldID        `cbor:"2,keyasint"`
	Origin   api.LinkID        `cbor:"3,keyasint,omitempty"` // the parent that requests it; "" for a boot of this zone
	Attempt  int               `cbor:"4,keyasint"`
	Request  api.Request       `cbor:"5,keyasint"`
	Plan     api.PlanID        `cbor:"6,keyasint,omitempty"` // "" for a plan that was never sealed
	Expires  api.Instant       `cbor:"7,keyasint"`
	Slots    []Slot            `cbor:"8,keyasint,omitempty"`
	Spares   [][]api.HostID    `cbor:"9,keyasint,omitempty"` // per group: alternates, best first
	Parts    []Part            `cbor:"10,keyasint,omitempty"`
	Metadata map[string]string `cbor:"11,keyasint,omitempty"`
	Commit   bool              `cbor:"12,keyasint,omitempty"` // no other zone takes part: decide in this entry
	Outcome  *api.BootAttempt  `cbor:"13,keyasint,omitempty"` // the result of select, for a boot of this zone
	// Choices are the children chosen for the keys under which the request is bound.
	Choices []api.BindingChoice `cbor:"14,keyasint,omitempty" form:"4"`
	Refill  int                 `cbor:"15,keyasint,omitempty" form:"5"` // of a boot of this zone, see BootTerms
}

// Slot is room for one instance on one host of this zone.
type Slot struct {
	Instance api.InstanceSpec `cbor:"1,keyasint"`
	Group    int              `cbor:"2,keyasint"`
	Host     api.HostID       `cbor:"3,keyasint"`
	Within   api.InstanceID   `cbor:"4,keyasint,omitempty" form:"4"` // the slot of a lease that gives the room; "" for none
	Keeps    api.InstanceID   `cbor:"5,keyasint,omitempty" form:"4"` // the slot of the replaced request that it takes over in place; "" for none
	// Whole are the amounts of a whole host, filled in when they are claimed.
	Whole api.Resources `cbor:"6,keyasint,omitempty" form:"4"`
	Until api.Instant   `cbor:"7,keyasint,omitempty" form:"4"` // end of the slot that lends it the room, filled in when that is claimed; 0 for none
}

// Part is the share of a hold that is requested from one child.
type Part struct {
	Link      api.LinkID           `cbor:"1,keyasint"`
	Instances [][]api.InstanceSpec `cbor:"2,keyasint"` // per group
}

// HoldParts records the answers of children.
type HoldParts struct {
	Stamp
	ID      api.HoldID   `cbor:"2,keyasint"`
	Origin  api.LinkID   `cbor:"3,keyasint,omitempty"`
	Answers []PartAnswer `cbor:"4,keyasint"`
}

// PartAnswer is what one child holds; everything else in its part is refused. Committed is
// set if the child has decided already.
type PartAnswer struct {
	Link      api.LinkID       `cbor:"1,keyasint"`
	Held      []api.InstanceID `cbor:"2,keyasint,omitempty"`
	Committed bool             `cbor:"3,keyasint,omitempty"`
	Why       api.Code         `cbor:"4,keyasint,omitempty"` // some were refused
}

// HoldDecide ends a hold that another zone, or an operator, decides.
type HoldDecide struct {
	Stamp
	ID       api.HoldID   `cbor:"2,keyasint"`
	Origin   api.LinkID   `cbor:"3,keyasint,omitempty"`
	Decision api.Decision `cbor:"4,keyasint"`
	Forced   bool         `cbor:"5,keyasint,omitempty"` // by an operator of this zone

	// Lifted are server groups that a parent has deleted: of a commit, see api.HoldDecision.
	Lifted []api.ServerGroupID `cbor:"6,keyasint,omitempty" form:"5"`
}

// BootDecide decides a boot of this zone, and with it all of its holds.
type BootDecide struct {
	Stamp
	Project     api.ProjectID     `cbor:"2,keyasint"`
	Reservation api.ReservationID `cbor:"3,keyasint"`
	Decision    api.Decision      `cbor:"4,keyasint"`
	Reason      string            `cbor:"5,keyasint,omitempty"`
	Outcome     *api.BootAttempt  `cbor:"6,keyasint,omitempty"`          // the attempt that found too little, if that is the cause
	Code        api.Code          `cbor:"7,keyasint,omitempty" form:"2"` // why it failed; an entry without it has the code at the start of Reason, or none
	Refill      int               `cbor:"8,keyasint,omitempty" form:"5"` // that is decided, see BootTerms
}

// BootRelease ends everything that a boot made, or aborts the boot.
type BootRelease struct {
	Stamp
	Project     api.ProjectID     `cbor:"2,keyasint"`
	Reservation api.ReservationID `cbor:"3,keyasint"`
}

// Requeue orders instances for the preempted ones of a boot, or records a try to find room for them
// that failed.
type Requeue struct {
	Stamp
	Project     api.ProjectID      `cbor:"2,keyasint"`
	Reservation api.ReservationID  `cbor:"3,keyasint"`           // the boot whose instances they were
	Seen        uint64             `cbor:"4,keyasint"`           // ModIndex of the entry of the queue that it is about
	Instances   []api.InstanceSpec `cbor:"6,keyasint,omitempty"` // that are made for them, in the order of the entry; none if there was no room
	Refill      int                `cbor:"7,keyasint,omitempty"` // the number of the order for them; 0 if there was no room
}

// PartAck records that a child has carried out a decision.
type PartAck struct {
	Stamp
	ID       api.HoldID   `cbor:"2,keyasint"`
	Origin   api.LinkID   `cbor:"3,keyasint,omitempty"`
	Link     api.LinkID   `cbor:"4,keyasint"`
	Decision api.Decision `cbor:"5,keyasint"`
	Lost     bool         `cbor:"6,keyasint,omitempty"` // the child had released what was committed

	Lifted int `cbor:"7,keyasint,omitempty" form:"5"` // how many deleted server groups it was told of with it
}

// InstanceDelete requests the end of one instance.
type InstanceDelete struct {
	Stamp
	ID api.InstanceID `cbor:"2,keyasint"`
}

// InstanceChanges applies the changes that a child reports for its instances.
type InstanceChanges struct {
	Stamp
	Link  api.LinkID           `cbor:"2,keyasint"`
	After uint64               `cbor:"3,keyasint"` // where the answer began; must be the position of the link
	Next  uint64               `cbor:"4,keyasint"`
	Items []api.InstanceChange `cbor:"5,keyasint,omitempty"`
}

// InstanceTold records that children know that these instances must end. Those
// in Gone are unknown to the child: there is nothing left to wait for.
type InstanceTold struct {
	Stamp
	IDs  []api.InstanceID `cbor:"2,keyasint,omitempty"`
	Gone []api.InstanceID `cbor:"3,keyasint,omitempty"`
}

// Count returns the number of instances in the hold.
func (c *Hold) Count() int {
	n := len(c.Slots)
	for _, p := range c.Parts {
		for _, g := range p.Instances {
			n += len(g)
		}
	}
	return n
}

// Kind implements Command.
func (BootCreate) Kind() Kind { return KindBootCreate }

// Kind implements Command.
func (Hold) Kind() Kind { return KindHold }

// Kind implements Command.
func (HoldParts) Kind() Kind { return KindHoldParts }

// Kind implements Command.
func (HoldDecide) Kind() Kind { return KindHoldDecide }

// Kind implements Command.
func (BootDecide) Kind() Kind { return KindBootDecide }

// Kind implements Command.
func (BootRelease) Kind() Kind { return KindBootRelease }

// Kind implements Command.
func (Requeue) Kind() Kind { return KindRequeue }

// Kind implements Command.
func (PartAck) Kind() Kind { return KindPartAck }

// Kind implements Command.
func (InstanceDelete) Kind() Kind { return KindInstanceDelete }

// Kind implements Command.
func (InstanceChanges) Kind() Kind { return KindInstanceChanges }

// Kind implements Command.
func (InstanceTold) Kind() Kind { return KindInstanceTold }
