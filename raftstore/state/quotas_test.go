package state

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// limit gives a project limits.
func (w *world) limit(p api.ProjectID, l quota.Limits) {
	w.tb.Helper()
	w.ok(command.QuotaSet{Stamp: w.stamp(), Project: p, Set: l})
}

// overQuota applies a command that must be refused with a sentence of a quota.
func (w *world) overQuota(sentence string, c command.Command) {
	w.tb.Helper()
	err := w.do(c).Err
	require.Equal(w.tb, api.CodeOverQuota, api.CodeOf(err), "%#v", c)
	assert.Contains(w.tb, err.Error(), sentence)
}

func TestQuotaSet(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFourth
	assert.Nil(t, w.s.Quota("p"))
	w.limit("", quota.Limits{quota.Leases: 5})
	w.limit("p", quota.Limits{quota.Hosts: 1, quota.Leases: quota.Unlimited})
	w.limit("p", quota.Limits{quota.Instances: 3})
	assert.Equal(t, quota.Limits{quota.Hosts: 1, quota.Leases: -1, quota.Instances: 3}, w.s.Quota("p"), "others stay")
	w.unchanged(command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: quota.Limits{quota.Hosts: 1}})
	w.ok(command.QuotaSet{Stamp: w.stamp(), Project: "p", Set: quota.Limits{quota.Hosts: 2}, Unset: []quota.Item{quota.Leases, quota.Preemptibles}})
	assert.Equal(t, quota.Limits{quota.Hosts: 2, quota.Instances: 3}, w.s.Quota("p"))
	assert.Equal(t, quota.Limits{quota.Leases: 5}, w.s.Quota(""))
	assert.Equal(t, []api.ProjectID{"p"}, w.s.QuotaProjects(Page{Limit: 9}))

	w.ok(command.QuotaDelete{Stamp: w.stamp(), Project: "p"})
	w.unchanged(command.QuotaDelete{Stamp: w.stamp(), Project: "p"})
	w.limit("q", quota.Limits{quota.Hosts: 2})
	w.ok(command.QuotaSet{Stamp: w.stamp(), Project: "q", Unset: []quota.Item{quota.Hosts}})
	assert.Empty(t, w.s.QuotaProjects(Page{Limit: 9}), "without limits there is no record")
	assert.Equal(t, quota.Limits{quota.Leases: 5}, loaded(t, saved(t, w.s)).Quota(""))
}

func TestQuotasAreLimited(t *testing.T) {
	w := newWorld(t)
	for i := range api.QuotasMax {
		w.apply(command.QuotaSet{Stamp: w.stamp(), Project: api.ProjectID(fmt.Sprint("p", i)), Set: quota.Limits{quota.Hosts: 1}})
	}
	require.Len(t, w.s.QuotaProjects(Page{Limit: 20_000}), api.QuotasMax)
	w.refused(api.CodeOverloaded, command.QuotaSet{Stamp: w.stamp(), Project: "q", Set: quota.Limits{quota.Hosts: 1}})
	w.limit("", quota.Limits{quota.Hosts: 1})
	items := quota.Limits{}
	for i := range quota.ItemsMax {
		items[quota.Reserved.Of(api.ResourceClass(fmt.Sprint("CUSTOM_", i)))] = 1
	}
	w.refused(api.CodeTooLarge, command.QuotaSet{Stamp: w.stamp(), Project: "p1", Set: items})
	w.ok(command.QuotaSet{Stamp: w.stamp(), Project: "p1", Set: items, Unset: []quota.Item{quota.Hosts}})
	assert.Len(t, w.s.Quota("p1"), quota.ItemsMax)
}

func TestQuotaProjects(t *testing.T) {
	w := newWorld(t)
	w.limit("", quota.Limits{quota.Hosts: 1})
	for _, p := range []api.ProjectID{"a", "d", "c"} {
		w.limit(p, quota.Limits{quota.Hosts: 1})
	}
	for _, p := range []string{"b", "c"} {
		c := create(w.stamp(), "r-"+p, 1, 1)
		c.Request.Project = api.ProjectID(p)
		w.ok(c)
	}
	assert.Equal(t, []api.ProjectID{"a", "b", "c", "d"}, w.s.QuotaProjects(Page{Limit: 9}))
	assert.Equal(t, []api.ProjectID{"a", "b"}, w.s.QuotaProjects(Page{Limit: 2}))
	assert.Equal(t, []api.ProjectID{"c", "d"}, w.s.QuotaProjects(Page{Limit: 2, Marker: "b"}))
	assert.Empty(t, w.s.QuotaProjects(Page{Limit: 2, Marker: "d"}))
}

// TestQuotaOfBoots: what is asked for counts until it is decided, and what was got until it is gone.
func TestQuotaOfBoots(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 8)
	w.limit("p", quota.Limits{quota.Instances: 3})
	used := func() int64 { return w.s.Usage("p").At(w.now)[quota.Instances] }
	first := create(w.stamp(), "r1", 3, 1)
	w.ok(first)
	w.unchanged(first)
	assert.EqualValues(t, 3, used())
	w.overQuota("Quota exceeded for instances: 1 more asked for, but 3 of 3 are used", create(w.stamp(), "r2", 1, 1))

	w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "i1", "i2")))
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	assert.EqualValues(t, 2, used(), "it got two of three")
	w.overQuota("2 more asked for, but 2 of 3 are used", create(w.stamp(), "r2", 2, 1))
	w.ok(create(w.stamp(), "r2", 1, 1))
	w.ok(bootDecide(w.stamp(), "r2", api.DecisionAbort))
	assert.EqualValues(t, 2, used())

	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "i1"})
	assert.EqualValues(t, 2, used(), "it is not gone yet")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "i1"))
	assert.EqualValues(t, 1, used())

	c := create(w.stamp(), "r3", 3, 1)
	c.Request.Class = api.Preemptible
	w.ok(c)
	assert.EqualValues(t, 1, used(), "preemptibles count by themselves")
	assert.EqualValues(t, 3, w.s.Usage("p").At(w.now)[quota.Preemptibles])
	checkIndexes(t, w.s)
}

// TestQuotaOfParents: what a parent has here counts for none of this zone's projects.
func TestQuotaOfParents(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 8)
	w.link("up", api.LinkParent)
	w.limit("p", quota.Limits{quota.Instances: 0})
	w.ok(asked(w.stamp(), "k1", slots("h1", "i1")))
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionCommit})
	assert.True(t, w.s.Usage("p").Empty())
	checkIndexes(t, w.s)
}

// leaseOf returns the command that makes a lease of some slots with one CPU each.
func (w *world) leaseOf(id string, window api.Window, n int) command.LeaseCreate {
	return command.LeaseCreate{
		Stamp: w.stamp(), Terms: leaseTerms(id, window, n), Events: leaseEvents(window), Digest: []byte{1},
		Order: leaseOrder(id, id+"-o", window, numbered(id+"-", n)...),
	}
}

// update returns the command that gives a lease another window and number of slots.
func (w *world) update(id, order string, window api.Window, n int) command.LeaseSet {
	l := w.lease(id)
	c := command.LeaseSet{Stamp: w.stamp(), ModIndex: l.ModIndex, Terms: leaseTerms(id, window, n), Events: leaseEvents(window)}
	c.Order = leaseOrder(id, order, window, numbered(order+"-", n)...)
	c.Order.Request.Replaces = l.Order
	return c
}

func TestQuotaOfLeases(t *testing.T) {
	w := leaseWorld(t)
	in := func(from, to api.Instant) api.Window {
		return api.Window{Start: start + from*minute, End: start + to*minute}
	}
	w.limit("", quota.Limits{quota.Leases: 2})
	w.limit("p", quota.Limits{quota.Reserved.Of(api.VCPU): 3})
	w.ok(w.leaseOf("a", in(10, 20), 2))
	w.overQuota("Quota exceeded for reserved.VCPU: 2 more asked for, but 2 of 3 are used at 2023-11-14T22:23:20Z, so 1 are left. It fits from 2023-11-14T22:33:20Z on.",
		w.leaseOf("b", in(5, 15), 2))
	w.ok(w.leaseOf("b", in(20, 30), 2))
	w.ok(w.leaseOf("e", in(5, 10), 2))
	w.ok(w.leaseOf("c", in(15, 25), 1))
	w.overQuota("Quota exceeded for leases: 1 more asked for, but 2 of 2 are used", w.leaseOf("d", in(15, 16), 0))
	w.overQuota("reserved.VCPU: 4 more asked for, but 0 of 3 are used at 2023-11-14T22:53:20Z, so 3 are left. It never fits: ask for at most 3.", w.leaseOf("d", in(40, 50), 4))
	checkIndexes(t, w.s)

	w.ok(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: "c"})
	w.ok(w.leaseOf("d", in(15, 25), 1))
}

// TestQuotaOfUpdates: while an update is being decided the greater of both counts; then only what it became.
func TestQuotaOfUpdates(t *testing.T) {
	w := leaseWorld(t)
	in := func(from, to api.Instant) api.Window {
		return api.Window{Start: start + from*minute, End: start + to*minute}
	}
	used := func(at api.Instant) int64 { return w.s.Usage("p").At(start + at*minute)[quota.Reserved] }
	w.limit("p", quota.Limits{quota.Reserved: 3})
	w.makeLease("a", "h1", in(10, 20), "s1", "s2")
	w.overQuota("reserved: 4 more asked for, but 0 of 3 are used", w.update("a", "a2", in(10, 20), 4))
	assert.Equal(t, api.LeasePending, w.lease("a").Status, "a refused update changes nothing")

	w.ok(w.update("a", "a2", in(15, 25), 1))
	assert.Equal(t, []int64{0, 2, 2, 1, 0}, []int64{used(9), used(10), used(19), used(20), used(25)})
	w.overQuota("but 2 of 3 are used", w.leaseOf("b", in(12, 13), 2))
	w.overQuota("but 1 of 3 are used", w.leaseOf("b", in(24, 25), 3))
	w.ok(bootDecide(w.stamp(), "a2", api.DecisionAbort))
	assert.Equal(t, []int64{2, 2, 0}, []int64{used(10), used(19), used(20)})

	c := w.update("a", "a3", in(15, 25), 1)
	w.ok(c)
	h := hold(w.stamp(), "k3", "a3", slots("h1", "t1"))
	h.Request, h.Commit = c.Order.Request, true
	w.ok(h)
	assert.Equal(t, []int64{0, 1, 1, 0}, []int64{used(10), used(15), used(24), used(25)})
	checkIndexes(t, w.s)
}

// TestQuotaBelowUse: limits that are lower than what a project has refuse what grows alone.
func TestQuotaBelowUse(t *testing.T) {
	w := leaseWorld(t)
	in := func(from, to api.Instant) api.Window {
		return api.Window{Start: start + from*minute, End: start + to*minute}
	}
	w.makeLease("a", "h1", in(10, 20), "s1", "s2")
	w.limit("p", quota.Limits{quota.Reserved: 0, quota.Leases: 0})
	w.overQuota("reserved: 3 more asked for", w.update("a", "a2", in(10, 20), 3))
	w.overQuota("leases: 1 more asked for", w.update("a", "a2", in(10, 21), 1))
	w.ok(w.update("a", "a2", in(11, 19), 1))

	w.ok(bootDecide(w.stamp(), "a2", api.DecisionAbort))
	w.tick(start + 10*minute)
	w.limit("p", quota.Limits{quota.Reserved: 3, quota.Leases: quota.Unlimited})
	w.ok(w.leaseOf("b", in(20, 30), 2))
	w.overQuota("It cannot be put off.", w.update("a", "a3", in(10, 21), 2))
}

// TestQuotaOfSeries: the leases of a series follow each other, so each is held against the limits alone. One that
// is over them leaves none of the others.
func TestQuotaOfSeries(t *testing.T) {
	w := leaseWorld(t)
	in := func(from, to api.Instant) api.Window {
		return api.Window{Start: start + from*minute, End: start + to*minute}
	}
	w.limit("p", quota.Limits{quota.Leases: 2, quota.Reserved: 3})
	w.ok(w.leaseOf("x", in(30, 40), 2))
	series := func(id string, n int) command.SeriesCreate {
		c := command.SeriesCreate{Stamp: w.stamp(), ID: api.SeriesID(id), Project: "p", Digest: []byte{1}}
		for k, from := range []api.Instant{10, 20, 30} {
			l := w.leaseOf(fmt.Sprint(id, k), in(from, from+10), n)
			l.Stamp, l.Terms.Series = c.Stamp, c.ID
			c.Leases = append(c.Leases, l)
		}
		return c
	}
	w.overQuota("reserved: 2 more asked for, but 2 of 3 are used at 2023-11-14T22:43:20Z", series("a", 2))
	assert.Len(t, w.s.Leases("p"), 1)
	w.ok(series("b", 1))
	w.overQuota("leases: 1 more asked for, but 2 of 2 are used", w.leaseOf("y", in(35, 36), 0))
	w.ok(w.leaseOf("y", in(29, 30), 0))
	checkIndexes(t, w.s)
}

// kept returns a boot that makes the zone keep something.
func kept(at command.Stamp, id string, metadata map[string]string, ids ...string) command.BootCreate {
	c := create(at, id, 1, 1)
	c.Metadata, c.Instances = metadata, nil
	for _, i := range ids {
		c.Instances = append(c.Instances, api.InstanceSpec{ID: api.InstanceID(i), Name: "n" + i})
	}
	return c
}

// TestQuotaOfRecords: a boot counts as one without a decision until it has one, and what is kept of it
// until it is forgotten.
func TestQuotaOfRecords(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	w.limit("p", quota.Limits{quota.Boots: 2, quota.Records: 3, quota.Data: 40})
	used := func() [3]int64 {
		u := w.s.Usage("p").At(w.now)
		return [3]int64{u[quota.Boots], u[quota.Records], u[quota.Data]}
	}
	w.ok(kept(w.stamp(), "r1", map[string]string{"k": "vv"}, "i1", "i2"))
	assert.Equal(t, [3]int64{1, 1, 3 + 10}, used())
	w.ok(kept(w.stamp(), "r2", nil))
	w.overQuota("Quota exceeded for boots: 1 more asked for, but 2 of 2 are used", kept(w.stamp(), "r3", nil))
	w.overQuota("It fits when some of them are decided. An administrator can raise the limit: berth quota set", kept(w.stamp(), "r3", nil))
	more := kept(w.stamp(), "r3", nil)
	require.Error(t, w.s.CheckBootQuota(&more.BootTerms))

	w.ok(bootDecide(w.stamp(), "r1", api.DecisionAbort))
	w.overQuota("Quota exceeded for data: 28 more asked for, but 13 of 40 are used", kept(w.stamp(), "r3", map[string]string{"0123456789": "0123456789abcdefgh"}))
	more = kept(w.stamp(), "r3", map[string]string{"0123456789": "0123456789abcdefg"})
	require.NoError(t, w.s.CheckBootQuota(&more.BootTerms))
	w.ok(kept(w.stamp(), "r3", nil))
	w.ok(bootDecide(w.stamp(), "r3", api.DecisionAbort))
	w.overQuota("Quota exceeded for records: 1 more asked for, but 3 of 3 are used", kept(w.stamp(), "r4", nil))
	assert.Equal(t, used(), func() [3]int64 {
		u := loaded(t, saved(t, w.s)).Usage("p").At(w.now)
		return [3]int64{u[quota.Boots], u[quota.Records], u[quota.Data]}
	}(), "a snapshot keeps what counts")

	w.tick(w.now + 10)
	w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, Limit: 9})
	assert.Equal(t, [3]int64{1, 1, 0}, used())
	checkIndexes(t, w.s)
}

// TestDefaultQuotas: a project without limits has those of each zone, in entries that know them. A
// zone may set others, or none.
func TestDefaultQuotas(t *testing.T) {
	w := newWorld(t)
	group := func(n int) command.GroupPut {
		return command.GroupPut{Stamp: w.stamp(), Group: api.ServerGroup{Project: "p", ID: api.ServerGroupID(strconv.Itoa(n)), Name: strconv.Itoa(n), Policy: api.Affinity}}
	}
	w.form = api.FormFourth
	w.limit("p", quota.Limits{quota.ServerGroups: 0})
	for n := range quota.ServerGroupsDefault {
		w.ok(group(n))
	}
	w.ok(group(quota.ServerGroupsDefault)) // limits of these do not hold in older entries
	w.form = api.FormFifth
	w.limit("p", quota.Limits{quota.Boots: 5})
	w.overQuota("server_groups: 1 more asked for, but 1001 of 0 are used", group(-1))
	w.ok(command.QuotaDelete{Stamp: w.stamp(), Project: "p"})
	w.overQuota("server_groups: 1 more asked for, but 1001 of 1000 are used", group(-1))
	w.ok(command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "0"})
	w.ok(command.GroupDelete{Stamp: w.stamp(), Project: "p", ID: "1"})
	w.ok(group(0))
	w.overQuota("but 1000 of 1000 are used", group(1))
	assert.Equal(t, quota.Defaults(), w.s.LimitsOf("p"))
	w.limit("", quota.Limits{quota.ServerGroups: quota.Unlimited})
	w.ok(group(1))
	assert.EqualValues(t, quota.Unlimited, w.s.LimitsOf("p")[quota.ServerGroups])
	checkIndexes(t, w.s)
}

// TestQuotaOfOrders: the orders of leases count as records, those of a series together.
func TestQuotaOfOrders(t *testing.T) {
	w := leaseWorld(t)
	w.form = api.FormFifth
	in := func(from, to api.Instant) api.Window {
		return api.Window{Start: start + from*minute, End: start + to*minute}
	}
	w.limit("p", quota.Limits{quota.Boots: 2})
	c := command.SeriesCreate{Stamp: w.stamp(), ID: "a", Project: "p", Digest: []byte{1}}
	for k, from := range []api.Instant{10, 20, 30} {
		l := w.leaseOf(fmt.Sprint("a", k), in(from, from+10), 1)
		l.Stamp, l.Terms.Series = c.Stamp, c.ID
		c.Leases = append(c.Leases, l)
	}
	w.overQuota("Quota exceeded for boots: 3 more asked for, but 0 of 2 are used", c)
	assert.Empty(t, w.s.Leases("p"))
	c.Leases = c.Leases[:2]
	w.ok(c)
	w.overQuota("boots: 1 more asked for, but 2 of 2 are used", w.leaseOf("b", in(40, 50), 1))
	checkIndexes(t, w.s)
}
