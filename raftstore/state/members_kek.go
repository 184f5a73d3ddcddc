package state

import (
	"bytes"
	"slices"
)

// rewrapKeys replaces the wrapped secrets of this book, and notes the key-encryption key that wraps
// them now.
func (s *membersBook) rewrapKeys(id []byte, renewed map[string][]byte) {
	s.KEK, s.KEKDue = id, 0
	s.CAKey = renewed[string(s.CAKey)]
	if ch := s.Change; ch != nil && len(ch.Key) > 0 {
		next := *ch
		next.Key = renewed[string(ch.Key)]
		s.Change = &next
	}
	s.Epochs = slices.Clone(s.Epochs) // views share them
	for i := range s.Epochs {
		s.Epochs[i].Wrapped = renewed[string(s.Epochs[i].Wrapped)]
	}
	if token := s.Config.Leases.Check.Token; len(token) > 0 {
		s.Config.Leases.Check.Token = renewed[string(token)]
	}
}

// continueKEK notes, after a restore, that nodes which were removed since the backup may have the
// key-encryption key that wraps its secrets.
func (s *membersBook) continueKEK(before *membersBook) {
	if !bytes.Equal(s.KEK, before.KEK) || before.KEKDue > 0 {
		s.KEKDue = before.index
	}
}
