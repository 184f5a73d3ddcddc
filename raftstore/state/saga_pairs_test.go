package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// TestUnpairedSlots: on each host as many of a group are left as of those that it is paired with, also through a third group; the
// latest go. One hold of the largest size that pairs nothing costs a look at each slot.
func TestUnpairedSlots(t *testing.T) {
	pair := func(groups ...int) api.Rule { return api.Rule{Policy: api.Affinity, Groups: groups, Pairs: true} }
	alone := make([]command.Slot, api.CountMax)
	for n := range alone {
		alone[n] = command.Slot{Group: n % 2, Host: api.HostID(fmt.Sprint("h", n))}
	}
	all := make([]bool, len(alone))
	for n := range all {
		all[n] = true
	}
	for name, c := range map[string]struct {
		rules []api.Rule
		slots []command.Slot
		gone  []bool
	}{
		"none":              {[]api.Rule{pair(0, 1)}, nil, []bool{}},
		"a pair":            {[]api.Rule{pair(0, 1)}, []command.Slot{{Group: 0, Host: "a"}, {Group: 1, Host: "a"}}, []bool{false, false}},
		"two hosts":         {[]api.Rule{pair(0, 1)}, []command.Slot{{Group: 0, Host: "a"}, {Group: 1, Host: "b"}}, []bool{true, true}},
		"one too many":      {[]api.Rule{pair(0, 1)}, []command.Slot{{Group: 0, Host: "a"}, {Group: 0, Host: "a"}, {Group: 1, Host: "a"}}, []bool{false, true, false}},
		"a group in none":   {[]api.Rule{pair(0, 1)}, []command.Slot{{Group: 2, Host: "a"}}, []bool{false}},
		"another rule":      {[]api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}, []command.Slot{{Group: 0, Host: "a"}}, []bool{false}},
		"through a third":   {[]api.Rule{pair(0, 1), pair(1, 2)}, []command.Slot{{Group: 0, Host: "a"}, {Group: 1, Host: "a"}}, []bool{true, true}},
		"the other way":     {[]api.Rule{pair(1, 2), pair(0, 1)}, []command.Slot{{Group: 2, Host: "a"}, {Group: 1, Host: "a"}}, []bool{true, true}},
		"as many as can be": {[]api.Rule{pair(0, 1)}, alone, all},
	} {
		h := &Hold{Slots: c.slots}
		h.Request.Rules = c.rules
		assert.Equal(t, c.gone, unpairedSlots(h), name)
	}
}
