package api

// AggregateSpec is the body of an aggregate that is made or changed; what is nil stays.
type AggregateSpec struct {
	Name     *string           `json:"name,omitempty"`
	Metadata map[string]string `json:"metadata,omitzero"`
	Hosts    *[]string         `json:"hosts,omitempty"` // names or ids; all of them
}

// FlavorSpec is the body of a flavor that is made or replaced. It may have short names for
// the standard classes.
type FlavorSpec struct {
	ID         string            `json:"id,omitempty"` // "" for the name
	Name       string            `json:"name"`
	VCPUs      *int64            `json:"vcpus,omitempty"`
	RAM        *int64            `json:"ram,omitempty"`  // MiB
	Disk       *int64            `json:"disk,omitempty"` // GiB
	Resources  Resources         `json:"resources,omitempty"`
	ExtraSpecs map[string]string `json:"extra_specs,omitempty"`
	Command    []string          `json:"command,omitempty"` // what the process driver runs
}

// HostSpec is the body of a change of a host; what is nil or absent stays.
type HostSpec struct {
	Enabled    *bool  `json:"enabled,omitempty"`
	Pool       *Pool  `json:"pool,omitempty"`
	Generation uint64 `json:"generation,omitempty"` // the one that was seen; 0 for any

	// Attributes override what the agent says, one by one; an empty value takes an
	// override away. Maintenance is why the host takes nothing new; "" ends it, and a
	// drain.
	Attributes  map[string]string `json:"attributes,omitempty"`
	Maintenance *string           `json:"maintenance,omitempty"`
}

// ServerGroupSpec is the body of a server group that is made.
type ServerGroupSpec struct {
	Name   string `json:"name"`
	Policy Policy `json:"policy"`
	Max    int    `json:"max_per_host,omitempty"` // members that one host may have, of anti-affinity alone; 0 for 1
}

// ZoneSpec is the body of a link to a child or the parent that is made or changed; what is
// nil stays.
type ZoneSpec struct {
	Name   *string    `json:"name,omitempty"`
	Offset *int64     `json:"weight_offset,omitempty"` // added to each weight of the child
	Scale  *int64     `json:"weight_scale,omitempty"`  // times each weight, before the offset
	State  *LinkState `json:"state,omitempty"`

	// Gateways is where the zone is, 1 to GatewaysMax of host:port; only for a zone
	// that is linked. What it says of itself later takes its place.
	Gateways []string `json:"gateways,omitempty"`
}
