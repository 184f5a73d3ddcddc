package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// After a restore everybody who follows the zone by index is told anew: agents of
// every host's list, and the parent of every instance made for it.
func TestRestoredTellsEverythingAnew(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.host("h1", 4)
	w.ok(asked(w.stamp(), "k1", slots("h1", "a")))
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionCommit})
	seen := w.s.Clone()
	require.Empty(t, seen.WorkAfter("a1", seen.Index()))
	require.Empty(t, seen.Changes("up", seen.Index(), 10).Items)
	generation := w.generation("h1")

	w.ok(command.Restored{Stamp: w.stamp()})
	now := w.s.Clone()
	assert.Len(t, now.WorkAfter("a1", seen.Index()), 1)
	ch := now.Changes("up", seen.Index(), 10)
	require.Len(t, ch.Items, 1)
	assert.Equal(t, api.InstanceID("a"), ch.Items[0].ID)
	assert.Len(t, now.Changes("up", 0, 10).Items, 1, "the old place is empty")
	assert.Equal(t, generation, w.generation("h1"), "nothing about the host has changed")
}
