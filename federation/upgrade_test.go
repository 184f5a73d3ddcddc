package federation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore"
	"berth/raftstore/command"
)

// TestWhatFinishesIsRead: an upgrade to a form that is older than the command which finishes it is refused.
func TestWhatFinishesIsRead(t *testing.T) {
	require.ErrorContains(t, checkRaise(3, command.FormRaise{To: 4}), "an upgrade can be finished from form 5 on, and the nodes read forms up to 4 alone")
	require.ErrorContains(t, checkRaise(5, command.FormRaise{To: 5}), "there is no upgrade to finish")
	require.NoError(t, checkRaise(3, command.FormRaise{To: 5}))
	require.NoError(t, checkRaise(5, command.FormRaise{To: 6}))
	require.ErrorContains(t, checkFifth(4, "change it"), "to change it needs form 5, and the zone writes form 4: start all nodes with the newer release, then finish the upgrade (berth operator upgrade)")
	require.NoError(t, checkFifth(5, "change it"))
}

// TestFinishUpgrade: the zone writes a newer form once all nodes read it and somebody has said so, and never before.
func TestFinishUpgrade(t *testing.T) {
	w := newWorld(t)
	parent := w.add("parent", nil)
	p := w.addOfForm("mid", nil, api.FormFifth) // its log has commands of the fifth form, but nobody needs them yet
	p.isBelow(parent)
	p.members.form.Store(int64(api.FormFifth))
	parent.members.form.Store(int64(api.FormFourth))
	ctx := t.Context()
	status := func() *rest.Upgrade {
		t.Helper()
		up, err := p.UpgradeStatus(ctx)
		require.NoError(t, err)
		return up
	}
	put := func(id api.NodeID, form api.Form, version string) {
		t.Helper()
		require.NoError(t, p.RecordNode(ctx, api.Node{ID: id, Form: form, Version: version, NodeAddr: string(id) + ".zone:7602"}))
	}

	up := status()
	assert.Equal(t, rest.UpgradeFinished, up.Phase)
	assert.Equal(t, []rest.UpgradeLink{{Name: "parent", Role: api.LinkParent, Form: api.FormFourth}}, up.Links)
	err := p.FinishUpgrade(ctx)
	require.Equal(t, api.CodeConflict, api.CodeOf(err))
	require.ErrorContains(t, err, "there is no upgrade to finish")

	p.members.list = append(p.members.list, raftstore.Member{ID: "node-2", Addr: "node-2.zone:7602", Voter: true})
	err = p.FinishUpgrade(ctx)
	require.Equal(t, api.CodeConflict, api.CodeOf(err))
	require.ErrorContains(t, err, `node "node-2" has not said yet which release it is`)
	const newer = api.FormFifth + 1 // of a release to come
	put("node-1", newer, "v2")
	put("node-2", api.FormFifth, "v1")
	assert.Equal(t, rest.UpgradeRolling, status().Phase)

	put("node-2", newer, "v2")
	put("node-0", api.FormFifth, "v1") // it was removed, and is on record still
	p.members.allRead.Store(int64(newer))
	parent.away.Store(true)
	up = status()
	assert.Equal(t, rest.UpgradeReady, up.Phase)
	assert.Equal(t, newer, up.Next)
	assert.Equal(t, api.Form(0), up.Links[0].Form, "it does not answer")

	p.admitting.RLock()
	require.Equal(t, api.CodeUnavailable, api.CodeOf(p.FinishUpgrade(ctx)), "a node is being admitted")
	p.admitting.RUnlock()
	p.admitting.Lock()
	require.Equal(t, api.CodeUnavailable, api.CodeOf(p.AdmitNode(ctx, api.Node{ID: "node-3", Form: newer})), "an upgrade is being finished")
	p.admitting.Unlock()

	require.NoError(t, p.FinishUpgrade(ctx))
	require.Equal(t, newer, p.view().Form())
	_, known := p.view().Node("node-0")
	assert.False(t, known)
	p.members.form.Store(int64(newer))
	assert.Equal(t, rest.UpgradeFinished, status().Phase)
	err = p.AdmitNode(ctx, api.Node{ID: "node-2", Form: api.FormFifth, NodeAddr: "node-2.zone:7602"})
	require.Equal(t, api.CodeConflict, api.CodeOf(err), "a voter of an older release is refused as any other")
	require.ErrorContains(t, err, "start it with a newer release")
}
