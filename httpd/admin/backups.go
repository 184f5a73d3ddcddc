package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"berth/api"
)

// Backups is what became of the backups that a node writes on a schedule.
type Backups struct {
	Since    api.Instant `json:"since"`           // when the schedule began in this process
	Newest   api.Instant `json:"newest"`          // of the backups in the folder; 0 for none
	File     string      `json:"file"`            // its name
	Bytes    int64       `json:"bytes"`           // its length
	Written  uint64      `json:"written"`         // in this process
	Failures uint64      `json:"failures"`        // in this process
	Failed   api.Instant `json:"failed"`          // when the last one failed, if none was written after it; else 0
	Error    string      `json:"error,omitempty"` // why
}

var (
	backupAge      = nodeMetrics.gauge("berth_backup_age_seconds", "Age of the newest backup that this node has written on its schedule, or of the schedule in this process if there is none; only with a schedule.")
	backupBytes    = nodeMetrics.gauge("berth_backup_bytes", "Size of that backup.")
	backupFailed   = nodeMetrics.gauge("berth_backup_failed", "1 if the last backup of the schedule could not be written or read back.")
	backupFailures = nodeMetrics.counter("berth_backup_failures_total", "Backups that this process could not write or read back.")
)

// collectBackups collects what became of the backups of this node.
func (c *collector) collectBackups(ch chan<- prometheus.Metric, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	if c.Backups == nil {
		return
	}
	b, ok := c.Backups()
	if !ok {
		return
	}
	since := b.Newest
	if since == 0 {
		since = b.Since
	}
	gauge(backupAge, c.Now().Time().Sub(since.Time()).Seconds())
	gauge(backupBytes, float64(b.Bytes))
	gauge(backupFailed, map[bool]float64{true: 1}[b.Failed > 0])
	ch <- prometheus.MustNewConstMetric(backupFailures, prometheus.CounterValue, float64(b.Failures))
}
