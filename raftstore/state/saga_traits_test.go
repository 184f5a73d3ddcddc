package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// showDemands returns demands for traits with who has them.
func showDemands(all []TraitDemand) []string {
	out := []string{}
	for _, d := range all {
		text := d.String() + ":"
		for _, i := range d.Of {
			text += " " + DescribeStanding(i)
		}
		out = append(out, text)
	}
	return out
}

// TestTraitsOfWhatStands: what an agent reports no more is missing for what was asked for with it, is nowhere else
// if no other host has it, and what operators have given is in use as long as nothing else meets the demand.
func TestTraitsOfWhatStands(t *testing.T) {
	w := newWorld(t)
	report := func(id string, traits ...string) {
		c := hostPut(w.stamp(), "agent-"+id, id, 9)
		c.Hosts[0].Host.Traits = traits
		w.ok(c)
	}
	report("h1", "CUSTOM_A", "CUSTOM_B")
	report("h2", "CUSTOM_B")
	w.ok(command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_C"})
	w.ok(command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_D"})
	w.provider("disk", "h1", nil)
	w.ok(w.traits("disk", "CUSTOM_C", "CUSTOM_D"))

	b := create(w.stamp(), "r1", 3, 1)
	b.Request.Groups[0].Traits = api.Traits{Required: []string{"CUSTOM_A"}, Forbidden: []string{"CUSTOM_E"}}
	b.Request.Groups = append(b.Request.Groups, b.Request.Groups[0], b.Request.Groups[0])
	b.Request.Groups[1].Traits = api.Traits{AnyOf: [][]string{{"CUSTOM_B", "CUSTOM_C"}, {"CUSTOM_D"}}}
	b.Request.Groups[2].Traits = api.Traits{}
	w.ok(b)
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a", "b", "c"))
	h.Request, h.Slots[1].Group, h.Slots[2].Group = b.Request, 1, 2
	w.ok(h)
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))

	assert.Empty(t, w.s.MissingTraits("h1"))
	assert.Equal(t, []string{"CUSTOM_A: server a", "CUSTOM_D: server b"}, showDemands(w.s.TraitsNowhereElse("h1")), "the other has B")
	assert.Empty(t, w.s.TraitsNowhereElse("h2"), "nothing stands there")
	assert.Empty(t, w.s.TraitsNowhere(&b.Request.Groups[0], ""))
	assert.Len(t, w.s.TraitsNowhere(&b.Request.Groups[0], "h1"), 1)

	for name, c := range map[string]struct {
		id     api.ProviderID
		traits []string
		want   string
	}{
		"all stay":            {"disk", []string{"CUSTOM_C", "CUSTOM_D"}, ""},
		"another one does":    {"disk", []string{"CUSTOM_D"}, ""},
		"none does":           {"disk", []string{"CUSTOM_C"}, "CUSTOM_D"},
		"the provider goes":   {"disk", nil, "CUSTOM_D"},
		"that of the agent":   {"h1", []string{"CUSTOM_B"}, "CUSTOM_A"},
		"of a host with none": {"h2", []string{}, ""},
		"unknown":             {"h9", nil, ""},
	} {
		d, used := w.s.TraitInUse(c.id, c.traits)
		assert.Equal(t, c.want, d.String(), name)
		assert.Equal(t, c.want != "", used, name)
	}

	report("h1", "CUSTOM_E")
	assert.Equal(t, []string{"CUSTOM_A: server a"}, showDemands(w.s.MissingTraits("h1")), "the provider below has C")
	_, used := w.s.TraitInUse("disk", []string{"CUSTOM_D"})
	assert.True(t, used, "it alone meets a demand now")
	_, used = w.s.TraitInUse("h1", []string{})
	assert.False(t, used, "what is missing already cannot be taken")
	assert.Len(t, w.s.TraitsNowhere(&b.Request.Groups[0], ""), 1)
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
	require.Equal(t, api.StatusDeleting, w.status("a"))
	assert.Empty(t, w.s.MissingTraits("h1"), "what is ending needs nothing")
	assert.Empty(t, w.s.MissingTraits("h9"))
}
