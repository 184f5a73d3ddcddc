package admin

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/traffic"
	"berth/internal/golden"
	"berth/internal/measure"
	"berth/internal/skew"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// spread is a histogram of one second.
func spread() measure.Distribution {
	h := measure.NewSeconds()
	h.Note(1)
	return h.Read()
}

// wholeRoad is what a node in the middle of much work knows.
func wholeRoad() Road {
	call := LinkCall{"west", "POST /zones/select"}
	return Road{
		Phases:   map[string]measure.Distribution{"own": spread()},
		Links:    []Link{{Name: "west", Role: api.LinkChild, Up: true, Age: 2 * time.Second, Heard: true, Skew: &skew.Skew{Ahead: 1500 * time.Millisecond}}, {Name: "region", Role: api.LinkParent, Unconfirmed: true}},
		Calls:    map[LinkCall]measure.Distribution{call: spread()},
		Outcomes: map[LinkOutcome]uint64{{call, ""}: 5, {call, api.CodeTimeout}: 2},
		Commands: spread(), Commit: spread(), Write: spread(), Apply: spread(), Failed: map[string]uint64{"leadership": 3}, Waiting: 4, Lag: 7,
		Role: "leader", Contact: time.Second, Heard: true, Voters: 3, Learners: 1, Silent: 1, Liveness: map[string]int{"alive": 3, "dead": 1},
		AgentsConnected: 8, AgentsSilent: 2, AgentsEnd: 160_000, AgentsSkew: &skew.Skew{Ahead: -2 * time.Second},
		Stored: true, LogBytes: 4096, Snapshots: 512, SnapshotAge: time.Minute,
	}
}

// working is the listener of a node that works for a state, and leads or not. What happens in the state afterwards is counted.
func working(view func() *state.State, self bool, road func() Road) http.Handler {
	m := traffic.New(func() time.Time { return time.Unix(0, 0) }, nil)
	m.Watch("api")(traffic.Name("/servers/{id}")(http.NotFoundHandler())).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/servers/what-a-caller-sent", nil))
	c := Config{
		Ready: func() bool { return true }, View: view, Leader: func() (api.NodeID, bool) { return "n", self },
		Term: func() uint64 { return 1 }, Form: func() api.Form { return api.FormNewest }, Now: func() api.Instant { return 100_000 },
		Traffic: m, Road: road, Version: "v1",
	}
	return New(c)
}

// TestRoad: each figure is shown as it is, and what only a leader knows is shown by no other node.
func TestRoad(t *testing.T) {
	body := get(t, working(func() *state.State { return busy(t) }, true, wholeRoad), "/metrics").Body.String()
	only := []string{
		"berth_raft_members_silent 1", `berth_agents{state="connected"} 8`, `berth_agents{state="silent"} 2`,
		"berth_agents_certificate_expiry_seconds 60", "berth_agents_clock_offset_seconds -2",
	}
	for _, line := range append([]string{
		`berth_select_seconds_bucket{phase="own",le="0.5"} 0`, `berth_select_seconds_bucket{phase="own",le="1"} 1`, `berth_select_seconds_count{phase="own"} 1`,
		`berth_link_up{link="west",role="child"} 1`, `berth_link_up{link="region",role="parent"} 0`,
		`berth_link_unconfirmed{link="west",role="child"} 0`, `berth_link_unconfirmed{link="region",role="parent"} 1`,
		`berth_link_gossip_age_seconds{link="west",role="child"} 2`, `berth_link_clock_offset_seconds{link="west",role="child"} 1.5`,
		`berth_link_calls_total{call="POST /zones/select",code="",link="west"} 5`, `berth_link_calls_total{call="POST /zones/select",code="timeout",link="west"} 2`,
		`berth_link_call_seconds_count{call="POST /zones/select",link="west"} 1`,
		"berth_log_entry_commands_count 1", "berth_log_commit_seconds_count 1", "berth_log_write_seconds_count 1", "berth_log_apply_seconds_count 1",
		`berth_log_failed_total{reason="leadership"} 3`, "berth_log_waiting 4", "berth_log_lag 7",
		`berth_raft_role{role="leader"} 1`, `berth_raft_role{role="follower"} 0`, `berth_raft_role{role="candidate"} 0`, `berth_raft_role{role="shutdown"} 0`,
		"berth_log_bytes 4096", "berth_snapshot_bytes 512", "berth_snapshot_age_seconds 60",
		"berth_raft_contact_seconds 1", `berth_raft_members{suffrage="voter"} 3`, `berth_raft_members{suffrage="learner"} 1`,
		`berth_gossip_members{liveness="alive"} 3`, `berth_gossip_members{liveness="dead"} 1`,
		`berth_http_requests_total{code="404",listener="api",method="GET",route="/servers/{id}"} 1`,
		`berth_http_request_seconds_count{listener="api",method="GET",route="/servers/{id}"} 1`,
	}, only...) {
		assert.Contains(t, body, line+"\n")
	}
	assert.Contains(t, body, `version="v1"} 1`)
	assert.Contains(t, body, "\ngo_goroutines ")
	assert.Contains(t, body, "\nprocess_start_time_seconds ")
	assert.NotContains(t, body, "what-a-caller-sent", "what a caller sent is no label")
	assert.NotContains(t, body, `berth_link_gossip_age_seconds{link="region"`, "nothing was heard of it")

	follower := get(t, working(func() *state.State { return busy(t) }, false, func() Road { return Road{} }), "/metrics").Body.String()
	for _, line := range append(only, "berth_raft_contact_seconds", "berth_log_bytes", "berth_snapshot_bytes", "berth_snapshot_age_seconds") {
		name, _, _ := strings.Cut(line, "{")
		assert.NotContains(t, follower, "\n"+strings.Fields(name)[0], "an unknown figure is left out")
	}
	fresh := get(t, working(func() *state.State { return busy(t) }, false, func() Road { return Road{Stored: true, LogBytes: 1} }), "/metrics").Body.String()
	assert.Contains(t, fresh, "berth_snapshot_bytes 0\n")
	assert.NotContains(t, fresh, "\nberth_snapshot_age_seconds", "there is none yet")
}

// TestBootsAndHoldsAreCounted: by their decision and why, from when the process started, and once each.
func TestBootsAndHoldsAreCounted(t *testing.T) {
	s := busyLive(t)
	h := working(s.Clone, true, nil)
	has := func(lines ...string) {
		t.Helper()
		body := get(t, h, "/metrics").Body.String()
		for _, line := range lines {
			assert.Contains(t, body, line+"\n")
		}
	}
	assert.NotContains(t, get(t, h, "/metrics").Body.String(), "berth_holds_made_total{", "it was before")
	apply := func(c command.Command) {
		b, err := command.Encode(c, api.FormNewest) // as from a log, with the limits of its form
		require.NoError(t, err)
		c, err = command.Decode(b, api.FormNewest)
		require.NoError(t, err)
		require.NoError(t, s.Apply(s.Index()+1, c).Err)
	}
	at := func(ms api.Instant) command.Stamp { return command.Stamp{At: s.Now() + ms} }
	apply(command.BootCreate{Stamp: at(1), BootTerms: command.BootTerms{Digest: []byte("r-3"), Name: "a", Min: 1, Request: request("r-3")}})
	apply(command.BootDecide{Stamp: at(3000), Project: "p", Reservation: "r-3", Decision: api.DecisionAbort, Code: api.CodeNoCapacity, Reason: "full"})
	has(`berth_boots_decided_total{code="no_capacity",decision="abort"} 1`, `berth_boot_seconds_count{decision="abort"} 1`, `berth_boot_seconds_sum{decision="abort"} 3`)
	has(`berth_boots_decided_total{code="no_capacity",decision="abort"} 1`)
}

// TestReference: docs/metrics.md has every metric that a process shows, and no other.
func TestReference(t *testing.T) {
	golden.Check(t, "../../docs/metrics.md", []byte(Reference()))
	shown, kinds := map[string]bool{}, map[string]string{}
	for _, h := range []http.Handler{
		listener(busy(t), "n-1", true), listener(lending(t), "n-1", true), working(func() *state.State { return busy(t) }, true, wholeRoad), agentListener(),
	} {
		body := get(t, h, "/metrics").Body.String()
		for _, m := range regexp.MustCompile(`(?m)^# HELP (berth_\w+) `).FindAllStringSubmatch(body, -1) {
			shown[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (berth_\w+) (\w+)$`).FindAllStringSubmatch(body, -1) {
			kinds[m[1]] = m[2]
		}
	}
	var defined []string
	for _, m := range slices.Concat(nodeMetrics.all, agentMetrics.all) {
		defined = append(defined, m.name)
		if kind, is := kinds[m.name]; is {
			assert.Equal(t, kind, m.kind, "%s is shown as another type", m.name)
		}
	}
	for name := range shown {
		assert.Contains(t, defined, name, "it is in no catalogue")
	}
	later := []string{"berth_boots_decided_total", "berth_boot_seconds", "berth_holds_made_total", "berth_holds_decided_total", "berth_ca_due"} // none yet
	for _, name := range defined {
		assert.True(t, shown[name] || slices.Contains(later, name), "%s is never shown", name)
	}
}
