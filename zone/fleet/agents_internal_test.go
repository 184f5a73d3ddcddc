package fleet

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/internal/skew"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
)

// clocked is a fleet whose clock a test sets.
type clocked struct {
	*memstore.Store
	*Fleet
	t     *testing.T
	clock time.Time
	form  api.Form // that all nodes read
}

// Form implements zone.Store.
func (c *clocked) Form() api.Form { return c.form }

func newClocked(t *testing.T, form api.Form) *clocked {
	t.Helper()
	c := &clocked{Store: memstore.NewOfForm(form), t: t, form: form, clock: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	z := zone.New(zone.Config{Store: c, Now: func() time.Time { return c.clock }, Log: slog.New(slog.DiscardHandler)})
	c.Fleet = New(z, estimate.New(estimate.Config{Zone: z}))
	c.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "zone"})
	c.BeginTerm()
	return c
}

// register has an agent register hosts, named by their ids.
func (c *clocked) register(agent string, hosts ...string) {
	c.t.Helper()
	var all []api.AgentHost
	for _, h := range hosts {
		all = append(all, api.AgentHost{
			Name: h, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}, api.MemoryMB: {Total: 99}},
		})
	}
	_, err := c.RegisterHosts(c.t.Context(), api.AgentID(agent), &api.AgentRegister{Hosts: all})
	require.NoError(c.t, err)
}

func (c *clocked) host(name string) *state.Host {
	c.t.Helper()
	h, ok := c.View().HostByName(name)
	require.True(c.t, ok, name)
	full, _ := c.View().Host(h.ID)
	return full
}

func (c *clocked) mark(st api.HostState, name string) {
	c.t.Helper()
	c.Must(c.t, command.HostsState{Stamp: c.zone.Stamp(), State: st, Hosts: []api.HostID{c.host(name).ID}})
}

// put makes an instance of a boot of its own on a host.
func (c *clocked) put(id, host string) {
	c.t.Helper()
	req := api.Request{
		Reservation: api.ReservationID(id), Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
	i := []api.InstanceSpec{{ID: api.InstanceID(id), Name: id}}
	c.Must(c.t, command.BootCreate{Stamp: c.zone.Stamp(), BootTerms: command.BootTerms{Digest: []byte(id), Name: id, Request: req, Min: 1, Instances: i}},
		command.Hold{Stamp: c.zone.Stamp(), ID: api.HoldID(id), Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: i[0], Host: c.host(host).ID}}})
}

// TestAgentsOfAZone: those that joined, those of hosts, and those that were revoked are listed once each, with what they told this
// leader; a new leader has heard none of them.
func TestAgentsOfAZone(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	began := c.zone.Instant()
	c.register("b", "h1")
	c.clock = c.clock.Add(time.Minute)
	c.register("b", "h1", "h2")
	c.register("a", "h3")
	last := c.clock
	c.clock = c.clock.Add(time.Second)
	require.NoError(t, c.RevokeAgent(t.Context(), "a"))
	about := About{Version: "1.2", Skew: &skew.Skew{}}
	c.NoteAbout("b", about)
	all := c.Agents(c.View())
	require.Len(t, all, 2)
	revoked, ok := c.View().Agent("a")
	require.True(t, ok)
	assert.Equal(t, Agent{Agent: *revoked, Recorded: true, Hosts: 1, First: api.InstantOf(last), Seen: last}, all[0], "its host is older than its record")
	assert.Equal(t, Agent{Agent: api.Agent{ID: "b"}, Hosts: 2, First: began, Seen: last, About: about}, all[1])
	c.BeginTerm()
	all = c.Agents(c.View())
	assert.Zero(t, all[1].Seen)
	assert.Zero(t, all[1].About)
}

// TestAnAgentIsAdmittedFromOneHome: one that is heard from a home may not call from another until its hosts would be down, at most the
// default grace; one that does not say its home, or was revoked, may.
func TestAnAgentIsAdmittedFromOneHome(t *testing.T) {
	for name, g := range map[string]struct{ grace, wait time.Duration }{
		"the default": {0, HostGraceDefault}, "a shorter one": {4 * time.Second, 4 * time.Second}, "a longer one": {time.Hour, HostGraceDefault},
	} {
		c := newClocked(t, api.FormNewest)
		c.Must(t, command.ConfigSet{Stamp: c.zone.Stamp(), Config: api.ZoneConfig{HostGrace: g.grace}})
		require.NoError(t, c.AdmitAgent("a", "here"), name)
		c.register("a", "h1")
		assert.Equal(t, api.CodeConflict, api.CodeOf(c.AdmitAgent("a", "copy")), name)
		require.NoError(t, c.AdmitAgent("a", ""), name)
		require.NoError(t, c.AdmitAgent("b", "copy"), name)
		c.clock = c.clock.Add(g.wait)
		assert.Equal(t, api.CodeConflict, api.CodeOf(c.AdmitAgent("a", "copy")), name)
		c.clock = c.clock.Add(1)
		require.NoError(t, c.AdmitAgent("a", "copy"), name)
		c.register("a", "h1")
		assert.Equal(t, api.CodeConflict, api.CodeOf(c.AdmitAgent("a", "here")), name)
		require.NoError(t, c.RevokeAgent(t.Context(), "a"), name)
		require.NoError(t, c.AdmitAgent("a", "here"), name)
	}
}

// TestAnAgentIsRevoked: its hosts are down and disabled; a repeat writes an entry that changes nothing, and one that is not there
// writes none and is not found.
func TestAnAgentIsRevoked(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1")
	index := c.View().Index()
	assert.Equal(t, api.CodeNotFound, api.CodeOf(c.RevokeAgent(t.Context(), "none")))
	assert.Equal(t, index, c.View().Index())
	require.NoError(t, c.RevokeAgent(t.Context(), "a"))
	assert.False(t, c.host("h1").Enabled)
	assert.Equal(t, api.HostDown, c.host("h1").State)
	c.Must(t, command.HostDelete{Stamp: c.zone.Stamp(), ID: c.host("h1").ID})
	require.NoError(t, c.RevokeAgent(t.Context(), "a"), "its record is left")
}

// TestAgentsAreCounted: an agent counts once, as connected until its grace is over exactly; one that this leader has not heard is
// silent.
func TestAgentsAreCounted(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1", "h2")
	c.register("b", "h3")
	count := func(connected, silent int) {
		t.Helper()
		a, b := c.CountAgents(c.View())
		assert.Equal(t, []int{connected, silent}, []int{a, b})
	}
	count(2, 0)
	c.clock = c.clock.Add(HostGraceDefault)
	count(2, 0)
	c.register("a", "h1", "h2")
	c.clock = c.clock.Add(1)
	count(1, 1)
	c.BeginTerm()
	count(0, 2)
}

// TestAnAgentLearnsOfItsHosts: an agent that registers learns the term, the ids of its hosts in order, when to call, and what of it was
// written off.
func TestAnAgentLearnsOfItsHosts(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	register := func() *api.AgentRegistered {
		var all []api.AgentHost
		for _, h := range []string{"h2", "h1"} {
			all = append(all, api.AgentHost{Name: h, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}}})
		}
		got, err := c.RegisterHosts(t.Context(), "a", &api.AgentRegister{Hosts: all})
		require.NoError(t, err)
		return got
	}
	got := register()
	want := &api.AgentRegistered{Term: c.Term(), Hosts: []api.HostID{c.host("h2").ID, c.host("h1").ID}, Beat: AgentBeat}
	assert.Equal(t, want, got)
	assert.NotZero(t, got.Term)
	c.put("i", "h1")
	c.mark(api.HostDown, "h1")
	c.clock = c.clock.Add(EvacuateAfter)
	_, err := c.WriteOff(t.Context(), c.host("h1").ID, "", false)
	require.NoError(t, err)
	known, ok := c.View().Agent("a")
	require.True(t, ok)
	require.NotEmpty(t, known.Lost)
	assert.Equal(t, known.Lost, register().Lost)

	index := c.View().Index()
	_, err = c.RegisterHosts(t.Context(), "b", &api.AgentRegister{Hosts: []api.AgentHost{{
		Name: "h1", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
	}}})
	assert.Equal(t, api.CodeConflict, api.CodeOf(err), "another agent has it")
	assert.Equal(t, index, c.View().Index())
}

// TestALostHostIsWrittenOff: only one that is down, whose agent has been silent for so long that it has ended what it must, or serves it
// no more; a dry run changes nothing, and says the same.
func TestALostHostIsWrittenOff(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1")
	c.put("one", "h1")
	c.put("two", "h1")
	id := c.host("h1").ID
	off := func(host api.HostID, i api.InstanceID, dry bool) (state.Lost, error) {
		t.Helper()
		index := c.View().Index()
		lost, err := c.WriteOff(t.Context(), host, i, dry)
		if err != nil || dry {
			assert.Equal(t, index, c.View().Index())
		}
		return lost, err
	}
	refuse := func(code api.Code, says string, host api.HostID, i api.InstanceID) {
		t.Helper()
		for _, dry := range []bool{true, false} {
			_, err := off(host, i, dry)
			assert.Equal(t, code, api.CodeOf(err), "%v", err)
			assert.ErrorContains(t, err, says)
		}
	}
	refuse(api.CodeNotFound, `no host "none"`, "none", "")
	c.clock = c.clock.Add(time.Hour)
	refuse(api.CodeConflict, `host "h1" is up`, id, "")
	c.register("a", "h1")
	c.mark(api.HostDown, "h1")
	refuse(api.CodeConflict, "try again in 36s", id, "")
	c.clock = c.clock.Add(EvacuateAfter - 1)
	refuse(api.CodeConflict, "try again in 1s", id, "")
	c.clock = c.clock.Add(1)
	refuse(api.CodeNotFound, "", id, "none")
	ids := func(lost state.Lost) (out []api.InstanceID) {
		for _, i := range lost.Instances {
			out = append(out, i.ID)
		}
		return out
	}
	for _, dry := range []bool{true, false} {
		lost, err := off(id, "one", dry)
		require.NoError(t, err)
		assert.Equal(t, id, lost.Host.ID)
		assert.Equal(t, []api.InstanceID{"one"}, ids(lost))
	}
	lost, err := off(id, "", false)
	require.NoError(t, err)
	assert.Equal(t, []api.InstanceID{"two"}, ids(lost))
	_, there := c.View().Host(id)
	assert.False(t, there)

	c.register("a", "h2", "h3")
	c.put("three", "h2")
	c.register("a", "h3")
	lost, err = off(c.host("h2").ID, "", true)
	require.NoError(t, err, "its agent is heard, and serves it no more")
	assert.Equal(t, []api.InstanceID{"three"}, ids(lost))

	older := newClocked(t, api.FormNewest)
	older.register("a", "h1")
	older.mark(api.HostDown, "h1")
	older.clock = older.clock.Add(EvacuateAfter)
	older.form = api.FormFourth
	_, err = older.WriteOff(t.Context(), older.host("h1").ID, "", true)
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), "a node could not read it: %v", err)
}

// TestEvacuationIsReported: how long it still takes, and what will move; not of a host that is up or not there.
func TestEvacuationIsReported(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1")
	id := c.host("h1").ID
	_, err := c.ReportEvacuation("none")
	assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	_, err = c.ReportEvacuation(id)
	assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	c.put("i", "h1")
	c.mark(api.HostDown, "h1")
	for silent, want := range map[time.Duration]time.Duration{0: EvacuateAfter, time.Second: EvacuateAfter - time.Second, EvacuateAfter: 0, time.Hour: 0} {
		c.beats.noteBeat("a", c.clock.Add(-silent))
		e, err := c.ReportEvacuation(id)
		require.NoError(t, err)
		assert.Equal(t, Evacuation{Staying: 1, Wait: want}, *e)
	}
}

// TestAnAgentPollsForWork: it gets its lists at once if there is something new, or when something comes up; at the end of its wait an
// empty answer with the generation that it has. New addresses of the zone end its wait, once; an agent without hosts is told
// to register.
func TestAnAgentPollsForWork(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	node := func(n, addr string) {
		c.Must(t, command.NodePut{Stamp: c.zone.Stamp(), Node: api.Node{ID: api.NodeID(n), AgentAddr: addr, Form: api.FormNewest}})
	}
	node("n1", "one:1")
	poll := func(after uint64, wait time.Duration) (*api.AgentWorkload, error) {
		return c.Work(t.Context(), "a", &api.AgentWork{After: after, Wait: wait, Form: api.FormNewest})
	}
	_, err := poll(0, time.Minute)
	assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	assert.True(t, c.beats.isKnown("a"))
	c.register("a", "h1")
	c.clock = c.clock.Add(time.Second)
	c.put("i", "h1")
	got, err := poll(0, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, c.clock, c.beats.lastBeat("a"))
	assert.Equal(t, []any{c.Term(), c.View().Index(), []string{"one:1"}}, []any{got.Term, got.Generation, got.Addresses})
	require.Len(t, got.Hosts, 1)
	require.Len(t, got.Hosts[0].Instances, 1)
	assert.Equal(t, c.View().Now(), c.beats.given["a"])

	seen := got.Generation
	c.Must(t, command.Tick{Stamp: c.zone.Stamp()})
	got, err = poll(seen, -time.Second)
	require.NoError(t, err)
	assert.Equal(t, seen, got.Generation, "it has seen no more")
	assert.Empty(t, got.Hosts)
	node("n2", "two:2")
	got, err = poll(seen, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, []any{[]string{"one:1", "two:2"}, 0, seen}, []any{got.Addresses, len(got.Hosts), got.Generation})
	got, err = poll(seen, time.Nanosecond)
	require.NoError(t, err)
	assert.Equal(t, []string{"one:1", "two:2"}, got.Addresses, "it is told with every answer, and waits for the next one")
	assert.True(t, c.beats.knowsAddresses("a", got.Addresses))

	c.mark(api.HostDown, "h1")
	got, err = poll(0, time.Nanosecond)
	require.NoError(t, err)
	assert.Empty(t, got.Hosts, "what has not begun may be left there")
}

// TestReportsOfRestarts: of a restart that is none, or that the zone does not read, nothing is kept; its reason is one of two.
func TestReportsOfRestarts(t *testing.T) {
	for _, x := range []struct {
		form      api.Form
		at        api.Instant
		say, want api.RestartReason
		kept      api.Instant
	}{
		{api.FormFifth, 5, api.RestartFenced, api.RestartFenced, 5},
		{api.FormFifth, 5, "else", api.RestartAgent, 5},
		{api.FormFifth, 1, "", api.RestartAgent, 1},
		{api.FormFifth, 0, api.RestartFenced, "", 0},
		{api.FormFifth, -1, api.RestartFenced, "", 0},
		{api.FormFourth, 5, api.RestartFenced, "", 0},
	} {
		c := newClocked(t, x.form)
		c.register("a", "h1")
		c.put("i", "h1")
		one := api.InstanceReport{Host: c.host("h1").ID, Instance: "i", Status: api.StatusActive, Restarted: x.at, Reason: x.say}
		want := one
		want.Restarted, want.Reason = x.kept, x.want
		assert.Equal(t, []api.InstanceReport{want}, siftReports(c.View(), "a", []api.InstanceReport{one}), "%+v", x)
	}
}
