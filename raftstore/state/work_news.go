package state

import (
	"encoding/binary"
	"strings"

	"berth/api"
)

// word is the part of a child's report on an instance that a zone above keeps.
type word struct {
	status api.Status
	fault  string
	since  api.Instant // when it became unreachable; 0 while it is reachable

	replaced bool // a slot has left its host after its window began

	eviction api.Eviction // why a preemptible instance must leave; the zero one if it need not

	attached api.InstanceID // the instance that a volume is attached to; "" for none

	restarts uint64 // how often its agent has started it anew, as the child says last: one that told too many is believed when it tells fewer
}

// wordOf returns what is kept of an instance after a change that a child reports.
func (s *workBook) wordOf(i *api.Instance, ch api.InstanceChange) word {
	eviction, restarts := evictionOf(i, ch), ch.Restarts
	switch ch.Status {
	case api.StatusDeleted:
		return word{status: ch.Status, replaced: i.Replaced, eviction: eviction, restarts: restarts}
	case api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting:
		replaced := i.Replaced || ch.Replaced
		if i.Status == api.StatusDeleting {
			return word{i.Status, i.Fault, s.sinceOf(i, ch), replaced, eviction, "", restarts}
		}
		return word{ch.Status, Clip(ch.Fault), s.sinceOf(i, ch), replaced, eviction, attachedOf(i, ch), restarts}
	}
	return keptWord(i)
}

// keptWord returns what is kept of an instance so far.
func keptWord(i *api.Instance) word {
	w := word{status: i.Status, fault: i.Fault, since: i.Unreachable, replaced: i.Replaced, attached: i.Attached, restarts: i.Restarts}
	if i.Eviction != nil {
		w.eviction = *i.Eviction
	}
	return w
}

// evictionOf returns why an instance must leave after a change that a child reports. If its owner has
// ended it before, that counts.
func evictionOf(i *api.Instance, ch api.InstanceChange) api.Eviction {
	switch {
	case i.Eviction != nil:
		return *i.Eviction
	case ch.Eviction == nil || i.Status == api.StatusDeleting:
		return api.Eviction{}
	}
	e := *ch.Eviction
	e.Stays = ""
	if !api.ValidName(string(e.For)) {
		e.For = ""
	}
	return e
}

// attachedOf returns what a volume is attached to after a change that a child reports.
func attachedOf(i *api.Instance, ch api.InstanceChange) api.InstanceID {
	if i.Volume == "" || !api.ValidName(string(ch.Attached)) {
		return ""
	}
	return ch.Attached
}

// sinceOf returns when an instance became unreachable, as a child reports. The clock of a
// child may be ahead: the result is never later than the zone's time.
func (s *workBook) sinceOf(i *api.Instance, ch api.InstanceChange) api.Instant {
	switch {
	case ch.Unreachable <= 0:
		return 0
	case ch.Unreachable <= s.now:
		return ch.Unreachable
	case i.Unreachable > 0: // known to be unreachable
		return i.Unreachable
	}
	return s.now
}

// setWord stores what a child reports in the record of an instance.
func (s *workBook) setWord(old *api.Instance, w word) {
	if old.Eviction == nil && w.eviction != (api.Eviction{}) { // before it is gone: then it may be booted again
		i, e := *old, w.eviction
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Eviction = &e })
		s.putInstance(old, &i)
		s.addFact(instanceEvicted{&i})
		old = &i
	}
	if old.Restarts != w.restarts {
		i := *old
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Restarts = w.restarts })
		s.putInstance(old, &i)
		if old.Restarts < w.restarts {
			s.addFact(instanceRestarted{&i, ""})
		}
		old = &i
	}
	s.setStatus(old, w.status, w.fault)
	if now, ok := s.instances.Get(string(old.ID)); ok && (now.Unreachable != w.since || now.Replaced != w.replaced || now.Attached != w.attached) {
		i := *now
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Unreachable, x.Replaced, x.Attached = w.since, w.replaced, w.attached })
		s.putInstance(now, &i)
	}
}

// tellReach lists the instances on a host that went down or came back as changed for the
// parents that they were made for.
func (s *workBook) tellReach(host api.HostID) {
	s.byHost.Ascend(string(host), "", func(id string) bool {
		if old, ok := s.instances.Get(id); ok && old.Origin != "" {
			i := *old
			s.putInstance(old, &i)
		}
		return true
	})
}

// tellReachBelow lists the live instances in a child that fell silent or answers again as
// changed for the parents that they were made for.
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

// UnreachableSince returns when an instance became unreachable according to the log: its
// host is down, a zone below reported it, or the child on the way to it is silent. It is 0
// while the instance is reachable.
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

// faultAbroad is the fault that a zone reports to its parent for a failed instance: the
// driver's own message may name a host and stays here.
const faultAbroad = "the instance failed in its zone; its operator can see why"

// Changes returns the changes after an index of the instances made for a parent, in order.
// It stops at the first index at which it has limit items or more, so that no index is
// split.
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
	ch := api.InstanceChange{ID: i.ID, Status: i.Status, Updated: i.Updated, Index: i.ModIndex, Unreachable: s.UnreachableSince(i), Replaced: i.Replaced, Attached: i.Attached, Restarts: i.Restarts}
	if i.Fault != "" {
		ch.Fault = faultAbroad
	}
	if i.Eviction != nil {
		ch.Eviction = s.evictionAbroad(i)
	}
	return ch
}

// evictionAbroad returns what the parent that an instance was made for is told of its eviction: for
// whom it must leave only if that is a lease of the same parent.
func (s *workBook) evictionAbroad(i *api.Instance) *api.Eviction {
	e := *i.Eviction
	e.Stays = ""
	if !e.Lease || len(s.SlotsOf(i.Origin, e.For)) == 0 {
		e.For = ""
	}
	return &e
}

func changeKey(origin api.LinkID, index uint64, id api.InstanceID) string {
	return string(origin) + "\x00" + string(binary.BigEndian.AppendUint64(nil, index)) + string(id)
}
