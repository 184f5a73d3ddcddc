package federation

import (
	"context"
	"slices"

	"berth/api"
	"berth/internal/actor"
	"berth/raftstore"
	"berth/raftstore/command"
)

// Members returns the nodes of the zone with their state in Raft and gossip.
func (f *Federation) Members() []api.Node {
	v := f.view()
	out := []api.Node{}
	for _, m := range f.members.Members() {
		one := api.Node{ID: m.ID, NodeAddr: m.Addr}
		if known, ok := v.Node(m.ID); ok {
			one = *known
		}
		one.Voter, one.Leader = m.Voter, m.Leader
		one.Alive = f.alive(m.ID)
		out = append(out, one)
	}
	return out
}

// RemoveMember ends the membership of a node. It must not be the last voter.
func (f *Federation) RemoveMember(ctx context.Context, id api.NodeID) error {
	if err := f.members.Remove(ctx, id); err != nil {
		return err
	}
	if id == f.node { // the next leader deletes it: see ForgetRemoved
		return nil
	}
	_, err := f.zone.Propose(ctx, command.NodeRemove{Stamp: f.zone.Stamp(), ID: id})
	return err
}

// Transfer transfers the leadership to another node, or to any if to is "".
func (f *Federation) Transfer(ctx context.Context, to api.NodeID) error {
	voters := 0
	for _, m := range f.members.Members() {
		if m.Voter {
			voters++
		}
	}
	if voters < 2 {
		return api.Errorf(api.CodeConflict, "the zone has no other node that could lead")
	}
	return f.members.Transfer(ctx, to)
}

// ForgetRemoved deletes the records of nodes that are no longer members, because a
// leader that removes itself cannot do so. A new node is a member before it has a
// record.
func (f *Federation) ForgetRemoved(ctx context.Context) error {
	member := map[api.NodeID]bool{}
	for _, m := range f.members.Members() {
		member[m.ID] = true
	}
	ctx = f.asNode(ctx, f.node)
	for _, known := range f.view().Nodes() {
		if member[known.ID] {
			continue
		}
		if _, err := f.zone.Propose(ctx, command.NodeRemove{Stamp: f.zone.Stamp(), ID: known.ID}); err != nil {
			return err
		}
	}
	return nil
}

// RecordNode records the addresses of a member, unless they are on record: a leader records itself
// in each of its terms.
func (f *Federation) RecordNode(ctx context.Context, m api.Node) error {
	if known, ok := f.view().Node(m.ID); ok {
		if m.Joined = known.Joined; *known == m {
			return nil
		}
	}
	_, err := f.zone.Propose(f.asNode(ctx, m.ID), command.NodePut{Stamp: f.zone.Stamp(), Node: m})
	return err
}

// asNode returns a context of what a node does on its own initiative, unless somebody calls for it.
func (f *Federation) asNode(ctx context.Context, id api.NodeID) context.Context {
	call := actor.Of(ctx)
	if call.By.Kind != api.ActorZone {
		return ctx
	}
	call.By = api.AuditActor{Kind: api.ActorNode, ID: string(id)}
	return actor.With(ctx, call)
}

// AdmitNode admits a node that announces itself. A node that has recently joined with a
// token becomes a voter; a removed node is refused.
func (f *Federation) AdmitNode(ctx context.Context, m api.Node) error {
	if !f.admitting.TryRLock() {
		return errAdmitting
	}
	defer f.admitting.RUnlock()
	member := slices.ContainsFunc(f.members.Members(), func(o raftstore.Member) bool { return o.ID == m.ID })
	if !member && !f.view().Admitted(m.ID) {
		return api.Errorf(api.CodeForbidden, "node %q was removed, or its join is too long ago; let a new one join", string(m.ID))
	}
	votes := slices.ContainsFunc(f.members.Members(), func(o raftstore.Member) bool {
		return o.ID == m.ID && o.Addr == m.NodeAddr && o.Voter
	})
	if reads, form := max(m.Form, api.FormFirst), f.members.Form(); reads < form {
		return api.Errorf(api.CodeConflict, "node %q reads forms up to %d, and the zone writes form %d: start it with a newer release",
			string(m.ID), reads, form)
	}
	if !votes {
		if err := f.members.AddVoter(ctx, m.ID, m.NodeAddr); err != nil {
			return err
		}
	}
	if f.members.Form() < api.FormFifth {
		m.Expires, m.Trusts, m.Issuer = 0, "", ""
	}
	if known, ok := f.view().Node(m.ID); ok && m.Expires == 0 { // it has yet to learn that all nodes read these
		m.Expires, m.Trusts, m.Issuer = known.Expires, known.Trusts, known.Issuer
	}
	return f.RecordNode(ctx, m)
}
