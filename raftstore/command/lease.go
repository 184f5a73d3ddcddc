package command

import "berth/api"

// LeaseCreate records a lease, and the order for its room unless it has no reservations.
// The lease is there once the order is committed; if that fails, nothing is left.
type LeaseCreate struct {
	Stamp
	Terms  api.LeaseTerms   `cbor:"2,keyasint"`
	Events []api.LeaseEvent `cbor:"3,keyasint"`
	Key    string           `cbor:"4,keyasint,omitempty"` // Idempotency-Key, "" for none
	Digest []byte           `cbor:"5,keyasint"`           // SHA-256 of what the caller asked for
	Order  *BootTerms       `cbor:"6,keyasint,omitempty"`
}

// LeaseSet gives a lease new terms: at once without an order, else when the order for the
// new room is committed. It is refused unless the lease is as it was at ModIndex.
type LeaseSet struct {
	Stamp
	ModIndex uint64           `cbor:"2,keyasint"`
	Terms    api.LeaseTerms   `cbor:"3,keyasint"` // ID and Project name the lease
	Events   []api.LeaseEvent `cbor:"4,keyasint"`
	Order    *BootTerms       `cbor:"5,keyasint,omitempty"` // its request replaces that of the order before
}

// LeaseDelete ends a lease whatever its status, and releases its room.
type LeaseDelete struct {
	Stamp
	Project api.ProjectID `cbor:"2,keyasint"`
	ID      api.LeaseID   `cbor:"3,keyasint"`
}

// SeriesCreate records a series of leases, and the orders for their room. It is there once
// all orders are committed; if one fails, nothing is left.
type SeriesCreate struct {
	Stamp
	ID      api.SeriesID  `cbor:"2,keyasint"`
	Name    string        `cbor:"3,keyasint,omitempty"`
	Project api.ProjectID `cbor:"4,keyasint"`
	User    api.UserID    `cbor:"5,keyasint,omitempty"`
	Repeat  api.Repeat    `cbor:"6,keyasint"`
	Key     string        `cbor:"7,keyasint,omitempty"` // Idempotency-Key, "" for none
	Digest  []byte        `cbor:"8,keyasint"`           // SHA-256 of what the caller asked for
	Leases  []LeaseCreate `cbor:"9,keyasint"`           // by start, without overlap; each has the stamp of the series
}

// SeriesDelete ends every lease of a series whatever its status, and releases its room.
type SeriesDelete struct {
	Stamp
	Project api.ProjectID `cbor:"2,keyasint"`
	ID      api.SeriesID  `cbor:"3,keyasint"`
}

// LeaseEndsTold records that the external service of the zone was told of ends of leases, or
// that there is none to tell any more. One that is not there is passed over.
type LeaseEndsTold struct {
	Stamp
	Ends []api.LeaseEndName `cbor:"2,keyasint"` // at most LeaseEndsToldMax
}

// Tick moves the zone's time, so that what is due happens although nothing else is written.
type Tick struct {
	Stamp
}

// Kind returns KindLeaseCreate.
func (LeaseCreate) Kind() Kind { return KindLeaseCreate }

// Kind returns KindLeaseSet.
func (LeaseSet) Kind() Kind { return KindLeaseSet }

// Kind returns KindLeaseDelete.
func (LeaseDelete) Kind() Kind { return KindLeaseDelete }

// Kind returns KindSeriesCreate.
func (SeriesCreate) Kind() Kind { return KindSeriesCreate }

// Kind returns KindSeriesDelete.
func (SeriesDelete) Kind() Kind { return KindSeriesDelete }

// Kind returns KindLeaseEndsTold.
func (LeaseEndsTold) Kind() Kind { return KindLeaseEndsTold }

// Kind returns KindTick.
func (Tick) Kind() Kind { return KindTick }
