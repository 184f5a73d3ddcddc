package federation

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/raftstore/command"
)

func TestLinkTokensAreForOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child, other := w.add("p", nil), w.add("c", nil), w.add("o", nil)
	token := parent.linkToken("c")
	_, err := child.Link(t.Context(), token, "parent")
	require.NoError(t, err)
	_, err = other.Link(t.Context(), token, "parent")
	refusedAs(t, api.CodeUnauthenticated, err) // and does not say whose it was
	parent.propose(command.LinkDelete{Stamp: parent.zone.Stamp(), ID: parent.linkTo(child).ID})
	_, err = other.Link(t.Context(), token, "parent")
	refusedAs(t, api.CodeUnauthenticated, err)
	assert.Empty(t, other.view().Links())
	assert.Empty(t, parent.view().Links())
}

func TestLinkRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child, third := w.add("p", nil), w.add("c", nil), w.add("t", nil)
	_, err := parent.Link(t.Context(), parent.linkToken("me"), "parent")
	refusedAs(t, api.CodeInvalid, err)
	_, err = child.Link(t.Context(), parent.joinToken(api.JoinAgent, "agent-1"), "parent")
	refusedAs(t, api.CodeInvalid, err)
	_, err = child.Link(t.Context(), "berth-join-x", "parent")
	refusedAs(t, api.CodeInvalid, err)
	_, err = child.Link(t.Context(), altered(t, parent.linkToken("c"), func(j *identity.JoinToken) { j.CA = third.pin() }), "parent")
	refusedAs(t, api.CodeUnavailable, err) // nobody with that authority is there

	child.isBelow(parent)
	_, err = child.Link(t.Context(), third.linkToken("c"), "second")
	refusedAs(t, api.CodeConflict, err)
	assert.Empty(t, third.view().Links(), "the second parent has not heard of it")
	_, err = parent.LinkToken(t.Context(), "c", 0, 1)
	refusedAs(t, api.CodeConflict, err)
}

// TestBothEndsOfALink have its id, and each what it must know of the other.
func TestBothEndsOfALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child := w.add("p", nil), w.add("c", nil)
	token, err := parent.LinkToken(t.Context(), "east", 7, 3)
	require.NoError(t, err)
	_, err = child.Link(t.Context(), token, "up")
	require.NoError(t, err)
	down, up := parent.linkTo(child), child.linkTo(parent)
	assert.Equal(t, down.ID, up.ID)
	assert.Equal(t, child.ca.CertDER(), down.CA)
	assert.Equal(t, parent.ca.CertDER(), up.CA)
	assert.Equal(t, gatewaysOf(child.view()), down.Endpoints)
	assert.Equal(t, gatewaysOf(parent.view()), up.Endpoints)
	assert.Equal(t, []any{"east", api.LinkChild, int64(7), int64(3)}, []any{down.Name, down.Role, down.Offset, down.Scale})
	assert.Equal(t, []any{"up", api.LinkParent, int64(1)}, []any{up.Name, up.Role, up.Scale})
}

// TestALinkWhoseAnswerIsLostIsMadeAgain: the parent has the link and the child has not heard so. It asks again with the
// same token and gets the same link; no other zone does, and nobody does once the link is gone.
func TestALinkWhoseAnswerIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child, other := w.add("p", nil), w.add("c", nil), w.add("o", nil)
	token := parent.linkToken("c")
	lost, err := parent.Enrol(t.Context(), child.id, child.pin(), child.enrolment(token))
	require.NoError(t, err)
	_, err = parent.Enrol(t.Context(), other.id, other.pin(), other.enrolment(token))
	refusedAs(t, api.CodeUnauthenticated, err)
	l, err := child.Link(t.Context(), token, "parent")
	require.NoError(t, err)
	assert.Equal(t, lost.Link, l.ID)
	assert.Len(t, parent.view().Links(), 1)
	parent.propose(command.LinkDelete{Stamp: parent.zone.Stamp(), ID: l.ID})
	_, err = parent.Enrol(t.Context(), child.id, child.pin(), child.enrolment(token))
	refusedAs(t, api.CodeUnauthenticated, err)
}

// TestAZoneEnrolsItselfAlone: neither under another's name nor with another's
// authority.
func TestAZoneEnrolsItselfAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child, other := w.add("p", nil), w.add("c", nil), w.add("o", nil)
	token := parent.linkToken("c")
	for name, lie := range map[string]func(*api.Enrolment){
		"another zone":      func(e *api.Enrolment) { e.Zone = other.id },
		"another authority": func(e *api.Enrolment) { e.CA = other.ca.CertDER() },
		"both":              func(e *api.Enrolment) { e.Zone, e.CA = other.id, other.ca.CertDER() },
	} {
		e := child.enrolment(token)
		lie(e)
		_, err := parent.Enrol(t.Context(), child.id, child.pin(), e)
		assert.Equal(t, api.CodeForbidden, api.CodeOf(err), "%s: %v", name, err)
	}
	_, err := parent.Enrol(t.Context(), "", identity.Pin{}, child.enrolment(token)) // nobody
	refusedAs(t, api.CodeForbidden, err)
	assert.Empty(t, parent.view().Links())
	_, err = parent.Enrol(t.Context(), child.id, child.pin(), child.enrolment(token))
	require.NoError(t, err, "the lies have not used up the token")
}

func TestEnrolmentLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", identity.JoinAddressMaxBytes-len(":1"))
	many := slices.Repeat([]string{"a:1"}, identity.JoinAddressesMax)
	for name, c := range map[string]struct {
		change func(*api.Enrolment)
		ok     bool
	}{
		"as it should be":     {func(*api.Enrolment) {}, true},
		"no zone":             {func(e *api.Enrolment) { e.Zone = "" }, false},
		"a long zone":         {func(e *api.Enrolment) { e.Zone = api.ZoneID(strings.Repeat("a", api.NameMaxBytes)) }, true},
		"too long a zone":     {func(e *api.Enrolment) { e.Zone = api.ZoneID(strings.Repeat("a", api.NameMaxBytes+1)) }, false},
		"no certificate":      {func(e *api.Enrolment) { e.CA = nil }, false},
		"a long certificate":  {func(e *api.Enrolment) { e.CA = make([]byte, identity.CSRMaxBytes) }, true},
		"too long a one":      {func(e *api.Enrolment) { e.CA = make([]byte, identity.CSRMaxBytes+1) }, false},
		"no gateway":          {func(e *api.Enrolment) { e.Endpoints = nil }, false},
		"many levels":         {func(e *api.Enrolment) { e.Levels = api.DepthMax }, true},
		"too many levels":     {func(e *api.Enrolment) { e.Levels = api.DepthMax + 1 }, false},
		"less than none":      {func(e *api.Enrolment) { e.Levels = -1 }, false},
		"many gateways":       {func(e *api.Enrolment) { e.Endpoints = many }, true},
		"too many gateways":   {func(e *api.Enrolment) { e.Endpoints = slices.Concat(many, []string{"a:1"}) }, false},
		"a long address":      {func(e *api.Enrolment) { e.Endpoints = []string{long + ":1"} }, true},
		"too long an address": {func(e *api.Enrolment) { e.Endpoints = []string{long + "a:1"} }, false},
	} {
		e := &api.Enrolment{Zone: "z", CA: []byte("c"), Endpoints: []string{"a:1"}}
		c.change(e)
		assert.Equal(t, c.ok, checkEnrolment(e) == nil, name)
	}
}

// TestLinkChecksWhatTheParentSays: what a parent answers becomes a record of this
// zone, and the link's id a name of a gossip pool and of a file.
func TestLinkChecksWhatTheParentSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent, child := w.add("p", nil), w.add("c", nil)
	try := func(lie func(*api.Enrolment)) error {
		parent.answers = func(back *api.Enrolment) (*api.Enrolment, error) {
			lie(back)
			return back, nil
		}
		return child.enrolledBy(parent)
	}
	for name, lie := range map[string]func(*api.Enrolment){
		"another zone":      func(e *api.Enrolment) { e.Zone = "other" },
		"another authority": func(e *api.Enrolment) { e.CA = []byte("x") },
		"no link":           func(e *api.Enrolment) { e.Link = "" },
		"a path":            func(e *api.Enrolment) { e.Link = "../../x" },
		"the zone's pool":   func(e *api.Enrolment) { e.Link = OwnPool },
		"a link with NUL":   func(e *api.Enrolment) { e.Link = "l\x00h" },
		"no gateway":        func(e *api.Enrolment) { e.Endpoints = nil },
		"too many gateways": func(e *api.Enrolment) { e.Endpoints = slices.Repeat([]string{"a:1"}, identity.JoinAddressesMax+1) },
	} {
		require.Error(t, try(lie), name)
		assert.Empty(t, child.view().Links(), name)
	}
	require.NoError(t, try(func(*api.Enrolment) {}))
}
