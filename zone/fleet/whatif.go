package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// Limits of questions what a drain would do.
const (
	WhatIfHostsMax = api.HintHostsMax // hosts in one question
	WhatIfPartsMax = 2000             // slots and instances on them
	whatIfTimeout  = 10 * time.Second
	whatIfsMax     = 2 // questions at once, on one node
)

// Outcome is what a drain would do to a slot, an instance, or all of a lease or boot.
type Outcome string

// The outcomes, the worst first.
const (
	OutcomeBreaks Outcome = "breaks" // it would lose its host, and no other one takes it
	OutcomeMoves  Outcome = "moves"  // another host takes it
	OutcomeStays  Outcome = "stays"  // it has nothing to lose: it does not run, or is maintenance of its host, or a volume
)

var outcomes = []Outcome{OutcomeBreaks, OutcomeMoves, OutcomeStays}

// WhatIf is what would become of hosts' slots and instances if they were drained by moving at
// some time. Nothing is moved.
type WhatIf struct {
	View   *state.State // of which the answer is
	At     api.Instant
	Hosts  []api.HostID
	Owners []LeavingOwner // those that break first, and then the soonest
}

// LeavingOwner is a lease or a boot with slots or instances on the hosts.
type LeavingOwner struct {
	Lease   *state.Lease // of this zone; nil for a boot, and for a lease of a parent
	Boot    *state.Boot  // of this zone; nil for a lease, and for a boot of a parent
	Parts   []LeavingPart
	Outcome Outcome // the worst of its parts
}

// LeavingPart is one slot or instance.
type LeavingPart struct {
	Instance *api.Instance // as it is at the time, on the host that it would leave
	Outcome  Outcome
	To       api.HostID // if it moves
	Reason   string     // if it does not
}

// WhatIf answers what would become of everything on some hosts of the zone, by name or id, whose
// window reaches beyond a time, if they were drained by moving then; now for 0. The soonest
// first, each is planned as a drain plans it and takes its room in a draft of the state before the
// next. What did not find room is tried again after the others have left, as a drain does. Until
// then, windows begin and end as they are now; what will be booted or reserved meanwhile is not
// known, so a lease without instances is taken for empty.
//
// It fails with CodeInvalid unless there are 1 to WhatIfHostsMax hosts and the time is within
// api.LeaseLeadMax from now, and with CodeTooLarge beyond WhatIfPartsMax.
func (f *Fleet) WhatIf(ctx context.Context, hosts []string, at api.Instant) (*WhatIf, error) {
	select {
	case f.whatIfs <- struct{}{}:
		defer func() { <-f.whatIfs }()
	default:
		return nil, api.Errorf(api.CodeOverloaded, "the zone answers %d such questions already; try again", whatIfsMax)
	}
	v, err := f.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	now := max(f.zone.Instant(), v.Now())
	switch {
	case len(hosts) == 0 || len(hosts) > WhatIfHostsMax:
		return nil, api.Errorf(api.CodeInvalid, "name 1 to %d hosts, got %d", WhatIfHostsMax, len(hosts))
	case at != 0 && at.Add(time.Minute) < now:
		return nil, api.Errorf(api.CodeInvalid, "at must not be in the past")
	case at > now.Add(api.LeaseLeadMax):
		return nil, api.Errorf(api.CodeInvalid, "at must be within %d days", api.LeaseLeadMax/(24*time.Hour))
	}
	ctx, cancel := context.WithTimeout(ctx, whatIfTimeout)
	defer cancel()
	w := &leaving{f: f, draft: state.NewDraft(v)}
	for _, ref := range hosts {
		h, err := intake.Host(v, ref)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(w.hosts, h.ID) {
			w.hosts, w.names = append(w.hosts, h.ID), append(w.names, h.Name)
		}
	}
	at = max(at, now)
	w.draft.PassTime(at)
	if err := w.findParts(at); err != nil {
		return nil, err
	}
	if err := w.moveParts(ctx); err != nil {
		return nil, err
	}
	return &WhatIf{View: v, At: at, Hosts: w.hosts, Owners: w.groupParts(v)}, nil
}

// leaving is one drain in a draft.
type leaving struct {
	f     *Fleet
	draft *state.Draft
	hosts []api.HostID
	names []string
	parts []LeavingPart // the soonest first
}

// findParts finds what is on the hosts whose window ends after a time. What runs in a slot is a
// part of that.
func (w *leaving) findParts(at api.Instant) error {
	v := w.draft.View()
	var all []*api.Instance
	for _, id := range w.hosts {
		for _, i := range slices.Concat(v.SlotsOn(id), v.OnHost(id)) {
			if i.Within == "" && i.Status != api.StatusDeleting && i.Window.End > at {
				all = append(all, i)
			}
		}
	}
	if n := len(all); n > WhatIfPartsMax {
		return api.Errorf(api.CodeTooLarge, "there are %d slots and instances on these hosts, and at most %d are planned at once: name fewer hosts", n, WhatIfPartsMax)
	}
	sortSoonest(all)
	for _, i := range all {
		p := LeavingPart{Instance: i}
		p.Outcome, p.Reason = w.staysOf(v, i)
		if p.Outcome == OutcomeMoves {
			p.To, p.Reason = i.Target, "" // on its way already
		}
		w.parts = append(w.parts, p)
	}
	return nil
}

// staysOf returns the outcome of what no drain moves; "" if it is to be planned.
func (w *leaving) staysOf(v *state.State, i *api.Instance) (Outcome, string) {
	switch {
	case i.Reserved && Maintains(v, i):
		return OutcomeStays, "it is maintenance of this host"
	case isVolume(i):
		return OutcomeStays, "a volume stays on its host until its owner deletes it"
	case !isRunning(i):
		return OutcomeStays, "it does not run: it is " + string(i.Status)
	case i.Target != "" && slices.Contains(w.hosts, i.Target):
		return OutcomeBreaks, "it is on its way to another of these hosts"
	case i.Target != "":
		return OutcomeMoves, ""
	case !i.Reserved || v.IsEmpty(i):
		return "", ""
	}
	if n := len(v.Within(i.ID)); n > 0 {
		return OutcomeBreaks, fmt.Sprintf("%d of its instances run in it, and what runs in a lease is not moved", n)
	}
	return OutcomeBreaks, "what uses it is being decided"
}

// moveParts moves in the draft what can be moved. It goes on as long as that makes room for others.
func (w *leaving) moveParts(ctx context.Context) error {
	for again := true; again; {
		again = false
		for n := range w.parts {
			p := &w.parts[n]
			if p.Outcome != "" {
				continue
			}
			if ctx.Err() != nil {
				return api.Errorf(api.CodeTimeout, "there is too much on these hosts to plan it within %s: name fewer hosts", whatIfTimeout)
			}
			v := w.draft.View()
			group := together(v, p.Instance)
			err := w.f.moveOff(v, group, w.names, func(to api.HostID) error {
				err := w.draft.Move(moveCommand(group, to))
				if err == nil {
					w.markMoved(group, to)
				}
				return err
			})
			switch {
			case err == nil:
				again = true
			case api.CodeOf(err) == api.CodeNoCapacity:
				p.Reason = api.MessageOf(err)
			default:
				p.Outcome, p.Reason = OutcomeBreaks, api.MessageOf(err)
			}
		}
	}
	for n := range w.parts {
		w.parts[n].Outcome = cmp.Or(w.parts[n].Outcome, OutcomeBreaks)
	}
	return nil
}

// markMoved notes that parts that leave together move.
func (w *leaving) markMoved(group []*api.Instance, to api.HostID) {
	for n := range w.parts {
		p := &w.parts[n]
		if slices.ContainsFunc(group, func(i *api.Instance) bool { return i.ID == p.Instance.ID }) {
			p.Outcome, p.To, p.Reason = OutcomeMoves, to, ""
		}
	}
}

// groupParts returns the parts by their leases and boots.
func (w *leaving) groupParts(v *state.State) []LeavingOwner {
	type key struct {
		origin api.LinkID
		of     api.ReservationID
	}
	places := map[key]int{}
	var out []LeavingOwner
	for _, p := range w.parts {
		i := p.Instance
		k := key{i.Origin, i.Reservation}
		at, known := places[k]
		if !known {
			at = len(out)
			places[k] = at
			out = append(out, ownerOf(v, i))
		}
		out[at].Parts = append(out[at].Parts, p)
	}
	for n := range out {
		o := &out[n]
		o.Outcome = slices.MinFunc(o.Parts, func(a, b LeavingPart) int { return rank(a.Outcome) - rank(b.Outcome) }).Outcome
	}
	slices.SortStableFunc(out, func(a, b LeavingOwner) int { return rank(a.Outcome) - rank(b.Outcome) })
	return out
}

func rank(o Outcome) int { return slices.Index(outcomes, o) }

// ownerOf returns the lease or boot of this zone that a slot or instance belongs to.
func ownerOf(v *state.State, i *api.Instance) LeavingOwner {
	var out LeavingOwner
	switch {
	case i.Origin != "":
	case i.Reserved:
		out.Lease, _ = v.LeaseWith(api.ReservationID(i.Group))
	default:
		out.Boot, _ = v.Boot(i.Project, i.Reservation)
	}
	return out
}
