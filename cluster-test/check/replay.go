package check

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

const (
	wholeEvery = 500 // entries between two comparisons of everything
	reloads    = 8   // times that the second state goes through a snapshot
)

// replay applies one log to the model, the real state, and a second state that goes
// through snapshots.
type replay struct {
	*list
	m      *model.Model
	s      *state.State
	twin   *state.State
	based  bool                   // it started with a snapshot, or continued from a backup
	owns   map[api.ProjectID]bool // whose boots may be in a snapshot or a backup
	backup []byte                 // the parts of one so far
	sum    LogSummary
	last   state.Result // of the last command

	auditor     auditor
	authorities authorities

	happened map[api.LeaseID]happened
	lastFact api.Instant // when the last event about a lease happened
	form     api.Form    // of the last command

	apply func(*state.State, uint64, command.Command) state.Result
	load  func([]byte) (*state.State, error)
}

func newReplay(l *list) *replay {
	return &replay{
		happened: map[api.LeaseID]happened{},
		list:     l, m: model.New(), sum: LogSummary{Outcomes: Outcomes{}}, s: state.New(), twin: state.New(), owns: map[api.ProjectID]bool{}, apply: (*state.State).Apply,
		load: func(b []byte) (*state.State, error) { return state.Load(bytes.NewReader(b), api.FormNewest) },
	}
}

func (r *replay) replayAll(entries []known, states []NodeState) {
	byIndex := map[uint64][]NodeState{}
	for _, s := range states {
		byIndex[s.Index] = append(byIndex[s.Index], s)
	}
	every := max(1, len(entries)/reloads)
	for i, e := range entries {
		r.sum.Entries++
		if !r.applyEntry(e) || r.isFull() {
			return
		}
		if i%wholeEvery == wholeEvery-1 && !r.compareAll(e.Index) {
			return
		}
		if i%every == every-1 && !r.reloadState(e.Index) {
			return
		}
		if r.s.Index() == e.Index {
			r.compareNodes(byIndex[e.Index])
			delete(byIndex, e.Index)
		}
	}
	if len(entries) == 0 {
		r.addViolation(promise.Input, 0, "the log is empty")
		return
	}
	last := entries[len(entries)-1].Index
	if r.compareAll(last) {
		r.reloadState(last)
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		r.addViolation(promise.Input, index, "%s has a state of this index, at which the log has no command", byIndex[index][0].Node)
	}
}

// applyEntry applies the commands of one entry. It reports whether to continue.
func (r *replay) applyEntry(e known) bool {
	if e.Type != 0 {
		return true
	}
	cmds := e.Commands
	if cmds == nil {
		var err error
		if cmds, err = decodeEntry(e.raw); err != nil {
			r.addViolation(promise.Input, e.Index, "an entry cannot be read: %v", err)
			return false
		}
	}
	for _, c := range cmds {
		r.sum.Commands++
		if !r.applyCommand(e.Index, c) {
			return false
		}
	}
	return true
}

// applyCommand applies one command to all three and compares the changes.
func (r *replay) applyCommand(index uint64, c command.Command) bool {
	before, found, told := r.s.Now(), len(r.all), r.s.EventsEnd()
	kek, due := r.s.KEK, r.s.KEKDue
	r.m.Index, r.form = index, c.Form()
	r.noteAudit()
	r.noteAuthorities()
	result := r.apply(r.s, index, c)
	if r.last = result; r.twin != nil {
		if again := r.apply(r.twin, index, c); (again.Err == nil) != (result.Err == nil) {
			r.addViolation(promise.Agree, index, "%T: a state that was restored from a snapshot on the way says %v, and one that was not %v", c, again.Err, result.Err)
		}
	}
	r.sum.Outcomes.countOutcome(c, result)
	if r.based && api.CodeOf(result.Err) == api.CodePlanRefused {
		r.learnPlan(c)
	}
	not := r.m.Apply(c)
	switch {
	case result.Err != nil:
		r.sum.Refused++
		if not == nil && model.Judged(c) {
			r.addViolation(promise.Model, index, "%T was refused and should not have been: %v", c, result.Err)
		}
	case not != nil:
		r.addViolation(not.Promise, index, "%T was accepted although %s", c, not.Text)
	case !model.Judged(c):
		r.m.Adopt(c)
	}
	if ack, is := c.(command.PartAck); is && ack.Lost && len(r.m.Hit) > 0 {
		r.sum.Outcomes["part lost with instances"]++
	}
	if p, ok := c.(command.Prune); ok {
		r.forgetPruned(index, p)
		r.m.LeaveGone()
	}
	if b, ok := c.(command.BootCreate); ok && result.Err == nil {
		r.owns[b.Request.Project] = true
	}
	restored := false
	if p, ok := c.(command.Restore); ok && result.Err == nil {
		r.keepPart(index, p, kek, due)
		restored = p.Last()
	}
	if now := r.s.Now(); now < before {
		r.addViolation(promise.Time, index, "the zone's time fell from %v to %v", before, now)
	} else if now != r.m.Now {
		r.addViolation(promise.Time, index, "the zone's time is %v, and the latest time of any command %v", now, r.m.Now)
	}
	if len(r.all) == found {
		r.compareChanged(index, c)
		r.compareLeases(index, told, restored)
		r.compareAudit(index, c, result.Err)
		r.compareAuthorities(index, c, result.Err)
	}
	return len(r.all) == found
}

// learnPlan trusts the state that a plan was used before the snapshot, by a pruned hold:
// snapshots do not have the plans of those.
func (r *replay) learnPlan(c command.Command) {
	r.m.Now = max(r.m.Now, c.Time())
	h, ok := c.(command.Hold)
	if !ok || r.m.Holds[model.HoldID{Origin: h.Origin, ID: h.ID}] != nil {
		return
	}
	if _, not := r.m.MayHold(h); not == nil {
		r.m.Plans[h.Plan] = 0
	}
}

// compareChanged compares everything that a command has changed according to the model.
func (r *replay) compareChanged(index uint64, c command.Command) {
	for id := range r.m.Moved {
		r.compareHold(index, r.m.Holds[id])
	}
	if create, ok := c.(command.BootCreate); ok && r.m.Answer.Reservation != "" {
		r.compareAnswer(index, create)
	}
	for id := range r.m.Told {
		r.compareBoot(index, r.m.Boots[id])
	}
	for id := range r.m.Hit {
		r.compareInstance(index, id)
		if i, ok := r.s.Instance(id); ok && i.Origin != "" && i.ModIndex != index {
			r.addViolation(promise.Model, index, "the parent is not told that instance %s has changed", id)
		}
	}
	for id := range r.m.Bumped {
		r.compareHost(index, r.m.Hosts[id])
	}
	for id := range r.m.Reshaped {
		r.compareHost(index, r.m.Hosts[id])
	}
	for id := range r.m.HitConsumers {
		r.compareConsumer(index, id)
	}
	if r.m.Rebound {
		r.compareBindings(index)
	}
	r.compareRules(index)
	r.sum.Ruled += r.m.Bound
	r.sum.Allocated += r.m.Claimed
	for _, cl := range r.m.Fresh {
		if r.m.Hosts[cl.Host].Passive {
			r.sum.Drawn++
		} else {
			r.sum.Claims++
		}
		if class, at := r.m.Hosts[cl.Host].Oversold(cl, r.m.Now); class != "" {
			r.addViolation(promise.Capacity, index, "%s of host %s is above capacity at %v, after a claim for %s", class, cl.Host, at, cl.Consumer)
		}
	}
}

// compareAnswer compares the answer to a boot's caller with the first answer.
func (r *replay) compareAnswer(index uint64, c command.BootCreate) {
	want := r.m.Answer
	b, ok := r.s.BootFor(c.Request.Project, c.Request.Reservation, c.Key)
	if !ok || b.Request.Reservation != want.Reservation {
		r.addViolation(promise.Repeat, index, "the boot %s of project %s is not what its key leads to", want.Reservation, want.Project)
	}
}

func (r *replay) compareHost(index uint64, h *model.Host) {
	if h == nil {
		return // deleted by this command
	}
	r.compareProvider(index, h)
	if h.Passive {
		return
	}
	got, ok := r.s.Host(h.ID)
	if !ok {
		r.addViolation(promise.Model, index, "host %s is missing", h.ID)
		return
	}
	switch {
	case got.Enabled != h.Enabled || got.Cleaning != h.Cleaning || got.Pool != h.Pool || (got.State == api.HostUp) != h.Up || got.Agent != h.Agent:
		r.addViolation(promise.Model, index, "host %s is %v, enabled %v, of pool %s and agent %s", h.ID, got.State, got.Enabled, got.Pool, got.Agent)
	case got.Maintenance != h.Maintenance || got.Drain != h.Drain || !maps.Equal(got.Overrides, h.Overrides) || got.Failures != h.Failures || got.Unserved != h.Unserved:
		r.addViolation(promise.Model, index, "host %s is in maintenance %q, drained %q, with %d failures and %v", h.ID, got.Maintenance, got.Drain, got.Failures, got.Overrides)
	case !strings.HasSuffix(r.m.Standing(h.ID), got.AZ):
		r.addViolation(promise.Model, index, "host %s is in availability zone %s", h.ID, got.AZ)
	}
}

func (r *replay) compareInstance(index uint64, id api.InstanceID) {
	want := r.m.Instances[id]
	got, ok := r.s.Instance(id)
	switch {
	case !ok:
		r.addViolation(promise.Model, index, "instance %s is missing", id)
	case got.Status == api.StatusActive && want.Waits:
		r.addViolation(promise.Preempt, index, "slot %s is ACTIVE, and others use its room", id)
	case got.Status != want.Status:
		r.addViolation(promise.Model, index, "instance %s is %s, not %s", id, got.Status, want.Status)
	case got.Host != want.Host && got.Host == want.Target:
		r.addViolation(promise.Move, index, "instance %s is on host %s already, and has not stopped on host %s", id, got.Host, want.Host)
	case got.Target != want.Target:
		r.addViolation(promise.Move, index, "instance %s moves to host %q, not to %q", id, got.Target, want.Target)
	case want.Live() && want.Host != "" && (got.Window.Start != r.m.Claims[id].Start || got.Window.End != r.m.Claims[id].Until()):
		r.addViolation(promise.Model, index, "instance %s has the window %v", id, got.Window)
	case got.Reserved != want.Reserved() || want.Live() && want.Host != "" && got.Within != r.m.Claims[id].Within:
		r.addViolation(promise.Within, index, "instance %s is within %q: a slot %v", id, got.Within, got.Reserved)
	case !got.Reserved && got.Waits != want.Waits:
		r.addViolation(promise.Preempt, index, "instance %s waits %v", id, got.Waits)
	case want.Live() && want.Host != "" && got.Overdue != (r.m.Claims[id].Over > 0) || got.Replaced != want.Other:
		r.addViolation(promise.Model, index, "instance %s is overdue %v, and was replaced %v", id, got.Overdue, got.Replaced)
	case want.Live() && want.Host != "" && !sharesEqual(got.Shares, r.m.Claims[id].Shares()):
		r.addViolation(promise.Model, index, "instance %s draws %v beside its host, not %v", id, got.Shares, r.m.Claims[id].Shares())
	case want.Live() && want.Target != "" && !sharesEqual(got.TargetShares, r.m.Coming[id].Shares()):
		r.addViolation(promise.Model, index, "instance %s will draw %v beside its host, not %v", id, got.TargetShares, r.m.Coming[id].Shares())
	case !sameEviction(got.Eviction, want.Eviction):
		r.addViolation(promise.Preempt, index, "instance %s must leave for %+v, not for %+v", id, got.Eviction, want.Eviction)
	case r.s.UnreachableSince(got) != r.m.Since(want):
		r.addViolation(promise.Model, index, "instance %s is out of reach since %v, not since %v", id, r.s.UnreachableSince(got), r.m.Since(want))
	case got.Volume != want.Volume() || got.Attached != want.Attached || want.Live() && want.Host != "" && !slices.Equal(got.Volumes, r.m.Volumes(id)):
		r.addViolation(promise.Volume, index, "instance %s is attached to %q, not to %q, and has %v, not %v", id, got.Attached, want.Attached, got.Volumes, r.m.Volumes(id))
	case got.Halted != want.Halted || got.Runs != want.Orders:
		r.addViolation(promise.Power, index, "instance %s is stopped %v after %d orders to run again, not %v after %d", id, got.Halted, got.Runs, want.Halted, want.Orders)
	case got.Restarts != want.Restarts || got.Restarted != want.Restarted:
		r.addViolation(promise.Power, index, "instance %s was started anew %d times, not %d", id, got.Restarts, want.Restarts)
	case got.Host != want.Host || got.Link != want.Link:
		r.addViolation(promise.Model, index, "instance %s is on host %q, link %q, not on host %q, link %q", id, got.Host, got.Link, want.Host, want.Link)
	}
}

func (r *replay) compareBoot(index uint64, want *model.Boot) {
	if want.ID.Refill == 0 {
		r.compareQueue(index, want.ID)
	}
	got, ok := recordOf(r.s, want.ID)
	switch {
	case !ok:
		r.addViolation(promise.Model, index, "boot %s is missing", want.ID.Reservation)
	case got.Decision != want.Decision:
		r.addViolation(promise.Saga, index, "boot %s is decided %s, not %s", want.ID.Reservation, got.Decision, want.Decision)
	case got.Code != want.Code:
		r.addViolation(promise.Saga, index, "boot %s failed as %q, not %q", want.ID.Reservation, got.Code, want.Code)
	case got.Ended != want.Ended:
		r.addViolation(promise.Saga, index, "boot %s: its owner asked for its end: %v", want.ID.Reservation, want.Ended)
	case want.Decision == api.DecisionCommit && !want.Ended && !want.Faded && want.TooFew() != "":
		r.addViolation(promise.Saga, index, "boot %s was committed %s", want.ID.Reservation, want.TooFew())
	case !slices.Equal(got.Lifted, want.Lifted):
		r.addViolation(promise.Model, index, "boot %s has the rules of %v lifted, not of %v", want.ID.Reservation, got.Lifted, want.Lifted)
	case got.Refills != want.Refills || want.ID.Refill > 0 && got.Min != want.Least:
		r.addViolation(promise.Model, index, "boot %s has %d orders for preempted instances, not %d, and order %d is for at least %d, not %d",
			want.ID.Reservation, got.Refills, want.Refills, want.ID.Refill, got.Min, want.Least)
	}
}

// compareQueue compares which preempted instances of a boot are to be booted again.
func (r *replay) compareQueue(index uint64, id model.BootID) {
	got, ok := r.s.Requeued(id.Project, id.Reservation)
	want := r.m.Queue[id]
	if !ok || want == nil {
		if ok || want != nil {
			r.addViolation(promise.Once, index, "boot %s has instances to boot again: %+v, not %+v", id.Reservation, got, want)
		}
		return
	}
	var ids []model.QueuedID
	for _, i := range got.Instances {
		ids = append(ids, model.QueuedID{Group: i.Group, ID: i.ID, Name: i.Name})
	}
	has := model.Queued{
		IDs: ids, Since: got.Since, Until: got.Until, Tries: got.Tries, Next: got.Next, Refill: got.Refill, Sent: got.Sent,
		Enough: got.Enough, Changed: got.ModIndex,
	}
	if !reflect.DeepEqual(has, *want) {
		r.addViolation(promise.Once, index, "boot %s has %+v to boot again, not %+v", id.Reservation, has, *want)
	}
}

func sameEviction(a, b *api.Eviction) bool { return a == b || a != nil && b != nil && *a == *b }

func (r *replay) compareHold(index uint64, want *model.Hold) {
	got, ok := r.s.Hold(want.ID.Origin, want.ID.ID)
	switch {
	case !ok:
		r.addViolation(promise.Model, index, "hold %s is missing", want.ID.ID)
	case got.Decision != want.Decision:
		r.addViolation(promise.Saga, index, "hold %s is decided %s, not %s", want.ID.ID, got.Decision, want.Decision)
	case len(got.Refused) != want.Refused:
		r.describeMisplaced(index, want, got)
	case !slices.Equal(got.Held(), want.HeldIDs()):
		r.describeMisplaced(index, want, got)
	case !slices.Equal(got.Lifted, want.Lifted):
		r.addViolation(promise.Model, index, "hold %s has the rules of %v lifted, not of %v", want.ID.ID, got.Lifted, want.Lifted)
	case !slices.EqualFunc(got.Parts, want.Parts, samePart):
		r.addViolation(promise.Saga, index, "hold %s has the parts %+v", want.ID.ID, got.Parts)
	default:
		for i, sl := range got.Slots {
			if sl.Host != want.Slots[i].Host {
				r.describeMisplaced(index, want, got)
				return
			}
			var shares []api.Share
			if got.Shares != nil {
				shares = got.Shares[i]
			}
			if !sharesEqual(shares, want.Slots[i].Shares()) {
				r.addViolation(promise.Model, index, "the slot of %s draws %v beside its host, not %v", sl.Instance.ID, shares, want.Slots[i].Shares())
			}
		}
	}
}

func samePart(got state.Part, want *model.Part) bool {
	return got.Link == want.Link && got.Answered == want.Answered && got.Acked == want.Acked &&
		slices.EqualFunc(got.Instances, want.IDs, func(i state.PartInstance, id api.InstanceID) bool { return i.Spec.ID == id })
}

// describeMisplaced describes a slot on a wrong host, and the reason.
func (r *replay) describeMisplaced(index uint64, want *model.Hold, got *state.Hold) {
	for _, sl := range got.Slots {
		i := slices.IndexFunc(want.Slots, func(c *model.Claim) bool { return c.Consumer == sl.Instance.ID })
		if i >= 0 && want.Slots[i].Host == sl.Host {
			continue
		}
		g := got.Request.Groups[sl.Group]
		c := &model.Claim{Consumer: sl.Instance.ID, Host: sl.Host, Want: g.Resources, Start: got.Window.Start, End: got.Window.End, Class: got.Request.Class}
		switch h, ok := r.m.Hosts[sl.Host]; {
		case ok && !r.m.Obeys(want, sl.Group, model.Spot{Host: sl.Host}, nil):
			r.addViolation(promise.Bound, index, "the slot of %s is on host %s, which a rule forbids", sl.Instance.ID, sl.Host)
		case !ok || r.m.Fits(c):
			r.addViolation(promise.Model, index, "the slot of %s is on host %s, which is not the one to take first", sl.Instance.ID, sl.Host)
		case h.Overfull(r.m.Now):
			r.addViolation(promise.Shrink, index, "the slot of %s is on host %s, which is over-full", sl.Instance.ID, sl.Host)
		default:
			r.addViolation(promise.Capacity, index, "the slot of %s is on host %s, which has no room or takes no work", sl.Instance.ID, sl.Host)
		}
		return
	}
	r.addViolation(promise.Model, index, "hold %s holds %v and refused %d, not %v and %d", want.ID.ID,
		got.Held(), len(got.Refused), want.HeldIDs(), want.Refused)
}
