package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// newLostWorld returns a zone with the hosts h1, h2 and h3 of one agent, and h1 and h2 down.
func newLostWorld(t *testing.T) (w *world, since api.Instant) {
	t.Helper()
	w = newWorld(t)
	w.form = api.FormNewest
	joins(w, "a1", nil)
	for _, id := range []string{"h1", "h2", "h3"} {
		w.host(id, 10)
	}
	w.ok(create(w.stamp(), "r1", 3, 1))
	h := hold(w.stamp(), "k1", "r1", append(slots("h1", "a", "b"), slots("h3", "c")...))
	h.Commit = true
	w.ok(h)
	for host, ids := range map[string][]string{"h1": {"a", "b"}, "h3": {"c"}} {
		w.ok(reports(w.stamp(), "a1", host, api.StatusActive, ids...))
	}
	return w, w.down("h1", "h2")
}

// down takes hosts down, and returns since when they are.
func (w *world) down(hosts ...string) api.Instant {
	w.tb.Helper()
	c := command.HostsState{Stamp: w.stamp(), State: api.HostDown}
	for _, id := range hosts {
		c.Hosts = append(c.Hosts, api.HostID(id))
	}
	w.ok(c)
	return c.At
}

func (w *world) lose(host string, since api.Instant, instance string) command.HostWriteOff {
	return command.HostWriteOff{Stamp: w.stamp(), ID: api.HostID(host), Since: since, Instance: api.InstanceID(instance)}
}

// TestALostHostIsForgotten: with all that is on it, which ends the reservation; its agent is a stranger
// that learns which host it has lost, and registers it as a new one.
func TestALostHostIsForgotten(t *testing.T) {
	w, since := newLostWorld(t)
	w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "r1"})
	w.ok(reports(w.stamp(), "a1", "h3", api.StatusDeleted, "c"))
	require.False(t, w.boot("r1").Final(), "nobody confirms the end of a and b")

	w.refused(api.CodeNotFound, w.lose("none", since, ""))
	w.refused(api.CodeConflict, w.lose("h3", since, "")) // it is up
	w.refused(api.CodeConflict, w.lose("h1", since-1, ""))
	tried, err := NewDraft(w.s.Clone()).LoseHost(w.lose("h1", since, ""))
	require.NoError(t, err)
	r := w.ok(w.lose("h1", since, ""))
	assert.Equal(t, tried.Instances, r.Lost.Instances)
	require.Len(t, r.Lost.Instances, 2)
	assert.Equal(t, api.StatusDeleting, r.Lost.Instances[0].Status, "as it was")

	assert.True(t, w.boot("r1").Final())
	i, _ := w.s.Instance("a")
	assert.Equal(t, api.StatusDeleted, i.Status)
	assert.Equal(t, hostGivenUp, i.Fault)
	_, there := w.s.Host("h1")
	assert.False(t, there)
	a, _ := w.s.Agent("a1")
	assert.Equal(t, []api.HostID{"h1"}, a.Lost)
	w.refused(api.CodeNotFound, w.lose("h1", since, ""))

	// What the agent says of it counts no more, and its other lost host is down until it registers.
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "a"))
	assert.Equal(t, api.StatusDeleted, w.status("a"))
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostUp, Hosts: []api.HostID{"h2"}})
	h2, _ := w.s.Host("h2")
	assert.Equal(t, api.HostDown, h2.State)
	again := hostPut(w.stamp(), "a1", "h1", 10)
	again.Hosts[0].ID = "new"
	w.ok(again)
	h, _ := w.s.Host("new")
	assert.Equal(t, api.HostUp, h.State)
	assert.Zero(t, w.used("new"))
	assert.Empty(t, w.s.OnHost("new"))
	joins(w, "a1", nil)
	a, _ = w.s.Agent("a1")
	assert.Equal(t, []api.HostID{"h1"}, a.Lost, "a new certificate changes nothing")
	checkIndexes(t, w.s)
	w.same()
}

// TestOneLostInstance: it alone counts as gone, and its room is free.
func TestOneLostInstance(t *testing.T) {
	w, since := newLostWorld(t)
	w.refused(api.CodeNotFound, w.lose("h1", since, "c")) // on another host
	w.refused(api.CodeConflict, w.lose("h3", since, "c")) // that is up
	r := w.ok(w.lose("h1", since, "a"))
	assert.Len(t, r.Lost.Instances, 1)
	assert.Equal(t, api.StatusDeleted, w.status("a"))
	assert.Equal(t, api.StatusActive, w.status("b"))
	assert.EqualValues(t, 1, w.used("h1"))
	w.refused(api.CodeNotFound, w.lose("h1", since, "a"))
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostUp, Hosts: []api.HostID{"h1"}})
	w.refused(api.CodeConflict, w.lose("h1", since, "b")) // it is back
	checkIndexes(t, w.s)
}

// TestWhatIsNotWrittenOff: a host with undecided room, or to which something moves.
func TestWhatIsNotWrittenOff(t *testing.T) {
	w, _ := newLostWorld(t)
	w.ok(create(w.stamp(), "r2", 1, 1))
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostUp, Hosts: []api.HostID{"h1"}})
	w.ok(hold(w.stamp(), "k2", "r2", slots("h1", "d")))
	since := w.down("h1")
	w.refused(api.CodeConflict, w.lose("h1", since, "")) // d is not decided
	w.ok(bootDecide(w.stamp(), "r2", api.DecisionAbort))
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostUp, Hosts: []api.HostID{"h1"}})
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "c", From: "h3", To: "h1"})
	since = w.down("h1")
	w.refused(api.CodeConflict, w.lose("h1", since, "")) // c is on its way
	w.ok(reports(w.stamp(), "a1", "h3", api.StatusDeleted, "c"))
	r := w.ok(w.lose("h1", since, ""))
	assert.Len(t, r.Lost.Instances, 3)
	w.same()
}

// TestWhatOthersHaveOfALostHost: one instance on another host that has a part of it, or one provider below it, keeps it.
func TestWhatOthersHaveOfALostHost(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(w *world) // makes the host h2 of use to others
		code api.Code
		says string
		ends func(w *world)
	}{
		"a share of an instance": {
			func(w *world) {
				const class api.ResourceClass = "CUSTOM_A"
				w.ok(command.ClassPut{Stamp: w.stamp(), Name: class})
				w.ok(w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false))
				w.ok(w.have("h2", inventory{api.VCPU: {Total: 4}, class: {Total: 3}}))
				w.ok(w.traits("h2", api.TraitShares))
				w.ok(w.aggregates("h2", uuid(1)))
				w.ok(create(w.stamp(), "r1", 1, 1))
				h := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
				h.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, class: 2}
				h.Commit = true
				w.ok(h)
			}, api.CodeConflict, `1 instances on other hosts have a part of host "h2"; delete or move them first`,
			func(w *world) {
				w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
				w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
			},
		},
		"a provider": {
			func(w *world) { w.provider("card", "h2", inventory{"PGPU": {Total: 2}}) },
			api.CodeHasChildren, `other providers are part of host "h2"; delete or move them first`,
			func(w *world) { w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "card"}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			joins(w, "a1", nil)
			w.host("h1", 4)
			w.host("h2", 4)
			c.of(w)
			since := w.down("h2")
			r := w.do(w.lose("h2", since, ""))
			require.Equal(t, c.code, api.CodeOf(r.Err))
			assert.Contains(t, r.Err.Error(), c.says)
			c.ends(w)
			w.ok(w.lose("h2", since, ""))
			checkIndexes(t, w.s)
		})
	}
}

// TestLeasesAndConsumersOfALostHost: slots go after what is within them, and a consumer keeps what it has
// elsewhere.
func TestLeasesAndConsumersOfALostHost(t *testing.T) {
	w := leaseWorld(t)
	w.provider("p1", "", inventory{api.DiskGB: {Total: 10}})
	w.ok(w.consumers(and(wants("both", "p1", api.DiskGB, 3), "h1", api.VCPU, 1), wants("here", "h1", api.VCPU, 1)))
	w.makeLease("l", "h1", api.Window{Start: start + minute, End: start + 20*minute}, "s1", "s2")
	w.tick(start + minute)
	w.bootWithin("b", "s1", "i1")
	since := w.down("h1")
	w.refused(api.CodeInvalid, w.lose("h1", since, "s2"))

	r := w.ok(w.lose("h1", since, ""))
	assert.Len(t, r.Lost.Instances, 3)
	assert.Equal(t, []api.ConsumerID{"both", "here"}, r.Lost.Consumers)
	for _, id := range []string{"s1", "s2", "i1"} {
		assert.Equal(t, api.StatusDeleted, w.status(id), id)
	}
	assert.Equal(t, shares("p1", api.DiskGB, 3), w.consumer("both").Shares)
	_, there := w.s.Consumer("here")
	assert.False(t, there)
	w.ok(command.LeaseDelete{Stamp: w.stamp(), ID: "l", Project: "p"})
	checkIndexes(t, w.s)
	w.same()
}

// TestLostHostsAreKept: the newest of an agent, up to the limit.
func TestLostHostsAreKept(t *testing.T) {
	w := newWorld(t)
	w.form, w.large = api.FormNewest, true
	for n := range api.LostHostsMax + 1 {
		id := fmt.Sprint("x", n)
		w.host(id, 1)
		w.ok(w.lose(id, w.down(id), ""))
		if a, _ := w.s.Agent("a1"); n < api.LostHostsMax {
			require.Len(t, a.Lost, n+1)
		}
	}
	a, _ := w.s.Agent("a1")
	require.Len(t, a.Lost, api.LostHostsMax)
	assert.Equal(t, api.HostID("x1"), a.Lost[0])
}
