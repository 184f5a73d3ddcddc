package federation

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

// TestAgesOfWhatIsKnown: a digest is as good as new until it is DigestAge old, and a parent is asked for its form again once that is
// formsAge old.
func TestAgesOfWhatIsKnown(t *testing.T) {
	now, made := time.Unix(1000, 0), 0
	d := digestCache{now: func() time.Time { return now }, make: func() *api.Digest { made++; return &api.Digest{} }}
	for _, c := range []struct {
		passed time.Duration
		made   int
	}{{0, 1}, {DigestAge, 1}, {1, 2}, {DigestAge, 2}, {DigestAge, 3}} {
		now = now.Add(c.passed)
		d.currentDigest()
		assert.Equal(t, c.made, made)
	}
	f := linkForms{of: map[api.LinkID]heardForm{}}
	assert.True(t, f.isDue("l", now))
	assert.Equal(t, api.FormFirst, f.formOf("l"))
	f.noteForm("l", heardForm{api.FormFifth, now})
	assert.Equal(t, api.FormFifth, f.formOf("l"))
	for age, due := range map[time.Duration]bool{0: false, formsAge - 1: false, formsAge: true} {
		assert.Equal(t, due, f.isDue("l", now.Add(age)), "%s", age)
	}
	f.keepLinks([]*api.Link{{ID: "other"}})
	assert.True(t, f.isDue("l", now))
}

// TestGoodJoinTokens: of that kind and text, before their end.
func TestGoodJoinTokens(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	f := &Federation{zone: zone.New(zone.Config{Store: memstore.New(), Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})}
	token, err := identity.NewJoinToken(api.JoinNode, "zone-a", []string{"n:1"}, identity.Pin{}, identity.Pin{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		record api.JoinToken
		good   bool
	}{
		"good":   {api.JoinToken{Hash: token.Hash(), Kind: api.JoinNode, Expires: api.InstantOf(now) + 1}, true},
		"over":   {api.JoinToken{Hash: token.Hash(), Kind: api.JoinNode, Expires: api.InstantOf(now)}, false},
		"kind":   {api.JoinToken{Hash: token.Hash(), Kind: api.JoinAgent, Expires: api.InstantOf(now) + 1}, false},
		"secret": {api.JoinToken{Hash: []byte("x"), Kind: api.JoinNode, Expires: api.InstantOf(now) + 1}, false},
	} {
		assert.Equal(t, c.good, f.isGood(&c.record, token), name)
	}
}

// TestAUsedTokenIsOfOneLink: a repeat is answered only while the link is the child that was made with it.
func TestAUsedTokenIsOfOneLink(t *testing.T) {
	for name, change := range map[string]func(p, kid *place, l *api.Link){
		"": nil,
		"renamed": func(p, _ *place, l *api.Link) {
			p.propose(command.LinkSet{Stamp: p.zone.Stamp(), ID: l.ID, Name: new("other")})
		},
		"gone": func(p, _ *place, l *api.Link) { p.propose(command.LinkDelete{Stamp: p.zone.Stamp(), ID: l.ID}) },
		"a parent": func(p, kid *place, l *api.Link) {
			p.propose(command.LinkDelete{Stamp: p.zone.Stamp(), ID: l.ID})
			again := *l
			again.ID, again.Role = "other", api.LinkParent
			p.propose(command.LinkPut{Stamp: p.zone.Stamp(), Link: again})
		},
		"another authority": func(p, kid *place, l *api.Link) {
			p.propose(command.LinkDelete{Stamp: p.zone.Stamp(), ID: l.ID})
			again := *l
			again.ID, again.CA = "other", p.ca.CertDER()
			token := api.JoinToken{ID: "t", Hash: []byte("h"), Kind: api.JoinLink, Name: l.Name, Expires: api.Forever}
			p.propose(command.JoinPut{Stamp: p.zone.Stamp(), Token: token})
			p.propose(command.LinkPut{Stamp: p.zone.Stamp(), Token: "t", Hash: []byte("h"), Link: again})
		},
	} {
		w := newWorld(t)
		p, kid := w.add("p", nil), w.add("kid", nil)
		e := kid.enrolment(p.linkToken("kid"))
		_, err := p.Enrol(t.Context(), kid.id, kid.pin(), e)
		require.NoError(t, err)
		if change != nil {
			change(p, kid, p.linkTo(kid))
		}
		_, err = p.Enrol(t.Context(), kid.id, kid.pin(), e)
		if change == nil {
			require.NoError(t, err)
			continue
		}
		assert.Equal(t, api.CodeUnauthenticated, api.CodeOf(err), "%s: %v", name, err)
	}
}

// TestLookupsAreCountedAnewWhenAClockIsSetBack.
func TestLookupsAreCountedAnewWhenAClockIsSetBack(t *testing.T) {
	var c lookupLimit
	now := time.Unix(1000, 0)
	for range lookupsPerSecond {
		require.True(t, c.beginLookup(now))
		c.endLookup()
	}
	assert.False(t, c.beginLookup(now.Add(time.Second-1)))
	assert.True(t, c.beginLookup(now.Add(-time.Hour)))
	for range lookupsAtOnce - 1 {
		require.True(t, c.beginLookup(now.Add(time.Second)))
	}
	assert.False(t, c.beginLookup(now.Add(2*time.Second)), "as many are under way")
	c.endLookup()
	assert.True(t, c.beginLookup(now.Add(2*time.Second)))
}

// TestNumbersOfOthersAreBounded: what zones above and below say of the tree.
func TestNumbersOfOthersAreBounded(t *testing.T) {
	w := newWorld(t)
	top, p, kid := w.add("top", nil), w.add("p", nil), w.add("kid", nil)
	p.isBelow(top)
	kid.isBelow(p)
	for zones, ok := range map[int]bool{-1: false, 0: true, api.DepthMax: true, api.DepthMax + 1: false} {
		p.above = func() (*api.AboveAnswer, error) { return &api.AboveAnswer{Zones: zones}, nil }
		a, err := p.Above(t.Context(), "nobody")
		require.Equal(t, ok, err == nil, "%d", zones)
		if ok {
			assert.Equal(t, &api.AboveAnswer{Zones: zones + 1}, a)
		}
	}
	for levels, want := range map[int]int{-1: 1, 0: 1, 1: 2, api.DepthMax - 1: api.DepthMax, api.DepthMax: api.DepthMax, 1000: api.DepthMax} {
		p.below = func() (*api.BelowAnswer, error) { return &api.BelowAnswer{Levels: levels}, nil }
		assert.Equal(t, want, p.LevelsBelow(t.Context()), "%d", levels)
	}
	assert.Zero(t, kid.LevelsBelow(t.Context()))
}
