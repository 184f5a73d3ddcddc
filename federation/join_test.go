package federation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

// joins asks to be admitted with a token.
func (p *place) admits(token string, csr []byte) (*rest.JoinAnswer, error) {
	return p.Join(p.w.t.Context(), &rest.JoinBody{Token: token, CSR: csr, Names: []string{"berth.example"}})
}

// TestANodeIsRecordedOnce: a leader records itself in each of its terms, and writes nothing unless
// that changes its record.
func TestANodeIsRecordedOnce(t *testing.T) {
	p := newWorld(t).add("a", nil)
	p.joins("node-2")
	known, ok := p.view().Node("node-2")
	require.True(t, ok)
	before, m := p.view().Index(), *known
	p.setForward(time.Hour)
	m.Joined = 0 // a node does not know it
	require.NoError(t, p.RecordNode(t.Context(), m))
	assert.Equal(t, before, p.view().Index())
	m.Version = "next"
	require.NoError(t, p.RecordNode(t.Context(), m))
	assert.Equal(t, before+1, p.view().Index())
	now, _ := p.view().Node("node-2")
	assert.Equal(t, "next", now.Version)
	assert.Equal(t, known.Joined, now.Joined)
}

func TestJoinGivesWhatANewcomerNeeds(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("a", nil)
	p.joins("node-2")
	csr := certificateRequest(t)
	agent, err := p.admits(p.joinToken(api.JoinAgent, "agent-1"), csr)
	require.NoError(t, err)
	assert.Equal(t, []string{"node-1.agent:7603", "node-2.agent:7603"}, agent.Addresses)
	assert.Empty(t, agent.KEK, "an agent opens no secret of the zone")
	assert.Len(t, agent.Certificates, 1)
	assert.NotEmpty(t, agent.Certificates[string(identity.RoleAgent)])

	node, err := p.admits(p.joinToken(api.JoinNode, "node-3"), csr)
	require.NoError(t, err)
	assert.Equal(t, []string{"node-1.zone:7602", "node-2.zone:7602"}, node.Addresses)
	assert.Equal(t, p.keks.Bytes(), node.KEK)
	assert.Len(t, node.Certificates, 3)
	for _, a := range []*rest.JoinAnswer{agent, node} {
		assert.Equal(t, []any{p.id, "a", p.ca.CertDER()}, []any{a.Zone, a.ZoneName, a.CA})
	}
}

func TestJoinTokensAdmitOneOfTheirKind(t *testing.T) {
	t.Parallel()
	p := newWorld(t).addOfForm("a", nil, api.FormFifth)
	csr := certificateRequest(t)
	agent, link := p.joinToken(api.JoinAgent, "agent-1"), p.linkToken("child")
	asNode := func(j *identity.JoinToken) { j.Kind = api.JoinNode }
	for name, c := range map[string]struct {
		token string
		want  api.Code
	}{
		"no token":              {"berth-join-x", api.CodeInvalid},
		"a link's":              {link, api.CodeInvalid},
		"an agent's for a node": {altered(t, agent, asNode), api.CodeUnauthenticated}, // the zone knows what it has made it for
		"a link's for a node":   {altered(t, link, asNode), api.CodeUnauthenticated},
	} {
		_, err := p.admits(c.token, csr)
		assert.Equal(t, c.want, api.CodeOf(err), "%s: %v", name, err)
	}
	_, err := p.admits(agent, []byte("x"))
	refusedAs(t, api.CodeInvalid, err)
	_, err = p.admits(agent, csr)
	require.NoError(t, err, "refusals have not used it up")
	before, _ := p.view().Agent("agent-1")
	again, err := p.admits(agent, csr)
	require.NoError(t, err, "the answer was lost, and whoever joined repeats the call")
	assert.Equal(t, "agent-1", again.ID)
	_, err = p.admits(agent, certificateRequest(t))
	refusedAs(t, api.CodeUnauthenticated, err)
	joined, _ := p.view().Agent("agent-1")
	assert.Equal(t, before, joined, "a repeat is no other join")
	_, err = p.JoinToken(t.Context(), api.JoinNode, "node-1", time.Minute)
	refusedAs(t, api.CodeConflict, err)
	_, err = p.JoinToken(t.Context(), api.JoinAgent, "node-1", time.Minute)
	require.NoError(t, err, "names of agents and of nodes are apart")
}

// TestJoinsBeforeAnUpgradeIsFinished: nodes and agents join a zone that writes an older form, which cannot say who has
// used a token.
func TestJoinsBeforeAnUpgradeIsFinished(t *testing.T) {
	t.Parallel()
	p := newWorld(t).addOfForm("a", nil, api.FormFifth)
	p.members.form.Store(int64(api.FormFourth))
	for kind, name := range map[api.JoinKind]string{api.JoinNode: "node-2", api.JoinAgent: "agent-1"} {
		token, csr := p.joinToken(kind, name), certificateRequest(t)
		answer, err := p.admits(token, csr)
		require.NoError(t, err, "kind %v", kind)
		assert.Equal(t, name, answer.ID)
		_, err = p.admits(token, csr)
		refusedAs(t, api.CodeUnauthenticated, err)
	}
}

func TestJoinTokensExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, child := w.add("a", nil), w.add("b", nil)
	token, link := p.joinToken(api.JoinAgent, "agent-1"), p.linkToken("child")
	p.setForward(time.Minute)
	_, err := p.admits(token, certificateRequest(t))
	refusedAs(t, api.CodeUnauthenticated, err)

	p.setForward(joinTTL)
	_, err = child.Link(t.Context(), link, "parent")
	refusedAs(t, api.CodeUnauthenticated, err)
	assert.Empty(t, p.view().Links())
	assert.Empty(t, child.view().Links())
}

// TestUnknownJoinsLeaveTheLogAlone: whoever reaches the public API can make tokens
// that look right. What they call changes nothing, and keeps out nobody who was given
// a token.
func TestUnknownJoinsLeaveTheLogAlone(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("a", nil)
	good := p.joinToken(api.JoinAgent, "agent-1")
	spent := p.joinToken(api.JoinAgent, "agent-0")
	csr := certificateRequest(t)
	_, err := p.admits(spent, csr)
	require.NoError(t, err)
	before := p.view().Index()
	for n := range 1000 {
		token := spent
		switch n % 4 {
		case 0: // the id of a good one, and another secret
			token = altered(t, p.strangersToken(api.JoinAgent), func(j *identity.JoinToken) {
				known, err := identity.ParseJoinToken(good)
				require.NoError(t, err)
				j.ID = known.ID
			})
		case 1:
			token = altered(t, good, func(j *identity.JoinToken) { j.Kind = api.JoinNode })
		case 2:
			token = p.strangersToken(api.JoinAgent)
		}
		_, err := p.admits(token, csr)
		require.Error(t, err)
		require.Contains(t, []api.Code{api.CodeUnauthenticated, api.CodeOverloaded}, api.CodeOf(err), "%v", err)
	}
	assert.Equal(t, before, p.view().Index())
	_, err = p.admits(good, csr)
	require.NoError(t, err, "strangers cannot keep out who has a token")
}

// strangersToken returns a join token that the zone has never made.
func (p *place) strangersToken(kind api.JoinKind) string {
	p.w.t.Helper()
	j, err := identity.NewJoinToken(kind, p.id, []string{"127.0.0.1:1"}, p.pin(), identity.Pin{})
	require.NoError(p.w.t, err)
	text, err := j.Text()
	require.NoError(p.w.t, err)
	return text.Reveal()
}

// TestATokenThatIsNewHereIsLookedUp: a node that has just begun to lead knows less than
// it could.
func TestATokenThatIsNewHereIsLookedUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deposed bool
		want    api.Code
	}{"it leads": {false, ""}, "another node leads": {true, api.CodeUnavailable}} {
		p := newWorld(t).add("a", nil)
		old := p.view()
		token := p.joinToken(api.JoinAgent, "agent-1")
		past := memstore.NewPast(p.store, old, c.deposed)
		p.zone = zone.New(zone.Config{Store: past, Now: p.time, Log: p.log})
		_, err := p.admits(token, certificateRequest(t))
		assert.Equal(t, c.want, api.CodeOf(err), "%s: %v", name, err)
	}
}

func TestNewTokensAreKeptAsAHash(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("a", nil)
	text, id, err := p.NewToken(t.Context(), api.Token{User: "u", Project: "p", Expires: api.Forever})
	require.NoError(t, err)
	parsed, hash, err := identity.ParseToken(text)
	require.NoError(t, err)
	assert.Equal(t, id, parsed)
	kept, ok := p.view().Token(id)
	require.True(t, ok)
	assert.True(t, identity.CheckToken(kept.Hash, hash))
	assert.Equal(t, api.UserID("u"), kept.User)
}

func TestConfirmsAreBounded(t *testing.T) {
	t.Parallel()
	var c lookupLimit
	at := time.Unix(1_900_000_000, 0)
	for range lookupsAtOnce {
		require.True(t, c.beginLookup(at))
	}
	require.False(t, c.beginLookup(at), "one more at once")
	for range lookupsAtOnce {
		c.endLookup()
	}
	for range lookupsPerSecond - lookupsAtOnce {
		require.True(t, c.beginLookup(at))
		c.endLookup()
	}
	require.False(t, c.beginLookup(at.Add(time.Second-1)), "one more in a second")
	require.True(t, c.beginLookup(at.Add(time.Second)))
	c.endLookup()
	assert.True(t, c.beginLookup(at.Add(-time.Hour)), "a clock that was set back keeps nobody out")
}

// TestAdmitNode: a certificate is no membership.
func TestAdmitNode(t *testing.T) {
	t.Parallel()
	at := func(id api.NodeID) api.Node { return api.Node{ID: id, NodeAddr: string(id) + ".zone:7602"} }
	for name, c := range map[string]struct {
		prepare func(*place)
		node    api.Node
		want    api.Code
		told    []string
		writes  bool
	}{
		"a stranger": {func(*place) {}, at("node-9"), api.CodeForbidden, nil, false},
		"who has a token and has not used it": {
			func(p *place) { p.joinToken(api.JoinNode, "node-9") }, at("node-9"), api.CodeForbidden, nil, false,
		},
		"who has joined": {func(p *place) { p.joined("node-9") }, at("node-9"), "", []string{"add node-9"}, true},
		"who reads older forms than the zone writes": {
			func(p *place) {
				p.joined("node-9")
				p.members.form.Store(int64(api.FormFirst + 1))
			}, at("node-9"), api.CodeConflict, nil, false,
		},
		"a member that is known": {
			func(p *place) { p.joins("node-2") }, api.Node{
				ID: "node-2", NodeAddr: "node-2.zone:7602", APIAddr: "node-2.api:7600", AgentAddr: "node-2.agent:7603",
				GatewayAddr: "zone-a-node-2:7601",
			}, "", nil, false,
		},
		"a member that is elsewhere": {
			func(p *place) { p.joins("node-2") }, api.Node{ID: "node-2", NodeAddr: "elsewhere:1"}, "", []string{"add node-2"}, true,
		},
		"who was removed": {
			func(p *place) {
				p.joined("node-9")
				assert.NoError(p.w.t, p.AdmitNode(p.w.t.Context(), at("node-9")))
				assert.NoError(p.w.t, p.RemoveMember(p.w.t.Context(), "node-9"))
				p.members.told = nil
			}, at("node-9"), api.CodeForbidden, nil, false,
		},
	} {
		p := newWorld(t).add("a", nil)
		c.prepare(p)
		before := p.view().Index()
		err := p.AdmitNode(t.Context(), c.node)
		assert.Equal(t, c.want, api.CodeOf(err), "%s: %v", name, err)
		assert.Equal(t, c.told, p.members.told, name)
		assert.Equal(t, c.writes, p.view().Index() > before, name)
	}
}

// joined uses a join token for a node up.
func (p *place) joined(id api.NodeID) {
	_, err := p.admits(p.joinToken(api.JoinNode, string(id)), certificateRequest(p.w.t))
	assert.NoError(p.w.t, err)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	p := newWorld(t).add("a", nil)
	refusedAs(t, api.CodeConflict, p.Transfer(t.Context(), ""))
	p.joins("node-2")
	p.members.list[0].Leader = true
	p.propose(command.NodePut{Stamp: p.zone.Stamp(), Node: api.Node{ID: "node-7"}}) // no member any more
	got := p.Members()
	require.Len(t, got, 2)
	assert.Equal(t, []any{api.NodeID("node-1"), true, true, "alive-node-1", "node-1.api:7600"},
		[]any{got[0].ID, got[0].Voter, got[0].Leader, got[0].Alive, got[0].APIAddr})
	assert.False(t, got[1].Leader)

	require.NoError(t, p.ForgetRemoved(t.Context()))
	_, known := p.view().Node("node-7")
	assert.False(t, known)
	before := p.view().Index()
	require.NoError(t, p.ForgetRemoved(t.Context()))
	assert.Equal(t, before, p.view().Index(), "there is nothing to forget")

	require.NoError(t, p.Transfer(t.Context(), "node-2"))
	require.NoError(t, p.RemoveMember(t.Context(), "node-1")) // itself
	_, known = p.view().Node("node-1")
	assert.True(t, known, "whoever leads next forgets it")
	assert.Equal(t, []string{"transfer node-2", "remove node-1"}, p.members.told)
}
