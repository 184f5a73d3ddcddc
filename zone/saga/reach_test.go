package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/zonetest"
)

// TestReachIsToldUpward: what is on a host that is lost is out of reach in each zone
// above, since the moment that its own zone says, and no longer when it is back.
// What is elsewhere is not. A leader that comes to power in between changes nothing.
func TestReachIsToldUpward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("all", 6, 6)).State())
		w.Settle()
		l, _ := mid.View().LinkByName("leaf")
		below := map[api.InstanceID]bool{} // what is in the leaf
		for _, i := range mid.Instances("all") {
			below[i.ID] = i.Link == l.ID
		}
		away := func(m *zonetest.Member, since api.Instant) {
			t.Helper()
			m.Until("it is known what is out of reach", func(v *state.State) bool {
				for _, i := range v.OfReservation("p", "all") {
					want := api.Instant(0)
					if below[i.ID] {
						want = since
					}
					if v.UnreachableSince(i) != want {
						return false
					}
				}
				return true
			})
			for _, i := range m.Instances("all") {
				assert.Equal(t, api.StatusActive, i.Status, "what was last known")
			}
		}
		for _, m := range []*zonetest.Member{root, mid, leaf} {
			away(m, 0)
		}
		leaf.Silence(true)
		leaf.Until("the host is down", func(v *state.State) bool { return v.AllHosts()[0].State != api.HostUp })
		since := leaf.View().AllHosts()[0].DownSince
		for _, m := range []*zonetest.Member{leaf, mid, root} {
			away(m, since)
		}
		mid.Elect()
		await.Sleep(time.Minute)
		away(root, since)
		assert.Equal(t, 2, len(root.Instances("all"))-len(mid.Instances("all")))

		leaf.Silence(false)
		for _, m := range []*zonetest.Member{leaf, mid, root} {
			away(m, 0)
		}
		root.Release("all")
		w.Settle()
	})
}

// TestReachIsToldLate: a zone that was cut off while a host below was lost and came
// back, and was lost again, knows in the end what is so.
func TestReachIsToldLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		west := w.Zone("west", root, 2)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("all", 2, 2)).State())
		w.Settle()
		host := func(mute bool) {
			west.Silence(mute)
			west.Until("the host is where it should be", func(v *state.State) bool { return (v.AllHosts()[0].State == api.HostUp) != mute })
		}
		cut := func(on bool) { w.Sever("root", "west", on) }
		away := func() (out []api.Instant) {
			for _, i := range root.Instances("all") {
				out = append(out, root.View().UnreachableSince(i))
			}
			return out
		}
		cut(true)
		host(true)
		host(false)
		host(true)
		assert.Equal(t, []api.Instant{0, 0}, away())
		cut(false)
		await.Sleep(time.Minute)
		since := west.View().AllHosts()[0].DownSince
		assert.Equal(t, []api.Instant{since, since}, away())
		cut(true)
		host(false)
		cut(false)
		await.Sleep(time.Minute)
		assert.Equal(t, []api.Instant{0, 0}, away())
	})
}

// TestSilenceIsToldUpward: what lies below a child that is silent is out of reach in
// each zone above, not only in the one that misses it. A child that was never heard
// is nobody's news, and one that comes and goes is told of once.
func TestSilenceIsToldUpward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("all", 6, 6)).State())
		w.Settle()
		l, _ := mid.View().LinkByName("leaf")
		hears := func(age time.Duration) { w.Tell(leaf.Name, api.Digest{}, age) }
		silent := func(m *zonetest.Member) (out int) {
			for _, i := range m.Instances("all") {
				assert.Equal(t, api.StatusActive, i.Status)
				if m.View().UnreachableSince(i) != 0 {
					out++
				}
			}
			return out
		}
		await.Sleep(time.Minute)
		assert.Zero(t, silent(root), "nobody was missed who was never heard")

		for range 2 {
			hears(zone.LinkFresh + time.Second)
			mid.Until("the child is silent", func(v *state.State) bool {
				now, _ := v.Link(l.ID)
				return now.SilentSince != 0
			})
			now, _ := mid.View().Link(l.ID)
			assert.Equal(t, api.InstantOf(time.Now().Add(-zone.LinkFresh-time.Second)), now.SilentSince)
			await.Sleep(time.Minute)
			assert.Equal(t, 2, silent(mid))
			assert.Equal(t, 2, silent(root))
			hears(zone.LinkFresh - time.Second) // neither here nor there
			await.Sleep(time.Minute)
			assert.Equal(t, 2, silent(root))
			later, _ := mid.View().Link(l.ID)
			assert.Equal(t, now.Updated, later.Updated, "it is told once")

			hears(time.Second)
			await.Sleep(time.Minute)
			assert.Zero(t, silent(mid))
			assert.Zero(t, silent(root))
		}
		root.Release("all")
		w.Settle()
	})
}
