package check

import (
	"context"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// LeaseCalls are the calls of one client about leases with one reservation, which a recorder records: each
// attempt is a call of its own, since what was sent first may be carried out last.
type LeaseCalls struct {
	To     *Recorder
	Zone   string
	Client int // of the history
}

// Read reads a lease.
func (l LeaseCalls) Read(ctx context.Context, c *client.Client, id api.LeaseID) (rest.Lease, error) {
	return l.record(LeaseRead, Input{Lease: id}, func() (rest.Lease, error) { return c.Linearizable().Lease(ctx, id) })
}

// Create creates a lease. Its name is the key.
func (l LeaseCalls) Create(ctx context.Context, c *client.Client, s rest.LeaseCreate) (rest.Lease, error) {
	in := Input{Amount: amountOf(s.Reservations)}
	in.End, _ = s.End.Instant()
	return l.record(LeaseCreate, in, func() (rest.Lease, error) { return c.CreateLease(ctx, s, s.Name) })
}

// Update gives a lease another end or another amount.
func (l LeaseCalls) Update(ctx context.Context, c *client.Client, id api.LeaseID, u rest.LeaseUpdate) error {
	in := Input{Lease: id, Amount: amountOf(u.Reservations)}
	in.End, _ = u.End.Instant()
	_, err := l.record(LeaseUpdate, in, func() (rest.Lease, error) { return c.UpdateLease(ctx, id, u) })
	return err
}

// End deletes a lease.
func (l LeaseCalls) End(ctx context.Context, c *client.Client, id api.LeaseID) error {
	_, err := l.record(LeaseDelete, Input{Lease: id}, func() (rest.Lease, error) { return rest.Lease{}, c.DeleteLease(ctx, id) })
	return err
}

// amountOf returns the amount of instances, or of hosts, that the first reservation asks for; 0 for none.
func amountOf(of []rest.ReservationSpec) int64 {
	for _, r := range of[:min(1, len(of))] {
		switch {
		case r.Amount != nil:
			return int64(*r.Amount)
		case r.Max != nil:
			return int64(*r.Max)
		}
	}
	return 0
}

// record records a call that begins now, which f makes.
func (l LeaseCalls) record(k Kind, in Input, f func() (rest.Lease, error)) (rest.Lease, error) {
	p := l.To.Begin(Op{Client: l.Client, Kind: k, Zone: l.Zone, In: in})
	got, err := f()
	out := Output{Code: api.CodeOf(err), Lease: got.ID, Status: got.Status, End: api.Instant(got.End)}
	for _, r := range got.Reservations[:min(1, len(got.Reservations))] {
		switch {
		case r.ReservedInstances != nil:
			out.Amount = int64(r.Amount)
		case r.ReservedHosts != nil:
			out.Amount = int64(r.Max)
		}
	}
	p.End(OutcomeOf(err), out)
	return got, err
}
