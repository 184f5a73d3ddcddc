package rest

import "berth/api"

// Flavor is a named shape of an instance.
type Flavor struct {
	ID         api.FlavorID      `json:"id"` // value of flavorRef
	Name       string            `json:"name"`
	Resources  api.Resources     `json:"resources"`
	ExtraSpecs map[string]string `json:"extra_specs,omitempty"`
	Command    []string          `json:"command,omitempty"` // command of the process driver; only for this zone's own flavors
	Created    api.Instant       `json:"created"`
}

// FlavorOf returns the body of a flavor.
func FlavorOf(f *api.Flavor) Flavor { return Flavor(*f) }

// ServerGroup applies a policy to the hosts of the instances booted into it.
type ServerGroup struct {
	ID      api.ServerGroupID `json:"id"`
	Name    string            `json:"name"` // unique in the project
	Project api.ProjectID     `json:"project_id"`
	Policy  api.Policy        `json:"policy"`
	Max     int               `json:"max_per_host,omitempty"` // only for anti-affinity
	Created api.Instant       `json:"created"`
	Members []api.InstanceID  `json:"members"`
}

// ServerGroupOf returns the body of a server group.
func ServerGroupOf(g *api.ServerGroup) ServerGroup { return ServerGroup(*g) }

// AvailabilityZone is an availability zone that a boot may ask for.
type AvailabilityZone struct {
	Name      string   `json:"name"`
	Available bool     `json:"available"` // some host there accepts instances
	Zones     []string `json:"zones"`     // names of this zone and of the direct children that lead there
}
