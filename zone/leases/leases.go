// Package leases makes, changes and ends leases, and moves the zone's time on when
// something of them is due. The rules of a lease's life are in package lease, its room is
// held by zone/saga, and what is due happens in raftstore/state.
//
// It must never hold room itself, decide when something is due by anything but the log, or
// know how a dialect spells a lease.
package leases

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"time"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/requestid"
	rules "berth/lease"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
)

// decideMax is how long a call waits for the room of a lease, and for its end.
const decideMax = time.Minute

// Hosts are what maintenance needs of the hosts of a zone.
type Hosts interface {
	// VacateHosts moves what may be moved off the hosts of a maintenance lease, and refuses
	// if anything else is there in its window.
	VacateHosts(ctx context.Context, t *api.LeaseTerms) error
	// PlanVacate is a dry run of VacateHosts on a view, and returns what that would be then.
	PlanVacate(v *state.State, t *api.LeaseTerms) (*state.State, error)
}

// Leases makes and changes the leases of one zone. Its methods may be called concurrently.
type Leases struct {
	zone      *zone.Zone
	estimator *estimate.Estimator
	hosts     Hosts
	check     Checker // nil for none
}

// New returns the leases of a zone. Nothing runs until Lead is called.
func New(z *zone.Zone, e *estimate.Estimator, h Hosts) *Leases {
	return &Leases{zone: z, estimator: e, hosts: h}
}

// limits returns what the operator lets all leases be.
func (l *Leases) limits() rules.Limits {
	c := &l.zone.View().Config
	return rules.Limits{Lead: c.Leases.Lead, Grace: c.Preemptibles.GraceOf(0)}
}

// policy returns how long the operator lets leases of projects be that are not exempt.
func (l *Leases) policy() *rules.Policy {
	r := l.zone.View().Config.Leases
	return &rules.Policy{Longest: r.Longest, Extension: r.Extension, Exempt: r.Exempt}
}

// Create makes a lease for a caller and allots its ids. It waits until the lease has all its
// room or is refused; a refused lease leaves nothing behind. A repeat with the same key,
// unless it is "", returns the first lease.
func (l *Leases) Create(ctx context.Context, who api.Caller, terms api.LeaseTerms, key string) (api.LeaseID, error) {
	if key != "" && !api.ValidName(key) {
		return "", api.CheckName(api.HeaderIdempotencyKey, key)
	}
	digest, err := l.digestOf(who, &terms)
	if err != nil {
		return "", err
	}
	if _, known := l.zone.View().LeaseWithKey(who.Project, key); known && key != "" {
		first, bad := l.findRepeated(ctx, who, key, digest)
		if bad != nil {
			return "", bad
		}
		if first != nil {
			return l.waitFirst(ctx, first)
		}
	}
	c, err := l.composeCreate(who, terms)
	if err != nil && key != "" { // what was right at the first call may be wrong now: its start has passed
		if first, _ := l.findRepeated(ctx, who, key, digest); first != nil { // else err is the refusal
			return l.waitFirst(ctx, first)
		}
	}
	if err != nil {
		return "", err
	}
	c.Key, c.Digest = key, digest
	if c.Order != nil {
		c.Order.Call = requestid.Of(ctx)
	}
	if err = l.checkCreate(ctx, who, c); err != nil {
		return "", err
	}
	if err = l.vacateHosts(ctx, &c.Terms); err != nil {
		return "", err
	}
	res, err := l.zone.Change(ctx, *c, func(v *state.State) error { return l.mayMake(v, c) })
	if err != nil {
		return "", err
	}
	if res.Lease == nil { // decided within the entry
		return "", refusal(l.zone.View(), who.Project, c.Order.Request.Reservation)
	}
	return l.waitFirst(ctx, res.Lease) // the first lease, if this is a repeat
}

// waitFirst waits until the room of a new lease is decided, and returns why it failed.
func (l *Leases) waitFirst(ctx context.Context, made *state.Lease) (api.LeaseID, error) {
	id := made.Terms.ID
	v, err := l.waitDecided(ctx, id)
	if err != nil {
		return id, err
	}
	if _, ok := v.Lease(id); !ok {
		return "", refusal(v, made.Terms.Project, made.Order)
	}
	return id, nil
}

// digestOf returns the digest of what a caller asks for, by which a repeat is known. A start
// in this minute is "now", also in a later minute; its event before the end may depend on it.
func (l *Leases) digestOf(who api.Caller, terms *api.LeaseTerms) ([]byte, error) {
	asked := *terms
	asked.Project, asked.User = who.Project, who.User
	if asked.Window.Start == rules.Minute(l.zone.Instant()) {
		asked.Window.Start, asked.BeforeEnd = 0, 0
	}
	body, err := codec.Marshal(&asked)
	if err != nil {
		return nil, api.Wrap(api.CodeInternal, "leases.Create", "", err)
	}
	digest := sha256.Sum256(body)
	return digest[:], nil
}

// findRepeated returns the lease that the same call has made before, nil if there is none. If
// another call has made one with the key, that is an error.
func (l *Leases) findRepeated(ctx context.Context, who api.Caller, key string, digest []byte) (*state.Lease, error) {
	v, err := l.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	first, ok := v.LeaseWithKey(who.Project, key)
	switch {
	case !ok:
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	case !bytes.Equal(first.Digest, digest):
		return nil, api.Errorf(api.CodeConflict, "the idempotency key was used for a different request")
	}
	return first, nil
}

// composeCreate checks the terms of a new lease, and returns the command that makes it.
func (l *Leases) composeCreate(who api.Caller, terms api.LeaseTerms) (*command.LeaseCreate, error) {
	terms.Project, terms.User = who.Project, who.User
	return l.leaseOf(who, terms, l.zone.Stamp())
}

// leaseOf returns the command that makes a lease with terms, with all its ids. It refuses
// terms that the zone does not allow.
func (l *Leases) leaseOf(who api.Caller, terms api.LeaseTerms, at command.Stamp) (*command.LeaseCreate, error) {
	if len(terms.Hosts) > 0 && !who.Allows(api.RoleAdmin) {
		return nil, api.Errorf(api.CodeForbidden, "only an operator may take hosts for maintenance")
	}
	allotIDs(&terms)
	if err := rules.CheckTerms(&terms, at.At, l.limits()); err != nil {
		return nil, err
	}
	if err := l.policy().CheckCreate(&terms); err != nil {
		return nil, err
	}
	c := &command.LeaseCreate{Stamp: at, Terms: terms}
	grace := l.zone.View().Config.Preemptibles.GraceOf(terms.Grace)
	if len(terms.Reservations) == 0 {
		grace = 0 // there is no room to close
	}
	c.Events = rules.Events(&terms, grace, at.At, rules.EventIDs{
		BeforeStart: api.NewUUID(), Start: api.NewUUID(), BeforeEnd: api.NewUUID(), End: api.NewUUID(),
	})
	var err error
	if c.Order, err = orderOf(&terms, ""); err != nil {
		return nil, err
	}
	return c, command.CheckForm(*c, l.zone.Form()) // also a dry run is refused
}

// vacateHosts prepares the hosts of a maintenance lease; there is nothing to do for another.
func (l *Leases) vacateHosts(ctx context.Context, t *api.LeaseTerms) error {
	if len(t.Hosts) == 0 {
		return nil
	}
	return l.hosts.VacateHosts(ctx, t)
}

// waitDecided waits until the room of a lease is decided, and returns the state then.
func (l *Leases) waitDecided(ctx context.Context, id api.LeaseID) (*state.State, error) {
	ctx, cancel := context.WithTimeout(ctx, decideMax)
	defer cancel()
	v, err := l.zone.Store().WaitFor(ctx, state.LeaseTopic(id), func(v *state.State) bool {
		now, ok := v.Lease(id)
		return !ok || now.Status != api.LeaseCreating && now.Status != api.LeaseUpdating
	})
	if err != nil {
		return nil, api.Wrap(api.CodeTimeout, "leases.wait", "the lease is not decided yet; look at it again later", err)
	}
	return v, nil
}

// refusal returns why an order failed.
func refusal(v *state.State, project api.ProjectID, order api.ReservationID) error {
	b, ok := v.Boot(project, order)
	if !ok {
		return api.Errorf(api.CodeConflict, "the lease was deleted meanwhile")
	}
	code, why := b.Cause()
	switch {
	case b.Decision == api.DecisionCommit, b.Ended:
		return api.Errorf(api.CodeConflict, "the lease was deleted meanwhile")
	case code == api.CodeNoCapacity:
		return api.Errorf(code, "Not enough hosts available: %s", cmp.Or(describeShort(v, b), b.Reason))
	}
	return api.Errorf(code, "%s", cmp.Or(b.Reason, why))
}

// mayMake refuses a lease that the log would refuse, before it costs an entry, and any if the state is
// too large. A repeat is none.
func (l *Leases) mayMake(v *state.State, c *command.LeaseCreate) error {
	if _, repeat := v.LeaseWithKey(c.Terms.Project, c.Key); repeat && c.Key != "" {
		return nil
	}
	return cmp.Or(v.CheckLease(c), v.CheckLeaseQuota(nil, &c.Terms), l.zone.CheckSize())
}

// updateTries is how often an update is made again that a change in the background was faster than.
const updateTries = 10

// Update changes a lease of the caller's project, or of any for an admin. It waits until the
// change holds or is refused; a refused one changes nothing. One that only gives room back needs no
// answer of a silent zone: that zone is told later. The lease changes by itself, too: what an update
// depends on is read again as often as it does.
func (l *Leases) Update(ctx context.Context, who api.Caller, id api.LeaseID, change api.LeaseChange) error {
	var err error
	for range updateTries {
		if err = l.updateOnce(ctx, who, id, &change); api.CodeOf(err) != api.CodeStale {
			break
		}
	}
	return err
}

// updateOnce is Update of the lease as it is now.
func (l *Leases) updateOnce(ctx context.Context, who api.Caller, id api.LeaseID, change *api.LeaseChange) error {
	old, err := l.find(ctx, who, id)
	if err != nil {
		return err
	}
	c, err := l.composeUpdate(old, change, !needsSilent(l.zone.View(), old))
	if err != nil || c == nil {
		return err
	}
	if err = l.checkUpdate(ctx, who, old, c); err != nil {
		return err
	}
	err = l.propose(ctx, old, c)
	if api.CodeOf(err) != api.CodeUnreached {
		return err
	}
	now, gone := l.find(ctx, who, id) // a zone has fallen silent
	if gone != nil {
		return gone
	}
	if c, bad := l.composeUpdate(now, change, false); bad == nil && c != nil && c.Order == nil {
		return l.propose(ctx, now, c)
	}
	return err
}

// propose makes an update that is checked, and waits for its room if it needs any.
func (l *Leases) propose(ctx context.Context, old *state.Lease, c *command.LeaseSet) error {
	if c.Order != nil {
		c.Order.Call = requestid.Of(ctx)
		if err := l.vacateHosts(ctx, &c.Terms); err != nil {
			return err
		}
	}
	if _, err := l.zone.Propose(ctx, *c); err != nil || c.Order == nil {
		return err
	}
	v, err := l.waitDecided(ctx, c.Terms.ID)
	if err != nil {
		return err
	}
	if !wasUpdated(v, old, c.Order.Request.Reservation) {
		return refusal(v, old.Terms.Project, c.Order.Request.Reservation)
	}
	return nil
}

// wasUpdated reports whether a lease, which may have changed again since, was given the terms whose room an order
// is for.
func wasUpdated(v *state.State, l *state.Lease, order api.ReservationID) bool {
	now, ok := v.Lease(l.Terms.ID)
	b, known := v.Boot(l.Terms.Project, order)
	return ok && (now.Order == order || known && b.Decision == api.DecisionCommit && now.Status != api.LeaseDeleting)
}

// composeUpdate checks an update of a lease, and returns the command that makes it; nil if it
// changes nothing. Unless reached, one that only gives room back changes the record alone; see trimLeases.
func (l *Leases) composeUpdate(old *state.Lease, change *api.LeaseChange, reached bool) (*command.LeaseSet, error) {
	stamp := l.zone.Stamp()
	cur := &rules.Current{Terms: old.Terms, Status: old.Status, Events: old.Events}
	next, err := rules.Change(cur, change, l.limits(), stamp.At, rules.EventIDs{BeforeStart: api.NewUUID(), BeforeEnd: api.NewUUID()})
	if err != nil || next.Need == rules.NeedNothing {
		return nil, err
	}
	if err = l.policy().CheckUpdate(&cur.Terms, &next.Terms, stamp.At); err != nil {
		return nil, err
	}
	c := &command.LeaseSet{Stamp: stamp, ModIndex: old.ModIndex, Terms: next.Terms, Events: next.Events}
	if next.Need == rules.NeedRoom && (reached || !next.Shrinks) {
		if c.Order, err = orderOf(&next.Terms, old.Order); err != nil {
			return nil, err
		}
	}
	return c, command.CheckForm(*c, l.zone.Form())
}

// Delete ends a lease of the caller's project, or of any for an admin, at any time. It waits
// until nothing is left of it, for a while, but for no zone that is silent.
func (l *Leases) Delete(ctx context.Context, who api.Caller, id api.LeaseID) error {
	old, err := l.find(ctx, who, id)
	if err != nil {
		return err
	}
	if _, err := l.zone.Propose(ctx, command.LeaseDelete{Stamp: l.zone.Stamp(), Project: old.Terms.Project, ID: id}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, decideMax)
	defer cancel()
	for ctx.Err() == nil { // What is not gone by then goes on ending; the lease is shown as DELETING.
		timed, stop := context.WithTimeout(ctx, lookEvery) // a zone may fall silent meanwhile
		_, err := l.zone.Store().WaitFor(timed, state.LeaseTopic(id), func(v *state.State) bool {
			now, there := v.Lease(id)
			return !there || hasSilentRest(v, now)
		})
		stop()
		if err == nil {
			break
		}
	}
	return nil
}

// find returns a lease that the caller may change, from a state that has everything
// acknowledged before.
func (l *Leases) find(ctx context.Context, who api.Caller, id api.LeaseID) (*state.Lease, error) {
	v, err := l.zone.Latest(ctx)
	if err != nil {
		return nil, err
	}
	old, ok := v.Lease(id)
	if !ok || old.Terms.Project != who.Project && who.Role != api.RoleAdmin {
		return nil, api.Errorf(api.CodeNotFound, "no lease %q", string(id))
	}
	return old, nil
}
