package api

import (
	"cmp"
	"slices"
	"time"
)

// Group is a number of identical slots.
type Group struct {
	Count      int               `cbor:"1,keyasint"` // 0 to CountMax; 0 where a zone is not asked for this group
	Flavor     FlavorID          `cbor:"2,keyasint,omitempty"`
	Resources  Resources         `cbor:"3,keyasint"`
	ExtraSpecs map[string]string `cbor:"4,keyasint,omitempty"`
	Min        int               `cbor:"5,keyasint,omitempty" log:"min_count"` // fewest slots of this group alone, 0 to Count
	Name       string            `cbor:"6,keyasint,omitempty"`                 // unique in the request
	Traits     Traits            `cbor:"7,keyasint,omitzero"`
	Image      Image             `cbor:"8,keyasint,omitzero"`
	Hints      Hints             `cbor:"9,keyasint,omitzero"`
	AZ         string            `cbor:"10,keyasint,omitempty" log:"availability_zone"` // "" for any
	Whole      bool              `cbor:"11,keyasint,omitempty" form:"4"`                // each slot is a whole host, without Resources; needs Request.Reserves
	ShareIdle  bool              `cbor:"12,keyasint,omitempty" form:"4"`                // preemptible instances may use the slots while their owner does not; needs Request.Reserves
	Volume     string            `cbor:"13,keyasint,omitempty" form:"4"`                // type of the volumes that the slots are; "" for instances
	AttachTo   string            `cbor:"14,keyasint,omitempty" form:"4"`                // of volumes: the group to whose instances they are attached, one to each

	// Met are the keys of extra specs that the zone meets as a whole, by its affinity tags in the zone
	// above: its hosts are not asked for them. Sorted; a caller's own request has none.
	Met []string `cbor:"15,keyasint,omitempty" form:"4"`
}

// Request is the request of a select, boot or lease. It is canonical: a sealed plan is
// bound to its deterministic encoding.
type Request struct {
	Reservation ReservationID `cbor:"1,keyasint" log:"reservation_id"`
	Project     ProjectID     `cbor:"2,keyasint" log:"project_id"`
	User        UserID        `cbor:"3,keyasint,omitempty" log:"user_id"`
	Groups      []Group       `cbor:"4,keyasint"` // 1 to GroupsMax
	Window      Window        `cbor:"5,keyasint"` // Start 0: from when it is held
	Class       Class         `cbor:"6,keyasint"`
	Rules       []Rule        `cbor:"7,keyasint,omitempty"` // at most RulesMax
	Zones       ZoneRule      `cbor:"8,keyasint,omitzero"`
	Lifetime    time.Duration `cbor:"9,keyasint,omitempty"` // from Window.Start to its end, if Window.End is Forever; 0 for no end

	// Since and Attempt order requests that want the same room; a plan is not bound to
	// them. Since is the time of the reservation by the clock of the zone where it was
	// made: see Older. Attempt is its first attempt that still counts: holds of earlier
	// ones are being released.
	Since   Instant `cbor:"10,keyasint,omitempty"`
	Attempt int     `cbor:"11,keyasint,omitempty"` // 0 to HoldsPerBootMax

	// Reserves is set for the room of a lease: nothing runs in its slots by itself, and each
	// group is a reservation, named by its id. Its window has a start and an end.
	Reserves bool `cbor:"13,keyasint,omitempty" form:"4"`
	// Replaces is an earlier request of the tenant that reserves, whose slots this one may
	// take over; "" for none. On commit what it has not taken over is released.
	Replaces ReservationID `cbor:"14,keyasint,omitempty" form:"4"`
	// Within is the reservation in whose slots all instances are to run, see WithinOf; "" for none.
	Within ReservationID `cbor:"15,keyasint,omitempty" form:"4"`
	// Shared are the other projects of the same zone that may use what is reserved; sorted.
	Shared []ProjectID `cbor:"16,keyasint,omitempty" form:"4"`

	// Maintenance is set for the order of a maintenance lease, see LeaseTerms.Hosts. It takes
	// hosts in any pool and any state.
	Maintenance bool `cbor:"17,keyasint,omitempty" form:"4"`

	// Preempt lets a firm request have room that preemptible instances use: they are ended for it.
	Preempt bool `cbor:"18,keyasint,omitempty" form:"4"`
	// Grace is how long before its start the room of a lease is closed to preemptible
	// instances, if its owner asks for more than the zone; at most PreemptGraceMax.
	Grace     time.Duration `cbor:"19,keyasint,omitempty" form:"4"`
	OnPreempt PreemptAction `cbor:"20,keyasint,omitempty" form:"4"` // of a preemptible request; "" for PreemptStop
	Way       PreemptWay    `cbor:"21,keyasint,omitempty" form:"4"` // why the request is preemptible; "" if its class was given

	// Origin is the link to the parent that makes the request, "" for a caller of this
	// zone; see Tenant. It is never sent or stored: each zone sets it itself.
	Origin LinkID `cbor:"-"`
}

// Tenant is a project of this zone, or one of a parent of it. A parent's projects
// are not those of this zone, whatever their names.
type Tenant struct {
	Origin  LinkID // the link to the parent; "" for this zone
	Project ProjectID
}

// Tenant returns the tenant that makes the request.
func (r *Request) Tenant() Tenant { return Tenant{r.Origin, r.Project} }

// Older reports whether r goes before o if both want the same room. All zones compare
// alike, independent of their own clocks. A request without a reservation, such as an
// estimate, comes last.
func (r *Request) Older(o *Request) bool {
	age := func(r *Request) Instant {
		if r.Since == 0 {
			return Forever
		}
		return r.Since
	}
	return cmp.Or(
		cmp.Compare(age(r), age(o)), cmp.Compare(r.Reservation, o.Reservation), cmp.Compare(r.Project, o.Project),
	) < 0
}

// WindowAt returns the window of claims made at now: it starts at now if the request has
// no start, and ends after the lifetime if there is one.
func (r *Request) WindowAt(now Instant) Window {
	w := r.Window
	if w.Start == 0 {
		w.Start = now
	}
	if r.Lifetime > 0 && w.End == Forever {
		w.End = w.Start.Add(r.Lifetime)
	}
	return w
}

// ClaimClass returns the class of the claims of r.
func (r *Request) ClaimClass() Class {
	if r.Reserves || r.Preempt {
		return Preempting
	}
	return r.Class
}

// ZoneRule limits the zones of slots. Zones are seen from the zone where the request was
// made: its own hosts are one zone, and each direct child with everything below it is
// one.
type ZoneRule struct {
	Allowed      []string `cbor:"1,keyasint,omitempty"` // names: only in or below one of them
	Excluded     []string `cbor:"2,keyasint,omitempty"` // names: not in or below any of them
	AllowedTags  []string `cbor:"3,keyasint,omitempty"` // at least one of these tags
	ExcludedTags []string `cbor:"4,keyasint,omitempty"` // none of these tags
	MaxSkew      int      `cbor:"5,keyasint,omitempty"` // per group: largest difference in slots between the fullest zone and the emptiest one that offers; 0 for no limit
	MinZones     int      `cbor:"6,keyasint,omitempty"` // smallest number of zones with a slot of the request
	Pack         bool     `cbor:"7,keyasint,omitempty"` // all slots in one zone
}

// IsZero reports whether z is empty.
func (z ZoneRule) IsZero() bool {
	return len(z.Allowed)+len(z.Excluded)+len(z.AllowedTags)+len(z.ExcludedTags)+z.MaxSkew+z.MinZones == 0 && !z.Pack
}

// Count returns the number of slots of all groups.
func (r *Request) Count() int {
	n := 0
	for i := range r.Groups {
		n += r.Groups[i].Count
	}
	return n
}

// Validate returns an invalid-input error for the first invalid field.
func (r *Request) Validate() error {
	if len(r.Groups) == 0 || len(r.Groups) > GroupsMax {
		return Errorf(CodeInvalid, "a request needs 1 to %d groups, got %d", GroupsMax, len(r.Groups))
	}
	if err := r.validateGroups(); err != nil {
		return err
	}
	if n := r.Count(); n < 1 || n > CountMax {
		return Errorf(CodeInvalid, "a request must ask for 1 to %d instances in all, got %d", CountMax, n)
	}
	if !r.Window.Valid() {
		return Errorf(CodeInvalid, "window must end after it starts")
	}
	if err := r.validateLease(); err != nil {
		return err
	}
	if !r.Class.Valid() {
		return Errorf(CodeInvalid, "class must be %q or %q", Firm, Preemptible)
	}
	if err := r.validatePreempt(); err != nil {
		return err
	}
	if r.Lifetime < 0 || r.Lifetime > LifetimeMax || r.Lifetime%time.Millisecond != 0 {
		return Errorf(CodeInvalid, "lifetime must be 1ms to %s, in whole milliseconds", LifetimeMax)
	}
	if r.Since < 0 || r.Attempt < 0 || r.Attempt > HoldsPerBootMax {
		return Errorf(CodeInvalid, "a request is as old as its reservation, and counts attempts from 1 to %d", HoldsPerBootMax)
	}
	if r.Lifetime > 0 && r.Window.End != Forever {
		return Errorf(CodeInvalid, "a window with an end takes no lifetime")
	}
	if err := r.validateRules(); err != nil {
		return err
	}
	if err := r.validateVolumes(); err != nil {
		return err
	}
	if n := r.Zones.MinZones; n > r.Count() {
		return Errorf(CodeInvalid, "zones.min_zones %d needs at least as many instances, got %d", n, r.Count())
	}
	return r.Zones.validate()
}

// validateGroups checks each group, and that no two have one name.
func (r *Request) validateGroups() error {
	names := map[string]bool{}
	for i := range r.Groups {
		if err := r.Groups[i].Validate(); err != nil {
			return err
		}
		if n := r.Groups[i].Name; names[n] && n != "" {
			return Errorf(CodeInvalid, "each group needs a name of its own, %q is there twice", n)
		}
		names[r.Groups[i].Name] = true
	}
	return nil
}

// Maintains reports whether the request takes hosts whatever their pool and state. No zone
// above has a say about these.
func (r *Request) Maintains() bool { return r.Maintenance && r.Origin == "" }

// namesHosts reports whether every group reserves whole hosts by their names.
func (r *Request) namesHosts() bool {
	return r.Reserves && !slices.ContainsFunc(r.Groups, func(g Group) bool { return !g.Whole || len(g.Hints.ForceHosts) == 0 })
}

// validateLease checks what a request for a lease may have, and others may not.
func (r *Request) validateLease() error {
	for i := range r.Groups {
		if r.Groups[i].Whole && !r.Reserves {
			return Errorf(CodeInvalid, "whole hosts can only be reserved")
		}
	}
	switch {
	case r.Within != "" && !ValidName(string(r.Within)):
		return CheckName("reservation", string(r.Within))
	case r.Maintenance && !r.namesHosts():
		return Errorf(CodeInvalid, "a request for maintenance reserves whole hosts that it names")
	case !r.Reserves && (r.Replaces != "" || len(r.Shared) > 0):
		return Errorf(CodeInvalid, "only a request that reserves may replace another or be shared")
	case !r.Reserves:
		return nil
	case r.Within != "":
		return Errorf(CodeInvalid, "a reservation within another is not possible")
	case r.Window.Start <= 0 || r.Window.End == Forever || r.Lifetime != 0:
		return Errorf(CodeInvalid, "what is reserved needs a start and an end")
	case r.Window.End > r.Window.Start.Add(LeaseDurationMax):
		return Errorf(CodeInvalid, "a lease may last at most %d days", LeaseDurationMax/(24*time.Hour))
	case r.Class != Firm:
		return Errorf(CodeInvalid, "what is reserved is of class %q", Firm)
	case r.Replaces != "" && !ValidName(string(r.Replaces)):
		return CheckName("replaced reservation", string(r.Replaces))
	case len(r.Shared) > SharedProjectsMax:
		return Errorf(CodeInvalid, "a lease may be shared with at most %d projects", SharedProjectsMax)
	}
	for i := range r.Groups {
		if r.Groups[i].Name == "" {
			return Errorf(CodeInvalid, "each group that reserves needs a name")
		}
	}
	return nil
}

// ValidateAbroad returns an invalid-input error for a request that no zone serves for
// another: room for later, or beyond WindowMax. now is the time of the answering zone, and lead how far ahead a lease may start there.
func (r *Request) ValidateAbroad(now Instant, lead time.Duration) error {
	switch w := r.Window; {
	case r.Reserves && (w.Start > now.Add(lead) || w.End > now.Add(lead+LeaseDurationMax)):
		return Errorf(CodeInvalid, "a lease must start within %d days", lead/(24*time.Hour))
	case r.Reserves:
		return nil
	case w.Start < 0 || w.Start > now:
		return Errorf(CodeInvalid, "another zone may ask for what starts at once alone")
	case w.End != Forever && w.End > now.Add(WindowMax):
		return Errorf(CodeInvalid, "window must end within %d days", WindowMax/(24*time.Hour))
	}
	return nil
}

// Validate returns an invalid-input error for the first thing that is wrong with a group
// by itself.
func (g *Group) Validate() error {
	if g.Count < 0 || g.Count > CountMax {
		return Errorf(CodeInvalid, "count must be 0 to %d, got %d", CountMax, g.Count)
	}
	if g.Min < 0 || g.Min > g.Count {
		return Errorf(CodeInvalid, "min_count must be 0 to the count %d, got %d", g.Count, g.Min)
	}
	if g.Whole && len(g.Resources) > 0 {
		return Errorf(CodeInvalid, "a group of whole hosts names no resources")
	}
	if len(g.Resources) == 0 && !g.Whole {
		return Errorf(CodeInvalid, "a group needs at least one resource")
	}
	if err := g.Resources.Validate(); err != nil {
		return err
	}
	if err := g.validateSpecs(); err != nil {
		return err
	}
	if g.Name != "" && !ValidName(g.Name) {
		return CheckName("group name", g.Name)
	}
	if len(g.AZ) > ExtraSpecMaxBytes {
		return Errorf(CodeInvalid, "availability_zone may have at most %d bytes", ExtraSpecMaxBytes)
	}
	if len(g.Image.Ref) > ExtraSpecMaxBytes {
		return Errorf(CodeInvalid, "imageRef may have at most %d bytes", ExtraSpecMaxBytes)
	}
	if err := CheckPairs("image_properties", g.Image.Properties, ExtraSpecsMax); err != nil {
		return err
	}
	if err := g.Traits.validate(); err != nil {
		return err
	}
	if err := g.validateVolume(); err != nil {
		return err
	}
	if g.Whole { // as a maintenance lease has it
		return g.Hints.validate(MaintenanceMax)
	}
	return g.Hints.validate(HintHostsMax)
}

func (g *Group) validateSpecs() error {
	for i, key := range g.Met {
		if _, asked := g.ExtraSpecs[key]; !asked || i > 0 && g.Met[i-1] >= key {
			return Errorf(CodeInvalid, "met extra specs must be asked for, and sorted")
		}
	}
	return CheckPairs("extra_specs", g.ExtraSpecs, ExtraSpecsMax)
}

// ValidTrait reports whether s may name a trait: 1 to ExtraSpecMaxBytes
// characters of A-Z 0-9 _.
func ValidTrait(s string) bool {
	if s == "" || len(s) > ExtraSpecMaxBytes {
		return false
	}
	for i := range len(s) {
		if (s[i] < 'A' || s[i] > 'Z') && (s[i] < '0' || s[i] > '9') && s[i] != '_' {
			return false
		}
	}
	return true
}

func (t Traits) validate() error {
	n := 0
	for _, list := range append([][]string{t.Required, t.Forbidden}, t.AnyOf...) {
		n += len(list)
		for _, name := range list {
			if !ValidTrait(name) {
				return Errorf(CodeInvalid, "trait %q must be 1 to %d characters of A-Z 0-9 _", name, ExtraSpecMaxBytes)
			}
		}
	}
	for _, list := range t.AnyOf {
		if len(list) == 0 {
			return Errorf(CodeInvalid, "each list of any_of needs at least one trait")
		}
	}
	if n > TraitsMax {
		return Errorf(CodeInvalid, "a group may name at most %d traits, got %d", TraitsMax, n)
	}
	for _, name := range t.Required {
		if slices.Contains(t.Forbidden, name) {
			return Errorf(CodeInvalid, "trait %s is both required and forbidden", name)
		}
	}
	return nil
}

func (z ZoneRule) validate() error {
	for _, l := range []struct {
		name string
		list []string
	}{
		{"zones.allowed", z.Allowed},
		{"zones.excluded", z.Excluded},
		{"zones.allowed_tags", z.AllowedTags},
		{"zones.excluded_tags", z.ExcludedTags},
	} {
		if len(l.list) > ZoneNamesMax {
			return Errorf(CodeInvalid, "%s may have at most %d entries, got %d", l.name, ZoneNamesMax, len(l.list))
		}
		for _, name := range l.list {
			if !ValidName(name) {
				return CheckName(l.name, name)
			}
		}
	}
	switch {
	case z.MaxSkew < 0 || z.MaxSkew > CountMax:
		return Errorf(CodeInvalid, "zones.max_skew must be 0 to %d, got %d", CountMax, z.MaxSkew)
	case z.MinZones < 0 || z.MinZones > LinksMax+1:
		return Errorf(CodeInvalid, "zones.min_zones must be 0 to %d, got %d", LinksMax+1, z.MinZones)
	case z.Pack && (z.MaxSkew > 0 || z.MinZones > 1):
		return Errorf(CodeInvalid, "zones.pack excludes max_skew and min_zones")
	}
	return nil
}

// ZoneOutcome describes the part of one zone in a select, seen from the zone that
// asked it. Wanted == Offered + Short always.
type ZoneOutcome struct {
	Zone    string `cbor:"1,keyasint"` // link name, or this zone's own name
	Link    LinkID `cbor:"2,keyasint,omitempty"`
	Outcome string `cbor:"3,keyasint"` // answered, late, failed, paused, skipped
	Reason  string `cbor:"4,keyasint,omitempty"`
	Wanted  int    `cbor:"5,keyasint"`
	Offered int    `cbor:"6,keyasint"`
	Short   int    `cbor:"7,keyasint"`
	// Taken is the number of slots of the plan there, and Cost the sum of their weights as
	// this zone sees them.
	Taken int   `cbor:"8,keyasint,omitempty"`
	Cost  int64 `cbor:"9,keyasint,omitempty"`
	// Refusals are, per group, those of that zone and all below it together, without names
	// of hosts. Nil for this zone itself, whose refusals are elsewhere.
	Refusals []Refusals `cbor:"10,keyasint,omitempty"`
}

// The outcomes of a zone in a select.
const (
	OutcomeAnswered = "answered"
	OutcomeLate     = "late"
	OutcomeFailed   = "failed"
	OutcomePaused   = "paused"
	OutcomeSkipped  = "skipped" // its digest rules it out
)

// Refusals are the reasons why hosts of the answering zone took no (further) slot of a
// group. Considered == Offering + the sum of Filters.
type Refusals struct {
	Considered int           `cbor:"1,keyasint"` // hosts examined
	Offering   int           `cbor:"2,keyasint"` // hosts that passed every filter
	Filters    []FilterCount `cbor:"3,keyasint,omitempty"`
	Advice     []Advice      `cbor:"4,keyasint,omitempty"` // what would have worked, smallest change first; at most AdviceMax
	// Limits are, if slots are missing, the reasons why hosts that offered some did not
	// offer more. Their sum is at most Offering.
	Limits []FilterCount `cbor:"5,keyasint,omitempty"`
	// Promised is, if slots are missing, when the first of the hosts that have room now, and are promised to others
	// later, is no longer free; 0 for none. Other zones are not told.
	Promised Instant `cbor:"6,keyasint,omitempty" form:"5"`
}

// FilterCount counts the hosts that one filter turned away, in filter order.
type FilterCount struct {
	Filter string `cbor:"1,keyasint"`
	Hosts  int    `cbor:"2,keyasint"`
	Tier   Tier   `cbor:"3,keyasint,omitempty"`
	// Names are some of those hosts, only for operators of the owning zone. They are never
	// encoded for another zone or for the log.
	Names []string `cbor:"-" log:"hosts_by_name"`
}

// Tier is the finality of a refusal of a host.
type Tier string

// The tiers, the most final first.
const (
	TierInvalid    Tier = "invalid"     // the request itself: amounts that the host's units do not allow
	TierNotAllowed Tier = "not_allowed" // a policy of the operator forbids it
	TierNeverFits  Tier = "never_fits"  // the host is too small or lacks a requested property
	TierNotNow     Tier = "not_now"     // it could at another time, or when others have left
	TierNotAsked   Tier = "not_asked"   // the caller did not want this host
)

// Advice is one change to the request with which the group would have got all that it then
// asks for, and no other group less than it got.
type Advice struct {
	Change string        `cbor:"1,keyasint"`                                // AdviceCount, AdviceLifetime, AdviceAmount, AdviceZone or AdviceDrop
	Class  ResourceClass `cbor:"2,keyasint,omitempty" log:"resource_class"` // of AdviceAmount
	Value  int64         `cbor:"3,keyasint,omitempty"`                      // the count, the amount, or seconds
	Name   string        `cbor:"4,keyasint,omitempty"`                      // the zone, or the filter whose condition to drop
}

// The kinds of advice.
const (
	AdviceCount    = "count"    // ask for Value instances of the group
	AdviceLifetime = "lifetime" // ask for a lifetime of Value seconds: others are promised the room later
	AdviceAmount   = "amount"   // ask for Value of Class in each instance
	AdviceZone     = "zone"     // allow zone Name
	AdviceDrop     = "drop"     // drop the condition of filter Name, or min_zones, max_skew or pack of the zone rule
)

// SelectAnswer is the answer to POST /zones/select: per group the ordered weights of the
// offered slots (lower is better; the i-th assumes that slots 0..i-1 are taken), and one
// sealed plan for all of them.
type SelectAnswer struct {
	Reservation ReservationID `cbor:"1,keyasint"`
	Weights     [][]int64     `cbor:"2,keyasint"` // per group, non-decreasing is not promised
	Blob        []byte        `cbor:"3,keyasint"`
	Expires     time.Duration `cbor:"4,keyasint"` // how long from now the blob is valid
	Zones       []ZoneOutcome `cbor:"-"`          // for this zone's own caller; never sent to a parent
	// Refusals are, per group, those of this zone's own hosts. A parent gets the sum over
	// all zones below, as if they were one zone.
	Refusals []Refusals `cbor:"5,keyasint,omitempty"`
	Request  RequestID  `cbor:"-"` // for GET /explain/{id}
	// Contended is, per group, the number of additional slots if undecided requests of
	// others gave way. Nil if there are none.
	Contended []Contended `cbor:"6,keyasint,omitempty"`
	// Silent reports that zones below that may have room did not answer.
	Silent bool `cbor:"7,keyasint,omitempty"`
	// Soon reports that one of them was heard lately, so that it may answer soon; Paused that zones below were not
	// asked because an operator has paused them. Only zones that read FormFifth are told.
	Soon   bool `cbor:"8,keyasint,omitempty"`
	Paused bool `cbor:"9,keyasint,omitempty"`
	// Short says what a boot of the plan would lack, as a boot that fails says it; "" for nothing. It is for this zone's own
	// caller, and never sent to a parent.
	Short string `cbor:"-"`
}

// Contended is the number of slots of a group, in addition to those offered, that there
// would be if others gave way.
type Contended struct {
	Younger int `cbor:"1,keyasint,omitempty"` // if all requests did that come after this one
	All     int `cbor:"2,keyasint,omitempty"` // if all did
}

// HoldRequest asks a zone to hold slots that it offered: a prefix of each group.
type HoldRequest struct {
	ID        HoldID            `cbor:"1,keyasint"`
	Attempt   int               `cbor:"2,keyasint"`
	Request   Request           `cbor:"3,keyasint"` // exactly the request of the select
	Blob      []byte            `cbor:"4,keyasint"`
	Instances [][]InstanceSpec  `cbor:"5,keyasint"` // per group; its length is the prefix
	Metadata  map[string]string `cbor:"6,keyasint,omitempty"`
	Commit    bool              `cbor:"7,keyasint,omitempty"` // only this zone takes part: hold and decide at once
}

// InstanceSpec is the identity of an instance before it has a host.
type InstanceSpec struct {
	ID   InstanceID `cbor:"1,keyasint"`
	Name string     `cbor:"2,keyasint"`
}

// Holds are several holds that a parent asks of a child in one call.
type Holds struct {
	Items []HoldRequest `cbor:"1,keyasint" form:"5"` // 1 to HoldsMax
}

// HoldsAnswer answers Holds, in order.
type HoldsAnswer struct {
	Items []HoldReply `cbor:"1,keyasint"`
}

// HoldReply answers one of several holds. Without an answer it takes a call of its own: the zone
// refuses it, or has to ask others for it, or cannot tell at once.
type HoldReply struct {
	Answer *HoldAnswer `cbor:"1,keyasint,omitempty"`
}

// HoldState is the life of a hold.
type HoldState string

// The hold states.
const (
	HoldAsking    HoldState = "asking" // claims of this zone are made; children have not all answered
	HoldHeld      HoldState = "held"   // prepared; waits for the decision and does not expire
	HoldCommitted HoldState = "committed"
	HoldReleased  HoldState = "released" // aborted, or released after commit
)

// HoldAnswer is the result of a hold. Held and refused instances add up to the requested
// ones.
type HoldAnswer struct {
	ID      HoldID       `cbor:"1,keyasint"`
	State   HoldState    `cbor:"2,keyasint"`
	Held    []InstanceID `cbor:"3,keyasint"`
	Refused []InstanceID `cbor:"4,keyasint"`
	Why     Code         `cbor:"5,keyasint,omitempty"` // reason for refused ones
}

// Decision is the decision of the coordinator of a hold.
type Decision string

// The decisions. Absence means abort (presumed abort).
const (
	DecisionPending Decision = "pending"
	DecisionCommit  Decision = "commit"
	DecisionAbort   Decision = "abort"
)

// Decisions are the decisions on several holds, which a parent sends to a child in one call.
type Decisions struct {
	Holds []HoldDecision `cbor:"1,keyasint" form:"5"` // 1 to DecisionsMax
}

// HoldDecision is the decision on one hold: to commit it, or to abort it. Lifted are at most RulesMax
// server groups that were deleted: their rules bind what the hold has made no more.
type HoldDecision struct {
	ID       HoldID          `cbor:"1,keyasint"`
	Decision Decision        `cbor:"2,keyasint"`
	Lifted   []ServerGroupID `cbor:"3,keyasint,omitempty" form:"5"`
}

// DecisionsAnswer answers Decisions: for each, in order, "" if it is in the log of the
// child, else why it is refused.
type DecisionsAnswer struct {
	Codes []Code `cbor:"1,keyasint"`
}

// DecisionAnswer answers a child that asks for the decision of a hold.
type DecisionAnswer struct {
	Decision Decision `cbor:"1,keyasint"`
}
