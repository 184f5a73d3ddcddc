package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// TestWhichHoldsAreRefused: each reason alone, of a hold of this zone and of one of a parent.
func TestWhichHoldsAreRefused(t *testing.T) {
	group := func(c *command.Hold, n int) { c.Slots[0].Group = n }
	for name, c := range map[string]struct {
		abroad bool
		world  func(w *world)
		change func(c *command.Hold)
		want   api.Code
	}{
		"own":              {false, nil, nil, ""},
		"a parent's":       {true, nil, nil, ""},
		"a group too high": {false, nil, func(c *command.Hold) { group(c, 1) }, api.CodeInvalid},
		"a group below":    {false, nil, func(c *command.Hold) { group(c, -1) }, api.CodeInvalid},
		"no groups":        {false, nil, func(c *command.Hold) { c.Request.Groups = nil }, api.CodeInvalid},
		"an id twice":      {false, nil, func(c *command.Hold) { c.Slots = append(c.Slots, c.Slots[0]) }, api.CodeConflict},
		"an id in a part":  {false, nil, func(c *command.Hold) { c.Parts = []command.Part{part("kid", "i1")} }, api.CodeConflict},
		"a part":           {false, nil, func(c *command.Hold) { c.Parts = []command.Part{part("kid", "i2")} }, ""},
		"a part too wide": {false, nil, func(c *command.Hold) {
			c.Parts = []command.Part{part("kid", "i2")}
			c.Parts[0].Instances = append(c.Parts[0].Instances, nil)
		}, api.CodeInvalid},
		"a part of a parent": {false, nil, func(c *command.Hold) { c.Parts = []command.Part{part("up", "i2")} }, api.CodePlanRefused},
		"a part of nobody":   {false, nil, func(c *command.Hold) { c.Parts = []command.Part{part("none", "i2")} }, api.CodePlanRefused},
		"a plan":             {false, nil, func(c *command.Hold) { c.Plan = "plan" }, ""},
		"a plan in time":     {false, nil, func(c *command.Hold) { c.Plan, c.Expires = "plan", c.At+1 }, ""},
		"a plan too late":    {false, nil, func(c *command.Hold) { c.Plan, c.Expires = "plan", c.At }, api.CodePlanRefused},
		"a plan used":        {false, nil, func(c *command.Hold) { c.Plan = "used" }, api.CodePlanRefused},
		"no boot":            {false, nil, func(c *command.Hold) { c.Request.Reservation = "other" }, api.CodeConflict},
		"of a child":         {true, nil, func(c *command.Hold) { c.Origin = "kid" }, api.CodeForbidden},
		"of nobody":          {true, nil, func(c *command.Hold) { c.Origin = "none" }, api.CodeForbidden},
		"paused":             {true, func(w *world) { w.pause("up") }, nil, api.CodePaused},
		"paused, but own":    {false, func(w *world) { w.pause("up") }, nil, ""},
		"preempts":           {true, nil, func(c *command.Hold) { c.Request.Preempt = true }, ""},
		"preempts in vain":   {true, func(w *world) { w.closePreemptibles() }, func(c *command.Hold) { c.Request.Preempt = true }, api.CodeForbidden},
		"preempts nobody":    {true, func(w *world) { w.closePreemptibles() }, nil, ""},
		"an invalid request": {true, nil, func(c *command.Hold) { c.Request.Window.Start = api.Forever - 1 }, api.CodeInvalid},
	} {
		w := leaseWorld(t)
		w.link("up", api.LinkParent)
		w.link("kid", api.LinkChild)
		w.ok(create(w.stamp(), "r", 1, 1))
		used := hold(w.stamp(), "k0", "r", slots("h2", "i0"))
		used.Plan = "used"
		w.ok(used)
		if c.world != nil {
			c.world(w)
		}
		h := hold(w.stamp(), "k", "r", slots("h1", "i1"))
		if c.abroad {
			h = asked(w.stamp(), "k", slots("h1", "i1"))
		}
		if c.change != nil {
			c.change(&h)
		}
		assert.Equal(t, c.want, codeOf(w.do(h)), name)
	}
}

func (w *world) closePreemptibles() {
	w.ok(command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{Preemptibles: api.PreemptRule{Closed: true}}})
}

// TestAHoldHasWhatItWasAskedWith: each field of the record, before and after it is decided.
func TestAHoldHasWhatItWasAskedWith(t *testing.T) {
	w := leaseWorld(t)
	w.link("up", api.LinkParent)
	w.link("kid", api.LinkChild)
	c := asked(w.stamp(), "k", slots("h1", "i1"), part("kid", "i2"))
	c.Plan, c.Attempt, c.Metadata = "plan", 3, map[string]string{"a": "b"}
	want := Hold{
		ID: "k", Origin: "up", Attempt: 3, Request: c.Request, Plan: "plan", State: api.HoldAsking, Decision: api.DecisionPending, Slots: c.Slots,
		Parts: []Part{partOf(c.Parts[0])}, Window: c.Request.WindowAt(c.At), Metadata: c.Metadata, Created: c.At, Updated: c.At,
	}
	got := w.ok(c).Hold
	assert.Equal(t, want, *got)
	again := c
	again.Stamp = w.stamp()
	assert.Same(t, got, w.unchanged(again).Hold, "a repeat")
	again.Plan = "other"
	w.refused(api.CodePlanRefused, again)
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: "k", Origin: "up", Answers: []command.PartAnswer{answer("kid", "i2")}})
	w.ok(command.HoldDecide{Stamp: w.stamp(), ID: "k", Origin: "up", Decision: api.DecisionCommit})
	got, _ = w.s.Hold("up", "k")
	want.State, want.Decision, want.Firm, want.Updated, want.Parts[0].Answered = api.HoldCommitted, api.DecisionCommit, true, w.now, true
	assert.Equal(t, want, *got)
	below := w.instance("i2")
	assert.Equal(t, []any{api.LinkID("kid"), api.HostID(""), api.LinkID("up"), api.HoldID("k"), w.now, api.StatusBuild, c.Metadata},
		[]any{below.Link, below.Host, below.Origin, below.Hold, below.Created, below.Status, below.Metadata})
	assert.Equal(t, []api.HoldID{"k"}, func() (out []api.HoldID) {
		for _, h := range w.s.HoldsFor("k") {
			out = append(out, h.ID)
		}
		return out
	}())
	assert.Empty(t, w.s.HoldsFor("other"))
}

// TestWhichDecisionsAreRefused: each by what the hold is, and whose.
func TestWhichDecisionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		hold   string
		origin api.LinkID
		d      api.Decision
		forced bool
		want   api.Code
	}{
		"unknown, commit":     {"none", "up", api.DecisionCommit, false, api.CodeNotFound},
		"unknown, abort":      {"none", "up", api.DecisionAbort, false, ""},
		"released, commit":    {"released", "up", api.DecisionCommit, false, api.CodeConflict},
		"released, abort":     {"released", "up", api.DecisionAbort, false, ""},
		"asking, commit":      {"asking", "up", api.DecisionCommit, false, api.CodeConflict},
		"asking, abort":       {"asking", "up", api.DecisionAbort, false, ""},
		"held, commit":        {"held", "up", api.DecisionCommit, false, ""},
		"held, forced":        {"held", "up", api.DecisionAbort, true, ""},
		"own, commit":         {"own", "", api.DecisionCommit, false, api.CodeConflict},
		"own, abort":          {"own", "", api.DecisionAbort, false, ""},
		"own, forced":         {"own", "", api.DecisionAbort, true, api.CodeConflict},
		"own committed":       {"done", "", api.DecisionAbort, false, api.CodeConflict},
		"own committed again": {"done", "", api.DecisionCommit, false, api.CodeConflict},
	} {
		w := leaseWorld(t)
		w.link("up", api.LinkParent)
		w.link("kid", api.LinkChild)
		w.ok(create(w.stamp(), "r", 1, 1))
		w.ok(create(w.stamp(), "s", 1, 1))
		w.ok(hold(w.stamp(), "own", "r", slots("h1", "i1")))
		done := hold(w.stamp(), "done", "s", slots("h1", "i2"))
		done.Commit = true
		w.ok(done)
		w.ok(asked(w.stamp(), "held", slots("h1", "i3")))
		w.ok(asked(w.stamp(), "asking", nil, part("kid", "i4")))
		w.ok(command.HoldDecide{Stamp: w.stamp(), Origin: "up", ID: "released", Decision: api.DecisionAbort})
		decide := command.HoldDecide{Stamp: w.stamp(), Origin: c.origin, ID: api.HoldID(c.hold), Decision: c.d, Forced: c.forced}
		r := w.do(decide)
		require.Equal(t, c.want, codeOf(r), name)
		if c.want == "" {
			assert.Equal(t, []any{c.d, c.forced}, []any{r.Hold.Decision, r.Hold.Forced}, name)
			if c.hold == "none" {
				assert.Equal(t, Hold{ID: "none", Origin: "up", State: api.HoldReleased, Decision: api.DecisionAbort, Created: w.now, Updated: w.now}, *r.Hold)
			}
		}
	}
}

// TestWhichInstancesAreEnded: what is there, not attached and not taken over; and a child is told what it has.
func TestWhichInstancesAreEnded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, i *api.Instance)
		want   api.Code
		told   bool
	}{
		"here":       {nil, "", false},
		"gone":       {func(_ *world, i *api.Instance) { i.Status = api.StatusDeleted }, api.CodeNotFound, false},
		"taken over": {func(w *world, _ *api.Instance) { w.s.noteKept("i", true) }, api.CodeConflict, false},
		"attached":   {func(_ *world, i *api.Instance) { i.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = "s" }) }, api.CodeConflict, false},
		"a parent's": {func(_ *world, i *api.Instance) {
			i.ChangeExtras(func(x *api.InstanceExtras) { x.Attached = "s" })
			i.ChangeTerms(func(t *api.InstanceTerms) { t.Origin = "up" })
		}, "", false},
		"below": {func(_ *world, i *api.Instance) { i.Host, i.Link = "", "kid" }, "", true},
		"below, confirmed": {func(w *world, i *api.Instance) {
			i.Host, i.Link = "", "kid"
			w.s.holds.Set(joinKey("", "k"), &Hold{ID: "k", Parts: []Part{{Link: "kid", Acked: true}}})
		}, "", true},
		"below, not yet": {func(w *world, i *api.Instance) {
			i.Host, i.Link = "", "kid"
			w.s.holds.Set(joinKey("", "k"), &Hold{ID: "k", Parts: []Part{{Link: "kid"}}})
		}, "", false},
	} {
		w := leaseWorld(t)
		i := api.NewInstance(&api.InstanceTerms{Project: "p", Hold: "k", Window: api.Window{End: api.Forever}}, spec("i"), api.StatusActive)
		i.Host = "h1"
		if c.change != nil {
			c.change(w, i)
		}
		w.s.loadInstance(i)
		require.Equal(t, c.want, codeOf(w.s.instanceDelete(command.InstanceDelete{ID: "i"})), name)
		now, _ := w.s.Instance("i")
		assert.Equal(t, c.want == "", now.Status == api.StatusDeleting, name)
		_, told := w.s.UnendedInstance("i")
		assert.Equal(t, c.told, told, name)
		w.s.instanceTold(command.InstanceTold{Gone: []api.InstanceID{"i", "none"}})
		now, _ = w.s.Instance("i")
		assert.Equal(t, c.want == "" && i.Link != "" || name == "gone", now.Status == api.StatusDeleted, name)
		assert.Empty(t, w.s.UnendedInstances(), name)
	}
	w := leaseWorld(t)
	assert.Equal(t, api.CodeNotFound, codeOf(w.s.instanceDelete(command.InstanceDelete{ID: "none"})))
	i := api.NewInstance(&api.InstanceTerms{OnPreempt: api.PreemptRequeue, Window: api.Window{End: api.Forever}}, spec("i"), api.StatusDeleting)
	i.Host = "h1"
	w.s.loadInstance(i)
	require.NoError(t, w.s.instanceDelete(command.InstanceDelete{ID: "i"}).Err, "it was not preempted")
	leaving := *i
	leaving.ChangeExtras(func(x *api.InstanceExtras) { x.Eviction = &api.Eviction{For: "x"} })
	w.s.putInstance(i, &leaving)
	require.NoError(t, w.s.instanceDelete(command.InstanceDelete{ID: "i"}).Err)
	now, _ := w.s.Instance("i")
	assert.Equal(t, api.RequeueEnded, now.Eviction.Stays)
	at := now.ModIndex
	w.s.index++
	w.s.stayEnded(now, api.RequeueFull)
	now, _ = w.s.Instance("i")
	assert.Equal(t, []any{api.RequeueEnded, at}, []any{now.Eviction.Stays, now.ModIndex}, "the first reason counts")
	other := leaving
	other.ChangeTerms(func(t *api.InstanceTerms) { t.OnPreempt = "" })
	w.s.stayEnded(&other, api.RequeueFull)
	now, _ = w.s.Instance("i")
	assert.Equal(t, at, now.ModIndex, "it would not be booted again")
}

// TestWhatExpires: what is on own hosts, has an end, is there and not overdue; and is named until its end is requested.
func TestWhatExpires(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(i *api.Instance)
		expired bool
		next    api.Instant
	}{
		"own":      {nil, true, 50},
		"later":    {func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Window.End = 51 }) }, false, 51},
		"for ever": {func(i *api.Instance) { i.ChangeTerms(func(t *api.InstanceTerms) { t.Window.End = api.Forever }) }, false, api.Forever},
		"below":    {func(i *api.Instance) { i.Host = "" }, false, api.Forever},
		"gone":     {func(i *api.Instance) { i.Status = api.StatusDeleted }, false, api.Forever},
		"overdue":  {func(i *api.Instance) { i.Overdue = true }, false, api.Forever},
		"ending":   {func(i *api.Instance) { i.Status = api.StatusDeleting }, false, api.Forever},
	} {
		w := leaseWorld(t)
		i := api.NewInstance(&api.InstanceTerms{Window: api.Window{End: 50}}, spec("i"), api.StatusActive)
		i.Host = "h1"
		if c.change != nil {
			c.change(i)
		}
		w.s.loadInstance(i)
		assert.Equal(t, []any{c.expired, c.next}, []any{len(w.s.Expired(50)) == 1, w.s.NextExpiry()}, name)
	}
	assert.Equal(t, timeKey(0), timeKey(-5))
	assert.Less(t, timeKey(1), timeKey(256))
}

// TestSizeOfAState: each table and each text adds to it.
func TestSizeOfAState(t *testing.T) {
	s := New()
	assert.EqualValues(t, sizeHeader, s.SizeBytes())
	last := s.SizeBytes()
	for _, c := range []struct {
		add  func()
		more int64
	}{
		{func() { s.hosts.Set("a", &Host{}) }, sizeHost},
		{func() { s.providers.Set("a", &api.Provider{}) }, sizeProvider},
		{func() { s.consumers.Set("a", &api.Consumer{}) }, sizeConsumer},
		{func() { s.boots.Set("a", &Boot{}) }, sizeBoot},
		{func() { s.holds.Set("a", &Hold{}) }, sizeHold},
		{func() { s.instances.Set("a", &api.Instance{}) }, sizeInstance + 2*sizeSlotText},
		{func() { s.leases.Set("a", &Lease{}) }, sizeLease},
		{func() { s.events.Append(&Event{}) }, sizeEvent},
		{func() { s.tokens.Set("a", &api.Token{}) }, sizeOther},
		{func() { s.flavors.Set("a", &api.Flavor{}) }, sizeOther},
		{func() { s.links.Set("a", &api.Link{}) }, sizeOther},
		{func() { s.groups.Set("a", &api.ServerGroup{}) }, sizeOther},
		{func() { s.plans.Set("a", planUse{}) }, sizeOther},
		{func() { s.quotas.Set("a", &Quota{}) }, sizeOther},
		{func() { s.bindings.Set("a", &api.Binding{}) }, sizeOther},
		{func() { s.queue.Set("a", &Requeued{}) }, sizeOther},
		{func() { s.webhooks.Set("a", &api.Webhook{}) }, sizeOther},
		{func() { s.hostTexts += 7 }, 7},
		{func() { s.holdTexts += 7 }, 7},
		{func() { s.bootTexts += 7 }, 7},
		{func() { s.upload = &upload{bytes: 7} }, 7},
	} {
		c.add()
		assert.Equal(t, c.more, s.SizeBytes()-last)
		last = s.SizeBytes()
	}
	h := &Host{Host: api.Host{
		Maintenance: "abc", Attributes: map[string]string{"a": "bb"}, Overrides: map[string]string{"ccc": "d"}, Traits: []string{"12345"},
		OwnTraits: []string{"123456"}, OwnAggregates: []string{"1234567"}, Inventory: map[api.ResourceClass]api.Inventory{"A": {}, "B": {}},
		OwnInventory: map[api.ResourceClass]api.Inventory{"C": {}},
	}}
	assert.EqualValues(t, 3+3+4+5+6+7+3*16, h.textsOf())
	assert.EqualValues(t, 6, (&Hold{Metadata: map[string]string{"a": "bb"}}).textsOf())
}

// TestWhatALeaseCounts: by its status, by an update that is not decided, and by what it reserves.
func TestWhatALeaseCounts(t *testing.T) {
	w := api.Window{Start: 10, End: 20}
	terms := leaseTerms("l", w, 3)
	one := useOfTerms(&terms)
	assert.Equal(t, w, one.Window)
	assert.Equal(t, []int64{1, 3, 3}, []int64{one.Amounts[quota.Leases], one.Amounts[quota.Reserved], one.Amounts[quota.Reserved.Of(api.VCPU)]})
	whole := terms
	whole.Reservations = []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 4}}
	assert.Equal(t, quota.Use{Window: w, Amounts: quota.Amounts{quota.Leases: 1, quota.Hosts: 4}}, useOfTerms(&whole))
	hosts := terms
	hosts.Hosts = []string{"h1"}
	assert.Equal(t, quota.Use{Window: w, Amounts: quota.Amounts{}}, useOfTerms(&hosts))
	assert.Equal(t, []quota.Use{one}, usesOfLease(&Lease{Terms: terms, Status: api.LeaseActive}))
	assert.Nil(t, usesOfLease(&Lease{Terms: terms, Status: api.LeaseTerminated}))
	assert.Nil(t, usesOfLease(&Lease{Terms: terms, Status: api.LeaseTerminated, Next: &LeaseUpdate{Terms: whole}}))
	assert.Equal(t, quota.Max(one, useOfTerms(&whole)), usesOfLease(&Lease{Terms: terms, Next: &LeaseUpdate{Terms: whole}}))
}

// TestWhatBecomesOfADeletedLease: of one that is being made nothing, and of one that has ended what is known.
func TestWhatBecomesOfADeletedLease(t *testing.T) {
	end := func(st api.LeaseEventStatus) []api.LeaseEvent {
		return []api.LeaseEvent{{Type: api.EventEndLease, Status: st}}
	}
	for name, c := range map[string]struct {
		l    Lease
		want api.LeaseOutcome
	}{
		"being made":  {Lease{Status: api.LeaseCreating, Events: end(api.EventUndone)}, api.LeaseOutcomeFailed},
		"active":      {Lease{Status: api.LeaseActive, Events: end(api.EventUndone)}, api.LeaseOutcomeDeleted},
		"without end": {Lease{Status: api.LeaseActive}, api.LeaseOutcomeDeleted},
		"ending":      {Lease{Status: api.LeaseTerminating, Events: end(api.EventInProgress)}, ""},
		"ended":       {Lease{Status: api.LeaseTerminated, Events: end(api.EventDone)}, ""},
	} {
		assert.Equal(t, c.want, c.l.outcomeOf(), name)
	}
	l := &Lease{Terms: api.LeaseTerms{Project: "p", Shared: []api.ProjectID{"q"}}, Replaced: []api.ReservationID{"a"}, Order: "b", Next: &LeaseUpdate{Order: "c"}}
	assert.Equal(t, []api.ReservationID{"a", "b", "c"}, l.Orders())
	assert.Empty(t, (&Lease{}).Orders())
	assert.Equal(t, []bool{true, true, false}, []bool{l.MayUse("p"), l.MayUse("q"), l.MayUse("r")})
	s := New()
	s.leasesBook.leases.Set("x", &Lease{})
	for name, c := range map[string]struct {
		boot   *Boot
		order  api.ReservationID
		form   api.Form
		begun  bool
		isGone bool
	}{
		"no order":             {nil, "", api.FormFifth, true, true},
		"a forgotten one":      {nil, "o", api.FormFifth, false, true},
		"forgotten before":     {nil, "o", api.FormFourth, true, true},
		"begun":                {&Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1}}, "o", api.FormFifth, true, false},
		"not confirmed":        {&Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1}, Unacked: 1}, "o", api.FormFifth, false, false},
		"one not begun":        {&Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1, Build: 1}}, "o", api.FormFifth, false, false},
		"one that ends":        {&Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1, Deleting: 1}}, "o", api.FormFifth, false, false},
		"one that has ended":   {&Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1, Deleted: 1}}, "o", api.FormFifth, false, false},
		"one that was lost":    {&Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1, Error: 1}}, "o", api.FormFifth, true, false},
		"ended, and all is":    {&Boot{Decision: api.DecisionCommit, Ended: true, Counts: Counts{Deleted: 1}}, "o", api.FormFifth, false, true},
		"ended, and one stays": {&Boot{Decision: api.DecisionCommit, Ended: true, Counts: Counts{Active: 1}}, "o", api.FormFifth, true, false},
	} {
		s := New()
		s.form = c.form
		l := &Lease{Terms: api.LeaseTerms{Project: "p"}, Order: c.order}
		if c.boot != nil {
			c.boot.Request = request("o", 1)
			s.boots.Set(l.boot("o"), c.boot)
		}
		assert.Equal(t, []bool{c.begun, c.isGone}, []bool{s.hasBegun(l), s.areGone(l, l.Orders())}, name)
	}
}
