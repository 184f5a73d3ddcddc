package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// propertySet stores what is said of an attribute of hosts. The attribute need not exist:
// agents come and go, and what was said stays.
func (s *stockBook) propertySet(c command.PropertySet) Result {
	if c.Name == "" || len(c.Name) > s.limits.attributeBytes {
		return refuseWith(api.CodeInvalid, "the name of a property must be 1 to %d bytes", s.limits.attributeBytes)
	}
	old, known := s.properties.Get(c.Name)
	switch {
	case !known && s.properties.Len() >= s.limits.properties:
		return refuseWith(api.CodeOverloaded, "the zone has settings for %d properties, which is the limit", s.limits.properties)
	case !known:
		s.properties.Set(c.Name, &api.HostProperty{ID: c.ID, Name: c.Name, Private: c.Private, Created: c.At})
	case old.Private != c.Private:
		p := *old
		p.Private, p.Updated = c.Private, c.At
		s.properties.Set(c.Name, &p)
	}
	return Result{}
}

// HostProperty returns what is said of an attribute of hosts; zero and false if nothing is.
func (s *stockBook) HostProperty(name string) (api.HostProperty, bool) {
	p, ok := s.properties.Get(name)
	if !ok {
		return api.HostProperty{Name: name}, false
	}
	return *p, true
}

// HostProperties returns all that is said of attributes of hosts, by name.
func (s *stockBook) HostProperties() []*api.HostProperty { return s.properties.Values() }
