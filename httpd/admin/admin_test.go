package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/rates"
	"berth/httpd/refusals"
	"berth/internal/budget"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// spent is a budget of which a quarter is held, and which has refused what was more.
func spent() *budget.Budget {
	b := budget.New(budget.Limits{budget.Calls: {budget.Node: 4}})
	a := b.Begin(budget.Party{Scope: budget.Node})
	_, _ = a.Take(budget.Calls, 1), a.Take(budget.Calls, 4) // the second is refused
	return b
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec
}

// busy is the state of a zone with two hosts, one down, one instance, and a boot
// that is not decided.
func busy(t *testing.T) *state.State {
	t.Helper()
	return busyLive(t).Clone()
}

// busyLive is that state, which takes further commands.
func busyLive(t *testing.T) *state.State {
	t.Helper()
	s := state.New()
	must := func(c command.Command) {
		require.NoError(t, s.Apply(s.Index()+1, c).Err)
	}
	inv := map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}}
	must(command.Init{Zone: "zone-1", Name: "root"})
	must(command.HostsPut{Agent: "a", Hosts: []command.HostEntry{
		{ID: "h-1", Host: api.AgentHost{Name: "h-1", Pool: api.PoolShared, Inventory: inv}},
		{ID: "h-2", Host: api.AgentHost{Name: "h-2", Pool: api.PoolShared, Inventory: inv}},
	}})
	must(command.HostsState{State: api.HostDown, Hosts: []api.HostID{"h-2"}})
	for _, r := range []api.ReservationID{"r-1", "r-2"} {
		must(command.BootCreate{BootTerms: command.BootTerms{Digest: []byte(r), Name: "a", Min: 1, Request: request(r)}})
	}
	must(command.Hold{
		ID: "hold-1", Attempt: 1, Request: request("r-1"), Expires: api.Forever, Commit: true,
		Slots: []command.Slot{{Instance: api.InstanceSpec{ID: "i-1", Name: "a"}, Host: "h-1"}},
	})
	return s
}

func request(r api.ReservationID) api.Request {
	return api.Request{
		Reservation: r, Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Resources: api.Resources{api.VCPU: 3}}},
	}
}

func listener(v *state.State, leader api.NodeID, self bool) http.Handler {
	return NewLocal(configOf(v, leader, self))
}

func configOf(v *state.State, leader api.NodeID, self bool) Config {
	return Config{
		Ready: func() bool { return true },
		View:  func() *state.State { return v }, Leader: func() (api.NodeID, bool) { return leader, self }, Term: func() uint64 { return 7 },
		Form:  func() api.Form { return api.FormNewest },
		Now:   func() api.Instant { return 100_000 },
		CADue: func() bool { return true }, LacksKEK: func() bool { return true }, Certificates: func() map[string]Life {
			return map[string]Life{"node": {time.UnixMilli(60_000), time.UnixMilli(160_000)}, "api": {time.UnixMilli(0), time.UnixMilli(40_000)}}
		},
		Clocks: func() map[api.NodeID]time.Duration { return map[api.NodeID]time.Duration{"n1": -2 * time.Second} },
		Disk:   func() (int64, int64, error) { return 3, 4, nil },
		Admission: func() Admission {
			return Admission{Waiting: 1, Batches: 2, Planned: 7, Alone: 3, Conflicts: 3, Planning: 1500 * time.Millisecond, Logging: 2 * time.Second}
		},
		Refusals: func() refusals.Counts {
			return refusals.Counts{
				Authentications: map[refusals.Key]uint64{{Listener: refusals.Agent, Reason: refusals.Revoked}: 3},
				Authorizations:  map[refusals.Listener]uint64{refusals.API: 4},
			}
		},
		Refused: func() map[rates.Class]uint64 { return map[rates.Class]uint64{rates.Writes: 5, rates.Joins: 0} },
		Backups: func() (Backups, bool) { return Backups{Since: 90_000, Failed: 95_000, Failures: 2}, true },
		Budget:  spent(),
		Waiting: func() int { return 6 },
		Share:   func() float64 { return 0.5 },
		Watching: func() Watching {
			return Watching{
				Delivered: 7, Failed: 2, Lag: 90 * time.Second, Streams: 3,
				ChecksAllowed: 4, ChecksRefused: 5, ChecksUnanswered: 6, EndsTold: 8, EndsUntold: 9,
			}
		},
	}
}

// The two kinds of line of the text format, as far as the metrics use it.
var (
	comment = regexp.MustCompile(`^# (?:HELP \w+ .+|TYPE (\w+) (?:gauge|counter))\n$`)
	sample  = regexp.MustCompile(`^(\w+)(?:\{\w+="(\w+(?:",\w+="\w+)?)"\})? (\S+)\n$`)
)

func TestMetrics(t *testing.T) {
	rec := get(t, listener(busy(t), "n-1", true), "/metrics")
	require.Equal(t, http.StatusOK, rec.Code)
	got, typed := map[string]float64{}, map[string]bool{}
	for line := range strings.Lines(rec.Body.String()) {
		if !strings.Contains(line, "berth_") || strings.Contains(line, buildName) {
			continue // of any process
		}
		if about := comment.FindStringSubmatch(line); about != nil {
			typed[about[1]] = true
			continue
		}
		m := sample.FindStringSubmatch(line)
		require.NotNil(t, m, "not the text format: %q", line)
		assert.True(t, typed[m[1]], "%s has no type", m[1])
		n, err := strconv.ParseFloat(m[3], 64)
		require.NoError(t, err)
		got[strings.TrimSpace(m[1]+" "+m[2])] = n
	}
	assert.Equal(t, map[string]float64{
		"berth_applied_index": 6, "berth_raft_term": 7, "berth_form_written": 1, "berth_form_readable": float64(api.FormNewest), "berth_leader": 1,
		"berth_state_bytes": float64(busy(t).SizeBytes()), "berth_kek_due": 0, "berth_kek_missing": 1, "berth_ca_due": 1, "berth_backup_age_seconds": 10, "berth_backup_bytes": 0, "berth_backup_failed": 1, "berth_backup_failures_total": 2, "berth_certificate_expiry_seconds node": 60, "berth_certificate_expiry_seconds api": -60, "berth_clock_offset_seconds n1": -2, "berth_disk_free_bytes": 3, "berth_disk_total_bytes": 4, "berth_certificate_lifetime_seconds node": 100, "berth_certificate_lifetime_seconds api": 40,
		"berth_hosts up": 1, "berth_hosts down": 1, "berth_instances BUILD": 1,
		"berth_admission_waiting": 1, "berth_admission_batches_total": 2, "berth_admission_boots_total yes": 7, "berth_admission_boots_total no": 3,
		"berth_admission_conflicts_total": 3, "berth_admission_seconds_total plan": 1.5, "berth_admission_seconds_total log": 2,
		"berth_boots_undecided": 1, "berth_requeued_instances": 0, "berth_holds_untold": 0, "berth_holds_prepared": 0,
		"berth_capacity_free VCPU": 1, "berth_capacity_total VCPU": 4,
		"berth_webhooks active": 0, "berth_webhooks failing": 0, "berth_webhooks paused": 0, "berth_event_streams": 3,
		"berth_webhook_deliveries_total delivered": 7, "berth_webhook_deliveries_total failed": 2, "berth_webhook_lag_seconds": 90,
		"berth_lease_events_total before_start_lease": 0, "berth_lease_events_total start_lease": 0, "berth_lease_events_total before_end_lease": 0,
		"berth_lease_events_total end_lease": 0, "berth_lease_lag_seconds": 0, "berth_lease_slots_waiting": 0,
		"berth_room_reserved VCPU": 0, "berth_room_idle VCPU": 0, "berth_room_lent VCPU": 0, "berth_room_preemptible VCPU": 0,
		"berth_evictions_total lease": 0, "berth_evictions_total boot": 0, "berth_evictions_gone_total": 0, "berth_eviction_seconds_total": 0,
		"berth_eviction_late_seconds_total": 0, "berth_lease_start_late_seconds_total": 0,
		"berth_lease_checks_total allowed": 4, "berth_lease_checks_total refused": 5, "berth_lease_checks_total unanswered": 6,
		"berth_lease_ends_told_total confirmed": 8, "berth_lease_ends_told_total failed": 9, "berth_lease_ends_owed": 0, "berth_lease_ends_lag_seconds": 0,
		"berth_leases CREATING": 0, "berth_leases PENDING": 0, "berth_leases STARTING": 0, "berth_leases ACTIVE": 0, "berth_leases UPDATING": 0,
		"berth_bindings true": 0, "berth_bindings false": 0, "berth_bindings_ended_total no_room": 0, "berth_bindings_ended_total headroom": 0,
		"berth_bindings_ended_total maintenance": 0, "berth_bindings_ended_total away": 0, "berth_bindings_ended_total unfit": 0,
		"berth_bindings_ended_total operator":                        0,
		`berth_authentication_refusals_total agent",reason="revoked`: 3, "berth_authorization_refusals_total api": 4,
		"berth_quota_projects_limited": 0, "berth_quota_projects_using": 1,
		"berth_budget_used_ratio calls": 0.25, `berth_budget_refused_total node",kind="calls`: 1,
		"berth_calls_waiting": 6, "berth_work_share": 0.5,
		"berth_calls_refused_total writes": 5, "berth_calls_refused_total joins": 0,
		"berth_leases TERMINATING": 0, "berth_leases TERMINATED": 0, "berth_leases DELETING": 0, "berth_leases ERROR": 0,
	}, got)
}

// TestMetricsOfLeases: what happens between two looks is counted, and what happened before
// the process started is not.
func TestMetricsOfLeases(t *testing.T) {
	s := state.New()
	apply := func(c command.Command) {
		b, err := command.Encode(c, api.FormNewest)
		require.NoError(t, err)
		c, err = command.Decode(b, api.FormNewest)
		require.NoError(t, err)
		require.NoError(t, s.Apply(s.Index()+1, c).Err)
	}
	at := func(i api.Instant) command.Stamp { return command.Stamp{At: i} }
	lease := func(id api.LeaseID, start, end api.Instant) {
		apply(command.LeaseCreate{
			Stamp: at(1), Terms: api.LeaseTerms{ID: id, Project: "p", Window: api.Window{Start: start, End: end}}, Digest: []byte{1},
			Events: []api.LeaseEvent{
				{ID: "1", Type: api.EventStartLease, Time: start, Status: api.EventUndone}, {ID: "2", Type: api.EventEndLease, Time: end, Status: api.EventUndone},
			},
		})
	}
	apply(command.Init{Stamp: at(1), Zone: "zone-1", Name: "root"})
	lease("a", 1_000, 90_000)
	lease("b", 2_000, 95_000)
	apply(command.Tick{Stamp: at(1_500)})
	h := New(Config{
		Ready: func() bool { return true }, View: s.Clone, Leader: func() (api.NodeID, bool) { return "n", true },
		Term: func() uint64 { return 1 }, Form: func() api.Form { return api.FormNewest }, Now: func() api.Instant { return 100_000 },
	})
	has := func(lines ...string) {
		t.Helper()
		body := get(t, h, "/metrics").Body.String()
		for _, line := range lines {
			assert.Contains(t, body, line+"\n")
		}
	}
	has(`berth_leases{status="ACTIVE"} 1`, `berth_leases{status="PENDING"} 1`, `berth_lease_events_total{event="start_lease"} 0`, "berth_lease_lag_seconds 98")
	apply(command.Tick{Stamp: at(91_000)})
	has(`berth_leases{status="TERMINATED"} 1`, `berth_leases{status="ACTIVE"} 1`, `berth_lease_events_total{event="start_lease"} 1`,
		`berth_lease_events_total{event="end_lease"} 1`, "berth_lease_lag_seconds 5")
	has(`berth_lease_events_total{event="end_lease"} 1`)
	apply(command.Tick{Stamp: at(95_000)})
	has(`berth_leases{status="TERMINATED"} 2`, `berth_lease_events_total{event="end_lease"} 2`, "berth_lease_lag_seconds 0")
}

// TestMetricsOfBindings: how many there are, and how many have ended since the process started.
func TestMetricsOfBindings(t *testing.T) {
	s := state.New()
	apply := func(c command.Command) {
		b, err := command.Encode(c, api.FormNewest)
		require.NoError(t, err)
		c, err = command.Decode(b, api.FormNewest)
		require.NoError(t, err)
		require.NoError(t, s.Apply(s.Index()+1, c).Err)
	}
	at := command.Stamp{At: 1}
	apply(command.Init{Stamp: at, Zone: "zone-1", Name: "root"})
	for _, l := range []string{"east", "west"} {
		apply(command.LinkPut{Stamp: at, Link: api.Link{
			ID: api.LinkID(l), Name: l, Role: api.LinkChild, Zone: api.ZoneID("z-" + l), Endpoints: []string{"https://e.example:1"}, CA: []byte{1}, Scale: 1, State: api.LinkActive,
		}})
	}
	bind := func(id, link string) {
		apply(command.BindingSet{Stamp: at, ID: api.BindingID(id), Project: "p", Link: api.LinkID(link)})
	}
	bind("a", "east")
	bind("b", "west")
	h := listener(s, "n", true)
	has := func(lines ...string) {
		t.Helper()
		body := get(t, h, "/metrics").Body.String()
		for _, line := range lines {
			assert.Contains(t, body, line+"\n")
		}
	}
	has(`berth_bindings{active="true"} 1`, `berth_bindings{active="false"} 1`, `berth_bindings_ended_total{why="operator"} 0`)
	bind("c", "east")
	has(`berth_bindings{active="true"} 1`, `berth_bindings{active="false"} 2`, `berth_bindings_ended_total{why="operator"} 1`)
	has(`berth_bindings_ended_total{why="operator"} 1`)
}

func TestMetricsOfAFollowerWithoutAState(t *testing.T) {
	rec := get(t, listener(state.New().Clone(), "", false), "/metrics")
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.Contains(t, rec.Body.String(), "berth_leader 0")
}

func TestHealth(t *testing.T) {
	fresh := state.New().Clone()
	for _, c := range []struct {
		name   string
		v      *state.State
		leader api.NodeID
		ready  bool
	}{
		{"new", fresh, "", false},
		{"knows a leader and no zone", fresh, "n-1", false},
		{"knows its zone and no leader", busy(t), "", false},
		{"ready", busy(t), "n-1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := listener(c.v, c.leader, false)
			assert.Equal(t, http.StatusOK, get(t, h, "/healthz").Code, "the process serves")
			rec := get(t, h, "/readyz")
			var got map[string]any
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
			if !c.ready {
				assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
				return
			}
			assert.Equal(t, http.StatusOK, rec.Code)
			behind := New(Config{
				View: func() *state.State { return c.v }, Ready: func() bool { return false },
				Leader: func() (api.NodeID, bool) { return c.leader, false }, Term: func() uint64 { return 1 },
			})
			assert.Equal(t, http.StatusServiceUnavailable, get(t, behind, "/readyz").Code, "it has not caught up")
			assert.Equal(t, map[string]any{"status": "ready", "zone": "root", "leader": "n-1", "index": 6.0}, got)
		})
	}
}

// TestProbesNeedNoBody: load balancers may ask with HEAD.
func TestProbesNeedNoBody(t *testing.T) {
	s := httptest.NewServer(listener(busy(t), "n-1", false))
	t.Cleanup(s.Close)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/state": http.StatusMethodNotAllowed} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.URL+path, http.NoBody)
		require.NoError(t, err)
		a, err := s.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		assert.Equal(t, want, a.StatusCode, path)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	h := listener(busy(t), "n-1", true)
	for _, path := range []string{"/", "/servers", "/debug/", "/metrics/x"} {
		assert.Equal(t, http.StatusNotFound, get(t, h, path).Code, path)
	}
}

func TestStateTellsDifferentStatesApart(t *testing.T) {
	v := busy(t)
	read := func(v *state.State) (out struct {
		Index  uint64 `json:"index"`
		SHA256 string `json:"sha256"`
	},
	) {
		rec := get(t, listener(v, "node-1", true), "/state")
		require.Equal(t, http.StatusOK, rec.Code)
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &out))
		return out
	}
	one := read(v)
	assert.Equal(t, v.Index(), one.Index)
	assert.Len(t, one.SHA256, 64)
	assert.Equal(t, one, read(busy(t)), "the same entries give the same checksum")
	other := state.New()
	require.NoError(t, other.Apply(1, command.Init{Zone: "zone-1", Name: "root"}).Err)
	assert.NotEqual(t, one.SHA256, read(other.Clone()).SHA256)
}
