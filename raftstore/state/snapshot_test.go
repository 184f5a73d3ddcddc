package state

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/golden"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// busy returns a state with a record in every table.
func busy(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	w.host("h1", 9)
	w.link("up", api.LinkParent)
	w.link("c1", api.LinkChild)
	w.ok(command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: "n1"}})
	w.ok(command.FlavorPut{Stamp: w.stamp(), Flavor: api.Flavor{ID: "small", Resources: api.Resources{api.VCPU: 1}}})
	w.ok(join(w, "j1", api.JoinAgent, api.JoinTokenTTLMax))
	for _, r := range []string{"r1", "r2", "r3"} {
		w.ok(create(w.stamp(), r, 2, 1))
	}
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a"), part("c1", "b"))
	h.Plan, h.Commit = "plan", true
	w.ok(h)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{{Link: "c1", Held: []api.InstanceID{"b"}, Committed: true}}})
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "b"})
	w.ok(hold(w.stamp(), "k2", "r2", slots("h1", "c"), part("c1", "d")))
	w.ok(asked(w.stamp(), "k3", slots("h1", "e"), part("c1", "f")))
	w.ok(asked(w.stamp(), "k4", slots("h1", "g")))
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k4", Origin: "up", Decision: api.DecisionCommit})
	w.ok(hold(w.stamp(), "k5", "r3", nil, part("c1", "i")))
	w.ok(bootDecide(w.stamp(), "r3", api.DecisionAbort))
	return w
}

func TestSnapshotGolden(t *testing.T) {
	w := busy(t)
	for name, n := range map[string]int{
		"nodes": w.s.nodes.Len(), "tokens": w.s.tokens.Len(), "joins": w.s.joins.Len(), "flavors": w.s.flavors.Len(),
		"links": w.s.links.Len(), "hosts": w.s.hosts.Len(), "instances": w.s.instances.Len(), "boots": w.s.boots.Len(),
		"holds": w.s.holds.Len(), "plans": w.s.plans.Len(), "unended": w.s.unended.Len(), "held": w.s.held.Len(),
		"undecided": w.s.undecided.Len(), "untold": w.s.untold.Len(), "prepared": w.s.prepared.Len(), "changes": w.s.changes.Len(),
	} {
		require.NotZero(t, n, "%s: the golden snapshot should have one", name)
	}
	checkGolden(t, w.s, "")
}

// checkGolden holds the bytes of a snapshot.
func checkGolden(t *testing.T, s *State, name string) {
	t.Helper()
	var text strings.Builder
	for b := []byte(saved(t, s)); len(b) > 0; {
		n := min(len(b), 32)
		fmt.Fprintf(&text, "%x\n", b[:n])
		b = b[n:]
	}
	golden.Check(t, "testdata/snapshot-v3"+name+".hex", []byte(text.String()))
	checkIndexes(t, s)
}

// busier returns busy with what came later: a zone that uses none of it writes the
// snapshots that it always wrote, and one that does is read by builds that know it.
func busier(tb testing.TB) *world {
	tb.Helper()
	w := busy(tb)
	put := hostPut(w.stamp(), "a1", "h2", 9)
	put.Hosts[0].Host.Attributes = map[string]string{"price": "3"}
	w.ok(put)
	why, drain := "disk", api.DrainMove
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h1", Maintenance: &why, Drain: &drain, Overrides: map[string]string{"rack": "1"}})
	w.ok(w.aggregate(aggregate("a", "az1", "h1", "h2"), false))
	w.ok(groupPut(w.stamp(), "p", "g1", "web"))
	b, h := create(w.stamp(), "r4", 2, 1), hold(w.stamp(), "k6", "r4", slots("h2", "j", "k"), part("c1", "l"))
	b.Timeout, b.Call = time.Minute, "req-1"
	b.Request.Groups[0].Min, b.Request.Lifetime = 1, time.Hour
	b.Request.Rules = []api.Rule{{ID: "g1", Policy: api.AntiAffinity, Max: 2, Groups: []int{0}}}
	h.Request = b.Request
	w.ok(b)
	w.ok(h)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k6", Answers: []command.PartAnswer{answer("c1", "l")}})
	w.ok(bootDecide(w.stamp(), "r4", api.DecisionCommit))
	w.ok(reports(w.stamp(), "a1", "h2", api.StatusError, "k"))
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "a", From: "h1", To: "h2"})
	return w
}

func TestSnapshotGoldenOfTheScheduler(t *testing.T) {
	w := busier(t)
	for name, n := range map[string]int{
		"aggregates": w.s.aggregates.Len(), "inAggregate": w.s.inAggregate.Len(), "groups": w.s.groups.Len(),
		"byTarget": w.s.byTarget.Len(), "ends": w.s.ends.Len(), "members": w.s.members.Len(), "tenants": w.s.tenants.Len(),
	} {
		require.NotZero(t, n, "%s: the golden snapshot should have one", name)
	}
	checkGolden(t, w.s, "-scheduler")
}

// placed returns busier with what the placement API has made of it.
func placed(tb testing.TB) *world {
	tb.Helper()
	w := busier(tb)
	w.ok(command.ClassPut{Stamp: w.stamp(), Name: "CUSTOM_FPGA"})
	w.ok(command.TraitPut{Stamp: w.stamp(), Name: "CUSTOM_FAST"})
	w.provider("pool", "", inventory{api.DiskGB: {Total: 100, Reserved: 1, MinUnit: 1, MaxUnit: 90, StepSize: 1, AllocationRatio: 15_000}})
	w.ok(w.traits("pool", api.TraitShares, "CUSTOM_FAST"))
	w.ok(w.aggregates("pool", uuid(1)))
	w.provider("card", "h2", inventory{"CUSTOM_FPGA": {Total: 9}})
	w.ok(w.have("h2", inventory{api.VCPU: {Total: 9}, api.MemoryMB: {Total: 100}}))
	w.ok(w.traits("h2", "CUSTOM_FAST"))
	w.ok(command.ProviderSet{Stamp: w.stamp(), ID: "h2", Aggregates: &[]string{"a", uuid(1)}, Bump: true})
	e := and(wants("volume", "pool", api.DiskGB, 5), "h2", api.VCPU, 1)
	kind := "VOLUME"
	e.Type = &kind
	w.ok(w.consumers(e))
	for n, res := range []string{"r5", "r6"} {
		b, h := create(w.stamp(), res, 1, 1), hold(w.stamp(), "k-"+res, res, slots("h2", "m-"+res))
		b.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, api.DiskGB: 2, "CUSTOM_FPGA": 1}
		h.Request, h.Commit = b.Request, n == 0
		w.ok(b)
		w.ok(h)
	}
	w.host("h3", 9)
	w.provider("card3", "h3", inventory{"CUSTOM_FPGA": {Total: 1}, api.DiskGB: {Total: 3}})
	w.ok(command.InstanceMove{Stamp: w.stamp(), ID: "m-r5", From: "h2", To: "h3"})
	return w
}

func TestSnapshotGoldenOfPlacement(t *testing.T) {
	w := placed(t)
	for name, n := range map[string]int{
		"providers": w.s.providers.Len(), "children": w.s.children.Len(), "classes": w.s.classes.Len(), "traits": w.s.traits.Len(),
		"consumers": w.s.consumers.Len(), "byOwner": w.s.byOwner.Len(), "draws": w.s.draws.Len(),
	} {
		require.NotZero(t, n, "%s: the golden snapshot should have one", name)
	}
	i, _ := w.s.Instance("m-r5")
	require.NotEmpty(t, i.Shares)
	require.NotEmpty(t, i.TargetShares)
	h, _ := w.s.Hold("", "k-r6")
	require.NotEmpty(t, h.Shares)
	checkGolden(t, w.s, "-placement")
	twin := loaded(t, saved(t, w.s))
	for _, id := range []api.ProviderID{"pool", "card", "card3", "h1", "h2", "h3"} {
		want, _ := w.s.Provider(id)
		got, _ := twin.Provider(id)
		assert.Equal(t, want, got)
		assert.Equal(t, w.s.AllocationsOn(id), twin.AllocationsOn(id))
	}
	assert.Equal(t, w.s.Usages("p", nil), twin.Usages("p", nil))
}

// TestSnapshotOfBeforePlacement has hosts that say what no list of names has.
func TestSnapshotOfBeforePlacement(t *testing.T) {
	w := newWorld(t)
	w.ok(saying(w, "h1", []string{"CUSTOM_GPU"}, []string{"SSD"}))
	old := w.s.Clone()
	old.classes, old.traits = table.NewMap[api.Instant](), table.NewMap[api.Instant]()
	twin := loaded(t, saved(t, old))
	assert.Equal(t, saved(t, w.s), saved(t, twin))
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	whole := saved(t, placed(t).s)
	for n := range whole {
		_, err := Load(strings.NewReader(whole[:n]), api.FormNewest)
		require.Error(t, err, "cut to %d of %d bytes", n, len(whole))
	}
	var other bytes.Buffer
	require.NoError(t, codec.NewEncoder(&other).Encode(header{Version: snapshotVersion + 1}))
	_, err := Load(&other, api.FormNewest)
	require.ErrorContains(t, err, "version 4 is unknown; this node reads version 3 alone")
	for name, h := range map[string]header{
		"the snapshot is of form 2":          {Version: snapshotVersion, Form: 2},
		`section "gadgets" of form 1 is un`:  {Version: snapshotVersion, Sections: []sectionHeader{{Name: "gadgets", Form: 1}}},
		`section "nodes" of form 2 is unkno`: {Version: snapshotVersion, Sections: []sectionHeader{{Name: "nodes", Form: 2}}},
		`section "joins" of form 1 is unkno`: {Version: snapshotVersion, Sections: []sectionHeader{{Name: "joins", Form: 1}, {Name: "joins", Form: 1}}},
	} {
		other.Reset()
		require.NoError(t, codec.NewEncoder(&other).Encode(h))
		_, err = Load(&other, api.FormFirst)
		require.ErrorContains(t, err, name)
	}
	_, err = Load(strings.NewReader("\xa1\x18\x63\x01"), api.FormNewest)
	assert.Error(t, err, "a field that nobody knows")
}

// full is a writer that has room for so many bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestSaveTellsOfAFullDisk(t *testing.T) {
	s := busy(t).s
	for room := range len(saved(t, s)) {
		require.ErrorIs(t, s.Save(&full{room}), io.ErrShortWrite)
	}
}

// TestRestore saves and loads after a random history, and lets both go on.
func TestRestore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDice(rt)
		for range d.n(120) {
			d.w.do(d.command())
		}
		bytes := saved(rt, d.w.s)
		twin := loaded(rt, bytes)
		require.Equal(rt, bytes, saved(rt, twin), "a snapshot of the restored state")
		for range 40 {
			c := d.command()
			r := d.w.do(c)
			require.Equal(rt, r, twin.Apply(d.w.index, d.w.reread(c)), "%#v", c)
			require.Equal(rt, saved(rt, d.w.s), saved(rt, twin), "after %#v", c)
			for _, h := range someHosts {
				require.Equal(rt, d.w.s.Hosts().Usage(api.HostID(h)), twin.Hosts().Usage(api.HostID(h)))
			}
		}
	})
}

// TestReplay applies one history, as the log keeps it, to two states.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDice(rt)
		twin := loaded(rt, saved(rt, d.w.s))
		for range d.n(60) {
			c := d.command()
			d.w.do(c)
			twin.Apply(d.w.index, d.w.reread(c))
			require.Equal(rt, saved(rt, d.w.s), saved(rt, twin), "after %#v", c)
		}
	})
}

// TestClonesStay takes views of a state that goes on, and reads them beside it.
func TestClonesStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDice(rt)
		type view struct {
			s     *State
			bytes string
			used  []api.Resources
		}
		used := func(s *State) (out []api.Resources) {
			for _, h := range someHosts {
				out = append(out, s.Hosts().Usage(api.HostID(h)))
			}
			return out
		}
		var views []view
		for range 60 {
			d.w.do(d.command())
			if d.chance(5) {
				v := d.w.s.Clone()
				views = append(views, view{v, saved(rt, v), used(v)}, view{v.Clone(), saved(rt, v), used(v)})
			}
		}
		for _, v := range views {
			require.Equal(rt, v.bytes, saved(rt, v.s))
			require.Equal(rt, v.used, used(v.s))
			checkIndexes(rt, v.s)
		}
	})
}

func TestClonesAreReadBesideTheWriter(t *testing.T) {
	w := busy(t)
	w.form = api.FormNewest
	w.host("h2", 1000)
	v := w.s.Clone()
	require.Positive(t, v.events.Len())
	want := saved(t, v)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for range 20 {
				var b bytes.Buffer
				require.NoError(t, v.Save(&b))
				assert.Equal(t, want, b.String())
				v.HostsPage(Page{Limit: 10})
				v.Hosts().Totals()
			}
		})
	}
	for i := range 50 {
		r := fmt.Sprintf("b%d", i)
		w.ok(create(w.stamp(), r, 2, 1))
		h := hold(w.stamp(), r, r, slots("h2", r+"x", r+"y"))
		h.Commit = true
		w.ok(h)
	}
	readers.Wait()
}
