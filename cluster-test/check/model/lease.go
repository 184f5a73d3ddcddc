package model

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// leasesKept is how much longer than other records ended leases are kept.
const leasesKept = 30 * 24 * time.Hour

// Lease is a lease that was made at this zone.
type Lease struct {
	Terms    api.LeaseTerms
	Status   api.LeaseStatus
	Events   []api.LeaseEvent
	Key      string
	Digest   []byte
	Order    api.ReservationID // the boot that has its room
	Next     *LeaseUpdate
	Replaced []api.ReservationID // earlier orders that are not gone yet
	Updated  api.Instant
	Mod      uint64 // index of its last change
	Held     bool   // it has its room, and others of its series have not
}

// LeaseUpdate is an update whose room is not decided.
type LeaseUpdate struct {
	Terms  api.LeaseTerms
	Events []api.LeaseEvent
	Order  api.ReservationID
	Was    api.LeaseStatus
}

// LeaseFact is something about a lease that those who watch it are told.
type LeaseFact struct {
	Lease   api.LeaseID
	What    string
	Was, Is api.LeaseStatus // Was only if that has changed
	At      api.Instant
}

func (f LeaseFact) String() string {
	return fmt.Sprintf("%s of %s at %d: %s to %s", f.What, f.Lease, f.At, f.Was, f.Is)
}

// tell notes a fact about a lease.
func (m *Model) tell(l *Lease, what string, was api.LeaseStatus) {
	m.Facts = append(m.Facts, LeaseFact{l.Terms.ID, what, was, l.Status, m.Now})
}

// touch notes that a lease has changed.
func (m *Model) touch(l *Lease) {
	l.Mod = m.Index
	m.HitLeases[l.Terms.ID] = true
}

func (m *Model) applyLeases(c command.ForLeases) *Refusal {
	switch c := c.(type) {
	case command.LeaseCreate:
		return m.leaseCreate(c)
	case command.LeaseSet:
		return m.leaseSet(c)
	case command.LeaseDelete:
		return m.leaseDelete(c)
	case command.SeriesCreate:
		return m.seriesCreate(c)
	case command.SeriesDelete:
		return m.seriesDelete(c)
	case command.LeaseEndsTold:
		return m.leaseEndsTold(c)
	case command.Tick:
	}
	return nil
}

func (m *Model) leaseCreate(c command.LeaseCreate) *Refusal {
	if m.Leases[c.Terms.ID] != nil {
		return nil
	}
	for _, l := range m.Leases {
		if c.Key != "" && l.Key == c.Key && l.Terms.Project == c.Terms.Project {
			if !bytes.Equal(l.Digest, c.Digest) {
				return &Refusal{promise.Repeat, "the key stands for another lease"}
			}
			return nil
		}
	}
	if not := m.mayMake(&c); not != nil {
		return not
	}
	l := &Lease{Terms: c.Terms, Status: api.LeasePending, Events: slices.Clone(c.Events), Key: c.Key, Digest: c.Digest}
	if c.Order != nil {
		if not := m.bootCreate(command.BootCreate{Stamp: c.Stamp, BootTerms: *c.Order}); not != nil {
			return not
		}
		l.Status, l.Order = api.LeaseCreating, c.Order.Request.Reservation
	}
	m.Leases[c.Terms.ID] = l
	m.touch(l)
	m.tell(l, "created", "")
	return nil
}

// mayMake returns why a lease that is not there must be refused.
func (m *Model) mayMake(c *command.LeaseCreate) *Refusal {
	if len(m.Leases) >= api.LeasesMax {
		return &Refusal{promise.Lease, "the zone has too many leases"}
	}
	for _, l := range m.Leases {
		for _, have := range l.Terms.Reservations {
			if slices.ContainsFunc(c.Terms.Reservations, func(r api.Reservation) bool { return r.ID == have.ID }) {
				return &Refusal{promise.Once, "reservation " + string(have.ID) + " is there"}
			}
		}
	}
	if c.Order != nil {
		if not := m.checkBootQuota(c.Order); not != nil {
			return not
		}
	}
	return m.checkQuota(c.Terms.Project, nil, useOfLease(&c.Terms))
}

// leaseOf returns a lease of a project.
func (m *Model) leaseOf(p api.ProjectID, id api.LeaseID) (*Lease, *Refusal) {
	if l := m.Leases[id]; l != nil && l.Terms.Project == p {
		return l, nil
	}
	return nil, &Refusal{promise.Model, "there is no lease " + string(id)}
}

func (m *Model) leaseSet(c command.LeaseSet) *Refusal {
	l, not := m.leaseOf(c.Terms.Project, c.Terms.ID)
	switch {
	case not != nil:
		return not
	case l.Next != nil && c.Order != nil && l.Next.Order == c.Order.Request.Reservation:
		return nil
	case l.Mod != c.ModIndex:
		return &Refusal{promise.Generation, "the writer has not seen the last change of lease " + string(c.Terms.ID)}
	}
	switch l.Status {
	case api.LeasePending, api.LeaseActive, api.LeaseTerminated, api.LeaseError:
	case api.LeaseCreating, api.LeaseStarting, api.LeaseTerminating, api.LeaseUpdating, api.LeaseDeleting:
		return &Refusal{promise.Lease, "lease " + string(c.Terms.ID) + " is " + string(l.Status)}
	}
	if l.Status != api.LeaseTerminated {
		if not := m.checkQuota(c.Terms.Project, &l.Terms, useOfLease(&c.Terms)); not != nil {
			return not
		}
	}
	if c.Order == nil {
		l.Terms, l.Events, l.Updated = c.Terms, slices.Clone(c.Events), c.At
		m.touch(l)
		m.tell(l, "updated", "")
		return nil
	}
	if not := m.bootCreate(command.BootCreate{Stamp: c.Stamp, BootTerms: *c.Order}); not != nil {
		return not
	}
	l.Next = &LeaseUpdate{c.Terms, slices.Clone(c.Events), c.Order.Request.Reservation, l.Status}
	l.Status, l.Updated = api.LeaseUpdating, c.At
	m.touch(l)
	return nil
}

func (m *Model) leaseDelete(c command.LeaseDelete) *Refusal {
	l, not := m.leaseOf(c.Project, c.ID)
	if not != nil {
		return not
	}
	if all := m.Series[l.Terms.Series]; all != nil && all.Status == api.SeriesCreating {
		m.failSeries(all.ID) // all of it or nothing
		return nil
	}
	m.endLease(l)
	return nil
}

// endLease gives up all that a lease has.
func (m *Model) endLease(l *Lease) {
	if l.Status == api.LeaseDeleting {
		return
	}
	switch e := l.event(api.EventEndLease); {
	case l.Status == api.LeaseCreating:
		m.owe(l, api.LeaseOutcomeFailed)
	case e == nil || e.Status == api.EventUndone:
		m.owe(l, api.LeaseOutcomeDeleted)
	}
	l.Status = api.LeaseDeleting
	m.touch(l)
	m.releaseOrders(l)
}

// orders returns the boots that have room of a lease, the newest first.
func (l *Lease) orders() (out []api.ReservationID) {
	if l.Next != nil {
		out = append(out, l.Next.Order)
	}
	if l.Order != "" {
		out = append(out, l.Order)
	}
	older := slices.Clone(l.Replaced)
	slices.Reverse(older)
	return append(out, older...)
}

// orderBoot returns a boot of a lease, nil if it was pruned.
func (m *Model) orderBoot(l *Lease, order api.ReservationID) *Boot {
	return m.Boots[BootID{Project: l.Terms.Project, Reservation: order}]
}

// releaseOrders gives up all that a lease has: the newest first, as it may take over slots of
// the one before.
func (m *Model) releaseOrders(l *Lease) {
	for _, order := range l.orders() {
		if b := m.orderBoot(l, order); b != nil {
			m.releaseBoot(b)
		}
	}
}

// statuses counts the instances of a boot by status.
func (m *Model) statuses(b *Boot) map[api.Status]int {
	out := map[api.Status]int{api.StatusDeleted: b.Gone}
	for _, h := range b.Holds {
		for _, id := range h.IDs() {
			if i := m.MadeBy(h, id); i != nil {
				out[i.Status]++
			}
		}
	}
	return out
}

// isGone reports whether nothing is left of an order, anywhere.
func (m *Model) isGone(l *Lease, order api.ReservationID) bool {
	b := m.orderBoot(l, order)
	switch {
	case b == nil:
		return true
	case b.Decision == api.DecisionPending || b.Unacked() > 0:
		return false
	case b.Decision == api.DecisionAbort:
		return true
	}
	for st, n := range m.statuses(b) {
		if st != api.StatusDeleted && n > 0 {
			return false
		}
	}
	return true
}

// isDue reports whether an event happens when its time comes.
func (l *Lease) isDue(e *api.LeaseEvent) bool {
	switch l.Status {
	case api.LeasePending:
		return e.Status == api.EventUndone
	case api.LeaseStarting, api.LeaseActive, api.LeaseError:
		return e.Status == api.EventUndone && e.Type != api.EventStartLease
	case api.LeaseCreating, api.LeaseUpdating, api.LeaseTerminating, api.LeaseTerminated, api.LeaseDeleting:
	}
	return false
}

func (l *Lease) rankOf(e *api.LeaseEvent) int {
	switch {
	case e.Type == api.EventBeforeEndLease && e.Time <= l.Terms.Window.Start:
		return beforeEndOfJustStarted
	case e.Type == api.EventBeforeEndLease:
		return beforeEnd
	case e.Type == api.EventEndLease:
		return leaseEnds
	case e.Type == api.EventBeforeStartLease:
		return beforeStart
	}
	return leaseStarts
}

// event returns the event of a type, nil for none.
func (l *Lease) event(t api.LeaseEventType) *api.LeaseEvent {
	for n := range l.Events {
		if l.Events[n].Type == t {
			return &l.Events[n]
		}
	}
	return nil
}

// mark sets the status of an event, and that of the lease.
func (m *Model) mark(l *Lease, t api.LeaseEventType, is api.LeaseEventStatus, st api.LeaseStatus) {
	if e := l.event(t); e != nil {
		e.Status, e.Updated = is, m.Now
	}
	was := l.Status
	l.Status = st
	m.touch(l)
	if was != st {
		m.tell(l, "status", was)
	}
}

// begin begins an event that is due.
func (m *Model) begin(l *Lease, e *api.LeaseEvent) {
	switch e.Type {
	case api.EventBeforeEndLease:
		m.mark(l, e.Type, api.EventDone, l.Status)
		m.tell(l, "ends soon", "")
	case api.EventBeforeStartLease:
		m.mark(l, e.Type, api.EventDone, l.Status)
		m.tell(l, "starts soon", "")
	case api.EventStartLease:
		m.mark(l, e.Type, api.EventInProgress, api.LeaseStarting)
	case api.EventEndLease:
		if begin := l.event(api.EventStartLease); begin != nil && begin.Status != api.EventDone {
			m.mark(l, api.EventStartLease, api.EventError, api.LeaseError) // its room was never free
		}
		m.mark(l, e.Type, api.EventInProgress, api.LeaseTerminating)
		m.owe(l, api.LeaseOutcomeEnded)
		m.releaseOrders(l)
	}
}

// settleLeases moves all leases on as far as their orders allow.
func (m *Model) settleLeases() {
	for _, id := range slices.Sorted(maps.Keys(m.Leases)) {
		for again := true; again; {
			l := m.Leases[id]
			again = l != nil && m.settleLease(l)
		}
	}
}

// settleLease takes one step of a lease, if there is one.
func (m *Model) settleLease(l *Lease) bool {
	if m.dropReplaced(l) {
		return true
	}
	switch l.Status {
	case api.LeaseCreating:
		return m.settleCreating(l)
	case api.LeaseUpdating:
		return m.settleUpdating(l)
	case api.LeaseStarting:
		if m.hasBegun(l) {
			m.mark(l, api.EventStartLease, api.EventDone, api.LeaseActive)
			m.tell(l, "started", "")
			return true
		}
	case api.LeaseTerminating:
		if m.areGone(l) {
			m.mark(l, api.EventEndLease, api.EventDone, api.LeaseTerminated)
			m.tell(l, "ended", "")
			return true
		}
	case api.LeaseDeleting:
		if m.areGone(l) {
			m.forgetLease(l)
			m.tell(l, "deleted", "")
			return true
		}
	case api.LeasePending, api.LeaseActive, api.LeaseTerminated, api.LeaseError:
	}
	return false
}

func (m *Model) areGone(l *Lease) bool {
	return !slices.ContainsFunc(l.orders(), func(order api.ReservationID) bool { return !m.isGone(l, order) })
}

// hasBegun reports whether every slot of a lease has begun. One that has failed counts.
func (m *Model) hasBegun(l *Lease) bool {
	b := m.orderBoot(l, l.Order)
	if b == nil {
		return l.Order == "" // nothing was reserved
	}
	n := m.statuses(b)
	return b.Unacked() == 0 && n[api.StatusBuild] == 0 && n[api.StatusDeleting] == 0 && n[api.StatusDeleted] == 0
}

func (m *Model) forgetLease(l *Lease) {
	delete(m.Leases, l.Terms.ID)
	m.HitLeases[l.Terms.ID] = true
	if len(m.LeasesOf(l.Terms.Series)) == 0 {
		delete(m.Series, l.Terms.Series)
	}
}

// settleCreating makes a lease PENDING once it has its room; without it there is no lease.
func (m *Model) settleCreating(l *Lease) bool {
	switch b := m.orderBoot(l, l.Order); {
	case b == nil && l.Held: // it was had, and has ended since
	case b == nil || b.Decision == api.DecisionAbort:
		m.forgetLease(l)
		m.tell(l, "failed", "")
		m.owe(l, api.LeaseOutcomeFailed)
		m.failSeries(l.Terms.Series)
		return true
	case b.Decision == api.DecisionCommit && m.Series[l.Terms.Series] != nil:
		return m.holdOfSeries(l)
	case b.Decision == api.DecisionCommit && l.Terms.Series == "":
		m.confirm(l)
		return true
	}
	return false
}

// confirm makes a lease PENDING.
func (m *Model) confirm(l *Lease) {
	was := l.Status
	l.Status, l.Held = api.LeasePending, false
	m.touch(l)
	m.tell(l, "status", was)
}

// settleUpdating gives a lease its new terms once it has the room for them; without it the
// lease is as it was.
func (m *Model) settleUpdating(l *Lease) bool {
	b, next := m.orderBoot(l, l.Next.Order), l.Next
	if b != nil && b.Decision == api.DecisionPending {
		return false
	}
	l.Status, l.Next = next.Was, nil
	m.touch(l)
	if b == nil || b.Decision == api.DecisionAbort {
		m.tell(l, "update failed", "")
		return true
	}
	if l.Order != "" {
		l.Replaced = append(slices.Clone(l.Replaced), l.Order)
	}
	l.Terms, l.Events, l.Order = next.Terms, next.Events, next.Order
	m.tell(l, "updated", "")
	return true
}

// dropReplaced releases the orders before the present one, once every child has taken over what
// it keeps of them, and forgets those that are gone.
func (m *Model) dropReplaced(l *Lease) bool {
	if len(l.Replaced) == 0 {
		return false
	}
	if b := m.orderBoot(l, l.Order); b != nil && b.Unacked() > 0 {
		return false
	}
	var left []api.ReservationID
	for _, order := range l.Replaced {
		if b := m.orderBoot(l, order); b != nil {
			m.releaseBoot(b)
		}
		if !m.isGone(l, order) {
			left = append(left, order)
		}
	}
	if len(left) == len(l.Replaced) {
		return false
	}
	l.Replaced = left
	m.touch(l)
	return true
}

// pruneLeases forgets TERMINATED leases that ended long before others are forgotten.
func (m *Model) pruneLeases(c command.Prune) {
	n := 0
	for _, id := range slices.Sorted(maps.Keys(m.Leases)) {
		if l := m.Leases[id]; l.Status == api.LeaseTerminated && l.Terms.Window.End < c.Before.Add(-leasesKept) && n < c.Limit {
			m.forgetLease(l)
			n++
		}
	}
}

// Half returns why a lease that has its room is not whole, "" if it is: of each reservation at
// least its minimum must have been made, over all zones.
func (m *Model) Half(l *Lease) string {
	switch l.Status {
	case api.LeasePending, api.LeaseStarting, api.LeaseActive, api.LeaseTerminating:
	case api.LeaseCreating, api.LeaseUpdating, api.LeaseTerminated, api.LeaseDeleting, api.LeaseError:
		return ""
	}
	b := m.orderBoot(l, l.Order)
	switch {
	case b == nil: // nothing was reserved, or all of it was ended one by one
		return ""
	case b.Decision != api.DecisionCommit:
		return "has an order that is decided " + string(b.Decision)
	case b.Ended && l.Status != api.LeaseTerminating:
		return "has an order that was released"
	}
	if b.Ended || b.Faded {
		return ""
	}
	return b.TooFew()
}
