package state

import (
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// Named is a resource class or a trait that the zone knows.
type Named struct {
	Name    string      `cbor:"1,keyasint"`
	Created api.Instant `cbor:"2,keyasint"` // when it became known; 0 for a standard name
}

// ResourceClasses returns the classes that the zone knows: the standard ones in their
// customary order, then the custom ones by name.
func (s *stockBook) ResourceClasses() []Named {
	var out []Named
	for _, c := range api.StandardClasses() {
		out = append(out, Named{Name: string(c)})
	}
	return append(out, namedList(s.classes)...)
}

// ResourceClass returns one class that the zone knows.
func (s *stockBook) ResourceClass(name api.ResourceClass) (Named, bool) {
	if standardClass(name) {
		return Named{Name: string(name)}, true
	}
	created, ok := s.classes.Get(string(name))
	return Named{Name: string(name), Created: created}, ok
}

// Traits returns the traits that the zone knows, by name.
func (s *stockBook) Traits() []Named {
	out := namedList(s.traits)
	for _, t := range api.StandardTraits() {
		out = append(out, Named{Name: t})
	}
	slices.SortFunc(out, func(a, b Named) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Trait returns one trait that the zone knows.
func (s *stockBook) Trait(name string) (Named, bool) {
	if api.StandardTrait(name) {
		return Named{Name: name}, true
	}
	created, ok := s.traits.Get(name)
	return Named{Name: name, Created: created}, ok
}

func namedList(t table.Map[api.Instant]) []Named {
	out := make([]Named, 0, t.Len())
	t.Scan(func(name string, created api.Instant) bool {
		out = append(out, Named{Name: name, Created: created})
		return true
	})
	return out
}

func standardClass(c api.ResourceClass) bool { return c.Valid() && !api.ValidCustom(string(c)) }

func (s *stockBook) classPut(c command.ClassPut) Result {
	was, known := s.classes.Get(string(c.Was))
	switch {
	case !api.ValidCustom(string(c.Name)):
		return refuseWith(api.CodeInvalid, "the name of a class must be %s and upper case letters, digits and _, at most %d bytes",
			api.CustomPrefix, api.CustomMaxBytes)
	case standardClass(c.Was):
		return refuseWith(api.CodeInvalid, "%s is the same everywhere and keeps its name", c.Was)
	case c.Was != "" && !known:
		return refuseWith(api.CodeNotFound, "no resource class %q", string(c.Was))
	case c.Was == c.Name:
		return Result{}
	}
	if _, exists := s.classes.Get(string(c.Name)); exists {
		return refuseWith(api.CodeExists, "resource class %s exists", c.Name)
	}
	if c.Was == "" {
		if s.classes.Len() >= s.limits.customClasses {
			return refuseWith(api.CodeOverloaded, "the zone has %d resource classes of its own, which is the limit", s.limits.customClasses)
		}
		s.classes.Set(string(c.Name), c.At)
		return Result{}
	}
	if r := s.classUnused(c.Was); r.Err != nil {
		return r
	}
	s.classes.Delete(string(c.Was))
	s.classes.Set(string(c.Name), was)
	return Result{}
}

func (s *stockBook) classDelete(c command.ClassDelete) Result {
	if standardClass(c.Name) {
		return refuseWith(api.CodeInvalid, "%s is the same everywhere and stays", c.Name)
	}
	if _, known := s.classes.Get(string(c.Name)); !known {
		return refuseWith(api.CodeNotFound, "no resource class %q", string(c.Name))
	}
	if r := s.classUnused(c.Name); r.Err != nil {
		return r
	}
	s.classes.Delete(string(c.Name))
	return Result{}
}

// classUnused refuses a class that is in an inventory. It scans all providers.
func (s *stockBook) classUnused(name api.ResourceClass) Result {
	who := s.findProvider(func(w *declaredProvider) bool {
		_, own := w.own.inventory[name]
		_, declared := w.declared.inventory[name]
		return own || declared
	})
	if who != "" {
		return refuseWith(api.CodeInUse, "provider %q has an inventory of %s", who, name)
	}
	return Result{}
}

func (s *stockBook) traitPut(c command.TraitPut) Result {
	if !api.ValidCustom(c.Name) {
		return refuseWith(api.CodeInvalid, "the name of a trait must be %s and upper case letters, digits and _, at most %d bytes",
			api.CustomPrefix, api.CustomMaxBytes)
	}
	if _, exists := s.traits.Get(c.Name); exists {
		return Result{} // a repeat, or an agent was first
	}
	if s.traits.Len() >= s.limits.customTraits {
		return refuseWith(api.CodeOverloaded, "the zone has %d traits of its own, which is the limit", s.limits.customTraits)
	}
	s.traits.Set(c.Name, c.At)
	return Result{}
}

func (s *stockBook) traitDelete(c command.TraitDelete) Result {
	if api.StandardTrait(c.Name) {
		return refuseWith(api.CodeInvalid, "%s is the same everywhere and stays", c.Name)
	}
	if _, known := s.traits.Get(c.Name); !known {
		return refuseWith(api.CodeNotFound, "no trait %q", c.Name)
	}
	who := s.findProvider(func(w *declaredProvider) bool {
		return slices.Contains(w.own.traits, c.Name) || slices.Contains(w.declared.traits, c.Name)
	})
	if who != "" {
		return refuseWith(api.CodeInUse, "provider %q has the trait %s", who, c.Name)
	}
	s.traits.Delete(c.Name)
	return Result{}
}

// learnNames adds the classes and traits that an agent reports for a host.
func (s *stockBook) learnNames(inventory map[api.ResourceClass]api.Inventory, traits []string, at api.Instant) {
	for _, name := range slices.Sorted(maps.Keys(inventory)) {
		if _, known := s.ResourceClass(name); !known {
			s.classes.Set(string(name), at)
		}
	}
	for _, name := range traits {
		if _, known := s.Trait(name); !known {
			s.traits.Set(name, at)
		}
	}
}

// mayLearn refuses hosts whose new classes or traits exceed the limits.
func (s *stockBook) mayLearn(c *command.HostsPut) Result {
	classes, traits := map[api.ResourceClass]bool{}, map[string]bool{}
	for _, e := range c.Hosts {
		for name := range e.Host.Inventory {
			if _, known := s.ResourceClass(name); !known {
				classes[name] = true
			}
		}
		for _, name := range e.Host.Traits {
			if _, known := s.Trait(name); !known {
				traits[name] = true
			}
		}
	}
	switch {
	case len(classes) > 0 && s.classes.Len()+len(classes) > s.limits.customClasses:
		return refuseWith(api.CodeOverloaded, "a zone has at most %d resource classes of its own", s.limits.customClasses)
	case len(traits) > 0 && s.traits.Len()+len(traits) > s.limits.customTraits:
		return refuseWith(api.CodeOverloaded, "a zone has at most %d traits of its own", s.limits.customTraits)
	case len(classes)+len(traits) > 0 && s.limits.agentHosts > 0:
		return s.mayLearnOf(c)
	}
	return Result{}
}

// mayLearnOf refuses hosts with which one agent would have too many classes and traits of the zone's own. Those of
// its other hosts count as well, served or not.
func (s *stockBook) mayLearnOf(c *command.HostsPut) Result {
	classes, traits, named := map[api.ResourceClass]bool{}, map[string]bool{}, map[string]bool{}
	gather := func(inventory map[api.ResourceClass]api.Inventory, names []string) {
		for class := range inventory {
			if !standardClass(class) {
				classes[class] = true
			}
		}
		for _, name := range names {
			if !api.StandardTrait(name) {
				traits[name] = true
			}
		}
	}
	for _, e := range c.Hosts {
		named[e.Host.Name] = true
		gather(e.Host.Inventory, e.Host.Traits)
	}
	for _, h := range s.hostsOf(c.Agent, 0) {
		if !named[h.Name] {
			gather(h.Inventory, h.Traits)
		}
	}
	switch {
	case len(classes) > s.limits.agentClasses:
		return refuseWith(api.CodeOverloaded, "the hosts of one agent have at most %d resource classes of the zone's own, got %d", s.limits.agentClasses, len(classes))
	case len(traits) > s.limits.agentTraits:
		return refuseWith(api.CodeOverloaded, "the hosts of one agent have at most %d traits of the zone's own, got %d", s.limits.agentTraits, len(traits))
	}
	return Result{}
}
