package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// shareBoot gives a loaded boot the texts and maps of its holds.
func (s *bootsBook) shareBoot(b *Boot) {
	for _, id := range b.Holds {
		h, ok := s.holds.Get(joinKey(api.LinkID(""), id))
		if !ok {
			continue
		}
		next := 0
		for n := range h.Slots {
			if at := findSpec(b.Instances, &next, h.Slots[n].Instance.ID); at != nil {
				shareSpec(at, h.Slots[n].Instance)
			}
		}
	}
}

// shareWithBoot returns a hold of this zone with the texts and maps of its boot.
func (s *bootsBook) shareWithBoot(c command.Hold) command.Hold {
	b, ok := s.boots.Get(bootKey(c.Request.Project, c.Request.Reservation, c.Refill))
	if c.Origin != "" || !ok {
		return c
	}
	shareMap(&c.Metadata, b.Metadata)
	c.Request.Groups = s.sharedGroups(c.Request.Groups)
	c.Slots = slices.Clone(c.Slots)
	next := 0
	for n := range c.Slots {
		if spec := findSpec(b.Instances, &next, c.Slots[n].Instance.ID); spec != nil {
			shareSpec(&c.Slots[n].Instance, *spec)
		}
	}
	return c
}
