package state

import (
	"fmt"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// sameText reports whether two texts are one piece of memory.
func sameText[A, B ~string](a A, b B) bool {
	return len(a) == len(b) && unsafe.StringData(string(a)) == unsafe.StringData(string(b))
}

// TestRecordsShare boots by entries that were read, and loads the state again: what the records
// have in common is there once.
func TestRecordsShare(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormNewest
	w.host("h1", 10)
	w.host("h2", 10)
	b := create(w.stamp(), "r1", 4, 4)
	b.Metadata = map[string]string{"a": "b"}
	w.ok(b)
	h := hold(w.stamp(), "k1", "r1", nil)
	for n, sp := range b.Instances {
		h.Slots = append(h.Slots, command.Slot{Instance: sp, Host: api.HostID(fmt.Sprintf("h%d", n%2+1))})
	}
	h.Request, h.Metadata, h.Commit = b.Request, map[string]string{"a": "b"}, true
	w.ok(h)
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "r1-00000"))
	for name, s := range map[string]*State{"applied": w.s, "loaded": loaded(t, saved(t, w.s))} {
		boot, _ := s.Boot("p", "r1")
		held, _ := s.Hold("", "k1")
		first, _ := s.Instance("r1-00000")
		for n, spec := range boot.Instances {
			i, ok := s.Instance(spec.ID)
			require.True(t, ok)
			assert.Same(t, first.InstanceTerms, i.InstanceTerms, name)
			sl := held.Slots[n]
			assert.True(t, sameText(sl.Instance.ID, i.ID) && sameText(spec.ID, i.ID), "%s: ids", name)
			assert.True(t, sameText(sl.Instance.Name, i.Name) && sameText(spec.Name, i.Name), "%s: names", name)
			host, _ := s.hosts.Get(string(i.Host))
			assert.True(t, sameText(i.Host, host.ID) && sameText(sl.Host, host.ID), "%s: hosts", name)
			assert.True(t, sameText(i.Status, sharedStatus(i.Status)), "%s: statuses", name)
		}
		boot.Metadata["a"], boot.Request.Groups[0].Resources[api.VCPU] = "c", 7
		assert.Equal(t, "c", held.Metadata["a"], name)
		assert.Equal(t, "c", first.Metadata["a"], name)
		assert.Equal(t, int64(7), held.Request.Groups[0].Resources[api.VCPU], name)
		assert.Equal(t, int64(7), first.Resources[api.VCPU], name)
	}
}

// TestTermsAreSavedOnce: since api.FormFifth a snapshot has the terms of instances in a row once, and each
// instance is what it was.
func TestTermsAreSavedOnce(t *testing.T) {
	const count = 100
	sizes := map[api.Form]int{}
	for _, form := range []api.Form{api.FormFourth, api.FormFifth} {
		w := newWorld(t)
		w.form = form
		w.host("h1", 2*count)
		for n, r := range []string{"r1", "r2"} {
			b := create(w.stamp(), r, count, count)
			for at := range b.Instances {
				b.Instances[at].ID = api.InstanceID(fmt.Sprintf("i%03d", at/10*20+at%10+10*n)) // ten of one, ten of the other
			}
			w.ok(b)
			h := hold(w.stamp(), "k-"+r, r, nil)
			for _, sp := range b.Instances {
				h.Slots = append(h.Slots, command.Slot{Instance: sp, Host: "h1"})
			}
			h.Request, h.Metadata, h.Commit = b.Request, map[string]string{"a": r}, true
			w.ok(h)
		}
		before := saved(t, w.s)
		again := loaded(t, before)
		assert.Equal(t, before, saved(t, again))
		for _, i := range w.s.instances.Values() {
			read, ok := again.Instance(i.ID)
			require.True(t, ok)
			assert.Equal(t, i, read)
		}
		sizes[form] = len(before)
	}
	assert.Less(t, sizes[api.FormFifth], sizes[api.FormFourth]-2*count*50)
}

// TestSharingSearchesOnlySoFar: what is not found is kept as it is.
func TestSharingSearchesOnlySoFar(t *testing.T) {
	list := specs(numbered("i", specsSearched+2)...)
	next := 0
	assert.NotNil(t, findSpec(list, &next, list[specsSearched].ID))
	assert.Equal(t, specsSearched+1, next)
	next = 0
	assert.Nil(t, findSpec(list, &next, list[specsSearched+1].ID), "one further")
	assert.Zero(t, next)
	assert.Equal(t, api.Status("OTHER"), sharedStatus("OTHER"))

	w := newWorld(t)
	for n := range termsSearched + 1 {
		w.s.shareLoaded(&api.Instance{InstanceTerms: &api.InstanceTerms{Hold: "k", Group: strconv.Itoa(n)}})
	}
	known := w.s.loading[termsKey{hold: "k"}]
	require.Len(t, known, termsSearched+1)
	at := func(n int) *api.InstanceTerms {
		i := api.Instance{InstanceTerms: &api.InstanceTerms{Hold: "k", Group: strconv.Itoa(n)}}
		w.s.shareLoaded(&i)
		return i.InstanceTerms
	}
	assert.Same(t, known[termsSearched-1], at(termsSearched-1))
	assert.NotSame(t, known[termsSearched], at(termsSearched), "one further")

	malformed := &api.Instance{ID: "i"}
	w.s.shareLoaded(malformed)
	assert.NotNil(t, malformed.InstanceTerms)
}
