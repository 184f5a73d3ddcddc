package saga

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
)

func same(s zone.Store) zone.Store { return s }

func specs(ids ...string) (out []api.InstanceSpec) {
	for _, id := range ids {
		out = append(out, api.InstanceSpec{ID: api.InstanceID(id), Name: id})
	}
	return out
}

func plainBoot(n int) api.Request {
	return api.Request{
		Reservation: "b", Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: n, Min: n, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
	}
}

// TestBootsThatArePlannedFirst: a firm boot of a zone without children, for which nobody leaves, outside of leases, that is no repeat.
func TestBootsThatArePlannedFirst(t *testing.T) {
	s, store := newSaga(t, same)
	boot := func(edit func(*command.BootCreate)) *command.BootCreate {
		c := &command.BootCreate{Stamp: s.zone.Stamp(), BootTerms: command.BootTerms{Key: "key", Digest: []byte("d"), Name: "b", Request: plainBoot(1), Min: 1, Instances: specs("i")}}
		edit(c)
		return c
	}
	assert.True(t, s.mayPlanFirst(boot(func(*command.BootCreate) {})))
	for name, edit := range map[string]func(*command.BootCreate){
		"preemptible": func(c *command.BootCreate) { c.Request.Class = api.Preemptible },
		"preempts":    func(c *command.BootCreate) { c.Request.Preempt = true },
		"reserves":    func(c *command.BootCreate) { c.Request.Reserves = true },
		"within":      func(c *command.BootCreate) { c.Request.Within = "w" },
		"replaces":    func(c *command.BootCreate) { c.Request.Replaces = "r" },
	} {
		assert.False(t, s.mayPlanFirst(boot(edit)), name)
	}
	store.Must(t, *boot(func(*command.BootCreate) {}))
	assert.False(t, s.mayPlanFirst(boot(func(*command.BootCreate) {})), "a repeat")
	assert.False(t, s.mayPlanFirst(boot(func(c *command.BootCreate) { c.Request.Reservation = "other" })), "of the key")
	assert.True(t, s.mayPlanFirst(boot(func(c *command.BootCreate) { c.Request.Reservation, c.Key = "other", "" })))
	store.Must(t, command.LinkPut{Link: api.Link{ID: "l", Name: "kid", Role: api.LinkChild, Zone: "kid", Scale: 1, State: api.LinkActive}})
	assert.False(t, s.mayPlanFirst(boot(func(c *command.BootCreate) { c.Request.Reservation, c.Key = "other", "" })), "it asks another zone")
}

// TestHoldsThatAreMalformed: each part of a hold at its limit and beyond.
func TestHoldsThatAreMalformed(t *testing.T) {
	s, _ := newSaga(t, same)
	pairs := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}
	for name, c := range map[string]struct {
		edit func(*api.HoldRequest)
		says string
	}{
		"good":            {func(*api.HoldRequest) {}, ""},
		"all metadata":    {func(r *api.HoldRequest) { r.Metadata = pairs(api.MetadataMax) }, ""},
		"more metadata":   {func(r *api.HoldRequest) { r.Metadata = pairs(api.MetadataMax + 1) }, "metadata"},
		"no id":           {func(r *api.HoldRequest) { r.ID = "" }, "needs an id"},
		"attempt 0":       {func(r *api.HoldRequest) { r.Attempt = 0 }, "needs an id and an attempt"},
		"the last":        {func(r *api.HoldRequest) { r.Attempt = api.HoldsPerBootMax }, ""},
		"one more":        {func(r *api.HoldRequest) { r.Attempt = api.HoldsPerBootMax + 1 }, "attempt from 1 to"},
		"a group less":    {func(r *api.HoldRequest) { r.Instances = nil }, "of each of its 1 groups"},
		"a group more":    {func(r *api.HoldRequest) { r.Instances = append(r.Instances, nil) }, "of each of its 1 groups"},
		"an id twice":     {func(r *api.HoldRequest) { r.Instances[0] = specs("i", "i") }, "must be distinct"},
		"no instance id":  {func(r *api.HoldRequest) { r.Instances[0] = []api.InstanceSpec{{Name: "i"}} }, "must be distinct"},
		"no name":         {func(r *api.HoldRequest) { r.Instances[0] = []api.InstanceSpec{{ID: "i"}} }, "instance's name"},
		"the longest":     {func(r *api.HoldRequest) { r.Instances[0][0].Name = strings.Repeat("n", api.InstanceNameMax) }, ""},
		"a longer name":   {func(r *api.HoldRequest) { r.Instances[0][0].Name = strings.Repeat("n", api.InstanceNameMax+1) }, "instance's name"},
		"hosts by name":   {func(r *api.HoldRequest) { r.Request.Groups[0].Hints.ForceHosts = []string{"h"} }, "may not ask for hosts by name"},
		"a wrong request": {func(r *api.HoldRequest) { r.Request.Project = "" }, "project_id"},
	} {
		r := &api.HoldRequest{ID: "hold", Attempt: 1, Request: plainBoot(2), Instances: [][]api.InstanceSpec{specs("i", "j")}}
		c.edit(r)
		err := s.checkHold(r)
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.says, name)
		}
	}
}

// TestTheCommandOfAHold: instances go to the slots of their groups in order, here with their hosts and what they keep, and to the children that
// are used; what the plan has no slot for is no hold.
func TestTheCommandOfAHold(t *testing.T) {
	l := &buildplan.Layer{
		Plan: "plan", Expires: 99, Choices: []api.BindingChoice{{Link: "x"}}, Children: []buildplan.Child{{Link: "x"}, {Link: "y"}, {Link: "z"}},
		Groups: []buildplan.LayerGroup{
			{Order: []uint16{0, 1, 0, 3}, Slots: []buildplan.Slot{{Host: "h1", Keeps: "k1"}, {Host: "h2"}}, Alternates: []buildplan.Slot{{Host: "a1"}, {Host: "a2"}}},
			{Order: []uint16{3, 0}, Slots: []buildplan.Slot{{Host: "h3", Keeps: "k3"}}},
		},
	}
	r := &api.HoldRequest{
		ID: "hold", Attempt: 4, Request: plainBoot(4), Metadata: map[string]string{"a": "b"}, Commit: true,
		Instances: [][]api.InstanceSpec{specs("a", "b", "c"), specs("d", "e")},
	}
	c, err := holdCommand(command.Stamp{At: 7}, l, r)
	require.NoError(t, err)
	one := func(id string) api.InstanceSpec { return specs(id)[0] }
	assert.Equal(t, command.Hold{
		Stamp: command.Stamp{At: 7}, ID: "hold", Attempt: 4, Request: r.Request, Plan: "plan", Expires: 99, Metadata: r.Metadata, Commit: true, Choices: l.Choices,
		Slots: []command.Slot{
			{Instance: one("a"), Host: "h1", Keeps: "k1"}, {Instance: one("c"), Host: "h2"}, {Instance: one("e"), Group: 1, Host: "h3", Keeps: "k3"},
		},
		Spares: [][]api.HostID{{"a1", "a2"}, {}},
		Parts: []command.Part{
			{Link: "x", Instances: [][]api.InstanceSpec{{one("b")}, nil}}, {Link: "z", Instances: [][]api.InstanceSpec{nil, {one("d")}}},
		},
	}, c)
	r.Instances[1] = specs("d", "e", "f")
	_, err = holdCommand(command.Stamp{}, l, r)
	assert.ErrorContains(t, err, "more instances than")
	r.Instances = r.Instances[:1]
	_, err = holdCommand(command.Stamp{}, l, r)
	assert.ErrorContains(t, err, "other groups")
}

// TestTheNameOfAHold: each attempt of each refill of each boot of each project in each zone has its own, and keeps it.
func TestTheNameOfAHold(t *testing.T) {
	seen := map[api.HoldID]string{}
	for _, z := range []api.ZoneID{"z", "y"} {
		for _, p := range []api.ProjectID{"p", "q"} {
			for _, res := range []api.ReservationID{"b", "c"} {
				for refill := range 3 {
					for attempt := range 3 {
						req := plainBoot(1)
						req.Project, req.Reservation = p, res
						id := holdID(z, &req, refill, attempt)
						text := fmt.Sprint(z, p, res, refill, attempt)
						assert.Empty(t, seen[id], text)
						seen[id] = text
						assert.Len(t, id, 32)
						assert.Equal(t, id, holdID(z, &req, refill, attempt))
					}
				}
			}
		}
	}
}

// TestWhatChildrenHold: what they were asked for and say they hold, unless they have released it; whether a call is repeated depends on
// why it failed; and a hold is whole if all of them hold all of it.
func TestWhatChildrenHold(t *testing.T) {
	part := state.Part{Link: "l", Instances: []state.PartInstance{{Spec: specs("a")[0]}, {Spec: specs("b")[0]}, {Spec: specs("c")[0]}}}
	ids := func(of ...api.InstanceID) []api.InstanceID { return of }
	for name, c := range map[string]struct {
		answer *api.HoldAnswer
		err    error
		want   partAnswer
	}{
		"held":         {&api.HoldAnswer{State: api.HoldHeld, Held: ids("c", "x", "a", "a")}, nil, partAnswer{command.PartAnswer{Held: ids("a", "c")}, true}},
		"committed":    {&api.HoldAnswer{State: api.HoldCommitted, Held: ids("b"), Why: api.CodeNoCapacity}, nil, partAnswer{command.PartAnswer{Held: ids("b"), Committed: true, Why: api.CodeNoCapacity}, true}},
		"released":     {&api.HoldAnswer{State: api.HoldReleased, Held: ids("b"), Why: api.CodePaused}, nil, partAnswer{command.PartAnswer{Why: api.CodePaused}, true}},
		"refused":      {nil, api.Errorf(api.CodePlanRefused, "no"), partAnswer{command.PartAnswer{Why: api.CodePlanRefused}, true}},
		"not answered": {nil, api.Errorf(api.CodeUnavailable, "no"), partAnswer{command.PartAnswer{Why: api.CodeTimeout}, false}},
	} {
		var got partAnswer
		got.noteAnswer(part, c.answer, c.err)
		assert.Equal(t, c.want, got, name)
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{api.Errorf(api.CodeUnavailable, ""), true}, {api.Errorf(api.CodeTimeout, ""), true}, {api.Errorf(api.CodeOverloaded, ""), true},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), true}, {errors.New("x"), false}, {api.Errorf(api.CodeConflict, ""), false},
	} {
		assert.Equal(t, c.want, mayRepeat(c.err), "%v", c.err)
	}
	answer := func(l api.LinkID, held ...api.InstanceID) command.PartAnswer {
		return command.PartAnswer{Link: l, Held: held}
	}
	other := state.Part{Link: "m", Instances: []state.PartInstance{{Spec: specs("d")[0]}}}
	before := state.Part{Link: "n", Instances: []state.PartInstance{{Spec: specs("e")[0]}}, Answered: true}
	for name, c := range map[string]struct {
		h       state.Hold
		answers []command.PartAnswer
		want    bool
	}{
		"all":               {state.Hold{Parts: []state.Part{part, other, before}}, []command.PartAnswer{answer("l", "a", "b", "c"), answer("m", "d")}, true},
		"one is missing":    {state.Hold{Parts: []state.Part{part, other, before}}, []command.PartAnswer{answer("l", "a", "b"), answer("m", "d")}, false},
		"one has not":       {state.Hold{Parts: []state.Part{part, other, before}}, []command.PartAnswer{answer("l", "a", "b", "c")}, false},
		"one refused here":  {state.Hold{Refused: ids("x"), Parts: []state.Part{other}}, []command.PartAnswer{answer("m", "d")}, false},
		"nothing was asked": {state.Hold{}, nil, true},
	} {
		assert.Equal(t, c.want, holdsAll(&c.h, c.answers), name)
	}
}

// TestWhyAnOwnerGetsNothing: the code and the sentence of each cause.
func TestWhyAnOwnerGetsNothing(t *testing.T) {
	z := func(outcome, reason string) api.ZoneOutcome {
		return api.ZoneOutcome{Zone: "kid", Outcome: outcome, Reason: reason}
	}
	paused := z(api.OutcomePaused, "paused by its own operator")
	for name, c := range map[string]struct {
		zones []api.ZoneOutcome
		want  cause
	}{
		"all answered": {[]api.ZoneOutcome{z(api.OutcomeAnswered, "")}, cause{api.CodeNoCapacity, "short"}},
		"one is late":  {[]api.ZoneOutcome{z(api.OutcomeLate, "")}, cause{api.CodeUnreached, "short; without an answer of: kid; repeat the request"}},
		"one is shut":  {[]api.ZoneOutcome{paused}, cause{api.CodePaused, "short; paused: kid"}},
		"both":         {[]api.ZoneOutcome{paused, z(api.OutcomeFailed, "")}, cause{api.CodeUnreached, "short; paused: kid; without an answer of: kid; repeat the request"}},
	} {
		assert.Equal(t, c.want, unreachedCause("short", &estimate.Plan{Zones: c.zones}), name)
	}
	for why, want := range map[api.Code]cause{
		api.CodePlanRefused: {api.CodePlanRefused, "short; a zone refused its part of the plan, which had expired or was used before: select again"},
		api.CodePaused:      {api.CodePaused, "short; a zone of the plan takes no new work: select again"},
		api.CodeTimeout:     {api.CodeUnreached, "short; a zone of the plan did not answer in time: select again"},
		api.CodeContended:   {api.CodeContended, "short; others that are not decided yet hold the room: select again"},
		api.CodeOverQuota:   {api.CodeNoCapacity, "short; a zone of the plan lends its parent no more: select again"},
		api.CodeInternal:    {api.CodeNoCapacity, "short"},
		"":                  {api.CodeNoCapacity, "short"},
	} {
		assert.Equal(t, want, refusedPlan("short", why), why)
		assert.Equal(t, cause{}, refusedPlan("", why), why)
	}
}

// TestAChildIsBlamedForItself: it counts that a child holds, that it refuses its own offer, and that it does not answer; not what is
// no fault of its own, and only the first attempt of a boot.
func TestAChildIsBlamedForItself(t *testing.T) {
	const took = 400 * time.Millisecond
	held := []api.InstanceID{"i"}
	own := state.Hold{Attempt: 1, Request: api.Request{Attempt: 1}}
	again, foreign, abroad := own, own, own
	again.Attempt = 2
	foreign.Plan = "plan"
	abroad.Origin, abroad.Attempt = "up", 7
	const nothing, refused, unanswered, holds = "nothing", "refused", "unanswered", "holds"
	for name, c := range map[string]struct {
		h    state.Hold
		a    command.PartAnswer
		left bool
		took time.Duration
		want string
	}{
		"holds":                   {own, command.PartAnswer{Held: held}, false, took, holds},
		"holds, again":            {again, command.PartAnswer{Held: held, Why: api.CodeTimeout}, true, took, holds},
		"refuses":                 {own, command.PartAnswer{Why: api.CodeNoCapacity}, false, took, refused},
		"refuses without a word":  {own, command.PartAnswer{}, true, took, refused},
		"refuses again":           {again, command.PartAnswer{Why: api.CodeNoCapacity}, false, took, nothing},
		"refuses a parent":        {abroad, command.PartAnswer{Why: api.CodeNoCapacity}, false, took, refused},
		"a foreign plan":          {foreign, command.PartAnswer{Why: api.CodeNoCapacity}, false, took, nothing},
		"contended":               {own, command.PartAnswer{Why: api.CodeContended}, false, took, nothing},
		"paused":                  {own, command.PartAnswer{Why: api.CodePaused}, false, took, nothing},
		"over its quota":          {own, command.PartAnswer{Why: api.CodeOverQuota}, false, took, nothing},
		"does not answer":         {own, command.PartAnswer{Why: api.CodeTimeout}, false, took, unanswered},
		"was left":                {own, command.PartAnswer{Why: api.CodeTimeout}, true, holdTimeout - 1, nothing},
		"was waited for":          {own, command.PartAnswer{Why: api.CodeTimeout}, true, holdTimeout, unanswered},
		"no answer, foreign plan": {foreign, command.PartAnswer{Why: api.CodeTimeout}, false, took, unanswered},
	} {
		s, _ := newSaga(t, same)
		s.estimator.NoteHold("l", estimate.Held, 10*time.Millisecond)
		before := s.estimator.HoldPatience("l")
		q := &partsQuestion{s: s, hold: &c.h}
		c.a.Link = "l"
		q.noteHeld(&partAnswer{PartAnswer: c.a}, c.left, c.took)
		once := s.estimator.HoldPatience("l")
		got := nothing
		switch {
		case once == 2*before: // it has not answered once
			got = unanswered
		case once > before: // its answer was as slow as that
			got = holds
			other, _ := newSaga(t, same)
			other.estimator.NoteHold("l", estimate.Held, 10*time.Millisecond)
			other.estimator.NoteSlow("l")
			slow := other.estimator.HoldPatience("l")
			q.s = other
			q.noteHeld(&partAnswer{PartAnswer: c.a}, c.left, c.took)
			if other.estimator.HoldPatience("l") > slow { // what was held against it stays
				got = refused
			}
		}
		assert.Equal(t, c.want, got, "%s: %s, then %s", name, before, once)
	}
}

// TestRefusedDecisions: a commit of what the child does not have is lost, all else is still due.
func TestRefusedDecisions(t *testing.T) {
	s, _ := newSaga(t, same)
	for name, c := range map[string]struct {
		d           api.Decision
		err         error
		lost, again bool
	}{
		"carried out":      {api.DecisionCommit, nil, false, false},
		"commit, not held": {api.DecisionCommit, api.Errorf(api.CodeNotFound, ""), true, false},
		"commit, released": {api.DecisionCommit, api.Errorf(api.CodeConflict, ""), true, false},
		"commit, another":  {api.DecisionCommit, api.Errorf(api.CodeForbidden, ""), false, true},
		"abort, not held":  {api.DecisionAbort, api.Errorf(api.CodeNotFound, ""), false, true},
		"abort, conflict":  {api.DecisionAbort, api.Errorf(api.CodeConflict, ""), false, true},
	} {
		lost, again := s.isLost(t.Context(), &api.Link{Name: "kid"}, api.HoldDecision{Decision: c.d}, c.err)
		assert.Equal(t, []bool{c.lost, c.again}, []bool{lost, again}, name)
	}
}

// TestAttemptsAreKeptApart: what is held and missing after an attempt, by group and child; fresh ids from the second attempt on; and an
// attempt that was logged for other instances is another one's.
func TestAttemptsAreKeptApart(t *testing.T) {
	s, _ := newSaga(t, same)
	req := plainBoot(3)
	req.Groups = append(req.Groups, api.Group{Count: 2, Min: 1})
	w := &want{request: req, instances: specs("a", "b", "c", "d", "e"), created: 77, tried: 4, vain: 2}
	r := newRun(s, bootOwner{}, w)
	assert.Equal(t, []int{4, 5, 2}, []int{r.attempt, r.from, r.vain})
	assert.Equal(t, [][]api.InstanceSpec{specs("a", "b", "c"), specs("d", "e")}, r.missing)
	assert.False(t, r.holdsAny())
	r.attempt = 1
	layer := &buildplan.Layer{Groups: []buildplan.LayerGroup{{Order: make([]uint16, 2)}, {Order: make([]uint16, 5)}}}
	asked := r.nextInstances(layer)
	assert.Equal(t, [][]api.InstanceSpec{specs("a", "b"), specs("d", "e")}, asked)
	h := &state.Hold{
		Refused: []api.InstanceID{"b"}, Slots: []command.Slot{{Instance: specs("d")[0], Group: 1}},
		Parts: []state.Part{{Link: "x", Instances: []state.PartInstance{{Spec: specs("a")[0]}, {Spec: specs("e")[0], Group: 1}}}, {Link: "y"}},
	}
	assert.True(t, asksFor(h, specs("e", "d", "b", "a")))
	assert.False(t, asksFor(h, specs("e", "d", "b")))
	assert.False(t, asksFor(h, specs("e", "d", "b", "z")))
	r.noteHold(asked, h)
	assert.Equal(t, [][]api.InstanceSpec{specs("b", "c"), nil}, [][]api.InstanceSpec{r.missing[0], r.missing[1][:0:0]}[:2])
	assert.Empty(t, r.missing[1])
	assert.Equal(t, []map[api.LinkID]int{{"x": 1}, {"": 1, "x": 1}}, r.held)
	assert.Equal(t, []int{1, 2}, []int{r.heldOf(0), r.heldOf(1)})
	assert.True(t, r.holdsAny())
	assert.Equal(t, map[api.LinkID]bool{"y": true}, r.last)
	assert.False(t, r.silent)
	h.Why = api.CodeTimeout
	r.noteHold([][]api.InstanceSpec{nil, nil}, h)
	assert.True(t, r.silent)
	h.Why = ""
	r.noteHold([][]api.InstanceSpec{nil, nil}, h)
	assert.True(t, r.silent, "it stays so")

	left := r.remainingRequest()
	assert.Equal(t, []any{2, 0, api.Instant(77), 5}, []any{left.Groups[0].Count, left.Groups[1].Count, left.Since, left.Attempt})
	assert.Equal(t, 3, w.request.Groups[0].Count)
	r.from = api.HoldsPerBootMax + 1
	assert.Equal(t, api.HoldsPerBootMax, r.remainingRequest().Attempt)
	r.attempt = 2
	fresh := r.nextInstances(layer)[0]
	assert.Equal(t, []string{"b", "c"}, []string{fresh[0].Name, fresh[1].Name})
	assert.NotContains(t, []api.InstanceID{"a", "b", "c"}, fresh[0].ID)
	assert.Equal(t, specs("b", "c"), r.missing[0])

	record := r.recordAttempt(&left, &estimate.Plan{
		Layer: *layer, Zones: []api.ZoneOutcome{{Zone: "z"}}, Refusals: []api.Refusals{{Considered: 1}},
	})
	assert.Equal(t, &api.BootAttempt{
		Attempt: 2, Wanted: 2, Short: -5, Zones: []api.ZoneOutcome{{Zone: "z"}}, Refusals: []api.Refusals{{Considered: 1}},
		Offered: []api.Offer{{Wanted: 2, Offered: 2}, {Wanted: 0, Offered: 5}},
	}, record)
	assert.Equal(t, api.Instant(77).Add(BootTimeout), r.waitDeadline())
	w.timeout = time.Second
	assert.Equal(t, api.Instant(1077), r.waitDeadline())
	for name, edit := range map[string]func(*run){
		"replaces": func(r *run) { r.want.request.Replaces = "x" }, "within": func(r *run) { r.want.request.Within = "x" }, "a fixed plan": func(r *run) { r.first = &estimate.Plan{} },
	} {
		its := *r
		its.want = &want{request: plainBoot(1)}
		assert.NotNil(t, its.leaving())
		edit(&its)
		assert.Nil(t, its.leaving(), name)
	}
}

// TestZonesOfAPlan: each with its slots, by the name of its link if that is known.
func TestZonesOfAPlan(t *testing.T) {
	s, store := newSaga(t, same)
	store.Must(t, command.LinkPut{Link: api.Link{ID: "l", Name: "kid", Role: api.LinkChild, Zone: "kid", Scale: 1, State: api.LinkActive}})
	l := &buildplan.Layer{Children: []buildplan.Child{{Link: "l"}, {Link: "gone"}}, Groups: []buildplan.LayerGroup{{Order: []uint16{0, 1, 1}}, {Order: []uint16{2, 0, 0}}}}
	out := func(name string, link api.LinkID, n int) api.ZoneOutcome {
		return api.ZoneOutcome{Zone: name, Link: link, Outcome: api.OutcomeAnswered, Wanted: 9, Offered: n, Short: 9 - n, Taken: n}
	}
	assert.Equal(t, []api.ZoneOutcome{out("zone", "", 3), out("kid", "l", 2), out("gone", "gone", 1)}, zonesTaken(s.zone.View(), l, 9))
}

// TestWhatABootWants: as it was asked for; one that reserves, and a refill, are decided here.
func TestWhatABootWants(t *testing.T) {
	terms := command.BootTerms{
		Request: plainBoot(2), Instances: specs("a", "b"), Metadata: map[string]string{"a": "b"}, Min: 1, Fixed: true, Call: "call", Timeout: time.Second,
	}
	is := func() want {
		return want{request: terms.Request, instances: terms.Instances, metadata: terms.Metadata, least: 1, fixed: true, call: "call", timeout: time.Second}
	}
	assert.Equal(t, is(), *wantOf(&terms))
	terms.Refill = 3
	refill := is()
	refill.decidesHere, refill.refill = true, 3
	assert.Equal(t, refill, *wantOf(&terms))
	terms.Refill, terms.Request.Reserves = 0, true
	lease := is()
	lease.decidesHere = true
	assert.Equal(t, lease, *wantOf(&terms))
	assert.Equal(t, command.BootDecide{
		Stamp: command.Stamp{At: 5}, Project: "p", Reservation: "b", Refill: 3, Decision: api.DecisionAbort, Outcome: &api.BootAttempt{Attempt: 2}, Code: api.CodePaused, Reason: "why",
	}, bootOwner{"p", "b", 3}.decision(command.Stamp{At: 5}, api.DecisionAbort, cause{api.CodePaused, "why"}, &api.BootAttempt{Attempt: 2}))
}
