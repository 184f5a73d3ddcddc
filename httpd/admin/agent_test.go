package admin

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/agent"
	"berth/api"
	"berth/internal/measure"
	"berth/internal/skew"
)

// agentListener is the listener of an agent in the middle of its work.
func agentListener() http.Handler {
	now := time.Unix(1000, 0)
	return NewAgent(AgentConfig{Now: func() time.Time { return now }, Version: "v1", Figures: func() agent.Figures {
		return agent.Figures{
			Hosts: 2, Instances: map[api.Status]int{api.StatusActive: 3}, Contact: now.Add(-4 * time.Second), Ends: now.Add(time.Hour),
			Skew: skew.Skew{Ahead: -time.Second / 4}, SkewKnown: true,
			Calls: map[agent.Call]measure.Distribution{{Path: "/work", Code: "timeout"}: spread()}, Actions: map[string]measure.Distribution{"start": spread()},
		}
	}})
}

func TestMetricsOfAnAgent(t *testing.T) {
	body := get(t, agentListener(), "/metrics").Body.String()
	for _, line := range []string{
		"berth_agent_hosts 2", `berth_agent_instances{status="ACTIVE"} 3`, "berth_agent_contact_seconds 4", "berth_agent_certificate_expiry_seconds 3600", "berth_agent_clock_offset_seconds -0.25",
		`berth_agent_call_seconds_count{call="/work",code="timeout"} 1`, `berth_agent_action_seconds_count{action="start"} 1`,
	} {
		assert.Contains(t, body, line+"\n")
	}
	assert.Contains(t, body, "\ngo_goroutines ")
	assert.Equal(t, http.StatusOK, get(t, agentListener(), "/healthz").Code)
	assert.Equal(t, http.StatusNotFound, get(t, agentListener(), "/state").Code)
	fresh := get(t, NewAgent(AgentConfig{Now: time.Now, Figures: func() agent.Figures { return agent.Figures{} }}), "/metrics").Body.String()
	assert.NotContains(t, fresh, "berth_agent_contact_seconds ", "it has had no answer yet")
}
