package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/native"
	"berth/httpd/placement"
	"berth/internal/golden"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
)

// kid is the digest that the only child of a liveZone sent a second ago.
type kid struct{}

func (kid) Digest(api.ZoneID) (api.Digest, time.Duration, bool) {
	return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 64, Free: 32}}}, time.Second, true
}

// What a liveZone has beside the UUIDs of the canned zone.
const (
	uuidHost2 = "66666666-6666-4666-8666-666666666666"
	uuidInst  = "77777777-7777-4777-8777-777777777777" // an instance on h1
)

// sentence matches a refusal of a zone, whose words are tested where they are written.
var sentence = regexp.MustCompile(`(?m)^2> berth: .* \((\w+), request req-[0-9a-f-]+\)$`)

// liveZone serves the API of a zone without nodes: the hosts h1 and h2 in the
// aggregate rack1, an instance on h1, and a child called east.
func liveZone(t *testing.T) *httptest.Server {
	t.Helper()
	store := memstore.NewOfForm(api.FormNewest)
	now := func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }
	z := zone.New(zone.Config{Store: store, Now: now, Log: slog.New(slog.DiscardHandler)})
	shape := api.Resources{api.VCPU: 2, api.MemoryMB: 512}
	hosts := command.HostsPut{Stamp: z.Stamp(), Agent: "agent-1"}
	for i, id := range []api.HostID{uuidHost, uuidHost2} {
		hosts.Hosts = append(hosts.Hosts, command.HostEntry{ID: id, Host: api.AgentHost{
			Name: fmt.Sprint("h", i+1), Driver: "fake", Pool: api.PoolShared, Traits: []string{"HW_CPU_X86_AVX2"},
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}, api.MemoryMB: {Total: 4096, Reserved: 96}},
		}})
	}
	request := api.Request{
		Reservation: "r-1", Project: "web", User: "ada", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "small", Resources: shape}},
	}
	spec := api.InstanceSpec{ID: uuidInst, Name: "i"}
	store.Must(
		t,
		command.Init{Stamp: z.Stamp(), Zone: "zone-home", Name: "home"},
		command.LinkPut{Stamp: z.Stamp(), Link: api.Link{ID: "link-east", Name: "east", Role: api.LinkChild, Zone: "zone-east", Scale: 1, State: api.LinkActive}},
		command.FlavorPut{Stamp: z.Stamp(), Flavor: api.Flavor{ID: "small", Name: "small", Resources: shape}},
		hosts,
		command.AggregatePut{Stamp: z.Stamp(), Aggregate: api.Aggregate{ID: uuidRack, Name: "rack1", Hosts: []api.HostID{uuidHost, uuidHost2}}},
		command.BootCreate{Stamp: z.Stamp(), BootTerms: command.BootTerms{Digest: []byte("i"), Name: "i", Request: request, Min: 1, Instances: []api.InstanceSpec{spec}}},
		command.Hold{
			Stamp: z.Stamp(), ID: "hold-i", Attempt: 1, Request: request, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: spec, Host: uuidHost}},
		},
	)
	c := door.Config{
		Zone: z, Now: now, Log: slog.New(slog.DiscardHandler), Insecure: true,
		Leader: func() bool { return true }, Forward: http.NotFoundHandler(),
	}
	mux := http.NewServeMux()
	mux.Handle("/", native.New(native.Config{Door: c, Estimator: estimate.New(estimate.Config{Zone: z, Digests: kid{}}), Digests: kid{}}))
	mux.Handle(placement.Mount+"/", placement.New(placement.Config{Door: c}))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// TestPlacementVerbsOnAZone runs a story of providers against a zone that is real except
// for its nodes.
func TestPlacementVerbsOnAZone(t *testing.T) {
	srv := liveZone(t)
	var b bytes.Buffer
	for _, line := range []string{
		"provider list",
		"provider show h1",
		"provider create pool1 --uuid " + uuidPool,
		"provider create pool1",
		"provider inventory list pool1",
		"provider inventory set pool1 DISK_GB=1000:min_unit=5,step_size=10",
		"provider inventory set pool1 DISK_GB=500:allocation_ratio=1.15",
		"provider inventory set pool1 DISK_GB=1 --generation 1",
		"provider trait set pool1 MISC_SHARES_VIA_AGGREGATE",
		"provider trait set pool1 CUSTOM_SSD",
		"trait create CUSTOM_SSD",
		"trait create ssd",
		"provider trait set pool1 CUSTOM_SSD",
		"trait list --used --prefix CUSTOM_",
		"trait delete CUSTOM_SSD --yes",
		"provider aggregate set pool1 rack1 " + uuidZ,
		"provider aggregate list h1",
		"provider aggregate unset h1 --all",
		"provider create h1-gpu0 --parent h1 --uuid " + uuidGPU,
		"resource-class create CUSTOM_LICENSE",
		"provider inventory set h1-gpu0 PGPU=1 CUSTOM_LICENSE=3",
		"resource-class delete CUSTOM_LICENSE --yes",
		"provider inventory unset h1-gpu0 CUSTOM_LICENSE",
		"resource-class delete CUSTOM_LICENSE --yes",
		"provider list --tree",
		"provider list --in-tree h1-gpu0",
		"provider list --member-of !rack1",
		"provider list --resources VCPU=7",
		"provider list --required CUSTOM_SSD",
		"candidates --resources VCPU=1,DISK_GB=10 --group gpu:PGPU=1",
		"candidates --resources VCPU=9",
		"candidates --resources VCPU=1 --group _a:PGPU=1 --group _b:PGPU=1 --isolate",
		"allocation set " + uuidC + " --project web --user ada --allocation h1:VCPU=2 --allocation pool1:DISK_GB=5",
		"allocation set " + uuidC + " --allocation h1:VCPU=1 --generation 0",
		"allocation set " + uuidC + " --allocation h1:VCPU=7",
		"allocation set " + uuidC + " --allocation pool1:DISK_GB=15",
		"allocation set " + uuidC + " --allocation h1:VCPU=4,MEMORY_MB=512 --type MIGRATION --generation 1",
		"allocation set " + uuidInst + " --allocation h1:VCPU=1",
		"allocation list " + uuidInst,
		"allocation delete " + uuidInst + " --yes",
		"provider usage h1",
		"provider allocations h1",
		"provider inventory unset h1 VCPU",
		"provider inventory set h1 VCPU --ratio 2",
		"host show h1",
		"provider inventory set h1 VCPU:allocation_ratio=1 --reserved 1",
		"provider inventory set h1 VCPU --reserved 0",
		"provider inventory set h1 PGPU --reserved 0",
		"provider inventory set h1 MEMORY_MB --reserved 0",
		"provider inventory set h1 MEMORY_MB=4096 VCPU:min_unit=1 --only",
		"provider inventory set h1 VCPU=4",
		"provider usage h1",
		"provider inventory set h1 VCPU=8 DISK_GB=20",
		"provider inventory unset h1 --all",
		"provider set h1-gpu0 --parent h2",
		"provider set h1-gpu0 --name h2-gpu0",
		"provider set h2-gpu0 --no-parent",
		"provider set h1 --name h3",
		"provider show h2-gpu0",
		"provider set h2-gpu0 --parent h2",
		"capacity",
		"capacity --zone home --at 2030-01-02T00:00:00Z",
		"capacity --at 2029-01-01T00:00:00Z",
		"provider delete h1 --yes",
		"allocation delete " + uuidC + " --yes",
		"allocation delete " + uuidC + " --yes",
		"allocation list " + uuidC,
		"provider delete pool1 --yes",
		"provider delete h2-gpu0 --yes",
		"provider list --linearizable --no-headers",
	} {
		r := berth(t.Context(), map[string]string{"BERTH_ADDR": srv.URL}, "", strings.Fields(line)...)
		record(&b, line, nil, r)
		assert.NotContains(t, r.errOut, "not from a zone of Berth", line)
	}
	text := sentence.ReplaceAllString(b.String(), "2> berth: ... ($1)")
	golden.Check(t, "testdata/placement.txt", []byte(text))
}

// TestClaimsOfManyWriters lets writers claim one unit each, of one provider and of
// several, until nobody has room: what there is is given, and no more.
func TestClaimsOfManyWriters(t *testing.T) {
	for _, providers := range []int{1, 4} {
		t.Run(strconv.Itoa(providers), func(t *testing.T) { claimAll(t, providers) })
	}
}

func claimAll(t *testing.T, providers int) {
	t.Helper()
	const room, writers, each = 24, 16, 3 // twice as many claims as there is room for
	srv := liveZone(t)
	c, err := client.New(client.Config{Addr: srv.URL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx := t.Context()
	require.NoError(t, c.CreateResourceClass(ctx, "CUSTOM_SEAT"))
	stock := map[api.ResourceClass]rest.Inventory{"CUSTOM_SEAT": {Total: int64(room / providers)}}
	var ids []api.ProviderID
	for i := range providers {
		p, err := c.CreateProvider(ctx, client.ProviderSpec{Name: fmt.Sprint("hall", i)})
		require.NoError(t, err)
		_, err = c.SetInventories(ctx, p.ID, client.Inventories{Generation: p.Generation, Inventories: stock})
		require.NoError(t, err)
		ids = append(ids, p.ID)
	}
	q := client.CandidateQuery{Groups: []client.CandidateGroup{{Resources: api.Resources{"CUSTOM_SEAT": 1}}}}
	var wg sync.WaitGroup
	errs := make([]error, writers*each)
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				_, errs[w*each+n] = c.Claim(ctx, q, client.Claimant{Consumer: api.ConsumerID(api.NewUUID()), Project: "p", User: "u", Type: "SEAT"})
			}
		})
	}
	wg.Wait()
	granted := 0
	for _, err := range errs {
		if err == nil {
			granted++
			continue
		}
		assert.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "%v", err)
	}
	assert.Equal(t, room, granted)
	for _, id := range ids {
		used, err := c.ProviderUsages(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, int64(room/providers), used.Usages["CUSTOM_SEAT"])
	}
}

// TestTypedErrorsOfAZone makes the placement API return each of its codes.
func TestTypedErrorsOfAZone(t *testing.T) {
	srv := liveZone(t)
	c, err := client.New(client.Config{Addr: srv.URL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx := t.Context()
	is := func(want api.Code, err error) {
		t.Helper()
		e, ok := errors.AsType[*api.Error](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, want, e.Code, e.Msg)
		assert.NotEmpty(t, client.RequestIDOf(err))
	}
	is(api.CodeNotFound, second(c.Provider(ctx, uuidZ)))
	is(api.CodeExists, second(c.CreateProvider(ctx, client.ProviderSpec{Name: "h1"})))
	above := api.ProviderID(uuidHost)
	_, err = c.CreateProvider(ctx, client.ProviderSpec{ID: uuidGPU, Name: "gpu", Parent: &above})
	require.NoError(t, err)
	is(api.CodeExists, second(c.CreateProvider(ctx, client.ProviderSpec{ID: uuidGPU, Name: "gpu2"})))
	is(api.CodeHasChildren, c.DeleteProvider(ctx, uuidHost))
	is(api.CodeStale, second(c.SetInventories(ctx, uuidGPU, client.Inventories{Generation: 9})))
	is(api.CodeInvalid, second(c.SetInventories(ctx, uuidGPU, client.Inventories{Inventories: map[api.ResourceClass]rest.Inventory{"CUSTOM_NONE": {Total: 1}}})))
	_, err = c.SetInventories(ctx, uuidGPU, client.Inventories{Inventories: map[api.ResourceClass]rest.Inventory{"PGPU": {Total: 2}}})
	require.NoError(t, err)
	generation, err := c.SetInventory(ctx, uuidGPU, 1, "PGPU", rest.Inventory{Total: 3})
	require.NoError(t, err)
	assert.Equal(t, uint64(2), generation)
	claim := func(n int64, generation *uint64) client.Allocations {
		return client.Allocations{
			Allocations: map[api.ProviderID]client.Allocated{uuidGPU: {Resources: api.Resources{"PGPU": n}}},
			Project:     "p", User: "u", Type: "T", Generation: generation,
		}
	}
	is(api.CodeNoCapacity, c.PutAllocations(ctx, uuidC, claim(4, nil)))
	require.NoError(t, c.PutAllocations(ctx, uuidC, claim(2, nil)))
	is(api.CodeStale, c.PutAllocations(ctx, uuidC, claim(1, nil)))
	is(api.CodeInUse, c.DeleteProvider(ctx, uuidGPU))
	is(api.CodeInUse, c.DeleteInventory(ctx, uuidGPU, "PGPU"))
	is(api.CodeInUse, c.DeleteInventories(ctx, uuidGPU))
	is(api.CodeNotFound, c.DeleteInventory(ctx, uuidGPU, "VCPU"))
	is(api.CodeInvalid, second(c.Candidates(ctx, client.CandidateQuery{})))
	one := uint64(1)
	is(api.CodeNotFound, c.Reshape(ctx, client.Reshape{
		Inventories: map[api.ProviderID]client.Inventories{uuidZ: {}}, Allocations: map[api.ConsumerID]client.Allocations{uuidC: claim(1, &one)},
	}))
	require.NoError(t, c.Reshape(ctx, client.Reshape{
		Inventories: map[api.ProviderID]client.Inventories{uuidGPU: {Generation: 3, Inventories: map[api.ResourceClass]rest.Inventory{"PGPU": {Total: 1}}}},
		Allocations: map[api.ConsumerID]client.Allocations{uuidC: claim(1, &one)},
	}))
	held, err := c.Allocations(ctx, uuidC)
	require.NoError(t, err)
	assert.Equal(t, uint64(2), *held.Generation)
	require.NoError(t, c.PostAllocations(ctx, map[api.ConsumerID]client.Allocations{uuidC: {Project: "p", User: "u", Type: "T", Generation: held.Generation}}))
	is(api.CodeNotFound, c.DeleteAllocations(ctx, uuidC))
	sums, err := c.Usages(ctx, "web", "ada")
	require.NoError(t, err)
	assert.Equal(t, []client.Usage{{Type: "INSTANCE", Consumers: 1, Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 512}}}, sums)
}

// second returns the error of a call that answers something.
func second[T any](_ T, err error) error { return err }
