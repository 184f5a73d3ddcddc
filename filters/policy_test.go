package filters_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/filters"
)

func TestProjectIsolation(t *testing.T) {
	a, b, c, d := with("a"), with("b"), with("c"), with("d")
	a.Aggregates, b.Aggregates, c.Aggregates = []string{"mine"}, []string{"theirs"}, []string{"mine", "theirs", "plain"}
	v := view(a, b, c, d)
	mine := &api.Aggregate{ID: "mine", Metadata: map[string]string{api.MetaProjects: "q, p", "x": "y"}}
	theirs := &api.Aggregate{ID: "theirs", Metadata: map[string]string{api.MetaProjects + "2": "r"}}
	plain := &api.Aggregate{ID: "plain", Metadata: map[string]string{"zone": "p"}}
	nobody := &api.Aggregate{ID: "theirs", Metadata: map[string]string{api.MetaProjects: " , "}}
	for _, x := range []struct {
		aggregates []*api.Aggregate
		project    api.ProjectID
		strict     bool
		want       []string
	}{
		{nil, "p", true, []string{"a", "b", "c", "d"}},
		{[]*api.Aggregate{plain}, "p", true, []string{"a", "b", "c", "d"}},
		{[]*api.Aggregate{mine, theirs, plain}, "p", false, []string{"a", "c", "d"}},
		{[]*api.Aggregate{mine, theirs, plain}, "p", true, []string{"a", "c"}},
		{[]*api.Aggregate{mine, theirs, plain}, "r", false, []string{"b", "c", "d"}},
		{[]*api.Aggregate{mine, theirs, plain}, "s", false, []string{"d"}},
		{[]*api.Aggregate{mine, theirs, plain}, "s", true, []string{"d"}},
		{[]*api.Aggregate{nobody}, "p", false, []string{"a", "d"}},
	} {
		l := want(v, &filters.World{Aggregates: x.aggregates}, func(*api.Group) {})
		l.Req.Project = x.project
		assert.Equal(t, x.want, kept(l, filter("project_isolation", "strict", strconv.FormatBool(x.strict))), "project %s, strict %v", x.project, x.strict)
	}
	l := want(v, &filters.World{Aggregates: []*api.Aggregate{mine, theirs, plain}}, func(*api.Group) {})
	l.Req.Project, l.Req.Origin = "p", "up"
	for _, strict := range []bool{false, true} {
		assert.Equal(t, []string{"d"}, kept(l, filter("project_isolation", "strict", strconv.FormatBool(strict))), "a parent's p is another project")
	}
}

func TestIsolated(t *testing.T) {
	v := view(with("a"), with("b"))
	for _, x := range []struct {
		image    string
		restrict bool
		want     []string
	}{
		{"win", true, []string{"a"}},
		{"win", false, []string{"a"}},
		{"linux", true, []string{"b"}},
		{"linux", false, []string{"a", "b"}},
		{"", true, []string{"b"}},
		{"", false, []string{"a", "b"}},
	} {
		l := want(v, nil, func(g *api.Group) { g.Image.Ref = x.image })
		f := filter("isolated", "images", "win", "hosts", "name-a,name-none", "restrict", strconv.FormatBool(x.restrict))
		assert.Equal(t, x.want, kept(l, f), "image %q, restrict %v", x.image, x.restrict)
	}
}
