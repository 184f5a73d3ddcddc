package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestPreemptRulesNameProjects(t *testing.T) {
	for _, c := range []struct {
		list []api.ProjectID
		a, b bool // whether the projects a and b are in it
	}{
		{nil, false, false},
		{[]api.ProjectID{"a"}, true, false},
		{[]api.ProjectID{"*"}, true, true},
		{[]api.ProjectID{"*", "!a"}, false, true},
		{[]api.ProjectID{"!a", "*"}, false, true},
	} {
		r := api.PreemptRule{Projects: c.list, Allowed: c.list, Firm: c.list}
		require.NoError(t, r.Validate())
		assert.Equal(t, []bool{c.a, c.b}, []bool{r.Lists("a"), r.Lists("b")}, c.list)
		assert.Equal(t, []bool{c.a, c.b}, []bool{r.AllowsFirm("a"), r.AllowsFirm("b")}, c.list)
		open := len(c.list) == 0
		assert.Equal(t, []bool{open || c.a, open || c.b}, []bool{r.Allows("a"), r.Allows("b")}, c.list)
	}
}

func TestPreemptRulesCountWays(t *testing.T) {
	counted := func(r api.PreemptRule) (out []api.PreemptWay) {
		for _, w := range api.PreemptWays() {
			if r.Counts(w) {
				out = append(out, w)
			}
		}
		return out
	}
	assert.Equal(t, []api.PreemptWay{api.PreemptByHint, api.PreemptByFlavor}, counted(api.PreemptRule{}))
	assert.Equal(t, []api.PreemptWay{api.PreemptByProject}, counted(api.PreemptRule{Ways: []api.PreemptWay{api.PreemptByProject}}))
}

func TestPreemptRulesHaveBounds(t *testing.T) {
	many := func(n int) (out []api.ProjectID) {
		for i := range n {
			out = append(out, api.ProjectID(fmt.Sprint("p", i)))
		}
		return out
	}
	for _, r := range []api.PreemptRule{
		{},
		{Grace: -1},
		{Grace: time.Millisecond},
		{Grace: api.PreemptGraceMax, Ways: api.PreemptWays()},
		{Projects: many(api.PreemptProjectsMax), Allowed: many(api.PreemptProjectsMax), Firm: many(api.PreemptProjectsMax)},
	} {
		require.NoError(t, r.Validate())
	}
	for _, c := range []struct {
		rule api.PreemptRule
		says string
	}{
		{api.PreemptRule{Grace: -2}, "grace must be 1ms to 1h0m0s, in whole milliseconds; 0s is none"},
		{api.PreemptRule{Grace: 1}, "grace must be"},
		{api.PreemptRule{Grace: api.PreemptGraceMax + time.Millisecond}, "grace must be"},
		{api.PreemptRule{Ways: []api.PreemptWay{"wish"}}, `ways: "wish" is none of hint, flavor, image and project`},
		{api.PreemptRule{Ways: []api.PreemptWay{"hint", "hint"}}, "ways: hint is there twice"},
		{api.PreemptRule{Projects: many(api.PreemptProjectsMax + 1)}, "projects may name at most 1000 projects, got 1001"},
		{api.PreemptRule{Allowed: many(api.PreemptProjectsMax + 1)}, "allowed_projects may name at most 1000"},
		{api.PreemptRule{Firm: many(api.PreemptProjectsMax + 1)}, "firm_projects may name at most 1000"},
		{api.PreemptRule{Projects: []api.ProjectID{"a b"}}, "projects must be 1 to 64"},
		{api.PreemptRule{Projects: []api.ProjectID{"*", "!"}}, "projects must be 1 to 64"},
		{api.PreemptRule{Projects: []api.ProjectID{"*", "!*"}}, "projects must be 1 to 64"},
		{api.PreemptRule{Projects: []api.ProjectID{"*", "a", "!a"}}, "projects: a is there twice"},
		{api.PreemptRule{Projects: []api.ProjectID{"*", "*"}}, "projects: * is there twice"},
		{api.PreemptRule{Firm: []api.ProjectID{"!a"}}, "firm_projects: !a is an exception from *, which the list needs too"},
	} {
		invalid(t, c.rule.Validate(), c.says)
	}
}
