package saga

import (
	"context"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

const reconcileNamed = 20 // instances that the log names of each kind

// dueReconciles returns the jobs that compare with children what both have, after either went back to a backup.
func (s *Saga) dueReconciles(v *state.State) []zone.Job {
	var out []zone.Job
	for _, l := range v.Reconciling() {
		out = append(out, zone.Job{Key: string(l.ID), Run: func(ctx context.Context) error { return s.reconcile(ctx, l.ID) }})
	}
	return out
}

// reconcile ends what a child has and this zone does not know, and takes as gone what this zone has and the child does not know.
//
// No new work is in the way. What this zone has is read before what the child has, and only what the child has confirmed counts:
// the child knew it then. What the child has is looked up here after that, and is in the log here since before the child was asked.
func (s *Saga) reconcile(ctx context.Context, id api.LinkID) error {
	before, err := s.zone.Latest(ctx)
	if err != nil {
		return err
	}
	l, ok := before.Link(id)
	if !ok || l.Reconcile == 0 {
		return nil
	}
	if before.OwesDecisions(l) {
		return api.Errorf(api.CodeUnavailable, "zone %q has yet to confirm decisions of before it was brought back", l.Name)
	}
	below, err := s.readAll(ctx, l)
	if err != nil {
		return err
	}
	ended, err := s.endStrangers(ctx, l, below)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(before.ConfirmedAt(id), func(i api.InstanceID) bool { _, ok := below[i]; return ok })
	rest := gone
	for done := false; !done; {
		n := min(len(rest), command.ReconcileGoneMax)
		done = n == len(rest)
		c := command.LinkReconciled{Stamp: s.zone.Stamp(), ID: id, Since: l.Reconcile, Gone: rest[:n], Done: done}
		if _, err = s.zone.Propose(ctx, c); err != nil {
			return err
		}
		rest = rest[n:]
	}
	s.zone.Log().WarnContext(ctx, "a child was compared after a return from a backup", "link", l.Name,
		"ended_there", len(ended), "gone_here", len(gone), "ended", ended[:min(len(ended), reconcileNamed)], "gone", gone[:min(len(gone), reconcileNamed)])
	return nil
}

// readAll returns the status of every instance that a child has of this zone.
func (s *Saga) readAll(ctx context.Context, l *api.Link) (map[api.InstanceID]api.Status, error) {
	out := map[api.InstanceID]api.Status{}
	for after, more := uint64(0), true; more; {
		call, cancel := context.WithTimeout(ctx, peerTimeout)
		ch, err := s.peers.ConfirmedChanges(call, l, after)
		cancel()
		if err != nil {
			return nil, err
		}
		if ch.Restored != l.Restored {
			return nil, api.Errorf(api.CodeUnavailable, "zone %q went back to a backup again", l.Name)
		}
		if !soundChanges(ch, after) {
			return nil, api.Errorf(api.CodeInternal, "the child gave an unusable list of changes")
		}
		for i := range ch.Items {
			out[ch.Items[i].ID] = ch.Items[i].Status
		}
		more, after = ch.More && ch.Next > after, ch.Next
	}
	return out, nil
}

// endStrangers has a child end what lives there and should not, and returns it.
func (s *Saga) endStrangers(ctx context.Context, l *api.Link, below map[api.InstanceID]api.Status) (ended []api.InstanceID, err error) {
	now, err := s.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	for id, status := range below {
		if status == api.StatusDeleted || status == api.StatusDeleting {
			continue
		}
		if _, held := now.UndecidedHoldOf(id); held {
			continue
		}
		if i, ok := now.Instance(id); ok && i.Link == l.ID && i.Live() && i.Status != api.StatusDeleting {
			continue
		}
		ended = append(ended, id)
	}
	slices.Sort(ended)
	for _, id := range ended {
		call, cancel := context.WithTimeout(ctx, peerTimeout)
		err = s.peers.EndInstance(call, l, id)
		cancel()
		if err != nil && api.CodeOf(err) != api.CodeNotFound {
			return nil, err
		}
	}
	return ended, nil
}
