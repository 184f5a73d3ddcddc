package state

import (
	"strings"

	"berth/api"
	"berth/raftstore/command"
)

// News is what one item of a child's changes means here.
type News int

// What an item may mean.
const (
	NewsNone    News = iota // nothing: it is known, or not the child's to say
	NewsChange              // the instance changes
	NewsPending             // the instance waits for a decision; the item must come again
)

// NewsOf says what an item of the changes of the child at the other end of a link
// means.
func (s *sagaBook) NewsOf(link api.LinkID, ch api.InstanceChange) News {
	if _, pending := s.held.Get(string(ch.ID)); pending {
		return NewsPending
	}
	i, ok := s.instances.Get(string(ch.ID))
	if !ok || i.Link != link || !i.Live() {
		return NewsNone
	}
	if s.wordOf(i, ch) == (word{i.Status, i.Fault, i.Unreachable}) {
		return NewsNone
	}
	return NewsChange
}

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

// instanceChanges folds in what a child says, in the child's order. It stops
// before an instance whose hold is not decided here yet: the follower comes back
// to it, so that no status is lost.
func (s *sagaBook) instanceChanges(c command.InstanceChanges) Result {
	old, ok := s.links.Get(string(c.Link))
	if !ok || old.ChangesNext != c.After {
		return refuseWith(api.CodeConflict, "the changes of the zone were followed from elsewhere")
	}
	next := c.Next
items:
	for _, ch := range c.Items {
		switch s.NewsOf(c.Link, ch) {
		case NewsPending:
			next = min(next, ch.Index-1)
			break items
		case NewsChange:
			i, _ := s.instances.Get(string(ch.ID))
			s.setWord(i, s.wordOf(i, ch))
		case NewsNone:
		}
	}
	if next != old.ChangesNext {
		s.noteFollowed(old, next)
	}
	return Result{}
}
