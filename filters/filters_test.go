package filters_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

func spec(id string, memory, disk int64) capacity.Spec {
	return capacity.Spec{
		ID: api.HostID(id), Up: true, Enabled: true, Pool: api.PoolShared,
		Inventory: map[api.ResourceClass]api.Inventory{
			api.MemoryMB: {Total: memory}, api.DiskGB: {Total: disk},
		},
	}
}

func view(specs ...capacity.Spec) capacity.View {
	t := capacity.NewTable()
	for _, s := range specs {
		t.Put(s)
	}
	return t.View()
}

// host10 is the reference fleet: host k has 10k of memory and 100k of disk.
func host10() capacity.View {
	var specs []capacity.Spec
	for k := range int64(10) {
		specs = append(specs, spec(fmt.Sprintf("host%02d", k+1), 10*(k+1), 100*(k+1)))
	}
	return view(specs...)
}

func request(class api.Class, end api.Instant, r api.Resources) *api.Request {
	return &api.Request{
		Groups: []api.Group{{Count: 1, Resources: r}}, Class: class,
		Window: api.Window{Start: 0, End: end},
	}
}

func hostNames(v capacity.View, s capacity.Set) []string {
	var out []string
	for row := range s.All() {
		out = append(out, string(v.ID(row)))
	}
	slices.Sort(out)
	return out
}

func runFilters(v capacity.View, req *api.Request, fs ...filters.Filter) ([]string, api.Refusals) {
	return look(filters.NewLook(v, nil, req, 0), fs...)
}

func look(l *filters.Look, fs ...filters.Filter) ([]string, api.Refusals) {
	pass, why := filters.Run(fs, l)
	return hostNames(l.View, pass), why
}

// Acceptance case 17: without a filter all hosts pass.
func TestCase17AllHosts(t *testing.T) {
	got, why := runFilters(host10(), request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 50}))
	assert.Len(t, got, 10)
	assert.Equal(t, api.Refusals{Considered: 10, Offering: 10}, why)
}

// Acceptance case 18: a flavor of 50 MB and 500 GB passes host05 to host10.
func TestCase18FlavorFilter(t *testing.T) {
	req := request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 50, api.DiskGB: 500})
	got, why := runFilters(host10(), req, filters.Default()...)
	assert.Equal(t, []string{"host05", "host06", "host07", "host08", "host09", "host10"}, got)
	assert.Equal(t, api.Refusals{
		Considered: 10, Offering: 6,
		Filters: []api.FilterCount{{Filter: "size", Hosts: 4, Tier: api.TierNeverFits}},
	}, why)
}

// Acceptance case 20: a host with 512 MB takes 512 MB and not 513.
func TestCase20Units(t *testing.T) {
	v := view(spec("h", 512, 1))
	got, _ := runFilters(v, request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 512}), filter(filters.NameCapacity))
	assert.Len(t, got, 1)
	got, _ = runFilters(v, request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 513}), filter(filters.NameCapacity))
	assert.Empty(t, got)
	got, _ = runFilters(v, request(api.Firm, api.Forever, api.Resources{"CUSTOM_GPU": 1}), filter(filters.NameCapacity))
	assert.Empty(t, got, "a class that the host does not name")
}

func TestHostState(t *testing.T) {
	up, down, disabled := spec("up", 1, 1), spec("down", 1, 1), spec("disabled", 1, 1)
	down.Up, disabled.Enabled = false, false
	got, why := runFilters(view(up, down, disabled), request(api.Firm, api.Forever, nil), filter("host_state"))
	assert.Equal(t, []string{"up"}, got)
	assert.Equal(t, []api.FilterCount{{Filter: "host_state", Hosts: 2, Tier: api.TierNotNow}}, why.Filters)
}

// reserving is a request for whole hosts from 50 to 100.
func reserving() *api.Request {
	req := request(api.Firm, 100, nil)
	req.Window.Start, req.Reserves, req.Groups[0].Whole = 50, true, true
	return req
}

// maintenance is a request of an operator for whole hosts from 50 to 100, or of a zone above.
func maintenance(origin api.LinkID) *api.Request {
	req := reserving()
	req.Maintenance, req.Origin = true, origin
	return req
}

// Maintenance takes hosts in any state, but not for a zone above.
func TestMaintenanceTakesAnyHost(t *testing.T) {
	up, down := spec("up", 1, 1), spec("down", 1, 1)
	down.Up = false
	got, _ := runFilters(view(up, down), maintenance(""), filter("host_state"))
	assert.Equal(t, []string{"down", "up"}, got)
	got, _ = runFilters(view(up, down), maintenance("parent"), filter("host_state"))
	assert.Equal(t, []string{"up"}, got)
}

// A whole host must be idle: what else a lease needs of it is for other filters.
func TestWholeHosts(t *testing.T) {
	table := capacity.NewTable()
	for _, id := range []string{"idle", "used", "later", "before", "bare", "kept"} {
		table.Put(spec(id, 10, 10))
	}
	bare := spec("bare", 0, 0)
	bare.Inventory = nil
	table.Put(bare)
	for id, w := range map[api.HostID]api.Window{
		"used": {Start: 0, End: api.Forever}, "later": {Start: 99, End: 100}, "before": {Start: 0, End: 50},
	} {
		require.NoError(t, table.Claim(id, api.Claim{Class: api.Firm, Window: w, Resources: api.Resources{api.MemoryMB: 1}}))
	}
	_, _, err := table.PlaceWhole("kept", api.Claim{Class: api.Firm, Window: api.Window{Start: 10, End: 51}})
	require.NoError(t, err)
	got, why := runFilters(table.View(), reserving(), filter(filters.NameCapacity))
	assert.Equal(t, []string{"before", "idle"}, got)
	assert.Equal(t, []api.FilterCount{
		{Filter: "size", Hosts: 1, Tier: api.TierNeverFits}, {Filter: "in_use", Hosts: 2, Tier: api.TierNotNow}, {Filter: "promised", Hosts: 1, Tier: api.TierNotNow},
	}, why.Filters)
}

func TestPool(t *testing.T) {
	d, r, s, x := spec("d", 1, 1), spec("r", 1, 1), spec("s", 1, 1), spec("x", 1, 1)
	d.Pool, r.Pool, s.Pool, x.Pool = api.PoolOnDemand, api.PoolReservable, api.PoolShared, ""
	v := view(d, r, s, x)
	inside := request(api.Firm, api.Forever, nil)
	inside.Within = "reservation"
	for _, c := range []struct {
		req  *api.Request
		want []string
	}{
		{request(api.Firm, api.Forever, nil), []string{"d", "s"}},
		{request(api.Firm, 100, nil), []string{"d", "s"}},
		{request(api.Preemptible, api.Forever, nil), []string{"r", "s"}},
		{reserving(), []string{"r", "s"}},
		{inside, []string{"d", "r", "s", "x"}},
		{maintenance(""), []string{"d", "r", "s", "x"}},
		{maintenance("parent"), []string{"r", "s"}},
	} {
		got, _ := runFilters(v, c.req, filter("pool"))
		assert.Equal(t, c.want, got)
	}
}

func TestDriver(t *testing.T) {
	process, fake := spec("process", 1, 1), spec("fake", 1, 1)
	process.NeedsCommand = true
	v := view(process, fake)
	has := func(f api.FlavorID) bool { return f == "web" }
	req := request(api.Firm, api.Forever, nil)
	for flavor, want := range map[api.FlavorID]int{"web": 2, "vm": 1, "": 1} {
		req.Groups[0].Flavor = flavor
		l := filters.NewLook(v, &filters.World{HasCommand: has}, req, 0)
		got, _ := look(l, filter("driver"))
		assert.Len(t, got, want, "flavor %q", flavor)
	}
	req.Groups[0].Flavor = "web"
	got, _ := runFilters(v, req, filter("driver"))
	assert.Equal(t, []string{"fake"}, got)
}

// Counts add up for any fleet: a host is counted once, by the first filter that
// drops it.
func TestRunAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var specs []capacity.Spec
		for i := range rapid.IntRange(0, 80).Draw(t, "hosts") {
			s := spec(strconv.Itoa(i), rapid.Int64Range(0, 4).Draw(t, "memory"), 1)
			s.Up, s.Enabled = rapid.Bool().Draw(t, "up"), rapid.Bool().Draw(t, "enabled")
			s.NeedsCommand = rapid.Bool().Draw(t, "needs")
			s.Pool = rapid.SampledFrom([]api.Pool{api.PoolOnDemand, api.PoolReservable, api.PoolShared}).Draw(t, "pool")
			specs = append(specs, s)
		}
		got, why := runFilters(view(specs...), request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 2}), filters.Default()...)
		sum := why.Offering
		for _, f := range why.Filters {
			require.Positive(t, f.Hosts)
			sum += f.Hosts
		}
		require.Equal(t, why.Considered, sum)
		require.Equal(t, len(specs), why.Considered)
		require.Len(t, got, why.Offering)
	})
}

func ExampleRun() {
	down := spec("b", 4096, 1)
	down.Up = false
	v := view(spec("a", 512, 1), down, spec("c", 4096, 1))
	req := request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 1024})
	pass, why := filters.Run(filters.Default(), filters.NewLook(v, nil, req, 0))
	fmt.Println(hostNames(v, pass), why.Considered, why.Filters)
	// Output: [c] 3 [{host_state 1 not_now []} {size 1 never_fits []}]
}
