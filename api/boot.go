package api

import (
	"encoding/json"
	"time"
)

// BootState is the life of a boot as its caller sees it.
type BootState string

// The boot states. ACTIVE, DEGRADED, ERROR, FAILED and RELEASED are outcomes.
const (
	BootAccepted  BootState = "ACCEPTED"  // recorded; nothing is held yet
	BootHolding   BootState = "HOLDING"   // slots are being held
	BootBuilding  BootState = "BUILDING"  // decided: commit; instances are being started
	BootActive    BootState = "ACTIVE"    // every instance has run
	BootDegraded  BootState = "DEGRADED"  // every instance was decided; some failed, and others run or have run
	BootError     BootState = "ERROR"     // every instance was decided, and each that is left failed: nothing runs
	BootReleasing BootState = "RELEASING" // being given back
	BootReleased  BootState = "RELEASED"  // given back at the caller's wish; nothing is left
	BootFailed    BootState = "FAILED"    // fewer than min_count could be held; nothing was started
)

// Outcome reports whether s is one that a waiting caller waits for.
func (s BootState) Outcome() bool {
	switch s {
	case BootActive, BootDegraded, BootError, BootReleased, BootFailed:
		return true
	case BootAccepted, BootHolding, BootBuilding, BootReleasing:
		return false
	}
	return false
}

// BootBody is the body of POST /zones/boot and of POST /servers.
type BootBody struct {
	Server ServerCreate    `json:"server"`
	Hints  *SchedulerHints `json:"os:scheduler_hints,omitempty"` // the same as server.scheduler_hints, where other clients put it
}

// ServerCreate is what a caller may ask for. MaxCount and NumInstances are two
// names of one thing; giving both with different values is refused.
type ServerCreate struct {
	Name         string            `json:"name"`
	FlavorRef    string            `json:"flavorRef"`
	ImageRef     string            `json:"imageRef,omitempty"`  // recorded nowhere yet; accepted because clients always send it
	MinCount     *int              `json:"min_count,omitempty"` // default: max_count, so all or nothing
	MaxCount     *int              `json:"max_count,omitempty"` // default 1
	NumInstances *int              `json:"num_instances,omitempty"`
	Reservation  string            `json:"reservation_id,omitempty"` // the caller's own; makes a repeat return the first answer
	Metadata     map[string]string `json:"metadata,omitempty"`
	Blob         []byte            `json:"blob,omitempty"`                  // POST /servers only: a plan from POST /zones/select
	ReturnRes    bool              `json:"return_reservation_id,omitempty"` // POST /servers only

	// Groups, for a boot of several kinds of instances, stand in place of
	// flavorRef, the counts, imageRef and what follows them; see GroupCreate.
	Groups []GroupCreate `json:"groups,omitempty"`
	GroupWish
	Rules    []RuleCreate `json:"rules,omitempty"`
	Zones    *ZoneRule    `json:"zones,omitempty"`
	Lifetime string       `json:"lifetime,omitempty"` // a duration such as "90m": instances end by themselves after it
	Timeout  string       `json:"timeout,omitempty"`  // a duration: given up if it is not decided by then
}

// GroupWish is what may be said of the hosts of one group.
type GroupWish struct {
	ImageProperties  map[string]string `json:"image_properties,omitempty"` // such as architecture, hypervisor_type
	Traits           *Traits           `json:"traits,omitempty"`           // beside those of the flavor's extra specs
	AvailabilityZone string            `json:"availability_zone,omitempty"`
	Hints            *SchedulerHints   `json:"scheduler_hints,omitempty"`
}

// GroupCreate is one kind of instances of a boot. All groups are had, each with
// at least its minimum, or none.
type GroupCreate struct {
	Name      string `json:"name"`
	FlavorRef string `json:"flavorRef"`
	ImageRef  string `json:"imageRef,omitempty"`
	MinCount  *int   `json:"min_count,omitempty"` // default: max_count
	MaxCount  *int   `json:"max_count,omitempty"` // default 1
	GroupWish
}

// RuleCreate binds groups of one boot to each other's hosts.
type RuleCreate struct {
	Policy Policy   `json:"policy"`
	Max    int      `json:"max_per_host,omitempty"` // of anti-affinity, default 1
	Groups []string `json:"groups,omitempty"`       // names; default all
}

// SchedulerHints are the hints of a caller. force_hosts and ignore_hosts need the
// role admin.
type SchedulerHints struct {
	Group         string          `json:"group,omitempty"` // id or name of a server group
	SameHost      []InstanceID    `json:"same_host,omitempty"`
	DifferentHost []InstanceID    `json:"different_host,omitempty"`
	Query         json.RawMessage `json:"query,omitempty"` // an array, or a string that holds one
	NearHostIP    string          `json:"build_near_host_ip,omitempty"`
	CIDR          string          `json:"cidr,omitempty"` // default "/24"
	ForceHosts    []string        `json:"force_hosts,omitempty"`
	IgnoreHosts   []string        `json:"ignore_hosts,omitempty"`
}

// BootAccept is the 202 answer of a boot that was not waited for.
type BootAccept struct {
	Reservation ReservationID `json:"reservation_id"`
}

// Boot tells the saga of one reservation at the zone where it was made.
type Boot struct {
	Reservation ReservationID `json:"reservation_id"`
	Name        string        `json:"name"`
	Project     ProjectID     `json:"project_id"`
	User        UserID        `json:"user_id"`
	Flavor      FlavorID      `json:"flavor"`
	MinCount    int           `json:"min_count"`
	MaxCount    int           `json:"max_count"`
	State       BootState     `json:"state"`
	Code        Code          `json:"code,omitempty"` // why it failed, for programs
	Reason      string        `json:"reason,omitempty"`
	Attempts    []BootAttempt `json:"attempts"`
	Instances   BootCounts    `json:"instances"`
	Zones       []ZoneCounts  `json:"zones"` // what landed where, by direct child
	Created     Instant       `json:"created"`
	Updated     Instant       `json:"updated"`
	Index       uint64        `json:"index"`                // log index this answer was read at
	Request     RequestID     `json:"request_id,omitempty"` // of the call that made it; what GET /explain/{id} takes
	Groups      []BootGroup   `json:"groups,omitempty"`     // of a boot of several groups
	Ends        Instant       `json:"ends,omitzero"`        // when its lifetime is over
}

// BootGroup tells one group of a boot.
type BootGroup struct {
	Name     string     `json:"name"`
	Flavor   FlavorID   `json:"flavor"`
	MinCount int        `json:"min_count"`
	MaxCount int        `json:"max_count"`
	Counts   BootCounts `json:"instances"`
}

// BootCounts counts the instances of a boot by status. Their sum is the number
// of instances that were decided.
type BootCounts map[Status]int

// ZoneCounts counts the instances of a boot in one direct child, or this zone.
type ZoneCounts struct {
	Zone   string     `json:"zone"`
	Counts BootCounts `json:"instances"`
}

// BootAttempt tells one attempt to hold slots. Wanted == Held + Refused + Short:
// refused by zones that had offered, or short because nobody offered.
type BootAttempt struct {
	Attempt  int           `json:"attempt" cbor:"1,keyasint"`
	Wanted   int           `json:"wanted" cbor:"2,keyasint"`
	Held     int           `json:"held" cbor:"3,keyasint"`
	Refused  int           `json:"refused" cbor:"4,keyasint"`
	Short    int           `json:"short" cbor:"5,keyasint"`
	Zones    []ZoneOutcome `json:"zones" cbor:"6,keyasint"`
	Refusals []Refusals    `json:"refusals" cbor:"7,keyasint"`
	Offered  []Offer       `json:"offered,omitempty" cbor:"8,keyasint,omitempty"` // per group
	// Contended says that others, not decided yet, held room that was wanted.
	Contended bool `json:"contended,omitempty" cbor:"9,keyasint,omitempty"`
}

// Offer is how many slots one group was looked for in an attempt, and how many
// the plan had.
type Offer struct {
	Wanted  int `json:"wanted" cbor:"1,keyasint"`
	Offered int `json:"offered" cbor:"2,keyasint"`
}

// Defaults of waiting calls.
const (
	BootWaitDefault = 30 * time.Second
)
