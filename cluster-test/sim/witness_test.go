package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/cluster-test/check"
	"berth/internal/await"
	"berth/node"
	"berth/raftstore/state"
)

// witness sees, by the true time, when the slots of a zone had their room. It reads each state as
// soon as any node of the zone has it.
type witness struct {
	mu     sync.Mutex // guards what follows
	index  uint64
	slots  check.Slots
	within map[api.InstanceID][]api.InstanceID // the slots that an instance was in: an update of a lease replaces them
}

func newWitness() *witness {
	return &witness{
		slots:  check.Slots{Units: func(i *api.Instance) int { return int(i.Resources[api.VCPU]) }},
		within: map[api.InstanceID][]api.InstanceID{},
	}
}

// follow reads what a node knows until ctx ends.
func (o *witness) follow(ctx context.Context, n *node.Node) {
	for v, err := n.Store().Wait(ctx, 0); err == nil; v, err = n.Store().Wait(ctx, v.Index()) {
		o.note(v)
	}
}

func (o *witness) note(v *state.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v.Index() <= o.index {
		return
	}
	o.index = v.Index()
	o.slots.Note(v, api.InstantOf(time.Now()))
	for _, h := range v.AllHosts() {
		for _, i := range v.OnHost(h.ID) {
			if was := o.within[i.ID]; i.Within != "" && !slices.Contains(was, i.Within) {
				o.within[i.ID] = append(was, i.Within)
			}
		}
	}
}

// saw returns when slots had their room, and in which of them an instance was.
func (o *witness) saw() ([]check.Span, map[api.InstanceID][]api.InstanceID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots.Spans(), maps.Clone(o.within)
}

// stay is a time in which an instance really ran on a host.
type stay struct {
	id          api.InstanceID
	host        api.HostID
	cpus        int
	from, until api.Instant
}

// stays returns what ran when, what still runs included.
func (b *books) stays() []stay {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.Clone(b.past)
	for id, r := range b.runs {
		out = append(out, r.stay(id, api.Forever))
	}
	return out
}

func (r running) stay(id api.InstanceID, until api.Instant) stay {
	return stay{id, r.host, int(r.need[api.VCPU]), r.since, until}
}

// ever returns every instance that the zone knows of, those that are gone included.
func ever(v *state.State) []*api.Instance {
	return v.InstancesPage(state.InstanceQuery{Deleted: true, Page: state.Page{Limit: api.CountMax}})
}

// ends returns when agents saw that instances had ended by themselves, as those do that are asked to.
func (w *world) ends() map[api.InstanceID][]api.Instant {
	out := map[api.InstanceID][]api.Instant{}
	for _, z := range w.zones {
		for _, c := range z.crews {
			for _, l := range c.journal().Lines {
				if l.Event == "ended" {
					out[l.Instance] = append(out[l.Instance], api.InstantOf(l.At))
				}
			}
		}
	}
	return out
}

// lines names, for each instance that is booted again if it must leave, its boot, and its name there: what has one line is one instance in the eyes of its owner.
func (w *world) lines() map[api.InstanceID]string {
	out := map[api.InstanceID]string{}
	for _, z := range w.zones {
		v := z.view()
		for _, i := range ever(v) {
			if i.Origin == "" && i.OnPreempt == api.PreemptRequeue {
				out[i.ID] = fmt.Sprintf("line %s %s %s", z.name, i.Reservation, i.Name)
			}
		}
	}
	return out
}

// checkRooms holds that no host ever had more in use than it has, room of begun slots of leases
// included, that no slot had, and that what is booted again never ran twice at a time.
func (w *world) checkRooms() {
	w.t.Helper()
	var slots []check.Span
	within := map[api.InstanceID][]api.InstanceID{}
	for _, z := range w.zones {
		spans, in := z.witness.saw()
		slots = append(slots, spans...)
		maps.Copy(within, in)
	}
	slices.SortFunc(slots, func(a, b check.Span) int { return cmp.Compare(a.From, b.From) })
	spans, lines := slices.Clone(slots), w.lines()
	ends := w.ends()
	for _, s := range w.books.stays() {
		for _, at := range ends[s.id] { // what is left of it may be removed much later
			if at >= s.from {
				s.until = min(s.until, at)
			}
		}
		own := check.Span{What: "instance " + string(s.id), Room: check.Room(s.host), Units: s.cpus, From: s.from, Until: s.until}
		if line, ok := lines[s.id]; ok {
			again := own
			again.Room, again.Units = line, 1
			spans = append(spans, again)
		}
		for _, o := range slots { // it is in the room of a slot as long as that has any
			if o.Room == own.Room && slices.Contains(within[s.id], api.InstanceID(strings.TrimPrefix(o.What, "slot "))) && o.Until > own.From {
				inside := own
				inside.Room, inside.Until = o.What, min(own.Until, o.Until)
				own.From = max(own.From, o.Until)
				spans = append(spans, inside)
			}
		}
		spans = append(spans, own)
	}
	for _, o := range check.Overlaps(spans, func(room string) int {
		if strings.HasPrefix(room, "line ") {
			return 1
		}
		if n := slices.IndexFunc(slots, func(s check.Span) bool { return s.What == room }); n >= 0 {
			return slots[n].Units
		}
		return int(shape[api.VCPU].Capacity())
	}) {
		w.fail("%s", o)
	}
	w.count(slots)
	w.holds()
}

// count counts what happened to preemptible instances.
func (w *world) count(slots []check.Span) {
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	w.tally.ops["slots begun"] += len(slots)
	for _, z := range w.zones {
		v := z.view()
		for _, i := range ever(v) {
			if i.Eviction != nil && i.Host != "" {
				w.tally.ops["evictions"]++
			}
			if i.Within != "" && i.Class == api.Preemptible {
				w.tally.ops["lent"]++
			}
		}
		for _, b := range z.boots() {
			w.tally.ops["refills"] += b.Refills
		}
	}
}

// awaitRequeued makes room until every preempted instance that is to be booted again is, and
// holds that each runs now unless its owner has ended it. No lease is left.
func (w *world) awaitRequeued() {
	w.t.Helper()
	for _, z := range w.zones {
		for began := time.Now(); z.view().CountRequeued() > 0; await.Sleep(5 * time.Second) {
			if time.Since(began) > 2*api.RequeuePauseMax && !z.makeRoom() && !z.endSurvivors() && !z.isAhead() {
				w.fail("zone %s: preempted instances are not booted again, though everything else is gone: %s", z.name, z.describeRequeued())
				break
			}
		}
	}
	w.settle()
	for _, z := range w.zones {
		z.checkRequeued()
	}
	w.holds()
}

// describeRequeued says which preempted instances wait, for what, and where there is room.
func (z *zone) describeRequeued() string {
	var out strings.Builder
	v := z.view()
	for _, b := range z.boots() {
		if r, waits := v.Requeued(project, b.Request.Reservation); waits {
			terms := v.RequeueTerms(r)
			fmt.Fprintf(&out, "%+v of at least %d of %+v; ", *r, terms.Min, terms.Request)
		}
	}
	for _, h := range v.AllHosts() {
		fmt.Fprintf(&out, "host %s %s", h.Name, h.State)
		for _, i := range v.OnHost(h.ID) {
			fmt.Fprintf(&out, ", has %s of %s, %s, waits: %t, within %q", i.ID, i.Reservation, i.Status, i.Waits, i.Within)
		}
		out.WriteString("; ")
	}
	return out.String()
}

// endSurvivors ends what still runs of the boots that wait, here and in the zones above: it has room, and binds the others by its rules and
// its zones. It returns false if there is none.
func (z *zone) endSurvivors() bool {
	for o := z; o != nil; o = o.parent {
		v, ended := o.view(), false
		for _, b := range o.boots() {
			if _, waits := v.Requeued(project, b.Request.Reservation); !waits || b.Ended {
				continue
			}
			for _, i := range v.OfReservation(project, b.Request.Reservation) {
				if i.Origin == "" && i.Live() && i.Status != api.StatusDeleting {
					o.insist("end", func(ctx context.Context, c *client.Client) error {
						err := c.DeleteServer(ctx, i.ID)
						if api.CodeOf(err) == api.CodeNotFound {
							return nil
						}
						return err
					})
					ended = true
				}
			}
		}
		if ended {
			return true
		}
	}
	return false
}

// isAhead reports whether the time of the zone's log is ahead of the true one, and stands still until
// that has caught up: a node whose clock was wrong when it started has led.
func (z *zone) isAhead() bool { return z.view().Now() > api.InstantOf(time.Now()) }

// makeRoom releases a boot whose instances do not wait, here or in the zones above, the firm ones
// first. It returns false if there is none.
func (z *zone) makeRoom() bool {
	for o := z; o != nil; o = o.parent {
		v := o.view()
		boots := slices.DeleteFunc(o.boots(), func(b *state.Boot) bool {
			_, waits := v.Requeued(project, b.Request.Reservation)
			return waits || b.Final() || b.Counts.Live() == 0
		})
		if len(boots) > 0 {
			slices.SortStableFunc(boots, func(a, b *state.Boot) int { return strings.Compare(string(a.Request.Class), string(b.Request.Class)) })
			o.giveBack(boots[0].Request.Reservation)
			return true
		}
	}
	return false
}

// checkRequeued holds that whatever was preempted, was to be booted again, and was not ended by its
// owner runs again.
func (z *zone) checkRequeued() {
	v := z.view()
	last := map[string]*api.Instance{}
	for _, i := range ever(v) {
		if i.Origin != "" || i.OnPreempt != api.PreemptRequeue {
			continue
		}
		line := fmt.Sprint(i.Reservation, " ", i.Name)
		if o := last[line]; o == nil || o.Created < i.Created {
			last[line] = i
		}
	}
	for line, i := range last {
		b, ok := v.Boot(project, i.Reservation)
		if i.Live() || i.Eviction == nil || i.Eviction.Stays != "" || !ok || b.Ended || i.Window.End <= v.Now() {
			continue
		}
		z.w.fail("zone %s: instance %s, %s, was preempted, and is not booted again", z.name, i.ID, line)
	}
}

// giveBack releases a boot, and insists.
func (z *zone) giveBack(r api.ReservationID) {
	z.w.t.Helper()
	z.insist("release", func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, r, 0)
		return err
	})
}
