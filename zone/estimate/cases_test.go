package estimate_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/zonetest"
)

// The acceptance cases of the original zones that a zone itself answers; the
// numbers are theirs. docs/acceptance.md lists them all.

// Case 57: a zone opens its own blob and finds the host and the weight that it
// has sealed; nobody reads them without its key.
func TestCase57OwnBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("root", nil, 2)
		req := zonetest.Order("b", 2, 2).Request
		a, err := z.Lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		l, err := z.Lead().Open(z.View(), "", &req, a.Blob)
		require.NoError(t, err)
		host := z.View().AllHosts()[0].ID
		require.Len(t, l.Groups[0].Slots, 2)
		for i, weight := range []int64{2048, 2048 - 256} {
			assert.Equal(t, host, l.Groups[0].Slots[i].Host)
			assert.Equal(t, weight, l.Groups[0].Slots[i].Weight)
			assert.Equal(t, weight-weight%estimate.WeightQuantum, a.Weights[0][i])
		}
		assert.False(t, bytes.Contains(a.Blob, []byte(host)))
	})
}

// Case 59: a blob with any one bit flipped is refused. The envelope has a test of
// its own; this one goes through the door.
func TestCase59EveryBit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid, link, r := zonetest.SelectedHold(w, 2)
		blob := r.Blob
		for i := range 8 * len(blob) {
			r.Blob = bytes.Clone(blob)
			r.Blob[i/8] ^= 1 << (i % 8)
			_, err := kid.Lead().Hold(t.Context(), link, r)
			require.Equal(t, api.CodePlanRefused, api.CodeOf(err), "bit %d", i)
		}
		assert.Zero(t, kid.Used())
		r.Blob = blob
		_, err := kid.Lead().Hold(t.Context(), link, r)
		require.NoError(t, err)
	})
}

// described describes one host for an agent of a test.
func described(name string, cpus int64, traits ...string) api.AgentHost {
	return api.AgentHost{
		Name: name, Driver: "fake", Pool: api.PoolShared, Traits: traits,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: cpus}},
	}
}

// Case 45: what a zone says of its hosts is the range over all of them; what a host
// reports replaces what it said before.
func TestCase45Ranges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		report := func(agent api.AgentID, hosts ...api.AgentHost) {
			_, err := m.Lead().RegisterHosts(t.Context(), agent, &api.AgentRegister{Hosts: hosts})
			require.NoError(t, err)
		}
		cpus := func() api.ClassTotals { return m.Lead().Digest().Classes[api.VCPU] }
		assert.Empty(t, m.Lead().Digest().Classes)
		report("a", described("h1", 2, "A"))
		assert.Equal(t, api.ClassTotals{Total: 2, Free: 2, SlotMin: 1, SlotMax: 2}, cpus())
		report("a", described("h1", 4, "B"))
		assert.Equal(t, api.ClassTotals{Total: 4, Free: 4, SlotMin: 1, SlotMax: 4}, cpus())
		assert.Equal(t, []string{"B"}, m.Lead().Digest().Traits, "A was replaced")
		report("b", described("h2", 20, "A"))
		assert.Equal(t, api.ClassTotals{Total: 24, Free: 24, SlotMin: 1, SlotMax: 20}, cpus())
		assert.Equal(t, []string{"A", "B"}, m.Lead().Digest().Traits)
	})
}

// Cases 46 and 48: a host that was heard exactly its grace ago still counts, and
// after that it does not, whoever asks or does not ask: it is no candidate, and
// with none left the zone has nothing to say.
func TestCase46And48StaleHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 2)
		m.Silence(true)
		await.Sleep(fleet.HostGraceDefault + 3*fleet.AgentBeat)
		assert.Empty(t, m.Lead().Digest().Classes)
		a := m.Pick(1, time.Second)
		assert.Empty(t, a.Weights[0])
		assert.Equal(t, []api.FilterCount{{Filter: "host_state", Hosts: 1, Tier: api.TierNotNow}}, a.Refusals[0].Filters)
	})
}

// Case 49: a zone tells its name and what its operator has tagged it with.
func TestCase49ZoneInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("darksecret", nil)
		m.Do(command.ConfigSet{Config: api.ZoneConfig{Tags: []string{"a", "b", "c.d"}, DefaultAZ: "north"}})
		assert.Equal(t, "darksecret", m.View().Name)
		assert.Equal(t, []string{"a", "b", "c.d"}, m.Lead().Digest().Tags)
	})
}

// Case 51: children that are linked, changed and unlinked count at once.
func TestCase51Registry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		w.Zone("kid", root, 1)
		outcomes := func() map[string]string {
			got, _ := zonetest.OutcomesOf(root.Pick(1, time.Second))
			return got
		}
		assert.Equal(t, map[string]string{"root": api.OutcomeAnswered, "kid": api.OutcomeAnswered}, outcomes())
		renamed, offset := "child", int64(1_000_000)
		root.Do(command.LinkSet{ID: "link-kid", Name: &renamed, Offset: &offset})
		w.Zone("other", root, 1)
		assert.Equal(t, map[string]string{"root": api.OutcomeAnswered, "child": api.OutcomeAnswered, "other": api.OutcomeAnswered}, outcomes())
		assert.Equal(t, map[api.LinkID]int{"link-other": 1}, spreadOf(root, "b"), "the other is nearer now")
		root.Do(command.LinkDelete{ID: "link-kid"})
		assert.Equal(t, map[string]string{"root": api.OutcomeAnswered, "other": api.OutcomeAnswered}, outcomes())
	})
}

func spreadOf(m *zonetest.Member, res string) map[api.LinkID]int {
	m.Run(zonetest.Order(res, 1, 1))
	return m.Spread(res, "")
}
