package check

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

const (
	wholeEvery = 500 // entries between two comparisons of everything
	reloads    = 8   // times that the second state goes through a snapshot
)

// replay folds one log into the model, the real state, and a second state that
// goes through snapshots.
type replay struct {
	*list
	m      *model
	s      *state.State
	twin   *state.State
	based  bool                   // it began with a snapshot, or went on from a backup
	owns   map[api.ProjectID]bool // whose boots may be in a snapshot or a backup
	backup []byte                 // what has come of one
	sum    LogSummary
	apply  func(*state.State, uint64, command.Command) state.Result
	load   func([]byte) (*state.State, error)
}

func newReplay(l *list) *replay {
	return &replay{
		list: l, m: newModel(), s: state.New(), twin: state.New(), owns: map[api.ProjectID]bool{}, apply: (*state.State).Apply,
		load: func(b []byte) (*state.State, error) { return state.Load(bytes.NewReader(b)) },
	}
}

func (r *replay) run(entries []known, states []NodeState) {
	byIndex := map[uint64][]NodeState{}
	for _, s := range states {
		byIndex[s.Index] = append(byIndex[s.Index], s)
	}
	every := max(1, len(entries)/reloads)
	for i, e := range entries {
		r.sum.Entries++
		if !r.entry(e) || r.full() {
			return
		}
		if i%wholeEvery == wholeEvery-1 && !r.whole(e.Index) {
			return
		}
		if i%every == every-1 && !r.reload(e.Index) {
			return
		}
		if r.s.Index() == e.Index {
			r.compareNodes(byIndex[e.Index])
			delete(byIndex, e.Index)
		}
	}
	if len(entries) == 0 {
		r.add(RuleInput, 0, "the log is empty")
		return
	}
	last := entries[len(entries)-1].Index
	if r.whole(last) {
		r.reload(last)
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		r.add(RuleInput, index, "%s has a state of this index, at which the log has no command", byIndex[index][0].Node)
	}
}

// entry applies the commands of one entry. It reports whether to go on.
func (r *replay) entry(e known) bool {
	if e.Type != 0 {
		return true
	}
	cmds := e.Commands
	if cmds == nil {
		var err error
		if cmds, err = DecodeEntry(e.raw); err != nil {
			r.add(RuleInput, e.Index, "an entry cannot be read: %v", err)
			return false
		}
	}
	for _, c := range cmds {
		r.sum.Commands++
		if !r.command(e.Index, c) {
			return false
		}
	}
	return true
}

// command applies one command to all three and compares what it changed.
func (r *replay) command(index uint64, c command.Command) bool {
	before, found := r.s.Now(), len(r.all)
	result := r.apply(r.s, index, c)
	if again := r.apply(r.twin, index, c); (again.Err == nil) != (result.Err == nil) {
		r.add(RuleAgree, index, "%T: a state that was restored from a snapshot on the way says %v, and one that was not %v", c, again.Err, result.Err)
	}
	if r.based && api.CodeOf(result.Err) == api.CodePlanRefused {
		r.learn(c)
	}
	not := r.m.apply(c)
	switch {
	case result.Err != nil:
		r.sum.Refused++
		if not == nil && judged(c) {
			r.add(RuleModel, index, "%T was refused and should not have been: %v", c, result.Err)
		}
	case not != nil:
		r.add(not.rule, index, "%T was accepted although %s", c, not.text)
	case !judged(c):
		r.m.adopt(c)
	}
	if p, ok := c.(command.Prune); ok {
		r.prune(index, p)
	}
	if b, ok := c.(command.BootCreate); ok && result.Err == nil {
		r.owns[b.Request.Project] = true
	}
	if p, ok := c.(command.Restore); ok && result.Err == nil {
		r.restore(index, p)
	}
	if now := r.s.Now(); now < before {
		r.add(RuleTime, index, "the zone's time fell from %v to %v", before, now)
	} else if now != r.m.now {
		r.add(RuleTime, index, "the zone's time is %v, and the latest time of any command %v", now, r.m.now)
	}
	if len(r.all) == found {
		r.changed(index, c)
	}
	return len(r.all) == found
}

// learn takes the state's word that a plan was taken up before the snapshot, by a
// hold that is pruned: snapshots do not show their plans.
func (r *replay) learn(c command.Command) {
	r.m.now = max(r.m.now, c.Time())
	h, ok := c.(command.Hold)
	if !ok || r.m.holds[holdID{h.Origin, h.ID}] != nil {
		return
	}
	if _, not := r.m.mayHold(h); not == nil {
		r.m.plans[h.Plan] = 0
	}
}

// changed compares what the model says that a command has changed.
func (r *replay) changed(index uint64, c command.Command) {
	for id := range r.m.moved {
		r.hold(index, r.m.holds[id])
	}
	if create, ok := c.(command.BootCreate); ok && len(r.m.told) == 1 {
		r.answer(index, create)
	}
	for id := range r.m.told {
		r.boot(index, r.m.boots[id])
	}
	for id := range r.m.hit {
		r.instance(index, id)
		if i, ok := r.s.Instance(id); ok && i.Origin != "" && i.ModIndex != index {
			r.add(RuleModel, index, "the parent is not told that instance %s has changed", id)
		}
	}
	for id := range r.m.bumped {
		r.host(index, r.m.hosts[id])
	}
	for id := range r.m.reshaped {
		r.host(index, r.m.hosts[id])
	}
	for id := range r.m.hitConsumers {
		r.consumer(index, id)
	}
	r.compareRules(index)
	r.sum.Ruled += r.m.bound
	r.sum.Allocated += r.m.claimed
	for _, cl := range r.m.fresh {
		if r.m.hosts[cl.host].passive {
			r.sum.Drawn++
		} else {
			r.sum.Claims++
		}
		if class, at := r.m.hosts[cl.host].oversold(cl, r.m.now); class != "" {
			r.add(RuleCapacity, index, "%s of host %s is above capacity at %v, after a claim for %s", class, cl.host, at, cl.consumer)
		}
	}
}

// answer compares what a boot's caller is told with what was told first.
func (r *replay) answer(index uint64, c command.BootCreate) {
	for id := range r.m.told {
		b, ok := r.s.BootFor(c.Request.Project, c.Request.Reservation, c.Key)
		if !ok || b.Request.Reservation != id.reservation {
			r.add(RuleRepeat, index, "the boot %s of project %s is not what its key leads to", id.reservation, id.project)
		}
	}
}

func (r *replay) host(index uint64, h *host) {
	if h == nil {
		return // deleted by this command
	}
	r.provider(index, h)
	if h.passive {
		return
	}
	got, ok := r.s.Host(h.id)
	if !ok {
		r.add(RuleModel, index, "host %s is missing", h.id)
		return
	}
	switch {
	case got.Enabled != h.enabled || got.Pool != h.pool || (got.State == api.HostUp) != h.up || got.Agent != h.agent:
		r.add(RuleModel, index, "host %s is %v, enabled %v, of pool %s and agent %s", h.id, got.State, got.Enabled, got.Pool, got.Agent)
	case got.Maintenance != h.maintenance || got.Drain != h.drain || !maps.Equal(got.Overrides, h.overrides) || got.Failures != h.failures || got.Unserved != h.unserved:
		r.add(RuleModel, index, "host %s is in maintenance %q, drained %q, with %d failures and %v", h.id, got.Maintenance, got.Drain, got.Failures, got.Overrides)
	case !strings.HasSuffix(r.m.standing(h.id), got.AZ):
		r.add(RuleModel, index, "host %s is in availability zone %s", h.id, got.AZ)
	}
}

func (r *replay) instance(index uint64, id api.InstanceID) {
	want := r.m.instances[id]
	got, ok := r.s.Instance(id)
	switch {
	case !ok:
		r.add(RuleModel, index, "instance %s is missing", id)
	case got.Status != want.status:
		r.add(RuleModel, index, "instance %s is %s, not %s", id, got.Status, want.status)
	case got.Host != want.host && got.Host == want.target:
		r.add(RuleMove, index, "instance %s is on host %s already, and has not stopped on host %s", id, got.Host, want.host)
	case got.Target != want.target:
		r.add(RuleMove, index, "instance %s moves to host %q, not to %q", id, got.Target, want.target)
	case want.live() && want.host != "" && (got.Window.Start != r.m.claims[id].start || got.Window.End != r.m.claims[id].end):
		r.add(RuleModel, index, "instance %s has the window %v", id, got.Window)
	case want.live() && want.host != "" && !sharesEqual(got.Shares, r.m.claims[id].shares()):
		r.add(RuleModel, index, "instance %s draws %v beside its host, not %v", id, got.Shares, r.m.claims[id].shares())
	case want.live() && want.target != "" && !sharesEqual(got.TargetShares, r.m.coming[id].shares()):
		r.add(RuleModel, index, "instance %s will draw %v beside its host, not %v", id, got.TargetShares, r.m.coming[id].shares())
	case r.s.UnreachableSince(got) != r.m.since(want):
		r.add(RuleModel, index, "instance %s is out of reach since %v, not since %v", id, r.s.UnreachableSince(got), r.m.since(want))
	case got.Host != want.host || got.Link != want.link:
		r.add(RuleModel, index, "instance %s is on host %q, link %q, not on host %q, link %q", id, got.Host, got.Link, want.host, want.link)
	}
}

func (r *replay) boot(index uint64, want *boot) {
	got, ok := r.s.Boot(want.id.project, want.id.reservation)
	switch {
	case !ok:
		r.add(RuleModel, index, "boot %s is missing", want.id.reservation)
	case got.Decision != want.decision:
		r.add(RuleSaga, index, "boot %s is decided %s, not %s", want.id.reservation, got.Decision, want.decision)
	case got.Code != want.code:
		r.add(RuleSaga, index, "boot %s failed as %q, not %q", want.id.reservation, got.Code, want.code)
	case got.Ended != want.ended:
		r.add(RuleSaga, index, "boot %s: its owner asked for its end: %v", want.id.reservation, want.ended)
	case want.decision == api.DecisionCommit && !want.ended && !want.faded && want.tooFew() != "":
		r.add(RuleSaga, index, "boot %s was committed %s", want.id.reservation, want.tooFew())
	}
}

func (r *replay) hold(index uint64, want *hold) {
	got, ok := r.s.Hold(want.id.origin, want.id.id)
	switch {
	case !ok:
		r.add(RuleModel, index, "hold %s is missing", want.id.id)
	case got.Decision != want.decision:
		r.add(RuleSaga, index, "hold %s is decided %s, not %s", want.id.id, got.Decision, want.decision)
	case len(got.Refused) != want.refused:
		r.misplaced(index, want, got)
	case !slices.Equal(got.Held(), want.heldIDs()):
		r.misplaced(index, want, got)
	default:
		for i, sl := range got.Slots {
			if sl.Host != want.slots[i].host {
				r.misplaced(index, want, got)
				return
			}
		}
	}
}

// heldIDs returns what h holds for certain: own slots and answered parts.
func (h *hold) heldIDs() (out []api.InstanceID) {
	for _, c := range h.slots {
		out = append(out, c.consumer)
	}
	for _, p := range h.parts {
		if p.answered {
			out = append(out, p.ids...)
		}
	}
	return out
}

// misplaced says which slot is where it should not be, and why.
func (r *replay) misplaced(index uint64, want *hold, got *state.Hold) {
	for _, sl := range got.Slots {
		i := slices.IndexFunc(want.slots, func(c *claim) bool { return c.consumer == sl.Instance.ID })
		if i >= 0 && want.slots[i].host == sl.Host {
			continue
		}
		g := got.Request.Groups[sl.Group]
		c := &claim{consumer: sl.Instance.ID, host: sl.Host, want: g.Resources, start: got.Window.Start, end: got.Window.End, class: got.Request.Class}
		switch h, ok := r.m.hosts[sl.Host]; {
		case ok && !r.m.obeys(want, sl.Group, spot{host: sl.Host}, nil):
			r.add(RuleBound, index, "the slot of %s is on host %s, which a rule forbids", sl.Instance.ID, sl.Host)
		case !ok || r.m.fits(c):
			r.add(RuleModel, index, "the slot of %s is on host %s, which is not the one to take first", sl.Instance.ID, sl.Host)
		case h.overfull(r.m.now):
			r.add(RuleShrink, index, "the slot of %s is on host %s, which is over-full", sl.Instance.ID, sl.Host)
		default:
			r.add(RuleCapacity, index, "the slot of %s is on host %s, which has no room or takes no work", sl.Instance.ID, sl.Host)
		}
		return
	}
	r.add(RuleModel, index, "hold %s holds %v and refused %d, not %v and %d", want.id.id,
		got.Held(), len(got.Refused), want.heldIDs(), want.refused)
}
