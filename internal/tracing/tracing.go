// Package tracing follows calls over the nodes and zones that take part in them, and exports what it has seen as
// OpenTelemetry spans. A nil Tracer and a nil Span do nothing.
package tracing

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"berth/api"
	"berth/internal/requestid"
)

// Header carries the place of a call in its trace; see https://www.w3.org/TR/trace-context.
const Header = "Traceparent"

// Limits of a process.
const (
	TracesPerSecondMax = 100  // traces that are begun or continued for callers of outside
	QueueMax           = 2048 // spans that wait for their export; more are dropped
	RequestsMax        = 4096 // requests whose place is remembered for work that is done for them later

	headerBytes = 55 // of version 00
)

// Kind is that of a span, in the numbers of OTLP.
type Kind int

// The kinds of spans.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Config is how a process traces.
type Config struct {
	Endpoint string  // of a collector that takes OTLP over HTTP; see CheckEndpoint
	Ratio    float64 // of the traces that are exported, 0 to 1; drawn here, whatever callers of outside ask for
	Zone     string  // name of the zone of this process
	Version  string
	Now      func() time.Time
	Dropped  func(spans int, why error) // is told what could not be exported; nil for nobody

	// Dial connects to the collector; nil for TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// CheckEndpoint checks the address of a collector, and completes it with the path of OTLP if it has none.
func CheckEndpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", api.Errorf(api.CodeInvalid, "the endpoint of traces must be a URL such as http://127.0.0.1:4318, without a user or a query")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// place is where work is in a trace.
type place struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

type placeKey struct{}

// Tracer begins spans and keeps them until Run exports them. Safe for concurrent use.
type Tracer struct {
	conf  Config
	seed  maphash.Seed
	queue chan *Span

	mu       sync.Mutex // guards what follows
	second   int64
	begun    int // traces in it
	lost     int // spans since the last export
	requests map[api.RequestID]place
	order    []api.RequestID // of requests, as a ring
	next     int             // the oldest in it
}

// New returns a tracer, whose Run exports. The endpoint is one that CheckEndpoint has returned.
func New(c Config) *Tracer {
	return &Tracer{conf: c, seed: maphash.MakeSeed(), queue: make(chan *Span, QueueMax), requests: map[api.RequestID]place{}}
}

// Receive begins the span of a call that has arrived. It continues the trace of the caller, but whether that is exported is
// decided here, unless the caller is trusted: a node of the own zone.
func (t *Tracer) Receive(r *http.Request, trusted bool) (context.Context, *Span) {
	ctx := r.Context()
	if t == nil {
		return ctx, nil
	}
	var from place
	known := false
	if lines := r.Header.Values(Header); len(lines) == 1 {
		from, known = parse(lines[0])
	}
	if !known {
		from = place{}
		_, _ = rand.Read(from.trace[:]) // never fails
	}
	if !known || !trusted {
		from.sampled = t.draw(from.trace)
	}
	return t.begin(ctx, from, "", Server)
}

// Start begins a span of work that is part of a call: by its context, or by the id of the request for which it is done.
// Other work has none.
func (t *Tracer) Start(ctx context.Context, name string, kind Kind) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	from, ok := t.placeOf(ctx)
	if !ok {
		return ctx, nil
	}
	return t.begin(ctx, from, name, kind)
}

// placeOf returns where the work of a context is.
func (t *Tracer) placeOf(ctx context.Context) (place, bool) {
	if at, ok := ctx.Value(placeKey{}).(place); ok {
		return at, true
	}
	id := requestid.Of(ctx)
	if id == "" {
		return place{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.requests[id]
	return at, ok
}

// begin begins a span within from. One that is not exported only moves on the place that others are told.
func (t *Tracer) begin(ctx context.Context, from place, name string, kind Kind) (context.Context, *Span) {
	at := from
	_, _ = rand.Read(at.span[:]) // never fails
	s := &Span{tracer: t, at: at, parent: from.span, name: name, kind: kind, start: t.conf.Now()}
	return context.WithValue(ctx, placeKey{}, at), s
}

// Inject tells the receiver of a call where it is in its trace.
func (t *Tracer) Inject(ctx context.Context, h http.Header) {
	if t == nil {
		return
	}
	if at, ok := t.placeOf(ctx); ok {
		h.Set(Header, at.String())
	}
}

// draw decides whether a trace is exported. All calls of one trace have the same answer within the limit, and nobody outside
// can tell which ids have which.
func (t *Tracer) draw(trace [16]byte) bool {
	if float64(maphash.Bytes(t.seed, trace[:])>>11)/(1<<53) >= t.conf.Ratio {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.conf.Now().Unix(); now != t.second {
		t.second, t.begun = now, 0
	}
	t.begun++
	return t.begun <= TracesPerSecondMax
}

// remember keeps the place of a request for work that is done for it later.
func (t *Tracer) remember(id api.RequestID, at place) {
	if id == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.requests[id]; ok {
		return // the first call with an id is the nearest to its origin
	}
	t.requests[id] = at
	if len(t.order) < RequestsMax {
		t.order = append(t.order, id)
		return
	}
	delete(t.requests, t.order[t.next])
	t.order[t.next] = id
	t.next = (t.next + 1) % RequestsMax
}

// Span is a piece of work in a trace. One goroutine uses it.
type Span struct {
	tracer     *Tracer
	at         place
	parent     [8]byte
	name       string
	kind       Kind
	start, end time.Time
	code       string // of its error
}

// Remember lets work that is done later for a request be part of the span.
func (s *Span) Remember(id api.RequestID) {
	if s != nil {
		s.tracer.remember(id, s.at)
	}
}

// SetName sets the name, which is a constant of the program or the pattern of a route.
func (s *Span) SetName(name string) {
	if s != nil {
		s.name = name
	}
}

// End ends the span. code says why it failed, "" for nothing.
func (s *Span) End(code string) {
	if s == nil || !s.at.sampled {
		return
	}
	s.end, s.code = s.tracer.conf.Now(), code
	select {
	case s.tracer.queue <- s:
	default:
		s.tracer.mu.Lock()
		s.tracer.lost++
		s.tracer.mu.Unlock()
	}
}

// String returns the place as the header has it.
func (p place) String() string {
	flags := "00"
	if p.sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(p.trace[:]) + "-" + hex.EncodeToString(p.span[:]) + "-" + flags
}

// parse reads a header, which is data from outside: of version 00 and exactly as long as that.
func parse(text string) (p place, ok bool) {
	if len(text) != headerBytes || text[:3] != "00-" || text[35] != '-' || text[52] != '-' {
		return place{}, false
	}
	var flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{p.trace[:], text[3:35]}, {p.span[:], text[36:52]}, {flags[:], text[53:]}} {
		for i := range len(part.text) {
			if c := part.text[i]; c >= 'A' && c <= 'F' {
				return place{}, false // the standard has lower case alone
			}
		}
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return place{}, false
		}
	}
	if p.trace == [16]byte{} || binary.BigEndian.Uint64(p.span[:]) == 0 {
		return place{}, false
	}
	p.sampled = flags[0]&1 == 1
	return p, true
}
