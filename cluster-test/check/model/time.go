package model

import (
	"cmp"
	"slices"

	"berth/api"
)

// step is something that is due at a time. What is due at one instant goes by rank.
type step struct {
	at   api.Instant
	rank int
	id   string
	take func()
}

// The order of what is due at one instant: a lease that ends gives its room to one that begins.
const (
	beforeEnd = iota
	windowEnds
	leaseEnds
	roomCloses
	slotBegins
	beforeStart
	leaseStarts
	beforeEndOfJustStarted
)

// steps lists all that is to happen by itself, first things first.
func (m *Model) steps() (out []step) {
	for id, i := range m.Instances {
		c := m.Claims[id]
		if !i.Live() || i.Host == "" {
			continue
		}
		if c.End != api.Forever && c.Over == 0 && m.Kept[id] == nil && m.Kept[c.Within] == nil {
			out = append(out, step{c.End, windowEnds, string(id), func() { m.endWindow(id) }})
		}
		if closing := c.Start.Add(-c.Grace); i.Reserved() && i.Status == api.StatusBuild && !i.Closed {
			out = append(out, step{closing, roomCloses, string(id), func() { m.closeRoom(id) }})
		}
		if i.Reserved() && i.Status == api.StatusBuild && !i.Waits {
			out = append(out, step{c.Start, slotBegins, string(id), func() { m.beginSlot(id) }})
		}
	}
	for _, l := range m.Leases {
		for n := range l.Events {
			e := &l.Events[n]
			if l.isDue(e) {
				out = append(out, step{e.Time, l.rankOf(e), string(l.Terms.ID) + "\x00" + string(e.Type), func() { m.begin(l, e) }})
			}
		}
	}
	slices.SortFunc(out, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id))
	})
	return out
}

// NextDue returns when something happens by itself; api.Forever for never.
func (m *Model) NextDue() api.Instant {
	if all := m.steps(); len(all) > 0 {
		return all[0].at
	}
	return api.Forever
}

// passTime takes all steps that are due by then, each at its time.
func (m *Model) passTime(then api.Instant) {
	if m.form < api.FormFourth {
		return
	}
	for {
		all := m.steps()
		if len(all) == 0 || all[0].at > then {
			return
		}
		m.Now = max(m.Now, all[0].at)
		all[0].take()
		m.settle()
	}
}

// settle follows what a command or a step has changed.
func (m *Model) settle() {
	if m.form < api.FormFourth {
		return
	}
	m.settleLeases()
	m.beginWaiting()
	m.settleLeases()
}

// endWindow ends an instance or slot whose window has passed. What is not gone by then has no
// right to its room any more: it counts like a preemptible.
func (m *Model) endWindow(id api.InstanceID) {
	if m.Instances[id].Status != api.StatusDeleting {
		m.setStatus(id, api.StatusDeleting)
	}
	c := m.Claims[id]
	if c == nil {
		return // it is gone
	}
	for _, part := range c.Pieces() {
		part.Over, part.End, part.Class, part.Whole = part.End, api.Forever, api.Preemptible, false
	}
}
