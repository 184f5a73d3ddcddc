package tricircle

import (
	"net/http"
	"slices"
	"strings"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/openstack"
)

// Mount is the path that the dialect is mounted at. Its calls are below Mount and root.
const (
	Mount = "/tricircle"
	root  = "/v1.0"
)

// service describes the API. It has no microversions but 1.0.
var service = openstack.Service{Name: "tricircle", Mount: Mount, Area: api.AreaPods, Major: 1, Shape: problemBody, Lax: true, Closed: true}

// dialect is the API of one node.
type dialect struct{ *openstack.Dialect }

// New returns the handler of the dialect, for requests whose path is Mount or begins with it and
// a slash. It may be called concurrently.
func New(c door.Config) http.Handler {
	d := &dialect{openstack.New(service, c)}
	return d.Handler(d.listCalls())
}

// Routes returns every call of the dialect with its kind of read.
func Routes() []door.Route { return openstack.Routes(Mount, new(dialect).listCalls()) }

// listCalls returns the calls of the dialect. The calls of one path are in the order in which Allow
// lists their methods.
func (d *dialect) listCalls() []openstack.Call {
	const (
		get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete

		pods     = root + "/pods"
		bindings = root + "/bindings"
		tags     = root + "/pod-affinity-tag"
	)
	return []openstack.Call{
		{Method: get, Path: "/", Do: asAdmin(d.showVersions)},

		{Method: get, Path: pods, Do: asAdmin(d.listPods)},
		{Method: post, Path: pods, Takes: true, Do: asAdmin(d.createPod)},
		{Method: get, Path: pods + "/{id}", Do: asAdmin(d.showPod)},
		{Method: del, Path: pods + "/{id}", Do: asAdmin(d.deletePod)},

		{Method: get, Path: bindings, Do: asAdmin(d.listBindings)},
		{Method: post, Path: bindings, Takes: true, Do: asAdmin(d.createBinding)},
		{Method: get, Path: bindings + "/{id}", Do: asAdmin(d.showBinding)},
		{Method: del, Path: bindings + "/{id}", Do: asAdmin(d.deleteBinding)},

		{Method: get, Path: tags, Do: asAdmin(d.listTags)},
		{Method: post, Path: tags, Takes: true, Do: asAdmin(d.createTag)},
		{Method: get, Path: tags + "/{id}", Do: asAdmin(d.showTag)},
		{Method: del, Path: tags + "/{id}", Do: asAdmin(d.deleteTag)},
	}
}

// asAdmin refuses callers who are not admins, and whose role does not allow it, with the status 401 that Tricircle has for them.
func asAdmin(do door.Handler) door.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		need := api.AreaPods.Writes()
		if r.Method == http.MethodGet {
			need = api.AreaPods.Reads()
		}
		if who := door.Caller(r); !who.May(api.RoleAdmin, need) {
			return openstack.WithStatus(http.StatusUnauthorized, api.Errorf(api.CodeForbidden, "Admin role required: the token has the role %s", who.Role))
		}
		return do(w, r)
	}
}

// refusal is the body of a refusal.
type refusal struct {
	Error struct {
		Code    int    `json:"code"`
		Title   string `json:"title"`
		Message string `json:"message"`
	} `json:"error"`
}

// problemBody returns the JSON of a refusal.
func problemBody(p openstack.Problem, _ int) any {
	var out refusal
	out.Error.Code, out.Error.Title, out.Error.Message = p.Status, p.Title, p.Detail
	return out
}

// unprocessable is a refusal with status 422.
func unprocessable(format string, args ...any) error {
	return openstack.WithStatus(http.StatusUnprocessableEntity, api.Errorf(api.CodeInvalid, format, args...))
}

// as422 gives refusals of what a caller sent, or names, the status 422.
func as422(err error) error {
	if c := api.CodeOf(err); c == api.CodeInvalid || c == api.CodeNotFound {
		return openstack.WithStatus(http.StatusUnprocessableEntity, err)
	}
	return err
}

// fields are the fields of a body, by name; texts are trimmed.
type fields struct{ of map[string]any }

// readFields reads the object under a key of a body, which may have these fields alone: texts, and
// truth values. null is as if the field were absent.
func readFields(r *http.Request, key string, known, flags []string) (fields, error) {
	out := fields{map[string]any{}}
	body, err := openstack.ReadFields(r)
	if err != nil {
		return out, err
	}
	in, ok := body[key].(map[string]any)
	if !ok {
		return out, api.Errorf(api.CodeInvalid, "Request body not found: there must be an object %q", key)
	}
	for name, v := range in { // in any order: one of several mistakes is told
		switch {
		case v == nil:
		case slices.Contains(flags, name):
			if _, is := v.(bool); !is {
				return out, api.Errorf(api.CodeInvalid, "%s.%s must be true or false", key, name)
			}
			out.of[name] = v
		case slices.Contains(known, name):
			text, is := v.(string)
			if !is {
				return out, api.Errorf(api.CodeInvalid, "%s.%s must be a text", key, name)
			}
			out.of[name] = strings.TrimSpace(text)
		default:
			return out, api.Errorf(api.CodeInvalid, "%s has no field %s", key, openstack.Show(name))
		}
	}
	return out, nil
}

// text returns a field, "" for one that is absent or blank.
func (f *fields) text(name string) string {
	s, _ := f.of[name].(string)
	return s
}

// isTrue reports whether a flag is set.
func (f *fields) isTrue(name string) bool {
	b, _ := f.of[name].(bool)
	return b
}

// showVersions lists the versions.
func (d *dialect) showVersions(w http.ResponseWriter, r *http.Request) error {
	type link struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	type version struct {
		Status string `json:"status"`
		ID     string `json:"id"`
		Links  []link `json:"links"`
	}
	return openstack.Answer(w, http.StatusOK, map[string][]version{"versions": {{"CURRENT", "v1.0", []link{{"self", d.URL(r, root)}}}}})
}

// answer answers with one value under a key.
func answer(w http.ResponseWriter, key string, v any) error {
	return openstack.Answer(w, http.StatusOK, map[string]any{key: v})
}

// answerEmpty answers a call that has nothing to show.
func answerEmpty(w http.ResponseWriter) error { return openstack.Answer(w, http.StatusOK, struct{}{}) }
