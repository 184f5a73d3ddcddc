package saga

import (
	"context"
	"time"

	"berth/api"
	"berth/raftstore/command"
)

// followRestoresApart is the time between two restores of a child that are noted: for each this zone tells
// it all decisions again, and reads all that it has.
const followRestoresApart = 30 * time.Second

// checkRestored notes what a child's answer says of the backup that it last went back to, and reports whether its changes are to be read
// anew because of that.
//
// A later restore than the noted one counts if the child's log is as long. An earlier one may come from a node that is behind. If the
// child's leader confirms it, the noted one never was, or was lost with the nodes that had it: without this, all that such a child tells
// would be taken for what was before the restore, for ever.
func (s *Saga) checkRestored(ctx context.Context, l *api.Link, ch *api.Changes) (anew bool, err error) {
	switch {
	case ch.Restored == l.Restored || s.zone.Store().Form() < api.FormFifth:
		return false, nil
	case ch.Restored > min(ch.Index, followIndexMax):
		s.estimator.NoteFailure(l.ID)
		s.zone.Log().WarnContext(ctx, "a child says that it went back to a backup after the end of its own log; nothing that it tells is taken", "link", l.Name, "at", ch.Restored, "index", ch.Index)
		return false, api.Errorf(api.CodeInternal, "the child cannot have gone back to a backup at index %d of its log, which ends at %d", ch.Restored, ch.Index)
	case l.Restored != 0 && s.zone.Instant() < l.Forgot.Add(followRestoresApart):
		return false, nil
	case ch.Restored > l.Restored:
		return true, s.noteRestored(ctx, l, command.LinkRestored{Restored: ch.Restored})
	}
	call, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	sure, err := s.peers.ConfirmedChanges(call, l, followIndexMax) // none: only what it confirms of its restores is asked for
	if err != nil || sure.Restored >= l.Restored {
		return false, err
	}
	return true, s.noteRestored(ctx, l, command.LinkRestored{Restored: sure.Restored, Was: l.Restored})
}

// noteRestored logs that a child went back to a backup, or that it never did. In the first case it has forgotten what was agreed with it after
// that backup, and has again what had ended: both are compared, and its changes are followed from their beginning.
func (s *Saga) noteRestored(ctx context.Context, l *api.Link, c command.LinkRestored) error {
	c.Stamp, c.ID = s.zone.Stamp(), l.ID
	_, err := s.zone.Propose(ctx, c)
	switch {
	case api.CodeOf(err) == api.CodeConflict:
		return nil // noted before, and this node was behind
	case err != nil:
		return err
	case c.Was != 0:
		s.zone.Log().WarnContext(ctx, "a child does not confirm that it went back to a backup, as it had said, and is compared", "link", l.Name, "said", c.Was, "at", c.Restored)
	default:
		s.zone.Log().WarnContext(ctx, "a child went back to a backup, and is compared", "link", l.Name, "at", c.Restored)
	}
	return nil
}
