package federation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
	"berth/internal/actor"
	"berth/internal/filled"
	"berth/internal/golden"
	"berth/internal/memstore"
	"berth/raftstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// noting is a store that notes what is proposed to it.
type noting struct {
	*memstore.Store
	all []command.Command
}

func (s *noting) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	s.all = append(s.all, cmds...)
	return s.Store.Propose(ctx, cmds...)
}

// TestWhatCallsWrite: the commands of each call, who is said to have called, and which fields are empty in them. What is not named has
// a value.
func TestWhatCallsWrite(t *testing.T) {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		w := newWorld(t)
		f := &failing{
			place: w.addOfForm("p", nil, api.FormNewest), t: t, csr: certificateRequest(t),
			child: w.addOfForm("c", nil, api.FormNewest), other: w.addOfForm("o", nil, api.FormNewest),
		}
		f.child.isBelow(f.place)
		require.NoError(t, f.RotateKEK(t.Context()))
		call := calls[name].begin(f)
		store := &noting{Store: f.store}
		f.zone = zone.New(zone.Config{Store: store, Now: f.time, Log: f.log})
		ctx := actor.With(t.Context(), actor.Call{By: api.AuditActor{Kind: api.ActorZone}, Path: "POST /it"})
		require.NoError(t, call(ctx), name)
		fmt.Fprintf(&out, "%s\n", name)
		for _, c := range store.all {
			if a, ok := c.(command.Audit); ok {
				fmt.Fprintf(&out, "  by %s, who has a name: %v, with %q\n", a.Actor.Kind, a.Actor.ID != "", a.Call)
				continue
			}
			fmt.Fprintf(&out, "  %s without %s\n", strings.TrimPrefix(fmt.Sprintf("%T", c), "command."), strings.Join(filled.Zero(c), " "))
		}
	}
	golden.Check(t, "testdata/writes.txt", []byte(out.String()))
}

// TestAnswersAreWhole: what calls answer lacks nothing but what is named here.
func TestAnswersAreWhole(t *testing.T) {
	w := newWorld(t)
	p, kid := w.addOfForm("p", nil, api.FormNewest), w.addOfForm("kid", nil, api.FormNewest)
	kid.isBelow(p)
	ctx := t.Context()
	has := func(name string, v any, without ...string) {
		t.Helper()
		assert.Equal(t, without, filled.Zero(v), name)
	}
	known := filled.Of[api.Node]()
	known.ID, known.Form = "node-1", api.FormNewest
	known.NodeAddr, known.APIAddr, known.AgentAddr, known.GatewayAddr = "n:1", "api:1", "agent:1", "gw:1"
	require.NoError(t, p.RecordNode(ctx, known))
	p.members.edit("", func([]raftstore.Member) []raftstore.Member {
		return []raftstore.Member{{ID: "node-1", Addr: "old:1", Voter: true, Leader: true}, {ID: "node-2", Addr: "new:1", Voter: true, Leader: true}}
	})
	members := p.Members()
	has("a member on record", members[0], "Since")
	assert.Equal(t, api.Node{ID: "node-2", NodeAddr: "new:1", Voter: true, Leader: true, Alive: "alive-node-2"}, members[1])
	up, err := p.UpgradeStatus(ctx)
	require.NoError(t, err)
	has("a node of an upgrade", up.Nodes[0])
	has("an upgrade", up, "Nodes.Form", "Nodes.Version")

	agent, err := p.admits(p.joinToken(api.JoinAgent, "rack-1"), certificateRequest(t))
	require.NoError(t, err)
	has("the join of an agent", agent, "KEK")
	node, err := p.Join(ctx, &rest.JoinBody{Token: p.joinToken(api.JoinNode, "node-3"), CSR: certificateRequest(t), Names: []string{"n"}})
	require.NoError(t, err)
	has("the join of a node", node)
	has("what a child is told", enrolmentOf(p.view(), "l"), "Incarnation", "KeyCheck", "Levels", "Offset", "Scale", "Token")

	require.NoError(t, p.RotateCA(ctx, rest.CABrought{}))
	require.NoError(t, p.UseCA(ctx, true))
	ca, err := p.CAStatus(ctx)
	require.NoError(t, err)
	has("a change of the authority", ca, "Authorities.Issues", "Behind", "Due", "Waits.Error")
	trusted, err := p.AgentTrust(ctx, "rack-1", Shown{Issued: p.time()}, &api.AgentTrust{})
	require.NoError(t, err)
	has("what an agent should trust", trusted, "Authorities.Vouch", "Term")

	p.returned = func(*api.Link) (api.Incarnation, error) { return 1_700_000_000, nil }
	back, err := p.Relink(ctx, p.linkTo(kid).ID, rest.Relink{DryRun: true})
	require.NoError(t, err)
	has("a zone that is brought back", back, "Before", "Instances")

	whole := filled.Of[api.Digest]()
	p.digest.make = func() *api.Digest { return &whole }
	p.digest.last = nil
	p.forms.noteForm("up", heardForm{api.FormNewest, p.time()})
	has("what a parent is told", p.DigestFor(&api.Link{ID: "up", Role: api.LinkParent}))
}

// TestAMemberThatCannotBeForgottenStays: one without a record is removed once nobody could take its join for good.
func TestAMemberThatCannotBeForgottenStays(t *testing.T) {
	p := newWorld(t).add("a", nil)
	p.members.edit("", func(list []raftstore.Member) []raftstore.Member { return append(list, raftstore.Member{ID: "node-2"}) })
	p.store.Fail(errors.New("no majority"))
	require.Error(t, p.RemoveMember(t.Context(), "node-2"))
	_, member := p.findMember("node-2")
	assert.True(t, member)
}

// TestChangesOfMembersWaitForEachOther, for as long as their caller does.
func TestChangesOfMembersWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t).add("a", nil)
		require.NoError(t, p.changeMembers(t.Context(), func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			refusedAs(t, api.CodeTimeout, p.RemoveMember(ctx, "node-2"))
			return nil
		}))
	})
}

// TestTheLeadGoesToAVoter: a zone with one has nobody to hand it to, whoever else is in it.
func TestTheLeadGoesToAVoter(t *testing.T) {
	for _, c := range []struct {
		voters, others int
		ok             bool
	}{{1, 0, false}, {1, 2, false}, {2, 0, true}, {3, 1, true}} {
		p := newWorld(t).add("a", nil)
		p.members.list = votersOf(c.voters)
		for range c.others {
			p.members.list = append(p.members.list, raftstore.Member{ID: "x"})
		}
		err := p.Transfer(t.Context(), "n2")
		assert.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
		assert.Equal(t, c.ok, slices.Contains(p.members.told, "transfer n2"), "%+v", c)
	}
}

// TestFirstCommands: the first token ends when it should, and what is no first command is refused.
func TestFirstCommands(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ca, err := identity.NewCA("z", now)
	require.NoError(t, err)
	for ttl, want := range map[time.Duration]api.Instant{0: api.Forever, 1: api.InstantOf(now), time.Hour: api.InstantOf(now.Add(time.Hour))} {
		first, token, err := Found(NewKeys(NewKEK(), nil, nil), ca, "name", []api.CostWeight{{Name: "spread", Weight: 1}}, ttl, now)
		require.NoError(t, err)
		assert.NotEmpty(t, token)
		c, err := readFirst(first)
		require.NoError(t, err)
		assert.Equal(t, want, c.Admin.Expires)
		assert.Len(t, c.Config.Costs, 1)
		assert.Equal(t, []api.Instant{api.InstantOf(now), api.InstantOf(now)}, []api.Instant{c.At, c.Admin.Created})
	}
	_, _, err = Found(NewKeys(nil, nil, nil), ca, "name", nil, 0, now)
	require.Error(t, err, "nothing wraps its secrets")
	other, err := command.Encode(command.NodeRemove{ID: "n"}, api.FormFirst)
	require.NoError(t, err)
	require.ErrorContains(t, CheckFirst(other), "not a zone's first command")
	require.Error(t, CheckFirst([]byte{0xff}))
}

// TestNoCertificateBeforeTheJoin: a clock that is late dates none before its holder has joined.
func TestNoCertificateBeforeTheJoin(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	assert.Equal(t, now, notBefore(now, api.InstantOf(now)))
	assert.Equal(t, now, notBefore(now, 0))
	assert.Equal(t, now.Add(time.Second), notBefore(now, api.InstantOf(now)+1000).UTC())
	assert.Zero(t, authorityEnd([]byte("none")))
	assert.Empty(t, (&Federation{zone: zone.New(zone.Config{Store: memstore.New(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})}).CADue(), "there is no zone yet")
}

// TestPinErrorsAreOfLinks that there are.
func TestPinErrorsAreOfLinks(t *testing.T) {
	w := newWorld(t)
	p, kid := w.add("p", nil), w.add("kid", nil)
	kid.isBelow(p)
	l := p.linkTo(kid)
	p.pinErrors.note(l.ID, pinError{errors.New("it is away"), p.time()})
	for wait, want := range map[api.CAWait]string{
		{Kind: api.CAWaitLink, Name: l.Name}: "it is away", {Kind: api.CAWaitNode, Name: l.Name}: "", {Kind: api.CAWaitLink, Name: "none"}: "",
	} {
		assert.Equal(t, want, p.pinErrorOf(p.view(), wait), "%+v", wait)
	}
	p.pinErrors.note(l.ID, pinError{nil, p.time()})
	assert.Empty(t, p.pinErrorOf(p.view(), api.CAWait{Kind: api.CAWaitLink, Name: l.Name}))
}

// TestRenewalsOfTheYoung: at which age a certificate of the authority that issues is renewed, for other names or the same ones.
func TestRenewalsOfTheYoung(t *testing.T) {
	p := newWorld(t).add("a", nil)
	csr, now, v := certificateRequest(t), p.time(), p.view()
	own := identity.PinOf(v.CA)
	same := identity.RenewableAge(p.leafTTL)
	for _, c := range []struct {
		age     time.Duration
		renamed bool
		of      identity.Pin
		ok      bool
	}{
		{same - 1, false, own, false}, {same, false, own, true}, {0, false, own, false}, {-1, false, own, true},
		{identity.RenamableAge - 1, true, own, false}, {identity.RenamableAge, true, own, true}, {0, false, identity.Pin{}, true}, {0, true, identity.Pin{}, true},
	} {
		_, err := p.checkRenewal(csr, Shown{Issued: now.Add(-c.age), Authority: c.of, Renamed: c.renamed}, v, now)
		assert.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
	}
	_, err := p.checkRenewal([]byte("none"), Shown{}, v, now)
	require.Error(t, err)
}

// TestAutopilotTells of what it cannot do.
func TestAutopilotTells(t *testing.T) {
	p := newWorld(t).add("a", nil)
	var log bytes.Buffer
	p.log = slog.New(slog.NewTextHandler(&log, nil))
	p.lookAtMembers(t.Context(), &deadWatch{})
	assert.NotContains(t, log.String(), "removed nodes are still recorded")
	p.propose(command.NodePut{Stamp: p.zone.Stamp(), Node: api.Node{ID: "node-7"}})
	p.store.Fail(errors.New("no majority"))
	p.lookAtMembers(t.Context(), &deadWatch{})
	assert.Contains(t, log.String(), "removed nodes are still recorded")
	assert.NotContains(t, log.String(), "dead node")
	const even, odd = "the zone has an even number of voters, which", "the zone has an odd number of voters again"
	says := func(w *deadWatch, voters int) (out []bool) {
		log.Reset()
		p.members.list = votersOf(voters)
		p.lookAtMembers(t.Context(), w)
		return []bool{strings.Contains(log.String(), even), strings.Contains(log.String(), odd)}
	}
	assert.Equal(t, []bool{false, false}, says(&deadWatch{even: evenAfter - 1}, 2))
	w := &deadWatch{even: evenAfter}
	for _, c := range []struct {
		voters    int
		even, odd bool
	}{{2, true, false}, {2, false, false}, {3, false, true}, {3, false, false}} {
		assert.Equal(t, []bool{c.even, c.odd}, says(w, c.voters), "%+v", c)
	}
}

// TestAnAgentIsRecordedOnce: what an agent has of the authorities is written while they change, if it is other than what is on record.
func TestAnAgentIsRecordedOnce(t *testing.T) {
	p := newWorld(t).addOfForm("p", nil, api.FormNewest)
	_, err := p.admits(p.joinToken(api.JoinAgent, "rack-1"), certificateRequest(t))
	require.NoError(t, err)
	store := &noting{Store: p.store}
	p.zone = zone.New(zone.Config{Store: store, Now: p.time, Log: p.log})
	shown := Shown{Issued: p.time()}
	asks := func(id api.AgentID, trusts, issuer api.Fingerprint) (written []command.Command) {
		t.Helper()
		store.all = nil
		_, err := p.AgentTrust(t.Context(), id, shown, &api.AgentTrust{Trusts: trusts, Issuer: issuer})
		require.NoError(t, err)
		return store.all
	}
	old := api.FingerprintOf(p.view().CA)
	assert.Empty(t, asks("rack-1", old, old), "nothing changes")
	require.NoError(t, p.RotateCA(t.Context(), rest.CABrought{}))
	next := p.view().NewestAuthority()
	for _, c := range []struct {
		id             api.AgentID
		trusts, issuer api.Fingerprint
		writes         bool
	}{
		{"rack-1", next, old, true}, {"rack-1", next, old, false}, {"rack-1", next, next, true}, {"rack-1", old, next, true}, {"rack-1", old, next, false},
		{"rack-1", "unknown", next, true}, {"rack-1", "another", next, false}, {"rack-2", "unknown", "unknown", true},
	} {
		assert.Equal(t, c.writes, len(asks(c.id, c.trusts, c.issuer)) > 0, "%+v", c)
	}
	got := asks("rack-1", next, old)[0].(command.AgentTrust)
	assert.Equal(t, []any{api.AgentID("rack-1"), next, old, api.InstantOf(shown.Issued)}, []any{got.ID, got.Trusts, got.Issuer, got.Issued})
}
