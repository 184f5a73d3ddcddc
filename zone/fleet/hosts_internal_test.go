package fleet

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

// TestRegisterHosts checks what an agent says of its hosts, at each limit.
func TestRegisterHosts(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Zone: "z", Name: "zone"})
	f := New(zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), nil)
	good := api.AgentHost{
		Name: "good", Driver: "fake", Pool: api.PoolShared,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}, api.MemoryMB: {Total: 1024}},
	}
	register := func(hosts ...api.AgentHost) error {
		_, err := f.RegisterHosts(t.Context(), "a", &api.AgentRegister{Hosts: hosts})
		return err
	}
	many := make([]api.AgentHost, api.HostsPerAgentMax+1)
	for i := range many {
		many[i] = good
		many[i].Name = fmt.Sprintf("h%d", i)
	}
	require.NoError(t, checkHosts(many[:api.HostsPerAgentMax]))
	assert.Equal(t, api.CodeInvalid, api.CodeOf(register(many...)))
	assert.Equal(t, api.CodeInvalid, api.CodeOf(register()))
	assert.Equal(t, api.CodeInvalid, api.CodeOf(register(good, good)), "a name twice")
	for name, twist := range map[string]func(h *api.AgentHost){
		"name":  func(h *api.AgentHost) { h.Name = "-" },
		"pool":  func(h *api.AgentHost) { h.Pool = "deep" },
		"none":  func(h *api.AgentHost) { h.Inventory = nil },
		"class": func(h *api.AgentHost) { h.Inventory = map[api.ResourceClass]api.Inventory{"vcpu": {Total: 1}} },
		"ratio": func(h *api.AgentHost) {
			h.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1, AllocationRatio: api.AgentRatioMax + 1}}
		},
		"driver": func(h *api.AgentHost) { h.Driver = strings.Repeat("d", api.NameMaxBytes+1) },
		"total":  func(h *api.AgentHost) { h.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: {Total: -1}} },
	} {
		h := good
		twist(&h)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(register(h)), name)
	}
	assert.Empty(t, m.View().AllHosts(), "a refused call changes nothing")
	most := good
	most.Driver = strings.Repeat("d", api.NameMaxBytes)
	most.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1, AllocationRatio: api.AgentRatioMax}}
	require.NoError(t, checkHost(&most, map[string]bool{}))
	stepped := good
	stepped.Inventory = map[api.ResourceClass]api.Inventory{
		api.VCPU: {Total: 8, StepSize: 2}, api.MemoryMB: {Total: 8, StepSize: 2, MinUnit: 1}, api.DiskGB: {Total: 8, StepSize: 4, MaxUnit: 2},
	}
	require.NoError(t, register(stepped))
	for class, amount := range map[api.ResourceClass]int64{api.VCPU: 2, api.MemoryMB: 1, api.DiskGB: 4} {
		assert.Equal(t, amount, m.View().AllHosts()[0].Inventory[class].MinUnit, "a least amount that is not given is the step: %s", class)
	}
	assert.Zero(t, stepped.Inventory[api.VCPU].MinUnit, "the caller's own inventory stays")
	require.NoError(t, register(good))
	_, err := f.Report(t.Context(), "a", &api.AgentReport{Items: make([]api.InstanceReport, api.ReportsMax+1)})
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	_, err = f.Report(t.Context(), "a", &api.AgentReport{Items: make([]api.InstanceReport, api.ReportsMax)})
	assert.NoError(t, err)
}

func checkHosts(hosts []api.AgentHost) error {
	names := map[string]bool{}
	for i := range hosts {
		if err := checkHost(&hosts[i], names); err != nil {
			return err
		}
	}
	return nil
}

// TestNothingRunsBeforeItsWindow: an agent is not told of an instance whose time has
// not come, however it got into the log.
func TestNothingRunsBeforeItsWindow(t *testing.T) {
	m := memstore.New()
	at := command.Stamp{At: 1000}
	m.Must(t, command.Init{Stamp: at, Zone: "z", Name: "z"}, command.HostsPut{Stamp: at, Agent: "a", Hosts: []command.HostEntry{{
		ID: "h", Host: api.AgentHost{Name: "h", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}, api.MemoryMB: {Total: 4096}}},
	}}})
	for name, start := range map[string]api.Instant{"now": 1000, "later": 1001} {
		req := api.Request{
			Reservation: api.ReservationID(name), Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
		}
		req.Window.Start = start
		i := []api.InstanceSpec{{ID: api.InstanceID("i-" + name), Name: name}}
		m.Must(t, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte("d"), Name: name, Request: req, Min: 1, Instances: i}},
			command.Hold{Stamp: at, ID: api.HoldID(name), Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: i[0], Host: "h"}}})
	}
	v := m.View()
	require.Len(t, v.OnHost("h"), 2)
	listed := workloadOf(v, v.Now(), 1, &api.AgentWork{}, v.AllHosts()).Hosts[0].Instances
	require.Len(t, listed, 1)
	assert.Equal(t, "now", listed[0].Name)
}

// TestReportsThatDoNotCountAreNotLogged: an agent makes the log grow by what it says of instances of its own
// hosts alone, once each, and by no more than a fault may have.
func TestReportsThatDoNotCountAreNotLogged(t *testing.T) {
	m := memstore.New()
	at := command.Stamp{At: 1000}
	m.Must(t, command.Init{Stamp: at, Zone: "z", Name: "z"})
	for _, h := range []string{"own", "other"} {
		req := api.Request{
			Reservation: api.ReservationID(h), Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
		}
		i := []api.InstanceSpec{{ID: api.InstanceID("i-" + h), Name: h}}
		m.Must(t, command.HostsPut{Stamp: at, Agent: api.AgentID(h), Hosts: []command.HostEntry{{ID: api.HostID(h), Host: api.AgentHost{
			Name: h, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		}}}},
			command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte("d"), Name: h, Request: req, Min: 1, Instances: i}},
			command.Hold{Stamp: at, ID: api.HoldID(h), Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: i[0], Host: api.HostID(h)}}})
	}
	f := New(zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), nil)
	report := func(items ...api.InstanceReport) {
		t.Helper()
		_, err := f.Report(t.Context(), "own", &api.AgentReport{Items: items})
		require.NoError(t, err)
	}
	of := func(h, i, fault string) api.InstanceReport {
		return api.InstanceReport{Host: api.HostID(h), Instance: api.InstanceID(i), Status: api.StatusError, Fault: fault}
	}
	before := m.View().Index()
	report(of("other", "i-other", "lie"), of("own", "i-other", "lie"), of("own", "i-none", "lie"), of("none", "i-own", "lie"))
	assert.Equal(t, before, m.View().Index())
	long := strings.Repeat("f", api.FaultMaxBytes)
	report(of("own", "i-other", "lie"), of("own", "i-own", "first"), of("own", "i-own", long+"f"))
	assert.Equal(t, before+1, m.View().Index())
	i, _ := m.View().Instance("i-own")
	assert.Equal(t, long, i.Fault)
	assert.Equal(t, []api.InstanceReport{of("own", "i-own", long)}, siftReports(m.View(), "own", []api.InstanceReport{of("own", "i-own", "first"), of("own", "i-own", long+"f")}))
}

// TestNothingRunsBeforeItsRoomIsFree: an agent is told to end the preemptible instance in the way, and of the
// firm one only when it has said that the other is gone.
func TestNothingRunsBeforeItsRoomIsFree(t *testing.T) {
	m := memstore.New()
	at := command.Stamp{At: 1000}
	m.Must(t, command.Init{Stamp: at, Zone: "z", Name: "z"}, command.HostsPut{Stamp: at, Agent: "a", Hosts: []command.HostEntry{{
		ID: "h", Host: api.AgentHost{Name: "h", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}}},
	}}})
	boot := func(id string, class api.Class, over bool) {
		req := api.Request{
			Reservation: api.ReservationID(id), Project: "p", User: "u", Class: class, Window: api.Window{Start: 1000, End: api.Forever}, Preempt: over,
			Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
		}
		i := []api.InstanceSpec{{ID: api.InstanceID(id), Name: id}}
		m.Must(t, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte(id), Name: id, Request: req, Min: 1, Instances: i}},
			command.Hold{Stamp: at, ID: api.HoldID(id), Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: i[0], Host: "h"}}})
	}
	listed := func() []api.Workload {
		all := workloadOf(m.View(), 1000, 1, &api.AgentWork{}, m.View().WorkAfter("a", 0)).Hosts[0].Instances
		for n := range all {
			all[n] = api.Workload{Instance: all[n].Instance, Stop: all[n].Stop, Fence: all[n].Fence, Notice: all[n].Notice}
		}
		return all
	}
	boot("soft", api.Preemptible, false)
	boot("hard", api.Firm, true)
	assert.Equal(t, []api.Workload{{
		Instance: "soft", Stop: true, Fence: FenceAfter, Notice: &api.PreemptNotice{Left: api.PreemptGraceDefault, For: "hard", Action: api.PreemptStop},
	}}, listed())
	before := m.View().Index()
	m.Must(t, command.InstanceReport{Stamp: at, Agent: "a", Items: []api.InstanceReport{{Host: "h", Instance: "soft", Status: api.StatusDeleted}}})
	assert.Equal(t, []api.Workload{{Instance: "hard"}}, listed())
	assert.Len(t, m.View().WorkAfter("a", before), 1, "its agent is told")
}

// TestPreemptiblesAreFenced: a preemptible instance ends with the silence of its zone; an evicted one
// has a notice; and one that waits for room is not listed.
func TestPreemptiblesAreFenced(t *testing.T) {
	const now = 10_000
	evicted := func(by api.Instant, a api.PreemptAction) *api.Instance {
		return &api.Instance{InstanceTerms: &api.InstanceTerms{Class: api.Preemptible, OnPreempt: a}, Status: api.StatusDeleting, InstanceExtras: &api.InstanceExtras{Eviction: &api.Eviction{For: "r", Lease: true, At: 1, By: by}}}
	}
	notice := func(left time.Duration, quiet bool, a api.PreemptAction) *api.PreemptNotice {
		return &api.PreemptNotice{Left: left, Quiet: quiet, For: "r", Lease: true, Action: a}
	}
	v := memstore.New().View()
	for name, c := range map[string]struct {
		i    *api.Instance
		want api.Workload
	}{
		"firm":         {api.NewInstance(&api.InstanceTerms{Class: api.Firm}, api.InstanceSpec{}, ""), api.Workload{}},
		"movable":      {api.NewInstance(&api.InstanceTerms{Class: api.Firm, Movable: true}, api.InstanceSpec{}, ""), api.Workload{Fence: FenceAfter}},
		"preemptible":  {api.NewInstance(&api.InstanceTerms{Class: api.Preemptible}, api.InstanceSpec{}, ""), api.Workload{Fence: FenceAfter}},
		"deleted":      {api.NewInstance(&api.InstanceTerms{Class: api.Preemptible}, api.InstanceSpec{}, api.StatusDeleting), api.Workload{Stop: true, Fence: FenceAfter}},
		"evicted":      {evicted(now+1500, ""), api.Workload{Stop: true, Fence: FenceAfter, Notice: notice(1500*time.Millisecond, false, api.PreemptStop)}},
		"requeued":     {evicted(now+1, api.PreemptRequeue), api.Workload{Stop: true, Fence: FenceAfter, Notice: notice(time.Millisecond, false, api.PreemptRequeue)}},
		"quiet":        {evicted(now+1, api.PreemptNotify), api.Workload{Stop: true, Fence: FenceAfter, Notice: notice(time.Millisecond, true, api.PreemptNotify)}},
		"at the limit": {evicted(now, ""), api.Workload{Stop: true, Fence: FenceAfter, Notice: notice(0, false, api.PreemptStop)}},
		"late":         {evicted(1, ""), api.Workload{Stop: true, Fence: FenceAfter, Notice: notice(0, false, api.PreemptStop)}},
	} {
		c.want.Stay = 1
		assert.Equal(t, c.want, (&workload{view: v, now: now}).workOf(c.i), name)
	}
}

// TestAgentIsSilentAfterItsGrace: one that was heard exactly its grace ago still counts.
func TestAgentIsSilentAfterItsGrace(t *testing.T) {
	b := heartbeats{last: map[api.AgentID]time.Time{}}
	heard := time.Now()
	b.noteBeat("a", heard)
	assert.LessOrEqual(t, b.silentFor("a", heard.Add(HostGraceDefault)), HostGraceDefault, "exactly the grace")
	assert.Greater(t, b.silentFor("a", heard.Add(HostGraceDefault+1)), HostGraceDefault)
}

// TestAnAgentHasOneHome: while it is heard from one, no other may call as this agent, until it has been silent for longer
// than its grace; from its own home it may call at any time, and so may one that does not say where it runs.
func TestAnAgentHasOneHome(t *testing.T) {
	b := heartbeats{last: map[api.AgentID]time.Time{}, home: map[api.AgentID]string{}}
	first := time.Now()
	call := func(home string, at time.Time) bool {
		may := b.moveHome("a", home, at, HostGraceDefault)
		if may {
			b.noteBeat("a", at)
		}
		return may
	}
	assert.True(t, call("here", first))
	assert.False(t, call("copy", first))
	assert.True(t, call("here", first), "a start in the same folder")
	assert.False(t, call("copy", first.Add(HostGraceDefault)), "exactly the grace")
	assert.True(t, call("copy", first.Add(HostGraceDefault+1)))
	assert.False(t, call("here", first.Add(HostGraceDefault+1)))
	assert.True(t, b.moveHome("b", "copy", first, HostGraceDefault), "another agent")
	b.leaveHome("a")
	assert.True(t, call("here", first.Add(HostGraceDefault+1)), "it was revoked, and has joined again")
	b.resetAll(first, 0)
	assert.True(t, call("copy", first), "a new leader has heard nobody")
}
