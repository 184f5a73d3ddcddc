package zone

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// The acceptance cases of the original zones that a zone itself answers; the
// numbers are theirs. docs/acceptance.md lists them all.

// Case 57: a zone opens its own blob and finds the host and the weight that it
// has sealed; nobody reads them without its key.
func TestCase57OwnBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		z := w.zone("root", nil, 2)
		req := order("b", 2, 2).Request()
		a, err := z.lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		l, err := z.lead().open(z.view(), "", &req, a.Blob)
		require.NoError(t, err)
		host := z.view().AllHosts()[0].ID
		require.Len(t, l.Groups[0].Slots, 2)
		for i, weight := range []int64{2048, 2048 - 256} {
			assert.Equal(t, host, l.Groups[0].Slots[i].Host)
			assert.Equal(t, weight, l.Groups[0].Slots[i].Weight)
			assert.Equal(t, weight-weight%WeightQuantum, a.Weights[0][i])
		}
		assert.False(t, bytes.Contains(a.Blob, []byte(host)))
	})
}

// Case 59: a blob with any one bit flipped is refused. The envelope has a test of
// its own; this one goes through the door.
func TestCase59EveryBit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kid, link, r := selected(w, 2)
		blob := r.Blob
		for i := range 8 * len(blob) {
			r.Blob = bytes.Clone(blob)
			r.Blob[i/8] ^= 1 << (i % 8)
			_, err := kid.lead().Hold(t.Context(), link, r)
			require.Equal(t, api.CodePlanRefused, api.CodeOf(err), "bit %d", i)
		}
		assert.Zero(t, kid.used())
		r.Blob = blob
		_, err := kid.lead().Hold(t.Context(), link, r)
		require.NoError(t, err)
	})
}

// Case 70: taking up a plan asks no zone to select again; it places locally and
// forwards to just the children that it names.
func TestCase70NoNewSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, _, _ := three(w)
		w.zone("unused", root)
		o := order("b", 5, 6)
		req := o.Request()
		a, err := root.lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		selects := func() [2]int { return [2]int{w.made("select", "root", "mid"), w.made("select", "mid", "leaf")} }
		asked := selects()
		o.Blob = a.Blob
		b := root.run(o)
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Equal(t, 6, b.Counts.Live())
		assert.Equal(t, asked, selects())
		assert.Zero(t, w.made("hold", "root", "unused"))
		w.settle()
	})
}

// Case 70, the other half: when a plan cannot be kept, its boot ends; no other
// plan is made for it.
func TestCase70NeverAnotherPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2)
		o := order("b", 4, 4)
		req := o.Request()
		a, err := root.lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		kid.resize(1)
		o.Blob = a.Blob
		b := root.run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Len(t, b.Attempts, 1)
		w.settle()
		assert.Zero(t, root.used()+kid.used())
	})
}

// Case 72: the host of a slot fills up between select and hold, so the next
// candidate takes it; TestRefusedSlotsAreWantedAgain goes on to where none is
// left, and everything of the request is undone.
func TestCase72NextCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		kid := w.zone("kid", root, 2, 2) // one instance on the first, a spare on the second
		w.when(func(now call) fault {
			if now.op == "hold and commit" {
				kid.resize(0)
			}
			return ""
		})
		b := root.run(order("b", 1, 1))
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, b.Attempts, 1, "the child had an alternate")
		i := kid.instances("b")[0]
		h, _ := kid.view().Host(i.Host)
		assert.Equal(t, "kid-host-2", h.Name)
		w.settle()
	})
}
