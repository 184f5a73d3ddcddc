package federation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// newcomer is the record of a node that announces itself.
func newcomer(id api.NodeID) api.Node {
	return api.Node{ID: id, NodeAddr: string(id) + ".zone:7602", APIAddr: string(id) + ".api:7600"}
}

// isRefused announces a node, and does not wait for what is under way.
func (p *place) isRefused(t *testing.T, id api.NodeID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	refusedAs(t, api.CodeForbidden, p.AdmitNode(ctx, newcomer(id)))
}

// isGone expects that nothing of a node is left that could make it a member.
func (p *place) isGone(t *testing.T, id api.NodeID) {
	t.Helper()
	_, member := p.findMember(id)
	assert.False(t, member, "it is a member")
	_, known := p.view().Node(id)
	assert.False(t, known, "it is on record")
	assert.False(t, p.view().Admitted(id), "its join still counts")
	refusedAs(t, api.CodeForbidden, p.AdmitNode(t.Context(), newcomer(id)))
}

// TestARemovedNodeStaysRemoved: announcements of the node are served at each point of its removal, and its removal comes at each
// point of an announcement that was found to be good.
func TestARemovedNodeStaysRemoved(t *testing.T) {
	const id api.NodeID = "node-9"
	announced := func(p *place) { assert.NoError(p.w.t, p.AdmitNode(p.w.t.Context(), newcomer(id))) }
	learns := func(p *place) {
		assert.NoError(p.w.t, p.members.Admit(p.w.t.Context(), id, newcomer(id).NodeAddr, noQuestion))
	}
	for name, run := range map[string]func(*testing.T, *place){
		"it announces itself between the steps": func(t *testing.T, p *place) {
			announced(p)
			p.members.removed = func() error {
				p.isRefused(t, id)
				return nil
			}
			require.NoError(t, p.RemoveMember(t.Context(), id))
		},
		"it has no record yet, and announces itself between the steps": func(t *testing.T, p *place) {
			learns(p)
			p.members.removed = func() error {
				p.isRefused(t, id)
				return nil
			}
			require.NoError(t, p.RemoveMember(t.Context(), id))
		},
		"it is removed once its announcement was found to be good": func(t *testing.T, p *place) {
			learns(p)
			p.members.list[1].Voter = false
			p.members.admitting = func(change int) {
				if change == 0 {
					require.NoError(t, p.RemoveMember(t.Context(), id))
				}
			}
			refusedAs(t, api.CodeForbidden, p.AdmitNode(t.Context(), newcomer(id)))
		},
		"it is removed before it gets a vote": func(t *testing.T, p *place) {
			p.members.admitting = func(change int) {
				if change == 1 {
					require.NoError(t, p.RemoveMember(t.Context(), id))
				}
			}
			refusedAs(t, api.CodeForbidden, p.AdmitNode(t.Context(), newcomer(id)))
		},
		"it is removed before it is recorded": func(t *testing.T, p *place) {
			learns(p)
			release := make(chan struct{})
			require.NoError(t, p.changeMembers(t.Context(), func() error {
				go func() {
					defer close(release)
					refusedAs(t, api.CodeForbidden, p.AdmitNode(t.Context(), newcomer(id)))
				}()
				return p.removeMember(t.Context(), id)
			}))
			<-release
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newWorld(t).add("a", nil)
				p.joined(id)
				run(t, p)
				p.members.admitting, p.members.removed = nil, nil
				p.isGone(t, id)
				p.joined(id) // with a new token
				require.NoError(t, p.AdmitNode(t.Context(), newcomer(id)))
			})
		})
	}
}

func noQuestion() error { return nil }

// TestARemovalIsFinished by who leads next, by autopilot, or by who asks again, if the leader failed between its steps; a node that is
// joining meanwhile stays.
func TestARemovalIsFinished(t *testing.T) {
	const id api.NodeID = "node-9"
	errFailed := errors.New("the leader fails")
	for name, finish := range map[string]func(p *place, ctx context.Context) error{
		"by who leads next": func(p *place, ctx context.Context) error { return p.ForgetRemoved(ctx) },
		"by who asks again": func(p *place, ctx context.Context) error {
			_, known := p.view().Node(id)
			err := p.RemoveMember(ctx, id)
			if !known && api.CodeOf(err) == api.CodeNotFound {
				return nil
			}
			return err
		},
		"by the next look": func(p *place, ctx context.Context) error {
			p.lookAtMembers(ctx, &deadWatch{})
			return nil
		},
	} {
		for _, recorded := range []bool{true, false} {
			p := newWorld(t).add("a", nil)
			p.joined(id)
			require.NoError(t, p.AdmitNode(t.Context(), newcomer(id)))
			if !recorded { // as after a restore of an older backup
				p.propose(command.NodeRemove{Stamp: p.zone.Stamp(), ID: id})
			}
			p.joined("node-8")
			p.members.removed = func() error { return errFailed }
			require.ErrorIs(t, p.RemoveMember(t.Context(), id), errFailed, name)
			refusedAs(t, api.CodeForbidden, p.AdmitNode(t.Context(), newcomer(id)))
			p.members.removed = nil
			p.members.admitting = func(change int) { // one joins, and is a member without a record
				if change == 1 {
					require.NoError(t, finish(p, t.Context()), name)
				}
			}
			require.NoError(t, p.AdmitNode(t.Context(), newcomer("node-8")), name)
			p.members.admitting = nil
			p.isGone(t, id)
			require.NoError(t, p.ForgetRemoved(t.Context()))
			_, known := p.view().Node("node-8")
			assert.True(t, known, name)
			assert.Equal(t, api.CodeNotFound, api.CodeOf(p.RemoveMember(t.Context(), id)), name)
		}
	}
}
