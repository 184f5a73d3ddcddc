package placement

import (
	"net/http"

	"berth/api"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/resources"
)

// classSchema is the schema of a resource class.
var classSchema = &openstack.Schema{
	Kind: openstack.Object, Required: []string{"name"},
	Fields: map[string]*openstack.Schema{"name": {Kind: openstack.String, Pattern: nameCustom, Longest: api.CustomMaxBytes}},
}

// class is a resource class in answers.
type class struct {
	Name  string `json:"name"`
	Links []link `json:"links"`
}

func showOneClass(name string) class {
	return class{Name: name, Links: []link{{Rel: "self", Href: Mount + classPath(name)}}}
}

// classPath returns the path of a resource class below Mount.
func classPath(name string) string { return "/resource_classes/" + name }

// noClass refuses a call whose path names an unknown resource class.
func noClass(name string) error { return notFound("No such resource class %s", openstack.Cut(name)) }

// listClasses is GET /resource_classes.
func (d *dialect) listClasses(w http.ResponseWriter, r *http.Request) error {
	list := d.View(w).ResourceClasses()
	out := make([]class, len(list))
	for i, n := range list {
		out[i] = showOneClass(n.Name)
	}
	setModified(w, r, latestOf(list, d.Now()))
	return openstack.Answer(w, http.StatusOK, map[string][]class{"resource_classes": out})
}

// showClass is GET /resource_classes/{name}.
func (d *dialect) showClass(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	n, ok := d.View(w).ResourceClass(api.ResourceClass(name))
	if !ok {
		return noClass(name)
	}
	setModified(w, r, latestOf([]state.Named{n}, d.Now()))
	return openstack.Answer(w, http.StatusOK, showOneClass(name))
}

// createClass is POST /resource_classes.
func (d *dialect) createClass(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadObject(r, classSchema)
	if err != nil {
		return err
	}
	name, _ := body["name"].(string)
	if err := resources.CreateClass(r.Context(), d.Zone, api.ResourceClass(name)); err != nil {
		if api.CodeOf(err) == api.CodeExists {
			return openstack.WithCode(codeUndefined, api.Errorf(api.CodeExists, "Conflicting resource class already exists: %s", name))
		}
		return err
	}
	d.Locate(w, r, classPath(name))
	w.WriteHeader(http.StatusCreated)
	return nil
}

// renameClass is PUT /resource_classes/{name} before 1.7.
func (d *dialect) renameClass(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadObject(r, classSchema)
	if err != nil {
		return err
	}
	was, name := r.PathValue("name"), ""
	name, _ = body["name"].(string)
	if _, known := d.Zone.View().ResourceClass(api.ResourceClass(was)); !known {
		return noClass(was)
	}
	if !api.ValidCustom(was) {
		return invalidError("Cannot update standard resource class %s", was)
	}
	if err := resources.RenameClass(r.Context(), d.Zone, api.ResourceClass(was), api.ResourceClass(name)); err != nil {
		return replaceError(err, map[api.Code]error{
			api.CodeNotFound: noClass(was),
			api.CodeExists:   openstack.WithCode(codeUndefined, api.Errorf(api.CodeExists, "Resource class already exists: %s", name)),
			api.CodeInUse:    openstack.WithCode(codeUndefined, api.Errorf(api.CodeInUse, "Cannot update resource class %s: %s", was, api.MessageOf(err))),
		})
	}
	d.View(w)
	return openstack.Answer(w, http.StatusOK, showOneClass(name))
}

// ensureClass is PUT /resource_classes/{name} from 1.7 on.
func (d *dialect) ensureClass(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if _, err := classSchema.Check(map[string]any{"name": name}); err != nil {
		return err
	}
	status := http.StatusNoContent
	made, err := resources.PutClass(r.Context(), d.Zone, api.ResourceClass(name))
	if err != nil {
		return err
	}
	if made {
		status = http.StatusCreated
	}
	d.Locate(w, r, classPath(name))
	w.WriteHeader(status)
	return nil
}

// deleteClass is DELETE /resource_classes/{name}.
func (d *dialect) deleteClass(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if _, known := d.Zone.View().ResourceClass(api.ResourceClass(name)); !known {
		return noClass(name)
	}
	if !api.ValidCustom(name) {
		return invalidError("Error in delete resource class: Cannot delete standard resource class %s", name)
	}
	if err := resources.DeleteClass(r.Context(), d.Zone, api.ResourceClass(name)); err != nil {
		return replaceError(err, map[api.Code]error{
			api.CodeNotFound: noClass(name),
			api.CodeInUse:    openstack.WithCode(codeUndefined, api.Errorf(api.CodeInUse, "Error in delete resource class: Cannot delete resource class %s: it is in use, for an inventory has it", name)),
		})
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
