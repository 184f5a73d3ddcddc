package candidates

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/capacity"
)

// world builds a view from lines such as
//
//	numa0 <cn1 VCPU:8 MEMORY_MB:64/16 DISK_GB:10(2,8,2) +HW_NUMA_ROOT @agg1
//
// A provider under its parent, with totals, 16 in use, units of 2 to 8 in steps of
// 2, traits and aggregates. Without a parent it is a host, unless "-" says that it
// hosts nothing.
func world(tb testing.TB, lines ...string) capacity.View {
	tb.Helper()
	table := capacity.NewTable()
	used := map[api.ProviderID]api.Resources{}
	for _, line := range lines {
		words := strings.Fields(line)
		s := capacity.Spec{Up: true, Enabled: true, ID: api.ProviderID(words[0]), Name: "name-" + words[0], Inventory: map[api.ResourceClass]api.Inventory{}}
		used[s.ID] = api.Resources{}
		for _, w := range words[1:] {
			switch w[0] {
			case '-':
				s.Passive = true
			case '<':
				s.Parent, s.Passive = api.ProviderID(w[1:]), true
			case '+':
				s.Traits = append(s.Traits, w[1:])
			case '@':
				s.Aggregates = append(s.Aggregates, w[1:])
			default:
				have(tb, &s, used[s.ID], w)
			}
		}
		table.Put(s)
	}
	for id, r := range used {
		if len(r) > 0 {
			require.NoError(tb, table.Claim(id, api.Claim{Resources: r, Window: api.Window{End: api.Forever}, Class: api.Firm}))
		}
	}
	return table.View()
}

// have reads an inventory.
func have(tb testing.TB, s *capacity.Spec, used api.Resources, word string) {
	tb.Helper()
	name, rest, found := strings.Cut(word, ":")
	require.True(tb, found, word)
	var inv api.Inventory
	rest, units, odd := strings.Cut(rest, "(")
	if odd {
		_, err := fmt.Sscanf(units, "%d,%d,%d)", &inv.MinUnit, &inv.MaxUnit, &inv.StepSize)
		require.NoError(tb, err, word)
	}
	total, use, inUse := strings.Cut(rest, "/")
	inv.Total = number(tb, total)
	if inUse {
		used[api.ResourceClass(name)] = number(tb, use)
	}
	s.Inventory[api.ResourceClass(name)] = inv
}

func number(tb testing.TB, s string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(tb, err)
	return n
}

// ask reads a query as it is written in a URL. A list of traits or aggregates in
// any of which something must be begins with "in:".
func ask(tb testing.TB, text string) *Query {
	tb.Helper()
	q := &Query{}
	for _, pair := range strings.Split(text, "&") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "group_policy":
			q.Isolate = value == "isolate"
			continue
		case "same_subtree":
			q.Subtrees = append(q.Subtrees, strings.Split(value, ","))
			continue
		case "root_required":
			q.RootRequired, q.RootForbidden = split(value)
			continue
		}
		for _, prefix := range []string{"resources", "required", "member_of", "in_tree"} {
			if suffix, is := strings.CutPrefix(key, prefix); is {
				q.set(tb, prefix, suffix, value)
			}
		}
	}
	return q
}

func (q *Query) set(tb testing.TB, prefix, suffix, value string) {
	tb.Helper()
	i := q.groupIndex(suffix)
	if i < 0 {
		i = len(q.Groups)
		q.Groups = append(q.Groups, Group{Suffix: suffix})
	}
	g := &q.Groups[i]
	list, anyOf := strings.CutPrefix(value, "in:")
	yes, no := split(value)
	switch prefix {
	case "resources":
		g.Resources = api.Resources{}
		for _, item := range strings.Split(value, ",") {
			name, n, _ := strings.Cut(item, ":")
			g.Resources[api.ResourceClass(name)] = number(tb, n)
		}
	case "required":
		if anyOf {
			g.Traits.AnyOf = append(g.Traits.AnyOf, strings.Split(list, ","))
			return
		}
		g.Traits.Required = append(g.Traits.Required, yes...)
		g.Traits.Forbidden = append(g.Traits.Forbidden, no...)
	case "member_of":
		g.NotMemberOf = append(g.NotMemberOf, no...)
		if len(no) == 0 {
			g.MemberOf = append(g.MemberOf, strings.Split(list, ","))
		}
	case "in_tree":
		g.InTree = api.ProviderID(value)
	}
}

// split parts names from those that follow a "!".
func split(list string) (yes, no []string) {
	for _, name := range strings.Split(list, ",") {
		if rest, not := strings.CutPrefix(name, "!"); not {
			no = append(no, rest)
		} else {
			yes = append(yes, name)
		}
	}
	return yes, no
}

// tell writes a candidate as "id[VCPU=1] 1:id[VCPU=1]".
func tell(v capacity.View, q *Query, c Candidate) string {
	var out []string
	for _, p := range c.Parts {
		suffix := q.Groups[p.Group].Suffix
		if suffix != "" {
			suffix += ":"
		}
		out = append(out, fmt.Sprintf("%s%s[%s]", suffix, v.ID(p.Row), p.Resources))
	}
	return strings.Join(out, " ")
}

// all returns every candidate, told.
func all(v capacity.View, q *Query) []string {
	out := []string{}
	for c := range Each(v, q) {
		out = append(out, tell(v, q, c))
	}
	return out
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}
