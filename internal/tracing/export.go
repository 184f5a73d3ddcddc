package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Limits of the export.
const (
	BatchMax    = 512             // spans in one call
	exportEvery = 5 * time.Second // and once a batch is full
	exportMax   = 5 * time.Second // for one call
)

// Run exports spans until ctx ends, and then those that are left, within the time of one call.
func (t *Tracer) Run(ctx context.Context) {
	if t == nil {
		return
	}
	way := &http.Transport{DialContext: t.conf.Dial, MaxIdleConns: 1, IdleConnTimeout: time.Minute} // never by a proxy
	defer way.CloseIdleConnections()
	tick := time.NewTicker(exportEvery)
	defer tick.Stop()
	var batch []*Span
	for {
		select {
		case s := <-t.queue:
			if batch = append(batch, s); len(batch) < BatchMax {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for len(t.queue) > 0 && len(batch) < BatchMax {
				batch = append(batch, <-t.queue)
			}
			t.export(context.WithoutCancel(ctx), way, batch)
			return
		}
		t.export(ctx, way, batch)
		batch = nil
	}
}

// export sends a batch once. What the collector does not take is dropped and told.
func (t *Tracer) export(ctx context.Context, way http.RoundTripper, batch []*Span) {
	t.mu.Lock()
	lost := t.lost
	t.lost = 0
	t.mu.Unlock()
	var err error
	if len(batch) > 0 {
		if err = t.send(ctx, way, batch); err != nil {
			lost += len(batch)
		}
	}
	if lost > 0 && t.conf.Dropped != nil {
		t.conf.Dropped(lost, err)
	}
}

func (t *Tracer) send(ctx context.Context, way http.RoundTripper, batch []*Span) error {
	ctx, cancel := context.WithTimeout(ctx, exportMax)
	defer cancel()
	body, err := json.Marshal(t.encode(batch))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.conf.Endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := way.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // nothing of it is read
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered with %s", res.Status)
	}
	return nil
}

// The messages of OTLP, in its JSON.
type (
	message struct {
		Resources []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource struct {
			Attributes []attribute `json:"attributes"`
		} `json:"resource"`
		Scopes []scopeSpans `json:"scopeSpans"`
	}
	scopeSpans struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"scope"`
		Spans []jsonSpan `json:"spans"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value struct {
			Text string `json:"stringValue"`
		} `json:"value"`
	}
	jsonSpan struct {
		Trace      string      `json:"traceId"`
		Span       string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       Kind        `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     *status     `json:"status,omitempty"`
	}
	status struct {
		Code int `json:"code"` // 2 for an error
	}
)

func attributeOf(key, text string) (a attribute) {
	a.Key, a.Value.Text = key, text
	return a
}

// encode returns the message for a batch.
func (t *Tracer) encode(batch []*Span) message {
	var sc scopeSpans
	sc.Scope.Name, sc.Scope.Version = "berth", t.conf.Version
	for _, s := range batch {
		j := jsonSpan{
			Trace: hex.EncodeToString(s.at.trace[:]), Span: hex.EncodeToString(s.at.span[:]), Name: s.name, Kind: s.kind,
			Start: strconv.FormatInt(s.start.UnixNano(), 10), End: strconv.FormatInt(s.end.UnixNano(), 10),
		}
		if s.parent != [8]byte{} {
			j.Parent = hex.EncodeToString(s.parent[:])
		}
		if s.code != "" {
			j.Attributes, j.Status = []attribute{attributeOf("berth.code", s.code)}, &status{2}
		}
		sc.Spans = append(sc.Spans, j)
	}
	out := resourceSpans{Scopes: []scopeSpans{sc}}
	out.Resource.Attributes = []attribute{attributeOf("service.name", "berth"), attributeOf("berth.zone", t.conf.Zone)}
	return message{[]resourceSpans{out}}
}
