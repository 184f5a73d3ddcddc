package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// kekUse takes another key-encryption key into use.
func (s *State) kekUse(c command.KEKUse) Result {
	if c.Due != s.KEKDue {
		return refuseWith(api.CodeConflict, "a node was removed while the key-encryption key was changed; try again")
	}
	renewed := make(map[string][]byte, len(c.Secrets))
	for _, one := range c.Secrets {
		renewed[string(one.Old)] = one.New
	}
	for _, old := range s.wrapped() {
		if len(renewed[string(old)]) == 0 {
			return refuseWith(api.CodeConflict, "a secret of the zone was added or changed while the key-encryption key was changed; try again")
		}
	}
	s.rewrapKeys(c.ID, renewed)
	s.rewrapWebhooks(renewed)
	return Result{}
}

// wrapped returns every secret of the state, as it is wrapped.
func (s *State) wrapped() (all [][]byte) {
	all = append(all, s.CAKey)
	if s.Change != nil && len(s.Change.Key) > 0 {
		all = append(all, s.Change.Key)
	}
	for _, e := range s.Epochs {
		all = append(all, e.Wrapped)
	}
	if token := s.Config.Leases.Check.Token; len(token) > 0 {
		all = append(all, token)
	}
	for _, w := range s.Webhooks() {
		all = append(all, w.Secret)
	}
	return all
}
