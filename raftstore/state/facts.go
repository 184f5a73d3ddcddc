package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// A fact is a change in one book that the books above may depend on. They process facts in
// order when the command is done.
type fact interface{ fact() }

// The facts.
type (
	// hostReached: a host went down at since, or is up if since is 0.
	hostReached struct {
		host  api.HostID
		since api.Instant
	}

	// childReached: a child is silent since that time, or answers again if since is 0.
	childReached struct {
		link  api.LinkID
		since api.Instant
	}

	// instanceChanged: the status of an instance changed; was is "" for a new instance.
	instanceChanged struct {
		instance *api.Instance
		was, is  api.Status
	}

	// instanceEvicted: a preemptible instance must leave room that somebody else has.
	instanceEvicted struct{ instance *api.Instance }

	// slotsTaken: a hold was made for an owner. outcome is the proposer's record of the
	// attempt.
	slotsTaken struct {
		owner   owner
		hold    *Hold
		wanted  int
		outcome *api.BootAttempt
	}

	// partsAnswered: children have answered with what they hold for a hold.
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

	// instanceQueued: a preempted instance of this zone waits to be booted again.
	instanceQueued struct{ instance *api.Instance }

	// instanceRestarted: the agent of an instance has started it anew unasked.
	instanceRestarted struct {
		instance *api.Instance
		reason   api.RestartReason // "" for one that runs below
	}

	// bootRequeued: instances were ordered for the preempted ones of a boot.
	bootRequeued struct{ queued *Requeued }

	// bindingChanged: a binding began, or has ended.
	bindingChanged struct{ binding *api.Binding }

	// leaseChanged: a lease was made, changed or deleted, or one of its events happened. was
	// is its status before, if that changed.
	leaseChanged struct {
		kind  EventKind
		lease *Lease
		was   api.LeaseStatus
	}

	// holdComplete: everything in a hold is held, and its owner asked to decide at once.
	holdComplete struct{ owner owner }

	// partsOwed: the number of an owner's holds that may be live in a child that has not
	// confirmed the decision changed by by.
	partsOwed struct {
		owner owner
		by    int
	}
)

func (hostReached) fact()     {}
func (childReached) fact()    {}
func (instanceChanged) fact() {}
func (instanceEvicted) fact() {}
func (slotsTaken) fact()      {}
func (partsAnswered) fact()   {}
func (holdDecided) fact()     {}
func (bootChanged) fact()     {}
func (holdComplete) fact()    {}
func (instanceQueued) fact()  {}
func (bootRequeued) fact()    {}

func (instanceRestarted) fact() {}
func (bindingChanged) fact()    {}
func (leaseChanged) fact()      {}
func (partsOwed) fact()         {}

// passFacts passes each fact to all books above, including the facts that this adds, and then
// settles the leases that they concern, until nothing follows any more.
func (s *State) passFacts() {
	for len(s.facts)+len(s.unsettled) > 0 {
		for n := 0; n < len(s.facts); n++ {
			f := s.facts[n]
			s.workBook.note(f)
			s.bootsBook.note(f)
			s.leasesBook.note(f)
			s.note(f) // the events
		}
		s.facts = s.facts[:0]
		s.settleLeases()
	}
}
