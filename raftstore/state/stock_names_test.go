package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

func TestResourceClasses(t *testing.T) {
	w := newWorld(t)
	standard := len(api.StandardClasses())
	assert.Len(t, w.s.ResourceClasses(), standard)
	put := func(name, was api.ResourceClass) command.ClassPut {
		return command.ClassPut{Stamp: w.stamp(), Name: name, Was: was}
	}
	w.ok(put("CUSTOM_B", ""))
	created := w.now
	w.ok(put("CUSTOM_A", ""))
	w.refused(api.CodeExists, put("CUSTOM_A", ""))
	w.refused(api.CodeInvalid, put("VCPU", ""))
	w.refused(api.CodeInvalid, put("CUSTOM_", ""))
	w.refused(api.CodeInvalid, put("CUSTOM_a", ""))
	all := w.s.ResourceClasses()
	assert.Equal(t, Named{Name: "VCPU"}, all[0])
	assert.Equal(t, []Named{{"CUSTOM_A", w.now - 4}, {"CUSTOM_B", created}}, all[standard:])
	c, ok := w.s.ResourceClass("CUSTOM_B")
	assert.True(t, ok)
	assert.Equal(t, Named{"CUSTOM_B", created}, c)
	_, ok = w.s.ResourceClass("CUSTOM_C")
	assert.False(t, ok)

	w.unchanged(put("CUSTOM_A", "CUSTOM_A"))
	w.refused(api.CodeExists, put("CUSTOM_A", "CUSTOM_B"))
	w.refused(api.CodeInvalid, put("CUSTOM_C", "VCPU"))
	w.refused(api.CodeNotFound, put("CUSTOM_C", "CUSTOM_D"))
	w.ok(put("CUSTOM_C", "CUSTOM_B"))
	c, _ = w.s.ResourceClass("CUSTOM_C")
	assert.Equal(t, created, c.Created, "a name changes, and not the class")
	w.provider("p", "", inventory{"CUSTOM_C": {Total: 1}})
	w.refused(api.CodeInUse, put("CUSTOM_D", "CUSTOM_C"))
	del := func(name api.ResourceClass) command.ClassDelete {
		return command.ClassDelete{Stamp: w.stamp(), Name: name}
	}
	w.refused(api.CodeInUse, del("CUSTOM_C"))
	w.refused(api.CodeInvalid, del("VCPU"))
	w.refused(api.CodeNotFound, del("CUSTOM_B"))
	w.ok(w.have("p", nil))
	w.ok(del("CUSTOM_C"))
	w.refused(api.CodeNotFound, del("CUSTOM_C"))
	checkIndexes(t, w.s)
}

func TestTraits(t *testing.T) {
	w := newWorld(t)
	standard := len(api.StandardTraits())
	put := func(name string) command.TraitPut { return command.TraitPut{Stamp: w.stamp(), Name: name} }
	w.ok(put("CUSTOM_B"))
	created := w.now
	w.unchanged(put("CUSTOM_B"))
	w.refused(api.CodeInvalid, put("SSD"))
	w.refused(api.CodeInvalid, put("HW_CPU_X86_AVX2"))
	long := "CUSTOM_" + strings.Repeat("A", api.CustomMaxBytes-7)
	w.refused(api.CodeInvalid, put(long+"A"))
	w.ok(put(long))
	all := w.s.Traits()
	assert.Len(t, all, standard+2)
	assert.True(t, slices.IsSortedFunc(all, func(a, b Named) int { return strings.Compare(a.Name, b.Name) }))
	assert.Contains(t, all, Named{"CUSTOM_B", created})
	assert.Contains(t, all, Named{"HW_CPU_X86_AVX2", 0})
	_, ok := w.s.Trait("HW_CPU_X86_AVX2")
	assert.True(t, ok)

	w.provider("p", "", nil)
	w.ok(w.traits("p", "CUSTOM_B"))
	del := func(name string) command.TraitDelete { return command.TraitDelete{Stamp: w.stamp(), Name: name} }
	w.refused(api.CodeInUse, del("CUSTOM_B"))
	w.refused(api.CodeInvalid, del("HW_CPU_X86_AVX2"))
	w.refused(api.CodeNotFound, del("CUSTOM_A"))
	w.ok(w.traits("p"))
	w.ok(del("CUSTOM_B"))
	w.refused(api.CodeNotFound, del("CUSTOM_B"))
	checkIndexes(t, w.s)
}

// saying returns a host whose agent says classes and traits of its own.
func saying(w *world, id string, classes []string, traits []string) command.HostsPut {
	c := hostPut(w.stamp(), "a1", id, 4)
	for _, name := range classes {
		c.Hosts[0].Host.Inventory[api.ResourceClass(name)] = api.Inventory{Total: 1}
	}
	c.Hosts[0].Host.Traits = traits
	return c
}

func TestAgentsMakeNamesKnown(t *testing.T) {
	w := newWorld(t)
	w.ok(saying(w, "h1", []string{"CUSTOM_GPU"}, []string{"SSD", "CUSTOM_FAST"}))
	first := w.now
	w.ok(saying(w, "h1", []string{"CUSTOM_GPU", "CUSTOM_NPU"}, []string{"SSD"}))
	c, ok := w.s.ResourceClass("CUSTOM_GPU")
	require.True(t, ok)
	assert.Equal(t, first, c.Created)
	c, _ = w.s.ResourceClass("CUSTOM_NPU")
	assert.Equal(t, w.now, c.Created)
	w.refused(api.CodeInUse, command.ClassDelete{Stamp: w.stamp(), Name: "CUSTOM_GPU"})
	w.refused(api.CodeInUse, command.TraitDelete{Stamp: w.stamp(), Name: "SSD"})
	w.ok(command.TraitDelete{Stamp: w.stamp(), Name: "CUSTOM_FAST"}) // nobody says so any more
	w.ok(command.HostDelete{Stamp: w.stamp(), ID: "h1"})
	_, ok = w.s.Trait("SSD")
	assert.True(t, ok, "what was known stays known")
	w.ok(command.TraitDelete{Stamp: w.stamp(), Name: "SSD"})
	w.ok(command.ClassDelete{Stamp: w.stamp(), Name: "CUSTOM_GPU"})
	checkIndexes(t, w.s)
}

func TestClassLimit(t *testing.T) {
	w := newWorld(t)
	for i := range api.CustomClassesMax - 1 {
		w.apply(command.ClassPut{Stamp: w.stamp(), Name: api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i))})
	}
	w.refused(api.CodeOverloaded, saying(w, "h1", []string{"CUSTOM_A", "CUSTOM_B"}, nil))
	w.ok(saying(w, "h1", []string{"CUSTOM_A", "CUSTOM_1"}, nil))
	w.refused(api.CodeOverloaded, saying(w, "h2", []string{"CUSTOM_B"}, nil))
	w.ok(saying(w, "h2", []string{"CUSTOM_A"}, nil))
	w.refused(api.CodeOverloaded, command.ClassPut{Stamp: w.stamp(), Name: "CUSTOM_B"})
	w.ok(command.ClassPut{Stamp: w.stamp(), Name: "CUSTOM_B", Was: "CUSTOM_2"})
}

func TestTraitLimit(t *testing.T) {
	w := newWorld(t)
	for i := range api.CustomTraitsMax - 1 {
		w.apply(command.TraitPut{Stamp: w.stamp(), Name: fmt.Sprintf("CUSTOM_%d", i)})
	}
	w.refused(api.CodeOverloaded, saying(w, "h1", nil, []string{"A", "B"}))
	w.ok(saying(w, "h1", nil, []string{"A", "CUSTOM_1"}))
	w.refused(api.CodeOverloaded, saying(w, "h2", nil, []string{"B"}))
	w.refused(api.CodeOverloaded, command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_B"})
	w.ok(command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_1"})
}
