package estimate

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
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

// TestAnExplanationIsOfItsBoot: what is kept explains the boot that it is of, with what became of that; of another one with the same call the
// record explains it. Without a boot it is what was kept, for its own project or an operator.
func TestAnExplanationIsOfItsBoot(t *testing.T) {
	m := memstore.NewOfForm(api.FormNewest)
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	e := New(Config{Zone: z})
	req := plainRequest()
	req.User, req.Groups[0].Name, req.Groups[0].Flavor, req.Groups[0].Min = "u", "g", "f", 1
	var ids []api.InstanceSpec
	for _, id := range api.NewInstanceIDs(4) {
		ids = append(ids, api.InstanceSpec{ID: id, Name: "i"})
	}
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "own"},
		command.BootCreate{Stamp: z.Stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: *req, Min: 1, Instances: ids, Call: "call"}})
	kept := func(call api.RequestID, of api.ReservationID, abroad bool) {
		e.explanations.keepExplanation(&api.Explanation{Request: call, Reservation: of, Project: "p", Zone: "kept", At: z.Instant()}, abroad)
	}
	look := func(project api.ProjectID, id string) *api.Explanation {
		out, ok := e.Explanation(project, id)
		assert.Equal(t, ok, out != nil)
		return out
	}
	for _, id := range []string{"r", "call"} {
		got := look("p", id)
		require.NotNil(t, got, id)
		assert.Equal(t, []any{"own", api.RequestID("call"), api.BootAccepted}, []any{got.Zone, got.Request, got.State}, "its record explains it")
		assert.Nil(t, look("q", id))
		assert.NotNil(t, look("", id), "an operator")
	}
	kept("call", "other", false)
	assert.Equal(t, "own", look("p", "call").Zone, "it is of another one")
	assert.Equal(t, "kept", look("p", "other").Zone)
	assert.Nil(t, look("q", "other"))
	kept("call", "r", false)
	assert.Equal(t, "kept", look("p", "r").Zone)
	assert.Equal(t, api.BootAccepted, look("p", "r").State)
	kept("x", "abroad", true)
	assert.Nil(t, look("p", "abroad"), "a parent's project is another one")
	assert.NotNil(t, look("", "abroad"))
	assert.Nil(t, look("p", "none"))

	b, _ := m.View().Boot("p", "r")
	bare := explanationOf(m.View(), b)
	assert.Equal(t, []any{api.ReservationID("r"), api.ProjectID("p"), "own", b.Updated, 0, 0}, []any{bare.Reservation, bare.Project, bare.Zone, bare.At, len(bare.Groups), len(bare.Zones)})
	tried := *b
	tried.Attempts = []api.BootAttempt{{}, {Zones: []api.ZoneOutcome{{Zone: "z"}}, Refusals: []api.Refusals{{Considered: 7}}, Offered: []api.Offer{{Wanted: 3, Offered: 2}}}}
	last := explanationOf(m.View(), &tried)
	assert.Equal(t, []api.GroupTale{{Name: "g", Flavor: "f", Wanted: 3, Offered: 2, Refusals: api.Refusals{Considered: 7}}}, last.Groups)
	assert.Equal(t, tried.Attempts[1].Zones, last.Zones)
	tried.Attempts = tried.Attempts[:1]
	assert.Equal(t, []api.GroupTale{{Name: "g", Flavor: "f", Wanted: 4}}, explanationOf(m.View(), &tried).Groups)
}

// TestHostsAreNamedOnlyWhereAGroupIsShort: and only where own hosts could have taken it.
func TestHostsAreNamedOnlyWhereAGroupIsShort(t *testing.T) {
	m := memstore.NewOfForm(api.FormNewest)
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	e := New(Config{Zone: z})
	host := func(name string, cpus int64) command.HostEntry {
		return command.HostEntry{ID: api.HostID(name), Host: api.AgentHost{
			Name: name, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: cpus}},
		}}
	}
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "own"}, command.HostsPut{Stamp: z.Stamp(), Agent: "a", Hosts: []command.HostEntry{host("h1", 2), host("h2", 1)}})
	for name, c := range map[string]struct {
		count    int
		excluded []string
		named    bool
	}{"short": {2, nil, true}, "enough": {1, nil, false}, "excluded": {2, []string{"own"}, false}} {
		req := plainRequest()
		req.Groups[0].Count, req.Groups[0].Resources, req.Zones.Excluded = c.count, api.Resources{api.VCPU: 2}, c.excluded
		p := mergeOffers(m.View(), &Want{Request: req}, e.planOwn(m.View(), req, nil, &bounds{}), nil)
		out := e.explainPlan(m.View(), "call", req, p)
		assert.Equal(t, []any{api.RequestID("call"), req.Reservation, req.Project, "own"}, []any{out.Request, out.Reservation, out.Project, out.Zone}, name)
		require.Len(t, out.Groups, 1)
		names := 0
		for _, f := range out.Groups[0].Refusals.Filters {
			names += len(f.Names)
		}
		assert.Equal(t, c.named, names > 0, "%s: %+v", name, out.Groups[0].Refusals)
		for _, f := range p.Refusals[0].Filters {
			assert.Empty(t, f.Names, "those of the plan stay without names")
		}
	}
}
