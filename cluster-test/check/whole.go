package check

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// compareAll compares all of the model with all of the state.
func (r *replay) compareAll(index uint64) bool {
	found := len(r.all)
	for _, h := range r.s.AllHosts() {
		if r.m.Hosts[h.ID] == nil {
			r.addViolation(promise.Model, index, "host %s should be gone", h.ID)
		}
	}
	for _, h := range r.m.Hosts {
		r.compareHost(index, h)
	}
	r.comparePlacement(index)
	live, volumes := 0, 0
	for id, i := range r.m.Instances {
		r.compareInstance(index, id)
		switch {
		case !i.Live() || i.Reserved():
		case i.Volume() != "":
			volumes++
		default:
			live++
		}
	}
	page := state.Page{Limit: len(r.m.Instances) + 1}
	if n := len(r.s.InstancesPage(state.InstanceQuery{Page: page})); n != live {
		r.addViolation(promise.Model, index, "%d instances are listed, not %d", n, live)
	}
	if n := len(r.s.InstancesPage(state.InstanceQuery{Volumes: true, Page: page})); n != volumes {
		r.addViolation(promise.Volume, index, "%d volumes are listed, not %d", n, volumes)
	}
	r.compareWishes(index)
	r.compareBindings(index)
	r.compareLent(index)
	r.compareReaders(index)
	undecided := 0
	for _, b := range r.m.Boots {
		r.compareBoot(index, b)
		r.compareCounts(index, b)
		if b.Decision == api.DecisionPending {
			undecided++
		}
	}
	if n := len(r.s.UndecidedBoots()); n != undecided {
		r.addViolation(promise.Saga, index, "%d boots are listed as undecided, not %d", n, undecided)
	}
	for _, h := range r.m.Holds {
		r.compareHold(index, h)
	}
	if n := len(r.s.Holds()); n != len(r.m.Holds) {
		r.addViolation(promise.Model, index, "there are %d holds, not %d", n, len(r.m.Holds))
	}
	r.compareAllLeases(index)
	r.sum.Moved, r.sum.Evacuated = unionOf(r.sum.Moved, r.m.Arrived), unionOf(r.sum.Evacuated, r.m.Evacuated)
	r.sum.Returned = higherOf(r.sum.Returned, r.m.Returned)
	r.sum.Boots, r.sum.Instances = max(r.sum.Boots, len(r.m.Boots)), max(r.sum.Instances, len(r.m.Instances))
	return len(r.all) == found
}

// compareWishes compares all rules, and the scheduling settings of operators.
func (r *replay) compareWishes(index uint64) {
	for name := range r.m.Bonds {
		r.m.Ruled[name] = true
	}
	r.compareRules(index)
	if got := (api.Scheduler{Filters: r.s.Config.Filters, Costs: r.s.Config.Costs}); !reflect.DeepEqual(got, r.m.Scheduler) {
		r.addViolation(promise.Model, index, "the scheduler is %+v, not %+v", got, r.m.Scheduler)
	}
	if n := len(r.s.Aggregates()); n != len(r.m.Aggregates) {
		r.addViolation(promise.Model, index, "there are %d aggregates, not %d", n, len(r.m.Aggregates))
	}
	r.compareWebhooks(index)
	for id := range r.m.Groups {
		if _, ok := r.s.ServerGroup(id.Project, id.ID); !ok {
			r.addViolation(promise.Model, index, "server group %s is missing", id.ID)
		}
	}
}

// compareWebhooks compares all webhooks. How far their deliveries are never goes back.
func (r *replay) compareWebhooks(index uint64) {
	all := r.s.Webhooks()
	if len(all) != len(r.m.Webhooks) {
		r.addViolation(promise.Model, index, "there are %d webhooks, not %d", len(all), len(r.m.Webhooks))
	}
	for _, got := range all {
		want := r.m.Webhooks[model.WebhookName{Project: got.Project, Name: got.Name}]
		if want == nil || want.ID != got.ID || want.Failing != got.Failing || want.Paused != got.Paused || want.Reason != got.Reason {
			r.addViolation(promise.Model, index, "the webhook %+v should be %+v", got, want)
			continue
		}
		if got.Told.History == want.Told.History && want.Told.After(got.Told) {
			r.addViolation(promise.Model, index, "the deliveries to webhook %s went back from %s to %s", got.Name, want.Told, got.Told)
		}
		want.Told = got.Told
	}
}

func unionOf(a, b map[api.InstanceID]bool) map[api.InstanceID]bool {
	out := maps.Clone(b)
	maps.Copy(out, a)
	return out
}

// higherOf returns the higher number of a and b for each instance.
func higherOf(a, b map[api.InstanceID]int) map[api.InstanceID]int {
	out := maps.Clone(b)
	for id, n := range a {
		out[id] = max(out[id], n)
	}
	return out
}

// compareCounts compares the numbers of instances of a boot by status.
func (r *replay) compareCounts(index uint64, b *model.Boot) {
	got, ok := recordOf(r.s, b.ID)
	if !ok {
		return
	}
	want := state.Counts{Deleted: b.Gone}
	for _, h := range b.Holds {
		for _, id := range h.IDs() {
			if i := r.m.MadeBy(h, id); i != nil {
				*countOf(&want, i.Status)++
			}
		}
	}
	if b.Faded { // instances of pruned holds are not found
		want.Deleted = got.Counts.Deleted
	}
	if got.Counts != want {
		r.addViolation(promise.Saga, index, "boot %s counts %+v, not %+v", b.ID.Reservation, got.Counts, want)
	}
	if n := b.Unacked(); got.Unacked != n {
		r.addViolation(promise.Saga, index, "boot %s counts %d holds that a child has not confirmed, not %d", b.ID.Reservation, got.Unacked, n)
	}
}

func countOf(c *state.Counts, st api.Status) *int {
	switch st {
	case api.StatusBuild:
		return &c.Build
	case api.StatusActive:
		return &c.Active
	case api.StatusShutoff:
		return &c.Shutoff
	case api.StatusError:
		return &c.Error
	case api.StatusDeleting:
		return &c.Deleting
	case api.StatusDeleted:
	}
	return &c.Deleted
}

// forgetPruned removes records that the state has pruned, which must have ended.
func (r *replay) forgetPruned(index uint64, c command.Prune) {
	for id, i := range r.m.Instances {
		if _, ok := r.s.Instance(id); ok {
			continue
		}
		if i.Live() {
			r.addViolation(promise.Durable, index, "instance %s was forgotten while it was %s", id, i.Status)
		}
		delete(r.m.Instances, id)
		if b := i.Hold.Boot; b != nil {
			b.Gone++
		}
	}
	r.pruneHolds(index, c)
	for id, b := range r.m.Boots {
		if _, ok := recordOf(r.s, id); ok {
			continue
		}
		if b.Decision == api.DecisionPending {
			r.addViolation(promise.Durable, index, "boot %s was forgotten before it was decided", id.Reservation)
		}
		delete(r.m.Boots, id)
		delete(r.m.Keys, model.BootKey{Project: id.Project, Key: b.Key})
	}
}

func (r *replay) pruneHolds(index uint64, c command.Prune) {
	for id, h := range r.m.Holds {
		if _, ok := r.s.Hold(id.Origin, id.ID); ok {
			continue
		}
		if h.Decision == api.DecisionPending {
			r.addViolation(promise.Durable, index, "hold %s was forgotten before it was decided", id.ID)
		}
		if h.Dead > 0 && h.Dead >= max(c.Before, c.BeforeAbroad, c.BeforeDead) {
			r.addViolation(promise.Durable, index, "the abort of hold %s was forgotten too early", id.ID)
		}
		delete(r.m.Holds, id)
		if h.Boot != nil {
			h.Boot.Faded = true
			h.Boot.Holds = slices.DeleteFunc(h.Boot.Holds, func(o *model.Hold) bool { return o == h })
		}
	}
}

// reloadState compares the second state with the first and takes it through a
// snapshot.
func (r *replay) reloadState(index uint64) bool {
	var first, second bytes.Buffer
	if err := r.s.Save(&first); err != nil {
		r.addViolation(promise.Input, index, "the state cannot be saved: %v", err)
		return false
	}
	if err := r.twin.Save(&second); err != nil {
		r.addViolation(promise.Input, index, "the restored state cannot be saved: %v", err)
		return false
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		r.addViolation(promise.Agree, index, "a state that was restored from a snapshot on the way differs from one that was not")
		return false
	}
	twin, err := r.load(second.Bytes())
	if err != nil {
		r.addViolation(promise.Agree, index, "a snapshot cannot be loaded: %v", err)
		return false
	}
	r.twin = twin
	r.sum.Reloads++
	return r.checkRemembered(index)
}

// checkRemembered tries every plan that was used and has not expired on a state that comes
// from a snapshot: each must be refused.
func (r *replay) checkRemembered(index uint64) bool {
	for plan, expires := range r.m.Plans {
		if expires <= r.m.Now {
			continue
		}
		again := command.Hold{Stamp: command.Stamp{At: r.m.Now}, ID: "again", Plan: plan, Expires: api.Forever}
		if err := r.apply(r.twin, r.twin.Index(), again).Err; api.CodeOf(err) != api.CodePlanRefused {
			r.addViolation(promise.Plan, index, "a state that comes from a snapshot does not know that plan %s was taken up", plan)
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
		r.addViolation(promise.Input, r.s.Index(), "the state cannot be saved: %v", err)
		return
	}
	for _, n := range nodes {
		r.sum.States++
		if !bytes.Equal(n.Bytes, want.Bytes()) {
			r.addViolation(promise.Agree, n.Index, "the state of %s differs from what its log makes: %d bytes, not %d, or other ones", n.Node, len(n.Bytes), want.Len())
		}
	}
}
