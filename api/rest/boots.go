package rest

import (
	"encoding/json"
	"strings"

	"berth/api"
)

// BootBody is the body of a call that boots instances.
type BootBody struct {
	Server ServerCreate    `json:"server"`
	Hints  *SchedulerHints `json:"os:scheduler_hints,omitempty"` // the same as server.scheduler_hints, in the place that other clients use
}

// ServerCreate describes the instances of a boot. max_count and num_instances are two
// names of one field; giving both with different values is refused.
type ServerCreate struct {
	Name         string            `json:"name"`
	FlavorRef    string            `json:"flavorRef"`           // id of a flavor
	ImageRef     string            `json:"imageRef,omitempty"`  // accepted because clients always send it; not recorded
	MinCount     *int              `json:"min_count,omitempty"` // default: max_count, so all or nothing
	MaxCount     *int              `json:"max_count,omitempty"` // default: min_count, or 1
	NumInstances *int              `json:"num_instances,omitempty"`
	Reservation  string            `json:"reservation_id,omitempty"` // id of the caller's choice; a repeat with it returns the first answer
	Metadata     map[string]string `json:"metadata,omitempty"`
	Blob         []byte            `json:"blob,omitempty"`                  // only for POST /servers: a plan from POST /zones/select
	ReturnRes    bool              `json:"return_reservation_id,omitempty"` // only for POST /servers: return nothing but the reservation id

	// Groups are the kinds of instances of a boot of several kinds. They replace
	// flavorRef, the counts, imageRef and the conditions of the server itself.
	Groups []GroupCreate `json:"groups,omitempty"`
	GroupWish
	Rules    []RuleCreate `json:"rules,omitempty"`
	Zones    *ZoneRule    `json:"zones,omitempty"`
	Lifetime string       `json:"lifetime,omitempty"` // a duration such as "90m", after which the zone ends the instances
	Timeout  string       `json:"timeout,omitempty"`  // a duration; the boot is given up if it is not decided within it

	// OnPreempt is what becomes of preemptible instances whose room is needed: stop (the
	// default), notify or requeue.
	OnPreempt api.PreemptAction `json:"on_preempt,omitempty"`
	// Preempt lets preemptible instances be ended to make room for this boot, if there is no
	// other. It needs the role admin, or a project that the zone allows it.
	Preempt bool `json:"preempt,omitempty"`
}

// GroupWish has the conditions for the hosts of one group.
type GroupWish struct {
	ImageProperties  map[string]string `json:"image_properties,omitempty"` // such as architecture, hypervisor_type
	Traits           *Traits           `json:"traits,omitempty"`           // in addition to those of the flavor's extra specs
	AvailabilityZone string            `json:"availability_zone,omitempty"`
	Hints            *SchedulerHints   `json:"scheduler_hints,omitempty"`
}

// GroupCreate is one kind of instances of a boot. A boot gets at least the minimum of
// each group, or nothing.
type GroupCreate struct {
	Name      string `json:"name"`
	FlavorRef string `json:"flavorRef,omitempty"` // id of a flavor; not with volume
	ImageRef  string `json:"imageRef,omitempty"`
	MinCount  *int   `json:"min_count,omitempty"` // default: max_count
	MaxCount  *int   `json:"max_count,omitempty"` // default: 1
	GroupWish
	Volume *GroupVolume `json:"volume,omitempty"` // the group is of volumes, which have no flavor
}

// GroupVolume makes a group one of volumes. All groups of a boot with volumes are in one zone.
type GroupVolume struct {
	VolumeSpec
	AttachTo string `json:"attach_to,omitempty"` // name of a group with as many instances: each gets one of the volumes, and all are on one host
}

// VolumeSpec is what a volume is.
type VolumeSpec struct {
	Size  int64             `json:"size"`                    // in GiB, 1 to 1048576
	Type  string            `json:"type,omitempty"`          // a name (default: standard)
	Class api.ResourceClass `json:"storage_class,omitempty"` // resource class that the size is of: DISK_GB (the default) or a custom one

	// ExtraSpecs are conditions for its place, as those of a flavor: traits, and affinity tags of zones.
	ExtraSpecs map[string]string `json:"extra_specs,omitempty"`
}

// RuleCreate binds groups of one boot to each other's hosts.
type RuleCreate struct {
	Policy api.Policy `json:"policy"`
	Max    int        `json:"max_per_host,omitempty"` // only for anti-affinity; default: 1
	Groups []string   `json:"groups,omitempty"`       // names of groups; default: all
}

// SchedulerHints are conditions on single hosts. force_hosts and ignore_hosts need the
// role admin.
type SchedulerHints struct {
	Reservation   api.ReservationID `json:"reservation,omitempty"` // of a lease, in whose room all instances of the boot run
	Group         string            `json:"group,omitempty"`       // id or name of a server group
	SameHost      []api.InstanceID  `json:"same_host,omitempty"`
	DifferentHost []api.InstanceID  `json:"different_host,omitempty"`
	Query         json.RawMessage   `json:"query,omitempty"` // a list, or a text that contains one
	NearHostIP    string            `json:"build_near_host_ip,omitempty"`
	CIDR          string            `json:"cidr,omitempty"` // default "/24"
	ForceHosts    []string          `json:"force_hosts,omitempty"`
	IgnoreHosts   []string          `json:"ignore_hosts,omitempty"`
	Preemptible   *Flag             `json:"preemptible,omitempty"` // whether all instances of the boot are preemptible; the text "true" or "false" is possible too
}

// Flag is a bool that may be spelled as a text, as many clients send values of hints.
type Flag bool

// UnmarshalJSON reads true or false, or a text that says so.
func (f *Flag) UnmarshalJSON(b []byte) error {
	switch strings.ToLower(strings.Trim(string(b), `"`)) {
	case "true":
		*f = true
	case "false":
		*f = false
	default:
		return api.Errorf(api.CodeInvalid, "it must be true or false")
	}
	return nil
}

// Traits are traits that hosts must or must not have.
type Traits struct {
	Required  []string   `json:"required,omitempty"`  // all of them
	Forbidden []string   `json:"forbidden,omitempty"` // none of them
	AnyOf     [][]string `json:"any_of,omitempty"`    // at least one of each list
}

// ZoneRule limits the zones of the instances of a boot.
type ZoneRule struct {
	Allowed      []string `json:"allowed,omitempty"`       // names of zones: only in or below one of them
	Excluded     []string `json:"excluded,omitempty"`      // names of zones: not in or below any of them
	AllowedTags  []string `json:"allowed_tags,omitempty"`  // only zones with at least one of these tags
	ExcludedTags []string `json:"excluded_tags,omitempty"` // only zones with none of these tags
	MaxSkew      int      `json:"max_skew,omitempty"`      // per group: largest difference in slots between the fullest zone and the emptiest one that offers; 0 for no limit
	MinZones     int      `json:"min_zones,omitempty"`     // smallest number of zones with a slot of the request
	Pack         bool     `json:"pack,omitempty"`          // all slots in one zone
}

// BootAnswer is the answer to a boot: only the reservation id, or with ?wait= also the
// boot.
type BootAnswer struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Boot        *Boot             `json:"boot,omitempty"`
}

// Boot is one reservation, as seen by the zone where it was made.
type Boot struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Name        string            `json:"name"`
	Project     api.ProjectID     `json:"project_id"`
	User        api.UserID        `json:"user_id"`
	Flavor      api.FlavorID      `json:"flavor"` // "" for a boot of several groups
	MinCount    int               `json:"min_count"`
	MaxCount    int               `json:"max_count"`
	State       api.BootState     `json:"state"`
	Code        api.Code          `json:"code,omitempty"`   // reason of the failure, for programs
	Reason      string            `json:"reason,omitempty"` // reason of the failure, for people
	Attempts    []BootAttempt     `json:"attempts"`
	Instances   BootCounts        `json:"instances"`
	Zones       []ZoneCounts      `json:"zones"`                 // numbers of instances by direct child
	Unreachable int               `json:"unreachable,omitempty"` // instances whose host or zone has not been heard from: their status is the last known
	Waits       []string          `json:"waits_for,omitempty"`   // direct children that have not confirmed a decision, or the end of an instance
	Created     api.Instant       `json:"created"`
	Updated     api.Instant       `json:"updated"`
	Index       uint64            `json:"index"`                // log index of this answer
	Request     api.RequestID     `json:"request_id,omitempty"` // id of the call that made the boot, for GET /explain/{id}
	Groups      []BootGroup       `json:"groups,omitempty"`     // only for a boot of several groups
	Ends        api.Instant       `json:"ends,omitzero"`        // end of its lifetime
	PreemptTerms

	Queued *BootQueued `json:"requeue,omitempty"` // its preempted instances that wait to be booted again
	Cut    *QuotaCut   `json:"quota,omitempty"`   // only if a quota allowed fewer than it asked for: max_count is what it allowed
}

// QuotaCut is what a quota has made of a boot that may have fewer instances than it asks for.
type QuotaCut struct {
	Asked int    `json:"asked"` // instances that were asked for
	Item  string `json:"item"`  // of the quota that allowed no more, such as instances.VCPU
}

// BootQueued is the preempted instances of a boot that wait to be booted again.
type BootQueued struct {
	Count int         `json:"instances"`
	Since api.Instant `json:"since"`
	Tries int         `json:"tries"`         // that found no room, in a row
	Next  api.Instant `json:"next,omitzero"` // the next try, at the latest; absent while a boot for them is under way
}

// BootGroup is one group of a boot.
type BootGroup struct {
	Name     string       `json:"name"`
	Flavor   api.FlavorID `json:"flavor"`
	MinCount int          `json:"min_count"`
	MaxCount int          `json:"max_count"`
	Counts   BootCounts   `json:"instances"`
}

// BootCounts counts the instances of a boot by status. The sum is the number of decided
// instances.
type BootCounts map[api.Status]int

// ZoneCounts counts the instances of a boot in one direct child, or this zone.
type ZoneCounts struct {
	Zone   string     `json:"zone"`
	Counts BootCounts `json:"instances"`
	// Unreachable is how many of them are on a host or in a zone that has not been heard from.
	Unreachable int `json:"unreachable,omitempty"`
}

// SelectAnswer is an estimate and its sealed plan.
type SelectAnswer struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Weights     [][]int64         `json:"weights"` // per group
	Blob        []byte            `json:"blob"`    // sealed plan, for POST /servers
	Zones       []ZoneOutcome     `json:"zones"`
	Refusals    []Refusals        `json:"refusals"`             // per group, of this zone's own hosts
	Request     api.RequestID     `json:"request_id,omitempty"` // for GET /explain/{id}
	ExpiresInMS int64             `json:"expires_in_ms"`        // how long the blob is valid
	Reason      string            `json:"reason,omitempty"`     // what a boot of the plan would lack; absent if it can be booted
}

// SelectAnswerOf returns the body of an estimate.
func SelectAnswerOf(a *api.SelectAnswer) SelectAnswer {
	return SelectAnswer{
		a.Reservation, a.Weights, a.Blob, each(a.Zones, zoneOutcomeOf), each(a.Refusals, refusalsOf),
		a.Request, a.Expires.Milliseconds(), a.Short,
	}
}
