package state_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/cluster-test/check"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// indexesEvery is how many commands are applied between two comparisons of all indexes with a
// full scan: what is wrong in one stays wrong, and comparing takes longer than all the rest.
const indexesEvery = 4

// play applies random histories to a state and to the model, and compares all there is
// after each command. What became of the commands of 100 histories must reach a floor:
// what is never drawn is not tested. A floor is a tenth of the mean at most, so that no
// fair run misses it.
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
	least := func() check.Outcomes {
		out := check.Outcomes{}
		for k, n := range floor {
			out[k] = n * histories / per
		}
		return out
	}
	playOne := func(rt *rapid.T) {
		h := begin(rt)
		both := check.Compare(h.State(), h.Apply)
		step := func(c command.Command) {
			index := h.Next()
			c = h.AsEntry(c) // its form says which limits apply
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
	}
	dice.Enough(t, func() { rapid.Check(t, playOne) }, func() string {
		if few := got.Below(least()); len(few) > 0 {
			return fmt.Sprintf("%v of %v", few, got)
		}
		return ""
	})
}

// TestOracle plays random histories of commands of every kind.
func TestOracle(t *testing.T) {
	play(t, 150, (*state.History).Draw, check.Outcomes{
		"AggregateDelete not_found": 4, "AggregateDelete ok": 2, "AggregatePut conflict": 1, "AggregatePut not_found": 2, "AggregatePut ok": 102,
		"BootCreate conflict": 2, "BootCreate ok": 81, "BootDecide conflict": 5, "BootDecide not_found": 6, "BootDecide ok": 6,
		"BootRelease not_found": 4, "BootRelease ok": 9,
		"ClassDelete ok": 2, "ClassPut exists": 4, "ClassPut ok": 100,
		"ConfigSet ok": 8, "ConsumerDelete conflict": 7, "ConsumerDelete not_found": 15, "ConsumerDelete ok": 2,
		"ConsumersPut conflict": 16, "ConsumersPut in_use": 5, "ConsumersPut invalid": 26, "ConsumersPut no_capacity": 27, "ConsumersPut ok": 22,
		"GroupDelete not_found": 4, "GroupDelete ok": 1, "GroupPut conflict": 2, "GroupPut ok": 12,
		"Hold conflict": 56, "Hold ok": 46, "Hold plan_refused": 13, "HoldDecide conflict": 2, "HoldDecide not_found": 6, "HoldDecide ok": 14,
		"HoldParts not_found": 10, "HoldParts ok": 5,
		"HostDelete conflict": 8, "HostDelete has_children": 7, "HostDelete ok": 2,
		"HostSet invalid": 10, "HostSet not_found": 2, "HostSet ok": 21, "HostSet stale_generation": 18, "HostsPut ok": 47, "HostsSilent ok": 2, "HostsState ok": 23,
		"InstanceChanges conflict": 2, "InstanceChanges ok": 18, "InstanceDelete not_found": 3, "InstanceDelete ok": 11,
		"InstanceMove conflict": 8, "InstanceMove invalid": 9, "InstanceMove no_capacity": 4, "InstanceMove not_found": 5, "InstanceMove ok": 5,
		"InstancePower conflict": 3, "InstancePower invalid": 10, "InstancePower not_found": 40, "InstancePower ok": 10,
		"InstanceReport ok": 42, "InstanceTold ok": 7, "LinkSet ok": 28, "LinkWriteOff conflict": 3, "LinkWriteOff ok": 3, "PartAck ok": 28, "Prune ok": 8,
		"ProviderCreate exists": 6, "ProviderCreate invalid": 1, "ProviderCreate ok": 202, "ProviderDelete has_children": 1,
		"ProviderDelete in_use": 2, "ProviderDelete not_found": 1, "ProviderDelete ok": 1,
		"ProviderSet conflict": 5, "ProviderSet in_use": 1, "ProviderSet invalid": 1, "ProviderSet ok": 430,
		"ProviderSet stale_generation": 3, "TraitDelete not_found": 1, "TraitDelete ok": 3, "TraitPut ok": 102,
		"WebhookDelete not_found": 2, "WebhookPut ok": 4, "WebhooksTold ok": 8,
		"slot": 41, "slot refused": 23, "slot on a spare": 1, "slot under a rule": 21, "part of a slot elsewhere": 25,
		"instance on another host": 2, "consumer with shares": 11,
	})
}

// TestVolumeOracle plays random lives of volumes and of the instances that they are attached to.
func TestVolumeOracle(t *testing.T) {
	playFrom(t, 150, state.NewVolumeHistory, (*state.History).FirstOfVolumes, (*state.History).DrawVolume, check.Outcomes{
		"BootCreate ok": 34, "VolumeAttach ok": 29, "VolumeAttach conflict": 41, "VolumeAttach not_found": 154,
		"VolumeDetach ok": 11, "VolumeDetach conflict": 1, "VolumeDetach not_found": 17,
		"InstanceMove ok": 1, "InstanceMove conflict": 5, "InstanceMove no_capacity": 1,
	})
}

// TestRules plays random histories in which holds under rules meet.
func TestRules(t *testing.T) {
	play(t, 100, (*state.History).DrawRuled, check.Outcomes{
		"BootCreate ok": 39, "BootDecide conflict": 5, "BootDecide ok": 6, "Hold conflict": 101, "Hold ok": 62, "Hold plan_refused": 23,
		"HoldParts ok": 13, "HostsState ok": 40, "InstanceDelete ok": 3, "InstanceMove conflict": 7, "InstanceMove no_capacity": 1, "InstanceMove ok": 12,
		"InstanceReport ok": 63, "slot": 57, "slot refused": 18, "slot on a spare": 2, "slot under a rule": 29, "part of a slot elsewhere": 32,
		"instance on another host": 5, "instance evacuated": 2,
	})
}

// TestLeaseOracle plays random lives of leases.
func TestLeaseOracle(t *testing.T) {
	playFrom(t, 150, state.NewLeaseHistory, (*state.History).FirstOfLeases, (*state.History).DrawLease, check.Outcomes{
		"LeaseCreate conflict": 5, "LeaseCreate ok": 85, "LeaseDelete ok": 12, "LeaseSet conflict": 31, "LeaseSet ok": 12,
		"LeaseSet stale_generation": 10, "LinkWriteOff conflict": 3, "LinkWriteOff ok": 3, "lease created": 116, "lease deleted": 26, "lease ended": 5, "lease failed": 3, "lease started": 8,
		"lease updated": 5, "lease STARTING": 36, "lease DELETING": 197, "lease UPDATING": 100, "Hold ok": 145, "HoldParts ok": 16,
		"PartAck ok": 16, "Prune ok": 6, "SeriesCreate ok": 26, "SeriesDelete ok": 7, "QuotaSet ok": 9,
		"LeaseCreate over_quota": 3, "SeriesCreate over_quota": 2, "HoldDecide conflict": 2, "InstanceMove ok": 3, "InstanceChanges ok": 47, "slot": 128, "slot refused": 116, "slot on a spare": 34,
		"slot under a rule": 33, "part of a slot elsewhere": 21, "consumer with shares": 7,
	})
}

// TestPreemptOracle plays random lives of leases and of preemptible instances in their way.
func TestPreemptOracle(t *testing.T) {
	playFrom(t, 150, state.NewPreemptHistory, (*state.History).FirstOfPreempt, (*state.History).DrawPreempt, check.Outcomes{
		"BootCreate ok": 123, "BootRelease ok": 16, "Hold ok": 331, "InstanceReport ok": 143, "LeaseCreate ok": 19, "Requeue ok": 1,
		"lease started": 1, "slot": 221, "slot refused": 461, "slot on a spare": 68, "instance evicted": 20,
	})
}

// TestShareOracle plays random histories of what a parent takes of a zone that lends it a share.
func TestShareOracle(t *testing.T) {
	playFrom(t, 150, state.NewShareHistory, (*state.History).FirstOfPreempt, (*state.History).DrawShare, check.Outcomes{
		"LinkSet ok": 50, "Hold ok": 400, "HoldDecide ok": 80, "hold over a share": 18, "slot": 240, "slot refused": 600, "InstanceReport ok": 95,
	})
}
