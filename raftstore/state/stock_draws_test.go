package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// compound returns a zone with hosts h1 and h2 of four processors, a card below h1, and
// a pool that both share.
func compound(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	w.host("h1", 4)
	w.host("h2", 4)
	w.ok(w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false))
	w.provider("card", "h1", inventory{"PGPU": {Total: 2}})
	w.provider("pool", "", inventory{api.DiskGB: {Total: 100}})
	w.ok(w.traits("pool", api.TraitShares))
	w.ok(w.aggregates("pool", uuid(1)))
	return w
}

// wide is a request for a slot of two processors, ten gibibytes and, with gpu, a card.
func wide(res string, gpu bool) api.Request {
	r := request(res, 1)
	r.Groups[0].Resources = api.Resources{api.VCPU: 2, api.DiskGB: 10}
	if gpu {
		r.Groups[0].Resources["PGPU"] = 1
	}
	return r
}

func (w *world) wide(id, res string, gpu bool, sl ...command.Slot) command.Hold {
	b, h := create(w.stamp(), res, len(sl), 1), hold(w.stamp(), id, res, sl)
	b.Request, h.Request = wide(res, gpu), wide(res, gpu)
	w.ok(b)
	return h
}

// uses checks what is in use of the four providers.
func (w *world) uses(cpu1, cpu2, cards, disk int64) {
	w.tb.Helper()
	for _, p := range []struct {
		id    string
		class api.ResourceClass
		n     int64
	}{{"h1", api.VCPU, cpu1}, {"h2", api.VCPU, cpu2}, {"card", "PGPU", cards}, {"pool", api.DiskGB, disk}} {
		require.Equal(w.tb, p.n, w.usedOf(p.id, p.class), p.id)
	}
}

func (w *world) generations() (out [4]uint64) {
	for i, id := range []string{"h1", "h2", "card", "pool"} {
		out[i] = w.generation(id)
	}
	return out
}

func (w *world) rises(before [4]uint64, rise ...uint64) {
	w.tb.Helper()
	after := w.generations()
	for i := range after {
		after[i] -= before[i]
	}
	require.Equal(w.tb, [4]uint64(rise), after, "h1, h2, card, pool")
}

var drawnElsewhere = append(shares("card", "PGPU", 1), shares("pool", api.DiskGB, 10)...)

func TestSlotsDrawFromTreesAndPools(t *testing.T) {
	w := compound(t)
	before := w.generations()
	r := w.ok(w.wide("k1", "r1", true, append(slots("h1", "a", "b"), slots("h2", "c")...)...))
	assert.Equal(t, []api.InstanceID{"c"}, r.Hold.Refused, "h2 has no card")
	assert.Equal(t, [][]api.Share{drawnElsewhere, drawnElsewhere}, r.Hold.Shares)
	w.rises(before, 1, 0, 1, 1)
	w.uses(4, 0, 2, 20)
	assert.Equal(t, append(append(shares("card", "PGPU", 1), shares("h1", api.VCPU, 2)...), shares("pool", api.DiskGB, 10)...), w.consumer("a").Shares)
	assert.Equal(t, []Allocation{{"a", 1, api.Resources{"PGPU": 1}}, {"b", 1, api.Resources{"PGPU": 1}}}, w.s.AllocationsOn("card"))
	w.refused(api.CodeInUse, command.ProviderDelete{Stamp: w.stamp(), ID: "card"})
	w.refused(api.CodeInUse, w.have("pool", nil))
	w.refused(api.CodeNoCapacity, w.consumers(wants("x", "card", "PGPU", 1)))
	checkIndexes(t, w.s)

	before = w.generations()
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionAbort))
	w.rises(before, 1, 0, 1, 1)
	w.uses(0, 0, 0, 0)
	w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "card"})
	checkIndexes(t, w.s)
}

func TestSharesAreKeptOnlyIfThereAreAny(t *testing.T) {
	w := compound(t)
	w.ok(w.have("h2", inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 10}}))
	r := w.ok(w.wide("k1", "r1", false, append(slots("h2", "a", "b"), slots("h1", "c")...)...))
	assert.Equal(t, [][]api.Share{nil, shares("pool", api.DiskGB, 10), shares("pool", api.DiskGB, 10)}, r.Hold.Shares)
	checkIndexes(t, w.s)
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionAbort))
	r = w.ok(w.wide("k2", "r2", false, slots("h2", "d")...))
	assert.Nil(t, r.Hold.Shares)
	b := hold(w.stamp(), "k3", "r3", slots("h1", "e"))
	w.ok(create(w.stamp(), "r3", 1, 1))
	assert.Nil(t, w.ok(b).Hold.Shares)
}

// committed makes instance a on h1, and returns its hold.
func (w *world) committed() {
	w.tb.Helper()
	h := w.wide("k1", "r1", true, slots("h1", "a")...)
	h.Commit = true
	w.ok(h)
	w.uses(2, 0, 1, 10)
}

func TestInstancesGiveBackWhatTheyDraw(t *testing.T) {
	w := compound(t)
	w.committed()
	i, _ := w.s.Instance("a")
	assert.Equal(t, drawnElsewhere, i.Shares)
	assert.Equal(t, drawnElsewhere[0], w.consumer("a").Shares[0])
	for _, parent := range []string{"h2", ""} {
		w.refused(api.CodeConflict, w.parent("card", parent)) // its instance would be on another host
	}
	before := w.generations()
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
	w.uses(2, 0, 1, 10)
	w.rises(before, 0, 0, 0, 0)
	checkIndexes(t, w.s)
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	w.uses(0, 0, 0, 0)
	w.rises(before, 1, 0, 1, 1)
	w.unchanged(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	w.ok(w.parent("card", "h2"))
	checkIndexes(t, w.s)
}

// TestMoveToWhatSharesWithIt has an instance draw on a host that shares, and move
// there: until it has left, it has room there twice.
func TestMoveToWhatSharesWithIt(t *testing.T) {
	const class api.ResourceClass = "CUSTOM_A"
	w := newWorld(t)
	w.host("h1", 4)
	w.host("h2", 4)
	w.ok(command.ClassPut{Stamp: w.stamp(), Name: class})
	w.ok(w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false))
	own := inventory{api.VCPU: {Total: 4}, class: {Total: 3}}
	w.ok(command.ProviderSet{Stamp: w.stamp(), ID: "h2", Inventory: &own})
	w.ok(w.traits("h2", api.TraitShares))
	w.ok(w.aggregates("h2", uuid(1)))
	w.ok(create(w.stamp(), "r1", 1, 1))
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
	h.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, class: 2}
	h.Commit = true
	w.ok(h)
	i, _ := w.s.Instance("a")
	require.Equal(t, shares("h2", class, 2), i.Shares)
	move := func() command.InstanceMove {
		return command.InstanceMove{Stamp: w.stamp(), ID: "a", From: "h1", To: "h2"}
	}
	w.refused(api.CodeNoCapacity, move())
	checkIndexes(t, w.s)

	own = inventory{api.VCPU: {Total: 4}, class: {Total: 4}}
	w.ok(command.ProviderSet{Stamp: w.stamp(), ID: "h2", Inventory: &own})
	w.ok(move())
	host, _ := w.s.Host("h2")
	assert.Equal(t, int64(4), host.Used[class])
	checkIndexes(t, w.s)
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	host, _ = w.s.Host("h2")
	assert.Equal(t, int64(2), host.Used[class])
	checkIndexes(t, w.s)
}

// TestMoveToWhatGivesMoreItself: a pool that gave two classes gives one of them where
// an instance moves to. As long as it moves it is given that twice, so there must be
// room for it.
func TestMoveToWhatGivesMoreItself(t *testing.T) {
	const class, other api.ResourceClass = "CUSTOM_A", "CUSTOM_B"
	w := newWorld(t)
	w.host("h1", 4)
	w.host("h2", 4)
	for _, c := range []api.ResourceClass{class, other} {
		w.ok(command.ClassPut{Stamp: w.stamp(), Name: c})
	}
	w.ok(w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false))
	w.provider("pool", "", inventory{class: {Total: 3}, other: {Total: 9}})
	w.ok(w.traits("pool", api.TraitShares))
	w.ok(w.aggregates("pool", uuid(1)))
	own := inventory{api.VCPU: {Total: 4}, other: {Total: 9}}
	w.ok(command.ProviderSet{Stamp: w.stamp(), ID: "h2", Inventory: &own})
	w.ok(create(w.stamp(), "r1", 1, 1))
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
	h.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, class: 2, other: 1}
	h.Commit = true
	w.ok(h)
	i, _ := w.s.Instance("a")
	require.Equal(t, []api.Share{{Provider: "pool", Resources: api.Resources{class: 2, other: 1}}}, i.Shares)
	move := func() command.InstanceMove {
		return command.InstanceMove{Stamp: w.stamp(), ID: "a", From: "h1", To: "h2"}
	}
	w.refused(api.CodeNoCapacity, move())
	pool, _ := w.s.Provider("pool")
	assert.Equal(t, api.Resources{class: 2, other: 1}, pool.Used)
	checkIndexes(t, w.s)

	more := inventory{class: {Total: 4}, other: {Total: 9}}
	w.ok(command.ProviderSet{Stamp: w.stamp(), ID: "pool", Inventory: &more})
	w.ok(move())
	pool, _ = w.s.Provider("pool")
	assert.Equal(t, api.Resources{class: 4, other: 1}, pool.Used)
	checkIndexes(t, w.s)
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	pool, _ = w.s.Provider("pool")
	assert.Equal(t, api.Resources{class: 2}, pool.Used)
	checkIndexes(t, w.s)
}

// TestMovesDrawOnBothHosts has a full pool: what it gives an instance is the same at
// both ends of its way.
func TestMovesDrawOnBothHosts(t *testing.T) {
	w := compound(t)
	w.provider("card2", "h2", inventory{"PGPU": {Total: 1}})
	w.committed()
	w.ok(w.consumers(wants("x", "pool", api.DiskGB, 90)))
	before := w.generations()
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "a", From: "h1", To: "h2"})
	i, _ := w.s.Instance("a")
	assert.Equal(t, drawnElsewhere, i.Shares)
	assert.Equal(t, append(shares("card2", "PGPU", 1), shares("pool", api.DiskGB, 10)...), i.TargetShares)
	w.rises(before, 0, 1, 0, 0)
	w.uses(2, 2, 1, 100)
	assert.Equal(t, append(append(append(append(shares("card", "PGPU", 1), shares("card2", "PGPU", 1)...), shares("h1", api.VCPU, 2)...),
		shares("h2", api.VCPU, 2)...), shares("pool", api.DiskGB, 10)...), w.consumer("a").Shares)
	w.refused(api.CodeInUse, command.ProviderDelete{Stamp: w.stamp(), ID: "card2"})
	checkIndexes(t, w.s)

	before = w.generations()
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	w.rises(before, 1, 0, 1, 0)
	w.uses(0, 2, 0, 100)
	i, _ = w.s.Instance("a")
	assert.Equal(t, append(shares("card2", "PGPU", 1), shares("pool", api.DiskGB, 10)...), i.Shares)
	assert.Nil(t, i.TargetShares)
	checkIndexes(t, w.s)

	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "a", From: "h2", To: "h1"})
	w.uses(2, 2, 1, 100)
	before = w.generations()
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"}) // it stays, and ends
	w.rises(before, 1, 0, 1, 0)
	w.uses(0, 2, 0, 100)
	i, _ = w.s.Instance("a")
	assert.Nil(t, i.TargetShares)
	checkIndexes(t, w.s)
	w.ok(reports(w.stamp(), "a1", "h2", api.StatusDeleted, "a"))
	w.uses(0, 0, 0, 90)
	w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "card2"})
	checkIndexes(t, w.s)
}

// TestRoomThatOthersTook has a boot and claims of the placement API after the same disk.
func TestRoomThatOthersTook(t *testing.T) {
	w := compound(t)
	w.ok(w.consumers(wants("x", "pool", api.DiskGB, 91)))
	r := w.ok(w.wide("k1", "r1", false, slots("h1", "a")...))
	assert.Empty(t, r.Hold.Slots)
	w.ok(w.consumers(wants("x", "pool", api.DiskGB, 90)))
	w.ok(w.wide("k2", "r2", false, slots("h2", "b")...))
	w.uses(0, 2, 0, 100)
	w.ok(w.traits("pool")) // what is drawn stays drawn
	w.refused(api.CodeNoCapacity, w.consumers(wants("x", "pool", api.DiskGB, 91)))
	r = w.ok(w.wide("k3", "r3", false, slots("h1", "c")...))
	assert.Empty(t, r.Hold.Slots, "nobody shares disk any more")
	w.ok(command.ConsumerDelete{Stamp: w.stamp(), ID: "x"})
	w.ok(bootDecide(w.stamp(), "r2", api.DecisionAbort))
	w.uses(0, 0, 0, 0)
	checkIndexes(t, w.s)
}
