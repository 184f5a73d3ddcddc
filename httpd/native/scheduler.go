package native

import (
	"net/http"

	"berth/api"
	"berth/costs"
	"berth/filters"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// costHelp says of each cost in one line what it makes dear.
var costHelp = map[string]string{
	costs.Attribute:     "the number that an attribute of the host has, such as a price (options attribute, scale)",
	costs.BuildFailures: "instances that could not be started there since one could",
	costs.Constant:      "1 for every host",
	costs.FillFirst:     "what is free: fuller hosts are cheaper (option class)",
	costs.Instances:     "instances that are there",
	costs.OwnerSpread:   "instances of the same project that are there",
	costs.ServerGroup:   "what soft rules and server groups ask for",
	costs.Special:       "special things, such as accelerators, that are not asked for (options classes, traits)",
	costs.Spread:        "what is taken: emptier hosts are cheaper (option class)",
}

// costInfo is the JSON of a cost that there is.
type costInfo struct {
	Name    string `json:"name"`
	Help    string `json:"help"`
	Default bool   `json:"default"`
}

// knownCosts returns every cost that there is, by name.
func knownCosts() []costInfo {
	byDefault := map[string]bool{}
	for _, w := range costs.DefaultWeights() {
		byDefault[w.Name] = true
	}
	var out []costInfo
	for _, name := range costs.Names() {
		out = append(out, costInfo{name, costHelp[name], byDefault[name]})
	}
	return out
}

// scheduler returns which filters and costs a zone runs: what it was told, or the
// default.
func scheduler(v *state.State) api.Scheduler {
	s := api.Scheduler{Filters: v.Config.Filters, Costs: v.Config.Costs}
	if len(s.Filters) == 0 {
		s.Filters = filters.DefaultSpecs()
	}
	if len(s.Costs) == 0 {
		s.Costs = costs.DefaultWeights()
	}
	return s
}

func (d *dialect) showScheduler(w http.ResponseWriter, _ *http.Request) error {
	wire.JSON(w, http.StatusOK, map[string]any{
		"scheduler": scheduler(d.View(w)),
		"known":     map[string]any{"filters": filters.Known(), "costs": knownCosts()},
	})
	return nil
}

func (d *dialect) setScheduler(w http.ResponseWriter, r *http.Request) error {
	var b struct {
		Scheduler *api.Scheduler `json:"scheduler"`
	}
	if err := wire.ReadJSON(r, api.BodyMaxBytes, &b); err != nil {
		return err
	}
	if b.Scheduler == nil {
		return api.Errorf(api.CodeInvalid, "scheduler is missing; empty lists stand for the default")
	}
	if err := intake.SetScheduler(r.Context(), d.Zone, *b.Scheduler); err != nil {
		return err
	}
	return d.showScheduler(w, r)
}
