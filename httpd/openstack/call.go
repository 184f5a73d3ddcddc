package openstack

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/traffic"
)

// Call is one call of a service, at some of its microversions.
type Call struct {
	Method, Path string       // a path below the mount, with {names} of what varies
	Since, Until int          // the first and the last microversion that has it
	Role         api.UserRole // the lowest role that may make it; "" if Do checks the caller itself
	Takes        bool         // it reads a body of JSON
	Gives        bool         // it answers JSON, which the caller must accept
	Early        bool         // the media types are checked before the microversion
	NotAllowed   bool         // at other microversions it is 405 instead of 404
	Reads        bool         // it changes nothing, whatever its method, and Do reads the latest state
	Do           door.Handler
}

// readKind returns the kind of read of a call: a GET is linearizable unless it asks for
// less.
func (c *Call) readKind() api.Read {
	switch {
	case c.Path == "/":
		return api.ReadLocal
	case c.Method == http.MethodGet, c.Reads:
		return api.ReadLinearizable
	}
	return api.ReadLog
}

// Routes returns the calls of a service mounted at a path, each once, with its kind of
// read.
func Routes(mount string, calls []Call) []door.Route {
	var out []door.Route
	for _, c := range calls {
		r := door.Route{Method: c.Method, Path: mount + c.Path, Read: c.readKind()}
		if !slices.Contains(out, r) { // a call that has changed is listed twice
			out = append(out, r)
		}
	}
	return out
}

// newRouter returns the handler that dispatches requests to calls. It finds the calls
// of a path for all methods at once; chooseCall picks one.
func (d *Dialect) newRouter(calls []Call) http.Handler {
	paths := map[string][]*Call{}
	for i := range calls {
		paths[calls[i].Path] = append(paths[calls[i].Path], &calls[i])
	}
	mux := chi.NewRouter()
	for path, all := range paths {
		choose := traffic.Name(d.service.Mount + path)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.chooseCall(all, w, r) }))
		mux.Get(path, choose.ServeHTTP)
	}
	unknown := func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, d.service.Mount)
		d.Refuse(w, r, atRoute(api.Errorf(api.CodeNotFound, "The resource could not be found: there is no %s", Cut(path))))
	}
	mux.NotFound(unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := d.pathBelow(r)
		if strings.Contains(path, "//") { // a name is never empty
			unknown(w, r)
			return
		}
		found := chi.NewRouteContext()
		found.RoutePath, found.RouteMethod = path, http.MethodGet
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, found)))
	})
}

// chooseCall makes the call of a path with the method and the microversion of a
// request. If none has the microversion, the last call with the method refuses the
// request.
func (d *Dialect) chooseCall(calls []*Call, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	var found *Call
	for _, c := range calls {
		if !slices.Contains(allowed, c.Method) {
			allowed = append(allowed, c.Method)
		}
		if c.Method == r.Method && (found == nil || Minor(r) > found.Until) {
			found = c
		}
	}
	if found == nil {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		d.Refuse(w, r, notAllowed(r))
		return
	}
	d.makeCall(found, w, r)
}

// notAllowed refuses a method that a path does not have.
func notAllowed(r *http.Request) error {
	return atRoute(api.Errorf(api.CodeMethod, "The method specified is not allowed for this resource: %s", Cut(r.Method)))
}

// makeCall checks the microversion, the media types and the caller's role, and then
// makes the call.
func (d *Dialect) makeCall(c *Call, w http.ResponseWriter, r *http.Request) {
	checks := []func(*Call, *http.Request) error{d.checkVersion, d.checkMedia, d.checkRole}
	if c.Early {
		checks[0], checks[1] = checks[1], checks[0]
	}
	for _, check := range checks {
		if err := check(c, r); err != nil {
			d.Refuse(w, r, err)
			return
		}
	}
	if c.Method == http.MethodGet {
		d.Handle(c.Do)(w, r)
	} else {
		d.Lead(c.Do)(w, r)
	}
}

// checkVersion refuses a call that does not exist at the microversion of a request.
func (d *Dialect) checkVersion(c *Call, r *http.Request) error {
	switch {
	case Minor(r) >= c.Since && Minor(r) <= c.Until:
		return nil
	case c.NotAllowed:
		return notAllowed(r)
	}
	return atRoute(api.Errorf(api.CodeNotFound, "The resource could not be found: %s %s needs microversion %s, and this call is made at %s",
		c.Method, c.Path, d.service.spellVersion(c.Since), d.service.spellVersion(Minor(r))))
}

// checkMedia refuses a body that is not JSON, and a caller who does not accept JSON.
func (d *Dialect) checkMedia(c *Call, r *http.Request) error {
	ct := r.Header.Get("Content-Type")
	if d.service.Lax && c.Takes && ct != "" && !isJSON(r) {
		return atRoute(api.Errorf(api.CodeInvalid, "Content type %s is not supported, use %s", Cut(ct), MediaJSON))
	}
	if d.service.Lax {
		return nil
	}
	if c.Takes && !isJSON(r) {
		if ct == "" {
			ct = "None"
		}
		return api.Errorf(api.CodeMediaType, "The media type %s is not supported, use %s", Cut(ct), MediaJSON)
	}
	if c.Gives && bestOffer(r.Header.Values("Accept"), MediaJSON) == "" {
		return WithStatus(http.StatusNotAcceptable, api.Errorf(api.CodeInvalid, "Only %s is provided", MediaJSON))
	}
	return nil
}

// checkRole refuses a caller whose role is below the one that a call needs, and who has no role that
// allows calls of its kind.
func (d *Dialect) checkRole(c *Call, r *http.Request) error {
	need := d.service.Area.Writes()
	if c.readKind() != api.ReadLog {
		need = d.service.Area.Reads()
	}
	who := door.Caller(r)
	if c.Path == "/" || c.Role == "" && who.Role != "" || who.May(c.Role, need) {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "Policy does not allow this: it needs the role %s, or one that allows %s; the token has %s",
		cmp.Or(c.Role, api.RoleReader), need, cmp.Or(who.Role, "others"))
}
