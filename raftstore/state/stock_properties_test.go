package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

func TestPropertySet(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFourth
	set := func(id, name string, private bool) command.PropertySet {
		return command.PropertySet{Stamp: w.stamp(), ID: id, Name: name, Private: private}
	}
	_, known := w.s.HostProperty("gpu")
	assert.False(t, known)
	first := set(uuid(1), "gpu", true)
	w.ok(first)
	p, known := w.s.HostProperty("gpu")
	assert.True(t, known)
	assert.Equal(t, api.HostProperty{ID: uuid(1), Name: "gpu", Private: true, Created: first.At}, p)
	w.unchanged(set(uuid(2), "gpu", true))
	last := set(uuid(3), "gpu", false)
	w.ok(last)
	p, _ = w.s.HostProperty("gpu")
	assert.Equal(t, api.HostProperty{ID: uuid(1), Name: "gpu", Created: first.At, Updated: last.At}, p, "it keeps its id")
	w.refused(api.CodeInvalid, set(uuid(4), "", true))
	w.refused(api.CodeInvalid, set(uuid(4), strings.Repeat("x", 256), true))
	w.ok(set(uuid(4), strings.Repeat("x", 255), true))
	require.Len(t, loaded(t, saved(t, w.s)).HostProperties(), 2)
}

func TestPropertiesAreLimited(t *testing.T) {
	w := newWorld(t)
	for i := range api.HostPropertiesMax {
		w.apply(command.PropertySet{Stamp: w.stamp(), ID: uuid(i), Name: fmt.Sprint("p", i)})
	}
	require.Len(t, w.s.HostProperties(), api.HostPropertiesMax)
	w.refused(api.CodeOverloaded, command.PropertySet{Stamp: w.stamp(), ID: uuid(1), Name: "one more"})
	w.ok(command.PropertySet{Stamp: w.stamp(), ID: uuid(1), Name: "p1", Private: true})
}
