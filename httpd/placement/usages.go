package placement

import (
	"net/http"
	"regexp"
	"unicode/utf8"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/raftstore/state"
)

// consumerTypes is the first microversion in which consumers have types.
const consumerTypes version = 38

// Values that a caller may pass in place of a consumer type.
const (
	typeAll     = "all"       // one sum over every type
	typeUnknown = unknownType // of consumers without a type
)

// typeAsked matches a consumer type in a query.
var typeAsked = regexp.MustCompile(`^[A-Z0-9_]+$|^all|^unknown$`)

// providerUsages is GET /resource_providers/{uuid}/usages.
func (d *dialect) providerUsages(w http.ResponseWriter, r *http.Request) error {
	p, err := providerOf(d.View(w), r)
	if err != nil {
		return err
	}
	used := map[api.ResourceClass]int64{}
	for class := range p.Inventory {
		used[class] = p.Used[class]
	}
	setModified(w, r, d.Now())
	return openstack.Answer(w, http.StatusOK, struct {
		Generation uint64                      `json:"resource_provider_generation"`
		Usages     map[api.ResourceClass]int64 `json:"usages"`
	}{p.Generation, used})
}

// providerAllocations is GET /resource_providers/{uuid}/allocations.
func (d *dialect) providerAllocations(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	p, err := providerOf(v, r)
	if err != nil {
		return err
	}
	type share struct {
		Resources  api.Resources `json:"resources"`
		Generation *uint64       `json:"consumer_generation,omitempty"`
	}
	out, modified := map[api.ConsumerID]share{}, api.Instant(0)
	for _, a := range v.AllocationsOn(p.ID) {
		one := share{Resources: a.Resources}
		if versionOf(r) >= claimGenerations {
			one.Generation = &a.Generation
		}
		out[a.Consumer] = one
		if c, ok := v.Consumer(a.Consumer); ok {
			modified = max(modified, c.Updated)
		}
	}
	if modified == 0 {
		modified = api.InstantOf(d.Now())
	}
	setModified(w, r, modified.Time())
	return openstack.Answer(w, http.StatusOK, struct {
		Allocations map[api.ConsumerID]share `json:"allocations"`
		Generation  uint64                   `json:"resource_provider_generation"`
	}{out, p.Generation})
}

// claimGenerations is the first microversion in which consumers have generations.
const claimGenerations version = 28

// projectUsages is GET /usages.
func (d *dialect) projectUsages(w http.ResponseWriter, r *http.Request) error {
	q, err := openstack.Params(r, func(name string) bool {
		return name == "project_id" || name == "user_id" || name == "consumer_type" && versionOf(r) >= consumerTypes
	})
	project, named := lastValue(q, "project_id")
	who := door.Caller(r)
	if !who.Allows(api.RoleAdmin) && string(who.Project) != project {
		return api.Errorf(api.CodeForbidden, "Policy does not allow this: only the role %s reads the usage of another project", api.RoleAdmin)
	}
	switch {
	case err != nil:
		return err
	case !named:
		return openstack.BadQuery("'project_id' is a required property")
	}
	var user *api.UserID
	if text, given := lastValue(q, "user_id"); given {
		u := api.UserID(text)
		user = &u
		if err := checkOwner("user_id", text); err != nil {
			return err
		}
	}
	if err := checkOwner("project_id", project); err != nil {
		return err
	}
	asked, _ := lastValue(q, "consumer_type")
	if q.Has("consumer_type") && !typeAsked.MatchString(asked) || utf8.RuneCountInString(asked) > ownerMax {
		return openstack.BadQuery("%s does not match '%s'  Failed validating 'pattern' at ['consumer_type']", openstack.Show(asked), typeAsked)
	}
	used := d.View(w).Usages(api.ProjectID(project), user)
	setModified(w, r, d.Now())
	if versionOf(r) < consumerTypes {
		sum, _ := sumOf(used, func(string) bool { return true })
		return openstack.Answer(w, http.StatusOK, map[string]api.Resources{"usages": sum})
	}
	return openstack.Answer(w, http.StatusOK, map[string]map[string]map[string]int64{"usages": byType(used, asked)})
}

// checkOwner refuses an impossible id of a project or user.
func checkOwner(field, text string) error {
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		return openstack.BadQuery("'' is too short  Failed validating 'minLength' at ['%s']", field)
	case n > ownerMax:
		return openstack.BadQuery("%s is too long  Failed validating 'maxLength' at ['%s']", openstack.Show(text), field)
	}
	return nil
}

// sumOf adds up the usage of consumers whose type pick accepts, and counts them.
func sumOf(used []state.Usage, pick func(kind string) bool) (sum api.Resources, consumers int) {
	sum = api.Resources{}
	for _, u := range used {
		if !pick(u.Type) {
			continue
		}
		consumers += u.Consumers
		for class, n := range u.Resources {
			sum[class] += n
		}
	}
	return sum, consumers
}

// byType returns the usage by consumer type, with the number of consumers among the
// classes. asked is a type, typeAll, typeUnknown, or "" for each type.
func byType(used []state.Usage, asked string) map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	put := func(name string, pick func(string) bool) {
		sum, consumers := sumOf(used, pick)
		if consumers == 0 {
			return
		}
		out[name] = map[string]int64{"consumer_count": int64(consumers)}
		for class, n := range sum {
			out[name][string(class)] = n
		}
	}
	if asked == typeAll {
		put(typeAll, func(string) bool { return true })
		return out
	}
	for _, u := range used {
		if name := typeOf(u.Type); asked == "" || asked == name {
			put(name, func(kind string) bool { return kind == u.Type })
		}
	}
	return out
}
