package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"berth/api"
	"berth/api/rest"
)

// Provider is a resource provider of the placement API.
type Provider struct {
	ID         api.ProviderID `json:"uuid"`
	Name       string         `json:"name"`
	Generation uint64         `json:"generation"`
	Parent     api.ProviderID `json:"parent_provider_uuid"` // "" for a root
	Root       api.ProviderID `json:"root_provider_uuid"`
}

// ProviderQuery selects providers, which must meet all its conditions; the zero value means
// all providers.
type ProviderQuery struct {
	ID        api.ProviderID
	Name      string
	InTree    api.ProviderID // in the tree of this provider
	Resources api.Resources  // with room for this much
	// Required has conditions on traits: each is "T1,!T2", all of which must hold, or
	// "in:T1,T2", one of them. MemberOf has conditions on aggregates: each is "U",
	// "in:U1,U2", "!U" or "!in:U1,U2".
	Required, MemberOf []string
}

func (q *ProviderQuery) values() url.Values {
	v := queryOf(map[string]string{
		"uuid": string(q.ID), "name": q.Name, "in_tree": string(q.InTree), "resources": showAmounts(q.Resources),
	})
	addRepeated(v, "required", q.Required)
	addRepeated(v, "member_of", q.MemberOf)
	return v
}

// ProviderSpec has the fields of a provider to set.
type ProviderSpec struct {
	ID     api.ProviderID // of a new one; "" to generate it
	Name   string
	Parent *api.ProviderID // nil leaves it as it is, "" makes it a root
}

// specBody returns the body for the placement API.
func (s *ProviderSpec) specBody() map[string]any {
	b := map[string]any{"name": s.Name}
	if s.ID != "" {
		b["uuid"] = s.ID
	}
	if s.Parent != nil {
		b["parent_provider_uuid"] = nil
		if *s.Parent != "" {
			b["parent_provider_uuid"] = *s.Parent
		}
	}
	return b
}

// Providers returns the providers of the zone that match q, hosts among them. It
// may be repeated.
func (c *Client) Providers(ctx context.Context, q ProviderQuery) ([]Provider, error) {
	k := placementCall("client.Providers", http.MethodGet, "resource_providers")
	k.query, k.most = q.values(), ProvidersMaxBytes
	return placementValue[[]Provider](ctx, c, k, "resource_providers")
}

// Provider returns one provider. It may be repeated.
func (c *Client) Provider(ctx context.Context, id api.ProviderID) (Provider, error) {
	return placementAnswer[Provider](ctx, c, placementCall("client.Provider", http.MethodGet, "resource_providers", string(id)))
}

// nameCallsMax is the number of providers up to which ProviderNames makes a call for each;
// for more names it lists all at once.
const nameCallsMax = 32

// ProviderNames returns the names of providers by id, "" for a deleted one or one without a
// name. It may be repeated.
func (c *Client) ProviderNames(ctx context.Context, ids ...api.ProviderID) (map[api.ProviderID]string, error) {
	out := map[api.ProviderID]string{}
	for _, id := range ids {
		if id != "" {
			out[id] = ""
		}
	}
	if len(out) > nameCallsMax {
		all, err := c.Providers(ctx, ProviderQuery{})
		for _, p := range all {
			out[p.ID] = p.Name
		}
		return out, err
	}
	for _, id := range slices.Sorted(maps.Keys(out)) {
		p, err := c.Provider(ctx, id)
		if err != nil && api.CodeOf(err) != api.CodeNotFound {
			return nil, err
		}
		out[id] = p.Name
	}
	return out, nil
}

// CreateProvider creates a provider that is not a host. An error has code exists if its
// name or id is taken. It is not repeated.
func (c *Client) CreateProvider(ctx context.Context, s ProviderSpec) (Provider, error) {
	k := placementCall("client.CreateProvider", http.MethodPost, "resource_providers")
	k.in = s.specBody()
	return placementAnswer[Provider](ctx, c, k)
}

// UpdateProvider gives a provider the name s.Name and, unless s.Parent is nil, a
// parent. It needs no generation, and of two concurrent updates the later one wins. It
// may be repeated.
func (c *Client) UpdateProvider(ctx context.Context, id api.ProviderID, s ProviderSpec) (Provider, error) {
	k := placementCall("client.UpdateProvider", http.MethodPut, "resource_providers", string(id))
	s.ID = ""
	k.in, k.repeats = s.specBody(), true
	return placementAnswer[Provider](ctx, c, k)
}

// DeleteProvider deletes a provider. An error has code in_use while it has allocations, and
// has_children while it has children. It may be repeated.
func (c *Client) DeleteProvider(ctx context.Context, id api.ProviderID) error {
	return c.callNothing(ctx, placementDelete("client.DeleteProvider", "resource_providers", string(id)))
}

// Inventories are the inventories of a provider at one of its generations.
type Inventories struct {
	Generation  uint64                               `json:"resource_provider_generation"`
	Inventories map[api.ResourceClass]rest.Inventory `json:"inventories"`
}

// stock is an inventory in the form of the placement API: absent fields have its defaults.
type stock struct {
	Generation *uint64   `json:"resource_provider_generation,omitempty"`
	Total      int64     `json:"total"`
	Reserved   *int64    `json:"reserved,omitempty"`
	MinUnit    int64     `json:"min_unit,omitempty"`
	MaxUnit    int64     `json:"max_unit,omitempty"`
	StepSize   int64     `json:"step_size,omitempty"`
	Ratio      api.Ratio `json:"allocation_ratio,omitempty"`
}

// stockOf leaves out what is zero, or a negative reserve: of a class that an agent reports that follows
// the agent.
func stockOf(v rest.Inventory) stock {
	out := stock{Total: v.Total, MinUnit: v.MinUnit, MaxUnit: v.MaxUnit, StepSize: v.StepSize, Ratio: v.AllocationRatio}
	if v.Reserved >= 0 {
		out.Reserved = &v.Reserved
	}
	return out
}

// stocks is Inventories in the form of the placement API.
type stocks struct {
	Generation  uint64                      `json:"resource_provider_generation"`
	Inventories map[api.ResourceClass]stock `json:"inventories"`
}

func stocksOf(v Inventories) stocks {
	out := stocks{Generation: v.Generation, Inventories: map[api.ResourceClass]stock{}}
	for class, i := range v.Inventories {
		out.Inventories[class] = stockOf(i)
	}
	return out
}

// Inventories returns the inventories of a provider. It may be repeated.
func (c *Client) Inventories(ctx context.Context, id api.ProviderID) (Inventories, error) {
	return placementAnswer[Inventories](ctx, c, placementCall("client.Inventories", http.MethodGet, "resource_providers", string(id), "inventories"))
}

// SetInventories replaces all inventories of a provider. Zero units, a zero ratio and a negative reserve
// are not sent: they have the default, or what the agent of a host reports. An error has code
// stale_generation if the provider is no longer at v.Generation, and in_use if a class
// that is left out is in use. It is not repeated: after a lost answer read again.
func (c *Client) SetInventories(ctx context.Context, id api.ProviderID, v Inventories) (Inventories, error) {
	k := placementCall("client.SetInventories", http.MethodPut, "resource_providers", string(id), "inventories")
	k.in = stocksOf(v)
	return placementAnswer[Inventories](ctx, c, k)
}

// SetInventory replaces one existing class of a provider; see SetInventories.
// It returns the provider's new generation.
func (c *Client) SetInventory(
	ctx context.Context, id api.ProviderID, generation uint64, class api.ResourceClass, v rest.Inventory,
) (uint64, error) {
	k := placementCall("client.SetInventory", http.MethodPut, "resource_providers", string(id), "inventories", string(class))
	in := stockOf(v)
	in.Generation = &generation
	k.in = in
	return placementValue[uint64](ctx, c, k, "resource_provider_generation")
}

// DeleteInventory removes one class from a provider. An error has code in_use while it is
// in use, and not_found if the provider does not have it. It may be repeated.
func (c *Client) DeleteInventory(ctx context.Context, id api.ProviderID, class api.ResourceClass) error {
	err := c.callNothing(ctx, placementDelete("client.DeleteInventory", "resource_providers", string(id), "inventories", string(class)))
	return withCode(err, api.CodeStale, api.CodeInUse) // it has no generation: the API reports a use in this way
}

// DeleteInventories removes all classes from a provider. An error has code in_use while any
// of them is in use. It may be repeated.
func (c *Client) DeleteInventories(ctx context.Context, id api.ProviderID) error {
	k := placementCall("client.DeleteInventories", http.MethodDelete, "resource_providers", string(id), "inventories")
	k.repeats = true
	return c.callNothing(ctx, k)
}

// ProviderTraits are the traits of a provider, at a generation of the provider.
type ProviderTraits struct {
	Generation uint64   `json:"resource_provider_generation"`
	Traits     []string `json:"traits"`
}

// ProviderTraits returns the traits of a provider. It may be repeated.
func (c *Client) ProviderTraits(ctx context.Context, id api.ProviderID) (ProviderTraits, error) {
	return placementAnswer[ProviderTraits](ctx, c, placementCall("client.ProviderTraits", http.MethodGet, "resource_providers", string(id), "traits"))
}

// SetProviderTraits replaces the traits of a provider, which must exist. An error
// has code stale_generation if the provider is no longer at t.Generation. It is not
// repeated.
func (c *Client) SetProviderTraits(ctx context.Context, id api.ProviderID, t ProviderTraits) (ProviderTraits, error) {
	k := placementCall("client.SetProviderTraits", http.MethodPut, "resource_providers", string(id), "traits")
	t.Traits = append([]string{}, t.Traits...) // never null
	k.in = t
	return placementAnswer[ProviderTraits](ctx, c, k)
}

// ProviderAggregates are the aggregates that a provider is a member of, at a
// generation of the provider. They are UUIDs; none needs to exist.
type ProviderAggregates struct {
	Generation uint64   `json:"resource_provider_generation"`
	Aggregates []string `json:"aggregates"`
}

// ProviderAggregates returns the aggregates of a provider. It may be repeated.
func (c *Client) ProviderAggregates(ctx context.Context, id api.ProviderID) (ProviderAggregates, error) {
	return placementAnswer[ProviderAggregates](ctx, c,
		placementCall("client.ProviderAggregates", http.MethodGet, "resource_providers", string(id), "aggregates"))
}

// SetProviderAggregates replaces the aggregates of a provider. An error has code
// stale_generation if the provider is no longer at a.Generation. It is not repeated.
func (c *Client) SetProviderAggregates(ctx context.Context, id api.ProviderID, a ProviderAggregates) (ProviderAggregates, error) {
	k := placementCall("client.SetProviderAggregates", http.MethodPut, "resource_providers", string(id), "aggregates")
	a.Aggregates = append([]string{}, a.Aggregates...) // never null
	k.in = a
	return placementAnswer[ProviderAggregates](ctx, c, k)
}

// ProviderUsages is the usage of each class of a provider.
type ProviderUsages struct {
	Generation uint64        `json:"resource_provider_generation"`
	Usages     api.Resources `json:"usages"` // 0 for unused classes
}

// ProviderUsages returns the usage of a provider. It may be repeated.
func (c *Client) ProviderUsages(ctx context.Context, id api.ProviderID) (ProviderUsages, error) {
	return placementAnswer[ProviderUsages](ctx, c, placementCall("client.ProviderUsages", http.MethodGet, "resource_providers", string(id), "usages"))
}

// ProviderAllocations are the allocations from a provider, by consumer.
type ProviderAllocations struct {
	Generation  uint64                         `json:"resource_provider_generation"`
	Allocations map[api.ConsumerID]ConsumerUse `json:"allocations"`
}

// ConsumerUse is the allocation of one consumer from one provider.
type ConsumerUse struct {
	Resources  api.Resources `json:"resources"`
	Generation uint64        `json:"consumer_generation"` // of the consumer
}

// ProviderAllocations returns the allocations from a provider. It may be repeated.
func (c *Client) ProviderAllocations(ctx context.Context, id api.ProviderID) (ProviderAllocations, error) {
	k := placementCall("client.ProviderAllocations", http.MethodGet, "resource_providers", string(id), "allocations")
	k.most = ProvidersMaxBytes
	return placementAnswer[ProviderAllocations](ctx, c, k)
}
