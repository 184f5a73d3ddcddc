package state

import (
	"encoding/binary"
	"strings"

	"berth/api"
)

// word is what a zone above keeps of what a child says of an instance.
type word struct {
	status api.Status
	fault  string
	since  api.Instant // since when it is out of reach; 0 while it is not
}

// wordOf returns what is kept of an instance after a child's change of it.
func (s *workBook) wordOf(i *api.Instance, ch api.InstanceChange) word {
	switch ch.Status {
	case api.StatusDeleted:
		return word{status: ch.Status}
	case api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting:
		if i.Status == api.StatusDeleting {
			return word{i.Status, i.Fault, s.sinceOf(i, ch)}
		}
		return word{ch.Status, Clip(ch.Fault), s.sinceOf(i, ch)}
	}
	return word{i.Status, i.Fault, i.Unreachable}
}

// sinceOf returns since when an instance is out of reach, as a child says. The clock
// of a child may be ahead: nothing is so since a time that has not come here.
func (s *workBook) sinceOf(i *api.Instance, ch api.InstanceChange) api.Instant {
	switch {
	case ch.Unreachable <= 0:
		return 0
	case ch.Unreachable <= s.now:
		return ch.Unreachable
	case i.Unreachable > 0: // it is known that it is
		return i.Unreachable
	}
	return s.now
}

// setWord takes what a child says of an instance into its record.
func (s *workBook) setWord(old *api.Instance, w word) {
	s.setStatus(old, w.status, w.fault)
	if now, ok := s.instances.Get(string(old.ID)); ok && now.Unreachable != w.since {
		i := *now
		i.Unreachable = w.since
		s.putInstance(now, &i)
	}
}

// tellReach makes it news for parents that a host went down or is back, of each
// instance on it that was made for one.
func (s *workBook) tellReach(host api.HostID) {
	eachOn(&s.byHost, host, func(id api.InstanceID) {
		if old, ok := s.instances.Get(string(id)); ok && old.Origin != "" {
			i := *old
			s.putInstance(old, &i)
		}
	})
}

// tellReachBelow makes it news for parents that a child fell silent or is heard again,
// of each live instance below it that was made for one.
func (s *workBook) tellReachBelow(child api.LinkID) {
	up, ok := s.Parent()
	if !ok {
		return
	}
	var below []*api.Instance
	first := changeKey(up.ID, 0, "")
	s.changes.Ascend(first, func(k string) bool {
		if !strings.HasPrefix(k, joinKey(up.ID, "")) {
			return false
		}
		if i, ok := s.instances.Get(k[len(first):]); ok && i.Link == child && i.Live() {
			below = append(below, i)
		}
		return true
	})
	for _, old := range below {
		i := *old
		s.putInstance(old, &i)
	}
}

// UnreachableSince returns since when an instance is out of reach as far as the log
// tells: because its host is down, because a zone below said so, or because the child
// that leads to it is silent. 0 while it is not.
func (s *workBook) UnreachableSince(i *api.Instance) api.Instant {
	if !i.Live() {
		return i.Unreachable
	}
	if h, ok := s.hosts.Get(string(i.Host)); ok {
		return h.DownSince
	}
	if l, ok := s.links.Get(string(i.Link)); ok && i.Unreachable == 0 {
		return l.SilentSince
	}
	return i.Unreachable
}

// faultAbroad is what a zone tells its parent of an instance that failed: the
// driver's own words may name a host and stay here.
const faultAbroad = "the instance failed in its zone; its operator can see why"

// Changes returns what changed of the instances made for a parent after an
// index, in order. It stops at the first index at which it has limit items or
// more, so that no index is ever cut in two.
func (s *workBook) Changes(origin api.LinkID, after uint64, limit int) api.Changes {
	out := api.Changes{Next: after}
	prefix := string(origin) + "\x00"
	start := prefix + string(binary.BigEndian.AppendUint64(nil, after+1))
	s.changes.Ascend(start, func(k string) bool {
		if !strings.HasPrefix(k, prefix) {
			return false
		}
		rest := k[len(prefix):]
		index := binary.BigEndian.Uint64([]byte(rest[:8]))
		if len(out.Items) >= limit && index != out.Next {
			out.More = true
			return false
		}
		if i, ok := s.instances.Get(rest[8:]); ok {
			out.Items = append(out.Items, s.changeOf(i))
			out.Next = index
		}
		return true
	})
	return out
}

func (s *workBook) changeOf(i *api.Instance) api.InstanceChange {
	ch := api.InstanceChange{ID: i.ID, Status: i.Status, Updated: i.Updated, Index: i.ModIndex, Unreachable: s.UnreachableSince(i)}
	if i.Fault != "" {
		ch.Fault = faultAbroad
	}
	return ch
}

func changeKey(origin api.LinkID, index uint64, id api.InstanceID) string {
	return string(origin) + "\x00" + string(binary.BigEndian.AppendUint64(nil, index)) + string(id)
}
