package node

import (
	"context"
	"net"

	"berth/api"
	"berth/internal/tracing"
)

// Trace is how a node follows calls.
type Trace struct {
	Endpoint string  // of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318
	Ratio    float64 // of the traces that are exported, 0 to 1
}

// TraceRatioDefault is the part of the traces that is exported unless somebody says otherwise.
const TraceRatioDefault = 0.01

// Validate returns why nothing could be followed in this way. Without an endpoint nothing is.
func (t Trace) Validate() error {
	if !(t.Ratio >= 0 && t.Ratio <= 1) { // nor NaN
		return api.Errorf(api.CodeInvalid, "--trace-ratio must be 0 to 1, not %v", t.Ratio)
	}
	if t.Endpoint == "" {
		return nil
	}
	_, err := tracing.CheckEndpoint(t.Endpoint)
	return err
}

// openTrace makes the tracer of the node, if it has one.
func (n *Node) openTrace() error {
	t := n.opts.Trace
	if err := t.Validate(); err != nil || t.Endpoint == "" {
		return err
	}
	endpoint, _ := tracing.CheckEndpoint(t.Endpoint) // it is valid
	n.trace = tracing.New(tracing.Config{
		Endpoint: endpoint, Ratio: t.Ratio, Zone: n.rec.ZoneName, Version: n.opts.Version, Now: n.now,
		Dial:    func(ctx context.Context, _, addr string) (net.Conn, error) { return n.net.Dial(ctx, addr) },
		Dropped: func(spans int, why error) { n.log.Warn("spans were not exported", "spans", spans, "error", why) },
	})
	n.measures.traffic.WithTracer(n.trace)
	return nil
}
