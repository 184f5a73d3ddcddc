// Package openstack has what all OpenStack APIs of a zone share: microversions, media
// types, the format of refusals, JSON bodies with a schema, routing, and the relay of
// calls to the leader.
//
// An API is a package above this one. It describes its Service and lists its Calls; its
// handlers read a request, call one use case, and write the result:
//
//	d := &dialect{openstack.New(service, config)}
//	return d.Handler([]openstack.Call{{Method: http.MethodGet, Path: "/leases", Until: newest, Gives: true, Role: api.RoleReader, Do: d.listLeases}})
//
// This package knows no API, no resource and no rule of capacity.
package openstack

import (
	"net/http"
	"strings"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/internal/requestid"
)

// Service describes one OpenStack API.
type Service struct {
	Name  string // in the header of microversions, such as "placement"
	Mount string // the path that it is mounted at; links in its answers begin with it

	Area api.Area // of roles that operators make

	// Its microversions are Major.Oldest to Major.Newest. A call without one gets the
	// oldest.
	Major, Oldest, Newest int

	Codes map[api.Code]string // codes of refusals that mean the same in every call
	Code  string              // the code of all other refusals
	// Shape returns the JSON of a refusal at a microversion, which is below Oldest
	// while it is not known yet. If Shape is nil, it is {"errors": [problem]}.
	Shape func(p Problem, minor int) any

	// Lax is set for an API that speaks JSON alone: a body needs no content type, another
	// one is invalid, an empty body is an empty object, and refusals are JSON whatever the
	// caller accepts.
	Lax bool
	// Closed is set for an API whose list of versions needs a token.
	Closed bool
	// Suffix may stand at the end of every path and means nothing; "" for none.
	Suffix string
}

// Dialect is an OpenStack API on one node. Its methods may be called concurrently.
type Dialect struct {
	*door.Door
	service Service
}

// New returns the dialect of a service.
func New(s Service, c door.Config) *Dialect {
	d := &Dialect{service: s}
	passOn := c.Forward
	c.Forward = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{headerVersion, headerRequestID, "Vary"} { // the leader's answer sets them itself
			w.Header().Del(name)
		}
		relayed := &relay{ResponseWriter: w, request: r, dialect: d}
		passOn.ServeHTTP(relayed, r)
	})
	d.Door = door.New(c, d.writeProblem)
	return d
}

// Handler returns the handler of the calls, for requests whose path is the mount of the
// service or begins with it and a slash. The middleware is, outermost first: request
// id, index, token, freshness, microversion. The path "/", which lists the versions,
// needs no token unless the service is closed.
func (d *Dialect) Handler(calls []Call) http.Handler {
	inner := d.negotiateVersion(wire.Text(d.Refuse)(d.requireType(d.newRouter(calls))))
	open := d.PaceMethods(inner)
	closed := d.Authenticate(d.PaceMethods(d.Fresh(api.ReadLinearizable)(inner)))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.pathBelow(r) == "/" && !d.service.Closed {
			open.ServeHTTP(w, r)
			return
		}
		closed.ServeHTTP(w, r)
	})
	return d.Traffic.Watch(door.ListenerAPI)(wire.WithRequestID(nameRequest(d.recoverPanic(d.Index(h)))))
}

// pathBelow returns the path of a request below the mount, "/" for the mount itself.
func (d *Dialect) pathBelow(r *http.Request) string {
	p := strings.TrimPrefix(r.URL.Path, d.service.Mount)
	if p == "" {
		return "/"
	}
	if short := strings.TrimSuffix(p, d.service.Suffix); !strings.HasSuffix(short, "/") {
		return short
	}
	return p
}

// nameRequest sets the request id in OpenStack's own header as well.
func nameRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerRequestID, string(requestid.Of(r.Context())))
		next.ServeHTTP(w, r)
	})
}

// recoverPanic turns a panic of a handler into an internal error with a log line.
func (d *Dialect) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { //nolint:contextcheck // the request carries it
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the sentinel is panicked bare
				d.Log.ErrorContext(r.Context(), "handler panicked", "path", r.URL.Path, "panic", p)
				d.writeProblem(w, r, api.Errorf(api.CodeInternal, "panic"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// requireType refuses a body without a content type, in every call, or takes it for JSON.
func (d *Dialect) requireType(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && r.Header.Get("Content-Type") == "" {
			if !d.service.Lax {
				d.Refuse(w, r, api.Errorf(api.CodeInvalid, "content-type header required with a body: say %s", MediaJSON))
				return
			}
			r.Header.Set("Content-Type", MediaJSON)
		}
		next.ServeHTTP(w, r)
	})
}
