package node

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/gossip"
	"berth/httpd/wire"
	"berth/identity"
	"berth/internal/codec"
	"berth/raftstore/command"
)

func (r *running) linkToken(name string) string {
	r.t.Helper()
	token, err := r.LinkToken(r.t.Context(), name, 0, 1)
	require.NoError(r.t, err)
	return token
}

// isBelow links this zone to a parent.
func (r *running) isBelow(parent *running) {
	r.t.Helper()
	_, err := r.Link(r.t.Context(), parent.linkToken(r.rec.ZoneName), "parent")
	require.NoError(r.t, err)
}

func (r *running) linkTo(other *running) *api.Link {
	r.t.Helper()
	l, ok := r.view().LinkByZone(other.rec.Zone)
	require.True(r.t, ok)
	return l
}

func TestLinkPinsBothAuthorities(t *testing.T) {
	t.Parallel()
	parent, child := newZone(t, "p").run(), newZone(t, "c").run()
	token, err := parent.LinkToken(t.Context(), "east", 7, 3)
	require.NoError(t, err)
	_, err = child.Link(t.Context(), token, "up")
	require.NoError(t, err)

	down, up := parent.linkTo(child), child.linkTo(parent)
	assert.Equal(t, down.ID, up.ID)
	assert.Equal(t, child.creds.node.CA.Raw, down.CA)
	assert.Equal(t, parent.creds.node.CA.Raw, up.CA)
	assert.Equal(t, []string{child.Addresses().Gateway}, down.Endpoints)
	assert.Equal(t, []string{parent.Addresses().Gateway}, up.Endpoints)
	assert.Equal(t, []any{"east", api.LinkChild, int64(7), int64(3)}, []any{down.Name, down.Role, down.Offset, down.Scale})
	assert.Equal(t, []any{"up", api.LinkParent}, []any{up.Name, up.Role})

	_, err = parent.LinkToken(t.Context(), "east", 0, 1)
	refusedAs(t, api.CodeConflict, err)
}

func TestLinkTokensAreForOnce(t *testing.T) {
	t.Parallel()
	parent, child, other := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "o").run()
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
	parent, child, third := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "t").run()
	_, err := parent.Link(t.Context(), parent.linkToken("me"), "parent")
	refusedAs(t, api.CodeInvalid, err)
	_, err = child.Link(t.Context(), parent.joinToken(api.JoinAgent, "agent-1"), "parent")
	refusedAs(t, api.CodeInvalid, err)
	_, err = child.Link(t.Context(), "berth-join-x", "parent")
	refusedAs(t, api.CodeInvalid, err)
	_, err = child.Link(t.Context(), altered(t, parent.linkToken("c"), func(j *identity.JoinToken) {
		j.CA = identity.PinOf(third.creds.node.CA.Raw)
	}), "parent")
	refusedAs(t, api.CodeUnavailable, err) // nobody with that authority is there

	child.isBelow(parent)
	_, err = child.Link(t.Context(), third.linkToken("c"), "second")
	refusedAs(t, api.CodeConflict, err)
	assert.Empty(t, third.view().Links(), "the second parent has not heard of it")
}

// enrolsWith sends an enrolment over a connection of this zone.
func (r *running) enrolsWith(parent *running, e *api.Enrolment) error {
	conf := identity.PinTLS(r.gatewayCredentials, api.ALPNEnrol, identity.PinOf(parent.creds.node.CA.Raw),
		identity.Subject{Zone: parent.rec.Zone, Role: identity.RoleGateway}, time.Now)
	rt := &http.Transport{DialTLSContext: dialTLS(tcp{}, conf), DisableKeepAlives: true}
	_, err := client.Enrol(r.t.Context(), rt, time.Now, []string{parent.Addresses().Gateway}, e)
	return err
}

func (r *running) enrolment(token string) *api.Enrolment {
	return &api.Enrolment{
		Token: token, Zone: r.rec.Zone, Name: r.rec.ZoneName, CA: r.creds.node.CA.Raw,
		Endpoints: []string{r.Addresses().Gateway}, KeyCheck: []byte("x"),
	}
}

// TestAZoneEnrolsItselfAlone: neither under another's name nor with another's
// authority, whatever headers it sends.
func TestAZoneEnrolsItselfAlone(t *testing.T) {
	t.Parallel()
	parent, child, other := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "o").run()
	token := parent.linkToken("c")
	for name, lie := range map[string]func(*api.Enrolment){
		"another zone":      func(e *api.Enrolment) { e.Zone = other.rec.Zone },
		"another authority": func(e *api.Enrolment) { e.CA = other.creds.node.CA.Raw },
		"both":              func(e *api.Enrolment) { e.Zone, e.CA = other.rec.Zone, other.creds.node.CA.Raw },
	} {
		e := child.enrolment(token)
		lie(e)
		err := child.enrolsWith(parent, e)
		assert.Equal(t, api.CodeForbidden, api.CodeOf(err), "%s: %v", name, err)
	}
	assert.Empty(t, parent.view().Links())
	require.NoError(t, child.enrolsWith(parent, child.enrolment(token)), "the lies have not used up the token")
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

// answersEnrolments is a parent that says what it likes. It returns a token of it.
func answersEnrolments(t *testing.T, say func(*api.Enrolment)) string {
	t.Helper()
	ca, err := identity.NewCA("liar", time.Now())
	require.NoError(t, err)
	creds := issued(t, ca, identity.RoleGateway, "node-1")
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := newGate(ln, identity.ServerTLS(func() *identity.Credentials { return creds }, []string{api.ALPNEnrol},
		identity.AdmitLinked(nil), time.Now), quiet)
	ctx, cancel := context.WithCancel(context.Background())
	gone, served := make(chan struct{}), make(chan error, 1)
	go func() { defer close(gone); g.run(ctx) }()
	go func() {
		served <- serve(ctx, g.room(api.ALPNEnrol), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			back := api.Enrolment{Link: "l1", Zone: "liar", Name: "liar", CA: ca.CertDER(), Endpoints: []string{"127.0.0.1:1"}}
			say(&back)
			wire.CBOR(w, http.StatusOK, back)
		}), quiet)
	}()
	t.Cleanup(func() {
		cancel()
		<-gone
		assert.NoError(t, <-served)
	})
	token, err := identity.NewJoinToken(api.JoinLink, "liar", []string{ln.Addr().String()}, identity.PinOf(ca.CertDER()))
	require.NoError(t, err)
	text, err := token.Text()
	require.NoError(t, err)
	return text.Reveal()
}

// TestLinkChecksWhatTheParentSays: what a parent answers becomes a record of this
// zone, and the link's id a name of a gossip pool and of a file.
func TestLinkChecksWhatTheParentSays(t *testing.T) {
	t.Parallel()
	child := newZone(t, "c").run()
	for name, lie := range map[string]func(*api.Enrolment){
		"another zone":      func(e *api.Enrolment) { e.Zone = "other" },
		"another authority": func(e *api.Enrolment) { e.CA = []byte("x") },
		"no link":           func(e *api.Enrolment) { e.Link = "" },
		"a path":            func(e *api.Enrolment) { e.Link = "../../x" },
		"the zone's pool":   func(e *api.Enrolment) { e.Link = zonePool },
		"a link with NUL":   func(e *api.Enrolment) { e.Link = "l\x00h" },
		"no gateway":        func(e *api.Enrolment) { e.Endpoints = nil },
		"too many gateways": func(e *api.Enrolment) { e.Endpoints = slices.Repeat([]string{"a:1"}, identity.JoinAddressesMax+1) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := child.Link(t.Context(), answersEnrolments(t, lie), "parent")
			require.Error(t, err)
			assert.Empty(t, child.view().Links())
		})
	}
	if !t.Failed() {
		_, err := child.Link(t.Context(), answersEnrolments(t, func(*api.Enrolment) {}), "parent")
		require.NoError(t, err)
	}
}

func TestOneKeyForTwoZonesIsNotLinked(t *testing.T) {
	t.Parallel()
	parent := newZone(t, "p", withPlanKey(keyA)).run()
	same, own, random := newZone(t, "s", withPlanKey(keyA)).run(), newZone(t, "o", withPlanKey(keyB)).run(), newZone(t, "r").run()
	_, err := same.Link(t.Context(), parent.linkToken("s"), "parent")
	refusedAs(t, api.CodeConflict, err)
	assert.Empty(t, same.view().Links())
	own.isBelow(parent)
	random.isBelow(parent)
	assert.Len(t, parent.view().Links(), 2)
}

// TestOneKeyForTwoZonesDoesNotRun: of two linked zones that are given one key
// later on, the one that asks first does not go on.
func TestOneKeyForTwoZonesDoesNotRun(t *testing.T) {
	t.Parallel()
	parent, child := newZone(t, "p", withPlanKey(keyA)).run(), newZone(t, "c", withPlanKey(keyB)).run()
	child.isBelow(parent)
	require.NoError(t, child.stop())
	require.NoError(t, parent.stop())
	child.home.opts.PlanKey = keyA
	parent, child = parent.home.start(), child.home.start()
	var err error
	select {
	case err = <-parent.ended:
		parent.stop = func() error { return err }
	case err = <-child.ended:
		child.stop = func() error { return err }
	case <-time.After(patience):
	}
	assert.ErrorIs(t, err, errSharedKey)
}

// hasHost gives the zone a host without an agent.
func (r *running) hasHost(name string) {
	r.t.Helper()
	r.propose(command.HostsPut{Stamp: r.zone.Stamp(), Agent: "agent-0", Hosts: []command.HostEntry{{
		ID: api.HostID(name), Host: api.AgentHost{
			Name: name, Driver: "fake", Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		},
	}}})
}

// TestDigests: a parent hears what its child has, a child only that its parent is
// there.
func TestDigests(t *testing.T) {
	t.Parallel()
	parent, child := newZone(t, "p").run(), newZone(t, "c").run()
	for _, r := range []*running{parent, child} {
		r.offers("small")
		r.hasHost("host-" + r.rec.ZoneName)
	}
	child.isBelow(parent)
	var full, bare api.Digest
	require.Eventually(t, func() (heard bool) { // the first word may be older than the host
		full, _, heard = parent.pools.Digest(child.rec.Zone)
		return heard && full.Classes[api.VCPU].Total > 0
	}, patience, 5*time.Millisecond)
	assert.Equal(t, child.rec.Zone, full.Zone)
	assert.Len(t, full.Sketches, 1)

	require.Eventually(t, func() (heard bool) {
		bare, _, heard = child.pools.Digest(parent.rec.Zone)
		return heard
	}, patience, 5*time.Millisecond)
	assert.NotEmpty(t, parent.digest.get().Sketches, "there would be more to say")
	assert.Equal(t, api.Digest{
		Zone: parent.rec.Zone, Sequence: bare.Sequence, At: bare.At, Health: "up", Gateways: gatewaysOf(parent.view()),
	}, bare, "and where its gateways are, which the child must know")

	parent.propose(command.LinkDelete{Stamp: parent.zone.Stamp(), ID: parent.linkTo(child).ID})
	require.Eventually(t, func() bool {
		_, _, ok := parent.pools.Digest(child.rec.Zone)
		return !ok
	}, patience, 5*time.Millisecond, "what ends with the link")
}

// TestPoolsAdmitTheirOwn: a pool is for its two zones, and the zone's own for its
// nodes.
func TestPoolsAdmitTheirOwn(t *testing.T) {
	t.Parallel()
	parent, one, two := newZone(t, "p").run(), newZone(t, "c").run(), newZone(t, "d").run()
	one.isBelow(parent)
	two.isBelow(parent)
	pool := string(parent.linkTo(one).ID)
	require.Eventually(t, func() bool { return parent.pools.find(pool, gatewayOf(one)) != nil }, patience, 5*time.Millisecond)
	assert.NotNil(t, parent.pools.find(pool, gatewayOf(parent)))
	assert.Nil(t, parent.pools.find(pool, gatewayOf(two)), "two children never share a pool")
	assert.Nil(t, parent.pools.find(zonePool, gatewayOf(one)))
	node := peer{Subject: identity.Subject{Zone: parent.rec.Zone, Role: identity.RoleNode, ID: "node-1"}}
	assert.NotNil(t, parent.pools.find(zonePool, node))
	assert.Nil(t, parent.pools.find(pool, node))

	// A child that names another's pool is hung up on.
	conf := two.toZone(two.linkTo(parent), api.ALPNGossip)
	c, err := dialTLS(tcp{}, conf)(t.Context(), "tcp", parent.Addresses().Gateway)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	hello, err := codec.Marshal(gossip.Hello{Version: 1, Pool: pool, Name: two.gossipName(pool, "node-1"), Kind: gossip.KindPacket})
	require.NoError(t, err)
	_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(hello))), hello...))
	require.NoError(t, err)
	hangsUp(t, c)
}

func gatewayOf(r *running) peer {
	return peer{Subject: identity.Subject{Zone: r.rec.Zone, Role: identity.RoleGateway, ID: "node-1"}}
}
