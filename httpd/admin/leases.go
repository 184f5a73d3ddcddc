package admin

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth/api"
	"berth/raftstore/state"
)

// leaseStatuses are the statuses that a lease may have.
var leaseStatuses = []api.LeaseStatus{
	api.LeaseCreating, api.LeasePending, api.LeaseStarting, api.LeaseActive, api.LeaseUpdating, api.LeaseTerminating, api.LeaseTerminated,
	api.LeaseDeleting, api.LeaseError,
}

// eventsPerRead bounds the events that are counted at a time.
const eventsPerRead = 10_000

// leaseCounter counts the events of leases, which a zone keeps only for a while.
type leaseCounter struct {
	mu     sync.Mutex // guards all below
	seen   api.EventID
	counts map[api.LeaseEventType]uint64
	soft   preemptCounts
	ended  map[api.BindingReason]uint64 // bindings
	work   workCounts
}

// count counts what has happened since the last view, and returns all counts so far. What
// the zone has dropped between two views is not counted.
func (c *leaseCounter) count(v *state.State) (map[api.LeaseEventType]uint64, preemptCounts, map[api.BindingReason]uint64, workCounts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[api.LeaseEventType]uint64{
			api.EventBeforeStartLease: 0, api.EventStartLease: 0, api.EventBeforeEndLease: 0, api.EventEndLease: 0,
		}
		c.ended = map[api.BindingReason]uint64{
			api.BindingNoRoom: 0, api.BindingHeadroom: 0, api.BindingMaintenance: 0, api.BindingAway: 0, api.BindingUnfit: 0, api.BindingOperator: 0,
		}
	}
	for {
		events, _ := v.Events(c.seen, eventsPerRead)
		for _, e := range events {
			if t, ok := happenedIn(e.Kind); ok {
				c.counts[t]++
			}
			c.soft.count(v, e)
			c.work.count(v, e)
			if e.Kind == state.EventBindingEnded {
				c.ended[api.BindingReason(e.Is)]++
			}
			c.seen = v.EventID(e)
		}
		if len(events) < eventsPerRead {
			return maps.Clone(c.counts), c.soft, maps.Clone(c.ended), c.work.clone()
		}
	}
}

// happenedIn returns the event of a lease that an event of the zone tells of.
func happenedIn(k state.EventKind) (api.LeaseEventType, bool) {
	switch k { //nolint:exhaustive // the others are not of leases, or tell of their statuses
	case state.EventLeaseStarted:
		return api.EventStartLease, true
	case state.EventLeaseStartsSoon:
		return api.EventBeforeStartLease, true
	case state.EventLeaseEndsSoon:
		return api.EventBeforeEndLease, true
	case state.EventLeaseEnded:
		return api.EventEndLease, true
	}
	return "", false
}

// collectLeases collects what is known of leases.
func (c *collector) collectLeases(ch chan<- prometheus.Metric, v *state.State, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	counts := v.CountLeases()
	for _, st := range leaseStatuses {
		gauge(leased, float64(counts[st]), string(st))
	}
	events, soft, ended, work := c.leases.count(v)
	work.emit(ch)
	c.collectPreemptibles(ch, v, soft)
	c.collectBindings(ch, v, ended)
	for event, n := range events {
		ch <- prometheus.MustNewConstMetric(happened, prometheus.CounterValue, float64(n), string(event))
	}
	lag := time.Duration(0)
	if due := v.NextDue(); due < c.Now() {
		lag = time.Duration(c.Now()-due) * time.Millisecond
	}
	gauge(late, lag.Seconds())
	gauge(held, float64(len(v.LateSlots(c.Now()))))
}

// collectChecks collects what is known of the external service for leases.
func (c *collector) collectChecks(ch chan<- prometheus.Metric, v *state.State, w *Watching, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	for outcome, n := range map[string]uint64{"allowed": w.ChecksAllowed, "refused": w.ChecksRefused, "unanswered": w.ChecksUnanswered} {
		ch <- prometheus.MustNewConstMetric(checked, prometheus.CounterValue, float64(n), outcome)
	}
	for outcome, n := range map[string]uint64{"confirmed": w.EndsTold, "failed": w.EndsUntold} {
		ch <- prometheus.MustNewConstMetric(endsTold, prometheus.CounterValue, float64(n), outcome)
	}
	owed, first := v.CountLeaseEnds()
	gauge(endsOwed, float64(owed))
	age := time.Duration(0)
	if owed > 0 {
		age = time.Duration(max(0, c.Now()-first)) * time.Millisecond
	}
	gauge(endsLag, age.Seconds())
}
