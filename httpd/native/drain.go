package native

import (
	"net/http"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/fleet"
)

// planDrain answers what would become of everything on some hosts.
func (d *dialect) planDrain(w http.ResponseWriter, r *http.Request) error {
	var b rest.DrainQuestion
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	p, err := d.Fleet.WhatIf(r.Context(), b.Hosts, b.At)
	if err != nil {
		return err
	}
	door.AnswerAt(w, p.View)
	return answerOne(w, http.StatusOK, "plan", drainPlan(p))
}

// drainPlan returns the body of what a drain would do.
func drainPlan(p *fleet.WhatIf) rest.DrainPlan {
	out := rest.DrainPlan{At: p.At, Hosts: make([]string, 0, len(p.Hosts)), Owners: make([]rest.DrainOwner, 0, len(p.Owners))}
	for _, id := range p.Hosts {
		out.Hosts = append(out.Hosts, hostName(p.View, id))
	}
	for n := range p.Owners {
		one := drainOwner(p.View, &p.Owners[n])
		owners, parts := &out.Boots, &out.Instances
		if one.Kind == ownerLease {
			owners, parts = &out.Leases, &out.Slots
		}
		countOutcome(owners, p.Owners[n].Outcome)
		for i := range p.Owners[n].Parts {
			countOutcome(parts, p.Owners[n].Parts[i].Outcome)
		}
		out.Owners = append(out.Owners, one)
	}
	return out
}

// The kinds of what is on hosts.
const (
	ownerLease = "lease"
	ownerBoot  = "boot"
)

// drainOwner returns the body of one lease or boot.
func drainOwner(v *state.State, o *fleet.LeavingOwner) rest.DrainOwner {
	i := o.Parts[0].Instance
	out := rest.DrainOwner{
		Kind: ownerBoot, ID: string(i.Reservation), Project: i.Project, Start: i.Window.Start, End: i.Window.End,
		Outcome: string(o.Outcome), Parts: make([]rest.DrainPart, 0, len(o.Parts)),
	}
	if i.Reserved {
		out.Kind = ownerLease
	}
	if l, ok := v.Link(i.Origin); ok {
		out.Parent = l.Name
	}
	switch {
	case o.Lease != nil:
		out.ID, out.Name = string(o.Lease.Terms.ID), o.Lease.Terms.Name
	case o.Boot != nil:
		out.Name = o.Boot.Name
	}
	for n := range o.Parts {
		p := &o.Parts[n]
		part := rest.DrainPart{ID: p.Instance.ID, Host: hostName(v, p.Instance.Host), Outcome: string(p.Outcome), Reason: p.Reason}
		if p.Instance.Reserved {
			part.Reservation = api.ReservationID(p.Instance.Group)
		}
		if p.To != "" {
			part.To = hostName(v, p.To)
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}

func countOutcome(c *rest.DrainOutcomes, o fleet.Outcome) {
	switch o {
	case fleet.OutcomeBreaks:
		c.Breaks++
	case fleet.OutcomeMoves:
		c.Moves++
	case fleet.OutcomeStays:
		c.Stays++
	}
}

// hostName returns the name of a host of this zone.
func hostName(v *state.State, id api.HostID) string {
	if h, ok := v.Host(id); ok {
		return h.Name
	}
	return string(id)
}
