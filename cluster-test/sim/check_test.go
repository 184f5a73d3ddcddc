package sim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/await"
	"berth/raftstore/state"
)

// glance holds what must hold at every moment, on whatever leaders know just now.
func (w *world) glance() {
	for _, z := range w.zones {
		for _, p := range z.nodes {
			if n := p.running(); n != nil {
				z.checkRoom(n.Store().View())
				z.checkRules(n.Store().View())
			}
		}
		z.checkViews()
	}
	w.promises()
}

// checkRoom holds that what instances, holds and consumers take is what the host
// table says of each provider, and no more than there is beside what waits until
// preemptible instances have left.
func (z *zone) checkRoom(v *state.State) {
	taken, waiting := map[api.ProviderID]api.Resources{}, map[api.ProviderID]api.Resources{}
	takers := map[api.ProviderID][]string{}
	waits, who := false, "" // what is added, and for whom
	add := func(id api.ProviderID, r api.Resources) {
		takers[id] = append(takers[id], fmt.Sprintf("%s takes %v, waits: %t", who, r, waits))
		if taken[id] == nil {
			taken[id], waiting[id] = api.Resources{}, api.Resources{}
		}
		for c, n := range r {
			if taken[id][c] += n; waits {
				waiting[id][c] += n
			}
		}
	}
	place := func(on api.HostID, r api.Resources, shares []api.Share, kept ...api.Share) {
		own := maps.Clone(r)
		for _, sh := range shares {
			if !slices.ContainsFunc(kept, sh.Equal) {
				add(sh.Provider, sh.Resources)
			}
			for c := range sh.Resources {
				delete(own, c)
			}
		}
		add(on, own)
	}
	for _, h := range v.AllHosts() {
		for _, i := range v.OnHost(h.ID) {
			if i.Window.End <= v.Now() && !i.Overdue || i.Within != "" {
				continue // it has no claim any more, and is being ended, or it is in the room of a lease
			}
			waits, who = i.Waits, fmt.Sprintf("instance %s of %s, %s until %v, overdue: %t, from %q", i.ID, i.Reservation, i.Status, i.Window, i.Overdue, i.Link)
			place(h.ID, i.Resources, i.Shares)
			if i.Target != "" { // it has room at both ends of its way
				place(i.Target, i.Resources, i.TargetShares, i.Kept()...)
			}
		}
	}
	for _, h := range v.AllHosts() {
		for _, i := range v.SlotsOn(h.ID) {
			who = fmt.Sprintf("slot %s of %s, %s in %v, overdue: %t", i.ID, i.Reservation, i.Status, i.Window, i.Overdue)
			if waits = i.Status == api.StatusBuild; i.Overdue || i.Window.Contains(v.Now()) {
				place(h.ID, i.Resources, i.Shares)
			}
		}
	}
	for _, h := range v.Holds() {
		if h.Decision != api.DecisionPending || !h.Window.Contains(v.Now()) {
			continue // decided, or its time has passed while it waited, or has not come
		}
		waits = h.Request.Preempt || h.Request.Reserves
		who = fmt.Sprintf("hold %s in %v, preempts: %t, reserves: %t", h.ID, h.Window, h.Request.Preempt, h.Request.Reserves)
		for n, s := range h.Slots {
			switch all := slotOf(h, n); {
			case s.Within != "": // it is in the room of a lease
			case s.Keeps != "":
				old, _ := v.Instance(s.Keeps)
				place(s.Host, beyond(all, old, v.Now()), sharesOf(h, n))
			default:
				place(s.Host, all, sharesOf(h, n))
			}
		}
	}
	waits = false
	for _, c := range v.Consumers() {
		who = fmt.Sprint("consumer ", c.ID)
		for _, sh := range c.Shares {
			add(sh.Provider, sh.Resources)
		}
	}
	for _, p := range v.Providers() {
		if want := taken[p.ID]; !p.Used.Equal(want) && len(p.Used)+len(want) > 0 {
			z.w.fail("zone %s, provider %s, index %d: used %v, and all who draw from it take %v", z.name, p.Name, v.Index(), p.Used, want)
		}
		for c, n := range taken[p.ID] {
			if inv := p.Inventory[c]; n-waiting[p.ID][c] > inv.Capacity() {
				z.w.fail("zone %s, provider %s, index %d: %d of %s are taken, of %d: at %v %s", z.name, p.Name, v.Index(), n, c, inv.Capacity(), v.Now(), strings.Join(takers[p.ID], "; "))
			}
		}
	}
}

// slotOf returns what a slot of a hold takes.
func slotOf(h *state.Hold, slot int) api.Resources {
	if s := h.Slots[slot]; s.Whole != nil {
		return s.Whole
	}
	return h.Request.Groups[h.Slots[slot].Group].Resources
}

// beyond returns what a slot takes beyond the one that it takes over, now.
func beyond(all api.Resources, old *api.Instance, now api.Instant) api.Resources {
	if old == nil || !old.Window.Contains(now) {
		return all
	}
	out := api.Resources{}
	for c, n := range all {
		if more := n - old.Resources[c]; more > 0 {
			out[c] = more
		}
	}
	return out
}

// sharesOf returns what others than its host give a slot.
func sharesOf(h *state.Hold, slot int) []api.Share {
	if h.Shares == nil {
		return nil
	}
	return h.Shares[slot]
}

// settle waits until no zone has anything left to do, and all agree.
func (w *world) settle() {
	w.t.Helper()
	var why string
	for began := time.Now(); time.Since(began) < patience; await.Sleep(time.Second) {
		w.glance()
		w.holds()
		if why = w.restless(); why == "" {
			return
		}
	}
	require.Fail(w.t, "the federation does not come to rest", why)
}

// restless says what is left to do, "" for nothing.
func (w *world) restless() string {
	for _, z := range w.zones {
		if z.lost {
			continue
		}
		p := z.leader()
		if p == nil {
			return "zone " + z.name + " has no leader"
		}
		v := p.node.Store().View()
		if why := busy(v); why != "" {
			return "zone " + z.name + ": " + why
		}
		if n := len(v.Expired(p.node.Zone().Stamp().At)); n > 0 {
			return fmt.Sprintf("zone %s: %d instances live longer than they may", z.name, n)
		}
		if !z.even() {
			return "zone " + z.name + ": nodes are not level"
		}
		if id, ok := z.fenced(v); ok {
			return fmt.Sprintf("zone %s: instance %s was ended by its fence, and is not started again", z.name, id)
		}
		if !z.agrees() {
			return "zone " + z.name + ": a child says otherwise"
		}
	}
	return ""
}

func busy(v *state.State) string {
	n := v.CountByStatus()
	for _, vol := range volumesOf(v) {
		n[vol.Status]++
	}
	for _, left := range []struct {
		what string
		n    int
	}{
		{"undecided boots", len(v.UndecidedBoots())},
		{"untold holds", len(v.UntoldHolds())},
		{"undecided holds", len(v.PreparedHolds())},
		{"unended instances", len(v.UnendedInstances())},
		{"building", n[api.StatusBuild]},
		{"deleting", n[api.StatusDeleting]},
	} {
		if left.n > 0 {
			return fmt.Sprint(left.n, " ", left.what)
		}
	}
	for _, h := range v.AllHosts() {
		if h.State != api.HostUp {
			return "host " + h.Name + " is " + string(h.State)
		}
		if slices.ContainsFunc(v.OnHost(h.ID), func(i *api.Instance) bool { return i.Target != "" }) {
			return "something moves away from host " + h.Name
		}
	}
	return ""
}

// fenced returns an instance that should run and whose fence has struck: no zone has
// to know of that.
func (z *zone) fenced(v *state.State) (api.InstanceID, bool) {
	for _, i := range all(v) {
		if i.Host != "" && (i.Movable || i.Class == api.Preemptible) && i.Status == api.StatusActive {
			if _, runs := z.w.books.at(i.ID); !runs {
				return i.ID, true
			}
		}
	}
	return "", false
}

// even reports whether all nodes of the zone have applied the same.
func (z *zone) even() bool {
	at := z.view().Index()
	for _, p := range z.nodes {
		if n := p.running(); n == nil || n.Store().View().Index() != at {
			return false
		}
	}
	return true
}

// agrees reports whether the zone knows of its children's instances what they do.
func (z *zone) agrees() bool {
	for _, i := range all(z.view()) {
		if i.Link == "" || !i.Live() {
			continue
		}
		below := z.at(i.Link)
		if below.lost {
			continue
		}
		there, ok := below.view().Instance(i.ID)
		if !ok || there.Status != i.Status || there.Attached != i.Attached {
			return false
		}
	}
	return true
}

// at returns the zone at the other end of a link.
func (z *zone) at(id api.LinkID) *zone {
	l, _ := z.view().Link(id)
	return z.w.zones[slices.IndexFunc(z.w.zones, func(o *zone) bool { return o.id == l.Zone })]
}

// boots returns every boot that was made in the zone; leases have orders of their own.
func (z *zone) boots() []*state.Boot {
	return slices.DeleteFunc(z.view().BootsPage(project, state.Page{Limit: api.PageMax}), func(b *state.Boot) bool { return b.Request.Reserves })
}

// all returns the instances that a zone knows, and the volumes.
func all(v *state.State) []*api.Instance {
	return append(v.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}}), volumesOf(v)...)
}

// check holds what must hold of a federation at rest.
func (w *world) check() {
	w.t.Helper()
	w.glance()
	owner := map[api.InstanceID]string{}
	for _, z := range w.zones {
		if z.lost {
			continue
		}
		z.checkNodes()
		v := z.view()
		for _, i := range all(v) {
			z.checkInstance(i, owner)
		}
		z.checkBoots(v)
		z.checkTogether(v)
		z.checkVolumes()
	}
	w.holds()
}

// checkNodes holds that all nodes of a zone have the same state, byte by byte.
func (z *zone) checkNodes() {
	z.w.t.Helper()
	var first []byte
	for i, p := range z.nodes {
		var b bytes.Buffer
		v := p.node.Store().View()
		require.NoError(z.w.t, v.Save(&b))
		if i == 0 {
			first = b.Bytes()
			continue
		}
		if v.Index() == z.nodes[0].node.Store().View().Index() && !bytes.Equal(first, b.Bytes()) {
			z.w.fail("zone %s: nodes differ at index %d", z.name, v.Index())
		}
	}
}

// checkInstance holds that an instance lives in one place, that it is known above
// and below, and that what is said of it is so.
func (z *zone) checkInstance(i *api.Instance, owner map[api.InstanceID]string) {
	w := z.w
	if i.Host != "" {
		if owner[i.ID] != "" {
			w.fail("instance %s lives in %s and in %s", i.ID, owner[i.ID], z.name)
		}
		owner[i.ID] = z.name
		at, runs := w.books.at(i.ID)
		if i.Status == api.StatusActive && (!runs || at != i.Host) {
			w.fail("zone %s: instance %s is said to run on %s; it runs: %v, on %q", z.name, i.ID, i.Host, runs, at)
		}
		if !i.Live() && runs {
			w.fail("zone %s: instance %s is said to be gone, and runs on %s", z.name, i.ID, at)
		}
	}
	if i.Link != "" && i.Live() {
		if below := z.at(i.Link); !below.lost {
			there, ok := below.view().Instance(i.ID)
			if !ok || there.Status != i.Status {
				w.fail("zone %s: instance %s is %s, and below it is otherwise", z.name, i.ID, i.Status)
			}
		}
	}
	if i.Origin != "" {
		if above := z.at(i.Origin); !above.lost && i.Live() {
			there, ok := above.view().Instance(i.ID)
			if !ok || !there.Live() {
				w.fail("zone %s: nobody above knows instance %s", z.name, i.ID)
			}
		}
		return
	}
	if b, ok := z.view().Boot(i.Project, i.Reservation); !ok || b.Decision != api.DecisionCommit && i.Live() {
		w.fail("zone %s: instance %s was not decided", z.name, i.ID)
	}
}

// checkBoots holds that every acknowledged boot is there, and that every boot is
// whole or nothing.
func (z *zone) checkBoots(v *state.State) {
	for _, r := range z.acknowledged().booted {
		if b, ok := v.Boot(project, r); !ok || !b.State().Outcome() && b.Queued == 0 {
			z.w.fail("zone %s: boot %s was acknowledged; found: %v", z.name, r, ok)
		}
	}
	for _, b := range v.BootsPage(project, state.Page{Limit: api.PageMax}) {
		if b.Request.Reserves {
			continue
		}
		made := v.OfReservation(project, b.Request.Reservation)
		live := 0
		for _, i := range made {
			if i.Live() {
				live++
			}
		}
		res := b.Request.Reservation
		switch b.State() {
		case api.BootActive, api.BootDegraded, api.BootError:
			z.checkGroups(b, made)
			if len(made) < b.Min || b.Refills == 0 && len(made) > b.Request.Count() || live > b.Request.Count() || live != b.Counts.Live() {
				z.w.fail("zone %s: boot %s made %d of %d to %d", z.name, res, len(made), b.Min, b.Request.Count())
			}
		case api.BootFailed, api.BootReleased:
			if live > 0 {
				z.w.fail("zone %s: boot %s is %s and left %d instances", z.name, res, b.State(), live)
			}
		default:
			if b.Queued == 0 || b.Counts.Build > 0 || live+b.Queued > b.Request.Count() {
				z.w.fail("zone %s: boot %s is %s", z.name, res, b.State())
			}
		}
	}
}

// checkGroups holds that no group of a boot is smaller than it may be.
func (z *zone) checkGroups(b *state.Boot, made []*api.Instance) {
	n := map[string]int{}
	for _, i := range made {
		n[i.Group]++
	}
	for _, g := range b.Request.Groups {
		if n[g.Name] < g.Min {
			z.w.fail("zone %s: boot %s made %d of group %s, and at least %d must be", z.name, b.Request.Reservation, n[g.Name], g.Name, g.Min)
		}
	}
}

// project is that of the admin, who makes every call.
const project = "admin"

// empty gives everything back, and holds that nothing is left anywhere.
func (w *world) empty() {
	w.t.Helper()
	for _, z := range w.zones {
		if z.lost {
			continue
		}
		for _, b := range z.boots() {
			if !b.Final() {
				z.insist("release", func(ctx context.Context, c *client.Client) error {
					_, err := c.Release(ctx, b.Request.Reservation, 0)
					return err
				})
			}
		}
	}
	w.settle()
	w.check()
	for _, z := range w.zones {
		if z.lost {
			continue
		}
		for _, h := range z.view().AllHosts() {
			full, _ := z.view().Host(h.ID)
			assert.Empty(w.t, full.Used, "zone %s, host %s", z.name, h.Name)
		}
		if z.pool != "" {
			z.emptyPools()
		}
	}
	if !slices.ContainsFunc(w.zones, func(z *zone) bool { return z.lost }) {
		assert.Zero(w.t, w.books.count(), "instances still run: %s", strings.Join(w.books.names(), " "))
	}
}
