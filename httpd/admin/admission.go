package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	admitWaiting   = prometheus.NewDesc("berth_admission_waiting", "Boots that wait to be planned with others.", nil, nil)
	admitBatches   = prometheus.NewDesc("berth_admission_batches_total", "Batches of boots that this process has planned.", nil, nil)
	admitBoots     = prometheus.NewDesc("berth_admission_boots_total", "Boots in them, by whether they were recorded with their slots.", []string{"planned"}, nil)
	admitConflicts = prometheus.NewDesc("berth_admission_conflicts_total", "Boots that were recorded with their slots and refused some of them.", nil, nil)
	admitTime      = prometheus.NewDesc("berth_admission_seconds_total", "Time for which batches were planned, and boots with their slots were on their way into the log, summed up.", []string{"phase"}, nil)
)

// admissionDescs are the figures of the admission of boots.
var admissionDescs = []*prometheus.Desc{admitWaiting, admitBatches, admitBoots, admitConflicts, admitTime}

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
