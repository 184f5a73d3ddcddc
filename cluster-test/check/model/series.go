package model

import (
	"bytes"
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Series is leases that are made together: all or none.
type Series struct {
	ID      api.SeriesID
	Project api.ProjectID
	Key     string
	Digest  []byte
	Status  api.SeriesStatus
}

// LeasesOf returns the leases that are left of a series, by id.
func (m *Model) LeasesOf(id api.SeriesID) (out []*Lease) {
	for _, lease := range slices.Sorted(maps.Keys(m.Leases)) {
		if l := m.Leases[lease]; id != "" && l.Terms.Series == id {
			out = append(out, l)
		}
	}
	return out
}

// Waiting counts the leases of a series that wait for their room.
func (m *Model) Waiting(id api.SeriesID) (n int) {
	for _, l := range m.LeasesOf(id) {
		if l.Status == api.LeaseCreating && !l.Held {
			n++
		}
	}
	return n
}

func (m *Model) seriesCreate(c command.SeriesCreate) *Refusal {
	if m.Series[c.ID] != nil {
		return nil
	}
	for _, all := range m.Series {
		if c.Key != "" && all.Key == c.Key && all.Project == c.Project {
			if !bytes.Equal(all.Digest, c.Digest) {
				return &Refusal{promise.Repeat, "the key stands for another series"}
			}
			return nil
		}
	}
	if len(m.Series) >= api.SeriesMax || len(m.Leases)+len(c.Leases) > api.LeasesMax {
		return &Refusal{promise.Lease, "the zone has too many leases"}
	}
	for i := range c.Leases {
		if not := m.mayMake(&c.Leases[i]); not != nil {
			return not
		}
	}
	var orders []*command.BootTerms
	for i := range c.Leases {
		if c.Leases[i].Order != nil {
			orders = append(orders, c.Leases[i].Order)
		}
	}
	if not := m.checkBootQuota(orders...); not != nil {
		return not
	}
	all := &Series{ID: c.ID, Project: c.Project, Key: c.Key, Digest: c.Digest, Status: api.SeriesReady}
	m.Series[c.ID] = all
	for i := range c.Leases {
		if not := m.leaseCreate(c.Leases[i]); not != nil {
			m.failSeries(c.ID)
			return not
		}
		if c.Leases[i].Order != nil {
			all.Status = api.SeriesCreating
		}
	}
	return nil
}

func (m *Model) seriesDelete(c command.SeriesDelete) *Refusal {
	if all := m.Series[c.ID]; all == nil || all.Project != c.Project {
		return &Refusal{promise.Model, "there is no series " + string(c.ID)}
	}
	m.failSeries(c.ID)
	return nil
}

// failSeries ends all leases of a series.
func (m *Model) failSeries(id api.SeriesID) {
	all := m.Series[id]
	if all == nil || all.Status == api.SeriesDeleting {
		return
	}
	all.Status = api.SeriesDeleting
	for _, l := range m.LeasesOf(id) {
		m.endLease(l)
	}
}

// holdOfSeries notes that a lease of a series has its room. With the last of them all are there.
func (m *Model) holdOfSeries(l *Lease) bool {
	if l.Held {
		return false
	}
	l.Held = true
	m.touch(l)
	all := m.Series[l.Terms.Series]
	if m.Waiting(all.ID) == 0 && all.Status == api.SeriesCreating {
		all.Status = api.SeriesReady
		for _, o := range m.LeasesOf(all.ID) {
			if o.Status == api.LeaseCreating {
				m.confirm(o)
			}
		}
	}
	return true
}
