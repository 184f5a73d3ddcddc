package check

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// whole compares all of the model with all of the state.
func (r *replay) whole(index uint64) bool {
	found := len(r.all)
	for _, h := range r.s.AllHosts() {
		if r.m.hosts[h.ID] == nil {
			r.add(RuleModel, index, "host %s should be gone", h.ID)
		}
	}
	for id, h := range r.m.hosts {
		r.host(index, h)
		if n := len(r.s.OnHost(id)); !h.passive && n != r.m.liveOn(h) {
			r.add(RuleModel, index, "host %s lists %d instances, not %d", id, n, r.m.liveOn(h))
		}
	}
	r.placement(index)
	live := 0
	for id, i := range r.m.instances {
		r.instance(index, id)
		if i.live() {
			live++
		}
	}
	all := r.s.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: len(r.m.instances) + 1}})
	if len(all) != live {
		r.add(RuleModel, index, "%d instances are listed, not %d", len(all), live)
	}
	r.wishes(index)
	undecided := 0
	for _, b := range r.m.boots {
		r.boot(index, b)
		r.counts(index, b)
		if b.decision == api.DecisionPending {
			undecided++
		}
	}
	if n := len(r.s.UndecidedBoots()); n != undecided {
		r.add(RuleSaga, index, "%d boots are listed as undecided, not %d", n, undecided)
	}
	for _, h := range r.m.holds {
		r.hold(index, h)
	}
	if n := len(r.s.Holds()); n != len(r.m.holds) {
		r.add(RuleModel, index, "there are %d holds, not %d", n, len(r.m.holds))
	}
	r.sum.Moved, r.sum.Evacuated = union(r.sum.Moved, r.m.arrived), union(r.sum.Evacuated, r.m.evacuated)
	r.sum.Returned = most(r.sum.Returned, r.m.returned)
	r.sum.Boots, r.sum.Instances = max(r.sum.Boots, len(r.m.boots)), max(r.sum.Instances, len(r.m.instances))
	return len(r.all) == found
}

// wishes compares all rules, and what operators said of scheduling.
func (r *replay) wishes(index uint64) {
	for name := range r.m.bonds {
		r.m.ruled[name] = true
	}
	r.compareRules(index)
	if got := (api.Scheduler{Filters: r.s.Config.Filters, Costs: r.s.Config.Costs}); !reflect.DeepEqual(got, r.m.scheduler) {
		r.add(RuleModel, index, "the scheduler is %+v, not %+v", got, r.m.scheduler)
	}
	if n := len(r.s.Aggregates()); n != len(r.m.aggregates) {
		r.add(RuleModel, index, "there are %d aggregates, not %d", n, len(r.m.aggregates))
	}
	for id := range r.m.groups {
		if _, ok := r.s.ServerGroup(id.project, id.id); !ok {
			r.add(RuleModel, index, "server group %s is missing", id.id)
		}
	}
	if n := len(r.s.Expired(r.m.now)); n != r.m.over() {
		r.add(RuleModel, index, "%d instances are listed whose window is over, not %d", n, r.m.over())
	}
}

// over counts the own instances whose window is over and that nobody has asked to end.
func (m *model) over() (n int) {
	for id, i := range m.instances {
		if i.live() && i.host != "" && i.status != api.StatusDeleting && m.claims[id].end <= m.now {
			n++
		}
	}
	return n
}

func union(a, b map[api.InstanceID]bool) map[api.InstanceID]bool {
	out := maps.Clone(b)
	maps.Copy(out, a)
	return out
}

// most returns the higher number of a and b for each instance.
func most(a, b map[api.InstanceID]int) map[api.InstanceID]int {
	out := maps.Clone(b)
	for id, n := range a {
		out[id] = max(out[id], n)
	}
	return out
}

// liveOn counts the instances on a host: claims that are no longer only held, and
// not those of instances that are still elsewhere.
func (m *model) liveOn(h *host) (n int) {
	for _, c := range h.claims {
		if _, held := m.held[c.consumer]; !held && m.claims[c.consumer] == c {
			n++
		}
	}
	return n
}

// counts compares how many instances of a boot are live.
func (r *replay) counts(index uint64, b *boot) {
	live := 0
	for _, h := range b.holds {
		for _, id := range h.ids() {
			if i := r.m.madeBy(h, id); i != nil && i.live() {
				live++
			}
		}
	}
	if got, ok := r.s.Boot(b.id.project, b.id.reservation); ok && got.Counts.Live() != live {
		r.add(RuleSaga, index, "boot %s counts %d live instances, not %d", b.id.reservation, got.Counts.Live(), live)
	}
}

// prune forgets what the state has forgotten, which must have ended.
func (r *replay) prune(index uint64, c command.Prune) {
	for id, i := range r.m.instances {
		if _, ok := r.s.Instance(id); ok {
			continue
		}
		if i.live() {
			r.add(RuleDurable, index, "instance %s was forgotten while it was %s", id, i.status)
		}
		delete(r.m.instances, id)
	}
	for id, h := range r.m.holds {
		if _, ok := r.s.Hold(id.origin, id.id); ok {
			continue
		}
		if h.decision == api.DecisionPending {
			r.add(RuleDurable, index, "hold %s was forgotten before it was decided", id.id)
		}
		if h.dead > 0 && h.dead >= max(c.Before, c.BeforeAbroad, c.BeforeDead) {
			r.add(RuleDurable, index, "the abort of hold %s was forgotten too early", id.id)
		}
		delete(r.m.holds, id)
		if h.boot != nil {
			h.boot.faded = true
			h.boot.holds = slices.DeleteFunc(h.boot.holds, func(o *hold) bool { return o == h })
		}
	}
	for id, b := range r.m.boots {
		if _, ok := r.s.Boot(id.project, id.reservation); ok {
			continue
		}
		if b.decision == api.DecisionPending {
			r.add(RuleDurable, index, "boot %s was forgotten before it was decided", id.reservation)
		}
		delete(r.m.boots, id)
		delete(r.m.keys, bootKey{id.project, b.key})
	}
}

// reload compares the second state with the first and takes it through a
// snapshot.
func (r *replay) reload(index uint64) bool {
	var first, second bytes.Buffer
	if err := r.s.Save(&first); err != nil {
		r.add(RuleInput, index, "the state cannot be saved: %v", err)
		return false
	}
	if err := r.twin.Save(&second); err != nil {
		r.add(RuleInput, index, "the restored state cannot be saved: %v", err)
		return false
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		r.add(RuleAgree, index, "a state that was restored from a snapshot on the way differs from one that was not")
		return false
	}
	twin, err := r.load(second.Bytes())
	if err != nil {
		r.add(RuleAgree, index, "a snapshot cannot be loaded: %v", err)
		return false
	}
	r.twin = twin
	r.sum.Reloads++
	return r.remembers(index)
}

// remembers asks a state that comes from a snapshot for every plan that was taken
// up and has not expired: each must be refused.
func (r *replay) remembers(index uint64) bool {
	for plan, expires := range r.m.plans {
		if expires <= r.m.now {
			continue
		}
		again := command.Hold{Stamp: command.Stamp{At: r.m.now}, ID: "again", Plan: plan, Expires: api.Forever}
		if err := r.apply(r.twin, r.twin.Index(), again).Err; api.CodeOf(err) != api.CodePlanRefused {
			r.add(RulePlan, index, "a state that comes from a snapshot does not know that plan %s was taken up", plan)
			return false
		}
	}
	return true
}

// compareNodes compares states of nodes with the replayed one.
func (r *replay) compareNodes(nodes []NodeState) {
	if len(nodes) == 0 {
		return
	}
	var want bytes.Buffer
	if err := r.s.Save(&want); err != nil {
		r.add(RuleInput, r.s.Index(), "the state cannot be saved: %v", err)
		return
	}
	for _, n := range nodes {
		r.sum.States++
		if !bytes.Equal(n.Bytes, want.Bytes()) {
			r.add(RuleAgree, n.Index, "the state of %s differs from what its log makes: %d bytes, not %d, or other ones", n.Node, len(n.Bytes), want.Len())
		}
	}
}
