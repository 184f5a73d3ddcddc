package placement

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/candidates"
)

const (
	uuidA = "aaaaaaaa-0000-4000-8000-000000000001"
	uuidB = "bbbbbbbb-0000-4000-8000-000000000002"
)

// upTo returns n texts of a pattern with a number, joined.
func upTo(n int, pattern, between string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(pattern, i+1))
	}
	return strings.Join(out, between)
}

func TestParseCandidates(t *testing.T) {
	for _, c := range []struct {
		v     version
		query string
		want  *candidates.Query
	}{
		{10, "resources=VCPU:2", &candidates.Query{Flat: true, Groups: []candidates.Group{{Resources: api.Resources{"VCPU": 2}}}}},
		{29, "resources=VCPU:2,VCPU:4,DISK_GB:+5&resources=VCPU:%203", &candidates.Query{Groups: []candidates.Group{{Resources: api.Resources{"VCPU": 3}}}}},
		{
			39, "resources=VCPU:99999999999999999999", &candidates.Query{Groups: []candidates.Group{{
				Resources: api.Resources{"VCPU": api.AmountMax + 1},
			}}},
		},
		{38, "resources=VCPU:1&required=A,,&required=!B,!!!B,C", &candidates.Query{Groups: []candidates.Group{{
			Resources: api.Resources{"VCPU": 1}, Traits: api.Traits{Required: []string{"C"}, Forbidden: []string{"B"}},
		}}}},
		{39, "resources=VCPU:1&required=in:B,A,A&required=in:D&required=C,C,!E&required=in:A,B", &candidates.Query{Groups: []candidates.Group{{
			Resources: api.Resources{"VCPU": 1},
			Traits:    api.Traits{Required: []string{"C", "D"}, Forbidden: []string{"E"}, AnyOf: [][]string{{"A", "B"}}},
		}}}},
		{
			32, "resources=VCPU:1&member_of=in:" + uuidB + "," + uuidA + "&member_of=" + uuidA + "&member_of=!in:" + uuidB + "," + uuidA + "&member_of=!" + uuidA,
			&candidates.Query{Groups: []candidates.Group{{
				Resources: api.Resources{"VCPU": 1}, MemberOf: [][]string{{uuidA, uuidB}, {uuidA}}, NotMemberOf: []string{uuidA, uuidB},
			}}},
		},
		{31, "resources7=VCPU:1&in_tree7=" + uuidB + "&in_tree7=%20" + strings.ToUpper(uuidA), &candidates.Query{Groups: []candidates.Group{{
			Suffix: "7", Resources: api.Resources{"VCPU": 1}, InTree: uuidA,
		}}}},
		{36, "resources_b=VCPU:1&required-a=T&same_subtree=_b,%20-a,_b&group_policy=isolate&root_required=X,!Y", &candidates.Query{
			Groups: []candidates.Group{
				{Suffix: "-a", Traits: api.Traits{Required: []string{"T"}}},
				{Suffix: "_b", Resources: api.Resources{"VCPU": 1}},
			},
			Isolate: true, Subtrees: [][]string{{"-a", "_b"}}, RootRequired: []string{"X"}, RootForbidden: []string{"Y"},
		}},
	} {
		got, limit, asked, err := parseCandidates(c.query, c.v)
		require.NoError(t, err, c.query)
		assert.Equal(t, c.want, got, c.query)
		assert.Equal(t, api.CandidatesMax, limit)
		assert.False(t, asked)
	}
}

func TestParseCandidatesRefuses(t *testing.T) {
	const ok = "resources=VCPU:1&"
	for _, c := range []struct {
		v     version
		query string
		code  string
	}{
		{10, "", codeUndefined},
		{25, "", codeUndefined},
		{36, "", codeMissingValue},
		{39, ok + "required_a=T", codeBadValue},
		{39, ok + "same_subtree=_a", codeBadValue},
		{39, "resources_a=VCPU:1&same_subtree=_a,", codeBadValue},
		{39, "resources_a=VCPU:1&resources_b=VCPU:1", codeUndefined},
		{39, "resources_a=VCPU:1&required_b=T&same_subtree=_b", codeUndefined},
		{39, ok + "root_required=A&root_required=B", codeDuplicateKey},
		{39, ok + "root_required=A,!A", codeBadValue},
		{39, ok + "root_required=in:A,B", codeUndefined},
		{39, ok + "required=A,!A", codeUndefined},
		{39, ok + "required=in:A,B&required=!A,!B", codeUndefined},
		{39, ok + "required=in:A,!B", codeUndefined},
		{39, ok + "required=in:", codeUndefined},
		{39, ok + "required=!", codeUndefined},
		{39, ok + "required=", codeUndefined},
		{39, ok + "member_of=", codeUndefined},
		{39, ok + "member_of=in:", codeUndefined},
		{39, ok + "member_of=" + uuidA + "," + uuidB, codeUndefined},
		{39, ok + "in_tree=x", codeUndefined},
		{39, ok + "group_policy=some", codeUndefined},
		{39, ok + "limit=0", codeUndefined},
		{39, ok + "limit=", codeUndefined},
		{39, ok + "limit=-1", codeUndefined},
		{39, ok + "limit=1.0", codeUndefined},
		{39, ok + "colour=red", codeUndefined},
		{39, ok + "resources=%zz", codeUndefined},
		{39, "resources=", codeUndefined},
		{39, "resources=VCPU", codeUndefined},
		{39, "resources=VCPU:", codeUndefined},
		{39, "resources=VCPU:0", codeUndefined},
		{39, "resources=VCPU:1:1", codeUndefined},
		{39, "resources=VCPU:-99999999999999999999", codeUndefined},
		{39, "resources=VCPU:1,", codeUndefined},
		{39, "resources=VCPU:x&resources=VCPU:1", codeUndefined},
	} {
		_, _, _, err := parseCandidates(c.query, c.v)
		refused := service.Explain(err)
		assert.Equal(t, 400, refused.Status, c.query)
		assert.Equal(t, c.code, refused.Code, c.query)
	}
}

// TestParametersHaveTheirMicroversion tries each at the first that takes it, and
// at the one before.
func TestParametersHaveTheirMicroversion(t *testing.T) {
	const ok = "resources=VCPU:1&"
	for query, since := range map[string]version{
		ok + "limit=1":            16,
		ok + "required=T":         17,
		ok + "member_of=" + uuidA: 21,
		ok + "required=!T":        22,
		ok + "member_of=" + uuidA + "&member_of=" + uuidB: 24,
		"resources1=VCPU:1":                                      25,
		ok + "group_policy=none":                                 25,
		ok + "in_tree=" + uuidA:                                  31,
		ok + "member_of=!" + uuidA:                               32,
		ok + "member_of=!in:" + uuidA:                            32,
		"resources_x=VCPU:1":                                     33,
		"resources01=VCPU:1":                                     33,
		ok + "root_required=T":                                   35,
		"resources1=VCPU:1&same_subtree=1":                       36,
		ok + "required1=T&same_subtree=1":                        36,
		ok + "required=in:T":                                     39,
		"resources" + strings.Repeat("x", suffixMax) + "=VCPU:1": 33,
	} {
		_, _, _, err := parseCandidates(query, since)
		require.NoError(t, err, query)
		_, _, _, err = parseCandidates(query, since-1)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), query)
	}
}

func TestQueryLimits(t *testing.T) {
	const ok = "resources=VCPU:1&"
	for _, c := range []struct{ at, above string }{
		{"resources" + strings.Repeat("x", suffixMax) + "=VCPU:1", "resources" + strings.Repeat("x", suffixMax+1) + "=VCPU:1"},
		{"resources=" + upTo(api.ClassesMax, "CUSTOM_%d:1", ","), "resources=" + upTo(api.ClassesMax+1, "CUSTOM_%d:1", ",")},
		{ok + "required=" + upTo(api.TraitsMax, "CUSTOM_%d", ","), ok + "required=" + upTo(api.TraitsMax+1, "CUSTOM_%d", ",")},
		{ok + "required=in:" + upTo(api.TraitsMax, "CUSTOM_%d", ","), ok + "required=A&required=in:" + upTo(api.TraitsMax, "CUSTOM_%d", ",")},
		{ok + upTo(api.ProviderAggsMax, "member_of="+uuidA[:32]+"%04d", "&"), ok + "member_of=in:" + upTo(api.ProviderAggsMax+1, uuidA[:32]+"%04d", ",")},
		{"group_policy=none&" + upTo(candidates.GroupsMax, "resources%d=VCPU:1", "&"), "group_policy=none&" + upTo(candidates.GroupsMax+1, "resources%d=VCPU:1", "&")},
		{
			"resources1=VCPU:1&" + strings.Repeat("same_subtree=1&", candidates.GroupsMax),
			"resources1=VCPU:1&" + strings.Repeat("same_subtree=1&", candidates.GroupsMax+1),
		},
	} {
		_, _, _, err := parseCandidates(c.at, 39)
		require.NoError(t, err, c.at)
		_, _, _, err = parseCandidates(c.above, 39)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), c.above)
	}
}

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		query string
		want  int
		asked bool
	}{
		{"", api.CandidatesMax, false},
		{"limit=1", 1, true},
		{"limit=2&limit=1", 2, true},
		{fmt.Sprintf("limit=%d", api.CandidatesMax+1), api.CandidatesMax + 1, true},
		{fmt.Sprintf("limit=%d", api.CandidatesCallMax), api.CandidatesCallMax, true},
		{fmt.Sprintf("limit=%d", api.CandidatesCallMax+1), api.CandidatesCallMax, false},
		{"limit=99999999999999999999", api.CandidatesCallMax, false},
	} {
		_, limit, asked, err := parseCandidates("resources=VCPU:1&"+c.query, 16)
		require.NoError(t, err, c.query)
		assert.Equal(t, c.asked, asked, c.query)
		assert.Equal(t, c.want, limit, c.query)
	}
}

// FuzzParseCandidates: whatever is asked, the answer is a refusal or a query
// within all limits, and what was read once is read the same again.
func FuzzParseCandidates(f *testing.F) {
	f.Add("resources=VCPU:2,DISK_GB:5&required=!A,B&member_of=in:"+uuidA+"&limit=3", uint8(24))
	f.Add("resources_a=VCPU:1&required_b=in:X,Y&same_subtree=_a,_b&group_policy=isolate&root_required=!Z", uint8(39))
	f.Add("resources1=VCPU:1&in_tree1="+uuidB+"&member_of1=!"+uuidA, uint8(32))
	f.Fuzz(func(t *testing.T, query string, minor uint8) {
		v := version(minor % 40)
		q, limit, _, err := parseCandidates(query, v)
		if err != nil {
			require.Equal(t, 400, service.Explain(err).Status)
			return
		}
		require.True(t, limit >= 1 && limit <= api.CandidatesCallMax)
		require.True(t, len(q.Groups) >= 1 && len(q.Groups) <= candidates.GroupsMax)
		asks := false
		for _, g := range q.Groups {
			require.LessOrEqual(t, len(g.Suffix), suffixMax)
			asks = asks || len(g.Resources) > 0
			for _, n := range g.Resources {
				require.True(t, n >= 1 && n <= api.AmountMax+1)
			}
			require.Empty(t, conflictingTraits(g.Traits))
		}
		require.True(t, asks)
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		again, _, _, err := parseCandidates(values.Encode(), v)
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}
