package estimate

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// leased is a zone with slots of a lease that has begun.
type leased struct {
	*memstore.Store
	t *testing.T
	z *zone.Zone
	e *Estimator
}

// newLeased returns a zone with two hosts, and a lease of one slot of four processors on each.
func newLeased(t *testing.T, lends bool) *leased {
	t.Helper()
	m := memstore.NewOfForm(api.FormNewest)
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	w := &leased{m, t, z, New(Config{Zone: z})}
	host := func(name string) command.HostEntry {
		return command.HostEntry{ID: api.HostID(name), Host: api.AgentHost{Name: name, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{
			api.VCPU: {Total: 8, MaxUnit: 6, AllocationRatio: 2 * api.RatioOne}, api.MemoryMB: {Total: 100, Reserved: 10, MaxUnit: 20},
		}}}
	}
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "own"}, command.HostsPut{Stamp: z.Stamp(), Agent: "a", Hosts: []command.HostEntry{host("h1"), host("h2")}})
	req := api.Request{
		Reservation: "order", Project: "p", User: "u", Class: api.Firm, Reserves: true, Window: api.Window{Start: z.Instant(), End: z.Instant().Add(time.Hour)},
		Groups: []api.Group{{Name: "res", Count: 2, Min: 2, Resources: api.Resources{api.VCPU: 4, api.MemoryMB: 10}, ShareIdle: lends}},
	}
	ids := []api.InstanceSpec{{ID: "s1", Name: "s1"}, {ID: "s2", Name: "s2"}}
	terms := api.LeaseTerms{ID: "lease", Project: "p", User: "u", Name: "l", Window: req.Window, Reservations: []api.Reservation{{
		ID: "res", Type: api.ReserveInstances, Min: 2, Max: 2, Resources: req.Groups[0].Resources, ShareIdle: lends,
	}}}
	m.Must(t, command.LeaseCreate{Stamp: z.Stamp(), Terms: terms, Order: &command.BootTerms{Digest: []byte("d"), Name: "lease", Request: req, Min: 2, Instances: ids}},
		command.Hold{Stamp: z.Stamp(), ID: "order", Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: ids[0], Host: "h1"}, {Instance: ids[1], Host: "h2"}}})
	return w
}

// put runs an instance of a class within the lease.
func (w *leased) put(id string, class api.Class, slot string, n int64) {
	w.t.Helper()
	req := w.request(1, n)
	req.Reservation, req.Class = api.ReservationID(id), class
	if class == api.Preemptible {
		req.Within = ""
	}
	i := []api.InstanceSpec{{ID: api.InstanceID(id), Name: id}}
	w.Must(w.t, command.BootCreate{Stamp: w.z.Stamp(), BootTerms: command.BootTerms{Digest: []byte(id), Name: id, Request: *req, Min: 1, Instances: i}},
		command.Hold{Stamp: w.z.Stamp(), ID: api.HoldID(id), Attempt: 1, Request: *req, Commit: true, Slots: []command.Slot{{Instance: i[0], Host: api.HostID(slot)}}})
	_, is := w.View().Instance(api.InstanceID(id))
	require.True(w.t, is)
}

// request asks for n instances of so many processors within the lease.
func (w *leased) request(n int, cpus int64) *api.Request {
	return &api.Request{
		Reservation: "b", Project: "p", User: "u", Class: api.Firm, Within: "res", Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: n, Min: n, Flavor: "f", Resources: api.Resources{api.VCPU: cpus, api.MemoryMB: 1}}},
	}
}

func rowOf(t *testing.T, v capacity.View, id string) map[api.ResourceClass]api.Inventory {
	t.Helper()
	row, ok := v.Row(api.HostID(id))
	require.True(t, ok, id)
	return v.Spec(row).Inventory
}

// TestTheInsideOfALease: each slot is a host with what it reserves, in the units of its host, less what runs in it.
func TestTheInsideOfALease(t *testing.T) {
	w := newLeased(t, false)
	v := w.View()
	slot, _ := v.Instance("s1")
	require.Equal(t, api.StatusActive, slot.Status)
	in := insideOf(v, w.request(1, 1))
	assert.Equal(t, 2, in.Len())
	got := rowOf(t, in, "s1")
	assert.Equal(t, api.Inventory{Total: 4}, trimmed(got[api.VCPU]), "no more than the slot has, and no ratio")
	assert.Equal(t, api.Inventory{Total: 10}, trimmed(got[api.MemoryMB]))
	offered := func(n int, cpus int64) map[api.HostID]int {
		p := w.e.planOwn(w.View(), w.request(n, cpus), nil, &bounds{})
		out := map[api.HostID]int{}
		for _, s := range p.Groups[0].Slots {
			out[s.Host]++
		}
		return out
	}
	assert.Equal(t, map[api.HostID]int{"s1": 1, "s2": 1}, offered(9, 4))
	sum := 0
	for _, n := range offered(9, 2) {
		sum += n
	}
	assert.Equal(t, 2*len(offered(9, 2)), sum, "two in each")
	w.put("one", api.Firm, "s1", 4)
	assert.Equal(t, map[api.HostID]int{"s2": 1}, offered(9, 4))
	assert.Zero(t, insideOf(w.View(), &api.Request{Project: "q", Within: "res"}).Len(), "of another project")
	gone, ok := specOf(w.View(), &api.Instance{Host: "none"})
	assert.False(t, ok)
	assert.Zero(t, gone.ID)
}

// trimmed returns an inventory without what a host table fills in.
func trimmed(i api.Inventory) api.Inventory {
	return api.Inventory{Total: i.Total, Reserved: i.Reserved, MaxUnit: i.MaxUnit}
}

// TestInventoriesOfSlots: what is reserved, with the units of the host; a largest amount above that is none.
func TestInventoriesOfSlots(t *testing.T) {
	host := map[api.ResourceClass]api.Inventory{
		api.VCPU: {Total: 99, Reserved: 3, MinUnit: 1, MaxUnit: 4, StepSize: 2, AllocationRatio: 5}, api.MemoryMB: {Total: 99, MaxUnit: 5}, api.DiskGB: {Total: 9},
	}
	assert.Equal(t, map[api.ResourceClass]api.Inventory{
		api.VCPU: {Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 2}, api.MemoryMB: {Total: 4},
	}, inventoryOf(api.Resources{api.VCPU: 4, api.MemoryMB: 4}, host))
}

// TestMembersInSlots: a rule counts what is on the host of a slot, and only where there is something.
func TestMembersInSlots(t *testing.T) {
	const group = api.ServerGroupID("5e5e5e5e-0000-4000-8000-000000000001")
	w := newLeased(t, false)
	req := *w.request(1, 1)
	req.Within, req.Rules = "", []api.Rule{{ID: group, Policy: api.AntiAffinity, Max: 5, Groups: []int{0}}}
	i := []api.InstanceSpec{{ID: "i", Name: "i"}}
	w.Must(t, command.GroupPut{Stamp: w.z.Stamp(), Group: api.ServerGroup{ID: group, Project: req.Project, Name: "g", Policy: api.AntiAffinity, Max: 5}},
		command.BootCreate{Stamp: w.z.Stamp(), BootTerms: command.BootTerms{Digest: []byte("i"), Name: "i", Request: req, Min: 1, Instances: i}},
		command.Hold{Stamp: w.z.Stamp(), ID: "i", Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: i[0], Host: "h2"}}})
	v := w.View()
	s1, _ := v.Instance("s1")
	s2, _ := v.Instance("s2")
	here, elsewhere := slotCensus{v, []*api.Instance{s1, s2}}.Members(req.Tenant(), string(group))
	assert.Equal(t, map[api.HostID]int{"s2": 1}, here)
	assert.Empty(t, elsewhere)
}

// TestIdleRoomThatIsLent: preemptibles that came out short get what owners lend, last, as long as they have no rules, and nobody
// else does.
func TestIdleRoomThatIsLent(t *testing.T) {
	w := newLeased(t, true)
	require.Len(t, w.View().LentSlots(), 2)
	soft := func(n int, edit func(*api.Request)) (own, lent int) {
		req := w.request(n, 4)
		req.Within, req.Class = "", api.Preemptible
		edit(req)
		p := w.e.planOwn(w.View(), req, nil, &bounds{})
		for at, s := range p.Groups[0].Slots {
			if s.Host == "s1" || s.Host == "s2" {
				lent++
			} else {
				own++
				assert.Zero(t, lent, "slot %d: what is lent comes last", at)
			}
		}
		return own, lent
	}
	same := func(*api.Request) {}
	own, lent := soft(99, same)
	assert.Positive(t, own)
	assert.Equal(t, 2, lent)
	_, lent = soft(own, same)
	assert.Zero(t, lent, "there is enough without it")
	_, lent = soft(own+1, same)
	assert.Equal(t, 1, lent)
	_, lent = soft(99, func(r *api.Request) { r.Class = api.Firm })
	assert.Zero(t, lent)
	_, lent = soft(99, func(r *api.Request) { r.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 99, Groups: []int{0}}} })
	assert.Zero(t, lent)
	w.put("guest", api.Preemptible, "s1", 4)
	_, lent = soft(99, same)
	assert.Equal(t, 1, lent)
	p := w.e.planOwn(w.View(), w.request(9, 4), nil, &bounds{})
	assert.Len(t, p.Groups[0].Slots, 2, "the owner comes first")
}

// TestSlotsThatMayBeKept: those of the order that is replaced, of the same project, on own hosts; those that have begun stay where they
// are, and those that end are no more.
func TestSlotsThatMayBeKept(t *testing.T) {
	w := newLeased(t, false)
	req := func(edit func(*api.Request)) *api.Request {
		r := &api.Request{Project: "p", Replaces: "order", Groups: []api.Group{{Name: "res"}, {Name: "other"}}}
		edit(r)
		return r
	}
	keeps := func(v *state.State, r *api.Request) [][]buildplan.Keep { return slotsToKeep(v, r) }
	got := keeps(w.View(), req(func(*api.Request) {}))
	require.Len(t, got[0], 2)
	assert.Empty(t, got[1])
	for _, k := range got[0] {
		assert.True(t, k.Fixed)
		assert.Contains(t, []api.HostID{"h1", "h2"}, k.Host)
		assert.Equal(t, int64(4), k.Claim.Resources[api.VCPU])
	}
	for name, edit := range map[string]func(*api.Request){
		"another project": func(r *api.Request) { r.Project = "q" }, "another order": func(r *api.Request) { r.Replaces = "x" }, "a parent": func(r *api.Request) { r.Origin = "up" },
	} {
		assert.Empty(t, keeps(w.View(), req(edit))[0], name)
	}
	w.Must(t, command.LeaseDelete{Stamp: w.z.Stamp(), Project: "p", ID: "lease"})
	assert.Empty(t, keeps(w.View(), req(func(*api.Request) {}))[0], "they end")
}
