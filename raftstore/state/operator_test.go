package state

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

func TestSchedulerSet(t *testing.T) {
	w := newWorld(t)
	set := command.SchedulerSet{Stamp: w.stamp(), Scheduler: api.Scheduler{
		Filters: []api.FilterSpec{{Name: "pool"}}, Costs: []api.CostWeight{{Name: "pack", Weight: 2}},
	}}
	w.ok(set)
	w.unchanged(set)
	w.ok(command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{
		Tags: []string{"gpu"}, Costs: []api.CostWeight{{Name: "spread"}}, Filters: []api.FilterSpec{{Name: "up"}},
	}})
	assert.Equal(t, []string{"gpu"}, w.s.Config.Tags)
	assert.Equal(t, set.Scheduler.Filters, w.s.Config.Filters, "the scheduler is left alone")
	assert.Equal(t, set.Scheduler.Costs, w.s.Config.Costs)
	set.Scheduler.Costs = make([]api.CostWeight, api.FiltersMax)
	set.Scheduler.Filters = make([]api.FilterSpec, api.FiltersMax)
	w.ok(set)
	set.Scheduler.Costs = make([]api.CostWeight, api.FiltersMax+1)
	w.refused(api.CodeInvalid, set)
	set.Scheduler.Costs, set.Scheduler.Filters = nil, make([]api.FilterSpec, api.FiltersMax+1)
	w.refused(api.CodeInvalid, set)
}

func aggregate(id string, az string, hosts ...string) api.Aggregate {
	a := api.Aggregate{ID: api.AggregateID(id), Name: "name-" + id}
	if az != "" {
		a.Metadata = map[string]string{api.MetaAZ: az}
	}
	for _, h := range hosts {
		a.Hosts = append(a.Hosts, api.HostID(h))
	}
	return a
}

func (w *world) aggregate(a api.Aggregate, replace bool) command.AggregatePut {
	return command.AggregatePut{Stamp: w.stamp(), Aggregate: a, Replace: replace}
}

func TestAggregates(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 1)
	w.host("h2", 1)
	put := w.aggregate(aggregate("a", "az1", "h2", "h1", "h2"), false)
	w.ok(put)
	w.unchanged(put)
	a, ok := w.s.Aggregate("a")
	require.True(t, ok)
	assert.Equal(t, []api.HostID{"h1", "h2"}, a.Hosts, "sorted, each once")
	spec := specIn(w.s, "h1")
	assert.Equal(t, []string{"a"}, spec.Aggregates)
	assert.Equal(t, "az1", spec.AZ)
	assert.Equal(t, uint64(2), w.generation("h1"))

	other := put
	other.Aggregate.Hosts = nil
	w.refused(api.CodeConflict, other)
	w.refused(api.CodeNotFound, w.aggregate(aggregate("b", ""), true))
	w.refused(api.CodeNotFound, w.aggregate(aggregate("b", "", "h9"), false))
	named := aggregate("b", "")
	named.Name = "name-a"
	w.refused(api.CodeConflict, w.aggregate(named, false))
	r := w.do(w.aggregate(aggregate("b", "az2", "h1"), false))
	require.EqualError(t, r.Err, `host "h1" is in aggregate "name-a", which puts it into availability zone "az1"`)

	w.ok(w.aggregate(aggregate("b", "az1", "h1"), false)) // the same one is no contradiction
	w.refused(api.CodeConflict, w.aggregate(aggregate("a", "az2", "h1"), true))
	w.ok(command.AggregateDelete{Stamp: w.stamp(), ID: "b"})
	w.refused(api.CodeNotFound, command.AggregateDelete{Stamp: w.stamp(), ID: "b"})
	before := w.generation("h2")
	w.ok(w.aggregate(aggregate("a", "az2", "h1"), true))
	assert.Equal(t, before+1, w.generation("h2"), "it has left")
	assert.Equal(t, "az2", w.s.AZOf("h1"))
	assert.Equal(t, "zone", w.s.AZOf("h2"), "the zone's name")
	meta := aggregate("a", "az2", "h1")
	meta.Metadata["ssd"] = "true"
	before = w.generation("h1")
	w.ok(w.aggregate(meta, true))
	assert.Equal(t, before, w.generation("h1"), "nothing changes for the host")
	byName, ok := w.s.AggregateByName("name-a")
	require.True(t, ok)
	assert.Equal(t, "true", byName.Metadata["ssd"])
	assert.Len(t, w.s.Aggregates(), 1)

	w.ok(command.HostDelete{Stamp: w.stamp(), ID: "h1"})
	a, _ = w.s.Aggregate("a")
	assert.Empty(t, a.Hosts)
	assert.Equal(t, w.now, a.Updated)
	checkIndexes(t, w.s)
}

func TestAvailabilityZones(t *testing.T) {
	w := newWorld(t)
	for _, h := range []string{"h1", "h2", "h3", "h4"} {
		w.host(h, 1)
	}
	w.ok(w.aggregate(aggregate("a", "az1", "h1"), false))
	w.ok(w.aggregate(aggregate("b", "", "h1", "h2"), false))
	assert.Equal(t, []string{"az1", "zone"}, w.s.AZs())
	first, second := w.generation("h1"), w.generation("h2")
	w.ok(command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{DefaultAZ: "az0"}})
	assert.Equal(t, first, w.generation("h1"))
	assert.Equal(t, second+1, w.generation("h2"), "only this one is put elsewhere")
	assert.Equal(t, "az0", specIn(w.s, "h2").AZ)
	h, _ := w.s.Host("h2")
	assert.Equal(t, "az0", h.AZ)
	off, why := false, "disk"
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostDown, Hosts: []api.HostID{"h2"}})
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h3", Enabled: &off})
	assert.Equal(t, []string{"az0", "az1"}, w.s.AZs())
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h4", Maintenance: &why})
	assert.Equal(t, []string{"az1"}, w.s.AZs())
	checkIndexes(t, w.s)
}

func TestAggregateLimit(t *testing.T) {
	w := newWorld(t)
	for i := range api.AggregatesMax {
		require.NoError(t, w.s.Apply(1, w.aggregate(aggregate(strconv.Itoa(i), ""), false)).Err)
	}
	w.refused(api.CodeOverloaded, w.aggregate(aggregate("one more", ""), false))
	w.ok(w.aggregate(aggregate("7", "az"), true))
}

func groupPut(at command.Stamp, p, id, name string) command.GroupPut {
	return command.GroupPut{Stamp: at, Group: api.ServerGroup{
		ID: api.ServerGroupID(id), Name: name, Project: api.ProjectID(p), Policy: api.AntiAffinity, Max: 2,
	}}
}

func TestServerGroups(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 9)
	put := groupPut(w.stamp(), "p", "g1", "web")
	w.ok(put)
	w.unchanged(put)
	changed := put
	changed.Group.Max = 3
	w.refused(api.CodeConflict, changed)
	w.refused(api.CodeConflict, groupPut(w.stamp(), "p", "g2", "web"))
	w.ok(groupPut(w.stamp(), "q", "g2", "web")) // another project
	w.ok(groupPut(w.stamp(), "p", "g3", "db"))

	b, h := create(w.stamp(), "r1", 2, 1), hold(w.stamp(), "k1", "r1", slots("h1", "a", "b", "c"))
	rule := api.Rule{ID: "g1", Policy: api.AntiAffinity, Max: 2, Groups: []int{0}}
	h.Request.Rules = []api.Rule{rule}
	b.Request.Rules = []api.Rule{rule}
	w.ok(b)
	w.ok(h)
	g, ok := w.s.ServerGroup("p", "g1")
	require.True(t, ok)
	assert.Empty(t, g.Members, "held slots are no instances yet")
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	g, _ = w.s.ServerGroupByName("p", "web")
	assert.Equal(t, []api.InstanceID{"a", "b"}, g.Members)
	assert.NotZero(t, g.Created)
	page := w.s.ServerGroups("p", Page{Limit: 1})
	require.Len(t, page, 1)
	assert.Equal(t, g, page[0])
	page = w.s.ServerGroups("p", Page{Marker: "g1", Limit: 9})
	require.Len(t, page, 1)
	assert.Equal(t, "db", page[0].Name)
	assert.Empty(t, w.s.ServerGroups("nobody", Page{Limit: 9}))
	every := w.s.AllServerGroups(Page{Limit: 9})
	require.Len(t, every, 3)
	assert.Equal(t, g, every[0], "with its members")
	assert.Equal(t, []api.ServerGroupID{"g1", "g3", "g2"}, []api.ServerGroupID{every[0].ID, every[1].ID, every[2].ID}, "by project")
	assert.Equal(t, every[:2], w.s.AllServerGroups(Page{Limit: 2}))
	assert.Equal(t, every[1:], w.s.AllServerGroups(Page{Marker: "p/g1", Limit: 9}))
	assert.Empty(t, w.s.AllServerGroups(Page{Marker: "q/g2", Limit: 9}))
	_, ok = w.s.ServerGroup("q", "g1")
	assert.False(t, ok)
	_, ok = w.s.ServerGroupByName("q", "db")
	assert.False(t, ok)

	del := command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "g1"}
	w.ok(del)
	w.refused(api.CodeNotFound, del)
	w.refused(api.CodeNotFound, command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "g2"})
	w.ok(groupPut(w.stamp(), "p", "g9", "web"))
	checkIndexes(t, w.s)
}

func TestServerGroupLimit(t *testing.T) {
	w := newWorld(t)
	for i := range api.ServerGroupsMax {
		w.s.groups.Set(joinKey("p", strconv.Itoa(i)), &api.ServerGroup{ID: api.ServerGroupID(strconv.Itoa(i)), Project: "p", Name: strconv.Itoa(i)})
	}
	w.refused(api.CodeOverloaded, groupPut(w.stamp(), "p", "one more", "x"))
	w.ok(command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "77"})
	w.ok(groupPut(w.stamp(), "p", "one more", "x"))
	w.ok(groupPut(w.stamp(), "q", "one more", "x"))
}

func TestMaintenance(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	set := func(reason, drain string, overrides map[string]string) command.HostSet {
		c := command.HostSet{Stamp: w.stamp(), ID: "h1", Overrides: overrides}
		if reason != "-" {
			c.Maintenance = &reason
		}
		if drain != "-" {
			p := api.DrainPolicy(drain)
			c.Drain = &p
		}
		return c
	}
	w.refused(api.CodeInvalid, set("-", "move", nil))
	w.refused(api.CodeInvalid, set("disk", "never", nil))
	w.refused(api.CodeInvalid, set(strings.Repeat("x", api.FaultMaxBytes+1), "-", nil))
	w.ok(set(strings.Repeat("x", api.FaultMaxBytes), "-", nil))
	before := w.generation("h1")
	w.ok(set("disk", "move", nil))
	w.unchanged(set("disk", "move", nil))
	assert.Equal(t, before+1, w.generation("h1"))
	require.Len(t, w.s.Draining(), 1)
	assert.True(t, specIn(w.s, "h1").Maintenance)
	w.ok(create(w.stamp(), "r1", 1, 1))
	assert.Empty(t, w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a"))).Hold.Slots, "it takes nothing")
	w.ok(set("-", "", nil))
	assert.Empty(t, w.s.Draining())
	w.ok(set("-", "wait", nil))
	w.refused(api.CodeInvalid, set("", "end", nil))
	w.ok(set("", "-", nil))
	h, _ := w.s.Host("h1")
	assert.Empty(t, h.Drain, "maintenance and drain end together")
	assert.NotEmpty(t, w.ok(hold(w.stamp(), "k2", "r1", slots("h1", "a2"))).Hold.Slots)
}

func TestOverrides(t *testing.T) {
	w := newWorld(t)
	put := hostPut(w.stamp(), "a1", "h1", 4)
	put.Hosts[0].Host.Attributes = map[string]string{"price": "3", "rack": "a"}
	w.ok(put)
	set := func(m map[string]string) command.HostSet {
		return command.HostSet{Stamp: w.stamp(), ID: "h1", Overrides: m}
	}
	w.ok(set(map[string]string{"rack": "b", "row": "1"}))
	w.unchanged(set(map[string]string{"rack": "b", "nothing": ""}))
	assert.Equal(t, map[string]string{"price": "3", "rack": "b", "row": "1"}, specIn(w.s, "h1").Attributes)
	w.ok(set(map[string]string{"rack": ""}))
	assert.Equal(t, map[string]string{"price": "3", "rack": "a", "row": "1"}, specIn(w.s, "h1").Attributes)
	h, _ := w.s.Host("h1")
	assert.Equal(t, map[string]string{"row": "1"}, h.Overrides)
	put.At = w.stamp().At
	put.Hosts[0].Host.Attributes = map[string]string{"price": "4"}
	w.ok(put)
	assert.Equal(t, map[string]string{"price": "4", "row": "1"}, specIn(w.s, "h1").Attributes)
	w.ok(set(map[string]string{"row": ""}))

	long := strings.Repeat("x", api.ExtraSpecMaxBytes)
	w.ok(set(map[string]string{long: long}))
	w.refused(api.CodeInvalid, set(map[string]string{long + "x": "1"}))
	w.refused(api.CodeInvalid, set(map[string]string{"k": long + "x"}))
	w.refused(api.CodeInvalid, set(map[string]string{"": "1"}))
	many := map[string]string{long: ""}
	for i := range api.AttributesMax {
		many[strconv.Itoa(i)] = "1"
	}
	w.ok(set(many))
	w.refused(api.CodeInvalid, set(map[string]string{"one": "more"}))
	w.ok(set(map[string]string{"one": "more", "7": ""}))
	checkIndexes(t, w.s)
}

func TestFailures(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4000)
	w.ok(create(w.stamp(), "r1", 1, 1))
	ids := numbered("i", failuresMax+2)
	h := hold(w.stamp(), "k1", "r1", slots("h1", ids...))
	h.Commit = true
	w.ok(h)
	failures := func() int {
		h, _ := w.s.Host("h1")
		assert.Equal(t, h.Failures, specIn(w.s, "h1").Failures)
		return h.Failures
	}
	before := w.generation("h1")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusError, ids[:2]...))
	assert.Equal(t, 2, failures())
	assert.Equal(t, before+1, w.generation("h1"))
	w.unchanged(reports(w.stamp(), "a1", "h1", api.StatusError, ids[:2]...))
	w.ok(reports(w.stamp(), "a2", "h1", api.StatusError, ids[2])) // not its agent
	assert.Equal(t, 2, failures())
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusError, ids[2:failuresMax]...))
	assert.Equal(t, failuresMax, failures())
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusError, ids[failuresMax]))
	assert.Equal(t, failuresMax, failures(), "the count ends there")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, ids[failuresMax+1]))
	assert.Zero(t, failures())
	before = w.generation("h1")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, ids[failuresMax+1]))
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusError, ids[failuresMax+1]))
	assert.Zero(t, failures(), "it had been started")
	assert.Equal(t, before, w.generation("h1"))
	checkIndexes(t, w.s)
}

// TestWhatABootCarries follows call, deadline, groups and rules into the records.
func TestWhatABootCarries(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 9)
	b := create(w.stamp(), "r1", 2, 1)
	b.Call, b.Timeout = "req-1", 5
	g := b.Request.Groups[0]
	g.Name, g.ExtraSpecs = "db", map[string]string{api.SpecEvacuate: "true"}
	b.Request.Groups = append(b.Request.Groups, g)
	b.Request.Rules = []api.Rule{{Policy: api.SoftAffinity, Groups: []int{1}}, {ID: "g", Policy: api.Affinity, Groups: []int{0, 1}}}
	w.ok(b)
	assert.Equal(t, api.RequestID("req-1"), w.boot("r1").Call)
	assert.Equal(t, b.Timeout, w.boot("r1").Timeout)
	w.refused(api.CodeInvalid, hold(w.stamp(), "k1", "r1", slots("h1", "a"))) // it has another number of groups
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a", "b"))
	h.Request, h.Commit = b.Request, true
	h.Slots[1].Group = 1
	w.ok(h)
	one, _ := w.s.Instance("a")
	two, _ := w.s.Instance("b")
	assert.Equal(t, []string{"g"}, one.Rules)
	assert.Equal(t, []string{"r1#0", "g"}, two.Rules)
	assert.Equal(t, []any{"", false, "db", true}, []any{one.Group, one.Movable, two.Group, two.Movable})
}
