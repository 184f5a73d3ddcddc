package load

import (
	"slices"
	"strings"
	"time"

	"berth/api"
)

// Work is what one operation does.
type Work string

// The kinds of work.
const (
	Boots     Work = "boots"     // boots some instances, all or none
	Federated Work = "federated" // boots over at least some zones, all or none
	Leases    Work = "leases"    // creates a lease of one slot for an hour of the next 30 days
	Claims    Work = "claims"    // allocates from one resource provider for a new consumer
	Mixed     Work = "mixed"     // of ten operations five boots, two leases and three claims
)

// Works are all kinds of work.
var Works = []Work{Boots, Federated, Leases, Claims, Mixed}

// Until is the point at which a boot counts as done.
type Until string

// The points, in order.
const (
	UntilRecorded Until = "recorded" // its request is in the log, and the call is answered
	UntilDecided  Until = "decided"  // it is committed
	UntilActive   Until = "active"   // all its instances run
)

// Untils are all points.
var Untils = []Until{UntilRecorded, UntilDecided, UntilActive}

// Limits of a Plan.
const (
	CallersMax  = 4096
	RateMax     = 200_000          // operations per second
	DurationMin = time.Millisecond // of what is measured
	DurationMax = time.Hour        // of what is measured, and of the warm-up
	TimeoutMin  = time.Millisecond // of one operation
	TimeoutMax  = 10 * time.Minute // of one operation
	MinZonesMax = 32               // zones of one federated boot
)

// Plan describes the load of one measurement.
type Plan struct {
	Work     Work
	Until    Until         // of boots
	Flavor   api.FlavorID  // of boots
	Count    int           // instances of one boot; 1 to api.CountMax
	MinZones int           // zones of one federated boot, at least; 1 to MinZonesMax
	Callers  int           // operations at the same time, at most; 1 to CallersMax
	Rate     float64       // operations per second in an open loop, up to RateMax; 0 for a closed loop
	Warmup   time.Duration // load before what is measured; 0 to DurationMax
	Duration time.Duration // DurationMin to DurationMax
	Timeout  time.Duration // of one operation; TimeoutMin to TimeoutMax
}

// Check returns an invalid-input error unless all of p is in range.
func (p *Plan) Check() error {
	switch {
	case !slices.Contains(Works, p.Work):
		return api.Errorf(api.CodeInvalid, "the work must be one of %s, got %q", joinNames(Works), p.Work)
	case !slices.Contains(Untils, p.Until):
		return api.Errorf(api.CodeInvalid, "until must be one of %s, got %q", joinNames(Untils), p.Until)
	case p.Count < 1 || p.Count > api.CountMax:
		return api.Errorf(api.CodeInvalid, "count must be 1 to %d, got %d", api.CountMax, p.Count)
	case p.MinZones < 1 || p.MinZones > MinZonesMax:
		return api.Errorf(api.CodeInvalid, "min-zones must be 1 to %d, got %d", MinZonesMax, p.MinZones)
	case p.Work == Federated && p.MinZones > p.Count:
		return api.Errorf(api.CodeInvalid, "%d instances cannot be in %d zones", p.Count, p.MinZones)
	case p.Callers < 1 || p.Callers > CallersMax:
		return api.Errorf(api.CodeInvalid, "callers must be 1 to %d, got %d", CallersMax, p.Callers)
	case !(p.Rate >= 0 && p.Rate <= RateMax): // refuses what is not a number, too
		return api.Errorf(api.CodeInvalid, "rate must be 0 to %d operations per second, got %g", RateMax, p.Rate)
	}
	return p.checkTimes()
}

func (p *Plan) checkTimes() error {
	switch {
	case p.Warmup < 0 || p.Warmup > DurationMax:
		return api.Errorf(api.CodeInvalid, "warmup must be 0s to %s, got %s", DurationMax, p.Warmup)
	case p.Duration < DurationMin || p.Duration > DurationMax:
		return api.Errorf(api.CodeInvalid, "duration must be %s to %s, got %s", DurationMin, DurationMax, p.Duration)
	case p.Timeout < TimeoutMin || p.Timeout > TimeoutMax:
		return api.Errorf(api.CodeInvalid, "timeout must be %s to %s, got %s", TimeoutMin, TimeoutMax, p.Timeout)
	}
	return nil
}

// joinNames lists names for people.
func joinNames[T ~string](all []T) string {
	var texts []string
	for _, t := range all {
		texts = append(texts, string(t))
	}
	return strings.Join(texts, ", ")
}

// intended returns when operation n of an open loop is due, counted from the begin of the
// load.
func (p *Plan) intended(n int64) time.Duration {
	return time.Duration(float64(n) / p.Rate * float64(time.Second))
}

// mixedCycle is the order of the operations of mixed work.
var mixedCycle = [...]Work{Boots, Claims, Boots, Leases, Boots, Claims, Boots, Leases, Boots, Claims}

// workOf returns what operation n does.
func (p *Plan) workOf(n int64) Work {
	if p.Work == Mixed {
		return mixedCycle[n%int64(len(mixedCycle))]
	}
	return p.Work
}
