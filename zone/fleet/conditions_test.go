package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/filled"
	"berth/internal/memstore"
	"berth/raftstore/command"
)

// TestWhatRuns, is a volume, and is shown to an agent.
func TestWhatRuns(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Stamp: command.Stamp{At: 1000}, Zone: "z", Name: "zone"})
	for name, c := range map[string]struct {
		change             func(i *api.Instance)
		runs, shown, older bool // to an agent that reads what its owner has stopped, and to one that does not
	}{
		"active":      {func(*api.Instance) {}, true, true, true},
		"building":    {func(i *api.Instance) { i.Status = api.StatusBuild }, true, true, true},
		"ended":       {func(i *api.Instance) { i.Status = api.StatusShutoff }, false, true, true},
		"stopped":     {func(i *api.Instance) { i.Status, i.Halted = api.StatusShutoff, true }, true, true, false},
		"stopping":    {func(i *api.Instance) { i.Halted = true }, true, true, false},
		"failed":      {func(i *api.Instance) { i.Status = api.StatusError }, false, true, true},
		"failed then": {func(i *api.Instance) { i.Status, i.Halted = api.StatusError, true }, false, true, false},
		"now":         {func(i *api.Instance) { i.Window.Start = 1000 }, true, true, true},
		"later":       {func(i *api.Instance) { i.Window.Start = 1001 }, true, false, false},
		"waits":       {func(i *api.Instance) { i.Waits = true }, true, false, false},
	} {
		i := filled.Of[api.Instance]()
		i.Status, i.Halted, i.Waits, i.Window = api.StatusActive, false, false, api.Window{End: api.Forever}
		c.change(&i)
		newer, older := &workload{AgentWorkload: &api.AgentWorkload{}, view: m.View(), terms: map[termsKey][]int{}}, &workload{AgentWorkload: &api.AgentWorkload{}, view: m.View()}
		assert.Equal(t, []bool{c.runs, c.shown, c.older}, []bool{isRunning(&i), newer.isShown(&i), older.isShown(&i)}, name)
		assert.True(t, isVolume(&i))
		i.Volume = ""
		assert.False(t, isVolume(&i))
	}
}

// TestTermsInAnAnswer: instances of a group share a place, unless any of these differs.
func TestTermsInAnAnswer(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Stamp: command.Stamp{At: 1000}, Zone: "z", Name: "zone"})
	base := filled.Of[api.WorkTerms]()
	i := filled.Of[api.Instance]()
	w := &workload{AgentWorkload: &api.AgentWorkload{}, view: m.View(), terms: map[termsKey][]int{}}
	assert.Equal(t, 1, w.placeOf(&i, base))
	assert.Equal(t, 1, w.placeOf(&i, base))
	for n, change := range []func(t *api.WorkTerms){
		func(t *api.WorkTerms) { t.Flavor = "other" }, func(t *api.WorkTerms) { t.Project = "other" }, func(t *api.WorkTerms) { t.Fence++ },
		func(t *api.WorkTerms) { t.Volume = "other" }, func(t *api.WorkTerms) { t.Resources = nil }, func(t *api.WorkTerms) { t.Metadata = nil },
	} {
		next := base
		change(&next)
		assert.Equal(t, n+2, w.placeOf(&i, next))
		assert.Equal(t, n+2, w.placeOf(&i, next))
	}
	assert.Equal(t, 1, w.placeOf(&i, base))
	other := i
	other.ID = "other"
	assert.Equal(t, 1, w.placeOf(&other, base))

	for _, full := range []bool{false, true} {
		w = &workload{AgentWorkload: &api.AgentWorkload{}, view: m.View()}
		if full {
			w.terms = map[termsKey][]int{}
		}
		i := filled.Of[api.Instance]()
		i.Status, i.Target, i.Halted = api.StatusDeleting, "", true
		want := []string{"Halt", "Runs", "Terms", "Command"}
		if full {
			want = []string{"Command", "Fence", "Flavor", "Metadata", "Project", "Resources", "Volume"}
		}
		got := filled.Zero(w.workOf(&i))
		for _, name := range want {
			assert.Contains(t, got, name, "%v", full)
		}
		for _, name := range []string{"Instance", "Name", "Stop", "Stay", "Notice"} {
			assert.NotContains(t, got, name, "%v", full)
		}
	}
}
