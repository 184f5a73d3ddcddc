package state

import (
	"iter"
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// addInstance records a new instance.
func (s *workBook) addInstance(i *api.Instance) {
	s.putInstance(nil, i)
	if i.Host != "" {
		s.byHost.Insert(string(i.Host), string(i.ID))
		s.touchHost(i.Host, i.ID)
	}
}

// putInstance stores i in place of old (nil for a new one) and updates the indexes.
func (s *workBook) putInstance(old, i *api.Instance) {
	if old == nil {
		s.byTenant.Insert(tenantKey(i.Tenant()), string(i.ID))
		s.byRes.Insert(resKey(i.Tenant(), i.Reservation), string(i.ID))
	} else if old.Origin != "" {
		s.changes.Delete(changeKey(old.Origin, old.ModIndex, old.ID))
	}
	s.reindexInstance(old, i)
	i.Updated, i.ModIndex = s.now, s.index
	s.indexEndedInstance(old, i)
	if i.Origin != "" {
		s.changes.Insert(changeKey(i.Origin, i.ModIndex, i.ID))
		s.touchTopic(ChangesTopic(i.Origin))
	}
	s.instances.Set(string(i.ID), i)
	f := instanceChanged{instance: i, is: i.Status}
	if old != nil {
		f.was = old.Status
	}
	if f.was != f.is {
		s.addFact(f)
	}
}

// reindexInstance updates the indexes that depend on the host and status of an instance:
// members of rules, moves, and ends of windows.
func (s *workBook) reindexInstance(old, i *api.Instance) {
	s.countUse(old, i)
	s.countLentTo(old, i)
	if old != nil {
		if old.Host == i.Host && old.Target == i.Target && isListedAlike(old, i) && old.Window == i.Window &&
			old.Overdue == i.Overdue && old.Within == i.Within && old.Waits == i.Waits && slices.Equal(old.Rules, i.Rules) {
			return
		}
		s.countInstance(old, -1)
		s.byTarget.Delete(string(old.Target), string(old.ID))
		s.ends.Delete(endKey(old))
		s.unlistSlot(old)
	}
	s.countInstance(i, +1)
	s.listSlot(i)
	if i.Target != "" {
		s.byTarget.Insert(string(i.Target), string(i.ID))
	}
	if endsByWindow(i) {
		s.ends.Insert(endKey(i))
	}
}

// isListedAlike reports whether the statuses of two records of an instance make no difference to the
// indexes of reindexInstance: of what is no slot these have all that is live.
func isListedAlike(old, i *api.Instance) bool {
	return old.Status == i.Status || old.Live() && i.Live() && !i.Reserved && !i.ShareIdle
}

func resKey(t api.Tenant, r api.ReservationID) string { return joinKey(tenantKey(t), r) }

// setStatus changes the status of an instance. When it is DELETED its claim ends.
func (s *workBook) setStatus(old *api.Instance, st api.Status, fault string) {
	if old.Status == st && old.Fault == fault {
		return
	}
	i := *old
	i.Status = sharedStatus(st)
	if fault != "" || i.HasExtras() {
		i.ChangeExtras(func(x *api.InstanceExtras) { passExtras(x, st, fault) })
	}
	if st == api.StatusDeleting || st == api.StatusDeleted {
		i.Waits = false // its agent confirms that nothing runs
		s.releaseTarget(old)
	}
	s.putInstance(old, &i)
	switch {
	case i.Attached != old.Attached:
		s.removeVolume(old.Attached, i.ID)
	case i.Attached != "":
		s.touchServer(i.Attached)
	}
	if st == api.StatusDeleted {
		s.detachAll(old.Volumes)
		s.unended.Delete(string(i.ID))
	}
	if i.Host == "" || st != api.StatusDeleting && st != api.StatusDeleted {
		return
	}
	s.touchHost(i.Host, i.ID)
	if st == api.StatusDeleting {
		s.endWithin(&i)
		return
	}
	s.byHost.Delete(string(i.Host), string(i.ID))
	s.releaseAllocation(i.Host, s.claimOf(&i), i.Shares)
	s.bumpDrawn(i.Host, i.Shares)
	if i.Within != "" {
		s.endEmptySlot(i.Within)
	}
}

// passExtras changes the extras of an instance as its status does.
func passExtras(x *api.InstanceExtras, st api.Status, fault string) {
	x.Fault = fault
	if st == api.StatusDeleting || st == api.StatusDeleted {
		x.Target, x.TargetShares, x.Attached = "", nil, ""
	}
	if st == api.StatusDeleted {
		x.Unreachable, x.Volumes = 0, nil
	}
}

// ClaimOf returns the claim of an instance or slot on an own host.
func (s *workBook) ClaimOf(i *api.Instance) api.Claim { return s.claimOf(i) }

// claimOf returns the claim of an instance or slot. What is overdue counts now only, like a
// preemptible: nothing new is admitted to its room, and a promise of the room is not broken
// by it.
func (s *workBook) claimOf(i *api.Instance) api.Claim {
	c := api.Claim{Consumer: i.ID, Resources: i.Resources, Window: i.Window, Class: i.Class, Whole: i.Whole, Grace: i.Grace}
	if i.Reserved || i.Waits {
		c.Class = api.Preempting
	}
	if i.Overdue {
		c.Window.End, c.Class, c.Whole = api.Forever, api.Preemptible, false
	}
	c.Within = s.outerClaim(i.Within)
	return c
}

// outerClaim returns what a slot claims on its own host, for claims within it; nil for "".
func (s *workBook) outerClaim(slot api.InstanceID) *api.Claim {
	i, ok := s.instances.Get(string(slot))
	if slot == "" || !ok {
		return nil
	}
	outer := capacity.OwnPart(s.claimOf(i), i.Shares)
	return &outer
}

// endInstance requests the end of an instance; a repeat changes nothing. What waits for its room
// is gone at once: no agent was shown it.
func (s *workBook) endInstance(i *api.Instance) {
	switch {
	case !i.Live():
	case i.Waits:
		s.setStatus(i, api.StatusDeleted, "")
	default:
		s.setStatus(i, api.StatusDeleting, "")
	}
}

// stayEnded records why a preempted instance is not booted again.
func (s *workBook) stayEnded(old *api.Instance, why api.RequeueRefusal) {
	if old.OnPreempt != api.PreemptRequeue || old.Eviction.Stays != "" {
		return
	}
	i, e := *old, *old.Eviction
	e.Stays = why
	i.ChangeExtras(func(x *api.InstanceExtras) { x.Eviction = &e })
	s.putInstance(old, &i)
}

// giveUpInstance takes an instance as gone, with a fault that says why. It is not booted again, even
// if it was preempted: it may still run.
func (s *workBook) giveUpInstance(id api.InstanceID, fault string) {
	if i, _ := s.instances.Get(string(id)); i.Eviction != nil {
		s.stayEnded(i, api.RequeueEnded)
	}
	i, _ := s.instances.Get(string(id))
	s.setStatus(i, api.StatusDeleted, fault)
}

// mustEnd lists a remote instance whose zone must be told to end it.
func (s *workBook) mustEnd(i *api.Instance) {
	s.unended.Insert(string(i.ID))
	s.touchTopic(dueTopic(DueEnds, string(i.ID)))
}

func (s *workBook) instanceTold(c command.InstanceTold) {
	for _, id := range c.IDs {
		s.unended.Delete(string(id))
	}
	for _, id := range c.Gone {
		s.unended.Delete(string(id))
		if i, ok := s.instances.Get(string(id)); ok && i.Link != "" && i.Status == api.StatusDeleting {
			s.setStatus(i, api.StatusDeleted, "")
		}
	}
}

// hostsSilent ends the instances that must end on lost hosts, if their agents have killed them
// by their own clocks. It never ends one on a host that is up, or has been up since the proposer
// looked: its agent may have got a list then, and started what was not to end yet.
func (s *workBook) hostsSilent(c command.HostsSilent) {
	for _, silent := range c.Hosts {
		h, ok := s.hosts.Get(string(silent.ID))
		if !ok || h.State != api.HostDown || h.DownSince != silent.Since {
			continue
		}
		for _, i := range s.OnHost(h.ID) {
			if i.Status == api.StatusDeleting && i.Fenced() {
				s.setStatus(i, api.StatusDeleted, "")
			}
		}
	}
}

// instanceReport applies the reports for hosts that belong to the agent. It ignores others:
// a host may have moved to another agent, and an instance to another host, or there and
// back.
func (s *workBook) instanceReport(c command.InstanceReport) Result {
	for _, r := range c.Items {
		i, ok := s.reportedOf(c.Agent, &r)
		if !ok {
			continue
		}
		deleting := i.Status == api.StatusDeleting
		s.noteFailures(i, r.Status)
		switch {
		case deleting && r.Status == api.StatusDeleted:
			s.setStatus(i, api.StatusDeleted, "")
		case deleting:
		case r.Status == api.StatusDeleted && i.Target != "":
			s.endStay(i)
		case r.Status == api.StatusDeleted:
			s.setStatus(i, api.StatusError, "the instance vanished from its host")
		case r.Status == api.StatusActive || r.Status == api.StatusShutoff || r.Status == api.StatusError:
			s.setStatus(i, r.Status, Clip(r.Fault))
			s.noteRestart(&r)
		}
	}
	return Result{}
}

// noteRestart counts a restart that a report is of, once. The number is of the instance, not of its stay.
func (s *workBook) noteRestart(r *api.InstanceReport) {
	old, ok := s.instances.Get(string(r.Instance))
	if !ok || r.Restarted == 0 || r.Restarted == old.Restarted {
		return
	}
	i := *old
	i.ChangeExtras(func(x *api.InstanceExtras) {
		x.Restarts++
		x.Restarted = r.Restarted
	})
	s.putInstance(old, &i)
	s.addFact(instanceRestarted{&i, r.Reason})
}

// TakesReport reports whether what an agent reports of an instance counts: it is on a host of the
// agent, which was shown it.
func (s *workBook) TakesReport(agent api.AgentID, r *api.InstanceReport) bool {
	_, ok := s.reportedOf(agent, r)
	return ok
}

// reportedOf returns the instance that a report of an agent is on, if the report counts.
func (s *workBook) reportedOf(agent api.AgentID, r *api.InstanceReport) (*api.Instance, bool) {
	i, ok := s.instances.Get(string(r.Instance))
	if !ok || !command.IsHost(r.Host, i.Host) || !i.Live() || r.Stay != 0 && r.Stay != i.Stay() {
		return nil, false
	}
	if h, ok := s.hosts.Get(string(i.Host)); !ok || h.Agent != agent {
		return nil, false
	}
	if i.Waits { // no agent was shown it
		return nil, false
	}
	return i, true
}

// Clip truncates a fault to api.FaultMaxBytes, between two characters.
func Clip(fault string) string {
	return strings.ToValidUTF8(fault[:min(len(fault), api.FaultMaxBytes)], "")
}

// markRestored marks everything as changed: hosts for their agents, and the instances of a
// parent for that parent, whatever they have read before.
func (s *workBook) markRestored() {
	s.forgetWorkLog()
	for _, h := range s.hosts.Values() {
		s.touchWork(h.ID)
	}
	for _, old := range s.instances.Values() {
		if old.Origin != "" {
			i := *old
			s.putInstance(old, &i)
		}
	}
}

func (s *workBook) loadInstance(i *api.Instance) {
	s.shareLoaded(i)
	s.instances.Set(string(i.ID), i)
	s.indexEndedInstance(nil, i)
	s.byTenant.Insert(tenantKey(i.Tenant()), string(i.ID))
	s.byRes.Insert(resKey(i.Tenant(), i.Reservation), string(i.ID))
	if i.Origin != "" {
		s.changes.Insert(changeKey(i.Origin, i.ModIndex, i.ID))
	}
	s.reindexInstance(nil, i)
	if i.Target != "" {
		s.allocate(i.Target, s.claimOf(i), i.TargetShares, i.Kept()...)
	}
	if i.Host != "" && i.Live() {
		s.byHost.Insert(string(i.Host), string(i.ID))
		if i.Within == "" {
			s.allocate(i.Host, s.claimOf(i), i.Shares)
		}
	}
}

// allocateWithin makes the claims of the instances within slots, once all instances of a
// snapshot are loaded.
func (s *workBook) allocateWithin() {
	s.instances.Scan(func(_ string, i *api.Instance) bool {
		if i.Within != "" && i.Live() { // only slots on own hosts have any within them
			s.allocate(i.Host, s.claimOf(i), i.Shares)
		}
		return true
	})
}

// endStay ends the stay of an instance on its old host: it is to be started on its
// target.
func (s *workBook) endStay(old *api.Instance) {
	i := *old
	i.Host, i.Status = old.Target, api.StatusBuild
	i.ChangeExtras(func(x *api.InstanceExtras) {
		x.Shares, x.Target, x.TargetShares, x.Fault = old.TargetShares, "", nil, ""
		x.Moves++
	})
	s.putMoved(old, &i)
	s.releaseAllocation(old.Host, s.claimOf(old), old.Shares, old.Kept()...)
	s.bumpDrawn(old.Host, old.Shares, old.Kept()...)
	s.touchHost(old.Host, i.ID)
	s.touchHost(i.Host, i.ID)
}

// putMoved stores an instance that is on another host than before.
func (s *workBook) putMoved(old, i *api.Instance) {
	s.putInstance(old, i)
	s.byHost.Delete(string(old.Host), string(old.ID))
	s.byHost.Insert(string(i.Host), string(i.ID))
}

// releaseTarget releases the room of an instance on its target. The caller has stored the
// instance without a target.
func (s *workBook) releaseTarget(old *api.Instance) {
	if old.Target != "" {
		s.releaseAllocation(old.Target, s.claimOf(old), old.TargetShares, old.Kept()...)
		s.bumpDrawn(old.Target, old.TargetShares, old.Kept()...)
	}
}

// listSlot lists an instance among the slots that must begin, or those within a slot.
func (s *workBook) listSlot(i *api.Instance) {
	switch {
	case !beginsByWindow(i):
	case i.Window.Start <= s.now:
		s.listWaiting(i)
	default:
		s.begins.Insert(beginKey(i))
		if closingOf(i) > s.now {
			s.closings.Insert(closingKey(i))
		}
	}
	if i.Waits {
		s.listWaiting(i)
	}
	if i.ShareIdle && i.Host != "" && i.Status == api.StatusActive && !i.Overdue {
		s.lending.Insert(string(i.ID))
	}
	if i.Reserved && i.Live() {
		s.reserved.Insert(reservedKey(i))
		addTally(s.leased, string(i.Origin), +1)
	}
	if i.Within != "" && i.Live() { // only slots on own hosts have any within them
		s.within.Insert(joinKey(i.Within, i.ID))
	}
}

// unlistSlot removes an instance from the lists of listSlot.
func (s *workBook) unlistSlot(i *api.Instance) {
	s.begins.Delete(beginKey(i))
	s.closings.Delete(closingKey(i))
	s.lending.Delete(string(i.ID))
	s.unlistWaiting(i)
	if s.reserved.Contains(reservedKey(i)) {
		s.reserved.Delete(reservedKey(i))
		addTally(s.leased, string(i.Origin), -1)
	}
	s.within.Delete(joinKey(i.Within, i.ID))
}

func reservedKey(i *api.Instance) string {
	return joinKey(joinKey(i.Origin, i.Group), i.ID)
}

// instanceClaims yields every claim of an instance that has not been released.
func (s *workBook) instanceClaims(i *api.Instance) iter.Seq2[api.ProviderID, api.Claim] {
	return func(yield func(api.ProviderID, api.Claim) bool) {
		if i.Host == "" || !i.Live() {
			return
		}
		for id, c := range allocations(i.Host, s.claimOf(i), i.Shares) {
			if !yield(id, c) {
				return
			}
		}
		if i.Target == "" {
			return
		}
		for id, c := range allocations(i.Target, s.claimOf(i), i.TargetShares, i.Kept()...) {
			if !yield(id, c) {
				return
			}
		}
	}
}
