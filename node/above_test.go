package node

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/raftstore/command"
)

// enrolledBy asks a zone to be the parent of this one.
func (r *running) enrolledBy(parent *running) error {
	r.t.Helper()
	_, err := r.Link(r.t.Context(), parent.linkToken(r.rec.ZoneName), "parent")
	return err
}

func TestARingIsRefused(t *testing.T) {
	t.Parallel()
	top, mid, low := newZone(t, "top").run(), newZone(t, "mid").run(), newZone(t, "low").run()
	mid.isBelow(top)
	low.isBelow(mid)
	for _, below := range []*running{mid, low} {
		err := top.enrolledBy(below)
		refusedAs(t, api.CodeConflict, err)
		assert.Contains(t, err.Error(), "the tree would become a ring")
	}
	assert.Len(t, top.view().Links(), 1)
	assert.Len(t, low.view().Links(), 1)
	_, has := top.view().Parent()
	assert.False(t, has)

	a, err := low.peers.Above(t.Context(), low.linkTo(mid), "nobody")
	require.NoError(t, err)
	assert.Equal(t, &api.AboveAnswer{Zones: 1}, a)
	_, err = mid.peers.Above(t.Context(), mid.linkTo(low), top.rec.Zone)
	refusedAs(t, api.CodeForbidden, err) // it is for children
}

func TestNoChildWhileAZoneAboveIsAway(t *testing.T) {
	t.Parallel()
	top, mid, low := newZone(t, "top").run(), newZone(t, "mid").run(), newZone(t, "low").run()
	mid.isBelow(top)
	require.NoError(t, top.stop())
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

	top.home.run()
	require.NoError(t, low.enrolledBy(mid))
}

// TestTheTreeIsNotTooDeep builds it from the bottom and from the top, and joins both.
func TestTheTreeIsNotTooDeep(t *testing.T) {
	t.Parallel()
	zones := make([]*running, api.DepthMax+2)
	for i := range zones {
		zones[i] = newZone(t, "z"+strconv.Itoa(i)).start()
	}
	for _, z := range zones {
		z.becomesReady()
	}
	const middle = api.DepthMax / 2
	for i := 1; i < middle; i++ {
		zones[i].isBelow(zones[i-1])
	}
	for i := len(zones) - 1; i > middle; i-- {
		zones[i].isBelow(zones[i-1])
	}
	assert.Equal(t, api.DepthMax+1-middle, zones[middle].levels(t.Context()))
	err := zones[middle].enrolledBy(zones[middle-1])
	refusedAs(t, api.CodeConflict, err)
	assert.Contains(t, err.Error(), "links deep")
	_, has := zones[middle].view().Parent()
	assert.False(t, has)

	last, above := zones[len(zones)-1], zones[len(zones)-2]
	for _, ends := range [][2]*running{{last, above}, {above, last}} {
		ends[0].propose(command.LinkDelete{Stamp: ends[0].zone.Stamp(), ID: ends[0].linkTo(ends[1]).ID})
	}
	zones[middle].isBelow(zones[middle-1])
	err = last.enrolledBy(above)
	refusedAs(t, api.CodeConflict, err)
	assert.Contains(t, err.Error(), "links deep")
	assert.Empty(t, last.view().Links())
	last.isBelow(zones[len(zones)-3])
}

// TestAChildThatIsAwayIsOneLevel: it does not stand in the way of a link.
func TestAChildThatIsAwayIsOneLevel(t *testing.T) {
	t.Parallel()
	top, mid, low := newZone(t, "top").run(), newZone(t, "mid").run(), newZone(t, "low").run()
	low.isBelow(mid)
	assert.Equal(t, 1, mid.levels(t.Context()))
	assert.Zero(t, low.levels(t.Context()))
	require.NoError(t, low.stop())
	assert.Equal(t, 1, mid.levels(t.Context()))
	mid.isBelow(top)
}

// TestTwoLinksAtOnceMakeNoRing: while a zone gets a parent it takes no child, and
// does not say who is above it.
func TestTwoLinksAtOnceMakeNoRing(t *testing.T) {
	t.Parallel()
	one, two, low := newZone(t, "one").run(), newZone(t, "two").run(), newZone(t, "low").run()
	low.isBelow(two)
	for range 5 {
		toOne, toLow := one.linkToken("two"), low.linkToken("one")
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { _, errs[0] = two.Link(t.Context(), toOne, "up") })
		wg.Go(func() { _, errs[1] = one.Link(t.Context(), toLow, "up") })
		wg.Wait()
		require.False(t, errs[0] == nil && errs[1] == nil, "each is above the other")
		for i, ends := range [][2]*running{{one, two}, {low, one}} {
			if errs[i] == nil {
				for j := range ends {
					r, other := ends[j], ends[1-j]
					r.propose(command.LinkDelete{Stamp: r.zone.Stamp(), ID: r.linkTo(other).ID})
				}
			} else {
				assert.Contains(t, []api.Code{api.CodeUnavailable, api.CodeConflict}, api.CodeOf(errs[i]), "%v", errs[i])
			}
		}
	}
	two.linking.Lock()
	_, err := low.peers.Above(t.Context(), low.linkTo(two), "nobody")
	refusedAs(t, api.CodeUnavailable, err)
	a, err := low.peers.Above(t.Context(), low.linkTo(two), two.rec.Zone)
	require.NoError(t, err)
	assert.True(t, a.Above, "it knows itself")
	refusedAs(t, api.CodeUnavailable, one.enrolledBy(two))
	refusedAs(t, api.CodeUnavailable, two.enrolledBy(one))
	two.linking.Unlock()
	require.NoError(t, two.enrolledBy(one))
}
