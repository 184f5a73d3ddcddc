package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"berth/api"
	"berth/raftstore/state"
)

var (
	roomReserved    = nodeMetrics.gauge("berth_room_reserved", "Amount in active slots of leases on hosts of this zone, by resource class.", "class")
	roomIdle        = nodeMetrics.gauge("berth_room_idle", "Part of berth_room_reserved that its owners do not use.", "class")
	roomLent        = nodeMetrics.gauge("berth_room_lent", "Part of berth_room_idle that preemptible instances use.", "class")
	roomPreemptible = nodeMetrics.gauge("berth_room_preemptible", "Amount that preemptible instances use outside of leases on hosts of this zone.", "class")
	evictions       = nodeMetrics.counter("berth_evictions_total", "Preemptible instances that had to leave for a lease or a boot, since this process started.", "cause")
	evictionsGone   = nodeMetrics.counter("berth_evictions_gone_total", "Those of them that are gone.")
	evictionTime    = nodeMetrics.counter("berth_eviction_seconds_total", "Time between the notice and the end of those that are gone, summed up.")
	evictionLate    = nodeMetrics.counter("berth_eviction_late_seconds_total", "Time between the deadline and the end of those that were late, summed up.")
	startLate       = nodeMetrics.counter("berth_lease_start_late_seconds_total", "Time between the start of the window of leases, or their creation if that was later, and their being active, summed up.")
)

// preemptCounts is what was counted of preemptible instances. Times are sums.
type preemptCounts struct {
	forLeases, forBoots, gone         uint64
	leavingMS, lateMS, startingLateMS int64
}

// count counts one event.
func (c *preemptCounts) count(v *state.State, e *state.Event) {
	switch e.Kind { //nolint:exhaustive // the others are not of preemptible instances or starts
	case state.EventEvicted:
		if e.Eviction.Lease {
			c.forLeases++
		} else {
			c.forBoots++
		}
	case state.EventInstance:
		i, ok := v.Instance(e.Instance)
		if e.Is != string(api.StatusDeleted) || !ok || i.Eviction == nil || i.Host == "" {
			return
		}
		c.gone++
		c.leavingMS += int64(max(0, e.At-i.Eviction.At))
		c.lateMS += int64(max(0, e.At-i.Eviction.By))
	case state.EventLeaseStarted:
		if l, ok := v.Lease(e.Lease); ok {
			c.startingLateMS += int64(max(0, e.At-max(l.Terms.Window.Start, l.Created)))
		}
	}
}

// collectPreemptibles collects what is known of preemptible instances, and of the room that is left
// for them.
func (c *collector) collectPreemptibles(ch chan<- prometheus.Metric, v *state.State, n preemptCounts) {
	uses := v.RoomUse()
	for _, class := range v.Hosts().Classes() {
		use := uses[class]
		for d, amount := range map[*prometheus.Desc]int64{roomReserved: use.Reserved, roomIdle: use.Idle, roomLent: use.Lent, roomPreemptible: use.Preemptible} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(amount), string(class))
		}
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	const second = 1000
	counter(evictions, float64(n.forLeases), "lease")
	counter(evictions, float64(n.forBoots), "boot")
	counter(evictionsGone, float64(n.gone))
	counter(evictionTime, float64(n.leavingMS)/second)
	counter(evictionLate, float64(n.lateMS)/second)
	counter(startLate, float64(n.startingLateMS)/second)
}
