package estimate

import (
	"maps"
	"slices"

	"berth/api"
	"berth/costs"
	"berth/raftstore/state"
)

// zoneCosts returns the costs of the zone for a request.
func (e *Estimator) zoneCosts(v *state.State, req *api.Request) costs.Set {
	set, err := costs.New(weightsFor(v, req))
	if err != nil { // checked when it was set, so this node is older than the configuration
		e.noteUnknown("costs", err)
		return costs.Default()
	}
	return set
}

// weightsFor returns the costs that a request is planned with. Room for a lease is packed
// before all else, so that whole hosts stay free for others.
func weightsFor(v *state.State, req *api.Request) []api.CostWeight {
	weights := v.Config.Costs
	if len(weights) == 0 {
		weights = costs.DefaultWeights()
	}
	if req.Class == api.Preemptible {
		return append(slices.Clone(weights), api.CostWeight{Name: costs.Gap, Weight: 1})
	}
	if req.ClaimClass() == api.Preempting {
		weights = append(slices.Clone(weights), evictionWeights(req)...)
	}
	if !req.Reserves {
		return weights
	}
	spreads := func(w api.CostWeight) bool { return w.Name == costs.Spread || w.Name == costs.FillFirst }
	return append(slices.DeleteFunc(slices.Clone(weights), spreads), api.CostWeight{Name: costs.FillFirst, Weight: packWeight})
}

// evictionWeights returns the costs of what preemptibles have to leave, for every class that a
// request wants: it goes where they are in nobody's way as long as there is such room. Through
// them each zone's weights have the price of its evictions, and a parent takes the cheapest.
func evictionWeights(req *api.Request) []api.CostWeight {
	classes := api.Resources{}
	for g := range req.Groups {
		maps.Copy(classes, req.Groups[g].Resources)
		if req.Groups[g].Whole {
			classes[api.MemoryMB], classes[api.VCPU] = 1, 1
		}
	}
	var out []api.CostWeight
	for _, class := range classes.Classes() {
		out = append(out, api.CostWeight{Name: costs.Evictions, Weight: costs.WeightMax, Options: map[string]string{"class": string(class)}})
	}
	return out
}

// packWeight is the weight of packing the room of leases, next to what else a zone weighs.
const packWeight = 10
