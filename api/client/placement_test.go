package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// placementCalls makes each call of the placement API once.
func placementCalls(ctx context.Context, c *client.Client) []func() error {
	do := func(_ any, err error) error { return err }
	parent, none, three, yes, no := api.ProviderID("p-0"), api.ProviderID(""), uint64(3), true, false
	stock := map[api.ResourceClass]rest.Inventory{"DISK_GB": {Total: 100, Reserved: 1, MinUnit: 2, MaxUnit: 50, StepSize: 2, AllocationRatio: 15_000}, "VCPU": {Total: 8}}
	held := client.Allocations{
		Allocations: map[api.ProviderID]client.Allocated{"p-1": {Resources: api.Resources{"VCPU": 1}, Generation: 9}},
		Project:     "p", User: "u", Type: "INSTANCE", Generation: &three,
	}
	return []func() error{
		func() error { return do(c.Providers(ctx, client.ProviderQuery{})) },
		func() error {
			return do(c.Providers(ctx, client.ProviderQuery{
				ID: "p-1", Name: "a b", InTree: "p-0", Resources: api.Resources{"VCPU": 1, "DISK_GB": 10},
				Required: []string{"T1,!T2", "in:T3,T4"}, MemberOf: []string{"in:a,b", "!c"},
			}))
		},
		func() error { return do(c.Linearizable().Provider(ctx, "p-1")) },
		func() error { return do(c.CreateProvider(ctx, client.ProviderSpec{Name: "pool"})) },
		func() error {
			return do(c.CreateProvider(ctx, client.ProviderSpec{ID: "p-1", Name: "pool", Parent: &parent}))
		},
		func() error { return do(c.UpdateProvider(ctx, "p-1", client.ProviderSpec{Name: "pool"})) },
		func() error {
			return do(c.UpdateProvider(ctx, "p-1", client.ProviderSpec{Name: "pool", Parent: &none}))
		},
		func() error { return c.DeleteProvider(ctx, "p-1") },
		func() error { return do(c.Inventories(ctx, "p-1")) },
		func() error {
			return do(c.SetInventories(ctx, "p-1", client.Inventories{Generation: 3, Inventories: stock}))
		},
		func() error { return do(c.SetInventories(ctx, "p-1", client.Inventories{})) },
		func() error { return do(c.SetInventory(ctx, "p-1", 0, "VCPU", rest.Inventory{Total: 8})) },
		func() error { return c.DeleteInventory(ctx, "p-1", "VCPU") },
		func() error { return c.DeleteInventories(ctx, "p-1") },
		func() error { return do(c.ProviderTraits(ctx, "p-1")) },
		func() error {
			return do(c.SetProviderTraits(ctx, "p-1", client.ProviderTraits{Generation: 3, Traits: []string{"CUSTOM_A"}}))
		},
		func() error { return do(c.SetProviderTraits(ctx, "p-1", client.ProviderTraits{})) },
		func() error { return do(c.ProviderAggregates(ctx, "p-1")) },
		func() error {
			return do(c.SetProviderAggregates(ctx, "p-1", client.ProviderAggregates{Generation: 3, Aggregates: []string{"a"}}))
		},
		func() error { return do(c.SetProviderAggregates(ctx, "p-1", client.ProviderAggregates{})) },
		func() error { return do(c.ProviderUsages(ctx, "p-1")) },
		func() error { return do(c.ProviderAllocations(ctx, "p-1")) },
		func() error { return do(c.ResourceClasses(ctx)) },
		func() error { return c.CreateResourceClass(ctx, "CUSTOM_A") },
		func() error { return c.DeleteResourceClass(ctx, "CUSTOM_A") },
		func() error { return do(c.Traits(ctx, client.TraitQuery{})) },
		func() error {
			return do(c.Traits(ctx, client.TraitQuery{Names: []string{"A", "B"}, Associated: &yes}))
		},
		func() error { return do(c.Traits(ctx, client.TraitQuery{Prefix: "CUSTOM_", Associated: &no})) },
		func() error { return c.CreateTrait(ctx, "CUSTOM_A") },
		func() error { return c.DeleteTrait(ctx, "CUSTOM_A") },
		func() error { return do(c.Allocations(ctx, "c-1")) },
		func() error { return c.PutAllocations(ctx, "c-1", held) },
		func() error {
			return c.PutAllocations(ctx, "c-1", client.Allocations{Project: "p", User: "u", Type: "INSTANCE"})
		},
		func() error {
			return c.PostAllocations(ctx, map[api.ConsumerID]client.Allocations{"c-1": held, "c-2": {Project: "p", User: "u", Type: "T"}})
		},
		func() error { return c.DeleteAllocations(ctx, "c-1") },
		func() error { return do(c.Usages(ctx, "p", "")) },
		func() error { return do(c.Usages(ctx, "p", "u")) },
		func() error {
			return do(c.Candidates(ctx, client.CandidateQuery{Groups: []client.CandidateGroup{{Resources: api.Resources{"VCPU": 1}}}}))
		},
		func() error {
			return do(c.Candidates(ctx, client.CandidateQuery{
				Groups: []client.CandidateGroup{
					{Resources: api.Resources{"VCPU": 1, "MEMORY_MB": 512}, Required: []string{"T1,!T2"}, MemberOf: []string{"a", "!b"}, InTree: "p-0"},
					{Suffix: "_gpu", Resources: api.Resources{"PGPU": 1}, Required: []string{"in:A,B"}},
					{Suffix: "_net", Resources: api.Resources{"SRIOV_NET_VF": 1}},
					{Suffix: "_numa", Required: []string{"HW_NUMA_ROOT"}},
				},
				SameSubtree: [][]string{{"_gpu", "_net", "_numa"}}, RootRequired: "A,!B", Limit: 5,
			}))
		},
		func() error {
			return do(c.Candidates(ctx, client.CandidateQuery{Groups: []client.CandidateGroup{{Suffix: "1", Resources: api.Resources{"VCPU": 1}}}, Isolate: true}))
		},
		func() error { return c.Reshape(ctx, client.Reshape{}) },
		func() error {
			return c.Reshape(ctx, client.Reshape{
				Inventories: map[api.ProviderID]client.Inventories{"p-1": {Generation: 3, Inventories: stock}},
				Allocations: map[api.ConsumerID]client.Allocations{"c-1": held},
			})
		},
	}
}

// placed returns a refusal in the shape of the placement API.
func placed(status int, code string) string {
	return fmt.Sprintf(`{"errors": [{"status": %d, "title": "No", "detail": "it is\n  not so: \n", "code": %q, "request_id": "req-p"}]}`, status, code)
}

func TestPlacementErrorsBecomeOurs(t *testing.T) {
	const undefined = "placement.undefined_code"
	create := func(ctx context.Context, c *client.Client) error {
		_, err := c.CreateProvider(ctx, client.ProviderSpec{Name: "a"})
		return err
	}
	put := func(ctx context.Context, c *client.Client) error {
		return c.PutAllocations(ctx, "c", client.Allocations{})
	}
	post := func(ctx context.Context, c *client.Client) error { return c.PostAllocations(ctx, nil) }
	reshape := func(ctx context.Context, c *client.Client) error { return c.Reshape(ctx, client.Reshape{}) }
	class := func(ctx context.Context, c *client.Client) error { return c.DeleteResourceClass(ctx, "CUSTOM_A") }
	trait := func(ctx context.Context, c *client.Client) error { return c.DeleteTrait(ctx, "CUSTOM_A") }
	inventory := func(ctx context.Context, c *client.Client) error { return c.DeleteInventory(ctx, "p", "VCPU") }
	inventories := func(ctx context.Context, c *client.Client) error { return c.DeleteInventories(ctx, "p") }
	for _, x := range []struct {
		do     func(context.Context, *client.Client) error
		status int
		code   string
		want   api.Code
	}{
		{create, 409, "placement.duplicate_name", api.CodeExists},
		{create, 409, "placement.concurrent_update", api.CodeStale},
		{create, 409, undefined, api.CodeConflict},
		{create, 409, "placement.new", api.CodeConflict},
		{create, 409, "placement.resource_provider.inuse", api.CodeInUse},
		{create, 409, "placement.resource_provider.cannot_delete_parent", api.CodeHasChildren},
		{create, 400, undefined, api.CodeInvalid},
		{create, 400, "placement.query.duplicate_key", api.CodeInvalid},
		{create, 400, "placement.query.bad_value", api.CodeInvalid},
		{create, 400, "placement.query.missing_value", api.CodeInvalid},
		{create, 401, undefined, api.CodeUnauthenticated},
		{create, 403, undefined, api.CodeForbidden},
		{create, 404, undefined, api.CodeNotFound},
		{create, 405, undefined, api.CodeMethod},
		{create, 406, undefined, api.CodeInvalid},
		{create, 413, undefined, api.CodeTooLarge},
		{create, 415, undefined, api.CodeMediaType},
		{create, 429, undefined, api.CodeOverloaded},
		{create, 500, undefined, api.CodeInternal},
		{create, 503, undefined, api.CodeUnavailable},
		{create, 504, undefined, api.CodeTimeout},
		{put, 409, undefined, api.CodeNoCapacity},
		{post, 409, undefined, api.CodeNoCapacity},
		{put, 409, "placement.concurrent_update", api.CodeStale},
		{put, 400, undefined, api.CodeInvalid},
		{reshape, 409, undefined, api.CodeNoCapacity},
		{reshape, 400, "placement.resource_provider.not_found", api.CodeNotFound},
		{reshape, 409, "placement.inventory.inuse", api.CodeInUse},
		{class, 409, undefined, api.CodeInUse},
		{trait, 409, undefined, api.CodeInUse},
		{inventory, 409, "placement.concurrent_update", api.CodeInUse},
		{inventories, 409, "placement.inventory.inuse", api.CodeInUse},
	} {
		synctest.Test(t, func(t *testing.T) { // some are repeated
			c, _ := talk(t, func(int, *http.Request) (*http.Response, error) { return reply(x.status, placed(x.status, x.code)) })
			err := x.do(t.Context(), c)
			e, ok := errors.AsType[*api.Error](err)
			require.True(t, ok, "%v", x)
			assert.Equal(t, x.want, e.Code, "%d %s", x.status, x.code)
			assert.Equal(t, "it is not so:", e.Msg)
			assert.Equal(t, api.RequestID("req-p"), client.RequestIDOf(err))
		})
	}
}

func TestPlacementErrorsThatSayLittle(t *testing.T) {
	for body, says := range map[string]string{
		`{"errors": [{"title": "Conflict"}]}`: "Conflict",
		`{"errors": []}`:                      "not from a zone of Berth",
		`{"errors": 1}`:                       "not from a zone of Berth",
		`<html>`:                              "not from a zone of Berth",
		`{"error": {"code": "conflict", "message": "as all calls say it"}}`: "as all calls say it",
	} {
		c := at(t, answers(http.StatusConflict, body))
		_, err := c.CreateProvider(t.Context(), client.ProviderSpec{Name: "a"})
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), body)
		assert.ErrorContains(t, err, says, body)
	}
}

func TestPlacementAnswersAreRead(t *testing.T) {
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{
			"/placement/resource_providers": `{"resource_providers": [{"uuid": "p-1", "name": "pool", "generation": 4, "parent_provider_uuid": null,
				"root_provider_uuid": "p-1", "links": [{"rel": "self", "href": "/x"}]}]}`,
			"/placement/resource_providers/p-1/inventories": `{"resource_provider_generation": 4, "inventories": {"DISK_GB":
				{"total": 100, "reserved": 0, "min_unit": 1, "max_unit": 2147483647, "step_size": 1, "allocation_ratio": 1.5}}}`,
			"/placement/resource_providers/p-1/allocations": `{"resource_provider_generation": 4, "allocations": {"c-1": {"resources": {"DISK_GB": 5}, "consumer_generation": 2}}}`,
			"/placement/allocations/c-1":                    `{"allocations": {"p-1": {"resources": {"DISK_GB": 5}, "generation": 4}}, "project_id": "p", "user_id": "u", "consumer_generation": 2, "consumer_type": "T"}`,
			"/placement/allocations/c-2":                    `{"allocations": {}}`,
			"/placement/usages":                             `{"usages": {"T": {"consumer_count": 2, "VCPU": 3}, "INSTANCE": {"consumer_count": 1, "VCPU": 1, "DISK_GB": 5}}}`,
			"/placement/resource_classes":                   `{"resource_classes": [{"name": "VCPU", "links": []}, {"name": "DISK_GB", "links": []}]}`,
			"/placement/traits":                             `{"traits": ["B", "A"]}`,
			"/placement/allocation_candidates": `{"allocation_requests": [{"allocations": {"p-1": {"resources": {"DISK_GB": 5}}}, "mappings": {"": ["p-1"]}}],
				"provider_summaries": {"p-1": {"resources": {"DISK_GB": {"capacity": 150, "used": 5}}, "traits": ["A"], "parent_provider_uuid": null, "root_provider_uuid": "p-1"}}}`,
		}[r.URL.Path]
		answers(http.StatusOK, body)(w, r)
	})
	ctx := t.Context()
	providers, err := c.Providers(ctx, client.ProviderQuery{})
	require.NoError(t, err)
	assert.Equal(t, []client.Provider{{ID: "p-1", Name: "pool", Generation: 4, Root: "p-1"}}, providers)
	stock, err := c.Inventories(ctx, "p-1")
	require.NoError(t, err)
	assert.Equal(t, client.Inventories{Generation: 4, Inventories: map[api.ResourceClass]rest.Inventory{
		"DISK_GB": {Total: 100, MinUnit: 1, MaxUnit: api.UnitMax, StepSize: 1, AllocationRatio: 15_000},
	}}, stock)
	users, err := c.ProviderAllocations(ctx, "p-1")
	require.NoError(t, err)
	assert.Equal(t, map[api.ConsumerID]client.ConsumerUse{"c-1": {Resources: api.Resources{"DISK_GB": 5}, Generation: 2}}, users.Allocations)
	held, err := c.Allocations(ctx, "c-1")
	require.NoError(t, err)
	require.NotNil(t, held.Generation)
	assert.Equal(t, uint64(2), *held.Generation)
	assert.Equal(t, "T", held.Type)
	held, err = c.Allocations(ctx, "c-2")
	require.NoError(t, err)
	assert.Nil(t, held.Generation)
	sums, err := c.Usages(ctx, "p", "")
	require.NoError(t, err)
	assert.Equal(t, []client.Usage{
		{Type: "INSTANCE", Consumers: 1, Resources: api.Resources{"VCPU": 1, "DISK_GB": 5}}, {Type: "T", Consumers: 2, Resources: api.Resources{"VCPU": 3}},
	}, sums)
	classes, err := c.ResourceClasses(ctx)
	require.NoError(t, err)
	assert.Equal(t, []api.ResourceClass{"DISK_GB", "VCPU"}, classes)
	traits, err := c.Traits(ctx, client.TraitQuery{})
	require.NoError(t, err)
	assert.Equal(t, []string{"A", "B"}, traits)
	found, err := c.Candidates(ctx, client.CandidateQuery{})
	require.NoError(t, err)
	assert.Equal(t, client.ClassSummary{Capacity: 150, Used: 5}, found.Summaries["p-1"].Resources["DISK_GB"])
	assert.Equal(t, map[string][]api.ProviderID{"": {"p-1"}}, found.Requests[0].Mappings)
}

// endless is a text without an end that is no JSON.
type endless struct{}

var block = strings.Repeat("<", 1<<20)

func (endless) Read(b []byte) (int, error) { return copy(b, block), nil }

// An answer that is not too long is read, and found to be a refusal.
func TestAnswersOfTheLargestZoneAreRead(t *testing.T) {
	for extra, code := range map[int64]api.Code{0: api.CodeNotFound, 1: api.CodeTooLarge} {
		c, _ := talk(t, func(int, *http.Request) (*http.Response, error) {
			body := io.NopCloser(io.LimitReader(endless{}, client.ProvidersMaxBytes+extra))
			return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: body}, nil
		})
		_, err := c.Providers(t.Context(), client.ProviderQuery{})
		assert.Equal(t, code, api.CodeOf(err), "limit and %d", extra)
	}
}
