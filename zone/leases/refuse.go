package leases

import (
	"fmt"
	"strings"

	"berth/api"
	"berth/filters"
	"berth/raftstore/state"
)

// describeShort returns which reservations of an order could not be had in its last attempt,
// and what turned hosts away; "" if the attempt says nothing about it.
func describeShort(v *state.State, b *state.Boot) string {
	if len(b.Attempts) == 0 {
		return ""
	}
	return describeAttempt(v, &b.Request, &b.Attempts[len(b.Attempts)-1])
}

// describeAttempt is describeShort of one attempt.
func describeAttempt(v *state.State, req *api.Request, last *api.BootAttempt) string {
	var parts []string
	for g := range req.Groups {
		group := &req.Groups[g]
		if g >= len(last.Offered) || last.Offered[g].Offered >= group.Min {
			continue
		}
		what := "slots"
		if group.Whole {
			what = "hosts"
		}
		part := fmt.Sprintf("reservation %d could have %d of %d %s", g+1, last.Offered[g].Offered, group.Min, what)
		var why []string
		if away := describeFilters(last, g, func(r *api.Refusals) []api.FilterCount { return r.Filters }); away != "" {
			why = append(why, "hosts turned away: "+away)
		}
		for _, d := range v.TraitsNowhere(group, "") {
			why = append(why, "no host of this zone has the trait "+d.String())
		}
		full := describeFilters(last, g, func(r *api.Refusals) []api.FilterCount { return r.Limits })
		if full != "" && !group.Whole { // of a whole host there is no more
			why = append(why, "hosts that have no more: "+full)
		}
		if len(why) > 0 {
			part += " (" + strings.Join(why, "; ") + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// describeFilters lists the filters of some counts for a group, over all zones, with the number of
// hosts.
func describeFilters(a *api.BootAttempt, group int, counts func(*api.Refusals) []api.FilterCount) string {
	var names []string
	hosts := map[string]int{}
	add := func(all []api.Refusals) {
		if group >= len(all) {
			return
		}
		for _, f := range counts(&all[group]) {
			if hosts[f.Filter] == 0 {
				names = append(names, f.Filter)
			}
			hosts[f.Filter] += f.Hosts
		}
	}
	add(a.Refusals)
	for i := range a.Zones {
		add(a.Zones[i].Refusals)
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		text := fmt.Sprintf("%s %d", name, hosts[name])
		if name == filters.NamePromised && group < len(a.Refusals) && a.Refusals[group].Promised > 0 {
			text += " from " + a.Refusals[group].Promised.Time().UTC().Format("2006-01-02 15:04 UTC")
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
