package state

import (
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
