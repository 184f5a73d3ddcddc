package check

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// besides asks for an instance within the lease of these tests, with a volume beside it.
func besides(r api.ReservationID, gb int64) api.Request {
	out := whole(r, 1)
	out.Within, out.Zones.Pack, out.Groups[0].Name = "l-r", true, "web"
	out.Groups = append(out.Groups, api.Group{Count: 1, Name: "data", Volume: "standard", AttachTo: "web", Resources: api.Resources{api.DiskGB: gb}})
	out.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}}
	return out
}

// hold holds a pair of these for a boot, and returns the hold. The instance is to be in a slot, its volume on a host.
func (w *leased) hold(r api.Request, slot, host api.HostID) *state.Hold {
	w.t.Helper()
	w.must(w.t, command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "b", Request: r, Min: 2}})
	id := string(r.Reservation)
	h := holdOf(w.world, api.HoldID(id)+"-k", r.Reservation, slot, 1, id+"-i", id+"-v")
	h.Request, h.Slots[1].Group, h.Slots[1].Host = r, 1, host
	res := w.add(h)
	require.NoError(w.t, res.Err)
	return res.Hold
}

// decide decides a boot of these tests.
func (w *leased) decide(r api.ReservationID, d api.Decision) error {
	return w.add(command.BootDecide{Stamp: w.stamp(), Project: "p", Reservation: r, Decision: d}).Err
}

// ended has the agent of a host report that an instance is gone.
func (w *leased) ended(id api.InstanceID) {
	if i, ok := w.s.Instance(id); ok && i.Live() && i.Host != "" {
		w.add(command.InstanceReport{Stamp: w.stamp(), Agent: "a1", Items: []api.InstanceReport{{Host: i.Host, Instance: id, Status: api.StatusDeleted}}})
	}
}

// TestVolumesBesideALease: an instance takes a slot of a lease and its volume the room beside it, both or neither. The volume counts
// for its project, and stays when the lease ends.
func TestVolumesBesideALease(t *testing.T) {
	w := newLeased(t)
	apart := w.hold(besides("b1", 2), "s2", "h1")
	require.Empty(t, apart.Slots, "they are on two hosts")
	require.Len(t, apart.Refused, 2)
	require.Len(t, w.s.FreeSlots("", "l-r", "p"), 1, "the slot is free again")
	require.NoError(t, w.decide("b1", api.DecisionAbort))

	require.Len(t, w.hold(besides("b2", 2), "s2", "h0").Slots, 2)
	require.NoError(t, w.decide("b2", api.DecisionCommit))
	server, _ := w.s.Instance("b2-i")
	volume, _ := w.s.Instance("b2-v")
	assert.EqualValues(t, "s2", server.Within)
	assert.Equal(t, w.window.End, server.Window.End)
	assert.Empty(t, volume.Within)
	assert.EqualValues(t, "h0", volume.Host)
	assert.Equal(t, server.ID, volume.Attached)
	assert.Equal(t, api.Forever, volume.Window.End)
	assert.EqualValues(t, 3, w.s.Usage("p").At(w.now)["volumes.DISK_GB"], "with that of another boot")
	w.report(t, "b2-v", api.StatusActive)

	w.now = w.window.End
	w.must(t, command.Tick{Stamp: w.stamp()})
	w.ended("b2-i")
	w.ended("i1")
	_, gone := w.s.Instance("s2")
	require.True(t, gone)
	volume, _ = w.s.Instance("b2-v")
	assert.Equal(t, api.VolumeAvailable, volume.VolumeStatus())
	_, bad := Log(w.log())
	require.Empty(t, bad)
}

// TestLogsOfVolumesBesideALease: the model agrees with the state whatever happens to pairs in a lease, on their way and later.
func TestLogsOfVolumesBesideALease(t *testing.T) {
	held, unpaired := 0, 0
	for _, seed := range dice.Seeds(t, few(50)) {
		w := newLeased(t)
		r := rand.New(rand.NewPCG(seed, 4))
		for n := range 12 {
			req := besides(api.ReservationID(fmt.Sprint("b", n)), 1+r.Int64N(3))
			if r.IntN(3) == 0 {
				req.Lifetime = 90_000_000_000
			}
			h := w.hold(req, api.HostID(fmt.Sprint("s", 1+r.IntN(2))), api.HostID(fmt.Sprint("h", r.IntN(2))))
			if held += len(h.Slots); len(h.Refused) > 0 {
				unpaired++
			}
			_ = w.decide(req.Reservation, []api.Decision{api.DecisionCommit, api.DecisionCommit, api.DecisionAbort}[r.IntN(3)]) // it may have nothing
			if r.IntN(2) == 0 {
				w.add(command.InstanceDelete{Stamp: w.stamp(), ID: api.InstanceID(fmt.Sprint("b", r.IntN(n+1), "-i"))})
			}
			for _, id := range []api.InstanceID{"i1", api.InstanceID(fmt.Sprint("b", r.IntN(n+1), "-i")), api.InstanceID(fmt.Sprint("b", r.IntN(n+1), "-v"))} {
				if r.IntN(2) == 0 {
					w.ended(id)
				}
			}
			if r.IntN(3) == 0 {
				w.now += api.Instant(r.Int64N(600_000))
				w.must(t, command.Tick{Stamp: w.stamp()})
			}
		}
		z := w.log()
		z.Nodes = append(z.Nodes, NodeLog{Node: "n2", Committed: uint64(len(w.entries)), Entries: w.entries[len(w.entries)/2:]})
		_, bad := Log(z)
		require.Empty(t, bad, "seed %d", seed)
	}
	require.Greater(t, held, few(50))
	require.Greater(t, unpaired, few(50))
}
