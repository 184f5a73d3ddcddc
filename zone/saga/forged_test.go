package saga_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/buildplan/seal"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// forgedHolds is how many forged blobs TestForgedHoldsAreRefused tries.
const forgedHolds = 2000

// forging makes holds with blobs that a zone did not seal for them.
type forging struct {
	w    *zonetest.World
	rnd  *rand.Rand
	mid  *zonetest.Member  // the zone that is lied to
	up   *api.Link         // its parent
	real []api.HoldRequest // with plans of mid for up
	low  []byte            // a plan of the zone below, for mid
	own  []byte            // a plan of mid for a caller of its own
	next int
}

// forgedHold returns a hold that must be refused, and over which link it comes.
type forgedHold func(f *forging) (*api.Link, api.HoldRequest)

// waysToForge are the ways to make one. Flavor, resources, count and user are
// parts of the request whose digest a plan is bound to.
func waysToForge() map[string]forgedHold {
	blob := func(forge func(f *forging, b []byte) []byte) forgedHold {
		return func(f *forging) (*api.Link, api.HoldRequest) {
			h := f.pick()
			h.Blob = forge(f, bytes.Clone(h.Blob))
			return f.up, h
		}
	}
	asked := func(change func(r *api.Request)) forgedHold {
		return func(f *forging) (*api.Link, api.HoldRequest) {
			h := f.pick()
			h.Request.Groups = slices.Clone(h.Request.Groups)
			change(&h.Request)
			return f.up, h
		}
	}
	return map[string]forgedHold{
		"nothing":    blob(func(*forging, []byte) []byte { return nil }),
		"any bytes":  blob(func(f *forging, b []byte) []byte { return f.fill(b) }),
		"bits":       blob((*forging).flip),
		"cut":        blob(func(f *forging, b []byte) []byte { return b[:f.rnd.IntN(len(b))] }),
		"extended":   blob(func(f *forging, b []byte) []byte { return append(b, f.fill(make([]byte, 256))...) }),
		"spliced":    blob((*forging).splice),
		"wrong key":  blob((*forging).wrongKey),
		"child's":    blob(func(f *forging, _ []byte) []byte { return f.low }),
		"own user's": blob(func(f *forging, _ []byte) []byte { return f.own }),
		"another hold's": blob(func(f *forging, b []byte) []byte {
			other := f.pick()
			for bytes.Equal(other.Blob, b) {
				other = f.pick()
			}
			return other.Blob
		}),
		"project":     asked(func(r *api.Request) { r.Project = "another" }),
		"reservation": asked(func(r *api.Request) { r.Reservation = "another" }),
		"user":        asked(func(r *api.Request) { r.User = "another" }),
		"count":       asked(func(r *api.Request) { r.Groups[0].Count++ }),
		"resources":   asked(func(r *api.Request) { r.Groups[0].Resources = api.Resources{api.VCPU: 2, api.MemoryMB: 256} }),
		"specs":       asked(func(r *api.Request) { r.Groups[0].ExtraSpecs = map[string]string{"a": "b"} }),
		"window":      asked(func(r *api.Request) { r.Window.Start++ }),
		"lifetime":    asked(func(r *api.Request) { r.Lifetime = time.Hour }),
		"link": func(f *forging) (*api.Link, api.HoldRequest) {
			l := *f.up
			l.Zone = "zone-of-a-stranger"
			return &l, f.pick()
		},
		"more than the plan": func(f *forging) (*api.Link, api.HoldRequest) {
			h := f.pick()
			h.Instances = [][]api.InstanceSpec{slices.Concat(h.Instances[0], zonetest.Specs("more", h.Request.Groups[0].Count))}
			return f.up, h
		},
	}
}

// pick returns a hold with a good plan and an id of its own.
func (f *forging) pick() api.HoldRequest {
	h := f.real[f.rnd.IntN(len(f.real))]
	f.next++
	h.ID = api.HoldID(fmt.Sprint("forged-", f.next))
	return h
}

func (f *forging) fill(b []byte) []byte {
	for i := range b {
		b[i] = byte(f.rnd.Uint32())
	}
	return b
}

func (f *forging) flip(b []byte) []byte {
	b[f.rnd.IntN(len(b))] ^= 1 << f.rnd.IntN(8)
	return b
}

func (f *forging) splice(b []byte) []byte {
	var other []byte
	for i := range f.real { // there are two of each size
		if o := f.real[i].Blob; len(o) == len(b) && !bytes.Equal(o, b) {
			other = o
		}
	}
	at := 1 + f.rnd.IntN(len(b)-1)
	out := slices.Concat(b[:at], other[at:])
	if bytes.Equal(out, b) || bytes.Equal(out, other) {
		out[len(out)-1] ^= 1 // the two differ on one side of the cut alone
	}
	return out
}

// wrongKey seals a plan of another zone's making as this zone would, but for the key.
func (f *forging) wrongKey([]byte) []byte {
	ring, err := zonetest.Keys{Zone: f.mid.Name}.Ring(nil)
	require.NoError(f.w.T, err)
	k := ring[0]
	k.Secret[0] ^= 1
	h := f.pick()
	ctx := seal.Context{
		Zone: f.mid.ID, Peer: string(f.up.Zone), Project: h.Request.Project, Reservation: h.Request.Reservation,
		Digest: buildplan.Digest(&h.Request),
	}
	b, err := seal.Seal(k, ctx, f.fill(make([]byte, 300)), [seal.SaltBytes]byte(f.fill(make([]byte, seal.SaltBytes))))
	require.NoError(f.w.T, err)
	return b
}

// stolen selects for holds of n instances at a zone, in the name of peer.
func (f *forging) stolen(at *zonetest.Member, peer api.ZoneID, n int) api.HoldRequest {
	f.w.T.Helper()
	f.next++
	res := fmt.Sprint("r-", f.next)
	req := zonetest.Order(res, n, n).Request
	ctx, cancel := at.Within(time.Minute)
	defer cancel()
	a, err := at.Lead().Select(ctx, peer, &req)
	require.NoError(f.w.T, err)
	require.Len(f.w.T, a.Weights[0], n)
	return api.HoldRequest{
		ID: api.HoldID("hold-" + res), Attempt: 1, Request: req, Blob: a.Blob, Instances: [][]api.InstanceSpec{zonetest.Specs(res, n)},
	}
}

// frozenState returns a zone's state in the bytes that a snapshot of it has.
func frozenState(m *zonetest.Member) []byte {
	m.World.T.Helper()
	var b bytes.Buffer
	require.NoError(m.World.T, m.View().Save(&b))
	return b.Bytes()
}

// TestForgedHoldsAreRefused shows a zone, which has hosts and a child with hosts,
// plans that it has not sealed for the hold they come with. It refuses all of
// them in one way, and neither its state nor the child's changes by a byte.
func TestForgedHoldsAreRefused(t *testing.T) {
	rnd := dice.Rand(t)
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root, 4, 4)
		low := w.Zone("low", mid, 4)
		up, _ := mid.View().Parent()
		f := &forging{w: w, rnd: rnd, mid: mid, up: up}
		for _, n := range []int{1, 1, 4, 4, 12, 12} { // the last two reach into low
			f.real = append(f.real, f.stolen(mid, root.ID, n))
		}
		f.low, f.own = f.stolen(low, mid.ID, 2).Blob, f.stolen(mid, "", 2).Blob
		ways := waysToForge()
		before, below := frozenState(mid), frozenState(low)
		tried := 0
		for _, name := range slices.Sorted(maps.Keys(ways)) {
			for range forgedHolds/len(ways) + 1 {
				tried++
				link, h := ways[name](f)
				ctx, cancel := mid.Within(time.Minute)
				_, err := mid.Lead().Hold(ctx, link, &h)
				cancel()
				require.Equal(t, api.CodePlanRefused, api.CodeOf(err), "%s: %v", name, err)
				require.Equal(t, api.PlanRefusedMessage, api.MessageOf(err), name)
			}
			require.True(t, bytes.Equal(before, frozenState(mid)), "%s changed the zone", name)
			require.True(t, bytes.Equal(below, frozenState(low)), "%s changed the zone below", name)
		}
		require.GreaterOrEqual(t, tried, forgedHolds)
		t.Logf("%d forged blobs in %d ways, none accepted", tried, len(ways))
		f.late(before)
	})
}

// late shows what is real: in time it is accepted, once; then it is not, and
// however often it is tried, no hold gets into the log.
func (f *forging) late(before []byte) {
	t, mid := f.w.T, f.mid
	t.Helper()
	hold := func(h api.HoldRequest) error {
		ctx, cancel := mid.Within(time.Minute)
		defer cancel()
		_, err := mid.Lead().Hold(ctx, f.up, &h)
		return err
	}
	refused := func(h api.HoldRequest, why string) {
		taken, logged := mid.Used(), mid.Log.Count(command.KindHold)
		err := hold(h)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err), why)
		assert.Equal(t, api.PlanRefusedMessage, api.MessageOf(err), why)
		assert.Equal(t, logged, mid.Log.Count(command.KindHold), why)
		_, known := mid.View().Hold(f.up.ID, h.ID)
		assert.False(t, known, why)
		assert.Equal(t, taken, mid.Used(), why)
	}
	require.NoError(t, hold(f.real[2]))
	assert.False(t, bytes.Equal(before, frozenState(mid)), "what is real changes the zone")
	assert.EqualValues(t, 4, mid.Used())
	again := f.real[2]
	again.ID, again.Instances = "again", [][]api.InstanceSpec{zonetest.Specs("again", 4)}
	refused(again, "a plan that was taken up")
	await.Sleep(api.PlanTTLDefault + time.Second)
	for _, h := range f.real[:2] {
		refused(h, "a plan that has expired")
	}
}
