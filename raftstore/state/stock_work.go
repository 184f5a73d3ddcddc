package state

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"berth/api"
)

// workKey orders hosts by agent, and those of one agent by the log index of the last change
// to the list of what should run there.
func workKey(h *Host) string {
	k := make([]byte, 0, len(h.Agent)+1+8+len(h.ID))
	k = append(append(k, h.Agent...), 0)
	k = binary.BigEndian.AppendUint64(k, h.Work)
	return string(append(k, h.ID...))
}

func workPrefix(a api.AgentID) string { return string(a) + "\x00" }

// putHost stores the record of a host and updates the index of agents' work.
func (s *stockBook) putHost(h *Host) {
	old, replaced := s.hosts.Set(string(h.ID), h)
	s.hostTexts += h.textsOf()
	if replaced {
		s.hostTexts -= old.textsOf()
		s.removeWork(old)
	}
	s.work.Insert(workKey(h))
	s.touchTopic(WorkTopic(h.Agent))
}

// removeWork removes a host from the index of agents' work.
func (s *stockBook) removeWork(h *Host) {
	s.work.Delete(workKey(h))
	s.touchTopic(WorkTopic(h.Agent))
}

// touchHost records that an instance in the list of what should run on a host has changed, or is
// new there, or gone.
func (s *stockBook) touchHost(id api.HostID, instance api.InstanceID) {
	s.logWork(id, instance)
	s.touchWork(id)
}

// touchWork records that the list of what should run on a host has changed.
func (s *stockBook) touchWork(id api.HostID) {
	old, ok := s.hosts.Get(string(id))
	switch {
	case !ok:
	case old.Work == s.index:
		s.touchTopic(WorkTopic(old.Agent)) // by this command too
	default:
		h := *old
		h.Work = s.index
		s.putHost(&h)
	}
}

// hostsOf returns, by id, the hosts of an agent whose list of work changed at a log
// index or after it.
func (s *stockBook) hostsOf(agent api.AgentID, from uint64) []*Host {
	var out []*Host
	prefix := workPrefix(agent)
	s.work.Ascend(prefix+string(binary.BigEndian.AppendUint64(nil, from)), func(k string) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		h, _ := s.hosts.Get(k[len(prefix)+8:])
		out = append(out, h)
		return true
	})
	slices.SortFunc(out, func(a, b *Host) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Serves reports whether an agent serves any host here. One that does not is to register its hosts.
func (s *stockBook) Serves(agent api.AgentID) bool {
	found, prefix := false, workPrefix(agent)
	s.work.Ascend(prefix, func(k string) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		h, _ := s.hosts.Get(k[len(prefix)+8:])
		found = !h.Unserved
		return !found
	})
	return found
}

// WorkAfter returns, by id, the hosts that an agent serves whose list of work changed
// after a log index.
func (s *stockBook) WorkAfter(agent api.AgentID, after uint64) []*Host {
	if after == math.MaxUint64 {
		return nil
	}
	return slices.DeleteFunc(s.hostsOf(agent, after+1), func(h *Host) bool { return h.Unserved })
}
