package placement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"

	"berth/api"
	"berth/httpd/wire"
)

// The codes of refusals, which are in answers from microversion 1.23 on.
const (
	codeUndefined        = "placement.undefined_code" // all else, no room among it
	codeConcurrent       = "placement.concurrent_update"
	codeInventoryInUse   = "placement.inventory.inuse"
	codeDuplicate        = "placement.duplicate_name"
	codeProviderInUse    = "placement.resource_provider.inuse"
	codeParent           = "placement.resource_provider.cannot_delete_parent"
	codeProviderNotFound = "placement.resource_provider.not_found"
	codeDuplicateKey     = "placement.query.duplicate_key"
	codeBadValue         = "placement.query.bad_value"
	codeMissingValue     = "placement.query.missing_value"
)

// errorCodes is the microversion from which refusals have a code.
const errorCodes version = 23

// fault is a refusal whose status or code is not the one that its cause has
// everywhere.
type fault struct {
	err    error
	status int    // 0 for that of err
	code   string // "" for that of err
}

// Error implements error.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *fault) Unwrap() error { return f.err }

// invalid is a refusal with status 400.
func invalid(format string, args ...any) error {
	return api.Errorf(api.CodeInvalid, format, args...)
}

// notFound is a refusal with status 404.
func notFound(format string, args ...any) error {
	return api.Errorf(api.CodeNotFound, format, args...)
}

// stale is a refusal of a write whose generation is not the current one.
func stale(format string, args ...any) error {
	return api.Errorf(api.CodeStale, format, args...)
}

// coded gives err a code of its own.
func coded(code string, err error) error {
	return &fault{err: err, code: code}
}

// when gives err a code of its own if that is what it is.
func when(is api.Code, code string, err error) error {
	if api.CodeOf(err) == is {
		return coded(code, err)
	}
	return err
}

// instead returns the refusal that stands for err in a call, or err if the call has
// none for its code.
func instead(err error, of map[api.Code]error) error {
	if other, ok := of[api.CodeOf(err)]; ok {
		return other
	}
	return err
}

// codes are the codes of refusals that mean the same in every call.
var codes = map[api.Code]string{
	api.CodeStale: codeConcurrent, api.CodeExists: codeDuplicate, api.CodeInUse: codeInventoryInUse,
	api.CodeHasChildren: codeParent,
}

// readFault returns status, code and sentence of a refusal.
func readFault(err error) (status int, code, detail string) {
	is := api.CodeOf(err)
	status, code, detail = is.HTTPStatus(), cmp.Or(codes[is], codeUndefined), api.MessageOf(err)
	for e := err; e != nil; {
		f, ok := e.(*fault) //nolint:errorlint // each link of the chain is looked at in turn
		if !ok {
			break
		}
		status, code, e = cmp.Or(f.status, status), cmp.Or(f.code, code), f.err
	}
	return status, code, detail
}

// problem is one refusal in the JSON of this dialect.
type problem struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	RequestID  string `json:"request_id"`
	MaxVersion string `json:"max_version,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
}

// refuse writes err in the shape that the caller accepts: JSON, HTML, or else
// plain text.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, code, detail := readFault(err)
	p := problem{Status: status, Title: http.StatusText(status), Detail: detail, RequestID: string(wire.RequestID(r.Context()))}
	v, known := versionOf(r)
	if known && v >= errorCodes {
		p.Code = code
	}
	if !known && status == http.StatusNotAcceptable {
		p.MinVersion, p.MaxVersion = versionMin.String(), versionMax.String()
	}
	is := api.CodeOf(err)
	w.Header().Set(api.HeaderCode, string(is))
	if is == api.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="berth"`)
	}
	if is == api.CodeOverloaded || is == api.CodeUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	media, body := p.shape(r.Header.Values("Accept"))
	write(w, status, media, body)
}

// shape spells p for a caller who accepts what the headers say.
func (p *problem) shape(accept []string) (media string, body []byte) {
	line := strconv.Itoa(p.Status) + " " + p.Title
	switch best(accept, mediaHTML, mediaJSON) {
	case mediaJSON:
		b, _ := json.Marshal(map[string][]*problem{"errors": {p}}) // numbers and texts have a spelling
		return mediaJSON, b
	case mediaHTML:
		return mediaHTML + "; charset=UTF-8", fmt.Appendf(nil,
			"<html>\n <head>\n  <title>%[1]s</title>\n </head>\n <body>\n  <h1>%[1]s</h1>\n  %[2]s\n </body>\n</html>\n", line, html.EscapeString(p.Detail))
	default:
		return "text/plain; charset=UTF-8", fmt.Appendf(nil, "%s\n\n%s\n", line, p.Detail)
	}
}
