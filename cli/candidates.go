package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/api"
	"berth/api/client"
)

// candidatesShown is the default of --limit.
const candidatesShown = 20

// candidateFlags holds the flags of candidates.
type candidateFlags struct {
	resources, inTree                           string
	required, memberOf                          []string
	groups, groupRequired, groupMember, groupIn []string
	isolate                                     bool
	subtrees                                    []string
	rootRequired                                string
	limit                                       int
}

func candidatesCommand(e *env) *cobra.Command {
	var a candidateFlags
	c := &cobra.Command{
		Use:   "candidates",
		Short: "Show which providers could serve a request together (admins)",
		Long: `Show ways to serve a request now, each from one tree of providers and those that
share with it. Nothing is allocated; for that, use berth allocation set.

--resources may come from several providers of the tree, each class from one provider.
All resources of one --group come from a single provider. A group is named with
letters, digits, _ and -; the other flags for groups refer to it by this name.`,
		Example: `  berth candidates --resources VCPU=1,MEMORY_MB=512 --required 'CUSTOM_SSD,!CUSTOM_OLD'
  berth candidates --resources VCPU=4 --group gpu1:PGPU=1 --group gpu2:PGPU=1 --isolate
  berth candidates --group net:SRIOV_NET_VF=1 --group numa --group-required numa:HW_NUMA_ROOT --same-subtree net,numa`,
		Args: exactArgs(),
	}
	f := c.Flags()
	f.StringVar(&a.resources, "resources", "", "`CLASS=AMOUNT,...`")
	f.StringArrayVar(&a.required, "required", nil, "`TRAITS`, such as A,!B, or in:A,B for one of them; may be repeated")
	f.StringArrayVar(&a.memberOf, "member-of", nil, "only providers in this `AGGREGATE`: A,B for one of them, !A for not; may be repeated")
	f.StringVar(&a.inTree, "in-tree", "", "only providers in the tree of this `PROVIDER`")
	f.StringArrayVar(&a.groups, "group", nil, "`NAME:CLASS=AMOUNT,...`, all of it from one provider; may be repeated")
	f.StringArrayVar(&a.groupRequired, "group-required", nil, "`NAME:TRAITS` for one group; may be repeated")
	f.StringArrayVar(&a.groupMember, "group-member-of", nil, "`NAME:AGGREGATE` for one group; may be repeated")
	f.StringArrayVar(&a.groupIn, "group-in-tree", nil, "`NAME:PROVIDER` for one group; may be repeated")
	f.BoolVar(&a.isolate, "isolate", false, "serve each group from a different provider")
	f.StringArrayVar(&a.subtrees, "same-subtree", nil, "`NAMES` of groups, such as cpu,net, whose providers must all be at or below one of them; may be repeated")
	f.StringVar(&a.rootRequired, "root-required", "", "`TRAITS` that the root must have, such as A,!B")
	f.IntVar(&a.limit, "limit", candidatesShown, fmt.Sprintf("number of candidates, 1 to %d", api.CandidatesCallMax))
	e.flagNames(c, "in-tree", providerNames)
	e.flagNames(c, "member-of", aggregateNames)
	c.RunE = e.withClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		q, err := a.readQuery(ctx, c, cl)
		if err != nil {
			return err
		}
		var called map[api.ProviderID]string
		err = showAnswer(ctx, e, func(seen context.Context) (client.Candidates, error) {
			found, unread := cl.Candidates(seen, q)
			if unread == nil {
				called, unread = e.providerNames(ctx, cl, providersOf(found)...)
			}
			return found, unread
		}, func(found client.Candidates) []table {
			if len(found.Requests) == 0 {
				e.printNote("no candidates: no provider has room now, or none meets the conditions")
			}
			return candidateTables(found, called)
		})
		return addHint(err, map[api.Code]string{api.CodeInvalid: knownWords})
	})
	return c
}

// readQuery returns the request that the flags describe.
func (a *candidateFlags) readQuery(ctx context.Context, c *cobra.Command, cl *client.Client) (client.CandidateQuery, error) {
	if err := noneEmpty(c, "resources", "in-tree", "root-required"); err != nil {
		return client.CandidateQuery{}, err
	}
	q := client.CandidateQuery{Isolate: a.isolate, RootRequired: a.rootRequired, Limit: a.limit}
	if a.limit < 1 || a.limit > api.CandidatesCallMax {
		return q, usageError(c, "--limit must be 1 to %d, got %d", api.CandidatesCallMax, a.limit)
	}
	if a.resources == "" && len(a.groups) == 0 {
		return q, usageError(c, "%q needs --resources or --group", c.CommandPath())
	}
	for _, list := range a.subtrees {
		q.SameSubtree = append(q.SameSubtree, strings.Split(list, ","))
	}
	base, err := a.readBaseGroup(ctx, c, cl)
	if err != nil {
		return q, err
	}
	q.Groups = []client.CandidateGroup{base}
	for _, text := range a.groups {
		name, amounts, _ := strings.Cut(text, ":")
		if name == "" || a.findGroup(&q, name) != nil {
			return q, usageError(c, "each --group needs a name of its own, such as gpu:PGPU=1, got %q", text)
		}
		g := client.CandidateGroup{Suffix: name}
		if amounts != "" { // a group without amounts only asks for traits
			if g.Resources, err = parseAmounts(c, "--group", amounts); err != nil {
				return q, err
			}
		}
		q.Groups = append(q.Groups, g)
	}
	return q, a.groupFlags(ctx, c, cl, &q)
}

// readBaseGroup returns the group without a name.
func (a *candidateFlags) readBaseGroup(ctx context.Context, c *cobra.Command, cl *client.Client) (client.CandidateGroup, error) {
	g := client.CandidateGroup{Required: a.required}
	var err error
	if a.resources != "" {
		if g.Resources, err = parseAmounts(c, "--resources", a.resources); err != nil {
			return g, err
		}
	}
	if a.inTree != "" {
		if g.InTree, err = providerID(ctx, cl, a.inTree); err != nil {
			return g, err
		}
	}
	g.MemberOf, err = memberOf(ctx, cl, a.memberOf)
	return g, err
}

// findGroup returns the group of that name, nil if there is none.
func (a *candidateFlags) findGroup(q *client.CandidateQuery, name string) *client.CandidateGroup {
	for i := range q.Groups {
		if q.Groups[i].Suffix == name && name != "" {
			return &q.Groups[i]
		}
	}
	return nil
}

// groupFlags adds the flags about single groups to the groups.
func (a *candidateFlags) groupFlags(ctx context.Context, c *cobra.Command, cl *client.Client, q *client.CandidateQuery) error {
	for _, flag := range []struct {
		name  string
		texts []string
		add   func(g *client.CandidateGroup, what string) error
	}{
		{"group-required", a.groupRequired, func(g *client.CandidateGroup, what string) error {
			g.Required = append(g.Required, what)
			return nil
		}},
		{"group-member-of", a.groupMember, func(g *client.CandidateGroup, what string) error {
			more, err := memberOf(ctx, cl, []string{what})
			g.MemberOf = append(g.MemberOf, more...)
			return err
		}},
		{"group-in-tree", a.groupIn, func(g *client.CandidateGroup, what string) (err error) {
			g.InTree, err = providerID(ctx, cl, what)
			return err
		}},
	} {
		for _, text := range flag.texts {
			name, what, ok := strings.Cut(text, ":")
			g := a.findGroup(q, name)
			if !ok || g == nil || what == "" {
				return usageError(c, "--%s must start with the name of a --group and a colon, got %q", flag.name, text)
			}
			if err := flag.add(g, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// providersOf returns the providers in some candidates.
func providersOf(found client.Candidates) []api.ProviderID {
	var out []api.ProviderID
	for _, r := range found.Requests {
		out = append(out, slices.Collect(maps.Keys(r.Allocations))...)
	}
	return out
}

// candidateTables shows candidates, with one row for each of their providers.
func candidateTables(found client.Candidates, called map[api.ProviderID]string) []table {
	t := table{header: []string{"CANDIDATE", "PROVIDER", "UUID", "RESOURCES", "GROUPS", "USED"}}
	for n, r := range found.Requests {
		serves := map[api.ProviderID][]string{}
		for _, group := range slices.Sorted(maps.Keys(r.Mappings)) {
			for _, id := range r.Mappings[group] {
				if group != "" {
					serves[id] = append(serves[id], group)
				}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(r.Allocations)) {
			amounts := r.Allocations[id].Resources
			var used []string
			for _, class := range amounts.Classes() {
				s := found.Summaries[id].Resources[class]
				used = append(used, fmt.Sprintf("%s %d/%d", class, s.Used, s.Capacity))
			}
			t.addRow(n+1, called[id], id, amounts, strings.Join(serves[id], ", "), strings.Join(used, ", "))
		}
	}
	return []table{t}
}
