package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"berth/api"
)

// Allocations are all allocations of one consumer, with its owner and type.
type Allocations struct {
	Allocations map[api.ProviderID]Allocated `json:"allocations"`
	Project     api.ProjectID                `json:"project_id"`
	User        api.UserID                   `json:"user_id"`
	Type        string                       `json:"consumer_type"`       // A-Z 0-9 _, such as INSTANCE
	Generation  *uint64                      `json:"consumer_generation"` // nil for a consumer that must be new, or does not exist
	// Mappings have the providers of each group of a query. They are optional, for
	// writing those of a candidate.
	Mappings map[string][]api.ProviderID `json:"mappings,omitempty"`
}

// Allocated is the allocation of one consumer from one provider.
type Allocated struct {
	Resources  api.Resources `json:"resources"`
	Generation uint64        `json:"generation,omitempty"` // of the provider; only on read
}

// writtenForm returns a in the form that the placement API takes.
func (a Allocations) writtenForm() Allocations {
	clean := map[api.ProviderID]Allocated{} // never null
	for id, p := range a.Allocations {
		clean[id] = Allocated{Resources: p.Resources}
	}
	a.Allocations = clean
	return a
}

// Allocations returns the allocations of a consumer: none, without a generation, if there
// is no such consumer. It may be repeated.
func (c *Client) Allocations(ctx context.Context, id api.ConsumerID) (Allocations, error) {
	return placementAnswer[Allocations](ctx, c, placementCall("client.Allocations", http.MethodGet, "allocations", string(id)))
}

// PutAllocations replaces all allocations of a consumer; with none it deletes them. An
// error has code stale_generation if the consumer is no longer at a.Generation, and
// no_capacity if a provider has no room, or does not allocate such amounts. It is not
// repeated: after a lost answer read again, as Claim does.
func (c *Client) PutAllocations(ctx context.Context, id api.ConsumerID, a Allocations) error {
	k := placementCall("client.PutAllocations", http.MethodPut, "allocations", string(id))
	k.in, k.conflict = a.writtenForm(), api.CodeNoCapacity
	return c.callNothing(ctx, k)
}

// PostAllocations is PutAllocations for several consumers, all of them or none.
func (c *Client) PostAllocations(ctx context.Context, all map[api.ConsumerID]Allocations) error {
	k := placementCall("client.PostAllocations", http.MethodPost, "allocations")
	k.in, k.conflict = writtenAll(all), api.CodeNoCapacity
	return c.callNothing(ctx, k)
}

func writtenAll(all map[api.ConsumerID]Allocations) map[api.ConsumerID]Allocations {
	out := map[api.ConsumerID]Allocations{} // never null
	for id, a := range all {
		out[id] = a.writtenForm()
	}
	return out
}

// DeleteAllocations deletes the allocations of a consumer. An error has code not_found if
// it has none. It may be repeated.
func (c *Client) DeleteAllocations(ctx context.Context, id api.ConsumerID) error {
	return c.callNothing(ctx, placementDelete("client.DeleteAllocations", "allocations", string(id)))
}

// Usage is the total usage of the consumers of one type.
type Usage struct {
	Type      string        // "unknown" for consumers without a type
	Consumers int64         // number of consumers
	Resources api.Resources // sums
}

// Usages returns the usage by type of the consumers of a project, or with user of those of
// one user in it. It may be repeated.
func (c *Client) Usages(ctx context.Context, project api.ProjectID, user api.UserID) ([]Usage, error) {
	k := placementCall("client.Usages", http.MethodGet, "usages")
	k.query = queryOf(map[string]string{"project_id": string(project), "user_id": string(user)})
	told, err := placementValue[map[string]map[string]int64](ctx, c, k, "usages")
	if err != nil {
		return nil, err
	}
	const count = "consumer_count" // beside the classes
	var out []Usage
	for kind, sums := range told {
		u := Usage{Type: kind, Consumers: sums[count], Resources: api.Resources{}}
		for class, n := range sums {
			if class != count {
				u.Resources[api.ResourceClass(class)] = n
			}
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Usage) int { return cmp.Compare(a.Type, b.Type) })
	return out, nil
}

// CandidateQuery describes resources to allocate together, from one tree of providers and
// those that share with it.
type CandidateQuery struct {
	Groups []CandidateGroup
	// Isolate requires a different provider for each group with a suffix.
	Isolate bool
	// SameSubtree has lists of suffixes: the providers of each list are all at or below
	// one of them.
	SameSubtree  [][]string
	RootRequired string // "T1,!T2": traits of the root of the tree
	Limit        int    // candidates, 1 to api.CandidatesCallMax; 0 for the zone's default
}

// CandidateGroup is one part of a CandidateQuery. A group with a suffix is served by one
// provider; the group without one may be spread, but each class comes from one provider.
type CandidateGroup struct {
	Suffix    string // 1 to 64 characters of A-Z a-z 0-9 _ -; "" for the one group without
	Resources api.Resources
	Required  []string // as in ProviderQuery
	MemberOf  []string // as in ProviderQuery
	InTree    api.ProviderID
}

func (q *CandidateQuery) values() url.Values {
	v := url.Values{}
	groups := 0
	for i := range q.Groups {
		g := &q.Groups[i]
		if len(g.Resources) > 0 {
			v.Set("resources"+g.Suffix, showAmounts(g.Resources))
		}
		addRepeated(v, "required"+g.Suffix, g.Required)
		addRepeated(v, "member_of"+g.Suffix, g.MemberOf)
		if g.InTree != "" {
			v.Set("in_tree"+g.Suffix, string(g.InTree))
		}
		if g.Suffix != "" {
			groups++
		}
	}
	switch {
	case q.Isolate:
		v.Set("group_policy", "isolate")
	case groups > 1: // it is required
		v.Set("group_policy", "none")
	}
	for _, list := range q.SameSubtree {
		v.Add("same_subtree", strings.Join(list, ","))
	}
	if q.RootRequired != "" {
		v.Set("root_required", q.RootRequired)
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// Candidates are ways to serve a CandidateQuery, in the zone's order, with summaries of the
// providers of their trees.
type Candidates struct {
	Requests  []Candidate                        `json:"allocation_requests"`
	Summaries map[api.ProviderID]ProviderSummary `json:"provider_summaries"`
}

// Candidate is one way to serve a CandidateQuery.
type Candidate struct {
	Allocations map[api.ProviderID]Allocated `json:"allocations"`
	Mappings    map[string][]api.ProviderID  `json:"mappings"` // by suffix
}

// ProviderSummary is the summary of one provider in Candidates.
type ProviderSummary struct {
	Resources map[api.ResourceClass]ClassSummary `json:"resources"`
	Traits    []string                           `json:"traits"`
	Parent    api.ProviderID                     `json:"parent_provider_uuid"`
	Root      api.ProviderID                     `json:"root_provider_uuid"`
}

// ClassSummary is the capacity and usage of one class of a provider.
type ClassSummary struct {
	Capacity int64 `json:"capacity"`
	Used     int64 `json:"used"`
}

// Candidates returns ways to serve q that have room now; see Claim for how to take
// one of them. It may be repeated.
func (c *Client) Candidates(ctx context.Context, q CandidateQuery) (Candidates, error) {
	k := placementCall("client.Candidates", http.MethodGet, "allocation_candidates")
	k.query, k.most = q.values(), ProvidersMaxBytes
	return placementAnswer[Candidates](ctx, c, k)
}

// Reshape replaces the inventories of some providers and the allocations of some
// consumers in one step. Each has the generation that was seen.
type Reshape struct {
	Inventories map[api.ProviderID]Inventories
	Allocations map[api.ConsumerID]Allocations
}

// Reshape moves inventories and their allocations between providers: all of it or nothing.
// An error has code stale_generation if anything is no longer at its generation. It is
// not repeated.
func (c *Client) Reshape(ctx context.Context, r Reshape) error {
	in := struct {
		Inventories map[api.ProviderID]stocks      `json:"inventories"`
		Allocations map[api.ConsumerID]Allocations `json:"allocations"`
	}{map[api.ProviderID]stocks{}, writtenAll(r.Allocations)}
	for id, v := range r.Inventories {
		in.Inventories[id] = stocksOf(v)
	}
	k := placementCall("client.Reshape", http.MethodPost, "reshaper")
	k.in, k.conflict = in, api.CodeNoCapacity
	return c.callNothing(ctx, k)
}
