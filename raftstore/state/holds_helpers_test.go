package state

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// TestWhatIsKnownOfAHold: of its parts by the child, by what it has answered, and by what it has confirmed.
func TestWhatIsKnownOfAHold(t *testing.T) {
	parts := func(ps ...Part) *Hold { return &Hold{Decision: api.DecisionPending, Parts: ps} }
	one := []PartInstance{{Spec: spec("x")}}
	for name, c := range map[string]struct {
		h                                              *Hold
		acked, settled, depends, undecidedAt, hasParts bool
	}{
		"no parts":            {parts(), true, true, false, false, false},
		"one":                 {parts(Part{Link: "c1", Instances: one}), false, false, true, true, true},
		"one, confirmed":      {parts(Part{Link: "c1", Instances: one, Acked: true}), true, true, false, true, true},
		"one, empty":          {parts(Part{Link: "c1"}), false, false, true, true, false},
		"another's":           {parts(Part{Link: "c2", Instances: one}), true, false, false, false, false},
		"another's confirmed": {parts(Part{Link: "c2", Instances: one, Acked: true}), true, true, false, false, false},
		"decided":             {&Hold{Decision: api.DecisionCommit, Parts: []Part{{Link: "c1", Instances: one}}}, false, false, true, false, true},
		"of the parent":       {&Hold{Decision: api.DecisionPending, Origin: "c1"}, true, true, true, false, false},
		"decided for it":      {&Hold{Decision: api.DecisionAbort, Origin: "c1"}, true, true, false, false, false},
	} {
		assert.Equal(t, []bool{c.acked, c.settled, c.depends, c.undecidedAt, c.hasParts},
			[]bool{c.h.PartAcked("c1"), c.h.isSettled(), c.h.dependsOn("c1"), c.h.isUndecidedAt("c1"), c.h.hasPartAt("c1")}, name)
	}

	h := &Hold{ID: "k", Decision: api.DecisionCommit, Lifted: []api.ServerGroupID{"g"}, Slots: slots("h1", "a"), Parts: []Part{
		{Link: "c1", Instances: one, Answered: true}, {Link: "c2", Instances: []PartInstance{{Spec: spec("y")}}},
	}}
	assert.Equal(t, []api.InstanceID{"a", "x"}, h.Held())
	assert.Equal(t, api.HoldDecision{ID: "k", Decision: api.DecisionCommit, Lifted: h.Lifted}, h.DecisionAt(h.Parts[0]))
	assert.Equal(t, api.HoldDecision{ID: "k", Decision: api.DecisionAbort}, h.DecisionAt(Part{Link: "c3"}))
	h.Decision = api.DecisionAbort
	assert.Equal(t, api.HoldDecision{ID: "k", Decision: api.DecisionAbort}, h.DecisionAt(h.Parts[0]), "what is released is bound by nothing")

	assert.Nil(t, h.sharesOf(0))
	h.Shares = [][]api.Share{{{Provider: "pool"}}}
	assert.Equal(t, h.Shares[0], h.sharesOf(0))
	h.Window, h.Request.Groups = api.Window{Start: 5, End: 10}, []api.Group{{}}
	for until, end := range map[api.Instant]api.Instant{0: 10, 7: 7, 10: 10, 12: 10} {
		assert.Equal(t, api.Window{Start: 5, End: end}, h.windowOf(command.Slot{Until: until}), "%d", until)
	}
	assert.True(t, (&Hold{Commit: true}).mayLive())
	assert.True(t, (&Hold{Firm: true}).mayLive())
	assert.False(t, (&Hold{}).mayLive())
	assert.Equal(t, owner{ownerLink, "up"}, (&Hold{Origin: "up"}).owner())
	assert.Equal(t, owner{ownerBoot, bootKey("p", "r", 3)}, (&Hold{Request: request("r", 1), Refill: 3}).owner())
	assert.True(t, (&Hold{}).neverArrived())
	assert.False(t, (&Hold{Request: request("r", 1)}).neverArrived())

	o := &Hold{Origin: "up", Request: api.Request{Project: "p", Reservation: "r"}}
	for name, c := range map[string]struct {
		origin api.LinkID
		req    api.Request
		is     bool
	}{
		"its own": {"up", o.Request, true}, "another parent": {"", o.Request, false},
		"another project":     {"up", api.Request{Project: "q", Reservation: "r"}, false},
		"another reservation": {"up", api.Request{Project: "p", Reservation: "s"}, false},
	} {
		assert.Equal(t, c.is, o.For(c.origin, &c.req), name)
	}
}

// TestTheWorstCauseIsKept: the first in the list of reasons, whatever came first; a word that nobody knows is no room.
func TestTheWorstCauseIsKept(t *testing.T) {
	for n, worse := range reasons {
		h := &Hold{}
		h.noteCause("unheard of")
		assert.Equal(t, api.CodeNoCapacity, h.Why)
		h.noteCause(worse)
		assert.Equal(t, worse, h.Why)
		for _, better := range reasons[n:] {
			h.noteCause(better)
			assert.Equal(t, worse, h.Why, better)
		}
	}
}

// TestPartsAreOfTheirGroups: each instance of a part has the number of its group.
func TestPartsAreOfTheirGroups(t *testing.T) {
	p := partOf(command.Part{Link: "c1", Instances: [][]api.InstanceSpec{specs("a"), nil, specs("b", "c")}})
	assert.Equal(t, Part{Link: "c1", Instances: []PartInstance{{spec("a"), 0}, {spec("b"), 2}, {spec("c"), 2}}}, p)
	assert.Equal(t, slots("h", "a", "b"), wholeFirst(slots("h", "a", "b"), []api.Group{{}}))
	mixed := slots("h", "a", "b", "c")
	mixed[1].Group = 1
	assert.Equal(t, []command.Slot{mixed[1], mixed[0], mixed[2]}, wholeFirst(mixed, []api.Group{{}, {Whole: true}}))
	asked := []command.PartAnswer{{Link: "c1", Why: api.CodeOverQuota}, {Link: "c2", Why: api.CodeTimeout}}
	old := withoutShares(asked)
	assert.Equal(t, []api.Code{api.CodeNoCapacity, api.CodeTimeout}, []api.Code{old[0].Why, old[1].Why})
	assert.Equal(t, api.CodeOverQuota, asked[0].Why, "of a copy")
}

// TestWhatAChildTellsIsKept: by the status that it tells, and what the zone itself has asked for.
func TestWhatAChildTellsIsKept(t *testing.T) {
	s := New()
	s.now = 100
	at := func(st api.Status, change func(x *api.InstanceExtras)) *api.Instance {
		i := api.NewInstance(&api.InstanceTerms{Volume: "disk"}, spec("i"), st)
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Fault, x.Restarts, x.Attached, x.Unreachable = "old", 3, "s1", 7 })
		if change != nil {
			i.ChangeExtras(change)
		}
		return i
	}
	theirs, own := api.Eviction{For: "ok", Lease: true, At: 1, By: 2, Stays: api.RequeueEnded}, api.Eviction{For: "mine", Stays: api.RequeueFull}
	kept := theirs
	kept.Stays = ""
	unnamed := kept
	unnamed.For = ""
	badly := theirs
	badly.For = "no name!"
	says := func(st api.Status) api.InstanceChange {
		return api.InstanceChange{ID: "i", Status: st, Fault: "new", Restarts: 9, Attached: "s2", Unreachable: 50, Replaced: true, Eviction: &theirs}
	}
	for name, c := range map[string]struct {
		i    *api.Instance
		ch   api.InstanceChange
		want word
	}{
		"active":  {at(api.StatusBuild, nil), says(api.StatusActive), word{api.StatusActive, "new", 50, true, kept, "s2", 9}},
		"deleted": {at(api.StatusBuild, nil), says(api.StatusDeleted), word{api.StatusDeleted, "", 0, false, kept, "", 9}},
		"deleted, replaced before": {
			at(api.StatusBuild, func(x *api.InstanceExtras) { x.Replaced = true }), says(api.StatusDeleted), word{api.StatusDeleted, "", 0, true, kept, "", 9},
		},
		"ending":  {at(api.StatusDeleting, nil), says(api.StatusActive), word{api.StatusDeleting, "old", 50, true, api.Eviction{}, "", 9}},
		"unknown": {at(api.StatusActive, nil), says("GONE"), word{api.StatusActive, "old", 7, false, api.Eviction{}, "s1", 3}},
		"unknown, evicted": {
			at(api.StatusActive, func(x *api.InstanceExtras) { x.Eviction, x.Replaced = &own, true }), says("GONE"), word{api.StatusActive, "old", 7, true, own, "s1", 3},
		},
		"evicted before": {at(api.StatusActive, func(x *api.InstanceExtras) { x.Eviction = &own }), says(api.StatusActive), word{api.StatusActive, "new", 50, true, own, "s2", 9}},
		"nothing more":   {at(api.StatusActive, nil), api.InstanceChange{Status: api.StatusActive}, word{status: api.StatusActive}},
		"still replaced": {
			at(api.StatusActive, func(x *api.InstanceExtras) { x.Replaced = true }), api.InstanceChange{Status: api.StatusActive}, word{status: api.StatusActive, replaced: true},
		},
		"for no name": {
			at(api.StatusActive, nil), api.InstanceChange{Status: api.StatusActive, Eviction: &badly}, word{status: api.StatusActive, eviction: unnamed},
		},
		"at no name": {at(api.StatusActive, nil), api.InstanceChange{Status: api.StatusActive, Attached: "no name!"}, word{status: api.StatusActive}},
	} {
		assert.Equal(t, c.want, s.wordOf(c.i, c.ch), name)
	}
	server := api.NewInstance(&api.InstanceTerms{}, spec("i"), api.StatusActive)
	assert.Empty(t, s.wordOf(server, says(api.StatusActive)).attached, "it is no volume")
	for _, c := range []struct{ was, says, want api.Instant }{
		{0, -1, 0}, {0, 0, 0}, {0, 1, 1}, {0, 100, 100}, {0, 101, 100}, {7, 101, 7}, {-7, 101, 100}, {7, 0, 0},
	} {
		i := at(api.StatusActive, func(x *api.InstanceExtras) { x.Unreachable = c.was })
		assert.Equal(t, c.want, s.sinceOf(i, api.InstanceChange{Unreachable: c.says}), "%+v", c)
	}
}

// TestWhoseSlotsMayBeUsed: each condition alone keeps a slot from a project, from preemptibles, and from those that look for an
// empty one.
func TestWhoseSlotsMayBeUsed(t *testing.T) {
	const slot api.InstanceID = "s"
	run := func(id string, class api.Class, st api.Status) *api.Instance {
		i := api.NewInstance(&api.InstanceTerms{Class: class, Window: api.Window{End: api.Forever}}, spec(id), st)
		i.Host = "h1"
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Within = slot })
		return i
	}
	for name, c := range map[string]struct {
		change func(s *State, i *api.Instance)
		// whether it is free, usable, lent, has only what was lent, and is empty
		want [5]bool
	}{
		"empty":         {nil, [5]bool{true, true, true, false, true}},
		"kept":          {func(s *State, _ *api.Instance) { s.noteKept(slot, true) }, [5]bool{false, true, false, false, false}},
		"promised":      {func(s *State, _ *api.Instance) { s.promiseWithin(slot, api.Firm, 1) }, [5]bool{false, true, true, false, false}},
		"promised lent": {func(s *State, _ *api.Instance) { s.promiseWithin(slot, api.Preemptible, 1) }, [5]bool{true, true, true, false, false}},
		"used":          {func(s *State, _ *api.Instance) { s.loadInstance(run("r", api.Firm, api.StatusActive)) }, [5]bool{false, true, true, false, false}},
		"lent":          {func(s *State, _ *api.Instance) { s.loadInstance(run("r", api.Preemptible, api.StatusActive)) }, [5]bool{true, true, true, true, false}},
		"leaving":       {func(s *State, _ *api.Instance) { s.loadInstance(run("r", api.Preemptible, api.StatusDeleting)) }, [5]bool{true, true, true, false, false}},
		"lent and kept": {func(s *State, _ *api.Instance) {
			s.loadInstance(run("r", api.Preemptible, api.StatusActive))
			s.noteKept(slot, true)
		}, [5]bool{false, true, false, false, false}},
		"lent, more soon": {func(s *State, _ *api.Instance) {
			s.loadInstance(run("r", api.Preemptible, api.StatusActive))
			s.promiseWithin(slot, api.Preemptible, 1)
		}, [5]bool{true, true, true, false, false}},
		"lent and used": {func(s *State, _ *api.Instance) {
			s.loadInstance(run("r", api.Preemptible, api.StatusActive))
			s.loadInstance(run("q", api.Firm, api.StatusActive))
		}, [5]bool{false, true, true, false, false}},
		"a whole host, used": {func(s *State, i *api.Instance) {
			i.ChangeTerms(func(t *api.InstanceTerms) { t.Whole = true })
			s.loadInstance(run("r", api.Firm, api.StatusActive))
		}, [5]bool{true, true, true, false, false}},
		"not begun":  {func(_ *State, i *api.Instance) { i.Status = api.StatusBuild }, [5]bool{false, false, false, false, true}},
		"overdue":    {func(_ *State, i *api.Instance) { i.Overdue = true }, [5]bool{false, false, false, false, true}},
		"below":      {func(_ *State, i *api.Instance) { i.Host = "" }, [5]bool{false, false, false, false, true}},
		"not lent":   {func(_ *State, i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.ShareIdle = false }) }, [5]bool{true, true, false, false, true}},
		"of another": {func(_ *State, i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Project = "q" }) }, [5]bool{false, false, true, false, true}},
		"shared": {func(_ *State, i *api.Instance) {
			i.ChangeTerms(func(t *api.InstanceTerms) { t.Project, t.Shared = "q", []api.ProjectID{"p"} })
		}, [5]bool{true, true, true, false, true}},
		"of a parent": {func(_ *State, i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Origin = "up" }) }, [5]bool{false, false, true, false, true}},
		"of others":   {func(_ *State, i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Group = "r" }) }, [5]bool{false, false, true, false, true}},
		"no slot":     {func(_ *State, i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Reserved = false }) }, [5]bool{false, false, true, false, true}},
		"gone":        {func(_ *State, i *api.Instance) { i.Status = api.StatusDeleted }, [5]bool{false, false, false, false, true}},
	} {
		w := leaseWorld(t)
		i := api.NewInstance(&api.InstanceTerms{
			Project: "p", Group: "res", Reserved: true, ShareIdle: true, Window: api.Window{Start: 1, End: api.Forever},
		}, spec(string(slot)), api.StatusActive)
		i.Host = "h1"
		if c.change != nil {
			c.change(w.s, i)
		}
		w.s.loadInstance(i)
		is := func(all []*api.Instance) bool { return len(all) == 1 && all[0].ID == slot }
		assert.Equal(t, c.want, [5]bool{
			is(w.s.FreeSlots("", "res", "p")), is(w.s.UsableSlots("", "res", "p")), is(w.s.LentSlots()), w.s.HasOnlyLent(i), w.s.IsEmpty(i),
		}, name)
	}
}

// TestReportsThatCount: an agent is heard on what it was shown, in this stay, on a host of its own.
func TestReportsThatCount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, i *api.Instance, r *api.InstanceReport)
		agent  api.AgentID
		counts bool
	}{
		"its own":       {nil, "a1", true},
		"any stay":      {func(_ *world, _ *api.Instance, r *api.InstanceReport) { r.Stay = 0 }, "a1", true},
		"another's":     {nil, "a2", false},
		"unknown":       {func(_ *world, _ *api.Instance, r *api.InstanceReport) { r.Instance = "other" }, "a1", false},
		"another host":  {func(_ *world, _ *api.Instance, r *api.InstanceReport) { r.Host = "h2" }, "a1", false},
		"gone":          {func(_ *world, i *api.Instance, _ *api.InstanceReport) { i.Status = api.StatusDeleted }, "a1", false},
		"another stay":  {func(_ *world, _ *api.Instance, r *api.InstanceReport) { r.Stay++ }, "a1", false},
		"it waits":      {func(_ *world, i *api.Instance, _ *api.InstanceReport) { i.Waits = true }, "a1", false},
		"no such host":  {func(_ *world, i *api.Instance, r *api.InstanceReport) { i.Host, r.Host = "h9", "h9" }, "a1", false},
		"no such host'": {func(_ *world, i *api.Instance, r *api.InstanceReport) { i.Host, r.Host = "h9", "h9" }, "", false},
	} {
		w := leaseWorld(t)
		i := api.NewInstance(&api.InstanceTerms{Project: "p", Window: api.Window{End: api.Forever}}, spec("i"), api.StatusActive)
		i.Host = "h1"
		r := &api.InstanceReport{Host: "h1", Instance: "i", Status: api.StatusActive, Stay: i.Stay()}
		if c.change != nil {
			c.change(w, i, r)
		}
		w.s.instances.Set("i", i)
		assert.Equal(t, c.counts, w.s.TakesReport(c.agent, r), name)
	}
}

// TestWhatARestartCounts: a number that was not told before, of an instance that is known.
func TestWhatARestartCounts(t *testing.T) {
	w := leaseWorld(t)
	i := api.NewInstance(&api.InstanceTerms{Project: "p", Window: api.Window{End: api.Forever}}, spec("i"), api.StatusActive)
	i.Host = "h1"
	w.s.loadInstance(i)
	told := func(id string, n api.Instant) (uint64, api.Instant, int) {
		w.s.facts = nil
		w.s.noteRestart(&api.InstanceReport{Instance: api.InstanceID(id), Restarted: n, Reason: api.RestartAgent})
		now, _ := w.s.Instance("i")
		return now.Restarts, now.Restarted, len(w.s.facts)
	}
	for _, c := range []struct {
		id        string
		n         api.Instant
		count     uint64
		restarted api.Instant
		facts     int
	}{{"i", 0, 0, 0, 0}, {"other", 4, 0, 0, 0}, {"i", 4, 1, 4, 1}, {"i", 4, 1, 4, 0}, {"i", 0, 1, 4, 0}, {"i", 9, 2, 9, 1}, {"i", 4, 3, 4, 1}} {
		count, restarted, facts := told(c.id, c.n)
		assert.Equal(t, []any{c.count, c.restarted, c.facts}, []any{count, restarted, facts}, "%+v", c)
	}
}

// TestStatesOfABoot beyond what children owe: each count, and what was released.
func TestStatesOfABoot(t *testing.T) {
	commit := func(c Counts, change func(b *Boot)) *Boot {
		b := &Boot{Decision: api.DecisionCommit, Counts: c}
		if change != nil {
			change(b)
		}
		return b
	}
	for name, c := range map[string]struct {
		b    *Boot
		want api.BootState
	}{
		"new":                  {&Boot{Decision: api.DecisionPending}, api.BootAccepted},
		"tried":                {&Boot{Decision: api.DecisionPending, Holds: []api.HoldID{"k"}}, api.BootHolding},
		"failed":               {&Boot{Decision: api.DecisionAbort}, api.BootFailed},
		"released undecided":   {&Boot{Decision: api.DecisionAbort, Ended: true}, api.BootReleased},
		"being released":       {&Boot{Decision: api.DecisionAbort, Ended: true, Unacked: 1}, api.BootReleasing},
		"ended, live":          {commit(Counts{Active: 1}, func(b *Boot) { b.Ended = true }), api.BootReleasing},
		"ended, queued":        {commit(Counts{}, func(b *Boot) { b.Ended, b.Queued = true, 1 }), api.BootReleased},
		"all queued":           {commit(Counts{Deleted: 1}, func(b *Boot) { b.Queued = 1 }), api.BootBuilding},
		"one queued":           {commit(Counts{Active: 1}, func(b *Boot) { b.Queued = 1 }), api.BootBuilding},
		"shut off":             {commit(Counts{Shutoff: 1}, nil), api.BootActive},
		"leaving":              {commit(Counts{Deleting: 1}, nil), api.BootActive},
		"failed and leaving":   {commit(Counts{Error: 1, Deleting: 1}, nil), api.BootDegraded},
		"failed and shut off":  {commit(Counts{Error: 1, Shutoff: 1}, nil), api.BootDegraded},
		"failed and gone":      {commit(Counts{Error: 2, Deleted: 1}, nil), api.BootError},
		"failed and not there": {commit(Counts{Error: 1, Build: 1}, nil), api.BootBuilding},
	} {
		assert.Equal(t, c.want, c.b.State(), name)
	}
	all := Counts{}
	for n, st := range []api.Status{api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted} {
		all.add(st, 1<<n)
	}
	assert.Equal(t, Counts{1, 2, 4, 8, 16, 32}, all)
	assert.Equal(t, 31, all.Live())
}
