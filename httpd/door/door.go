// Package door has what every dialect of a zone's public API shares: authentication,
// roles, the choice of the node that answers, and the freshness of answers.
//
// It knows no dialect: routes, bodies and the format of refusals are passed in. It
// decides nothing about capacity.
package door

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"berth/api"
	"berth/httpd/rates"
	"berth/httpd/refusals"
	"berth/httpd/traffic"
	"berth/httpd/wire"
	"berth/internal/turns"
	"berth/raftstore/state"
	"berth/zone"
)

// Tokens reads bearer tokens.
type Tokens interface {
	// Parse returns the public half of a token and the hash of its secret half.
	Parse(text string) (id api.TokenID, hash []byte, err error)
	// Check compares two hashes in constant time.
	Check(stored, presented []byte) bool
}

// Config holds what the doors of one node need.
type Config struct {
	Zone     *zone.Zone
	Tokens   Tokens
	Leader   func() bool  // whether this node leads
	Forward  http.Handler // passes a request on to the leader
	Now      func() time.Time
	Log      *slog.Logger
	Insecure bool // no tokens: every caller is the admin of project "admin"
	// Cut returns for how long this node has heard of no leader; nil for a node that always does.
	Cut func() time.Duration
	// Admitted is told of each request with a valid token; nil for nobody.
	Admitted func(r *http.Request)
	// Uses remembers when tokens are used; nil for nobody.
	Uses *Uses
	// Rates limits how often callers may call; nil for no limit. Address returns where a
	// request came from, "" if another node has passed it on.
	Rates   *rates.Limiter
	Address func(r *http.Request) string
	// Turns lets so many calls be worked on at once; nil for any number. See NewTurns.
	Turns *turns.Turns
	// Refusals counts callers without a valid token, and changes that callers may not make; nil for nothing.
	Refusals *refusals.Counter
	// Traffic measures the calls; nil for nothing.
	Traffic *traffic.Meter
}

// ListenerAPI is the listener of the public API, as calls are measured under.
const ListenerAPI = "api"

// Door is the common part of one dialect. Its methods may be called concurrently.
type Door struct {
	Config
	refuse func(w http.ResponseWriter, r *http.Request, err error)
}

// New returns the door of a dialect that writes its refusals with refuse.
func New(c Config, refuse func(w http.ResponseWriter, r *http.Request, err error)) *Door {
	return &Door{Config: c, refuse: refuse}
}

// Handler is a handler that returns its refusal.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Handle answers on any node, from its own replica.
func (d *Door) Handle(h Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			d.Refuse(w, r, err)
		}
	}
}

// Lead answers on the leader: any other node forwards the request inside the zone and
// returns the leader's answer. Refusals are confirmed (see zone.Confirmed), so h may be
// called twice and must change nothing when it refuses.
func (d *Door) Lead(h Handler) http.HandlerFunc { return d.LeadStream(d.confirmRefusal(h)) }

// LeadStream is Lead for a body of any length, which cannot be read twice: h must
// confirm its refusals itself.
func (d *Door) LeadStream(h Handler) http.HandlerFunc {
	local := d.Handle(h)
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !d.Leader():
			d.passOn(w, r)
		case r.Method == http.MethodGet:
			local(w, r)
		default:
			w.Header().Del(api.HeaderIndex)
			local(&written{ResponseWriter: w, door: d}, r)
		}
	}
}

// confirmRefusal lets the zone confirm a refusal by h. The body is kept so that h can be
// called again.
func (d *Door) confirmRefusal(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body := wire.Keep(r.Body)
		return d.Zone.Confirmed(r.Context(), func(ctx context.Context) error {
			again := r.WithContext(ctx)
			again.Body = body
			return h(w, again)
		})
	}
}

// passOn forwards a request to the leader; the answer carries the leader's index.
func (d *Door) passOn(w http.ResponseWriter, r *http.Request) {
	w.Header().Del(api.HeaderIndex)
	d.Forward.ServeHTTP(w, r)
}

// Refuse writes a refusal in the format of the dialect, and logs internal errors.
func (d *Door) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if code := api.CodeOf(err); code == api.CodeInternal {
		d.Log.ErrorContext(r.Context(), "call failed", "path", r.URL.Path, "error", err)
	}
	d.noteRefusal(r, err)
	d.refuse(w, r, err)
}

// Route is one call with its kind of read. On the public API, ?read= switches a GET
// between the first two kinds.
type Route struct {
	Method, Path string
	Read         api.Read
}

// Fresh gives each read the consistency that its caller asks for with ?read=, or else
// usual. A linearizable read waits on the leader until the replica holds everything
// that the zone had acknowledged when the call arrived. Writes need no such wait: the
// leader answers after its own log entry.
func (d *Door) Fresh(usual api.Read) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if d.ensureFresh(w, r, usual) {
				next.ServeHTTP(w, r)
			}
		})
	}
}

// ensureFresh reports whether this node may answer a call. If not, the call has been
// answered already.
func (d *Door) ensureFresh(w http.ResponseWriter, r *http.Request, usual api.Read) bool {
	get, kind := r.Method == http.MethodGet, api.Read(r.URL.Query().Get("read"))
	switch {
	case kind == "" && get:
		kind = usual
	case kind == "":
		return true
	case kind != api.ReadLocal && (kind != api.ReadLinearizable || !get):
		d.Refuse(w, r, api.Errorf(api.CodeInvalid, "read must be %s or %s, and goes with GET alone", api.ReadLocal, api.ReadLinearizable))
		return false
	}
	switch {
	case kind == api.ReadLocal:
		return true
	case !d.Leader():
		d.passOn(w, r)
		return false
	}
	v, err := d.Zone.Latest(r.Context())
	if err != nil {
		d.Refuse(w, r, err)
		return false
	}
	AnswerAt(w, v)
	return true
}

// Index sets the log index of every answer: that of the view when the call arrived,
// unless its handler sets a later one.
func (d *Door) Index(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.View(w)
		next.ServeHTTP(w, r)
	})
}

// View returns the view to answer a call from and sets its index in the answer, which
// must not show data of any other view.
func (d *Door) View(w http.ResponseWriter) *state.State {
	v := d.Zone.View()
	AnswerAt(w, v)
	return v
}

// AnswerAt sets the index of v in the answer to a call.
func AnswerAt(w http.ResponseWriter, v *state.State) {
	w.Header().Set(api.HeaderIndex, strconv.FormatUint(v.Index(), 10))
}

// written is the answer to a write. Unless its handler sets an index, it carries that
// of the view when the answer begins, which includes what the call has changed: a node
// that forwarded the call waits for that index.
type written struct {
	http.ResponseWriter
	door  *Door
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (w *written) WriteHeader(status int) {
	if !w.begun && w.Header().Get(api.HeaderIndex) == "" {
		w.door.View(w)
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *written) Write(b []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *written) Unwrap() http.ResponseWriter { return w.ResponseWriter }
