package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// TestWhichLinksAreRefused: each of what two links may not have in common, and each setting of the other role.
func TestWhichLinksAreRefused(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormNewest
	w.link("up", api.LinkParent)
	w.link("kid", api.LinkChild)
	for name, c := range map[string]struct {
		change func(l *api.Link)
		want   api.Code
	}{
		"another child":  {nil, ""},
		"itself":         {func(l *api.Link) { l.Zone = "z" }, api.CodeInvalid},
		"its id":         {func(l *api.Link) { l.ID = "kid" }, api.CodeConflict},
		"its zone":       {func(l *api.Link) { l.Zone = "zone-kid" }, api.CodeConflict},
		"its name":       {func(l *api.Link) { l.Name = "kid" }, api.CodeConflict},
		"a second above": {func(l *api.Link) { l.Role = api.LinkParent }, api.CodeConflict},
	} {
		l := linkOf("new", api.LinkChild)
		if c.change != nil {
			c.change(&l)
		}
		s := *w
		s.s = loaded(t, saved(t, w.s))
		assert.Equal(t, c.want, codeOf(s.do(command.LinkPut{Stamp: at(w.now), Link: l})), name)
	}
	text, az, five := "kid", "az1", 5
	for name, c := range map[string]struct {
		set  command.LinkSet
		want api.Code
	}{
		"unknown":            {command.LinkSet{ID: "none"}, api.CodeNotFound},
		"a taken name":       {command.LinkSet{ID: "up", Name: &text}, api.CodeConflict},
		"its own name":       {command.LinkSet{ID: "kid", Name: &text}, ""},
		"terms of a child":   {command.LinkSet{ID: "kid", AZ: &az}, ""},
		"terms of a parent":  {command.LinkSet{ID: "up", AZ: &az}, api.CodeInvalid},
		"share of a parent":  {command.LinkSet{ID: "up", ShareHeld: &five}, ""},
		"another share":      {command.LinkSet{ID: "up", ShareCommitted: &five}, ""},
		"share of a child":   {command.LinkSet{ID: "kid", ShareHeld: &five}, api.CodeInvalid},
		"silence of a child": {command.LinkSet{ID: "kid", Silent: &w.now}, ""},
		"of a parent":        {command.LinkSet{ID: "up", Silent: &w.now}, api.CodeInvalid},
	} {
		c.set.Stamp = w.stamp()
		assert.Equal(t, c.want, codeOf(w.do(c.set)), name)
	}
	up, _ := w.s.Link("up")
	assert.Equal(t, []any{&five, &five}, []any{up.Share.Held, up.Share.Committed})
	assert.False(t, w.s.isPaused("kid"))
	assert.False(t, w.s.isPaused("none"))
	paused := api.LinkPaused
	w.ok(command.LinkSet{Stamp: w.stamp(), ID: "kid", State: &paused, Endpoints: []string{"https://new"}})
	assert.True(t, w.s.isPaused("kid"))
	kid, _ := w.s.Link("kid")
	assert.Equal(t, []any{[]string{"https://new"}, w.now, az}, []any{kid.Endpoints, kid.Updated, kid.Terms.AZ})
	_, child := w.s.Child("up")
	assert.False(t, child)
	_, child = w.s.Child("none")
	assert.False(t, child)
	_, child = w.s.Child("kid")
	assert.True(t, child)
	assert.Equal(t, []*api.Link{kid}, w.s.Children())
	by, ok := w.s.LinkByZone("zone-up")
	assert.Equal(t, []any{api.LinkID("up"), true}, []any{by.ID, ok})
	_, ok = w.s.LinkByZone("zone-none")
	assert.False(t, ok)
}

// TestComparedAgain: a child is compared once for each backup that it went back to, and for one that it did not.
func TestComparedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		id            string
		has           uint64
		was, restored uint64
		want          api.Code
	}{
		"unknown":             {"none", 0, 0, 5, api.CodeNotFound},
		"a parent":            {"up", 0, 0, 5, api.CodeInvalid},
		"the first":           {"kid", 0, 0, 5, ""},
		"a later one":         {"kid", 5, 0, 6, ""},
		"the same":            {"kid", 5, 0, 5, api.CodeConflict},
		"an earlier one":      {"kid", 5, 0, 4, api.CodeConflict},
		"one that was not":    {"kid", 5, 5, 4, ""},
		"of another":          {"kid", 5, 4, 3, api.CodeConflict},
		"nor a later one":     {"kid", 5, 5, 6, api.CodeConflict},
		"nor the same":        {"kid", 5, 5, 5, api.CodeConflict},
		"not, back to none":   {"kid", 5, 5, 0, ""},
		"of another, to none": {"kid", 5, 6, 0, api.CodeConflict},
	} {
		w := newWorld(t)
		w.form = api.FormNewest
		w.link("up", api.LinkParent)
		l := linkOf("kid", api.LinkChild)
		l.Restored, l.ChangesNext = c.has, 9
		w.ok(command.LinkPut{Stamp: w.stamp(), Link: l})
		r := w.do(command.LinkRestored{Stamp: w.stamp(), ID: api.LinkID(c.id), Was: c.was, Restored: c.restored})
		require.Equal(t, c.want, codeOf(r), name)
		kid, _ := w.s.Link("kid")
		if c.want != "" {
			assert.Equal(t, []any{c.has, api.Instant(0)}, []any{kid.Restored, kid.Reconcile}, name)
			continue
		}
		assert.Equal(t, []any{c.restored, w.now, w.now, uint64(0)}, []any{kid.Restored, kid.Reconcile, kid.Forgot, kid.ChangesNext}, name)
		assert.Equal(t, kid, r.Link, name)
		for name, c := range map[string]struct {
			done command.LinkReconciled
			want api.Code
		}{
			"unknown":  {command.LinkReconciled{ID: "none", Since: kid.Reconcile}, api.CodeNotFound},
			"another":  {command.LinkReconciled{ID: "kid", Since: kid.Reconcile + 1}, api.CodeConflict},
			"not due":  {command.LinkReconciled{ID: "up"}, api.CodeConflict},
			"too many": {command.LinkReconciled{ID: "kid", Since: kid.Reconcile, Gone: make([]api.InstanceID, command.ReconcileGoneMax+1)}, api.CodeInvalid},
		} {
			c.done.Stamp = w.stamp()
			assert.Equal(t, c.want, codeOf(w.do(c.done)), name)
		}
		w.ok(command.LinkReconciled{Stamp: w.stamp(), ID: "kid", Since: kid.Reconcile, Gone: make([]api.InstanceID, command.ReconcileGoneMax)})
		now, _ := w.s.Link("kid")
		assert.Equal(t, kid.Reconcile, now.Reconcile, "not done: %s", name)
		r = w.ok(command.LinkReconciled{Stamp: w.stamp(), ID: "kid", Since: kid.Reconcile, Done: true})
		assert.Zero(t, r.Link.Reconcile, name)
	}
}

// TestLaterIncarnations of a linked zone are accepted in order, up to the limit, with where they are.
func TestLaterIncarnations(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormNewest
	w.link("up", api.LinkParent)
	w.link("kid", api.LinkChild)
	to := func(id string, n api.Incarnation, endpoints ...string) command.LinkRelink {
		return command.LinkRelink{Stamp: w.stamp(), ID: api.LinkID(id), Incarnation: n, Endpoints: endpoints}
	}
	most := w.s.limits.incarnation
	w.refused(api.CodeNotFound, to("none", 1))
	w.refused(api.CodeInvalid, to("kid", most+1))
	w.refused(api.CodeConflict, to("kid", 0))
	assert.Error(t, w.do(to("kid", 5, "no address")).Err)
	r := w.ok(to("kid", 5, "other:1"))
	begin, _ := api.Incarnation(5).Begin()
	assert.Equal(t, []any{api.Incarnation(5), []string{"other:1"}, w.now, w.now, begin}, []any{r.Link.Incarnation, r.Link.Endpoints, r.Link.Updated, r.Link.Reconcile, r.Link.Restored})
	w.refused(api.CodeConflict, to("kid", 5))
	r = w.ok(to("kid", 6))
	assert.Equal(t, []string{"other:1"}, r.Link.Endpoints)
	r = w.ok(to("up", most))
	assert.Equal(t, []any{most, api.Instant(0), uint64(0)}, []any{r.Link.Incarnation, r.Link.Reconcile, r.Link.Restored}, "a parent is not compared")
}

// TestWhichTokensOfJoinersCount: each reason alone makes one useless, and all look the same.
func TestWhichTokensOfJoinersCount(t *testing.T) {
	good := api.JoinToken{ID: "t", Hash: []byte("hash"), Kind: api.JoinNode, Name: "n1", Expires: start + 1000}
	use := command.JoinUse{ID: "t", Hash: []byte("hash"), Want: api.JoinNode, By: []byte("key")}
	for name, c := range map[string]struct {
		change func(t *api.JoinToken, u *command.JoinUse)
		ok     bool
	}{
		"good":            {nil, true},
		"unknown":         {func(_ *api.JoinToken, u *command.JoinUse) { u.ID = "x" }, false},
		"another kind":    {func(_ *api.JoinToken, u *command.JoinUse) { u.Want = api.JoinLink }, false},
		"expired":         {func(t *api.JoinToken, _ *command.JoinUse) { t.Expires = start + 2 }, false},
		"not yet":         {func(t *api.JoinToken, _ *command.JoinUse) { t.Expires = start + 3 }, true},
		"another secret":  {func(_ *api.JoinToken, u *command.JoinUse) { u.Hash = []byte("hasH") }, false},
		"used":            {func(t *api.JoinToken, _ *command.JoinUse) { t.Used, t.By = true, []byte("other") }, false},
		"used by itself":  {func(t *api.JoinToken, _ *command.JoinUse) { t.Used, t.By = true, []byte("key") }, true},
		"used by nobody":  {func(t *api.JoinToken, _ *command.JoinUse) { t.Used = true }, false},
		"used by nobody'": {func(t *api.JoinToken, u *command.JoinUse) { t.Used, u.By = true, nil }, false},
	} {
		w := newWorld(t)
		w.form = api.FormNewest
		token, u := good, use
		if c.change != nil {
			c.change(&token, &u)
		}
		w.host("h1", 1)
		w.s.joins.Set("t", &token)
		u.Stamp = w.stamp()
		r := w.do(u)
		if !c.ok {
			assert.Equal(t, api.CodeUnauthenticated, codeOf(r), name)
			continue
		}
		require.NoError(t, r.Err, name)
		assert.True(t, r.Join.Used, name)
		if !token.Used {
			assert.Equal(t, []any{w.now, u.By}, []any{r.Join.Joined, r.Join.By}, name)
		}
	}
}

// TestWhoHasJoined: with a token of a node of that name that is used, and with its key.
func TestWhoHasJoined(t *testing.T) {
	good := api.JoinToken{ID: "t", Kind: api.JoinNode, Name: "n1", Used: true, By: []byte("key"), Joined: 7}
	for name, c := range map[string]struct {
		change          func(t *api.JoinToken)
		admitted, owner bool
		since           api.Instant
	}{
		"good":         {nil, true, true, 7},
		"unused":       {func(t *api.JoinToken) { t.Used = false }, false, false, 0},
		"an agent":     {func(t *api.JoinToken) { t.Kind = api.JoinAgent }, false, false, 0},
		"another":      {func(t *api.JoinToken) { t.Name = "n2" }, false, false, 0},
		"another key":  {func(t *api.JoinToken) { t.By = []byte("other") }, true, false, 7},
		"nobody knows": {func(t *api.JoinToken) { t.By = nil }, true, true, 7},
	} {
		s := New()
		token := good
		if c.change != nil {
			c.change(&token)
		}
		s.joins.Set("t", &token)
		s.joins.Set("u", &api.JoinToken{ID: "u", Kind: api.JoinNode, Name: "n3", Used: true, Joined: 9})
		assert.Equal(t, []any{c.admitted, c.owner, c.since}, []any{s.Admitted("n1"), s.AdmittedWith("n1", []byte("key")), s.MemberSince("n1")}, name)
		s.nodes.Set("n1", &api.Node{ID: "n1", Since: 3})
		assert.Equal(t, api.Instant(3), s.MemberSince("n1"), name)
		s.index = 40
		s.nodeRemove(command.NodeRemove{ID: "n2"})
		assert.Equal(t, name == "another", s.joins.Len() == 1, name)
		assert.Zero(t, s.KEKDue, "the form is older: %s", name)
	}
}

// TestEpochsThatStay: as many as are to be kept, and those that may still be needed for plans.
func TestEpochsThatStay(t *testing.T) {
	epochs := func(times ...api.Instant) (out []command.Epoch) {
		for n, at := range times {
			out = append(out, command.Epoch{ID: []byte{byte(n)}, Created: at})
		}
		return out
	}
	for name, c := range map[string]struct {
		has    []command.Epoch
		keep   int
		sealed api.Instant
		want   int
	}{
		"none to keep":           {epochs(30, 20, 10), 0, 0, 1},
		"two":                    {epochs(30, 20, 10), 2, 0, 2},
		"more than there are":    {epochs(30, 20, 10), 9, 0, 4},
		"still needed":           {epochs(30, 20, 10), 1, 25, 3},
		"needed at that instant": {epochs(30, 20, 10), 1, 30, 2},
		"needed a bit before":    {epochs(30, 20, 10), 1, 29, 3},
		"all needed":             {epochs(30, 20, 10), 1, 5, 4},
	} {
		s := New()
		s.Epochs = c.has
		require.NoError(t, s.epochAdd(command.EpochAdd{Epoch: command.Epoch{ID: []byte("new"), Created: 40}, Keep: c.keep, Sealed: c.sealed}).Err, name)
		assert.Len(t, s.Epochs, c.want, name)
		assert.Equal(t, "new", string(s.Epochs[0].ID), name)
	}
}

// TestAgentsAreLimited: each call that makes a record of one, at the limit.
func TestAgentsAreLimited(t *testing.T) {
	for name, call := range map[string]func(s *State, id api.AgentID) Result{
		"joins": func(s *State, id api.AgentID) Result {
			return s.agentJoins(&api.JoinToken{Kind: api.JoinAgent, Name: string(id)})
		},
		"renews": func(s *State, id api.AgentID) Result { return s.agentRenew(command.AgentRenew{ID: id, Issued: 5}) },
		"trusts": func(s *State, id api.AgentID) Result {
			return s.agentTrust(command.AgentTrust{ID: id, Issued: 5, Trusts: "x", Issuer: "y"})
		},
		"ends":  func(s *State, id api.AgentID) Result { return s.revokeAgent(id) },
		"loses": func(s *State, id api.AgentID) Result { return s.loseHost(id, "h") },
	} {
		s := New()
		s.now, s.Change = 9_000, &CAChange{}
		l := *limitsAt(api.FormNewest)
		l.agents, s.limits = 2, &l
		s.agents.Set("old", &api.Agent{ID: "old", Joined: 1})
		for _, id := range []api.AgentID{"old", "new"} {
			require.NoError(t, call(s, id).Err, name)
			a, ok := s.Agent(id)
			require.True(t, ok, name)
			joined := map[string]api.Instant{"joins": 9_000, "renews": 5, "trusts": 5, "ends": 9_000, "loses": 9_000}[name]
			if id == "old" && name != "joins" {
				joined = 1
			}
			assert.Equal(t, joined, a.Joined, "%s %s", name, id)
			is := map[string]bool{
				"joins": true, "renews": a.Renewed == 9_000, "trusts": a.Trusts == "x" && a.Issuer == "y", "ends": a.Revoked == 9_000, "loses": len(a.Lost) == 1,
			}
			assert.True(t, is[name], "%s %s", name, id)
		}
		assert.Equal(t, api.CodeOverloaded, codeOf(call(s, "more")), name)
	}
	s := New()
	s.now, s.limits = 5_000, limitsAt(api.FormNewest)
	s.agents.Set("a", &api.Agent{ID: "a", Revoked: 4_000, Lost: []api.HostID{"h"}})
	again := &api.JoinToken{Kind: api.JoinAgent, Name: "a", Terms: &api.AgentTerms{HostsMax: 3}}
	assert.Equal(t, api.CodeUnavailable, codeOf(s.agentJoins(again)), "within the second")
	s.now++
	require.NoError(t, s.agentJoins(again).Err)
	a, _ := s.Agent("a")
	assert.Equal(t, &api.Agent{ID: "a", Joined: 5_001, Revoked: 4_000, Lost: []api.HostID{"h"}, Terms: api.AgentTerms{HostsMax: 3}}, a)
	assert.Equal(t, api.CodeForbidden, codeOf(s.agentRenew(command.AgentRenew{ID: "a", Issued: 3_000})))
	assert.Equal(t, api.CodeForbidden, codeOf(s.agentTrust(command.AgentTrust{ID: "a", Issued: 3_000})))
	require.NoError(t, s.agentTrust(command.AgentTrust{ID: "b", Issued: 6_000}).Err)
	_, ok := s.Agent("b")
	assert.False(t, ok, "no change is under way")
	s.limits = limitsAt(api.FormFourth)
	require.NoError(t, s.agentJoins(&api.JoinToken{Kind: api.JoinAgent, Name: "c"}).Err)
	require.NoError(t, s.loseHost("c", "h").Err)
	_, ok = s.Agent("c")
	assert.False(t, ok, "before there were records")
	s.limits = limitsAt(api.FormNewest)
	require.NoError(t, s.agentJoins(&api.JoinToken{Kind: api.JoinNode, Name: "c"}).Err)
	_, ok = s.Agent("c")
	assert.False(t, ok, "a node")
}

// TestProjectsAreMerged by name, each once, up to the limit.
func TestProjectsAreMerged(t *testing.T) {
	for _, c := range []struct {
		a, b  []string
		limit int
		want  []api.ProjectID
	}{
		{nil, nil, 9, nil},
		{[]string{"a"}, nil, 9, []api.ProjectID{"a"}},
		{nil, []string{"a"}, 9, []api.ProjectID{"a"}},
		{[]string{"a", "c"}, []string{"b", "c", "d"}, 9, []api.ProjectID{"a", "b", "c", "d"}},
		{[]string{"b", "c"}, []string{"a"}, 9, []api.ProjectID{"a", "b", "c"}},
		{[]string{"a", "c"}, []string{"b"}, 2, []api.ProjectID{"a", "b"}},
		{[]string{"a"}, []string{"a"}, 0, nil},
	} {
		assert.Equal(t, c.want, mergeProjects(c.a, c.b, c.limit), "%+v", c)
	}
}

// TestSharesOfParents: what a link says counts before what the zone says, and percents round down without overflow.
func TestSharesOfParents(t *testing.T) {
	l := limitsAt(api.FormNewest)
	five, six := 5, 6
	for name, c := range map[string]struct {
		link *api.Link
		want share
	}{
		"none":      {&api.Link{}, share{100, 100}},
		"held":      {&api.Link{Share: api.LinkShare{Held: &five}}, share{5, 100}},
		"committed": {&api.Link{Share: api.LinkShare{Committed: &six}}, share{100, 6}},
		"both":      {&api.Link{Share: api.LinkShare{Held: &five, Committed: &six}}, share{5, 6}},
	} {
		got, limited := l.shareOf(c.link)
		assert.Equal(t, []any{c.want, true}, []any{got, limited}, name)
	}
	_, limited := limitsAt(api.FormFourth).shareOf(&api.Link{})
	assert.False(t, limited)
	for _, c := range [][3]int64{{100, 50, 50}, {199, 50, 99}, {1, 99, 0}, {101, 100, 101}, {1 << 62, 100, 1 << 62}, {250, 3, 7}, {0, 50, 0}} {
		assert.Equal(t, c[2], percentOf(c[0], int(c[1])), "%v", c)
	}
	w := api.Window{Start: 3, End: 9}
	r := api.Resources{api.VCPU: 2, "CUSTOM_NONE": 0}
	assert.Equal(t, quota.Use{Window: w, Amounts: quota.Amounts{lentFirm.Of(api.VCPU): 2}}, lentUse(w, api.Firm, r, false))
	assert.Equal(t, quota.Use{Window: w, Amounts: quota.Amounts{lentSoft.Of(api.VCPU): 2, lentHeld.Of(api.VCPU): 2}}, lentUse(w, api.Preemptible, r, true))
	i := api.NewInstance(&api.InstanceTerms{Window: w, Resources: r, Class: api.Firm}, spec("i"), api.StatusActive)
	assert.Equal(t, lentUse(api.Window{End: 9}, api.Firm, r, false), useOfLent(i), "it has begun")
	slot := *i
	slot.ChangeTerms(func(t *api.InstanceTerms) { t.Reserved = true })
	assert.Equal(t, lentUse(w, api.Firm, r, false), useOfLent(&slot))
	late := slot
	late.Overdue = true
	assert.Equal(t, lentUse(api.Window{Start: 3, End: api.Forever}, api.Preemptible, r, false), useOfLent(&late))
}
