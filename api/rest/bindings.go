package rest

import (
	"time"

	"berth/api"
)

// Binding ties new work of a project to a child zone for a period.
type Binding struct {
	ID          api.BindingID     `json:"id"`
	Project     api.ProjectID     `json:"project_id"`
	Parent      string            `json:"parent,omitempty"` // name of the link to the parent whose project it is; absent for this zone's own
	Zone        string            `json:"zone"`             // name of the child when the binding began
	Link        api.LinkID        `json:"link_id"`          // the child
	AZ          string            `json:"availability_zone"`
	Tags        []string          `json:"tags"`   // affinity tags of the work that it is for, as key=value; none for general work
	Active      bool              `json:"active"` // it is in use
	Start       api.Instant       `json:"start"`
	End         api.Instant       `json:"end"`                      // null while it is active
	Why         api.BindingReason `json:"why"`                      // why it began
	Ended       api.BindingReason `json:"ended,omitempty"`          // why it ended
	Reservation api.ReservationID `json:"reservation_id,omitempty"` // whose commit began it; absent if an operator did
	User        api.UserID        `json:"user_id,omitempty"`        // who asked for that
}

// BindingOf returns the body of a binding. parent is the name of the link to the parent whose project
// it is, "" for this zone's own.
func BindingOf(b *api.Binding, parent string) Binding {
	return Binding{
		ID: b.ID, Project: b.Project, Parent: parent, Zone: b.Zone, Link: b.Link, AZ: b.Key.AZ, Tags: append([]string{}, b.Key.Tags...),
		Active: b.Active(), Start: b.Start, End: b.End, Why: b.Why, Ended: b.Ended, Reservation: b.Reservation, User: b.User,
	}
}

// BindingBody is the body of a call that binds a project to a child.
type BindingBody struct {
	Binding BindingSpec `json:"binding"`
}

// BindingSpec is a binding to set.
type BindingSpec struct {
	Project api.ProjectID `json:"project_id"`
	Zone    string        `json:"zone"`                        // name or id of the link to the child
	AZ      string        `json:"availability_zone,omitempty"` // only for work that asks for this availability zone (default: for work that asks for none)
	Tags    []string      `json:"tags,omitempty"`              // affinity tags of the work, as key=value, at most 8 (default: for general work)
	Parent  string        `json:"parent,omitempty"`            // name or id of the link to the parent whose project it is (default: a project of this zone)
}

// BindingMove is the body of a call that moves a binding.
type BindingMove struct {
	Zone string `json:"zone"` // name or id of the link to the child
}

// MaintenanceQuestion is the body of a call that plans the maintenance of a child.
type MaintenanceQuestion struct {
	Maintenance *bool `json:"maintenance,omitempty"` // false for its end (default: true)
}

// MaintenancePlan is what the maintenance of a child, or its end, would change. What runs stays where
// it is; each project moves with its next work.
type MaintenancePlan struct {
	Zone        string            `json:"zone"`           // name of the child
	Mode        api.BindingMode   `json:"mode"`           // of the bindings of this zone; with off nobody moves
	Maintenance bool              `json:"maintenance"`    // as asked for
	Now         bool              `json:"in_maintenance"` // as it is
	Bindings    int               `json:"bindings"`       // active ones to the child
	To          []MaintenanceGoal `json:"to"`             // where they would go, by name; those that fit nowhere are in no goal
	Moves       []MaintenanceMove `json:"moves"`          // who would move, by parent, project and key; at most the first 1000
}

// MaintenanceGoal is a child that bindings would move to.
type MaintenanceGoal struct {
	Zone     string `json:"zone"`
	Bindings int    `json:"bindings"`
}

// MaintenanceMove is a binding that would be left.
type MaintenanceMove struct {
	Binding api.BindingID `json:"binding_id"`
	Project api.ProjectID `json:"project_id"`
	Parent  string        `json:"parent,omitempty"`
	AZ      string        `json:"availability_zone"`
	Tags    []string      `json:"tags"`
	To      string        `json:"to,omitempty"`     // name of the child that is next; absent if none fits
	Reason  string        `json:"reason,omitempty"` // why none fits
}

// BindingRule is what a zone says of bindings.
type BindingRule struct {
	Mode      api.BindingMode             `json:"mode,omitempty"`       // off, prefer or strict (default: off)
	Weighers  []BindingWeigher            `json:"weighers,omitempty"`   // preferences among children, at most 8 (default: creation_order)
	Headroom  map[api.ResourceClass]int64 `json:"headroom,omitempty"`   // percent of each class, 0 to 100, that stays free in children without a headroom of their own
	LostAfter Duration                    `json:"lost_after,omitempty"` // silence after which a child is left, in whole milliseconds up to 24h (default: 5m)
	UsageAge  Duration                    `json:"usage_age,omitempty"`  // how old a report of a child may be and still say how full it is, in whole milliseconds up to 1h (default: 30s)

	GeneralOnTagged bool `json:"general_on_tagged,omitempty"` // work that asks for no tag may go to children that have some
}

// BindingWeigher is a preference among children. The highest sum wins.
type BindingWeigher struct {
	Name       string `json:"name"`       // creation_order, idle_capacity or price
	Multiplier int64  `json:"multiplier"` // -1000 to 1000; a negative one reverses the preference
}

// BindingRuleOf returns the body of a rule, with its defaults.
func BindingRuleOf(r *api.BindingRule) BindingRule {
	out := BindingRule{
		Mode: r.Use(), Headroom: r.Headroom, LostAfter: Duration(r.LostAfterAll()), UsageAge: Duration(r.UsageAgeMost()), GeneralOnTagged: r.GeneralOnTagged,
	}
	for _, w := range r.Weighers {
		out.Weighers = append(out.Weighers, BindingWeigher(w))
	}
	return out
}

// Rule returns the rule that a body stands for.
func (r *BindingRule) Rule() api.BindingRule {
	out := api.BindingRule{
		Mode: r.Mode, Headroom: r.Headroom, LostAfter: time.Duration(r.LostAfter), UsageAge: time.Duration(r.UsageAge), GeneralOnTagged: r.GeneralOnTagged,
	}
	for _, w := range r.Weighers {
		out.Weighers = append(out.Weighers, api.BindingWeigher(w))
	}
	return out
}
