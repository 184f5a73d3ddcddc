package dev

import (
	"slices"

	"berth/api"
)

// Limits of a tree that one process runs.
const (
	ZonesMax     = 32
	NodesMax     = 5
	HostsMax     = 10_000
	HostsDefault = 10
)

// Spec is a zone of the tree and those below it.
type Spec struct {
	Name     string `yaml:"name"`
	Nodes    int    `yaml:"nodes"` // 1, 3 or 5; 0 means 1
	Hosts    *int   `yaml:"hosts"` // fake hosts; nil means Options.Hosts
	Children []Spec `yaml:"children"`
}

// DefaultTree is a root with two children, one of which has a child itself.
func DefaultTree() Spec {
	return Spec{Name: "root", Children: []Spec{
		{Name: "west", Children: []Spec{{Name: "edge"}}},
		{Name: "east"},
	}}
}

// Validate returns an invalid-input error unless every zone has a name of its
// own and numbers in range.
func (s *Spec) Validate() error {
	seen := map[string]bool{}
	if err := s.validate(seen, 1); err != nil {
		return err
	}
	if len(seen) > ZonesMax {
		return api.Errorf(api.CodeInvalid, "a tree may have at most %d zones, got %d", ZonesMax, len(seen))
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
	case s.Hosts != nil && (*s.Hosts < 0 || *s.Hosts > HostsMax):
		return api.Errorf(api.CodeInvalid, "zone %q may have 0 to %d hosts, got %d", s.Name, HostsMax, *s.Hosts)
	case depth > api.DepthMax:
		return api.Errorf(api.CodeInvalid, "a tree may be at most %d zones deep", api.DepthMax)
	}
	seen[s.Name] = true
	for i := range s.Children {
		if err := s.Children[i].validate(seen, depth+1); err != nil {
			return err
		}
	}
	return nil
}
