package check

import (
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/raftstore/state"
)

// listing has the instances and held slots that readers should return.
type listing struct {
	onHost  map[api.HostID][]api.InstanceID
	slots   map[api.HostID][]api.InstanceID // of leases
	coming  map[api.HostID]int              // that move there
	ofBoot  map[model.BootID][]api.InstanceID
	ofOwner map[api.ProjectID][]api.InstanceID // projects of this zone
	volumes map[api.ProjectID][]api.InstanceID
	tenants map[api.Tenant]map[api.HostID]int
	over    []api.InstanceID // past their window, and not yet asked to end
	next    api.Instant      // when the next one is over
}

func (r *replay) buildListing() *listing {
	l := &listing{
		onHost: map[api.HostID][]api.InstanceID{}, slots: map[api.HostID][]api.InstanceID{}, coming: map[api.HostID]int{}, ofBoot: map[model.BootID][]api.InstanceID{},
		ofOwner: map[api.ProjectID][]api.InstanceID{}, volumes: map[api.ProjectID][]api.InstanceID{}, tenants: map[api.Tenant]map[api.HostID]int{}, next: api.Forever,
	}
	for _, id := range slices.Sorted(maps.Keys(r.m.Instances)) {
		if i := r.m.Instances[id]; i.Live() {
			l.add(r.m, id, i)
		}
	}
	for _, h := range r.m.Holds {
		if h.Decision == api.DecisionPending {
			for _, c := range h.Slots {
				l.occupy(tenantOf(h), c.Host)
			}
		}
	}
	return l
}

func tenantOf(h *model.Hold) api.Tenant {
	return api.Tenant{Origin: h.ID.Origin, Project: h.Request.Project}
}

func (l *listing) occupy(t api.Tenant, on api.HostID) {
	if l.tenants[t] == nil {
		l.tenants[t] = map[api.HostID]int{}
	}
	l.tenants[t][on]++
}

func (l *listing) add(m *model.Model, id api.InstanceID, i *model.Instance) {
	t := tenantOf(i.Hold)
	switch {
	case t.Origin != "" || i.Reserved():
	case i.Volume() != "":
		l.volumes[t.Project] = append(l.volumes[t.Project], id)
	default:
		boot := model.BootID{Project: t.Project, Reservation: i.Hold.Request.Reservation}
		l.ofBoot[boot] = append(l.ofBoot[boot], id)
		l.ofOwner[t.Project] = append(l.ofOwner[t.Project], id)
	}
	if i.Host == "" {
		return
	}
	if i.Reserved() {
		l.slots[i.Host] = append(l.slots[i.Host], id)
	} else {
		l.onHost[i.Host] = append(l.onHost[i.Host], id)
	}
	l.occupy(t, i.Host)
	if i.Target != "" {
		l.coming[i.Target]++
		l.occupy(t, i.Target)
	}
	end := m.Claims[id].End
	if i.Status == api.StatusDeleting || end == api.Forever {
		return
	}
	if l.next = min(l.next, end); end <= m.Now {
		l.over = append(l.over, id)
	}
}

func idsOf(all []*api.Instance) (out []api.InstanceID) {
	for _, i := range all {
		out = append(out, i.ID)
	}
	return out
}

// compareReaders compares the lists and sums of readers.
func (r *replay) compareReaders(index uint64) {
	l := r.buildListing()
	for id, h := range r.m.Hosts {
		if !h.Passive {
			r.compareOnHost(index, l, id)
		}
	}
	page := state.Page{Limit: len(r.m.Instances) + 1}
	for p, want := range l.ofOwner {
		if got := idsOf(r.s.InstancesPage(state.InstanceQuery{Project: p, Page: page})); !slices.Equal(got, want) {
			r.addViolation(promise.Model, index, "project %s lists %v, not %v", p, got, want)
		}
	}
	for p, want := range l.volumes {
		if got := idsOf(r.s.InstancesPage(state.InstanceQuery{Project: p, Volumes: true, Page: page})); !slices.Equal(got, want) {
			r.addViolation(promise.Volume, index, "project %s lists the volumes %v, not %v", p, got, want)
		}
	}
	for id, b := range r.m.Boots {
		r.heldSlots(index, b)
		if id.Refill > 0 {
			continue // what it makes is listed with its boot
		}
		if got := idsOf(r.s.InstancesPage(state.InstanceQuery{Project: id.Project, Reservation: id.Reservation, Page: page})); !slices.Equal(got, l.ofBoot[id]) {
			r.addViolation(promise.Model, index, "boot %s lists %v, not %v", id.Reservation, got, l.ofBoot[id])
		}
	}
	for t, want := range l.tenants {
		if got := maps.Collect(r.s.Tenancy(t)); !maps.Equal(got, want) {
			r.addViolation(promise.Bound, index, "%v is on %v, not on %v", t, got, want)
		}
	}
	got := idsOf(r.s.Expired(r.m.Now))
	if slices.Sort(got); !slices.Equal(got, l.over) {
		r.addViolation(promise.Model, index, "%v are listed as over, not %v", got, l.over)
	}
	if next := r.s.NextExpiry(); next != l.next {
		r.addViolation(promise.Model, index, "the next window is over at %v, not at %v", next, l.next)
	}
	for id, i := range r.m.Instances {
		r.comparePlace(index, id, i)
	}
	r.compareUnfinished(index)
	r.compareAllocations(index)
}

// compareOnHost compares what is on a host.
func (r *replay) compareOnHost(index uint64, l *listing, id api.HostID) {
	if got := idsOf(r.s.OnHost(id)); !slices.Equal(got, l.onHost[id]) {
		r.addViolation(promise.Model, index, "host %s lists %v, not %v", id, got, l.onHost[id])
	}
	if got := idsOf(r.s.SlotsOn(id)); !slices.Equal(got, l.slots[id]) {
		r.addViolation(promise.Lease, index, "host %s lists the slots %v, not %v", id, got, l.slots[id])
	}
	if got, _ := r.s.Host(id); got != nil && got.Instances != len(l.onHost[id])+len(l.slots[id])+l.coming[id] {
		r.addViolation(promise.Model, index, "host %s counts %d instances, not %d, %d slots and %d that move there", id, got.Instances,
			len(l.onHost[id]), len(l.slots[id]), l.coming[id])
	}
}

// heldSlots compares the instances that a commit of a boot would make, and whether it may be
// committed.
func (r *replay) heldSlots(index uint64, b *model.Boot) {
	got, ok := recordOf(r.s, b.ID)
	if !ok {
		return
	}
	want := b.Has()
	if held := r.s.HeldSlots(got); !slices.EqualFunc(held, want, maps.Equal) {
		r.addViolation(promise.Saga, index, "boot %s holds %v, not %v", b.ID.Reservation, held, want)
	}
	if text := r.s.DescribeShortfall(got); (text == "") != (r.m.DescribeShortfall(b) == "") {
		r.addViolation(promise.Saga, index, "boot %s lacks %q, not %q", b.ID.Reservation, text, r.m.DescribeShortfall(b))
	}
}

// comparePlace compares the place of an instance as shown to its tenant, and checks that no
// other tenant sees it.
func (r *replay) comparePlace(index uint64, id api.InstanceID, i *model.Instance) {
	owner := tenantOf(i.Hold)
	for _, t := range []api.Tenant{owner, {Origin: owner.Origin + "x", Project: owner.Project}, {Origin: owner.Origin, Project: owner.Project + "x"}} {
		theirs := i.Live() && t == owner
		host, here := r.s.HostOf(t, id)
		link, own, known := r.s.PlaceOf(t, id)
		switch {
		case known != theirs || here != (theirs && i.Host != "") || own != here:
			r.addViolation(promise.Model, index, "instance %s is known to %v: %v, and here: %v", id, t, known, here)
		case theirs && (host != i.Host || link != i.Link):
			r.addViolation(promise.Model, index, "instance %s is on %q, link %q", id, host, link)
		}
	}
}

// compareUnfinished compares the work lists of a leader.
func (r *replay) compareUnfinished(index uint64) {
	untold, prepared := 0, 0
	for _, h := range r.m.Holds {
		if h.Untold() {
			untold++
		}
		if h.ID.Origin != "" && h.Decision == api.DecisionPending {
			prepared++
		}
	}
	if n := len(r.s.UntoldHolds()); n != untold {
		r.addViolation(promise.Saga, index, "%d holds are listed of which a child must be told, not %d", n, untold)
	}
	if n := len(r.s.PreparedHolds()); n != prepared {
		r.addViolation(promise.Saga, index, "%d holds of a parent are listed, not %d", n, prepared)
	}
}

// compareAllocations compares the present allocations of each provider, and the usages of
// projects.
func (r *replay) compareAllocations(index uint64) {
	usage := map[api.ProjectID]map[string]api.Resources{}
	for id, h := range r.m.Hosts {
		want := h.UsedBy(r.m.Now)
		r.allocationsOn(index, id, want)
		for who, amounts := range want {
			if p, kind := r.m.UserOf(who); p != "" {
				addUsage(usage, p, kind, amounts)
			}
		}
	}
	for p, want := range usage {
		got := map[string]api.Resources{}
		for _, u := range r.s.Usages(p, nil) {
			got[u.Type] = u.Resources
		}
		if !maps.EqualFunc(got, want, api.Resources.Equal) {
			r.addViolation(promise.Model, index, "project %s uses %v, not %v", p, got, want)
		}
	}
}

func addUsage(to map[api.ProjectID]map[string]api.Resources, p api.ProjectID, kind string, amounts api.Resources) {
	if to[p] == nil {
		to[p] = map[string]api.Resources{}
	}
	if to[p][kind] == nil {
		to[p][kind] = api.Resources{}
	}
	for class, n := range amounts {
		to[p][kind][class] += n
	}
}

func (r *replay) allocationsOn(index uint64, id api.ProviderID, want map[api.ConsumerID]api.Resources) {
	got := map[api.ConsumerID]api.Resources{}
	for _, a := range r.s.AllocationsOn(id) {
		got[a.Consumer] = a.Resources
		c, ok := r.s.Consumer(a.Consumer)
		if !ok || c.Generation != a.Generation || c.Instance != (r.m.Consumers[a.Consumer] == nil) {
			r.addViolation(promise.Model, index, "provider %s has an allocation of %s at generation %d, and that is %+v", id, a.Consumer, a.Generation, c)
		}
	}
	if !maps.EqualFunc(got, want, api.Resources.Equal) {
		r.addViolation(promise.Model, index, "provider %s has the allocations %v, not %v", id, got, want)
	}
}
