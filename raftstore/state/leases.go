package state

import (
	"bytes"
	"cmp"
	"slices"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// leasesBook has the leases that were made at this zone. The room of a lease is held by an
// order: a boot whose request reserves. Updates that need other room have an order of
// their own, which replaces the one before when it is committed.
type leasesBook struct {
	bootsBook

	leases     table.Map[*Lease]
	byProject  table.Set              // project, lease
	sharedWith table.Set              // another project that may use it, lease
	leaseOf    table.Map[api.LeaseID] // boot -> its lease
	reservedBy table.Map[api.LeaseID] // reservation -> its lease
	leaseKeys  table.Map[api.LeaseID] // project, idempotency key
	due        table.Set              // time, rank, lease, event that has not happened

	endedLeases table.Set // TERMINATED leases, by end time

	series     table.Map[*Series]
	seriesKeys table.Map[api.SeriesID] // project, idempotency key
	bySeries   table.Set               // series, start, lease

	leaseEnds table.Map[*api.LeaseEnd] // that the external service was not told, by time and lease

	unsettled []api.LeaseID // to be settled when the facts are done; empty between commands
}

func (s *leasesBook) tables(into []table.Table) []table.Table {
	return append(s.bootsBook.tables(into), table.Of(&s.leases), &s.byProject, &s.sharedWith, table.Of(&s.leaseOf), table.Of(&s.reservedBy), table.Of(&s.leaseKeys), &s.due, &s.endedLeases,
		table.Of(&s.series), table.Of(&s.seriesKeys), &s.bySeries, table.Of(&s.leaseEnds))
}

func (s *leasesBook) sections() []section {
	leases := sectionOf("leases", s.leases.Values, s.loadLease)
	series := sectionOf("series of leases", s.series.Values, s.loadSeries)
	ends := sectionOf("ends of leases", s.leaseEnds.Values, func(e *api.LeaseEnd) { s.leaseEnds.Set(leaseEndKey(e.Name()), e) })
	leases.form, series.form, ends.form = api.FormFourth, api.FormFourth, api.FormFourth
	return append(s.bootsBook.sections(), leases, series, ends)
}

// apply applies a command that is for this book.
func (s *leasesBook) apply(c command.ForLeases) Result {
	switch c := c.(type) {
	case command.LeaseCreate:
		return s.leaseCreate(c)
	case command.LeaseSet:
		return s.leaseSet(c)
	case command.LeaseDelete:
		return s.leaseDelete(c)
	case command.SeriesCreate:
		return s.seriesCreate(c)
	case command.SeriesDelete:
		return s.seriesDelete(c)
	case command.LeaseEndsTold:
		return s.leaseEndsTold(c)
	case command.Tick: // time has moved already
	}
	return Result{}
}

// note has leases settled after changes of their orders. Those wait until all facts are
// done: until then an order does not know yet what its children still have to confirm.
func (s *leasesBook) note(f fact) {
	switch f := f.(type) {
	case instanceChanged:
		if f.instance.Reserved && f.instance.Origin == "" {
			s.unsettleOrder(joinKey(f.instance.Project, f.instance.Reservation))
		}
	case bootChanged:
		s.unsettleOrder(joinKey(f.project, f.reservation))
	case partsOwed:
		if f.owner.Kind == ownerBoot {
			s.unsettleOrder(f.owner.ID)
		}
	}
}

// Lease is the record of a lease, at the zone where it was made.
type Lease struct {
	Terms    api.LeaseTerms      `cbor:"1,keyasint"`
	Status   api.LeaseStatus     `cbor:"2,keyasint"`
	Events   []api.LeaseEvent    `cbor:"3,keyasint"`
	Reason   string              `cbor:"4,keyasint,omitempty"` // of an ERROR, or why the last update failed
	Key      string              `cbor:"5,keyasint,omitempty"`
	Digest   []byte              `cbor:"6,keyasint"`
	Order    api.ReservationID   `cbor:"7,keyasint,omitempty"` // the boot that has its room; "" without reservations
	Next     *LeaseUpdate        `cbor:"8,keyasint,omitempty"` // the update that is being decided
	Replaced []api.ReservationID `cbor:"9,keyasint,omitempty"` // earlier orders, until they are released
	Created  api.Instant         `cbor:"10,keyasint"`
	Updated  api.Instant         `cbor:"11,keyasint,omitempty"` // of the last change by its owner; 0 for none
	ModIndex uint64              `cbor:"12,keyasint"`
	Held     bool                `cbor:"13,keyasint,omitempty"` // CREATING, with its own room but not yet that of its whole series
}

// LeaseUpdate is an update of a lease whose room is not decided yet.
type LeaseUpdate struct {
	Terms  api.LeaseTerms    `cbor:"1,keyasint"`
	Events []api.LeaseEvent  `cbor:"2,keyasint"`
	Order  api.ReservationID `cbor:"3,keyasint"`
	Status api.LeaseStatus   `cbor:"4,keyasint"` // before the update
}

// Event returns the event of a type, or nil.
func (l *Lease) Event(t api.LeaseEventType) *api.LeaseEvent {
	for i := range l.Events {
		if l.Events[i].Type == t {
			return &l.Events[i]
		}
	}
	return nil
}

// boot returns the key of an order of the lease.
func (l *Lease) boot(order api.ReservationID) string { return joinKey(l.Terms.Project, order) }

// Orders returns every order of the lease.
func (l *Lease) Orders() []api.ReservationID {
	out := append([]api.ReservationID(nil), l.Replaced...)
	if l.Order != "" {
		out = append(out, l.Order)
	}
	if l.Next != nil {
		out = append(out, l.Next.Order)
	}
	return out
}

func (s *leasesBook) leaseCreate(c command.LeaseCreate) Result {
	if l, ok := s.leases.Get(string(c.Terms.ID)); ok {
		return Result{Lease: l}
	}
	if id, ok := s.leaseKeys.Get(joinKey(c.Terms.Project, c.Key)); ok && c.Key != "" {
		l, _ := s.leases.Get(string(id))
		if !bytes.Equal(l.Digest, c.Digest) {
			return refuseWith(api.CodeConflict, "the idempotency key was used for a different request")
		}
		return Result{Lease: l}
	}
	if err := s.CheckLease(&c); err != nil {
		return Result{Err: err}
	}
	if r := s.checkQuota(c.Terms.Project, useOfTerms(&c.Terms)); r.Err != nil {
		return r
	}
	l := &Lease{Terms: c.Terms, Status: api.LeasePending, Events: c.Events, Key: c.Key, Digest: c.Digest, Created: c.At}
	if c.Order != nil {
		if r := s.bootCreate(command.BootCreate{Stamp: c.Stamp, BootTerms: *c.Order}); r.Err != nil {
			return r
		}
		l.Status, l.Order = api.LeaseCreating, c.Order.Request.Reservation
	}
	s.storeLease(nil, l)
	s.noteLease(EventLeaseCreated, l, "")
	return Result{Lease: l}
}

// CheckLease returns why a lease that was not there before is refused, whatever room there is;
// nil if it is not.
func (s *leasesBook) CheckLease(c *command.LeaseCreate) error {
	if most := limitsAt(max(c.Form(), api.FormFourth)).leases; s.leases.Len() >= most {
		return api.Errorf(api.CodeOverloaded, "the zone has %d leases; the limit is %d", s.leases.Len(), most)
	}
	for i := range c.Terms.Reservations {
		if _, taken := s.reservedBy.Get(string(c.Terms.Reservations[i].ID)); taken {
			return api.Errorf(api.CodeConflict, "reservation id %s is taken", string(c.Terms.Reservations[i].ID))
		}
	}
	if c.Order != nil {
		return s.CheckBootQuota(c.Order)
	}
	return nil
}

func (s *leasesBook) leaseSet(c command.LeaseSet) Result {
	old, r := s.leaseAt(c.Terms.Project, c.Terms.ID)
	switch {
	case r.Err != nil:
		return r
	case old.Next != nil && c.Order != nil && old.Next.Order == c.Order.Request.Reservation:
		return Result{Lease: old} // a repeat
	case old.ModIndex != c.ModIndex:
		return refuseWith(api.CodeStale, "the lease has changed meanwhile; read it again")
	case !old.Status.Stable():
		return refuseWith(api.CodeConflict, "the lease is %s; try again when that is done", string(old.Status))
	}
	if old.Status != api.LeaseTerminated {
		if r := s.checkGrowth(c.Terms.Project, useOfTerms(&old.Terms), useOfTerms(&c.Terms)); r.Err != nil {
			return r
		}
	}
	l := *old
	l.Updated, l.Reason = c.At, ""
	if c.Order == nil {
		l.Terms, l.Events = c.Terms, c.Events
		s.storeLease(old, &l)
		s.noteLease(EventLeaseUpdated, &l, "")
		return Result{Lease: &l}
	}
	if r := s.bootCreate(command.BootCreate{Stamp: c.Stamp, BootTerms: *c.Order}); r.Err != nil {
		return r
	}
	l.Status = api.LeaseUpdating
	l.Next = &LeaseUpdate{Terms: c.Terms, Events: c.Events, Order: c.Order.Request.Reservation, Status: old.Status}
	s.storeLease(old, &l)
	return Result{Lease: &l}
}

func (s *leasesBook) leaseDelete(c command.LeaseDelete) Result {
	old, r := s.leaseAt(c.Project, c.ID)
	if r.Err != nil {
		return r
	}
	if series, ok := s.series.Get(string(old.Terms.Series)); ok && series.Status == api.SeriesCreating {
		s.failSeries(series.ID) // it is made in full or not at all
		return Result{Lease: old}
	}
	return Result{Lease: s.endLease(old)}
}

// endLease ends a lease whatever its status: the record goes when nothing is left of it.
func (s *leasesBook) endLease(old *Lease) *Lease {
	if old.Status == api.LeaseDeleting {
		return old
	}
	l := *old
	l.Status = api.LeaseDeleting
	s.storeLease(old, &l)
	if outcome := old.outcomeOf(); outcome != "" {
		s.oweEnd(&l, outcome)
	}
	orders := l.Orders()
	for n := len(orders) - 1; n >= 0; n-- { // the newest first: it may keep slots of the one before
		s.releaseOrder(l.boot(orders[n]))
	}
	s.unsettle(l.Terms.ID)
	return &l
}

// leaseAt returns a lease of a project, or the refusal. Of another project there is none.
func (s *leasesBook) leaseAt(p api.ProjectID, id api.LeaseID) (*Lease, Result) {
	l, ok := s.leases.Get(string(id))
	if !ok || l.Terms.Project != p {
		return nil, refuseWith(api.CodeNotFound, "no lease %q", string(id))
	}
	return l, Result{}
}

// storeLease stores l in place of old (nil for a new one) and updates the indexes.
func (s *leasesBook) storeLease(old, l *Lease) {
	if old != nil {
		s.unlistLease(old)
	}
	s.countLease(old, l)
	l.ModIndex = s.index
	s.leases.Set(string(l.Terms.ID), l)
	s.listLease(l)
	s.touchTopic(LeaseTopic(l.Terms.ID))
}

func (s *leasesBook) listLease(l *Lease) {
	id := l.Terms.ID
	s.byProject.Insert(joinKey(l.Terms.Project, id))
	for _, p := range l.Terms.Shared {
		s.sharedWith.Insert(joinKey(p, id))
	}
	if l.Key != "" {
		s.leaseKeys.Set(joinKey(l.Terms.Project, l.Key), id)
	}
	for _, order := range l.Orders() {
		s.leaseOf.Set(l.boot(order), id)
	}
	for i := range l.Terms.Reservations {
		s.reservedBy.Set(string(l.Terms.Reservations[i].ID), id)
	}
	if l.Terms.Series != "" {
		s.bySeries.Insert(seriesKey(l))
	}
	for i := range l.Events {
		if l.isDue(&l.Events[i]) {
			s.due.Insert(dueKey(l, &l.Events[i]))
		}
	}
	if l.Status == api.LeaseTerminated {
		s.endedLeases.Insert(prunableKey(endOwn, l.Terms.Window.End, string(id)))
	}
}

func (s *leasesBook) unlistLease(l *Lease) {
	id := l.Terms.ID
	s.byProject.Delete(joinKey(l.Terms.Project, id))
	for _, p := range l.Terms.Shared {
		s.sharedWith.Delete(joinKey(p, id))
	}
	if l.Key != "" {
		s.leaseKeys.Delete(joinKey(l.Terms.Project, l.Key))
	}
	for _, order := range l.Orders() {
		s.leaseOf.Delete(l.boot(order))
	}
	for i := range l.Terms.Reservations {
		s.reservedBy.Delete(string(l.Terms.Reservations[i].ID))
	}
	if l.Terms.Series != "" {
		s.bySeries.Delete(seriesKey(l))
	}
	for i := range l.Events {
		s.due.Delete(dueKey(l, &l.Events[i]))
	}
	s.endedLeases.Delete(prunableKey(endOwn, l.Terms.Window.End, string(id)))
}

func (s *leasesBook) deleteLease(l *Lease) {
	s.unlistLease(l)
	s.countLease(l, nil)
	s.leases.Delete(string(l.Terms.ID))
	s.touchTopic(LeaseTopic(l.Terms.ID))
	if l.Terms.Series != "" {
		s.dropSeries(l.Terms.Series)
	}
}

func (s *leasesBook) loadLease(l *Lease) {
	s.countLease(nil, l)
	s.leases.Set(string(l.Terms.ID), l)
	s.listLease(l)
}

// Lease returns one lease of this zone.
func (s *leasesBook) Lease(id api.LeaseID) (*Lease, bool) { return s.leases.Get(string(id)) }

// Leases returns the leases of a project by id, or those of all projects if p is "".
func (s *leasesBook) Leases(p api.ProjectID) []*Lease {
	if p == "" {
		return s.leases.Values()
	}
	return s.pickLeases(&s.byProject, p, nil)
}

// CountLeases counts the leases of this zone by status.
func (s *leasesBook) CountLeases() map[api.LeaseStatus]int {
	out := map[api.LeaseStatus]int{}
	s.leases.Scan(func(_ string, l *Lease) bool {
		out[l.Status]++
		return true
	})
	return out
}

// LeasesFor returns the leases that a project may use, its own and those that are shared with
// it, by id.
func (s *leasesBook) LeasesFor(p api.ProjectID) []*Lease {
	out := s.pickLeases(&s.sharedWith, p, s.Leases(p))
	slices.SortFunc(out, func(a, b *Lease) int { return cmp.Compare(a.Terms.ID, b.Terms.ID) })
	return slices.CompactFunc(out, func(a, b *Lease) bool { return a.Terms.ID == b.Terms.ID }) // one may be shared with its own project
}

// pickLeases appends the leases that an index has for a project, by id.
func (s *leasesBook) pickLeases(index *table.Set, p api.ProjectID, out []*Lease) []*Lease {
	eachUnder(index, string(p)+"\x00", func(id string) {
		l, _ := s.leases.Get(id)
		out = append(out, l)
	})
	return out
}

// LeaseWithKey returns the lease that a project has made with an idempotency key.
func (s *leasesBook) LeaseWithKey(p api.ProjectID, key string) (*Lease, bool) {
	id, ok := s.leaseKeys.Get(joinKey(p, key))
	if !ok {
		return nil, false
	}
	return s.leases.Get(string(id))
}

// MayUse reports whether a project may use the lease.
func (l *Lease) MayUse(p api.ProjectID) bool {
	return l.Terms.Project == p || slices.Contains(l.Terms.Shared, p)
}

// LeaseWith returns the lease that has a reservation.
func (s *leasesBook) LeaseWith(id api.ReservationID) (*Lease, bool) {
	lease, ok := s.reservedBy.Get(string(id))
	if !ok {
		return nil, false
	}
	return s.leases.Get(string(lease))
}

// LeaseSlots returns the slots that a lease has, here and abroad, by id; none before its
// order is committed.
func (s *leasesBook) LeaseSlots(l *Lease) []*api.Instance {
	var out []*api.Instance
	for _, i := range s.OfReservation(l.Terms.Project, l.Order) {
		if i.Live() {
			out = append(out, i)
		}
	}
	return out
}
