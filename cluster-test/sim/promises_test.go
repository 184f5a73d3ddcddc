package sim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/cluster-test/check"
	"berth/raftstore/state"
)

// decideWithin is how long a boot may be undecided under one leader: its attempts
// end after zone.BootTimeout, and another try or two may follow.
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
}

// acknowledged returns what clients have been told so far.
func (z *zone) acknowledged() told {
	z.mu.Lock()
	defer z.mu.Unlock()
	return told{slices.Clone(z.told.booted), slices.Clone(z.told.released), slices.Clone(z.told.deleted)}
}

func (z *zone) note(f func(*told)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f(&z.told)
}

// knows returns the view of a leader that holds all that the zone has ever
// acknowledged, nil if there is none just now.
func (z *zone) knows() (*process, *state.State) {
	p := z.leader()
	if z.lost || p == nil || p.past.Load() {
		return nil, nil
	}
	n := p.running()
	if n == nil {
		return nil, nil
	}
	for _, o := range z.nodes {
		if other := o.running(); other != nil && other.Store().Term() > n.Store().Term() {
			return nil, nil // it was deposed
		}
	}
	v := n.Store().View()
	if !n.Leads() {
		return nil, nil
	}
	return p, v
}

// promises holds what zones have promised to clients and to each other. What was
// promised is read before the state that must hold it.
func (w *world) promises() {
	running := w.books.places()
	for _, z := range w.zones {
		said, below := z.acknowledged(), z.newest()
		if z.parent != nil && below != nil {
			if _, above := z.parent.knows(); above != nil {
				z.checkHolds(below, above)
			}
		}
		p, v := z.knows()
		if v == nil {
			z.memo.leader = nil
			continue
		}
		z.checkTold(v, said)
		z.checkRunning(v, running)
		z.checkUndecided(p, v)
	}
}

// newest returns the view of the zone's node that has applied most.
func (z *zone) newest() *state.State {
	var best *state.State
	for _, p := range z.nodes {
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
	for _, h := range v.HoldsFor(id) {
		for i, p := range h.Parts {
			if l, ok := v.Link(p.Link); ok && l.Zone == child {
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
func (z *zone) checkUndecided(p *process, v *state.State) {
	m, term := &z.memo, p.node.Store().Term()
	if m.leader != p || m.term != term {
		m.leader, m.term, m.since = p, term, map[string]time.Time{}
	}
	open := map[string]time.Time{}
	for _, b := range v.UndecidedBoots() {
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
	o := check.JournalOptions{Active: map[api.InstanceID]api.HostID{}, Processes: map[api.InstanceID]int{}}
	var journals []check.Journal
	for _, z := range w.zones {
		journals = append(journals, z.crew.journal())
		if z.lost {
			continue
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
	sum, wrong := check.Journals(journals, o)
	for _, v := range wrong {
		w.fail("journals: %v", v)
	}
	w.holds()
	return sum
}

// journal reads what an agent wrote, its older file first.
func (c *crew) journal() check.Journal {
	w := c.z.w
	j := check.Journal{Zone: c.z.name, Agent: "agent-1"}
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
