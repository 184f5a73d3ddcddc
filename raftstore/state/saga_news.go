package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// News is the effect that one item of a child's changes has here.
type News int

// The effects of an item.
const (
	NewsNone    News = iota // none: it is known, or the child has no say in it
	NewsChange              // the instance changes
	NewsPending             // the instance waits for a decision; the item must come again
)

// NewsOf returns the effect of an item of the changes of the child at the other end of a
// link.
func (s *sagaBook) NewsOf(link api.LinkID, ch api.InstanceChange) News {
	if _, pending := s.held.Get(string(ch.ID)); pending {
		return NewsPending
	}
	i, ok := s.instances.Get(string(ch.ID))
	if !ok || i.Link != link || !i.Live() {
		return NewsNone
	}
	if s.wordOf(i, ch) == keptWord(i) {
		return NewsNone
	}
	return NewsChange
}

// UndecidedHoldOf returns the undecided hold that an instance is part of, if there is one.
func (s *sagaBook) UndecidedHoldOf(id api.InstanceID) (*Hold, bool) {
	key, ok := s.held.Get(string(id))
	if !ok {
		return nil, false
	}
	return s.holds.Get(key)
}

// instanceChanges applies the changes that a child reports, in the child's order. It stops
// before an instance whose hold is undecided here: the follower reads it again, so that no
// status is lost.
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
