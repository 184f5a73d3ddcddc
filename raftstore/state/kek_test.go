package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// secretive returns a zone that has a secret of each kind, and two nodes.
func secretive(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	w.form = api.FormFifth
	w.ok(command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{
		PlanTTL: 1, Leases: api.LeaseRule{Check: api.LeaseCheck{URL: "https://x", Token: []byte("token")}},
	}})
	hook := webhookOf("p", "a")
	hook.Secret = []byte("hook")
	w.ok(command.WebhookPut{Stamp: w.stamp(), Webhook: hook})
	w.ok(command.EpochAdd{Stamp: w.stamp(), Epoch: command.Epoch{ID: []byte("e001"), Wrapped: []byte("epoch")}, Keep: 2})
	for _, id := range []api.NodeID{"n1", "n2"} {
		w.ok(command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: id, Form: api.FormFifth}})
	}
	return w
}

// rewrapped returns a command that takes another key into use.
func (w *world) rewrapped(id string, due uint64) command.KEKUse {
	c := command.KEKUse{Stamp: w.stamp(), ID: []byte(id), Due: due}
	for _, old := range w.s.wrapped() {
		c.Secrets = append(c.Secrets, command.Rewrap{Old: old, New: append([]byte(id), old...)})
	}
	return c
}

// TestEverySecretIsRewrapped or none.
func TestEverySecretIsRewrapped(t *testing.T) {
	w := secretive(t)
	before := w.s.wrapped()
	require.Len(t, before, 5)
	for i := range before {
		c := w.rewrapped("k1", 0)
		c.Secrets = append(c.Secrets[:i:i], c.Secrets[i+1:]...)
		w.refused(api.CodeConflict, c)
	}
	w.ok(w.rewrapped("k1", 0))
	assert.Equal(t, []byte("k1"), w.s.KEK)
	for i, now := range w.s.wrapped() {
		assert.Equal(t, "k1"+string(before[i]), string(now))
	}
	back := loaded(t, saved(t, w.s))
	assert.Equal(t, w.s.KEK, back.KEK)
}

// TestARemovedNodeHasTheKey: another one is due until it was made after the removal.
func TestARemovedNodeHasTheKey(t *testing.T) {
	w := secretive(t)
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "never"})
	assert.Zero(t, w.s.KEKDue)
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n1"})
	first := w.s.KEKDue
	assert.Equal(t, w.index, first)
	assert.Equal(t, first, loaded(t, saved(t, w.s)).KEKDue)
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n2"})
	w.refused(api.CodeConflict, w.rewrapped("made before the second", first))
	w.ok(w.rewrapped("k1", w.s.KEKDue))
	assert.Zero(t, w.s.KEKDue)

	token := api.JoinToken{ID: "t", Hash: []byte("h"), Kind: api.JoinNode, Name: "n3", Expires: api.Forever}
	w.ok(command.JoinPut{Stamp: w.stamp(), Token: token})
	w.ok(command.JoinUse{Stamp: w.stamp(), ID: "t", Hash: []byte("h"), Want: api.JoinNode})
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n3"})
	assert.Equal(t, w.index, w.s.KEKDue, "it has joined, and was never a member")

	old := secretive(t)
	old.form = api.FormFourth
	old.ok(command.NodeRemove{Stamp: old.stamp(), ID: "n1"})
	assert.Zero(t, old.s.KEKDue, "older nodes do not know it")
}

// TestARestoreBringsTheOldKeyBack: whoever was removed since has it.
func TestARestoreBringsTheOldKeyBack(t *testing.T) {
	w := secretive(t)
	backup := saved(t, w.s)
	restore := func() {
		for _, c := range w.parts(backup, 1) {
			w.ok(w.part(c))
		}
	}
	restore()
	assert.Zero(t, w.s.KEKDue, "nobody was removed")
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n1"})
	restore()
	assert.NotZero(t, w.s.KEKDue, "the removal was not taken back")
	w.ok(w.rewrapped("k1", w.s.KEKDue))
	restore()
	assert.Empty(t, w.s.KEK)
	assert.NotZero(t, w.s.KEKDue)
}
