package raftstore

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// reads records which forms a member reads.
func reads(id api.NodeID, form api.Form) command.Command {
	return command.NodePut{Node: api.Node{ID: id, Form: form}}
}

// restartedAs stops a node and starts it from the same disk as a release whose newest
// form is form.
func (n *node) restartedAs(form api.Form) *node {
	n.t.Helper()
	n.cfg.Form = form
	return n.restart()
}

// TestUpgradeNodeByNode: what a member does not read is refused and not written, also
// when it waits already; and it is written as soon as all of them read it.
func TestUpgradeNodeByNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		since := api.Instant(1)
		newer := command.LinkSet{ID: "none", Silent: &since}
		nodes := trio(t, newNetwork(), func(c *Config) { c.Form = api.FormFirst })
		lead := nodes[0]
		assert.Equal(t, api.FormFirst, lead.Form(), "of members without a record nothing is known")
		lead.must(reads("n1", api.FormFirst), reads("n2", api.FormFirst), reads("n3", api.FormFirst))

		for i, n := range nodes {
			index := leaderOf(t, nodes...).View().Index()
			_, err := leaderOf(t, nodes...).Propose(within(t), newer)
			require.Equal(t, api.CodeUnavailable, api.CodeOf(err), "before node %d is upgraded", i+1)
			require.ErrorContains(t, err, "reads forms up to 1")
			require.Equal(t, index, leaderOf(t, nodes...).View().Index(), "nothing was written")

			nodes[i] = n.restartedAs(api.FormSecond)
			leaderOf(t, nodes...).must(reads(n.ID(), api.FormSecond))
			if i == 1 { // and back again
				nodes[i] = nodes[i].restartedAs(api.FormFirst)
				leaderOf(t, nodes...).must(reads(n.ID(), api.FormFirst))
				nodes[i] = nodes[i].restartedAs(api.FormSecond)
				leaderOf(t, nodes...).must(reads(n.ID(), api.FormSecond))
			}
		}
		lead = leaderOf(t, nodes...)
		require.Equal(t, api.FormSecond, lead.Form())
		waiting := &proposal{form: api.FormSecond, done: make(chan state.Answer, 1)}
		require.Len(t, lead.readable([]*proposal{waiting, {form: api.FormFirst}}), 2)
		require.NoError(t, lead.AddNonvoter(within(t), "n4", "n4:1"))
		require.Equal(t, api.FormFirst, lead.Form(), "a member without a record may be of any release")
		require.Len(t, lead.readable([]*proposal{waiting, {form: api.FormFirst}}), 1)
		out := <-waiting.done
		require.Equal(t, api.CodeUnavailable, api.CodeOf(out.Err))
		lead.must(reads("n4", api.FormSecond))
		require.Equal(t, api.FormSecond, lead.Form())

		r := lead.must(newer)
		require.Equal(t, api.CodeNotFound, api.CodeOf(r[0].Err), "it was written, and refused for itself")
		lead.must(command.NodePut{Node: api.Node{ID: "n1", APIAddr: "all read it", Form: api.FormSecond}})
		for _, n := range nodes {
			n.sees("n1", "all read it")
			require.Equal(t, saved(t, lead), saved(t, n))
			require.Equal(t, api.FormSecond, n.View().Form())
		}

		r = lead.must(reads("n3", api.FormFirst))
		require.Equal(t, api.CodeConflict, api.CodeOf(r[0].Err), "an older release cannot come back")
		require.Equal(t, api.FormSecond, lead.Form())
		require.NoError(t, lead.AddNonvoter(within(t), "n5", "n5:1"))
		require.Equal(t, api.FormSecond, lead.Form(), "a member without a record reads what is written")
	})
}

// TestAFormOfTheFuture is refused at the start, and by the state machine.
func TestAFormOfTheFuture(t *testing.T) {
	_, err := Open(Config{ID: "n1", Memory: NewMemory(), Advertise: "n1:1", Stream: newNetwork().listen("n1:1"), Log: discard(), Form: api.FormNewest + 1})
	require.Equal(t, api.CodeInvalid, api.CodeOf(err))
	body, err := encodeCommands([]command.Command{initZone()}, api.FormSecond)
	require.NoError(t, err)
	var told error
	f := newFSM(api.FormFirst, func(err error) { told = err })
	f.Apply(logEntry(1, body))
	require.ErrorContains(t, told, "this node reads forms up to 1 and is older than the log")
}
