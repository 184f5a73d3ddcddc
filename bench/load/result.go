package load

// Result is what one measurement came to.
type Result struct {
	Work       Work    `json:"work"`
	Callers    int     `json:"callers"`
	RateWanted float64 `json:"rate_wanted"` // operations per second of an open loop; 0 for a closed one
	// Length of the window of rates and processor time. A closed loop: in which what is measured began, each when the
	// one before ended. An open loop: until the last has ended.
	Seconds float64 `json:"seconds"`

	Operations int64 `json:"operations"` // that succeeded
	Instances  int64 `json:"instances"`  // that they booted
	Failed     int64 `json:"failed"`
	Late       int64 `json:"late"` // began more than LateAfter after they were due, in an open loop

	Rate         float64 `json:"operations_per_second"`
	InstanceRate float64 `json:"instances_per_second"`
	Latency      Latency `json:"latency"`

	// Processor time of this process, which includes the load generator; and the zones, if it
	// runs them.
	CPUSeconds       float64 `json:"cpu_seconds"`
	CPUMsOperation   float64 `json:"cpu_ms_per_operation"`
	CPUMsPerInstance float64 `json:"cpu_ms_per_instance"`

	Works  []WorkResult `json:"works"`
	Errors []ErrorCount `json:"errors"` // the most frequent first
}

// divide computes what follows from the totals.
func (r *Result) divide() {
	if r.Seconds > 0 {
		r.Rate = float64(r.Operations) / r.Seconds
		r.InstanceRate = float64(r.Instances) / r.Seconds
	}
	if r.Operations > 0 {
		r.CPUMsOperation = r.CPUSeconds * 1000 / float64(r.Operations)
	}
	if r.Instances > 0 {
		r.CPUMsPerInstance = r.CPUSeconds * 1000 / float64(r.Instances)
	}
}
