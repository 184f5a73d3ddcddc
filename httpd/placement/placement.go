package placement

import (
	"net/http"
	"slices"
	"strings"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/wire"
	"berth/raftstore/state"
)

// Mount is the path that the dialect is mounted at, and with which the links in
// its answers begin.
const Mount = "/placement"

// repeatMax is how often a call that asks for no generation is tried when another
// writer gets there first.
const repeatMax = 10

// Config is what the dialect is made of.
type Config struct {
	Door door.Config
}

// dialect is the placement API of one node.
type dialect struct{ *door.Door }

// New returns the handler of the dialect, for requests whose path is Mount or
// begins with it and a slash. It may be called concurrently.
func New(c Config) http.Handler {
	passOn := c.Door.Forward
	c.Door.Forward = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{headerVersion, headerRequestID, "Vary"} { // the leader's answer has its own
			w.Header().Del(name)
		}
		relayed := &relay{ResponseWriter: w, request: r}
		passOn.ServeHTTP(relayed, r)
	})
	d := &dialect{door.New(c.Door, refuse)}
	return d.handler()
}

// handler returns what stands around the calls, outermost first: request id, index,
// token, microversion.
func (d *dialect) handler() http.Handler {
	routes := d.routes()
	for i := range routes {
		routes[i].parts = strings.Split(routes[i].path, "/")
	}
	inner := d.negotiate(wire.Text(d.Refuse)(d.plain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.route(routes, w, r) }))))
	closed := d.Authenticate(d.Fresh(door.ReadLinearizable)(inner))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := path(r); p == "" || p == "/" { // whoever asks for the versions needs no token
			inner.ServeHTTP(w, r)
			return
		}
		closed.ServeHTTP(w, r)
	})
	return wire.WithRequestID(d.named(recovered(d, d.Index(h))))
}

// path returns the path of a request below Mount.
func path(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, Mount) }

// named gives the answer the request id in the header that this dialect has for it.
func (d *dialect) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerRequestID, string(wire.RequestID(r.Context())))
		next.ServeHTTP(w, r)
	})
}

// recovered turns a panic of a handler into an internal error with a log line.
func recovered(d *dialect, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { //nolint:contextcheck // the request carries it
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the sentinel is panicked bare
				d.Log.Error("handler panicked", "request_id", wire.RequestID(r.Context()), "path", r.URL.Path, "panic", p)
				refuse(w, r, api.Errorf(api.CodeInternal, "panic"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// plain refuses a body without a content type, whatever the call.
func (d *dialect) plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && r.Header.Get("Content-Type") == "" {
			d.Refuse(w, r, invalid("content-type header required with a body: say %s", mediaJSON))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// call is one call of the API, over some microversions.
type call struct {
	method, path string   // a path with {names} of what varies
	parts        []string // of the path
	since, until version
	hidden       int  // status at other microversions; 0 for 404
	takes        bool // it reads a body of JSON
	gives        bool // it answers JSON, which the caller must accept
	early        bool // it asks for JSON before it asks for the microversion
	reader       bool // the handler itself asks what the caller may
	do           door.Handler
}

// routes returns the calls of the dialect. Of one path they stand in the order
// in which Allow names their methods.
func (d *dialect) routes() []call {
	const (
		get, put, post, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete

		all         = "/resource_providers"
		one         = "/resource_providers/{uuid}"
		inventories = "/resource_providers/{uuid}/inventories"
		inventory   = "/resource_providers/{uuid}/inventories/{resource_class}"
		ofProvider  = "/resource_providers/{uuid}/usages"
		aggregates  = "/resource_providers/{uuid}/aggregates"
		holders     = "/resource_providers/{uuid}/allocations"
		its         = "/resource_providers/{uuid}/traits"
		consumer    = "/allocations/{consumer_uuid}"
		classes     = "/resource_classes"
		class       = "/resource_classes/{name}"
		trait       = "/traits/{name}"
		end         = versionMax
		gone        = http.StatusMethodNotAllowed
	)
	return []call{
		{method: get, path: "", until: end, reader: true, do: d.root},
		{method: get, path: "/", until: end, reader: true, do: d.root},

		{method: get, path: classes, since: 2, until: end, gives: true, do: d.listClasses},
		{method: post, path: classes, since: 2, until: end, takes: true, do: d.createClass},
		{method: get, path: class, since: 2, until: end, gives: true, do: d.showClass},
		{method: put, path: class, since: 2, until: 6, takes: true, do: d.renameClass},
		{method: put, path: class, since: 7, until: end, do: d.ensureClass},
		{method: del, path: class, since: 2, until: end, do: d.deleteClass},

		{method: get, path: all, until: end, gives: true, do: d.listProviders},
		{method: post, path: all, until: end, takes: true, do: d.createProvider},
		{method: get, path: one, until: end, gives: true, do: d.showProvider},
		{method: del, path: one, until: end, do: d.deleteProvider},
		{method: put, path: one, until: end, takes: true, do: d.updateProvider},

		{method: get, path: inventories, until: end, gives: true, do: d.listInventories},
		{method: post, path: inventories, until: end, takes: true, do: d.createInventory},
		{method: put, path: inventories, until: end, takes: true, do: d.setInventories},
		{method: del, path: inventories, since: 5, until: end, hidden: gone, do: d.deleteInventories},
		{method: get, path: inventory, until: end, gives: true, do: d.showInventory},
		{method: put, path: inventory, until: end, takes: true, do: d.updateInventory},
		{method: del, path: inventory, until: end, do: d.deleteInventory},

		{method: get, path: ofProvider, until: end, gives: true, do: d.providerUsages},
		{method: get, path: aggregates, since: 1, until: end, gives: true, early: true, do: d.listAggregates},
		{method: put, path: aggregates, since: 1, until: end, takes: true, early: true, do: d.setAggregates},
		{method: get, path: holders, until: end, gives: true, do: d.providerAllocations},
		{method: get, path: its, since: 6, until: end, gives: true, do: d.listProviderTraits},
		{method: put, path: its, since: 6, until: end, takes: true, do: d.setProviderTraits},
		{method: del, path: its, since: 6, until: end, do: d.deleteProviderTraits},

		{method: post, path: "/allocations", since: 13, until: end, takes: true, do: d.postAllocations},
		{method: get, path: consumer, until: end, gives: true, do: d.showAllocations},
		{method: put, path: consumer, until: end, takes: true, do: d.putAllocations},
		{method: del, path: consumer, until: end, do: d.deleteAllocations},
		{method: get, path: "/allocation_candidates", since: 10, until: end, gives: true, do: d.listCandidates},

		{method: get, path: "/traits", since: 6, until: end, gives: true, do: d.listTraits},
		{method: get, path: trait, since: 6, until: end, do: d.showTrait},
		{method: put, path: trait, since: 6, until: end, do: d.putTrait},
		{method: del, path: trait, since: 6, until: end, do: d.deleteTrait},
		{method: get, path: "/usages", since: 9, until: end, gives: true, reader: true, do: d.projectUsages},
		{method: post, path: "/reshaper", since: 30, until: end, takes: true, do: d.reshape},
	}
}

// read returns the kind of read that a call makes: a GET that says nothing is fresh.
func (c *call) read() door.Read {
	switch {
	case c.path == "" || c.path == "/":
		return door.ReadLocal
	case c.method == http.MethodGet:
		return door.ReadLinearizable
	}
	return door.ReadLog
}

// Routes returns every call of the dialect, with the kind of read it makes.
func Routes() []door.Route {
	var out []door.Route
	for _, c := range new(dialect).routes() {
		r := door.Route{Method: c.method, Path: Mount + c.path, Read: c.read()}
		if c.path != "" && !slices.Contains(out, r) { // the root's other name, and calls that changed
			out = append(out, r)
		}
	}
	return out
}

// route finds the call that a request makes, and makes it.
func (d *dialect) route(calls []call, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	var found *call
	have := strings.Split(path(r), "/")
	for i := range calls {
		c := &calls[i]
		if !c.matches(have) {
			continue
		}
		if len(allowed) == 0 || allowed[len(allowed)-1] != c.method {
			allowed = append(allowed, c.method)
		}
		if c.method == r.Method && (found == nil || at(r) > found.until) {
			found = c
		}
	}
	switch {
	case len(allowed) == 0:
		d.Refuse(w, r, notFound("The resource could not be found: there is no %s", cut(path(r))))
	case found == nil:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		d.Refuse(w, r, notAllowed(r))
	default:
		found.note(r, have)
		d.make(found, w, r)
	}
}

// notAllowed is the refusal of a method that a path does not have.
func notAllowed(r *http.Request) error {
	return api.Errorf(api.CodeMethod, "The method specified is not allowed for this resource: %s", cut(r.Method))
}

// make makes a call once the microversion, the media types and the role of the
// caller are right, in the order in which they are looked at.
func (d *dialect) make(c *call, w http.ResponseWriter, r *http.Request) {
	checks := []func(*call, *http.Request) error{exists, media}
	if c.early {
		checks = []func(*call, *http.Request) error{media, exists}
	}
	for _, check := range append(checks, permitted) {
		if err := check(c, r); err != nil {
			d.Refuse(w, r, err)
			return
		}
	}
	if c.method == http.MethodGet {
		d.Handle(c.do)(w, r)
	} else {
		d.Lead(c.do)(w, r)
	}
}

// confirmed reports whether something is there, for a write that has nothing to do
// then: so what is there in the view of this node alone does not count.
func (d *dialect) confirmed(r *http.Request, there func(*state.State) bool) (bool, error) {
	if !there(d.Zone.View()) {
		return false, nil // the log has the last word
	}
	v, err := d.Zone.Latest(r.Context())
	if err != nil {
		return false, err
	}
	return there(v), nil
}

// exists refuses a call that is not one at the microversion of a request.
func exists(c *call, r *http.Request) error {
	switch {
	case at(r) >= c.since && at(r) <= c.until:
		return nil
	case c.hidden == http.StatusMethodNotAllowed:
		return notAllowed(r)
	}
	return notFound("The resource could not be found: %s %s needs microversion %s, and this call is made at %s", c.method, c.path, c.since, at(r))
}

// media refuses a body that is not JSON, and a caller who does not accept JSON.
func media(c *call, r *http.Request) error {
	if c.takes && !isJSON(r) {
		ct := r.Header.Get("Content-Type")
		if ct == "" {
			ct = "None"
		}
		return api.Errorf(api.CodeMediaType, "The media type %s is not supported, use %s", cut(ct), mediaJSON)
	}
	if c.gives && best(r.Header.Values("Accept"), mediaJSON) == "" {
		e := api.Errorf(api.CodeInvalid, "Only %s is provided", mediaJSON)
		return &fault{err: e, status: http.StatusNotAcceptable}
	}
	return nil
}

// permitted refuses a caller who is no admin, unless the handler asks.
func permitted(c *call, r *http.Request) error {
	if who := door.Caller(r); !c.reader && !who.Allows(api.RoleAdmin) {
		return api.Errorf(api.CodeForbidden, "Policy does not allow this: it needs the role %s; the token has %s", api.RoleAdmin, who.Role)
	}
	return nil
}

// matches reports whether a path with these parts is that of c.
func (c *call) matches(have []string) bool {
	if len(c.parts) != len(have) {
		return false
	}
	for i, part := range c.parts {
		if part != have[i] && (have[i] == "" || !strings.HasPrefix(part, "{")) {
			return false
		}
	}
	return true
}

// note notes in a request what varies in its path.
func (c *call) note(r *http.Request, have []string) {
	for i, part := range c.parts {
		if name, varies := strings.CutPrefix(part, "{"); varies {
			r.SetPathValue(strings.TrimSuffix(name, "}"), have[i])
		}
	}
}

// link is one link of an answer.
type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// root says which microversions there are.
func (d *dialect) root(w http.ResponseWriter, r *http.Request) error {
	fresh(w, r, d.Now())
	type entry struct {
		ID     string `json:"id"`
		Max    string `json:"max_version"`
		Min    string `json:"min_version"`
		Status string `json:"status"`
		Links  []link `json:"links"`
	}
	return answer(w, http.StatusOK, map[string][]entry{"versions": {{
		ID: "v" + versionMin.String(), Max: versionMax.String(), Min: versionMin.String(), Status: "CURRENT",
		Links: []link{{Rel: "self"}},
	}}})
}
