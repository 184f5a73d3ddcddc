package federation

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/raftstore/command"
)

func TestARingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top, mid, low := w.add("top", nil), w.add("mid", nil), w.add("low", nil)
	mid.isBelow(top)
	low.isBelow(mid)
	for _, below := range []*place{mid, low} {
		err := top.enrolledBy(below)
		refusedAs(t, api.CodeConflict, err)
		assert.Contains(t, err.Error(), "the tree would become a ring")
	}
	assert.Len(t, top.view().Links(), 1)
	assert.Len(t, low.view().Links(), 1)
	_, has := top.view().Parent()
	assert.False(t, has)
}

func TestAbove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top, mid, low := w.add("top", nil), w.add("mid", nil), w.add("low", nil)
	mid.isBelow(top)
	low.isBelow(mid)
	for _, c := range []struct {
		at   *place
		id   api.ZoneID
		want api.AboveAnswer
	}{
		{top, top.id, api.AboveAnswer{Above: true}},
		{top, mid.id, api.AboveAnswer{}},
		{mid, top.id, api.AboveAnswer{Above: true, Zones: 1}},
		{low, top.id, api.AboveAnswer{Above: true, Zones: 2}},
		{low, mid.id, api.AboveAnswer{Above: true, Zones: 1}},
		{mid, low.id, api.AboveAnswer{Zones: 1}},
		{low, "nobody", api.AboveAnswer{Zones: 2}},
	} {
		a, err := c.at.Above(t.Context(), c.id)
		require.NoError(t, err)
		assert.Equal(t, &c.want, a, "%s asked for %s", c.at.id, c.id)
	}
}

func TestNoChildWhileAZoneAboveIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top, mid, low := w.add("top", nil), w.add("mid", nil), w.add("low", nil)
	mid.isBelow(top)
	top.away.Store(true)
	err := low.enrolledBy(mid)
	refusedAs(t, api.CodeUnavailable, err)
	assert.Contains(t, err.Error(), "try again when they can be reached")
	assert.Empty(t, low.view().Links())

	one, two := mid.linkToken("one"), mid.linkToken("two")
	forged := altered(t, one, func(j *identity.JoinToken) {
		other, err := identity.ParseJoinToken(two)
		require.NoError(t, err)
		j.ID = other.ID
	})
	_, err = low.Link(t.Context(), forged, "parent")
	refusedAs(t, api.CodeUnauthenticated, err) // and nobody above was asked

	top.away.Store(false)
	require.NoError(t, low.enrolledBy(mid))
}

func TestTheTreeIsNotTooDeep(t *testing.T) {
	t.Parallel()
	r := newWorld(t).add("r", nil)
	take := func(levels int) error { return r.checkChild(t.Context(), r.view(), "new", levels) }
	require.NoError(t, take(api.DepthMax-1), "under a root")
	refusedAs(t, api.CodeConflict, take(api.DepthMax))
	r.linked("up", api.LinkParent)
	refusal := func(code api.Code) error { return api.Errorf(code, "secret") }
	for name, c := range map[string]struct {
		said   api.AboveAnswer
		err    error
		levels int
		want   api.Code
	}{
		"a child":               {},
		"the lowest":            {said: api.AboveAnswer{Zones: api.DepthMax - 2}},
		"lower than that":       {said: api.AboveAnswer{Zones: api.DepthMax - 1}, want: api.CodeConflict},
		"a subtree":             {said: api.AboveAnswer{Zones: 3}, levels: api.DepthMax - 5},
		"one level more":        {said: api.AboveAnswer{Zones: 3}, levels: api.DepthMax - 4, want: api.CodeConflict},
		"a zone above":          {said: api.AboveAnswer{Above: true}, want: api.CodeConflict},
		"less than none above":  {said: api.AboveAnswer{Zones: -1}, want: api.CodeConflict},
		"more than there can":   {said: api.AboveAnswer{Zones: api.DepthMax + 1}, want: api.CodeConflict},
		"too many links":        {err: refusal(api.CodeInvalid), want: api.CodeConflict},
		"a refusal from above":  {err: refusal(api.CodeConflict), want: api.CodeConflict},
		"nobody there":          {err: refusal(api.CodeUnavailable), want: api.CodeUnavailable},
		"no answer in time":     {err: refusal(api.CodeTimeout), want: api.CodeUnavailable},
		"one that does not say": {err: refusal(api.CodeForbidden), want: api.CodeUnavailable},
		"no word of ours":       {err: errors.New("secret"), want: api.CodeUnavailable},
	} {
		r.above = func() (*api.AboveAnswer, error) { return &c.said, c.err }
		err := take(c.levels)
		assert.Equal(t, c.want, api.CodeOf(err), "%s: %v", name, err)
		assert.NotContains(t, api.MessageOf(err), "secret", "%s: what another zone said", name)
	}
}

// TestASubtreeIsNotTooDeep: an enrolment says how much hangs on it.
func TestASubtreeIsNotTooDeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top, mid, low := w.add("top", nil), w.add("mid", nil), w.add("low", nil)
	low.isBelow(mid)
	top.linked("up", api.LinkParent)
	zones := api.DepthMax - 2
	top.above = func() (*api.AboveAnswer, error) { return &api.AboveAnswer{Zones: zones}, nil }
	err := mid.enrolledBy(top)
	refusedAs(t, api.CodeConflict, err)
	assert.Contains(t, err.Error(), "links deep")
	zones--
	mid.isBelow(top)
}

func TestLevels(t *testing.T) {
	t.Parallel()
	r := newWorld(t).add("r", nil)
	assert.Zero(t, r.LevelsBelow(t.Context()))
	r.linked("one", api.LinkChild)
	r.linked("two", api.LinkChild)
	for said, want := range map[int]int{0: 1, 3: 4, -1: 1, api.DepthMax: api.DepthMax, 1 << 40: api.DepthMax} {
		r.below = func() (*api.BelowAnswer, error) { return &api.BelowAnswer{Levels: said}, nil }
		assert.Equal(t, want, r.LevelsBelow(t.Context()))
	}
	r.below = func() (*api.BelowAnswer, error) { return nil, errAway }
	assert.Equal(t, 1, r.LevelsBelow(t.Context()))
}

// TestAChildThatIsAwayIsOneLevel: it does not stand in the way of a link.
func TestAChildThatIsAwayIsOneLevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top, mid, low := w.add("top", nil), w.add("mid", nil), w.add("low", nil)
	low.isBelow(mid)
	assert.Equal(t, 1, mid.LevelsBelow(t.Context()))
	assert.Zero(t, low.LevelsBelow(t.Context()))
	low.away.Store(true)
	assert.Equal(t, 1, mid.LevelsBelow(t.Context()))
	mid.isBelow(top)
}

// TestTwoLinksAtOnceMakeNoRing: while a zone gets a parent it takes no child, and
// does not say who is above it.
func TestTwoLinksAtOnceMakeNoRing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two, low := w.add("one", nil), w.add("two", nil), w.add("low", nil)
		low.isBelow(two)
		for range 100 {
			toOne, toLow := one.linkToken("two"), low.linkToken("one")
			var errs [2]error
			var wg sync.WaitGroup
			wg.Go(func() { _, errs[0] = two.Link(t.Context(), toOne, "up") })
			wg.Go(func() { _, errs[1] = one.Link(t.Context(), toLow, "up") })
			wg.Wait()
			require.False(t, errs[0] == nil && errs[1] == nil, "each is above the other")
			for i, ends := range [][2]*place{{one, two}, {low, one}} {
				if errs[i] == nil {
					for j := range ends {
						p, other := ends[j], ends[1-j]
						p.propose(command.LinkDelete{Stamp: p.zone.Stamp(), ID: p.linkTo(other).ID})
					}
				} else {
					assert.Contains(t, []api.Code{api.CodeUnavailable, api.CodeConflict}, api.CodeOf(errs[i]), "%v", errs[i])
				}
			}
		}
		two.linking.Lock()
		_, err := low.peers.Above(t.Context(), low.linkTo(two), "nobody")
		refusedAs(t, api.CodeUnavailable, err)
		a, err := low.peers.Above(t.Context(), low.linkTo(two), two.id)
		require.NoError(t, err)
		assert.True(t, a.Above, "it knows itself")
		refusedAs(t, api.CodeUnavailable, one.enrolledBy(two))
		refusedAs(t, api.CodeUnavailable, two.enrolledBy(one))
		two.linking.Unlock()
		require.NoError(t, two.enrolledBy(one))
	})
}
