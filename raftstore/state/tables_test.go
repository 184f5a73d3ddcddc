package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

func TestInit(t *testing.T) {
	w := &world{tb: t, s: New(), now: start}
	w.refused(api.CodeUnavailable, hostPut(w.stamp(), "a1", "h1", 4))
	w.ok(initial())
	assert.Equal(t, api.ZoneID("z"), w.s.Zone)
	assert.Equal(t, w.now, w.s.Now(), "a refused command may carry the time on, and time never falls")
	_, ok := w.s.Token("t")
	assert.True(t, ok)
	w.refused(api.CodeConflict, initial())
	assert.Equal(t, w.index, w.s.Index())
}

func TestNodes(t *testing.T) {
	w := newWorld(t)
	put := command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: "n1", APIAddr: "a:1"}}
	w.ok(put)
	w.unchanged(put)
	joined := w.now
	put.At, put.Node.APIAddr = w.stamp().At, "a:2"
	w.ok(put)
	n, ok := w.s.Node("n1")
	require.True(t, ok)
	assert.Equal(t, "a:2", n.APIAddr)
	assert.Equal(t, joined, n.Joined, "a node joins once")
	assert.Len(t, w.s.Nodes(), 1)
	for id, kind := range map[string]api.JoinKind{"a node's": api.JoinNode, "a zone's": api.JoinLink} {
		token := join(w, id, kind, time.Hour)
		token.Token.Name = "n1"
		w.ok(token)
	}
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n1"})
	_, there := w.s.joins.Get("a node's")
	assert.False(t, there)
	_, there = w.s.joins.Get("a zone's")
	assert.True(t, there, "it names a zone")
	w.unchanged(command.NodeRemove{Stamp: w.stamp(), ID: "n1"})
	assert.Empty(t, w.s.Nodes())
}

// TestANodeIsAsOldAsItsToken: what has the id of a removed node is another one, from when it has used its token.
func TestANodeIsAsOldAsItsToken(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormFifth
	since := func() api.Instant { return w.s.MemberSince("n1") }
	admit := func(id string) api.Instant {
		token := join(w, id, api.JoinNode, time.Hour)
		token.Token.Name = "n1"
		w.ok(token)
		assert.LessOrEqual(t, since(), w.now, "a token that nobody has used changes nothing")
		use := command.JoinUse{Stamp: w.stamp(), ID: token.Token.ID, Hash: token.Token.Hash, Want: api.JoinNode}
		w.ok(use)
		return use.At
	}
	assert.Zero(t, since())
	first := admit("t1")
	assert.Equal(t, first, since(), "before it has announced itself")
	put := command.NodePut{Stamp: w.stamp(), Node: api.Node{ID: "n1", APIAddr: "a:1", Form: api.FormFifth, Since: api.Forever}}
	w.ok(put)
	assert.Equal(t, first, since())
	put.At, put.Node.APIAddr = w.stamp().At, "a:2"
	w.ok(put)
	assert.Equal(t, first, since(), "it is the same one")
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n1"})
	assert.Zero(t, since())
	second := admit("t2")
	assert.Greater(t, second, first)
	assert.Equal(t, second, since())
	assert.Zero(t, w.s.MemberSince("n2"))
}

func TestConfigSet(t *testing.T) {
	w := newWorld(t)
	c := command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{PlanTTL: time.Hour, Tags: []string{"gpu"}}}
	w.ok(c)
	w.unchanged(c)
	assert.Equal(t, time.Hour, w.s.Config.PlanTTL)
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	put := command.TokenPut{Stamp: w.stamp(), Token: api.Token{ID: "t2", Expires: api.Forever}}
	w.ok(put)
	w.unchanged(put)
	assert.Len(t, w.s.Tokens(), 2)
	w.ok(command.TokenDelete{Stamp: w.stamp(), ID: "t2"})
	w.refused(api.CodeNotFound, command.TokenDelete{Stamp: w.stamp(), ID: "t2"})
}

// TestTokensUsed: the last use of a token is kept, never goes back and is not in the future.
func TestTokensUsed(t *testing.T) {
	w := newWorld(t)
	w.ok(command.TokenPut{Stamp: w.stamp(), Token: api.Token{ID: "t2", Expires: api.Forever}})
	used := func(uses ...api.TokenUse) command.TokensUsed { return command.TokensUsed{Stamp: w.stamp(), Used: uses} }
	last := func() api.Instant {
		got, ok := w.s.Token("t2")
		require.True(t, ok)
		return got.Used
	}
	at := w.now
	w.ok(used(api.TokenUse{ID: "t2", At: at - 5}, api.TokenUse{ID: "gone", At: at}))
	assert.Equal(t, at-5, last())
	w.unchanged(used(api.TokenUse{ID: "t2", At: at - 6}))
	assert.Equal(t, at-5, last())
	w.ok(used(api.TokenUse{ID: "t2", At: at.Add(time.Hour)}))
	assert.Equal(t, w.s.Now(), last())
	assert.Equal(t, api.Instant(0), first(t, w).Used)

	many := make([]api.TokenUse, api.TokenUsesMax+1)
	w.unchanged(used(many[1:]...))
	w.refused(api.CodeInvalid, used(many...))
}

// first returns the token that the world began with.
func first(t *testing.T, w *world) *api.Token {
	t.Helper()
	for _, one := range w.s.Tokens() {
		if one.ID != "t2" {
			return one
		}
	}
	t.Fatal("there is none")
	return nil
}

func TestTokenLimit(t *testing.T) {
	w := newWorld(t)
	for i := len(w.s.Tokens()); i < api.TokensMax; i++ {
		c := command.TokenPut{Token: api.Token{ID: api.TokenID(fmt.Sprintf("x%d", i)), Expires: api.Forever}}
		require.NoError(t, w.s.Apply(1, c).Err)
	}
	assert.Len(t, w.s.Tokens(), api.TokensMax)
	w.refused(api.CodeOverloaded, command.TokenPut{Token: api.Token{ID: "one more"}})
}

func join(w *world, id string, kind api.JoinKind, ttl time.Duration) command.JoinPut {
	return command.JoinPut{Stamp: w.stamp(), Token: api.JoinToken{
		ID: api.TokenID(id), Hash: []byte("hash"), Kind: kind, Name: "n", Expires: w.now.Add(ttl),
	}}
}

func TestJoinTokens(t *testing.T) {
	w := newWorld(t)
	put := join(w, "j1", api.JoinNode, time.Hour)
	w.ok(put)
	use := func(id string, hash string, kind api.JoinKind) command.JoinUse {
		return command.JoinUse{Stamp: w.stamp(), ID: api.TokenID(id), Hash: []byte(hash), Want: kind}
	}
	for name, c := range map[string]command.JoinUse{
		"unknown": use("j2", "hash", api.JoinNode), "another kind": use("j1", "hash", api.JoinAgent),
		"another secret": use("j1", "hush", api.JoinNode), "no secret": use("j1", "", api.JoinNode),
	} {
		r := w.do(c)
		require.Equal(t, api.CodeUnauthenticated, api.CodeOf(r.Err), name)
		assert.Contains(t, api.MessageOf(r.Err), "unknown, used or expired", "every refusal sounds the same")
	}
	r := w.ok(use("j1", "hash", api.JoinNode))
	assert.True(t, r.Join.Used)
	w.refused(api.CodeUnauthenticated, use("j1", "hash", api.JoinNode))
	w.unchanged(put)
	w.refused(api.CodeUnauthenticated, use("j1", "hash", api.JoinNode))

	// Who has used a token may repeat that, as long as it lasts, and nobody else.
	w.form = api.FormFifth
	w.ok(join(w, "j2", api.JoinAgent, time.Hour))
	by := func(key string) command.JoinUse {
		c := use("j2", "hash", api.JoinAgent)
		c.By = []byte(key)
		return c
	}
	mine := w.ok(by("key")).Join
	w.unchanged(by("key"))
	assert.Equal(t, mine, w.ok(by("key")).Join)
	for name, c := range map[string]command.JoinUse{"another": by("hey"), "an unknown one": by("")} {
		require.Equal(t, api.CodeUnauthenticated, api.CodeOf(w.do(c).Err), name)
	}
	w.ok(command.AgentRevoke{Stamp: w.stamp(), ID: "n"})
	w.refused(api.CodeUnauthenticated, by("key"))
	w.ok(join(w, "j5", api.JoinNode, time.Hour))
	node := use("j5", "hash", api.JoinNode)
	node.By = []byte("key")
	w.ok(node)
	w.ok(command.NodeRemove{Stamp: w.stamp(), ID: "n"})
	w.refused(api.CodeUnauthenticated, node)
	w.form = api.FormFirst

	w.ok(join(w, "j3", api.JoinNode, 2*time.Millisecond))
	w.ok(join(w, "j4", api.JoinNode, 3*time.Millisecond))
	w.refused(api.CodeUnauthenticated, use("j3", "hash", api.JoinNode)) // now == its expiry
	w.ok(use("j4", "hash", api.JoinNode))
}

func TestJoinTokenLimit(t *testing.T) {
	w := newWorld(t)
	for i := range api.TokensMax {
		c := command.JoinPut{Token: api.JoinToken{ID: api.TokenID(fmt.Sprintf("x%d", i)), Expires: api.Forever}}
		require.NoError(t, w.s.Apply(1, c).Err)
	}
	w.refused(api.CodeOverloaded, command.JoinPut{Token: api.JoinToken{ID: "one more"}})
}

func TestFlavors(t *testing.T) {
	w := newWorld(t)
	put := command.FlavorPut{Stamp: w.stamp(), Flavor: api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1}}}
	w.refused(api.CodeNotFound, command.FlavorPut{Stamp: w.stamp(), Flavor: put.Flavor, Replace: true})
	w.ok(put)
	w.refused(api.CodeConflict, put)
	more := command.FlavorPut{Stamp: w.stamp(), Flavor: put.Flavor, Replace: true}
	more.Flavor.Resources = api.Resources{api.VCPU: 2}
	w.ok(more)
	w.unchanged(more)
	f, ok := w.s.Flavor("small")
	require.True(t, ok)
	assert.Equal(t, int64(2), f.Resources[api.VCPU])
	assert.Equal(t, put.At, f.Created)
	w.ok(command.FlavorDelete{Stamp: w.stamp(), ID: "small"})
	w.refused(api.CodeNotFound, command.FlavorDelete{Stamp: w.stamp(), ID: "small"})
	assert.Empty(t, w.s.Flavors())

	for i := range api.FlavorsMax {
		w.s.Apply(w.index, command.FlavorPut{Flavor: api.Flavor{ID: api.FlavorID(fmt.Sprintf("f%d", i))}})
	}
	assert.Len(t, w.s.Flavors(), api.FlavorsMax)
	w.refused(api.CodeOverloaded, put)
	w.ok(command.FlavorPut{Stamp: w.stamp(), Flavor: api.Flavor{ID: "f0"}, Replace: true})
}

func TestEpochs(t *testing.T) {
	w := newWorld(t)
	add := func(id string, keep int) command.EpochAdd {
		return command.EpochAdd{Stamp: w.stamp(), Epoch: command.Epoch{ID: []byte(id)}, Keep: keep}
	}
	ids := func() (out []string) {
		for _, e := range w.s.Epochs {
			out = append(out, string(e.ID))
		}
		return out
	}
	w.ok(add("e001", 2))
	w.ok(add("e002", 2))
	assert.Equal(t, []string{"e002", "e001"}, ids(), "the newest seals, the oldest is destroyed")
	w.unchanged(add("e002", 2))
	w.ok(add("e003", 0))
	assert.Equal(t, []string{"e003"}, ids())
}

// TestRotateTwice rotates again and again: what a key has sealed opens for as long as
// it may be taken up, and too many keys at once are refused.
func TestRotateTwice(t *testing.T) {
	w := newWorld(t)
	add := func(id int) command.EpochAdd {
		at := w.stamp()
		return command.EpochAdd{
			Stamp: at, Epoch: command.Epoch{ID: fmt.Appendf(nil, "e%03d", id), Created: at.At}, Keep: 2, Sealed: at.At.Add(-api.PlanTTLMax),
		}
	}
	first := w.s.Epochs[0].ID
	has := func(id []byte) bool {
		return slices.ContainsFunc(w.s.Epochs, func(e command.Epoch) bool { return bytes.Equal(e.ID, id) })
	}
	w.ok(add(1))
	since := w.s.Now()
	for i := 2; i < api.EpochsMax; i++ {
		w.ok(add(i))
		assert.True(t, has(first), "its last plan may be a moment old")
	}
	require.Less(t, w.s.Now(), since.Add(api.PlanTTLMax))
	assert.Len(t, w.s.Epochs, api.EpochsMax)
	w.refused(api.CodeOverloaded, add(api.EpochsMax))
	w.unchanged(add(api.EpochsMax - 1))
	w.now = since.Add(api.PlanTTLMax)
	w.ok(add(api.EpochsMax + 1))
	assert.False(t, has(first), "its last plan has expired")
	assert.True(t, has([]byte("e002")))
	w.now = w.now.Add(2 * api.PlanTTLMax)
	w.ok(add(api.EpochsMax + 2))
	assert.Len(t, w.s.Epochs, 2)
}

func TestLinks(t *testing.T) {
	w := newWorld(t)
	put := func(id string, role api.LinkRole, edit func(*command.LinkPut)) command.LinkPut {
		c := command.LinkPut{Stamp: w.stamp(), Link: linkOf(id, role)}
		if edit != nil {
			edit(&c)
		}
		return c
	}
	w.refused(api.CodeInvalid, put("c1", api.LinkChild, func(c *command.LinkPut) { c.Link.Zone = "z" }))
	w.ok(put("up", api.LinkParent, nil))
	w.ok(put("c1", api.LinkChild, nil))
	w.refused(api.CodeConflict, put("c1", api.LinkChild, nil))
	w.refused(api.CodeConflict, put("up2", api.LinkParent, nil))
	w.refused(api.CodeConflict, put("c2", api.LinkChild, func(c *command.LinkPut) { c.Link.Name = "c1" }))
	w.refused(api.CodeConflict, put("c2", api.LinkChild, func(c *command.LinkPut) { c.Link.Zone = "zone-c1" }))
	w.refused(api.CodeConflict, put("c2", api.LinkChild, func(c *command.LinkPut) { c.Link.ID = "up" }))

	token := func(c *command.LinkPut) { c.Token, c.Hash = "j", []byte("hash") }
	w.refused(api.CodeUnauthenticated, put("c2", api.LinkChild, token))
	w.ok(join(w, "j", api.JoinLink, time.Hour))
	w.refused(api.CodeConflict, put("c1", api.LinkChild, token)) // and the token is not used up
	w.ok(put("c2", api.LinkChild, token))
	w.refused(api.CodeUnauthenticated, put("c3", api.LinkChild, token))

	p, ok := w.s.Parent()
	require.True(t, ok)
	assert.Equal(t, api.LinkID("up"), p.ID)
	assert.Len(t, w.s.Children(), 2)
	assert.Len(t, w.s.Links(), 3)
	l, ok := w.s.LinkByZone("zone-c2")
	require.True(t, ok)
	assert.Equal(t, "c2", l.Name)
}

func TestLinkSet(t *testing.T) {
	w := newWorld(t)
	w.link("c1", api.LinkChild)
	w.link("c2", api.LinkChild)
	name, taken, offset, scale, paused := "east", "c2", int64(-5), int64(3), api.LinkPaused
	w.refused(api.CodeNotFound, command.LinkSet{Stamp: w.stamp(), ID: "c9"})
	w.refused(api.CodeConflict, command.LinkSet{Stamp: w.stamp(), ID: "c1", Name: &taken, Offset: &offset})
	c := command.LinkSet{Stamp: w.stamp(), ID: "c1", Name: &name, Offset: &offset, Scale: &scale, State: &paused, Endpoints: []string{"e"}}
	w.ok(c)
	w.unchanged(c)
	l, ok := w.s.LinkByName("east")
	require.True(t, ok)
	assert.Equal(t, []any{int64(-5), int64(3), api.LinkPaused, []string{"e"}}, []any{l.Offset, l.Scale, l.State, l.Endpoints})
	w.ok(command.LinkSet{Stamp: w.stamp(), ID: "c1"})
	l, _ = w.s.Link("c1")
	assert.Equal(t, "east", l.Name, "what is not given stays")
}

func TestLinkLimit(t *testing.T) {
	w := newWorld(t)
	for i := range api.LinksMax {
		w.link(fmt.Sprintf("c%d", i), api.LinkChild)
	}
	w.refused(api.CodeOverloaded, command.LinkPut{Stamp: w.stamp(), Link: linkOf("one-more", api.LinkChild)})
	w.link("up", api.LinkParent) // a parent is no child
}

// TestALateCommitAcksNoAbort has a child say that it holds and has committed when its
// parent has given up already: it must still be told so until it confirms that.
func TestALateCommitAcksNoAbort(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.link("c1", api.LinkChild)
	w.ok(asked(w.stamp(), "k1", nil, part("c1", "b")))
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionAbort})
	late := answer("c1", "b")
	late.Committed = true
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Origin: "up", Answers: []command.PartAnswer{late}})
	require.Len(t, w.s.UntoldHolds(), 1)
	assert.False(t, w.s.UntoldHolds()[0].Parts[0].Acked, "it would never be told, and its instances would live on in the child")
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Origin: "up", Link: "c1", Decision: api.DecisionAbort})
	assert.Empty(t, w.s.UntoldHolds())
}

func TestLinkDelete(t *testing.T) {
	w := newWorld(t)
	del := func(id string) command.LinkDelete { return command.LinkDelete{Stamp: w.stamp(), ID: api.LinkID(id)} }
	w.host("h1", 4)
	w.link("up", api.LinkParent)
	w.link("c1", api.LinkChild)
	w.refused(api.CodeNotFound, del("c9"))

	w.ok(asked(w.stamp(), "k1", slots("h1", "a"), part("c1", "b")))
	w.refused(api.CodeConflict, del("up")) // a hold that it has to decide
	w.refused(api.CodeConflict, del("c1")) // a hold that it takes part in
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k1", Origin: "up", Answers: []command.PartAnswer{answer("c1", "b")}})
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionCommit})
	w.ok(command.PartAck{Stamp: w.stamp(), ID: "k1", Origin: "up", Link: "c1", Decision: api.DecisionCommit})
	w.refused(api.CodeConflict, del("up")) // instances made for it
	w.refused(api.CodeConflict, del("c1")) // instances in it
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "b"})
	w.ok(command.InstanceTold{Stamp: w.stamp(), Gone: []api.InstanceID{"b"}})
	w.ok(del("c1"))
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	w.ok(del("up"))
	w.refused(api.CodeNotFound, del("up"))
}

func TestHosts(t *testing.T) {
	w := newWorld(t)
	w.host("h2", 4)
	w.host("h1", 4)
	assert.Equal(t, uint64(1), w.generation("h1"))
	again := hostPut(w.stamp(), "a1", "h1", 8)
	again.Hosts[0].ID = "another"
	r := w.ok(again)
	assert.Equal(t, []api.HostID{"h1"}, r.Hosts, "a host that is known by name keeps its id")
	assert.Equal(t, uint64(2), w.generation("h1"))
	w.refused(api.CodeConflict, hostPut(w.stamp(), "a2", "h1", 8))

	all := w.s.HostsPage(Page{Limit: 10})
	require.Len(t, all, 2)
	assert.Equal(t, "h1", all[0].Name)
	assert.Equal(t, int64(8), all[0].Inventory[api.VCPU].Total)
	assert.Equal(t, "h2", w.s.HostsPage(Page{Limit: 10, Marker: "h1"})[0].Name)
	assert.Len(t, w.s.HostsPage(Page{Limit: 1}), 1)
	h, ok := w.s.HostByName("h2")
	require.True(t, ok)
	assert.Equal(t, api.HostID("h2"), h.ID)
	_, ok = w.s.HostByName("h9")
	assert.False(t, ok)
}

func TestOneEntryBumpsAHostOnce(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 9)
	twice := hostPut(w.stamp(), "a1", "h2", 4)
	twice.Hosts = append(twice.Hosts, twice.Hosts[0])
	w.ok(twice)
	assert.Equal(t, uint64(1), w.generation("h2"))

	w.ok(create(w.stamp(), "r1", 6, 1))
	w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a", "b", "c")))
	assert.Equal(t, uint64(2), w.generation("h1"), "three claims, one entry")
	w.ok(hold(w.stamp(), "k2", "r1", slots("h1", "d", "e", "f")))
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k2", Decision: api.DecisionAbort})
	assert.Equal(t, uint64(4), w.generation("h1"), "three claims given back, one entry")
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	assert.Equal(t, uint64(4), w.generation("h1"), "a commit moves no claim")
	for _, id := range []api.InstanceID{"a", "b", "c"} {
		w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: id})
	}
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a", "b", "c"))
	assert.Equal(t, uint64(5), w.generation("h1"), "three ends, one entry")
	assert.Zero(t, w.used("h1"))
}

// TestWholeRegistration: what an agent does not register any more is down until it
// does, whatever is said of the agent; a host that runs nothing may be forgotten.
func TestWholeRegistration(t *testing.T) {
	w := newWorld(t)
	whole := func(agent string, ids ...string) command.HostsPut {
		c := command.HostsPut{Stamp: w.stamp(), Agent: api.AgentID(agent), Whole: true}
		for _, id := range ids {
			c.Hosts = append(c.Hosts, hostPut(c.Stamp, agent, id, 2).Hosts...)
		}
		return c
	}
	is := func(id string, st api.HostState, unserved bool) {
		t.Helper()
		h, ok := w.s.Host(api.HostID(id))
		require.True(t, ok)
		assert.Equal(t, st, h.State, id)
		assert.Equal(t, unserved, h.Unserved, id)
	}
	w.ok(whole("a1", "h1", "h2"))
	w.ok(whole("a2", "h3"))
	w.ok(hostPut(w.stamp(), "a1", "h1", 2))
	is("h2", api.HostUp, false) // not the whole
	before := w.generation("h2")
	w.ok(whole("a1", "h1"))
	is("h1", api.HostUp, false)
	is("h2", api.HostDown, true)
	is("h3", api.HostUp, false)
	assert.Equal(t, before+1, w.generation("h2"))
	w.ok(whole("a1", "h1"))
	assert.Equal(t, before+1, w.generation("h2"), "once")
	w.unchanged(command.HostsState{Stamp: w.stamp(), State: api.HostUp, Hosts: []api.HostID{"h2"}})
	is("h2", api.HostDown, true)
	assert.Len(t, w.s.WorkAfter("a1", 0), 1)
	w.ok(whole("a1", "h1", "h2"))
	is("h2", api.HostUp, false)
	assert.Len(t, w.s.WorkAfter("a1", 0), 2)
	w.ok(whole("a1", "h1"))
	w.ok(command.HostDelete{Stamp: w.stamp(), ID: "h2"})
	checkIndexes(t, w.s)
}

func TestHostsState(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	c := command.HostsState{Stamp: w.stamp(), State: api.HostDown, Hosts: []api.HostID{"h1", "h9", "h1"}}
	w.ok(c)
	assert.Equal(t, uint64(2), w.generation("h1"))
	w.unchanged(c)
	w.ok(create(w.stamp(), "r1", 2, 1))
	r := w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a")))
	assert.Equal(t, []api.InstanceID{"a"}, r.Hold.Refused, "a host that is down gets nothing new")
	w.host("h1", 4) // its agent is back
	r = w.ok(hold(w.stamp(), "k2", "r1", slots("h1", "a")))
	assert.Empty(t, r.Hold.Refused)
}

func (w *world) downSince(id api.HostID) api.Instant {
	h, ok := w.s.Host(id)
	require.True(w.tb, ok)
	return h.DownSince
}

// TestHostsSilent: the silence of a lost host ends what its agent does not let outlive it, if it was to end; not
// what may run on, nor anything on a host that is up again.
func TestHostsSilent(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 8)
	w.host("h2", 8)
	boot := func(host, id string, edit func(*api.Request)) {
		c := create(w.stamp(), "r-"+id, 1, 1)
		edit(&c.Request)
		c.Instances[0].ID = api.InstanceID(id)
		w.ok(c)
		h := hold(w.stamp(), "k-"+id, "r-"+id, slots(host, id))
		edit(&h.Request)
		h.Commit = true
		w.ok(h)
	}
	firm := func(*api.Request) {}
	movable := func(r *api.Request) { r.Groups[0].ExtraSpecs = map[string]string{api.SpecEvacuate: "true"} }
	preemptible := func(r *api.Request) { r.Class = api.Preemptible }
	for id, edit := range map[string]func(*api.Request){
		"firm": firm, "movable": movable, "preemptible": preemptible, "runs": preemptible,
	} {
		boot("h1", id, edit)
	}
	boot("h2", "elsewhere", preemptible)
	for _, id := range []api.InstanceID{"firm", "movable", "preemptible", "elsewhere"} {
		w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: id})
	}
	status := func(id api.InstanceID) api.Status {
		i, ok := w.s.Instance(id)
		require.True(t, ok, id)
		return i.Status
	}
	down := command.HostsState{Stamp: w.stamp(), State: api.HostDown, Hosts: []api.HostID{"h1", "h2"}}
	silent := func(id api.HostID, since api.Instant) command.HostsSilent {
		return command.HostsSilent{Stamp: w.stamp(), Hosts: []command.SilentHost{{ID: id, Since: since}, {ID: "h9"}, {ID: id, Since: since}}}
	}
	w.unchanged(silent("h1", 0)) // it is up
	w.ok(down)
	w.unchanged(silent("h1", w.downSince("h1")-1)) // it has been up since
	c := silent("h1", w.downSince("h1"))
	w.ok(c)
	for id, want := range map[api.InstanceID]api.Status{
		"firm": api.StatusDeleting, "movable": api.StatusDeleted, "preemptible": api.StatusDeleted, "runs": api.StatusBuild,
		"elsewhere": api.StatusDeleting,
	} {
		assert.Equal(t, want, status(id), id)
	}
	assert.Len(t, w.s.OnHost("h1"), 2, "what is gone has left its room")
	w.unchanged(c)
	w.unchanged(reports(w.stamp(), "a1", "h1", api.StatusActive, "movable", "preemptible")) // from before
	w.host("h2", 8)
	w.unchanged(silent("h2", down.At))
	assert.Equal(t, api.StatusDeleting, status("elsewhere"))
	checkIndexes(t, w.s)
}

func TestHostSet(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	off, pool := false, api.PoolReservable
	w.refused(api.CodeNotFound, command.HostSet{Stamp: w.stamp(), ID: "h9"})
	w.refused(api.CodeStale, command.HostSet{Stamp: w.stamp(), ID: "h1", Generation: 2, Enabled: &off})
	w.ok(command.HostSet{Stamp: w.stamp(), ID: "h1", Generation: 1, Enabled: &off, Pool: &pool})
	assert.Equal(t, uint64(2), w.generation("h1"))
	w.refused(api.CodeStale, command.HostSet{Stamp: w.stamp(), ID: "h1", Generation: 1, Enabled: &off})
	h, _ := w.s.Host("h1")
	assert.Equal(t, []any{false, pool}, []any{h.Enabled, h.Pool})
	w.host("h1", 4)
	h, _ = w.s.Host("h1")
	assert.Equal(t, []any{false, pool}, []any{h.Enabled, h.Pool}, "an agent does not undo its operator's word")
	w.ok(create(w.stamp(), "r1", 1, 1))
	r := w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a")))
	assert.Equal(t, []api.InstanceID{"a"}, r.Hold.Refused, "a host that is disabled gets nothing new")
}

func TestHostDelete(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	w.host("h10", 4)
	del := func(generation uint64) command.HostDelete {
		return command.HostDelete{Stamp: w.stamp(), ID: "h1", Generation: generation}
	}
	w.ok(create(w.stamp(), "r1", 1, 1))
	w.ok(create(w.stamp(), "r2", 1, 1))
	w.ok(hold(w.stamp(), "k2", "r2", slots("h10", "b"))) // the next key is another host's
	w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a")))
	w.refused(api.CodeConflict, del(0))
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	w.refused(api.CodeConflict, del(0))
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
	w.refused(api.CodeConflict, del(0))
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a"))
	w.refused(api.CodeStale, del(1))
	w.ok(del(w.generation("h1")))
	w.refused(api.CodeNotFound, del(0))
	assert.Len(t, w.s.AllHosts(), 1)
	w.host("h1", 2)
	assert.Equal(t, uint64(1), w.generation("h1"), "a new host of that name begins anew")
}

func TestInventoryBelowUse(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	w.ok(create(w.stamp(), "r1", 4, 1))
	w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a", "b", "c")))
	w.host("h1", 2)
	assert.Equal(t, int64(3), w.used("h1"), "nothing is evicted")
	r := w.ok(hold(w.stamp(), "k2", "r1", slots("h1", "d")))
	assert.Len(t, r.Hold.Refused, 1, "and nothing new is placed")
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionAbort))
	assert.Zero(t, w.used("h1"))
}

func TestHoldsPerLinkLimit(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.link("c1", api.LinkChild)
	w.host("h1", api.HoldsPerLinkMax+1)
	const slotsTaken = 1000
	w.ok(asked(w.stamp(), "k1", slots("h1", numbered("own", slotsTaken)...)))
	w.refused(api.CodeOverloaded, asked(w.stamp(), "k2", nil, part("c1", numbered("below", api.HoldsPerLinkMax-slotsTaken+1)...)))
	w.ok(asked(w.stamp(), "k2", nil, part("c1", numbered("below", api.HoldsPerLinkMax-slotsTaken)...)))
	w.refused(api.CodeOverloaded, asked(w.stamp(), "k3", slots("h1", "x")))
	w.ok(create(w.stamp(), "r1", 1, 1))
	w.ok(hold(w.stamp(), "k4", "r1", slots("h1", "x"))) // the zone's own boots have no such limit
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k1", Origin: "up", Decision: api.DecisionCommit})
	w.ok(asked(w.stamp(), "k3", slots("h1", "y"))) // what is decided counts no more
}

func TestTombstonesPerLinkLimit(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.host("h1", 4)
	abort := func(id api.HoldID) command.HoldDecide {
		return command.HoldDecide{Stamp: w.stamp(), ID: id, Origin: "up", Decision: api.DecisionAbort}
	}
	w.ok(asked(w.stamp(), "real", slots("h1", "a")))
	start := w.now + 1
	for _, id := range numbered("never", api.TombstonesPerLinkMax) {
		w.ok(abort(api.HoldID(id)))
	}
	w.refused(api.CodeOverloaded, abort("one-more"))
	w.ok(abort(api.HoldID(numbered("never", 1)[0]))) // one that is known makes no record
	w.ok(abort("real"))
	assert.Equal(t, api.HoldReleased, w.ok(asked(w.stamp(), numbered("never", 1)[0], slots("h1", "b"))).Hold.State, "it came too late")
	w.s = loaded(t, saved(t, w.s))
	w.refused(api.CodeOverloaded, abort("one-more"))

	w.unchanged(command.Prune{Stamp: w.stamp(), BeforeDead: start, Limit: 9})
	w.ok(command.Prune{Stamp: w.stamp(), BeforeDead: start + 1, Limit: 9})
	w.ok(abort("one-more"))
	w.refused(api.CodeOverloaded, abort("and-another"))
	w.ok(command.Prune{Stamp: w.stamp(), BeforeDead: w.now + 1, Limit: 2 * api.TombstonesPerLinkMax})
	assert.Len(t, w.s.Holds(), 1, "one that came is remembered longer")
	checkIndexes(t, w.s)
}

func TestHoldNamesItsGroups(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	w.link("c1", api.LinkChild)
	w.ok(create(w.stamp(), "r1", 4, 1))
	for _, group := range []int{-1, 1} {
		c := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
		c.Slots[0].Group = group
		w.refused(api.CodeInvalid, c)
	}
	c := hold(w.stamp(), "k1", "r1", nil, part("c1", "a"))
	c.Parts[0].Instances = append(c.Parts[0].Instances, specs("b"))
	w.refused(api.CodeInvalid, c)
}

func TestAcknowledgingNothingIsNothing(t *testing.T) {
	w := newWorld(t)
	w.link("c1", api.LinkChild)
	w.ok(create(w.stamp(), "r1", 1, 1))
	w.ok(hold(w.stamp(), "k1", "r1", nil, part("c1", "a")))
	w.unchanged(command.PartAck{Stamp: w.stamp(), ID: "k1", Link: "c1", Decision: api.DecisionPending})
	w.unchanged(command.HoldParts{Stamp: w.stamp(), ID: "k1", Answers: []command.PartAnswer{answer("c9", "a")}})
}

func TestFaults(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 1)
	w.ok(create(w.stamp(), "r1", 1, 1))
	h := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
	h.Commit = true
	w.ok(h)
	for fault, want := range map[string]int{
		"": 0, strings.Repeat("x", api.FaultMaxBytes): api.FaultMaxBytes, strings.Repeat("x", api.FaultMaxBytes+1): api.FaultMaxBytes,
		"x" + strings.Repeat("é", api.FaultMaxBytes/2): api.FaultMaxBytes - 1, // not cut within a character
	} {
		c := reports(w.stamp(), "a1", "h1", api.StatusError, "a")
		c.Items[0].Fault = fault
		w.ok(c)
		i, _ := w.s.Instance("a")
		assert.Len(t, i.Fault, want)
		loaded(t, saved(t, w.s))
	}
}

func TestReports(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	w.ok(create(w.stamp(), "r1", 2, 1))
	w.ok(hold(w.stamp(), "k1", "r1", slots("h1", "a", "b")))
	w.unchanged(reports(w.stamp(), "a1", "h1", api.StatusActive, "a")) // not decided yet
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	for _, st := range []api.Status{api.StatusBuild, api.StatusDeleting, "DANCING", ""} {
		w.unchanged(reports(w.stamp(), "a1", "h1", st, "a"))
	}
	w.unchanged(command.InstanceReport{Stamp: w.stamp(), Agent: "a1"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusShutoff, "a"))
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "b"))
	assert.Equal(t, api.StatusError, w.status("b"), "nobody asked for its end")
	assert.Equal(t, int64(2), w.used("h1"), "and its claim stays until somebody does")
	assert.Equal(t, api.BootDegraded, w.boot("r1").State(), "one has run and the other has not")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusError, "a"))
	assert.Equal(t, api.BootError, w.boot("r1").State(), "nothing runs")
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusActive, "a"))
	assert.Equal(t, api.BootDegraded, w.boot("r1").State())
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusShutoff, "a"))
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "b"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "b"))
	assert.Equal(t, int64(1), w.used("h1"))
	w.unchanged(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "b"))
	assert.Equal(t, int64(1), w.used("h1"), "freed once")
	w.unchanged(reports(w.stamp(), "a1", "h1", api.StatusActive, "b"))
}

func TestWork(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 4)
	w.host("h2", 4)
	names := func(after uint64) (out []string) {
		for _, h := range w.s.WorkAfter("a1", after) {
			out = append(out, h.Name)
		}
		return out
	}
	assert.Equal(t, []string{"h1", "h2"}, names(0))
	assert.Empty(t, w.s.WorkAfter("a2", 0))
	seen := w.index
	w.ok(create(w.stamp(), "r1", 1, 1))
	w.ok(hold(w.stamp(), "k1", "r1", slots("h2", "a")))
	assert.Empty(t, names(seen), "nothing runs before the decision")
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	assert.Equal(t, []string{"h2"}, names(seen))
	assert.Len(t, w.s.OnHost("h2"), 1)
	seen = w.index
	w.ok(reports(w.stamp(), "a1", "h2", api.StatusActive, "a"))
	assert.Empty(t, names(seen), "what should run has not changed")
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "a"})
	assert.Equal(t, []string{"h2"}, names(seen))
	seen = w.index
	w.ok(reports(w.stamp(), "a1", "h2", api.StatusDeleted, "a"))
	assert.Equal(t, []string{"h2"}, names(seen))
	assert.Empty(t, w.s.OnHost("h2"))
}

func TestListings(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 9)
	for _, r := range []string{"r1", "r2"} {
		w.ok(create(w.stamp(), r, 2, 1))
		h := hold(w.stamp(), "k-"+r, r, slots("h1", r+"a", r+"b"))
		h.Commit = true
		w.ok(h)
	}
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "r1a"})
	w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "r1a"))
	ids := func(q InstanceQuery) (out []api.InstanceID) {
		for _, i := range w.s.InstancesPage(q) {
			out = append(out, i.ID)
		}
		return out
	}
	page := Page{Limit: 10}
	assert.Equal(t, []api.InstanceID{"r1b", "r2a", "r2b"}, ids(InstanceQuery{Page: page}))
	assert.Equal(t, []api.InstanceID{"r1b", "r2a", "r2b"}, ids(InstanceQuery{Project: "p", Page: page}))
	assert.Equal(t, []api.InstanceID{"r2a", "r2b"}, ids(InstanceQuery{Project: "p", Reservation: "r2", Page: page}))
	assert.Empty(t, ids(InstanceQuery{Project: "q", Page: page}))
	assert.Equal(t, []api.InstanceID{"r1a", "r1b", "r2a", "r2b"}, ids(InstanceQuery{Deleted: true, Page: page}))
	assert.Equal(t, []api.InstanceID{"r1a", "r1b"}, ids(InstanceQuery{Project: "p", Reservation: "r1", Deleted: true, Page: page}))
	assert.Equal(t, []api.InstanceID{"r1b", "r2a"}, ids(InstanceQuery{Project: "p", Deleted: true, Page: Page{Limit: 2, Marker: "r1a"}}))
	assert.Equal(t, []api.InstanceID{"r2a"}, ids(InstanceQuery{Project: "p", Page: Page{Limit: 1, Marker: "r1b"}}))
	assert.Equal(t, []api.InstanceID{"r2b"}, ids(InstanceQuery{Page: Page{Limit: 9, Marker: "r2a"}}))
	odd := func(i *api.Instance) bool { return i.Name == "name-r2b" }
	assert.Equal(t, []api.InstanceID{"r2b"}, ids(InstanceQuery{Project: "p", Match: odd, Page: page}))
	assert.Len(t, w.s.OfReservation("p", "r1"), 2, "DELETED ones too")
	assert.Len(t, w.s.BootsPage("p", page), 2)
	assert.Equal(t, api.ReservationID("r2"), w.s.BootsPage("p", Page{Limit: 1, Marker: "r1"})[0].Request.Reservation)
	assert.Empty(t, w.s.BootsPage("q", page))
}

func TestWindows(t *testing.T) {
	w := newWorld(t)
	w.host("h1", 1)
	w.ok(create(w.stamp(), "r1", 9, 1))
	short := hold(w.stamp(), "k1", "r1", slots("h1", "a"))
	short.Request.Window.End = w.now + 10
	r := w.ok(short)
	assert.Equal(t, api.Window{Start: w.now, End: w.now + 10}, r.Hold.Window, "a boot claims from now on")
	early := w.now + 5
	over := hold(w.stamp(), "k2", "r1", slots("h1", "b"))
	over.Request.Window.Start = early
	assert.Len(t, w.ok(over).Hold.Refused, 1)
	after := hold(w.stamp(), "k3", "r1", slots("h1", "c"))
	after.Request.Window.Start = short.Request.Window.End
	assert.Empty(t, w.ok(after).Hold.Refused, "ends come before starts")
	w.now += 20
	w.ok(command.ConfigSet{Stamp: w.stamp()})
	assert.Equal(t, w.now, w.s.Now(), "time goes on")
	assert.Equal(t, int64(1), w.used("h1"))
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionAbort))
	assert.Zero(t, w.used("h1"), "what has passed is given back once")
}

func TestTimeNeverFalls(t *testing.T) {
	w := newWorld(t)
	w.ok(command.ConfigSet{Stamp: at(start + 100)})
	w.ok(command.ConfigSet{Stamp: at(start + 50)})
	assert.Equal(t, start+100, w.s.Now())
}

func TestPruneIsBounded(t *testing.T) {
	for _, limit := range []int{0, 1, 3} {
		w := newWorld(t)
		w.host("h1", 9)
		w.ok(create(w.stamp(), "r1", 3, 1))
		h := hold(w.stamp(), "k1", "r1", slots("h1", "a", "b", "c"))
		h.Commit = true
		w.ok(h)
		for _, id := range []string{"t1", "t2", "t3"} {
			w.ok(command.TokenPut{Stamp: w.stamp(), Token: api.Token{ID: api.TokenID(id), Expires: w.now}})
		}
		w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "r1"})
		w.ok(reports(w.stamp(), "a1", "h1", api.StatusDeleted, "a", "b", "c"))
		w.unchanged(command.Prune{Stamp: w.stamp(), Before: start, BeforeAbroad: start, Limit: 9})
		w.ok(command.Prune{Stamp: w.stamp(), Before: w.now, BeforeAbroad: w.now, Limit: limit})
		assert.Len(t, w.s.OfReservation("p", "r1"), 3-limit)
		assert.Len(t, w.s.Tokens(), 4-limit)
		checkIndexes(t, w.s)
	}
}

// TestLeasesOfAParentBeginInTime: a lease of a parent begins at most a hundred years ahead; before the fifth form, ten.
func TestLeasesOfAParentBeginInTime(t *testing.T) {
	for form, lead := range map[api.Form]time.Duration{api.FormFourth: api.WindowMax, api.FormFifth: api.LeaseLeadMax} {
		w := newWorld(t)
		w.form = form
		w.link("up", api.LinkParent)
		w.host("h1", 100)
		now := w.stamp().At
		for n, late := range []api.Instant{0, 1} {
			h := asked(command.Stamp{At: now}, fmt.Sprint("k", n), slots("h1", fmt.Sprint("i", n)))
			h.Request.Reserves, h.Request.Groups[0].Name = true, "r1"
			h.Request.Window.Start = now.Add(lead) + late
			h.Request.Window.End = h.Request.Window.Start.Add(time.Hour)
			if late == 0 {
				w.ok(h)
			} else {
				w.refused(api.CodeInvalid, h)
			}
			assert.Equal(t, lead, w.s.LeaseLead())
		}
	}
}

// TestHoldsForAnotherZoneAreForNow: whatever a parent writes into a hold, it gets no
// room for later, or beyond the longest window.
func TestHoldsForAnotherZoneAreForNow(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.host("h1", 100)
	now := w.stamp().At
	for n, c := range []struct {
		window api.Window
		class  api.Class
		ok     bool
	}{
		{api.Window{End: api.Forever}, api.Firm, true},
		{api.Window{Start: now, End: now.Add(api.WindowMax)}, api.Firm, true},
		{api.Window{Start: now, End: now.Add(api.WindowMax) + 1}, api.Firm, false},
		{api.Window{Start: now + 1, End: api.Forever}, api.Firm, false},
		{api.Window{Start: -1, End: api.Forever}, api.Firm, false},
		{api.Window{End: api.Forever}, api.Preemptible, true},
		{api.Window{Start: now + 1, End: api.Forever}, api.Preemptible, false},
	} {
		h := asked(command.Stamp{At: now}, fmt.Sprint("k", n), slots("h1", fmt.Sprint("i", n)))
		h.Request.Window, h.Request.Class = c.window, c.class
		if c.ok {
			w.ok(h)
		} else {
			w.refused(api.CodeInvalid, h)
		}
	}
}

// TestAZoneMayKeepItsPreemptiblesFromParents: whoever is above it does not end any, unless the
// operator allows it, which is so at first.
func TestAZoneMayKeepItsPreemptiblesFromParents(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.host("h1", 100)
	for n, closed := range []bool{false, true, false} {
		w.ok(command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{Preemptibles: api.PreemptRule{Closed: closed}}})
		h := asked(w.stamp(), fmt.Sprint("k", n), slots("h1", fmt.Sprint("i", n)))
		h.Request.Preempt = true
		if closed {
			w.refused(api.CodeForbidden, h)
		} else {
			w.ok(h)
		}
	}
}
