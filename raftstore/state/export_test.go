package state

import (
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// History gives tests outside the package the commands that random tests inside draw,
// and applies them with the checks that hold for every command.
type History struct {
	d      dice
	leases *wideDice  // of a history of leases
	soft   *softDice  // of a history of preemptible instances and leases
	shares *shareDice // of a history of what is lent to a parent
}

// NewHistory returns a zone before its first command.
func NewHistory(rt *rapid.T) *History {
	return &History{d: dice{rt: rt, w: &world{tb: rt, s: New(), now: start}}}
}

// NewVolumeHistory returns a zone before its first command, for a history of volumes.
func NewVolumeHistory(rt *rapid.T) *History {
	h := NewHistory(rt)
	h.d.w.form = api.FormNewest
	return h
}

// NewLeaseHistory returns a zone before its first command, for a history of leases.
func NewLeaseHistory(rt *rapid.T) *History {
	h := NewHistory(rt)
	h.d.w.form = api.FormNewest
	h.leases = &wideDice{leaseDice{dice: h.d, seen: map[string]int{}}}
	return h
}

// FirstOfLeases returns the commands that every history of leases begins with.
func (h *History) FirstOfLeases() []command.Command {
	out := h.leases.first()
	for i := range out {
		out[i] = h.d.w.reread(out[i])
	}
	return out
}

// DrawLease draws from the commands that leases are about.
func (h *History) DrawLease() command.Command {
	for {
		if c, ok := h.leases.next(); ok {
			return h.d.w.reread(c)
		}
	}
}

// First returns the commands that every history begins with.
func (h *History) First() []command.Command { return h.d.first() }

// Draw draws any command.
func (h *History) Draw() command.Command { return h.d.command() }

// DrawRuled draws from the commands that rules are about.
func (h *History) DrawRuled() command.Command { return h.d.ruled() }

// FirstOfVolumes returns the commands that every history of volumes begins with.
func (h *History) FirstOfVolumes() []command.Command { return h.d.firstOfVolumes() }

// DrawVolume draws from the commands that volumes are about.
func (h *History) DrawVolume() command.Command { return h.d.volume() }

// Length draws how many commands there are to be.
func (h *History) Length(most int) int { return 1 + h.d.n(most) }

// Evictions counts the instances of the zone that had to leave, and those of them in a slot of a lease.
func (h *History) Evictions() (all, lent int) {
	for _, i := range h.d.w.s.instances.Values() {
		if i.Eviction != nil {
			all++
			if i.Within != "" {
				lent++
			}
		}
	}
	return all, lent
}

// State returns the state of the zone.
func (h *History) State() *State { return h.d.w.s }

// Next returns the index of the next command.
func (h *History) Next() uint64 { return h.d.w.index + 1 }

// AsEntry returns a command as it is read from an entry of the form that the history writes.
func (h *History) AsEntry(c command.Command) command.Command {
	if h.d.w.form == 0 {
		return c
	}
	return h.d.w.reread(c)
}

// Apply applies a command at the next index.
func (h *History) Apply(_ uint64, c command.Command) Result { return h.d.w.do(c) }

// CheckIndexes compares every index with a full scan.
func (h *History) CheckIndexes() {
	checkIndexes(h.d.rt, h.d.w.s)
	checkWork(h.d.rt, h.d.w.s, uint64(h.d.n(int(h.d.w.index))))
}
