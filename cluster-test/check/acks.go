package check

import (
	"fmt"
	"math"
	"slices"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/quota"
	"berth/raftstore/state"
)

// AckKind is the kind of an acknowledged call.
type AckKind string

// The kinds of acknowledgements.
const (
	AckBoot    AckKind = "boot"    // a reservation was recorded
	AckRelease AckKind = "release" // a reservation is released
	AckDelete  AckKind = "delete"  // an instance ends
	AckHost    AckKind = "host"    // a host was changed, and its generation returned
	AckClaim   AckKind = "claim"   // a consumer has allocations
	AckFree    AckKind = "free"    // a consumer has none any more, and never will

	AckLease        AckKind = "lease"         // a lease has its room, with the end and amount that were asked for
	AckLeaseUpdate  AckKind = "lease.update"  // a lease has another end or amount
	AckLeaseDelete  AckKind = "lease.delete"  // a lease ends
	AckSeries       AckKind = "series"        // a series of leases has its room
	AckSeriesDelete AckKind = "series.delete" // a series ends with its leases
	AckVolume       AckKind = "volume"        // a volume was ordered, by a reservation of its own
	AckAttach       AckKind = "attach"        // a volume is attached to a server
	AckDetach       AckKind = "detach"        // a volume is attached to none
	AckBind         AckKind = "bind"          // a binding has begun
	AckBindingEnd   AckKind = "binding.end"   // a binding is not in use any more
	AckQuota        AckKind = "quota"         // a project has a limit
	AckPower        AckKind = "power"         // an instance is stopped, or runs again
)

// Ack is the answer to one call of one client at the zone where it was made.
type Ack struct {
	Kind        AckKind
	Zone        string
	Outcome     Outcome
	Code        api.Code // of a refusal
	Project     api.ProjectID
	Reservation api.ReservationID
	Instance    api.InstanceID
	Host        api.HostID
	Generation  uint64 // returned by an update of a host
	Consumer    api.ConsumerID

	Into    api.ReservationID // of a boot: the reservation of the lease in whose slots it runs; "" for none
	Lease   api.LeaseID
	End     api.Instant // that a lease was given; 0 if the call sets none
	Amount  int         // that the first reservation of a lease was given; 0 if the call sets none
	Series  api.SeriesID
	Server  api.InstanceID // that the volume Instance was attached to
	Binding api.BindingID
	Item    quota.Item
	Limit   int64
	Halted  bool // the order was to stop

	// Call and Return are when the call was made and answered, by one clock that never falls. They are needed
	// of calls that set something that others set as well: a later one wins.
	Call, Return int64
}

// Final is the state of one healthy node at the end.
type Final struct {
	Zone, Node string
	State      *state.State
}

// AckSummary counts what Acks has checked.
type AckSummary struct {
	Acks, OK, Refused, Unknown int
	Boots, Whole, Gone         int             // of boots: all, with an outcome that keeps instances, with none left
	Leases, Slots              int             // at the end, over all zones
	Values                     int             // that acknowledged calls have set, and that were looked for
	Into                       int             // instances that run in slots of leases into which they were booted
	Kinds                      map[AckKind]int // acknowledged calls, by kind
}

// Acks checks that every acknowledged change is in the final state of every node of its
// zone and every refused one nowhere, that nothing is stuck, and that every reservation
// is whole or gone, over all zones. A run must be shorter than the time after which ended
// boots are pruned.
func Acks(acks []Ack, finals []Final) (AckSummary, []Violation) {
	a := &audit{list: &list{}, sum: AckSummary{Kinds: map[AckKind]int{}}, zones: map[string][]Final{}, where: map[model.BootID][]Final{}, owners: map[api.InstanceID]*api.Instance{}}
	for _, f := range finals {
		if len(a.zones[f.Zone]) == 0 {
			a.order = append(a.order, f)
		}
		a.zones[f.Zone] = append(a.zones[f.Zone], f)
	}
	a.indexInstances()
	for _, k := range acks {
		a.checkAck(k)
	}
	a.checkGhosts(acks)
	a.checkValues(acks)
	a.checkLeft(acks)
	a.checkInto(acks)
	projects := map[api.ProjectID]bool{}
	for _, k := range acks {
		projects[k.Project] = true
	}
	for _, f := range a.order {
		a.checkStuck(f)
		a.checkStuckLeases(f)
		for p := range projects {
			a.checkSagas(f, p)
		}
		a.checkDirectory(f)
	}
	return a.sum, a.all
}

type audit struct {
	*list
	sum    AckSummary
	zones  map[string][]Final       // nodes by zone
	order  []Final                  // one node of each zone
	where  map[model.BootID][]Final // zones with live instances of a reservation
	owners map[api.InstanceID]*api.Instance
}

func (a *audit) addViolation(rule promise.Name, zone, format string, args ...any) {
	a.putViolation(Violation{Rule: rule, Zone: zone, Text: fmt.Sprintf(format, args...)})
}

func instancesOf(s *state.State) []*api.Instance {
	all := state.Page{Limit: math.MaxInt}
	return append(s.InstancesPage(state.InstanceQuery{Page: all}), s.InstancesPage(state.InstanceQuery{Volumes: true, Page: all})...)
}

// indexInstances records the zone of each live instance, and checks that no two zones own
// it.
func (a *audit) indexInstances() {
	for _, f := range a.order {
		for _, i := range instancesOf(f.State) {
			id := model.BootID{Project: i.Project, Reservation: i.Reservation}
			if !slices.Contains(a.where[id], f) {
				a.where[id] = append(a.where[id], f)
			}
			if i.Host == "" {
				continue
			}
			if o := a.owners[i.ID]; o != nil {
				a.addViolation(promise.Once, f.Zone, "instance %s is on host %s, and on host %s of another zone", i.ID, i.Host, o.Host)
			}
			a.owners[i.ID] = i
		}
	}
}

// checkAck checks that an acknowledged change is on every node.
func (a *audit) checkAck(k Ack) {
	a.sum.Acks++
	switch k.Outcome {
	case OK:
		a.sum.OK++
		a.sum.Kinds[k.Kind]++
	case Refused:
		a.sum.Refused++
		return
	case Unknown:
		a.sum.Unknown++
		return
	}
	nodes := a.zones[k.Zone]
	if len(nodes) == 0 {
		a.addViolation(promise.Input, k.Zone, "there is no final state to find an acknowledged %s in", k.Kind)
	}
	for _, f := range nodes {
		if why := missingOf(k, f.State); why != "" {
			a.addViolation(promise.Durable, k.Zone, "node %s: %s", f.Node, why)
		}
	}
}

// missingOf describes the effect of an acknowledged call that is missing from s, "" for
// none.
func missingOf(k Ack, s *state.State) string {
	switch k.Kind {
	case AckBoot, AckRelease, AckVolume:
		b, ok := s.Boot(k.Project, k.Reservation)
		if !ok {
			return fmt.Sprintf("reservation %s of project %s is lost", k.Reservation, k.Project)
		}
		if k.Kind == AckRelease && !b.Ended {
			return fmt.Sprintf("the release of reservation %s is lost", k.Reservation)
		}
		return missingInto(&k, b)
	case AckDelete:
		if i, ok := s.Instance(k.Instance); ok && i.Live() && i.Status != api.StatusDeleting {
			return fmt.Sprintf("the delete of instance %s is lost: it is %s", k.Instance, i.Status)
		}
	case AckHost:
		h, ok := s.Host(k.Host)
		if !ok {
			return fmt.Sprintf("host %s is lost", k.Host)
		}
		if h.Generation < k.Generation {
			return fmt.Sprintf("host %s is at generation %d, and %d was acknowledged", k.Host, h.Generation, k.Generation)
		}
	case AckClaim, AckFree:
		if _, ok := s.Consumer(k.Consumer); ok != (k.Kind == AckClaim) {
			return fmt.Sprintf("the %s of consumer %s is lost", k.Kind, k.Consumer)
		}
	case AckBind, AckBindingEnd:
		return missingBinding(&k, s)
	case AckLease, AckLeaseUpdate, AckLeaseDelete, AckSeries, AckSeriesDelete: // checkLeft, with the other calls
	case AckAttach, AckDetach, AckQuota, AckPower: // checkValues
	}
	return ""
}

// tried are the codes of a refusal that may leave a boot on record, as FAILED.
var tried = []api.Code{api.CodeNoCapacity, api.CodeContended, api.CodePaused, api.CodeUnreached}

// checkGhosts checks that a reservation for which every call was refused is nowhere, except
// for the record of a boot that was tried.
func (a *audit) checkGhosts(acks []Ack) {
	type place struct {
		zone string
		model.BootID
	}
	maybe, failed := map[place]bool{}, map[place]bool{}
	for _, k := range acks {
		at := place{k.Zone, model.BootID{Project: k.Project, Reservation: k.Reservation}}
		if k.Kind == AckBoot && k.Outcome != Refused {
			maybe[at] = true
		}
		if k.Kind == AckBoot && slices.Contains(tried, k.Code) {
			failed[at] = true
		}
	}
	for _, k := range acks {
		at := place{k.Zone, model.BootID{Project: k.Project, Reservation: k.Reservation}}
		if k.Kind != AckBoot || k.Outcome != Refused || k.Reservation == "" || maybe[at] {
			continue
		}
		maybe[at] = true // reported once
		for _, f := range a.zones[k.Zone] {
			if b, ok := f.State.Boot(k.Project, k.Reservation); ok && (!failed[at] || !b.Final()) {
				a.addViolation(promise.Ghost, k.Zone, "node %s has reservation %s, which was refused, as %s", f.Node, k.Reservation, b.State())
			}
		}
		for _, f := range a.where[at.BootID] {
			a.addViolation(promise.Ghost, f.Zone, "there are instances of reservation %s, which was refused in %s", k.Reservation, k.Zone)
		}
	}
}

// checkStuck lists the unfinished operations of a zone.
func (a *audit) checkStuck(f Final) {
	for _, b := range f.State.UndecidedBoots() {
		a.addViolation(promise.Progress, f.Zone, "reservation %s is not decided", b.Request.Reservation)
	}
	for _, h := range f.State.PreparedHolds() {
		a.addViolation(promise.Progress, f.Zone, "hold %s of a parent is not decided", h.ID)
	}
	for _, h := range f.State.UntoldHolds() {
		a.addViolation(promise.Progress, f.Zone, "hold %s is decided, and a child has not said that it knows", h.ID)
	}
	for _, i := range f.State.UnendedInstances() {
		a.addViolation(promise.Progress, f.Zone, "instance %s should end, and its zone does not know", i.ID)
	}
	for _, i := range instancesOf(f.State) {
		if i.Status == api.StatusBuild || i.Status == api.StatusDeleting {
			a.addViolation(promise.Progress, f.Zone, "instance %s of reservation %s is still %s", i.ID, i.Reservation, i.Status)
		}
	}
}

// checkSagas checks that every boot of a project has reached an outcome, with at least
// min_count instances decided, or with none.
func (a *audit) checkSagas(f Final, p api.ProjectID) {
	const page = 1000
	for marker := ""; ; {
		boots := f.State.BootsPage(p, state.Page{Marker: marker, Limit: page})
		for _, b := range boots {
			a.checkSaga(f, b)
			marker = string(b.Request.Reservation)
		}
		if len(boots) < page {
			return
		}
	}
}

func (a *audit) checkSaga(f Final, b *state.Boot) {
	a.sum.Boots++
	r, c := b.Request.Reservation, b.Counts
	decided := c.Live() + c.Deleted
	switch {
	case b.Request.Reserves && b.State() == api.BootBuilding && b.Request.Window.Start > f.State.Now(): // the room of a lease that begins later
	case !b.State().Outcome() && b.Queued == 0:
		a.addViolation(promise.Progress, f.Zone, "reservation %s is stuck at %s", r, b.State())
	case b.Decision == api.DecisionCommit && decided < b.Min:
		a.addViolation(promise.Saga, f.Zone, "reservation %s was committed with %d instances and needs %d", r, decided, b.Min)
	case b.Decision == api.DecisionAbort && decided > 0:
		a.addViolation(promise.Saga, f.Zone, "reservation %s was aborted and has made %d instances", r, decided)
	}
	if !b.Final() {
		a.sum.Whole++
		return
	}
	a.sum.Gone++
	for _, o := range a.where[model.BootID{Project: b.Request.Project, Reservation: r}] {
		a.addViolation(promise.Saga, o.Zone, "reservation %s is %s in %s, and instances of it are left here", r, b.State(), f.Zone)
	}
}

// checkDirectory checks a zone's directory of instances elsewhere: some zone owns each of
// them, and each that was created for a parent is known above.
func (a *audit) checkDirectory(f Final) {
	for _, i := range instancesOf(f.State) {
		o := a.owners[i.ID]
		switch {
		case i.Link == "" || i.Status == api.StatusError:
		case o == nil:
			a.addViolation(promise.Saga, f.Zone, "instance %s of reservation %s is %s here, and no zone owns it", i.ID, i.Reservation, i.Status)
		case o.Status != i.Status:
			a.addViolation(promise.Progress, f.Zone, "instance %s is %s here, and %s where it is", i.ID, i.Status, o.Status)
		}
		if i.Origin != "" && !a.knownAbove(f, i) {
			a.addViolation(promise.Saga, f.Zone, "instance %s of reservation %s was made for a parent, and no other zone knows of it", i.ID, i.Reservation)
		}
	}
}

// knownAbove reports whether another zone has a live directory entry of i. Where
// the parent is not among the zones, this is unknown.
func (a *audit) knownAbove(f Final, i *api.Instance) bool {
	parent, ok := f.State.Link(i.Origin)
	if !ok {
		return false
	}
	there := false
	for _, o := range a.order {
		if o.State.Zone != parent.Zone {
			continue
		}
		there = true
		if e, known := o.State.Instance(i.ID); known && e.Live() && e.Link != "" {
			return true
		}
	}
	return !there
}
