package state

import (
	"berth/api"
)

// Return says how a zone comes back from a backup.
type Return struct {
	Incarnation api.Incarnation // above that of the backup
	At          api.Instant     // by the clock of the machine on which it comes back
	Admin       api.Token       // a new one
	Sum         []byte          // of the backup
}

// BringBack makes of the state in a backup that with which a new life of the zone begins, on nodes of its own. It is the first
// thing that is done with a loaded state, and nobody else has it.
//
// The log goes on where that of no earlier incarnation has been. The nodes of before are no members any more, and the zone's
// keys count as theirs. All that agents and other zones follow counts as changed, and what may have been done since the backup is settled.
// It returns CodeConflict for an incarnation that is not above the one of the backup, and for a time before it.
func (s *State) BringBack(r Return) error {
	index, _ := r.Incarnation.Begin()
	switch {
	case r.Incarnation > s.limits.incarnation:
		return api.Errorf(api.CodeInvalid, "an incarnation is at most %d", s.limits.incarnation)
	case r.Incarnation <= s.Incarnation || index <= s.index:
		return api.Errorf(api.CodeConflict, "the zone in the backup has incarnation %d, and the new one would be %d: set the clock of this machine", s.Incarnation, r.Incarnation)
	case r.At < s.now:
		return api.Errorf(api.CodeConflict, "the backup has changes of %s, which is later than the clock of this machine: set it", s.now.Time().Format("2006-01-02T15:04:05Z"))
	}
	s.index, s.now, s.upload = index, r.At, nil
	s.form = max(s.form, api.FormFifth)
	s.limits = limitsAt(s.form)
	s.advanceTable(s.now)
	s.beginIncarnation(r)
	s.BeginNewHistory(r.Sum)
	s.markRestored()
	s.settleBackup()
	s.passFacts()
	return nil
}
