package agents

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

// fuzzAnswerMax is the size of the largest answer to an agent that has a few hosts and instances.
const fuzzAnswerMax = 1 << 20

// FuzzBodies sends arbitrary bodies to every call of the protocol, as the agent that has hosts and
// instances and as one that has none. Each is answered or refused: nothing panics, nothing is an
// internal error, and no other agent's host changes hands.
func FuzzBodies(f *testing.F) {
	paths := []string{api.PathAgentRegister, api.PathAgentWork, api.PathAgentReport}
	for who := range byte(2) {
		f.Add(byte(0), who, encode(f, hosts(2)))
		f.Add(byte(1), who, encode(f, api.AgentWork{}))
		f.Add(byte(2), who, encode(f, reports(2)))
		f.Add(byte(2), who, encode(f, api.AgentReport{Items: []api.InstanceReport{{Host: "h", Instance: "i", Status: api.StatusError, Fault: "no disk"}}}))
	}
	rich := hosts(1)
	rich.Hosts[0].Traits, rich.Hosts[0].Attributes = []string{"CUSTOM_FAST"}, map[string]string{"rack": "r1", "ip": "10.0.0.9"}
	f.Add(byte(0), byte(0), encode(f, rich))
	f.Fuzz(func(t *testing.T, which, who byte, body []byte) {
		if len(body) > 1<<14 {
			return
		}
		w := newWorld(t)
		var reg api.AgentRegistered
		w.answered(t, "a-0", api.PathAgentRegister, hosts(2), &reg)
		w.place(t, "i", reg.Hosts[0])
		agent := []api.AgentID{"a-0", "a-1"}[who%2]
		rec := w.do(t, agent, paths[int(which)%len(paths)], body)
		assert.LessOrEqual(t, rec.Body.Len(), fuzzAnswerMax)
		if rec.Code >= http.StatusBadRequest {
			var b api.ErrorBody
			require.NoError(t, codec.Unmarshal(rec.Body.Bytes(), &b), "%q", rec.Body)
			assert.NotEqual(t, api.CodeInternal, b.Error.Code, "%s", b.Error.Message)
			assert.Equal(t, b.Error.Code.HTTPStatus(), rec.Code)
		}
		if agent == "a-1" {
			for _, h := range reg.Hosts {
				v, ok := w.store.View().Host(h)
				require.True(t, ok)
				assert.EqualValues(t, "a-0", v.Agent)
			}
			i, ok := w.store.View().Instance("i")
			require.True(t, ok)
			assert.Equal(t, api.StatusBuild, i.Status)
		}
	})
}
