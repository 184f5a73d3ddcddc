package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
)

// workZone is a zone of one host whose agent asks for work.
type workZone struct {
	*memstore.Store
	t  *testing.T
	at command.Stamp
}

func newWorkZone(t *testing.T) *workZone {
	t.Helper()
	w := &workZone{memstore.New(), t, command.Stamp{At: 1000}}
	w.Must(t, command.Init{Stamp: w.at, Zone: "z", Name: "z"}, command.HostsPut{Stamp: w.at, Agent: "a", Hosts: []command.HostEntry{{
		ID: "h", Host: api.AgentHost{Name: "h", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 100}}},
	}}})
	return w
}

// boot boots n instances with metadata on the host.
func (w *workZone) boot(name string, n int) {
	w.t.Helper()
	req := api.Request{
		Reservation: api.ReservationID(name), Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: n, Name: "g", Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
	meta := map[string]string{"of": name}
	terms := command.BootTerms{Digest: []byte(name), Name: name, Request: req, Min: n, Metadata: meta}
	hold := command.Hold{Stamp: w.at, ID: api.HoldID(name), Attempt: 1, Request: req, Metadata: meta, Commit: true}
	for k := range n {
		i := api.InstanceSpec{ID: api.InstanceID(fmt.Sprint(name, k)), Name: name}
		terms.Instances, hold.Slots = append(terms.Instances, i), append(hold.Slots, command.Slot{Instance: i, Host: "h"})
	}
	w.Must(w.t, command.BootCreate{Stamp: w.at, BootTerms: terms}, hold)
}

// ask returns what the agent is answered when it asks after a generation.
func (w *workZone) ask(form api.Form, after uint64) *api.AgentWorkload {
	v := w.View()
	return workloadOf(v, v.Now(), 1, &api.AgentWork{After: after, Form: form}, v.WorkAfter("a", after))
}

func listed(hw api.HostWorkload) (out []api.InstanceID) {
	for _, i := range hw.Instances {
		out = append(out, i.Instance)
	}
	return out
}

// TestChangesOfWork: an agent that has lists gets what has changed since, and one of an earlier release
// whole lists.
func TestChangesOfWork(t *testing.T) {
	w := newWorkZone(t)
	w.boot("a", 2)
	seen := w.View().Index()
	w.boot("b", 2)
	w.Must(t, command.InstanceDelete{Stamp: w.at, ID: "a1"}, command.InstanceDelete{Stamp: w.at, ID: "b1"})
	w.Must(t, command.InstanceReport{Stamp: w.at, Agent: "a", Items: []api.InstanceReport{{Host: "h", Instance: "a1", Status: api.StatusDeleted}}})

	got := w.ask(api.FormFifth, seen)
	require.Len(t, got.Hosts, 1)
	assert.Equal(t, seen, got.Hosts[0].Since)
	assert.Equal(t, []api.InstanceID{"b0", "b1"}, listed(got.Hosts[0]))
	assert.Equal(t, []bool{false, true}, []bool{got.Hosts[0].Instances[0].Stop, got.Hosts[0].Instances[1].Stop})
	assert.Equal(t, []api.InstanceID{"a1"}, got.Hosts[0].Gone)
	assert.Len(t, got.Terms, 1, "what both have in common is sent once")
	assert.Equal(t, got.Generation, w.View().Index())

	for _, after := range []uint64{0, seen - 2} {
		whole := w.ask(api.FormFifth, after)
		assert.Zero(t, whole.Hosts[0].Since, "of generation %d nothing is known", after)
		assert.Equal(t, []api.InstanceID{"a0", "b0", "b1"}, listed(whole.Hosts[0]))
		assert.Len(t, whole.Terms, 2)
		require.NoError(t, whole.FillTerms())

		old := w.ask(api.FormFourth, after)
		assert.Equal(t, old, whole, "the same, spelled for an earlier release")
	}
	old := w.ask(api.FormFourth, seen)
	assert.Zero(t, old.Hosts[0].Since)
	assert.Len(t, old.Hosts[0].Instances, 3)
	assert.Empty(t, old.Terms)
	assert.Empty(t, w.ask(api.FormFifth, w.View().Index()).Hosts, "nothing is new")
}
