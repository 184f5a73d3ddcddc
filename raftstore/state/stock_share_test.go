package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// TestAlikeRecordsShare: hosts of one model and boots of one flavor have their maps and lists in
// memory once, applied and loaded.
func TestAlikeRecordsShare(t *testing.T) {
	w := newWorld(t)
	for n := range 2 {
		c := hostPut(w.stamp(), "a1", fmt.Sprint("h", n), 10)
		c.Hosts[0].Host.Traits = []string{"HW_CPU_X86_AVX2"}
		c.Hosts[0].Host.Attributes = map[string]string{"rack": "7"}
		w.ok(c)
		b := create(w.stamp(), fmt.Sprint("r", n), 1, 1)
		b.Metadata = map[string]string{"a": "b"}
		w.ok(b)
		h := hold(w.stamp(), fmt.Sprint("k", n), string(b.Request.Reservation), slots(fmt.Sprint("h", n), string(b.Instances[0].ID)))
		h.Request, h.Metadata = b.Request, b.Metadata
		h.Request.Groups = slices.Clone(b.Request.Groups)
		w.ok(h)
	}
	for name, s := range map[string]*State{"applied": w.s, "loaded": loaded(t, saved(t, w.s))} {
		a, _ := s.hosts.Get("h0")
		b, _ := s.hosts.Get("h1")
		assert.Same(t, unsafe.SliceData(a.Traits), unsafe.SliceData(b.Traits), name)
		first, _ := s.Boot("p", "r0")
		second, _ := s.Boot("p", "r1")
		held, _ := s.Hold("", "k1")
		assert.Same(t, unsafe.SliceData(first.Request.Groups), unsafe.SliceData(second.Request.Groups), name)
		assert.Same(t, unsafe.SliceData(first.Request.Groups), unsafe.SliceData(held.Request.Groups), name)
		a.Inventory["X"], a.Attributes["rack"], first.Metadata["a"] = api.Inventory{Total: 1}, "8", "c"
		assert.Contains(t, b.Inventory, api.ResourceClass("X"), name)
		assert.Equal(t, "8", b.Attributes["rack"], name)
		assert.Equal(t, "8", specIn(s, "h1").Attributes["rack"], name)
		assert.Equal(t, "c", second.Metadata["a"], name)
		assert.Equal(t, "c", held.Metadata["a"], name)
	}
}

// TestSharedAreEqual: whatever is remembered, a map or list is replaced by an equal one alone, and
// so are groups. Those that were handed in stay as they are.
func TestSharedAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &stockBook{}
		word := rapid.StringMatching("[ab]?")
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			texts := rapid.MapOf(word, word).Draw(t, "texts")
			amounts := api.Resources{}
			for k, v := range rapid.MapOf(word, rapid.Int64Range(-1, 1)).Draw(t, "amounts") {
				amounts[api.ResourceClass(k)] = v
			}
			list := rapid.SliceOf(word).Draw(t, "list")
			groups := []api.Group{{Name: word.Draw(t, "name"), Flavor: api.FlavorID(word.Draw(t, "flavor")), Resources: amounts, ExtraSpecs: texts}}
			was := []api.Group{{Name: groups[0].Name, Flavor: groups[0].Flavor, Resources: maps.Clone(amounts), ExtraSpecs: maps.Clone(texts)}}
			assert.Equal(t, was, s.sharedGroups(groups))
			assert.Equal(t, was, groups)
			metadata, traits := texts, list
			s.shareMetadata(&metadata)
			s.remembered().shareList(&traits)
			assert.Equal(t, texts, metadata)
			assert.Equal(t, list, traits)
		}
	})
}

// TestRememberedAreFew: what is remembered is forgotten when it is too much.
func TestRememberedAreFew(t *testing.T) {
	s := &stockBook{}
	put := func(n int) {
		m := map[string]string{"n": strconv.Itoa(n)}
		s.shareMetadata(&m)
		s.remembered().shareList(&[]string{strconv.Itoa(n)})
		s.sharedGroups([]api.Group{{Flavor: api.FlavorID(strconv.Itoa(n))}})
	}
	for n := range sharedMax {
		put(n)
	}
	a := s.remembered()
	require.Equal(t, []int{sharedMax, sharedMax, sharedMax}, []int{len(a.texts), len(a.lists), len(a.groups)})
	put(sharedMax)
	assert.Equal(t, []int{1, 1, 1}, []int{len(a.texts), len(a.lists), len(a.groups)})
}
