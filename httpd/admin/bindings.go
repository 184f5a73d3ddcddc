package admin

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"berth/api"
	"berth/raftstore/state"
)

var (
	bindings      = nodeMetrics.gauge("berth_bindings", "Bindings of projects to child zones, active and past ones that are kept.", "active")
	bindingsEnded = nodeMetrics.counter("berth_bindings_ended_total", "Bindings that have ended, since this process started.", "why")
)

// collectBindings collects how many bindings there are, and why others have ended.
func (*collector) collectBindings(ch chan<- prometheus.Metric, v *state.State, ended map[api.BindingReason]uint64) {
	active, past := v.CountBindings()
	for is, n := range map[bool]int{true: active, false: past} {
		ch <- prometheus.MustNewConstMetric(bindings, prometheus.GaugeValue, float64(n), strconv.FormatBool(is))
	}
	for why, n := range ended {
		ch <- prometheus.MustNewConstMetric(bindingsEnded, prometheus.CounterValue, float64(n), string(why))
	}
}
