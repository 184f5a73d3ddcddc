package filters_test

import (
	"iter"
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

// census is who is where, written down.
type census struct {
	hosts     map[api.InstanceID]api.HostID
	here      map[string]map[api.HostID]int
	elsewhere map[string]map[api.LinkID]int
	asked     int
}

var _ filters.Census = (*census)(nil)

func (c *census) HostOf(_ api.Tenant, id api.InstanceID) (api.HostID, bool) {
	h, ok := c.hosts[id]
	return h, ok
}

func (c *census) Members(_ api.Tenant, rule string) (map[api.HostID]int, map[api.LinkID]int) {
	c.asked++
	return c.here[rule], c.elsewhere[rule]
}

func (c *census) Tenancy(api.Tenant) iter.Seq2[api.HostID, int] {
	return func(func(api.HostID, int) bool) {}
}

// with returns the spec of a host with attributes, in pairs.
func with(id string, pairs ...string) capacity.Spec {
	s := spec(id, 1024, 10)
	s.Name, s.Attributes = "name-"+id, map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		s.Attributes[pairs[i]] = pairs[i+1]
	}
	return s
}

// filter returns one filter with options, in pairs.
func filter(name string, options ...string) filters.Filter {
	spec := api.FilterSpec{Name: name, Options: map[string]string{}}
	for i := 0; i < len(options); i += 2 {
		spec.Options[options[i]] = options[i+1]
	}
	fs, err := filters.New([]api.FilterSpec{spec})
	if err != nil {
		panic(err)
	}
	return fs[0]
}

// want returns a look for one slot that set has made a request of.
func want(v capacity.View, w *filters.World, set func(*api.Group)) *filters.Look {
	req := request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 1})
	req.Project = "p"
	set(&req.Groups[0])
	return filters.NewLook(v, w, req, 0)
}

// kept returns the hosts that pass some filters.
func kept(l *filters.Look, fs ...filters.Filter) []string {
	got, _ := look(l, fs...)
	return got
}

func ids(specs []capacity.Spec, keep func(s *capacity.Spec) bool) []string {
	var out []string
	for i := range specs {
		if keep(&specs[i]) {
			out = append(out, string(specs[i].ID))
		}
	}
	slices.Sort(out)
	return out
}
