package intake

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/memstore"
)

func TestFlavors(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, c := range []struct {
		spec rest.FlavorSpec
		part string
	}{
		{rest.FlavorSpec{Name: "detail", VCPUs: new(int64(1))}, `a flavor cannot be called "detail"`},
		{rest.FlavorSpec{Name: "a", ID: "detail", VCPUs: new(int64(1))}, "flavor id: "},
		{rest.FlavorSpec{Name: "a b"}, "flavor name must be"},
		{rest.FlavorSpec{Name: "a", RAM: new(int64(1)), Resources: api.Resources{api.MemoryMB: 1}}, "give ram or resources.MEMORY_MB, not both"},
		{rest.FlavorSpec{Name: "a", VCPUs: new(int64(1)), ExtraSpecs: map[string]string{"trait:SSD": "yes"}}, "trait:SSD must be required or forbidden"},
		{rest.FlavorSpec{Name: "a", VCPUs: new(int64(1)), ExtraSpecs: map[string]string{"blazar:preemptible": "yes"}}, `blazar:preemptible must be true or false, got "yes"`},
		{rest.FlavorSpec{Name: "a", VCPUs: new(int64(1)), ExtraSpecs: map[string]string{"trait:ssd": "required"}}, `"trait:ssd" must name a trait`},
	} {
		before := w.index()
		_, err := CreateFlavor(ctx, w.zone, c.spec)
		refused(t, err, api.CodeInvalid, c.part)
		assert.Equal(t, before, w.index())
	}
	id, err := CreateFlavor(ctx, w.zone, rest.FlavorSpec{Name: "big", VCPUs: new(int64(4)), RAM: new(int64(8)), Disk: new(int64(16))})
	require.NoError(t, err)
	require.NoError(t, ReplaceFlavor(ctx, w.zone, id, rest.FlavorSpec{VCPUs: new(int64(5))}))
	f, err := Flavor(w.store.View(), id)
	require.NoError(t, err)
	assert.Equal(t, api.Resources{api.VCPU: 5}, f.Resources)
	refused(t, ReplaceFlavor(ctx, w.zone, id, rest.FlavorSpec{ID: "other", VCPUs: new(int64(5))}), api.CodeInvalid, "cannot be changed")
	require.NoError(t, DeleteFlavor(ctx, w.zone, id))
	refused(t, DeleteFlavor(ctx, w.zone, id), api.CodeNotFound, `no flavor "big"`)
	refused(t, ReplaceFlavor(ctx, w.zone, id, rest.FlavorSpec{VCPUs: new(int64(5))}), api.CodeNotFound, `no flavor "big"`)
}

func TestServerGroups(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, c := range []struct {
		spec rest.ServerGroupSpec
		part string
	}{
		{rest.ServerGroupSpec{Name: "a b", Policy: api.Affinity}, "server group name must be"},
		{rest.ServerGroupSpec{Name: "a", Policy: "near"}, "policy must be"},
		{rest.ServerGroupSpec{Name: "a", Policy: api.Affinity, Max: 1}, "max_per_host is for anti-affinity alone"},
		{rest.ServerGroupSpec{Name: "a", Policy: api.AntiAffinity, Max: api.CountMax + 1}, "max_per_host must be 1 to 10000"},
	} {
		_, err := CreateServerGroup(ctx, w.zone, "p1", c.spec)
		refused(t, err, api.CodeInvalid, c.part)
	}
	id, err := CreateServerGroup(ctx, w.zone, "p1", rest.ServerGroupSpec{Name: "near", Policy: api.AntiAffinity})
	require.NoError(t, err)
	g, err := ServerGroup(w.store.View(), "p1", "near")
	require.NoError(t, err)
	assert.Equal(t, []any{id, 1}, []any{g.ID, g.Max})
	refused(t, DeleteServerGroup(ctx, w.zone, "p2", "near"), api.CodeNotFound, `no server group "near"`)
	require.NoError(t, DeleteServerGroup(ctx, w.zone, "p1", string(id)))
}

func TestAggregates(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, c := range []struct {
		change rest.AggregateSpec
		part   string
	}{
		{rest.AggregateSpec{}, "aggregate name must be"},
		{rest.AggregateSpec{Name: new("a"), Metadata: map[string]string{api.MetaAZ: "a b"}}, "metadata.availability_zone must be"},
		{rest.AggregateSpec{Name: new("a"), Hosts: &[]string{"host-9"}}, `hosts: there is no host "host-9" in this zone`},
	} {
		_, err := CreateAggregate(ctx, w.zone, c.change)
		refused(t, err, api.CodeInvalid, c.part)
	}
	id, err := CreateAggregate(ctx, w.zone, rest.AggregateSpec{Name: new("rack2"), Hosts: &[]string{"host-2", "host-id-3"}})
	require.NoError(t, err)
	a, err := Aggregate(w.store.View(), "rack2")
	require.NoError(t, err)
	assert.Equal(t, []api.HostID{"host-id-2", "host-id-3"}, a.Hosts)
	require.NoError(t, ChangeAggregate(ctx, w.zone, a, rest.AggregateSpec{Name: new("rack3")}))
	a, err = Aggregate(w.store.View(), string(id))
	require.NoError(t, err)
	assert.Equal(t, []any{"rack3", 2}, []any{a.Name, len(a.Hosts)}, "what is absent stays")
	require.NoError(t, DeleteAggregate(ctx, w.zone, "rack3"))
	refused(t, DeleteAggregate(ctx, w.zone, "rack3"), api.CodeNotFound, `no aggregate "rack3"`)
}

func TestHosts(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	long := strings.Repeat("x", api.ExtraSpecMaxBytes+1)
	refused(t, ChangeHost(ctx, w.zone, "host-1", rest.HostSpec{Pool: new(api.Pool("none"))}), api.CodeInvalid, "pool must be")
	refused(t, ChangeHost(ctx, w.zone, "host-1", rest.HostSpec{Maintenance: &long}), api.CodeInvalid, "maintenance may have at most 255 bytes, got 256")
	refused(t, ChangeHost(ctx, w.zone, "host-9", rest.HostSpec{}), api.CodeNotFound, `no host "host-9"`)
	refused(t, ChangeHost(ctx, w.zone, "host-1", rest.HostSpec{Generation: 99, Enabled: new(false)}), api.CodeStale, "")
	refused(t, DrainHost(ctx, w.zone, "host-1", "soon", ""), api.CodeInvalid, "policy must be")
	refused(t, DrainHost(ctx, w.zone, "host-1", api.DrainWait, long), api.CodeInvalid, "reason may have at most 255 bytes")

	maintenance := func() string {
		h, err := Host(w.store.View(), "host-1")
		require.NoError(t, err)
		return h.Maintenance
	}
	require.NoError(t, DrainHost(ctx, w.zone, "host-1", api.DrainWait, ""))
	assert.Equal(t, "drained", maintenance())
	require.NoError(t, DrainHost(ctx, w.zone, "host-id-1", api.DrainWait, "disk"))
	require.NoError(t, DrainHost(ctx, w.zone, "host-1", api.DrainMove, ""))
	assert.Equal(t, "disk", maintenance(), "a reason that is there stays")
	require.NoError(t, UndrainHost(ctx, w.zone, "host-1"))
	assert.Empty(t, maintenance())
	require.NoError(t, DeleteHost(ctx, w.zone, "host-3"))
	refused(t, DeleteHost(ctx, w.zone, "host-3"), api.CodeNotFound, `no host "host-3"`)
}

func TestLinks(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, c := range []struct {
		change rest.ZoneSpec
		part   string
	}{
		{rest.ZoneSpec{Name: new("info")}, `a zone cannot be called "info"`},
		{rest.ZoneSpec{Offset: new(int64(offsetMax + 1))}, "weight_offset must be"},
		{rest.ZoneSpec{Scale: new(int64(0))}, "weight_scale must be 1 to 1000000"},
		{rest.ZoneSpec{State: new(api.LinkState("gone"))}, "state must be"},
		{rest.ZoneSpec{Gateways: []string{}}, "gateways"},
	} {
		_, err := ChangeLink(ctx, w.zone, "east", c.change)
		refused(t, err, api.CodeInvalid, c.part)
	}
	l, err := ChangeLink(ctx, w.zone, "east", rest.ZoneSpec{Name: new("far-east"), Scale: new(int64(2))})
	require.NoError(t, err)
	assert.Equal(t, []any{"far-east", int64(2)}, []any{l.Name, l.Scale})
	_, err = ChangeLink(ctx, w.zone, "east", rest.ZoneSpec{})
	refused(t, err, api.CodeNotFound, `no zone "east" is linked to this one`)
	require.NoError(t, DeleteLink(ctx, w.zone, "link-west"))
}

func TestTheConfiguration(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, c := range []struct {
		config api.ZoneConfig
		part   string
	}{
		{api.ZoneConfig{PlanTTL: planTTLMin - 1}, "plan_ttl must be 10s to"},
		{api.ZoneConfig{PlanTTL: api.PlanTTLMax + 1}, "plan_ttl must be"},
		{api.ZoneConfig{HostGrace: hostGraceMin - 1}, "host_grace must be 4s to 1h0m0s"},
		{api.ZoneConfig{HostGrace: hostGraceMax + 1}, "host_grace must be"},
		{api.ZoneConfig{Tags: many(tagsMax + 1)}, "at most 32 tags"},
		{api.ZoneConfig{Tags: []string{"a b"}}, "tag must be"},
		{api.ZoneConfig{DefaultAZ: "a b"}, "default_availability_zone must be"},
		{api.ZoneConfig{Preemptibles: api.PreemptRule{Grace: api.PreemptGraceMax + 1}}, "preemptibles.grace must be"},
	} {
		refused(t, SetConfig(ctx, w.zone, c.config), api.CodeInvalid, c.part)
	}
	c := api.ZoneConfig{PlanTTL: planTTLMin, HostGrace: hostGraceMax, Tags: []string{"fast"}, DefaultAZ: "az"}
	require.NoError(t, SetConfig(ctx, w.zone, c))
	got := w.store.View().Config
	assert.Equal(t, []any{c.PlanTTL, c.HostGrace, c.Tags, c.DefaultAZ}, []any{got.PlanTTL, got.HostGrace, got.Tags, got.DefaultAZ})
	refused(t, SetScheduler(ctx, w.zone, api.Scheduler{Filters: []api.FilterSpec{{Name: "nope"}}, Costs: []api.CostWeight{{Name: "neither"}}}), api.CodeInvalid, "; ")
	require.NoError(t, SetScheduler(ctx, w.zone, api.Scheduler{}))
}

func TestTokens(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	roles, admin := []api.UserRole{api.RoleReader}, api.Caller{Role: api.RoleAdmin}
	for _, c := range []struct {
		spec rest.TokenSpec
		part string
	}{
		{rest.TokenSpec{Project: "p", Roles: roles}, "user_id must be"},
		{rest.TokenSpec{User: "u", Project: "a b", Roles: roles}, "project_id must be"},
		{rest.TokenSpec{User: "u", Project: "p"}, "roles must name at least one"},
		{rest.TokenSpec{User: "u", Project: "p", Roles: []api.UserRole{"owner"}}, `role "owner" must be`},
		{rest.TokenSpec{User: "u", Project: "p", Roles: roles, TTL: -1}, "ttl must not be negative"},
	} {
		_, err := Token(w.store.View(), admin, epoch, c.spec)
		refused(t, err, api.CodeInvalid, c.part)
	}
	for ttl, want := range map[time.Duration]api.Instant{0: api.InstantOf(epoch.Add(api.TokenTTLDefault)), time.Hour: api.InstantOf(epoch.Add(time.Hour))} {
		one, err := Token(w.store.View(), admin, epoch, rest.TokenSpec{User: "u", Project: "p", Roles: roles, TTL: rest.Duration(ttl)})
		require.NoError(t, err)
		assert.Equal(t, []api.Instant{api.InstantOf(epoch), want}, []api.Instant{one.Created, one.Expires})
	}
	for ttl, want := range map[time.Duration]time.Duration{0: joinTTLDefault, 1: 1, api.JoinTokenTTLMax: api.JoinTokenTTLMax} {
		got, err := JoinTTL(api.JoinAgent, "a", ttl)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, ttl := range []time.Duration{-1, api.JoinTokenTTLMax + 1} {
		_, err := JoinTTL(api.JoinNode, "a", ttl)
		refused(t, err, api.CodeInvalid, "ttl must be more than 0s")
	}
	_, err := JoinTTL("zone", "a", 0)
	refused(t, err, api.CodeInvalid, "kind must be")
	_, err = JoinTTL(api.JoinNode, "a b", 0)
	refused(t, err, api.CodeInvalid, "name must be")
	require.NoError(t, DeleteToken(ctx, w.zone, admin, "token"))
	refused(t, DeleteToken(ctx, w.zone, admin, "token"), api.CodeNotFound, `no token "token"`)
}

func TestBootsAndServersEnd(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	refused(t, ReleaseBoot(ctx, w.zone, "p2", "r-web"), api.CodeNotFound, `no reservation "r-web"`)
	require.NoError(t, DeleteServer(ctx, w.zone, "id-web"))
	i, _ := w.store.View().Instance("id-web")
	assert.Equal(t, api.StatusDeleting, i.Status)
	require.NoError(t, ReleaseBoot(ctx, w.zone, "p2", "r-hidden"))
	refused(t, DeleteServer(ctx, w.zone, "id-none"), api.CodeNotFound, "")
	refused(t, ResolveHold(ctx, w.zone, "hold-web", "perhaps"), api.CodeInvalid, "decision must be")
	refused(t, ResolveHold(ctx, w.zone, "hold-web", api.DecisionAbort), api.CodeNotFound, "no undecided hold")
}

// TestWhatNamesNothingIsNotRefusedFromThePast: a node that led once may not have seen
// what is there.
func TestWhatNamesNothingIsNotRefusedFromThePast(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	past := w.store.View()
	_, err := CreateFlavor(ctx, w.zone, rest.FlavorSpec{Name: "new", VCPUs: new(int64(1))})
	require.NoError(t, err)
	w.serve(memstore.NewPast(w.store, past, false))
	before := w.index()
	refused(t, DeleteFlavor(ctx, w.zone, "none"), api.CodeNotFound, `no flavor "none"`)
	assert.Equal(t, before, w.index(), "and the log stays as it is")
	require.NoError(t, DeleteFlavor(ctx, w.zone, "new"))
	w.serve(memstore.NewPast(w.store, past, true))
	refused(t, DeleteFlavor(ctx, w.zone, "none"), api.CodeUnavailable, "")
}
