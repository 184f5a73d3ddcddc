package wire

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/budget"
	"berth/internal/codec"
	"berth/internal/requestid"
)

// WithRequestID gives every call an id: the caller's own if it is well formed, else a
// new one. The answer carries it in a header, and so do refusals and log lines.
func WithRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(api.HeaderRequestID)
		if !api.ValidName(id) {
			id = "req-" + api.NewUUID()
		}
		w.Header().Set(api.HeaderRequestID, id)
		next.ServeHTTP(w, r.WithContext(requestid.With(r.Context(), api.RequestID(id))))
	})
}

// Recover turns a panic of a handler into an internal error with a log line, so that
// one bad call does not stop the node.
func Recover(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the sentinel is panicked bare
					log.ErrorContext(r.Context(), "handler panicked", "path", r.URL.Path, "panic", p)
					Refuse(w, r, api.Errorf(api.CodeInternal, "panic"))
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
}

// JSON writes v with a status.
func JSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // fails only if the caller is gone
}

// WithForm adds a header with the newest form that all nodes of this zone read, so the
// newest form that the caller may use in requests.
func WithForm(newest func() api.Form) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(api.HeaderForm, newest().String())
			next.ServeHTTP(w, r)
		})
	}
}

// WithTime adds a header with the time at which a call has come, by which its caller compares the clocks.
func WithTime(now func() time.Time) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(api.HeaderTime, strconv.FormatInt(now().UnixMilli(), 10))
			next.ServeHTTP(w, r)
		})
	}
}

// CBOR writes v with a status. An answer in a newer form than the caller reads is
// refused with CodeUnavailable instead.
func CBOR(w http.ResponseWriter, r *http.Request, status int, v any) {
	reads := api.ParseForm(r.Header.Get(api.HeaderForm))
	if need := neededForm(v, reads); need > reads {
		Refuse(w, r, api.Errorf(api.CodeUnavailable, "the answer needs form %d, and the caller reads forms up to %d: it needs a newer release", need, reads))
		return
	}
	b, err := codec.Marshal(v)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", api.MediaCBOR)
	w.WriteHeader(status)
	_, _ = w.Write(b) // fails only if the caller is gone
}

// neededForm returns the form that a reader of v needs, or an older one if it reads all.
func neededForm(v any, reads api.Form) api.Form {
	if reads >= api.FormNewest {
		return api.FormFirst
	}
	return api.Form(codec.NeededForm(v))
}

// Refuse writes err in the error format, as CBOR to callers that accept it and
// otherwise as JSON. Only the code and the safe sentence are sent.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := api.CodeOf(err)
	body := api.ErrorBody{Error: api.ErrorDetail{Code: code, Message: api.MessageOf(err), RequestID: requestid.Of(r.Context())}}
	if code == api.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="berth"`)
	}
	if (code == api.CodeOverloaded || code == api.CodeUnavailable) && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	if strings.HasPrefix(r.Header.Get("Accept"), api.MediaCBOR) || r.Header.Get("Content-Type") == api.MediaCBOR {
		CBOR(w, r, code.HTTPStatus(), body)
		return
	}
	JSON(w, code.HTTPStatus(), body)
}

// ReadCBOR decodes the CBOR body of a call between nodes, agents or zones.
func ReadCBOR(r *http.Request, limit int64, v any) error {
	if r.Header.Get("Content-Type") != api.MediaCBOR {
		return api.Errorf(api.CodeMediaType, "the body must be %s", api.MediaCBOR)
	}
	b, err := readBody(r, limit)
	if err != nil {
		return err
	}
	if err := codec.Unmarshal(b, v); err != nil {
		return api.Wrap(api.CodeInvalid, "wire.ReadCBOR", "the body is not what this call takes", err)
	}
	return nil
}

// Wait reads ?wait=: 0 if it is absent, else a duration of at most api.WaitMax. A read that waits is counted, or refused if
// there are too many.
func Wait(r *http.Request) (time.Duration, error) {
	s := r.URL.Query().Get("wait")
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > api.WaitMax {
		return 0, api.Errorf(api.CodeInvalid, "wait must be a duration from 0s to %s, such as 30s", api.WaitMax)
	}
	if d > 0 && r.Method == http.MethodGet { // one that changes something was paid for when it is done
		if err := budget.Of(r.Context()).Take(budget.Waits, 1); err != nil {
			return 0, err
		}
	}
	return d, nil
}

// markerMaxBytes bounds a marker: two names with a character between them.
const markerMaxBytes = 2*api.NameMaxBytes + 1

// Page reads ?limit= and ?marker=.
func Page(r *http.Request) (limit int, marker string, err error) {
	q := r.URL.Query()
	limit = api.PageMax
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > api.PageMax {
			return 0, "", api.Errorf(api.CodeInvalid, "limit must be 1 to %d", api.PageMax)
		}
		limit = n
	}
	marker = q.Get("marker")
	if len(marker) > markerMaxBytes {
		return 0, "", api.Errorf(api.CodeInvalid, "marker is not one that a list has returned")
	}
	return limit, marker, nil
}
