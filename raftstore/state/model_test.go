package state_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/cluster-test/check"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// indexesEvery is how many commands are applied between two comparisons of all indexes with a
// full scan: what is wrong in one stays wrong, and comparing takes longer than all the rest.
const indexesEvery = 4

// play applies random histories to a state and to the model, and compares all there is
// after each command. What became of the commands of 100 histories must reach a floor:
// what is never drawn is not tested.
func play(t *testing.T, most int, draw func(*state.History) command.Command, floor check.Outcomes) {
	t.Helper()
	playFrom(t, most, state.NewHistory, (*state.History).First, draw, floor)
}

// playFrom is play with histories that begin in another way.
func playFrom(
	t *testing.T, most int, begin func(*rapid.T) *state.History, first func(*state.History) []command.Command,
	draw func(*state.History) command.Command, floor check.Outcomes,
) {
	t.Helper()
	const per = 100
	got, histories := check.Outcomes{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		h := begin(rt)
		both := check.Compare(h.State(), h.Apply)
		step := func(c command.Command) {
			index := h.Next()
			_, bad := both.Apply(index, c)
			require.Empty(rt, bad, "%#v", c)
			require.Empty(rt, both.All(index), "%#v", c)
		}
		for _, c := range first(h) {
			step(c)
		}
		for left := h.Length(most); left > 0; left-- {
			step(draw(h))
			if left%indexesEvery == 1 { // and after the last one
				h.CheckIndexes()
			}
		}
		did := both.Summary()
		histories++
		evicted, lent := h.Evictions()
		got.Add(did.Outcomes)
		got.Add(check.Outcomes{
			"slot": did.Claims, "part of a slot elsewhere": did.Drawn, "slot under a rule": did.Ruled,
			"instance on another host": len(did.Moved), "consumer with shares": did.Allocated,
			"instance evicted": evicted, "instance evicted from a slot": lent,
		})
	})
	t.Log(got)
	for k, n := range floor {
		floor[k] = n * histories / per
	}
	assert.Empty(t, got.Below(floor), "the generator draws too little")
}

// TestOracle plays random histories of commands of every kind.
func TestOracle(t *testing.T) {
	play(t, 150, (*state.History).Draw, check.Outcomes{
		"AggregateDelete not_found": 15, "AggregateDelete ok": 6, "AggregatePut conflict": 2, "AggregatePut not_found": 5, "AggregatePut ok": 105,
		"BootCreate conflict": 5, "BootCreate ok": 200, "BootDecide conflict": 12, "BootDecide not_found": 15, "BootDecide ok": 15,
		"BootRelease not_found": 10, "BootRelease ok": 20,
		"ClassDelete ok": 5, "ClassPut exists": 8, "ClassPut ok": 100,
		"ConfigSet ok": 25, "ConsumerDelete conflict": 15, "ConsumerDelete not_found": 30, "ConsumerDelete ok": 2,
		"ConsumersPut conflict": 30, "ConsumersPut in_use": 8, "ConsumersPut invalid": 50, "ConsumersPut no_capacity": 50, "ConsumersPut ok": 40,
		"GroupDelete not_found": 15, "GroupDelete ok": 2, "GroupPut conflict": 2, "GroupPut ok": 15,
		"Hold conflict": 120, "Hold ok": 120, "Hold plan_refused": 30, "HoldDecide conflict": 5, "HoldDecide not_found": 8, "HoldDecide ok": 30,
		"HoldParts not_found": 20, "HoldParts ok": 12,
		"HostDelete conflict": 15, "HostDelete has_children": 15, "HostDelete ok": 5,
		"HostSet invalid": 20, "HostSet not_found": 8, "HostSet ok": 80, "HostSet stale_generation": 40, "HostsPut ok": 330, "HostsSilent ok": 5, "HostsState ok": 50,
		"InstanceChanges conflict": 4, "InstanceChanges ok": 40, "InstanceDelete not_found": 6, "InstanceDelete ok": 25,
		"InstanceMove conflict": 20, "InstanceMove invalid": 20, "InstanceMove no_capacity": 6, "InstanceMove not_found": 8, "InstanceMove ok": 10,
		"InstanceReport ok": 80, "InstanceTold ok": 15, "LinkSet ok": 60, "PartAck ok": 60, "Prune ok": 15,
		"ProviderCreate exists": 12, "ProviderCreate invalid": 1, "ProviderCreate ok": 201, "ProviderDelete has_children": 1,
		"ProviderDelete in_use": 6, "ProviderDelete not_found": 1, "ProviderDelete ok": 2,
		"ProviderSet conflict": 8, "ProviderSet in_use": 1, "ProviderSet invalid": 2, "ProviderSet ok": 430,
		"ProviderSet stale_generation": 6, "TraitDelete not_found": 1, "TraitDelete ok": 8, "TraitPut ok": 105,
		"WebhookDelete not_found": 4, "WebhookPut ok": 12, "WebhooksTold ok": 25,
		"slot": 90, "slot refused": 50, "slot on a spare": 3, "slot under a rule": 50, "part of a slot elsewhere": 180,
		"instance on another host": 4, "consumer with shares": 20,
	})
}

// TestVolumeOracle plays random lives of volumes and of the instances that they are attached to.
func TestVolumeOracle(t *testing.T) {
	playFrom(t, 150, state.NewVolumeHistory, (*state.History).FirstOfVolumes, (*state.History).DrawVolume, check.Outcomes{
		"BootCreate ok": 200, "VolumeAttach ok": 120, "VolumeAttach conflict": 200, "VolumeAttach not_found": 600,
		"VolumeDetach ok": 40, "VolumeDetach conflict": 2, "VolumeDetach not_found": 80,
		"InstanceMove ok": 2, "InstanceMove conflict": 20, "InstanceMove no_capacity": 2,
	})
}

// TestRules plays random histories in which holds under rules meet.
func TestRules(t *testing.T) {
	play(t, 100, (*state.History).DrawRuled, check.Outcomes{
		"BootCreate ok": 200, "BootDecide conflict": 20, "BootDecide ok": 20, "Hold conflict": 150, "Hold ok": 200, "Hold plan_refused": 40,
		"HoldParts ok": 25, "HostsState ok": 40, "InstanceDelete ok": 10, "InstanceMove conflict": 15, "InstanceMove no_capacity": 1, "InstanceMove ok": 20,
		"InstanceReport ok": 80, "slot": 200, "slot refused": 40, "slot on a spare": 4, "slot under a rule": 100, "part of a slot elsewhere": 220,
		"instance on another host": 8, "instance evacuated": 3,
	})
}

// TestLeaseOracle plays random lives of leases.
func TestLeaseOracle(t *testing.T) {
	playFrom(t, 150, state.NewLeaseHistory, (*state.History).FirstOfLeases, (*state.History).DrawLease, check.Outcomes{
		"LeaseCreate conflict": 20, "LeaseCreate ok": 300, "LeaseDelete ok": 40, "LeaseSet conflict": 100, "LeaseSet ok": 40,
		"LeaseSet stale_generation": 25, "lease created": 250, "lease deleted": 30, "lease ended": 15, "lease failed": 8, "lease started": 35,
		"lease updated": 12, "lease STARTING": 80, "lease DELETING": 200, "lease UPDATING": 100, "Hold ok": 400, "HoldParts ok": 30,
		"PartAck ok": 50, "Prune ok": 12, "SeriesCreate ok": 90, "SeriesDelete ok": 25, "QuotaSet ok": 35,
		"LeaseCreate over_quota": 8, "SeriesCreate over_quota": 5, "HoldDecide conflict": 5, "InstanceMove ok": 4, "InstanceChanges ok": 100, "slot": 300, "slot refused": 200, "slot on a spare": 40,
		"slot under a rule": 60, "part of a slot elsewhere": 50, "consumer with shares": 15,
	})
}

// TestPreemptOracle plays random lives of leases and of preemptible instances in their way.
func TestPreemptOracle(t *testing.T) {
	playFrom(t, 150, state.NewPreemptHistory, (*state.History).FirstOfPreempt, (*state.History).DrawPreempt, check.Outcomes{
		"BootCreate ok": 500, "BootRelease ok": 60, "Hold ok": 1200, "InstanceReport ok": 600, "LeaseCreate ok": 80, "Requeue ok": 1,
		"lease started": 1, "slot": 800, "slot refused": 1500, "slot on a spare": 200, "instance evicted": 20,
	})
}
