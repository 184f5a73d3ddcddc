package events

import (
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/state"
)

// KindGap is the kind of the event that says that others may be missing. It is shown to
// everybody, whatever kinds they want.
const KindGap = "gap"

// audience is for whom the events of a kind are, besides the operators of the zone.
type audience int

const (
	operators audience = iota // nobody else
	owner                     // the project, unless it is one of a parent
)

// kind describes the events of one kind of the log. To show a new kind, add a row.
type kind struct {
	to    audience
	names []string // every name that its events have
	is    bool     // the name ends with the new status, in small letters
	base  string
	slot  string // base of events about slots of leases; "" for none

	volume string // base of events about volumes; "" for none
}

// one is a kind with one name.
func one(to audience, name string) kind { return kind{to: to, names: []string{name}, base: name} }

// each is a kind with a name for each status.
func each(to audience, base string, statuses ...string) kind {
	k := kind{to: to, is: true, base: base + "."}
	for _, st := range statuses {
		k.names = append(k.names, k.base+strings.ToLower(st))
	}
	return k
}

// kinds has every kind of the log that is shown.
var kinds = map[state.EventKind]kind{
	state.EventInstance:     instances,
	state.EventHoldMade:     one(operators, "hold.made"),
	state.EventHoldDecided:  one(operators, "hold.decided"),
	state.EventBootCreated:  one(owner, "boot.created"),
	state.EventBootDecided:  one(owner, "boot.decided"),
	state.EventBootReleased: one(owner, "boot.released"),
	state.EventHost:         each(operators, "host", "up", "down"),
	state.EventLink:         each(operators, "zone", "up", "down"),

	state.EventLeaseCreated:      one(owner, "lease.create"),
	state.EventLeaseFailed:       one(owner, "lease.create_failed"),
	state.EventLeaseStatus:       one(owner, "lease.status"),
	state.EventLeaseUpdated:      one(owner, "lease.update"),
	state.EventLeaseUpdateFailed: one(owner, "lease.update_failed"),
	state.EventLeaseStarted:      one(owner, "lease.event.start_lease"),
	state.EventLeaseStartsSoon:   one(owner, "lease.event.before_start_lease"),
	state.EventLeaseEndsSoon:     one(owner, "lease.event.before_end_lease"),
	state.EventLeaseEnded:        one(owner, "lease.event.end_lease"),
	state.EventLeaseDeleted:      one(owner, "lease.delete"),

	state.EventEvicted:        one(owner, "instance.evicted"),
	state.EventInstanceQueued: one(owner, "instance.queued"),

	state.EventInstanceRestarted: one(owner, "instance.restarted"),

	state.EventBootRequeued: one(owner, "boot.requeued"),

	state.EventBindingBegan: one(owner, "binding.begin"),
	state.EventBindingEnded: one(owner, "binding.end"),
}

// instances are the events of instances, and of slots of leases and volumes, which are instances
// that nothing runs in.
var instances = func() kind {
	statuses := []string{
		string(api.StatusBuild), string(api.StatusActive), string(api.StatusShutoff), string(api.StatusError),
		string(api.StatusDeleting), string(api.StatusDeleted),
	}
	k, slots, volumes := each(owner, "instance", statuses...), each(owner, "slot", statuses...), each(owner, "volume", statuses...)
	k.names, k.slot, k.volume = slices.Concat(k.names, slots.names, volumes.names), slots.base, volumes.base
	return k
}()

// Names returns the names of all kinds of events, sorted.
func Names() []string {
	out := []string{KindGap}
	for _, k := range kinds {
		out = append(out, k.names...)
	}
	slices.Sort(out)
	return out
}

// nameOf returns the name of an event of a kind.
func (k kind) nameOf(e *state.Event) string {
	if !k.is {
		return k.base
	}
	base := k.base
	switch {
	case e.Slot:
		base = k.slot
	case e.Volume:
		base = k.volume
	}
	return base + strings.ToLower(e.Is)
}

// matches reports whether a name is one of those that are wanted, or begins with one and a
// dot. Without any, all are wanted.
func matches(wanted []string, name string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool {
		return name == w || strings.HasPrefix(name, w+".")
	})
}

// CheckKinds refuses names that no event has, and beginnings of none.
func CheckKinds(wanted []string) error {
	if len(wanted) > api.WebhookKindsMax {
		return api.Errorf(api.CodeInvalid, "at most %d kinds of events may be named, got %d", api.WebhookKindsMax, len(wanted))
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(Names(), func(name string) bool { return matches([]string{w}, name) }) {
			return api.Errorf(api.CodeInvalid, "there is no kind of events %.64q; kinds are %s, and their beginnings such as boot", w, strings.Join(Names(), ", "))
		}
	}
	return nil
}
