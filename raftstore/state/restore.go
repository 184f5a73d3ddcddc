package state

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/command"
)

// A backup arrives through the log, part by part, so every node loads it at the same
// index, whichever nodes crash meanwhile. Until its last part it is kept beside the state.

// uploadIdleMax is how long to wait for the next part of a backup before prune drops the
// upload.
const uploadIdleMax = time.Minute

// upload is the part of a backup that has arrived. Snapshots save its parts as items of
// their own.
type upload struct {
	Sum   []byte      `cbor:"1,keyasint"`
	Size  int64       `cbor:"2,keyasint"`
	Last  api.Instant `cbor:"3,keyasint"` // when the last part came
	Parts int         `cbor:"4,keyasint"`

	parts [][]byte
	bytes int64
}

func (u *upload) arrivedParts() [][]byte {
	if u == nil {
		return nil
	}
	return u.parts
}

func (u *upload) addPart(part []byte) {
	u.parts = append(u.parts, part)
	u.bytes += int64(len(part))
}

// WithoutUpload returns s without an unfinished backup, to make a backup from. It shares the
// tables of s, which must not be changed any more.
func (s *State) WithoutUpload() *State {
	c := *s
	c.upload = nil
	return &c
}

func (s *State) restorePart(c command.Restore) Result {
	u := &upload{Sum: c.Sum, Size: c.Size}
	if c.Offset != 0 {
		u = s.upload
		if u == nil || !bytes.Equal(u.Sum, c.Sum) || u.Size != c.Size || u.bytes != c.Offset {
			return refuseWith(api.CodeConflict, "the restore was given up, or another one goes on; nothing was changed, begin anew")
		}
	}
	switch n := int64(len(c.Data)); {
	case c.Size > command.BackupMaxBytes:
		return refuseWith(api.CodeTooLarge, "the state in a backup has at most %d bytes", command.BackupMaxBytes)
	case n == 0, n > command.BackupPartMaxBytes, c.Offset+n > c.Size:
		return refuseWith(api.CodeInvalid, "a part of %d bytes at %d does not fit a backup of %d", n, c.Offset, c.Size)
	}
	next := *u
	next.parts = slices.Clip(u.parts) // views share them
	next.addPart(c.Data)
	next.Parts, next.Last = len(next.parts), s.now
	if c.Last() {
		return s.takeUp(&next, c.Form())
	}
	s.upload = &next
	return Result{}
}

// takeUp replaces the state by the one in a backup. Index and time go on, everything
// counts as changed, and what may have been done since the backup is settled.
//
// It panics if the backup is complete and cannot be loaded: the proposer could load it, so
// this node is older and must not go on without it.
func (s *State) takeUp(u *upload, form api.Form) Result {
	sum, readers := sha256.New(), make([]io.Reader, len(u.parts))
	for i, p := range u.parts {
		sum.Write(p) // a hash never fails
		readers[i] = bytes.NewReader(p)
	}
	if !bytes.Equal(sum.Sum(nil), u.Sum) {
		return refuseWith(api.CodeInvalid, "the parts of the backup do not add up to its checksum; nothing was changed")
	}
	from, err := Load(io.MultiReader(readers...), form)
	if err != nil {
		panic(fmt.Errorf("this node cannot load a backup that another one could: %w", err))
	}
	if from.Zone != s.Zone {
		return refuseWith(api.CodeInvalid, "the backup is of zone %q (%s), not of this one; nothing was changed", from.Name, string(from.Zone))
	}
	from.index, from.now, from.upload, from.form = s.index, max(s.now, from.now), nil, max(s.form, from.form)
	from.advanceTable(from.now)
	from.BeginNewHistory(u.Sum)
	from.ContinueAudit(s) // a restore takes back nothing of it
	from.continueKEK(&s.membersBook)
	from.continueCA(&s.membersBook)
	*s = *from
	s.touchTopic(Everything)
	s.markRestored()
	if s.form >= api.FormFifth {
		s.settleBackup()
	}
	return Result{}
}

// SettleBackup is settleBackup with all that follows from it, for who follows a restore step by step; form is that of its entry.
func (s *State) SettleBackup(form api.Form) {
	s.limits = limitsAt(form)
	s.settleBackup()
	s.passFacts()
	s.beginWaiting()
	s.passFacts()
	s.refreshCleaning()
}

// ContinueCA is continueCA, for who follows a restore step by step.
func (s *State) ContinueCA(from *State) { s.continueCA(&from.membersBook) }

// ContinueAudit is continueAudit, for who follows a restore step by step.
func (s *State) ContinueAudit(from *State) { s.continueAudit(&from.auditBook) }
