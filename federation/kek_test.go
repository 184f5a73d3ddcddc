package federation

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan/seal"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// threeNodes returns a zone of three nodes, which keep their keys as keep says, and all kinds of
// secrets.
func threeNodes(t *testing.T) (p *place, others map[api.NodeID]*Keys) {
	t.Helper()
	p = newWorld(t).addOfForm("a", nil, api.FormNewest)
	p.nodes, others = map[string]*Keys{}, map[api.NodeID]*Keys{}
	for _, id := range []api.NodeID{"node-2", "node-3"} {
		p.joins(id)
		others[id] = NewKeys(p.keks, func(KEKs) error { return nil }, nil)
		p.nodes[string(id)+".zone:7602"] = others[id]
	}
	_, err := p.NewWebhook(t.Context(), api.Webhook{Project: "p", Name: "hook", URL: "https://hook"}, "hush")
	require.NoError(t, err)
	token, err := p.WrapLeaseToken("https://check", "bearer")
	require.NoError(t, err)
	p.propose(command.ConfigSet{Stamp: p.zone.Stamp(), Config: api.ZoneConfig{Leases: api.LeaseRule{Check: api.LeaseCheck{URL: "https://check", Token: token}}}})
	return p, others
}

// opensAll reports whether a node with these keys can open every secret of the zone.
func (p *place) opensAll(k *Keys) error {
	v := p.view()
	if _, err := k.Ring(v); err != nil {
		return err
	}
	if _, err := k.zoneAuthority(v); err != nil {
		return err
	}
	hook, _ := v.Webhook("p", "hook")
	secret, err := k.WebhookSecret(hook)
	if err != nil || secret != "hush" {
		return fmt.Errorf("the secret of the webhook is %q: %w", secret, err)
	}
	token, err := k.LeaseToken(&v.Config.Leases.Check)
	if err != nil || token != "bearer" {
		return fmt.Errorf("the token of leases is %q: %w", token, err)
	}
	return nil
}

// TestARemovedNodeOpensNothing that the zone's state holds later, and the others open all of it.
func TestARemovedNodeOpensNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, others := threeNodes(t)
		before := p.view()
		delete(p.nodes, "node-3.zone:7602")
		require.NoError(t, p.RemoveMember(t.Context(), "node-3"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.RotateKEKWhenDue(ctx) }()
		p.until(func(v *state.State) bool { return len(v.KEK) > 0 && len(v.Epochs) > len(before.Epochs) })
		cancel()
		<-done
		assert.Zero(t, p.view().KEKDue)

		require.NoError(t, p.opensAll(p.keys))
		require.NoError(t, p.opensAll(others["node-2"]))
		gone := NewKeys(others["node-3"].KEKs(), nil, nil)
		for _, s := range secretsOf(p.view()) {
			_, err := gone.unwrap(s.label, s.wrapped)
			require.Error(t, err, s.label)
		}
		_, err := gone.Ring(p.view())
		refusedAs(t, api.CodeUnavailable, err)
		assert.NotEqual(t, before.Epochs[0].ID, p.view().Epochs[0].ID, "it knows the keys that sealed plans so far")

		p.serve(nil)
		require.NoError(t, p.opensAll(p.keys), "after a restart")
		require.NoError(t, p.RotateKEK(t.Context()))
		require.NoError(t, p.opensAll(others["node-2"]), "and after another change")
	})
}

// TestAMajorityMustHaveTheKey before it is used: else it could be lost with one disk.
func TestAMajorityMustHaveTheKey(t *testing.T) {
	t.Parallel()
	p, others := threeNodes(t)
	nodes := p.nodes
	p.nodes = nil
	for range 3 {
		refusedAs(t, api.CodeUnavailable, p.RotateKEK(t.Context()))
	}
	assert.Empty(t, p.view().KEK)
	assert.Len(t, p.keks, 2, "it is made once")
	p.nodes = map[string]*Keys{"node-2.zone:7602": nodes["node-2.zone:7602"]}
	require.NoError(t, p.RotateKEK(t.Context()))
	require.NoError(t, p.opensAll(others["node-2"]))
	require.Error(t, p.opensAll(others["node-3"]), "it was away")

	p.members.form.Store(int64(api.FormFourth))
	refusedAs(t, api.CodeConflict, p.RotateKEK(t.Context()))
}

// TestANodeThatWasAwayGetsTheKey from any other.
func TestANodeThatWasAwayGetsTheKey(t *testing.T) {
	t.Parallel()
	p, others := threeNodes(t)
	first := p.keks
	require.NoError(t, p.RotateKEK(t.Context()))
	p.keks = first // as on the disk of one that was away
	p.serve(nil)
	require.Error(t, p.opensAll(p.keys))
	require.True(t, p.LacksKEK())
	p.nodes = map[string]*Keys{"node-3.zone:7602": others["node-3"]}
	p.fetchKEKs(t.Context(), p.view(), map[api.NodeID]bool{})
	require.NoError(t, p.opensAll(p.keys))
	assert.False(t, p.LacksKEK())
	assert.Len(t, p.keks, 2, "it keeps them")
}

// TestKEKsThatANodeKeeps: the first one, the one in use and the newest.
func TestKEKsThatANodeKeeps(t *testing.T) {
	t.Parallel()
	var all KEKs
	for i := range KEKsMax {
		all = append(all, [kekBytes]byte{byte(i)})
	}
	back, err := ParseKEKs(all.Bytes())
	require.NoError(t, err)
	assert.Equal(t, all, back)
	assert.Equal(t, all, all.join(all[2:5], nil), "nothing new")
	newer := KEKs{{100}}
	for _, bad := range [][]byte{nil, make([]byte, kekBytes-1), make([]byte, kekBytes+1), append(all, newer...).Bytes()} {
		_, err := ParseKEKs(bad)
		require.Error(t, err, "%d bytes", len(bad))
	}

	oldest := seal.KEKID(all[1])
	for name, c := range map[string]struct {
		inUse []byte
		want  KEKs
	}{
		"the first is in use":       {nil, append(append(KEKs{all[0]}, all[2:]...), newer...)},
		"the second is in use":      {oldest, append(append(KEKs{all[0], all[1]}, all[3:]...), newer...)},
		"one that is not there yet": {[]byte("?"), append(append(KEKs{all[0]}, all[2:]...), newer...)},
	} {
		assert.Equal(t, c.want, all.join(newer, c.inUse), name)
	}
	assert.Equal(t, -1, KEKs(nil).find(nil))
}
