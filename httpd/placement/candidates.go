package placement

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"berth/api"
	"berth/candidates"
	"berth/capacity"
	"berth/httpd/openstack"
	"berth/raftstore/state"
)

// headerCut marks a list of candidates that may be incomplete although the caller has
// not limited it. It names the limit that ended the search: the number of candidates,
// or of steps.
const headerCut = "Berth-Candidates-Cut"

// What ends a search for candidates.
const (
	cutCount = "count" // the zone's limit of candidates was reached
	cutWork  = "work"  // the limit of steps was reached
)

// Microversions that change the answer with candidates.
const (
	summarisedTraits version = 17
	summarisedAll    version = 27
	summarisedTrees  version = 29
	mapped           version = 34
)

// candidatesAnswer is the JSON of candidates.
type candidatesAnswer struct {
	Requests  []allocationRequest        `json:"allocation_requests"`
	Summaries map[api.ProviderID]summary `json:"provider_summaries"`
}

// allocationRequest is one candidate. Allocations is the body of a claim.
type allocationRequest struct {
	Allocations any                         `json:"allocations"`
	Mappings    map[string][]api.ProviderID `json:"mappings,omitempty"`
}

// fromProvider is the part of a candidate at one provider.
type fromProvider struct {
	Provider  *providerRef  `json:"resource_provider,omitempty"` // in a list
	Resources api.Resources `json:"resources"`
}

type providerRef struct {
	UUID api.ProviderID `json:"uuid"`
}

// summary is the JSON of a provider of a candidate.
type summary struct {
	Resources map[api.ResourceClass]level `json:"resources"`
	Traits    *[]string                   `json:"traits,omitempty"`
	*family
}

// level is the capacity and the use of one class at a provider.
type level struct {
	Capacity int64 `json:"capacity"`
	Used     int64 `json:"used"`
}

// listCandidates is GET /allocation_candidates.
func (d *dialect) listCandidates(w http.ResponseWriter, r *http.Request) error {
	q, limit, asked, err := parseCandidates(r.URL.RawQuery, versionOf(r))
	if err != nil {
		return err
	}
	s := d.View(w)
	if err := knownNames(s, q); err != nil {
		return err
	}
	found, more := searchCandidates(s.Hosts(), q, limit)
	if more == cutWork || more == cutCount && !asked {
		w.Header().Set(headerCut, more)
	}
	setModified(w, r, d.Now())
	return openstack.Answer(w, http.StatusOK, showCandidates(s, q, found, versionOf(r)))
}

// knownNames refuses classes and traits that the zone does not know.
func knownNames(s *state.State, q *candidates.Query) error {
	var traits []string
	for _, g := range q.Groups {
		for _, class := range g.Resources.Classes() {
			if _, ok := s.ResourceClass(class); !ok {
				return invalidError("Invalid resource class in resources parameter: No such resource class %s", openstack.Cut(string(class)))
			}
		}
		traits = append(traits, slices.Concat(append(g.Traits.AnyOf, g.Traits.Required, g.Traits.Forbidden)...)...)
	}
	return knownTraits(s, slices.Concat(traits, q.RootRequired, q.RootForbidden))
}

// knownTraits refuses traits that the zone does not know.
func knownTraits(s *state.State, names []string) error {
	var strange []string
	for _, name := range sortedSet(names) {
		if _, ok := s.Trait(name); !ok {
			strange = append(strange, name)
		}
	}
	if len(strange) > 0 {
		return invalidError("No such trait(s): %s", strings.Join(strange, ", "))
	}
	return nil
}

// searchCandidates returns up to limit candidates, and the reason that the search ended
// if there may be more.
func searchCandidates(v capacity.View, q *candidates.Query, limit int) (found []candidates.Candidate, more string) {
	q.Work = &candidates.Work{}
	for c := range candidates.Each(v, q) {
		if len(found) == limit {
			return found, cutCount
		}
		found = append(found, c)
	}
	if q.Work.Cut {
		return found, cutWork
	}
	return found, ""
}

// showCandidates returns the JSON of candidates with summaries of providers: since 1.29
// of all providers in their trees, before that only of those that are allocated from.
func showCandidates(s *state.State, q *candidates.Query, found []candidates.Candidate, v version) candidatesAnswer {
	rows := s.Hosts()
	out := candidatesAnswer{Requests: make([]allocationRequest, len(found)), Summaries: map[api.ProviderID]summary{}}
	for i, c := range found {
		out.Requests[i] = showRequest(rows, q, c, v)
	}
	asked := map[api.ResourceClass]bool{}
	for _, g := range q.Groups {
		for class := range g.Resources {
			asked[class] = true
		}
	}
	for row := range summarisedRows(rows, found, v).All() {
		if p, ok := s.Provider(rows.ID(row)); ok {
			out.Summaries[p.ID] = summariseProvider(p, asked, v)
		}
	}
	return out
}

// summarisedRows returns the providers that an answer summarises.
func summarisedRows(rows capacity.View, found []candidates.Candidate, v version) capacity.Set {
	out, roots := capacity.NewSet(rows.Rows()), capacity.NewSet(rows.Rows())
	for _, c := range found {
		for _, p := range c.Parts {
			if len(p.Resources) > 0 {
				out.Add(p.Row)
				roots.Add(rows.Root(p.Row))
			}
		}
	}
	if v < summarisedTrees {
		return out
	}
	for root := range roots.All() {
		for _, row := range rows.Tree(root) {
			out.Add(int(row))
		}
	}
	return out
}

// showRequest returns the JSON of one candidate.
func showRequest(rows capacity.View, q *candidates.Query, c candidates.Candidate, v version) allocationRequest {
	sums := map[api.ProviderID]api.Resources{}
	var out allocationRequest
	if v >= mapped {
		out.Mappings = map[string][]api.ProviderID{}
	}
	for _, p := range c.Parts {
		id := rows.ID(p.Row)
		if v >= mapped {
			suffix := q.Groups[p.Group].Suffix
			out.Mappings[suffix] = append(out.Mappings[suffix], id)
		}
		if len(p.Resources) > 0 && sums[id] == nil {
			sums[id] = api.Resources{}
		}
		for class, n := range p.Resources {
			sums[id][class] += n
		}
	}
	for suffix, ids := range out.Mappings {
		slices.Sort(ids)
		out.Mappings[suffix] = slices.Compact(ids)
	}
	if v < claimsAsDict {
		list := make([]fromProvider, 0, len(sums))
		for _, id := range slices.Sorted(maps.Keys(sums)) {
			list = append(list, fromProvider{&providerRef{id}, sums[id]})
		}
		out.Allocations = list
		return out
	}
	dict := make(map[api.ProviderID]fromProvider, len(sums))
	for id, r := range sums {
		dict[id] = fromProvider{Resources: r}
	}
	out.Allocations = dict
	return out
}

// summariseProvider returns the summary of a provider: before 1.27 only of the
// requested classes.
func summariseProvider(p *api.Provider, asked map[api.ResourceClass]bool, v version) summary {
	out := summary{Resources: map[api.ResourceClass]level{}}
	for class, inv := range p.Inventory {
		if v >= summarisedAll || asked[class] {
			out.Resources[class] = level{Capacity: inv.Capacity(), Used: p.Used[class]}
		}
	}
	if v >= summarisedTraits {
		out.Traits = &p.Traits
	}
	if v >= summarisedTrees {
		out.family = familyOf(p)
	}
	return out
}

func familyOf(p *api.Provider) *family {
	f := &family{Root: p.Root}
	if p.Parent != "" {
		f.Parent = &p.Parent
	}
	return f
}
