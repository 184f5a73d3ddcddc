package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// hostGivenUp is the fault of an instance that was written off with its host, or alone.
const hostGivenUp = "its host was lost, and an operator wrote it off"

// Lost is what is given up on a host, each by id.
type Lost struct {
	Host      *Host
	Instances []*api.Instance  // as they were: instances, volumes, and slots of leases
	Consumers []api.ConsumerID // of the placement API, which lose what they have of the host
}

// hostWriteOff gives up one instance on a lost host, or the host with all that is on it. Nothing
// confirms that it has ended: its agent learns that when it comes back.
func (s *sagaBook) hostWriteOff(c command.HostWriteOff) Result {
	h, ok := s.hosts.Get(string(c.ID))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no such host")
	case h.State != api.HostDown:
		return refuseWith(api.CodeConflict, "host %q is up; only what is on a lost host is written off", h.Name)
	case h.DownSince != c.Since:
		return refuseWith(api.CodeConflict, "host %q has been up since; look at it again", h.Name)
	case c.Instance != "":
		return s.loseInstance(h, c.Instance)
	}
	return s.loseHostWhole(h)
}

// loseInstance gives up one instance, which is no slot of a lease.
func (s *sagaBook) loseInstance(h *Host, id api.InstanceID) Result {
	i, ok := s.instances.Get(string(id))
	switch {
	case !ok || !i.Live() || i.Host != h.ID:
		return refuseWith(api.CodeNotFound, "no such server on host %q", h.Name)
	case i.Reserved:
		return refuseWith(api.CodeInvalid, "it is room of a lease; delete the lease, or write off the host")
	}
	lost := s.fillHost(h)
	s.giveUpInstance(id, hostGivenUp)
	return Result{Lost: &Lost{Host: lost, Instances: []*api.Instance{i}}}
}

// loseHostWhole gives up a host with all that is on it.
func (s *sagaBook) loseHostWhole(h *Host) Result {
	if r := s.mayLose(h); r.Err != nil {
		return r
	}
	if r := s.membersBook.loseHost(h.Agent, h.ID); r.Err != nil {
		return r
	}
	lost := &Lost{Host: s.fillHost(h), Instances: s.allOn(h.ID)}
	for _, slots := range []bool{false, true} { // a slot is gone once nothing is within it
		for _, i := range lost.Instances {
			if now, _ := s.instances.Get(string(i.ID)); now.Reserved == slots && now.Live() {
				s.giveUpInstance(i.ID, hostGivenUp)
			}
		}
	}
	s.consumersOf(h.ID, func(id api.ConsumerID) bool {
		lost.Consumers = append(lost.Consumers, id)
		return true
	})
	for _, id := range lost.Consumers {
		s.leaveProvider(id, h.ID)
	}
	now, _ := s.hosts.Get(string(h.ID))
	if r := s.forgetHost(now, api.CodeConflict); r.Err != nil {
		return r // never: mayLose has looked
	}
	s.awaitAgent(h.Agent)
	return Result{Lost: lost}
}

// mayLose refuses to write off a host on which something is not decided, to which something moves, or
// of which others have a part.
func (s *sagaBook) mayLose(h *Host) Result {
	if s.hasChildren(h.ID) {
		return refuseWith(api.CodeHasChildren, "other providers are part of host %q; delete or move them first", h.Name)
	}
	undecided := slices.ContainsFunc(s.SlotsOn(h.ID), func(i *api.Instance) bool { return s.isKept(i.ID) })
	moving, drawn := 0, 0
	s.consumersOf(h.ID, func(id api.ConsumerID) bool {
		i, made := s.instances.Get(string(id))
		_, held := s.held.Get(string(id))
		switch {
		case held:
			undecided = true
		case made && i.Live() && i.Target == h.ID:
			moving++
		case made && i.Live() && i.Host != h.ID:
			drawn++
		}
		return true
	})
	switch {
	case undecided:
		return refuseWith(api.CodeConflict, "reservations in flight still depend on host %q; try again when they have ended", h.Name)
	case moving > 0:
		return refuseWith(api.CodeConflict, "%d instances are on their way to host %q; try again when they have left their old hosts", moving, h.Name)
	case drawn > 0:
		return refuseWith(api.CodeConflict, "%d instances on other hosts have a part of host %q; delete or move them first", drawn, h.Name)
	}
	return Result{}
}
