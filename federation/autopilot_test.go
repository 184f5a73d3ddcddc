package federation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore"
	"berth/raftstore/command"
)

// votersOf returns n voters, of which the first leads.
func votersOf(n int) (out []raftstore.Member) {
	for i := range n {
		out = append(out, raftstore.Member{ID: api.NodeID(fmt.Sprintf("n%d", i+1)), Voter: true, Leader: i == 0})
	}
	return out
}

// TestWhomAutopilotRemoves: a voter that is dead for long enough, where that makes the zone safer.
func TestWhomAutopilotRemoves(t *testing.T) {
	const after = time.Hour
	for _, c := range []struct {
		voters int
		silent map[api.NodeID]time.Duration
		want   api.NodeID
	}{
		{1, nil, ""},
		{3, nil, ""},
		{3, map[api.NodeID]time.Duration{"n2": after}, ""}, // two need both, as three do
		{4, map[api.NodeID]time.Duration{"n2": after}, "n2"},
		{4, map[api.NodeID]time.Duration{"n2": after - 1}, ""},
		{4, map[api.NodeID]time.Duration{"n2": after, "n3": after}, ""}, // two of four are no majority
		{5, map[api.NodeID]time.Duration{"n2": after}, ""},
		{5, map[api.NodeID]time.Duration{"n2": after, "n3": after - 1}, ""},
		{5, map[api.NodeID]time.Duration{"n2": after, "n3": after + 1}, "n3"},
		{5, map[api.NodeID]time.Duration{"n2": after + 1, "n3": after}, "n2"},
		{5, map[api.NodeID]time.Duration{"n2": after, "n3": after}, "n2"},
		{6, map[api.NodeID]time.Duration{"n2": after}, "n2"},
		{4, map[api.NodeID]time.Duration{"n1": after}, ""}, // the leader
		{2, map[api.NodeID]time.Duration{"n2": after}, ""},
	} {
		assert.Equal(t, c.want, findRemovable(votersOf(c.voters), c.silent, after), "%d voters, %v", c.voters, c.silent)
	}
	assert.Empty(t, findRemovable(votersOf(4), map[api.NodeID]time.Duration{"n2": 1000 * time.Hour}, 0), "it is off")
	learner := append(votersOf(3), raftstore.Member{ID: "n4"})
	assert.Empty(t, findRemovable(learner, map[api.NodeID]time.Duration{"n4": after}, after), "it has no vote")
}

// TestAutopilotNeverHarms: while dead voters are removed one at a time, those that answer are a majority at each step, as many of them may
// be lost as before at least, and more at the end if any was removed.
func TestAutopilotNeverHarms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, silent := votersOf(rapid.IntRange(1, 9).Draw(t, "voters")), map[api.NodeID]time.Duration{}
		for _, m := range members[1:] {
			if rapid.Bool().Draw(t, "silent") {
				silent[m.ID] = time.Duration(rapid.IntRange(0, 3).Draw(t, "hours")) * time.Hour
			}
		}
		room := func() int { return len(members) - len(silent) - majority(len(members)) }
		before, removed := room(), 0
		if before < 0 {
			require.Empty(t, findRemovable(members, silent, 2*time.Hour), "without a majority nothing is changed")
			return
		}
		for last := before; ; removed++ {
			dead := findRemovable(members, silent, 2*time.Hour)
			if dead == "" {
				break
			}
			require.GreaterOrEqual(t, silent[dead], 2*time.Hour)
			delete(silent, dead)
			for i, m := range members {
				if m.ID == dead {
					members = append(members[:i:i], members[i+1:]...)
					break
				}
			}
			require.GreaterOrEqual(t, room(), last)
			last = room()
		}
		if removed > 0 {
			require.Greater(t, room(), before)
		}
	})
}

// TestSilenceIsCounted in steps that a clock cannot make longer, and from anew for one that was heard.
func TestSilenceIsCounted(t *testing.T) {
	var w deadWatch
	now := time.Unix(1_000_000, 0)
	look := func(passed time.Duration, voters int, silent ...api.NodeID) {
		now = now.Add(passed)
		w.note(now, silent, voters)
	}
	look(0, 3, "n2")
	assert.Zero(t, w.silent["n2"])
	look(autopilotEvery, 4, "n2", "n3")
	assert.Equal(t, map[api.NodeID]time.Duration{"n2": autopilotEvery, "n3": 0}, w.silent)
	look(1000*time.Hour, 4, "n2", "n3")
	assert.Equal(t, map[api.NodeID]time.Duration{"n2": 3 * autopilotEvery, "n3": 2 * autopilotEvery}, w.silent, "the clock was set forward")
	look(-time.Hour, 4, "n2")
	assert.Equal(t, map[api.NodeID]time.Duration{"n2": 3 * autopilotEvery}, w.silent)
	look(autopilotEvery, 4)
	look(autopilotEvery, 4, "n2")
	assert.Zero(t, w.silent["n2"], "it was heard meanwhile")
	assert.Equal(t, 5*autopilotEvery, w.even)
	look(autopilotEvery, 3)
	assert.Zero(t, w.even)
}

// TestAutopilotOfAZone: it is off until an operator says otherwise; once a replacement has joined, the dead node is removed when it was
// silent for long enough, and the audit log says that the zone did it.
func TestAutopilotOfAZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t).addOfForm("a", nil, api.FormFifth)
		for i := range p.members.list {
			p.members.list[i].Leader = true
		}
		for _, id := range []api.NodeID{"node-2", "node-3", "node-4"} {
			p.joins(id)
		}
		p.silent = func() []api.NodeID { return []api.NodeID{"node-2"} }
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var done sync.WaitGroup
		done.Go(func() { p.RunAutopilot(ctx) })
		membersAfter := func(d time.Duration) int {
			await.Sleep(d)
			synctest.Wait()
			return len(p.members.Members())
		}
		require.Equal(t, 4, membersAfter(48*time.Hour), "it is off")
		conf := p.view().Config
		conf.RemoveDeadAfter = 72 * time.Hour
		p.propose(command.ConfigSet{Stamp: p.zone.Stamp(), Config: conf})
		require.Equal(t, 4, membersAfter(23*time.Hour))
		require.Equal(t, 3, membersAfter(2*time.Hour))
		require.Equal(t, 3, membersAfter(200*time.Hour), "one of three stays")
		stop()
		done.Wait()
		assert.Equal(t, []string{"remove node-2"}, p.members.told)
		_, known := p.view().Node("node-2")
		assert.False(t, known)
		records, _ := p.view().Audit()
		require.NotEmpty(t, records)
		assert.Equal(t, api.ActorZone, records[len(records)-1].Actor.Kind)
	})
}
