package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Code is the class of an error, for programs. Codes are stable.
type Code string

// The codes. httpStatus maps each to its HTTP status.
const (
	CodeInvalid         Code = "invalid"         // the request is malformed or out of range
	CodeUnauthenticated Code = "unauthenticated" // no or unknown credentials
	CodeForbidden       Code = "forbidden"       // the role does not allow it
	CodeOverQuota       Code = "over_quota"      // the project may not have so much at some time
	CodeNotFound        Code = "not_found"       // no such thing, or not visible to the caller
	CodeMethod          Code = "method_not_allowed"
	CodeSlow            Code = "request_timeout"  // the body did not arrive in time; nothing was done
	CodeConflict        Code = "conflict"         // exists already with other content
	CodeStale           Code = "stale_generation" // the generation moved; read again and retry
	CodeExists          Code = "exists"           // the name or id is taken
	CodeInUse           Code = "in_use"           // it still has allocations
	CodeHasChildren     Code = "has_children"     // it still has child providers
	CodeTooLarge        Code = "too_large"        // a body above its limit
	CodeMediaType       Code = "unsupported_media_type"
	CodePlanRefused     Code = "plan_refused" // a blob that cannot be used; the reason is never given
	CodeNoCapacity      Code = "no_capacity"  // fewer slots than min_count
	CodeContended       Code = "contended"    // undecided requests of others held the room; repeat the request
	CodePaused          Code = "paused"       // the link between two zones takes no new work
	CodeUnreached       Code = "unreached"    // zones that may have room did not answer; repeat the request
	CodeOverloaded      Code = "overloaded"   // try again later
	CodeUnavailable     Code = "unavailable"  // no leader or no quorum just now
	CodeTimeout         Code = "timeout"      // the wait ended before the outcome; it may still come
	CodeInternal        Code = "internal"     // a bug; the log has more
)

var httpStatus = map[Code]int{
	CodeInvalid: http.StatusBadRequest, CodeUnauthenticated: http.StatusUnauthorized,
	CodeForbidden: http.StatusForbidden, CodeOverQuota: http.StatusForbidden, CodeNotFound: http.StatusNotFound,
	CodeMethod: http.StatusMethodNotAllowed, CodeSlow: http.StatusRequestTimeout, CodeConflict: http.StatusConflict,
	CodeStale: http.StatusConflict, CodeExists: http.StatusConflict,
	CodeInUse: http.StatusConflict, CodeHasChildren: http.StatusConflict, CodeTooLarge: http.StatusRequestEntityTooLarge,
	CodeMediaType: http.StatusUnsupportedMediaType, CodePlanRefused: http.StatusUnprocessableEntity,
	CodeNoCapacity: http.StatusConflict, CodeContended: http.StatusConflict, CodePaused: http.StatusConflict, CodeUnreached: http.StatusServiceUnavailable, CodeOverloaded: http.StatusTooManyRequests,
	CodeUnavailable: http.StatusServiceUnavailable, CodeTimeout: http.StatusGatewayTimeout,
	CodeInternal: http.StatusInternalServerError,
}

// Known reports whether c is one of the codes.
func (c Code) Known() bool {
	_, ok := httpStatus[c]
	return ok
}

// HTTPStatus returns the status of c; 500 for an unknown code.
func (c Code) HTTPStatus() int {
	if s, ok := httpStatus[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// ReasonCode returns the code at the beginning of the reason of a failed boot, or
// CodeNoCapacity if there is none. Records and answers of releases before Boot.Code
// have the code there.
func ReasonCode(reason string) Code {
	if code, _, ok := strings.Cut(reason, ":"); ok && Code(code).Known() {
		return Code(code)
	}
	return CodeNoCapacity
}

// Error is the one error type that crosses packages and processes: code for programs,
// sentence for people, cause for the log.
type Error struct {
	Code Code   `cbor:"1,keyasint"`
	Op   string `cbor:"2,keyasint,omitempty"` // operation, such as "zone.Select"
	Msg  string `cbor:"3,keyasint,omitempty"` // sentence; safe to show to the caller
	Err  error  `cbor:"-"`                    // cause; logged, never sent
}

// Errorf returns an Error with a sentence that is safe to show to the caller.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// Wrap returns an Error with code, op and a cause that stays inside the zone.
func Wrap(code Code, op, msg string, cause error) *Error {
	return &Error{Code: code, Op: op, Msg: msg, Err: cause}
}

// Error returns the whole chain; it is for logs, not for callers.
func (e *Error) Error() string {
	s := e.Msg
	if s == "" {
		s = string(e.Code)
	}
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, CodeInternal if
// there is none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// MessageOf returns the sentence that is safe to show for err.
func MessageOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Msg != "" && e.Code != CodeInternal {
		return e.Msg
	}
	return "something went wrong inside the zone; give the request id to its operator"
}

// ErrorBody is the JSON (and CBOR) shape of every refusal.
type ErrorBody struct {
	Error ErrorDetail `json:"error" cbor:"1,keyasint"`
}

// ErrorDetail describes a refusal to the caller.
type ErrorDetail struct {
	Code      Code      `json:"code" cbor:"1,keyasint"`
	Message   string    `json:"message" cbor:"2,keyasint"`
	RequestID RequestID `json:"request_id" cbor:"3,keyasint,omitempty"`
}

// PlanRefusedMessage is the one sentence of CodePlanRefused: a caller must not
// learn why a blob was refused. The zone that sealed it has the reason in its log.
const PlanRefusedMessage = "the plan cannot be used; select again"
