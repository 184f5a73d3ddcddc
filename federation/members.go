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

// RemoveMember ends the membership of a node. It must not be the last voter. It may be repeated.
//
// Raft's entry decides: from then on the node is no member, but on record, which admits nobody (see mayJoin). If the leader fails
// before the record is deleted, the next one deletes it; see ForgetRemoved.
func (f *Federation) RemoveMember(ctx context.Context, id api.NodeID) error {
	return f.changeMembers(ctx, func() error { return f.removeMember(ctx, id) })
}

// changeMembers runs f alone among those that remove members or write or delete their records here.
func (f *Federation) changeMembers(ctx context.Context, change func() error) error {
	select {
	case f.changing <- struct{}{}:
	case <-ctx.Done():
		return api.Wrap(api.CodeTimeout, "federation.Members", "another change of the members takes too long; try again", ctx.Err())
	}
	defer func() { <-f.changing }()
	return change()
}

func (f *Federation) removeMember(ctx context.Context, id api.NodeID) error {
	_, member := f.findMember(id)
	_, known := f.view().Node(id)
	if member && !known { // no record would stand against its join, so that is forgotten first
		if err := f.forgetNode(ctx, id); err != nil {
			return err
		}
	}
	if member || !known {
		if err := f.members.Remove(ctx, id); err != nil {
			return err
		}
	}
	if !known || id == f.node { // the next leader deletes the record of this one: see ForgetRemoved
		return nil
	}
	return f.forgetNode(ctx, id)
}

// forgetNode deletes the record of a node and its join.
func (f *Federation) forgetNode(ctx context.Context, id api.NodeID) error {
	_, err := f.zone.Propose(ctx, command.NodeRemove{Stamp: f.zone.Stamp(), ID: id})
	return err
}

func (f *Federation) findMember(id api.NodeID) (raftstore.Member, bool) {
	all := f.members.Members()
	i := slices.IndexFunc(all, func(m raftstore.Member) bool { return m.ID == id })
	if i < 0 {
		return raftstore.Member{}, false
	}
	return all[i], true
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

// ForgetRemoved finishes the removals that a leader began and could not finish, as one that removes itself: it deletes the
// records of nodes that are no longer members. A new node is a member before it has a record.
func (f *Federation) ForgetRemoved(ctx context.Context) error {
	ctx = f.asNode(ctx, f.node)
	return f.changeMembers(ctx, func() error {
		for _, known := range f.view().Nodes() {
			if _, member := f.findMember(known.ID); member {
				continue
			}
			if err := f.forgetNode(ctx, known.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// RecordNode records the addresses of a member, unless they are on record: a leader records itself
// in each of its terms.
func (f *Federation) RecordNode(ctx context.Context, m api.Node) error {
	if known, ok := f.view().Node(m.ID); ok {
		if m.Joined, m.Since = known.Joined, known.Since; *known == m {
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
	may := func() error { return f.mayJoin(m.ID) }
	if err := may(); err != nil {
		return err
	}
	if reads, form := max(m.Form, api.FormFirst), f.members.Form(); reads < form {
		return api.Errorf(api.CodeConflict, "node %q reads forms up to %d, and the zone writes form %d: start it with a newer release",
			string(m.ID), reads, form)
	}
	if o, _ := f.findMember(m.ID); o.Addr != m.NodeAddr || !o.Voter {
		if err := f.members.Admit(ctx, m.ID, m.NodeAddr, may); err != nil {
			return err
		}
	}
	if f.members.Form() < api.FormFifth {
		m.Expires, m.Trusts, m.Issuer = 0, "", ""
	}
	if known, ok := f.view().Node(m.ID); ok && m.Expires == 0 { // it has yet to learn that all nodes read these
		m.Expires, m.Trusts, m.Issuer = known.Expires, known.Trusts, known.Issuer
	}
	return f.changeMembers(ctx, func() error {
		if _, member := f.findMember(m.ID); !member {
			return errRemoved(m.ID)
		}
		return f.RecordNode(ctx, m)
	})
}

// mayJoin returns nil for a member, and for a node that has recently joined with a token and was not removed since: one that is on
// record and no member is being removed.
func (f *Federation) mayJoin(id api.NodeID) error {
	v := f.view()
	_, known := v.Node(id)
	if _, member := f.findMember(id); member || v.Admitted(id) && !known {
		return nil
	}
	return errRemoved(id)
}

func errRemoved(id api.NodeID) error {
	return api.Errorf(api.CodeForbidden, "node %q was removed, or its join is too long ago; let a new one join", string(id))
}
