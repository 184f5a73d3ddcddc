package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFillTerms(t *testing.T) {
	answer := func(terms int) *AgentWorkload {
		return &AgentWorkload{
			Terms: []WorkTerms{
				{Flavor: "x", Resources: Resources{VCPU: 1}},
				{Flavor: "y", Resources: Resources{VCPU: 2}, Command: []string{"run"}, Metadata: map[string]string{"k": "v"}, Project: "p", Fence: 1, Volume: "ssd"},
			},
			Hosts: []HostWorkload{{Instances: []Workload{{Instance: "a", Flavor: "own"}, {Instance: "b", Name: "n", Stay: 3, Terms: terms}}}},
		}
	}
	w := answer(2)
	require.NoError(t, w.FillTerms())
	assert.Equal(t, []Workload{{Instance: "a", Flavor: "own"}, {
		Instance: "b", Name: "n", Stay: 3, Flavor: "y", Resources: Resources{VCPU: 2}, Command: []string{"run"},
		Metadata: map[string]string{"k": "v"}, Project: "p", Fence: 1, Volume: "ssd",
	}}, w.Hosts[0].Instances)
	assert.Empty(t, w.Terms)
	for _, bad := range []int{-1, 3} {
		assert.Equal(t, CodeInvalid, CodeOf(answer(bad).FillTerms()), "terms %d", bad)
	}
}
