package native

import (
	"net/http"

	"berth/api"
	"berth/api/rest"
	"berth/costs"
	"berth/filters"
	"berth/httpd/wire"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// knownCosts returns every cost, by name.
func knownCosts() []rest.CostInfo {
	byDefault := map[string]bool{}
	for _, w := range costs.DefaultWeights() {
		byDefault[w.Name] = true
	}
	var out []rest.CostInfo
	for _, name := range costs.Names() {
		out = append(out, rest.CostInfo{Name: name, Help: costs.Help(name), Default: byDefault[name]})
	}
	return out
}

// knownFilters returns every filter.
func knownFilters() []rest.FilterInfo {
	var out []rest.FilterInfo
	for _, f := range filters.Known() {
		info := rest.FilterInfo{Name: f.Name, Help: f.Help, Tier: f.Tier, Default: f.Default, Example: rest.FilterSpec(f.Example)}
		for _, o := range f.Options {
			info.Options = append(info.Options, rest.FilterOption(o))
		}
		out = append(out, info)
	}
	return out
}

// schedulerOf returns the filters and costs of a zone: the configured ones, or the
// defaults.
func schedulerOf(v *state.State) api.Scheduler {
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
	wire.JSON(w, http.StatusOK, rest.SchedulerAnswer{
		Known:     rest.KnownRules{Costs: knownCosts(), Filters: knownFilters()},
		Scheduler: rest.SchedulerOf(schedulerOf(d.View(w))),
	})
	return nil
}

func (d *dialect) setScheduler(w http.ResponseWriter, r *http.Request) error {
	var b rest.SchedulerBody
	if err := wire.ReadJSON(r, wire.LimitOf(r), &b); err != nil {
		return err
	}
	if b.Scheduler == nil {
		return api.Errorf(api.CodeInvalid, "scheduler is missing; empty lists stand for the default")
	}
	if err := intake.SetScheduler(r.Context(), d.Zone, b.Scheduler.Record()); err != nil {
		return err
	}
	return d.showScheduler(w, r)
}
