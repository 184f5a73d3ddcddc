package openstack

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"

	"berth/api"
	"berth/internal/requestid"
)

// fault is a refusal with another status or code than its cause usually has.
type fault struct {
	err    error
	status int    // 0 for that of err
	code   string // "" for that of err
	route  bool
}

// Error implements error.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *fault) Unwrap() error { return f.err }

// WithCode gives a refusal its own code.
func WithCode(code string, err error) error { return &fault{err: err, code: code} }

// WithStatus gives a refusal its own status.
func WithStatus(status int, err error) error { return &fault{err: err, status: status} }

// atRoute marks a refusal of a request that reached no call.
func atRoute(err error) error { return &fault{err: err, route: true} }

// Problem is one refusal.
type Problem struct {
	Status     int    `json:"status"`
	Title      string `json:"title"` // of the status
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	RequestID  string `json:"request_id"`
	MaxVersion string `json:"max_version,omitempty"` // with an unknown microversion
	MinVersion string `json:"min_version,omitempty"`
	AtRoute    bool   `json:"-"` // the request reached no call: its path, method, media type or microversion is wrong
}

// Explain returns the status, the code and the sentence of a refusal.
func (s *Service) Explain(err error) Problem {
	is := api.CodeOf(err)
	p := Problem{Status: is.HTTPStatus(), Code: cmp.Or(s.Codes[is], s.Code), Detail: api.MessageOf(err)}
	for e := err; e != nil; {
		f, ok := e.(*fault) //nolint:errorlint // the loop walks the chain itself
		if !ok {
			break
		}
		p.Status, p.Code, p.AtRoute, e = cmp.Or(f.status, p.Status), cmp.Or(f.code, p.Code), p.AtRoute || f.route, f.err
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// writeProblem writes err in a media type that the caller accepts: JSON, HTML, or else
// plain text.
func (d *Dialect) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p, s := d.service.Explain(err), &d.service
	p.RequestID = string(requestid.Of(r.Context()))
	if Minor(r) < s.Oldest && p.Status == http.StatusNotAcceptable {
		p.MinVersion, p.MaxVersion = s.spellVersion(s.Oldest), s.spellVersion(s.Newest)
	}
	is := api.CodeOf(err)
	w.Header().Set(api.HeaderCode, string(is))
	if is == api.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="berth"`)
	}
	if (is == api.CodeOverloaded || is == api.CodeUnavailable) && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	media, body := s.spellProblem(p, Minor(r), r.Header.Values("Accept"))
	writeAnswer(w, p.Status, media, body)
}

// spellProblem encodes p for a caller with these Accept headers.
func (s *Service) spellProblem(p Problem, minor int, accept []string) (media string, body []byte) {
	line := strconv.Itoa(p.Status) + " " + p.Title
	if s.Lax {
		accept = nil
	}
	switch bestOffer(accept, mediaHTML, MediaJSON) {
	case MediaJSON:
		var v any = map[string][]Problem{"errors": {p}}
		if s.Shape != nil {
			v = s.Shape(p, minor)
		}
		b, _ := json.Marshal(v) // numbers and strings can always be encoded
		return MediaJSON, b
	case mediaHTML:
		return mediaHTML + "; charset=UTF-8", fmt.Appendf(nil,
			"<html>\n <head>\n  <title>%[1]s</title>\n </head>\n <body>\n  <h1>%[1]s</h1>\n  %[2]s\n </body>\n</html>\n", line, html.EscapeString(p.Detail))
	default:
		return "text/plain; charset=UTF-8", fmt.Appendf(nil, "%s\n\n%s\n", line, p.Detail)
	}
}
