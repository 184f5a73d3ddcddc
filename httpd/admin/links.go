package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"berth/api"
	"berth/raftstore/state"
)

var (
	linkHeld         = nodeMetrics.gauge("berth_link_held", "Amount on hosts of this zone that a parent has in holds that it has not decided, by resource class.", "zone", "class")
	linkHeldMax      = nodeMetrics.gauge("berth_link_held_max", "Amount that it may have so.", "zone", "class")
	linkCommitted    = nodeMetrics.gauge("berth_link_committed", "Amount on hosts of this zone that a parent has now, decided or not, by resource class.", "zone", "class")
	linkCommittedMax = nodeMetrics.gauge("berth_link_committed_max", "Amount that it may have so.", "zone", "class")
)

// collectLinks collects what parents have of the zone at v.
func collectLinks(v *state.State, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	for _, l := range v.Links() {
		if l.Role != api.LinkParent {
			continue
		}
		of, _, _ := v.Lent(l)
		for class, n := range of {
			gauge(linkHeld, float64(n.Held), l.Name, string(class))
			gauge(linkHeldMax, float64(n.HeldMax), l.Name, string(class))
			gauge(linkCommitted, float64(n.Committed), l.Name, string(class))
			gauge(linkCommittedMax, float64(n.CommittedMax), l.Name, string(class))
		}
	}
}
