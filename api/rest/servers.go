package rest

import (
	"cmp"

	"berth/api"
)

// Server is one instance.
type Server struct {
	ID          api.InstanceID    `json:"id"`
	Name        string            `json:"name"`
	Reservation api.ReservationID `json:"reservation_id"`
	Project     api.ProjectID     `json:"project_id"`
	User        api.UserID        `json:"user_id"`
	Flavor      api.FlavorID      `json:"flavor"`
	Resources   api.Resources     `json:"resources"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Status      api.Status        `json:"status"`
	Fault       string            `json:"fault,omitempty"`
	Window      Window            `json:"window"`
	Class       api.Class         `json:"class"`
	Created     api.Instant       `json:"created"`
	Updated     api.Instant       `json:"updated"`
	Group       string            `json:"group,omitempty"`    // only for a boot of several groups
	Zone        string            `json:"zone"`               // direct child that leads to it, or this zone
	Host        string            `json:"host,omitempty"`     // name of its host; only for admins of the owning zone
	Origin      string            `json:"origin,omitempty"`   // name of the parent zone that it was created for; absent for this zone's own
	Restarts    uint64            `json:"restarts,omitempty"` // how often its agent has killed it and started it anew, because the zone was silent or the agent ended
	Reach
	Preempted
}

// Preempted has what only preemptible instances have.
type Preempted struct {
	PreemptTerms
	Until    api.Instant `json:"until,omitzero"`     // it keeps its room at least until then if nobody asks for anything new; null for no end, absent if it must leave, is gone or another zone knows
	Eviction *Eviction   `json:"eviction,omitempty"` // only if its room is needed, or was
}

// PreemptTerms say that instances are preemptible. They are empty for others.
type PreemptTerms struct {
	Preemptible bool              `json:"preemptible,omitempty"`
	By          api.PreemptWay    `json:"preemptible_by,omitempty"` // why: hint, flavor, image or project
	OnPreempt   api.PreemptAction `json:"on_preempt,omitempty"`     // what becomes of one when its room is needed: stop, notify or requeue
}

// Eviction says what a preemptible instance must leave for, and until when.
type Eviction struct {
	For         string            `json:"for"`                // lease or boot
	Reservation api.ReservationID `json:"reservation_id"`     // of that lease or boot
	Lease       api.LeaseID       `json:"lease_id,omitempty"` // only for a lease of this zone
	At          api.Instant       `json:"at"`                 // when it was told
	Deadline    api.Instant       `json:"deadline"`           // when it is ended
}

// What an instance is evicted for.
const (
	EvictedForLease = "lease"
	EvictedForBoot  = "boot"
)

// PreemptedOf returns what only preemptible instances have, without the lease of an eviction.
func PreemptedOf(i *api.Instance) Preempted {
	if i.Class != api.Preemptible {
		return Preempted{}
	}
	return Preempted{PreemptTerms: PreemptTermsOf(i.Class, i.Way, i.OnPreempt), Eviction: EvictionOf(i.Eviction)}
}

// PreemptTermsOf returns what preemptible instances have of the boot that made them.
func PreemptTermsOf(c api.Class, by api.PreemptWay, on api.PreemptAction) PreemptTerms {
	if c != api.Preemptible {
		return PreemptTerms{}
	}
	return PreemptTerms{Preemptible: true, By: by, OnPreempt: cmp.Or(on, api.PreemptStop)}
}

// EvictionOf returns the body of an eviction without its lease, nil for none.
func EvictionOf(e *api.Eviction) *Eviction {
	if e == nil {
		return nil
	}
	out := &Eviction{For: EvictedForBoot, Reservation: e.For, At: e.At, Deadline: e.By}
	if e.Lease {
		out.For = EvictedForLease
	}
	return out
}

// Reach shows whether the status of an instance is current.
type Reach struct {
	// Reachable is false while the host of the instance is down or its zone is silent;
	// status is then the last known one. It is absent if this is not known, and for
	// DELETED instances.
	Reachable *bool       `json:"reachable,omitempty"`
	Since     api.Instant `json:"unreachable_since,omitzero"` // start of the time for which it is unreachable
}

// ServerSummary is one instance in a short list.
type ServerSummary struct {
	ID     api.InstanceID `json:"id"`
	Name   string         `json:"name"`
	Status api.Status     `json:"status"`
	Zone   string         `json:"zone"`
	Reach
}

// ServerCreated is the answer to a call that creates servers.
type ServerCreated struct {
	Reservation api.ReservationID `json:"reservation_id"`
	Server      *Server           `json:"server,omitempty"` // the first one; absent if only the reservation id was requested
}

// Window is a half-open span of time, from start up to end.
type Window struct {
	Start api.Instant `json:"start"`
	End   api.Instant `json:"end"` // null for a window without an end
}

// ServerOf returns the body of an instance, without its zone, host and origin.
func ServerOf(i *api.Instance) Server {
	return Server{
		ID: i.ID, Name: i.Name, Reservation: i.Reservation, Project: i.Project, User: i.User, Flavor: i.Flavor,
		Resources: i.Resources, Metadata: i.Metadata, Status: i.Status, Fault: i.Fault, Window: Window(i.Window),
		Class: i.Class, Created: i.Created, Updated: i.Updated, Group: i.Group, Restarts: i.Restarts,
		Preempted: PreemptedOf(i),
	}
}
