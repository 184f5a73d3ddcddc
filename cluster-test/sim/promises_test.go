package sim

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/cluster-test/check"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
	"berth/raftstore"
	"berth/raftstore/state"
	"berth/zone/saga"
)

// decideWithin is how long a boot may be undecided under one leader: its attempts
// end after saga.BootTimeout, and another try or two may follow.
const decideWithin = 150 * time.Second

// memo is what a glance remembers for the next one.
type memo struct {
	views  map[*state.State]uint64 // views that readers have, and where they were read
	leader *process
	term   uint64
	since  map[string]time.Time // undecided boots under that leader
}

// told is what clients of a zone have been told.
type told struct {
	booted   []api.ReservationID
	released []api.ReservationID
	deleted  []api.InstanceID
	claimed  []api.ConsumerID // and nobody has tried to give them back
	freed    []api.ConsumerID
}

// acknowledged returns what clients have been told so far.
func (z *zone) acknowledged() told {
	z.mu.Lock()
	defer z.mu.Unlock()
	return told{
		slices.Clone(z.told.booted), slices.Clone(z.told.released), slices.Clone(z.told.deleted),
		slices.Clone(z.told.claimed), slices.Clone(z.told.freed),
	}
}

func (z *zone) note(f func(*told)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f(&z.told)
}

// knowledge is what a leader knows.
type knowledge struct {
	leader *process
	term   uint64
	view   *state.State
}

// knows returns the view of a leader that holds all that the zone has ever
// acknowledged, false if there is none just now. A leader that is being deposed may
// have the new term already, and not the new entries: it does not lead by its Raft.
func (z *zone) knows() (knowledge, bool) {
	var newest uint64
	var best knowledge
	var store *raftstore.Store
	for _, p := range z.nodes {
		n := p.running()
		if n == nil || z.lost {
			continue
		}
		at := n.Store().Term()
		newest = max(newest, at)
		if !p.past.Load() && n.Leads() && n.Store().IsLeader() && at > best.term {
			best, store = knowledge{leader: p, term: at}, n.Store()
		}
	}
	if store == nil || best.term < newest {
		return knowledge{}, false
	}
	best.view = store.View()
	return best, store.IsLeader() && store.Term() == best.term
}

// promises holds what zones have promised to clients and to each other. What was
// promised is read before the state that must hold it.
func (w *world) promises() {
	running := w.books.places()
	for _, z := range w.zones {
		said, below := z.acknowledged(), z.newest()
		if z.parent != nil && below != nil {
			if above, ok := z.parent.knows(); ok {
				z.checkHolds(below, above.view)
			}
		}
		k, ok := z.knows()
		if !ok {
			z.memo.leader = nil
			continue
		}
		z.checkTold(k.view, said)
		z.checkRunning(k.view, running)
		z.checkUndecided(k)
	}
}

// newest returns the view of the zone's node that has applied most.
func (z *zone) newest() *state.State { return newest(z.nodes) }

func newest(nodes []*process) *state.State {
	var best *state.State
	for _, p := range nodes {
		if n := p.running(); n != nil && (best == nil || n.Store().View().Index() > best.Index()) {
			best = n.Store().View()
		}
	}
	return best
}

// checkTold holds that what a client was told is not taken back.
func (z *zone) checkTold(v *state.State, t told) {
	for _, r := range t.booted {
		if _, ok := v.Boot(project, r); !ok {
			z.w.fail("zone %s: boot %s was acknowledged, and is unknown", z.name, r)
		}
	}
	for _, r := range t.released {
		if b, ok := v.Boot(project, r); !ok || !b.Ended && !b.Final() {
			z.w.fail("zone %s: the release of %s was acknowledged, and it lives on", z.name, r)
		}
	}
	for _, id := range t.deleted {
		if i, ok := v.Instance(id); ok && i.Status != api.StatusDeleting && i.Status != api.StatusDeleted {
			z.w.fail("zone %s: the end of instance %s was acknowledged, and it is %s", z.name, id, i.Status)
		}
	}
	z.checkClaims(v, t)
}

// checkHolds compares what a zone decided of its parent's holds with what the
// parent decided. The parent's view is the newer one.
func (z *zone) checkHolds(v, above *state.State) {
	for _, h := range v.Holds() {
		l, _ := v.Link(h.Origin)
		if h.Origin == "" || l == nil || l.Zone != z.parent.id || h.Forced || h.Commit {
			continue // its own, or one that it may decide by itself
		}
		their, p := partOf(above, h.ID, z.id)
		switch {
		case h.Firm && (their == nil || !their.Firm):
			z.w.fail("zone %s: hold %s was committed, and zone %s has not decided that", z.name, h.ID, z.parent.name)
		case h.Decision == api.DecisionAbort && their != nil && their.DecisionFor(*p) != api.DecisionAbort:
			z.w.fail("zone %s: hold %s was given up, and for zone %s it is %s", z.name, h.ID, z.parent.name, their.Decision)
		}
	}
}

// partOf returns the hold with an id that has a part in a child, and that part.
func partOf(v *state.State, id api.HoldID, child api.ZoneID) (*state.Hold, *state.Part) {
	for _, h := range v.Holds() { // also those of a parent that is linked no more
		for i, p := range h.Parts {
			if l, ok := v.Link(p.Link); ok && h.ID == id && l.Zone == child {
				return h, &h.Parts[i]
			}
		}
	}
	return nil, nil
}

// checkRunning holds that nothing runs, in any zone, of a boot of this zone that
// was never decided commit.
func (z *zone) checkRunning(v *state.State, running map[api.InstanceID]api.HostID) {
	for _, h := range v.Holds() {
		if h.Origin != "" || h.Firm || h.Commit {
			continue
		}
		var ids []api.InstanceID
		for _, s := range h.Slots {
			ids = append(ids, s.Instance.ID)
		}
		for _, p := range h.Parts {
			for _, i := range p.Instances {
				ids = append(ids, i.Spec.ID)
			}
		}
		for _, id := range ids {
			if at, ok := running[id]; ok {
				z.w.fail("zone %s: instance %s of boot %s runs on %s before it was decided", z.name, id, h.Request.Reservation, at)
			}
		}
	}
}

// checkUndecided holds that a leader decides boots.
func (z *zone) checkUndecided(k knowledge) {
	m := &z.memo
	if m.leader != k.leader || m.term != k.term {
		m.leader, m.term, m.since = k.leader, k.term, map[string]time.Time{}
	}
	open := map[string]time.Time{}
	for _, b := range k.view.UndecidedBoots() {
		began, ok := m.since[b.ID()]
		if !ok {
			began = time.Now()
		}
		if open[b.ID()] = began; time.Since(began) > decideWithin {
			z.w.fail("zone %s: boot %s is undecided for %s under one leader", z.name, b.Request.Reservation, time.Since(began))
		}
	}
	m.since = open
}

// checkViews holds that what a reader has does not change.
func (z *zone) checkViews() {
	for v, at := range z.memo.views {
		if v.Index() != at {
			z.w.fail("zone %s: a view was read at index %d, and is at %d now", z.name, at, v.Index())
		}
	}
	z.memo.views = map[*state.State]uint64{}
	for _, p := range z.nodes {
		if n := p.running(); n != nil {
			v := n.Store().View()
			z.memo.views[v] = v.Index()
		}
	}
}

// journals holds what agents wrote of themselves. The federation is at rest.
func (w *world) journals() check.JournalSummary {
	w.t.Helper()
	o := check.JournalOptions{
		Active: map[api.InstanceID]api.HostID{}, Processes: map[api.InstanceID]int{}, Moved: map[api.InstanceID]bool{}, Evacuated: w.books.roams(),
	}
	var journals []check.Journal
	for _, z := range w.zones {
		for _, c := range z.crews {
			journals = append(journals, c.journal())
		}
		if z.lost {
			continue
		}
		if z.drained.Load() {
			for _, h := range z.view().AllHosts() {
				w.books.ranOn(h.ID, o.Moved)
			}
		}
		for _, i := range all(z.view()) {
			if i.Host != "" && i.Status == api.StatusActive {
				o.Active[i.ID] = i.Host
			}
		}
	}
	for id := range w.books.places() {
		o.Processes[id]++
	}
	o.Returned = w.books.returns(o)
	sum, wrong := check.Journals(journals, o)
	for _, v := range wrong {
		w.fail("journals: %v", v)
	}
	w.holds()
	return sum
}

// returns lets what was moved come back to where it was as often as its zone has sent it
// back, and what is also started elsewhere when its host is lost as often as it does: no
// log is read here that could say how often that was. That it ran once at a time the books
// hold.
func (b *books) returns(o check.JournalOptions) map[api.InstanceID]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := maps.Clone(b.sent)
	for id := range o.Moved {
		if o.Evacuated[id] {
			out[id] = math.MaxInt
		}
	}
	return out
}

// journal reads what an agent wrote, its older file first.
func (c *crew) journal() check.Journal {
	w := c.z.w
	j := check.Journal{Zone: c.z.name, Agent: string(c.name)}
	for _, name := range []string{"journal.1", "journal"} {
		f, err := os.Open(filepath.Join(c.dir, "state", name))
		if name == "journal.1" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(w.t, err)
		require.NoError(w.t, errors.Join(j.ReadJournal(f), f.Close()))
	}
	return j
}

// places returns where every instance really runs.
func (b *books) places() map[api.InstanceID]api.HostID {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[api.InstanceID]api.HostID, len(b.runs))
	for id, r := range b.runs {
		out[id] = r.host
	}
	return out
}

// TestBrokenPromisesAreSeen plants what a glance must complain of: a checker that
// never does is not one.
func TestBrokenPromisesAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), line)
		root := w.root()
		require.Equal(t, api.BootActive, root.run("lives", 1, 1).State)
		w.settle()
		complains := func(what string) {
			t.Helper()
			w.promises()
			w.mu.Lock()
			defer w.mu.Unlock()
			require.Len(t, w.wrong, 1)
			require.Contains(t, w.wrong[0], what)
			w.wrong, root.told = nil, told{}
		}
		root.told.booted = []api.ReservationID{"never"}
		complains("boot never was acknowledged")
		root.told.released = []api.ReservationID{"lives"}
		complains("the release of lives was acknowledged")
		root.told.deleted = []api.InstanceID{root.own()}
		complains("the end of instance")

		for _, p := range root.nodes {
			p.bomb.arm(crash.DecisionLogging, 1, func() { await.Sleep(saga.BootTimeout) })
		}
		root.boot(root.nodes[0], root.nodes[0], order("slow", whole-1, whole-1))
		await.Sleep(saga.BootTimeout / 2)
		w.promises()
		w.holds()
		b, _ := root.view().Boot(project, "slow")
		require.Equal(t, api.DecisionPending, b.Decision)
		root.memo.since[b.ID()] = time.Now().Add(-decideWithin - time.Second)
		complains("boot slow is undecided")
		delete(root.memo.since, b.ID())
		w.heal()
		w.settle()
		w.check()
	})
}
