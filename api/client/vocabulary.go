package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"berth/api"
)

// ResourceClasses returns the resource classes that may be used, in order. It may
// be repeated.
func (c *Client) ResourceClasses(ctx context.Context) ([]api.ResourceClass, error) {
	list, err := placementValue[[]struct {
		Name api.ResourceClass `json:"name"`
	}](ctx, c, placementCall("client.ResourceClasses", http.MethodGet, "resource_classes"), "resource_classes")
	return sortedNames(list), err
}

// CreateResourceClass creates a resource class with the prefix CUSTOM_; an existing one
// stays as it is. It may be repeated.
func (c *Client) CreateResourceClass(ctx context.Context, name api.ResourceClass) error {
	k := placementCall("client.CreateResourceClass", http.MethodPut, "resource_classes", string(name))
	k.repeats = true
	return c.callNothing(ctx, k)
}

// DeleteResourceClass deletes a custom resource class. An error has code in_use while a
// provider has some of it. It may be repeated.
func (c *Client) DeleteResourceClass(ctx context.Context, name api.ResourceClass) error {
	k := placementDelete("client.DeleteResourceClass", "resource_classes", string(name))
	k.conflict = api.CodeInUse
	return c.callNothing(ctx, k)
}

// TraitQuery selects traits; the zero value means all.
type TraitQuery struct {
	Names      []string // only these, if they exist
	Prefix     string   // only those with this prefix; not together with Names
	Associated *bool    // only those that a provider has, or only those that none has
}

// Traits returns the traits that match q, in order. It may be repeated.
func (c *Client) Traits(ctx context.Context, q TraitQuery) ([]string, error) {
	k := placementCall("client.Traits", http.MethodGet, "traits")
	params := map[string]string{}
	switch {
	case len(q.Names) > 0:
		params["name"] = "in:" + strings.Join(q.Names, ",")
	case q.Prefix != "":
		params["name"] = "startswith:" + q.Prefix
	}
	if q.Associated != nil {
		params["associated"] = "false"
		if *q.Associated {
			params["associated"] = "true"
		}
	}
	k.query, k.most = queryOf(params), ProvidersMaxBytes
	list, err := placementValue[[]string](ctx, c, k, "traits")
	slices.Sort(list)
	return list, err
}

// CreateTrait creates a trait with the prefix CUSTOM_; an existing one stays as it is. It
// may be repeated.
func (c *Client) CreateTrait(ctx context.Context, name string) error {
	k := placementCall("client.CreateTrait", http.MethodPut, "traits", name)
	k.repeats = true
	return c.callNothing(ctx, k)
}

// DeleteTrait deletes a custom trait. An error has code in_use while a
// provider has it. It may be repeated.
func (c *Client) DeleteTrait(ctx context.Context, name string) error {
	k := placementDelete("client.DeleteTrait", "traits", name)
	k.conflict = api.CodeInUse
	return c.callNothing(ctx, k)
}

// withCode returns err with code to if it has code from.
func withCode(err error, from, to api.Code) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != from {
		return err
	}
	other := *e
	other.Code = to
	return &other
}
