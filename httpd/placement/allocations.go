package placement

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"berth/api"
	"berth/httpd/openstack"
	"berth/raftstore/state"
	"berth/zone/resources"
)

// incomplete is the project and the user of consumers created before 1.8, when a claim
// named neither.
const incomplete = "00000000-0000-0000-0000-000000000000"

// unknownType is shown for a consumer without a type.
const unknownType = "unknown"

// Microversions that change the body of a claim, beside claimGenerations, mapped and
// consumerTypes.
const (
	claimOwners  version = 8  // it names a project and a user
	claimsAsDict version = 12 // it is an object by provider, not a list
)

// ownerMax bounds the characters of the id of a project or user.
const ownerMax = 255

// nameMapped matches names in mappings that stand for a group with a suffix. It is not
// anchored.
var nameMapped = regexp.MustCompile(`[a-zA-Z0-9_-]{1,64}`)

// resourcesSchema is the schema of amounts by class. Amounts that are too large are
// refused later, with the units of the inventory.
var resourcesSchema = &openstack.Schema{
	Kind: openstack.Object, Names: nameClass, Fewest: 1,
	Each: &openstack.Schema{Kind: openstack.Integer, Least: 1, Most: math.MaxInt64},
}

// listSchema is the schema of allocations before 1.12.
var listSchema = &openstack.Schema{Kind: openstack.Array, Fewest: 1, Each: &openstack.Schema{
	Kind: openstack.Object, Required: []string{"resource_provider", "resources"},
	Fields: map[string]*openstack.Schema{
		"resource_provider": {
			Kind: openstack.Object, Required: []string{"uuid"},
			Fields: map[string]*openstack.Schema{"uuid": {Kind: openstack.String, UUID: true}},
		},
		"resources": resourcesSchema,
	},
}}

// consumerSchema is the schema of all allocations of one consumer. With mayFree there
// may be none.
func consumerSchema(v version, mayFree bool) *openstack.Schema {
	s := &openstack.Schema{Kind: openstack.Object, Required: []string{"allocations"}, Fields: map[string]*openstack.Schema{"allocations": listSchema}}
	add := func(name string, of *openstack.Schema) {
		s.Required = append(s.Required, name)
		s.Fields[name] = of
	}
	if v >= claimOwners {
		add("project_id", &openstack.Schema{Kind: openstack.String, Shortest: 1, Longest: ownerMax})
		add("user_id", &openstack.Schema{Kind: openstack.String, Shortest: 1, Longest: ownerMax})
	}
	if v >= claimsAsDict {
		all := &openstack.Schema{Kind: openstack.Object, Names: nameUUID, Fewest: 1, Each: &openstack.Schema{
			Kind: openstack.Object, Required: []string{"resources"},
			Fields: map[string]*openstack.Schema{"generation": {Kind: openstack.Integer}, "resources": resourcesSchema},
		}}
		if mayFree {
			all.Fewest = 0
		}
		s.Fields["allocations"] = all
	}
	if v >= claimGenerations {
		add("consumer_generation", &openstack.Schema{Kind: openstack.Integer, Nullable: true})
	}
	if v >= mapped {
		s.Fields["mappings"] = &openstack.Schema{Kind: openstack.Object, Names: nameMapped, Loose: true, Fewest: 1, Each: &openstack.Schema{
			Kind: openstack.Array, Fewest: 1, Each: &openstack.Schema{Kind: openstack.String, UUID: true},
		}}
	}
	if v >= consumerTypes {
		add("consumer_type", &openstack.Schema{Kind: openstack.String, Pattern: nameClass, Shortest: 1, Longest: api.CustomMaxBytes})
	}
	return s
}

// consumersSchema is the schema of the allocations of several consumers, by their ids.
func consumersSchema(v version, fewest int) *openstack.Schema {
	return &openstack.Schema{Kind: openstack.Object, Names: nameUUID, Fewest: fewest, Each: consumerSchema(v, true)}
}

// consumerOf returns the consumer that a path names. Ids of instances are taken as they
// are; all others must be UUIDs.
func consumerOf(r *http.Request) api.ConsumerID {
	return consumerID(r.PathValue("consumer_uuid"))
}

func consumerID(text string) api.ConsumerID {
	if id, ok := openstack.ParseUUID(text); ok {
		return api.ConsumerID(id)
	}
	return api.ConsumerID(text)
}

// shownShare is the JSON of one consumer's allocation at one provider.
type shownShare struct {
	Generation uint64        `json:"generation"`
	Resources  api.Resources `json:"resources"`
}

// shownConsumer is the JSON of all allocations of a consumer.
type shownConsumer struct {
	Allocations map[api.ProviderID]shownShare `json:"allocations"`
	Project     *api.ProjectID                `json:"project_id,omitempty"`
	User        *api.UserID                   `json:"user_id,omitempty"`
	Generation  *uint64                       `json:"consumer_generation,omitempty"`
	Type        string                        `json:"consumer_type,omitempty"`
}

func (d *dialect) showAllocations(w http.ResponseWriter, r *http.Request) error {
	s := d.View(w)
	c, ok := s.Consumer(consumerOf(r))
	if !ok {
		setModified(w, r, d.Now())
		return openstack.Answer(w, http.StatusOK, shownConsumer{Allocations: map[api.ProviderID]shownShare{}})
	}
	setModified(w, r, c.Updated.Time())
	return openstack.Answer(w, http.StatusOK, showConsumer(s, c, versionOf(r)))
}

func showConsumer(s *state.State, c *api.Consumer, v version) shownConsumer {
	out := shownConsumer{Allocations: map[api.ProviderID]shownShare{}}
	for _, sh := range c.Shares {
		if p, known := s.Provider(sh.Provider); known {
			out.Allocations[sh.Provider] = shownShare{p.Generation, sh.Resources}
		}
	}
	if v >= claimsAsDict {
		out.Project, out.User = &c.Project, &c.User
	}
	if v >= claimGenerations {
		out.Generation = &c.Generation
	}
	if v >= consumerTypes {
		out.Type = typeOf(c.Type)
	}
	return out
}

// typeOf returns the type of a consumer as answers show it.
func typeOf(t string) string {
	if t == "" {
		return unknownType
	}
	return t
}

func (d *dialect) putAllocations(w http.ResponseWriter, r *http.Request) error {
	v := versionOf(r)
	id, ok := openstack.ParseUUID(r.PathValue("consumer_uuid"))
	if !ok {
		return invalidError("Malformed consumer_uuid: it must be a UUID, got %q", r.PathValue("consumer_uuid"))
	}
	body, err := openstack.ReadObject(r, consumerSchema(v, v >= claimGenerations))
	if err != nil {
		return err
	}
	if err = mayDraw(body); err != nil {
		return err
	}
	e, err := d.readConsumer(v, api.ConsumerID(id), body)
	if err != nil {
		return err
	}
	return d.putConsumers(w, r, []resources.Consumer{e})
}

func (d *dialect) postAllocations(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadObject(r, consumersSchema(versionOf(r), 1))
	if err != nil {
		return err
	}
	if err = wellFormed(body); err != nil {
		return err
	}
	entries, err := d.readConsumers(versionOf(r), body)
	if err != nil {
		return err
	}
	return d.putConsumers(w, r, entries)
}

// putConsumers replaces the allocations of some consumers.
func (d *dialect) putConsumers(w http.ResponseWriter, r *http.Request, consumers []resources.Consumer) error {
	if err := resources.PutConsumers(r.Context(), d.Zone, consumers, nil); err != nil {
		return claimRefused(d.nameConflict(consumers, d.unknownIn(consumers, err)))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// unknownIn returns a refusal, in words that clients look for, if a claim names an
// unknown provider or class. It does so even if the claim was refused for another
// reason: 400 comes before 409.
func (d *dialect) unknownIn(consumers []resources.Consumer, err error) error {
	switch api.CodeOf(err) { //nolint:exhaustive // only these codes may hide an unknown name
	case api.CodeNoCapacity, api.CodeInUse, api.CodeInvalid:
	default:
		return err
	}
	s := d.Zone.View()
	for _, e := range consumers {
		for _, sh := range e.Shares {
			if _, ok := s.Provider(sh.Provider); !ok {
				return invalidError("Allocation for resource provider '%s' that does not exist", sh.Provider)
			}
			for _, class := range sh.Resources.Classes() {
				if _, ok := s.ResourceClass(class); !ok {
					return invalidError("No such resource class %s", class)
				}
			}
		}
	}
	return err
}

// Words that clients look for in refusals of claims.
const (
	sayStale  = "consumer generation conflict: "
	sayNoRoom = "Unable to allocate inventory: "
)

// claimRefused explains a refused claim in words that clients look for.
func claimRefused(err error) error {
	return prefixRefusal(err, map[api.Code]string{api.CodeNoCapacity: sayNoRoom, api.CodeInvalid: sayNoRoom})
}

// prefixRefusal prefixes the sentence of a refusal, depending on its code.
func prefixRefusal(err error, words map[api.Code]string) error {
	code := api.CodeOf(err)
	if first, ok := words[code]; ok {
		return api.Errorf(code, "%s%s", first, api.MessageOf(err))
	}
	return err
}

func (d *dialect) deleteAllocations(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("consumer_uuid")
	none := notFound("No allocations for consumer '%s'", openstack.Cut(name))
	id, ok := openstack.ParseUUID(name)
	if !ok {
		return none
	}
	err := resources.DeleteConsumer(r.Context(), d.Zone, api.ConsumerID(id))
	if api.CodeOf(err) == api.CodeNotFound {
		return none
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// wellFormed checks the allocations of several consumers, independent of the state and
// of their generations.
func wellFormed(body map[string]any) error {
	if len(body) > api.ConsumersCallMax {
		return invalidError("at most %d consumers are allowed in one call, got %d", api.ConsumersCallMax, len(body))
	}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if _, ok := openstack.ParseUUID(name); !ok {
			return invalidError("Malformed consumer_uuid: it must be a UUID, got %q", name)
		}
		one, _ := body[name].(map[string]any)
		if err := mayDraw(one); err != nil {
			return err
		}
	}
	return nil
}

// mayDraw refuses allocations of one consumer from too many providers.
func mayDraw(body map[string]any) error {
	if n := len(sharesOf(body)); n > api.SharesMax {
		return invalidError("a consumer draws from at most %d providers, got %d", api.SharesMax, n)
	}
	return nil
}

// readConsumers reads the allocations of several consumers, which are well formed.
func (d *dialect) readConsumers(v version, body map[string]any) ([]resources.Consumer, error) {
	out := make([]resources.Consumer, 0, len(body))
	for _, name := range slices.Sorted(maps.Keys(body)) {
		id, _ := openstack.ParseUUID(name)
		one, _ := body[name].(map[string]any)
		e, err := d.readConsumer(v, api.ConsumerID(id), one)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// readConsumer reads all allocations of one consumer.
func (d *dialect) readConsumer(v version, id api.ConsumerID, body map[string]any) (resources.Consumer, error) {
	e := resources.Consumer{ID: id, Project: incomplete, User: incomplete}
	if v >= claimOwners {
		project, _ := body["project_id"].(string)
		user, _ := body["user_id"].(string)
		e.Project, e.User = api.ProjectID(project), api.UserID(user)
	}
	if name, ok := body["consumer_type"].(string); ok {
		e.Type = &name
	}
	if v >= claimGenerations {
		n, possible := readGeneration(body["consumer_generation"])
		if body["consumer_generation"] != nil && (n == 0 || !possible) {
			return e, d.staleAt(id, fmt.Sprint(body["consumer_generation"]))
		}
		e.Generation = &n // null is 0: the consumer must be new
	}
	shares := sharesOf(body)
	for _, p := range slices.Sorted(maps.Keys(shares)) {
		e.Shares = append(e.Shares, api.Share{Provider: p, Resources: shares[p]})
	}
	return e, tooLarge(e.Shares)
}

// sharesOf reads the allocations of one consumer by provider. If a provider is
// repeated, the last one counts: the last item of a list, or the last spelling in an
// object.
func sharesOf(body map[string]any) map[api.ProviderID]api.Resources {
	out := map[api.ProviderID]api.Resources{}
	switch all := body["allocations"].(type) {
	case []any:
		for _, item := range all {
			one, _ := item.(map[string]any)
			provider, _ := one["resource_provider"].(map[string]any)
			name, _ := provider["uuid"].(string)
			out[providerID(name)] = readAmounts(one["resources"])
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(all)) {
			one, _ := all[name].(map[string]any)
			out[providerID(name)] = readAmounts(one["resources"])
		}
	}
	return out
}

// noGeneration stands for the generation of a consumer that does not exist.
const noGeneration = "null"

// staleAt refuses a claim with an outdated consumer generation, in words that clients
// look for.
func (d *dialect) staleAt(id api.ConsumerID, got string) error {
	want := noGeneration
	if c, ok := d.Zone.View().Consumer(id); ok {
		want = strconv.FormatUint(c.Generation, 10)
	}
	return conflictError(sayStale+"consumer %s: expected %s but got %s; read it again", id, want, openstack.Cut(got))
}

// nameConflict names the consumer whose generation was outdated, if that is why a claim
// was refused; otherwise it returns err.
func (d *dialect) nameConflict(consumers []resources.Consumer, err error) error {
	if api.CodeOf(err) != api.CodeStale {
		return err
	}
	s := d.Zone.View()
	for _, e := range consumers {
		now := uint64(0)
		if c, ok := s.Consumer(e.ID); ok {
			now = c.Generation
		}
		switch {
		case e.Generation == nil || *e.Generation == now:
		case *e.Generation == 0:
			return d.staleAt(e.ID, noGeneration)
		default:
			return d.staleAt(e.ID, strconv.FormatUint(*e.Generation, 10))
		}
	}
	return err
}

// tooLarge refuses amounts above api.AmountMax, which no inventory can allocate.
func tooLarge(shares []api.Share) error {
	for _, sh := range shares {
		for _, class := range sh.Resources.Classes() {
			if n := sh.Resources[class]; n > api.AmountMax {
				return claimRefused(api.Errorf(api.CodeNoCapacity, "no provider hands out %d of %s at once", n, class))
			}
		}
	}
	return nil
}

func providerID(text string) api.ProviderID {
	if id, ok := openstack.ParseUUID(text); ok {
		return api.ProviderID(id)
	}
	return api.ProviderID(text)
}

// readAmounts reads amounts that match resourcesSchema.
func readAmounts(v any) api.Resources {
	out := api.Resources{}
	all, _ := v.(map[string]any)
	for class, n := range all {
		out[api.ResourceClass(class)], _ = n.(int64)
	}
	return out
}
