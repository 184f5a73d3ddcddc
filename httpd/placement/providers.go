package placement

import (
	"net/http"
	"slices"

	"berth/api"
	"berth/candidates"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/resources"
)

// Microversions that change the body of a provider or the allowed changes.
const (
	shownAggregates  version = 1
	shownTraits      version = 6
	shownAllocations version = 11
	nested           version = 14 // parent and root
	shownWhenMade    version = 20
	reparented       version = 37
)

// provider is a provider in answers.
type provider struct {
	ID         api.ProviderID `json:"uuid"`
	Name       string         `json:"name"`
	Generation uint64         `json:"generation"`
	Links      []link         `json:"links"`
	*family
}

// family is the place of a provider in its tree.
type family struct {
	Parent *api.ProviderID `json:"parent_provider_uuid"`
	Root   api.ProviderID  `json:"root_provider_uuid"`
}

// providerPath returns the path of a provider below Mount.
func providerPath(id api.ProviderID) string { return "/resource_providers/" + string(id) }

func showOne(p *api.Provider, v version) provider {
	self := Mount + providerPath(p.ID)
	out := provider{ID: p.ID, Name: p.Name, Generation: p.Generation, Links: []link{{Rel: "self", Href: self}}}
	for _, l := range []struct {
		rel   string
		since version
	}{
		{"inventories", 0},
		{"usages", 0},
		{"aggregates", shownAggregates},
		{"traits", shownTraits},
		{"allocations", shownAllocations},
	} {
		if v >= l.since {
			out.Links = append(out.Links, link{Rel: l.rel, Href: self + "/" + l.rel})
		}
	}
	if v >= nested {
		out.family = &family{Root: p.Root}
		if p.Parent != "" {
			out.Parent = &p.Parent
		}
	}
	return out
}

// providerOf returns the provider that the path of a call names.
func providerOf(v *state.State, r *http.Request) (*api.Provider, error) {
	name := r.PathValue("uuid")
	if p, ok := v.Provider(api.ProviderID(name)); ok {
		return p, nil
	}
	return nil, notFound("No resource provider with uuid %s found", openstack.Cut(name))
}

// Schemas of providers.
var (
	nameSchema   = &openstack.Schema{Kind: openstack.String, Longest: api.ProviderNameMax}
	uuidSchema   = &openstack.Schema{Kind: openstack.String, UUID: true}
	parentSchema = &openstack.Schema{Kind: openstack.String, UUID: true, Nullable: true}

	createSchema      = &openstack.Schema{Kind: openstack.Object, Required: []string{"name"}, Fields: map[string]*openstack.Schema{"name": nameSchema, "uuid": uuidSchema}}
	updateSchema      = &openstack.Schema{Kind: openstack.Object, Required: []string{"name"}, Fields: map[string]*openstack.Schema{"name": nameSchema}}
	createChildSchema = &openstack.Schema{Kind: openstack.Object, Required: []string{"name"}, Fields: map[string]*openstack.Schema{
		"name": nameSchema, "uuid": uuidSchema, "parent_provider_uuid": parentSchema,
	}}
	updateChildSchema = &openstack.Schema{Kind: openstack.Object, Required: []string{"name"}, Fields: map[string]*openstack.Schema{
		"name": nameSchema, "parent_provider_uuid": parentSchema,
	}}
)

// createProvider is POST /resource_providers.
func (d *dialect) createProvider(w http.ResponseWriter, r *http.Request) error {
	form := createSchema
	if versionOf(r) >= nested {
		form = createChildSchema
	}
	body, err := openstack.ReadObject(r, form)
	if err != nil {
		return err
	}
	name, _ := body["name"].(string)
	provider, parent := api.ProviderID(api.NewUUID()), api.ProviderID("")
	if text, given := body["uuid"].(string); given {
		id, _ := openstack.ParseUUID(text)
		provider = api.ProviderID(id)
	}
	const refused = `Unable to create resource provider "%s", %s: `
	if text, given := body["parent_provider_uuid"].(string); given {
		id, _ := openstack.ParseUUID(text)
		parent = api.ProviderID(id)
	}
	v := d.Zone.View()
	switch _, known := v.Provider(parent); {
	case name == "":
		return invalidError(refused+"a name must have 1 to %d characters", name, provider, api.ProviderNameMax)
	case parent == provider:
		return invalidError(refused+"parent provider UUID cannot be same as UUID; leave it out if there is no parent", name, provider)
	case parent != "" && !known:
		return invalidError(refused+"parent provider UUID does not exist", name, provider)
	}
	if err := resources.CreateProvider(r.Context(), d.Zone, provider, name, parent); err != nil {
		return nameTaken(d.Zone.View(), provider, name, err)
	}
	d.Locate(w, r, providerPath(provider))
	if versionOf(r) < shownWhenMade {
		w.WriteHeader(http.StatusCreated)
		return nil
	}
	return d.sendProvider(w, r, provider)
}

// nameTaken names the property of a new provider that is taken, if that is what err
// reports.
func nameTaken(v *state.State, id api.ProviderID, name string, err error) error {
	if api.CodeOf(err) != api.CodeExists {
		return err
	}
	if _, there := v.Provider(id); there {
		return api.Errorf(api.CodeExists, "Conflicting resource provider uuid: %s already exists", id)
	}
	return api.Errorf(api.CodeExists, "Conflicting resource provider name: %s already exists", name)
}

// sendProvider answers with a provider as it is now.
func (d *dialect) sendProvider(w http.ResponseWriter, r *http.Request, id api.ProviderID) error {
	p, ok := d.View(w).Provider(id)
	if !ok { // it was deleted meanwhile
		return notFound("No resource provider with uuid %s found", id)
	}
	setModified(w, r, p.Updated.Time())
	return openstack.Answer(w, http.StatusOK, showOne(p, versionOf(r)))
}

// showProvider is GET /resource_providers/{uuid}.
func (d *dialect) showProvider(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.View(w), r)
	if err != nil {
		return err
	}
	setModified(w, r, p.Updated.Time())
	return openstack.Answer(w, http.StatusOK, showOne(p, versionOf(r)))
}

// updateProvider is PUT /resource_providers/{uuid}.
func (d *dialect) updateProvider(w http.ResponseWriter, r *http.Request) error {
	v := d.Zone.View()
	p, err := providerOf(v, r)
	if err != nil {
		return err
	}
	form := updateSchema
	if versionOf(r) >= nested {
		form = updateChildSchema
	}
	body, err := openstack.ReadObject(r, form)
	if err != nil {
		return err
	}
	name, _ := body["name"].(string)
	if name == "" {
		return invalidError("Unable to save resource provider %s: a name must have 1 to %d characters", p.ID, api.ProviderNameMax)
	}
	var parent *api.ProviderID
	if given, there := body["parent_provider_uuid"]; there {
		text, _ := given.(string)
		id, _ := openstack.ParseUUID(text)
		parent = new(api.ProviderID(id))
		if err := mayMove(v, p, *parent, versionOf(r)); err != nil {
			return err
		}
	}
	if err := resources.RenameProvider(r.Context(), d.Zone, p.ID, name, parent); err != nil {
		if api.CodeOf(err) == api.CodeExists {
			return api.Errorf(api.CodeExists, "Conflicting resource provider name: %s already exists", name)
		}
		return err
	}
	return d.sendProvider(w, r, p.ID)
}

// mayMove refuses an impossible new parent of a provider, "" for none.
func mayMove(v *state.State, p *api.Provider, parent api.ProviderID, at version) error {
	refused := "Unable to save resource provider " + string(p.ID) + ": "
	_, known := v.Provider(parent)
	switch {
	case parent != "" && !known:
		return invalidError("%sparent provider UUID does not exist", refused)
	case at < reparented && p.Parent != "" && parent == "":
		return invalidError("%sun-parenting a provider is not currently allowed; it needs microversion %s", refused, reparented)
	case at < reparented && p.Parent != "" && parent != p.Parent:
		return invalidError("%sre-parenting a provider is not currently allowed; it needs microversion %s", refused, reparented)
	}
	for id, n := parent, 0; id != "" && n <= api.TreeDepthMax; n++ {
		if id == p.ID {
			return invalidError("%screating loop in the provider tree is not allowed.", refused)
		}
		up, ok := v.Provider(id)
		if !ok {
			break
		}
		id = up.Parent
	}
	return nil
}

// deleteProvider is DELETE /resource_providers/{uuid}.
func (d *dialect) deleteProvider(w http.ResponseWriter, r *http.Request) error {
	id := api.ProviderID(r.PathValue("uuid"))
	if _, ok := d.Zone.View().Provider(id); !ok {
		return notFound("No resource provider with uuid %s found for delete", openstack.Cut(string(id)))
	}
	if err := resources.DeleteProvider(r.Context(), d.Zone, id); err != nil {
		return replaceError(err, map[api.Code]error{
			api.CodeNotFound:    notFound("No resource provider with uuid %s found for delete", id),
			api.CodeHasChildren: api.Errorf(api.CodeHasChildren, "Unable to delete parent resource provider %s: It has child resource providers.", id),
			api.CodeInUse:       openstack.WithCode(codeProviderInUse, api.Errorf(api.CodeInUse, "Unable to delete resource provider %s: Resource provider has allocations.", id)),
		})
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// listSince has the first microversion of each filter of a list of providers.
var listSince = map[string]version{"name": 0, "uuid": 0, "member_of": 3, "resources": 4, "in_tree": 14, "required": 18}

// listProviders is GET /resource_providers.
func (d *dialect) listProviders(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	f, err := filterOf(r, v)
	if err != nil {
		return err
	}
	var list []*api.Provider
	table := v.Hosts()
	for row := range candidates.Providers(table, f).All() {
		if p, ok := v.Provider(table.ID(row)); ok {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, compareAge)
	out := make([]provider, len(list))
	modified := d.Now()
	for i, p := range list {
		out[i] = showOne(p, versionOf(r))
		if t := p.Updated.Time(); i == 0 || t.After(modified) {
			modified = t
		}
	}
	setModified(w, r, modified)
	return openstack.Answer(w, http.StatusOK, map[string][]provider{"resource_providers": out})
}

// compareAge orders providers by creation, then by id.
func compareAge(a, b *api.Provider) int {
	switch {
	case a.Created != b.Created:
		return int(max(-1, min(1, a.Created-b.Created)))
	case a.ID < b.ID:
		return -1
	case a.ID > b.ID:
		return 1
	}
	return 0
}

// filterOf reads the filters of a list of providers.
func filterOf(r *http.Request, v *state.State) (*candidates.Filter, error) {
	q, err := openstack.Params(r, func(name string) bool {
		since, known := listSince[name]
		return known && versionOf(r) >= since
	})
	if err != nil {
		return nil, err
	}
	f := &candidates.Filter{}
	if name, _ := lastValue(q, "name"); name != "" {
		f.Name = &name
	}
	for _, key := range []string{"uuid", "in_tree"} {
		text, given := lastValue(q, key)
		id, ok := openstack.ParseUUID(text)
		switch {
		case !given:
		case !ok:
			return nil, openstack.BadQuery("%s is not a 'uuid'  Failed validating 'format' at ['%s']", openstack.Show(text), key)
		case key == "uuid":
			f.IDs = []api.ProviderID{api.ProviderID(id)}
		default:
			f.InTree = api.ProviderID(id)
		}
	}
	if f.MemberOf, f.NotMemberOf, err = parseMembers(q["member_of"], "", versionOf(r)); err != nil {
		return nil, err
	}
	required := q["required"]
	if versionOf(r) < 39 && len(required) > 1 {
		required = required[len(required)-1:]
	}
	if f.Traits, err = parseTraits(required, versionOf(r) >= 39, versionOf(r) >= 22); err != nil {
		return nil, err
	}
	if text, given := lastValue(q, "resources"); given {
		if f.Resources, err = parseResources(text); err != nil {
			return nil, err
		}
	}
	for _, class := range f.Resources.Classes() {
		if _, ok := v.ResourceClass(class); !ok {
			return nil, invalidError("Invalid resource class in resources parameter: No such resource class %s", openstack.Cut(string(class)))
		}
	}
	return f, knownTraits(v, slices.Concat(append(f.Traits.AnyOf, f.Traits.Required, f.Traits.Forbidden)...))
}
