package check

import (
	"fmt"
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/state"
)

// Span is a time in which something used so many units of a room: of a host, of a slot of a lease,
// or of whatever has a size.
type Span struct {
	What, Room  string
	Units       int
	From, Until api.Instant // Until is no part of it
}

// Overlaps returns, by time, the moments at which more of a room was used than it has.
func Overlaps(spans []Span, has func(room string) int) []string {
	byRoom := map[string][]Span{}
	for _, s := range spans {
		byRoom[s.Room] = append(byRoom[s.Room], s)
	}
	var over []Span
	for _, s := range spans { // use only rises where something begins
		if used, _ := usedAt(byRoom[s.Room], s.From); s.From < s.Until && used > has(s.Room) {
			over = append(over, s)
		}
	}
	slices.SortStableFunc(over, func(a, b Span) int { return int(a.From - b.From) })
	var out []string
	for _, s := range over {
		used, with := usedAt(byRoom[s.Room], s.From)
		out = append(out, fmt.Sprintf("%s in %s: %d of %d at %s: %+v", s.What, s.Room, used, has(s.Room), s.From, with))
	}
	return out
}

// usedAt returns how many units are used at an instant, and by what.
func usedAt(spans []Span, at api.Instant) (used int, by []Span) {
	for _, s := range spans {
		if s.From <= at && at < s.Until {
			used += s.Units
			by = append(by, s)
		}
	}
	return used, by
}

// Slots follows the views of a zone, and notes when which slots of leases had their room: from the
// moment at which they are ACTIVE until they are gone, or are healed on another host.
type Slots struct {
	// Units returns what a slot takes of its host.
	Units func(*api.Instance) int

	open map[api.InstanceID]Span
	past []Span
}

// Room is the name of the room of a host.
func Room(h api.HostID) string { return "host " + string(h) }

// Note notes what a view shows at an instant; views come in order. It returns the slots that have
// begun for the first time.
func (s *Slots) Note(v *state.State, at api.Instant) (begun []*api.Instance) {
	there := map[api.InstanceID]bool{}
	for _, h := range v.AllHosts() {
		for _, i := range v.SlotsOn(h.ID) {
			old, known := s.open[i.ID]
			stays := known && old.Room == Room(h.ID) && (i.Status == api.StatusActive || i.Status == api.StatusDeleting)
			if there[i.ID] = stays || i.Status == api.StatusActive; stays || !there[i.ID] {
				continue
			}
			if known {
				s.close(i.ID, at)
			} else {
				begun = append(begun, i)
			}
			if s.open == nil {
				s.open = map[api.InstanceID]Span{}
			}
			s.open[i.ID] = Span{What: "slot " + string(i.ID), Room: Room(h.ID), Units: s.Units(i), From: at, Until: api.Forever}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		if !there[id] {
			s.close(id, at)
		}
	}
	return begun
}

func (s *Slots) close(id api.InstanceID, at api.Instant) {
	sp := s.open[id]
	sp.Until = at
	s.past = append(s.past, sp)
	delete(s.open, id)
}

// Spans returns when slots had their room so far.
func (s *Slots) Spans() []Span {
	return slices.Concat(s.past, slices.Collect(maps.Values(s.open)))
}
