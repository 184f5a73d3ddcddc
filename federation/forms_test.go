package federation

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
)

// TestPricesAreSentToThoseWhoReadThem: a digest has prices once all nodes of its zone read them and the
// parent has said so of its own, and only towards the parent.
func TestPricesAreSentToThoseWhoReadThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		parent, p, below := w.add("parent", nil), w.add("mid", nil), w.add("below", nil)
		p.isBelow(parent)
		below.isBelow(p)
		p.digest = digestCache{now: p.time, make: func() *api.Digest {
			return &api.Digest{Zone: p.id, Sketches: []api.FitSketch{{Flavor: "f", Fits: 4, Price: new(int64(64))}}}
		}}
		up, down := p.linkTo(parent), p.linkTo(below)
		has := func(d *api.Digest) bool { return len(d.Sketches) > 0 && d.Sketches[0].Price != nil }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.FollowForms(ctx) }()
		sends := func(own, reads api.Form, away bool) bool {
			p.members.form.Store(int64(own))
			parent.members.form.Store(int64(reads))
			parent.away.Store(away)
			await.Sleep(formsAge + 2*formsEvery)
			synctest.Wait()
			require.Equal(t, own >= api.FormFifth, has(p.Digest()), "to its own nodes")
			require.False(t, has(p.DigestFor(down)))
			require.Equal(t, int64(4), p.DigestFor(up).Sketches[0].Fits)
			return has(p.DigestFor(up))
		}
		require.False(t, has(p.DigestFor(up)), "the parent was not asked yet")
		for _, c := range []struct {
			own, reads api.Form
			away, want bool
		}{
			{api.FormFifth, api.FormFifth, true, false},
			{api.FormFifth, api.FormFourth, false, false},
			{api.FormFifth, api.FormFifth, false, true},
			{api.FormFourth, api.FormFifth, false, false},
			{api.FormFifth, api.FormFifth, true, true}, // what it said before stands
			{api.FormFifth, api.FormFourth, false, false},
		} {
			assert.Equal(t, c.want, sends(c.own, c.reads, c.away), "%+v", c)
		}
		stop()
		<-done
	})
}
