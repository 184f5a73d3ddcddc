package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// TestWorkOfWhatIsStopped: an agent is shown that an instance is stopped and which run it is at; one of an
// earlier release, which would run it, is not shown it.
func TestWorkOfWhatIsStopped(t *testing.T) {
	w := newWorkZone(t)
	w.boot("a", 2)
	order := func(o api.PowerOrder) {
		i, ok := w.View().Instance("a0")
		require.True(t, ok)
		w.Must(t, command.InstancePower{Stamp: w.at, ID: "a0", Order: o, Run: i.Run()})
	}
	work := func(form api.Form, after uint64) api.Workload {
		for _, hw := range w.ask(form, after).Hosts {
			for _, i := range hw.Instances {
				if i.Instance == "a0" {
					return i
				}
			}
		}
		return api.Workload{}
	}
	for _, step := range []struct {
		order api.PowerOrder
		halt  bool
		runs  uint64
	}{{api.PowerStop, true, 0}, {api.PowerStart, false, 1}, {api.PowerRestart, false, 2}, {api.PowerStop, true, 2}} {
		seen := w.View().Index()
		order(step.order)
		for _, after := range []uint64{0, seen} {
			now := work(api.FormNewest, after)
			assert.Equal(t, api.InstanceID("a0"), now.Instance, "it has changed")
			assert.Equal(t, step.halt, now.Halt)
			assert.Equal(t, step.runs, now.Runs)
			assert.Equal(t, step.runs+1, now.Stay)
		}
		old := work(api.FormFourth, 0)
		assert.Equal(t, step.halt, old.Instance == "", "one that is not listed is ended")
		assert.False(t, old.Halt)
		assert.Zero(t, old.Runs)
	}
}
