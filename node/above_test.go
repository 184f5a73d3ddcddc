package node

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/identity"
	"berth/internal/codec"
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/zone"
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

// says is a transport to zones that answer with one thing.
type says struct {
	status int
	body   any
}

// RoundTrip implements http.RoundTripper.
func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := codec.Marshal(s.body)
	return &http.Response{
		StatusCode: s.status, Header: http.Header{"Content-Type": {api.MediaCBOR}}, Body: io.NopCloser(bytes.NewReader(b)), Request: r,
	}, err
}

// hears lets all zones that this node calls answer with one thing.
func (r *running) hears(status int, body any) {
	r.peers = client.NewPeers(client.PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return says{status, body} },
		Depth:     zone.Depth, Request: requestid.Of, Now: time.Now,
	})
}

// linked records a link to a zone that is nowhere.
func (r *running) linked(name string, role api.LinkRole) {
	r.t.Helper()
	r.propose(command.LinkPut{Stamp: r.zone.Stamp(), Link: api.Link{
		ID: api.LinkID(name), Name: name, Role: role, Zone: api.ZoneID(name), Endpoints: []string{"127.0.0.1:1"},
		CA: r.creds.node.CA.Raw, Scale: 1, State: api.LinkActive,
	}})
}

func TestTheTreeIsNotTooDeep(t *testing.T) {
	t.Parallel()
	r := newZone(t, "r").run()
	take := func(levels int) api.Code { return api.CodeOf(r.mayTake(t.Context(), r.view(), "new", levels)) }
	assert.Empty(t, take(api.DepthMax-1), "under a root")
	assert.Equal(t, api.CodeConflict, take(api.DepthMax))
	r.linked("up", api.LinkParent)
	for name, c := range map[string]struct {
		status int
		body   any
		levels int
		want   api.Code
	}{
		"a child":               {200, api.AboveAnswer{}, 0, ""},
		"the lowest":            {200, api.AboveAnswer{Zones: api.DepthMax - 2}, 0, ""},
		"lower than that":       {200, api.AboveAnswer{Zones: api.DepthMax - 1}, 0, api.CodeConflict},
		"a subtree":             {200, api.AboveAnswer{Zones: 3}, api.DepthMax - 5, ""},
		"one level more":        {200, api.AboveAnswer{Zones: 3}, api.DepthMax - 4, api.CodeConflict},
		"a zone above":          {200, api.AboveAnswer{Above: true}, 0, api.CodeConflict},
		"less than none above":  {200, api.AboveAnswer{Zones: -1}, 0, api.CodeConflict},
		"more than there can":   {200, api.AboveAnswer{Zones: api.DepthMax + 1}, 0, api.CodeConflict},
		"too many links":        {400, refusal(api.CodeInvalid), 0, api.CodeConflict},
		"nobody there":          {503, refusal(api.CodeUnavailable), 0, api.CodeUnavailable},
		"no answer in time":     {504, refusal(api.CodeTimeout), 0, api.CodeUnavailable},
		"one that does not say": {403, refusal(api.CodeForbidden), 0, api.CodeUnavailable},
	} {
		r.hears(c.status, c.body)
		err := r.mayTake(t.Context(), r.view(), "new", c.levels)
		assert.Equal(t, c.want, api.CodeOf(err), "%s: %v", name, err)
		assert.NotContains(t, api.MessageOf(err), "secret", "%s: what another zone said", name)
	}
}

func refusal(code api.Code) api.ErrorBody {
	return api.ErrorBody{Error: api.ErrorDetail{Code: code, Message: "secret"}}
}

// TestASubtreeIsNotTooDeep: an enrolment says how much hangs on it.
func TestASubtreeIsNotTooDeep(t *testing.T) {
	t.Parallel()
	top, mid, low := newZone(t, "top").run(), newZone(t, "mid").run(), newZone(t, "low").run()
	low.isBelow(mid)
	top.linked("up", api.LinkParent)
	top.hears(200, api.AboveAnswer{Zones: api.DepthMax - 2})
	err := mid.enrolledBy(top)
	refusedAs(t, api.CodeConflict, err)
	assert.Contains(t, err.Error(), "links deep")
	top.hears(200, api.AboveAnswer{Zones: api.DepthMax - 3})
	mid.isBelow(top)
}

func TestLevels(t *testing.T) {
	t.Parallel()
	r := newZone(t, "r").run()
	assert.Zero(t, r.levels(t.Context()))
	r.linked("one", api.LinkChild)
	r.linked("two", api.LinkChild)
	for said, want := range map[int]int{0: 1, 3: 4, -1: 1, api.DepthMax: api.DepthMax, 1 << 40: api.DepthMax} {
		r.hears(200, api.BelowAnswer{Levels: said})
		assert.Equal(t, want, r.levels(t.Context()))
	}
	r.hears(503, refusal(api.CodeUnavailable))
	assert.Equal(t, 1, r.levels(t.Context()))
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
