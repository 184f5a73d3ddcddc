package state

import (
	"bytes"
	"cmp"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// Series is the record of leases that were made together by one rule. Each of its leases
// lives on its own; the record goes with the last of them.
type Series struct {
	ID       api.SeriesID     `cbor:"1,keyasint"`
	Name     string           `cbor:"2,keyasint,omitempty"`
	Project  api.ProjectID    `cbor:"3,keyasint"`
	User     api.UserID       `cbor:"4,keyasint,omitempty"`
	Repeat   api.Repeat       `cbor:"5,keyasint"`
	Status   api.SeriesStatus `cbor:"6,keyasint"`
	Waiting  int              `cbor:"7,keyasint,omitempty"` // leases whose room is not held yet, while CREATING
	Key      string           `cbor:"8,keyasint,omitempty"`
	Digest   []byte           `cbor:"9,keyasint"`
	Created  api.Instant      `cbor:"10,keyasint"`
	ModIndex uint64           `cbor:"11,keyasint"`
}

// ordersOf returns the orders of those of some leases that have to be held first.
func ordersOf(leases []command.LeaseCreate) (out []*command.BootTerms) {
	for i := range leases {
		if leases[i].Order != nil {
			out = append(out, leases[i].Order)
		}
	}
	return out
}

func (s *leasesBook) seriesCreate(c command.SeriesCreate) Result {
	if r, ok := s.series.Get(string(c.ID)); ok {
		return Result{Series: r}
	}
	if id, ok := s.seriesKeys.Get(joinKey(c.Project, c.Key)); ok && c.Key != "" {
		r, _ := s.series.Get(string(id))
		if !bytes.Equal(r.Digest, c.Digest) {
			return refuseWith(api.CodeConflict, "the idempotency key was used for a different request")
		}
		return Result{Series: r}
	}
	switch {
	case s.series.Len() >= s.limits.series:
		return refuseWith(api.CodeOverloaded, "the zone has %d series of leases; the limit is %d", s.series.Len(), s.limits.series)
	case s.leases.Len()+len(c.Leases) > s.limits.leases:
		return refuseWith(api.CodeOverloaded, "the zone has %d leases; with these %d it would be above the limit of %d", s.leases.Len(), len(c.Leases), s.limits.leases)
	}
	for i := range c.Leases {
		if err := s.CheckLease(&c.Leases[i]); err != nil {
			return Result{Err: err}
		}
		if r := s.checkQuota(c.Project, useOfTerms(&c.Leases[i].Terms)); r.Err != nil { // the leases do not overlap
			return r
		}
	}
	orders := ordersOf(c.Leases)
	if r := s.checkBoots(orders...); r.Err != nil {
		return r
	}
	out := &Series{
		ID: c.ID, Name: c.Name, Project: c.Project, User: c.User, Repeat: c.Repeat, Status: api.SeriesReady,
		Key: c.Key, Digest: c.Digest, Created: c.At,
	}
	if out.Waiting = len(orders); out.Waiting > 0 {
		out.Status = api.SeriesCreating
	}
	s.storeSeries(out)
	for i := range c.Leases {
		if r := s.leaseCreate(c.Leases[i]); r.Err != nil {
			s.failSeries(c.ID)
			return r
		}
	}
	out, _ = s.series.Get(string(c.ID))
	return Result{Series: out}
}

func (s *leasesBook) seriesDelete(c command.SeriesDelete) Result {
	r, ok := s.series.Get(string(c.ID))
	if !ok || r.Project != c.Project {
		return refuseWith(api.CodeNotFound, "no series of leases %q", string(c.ID))
	}
	s.failSeries(c.ID)
	r, _ = s.series.Get(string(c.ID))
	return Result{Series: r}
}

// failSeries ends every lease of a series, and the series with the last of them.
func (s *leasesBook) failSeries(id api.SeriesID) {
	r, ok := s.series.Get(string(id))
	if !ok || r.Status == api.SeriesDeleting {
		return
	}
	now := *r
	now.Status = api.SeriesDeleting
	s.storeSeries(&now)
	for _, l := range s.SeriesLeases(id) {
		if fresh, there := s.leases.Get(string(l.Terms.ID)); there { // the end of another one may have changed it
			s.endLease(fresh)
		}
	}
}

// holdSeries notes that the room of one more lease of a series is held. The leases are there
// when all room is.
func (s *leasesBook) holdSeries(l *Lease) {
	r, ok := s.series.Get(string(l.Terms.Series))
	if !ok || l.Held {
		return
	}
	held := *l
	held.Held = true
	s.storeLease(l, &held)
	now := *r
	if now.Waiting--; now.Waiting > 0 || now.Status != api.SeriesCreating {
		s.storeSeries(&now)
		return
	}
	now.Status = api.SeriesReady
	s.storeSeries(&now)
	for _, l := range s.SeriesLeases(now.ID) {
		if l.Status == api.LeaseCreating {
			s.confirmLease(l)
		}
	}
}

func (s *leasesBook) storeSeries(r *Series) {
	r.ModIndex = s.index
	s.loadSeries(r)
	s.touchTopic(SeriesTopic(r.ID))
}

func (s *leasesBook) loadSeries(r *Series) {
	s.series.Set(string(r.ID), r)
	if r.Key != "" {
		s.seriesKeys.Set(joinKey(r.Project, r.Key), r.ID)
	}
}

// dropSeries forgets a series without leases.
func (s *leasesBook) dropSeries(id api.SeriesID) {
	r, ok := s.series.Get(string(id))
	if !ok || len(s.SeriesLeases(id)) > 0 {
		return
	}
	if r.Key != "" {
		s.seriesKeys.Delete(joinKey(r.Project, r.Key))
	}
	s.series.Delete(string(id))
	s.touchTopic(SeriesTopic(id))
}

// OneSeries returns one series of leases of this zone.
func (s *leasesBook) OneSeries(id api.SeriesID) (*Series, bool) { return s.series.Get(string(id)) }

// AllSeries returns the series of leases of a project by age, or those of all projects if p is "".
func (s *leasesBook) AllSeries(p api.ProjectID) []*Series {
	var out []*Series
	for _, r := range s.series.Values() {
		if p == "" || r.Project == p {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Series) int { return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID)) })
	return out
}

// SeriesLeases returns the leases that are left of a series, by start.
func (s *leasesBook) SeriesLeases(id api.SeriesID) []*Lease {
	var out []*Lease
	eachUnder(&s.bySeries, string(id)+"\x00", func(rest string) {
		if l, ok := s.leases.Get(rest[8:]); ok {
			out = append(out, l)
		}
	})
	return out
}

// seriesKey orders the leases of a series by their start.
func seriesKey(l *Lease) string {
	return string(l.Terms.Series) + "\x00" + timeKey(l.Terms.Window.Start) + string(l.Terms.ID)
}
