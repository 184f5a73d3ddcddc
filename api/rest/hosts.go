package rest

import "berth/api"

// Host is a machine of this zone that runs instances.
type Host struct {
	ID          api.HostID                      `json:"id"`
	Name        string                          `json:"name"`
	Agent       api.AgentID                     `json:"agent"`
	Driver      string                          `json:"driver"`
	Inventory   map[api.ResourceClass]Inventory `json:"inventory"`
	Traits      []string                        `json:"traits,omitempty"`
	Pool        api.Pool                        `json:"pool"`
	State       api.HostState                   `json:"state"` // up or down
	Enabled     bool                            `json:"enabled"`
	Generation  uint64                          `json:"generation"` // increases by one with each change
	Used        api.Resources                   `json:"used"`       // amounts in use now
	Instances   int                             `json:"instances"`
	Slots       int                             `json:"slots,omitempty"` // the part of instances that are slots of leases
	Created     api.Instant                     `json:"created"`
	Updated     api.Instant                     `json:"updated"`
	Attributes  map[string]string               `json:"attributes,omitempty"`  // as the agent reports them
	Overrides   map[string]string               `json:"overrides,omitempty"`   // as set by operators; these take precedence
	Maintenance string                          `json:"maintenance,omitempty"` // reason why it takes no new instances
	Drain       api.DrainPolicy                 `json:"drain,omitempty"`       // policy for its instances during a drain
	Failures    int                             `json:"failures,omitempty"`    // consecutive instances that failed to start
	AZ          string                          `json:"availability_zone"`

	// OwnInventory, OwnTraits and OwnAggregates were added by operators through the
	// placement API; ReportedInventory is what the agent reports of the classes of OwnInventory.
	OwnInventory      map[api.ResourceClass]OwnInventory `json:"own_inventory,omitempty"`
	ReportedInventory map[api.ResourceClass]Inventory    `json:"reported_inventory,omitempty"`
	OwnTraits         []string                           `json:"own_traits,omitempty"`
	OwnAggregates     []string                           `json:"own_aggregates,omitempty"` // UUIDs
	DownSince         api.Instant                        `json:"down_since,omitzero"`
	Unserved          bool                               `json:"unserved,omitempty"`      // its agent last registered without it
	Cleaning          Duration                           `json:"cleaning_time,omitempty"` // how long it stays free after each window
	Leaving           *Leaving                           `json:"leaving,omitempty"`       // progress of the drain; only for a draining host
	// MissingTraits are traits that its agent reports no more and that what is on it was asked for with.
	MissingTraits []TraitDemand `json:"missing_traits,omitempty"`
}

// Inventory is the amount of one resource class that a host has.
type Inventory struct {
	Total           int64     `json:"total"`
	Reserved        int64     `json:"reserved"`
	MinUnit         int64     `json:"min_unit"`
	MaxUnit         int64     `json:"max_unit"`
	StepSize        int64     `json:"step_size"`
	AllocationRatio api.Ratio `json:"allocation_ratio"`
}

// OwnInventory is what operators have set of one resource class of a host. What is absent follows
// the agent.
type OwnInventory struct {
	Total           *int64     `json:"total,omitempty"`
	Reserved        *int64     `json:"reserved,omitempty"`
	MinUnit         *int64     `json:"min_unit,omitempty"`
	MaxUnit         *int64     `json:"max_unit,omitempty"`
	StepSize        *int64     `json:"step_size,omitempty"`
	AllocationRatio *api.Ratio `json:"allocation_ratio,omitempty"`
}

// Leaving is the progress of a drain.
type Leaving struct {
	Left   int `json:"left"`   // instances still on the host
	Ending int `json:"ending"` // the part of left that is ending
	Moving int `json:"moving"` // the part of left with room on another host already
	Slots  int `json:"slots"`  // slots of leases still on the host, besides left; not those of its maintenance
	// Traits are what no other host of the zone has: what was asked for with them cannot leave.
	Traits []TraitDemand `json:"traits_nowhere_else,omitempty"`
}

// TraitDemand is a demand for traits, and who has it.
type TraitDemand struct {
	Traits       []string            `json:"traits"`                 // one of them is needed
	Servers      []api.InstanceID    `json:"servers,omitempty"`      // at most DemandersMax
	Reservations []api.ReservationID `json:"reservations,omitempty"` // of leases; at most DemandersMax
	Count        int                 `json:"count"`                  // servers and slots with the demand
}

// DemandersMax bounds the lists of TraitDemand.
const DemandersMax = 20

// Evacuation is the progress of evacuating a lost host.
type Evacuation struct {
	Movable int   `json:"movable"` // instances still to be moved
	Staying int   `json:"staying"` // instances whose flavor does not allow a move
	WaitMS  int64 `json:"wait_ms"` // milliseconds until the agent of the host has surely stopped them; 0 if it has
}

// LostServersMax bounds the list of LostHost.
const LostServersMax = 100

// LoseBody is the body of a call that writes off a lost host or a server on one.
type LoseBody struct {
	DryRun bool `json:"dry_run,omitempty"` // change nothing, and answer what would be lost
}

// LostHost is what is given up on a host that is lost: it counts as gone.
type LostHost struct {
	Host        string       `json:"host"` // name
	DownSince   api.Instant  `json:"down_since"`
	Servers     int          `json:"servers"`
	Volumes     int          `json:"volumes"`     // with all that is in them
	Slots       int          `json:"slots"`       // of leases
	Allocations int          `json:"allocations"` // of consumers of the placement API
	List        []LostServer `json:"list"`        // of servers, volumes and slots: at most 100, by id
	Forgotten   bool         `json:"forgotten"`   // the host itself is gone, too
	DryRun      bool         `json:"dry_run,omitempty"`
}

// LostServer is one server, volume or slot of a lease that is given up.
type LostServer struct {
	ID          api.InstanceID    `json:"id"`
	Name        string            `json:"name"`
	Kind        string            `json:"kind"` // server, volume or slot
	Project     api.ProjectID     `json:"project_id"`
	Status      api.Status        `json:"status"` // before
	Reservation api.ReservationID `json:"reservation_id"`
}

// DrainPlan is what would become of everything on some hosts whose window reaches beyond a
// time, if they were drained by moving then. Nothing is moved.
type DrainPlan struct {
	At        api.Instant   `json:"at"`
	Hosts     []string      `json:"hosts"`     // names
	Leases    DrainOutcomes `json:"leases"`    // with slots there
	Slots     DrainOutcomes `json:"slots"`     // of the leases
	Boots     DrainOutcomes `json:"boots"`     // with instances there that are not in a lease
	Instances DrainOutcomes `json:"instances"` // of the boots
	Owners    []DrainOwner  `json:"owners"`    // the leases and boots: those that break first, then the soonest
}

// DrainOutcomes counts outcomes.
type DrainOutcomes struct {
	Breaks int `json:"breaks"` // no other host takes it, or a part of it
	Moves  int `json:"moves"`  // other hosts take all of it that must leave
	Stays  int `json:"stays"`  // nothing of it must leave
}

// DrainOwner is a lease or a boot with slots or instances on the hosts.
type DrainOwner struct {
	Kind    string        `json:"kind"` // lease or boot
	ID      string        `json:"id"`   // of the lease; of the reservation of a boot, and of what a parent has made
	Name    string        `json:"name,omitempty"`
	Project api.ProjectID `json:"project_id"`
	Parent  string        `json:"parent,omitempty"` // name of the link of the zone that has made it; absent for this zone
	Start   api.Instant   `json:"start"`
	End     api.Instant   `json:"end"`     // null for an instance that nothing ends
	Outcome string        `json:"outcome"` // breaks, moves or stays: the worst of its parts
	Parts   []DrainPart   `json:"parts"`
}

// DrainPart is one slot or instance on the hosts.
type DrainPart struct {
	ID          api.InstanceID    `json:"id"`
	Reservation api.ReservationID `json:"reservation_id,omitempty"` // of the lease that a slot is of
	Host        string            `json:"host"`
	Outcome     string            `json:"outcome"`
	To          string            `json:"to,omitempty"`     // host that takes it
	Reason      string            `json:"reason,omitempty"` // why it does not move
}

// Aggregate is a named set of hosts of one zone.
type Aggregate struct {
	ID       api.AggregateID   `json:"id"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
	Hosts    []string          `json:"hosts"` // names of hosts
	Created  api.Instant       `json:"created"`
	Updated  api.Instant       `json:"updated"`
}

// HostOf returns the body of a host, without the progress of a drain.
func HostOf(h *api.Host) Host {
	return Host{
		ID: h.ID, Name: h.Name, Agent: h.Agent, Driver: h.Driver, Inventory: inventories(h.Inventory), Traits: h.Traits,
		Pool: h.Pool, State: h.State, Enabled: h.Enabled, Generation: h.Generation, Used: h.Used, Instances: h.Instances,
		Created: h.Created, Updated: h.Updated, Attributes: h.Attributes, Overrides: h.Overrides, Maintenance: h.Maintenance,
		Drain: h.Drain, Failures: h.Failures, AZ: h.AZ, OwnInventory: ownInventories(h), ReportedInventory: inventories(h.Reported), OwnTraits: h.OwnTraits,
		OwnAggregates: h.OwnAggregates, DownSince: h.DownSince, Unserved: h.Unserved, Cleaning: Duration(h.Cleaning),
	}
}

func inventories(m map[api.ResourceClass]api.Inventory) map[api.ResourceClass]Inventory {
	if m == nil {
		return nil
	}
	out := make(map[api.ResourceClass]Inventory, len(m))
	for class, i := range m {
		out[class] = Inventory(i)
	}
	return out
}

func ownInventories(h *api.Host) map[api.ResourceClass]OwnInventory {
	if h.OwnInventory == nil {
		return nil
	}
	out := make(map[api.ResourceClass]OwnInventory, len(h.OwnInventory))
	for class, v := range h.OwnInventory {
		fields, partial := h.OwnFields[class]
		var own OwnInventory
		show := func(field api.InventoryFields, to **int64, n int64) {
			if !partial || fields.Has(field) {
				*to = &n
			}
		}
		show(api.FieldTotal, &own.Total, v.Total)
		show(api.FieldReserved, &own.Reserved, v.Reserved)
		show(api.FieldMinUnit, &own.MinUnit, v.MinUnit)
		show(api.FieldMaxUnit, &own.MaxUnit, v.MaxUnit)
		show(api.FieldStepSize, &own.StepSize, v.StepSize)
		if !partial || fields.Has(api.FieldAllocationRatio) {
			own.AllocationRatio = &v.AllocationRatio
		}
		out[class] = own
	}
	return out
}

// AggregateOf returns the body of an aggregate whose hosts have these names.
func AggregateOf(a *api.Aggregate, hosts []string) Aggregate {
	metadata := a.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return Aggregate{a.ID, a.Name, metadata, hosts, a.Created, a.Updated}
}
