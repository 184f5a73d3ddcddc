package estimate

import (
	"berth/api"
	"berth/buildplan"
	"berth/raftstore/state"
)

// limitedByShare is the name under which a refusal says that a parent is lent no more. It counts one host,
// however many have room.
const limitedByShare = "share"

// keepWithinShare drops from a plan on own hosts the slots that a parent may not hold: the last ones of
// each group, so that what is left is a prefix. Each group first gets its minimum, as it was planned, the first
// group first. A slot that keeps one of the parent's counts nothing: the log looks at what it adds.
func keepWithinShare(v *state.State, req *api.Request, p *buildplan.Plan) {
	room := v.ShareRoom(req.Origin, req.Class, req.WindowAt(v.Now()))
	if room == nil || !req.NeedsRoom() {
		return
	}
	took, taken := api.Resources{}, make([]int, len(p.Groups))
	take := func(g, most int) {
		for n := taken[g]; n < min(most, len(p.Groups[g].Slots)); n++ {
			needs := needsOf(v, req, g, &p.Groups[g].Slots[n])
			for class, amount := range needs {
				if amount > 0 && took[class]+amount > room(class) {
					return
				}
			}
			for class, amount := range needs {
				took[class] += amount
			}
			taken[g] = n + 1
		}
	}
	for g := range p.Groups {
		take(g, req.Groups[g].Min)
	}
	for g := range p.Groups {
		take(g, req.Groups[g].Count)
	}
	for g := range p.Groups {
		if gp := &p.Groups[g]; taken[g] < len(gp.Slots) {
			gp.Slots = gp.Slots[:taken[g]]
			gp.Refusals.Limits = []api.FilterCount{{Filter: limitedByShare, Hosts: 1, Tier: api.TierNotAllowed}}
		}
	}
}

// needsOf returns what a slot of a plan on own hosts takes of the share of a parent.
func needsOf(v *state.State, req *api.Request, group int, sl *buildplan.Slot) api.Resources {
	g := &req.Groups[group]
	switch {
	case sl.Keeps != "", req.WithinOf(group) != "":
		return nil
	case !g.Whole:
		return g.Resources
	}
	hosts := v.Hosts()
	row, ok := hosts.Row(sl.Host)
	if !ok {
		return nil
	}
	return hosts.WholeCapacity(row)
}
