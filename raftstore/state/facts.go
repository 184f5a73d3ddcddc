package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// A fact is what a book has done that books above it may have to know. Facts are taken up
// in order when the command is done.
type fact interface{ fact() }

// The facts.
type (
	// hostReached: a host went down, or is new or back: then since is 0.
	hostReached struct {
		host  api.HostID
		since api.Instant
	}

	// childReached: a child fell silent, or is heard again: then since is 0.
	childReached struct {
		link  api.LinkID
		since api.Instant
	}

	// instanceChanged: an instance of this zone's own has another status; was is "" for
	// a new one.
	instanceChanged struct {
		instance *api.Instance
		was, is  api.Status
	}

	// slotsTaken: a hold was made for an owner. tale is what the proposer knows of the
	// attempt.
	slotsTaken struct {
		owner  owner
		hold   *Hold
		wanted int
		tale   *api.BootAttempt
	}

	// partsAnswered: children have said what they hold for a hold.
	partsAnswered struct {
		owner         owner
		hold          *Hold
		held, refused int
		answers       []command.PartAnswer
	}

	// holdDecided: a hold was decided, at first or anew.
	holdDecided struct{ hold *Hold }

	// bootChanged: a boot was made, decided, or released by its owner.
	bootChanged struct {
		kind        EventKind
		project     api.ProjectID
		reservation api.ReservationID
		decision    api.Decision
		code        api.Code
	}

	// holdComplete: all that a hold asked for is held, and its owner wanted to decide at once.
	holdComplete struct{ owner owner }

	// partsOwed: by holds more of an owner, or fewer, may live in a child that has not
	// confirmed the decision.
	partsOwed struct {
		owner owner
		by    int
	}
)

func (hostReached) fact()     {}
func (childReached) fact()    {}
func (instanceChanged) fact() {}
func (slotsTaken) fact()      {}
func (partsAnswered) fact()   {}
func (holdDecided) fact()     {}
func (bootChanged) fact()     {}
func (holdComplete) fact()    {}
func (partsOwed) fact()       {}

// passFacts has every book take up the facts of the books below it, and those that come of that.
func (s *State) passFacts() {
	for n := 0; n < len(s.facts); n++ {
		f := s.facts[n]
		s.workBook.note(f)
		s.bootsBook.note(f)
		s.note(f) // the events
	}
	s.facts = s.facts[:0]
}
