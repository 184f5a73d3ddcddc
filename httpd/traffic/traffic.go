// Package traffic measures the calls that a node answers: how many there were and how long they
// took, by listener, method, route and status. A route is a pattern of the router's own table, so
// that what callers send adds no series.
package traffic

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/measure"
	"berth/internal/requestid"
	"berth/internal/tracing"
)

// Unmatched is the route of a call that was refused before a route was found; Aborted is the status of
// one that ended without an answer.
const (
	Unmatched = "unmatched"
	Aborted   = "aborted"
)

// Passed is the listener of a call that another node of the zone has passed on.
const Passed = "node"

// methods are those that calls have; others are counted as "other".
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// Route is what calls have in common.
type Route struct{ Listener, Method, Path string }

// Answer is a route with the status of the answer.
type Answer struct {
	Route
	Status string
}

// Meter measures calls. It may be used concurrently, and nil measures nothing.
type Meter struct {
	now    func() time.Time
	passed func(*http.Request) bool
	took   *measure.Family[Route]
	counts *measure.Counts[Answer]
	trace  *tracing.Tracer
	log    *slog.Logger
}

// New returns a meter. passed reports whether another node has passed a call on; nil for never.
func New(now func() time.Time, passed func(*http.Request) bool) *Meter {
	return &Meter{now: now, passed: passed, took: measure.NewFamily[Route](), counts: measure.NewCounts[Answer](), log: slog.New(slog.DiscardHandler)}
}

// WithLog lets each call have a line at level debug once it is answered. It returns m.
func (m *Meter) WithLog(log *slog.Logger) *Meter {
	m.log = log
	return m
}

// WithTracer lets each call have a span, named by its route. It returns m.
func (m *Meter) WithTracer(t *tracing.Tracer) *Meter {
	m.trace = t
	return m
}

// Read returns how long calls took, and how many had which answer, since the process started.
func (m *Meter) Read() (took map[Route]measure.Distribution, answers map[Answer]uint64) {
	return m.took.Read(), m.counts.Read()
}

type placeKey struct{}

// place is where the handler of a call says which route it is of, and for whom. One goroutine uses it.
type place struct {
	path    string
	project api.ProjectID // "" if the caller is not known
	span    *tracing.Span
}

// Watch measures what next answers on a listener.
func (m *Meter) Watch(listener string) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if m == nil {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed := m.passed != nil && m.passed(r)
			ctx, span := m.trace.Receive(r, passed)
			at, began := &place{path: Unmatched, span: span}, m.now()
			out := &answer{ResponseWriter: w}
			defer func() {
				key := Route{listener, r.Method, at.path}
				if at.path == Unmatched || !slices.Contains(methods, key.Method) {
					key.Method = "other"
				}
				if passed {
					key.Listener = Passed
				}
				took := m.now().Sub(began)
				m.took.NoteTime(key, took)
				m.counts.Add(Answer{key, out.text()})
				m.logAnswer(r.Context(), Answer{key, out.text()}, took, at, out.Header().Get(api.HeaderRequestID))
				span.SetName(key.Method + " " + key.Path)
				span.End(failureOf(out.text()))
			}()
			next.ServeHTTP(out, r.WithContext(context.WithValue(ctx, placeKey{}, at)))
			out.ended = true
		})
	}
}

// logAnswer logs a call that was answered. What callers send is not in the line, but for the id of the call.
func (m *Meter) logAnswer(ctx context.Context, a Answer, took time.Duration, at *place, request string) {
	if !m.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	m.log.DebugContext(ctx, "call answered", "listener", a.Listener, "method", a.Method, "route", a.Path, "code", a.Status,
		"duration", took, "request_id", request, "project", string(at.project))
}

// NoteProject says whose call it is, once that is known.
func NoteProject(ctx context.Context, p api.ProjectID) {
	if at, ok := ctx.Value(placeKey{}).(*place); ok {
		at.project = p
	}
}

// Name says that what next answers is of a route.
func Name(path string) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at, ok := r.Context().Value(placeKey{}).(*place); ok {
				at.path = path
				at.span.Remember(requestid.Of(r.Context()))
			}
			next.ServeHTTP(w, r)
		})
	}
}

// failureOf returns the status of a call that its server failed, "" for others.
func failureOf(status string) string {
	if status == Aborted || status >= "500" {
		return status
	}
	return ""
}

// answer remembers the status of an answer.
type answer struct {
	http.ResponseWriter
	status int  // 0 before the header
	ended  bool // its handler has returned
}

func (a *answer) text() string {
	switch {
	case a.status != 0:
		return strconv.Itoa(a.status)
	case a.ended: // net/http writes it
		return strconv.Itoa(http.StatusOK)
	}
	return Aborted
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK { // others come before the answer
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
