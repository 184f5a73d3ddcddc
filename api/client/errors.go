package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/api"
)

// RefusedError is the cause of an api.Error sent by a zone, with details of its answer.
type RefusedError struct {
	Status     int
	RequestID  api.RequestID
	RetryAfter time.Duration // pause requested by the zone; 0 for none
	Unsure     bool          // an earlier attempt got no refusal, and may have been carried out
}

// Error returns both.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("HTTP status %d, request id %q", r.Status, string(r.RequestID))
}

// RequestIDOf returns the id under which a zone logged the call that failed with
// err, and "" if err did not come from a zone.
func RequestIDOf(err error) api.RequestID {
	if r, ok := errors.AsType[*RefusedError](err); ok {
		return r.RequestID
	}
	return ""
}

// Undone reports whether the call that failed with err has certainly changed nothing: a
// zone has refused it and all earlier attempts.
func Undone(err error) bool {
	r, refused := errors.AsType[*RefusedError](err)
	code := api.CodeOf(err)
	return refused && !r.Unsure && r.RequestID != "" && code != api.CodeTimeout && code != api.CodeInternal
}

// codes are the codes for statuses without a Berth error, such as from a proxy.
var codes = map[int]api.Code{
	http.StatusBadRequest:            api.CodeInvalid,
	http.StatusUnauthorized:          api.CodeUnauthenticated,
	http.StatusForbidden:             api.CodeForbidden,
	http.StatusNotFound:              api.CodeNotFound,
	http.StatusMethodNotAllowed:      api.CodeMethod,
	http.StatusRequestTimeout:        api.CodeSlow,
	http.StatusConflict:              api.CodeConflict,
	http.StatusRequestEntityTooLarge: api.CodeTooLarge,
	http.StatusUnsupportedMediaType:  api.CodeMediaType,
	http.StatusTooManyRequests:       api.CodeOverloaded,
	http.StatusBadGateway:            api.CodeUnavailable,
	http.StatusServiceUnavailable:    api.CodeUnavailable,
	http.StatusGatewayTimeout:        api.CodeTimeout,
}

// readRefusal returns the error for an answer other than 2xx.
func readRefusal(op string, res *http.Response, body []byte) *api.Error {
	cause := &RefusedError{Status: res.StatusCode, RequestID: api.RequestID(res.Header.Get(api.HeaderRequestID))}
	if s, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16); err == nil {
		cause.RetryAfter = time.Duration(s) * time.Second
	}
	var told api.ErrorBody
	if json.Unmarshal(body, &told) == nil && told.Error.Code != "" {
		if told.Error.RequestID != "" {
			cause.RequestID = told.Error.RequestID
		}
		return api.Wrap(told.Error.Code, op, told.Error.Message, cause)
	}
	if strings.Contains(string(body), httpToTLS) {
		return api.Wrap(api.CodeUnavailable, op, "the node wants TLS, and was called without", schemeError{cause})
	}
	code, known := codes[res.StatusCode]
	if !known {
		code = api.CodeInternal
	}
	return api.Wrap(code, op, fmt.Sprintf("the answer was %d %s, and not from a zone of Berth",
		res.StatusCode, http.StatusText(res.StatusCode)), cause)
}

// What Go's server says to who calls it without TLS, and its client of a server without TLS.
const (
	httpToTLS = "Client sent an HTTP request to an HTTPS server"
	tlsToHTTP = "server gave HTTP response to HTTPS client"
)

// schemeError marks an error of a call with the wrong scheme.
type schemeError struct{ error }

// Unwrap returns the cause.
func (s schemeError) Unwrap() error { return s.error }

// Unheard reports whether the call that failed with err has reached no node.
func Unheard(err error) bool { return isDeaf(err) }

// Untrusted reports whether the call that failed with err was not made because the certificate of the node is not
// trusted.
func Untrusted(err error) bool {
	_, ok := errors.AsType[distrustError](err)
	return ok
}

// Misnamed reports whether the call that failed with err was of a node whose certificate has other names than its address.
func Misnamed(err error) bool {
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

// WrongScheme reports whether the call that failed with err was made with http for https, or with https for http.
func WrongScheme(err error) bool {
	_, ok := errors.AsType[schemeError](err)
	return ok
}

// distrustError marks an error about certificates: a repeat would fail in the same way.
type distrustError struct{ error }

// Unwrap returns the cause.
func (d distrustError) Unwrap() error { return d.error }

// unreachedError returns the error of a call of a node without a complete answer.
func unreachedError(ctx context.Context, node, op string, err error) *api.Error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, whose query may be too detailed for a log
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return api.Wrap(api.CodeUnavailable, op, node+" shows a certificate that is not trusted: "+err.Error(), distrustError{err})
	}
	if strings.Contains(err.Error(), tlsToHTTP) {
		return api.Wrap(api.CodeUnavailable, op, node+" has no TLS", schemeError{err})
	}
	if end := ctx.Err(); end != nil {
		return api.Wrap(api.CodeTimeout, op, "no answer from "+node+" in time", end)
	}
	return api.Wrap(api.CodeUnavailable, op, "no answer from "+node+": "+err.Error(), err)
}

// isPassing reports whether a repeat of the call may succeed after err.
func isPassing(err error) bool {
	if Untrusted(err) || WrongScheme(err) {
		return false
	}
	code := api.CodeOf(err)
	return code == api.CodeUnavailable || code == api.CodeTimeout || code == api.CodeOverloaded
}

// isUncertain reports whether the call that failed with err may nevertheless have been
// carried out. A call that a zone refused has changed nothing.
func isUncertain(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	return !refused || api.CodeOf(err) == api.CodeTimeout
}

// afterLost records in the refusal of a call, if err is one, whether an earlier attempt
// was lost.
func afterLost(err error, lost bool) error {
	if r, ok := errors.AsType[*RefusedError](err); ok {
		r.Unsure = lost
	}
	return err
}

// retryAfter returns the pause that the zone requested with err, 0 for none.
func retryAfter(err error) time.Duration {
	if r, ok := errors.AsType[*RefusedError](err); ok {
		return r.RetryAfter
	}
	return 0
}

// strangeError returns the error for an answer that this package cannot read.
func strangeError(op string, err error) *api.Error {
	return api.Wrap(api.CodeInternal, op, "the answer is not one that this version of the client knows", err)
}
