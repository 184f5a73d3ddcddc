package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/dev"
)

// Sizes of the federation whose root binds projects.
const (
	boundZones    = 20
	boundProjects = 50
	fullHosts     = 1
	fullSlots     = 64 // of the flavor tiny on one host
)

// BenchmarkBindings measures a boot at a root with 20 child zones and 50 projects that are bound to
// them, with each mode: over HTTP, real gateways and logs on disk. The project that boots, one more, is
// bound to another zone before each boot; in the case "full" to one without room, so that it spills
// over or is bound elsewhere. p50-ms is the time until
// the decision is in the log, cpu-ms what the whole process, which is all zones and the client, has used
// until then; asked is how many zones were asked for an offer.
func BenchmarkBindings(b *testing.B) {
	none, full := 0, fullHosts
	tree := dev.Spec{Name: "root", Hosts: &none, Children: []dev.Spec{{Name: "full", Hosts: &full}}}
	for n := 1; n < boundZones; n++ {
		tree.Children = append(tree.Children, dev.Spec{Name: fmt.Sprint("zone", n)})
	}
	f := startAll(b, tree, 1)
	w := &boundWorld{root: f.Zones[0], c: clientOf(b, f.Zones[0])}
	for _, z := range f.Zones[1:] {
		w.children = append(w.children, clientOf(b, z))
	}
	id, err := w.children[0].Boot(b.Context(), order(fullSlots), "")
	require.NoError(b, err)
	boot, err := w.children[0].Reservation(b.Context(), id, patience)
	require.NoError(b, err)
	require.Equal(b, api.BootActive, boot.State)
	for n := range boundProjects {
		w.bind(b, api.ProjectID(fmt.Sprint("project", n)), n, true)
	}
	for _, room := range []bool{true, false} {
		for _, count := range []int{1, 10} {
			for _, mode := range []api.BindingMode{api.BindingOff, api.BindingPrefer, api.BindingStrict} {
				bound := map[bool]string{true: "room", false: "full"}[room]
				b.Run(fmt.Sprintf("bound=%s/count=%d/mode=%s", bound, count, mode), func(b *testing.B) {
					w.setMode(b, mode)
					w.measure(b, count, room)
				})
			}
		}
	}
}

// boundWorld is a root and its children.
type boundWorld struct {
	root     *dev.Zone
	c        *client.Client
	children []*client.Client // the first is of the zone without room
}

// setMode configures the root.
func (w *boundWorld) setMode(b *testing.B, mode api.BindingMode) {
	b.Helper()
	c, err := w.c.Config(b.Context())
	require.NoError(b, err)
	c.Bindings.Mode = mode
	_, err = w.c.SetConfig(b.Context(), c)
	require.NoError(b, err)
}

// bind binds a project: to the zone without room, or to the n-th of the others.
func (w *boundWorld) bind(b *testing.B, p api.ProjectID, n int, room bool) {
	b.Helper()
	to := "full"
	if room {
		to = fmt.Sprint("zone", 1+n%(boundZones-1))
	}
	_, err := w.c.SetBinding(b.Context(), rest.BindingSpec{Project: p, Zone: to})
	require.NoError(b, err)
}

// measure makes one boot after the other, and releases each unmeasured.
func (w *boundWorld) measure(b *testing.B, count int, room bool) {
	b.Helper()
	var took []time.Duration
	var cpu time.Duration
	asked := 0
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		w.bind(b, "admin", n, room)
		before, began := processTime(b), time.Now()
		b.StartTimer()
		id, err := w.c.Boot(b.Context(), order(count), "")
		require.NoError(b, err)
		decided(b.Context(), b, w.root, id)
		b.StopTimer()
		took = append(took, time.Since(began))
		cpu += processTime(b) - before
		boot, err := w.c.Reservation(b.Context(), id, patience)
		require.NoError(b, err)
		require.Equal(b, api.BootActive, boot.State)
		asked += w.asked(b, id)
		boot, err = w.c.Release(b.Context(), id, patience)
		require.NoError(b, err)
		require.Equal(b, api.BootReleased, boot.State)
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(asked)/float64(len(took)), "asked")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(len(took)), "cpu-ms")
}

// asked counts the children that were asked for a boot: each keeps an explanation of what it was asked.
func (w *boundWorld) asked(b *testing.B, id api.ReservationID) int {
	b.Helper()
	n := 0
	for _, c := range w.children {
		_, err := c.Explain(b.Context(), string(id))
		if api.CodeOf(err) != api.CodeNotFound {
			require.NoError(b, err)
			n++
		}
	}
	return n
}
