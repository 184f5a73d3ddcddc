package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// TestFormRaise: the form of a zone rises when all recorded nodes read the new one, never falls, and a repeat changes nothing.
func TestFormRaise(t *testing.T) {
	const newer = api.FormNewest + 1
	w := newWorld(t)
	raise := func(to api.Form) command.Command { return command.FormRaise{Stamp: w.stamp(), To: to} }
	put := func(id api.NodeID, reads api.Form) command.Command {
		return command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: id, Form: reads}}
	}
	was := w.s.Form()
	w.ok(put("n1", newer))
	w.ok(put("n2", api.FormNewest))
	w.refused(api.CodeConflict, raise(newer))
	require.Equal(t, was, w.s.Form())
	w.ok(put("n2", newer))
	w.refused(api.CodeConflict, raise(was-1))
	w.ok(raise(newer))
	require.Equal(t, newer, w.s.Form())
	w.ok(raise(newer))
	w.refused(api.CodeConflict, raise(api.FormNewest))
	w.refused(api.CodeConflict, put("n2", api.FormNewest))
	require.Equal(t, newer, w.s.Form())
}
