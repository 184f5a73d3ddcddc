package state

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

type inventory = map[api.ResourceClass]api.Inventory

// uuid returns a UUID that is told apart by n.
func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func providerCreate(at command.Stamp, id, parent string) command.ProviderCreate {
	return command.ProviderCreate{Stamp: at, ID: api.ProviderID(id), Name: "name-" + id, Parent: api.ProviderID(parent)}
}

// provider makes a provider with an inventory.
func (w *world) provider(id, parent string, have inventory) {
	w.ok(providerCreate(w.stamp(), id, parent))
	if have != nil {
		w.ok(w.have(id, have))
	}
}

// have gives a provider an inventory.
func (w *world) have(id string, have inventory) command.ProviderSet {
	return command.ProviderSet{Stamp: w.stamp(), ID: api.ProviderID(id), Inventory: &have}
}

func (w *world) traits(id string, traits ...string) command.ProviderSet {
	return command.ProviderSet{Stamp: w.stamp(), ID: api.ProviderID(id), Traits: &traits}
}

func (w *world) aggregates(id string, ids ...string) command.ProviderSet {
	return command.ProviderSet{Stamp: w.stamp(), ID: api.ProviderID(id), Aggregates: &ids, Bump: true}
}

func (w *world) parent(id, parent string) command.ProviderSet {
	p := api.ProviderID(parent)
	return command.ProviderSet{Stamp: w.stamp(), ID: api.ProviderID(id), Parent: &p}
}

func (w *world) rename(id, name string) command.ProviderSet {
	return command.ProviderSet{Stamp: w.stamp(), ID: api.ProviderID(id), Name: &name}
}

func (w *world) seen(id string) *api.Provider {
	p, ok := w.s.Provider(api.ProviderID(id))
	require.True(w.tb, ok, "provider %s", id)
	return p
}

func TestProviders(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", inventory{api.VCPU: {Total: 4}})
	w.provider("q", "p", nil)
	p := w.seen("p")
	assert.Equal(t, &api.Provider{
		ID: "p", Name: "name-p", Root: "p", Generation: 1, Created: start + 1, Updated: start + 2, Used: api.Resources{},
		Inventory: inventory{api.VCPU: {Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, AllocationRatio: api.RatioOne}},
		Traits:    []string{}, Aggregates: []string{},
	}, p)
	q, ok := w.s.ProviderByName("name-q")
	require.True(t, ok)
	assert.Equal(t, api.ProviderID("p"), q.Parent)
	assert.Equal(t, api.ProviderID("p"), q.Root)
	assert.Zero(t, q.Generation)
	_, ok = w.s.ProviderByName("q")
	assert.False(t, ok)
	_, ok = w.s.Provider("r")
	assert.False(t, ok)

	w.refused(api.CodeExists, providerCreate(w.stamp(), "q", ""))
	taken := providerCreate(w.stamp(), "r", "")
	taken.Name = "name-q"
	w.refused(api.CodeExists, taken)
	w.refused(api.CodeInvalid, providerCreate(w.stamp(), "r", "s"))
	w.refused(api.CodeInvalid, providerCreate(w.stamp(), "r", "r"))
	w.refused(api.CodeInvalid, command.ProviderCreate{Stamp: w.stamp(), Name: "x"})

	w.refused(api.CodeHasChildren, command.ProviderDelete{Stamp: w.stamp(), ID: "p"})
	w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "q"})
	w.refused(api.CodeNotFound, command.ProviderDelete{Stamp: w.stamp(), ID: "q"})
	w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "p"})
	w.provider("p", "", nil)
	assert.Zero(t, w.generation("p"), "it is another one")
	checkIndexes(t, w.s)
}

func TestProviderNames(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", nil)
	w.host("h1", 1)
	create := func(name string) command.ProviderCreate {
		c := providerCreate(w.stamp(), "q", "")
		c.Name = name
		return c
	}
	long := strings.Repeat("é", api.ProviderNameMax)
	for name, code := range map[string]api.Code{"": api.CodeInvalid, long + "x": api.CodeInvalid, "h1": api.CodeExists} {
		w.refused(code, create(name))
		w.refused(code, w.rename("p", name))
	}
	w.ok(create(long))
	w.ok(w.rename("q", "short"))
	w.ok(w.rename("p", long))
}

func TestProviderRename(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", nil)
	w.provider("q", "", nil)
	w.ok(w.rename("p", "name-p"))
	w.ok(w.rename("p", "new"))
	w.refused(api.CodeExists, w.rename("p", "name-q"))
	w.refused(api.CodeNotFound, w.rename("r", "other"))
	_, ok := w.s.ProviderByName("name-p")
	assert.False(t, ok)
	w.ok(w.rename("q", "name-p"))
	p, ok := w.s.ProviderByName("new")
	require.True(t, ok)
	assert.Equal(t, api.ProviderID("p"), p.ID)
	assert.Zero(t, p.Generation, "a name is no reason for a generation")

	put := hostPut(w.stamp(), "a1", "new", 4)
	w.refused(api.CodeConflict, put)
	put.Hosts[0].ID = "p"
	put.Hosts[0].Host.Name = "h1"
	w.refused(api.CodeConflict, put)
	_, ok = w.s.HostByName("new")
	assert.False(t, ok, "it is no host")
	w.host("h2", 1)
	assert.Len(t, w.s.HostsPage(Page{Limit: 9}), 1)
	checkIndexes(t, w.s)
}

// TestProviderGenerations is the table of what moves a provider one generation on.
func TestProviderGenerations(t *testing.T) {
	w := newWorld(t)
	w.provider("root", "", nil)
	for _, id := range []string{"p", "h1"} {
		if id == "p" {
			w.provider("p", "", nil)
		} else {
			w.host("h1", 4)
		}
		have := inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 1}}
		aggregates := w.aggregates(id, uuid(1))
		still := aggregates
		still.Bump = false
		for i, step := range []struct {
			c    command.ProviderSet
			rise uint64
			why  string
		}{
			{w.have(id, have), 1, "an inventory"},
			{w.have(id, have), 1, "the same again"},
			{w.traits(id, "HW_CPU_X86_AVX2"), 1, "a trait"},
			{w.traits(id, "HW_CPU_X86_AVX2", "HW_CPU_X86_AVX2"), 0, "the same trait"},
			{w.traits(id), 1, "no trait"},
			{w.traits(id), 0, "no trait again"},
			{aggregates, 1, "aggregates"},
			{aggregates, 1, "the same aggregates"},
			{still, 0, "aggregates as they were written once"},
			{w.aggregates(id), 1, "no aggregates"},
			{command.ProviderSet{Stamp: w.stamp(), ID: api.ProviderID(id)}, 0, "nothing"},
			{func() command.ProviderSet {
				c := w.have(id, have)
				c.Traits, c.Aggregates, c.Bump = &[]string{api.TraitShares}, &[]string{uuid(2)}, true
				return c
			}(), 1, "everything"},
		} {
			before := w.generation(id)
			step.c.Generation = &before
			if i%2 == 0 {
				old := before + 1
				step.c.Generation = &old
				r := w.do(step.c)
				require.Equal(t, api.CodeStale, api.CodeOf(r.Err))
				require.ErrorContains(t, r.Err, fmt.Sprintf("is at generation %d, not %d", before, old))
				step.c.Generation = &before
			}
			w.ok(step.c)
			assert.Equal(t, before+step.rise, w.generation(id), "%s: %s", id, step.why)
		}
	}
	before := w.generation("p")
	w.ok(w.parent("p", "root"))
	assert.Equal(t, before, w.generation("p"))
	assert.Zero(t, w.generation("root"))
	checkIndexes(t, w.s)
}

func TestProviderWords(t *testing.T) {
	w := newWorld(t)
	w.provider("p", "", nil)
	classes := func(n int) inventory {
		have := inventory{}
		for i := range n {
			name := api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i))
			have[name] = api.Inventory{Total: 1}
			w.do(command.ClassPut{Stamp: w.stamp(), Name: name})
		}
		return have
	}
	many := make([]string, api.ProviderAggsMax+1)
	for i := range many {
		many[i] = uuid(i)
	}
	for _, c := range []command.ProviderSet{
		w.have("p", inventory{"CUSTOM_UNKNOWN": {Total: 1}}),
		w.have("p", inventory{api.VCPU: {Total: 1, Reserved: 2}}),
		w.have("p", classes(api.ClassesMax+1)),
		w.traits("p", "CUSTOM_UNKNOWN"),
		w.aggregates("p", "not a UUID"),
		w.aggregates("p", many...),
	} {
		w.refused(api.CodeInvalid, c)
	}
	w.ok(w.have("p", classes(api.ClassesMax)))
	w.ok(w.aggregates("p", many[1:]...))
	assert.Equal(t, many[1:], w.seen("p").Aggregates)
	w.ok(command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_UNKNOWN"})
	w.ok(w.traits("p", "HW_CPU_X86_AVX2", "CUSTOM_UNKNOWN"))
	assert.Equal(t, []string{"CUSTOM_UNKNOWN", "HW_CPU_X86_AVX2"}, w.seen("p").Traits)
	assert.Equal(t, []string{"CUSTOM_UNKNOWN", "HW_CPU_X86_AVX2"}, specIn(w.s, "p").Traits)
	w.ok(w.have("p", inventory{}))
	assert.Empty(t, w.seen("p").Inventory)
	checkIndexes(t, w.s)
}

func TestProviderTrees(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 1)
	w.provider("a", "h1", nil)
	w.provider("b", "a", nil)
	w.provider("c", "", nil)
	assert.Equal(t, api.ProviderID("h1"), w.seen("b").Root)
	w.refused(api.CodeInvalid, w.parent("a", "b"))
	w.refused(api.CodeInvalid, w.parent("a", "a"))
	w.refused(api.CodeInvalid, w.parent("a", "nobody"))
	w.refused(api.CodeConflict, w.parent("h1", "c"))
	w.ok(w.parent("h1", ""))
	w.refused(api.CodeConflict, w.rename("h1", "h2"))
	w.ok(w.rename("h1", "h1"))
	w.ok(w.parent("a", "c"))
	assert.Equal(t, api.ProviderID("c"), w.seen("b").Root)
	w.ok(w.parent("b", ""))
	w.ok(w.parent("a", "b"))
	assert.Equal(t, api.ProviderID("b"), w.seen("a").Root)
	v := w.s.Hosts()
	a, _ := v.Row("a")
	b, _ := v.Row("b")
	assert.Equal(t, b, v.Parent(a))
	w.ok(w.parent("b", "h1"))
	w.refused(api.CodeHasChildren, command.HostDelete{Stamp: w.stamp(), ID: "h1"})
	w.refused(api.CodeHasChildren, command.ProviderDelete{Stamp: w.stamp(), ID: "h1"})
	w.ok(w.parent("b", ""))
	w.ok(command.ProviderDelete{Stamp: w.stamp(), ID: "h1"})
	_, ok := w.s.Host("h1")
	assert.False(t, ok)
	w.refused(api.CodeNotFound, command.ProviderDelete{Stamp: w.stamp(), ID: "h1"})
	checkIndexes(t, w.s)
}

// apply folds in a command that must be taken, without looking at all of the state.
func (w *world) apply(c command.Command) {
	w.tb.Helper()
	require.NoError(w.tb, w.s.Apply(w.index, c).Err)
}

func TestTreeDepth(t *testing.T) {
	w := newWorld(t)
	parent := ""
	for i := range api.TreeDepthMax {
		id := fmt.Sprintf("p%d", i)
		w.apply(providerCreate(w.stamp(), id, parent))
		parent = id
	}
	w.refused(api.CodeOverloaded, providerCreate(w.stamp(), "one more", parent))
	w.provider("q", "", nil)
	w.provider("r", "q", nil)
	w.refused(api.CodeOverloaded, w.parent("q", "p30"))
	w.ok(w.parent("q", "p29"))
	w.refused(api.CodeOverloaded, w.parent("q", "p30")) // also within one tree
	w.ok(w.parent("p31", "p28"))
}

func TestTreeSize(t *testing.T) {
	w := newWorld(t)
	w.apply(providerCreate(w.stamp(), "root", ""))
	for i := 1; i < api.TreeMax-1; i++ {
		w.apply(providerCreate(w.stamp(), fmt.Sprintf("p%d", i), "root"))
	}
	w.apply(providerCreate(w.stamp(), "q", ""))
	w.apply(providerCreate(w.stamp(), "r", "q"))
	w.apply(w.parent("p2", "p1"))
	require.Equal(t, api.CodeOverloaded, api.CodeOf(w.s.Apply(w.index, w.parent("q", "root")).Err))
	w.apply(w.parent("r", "root"))
	require.Equal(t, api.CodeOverloaded, api.CodeOf(w.s.Apply(w.index, w.parent("q", "root")).Err))
	w.apply(w.parent("p2", "root")) // the tree is full, and stays as large
	require.Equal(t, api.CodeOverloaded, api.CodeOf(w.s.Apply(w.index, providerCreate(w.stamp(), "s", "p1")).Err))
}

func TestProviderLimit(t *testing.T) {
	w := newWorld(t)
	for i := range api.ProvidersMax {
		w.apply(providerCreate(w.stamp(), strconv.Itoa(i), ""))
	}
	require.Equal(t, api.CodeOverloaded, api.CodeOf(w.s.Apply(w.index, providerCreate(w.stamp(), "one more", "")).Err))
	w.apply(hostPut(w.stamp(), "a1", "h1", 1)) // a host is not one of them
}

// TestHostWords is about hosts, of which agents, aggregates and the placement API speak.
func TestHostWords(t *testing.T) {
	w := newWorld(t)
	put := hostPut(w.stamp(), "a1", "h1", 4)
	put.Hosts[0].Host.Traits = []string{"SSD", "HW_CPU_X86_AVX2"}
	w.ok(put)
	w.ok(w.aggregate(aggregate(uuid(1), "", "h1"), false))
	w.ok(w.aggregate(aggregate(uuid(2), ""), false))
	own := inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 10}}
	w.ok(w.have("h1", own))
	h, _ := w.s.hosts.Get("h1")
	assert.Equal(t, inventory{api.DiskGB: {Total: 10}}, h.OwnInventory, "what the agent says is not the operator's")
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 4, AllocationRatio: 2 * api.RatioOne}, api.DiskGB: {Total: 10}}))
	p := w.seen("h1")
	assert.True(t, p.CanHost)
	assert.EqualValues(t, 8, p.Inventory[api.VCPU].Capacity())
	assert.EqualValues(t, 10, p.Inventory[api.DiskGB].Total)
	host, _ := w.s.Host("h1")
	assert.Equal(t, p.Inventory, host.Inventory, "as the operator sees the host")
	assert.EqualValues(t, 8, specIn(w.s, "h1").Inventory[api.VCPU].Capacity())

	put.At = w.stamp().At
	put.Hosts[0].Host.Inventory = inventory{api.VCPU: {Total: 5}, api.MemoryMB: {Total: 7}}
	w.ok(put)
	p = w.seen("h1")
	assert.EqualValues(t, 8, p.Inventory[api.VCPU].Capacity(), "the operator's word stays and wins")
	assert.EqualValues(t, 7, p.Inventory[api.MemoryMB].Total)

	w.refused(api.CodeConflict, w.have("h1", inventory{api.VCPU: {Total: 4}}))
	w.refused(api.CodeConflict, w.traits("h1", "SSD"))
	w.refused(api.CodeConflict, w.aggregates("h1", uuid(3)))
	w.refused(api.CodeConflict, w.aggregates("h1", uuid(1), uuid(2)))
	w.ok(w.traits("h1", "SSD", "HW_CPU_X86_AVX2", api.TraitShares))
	w.ok(w.aggregates("h1", uuid(1), uuid(3)))
	h, _ = w.s.hosts.Get("h1")
	assert.Equal(t, []string{api.TraitShares}, h.OwnTraits)
	assert.Equal(t, []string{uuid(3)}, h.OwnAggregates)
	assert.Equal(t, []string{"HW_CPU_X86_AVX2", api.TraitShares, "SSD"}, w.seen("h1").Traits)
	assert.Equal(t, []string{uuid(1), uuid(3)}, specIn(w.s, "h1").Aggregates)
	host, _ = w.s.Host("h1")
	assert.Equal(t, w.seen("h1").Traits, host.Traits)

	w.ok(command.AggregateDelete{Stamp: w.stamp(), ID: api.AggregateID(uuid(1))})
	assert.Equal(t, []string{uuid(3)}, w.seen("h1").Aggregates)
	w.ok(w.have("h1", inventory{api.VCPU: {Total: 5}, api.MemoryMB: {Total: 7}}))
	w.ok(w.traits("h1", "SSD", "HW_CPU_X86_AVX2"))
	w.ok(w.aggregates("h1"))
	h, _ = w.s.hosts.Get("h1")
	assert.Nil(t, h.OwnInventory)
	assert.Nil(t, h.OwnTraits)
	assert.Nil(t, h.OwnAggregates)
	checkIndexes(t, w.s)
}

// TestPoolOfAnAggregate gives a pool the UUID of an operators' aggregate.
func TestPoolOfAnAggregate(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	w.ok(w.aggregate(aggregate(uuid(1), "", "h1"), false))
	w.provider("pool", "", inventory{api.DiskGB: {Total: 100}})
	w.ok(w.traits("pool", api.TraitShares))
	w.ok(w.aggregates("pool", uuid(1)))
	v := w.s.Hosts()
	h, _ := v.Row("h1")
	assert.True(t, v.Compound(h))
	assert.Len(t, v.Sharers(h), 1)
}
