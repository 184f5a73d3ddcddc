package node

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/raftstore/state"
)

// TestVitalsAreForgotten: those of nodes that are no members, and those that are old.
func TestVitalsAreForgotten(t *testing.T) {
	var v vitals
	at := time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)
	members := map[api.NodeID]bool{"n1": true, "n2": true}
	is := func(id api.NodeID) bool { return members[id] }
	for _, id := range []api.NodeID{"n2", "n1", "n9"} {
		v.noteReport(at, nodeVitals{Node: id}, is)
	}
	assert.Equal(t, []nodeVitals{{Node: "n1"}, {Node: "n2"}}, v.fresh(at.Add(vitalsFresh), true))
	assert.Empty(t, v.fresh(at.Add(vitalsFresh+1), true))
	assert.Empty(t, v.fresh(at, false), "that is what a leader was told")
	delete(members, "n2")
	v.noteReport(at, nodeVitals{Node: "n1"}, is)
	assert.Len(t, v.of, 1)
	v.noteTold(at, at, toldVitals{Now: at.UnixNano(), Nodes: []nodeVitals{{Node: "n1"}}, Unconfirmed: map[api.LinkID]api.Incarnation{"l": 3}})
	assert.Len(t, v.fresh(at.Add(vitalsFresh), false), 1)
	assert.Empty(t, v.fresh(at.Add(vitalsFresh+1), false))
	assert.EqualValues(t, 3, v.unconfirmed(at.Add(vitalsFresh), "l"))
	assert.Zero(t, v.unconfirmed(at.Add(vitalsFresh+1), "l"))
}

// TestClocksOfNodes: each node of a zone shows by how much the clock of each is ahead of the leader's, and a node whose clock
// is far off says so, once. A follower also shows of linked zones what only the leader has heard.
func TestClocksOfNodes(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		first, log := newZone(t, "a").run(), &journal{}
		below := newZone(t, "b").run()
		below.isBelow(first)
		h := first.joined("node-2")
		h.opts.Log = slog.New(slog.NewTextHandler(log, nil))
		h.clock.setForward(3 * time.Second)
		second := h.run()
		first.until("the zone knows node-2", func(v *state.State) bool { _, ok := v.Node("node-2"); return ok })
		tell := func() {
			t.Helper()
			for range 2 { // what the first call has measured is told by the second
				require.NoError(t, second.tellVitals(t.Context(), first.Addresses().Node))
			}
		}
		tell()
		for _, r := range []*running{first, second} {
			ahead := time.Duration(r.vitalsOf("node-2").Clock.Offset)
			assert.InDelta(t, 3, ahead.Seconds(), 0.4, r.rec.Node)
			assert.True(t, r.vitalsOf("node-2").Clock.Far)
			assert.Equal(t, &rest.Clock{}, r.vitalsOf("node-1").Clock, "the leader's is what all are measured by")
			assert.Equal(t, rest.Vitals{}, r.vitalsOf("node-3"))
		}
		assert.InDelta(t, 3, first.clockOffsets()["node-2"].Seconds(), 0.4)
		assert.Nil(t, second.clockOffsets())
		assert.Equal(t, 1, strings.Count(log.text(), "the clock of this node differs"), log.text())
		assert.Regexp(t, `ahead=(3|2\.[6-9])`, log.text())
		status, said := second.answers(call{method: http.MethodGet, path: "/operator/members", token: first.home.token})
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, said, `"far":true`)

		link := second.linkTo(below)
		first.peers.NoteIncarnation(first.linkTo(below), link.Incarnation+1)
		tell()
		assert.Equal(t, link.Incarnation+1, second.unconfirmed(link), "the leader has told it")
		_, said = second.answers(call{method: http.MethodGet, path: "/zones", token: first.home.token})
		assert.Contains(t, said, `"unconfirmed_incarnation":1`)
		confirmed := *link
		confirmed.Incarnation++
		assert.Zero(t, second.unconfirmed(&confirmed))

		own := first.ownVitals()
		_, err := second.askNode(t.Context(), first.Addresses().Node, pathVitals, own)
		assert.ErrorContains(t, err, "of itself alone")
		_, err = first.askNode(t.Context(), second.Addresses().Node, pathVitals, own)
		assert.ErrorContains(t, err, "no leader", "it has nothing to tell")
	})
}

// TestAWrongClockIsTold: a node says at its start, before it asks anybody, that its clock is before its own past, or that its certificate
// has ended.
func TestAWrongClockIsTold(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		const wrong, ended = "the clock of this machine is wrong", "the certificate of this node has ended"
		h, log := newZone(t, "a"), &journal{}
		h.opts.Log = slog.New(slog.NewTextHandler(log, nil))
		require.NoError(t, h.run().stop())
		assert.NotContains(t, log.text(), wrong)
		assert.NotContains(t, log.text(), ended)
		open := func() {
			t.Helper()
			n, err := h.open()
			require.NoError(t, err)
			require.NoError(t, n.store.Close())
			require.NoError(t, n.closeOpened())
		}
		h.clock.setForward(-time.Hour)
		open()
		assert.Equal(t, 1, strings.Count(log.text(), wrong))
		assert.Contains(t, log.text(), `later="the newest entry of its log"`)
		assert.Regexp(t, "behind=(1h0m|59m)", log.text())
		h.clock.setForward(identity.LeafTTL + 2*time.Hour)
		open()
		assert.Equal(t, 1, strings.Count(log.text(), ended))
		assert.Equal(t, 1, strings.Count(log.text(), wrong))
	})
}
