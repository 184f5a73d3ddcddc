package node

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/raftstore/state"
)

// metrics returns what this node shows at /metrics.
func (r *running) metrics() string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.Addresses().Admin+"/metrics", nil)
	require.NoError(r.t, err)
	status, said := do(r.t, r.t.http, req)
	require.Equal(r.t, http.StatusOK, status)
	return said
}

// TestMetricsOfANode: calls of all listeners are counted by their route, whoever answers them, and so is what the
// node does for them; a link is up once its other end was heard.
func TestMetricsOfANode(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		parent, child := newZone(t, "p").run(), newZone(t, "c").run()
		child.isBelow(parent)
		parent.offers("small")
		status, _ := parent.answers(call{method: http.MethodGet, path: "/zones/boot/r-4711", token: parent.home.token})
		assert.Equal(t, http.StatusNotFound, status)
		status, _ = parent.answers(call{method: http.MethodGet, path: "/flavors", token: "berth_no_token"})
		assert.Equal(t, http.StatusUnauthorized, status)
		_, err := parent.peers.Info(t.Context(), parent.linkTo(child))
		require.NoError(t, err)

		shows := func(r *running, lines ...string) {
			t.Helper()
			body := r.metrics()
			for _, line := range lines {
				assert.Contains(t, body, "\n"+line)
			}
		}
		shows(parent,
			`berth_http_requests_total{code="404",listener="api",method="GET",route="/zones/boot/{id}"} 1`,
			`berth_http_requests_total{code="401",listener="api",method="GET",route="/flavors"} 1`,
			`berth_link_calls_total{call="GET /zones/info",code="",link="c"} `, `berth_link_call_seconds_count{call="GET /zones/info",link="c"} `,
			`berth_raft_role{role="leader"} 1`, `berth_raft_members{suffrage="voter"} 1`, "berth_raft_members_silent 0", "berth_raft_contact_seconds 0",
			"berth_log_lag 0", `berth_agents{state="connected"} 0`, `berth_build_info{go_version="`,
		)
		shows(child, `berth_http_requests_total{code="200",listener="gateway",method="GET",route="/zones/info"} `)
		assert.NotContains(t, parent.metrics(), "r-4711")
		assert.NotContains(t, parent.metrics(), "berth_log_commit_seconds_count 0\n")
		assert.NotContains(t, parent.metrics(), "berth_log_write_seconds_count 0\n")
		for _, end := range []struct {
			of   *running
			line string
		}{{parent, `berth_link_up{link="c",role="child"} 1`}, {child, `berth_link_up{link="parent",role="parent"} 1`}} {
			await.True(t, end.line, func() bool { return strings.Contains(end.of.metrics(), end.line) })
		}
	})
}

// TestACallThatIsPassedOnIsCountedOnBothNodes: at the leader as one of another node.
func TestACallThatIsPassedOnIsCountedOnBothNodes(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a")
		h.opts.Timing = patient
		leader := h.run()
		other := leader.adopt("node-2")
		other.until("it knows the token", func(v *state.State) bool { return v.Index() >= leader.view().Index() })
		status, said := other.answers(call{method: http.MethodDelete, path: "/flavors/none", token: h.token})
		assert.Equal(t, http.StatusNotFound, status, said)
		const rest = `,method="DELETE",route="/flavors/{id}"} 1`
		assert.Contains(t, other.metrics(), `berth_http_requests_total{code="404",listener="api"`+rest)
		assert.Contains(t, leader.metrics(), `berth_http_requests_total{code="404",listener="node"`+rest)
	})
}
