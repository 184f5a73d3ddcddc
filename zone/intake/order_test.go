package intake

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

var (
	member = api.Caller{User: "m", Project: "p1", Role: api.RoleMember}
	admin  = api.Caller{User: "a", Project: "p1", Role: api.RoleAdmin}
)

// order reads what s asks for.
func (w *world) order(c api.Caller, s *rest.ServerCreate) (*BootOrder, error) {
	return Order(w.zone, nil, Source{Caller: c, Call: "req-1"}, &rest.BootBody{Server: *s})
}

// web returns what asks for one small instance, as change has it.
func web(change func(s *rest.ServerCreate)) *rest.ServerCreate {
	s := &rest.ServerCreate{Name: "web", FlavorRef: "small"}
	change(s)
	return s
}

// hinted returns what asks for one small instance with hints.
func hinted(h rest.SchedulerHints) *rest.ServerCreate {
	return web(func(s *rest.ServerCreate) { s.Hints = &h })
}

// grouped returns what asks for groups, with rules between them.
func grouped(rules []rest.RuleCreate, groups ...rest.GroupCreate) *rest.ServerCreate {
	return &rest.ServerCreate{Name: "shop", Groups: groups, Rules: rules}
}

func TestAnOrderIsChecked(t *testing.T) {
	w := newWorld(t)
	one, two := rest.GroupCreate{Name: "web", FlavorRef: "small"}, rest.GroupCreate{Name: "db", FlavorRef: "small"}
	for _, c := range []struct {
		server *rest.ServerCreate
		part   string
	}{
		{web(func(s *rest.ServerCreate) { s.Name = "" }), "name must be"},
		{web(func(s *rest.ServerCreate) { s.FlavorRef = "none" }), `flavorRef: there is no flavor "none" in this zone`},
		{web(func(s *rest.ServerCreate) { s.Reservation = "a b" }), "reservation_id must be"},
		{web(func(s *rest.ServerCreate) { s.MaxCount = new(0) }), "max_count must be 1 to 10000, got 0"},
		{web(func(s *rest.ServerCreate) { s.NumInstances = new(0) }), "num_instances must be 1 to 10000"},
		{web(func(s *rest.ServerCreate) { s.MinCount, s.MaxCount = new(3), new(2) }), "min_count 3 must not exceed max_count 2"},
		{web(func(s *rest.ServerCreate) { s.NumInstances, s.MaxCount = new(3), new(2) }), "two names of one number"},
		{web(func(s *rest.ServerCreate) { s.Lifetime = "1500us" }), "lifetime must be a duration"},
		{web(func(s *rest.ServerCreate) { s.Timeout = "61m" }), "timeout must be a duration from 1ms to 1h0m0s"},
		{web(func(s *rest.ServerCreate) { s.AvailabilityZone = "a b" }), "availability_zone must be"},
		{web(func(s *rest.ServerCreate) { s.Traits = &rest.Traits{Required: []string{"lower"}} }), `trait "lower" must be`},
		{web(func(s *rest.ServerCreate) { s.Zones = &rest.ZoneRule{Allowed: []string{"nope"}} }), "this is zone root, and its direct children are east, west"},
		{web(func(s *rest.ServerCreate) { s.Zones = &rest.ZoneRule{Excluded: []string{"west/edge"}} }), `a path such as "west/edge" names no zone`},
		{grouped(nil, one, one), `groups[1].name: each group needs a name of its own, "web" is there twice`},
		{grouped(nil, rest.GroupCreate{FlavorRef: "small"}), "groups[0].name must be"},
		{grouped(nil, make([]rest.GroupCreate, api.GroupsMax+1)...), "groups must have 1 to 16 entries, got 17"},
		{&rest.ServerCreate{Name: "shop", Groups: []rest.GroupCreate{one}, FlavorRef: "small"}, "flavorRef goes into each of the groups"},
		{grouped([]rest.RuleCreate{{Policy: "near"}}, one, two), "rules[0].policy must be affinity"},
		{grouped([]rest.RuleCreate{{Policy: api.Affinity, Groups: []string{"app"}}}, one), `rules[0].groups: this boot has no group "app"`},
		{grouped([]rest.RuleCreate{{Policy: api.Affinity, Groups: []string{"db", "db"}}}, one, two), `rules[0].groups: "db" is there twice`},
		{grouped([]rest.RuleCreate{{Policy: api.Affinity, Max: 1}}, one), "rules[0].max_per_host is for anti-affinity alone"},
		{grouped(make([]rest.RuleCreate, api.RulesMax+1), one), "rules may have at most 16"},
		{hinted(rest.SchedulerHints{SameHost: []api.InstanceID{"id-hidden"}}), `scheduler_hints.same_host: there is no server "id-hidden" in this project`},
		{hinted(rest.SchedulerHints{DifferentHost: []api.InstanceID{"id-none"}}), `scheduler_hints.different_host: there is no server "id-none"`},
		{hinted(rest.SchedulerHints{Group: "none"}), `there is no server group "none" in this project`},
		{hinted(rest.SchedulerHints{Query: json.RawMessage(`["nope","$free",1]`)}), "query: "},
		{hinted(rest.SchedulerHints{NearHostIP: "x"}), "build_near_host_ip must be an address"},
		{hinted(rest.SchedulerHints{NearHostIP: "2001:db8::1"}), "cidr must be given with an IPv6 address"},
		{hinted(rest.SchedulerHints{CIDR: "/24"}), "cidr needs build_near_host_ip"},
		{hinted(rest.SchedulerHints{NearHostIP: "10.0.0.1", CIDR: "/33"}), "cidr must be a length"},
	} {
		_, err := w.order(member, c.server)
		refused(t, err, api.CodeInvalid, c.part)
	}
	_, err := w.order(admin, hinted(rest.SchedulerHints{ForceHosts: []string{"none"}}))
	refused(t, err, api.CodeInvalid, `force_hosts: there is no host "none" in this zone`)
	_, err = w.order(member, hinted(rest.SchedulerHints{ForceHosts: []string{"host-1"}}))
	refused(t, err, api.CodeForbidden, "need the role admin")
	_, err = w.order(member, web(func(s *rest.ServerCreate) { s.AvailabilityZone = "az:host-1" }))
	refused(t, err, api.CodeForbidden, "availability_zone with a host needs the role admin")
	_, err = Order(w.zone, nil, Source{Caller: member, Key: "a b"}, &rest.BootBody{Server: *web(func(*rest.ServerCreate) {})})
	refused(t, err, api.CodeInvalid, api.HeaderIdempotencyKey)
	_, err = Order(w.zone, nil, Source{Caller: member}, &rest.BootBody{Hints: &rest.SchedulerHints{}, Server: *hinted(rest.SchedulerHints{})})
	refused(t, err, api.CodeInvalid, "two names of one thing")
}

func TestAnOrderHasWhatItsNamesStandFor(t *testing.T) {
	w := newWorld(t)
	s := grouped([]rest.RuleCreate{{Policy: api.AntiAffinity, Groups: []string{"db", "web"}}}, rest.GroupCreate{
		Name: "web", FlavorRef: "small", MinCount: new(2), MaxCount: new(3), GroupWish: rest.GroupWish{
			Traits: &rest.Traits{Required: []string{"B", "A"}}, AvailabilityZone: "az:host-2",
			Hints: &rest.SchedulerHints{
				SameHost: []api.InstanceID{"id-web"}, ForceHosts: []string{"host-1"}, Group: "apart", NearHostIP: "10.1.2.3",
				Query: json.RawMessage(`"[ \"=\", \"$host\", \"h\" ]"`),
			},
		},
	}, rest.GroupCreate{Name: "db", FlavorRef: "small"})
	s.Lifetime, s.Timeout, s.Zones = "90m", "30s", &rest.ZoneRule{Allowed: []string{"east", "root"}}
	o, err := w.order(admin, s)
	require.NoError(t, err)
	r := o.Request
	assert.Equal(t, []any{"shop", 30 * time.Second, api.RequestID("req-1")}, []any{o.Name, o.Timeout, o.Call})
	assert.Equal(t, []any{admin.Project, admin.User, 90 * time.Minute}, []any{r.Project, r.User, r.Lifetime})
	assert.Equal(t, api.ZoneRule{Allowed: []string{"east", "root"}}, r.Zones)
	assert.Equal(t, []string{"apart", ""}, o.Joins)
	assert.Equal(t, []api.Rule{
		{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}},
		{ID: "group-apart", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}},
	}, r.Rules)
	require.Len(t, r.Groups, 2)
	g := r.Groups[0]
	assert.Equal(t, []any{2, 3, "az", api.FlavorID("small")}, []any{g.Min, g.Count, g.AZ, g.Flavor})
	assert.Equal(t, api.Traits{Required: []string{"A", "B"}}, g.Traits)
	assert.Equal(t, api.Hints{
		SameHost: []api.InstanceID{"id-web"}, ForceHosts: []string{"host-2", "host-1"}, Near: "10.1.2.0/24", Query: `["=","$host","h"]`,
	}, g.Hints)
	assert.Equal(t, []int{1, 1}, []int{r.Groups[1].Min, r.Groups[1].Count})
}

// TestARepeatedOrderNeedsNothingThatItNamed: who repeats a call gets the first answer.
func TestARepeatedOrderNeedsNothingThatItNamed(t *testing.T) {
	w := newWorld(t)
	from, body := Source{Caller: member, Key: "k"}, &rest.BootBody{Server: *hinted(rest.SchedulerHints{Group: "apart"})}
	o, err := Order(w.zone, nil, from, body)
	require.NoError(t, err)
	_, err = w.zone.Propose(t.Context(), o.Command(w.zone.Stamp()))
	require.NoError(t, err)
	at := w.zone.Stamp()
	w.store.Must(t, command.FlavorDelete{Stamp: at, ID: "small"}, command.GroupDelete{Stamp: at, Project: "p1", ID: "group-apart"})
	_, err = Order(w.zone, nil, from, body)
	require.NoError(t, err)
	from.Key = "another"
	_, err = Order(w.zone, nil, from, body)
	refused(t, err, api.CodeInvalid, "there is no flavor")
}

func TestAListOfZonesIsCut(t *testing.T) {
	assert.Equal(t, "none", listOf(nil))
	assert.Equal(t, "a, b, c, d, e, f, g, h, i, j", listOf(strings.Split("abcdefghij", "")), "at the limit")
	assert.Equal(t, "a, b, c, d, e, f, g, h, i, j and 2 more", listOf(strings.Split("abcdefghijkl", "")))
}

// TestEmptyListsNameNothing: where only what a list names would count, an empty one is not read as none.
func TestEmptyListsNameNothing(t *testing.T) {
	w := newWorld(t)
	group := rest.GroupCreate{Name: "web", FlavorRef: "small"}
	for says, s := range map[string]*rest.ServerCreate{
		"scheduler_hints.force_hosts: an empty list": hinted(rest.SchedulerHints{ForceHosts: []string{}}),
		"scheduler_hints.same_host: an empty list":   hinted(rest.SchedulerHints{SameHost: []api.InstanceID{}}),
		"zones.allowed: an empty list":               web(func(s *rest.ServerCreate) { s.Zones = &rest.ZoneRule{Allowed: []string{}} }),
		"zones.allowed_tags: an empty list":          web(func(s *rest.ServerCreate) { s.Zones = &rest.ZoneRule{AllowedTags: []string{}} }),
		"rules[0].groups: an empty list":             grouped([]rest.RuleCreate{{Policy: api.Affinity, Groups: []string{}}}, group),
	} {
		_, err := w.order(admin, s)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), says)
		assert.Contains(t, api.MessageOf(err), says)
	}
	for name, s := range map[string]*rest.ServerCreate{
		"hints": hinted(rest.SchedulerHints{DifferentHost: []api.InstanceID{}, IgnoreHosts: []string{}}),
		"zones": web(func(s *rest.ServerCreate) { s.Zones = &rest.ZoneRule{Excluded: []string{}, ExcludedTags: []string{}} }),
		"traits": web(func(s *rest.ServerCreate) {
			s.Traits = &rest.Traits{Required: []string{}, Forbidden: []string{}, AnyOf: [][]string{}}
		}),
		"rules": grouped([]rest.RuleCreate{{Policy: api.Affinity}}, group),
	} {
		_, err := w.order(admin, s)
		assert.NoError(t, err, "%s: nothing is excluded, as it says", name)
	}
	_, _, err := Webhook(w.zone, member, "p1", rest.WebhookSpec{Name: "pager", URL: "https://example.org/", Kinds: []string{}})
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	assert.Contains(t, api.MessageOf(err), "kinds: an empty list")
}
