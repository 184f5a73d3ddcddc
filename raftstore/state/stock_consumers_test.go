package state

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// wants is one consumer that asks one provider for an amount of one class; more of
// both are added by and.
func wants(consumer, provider string, class api.ResourceClass, n int64) command.ConsumerEntry {
	return and(command.ConsumerEntry{ID: api.ConsumerID(consumer), Project: "p", User: "u"}, provider, class, n)
}

func and(e command.ConsumerEntry, provider string, class api.ResourceClass, n int64) command.ConsumerEntry {
	e.Shares = append(e.Shares, api.Share{Provider: api.ProviderID(provider), Resources: api.Resources{class: n}})
	return e
}

func nothing(consumer string) command.ConsumerEntry {
	return command.ConsumerEntry{ID: api.ConsumerID(consumer), Project: "p", User: "u"}
}

func generation(e command.ConsumerEntry, g uint64) command.ConsumerEntry {
	e.Generation = &g
	return e
}

// TestRoomUntilALease: a claim, which has no end, is told until when there would be room for it, if there is some now.
func TestRoomUntilALease(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormNewest
	w.host("h1", 4)
	w.ok(create(w.stamp(), "lease", 3, 3))
	start := w.now.Add(10 * time.Minute)
	c := hold(w.stamp(), "k", "lease", slots("h1", "s1", "s2", "s3"))
	c.Request.Reserves, c.Request.Window = true, api.Window{Start: start, End: start.Add(time.Hour)}
	require.Empty(t, w.ok(c).Hold.Refused)
	w.ok(w.consumers(wants("small", "h1", api.VCPU, 1)))
	for n, says := range map[int64]string{
		1: fmt.Sprintf("provider h1 has 0 of VCPU left, 1 more wanted; it would fit until %v, when room is reserved there", start),
		3: fmt.Sprintf("provider h1 has 0 of VCPU left, 3 more wanted; it would fit until %v, when room is reserved there", start),
		4: "provider h1 has 0 of VCPU left, 4 more wanted",
	} {
		err := w.do(w.consumers(wants("c", "h1", api.VCPU, n))).Err
		assert.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
		assert.Equal(t, says, api.MessageOf(err))
	}
}

func (w *world) consumers(es ...command.ConsumerEntry) command.ConsumersPut {
	return command.ConsumersPut{Stamp: w.stamp(), Consumers: es}
}

func (w *world) consumer(id string) *api.Consumer {
	c, ok := w.s.Consumer(api.ConsumerID(id))
	require.True(w.tb, ok, "consumer %s", id)
	return c
}

func (w *world) usedOf(provider string, class api.ResourceClass) int64 {
	return w.seen(provider).Used[class]
}

func shares(provider string, class api.ResourceClass, n int64) []api.Share {
	return []api.Share{{Provider: api.ProviderID(provider), Resources: api.Resources{class: n}}}
}

func TestConsumers(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 4}})
	w.provider("q", "", inventory{api.DiskGB: {Total: 10}})
	e := and(wants("c", "q", api.DiskGB, 5), "p", api.VCPU, 3)
	kind := "MIGRATION"
	e.Type = &kind
	w.ok(w.consumers(generation(e, 0)))
	created := w.now
	assert.Equal(t, &api.Consumer{
		ID: "c", Project: "p", User: "u", Type: "MIGRATION", Generation: 1, Created: created, Updated: created,
		Shares: append(shares("p", api.VCPU, 3), shares("q", api.DiskGB, 5)...),
	}, w.consumer("c"), "by provider")
	assert.EqualValues(t, 2, w.generation("p"))
	assert.EqualValues(t, 2, w.generation("q"))
	assert.EqualValues(t, 3, w.usedOf("p", api.VCPU))
	assert.Equal(t, []Allocation{{Consumer: "c", Generation: 1, Resources: api.Resources{api.DiskGB: 5}}}, w.s.AllocationsOn("q"))

	other := wants("c", "p", api.VCPU, 4)
	other.Project, other.User = "p2", "u2"
	w.ok(w.consumers(generation(other, 1)))
	assert.Equal(t, &api.Consumer{
		ID: "c", Project: "p2", User: "u2", Type: "MIGRATION", Generation: 2, Created: created, Updated: w.now, Shares: shares("p", api.VCPU, 4),
	}, w.consumer("c"), "the type stays if nobody says one")
	assert.EqualValues(t, 3, w.generation("p"))
	assert.EqualValues(t, 2, w.generation("q"), "it has merely been left")
	assert.Empty(t, w.s.AllocationsOn("q"))
	assert.Empty(t, w.s.Usages("p", nil))
	assert.Equal(t, []Usage{{"MIGRATION", 1, api.Resources{api.VCPU: 4}}}, w.s.Usages("p2", nil))

	w.ok(w.consumers(generation(nothing("c"), 2)))
	_, ok := w.s.Consumer("c")
	assert.False(t, ok)
	assert.EqualValues(t, 4, w.generation("p"), "nothing is left of its consumer")
	assert.EqualValues(t, 2, w.generation("q"))
	w.ok(w.consumers(generation(wants("c", "p", api.VCPU, 1), 0)))
	assert.EqualValues(t, 1, w.consumer("c").Generation, "it is another one")
	assert.Empty(t, w.consumer("c").Type)

	before := w.generation("p")
	w.ok(command.ConsumerDelete{Stamp: w.stamp(), ID: "c"})
	assert.Equal(t, before, w.generation("p"), "a deletion leaves the generations")
	assert.Zero(t, w.usedOf("p", api.VCPU))
	w.refused(api.CodeNotFound, command.ConsumerDelete{Stamp: w.stamp(), ID: "c"})
	checkIndexes(t, w.s)
}

// TestClaimRules is the blueprint's examples and the rules of units, as claims.
func TestClaimRules(t *testing.T) {
	for name, c := range map[string]struct {
		have inventory
		good []int64 // each by a consumer of its own, one after the other
		bad  []int64
	}{
		"disk from 5 to 1000 in steps of 10": {
			inventory{api.DiskGB: {Total: 2000, MinUnit: 5, MaxUnit: 1000, StepSize: 10}}, []int64{5, 10, 20, 1000}, []int64{1, 4, 6, 15, 1001, 1010},
		},
		"one processor to 16 in steps of two": {
			inventory{api.VCPU: {Total: 64, MinUnit: 1, MaxUnit: 16, StepSize: 2}}, []int64{1, 2, 16}, []int64{3, 15, 17, 18},
		},
		"two quad cores at 16.0": {
			inventory{api.VCPU: {Total: 8, AllocationRatio: 16 * api.RatioOne}}, []int64{64, 63, 1}, []int64{1},
		},
		"exactly the capacity": {inventory{api.VCPU: {Total: 4, Reserved: 1}}, []int64{3}, []int64{1}},
		"100 at 1.15 is 115":   {inventory{api.VCPU: {Total: 100, AllocationRatio: 11_500}}, []int64{115}, []int64{1}},
		"cut to whole units":   {inventory{api.VCPU: {Total: 3, AllocationRatio: 15_000}}, []int64{4}, []int64{1}},
		"nothing":              {inventory{api.VCPU: {}}, nil, []int64{1}},
		"more than there is":   {inventory{api.VCPU: {Total: 4}}, nil, []int64{5}},
		"another class":        {inventory{api.DiskGB: {Total: 4}}, nil, []int64{1}},
	} {
		w := newWorld(t)
		w.provider("p", "", c.have)
		class := api.VCPU
		if name == "disk from 5 to 1000 in steps of 10" {
			class = api.DiskGB
		}
		for i, n := range c.good {
			r := w.do(w.consumers(wants(fmt.Sprintf("c%d", i), "p", class, n)))
			require.NoError(t, r.Err, "%s: %d", name, n)
		}
		for _, n := range c.bad {
			require.Equal(t, api.CodeNoCapacity, api.CodeOf(w.do(w.consumers(wants("bad", "p", class, n))).Err), "%s: %d", name, n)
			_, ghost := w.s.Consumer("bad")
			require.False(t, ghost)
		}
	}
}

func TestConsumerRefusals(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 4}})
	w.ok(w.consumers(wants("old", "p", api.VCPU, 1)))
	for name, c := range map[string]struct {
		code    api.Code
		entries []command.ConsumerEntry
	}{
		"a consumer twice":        {api.CodeInvalid, []command.ConsumerEntry{nothing("c"), nothing("c")}},
		"no id":                   {api.CodeInvalid, []command.ConsumerEntry{nothing("")}},
		"a provider twice":        {api.CodeInvalid, []command.ConsumerEntry{and(wants("c", "p", api.VCPU, 1), "p", api.DiskGB, 1)}},
		"nothing of a provider":   {api.CodeInvalid, []command.ConsumerEntry{{ID: "c", Shares: []api.Share{{Provider: "p"}}}}},
		"an amount of nothing":    {api.CodeInvalid, []command.ConsumerEntry{wants("c", "p", api.VCPU, 0)}},
		"an unknown provider":     {api.CodeInvalid, []command.ConsumerEntry{wants("c", "q", api.VCPU, 1)}},
		"an unknown class":        {api.CodeInvalid, []command.ConsumerEntry{wants("c", "p", "CUSTOM_X", 1)}},
		"no inventory":            {api.CodeNoCapacity, []command.ConsumerEntry{wants("c", "p", api.DiskGB, 1)}},
		"new, but it is there":    {api.CodeStale, []command.ConsumerEntry{generation(wants("old", "p", api.VCPU, 1), 0)}},
		"another generation":      {api.CodeStale, []command.ConsumerEntry{generation(wants("old", "p", api.VCPU, 1), 2)}},
		"a generation of nobody":  {api.CodeStale, []command.ConsumerEntry{generation(wants("c", "p", api.VCPU, 1), 1)}},
		"stale before unknown":    {api.CodeStale, []command.ConsumerEntry{wants("c", "q", api.VCPU, 1), generation(nothing("old"), 2)}},
		"one of two is too large": {api.CodeNoCapacity, []command.ConsumerEntry{wants("c", "p", api.VCPU, 1), wants("d", "p", api.VCPU, 4)}},
		"the two are too large":   {api.CodeNoCapacity, []command.ConsumerEntry{wants("c", "p", api.VCPU, 2), wants("d", "p", api.VCPU, 2)}},
	} {
		r := w.do(w.consumers(c.entries...))
		require.Equal(t, c.code, api.CodeOf(r.Err), "%s: %v", name, r.Err)
	}
	r := w.do(w.consumers(generation(wants("old", "p", api.VCPU, 1), 7)))
	require.EqualError(t, r.Err, "consumer old is at generation 1, not 7; read it again")
	w.unchanged(w.consumers(nothing("c"), generation(nothing("d"), 0)))
	w.unchanged(w.consumers())
	assert.Equal(t, 1, w.s.consumers.Len(), "nobody becomes a ghost")
}

// TestAHostSaysWhyItTakesNothing: each way of not taking work has its own word.
func TestAHostSaysWhyItTakesNothing(t *testing.T) {
	set := func(change command.HostSet) func(w *world) {
		return func(w *world) {
			change.Stamp, change.ID = w.stamp(), "h1"
			w.ok(change)
		}
	}
	for why, change := range map[string]func(w *world){
		"disabled":                set(command.HostSet{Enabled: new(false)}),
		"in maintenance":          set(command.HostSet{Maintenance: new("disk")}),
		"down":                    func(w *world) { w.down("h1") },
		"not served by its agent": func(w *world) { w.ok(command.HostsPut{Stamp: w.stamp(), Agent: "a1", Whole: true}) },
	} {
		w := newWorld(t)
		w.form = api.FormNewest
		w.host("h1", 4)
		w.ok(w.consumers(wants("old", "h1", api.VCPU, 1)))
		change(w)
		r := w.do(w.consumers(wants("c", "h1", api.VCPU, 1)))
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(r.Err), why)
		assert.EqualError(t, r.Err, `host "h1" is `+why+" and takes nothing new")
		w.ok(w.consumers(wants("old", "h1", api.VCPU, 1)))
	}
}

func TestClaimsOfSeveralConsumers(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 4}})
	w.provider("q", "", inventory{api.VCPU: {Total: 4}})
	w.ok(w.consumers(wants("a", "p", api.VCPU, 4), wants("b", "q", api.VCPU, 4)))
	p, q := w.generation("p"), w.generation("q")
	w.ok(w.consumers(wants("a", "q", api.VCPU, 4), wants("b", "p", api.VCPU, 4))) // they change places
	assert.Equal(t, p+1, w.generation("p"), "once, however many consumers")
	assert.Equal(t, q+1, w.generation("q"))
	assert.Equal(t, shares("q", api.VCPU, 4), w.consumer("a").Shares)
	w.ok(w.consumers(nothing("a"), wants("c", "q", api.VCPU, 4)))
	w.refused(api.CodeNoCapacity, w.consumers(nothing("b"), wants("c", "q", api.VCPU, 5)))
	assert.EqualValues(t, 4, w.usedOf("p", api.VCPU))
	checkIndexes(t, w.s)
}

func TestOverfullProvider(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 10}, api.DiskGB: {Total: 10}})
	w.ok(w.consumers(wants("a", "p", api.VCPU, 6), wants("b", "p", api.VCPU, 4)))
	w.ok(w.have("p", inventory{api.VCPU: {Total: 5}, api.DiskGB: {Total: 10}}))
	assert.EqualValues(t, 10, w.usedOf("p", api.VCPU), "nobody is evicted")
	w.refused(api.CodeNoCapacity, w.consumers(wants("c", "p", api.VCPU, 1)))
	w.ok(w.consumers(wants("a", "p", api.VCPU, 4))) // less than it had
	w.refused(api.CodeNoCapacity, w.consumers(wants("a", "p", api.VCPU, 5)))
	w.ok(w.consumers(wants("a", "p", api.VCPU, 4)))                               // as much
	w.ok(w.consumers(nothing("a"), wants("c", "p", api.VCPU, 4)))                 // another one has it
	w.ok(w.consumers(wants("b", "p", api.VCPU, 3), wants("c", "p", api.VCPU, 5))) // one gives the other
	w.refused(api.CodeNoCapacity, w.consumers(wants("c", "p", api.VCPU, 6)))      // its units allow no more
	w.refused(api.CodeNoCapacity, w.consumers(wants("b", "p", api.VCPU, 3), wants("c", "p", api.VCPU, 5), wants("d", "p", api.VCPU, 1)))
	w.ok(w.consumers(wants("d", "p", api.DiskGB, 10))) // of another class there is room
	checkIndexes(t, w.s)
}

// TestInUse keeps what is claimed: classes of inventories, and providers.
func TestInUse(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 4}})
	w.host("h1", 4)
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 4}}))
	w.ok(w.consumers(and(wants("c", "p", api.VCPU, 1), "h1", api.DiskGB, 1)))
	w.refused(api.CodeInUse, w.have("p", inventory{api.DiskGB: {Total: 4}}))
	w.refused(api.CodeInUse, w.have("p", nil))
	w.ok(w.have("p", inventory{api.VCPU: {Total: 1}}))
	w.ok(w.have("p", inventory{api.VCPU: {}}))
	w.refused(api.CodeInUse, w.have("h1", inventory{api.VCPU: {Total: 4}}))
	w.refused(api.CodeInUse, command.ProviderDelete{Stamp: w.stamp(), ID: "p"})
	w.refused(api.CodeInUse, command.ProviderDelete{Stamp: w.stamp(), ID: "h1"})
	w.refused(api.CodeConflict, command.HostDelete{Stamp: w.stamp(), ID: "h1"})
	w.ok(w.consumers(wants("c", "h1", api.VCPU, 1)))
	w.ok(w.have("p", nil))
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 4}}))
	w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "p"})
	w.ok(command.ConsumerDelete{Stamp: w.stamp(), ID: "c"})
	w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "h1"})
	checkIndexes(t, w.s)
}

func (w *world) reshape(id string, have inventory) command.Reshape {
	return command.Reshape{ID: api.ProviderID(id), Generation: w.generation(id), Inventory: have}
}

// TestReshape moves disk from a host to a pool, with what is claimed of it.
func TestReshape(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 10}})
	w.provider("pool", "", nil)
	w.host("h1", 4)
	a := nothing("a")
	a.Shares = []api.Share{{Provider: "p", Resources: api.Resources{api.VCPU: 1, api.DiskGB: 6}}}
	w.ok(w.consumers(a, wants("b", "p", api.DiskGB, 4)))
	cpu, disk := inventory{api.VCPU: {Total: 4}}, inventory{api.DiskGB: {Total: 10}}

	move := w.consumers(and(wants("a", "p", api.VCPU, 1), "pool", api.DiskGB, 6), wants("b", "pool", api.DiskGB, 4))
	w.refused(api.CodeNoCapacity, move)
	move.Reshape = []command.Reshape{w.reshape("p", cpu), w.reshape("pool", disk)}
	one := move
	one.Consumers = move.Consumers[:1]
	w.refused(api.CodeInUse, one) // b is left behind
	small := move
	small.Reshape = []command.Reshape{w.reshape("p", cpu), w.reshape("pool", inventory{api.DiskGB: {Total: 9}})}
	w.refused(api.CodeNoCapacity, small)
	for name, c := range map[string]struct {
		code api.Code
		r    command.Reshape
	}{
		"unknown": {api.CodeInvalid, command.Reshape{ID: "q"}}, "stale": {api.CodeStale, command.Reshape{ID: "pool", Generation: 9, Inventory: disk}},
		"twice": {api.CodeInvalid, w.reshape("p", cpu)}, "bad": {api.CodeInvalid, w.reshape("pool", inventory{api.VCPU: {Total: -1}})},
		"of an agent": {api.CodeConflict, w.reshape("h1", disk)},
	} {
		bad := move
		bad.Reshape = []command.Reshape{w.reshape("p", cpu), c.r}
		require.Equal(t, c.code, api.CodeOf(w.do(bad).Err), name)
	}
	p, pool := w.generation("p"), w.generation("pool")
	w.ok(move)
	assert.Equal(t, p+1, w.generation("p"))
	assert.Equal(t, pool+1, w.generation("pool"))
	assert.Equal(t, api.Resources{api.DiskGB: 10}, w.seen("pool").Used)
	assert.Equal(t, api.Resources{api.VCPU: 1}, w.seen("p").Used)
	w.refused(api.CodeStale, move)

	still := command.ConsumersPut{Stamp: w.stamp(), Reshape: []command.Reshape{w.reshape("h1", inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 1}})}}
	before := w.generation("h1")
	w.ok(still)
	assert.Equal(t, before+1, w.generation("h1"), "also when only inventories change")
	h, _ := w.s.hosts.Get("h1")
	assert.Equal(t, inventory{api.DiskGB: {Total: 1}}, h.OwnInventory)
	checkIndexes(t, w.s)
}

// TestClosedHosts refuses claims on hosts that take no work, and on what is part of them,
// unless they make them no fuller.
func TestClosedHosts(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	w.provider("part", "h1", inventory{api.DiskGB: {Total: 4}})
	w.ok(w.consumers(wants("a", "h1", api.VCPU, 2)))
	off, why := false, "disks"
	for _, c := range []command.HostSet{{Enabled: &off}, {Maintenance: &why}} {
		c.Stamp, c.ID = w.stamp(), "h1"
		w.ok(c)
		w.refused(api.CodeNoCapacity, w.consumers(wants("b", "h1", api.VCPU, 1)))
		w.refused(api.CodeNoCapacity, w.consumers(wants("b", "part", api.DiskGB, 1)))
		w.ok(w.consumers(wants("a", "h1", api.VCPU, 2)))
		on, none := true, ""
		w.ok(command.HostSet{Stamp: w.stamp(), ID: "h1", Enabled: &on, Maintenance: &none})
	}
	w.ok(command.HostsState{Stamp: w.stamp(), State: api.HostDown, Hosts: []api.HostID{"h1"}})
	w.refused(api.CodeNoCapacity, w.consumers(wants("b", "part", api.DiskGB, 1)))
	w.ok(w.consumers(wants("a", "h1", api.VCPU, 1)))
}

// TestReshapeTellsTheWriterFirst holds the order of refusals: what a writer saw has
// passed, then what does not fit, and last a class that others hold.
func TestReshapeTellsTheWriterFirst(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 8}, api.DiskGB: {Total: 8}})
	w.ok(w.consumers(wants("other", "p", api.DiskGB, 1)))
	for want, e := range map[api.Code]command.ConsumerEntry{
		api.CodeStale:      generation(wants("c", "p", api.VCPU, 9), 99),
		api.CodeNoCapacity: wants("c", "p", api.VCPU, 9),
		api.CodeInUse:      wants("c", "p", api.VCPU, 1),
	} {
		c := w.consumers(e)
		c.Reshape = []command.Reshape{w.reshape("p", inventory{api.VCPU: {Total: 8}})}
		w.refused(want, c)
	}
}

// TestInstancesAreConsumers shows instances and held slots to the placement API, which
// cannot change them, and keeps boots from taking the id of a consumer.
func TestInstancesAreConsumers(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 9)
	w.link("c1", api.LinkChild)
	w.ok(create(w.stamp(), "r1", 3, 1))
	w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "i", "j"), part("c1", "far")))
	held := w.consumer("i")
	assert.Equal(t, &api.Consumer{
		ID: "i", Project: "p", User: "u", Type: api.ConsumerInstance, Generation: 1, Instance: true, Created: w.now, Updated: w.now,
		Shares: shares("h1", api.VCPU, 1),
	}, held)
	_, ok := w.s.Consumer("far")
	assert.False(t, ok, "it draws nothing here")
	for _, id := range []string{"i", "far"} {
		w.refused(api.CodeConflict, w.consumers(wants(id, "h1", api.VCPU, 1)))
		w.refused(api.CodeConflict, w.consumers(nothing(id)))
		w.refused(api.CodeConflict, command.ConsumerDelete{Stamp: w.stamp(), ID: api.ConsumerID(id)})
	}
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c1", "far")}})
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	made := w.consumer("i")
	assert.True(t, made.Instance)
	assert.Equal(t, w.index, made.Generation)
	w.ok(w.consumers(wants("c", "h1", api.VCPU, 2)))
	assert.Equal(t, []Allocation{
		{"c", 1, api.Resources{api.VCPU: 2}}, {"i", made.Generation, api.Resources{api.VCPU: 1}}, {"j", made.Generation, api.Resources{api.VCPU: 1}},
	}, w.s.AllocationsOn("h1"))
	assert.Equal(t, []Usage{{"", 1, api.Resources{api.VCPU: 2}}, {api.ConsumerInstance, 2, api.Resources{api.VCPU: 2}}}, w.s.Usages("p", nil))
	nobody := api.UserID("nobody")
	assert.Empty(t, w.s.Usages("p", &nobody))
	w.refused(api.CodeConflict, w.consumers(wants("far", "h1", api.VCPU, 1)))

	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "i"})
	assert.Equal(t, shares("h1", api.VCPU, 1), w.consumer("i").Shares, "until its agent says that it is gone")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "i"))
	_, ok = w.s.Consumer("i")
	assert.False(t, ok)
	w.refused(api.CodeConflict, w.consumers(wants("i", "h1", api.VCPU, 1))) // it was one
	w.ok(command.Prune{Stamp: w.stamp(), Before: w.now + 9, Limit: 9})
	w.ok(w.consumers(wants("i", "h1", api.VCPU, 1)))

	again := create(w.stamp(), "r2", 1, 1)
	again.Instances = specs("c")
	w.refused(api.CodeConflict, again)
	w.ok(create(w.stamp(), "r2", 1, 1))
	w.refused(api.CodeConflict, hold(w.stamp(), "k2", "r2", slots("h1", "c")))
	checkIndexes(t, w.s)
}

// TestAllocationsAreOfNow leaves out what has ended, and claims what is to come.
func TestAllocationsAreOfNow(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 2)
	b, h := create(w.stamp(), "r1", 1, 1), hold(w.stamp(), "k1", "r1", slots("h1", "i"))
	b.Request.Window.End = w.now + 10
	h.Request, h.Commit = b.Request, true
	w.ok(b)
	w.ok(h)
	assert.Len(t, w.s.AllocationsOn("h1"), 1)
	w.refused(api.CodeNoCapacity, w.consumers(wants("c", "h1", api.VCPU, 2)))
	w.now += 10
	w.ok(w.consumers(wants("c", "h1", api.VCPU, 2)))
	assert.Len(t, w.s.AllocationsOn("h1"), 1)
	_, ok := w.s.Consumer("i")
	assert.False(t, ok)
	w.ok(command.ConsumerDelete{Stamp: w.stamp(), ID: "c"})
	w.refused(api.CodeInUse, command.ProviderDelete{Stamp: w.stamp(), ID: "h1"}) // it still runs there

	later := create(w.stamp(), "r2", 1, 1)
	later.Request.Window.Start = w.now + 100
	next := hold(w.stamp(), "k2", "r2", slots("h1", "l"))
	next.Request, next.Commit = later.Request, true
	w.ok(later)
	w.ok(next)
	assert.Empty(t, w.s.AllocationsOn("h1"))
	w.refused(api.CodeNoCapacity, w.consumers(wants("c", "h1", api.VCPU, 2)))
	w.ok(w.consumers(wants("c", "h1", api.VCPU, 1))) // for ever, beside what is to come
	checkIndexes(t, w.s)
}

func TestConsumerLimits(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 10_000}})
	entries := make([]command.ConsumerEntry, api.ConsumersCallMax+1)
	for i := range entries {
		entries[i] = wants(fmt.Sprintf("c%d", i), "p", api.VCPU, 1)
	}
	w.refused(api.CodeInvalid, w.consumers(entries...))
	w.ok(w.consumers(entries[1:]...))
	assert.EqualValues(t, api.ConsumersCallMax, w.usedOf("p", api.VCPU))
	assert.EqualValues(t, 2, w.generation("p"))

	wide := nothing("wide")
	for i := range api.SharesMax + 1 {
		id := fmt.Sprintf("s%d", i)
		w.apply(providerCreate(w.stamp(), id, ""))
		w.apply(w.have(id, inventory{api.VCPU: {Total: 1}}))
		wide = and(wide, id, api.VCPU, 1)
	}
	w.refused(api.CodeInvalid, w.consumers(wide))
	wide.Shares = wide.Shares[1:]
	w.ok(w.consumers(wide))
	assert.Len(t, w.consumer("wide").Shares, api.SharesMax)
}

func TestConsumersLimit(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 10}})
	w.apply(w.consumers(wants("a", "p", api.VCPU, 1)))
	for i := w.s.consumers.Len(); i < api.ConsumersMax-1; i++ {
		w.s.consumers.Set(strconv.Itoa(i), &api.Consumer{}) // who they are does not count
	}
	do := func(es ...command.ConsumerEntry) api.Code {
		return api.CodeOf(w.s.Apply(w.index, w.consumers(es...)).Err)
	}
	require.Equal(t, api.CodeOverloaded, do(wants("b", "p", api.VCPU, 1), wants("c", "p", api.VCPU, 1)))
	require.Empty(t, do(wants("b", "p", api.VCPU, 1)))
	require.Equal(t, api.ConsumersMax, w.s.consumers.Len())
	require.Equal(t, api.CodeOverloaded, do(wants("c", "p", api.VCPU, 1)))
	require.Empty(t, do(wants("b", "p", api.VCPU, 2)))
	require.Empty(t, do(nothing("a"), wants("c", "p", api.VCPU, 1)))
	require.Empty(t, do(nothing("b")))
	require.Empty(t, do(wants("d", "p", api.VCPU, 1)))
}
