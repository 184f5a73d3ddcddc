package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
	"berth/internal/skew"
)

// formedZone is a transport to a zone that reads forms up to a number.
type formedZone struct {
	form  api.Form
	life  api.Incarnation // 0 for none
	ahead time.Duration   // of the Unix time 1,000,000 s; 0 to tell no time
	paths []string
	heads []http.Header
}

// RoundTrip implements http.RoundTripper.
func (z *formedZone) RoundTrip(r *http.Request) (*http.Response, error) {
	z.paths, z.heads = append(z.paths, r.URL.Path), append(z.heads, r.Header)
	b, err := codec.Marshal(api.ZoneInfo{})
	head := http.Header{"Content-Type": {api.MediaCBOR}, api.HeaderForm: {z.form.String()}}
	if z.life > 0 {
		head.Set(api.HeaderIncarnation, z.life.String())
	}
	if z.ahead != 0 {
		head.Set(api.HeaderTime, strconv.FormatInt(time.Unix(1_000_000, 0).Add(z.ahead).UnixMilli(), 10))
	}
	return &http.Response{StatusCode: http.StatusOK, Header: head, Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
}

// TestAZoneGetsNoBodyThatItDoesNotRead: a body with a newer field waits until the zone at
// the other end says that it reads it.
func TestAZoneGetsNoBodyThatItDoesNotRead(t *testing.T) {
	type body struct {
		Old int `cbor:"1,keyasint"`
		New int `cbor:"2,keyasint,omitempty" form:"2"`
	}
	to := &formedZone{form: api.FormFirst}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	send := func(b body) error {
		_, err := peerCall[api.ZoneInfo](t.Context(), p, l, question{method: http.MethodPost, path: "/body"}, b)
		return err
	}
	require.NoError(t, send(body{Old: 1}))
	err := send(body{New: 1})
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	require.ErrorContains(t, err, "reads forms up to 1")
	to.form = api.FormSecond
	require.NoError(t, send(body{New: 1}))
	require.NoError(t, send(body{New: 1}))
	assert.Equal(t, []string{"/body", "/zones/info", "/zones/info", "/body", "/body"}, to.paths)
	assert.Equal(t, api.FormNewest.String(), to.heads[0].Get(api.HeaderForm))
}

// TestAnOlderZoneIsGivenNoOrder: it is named, and is not asked.
func TestAnOlderZoneIsGivenNoOrder(t *testing.T) {
	to := &formedZone{form: api.FormFourth}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	for _, q := range []api.PowerCall{{Instance: "i"}, {Instance: "i", Order: api.PowerStop, Run: 1}} {
		_, err := p.Power(t.Context(), l, &q)
		require.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		require.ErrorContains(t, err, `zone "east" reads forms up to 4; upgrade that zone first`)
	}
	assert.NotContains(t, to.paths, "/servers/power")
	to.form = api.FormFifth
	_, _ = p.Power(t.Context(), l, &api.PowerCall{Instance: "i"}) // it is answered with something else here
	assert.Contains(t, to.paths, "/servers/power")
}

// decidedZone is a transport to a zone that reads forms up to a number, and refuses some
// decisions.
type decidedZone struct {
	form    api.Form
	answers []api.Code // to a call with several decisions

	mu    sync.Mutex // guards paths
	paths []string
}

// RoundTrip implements http.RoundTripper.
func (z *decidedZone) RoundTrip(r *http.Request) (*http.Response, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.paths = append(z.paths, r.Method+" "+r.URL.Path)
	status, said := http.StatusOK, any(api.HoldAnswer{})
	switch r.URL.Path {
	case "/zones/decisions":
		said = api.DecisionsAnswer{Codes: z.answers}
	case "/zones/holds/many":
		said = api.HoldsAnswer{Items: []api.HoldReply{{Answer: &api.HoldAnswer{ID: "a"}}, {}}}
	case "/zones/holds/b/commit":
		status, said = http.StatusConflict, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeConflict}}
	}
	b, err := codec.Marshal(said)
	head := http.Header{"Content-Type": {api.MediaCBOR}, api.HeaderForm: {z.form.String()}}
	return &http.Response{StatusCode: status, Header: head, Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
}

// TestDecisionsShareACallIfTheZoneReadsIt: else, and before the zone has answered anything,
// each is a call of its own. An answer of another length is none.
func TestDecisionsShareACallIfTheZoneReadsIt(t *testing.T) {
	ds := []api.HoldDecision{{ID: "a", Decision: api.DecisionAbort}, {ID: "b", Decision: api.DecisionCommit}}
	each := []string{"DELETE /zones/holds/a", "POST /zones/holds/b/commit"}
	to := &decidedZone{form: api.FormFourth, answers: []api.Code{"", api.CodeConflict}}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	send := func(paths []string) {
		to.paths = nil
		refusals, err := p.DecideAll(t.Context(), l, ds)
		require.NoError(t, err)
		require.Len(t, refusals, 2)
		require.NoError(t, refusals[0])
		assert.Equal(t, api.CodeConflict, api.CodeOf(refusals[1]))
		assert.ElementsMatch(t, paths, to.paths)
	}
	send(each)
	to.form = api.FormFifth
	send(each) // nobody has heard yet that it reads more
	send([]string{"POST /zones/decisions"})
	to.form = api.FormFourth // it is turned back
	send([]string{"POST /zones/decisions"})
	send(each)

	to.form, to.answers = api.FormFifth, []api.Code{""}
	_, err := p.Info(t.Context(), l)
	require.NoError(t, err)
	_, err = p.DecideAll(t.Context(), l, ds)
	assert.Equal(t, api.CodeInternal, api.CodeOf(err))
}

// TestOlderZonesAreNotToldOfDeletedGroups: the decision stays due until the zone can read what goes with it; the
// others are told.
func TestOlderZonesAreNotToldOfDeletedGroups(t *testing.T) {
	ds := []api.HoldDecision{{ID: "a", Decision: api.DecisionAbort}, {ID: "c", Decision: api.DecisionCommit, Lifted: []api.ServerGroupID{"g"}}}
	to := &decidedZone{form: api.FormFourth, answers: []api.Code{"", ""}}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	refused := []string{"DELETE /zones/holds/a", "GET /zones/info"}
	for _, step := range []struct {
		form  api.Form
		paths []string
		code  api.Code
	}{
		{api.FormFourth, refused, api.CodeUnavailable},
		{api.FormFifth, refused, api.CodeUnavailable}, // nobody had heard that it reads more
		{api.FormFifth, []string{"POST /zones/decisions"}, ""},
	} {
		to.form, to.paths = step.form, nil
		refusals, err := p.DecideAll(t.Context(), l, ds)
		require.NoError(t, err)
		require.NoError(t, refusals[0])
		if step.code != "" {
			assert.Equal(t, step.code, api.CodeOf(refusals[1]))
		} else {
			require.NoError(t, refusals[1])
		}
		assert.ElementsMatch(t, step.paths, to.paths)
	}
}

// TestHoldsShareACallIfTheZoneReadsIt: not before it has answered anything. An answer of another length
// is none.
func TestHoldsShareACallIfTheZoneReadsIt(t *testing.T) {
	to := &decidedZone{form: api.FormFourth}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	assert.False(t, p.SharesHolds(l))
	for form, shares := range map[api.Form]bool{api.FormFourth: false, api.FormFifth: true} {
		to.form = form
		_, err := p.Info(t.Context(), l)
		require.NoError(t, err)
		assert.Equal(t, shares, p.SharesHolds(l), "form %d", form)
	}
	to.form = api.FormFifth
	answers, err := p.HoldAll(t.Context(), l, make([]api.HoldRequest, 2))
	require.NoError(t, err)
	assert.Equal(t, []*api.HoldAnswer{{ID: "a"}, nil}, answers)
	_, err = p.HoldAll(t.Context(), l, make([]api.HoldRequest, 3))
	assert.Equal(t, api.CodeInternal, api.CodeOf(err))
}

// TestUnconfirmed: a zone that names a later incarnation than the confirmed one, in a call or an answer, is to be confirmed, and
// neither an old node of it nor another link changes that.
func TestUnconfirmed(t *testing.T) {
	to := &formedZone{form: api.FormNewest}
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: time.Now,
	})
	l, other := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}, &api.Link{ID: "o", Name: "west"}
	hear := func(n api.Incarnation) api.Incarnation {
		to.life = n
		_, err := p.Info(t.Context(), l)
		require.NoError(t, err)
		return p.Unconfirmed(l)
	}
	assert.Zero(t, hear(0))
	assert.Equal(t, api.Incarnation(5), hear(5))
	assert.Equal(t, api.Incarnation(5), hear(0), "an old node answers")
	p.NoteIncarnation(l, 7)
	p.NoteIncarnation(l, 6)
	assert.Equal(t, api.Incarnation(7), p.Unconfirmed(l))
	assert.Zero(t, p.Unconfirmed(other))
	p.NoteIncarnation(l, api.IncarnationMax)
	assert.Equal(t, api.Incarnation(7), hear(api.Incarnation(time.Now().Add(25*time.Hour).Unix())), "no zone was brought back in the future")
	l.Incarnation = 7
	assert.Zero(t, p.Unconfirmed(l), "it is confirmed")
	assert.Equal(t, api.Incarnation(8), hear(8))
}

// TestTheClockOfALinkedZone is measured by the time in its answers; a zone of an earlier release sends none.
func TestTheClockOfALinkedZone(t *testing.T) {
	to, now := &formedZone{form: api.FormFirst}, time.Unix(1_000_000, 0)
	p := NewPeers(PeerConfig{
		Transport: func(*api.Link) http.RoundTripper { return to },
		Depth:     func(context.Context) int { return 0 }, Request: func(context.Context) api.RequestID { return "" }, Now: func() time.Time { return now },
	})
	l := &api.Link{ID: "l", Name: "east", Endpoints: []string{"a"}}
	_, err := p.Info(t.Context(), l)
	require.NoError(t, err)
	_, known := p.Skew(l)
	assert.False(t, known)
	to.ahead = 1500 * time.Millisecond
	_, err = p.Info(t.Context(), l)
	require.NoError(t, err)
	s, known := p.Skew(l)
	assert.True(t, known)
	assert.Equal(t, skew.Skew{Ahead: 1500 * time.Millisecond}, s)
}
