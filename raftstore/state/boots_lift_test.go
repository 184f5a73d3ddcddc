package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// under has the order of a boot ask for a server group, and for a rule of its own after it.
func under(c command.BootCreate, group api.ServerGroupID) command.BootCreate {
	c.Request.Rules = []api.Rule{{ID: group, Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}, {Policy: api.SoftAffinity, Groups: []int{0}}}
	return c
}

// grouped returns a zone with two hosts and a server group.
func grouped(t *testing.T, form api.Form) *world {
	t.Helper()
	w := newWorld(t)
	w.form = form
	w.host("h1", 8)
	w.host("h2", 8)
	w.ok(command.GroupPut{Stamp: w.stamp(), Group: api.ServerGroup{ID: "g", Project: "p", Name: "g", Policy: api.AntiAffinity, Max: 1}})
	return w
}

// TestAttemptsAfterTheirGroup: what an undecided boot gets after its server group was deleted is not bound by it, also by an attempt that
// was planned before; other rules of the boot, other boots and other projects keep theirs.
func TestAttemptsAfterTheirGroup(t *testing.T) {
	for _, form := range []api.Form{api.FormFourth, api.FormFifth} {
		w := grouped(t, form)
		first := under(create(w.stamp(), "r1", 2, 1), "g")
		first.Instances = specs("a", "b")
		w.ok(first)
		other := create(w.stamp(), "r2", 1, 1)
		other.Instances = specs("c")
		w.ok(other)
		w.ok(command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "g"})
		h := w.ok(holdFor(w, first.BootTerms, "h1", 1)).Hold
		w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
		if form < api.FormFifth {
			assert.Empty(t, w.boot("r1").Lifted)
			assert.Contains(t, w.instance("a").Rules, "g")
			continue
		}
		assert.Equal(t, []api.ServerGroupID{"g"}, w.boot("r1").Lifted)
		assert.Empty(t, w.boot("r2").Lifted)
		assert.Equal(t, []api.ServerGroupID{"g"}, h.Lifted)
		assert.Equal(t, []string{"r1#1"}, w.instance("a").Rules)
		now := w.boot("r1").RequestNow()
		assert.Equal(t, []api.Rule{{Policy: api.AntiAffinity, Max: api.CountMax, Groups: []int{0}}, first.Request.Rules[1]}, now.Rules)
		assert.Equal(t, first.Request.Rules, w.boot("r1").Request.Rules, "what was asked for stays on record")
		checkIndexes(t, w.s)
	}
}

// TestBootsThatComeAfterTheirGroup: a boot whose server group was deleted while it was on its way is one that was made just before.
func TestBootsThatComeAfterTheirGroup(t *testing.T) {
	w := grouped(t, api.FormFifth)
	w.ok(command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "g"})
	c := under(create(w.stamp(), "r1", 1, 1), "g")
	c.Instances = specs("a")
	bootWith(w, c, "h1")
	assert.Equal(t, []string{"r1#1"}, w.instance("a").Rules)
}

// TestRefillsAfterTheirGroup: what is booted again after its server group was deleted is not bound by it, whether it was ordered before or
// is after that. Boots that stay gone do not remember it.
func TestRefillsAfterTheirGroup(t *testing.T) {
	for name, ordered := range map[string]bool{"ordered before": true, "ordered after": false} {
		t.Run(name, func(t *testing.T) {
			w := grouped(t, api.FormFifth)
			c := under(create(w.stamp(), "r1", 2, 1), "g")
			c.Request.Class, c.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
			c.Instances = specs("a", "b")
			w.ok(c)
			h := holdFor(w, c.BootTerms, "h1", 2)
			h.Slots[1].Host = "h2"
			w.ok(h)
			w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
			firm := under(create(w.stamp(), "firm", 1, 1), "g")
			firm.Request.Rules[0].Max, firm.Instances = 2, specs("f")
			bootWith(w, firm, "h1")
			evict(w, "a", "b")
			leave(w, "h1", "a")
			leave(w, "h2", "b")
			if ordered {
				w.ok(again(w, "r1", "x", "y"))
			}
			w.ok(command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "g"})
			if !ordered {
				w.ok(again(w, "r1", "x", "y"))
			}
			terms := pending(w, "r1").BootTerms
			terms.Request = pending(w, "r1").RequestNow()
			require.Equal(t, api.CountMax, terms.Request.Rules[0].Max)
			assert.Empty(t, w.ok(holdFor(w, terms, "h1", 2)).Hold.Refused, "both may be on one host")
			w.ok(decideRefill(w, "r1", api.DecisionCommit))
			for _, id := range []string{"x", "y"} {
				assert.NotContains(t, w.instance(id).Rules, "g")
				assert.Contains(t, w.instance(id).Rules, "r1#1")
			}
			assert.Empty(t, w.boot("firm").Lifted, "nothing is made for it any more")
			checkIndexes(t, w.s)
		})
	}
}
