package dev

import (
	"slices"
	"time"

	"berth/agent"
	"berth/api"
)

// Limits of a tree that one process runs.
const (
	zonesMax     = 32
	nodesMax     = 5
	hostsMax     = 100_000
	HostsDefault = 10
)

// Bounds of Options.StartDelay.
const (
	StartDelayDefault = 20 * time.Millisecond // long enough to see states change
	startDelayMax     = time.Minute
)

// Spec is a zone of the tree and the zones below it.
type Spec struct {
	Name     string `yaml:"name"`
	Nodes    int    `yaml:"nodes"` // 1, 3 or 5; 0 means 1
	Hosts    *int   `yaml:"hosts"` // fake hosts; nil means Options.Hosts
	Children []Spec `yaml:"children"`

	Attributes map[string]string `yaml:"attributes"` // of every host
	Traits     []string          `yaml:"traits"`     // of every host
	Special    []HostSpec        `yaml:"special"`    // hosts that have more
}

// HostSpec describes one special host of a zone: it adds to what every host has.
type HostSpec struct {
	Number     int               `yaml:"number"`     // of the host in its zone, from 1
	Attributes map[string]string `yaml:"attributes"` // win over those of every host
	Traits     []string          `yaml:"traits"`
}

func (s *Spec) validateHosts() error {
	if err := api.CheckPairs("attributes of zone "+s.Name, s.Attributes, api.AttributesMax); err != nil {
		return err
	}
	last := hostsMax
	if s.Hosts != nil {
		last = *s.Hosts
	}
	seen := map[int]bool{}
	for _, h := range s.Special {
		if h.Number < 1 || h.Number > last || seen[h.Number] {
			return api.Errorf(api.CodeInvalid, "special hosts of zone %q must have different numbers from 1 to %d, got %d", s.Name, last, h.Number)
		}
		seen[h.Number] = true
		if err := api.CheckPairs("attributes of a host of zone "+s.Name, h.Attributes, api.AttributesMax); err != nil {
			return err
		}
	}
	return nil
}

// describeHosts applies s to hosts, which are all hosts of the zone. It returns an
// invalid-input error if s describes a host that does not exist.
func (s *Spec) describeHosts(hosts []api.AgentHost) error {
	for i := range hosts {
		agent.Describe(&hosts[i], s.Attributes, s.Traits)
	}
	for _, h := range s.Special {
		if h.Number < 1 || h.Number > len(hosts) {
			return api.Errorf(api.CodeInvalid, "zone %q has hosts 1 to %d, and none with the number %d", s.Name, len(hosts), h.Number)
		}
		agent.Describe(&hosts[h.Number-1], h.Attributes, h.Traits)
	}
	return nil
}

// DefaultTree is a root with two children, one of which has a child itself.
func DefaultTree() Spec {
	return Spec{Name: "root", Children: []Spec{
		{Name: "west", Children: []Spec{{Name: "edge"}}},
		{Name: "east"},
	}}
}

// Validate returns an invalid-input error unless every zone has a unique name and
// numbers in range.
func (s *Spec) Validate() error {
	seen := map[string]bool{}
	if err := s.validate(seen, 1); err != nil {
		return err
	}
	if len(seen) > zonesMax {
		return api.Errorf(api.CodeInvalid, "a tree may have at most %d zones, got %d", zonesMax, len(seen))
	}
	return nil
}

func (s *Spec) validate(seen map[string]bool, depth int) error {
	if err := api.CheckName("zone name", s.Name); err != nil {
		return err
	}
	switch {
	case seen[s.Name]:
		return api.Errorf(api.CodeInvalid, "two zones are called %q", s.Name)
	case !slices.Contains([]int{0, 1, 3, 5}, s.Nodes):
		return api.Errorf(api.CodeInvalid, "zone %q must have 1, 3 or 5 nodes, got %d", s.Name, s.Nodes)
	case s.Hosts != nil && (*s.Hosts < 0 || *s.Hosts > hostsMax):
		return api.Errorf(api.CodeInvalid, "zone %q may have 0 to %d hosts, got %d", s.Name, hostsMax, *s.Hosts)
	case depth > api.DepthMax:
		return api.Errorf(api.CodeInvalid, "a tree may be at most %d zones deep", api.DepthMax)
	}
	if err := s.validateHosts(); err != nil {
		return err
	}
	seen[s.Name] = true
	for i := range s.Children {
		if err := s.Children[i].validate(seen, depth+1); err != nil {
			return err
		}
	}
	return nil
}
