package estimate

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestExplanationsAreBounded: one of a kind is kept, the latest; beyond ExplainMax the oldest
// goes, and so does what is too old.
func TestExplanationsAreBounded(t *testing.T) {
	var all explanations
	keep := func(n int, at api.Instant, abroad bool) {
		project := api.ProjectID(strconv.Itoa(n / api.ExplainProjectMax))
		all.keepExplanation(&api.Explanation{Request: api.RequestID(strconv.Itoa(n)), Project: project, At: at}, abroad)
	}
	find := func(n int, at api.Instant) *api.Explanation {
		return all.findExplanation(at, func(e explanation) bool { return string(e.Request) == strconv.Itoa(n) && !e.abroad })
	}
	for n := range api.ExplainMax {
		keep(n, 1, false)
	}
	assert.NotNil(t, find(0, 1))
	keep(api.ExplainMax, 1, false)
	assert.Nil(t, find(0, 1))
	assert.NotNil(t, find(1, 1))
	keep(1, 2, false)
	assert.Equal(t, api.ExplainMax, all.list.Len(), "in place of the earlier one")
	assert.Equal(t, api.Instant(2), find(1, 2).At)
	keep(1, 3, true)
	assert.Equal(t, api.Instant(2), find(1, 3).At, "that of another zone is another")

	late := api.Instant(2).Add(api.ExplainKept)
	assert.NotNil(t, find(1, late))
	assert.Nil(t, find(1, late+1))
	keep(7, late+1, false)
	assert.Equal(t, 2, all.list.Len(), "the others are too old")
	assert.Len(t, all.of, 2)
	assert.Len(t, all.each, 2)
}

// TestNobodyFlushesTheExplanationsOfOthers: whoever has too many of them loses the oldest of his own.
func TestNobodyFlushesTheExplanationsOfOthers(t *testing.T) {
	for _, abroad := range []bool{false, true} {
		var all explanations
		all.keepExplanation(&api.Explanation{Request: "other", Project: "p2"}, false)
		of := func(n int) bool {
			return all.findExplanation(0, func(e explanation) bool { return string(e.Request) == strconv.Itoa(n) }) != nil
		}
		for n := range api.ExplainProjectMax + 1 {
			assert.True(t, n == 0 || of(0))
			project := "p1"
			if abroad {
				project += strconv.Itoa(n) // what a parent says of its projects does not count
			}
			all.keepExplanation(&api.Explanation{Request: api.RequestID(strconv.Itoa(n)), Project: api.ProjectID(project)}, abroad)
		}
		assert.False(t, of(0))
		assert.True(t, of(1))
		assert.Equal(t, 1+api.ExplainProjectMax, all.list.Len())
		assert.NotNil(t, all.findExplanation(0, func(e explanation) bool { return e.Request == "other" }))
	}
}
