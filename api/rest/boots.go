package rest

import (
	"encoding/json"

	"berth/api"
)

// BootBody is the body of a call that asks for instances.
type BootBody struct {
	Server ServerCreate    `json:"server"`
	Hints  *SchedulerHints `json:"os:scheduler_hints,omitempty"` // the same as server.scheduler_hints, where other clients put it
}

// ServerCreate is what a caller may ask for. MaxCount and NumInstances are two
// names of one thing; giving both with different values is refused.
type ServerCreate struct {
	Name         string            `json:"name"`
	FlavorRef    string            `json:"flavorRef"`           // id of a flavor
	ImageRef     string            `json:"imageRef,omitempty"`  // accepted because clients always send it; not recorded
	MinCount     *int              `json:"min_count,omitempty"` // default: max_count, so all or nothing
	MaxCount     *int              `json:"max_count,omitempty"` // default: min_count, or 1
	NumInstances *int              `json:"num_instances,omitempty"`
	Reservation  string            `json:"reservation_id,omitempty"` // the caller's own; makes a repeat return the first answer
	Metadata     map[string]string `json:"metadata,omitempty"`
	Blob         []byte            `json:"blob,omitempty"`                  // of POST /servers only: a plan of POST /zones/select
	ReturnRes    bool              `json:"return_reservation_id,omitempty"` // of POST /servers only

	// Groups, for a boot of several kinds of instances, replace flavorRef, the counts,
	// imageRef and the wishes of the server itself.
	Groups []GroupCreate `json:"groups,omitempty"`
	GroupWish
	Rules    []RuleCreate `json:"rules,omitempty"`
	Zones    *ZoneRule    `json:"zones,omitempty"`
	Lifetime string       `json:"lifetime,omitempty"` // a duration such as "90m": instances end by themselves after it
	Timeout  string       `json:"timeout,omitempty"`  // a duration: the boot is given up if it is not decided by then
}

// GroupWish is what a caller may ask of the hosts of one group.
type GroupWish struct {
	ImageProperties  map[string]string `json:"image_properties,omitempty"` // such as architecture, hypervisor_type
	Traits           *Traits           `json:"traits,omitempty"`           // beside those of the flavor's extra specs
	AvailabilityZone string            `json:"availability_zone,omitempty"`
	Hints            *SchedulerHints   `json:"scheduler_hints,omitempty"`
}

// GroupCreate is one kind of instances of a boot. A boot gets each group with at
// least its minimum, or nothing.
type GroupCreate struct {
	Name      string `json:"name"`
	FlavorRef string `json:"flavorRef"`
	ImageRef  string `json:"imageRef,omitempty"`
	MinCount  *int   `json:"min_count,omitempty"` // default: max_count
	MaxCount  *int   `json:"max_count,omitempty"` // default: 1
	GroupWish
}

// RuleCreate binds groups of one boot to each other's hosts.
type RuleCreate struct {
	Policy api.Policy `json:"policy"`
	Max    int        `json:"max_per_host,omitempty"` // of anti-affinity, default 1
	Groups []string   `json:"groups,omitempty"`       // names; default: all
}

// SchedulerHints are the hints of a caller. force_hosts and ignore_hosts need the
// role admin.
type SchedulerHints struct {
	Group         string           `json:"group,omitempty"` // id or name of a server group
	SameHost      []api.InstanceID `json:"same_host,omitempty"`
	DifferentHost []api.InstanceID `json:"different_host,omitempty"`
	Query         json.RawMessage  `json:"query,omitempty"` // a list, or a text that holds one
	NearHostIP    string           `json:"build_near_host_ip,omitempty"`
	CIDR          string           `json:"cidr,omitempty"` // default "/24"
	ForceHosts    []string         `json:"force_hosts,omitempty"`
	IgnoreHosts   []string         `json:"ignore_hosts,omitempty"`
}

// Traits are traits that hosts must or must not have.
type Traits struct {
	Required  []string   `json:"required,omitempty"`  // all of them
	Forbidden []string   `json:"forbidden,omitempty"` // none of them
	AnyOf     [][]string `json:"any_of,omitempty"`    // of each list at least one
}

// ZoneRule says in which zones the instances of a boot may be.
type ZoneRule struct {
	Allowed      []string `json:"allowed,omitempty"`       // names; one of them, or below one of them
	Excluded     []string `json:"excluded,omitempty"`      // names; none of them, nor below
	AllowedTags  []string `json:"allowed_tags,omitempty"`  // at least one of these tags
	ExcludedTags []string `json:"excluded_tags,omitempty"` // none of these tags
	MaxSkew      int      `json:"max_skew,omitempty"`      // per group: slots of the fullest zone less those of the emptiest one that offers; 0 for any
	MinZones     int      `json:"min_zones,omitempty"`     // zones with a slot of the request at the least
	Pack         bool     `json:"pack,omitempty"`          // all slots in one zone
}

// BootAnswer is the answer to a boot: only the reservation id, or with ?wait= the
// boot too.
type BootAnswer struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Boot        *Boot             `json:"boot,omitempty"`
}

// Boot is one reservation at the zone where it was made.
type Boot struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Name        string            `json:"name"`
	Project     api.ProjectID     `json:"project_id"`
	User        api.UserID        `json:"user_id"`
	Flavor      api.FlavorID      `json:"flavor"` // "" for a boot of several groups
	MinCount    int               `json:"min_count"`
	MaxCount    int               `json:"max_count"`
	State       api.BootState     `json:"state"`
	Code        api.Code          `json:"code,omitempty"`   // why it failed, for programs
	Reason      string            `json:"reason,omitempty"` // why it failed, for people
	Attempts    []BootAttempt     `json:"attempts"`
	Instances   BootCounts        `json:"instances"`
	Zones       []ZoneCounts      `json:"zones"` // where the instances are, by direct child
	Created     api.Instant       `json:"created"`
	Updated     api.Instant       `json:"updated"`
	Index       uint64            `json:"index"`                // log index of this answer
	Request     api.RequestID     `json:"request_id,omitempty"` // of the call that made it; GET /explain/{id} takes it
	Groups      []BootGroup       `json:"groups,omitempty"`     // of a boot of several groups
	Ends        api.Instant       `json:"ends,omitzero"`        // when its lifetime is over
}

// BootGroup is one group of a boot.
type BootGroup struct {
	Name     string       `json:"name"`
	Flavor   api.FlavorID `json:"flavor"`
	MinCount int          `json:"min_count"`
	MaxCount int          `json:"max_count"`
	Counts   BootCounts   `json:"instances"`
}

// BootCounts counts the instances of a boot by status. Their sum is the number
// of instances that were decided.
type BootCounts map[api.Status]int

// ZoneCounts counts the instances of a boot in one direct child, or this zone.
type ZoneCounts struct {
	Zone   string     `json:"zone"`
	Counts BootCounts `json:"instances"`
}

// SelectAnswer is an estimate, and the sealed plan that makes it.
type SelectAnswer struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Weights     [][]int64         `json:"weights"` // per group
	Blob        []byte            `json:"blob"`    // POST /servers takes it
	Zones       []ZoneOutcome     `json:"zones"`
	Refusals    []Refusals        `json:"refusals"`             // per group, of this zone's own hosts
	Request     api.RequestID     `json:"request_id,omitempty"` // GET /explain/{id} takes it
	ExpiresInMS int64             `json:"expires_in_ms"`        // for how long the blob may be taken up
}

// SelectAnswerOf returns the body of an estimate.
func SelectAnswerOf(a *api.SelectAnswer) SelectAnswer {
	return SelectAnswer{
		a.Reservation, a.Weights, a.Blob, each(a.Zones, zoneOutcomeOf), each(a.Refusals, refusalsOf),
		a.Request, a.Expires.Milliseconds(),
	}
}
