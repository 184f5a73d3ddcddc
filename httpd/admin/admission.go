package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	admitWaiting   = nodeMetrics.gauge("berth_admission_waiting", "Boots that wait to be planned with others.")
	admitBatches   = nodeMetrics.counter("berth_admission_batches_total", "Batches of boots that this process has planned.")
	admitBoots     = nodeMetrics.counter("berth_admission_boots_total", "Boots in them, by whether they were recorded with their slots.", "planned")
	admitConflicts = nodeMetrics.counter("berth_admission_conflicts_total", "Boots that were recorded with their slots and refused some of them.")
	admitTime      = nodeMetrics.counter("berth_admission_seconds_total", "Time for which batches were planned, and boots with their slots were on their way into the log, summed up.", "phase")
)

// Admission is what this process does to admit boots.
type Admission struct {
	Waiting                            int    // boots
	Batches, Planned, Alone, Conflicts uint64 // batches, boots recorded with and without their slots, boots refused some
	Planning, Logging                  time.Duration
}

// collectAdmission collects what this process does to admit boots.
func (c *collector) collectAdmission(ch chan<- prometheus.Metric) {
	var a Admission
	if c.Admission != nil {
		a = c.Admission()
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	ch <- prometheus.MustNewConstMetric(admitWaiting, prometheus.GaugeValue, float64(a.Waiting))
	counter(admitBatches, float64(a.Batches))
	counter(admitBoots, float64(a.Planned), "yes")
	counter(admitBoots, float64(a.Alone), "no")
	counter(admitConflicts, float64(a.Conflicts))
	counter(admitTime, a.Planning.Seconds(), "plan")
	counter(admitTime, a.Logging.Seconds(), "log")
}
