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

// TestReportWithASum: the report of a stay is read from an entry with a sum of its host. That of
// another host does not apply, as after a restore, when a stay is told of twice.
func TestReportWithASum(t *testing.T) {
	const here, there = "a1234567-89ab-4def-8123-000000000001", "a1234567-89ab-4def-8123-000000000002"
	const id = "01234567-89ab-8def-8123-456789ab0000"
	w := newWorld(t)
	w.host(here, 4)
	w.host(there, 4)
	w.ok(create(w.stamp(), "r1", 1, 1))
	h := hold(w.stamp(), "k1", "r1", slots(here, id))
	h.Commit = true
	w.ok(h)
	for _, c := range []struct {
		host string
		is   api.Status
	}{{there, api.StatusBuild}, {here, api.StatusActive}} {
		r := reports(w.stamp(), "a1", c.host, api.StatusActive, id)
		r.Items[0].Stay = 1
		b, err := command.Encode(r, api.FormNewest)
		require.NoError(t, err)
		read, err := command.Decode(b, api.FormNewest)
		require.NoError(t, err)
		require.NotEqual(t, r.Items[0].Host, read.(command.InstanceReport).Items[0].Host)
		w.ok(read)
		assert.Equal(t, c.is, w.status(id), "reported for %s", c.host)
	}
}
