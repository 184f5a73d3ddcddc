package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// booted records a boot, which is one event.
func booted(w *world, r string) {
	w.ok(command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Request: api.Request{
		Project: "p", Reservation: api.ReservationID(r), Groups: []api.Group{{Count: 1}},
	}}})
}

// TestEventsGoOnAfterAnUpgrade: the ids of events from before all nodes knew of dropped ones
// stay good, and what may have been dropped then is told.
func TestEventsGoOnAfterAnUpgrade(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormThird
	booted(w, "r1") // at index 2
	booted(w, "r2")
	assert.Nil(t, w.s.history, "older nodes do not know it")
	assert.Equal(t, api.EventID{Index: 2}, w.s.EventsBegin())
	w.form = api.FormFourth
	booted(w, "r3")
	require.NotNil(t, w.s.history)
	for after, want := range map[api.EventID]bool{{}: false, {Index: 1}: false, {Index: 2}: true, {Index: 2, Number: 1}: true, {Index: 9}: true} {
		_, whole := w.s.Events(after, 9)
		assert.Equal(t, want, whole, "after %s", after)
	}
}

// TestABackupBeginsANewHistory: ids of before the restore are good no more, and the first
// events of after it are not taken for what was asked.
func TestABackupBeginsANewHistory(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFourth
	booted(w, "r1")
	backup := saved(t, w.s)
	booted(w, "r2")
	seen := w.s.EventsEnd()
	assert.Equal(t, api.EventID{Index: 3, Number: 1}, seen)
	for _, c := range w.parts(backup, 1) {
		w.ok(w.part(c))
	}
	assert.NotEmpty(t, w.s.historyName())
	list, whole := w.s.Events(seen, 9)
	assert.False(t, whole, "what followed the backup is undone")
	assert.Empty(t, list, "those in the backup are of another history")
	begin := w.s.EventsEnd()
	booted(w, "r3")
	list, whole = w.s.Events(begin, 9)
	assert.True(t, whole)
	require.Len(t, list, 1)
	assert.Equal(t, w.index, list[0].Index)
	text := saved(t, w.s)
	assert.Equal(t, text, saved(t, loaded(t, text)))

	// The same backup on a new log, whose indexes are lower.
	again := newWorld(t)
	again.form = api.FormFourth
	again.s.form = api.FormFourth
	for _, c := range again.parts(text, 1) {
		again.ok(again.part(c))
	}
	_, whole = again.s.Events(w.s.EventsEnd(), 9)
	assert.False(t, whole)
	assert.NotEqual(t, w.s.historyName(), again.s.historyName())
	booted(again, "r4")
	list, whole = again.s.Events(api.EventID{Index: again.index - 1, History: again.s.historyName()}, 9)
	assert.True(t, whole)
	assert.Len(t, list, 1)
}
