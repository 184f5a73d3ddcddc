package fleet

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/zone"
)

func keysOf(jobs []zone.Job) (out []string) {
	for _, j := range jobs {
		out = append(out, j.Key)
	}
	slices.Sort(out)
	return out
}

// made returns an instance on a host that no table has.
func made(id, host string, edit func(*api.Instance)) *api.Instance {
	i := api.NewInstance(&api.InstanceTerms{Class: api.Firm, Window: api.Window{End: api.Forever}}, api.InstanceSpec{ID: api.InstanceID(id)}, api.StatusActive)
	extras := *i.InstanceExtras
	i.Host, i.InstanceExtras = api.HostID(host), &extras
	edit(i)
	return i
}

// TestWhatMoves: what runs, and no volume, nothing in a lease, nothing that is on its way; off a lost host what its flavor allows, and what has
// never begun.
func TestWhatMoves(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1")
	host := string(c.host("h1").ID)
	const drain, evacuate = 1, 2
	for name, x := range map[string]struct {
		edit func(*api.Instance)
		when int
	}{
		"active":               {func(*api.Instance) {}, drain},
		"starting":             {func(i *api.Instance) { i.Status = api.StatusBuild }, drain},
		"movable":              {func(i *api.Instance) { i.Movable = true }, drain | evacuate},
		"ended by itself":      {func(i *api.Instance) { i.Movable, i.Status = true, api.StatusShutoff }, 0},
		"stopped by its owner": {func(i *api.Instance) { i.Movable, i.Status, i.Halted = true, api.StatusShutoff, true }, drain | evacuate},
		"halted, and ending":   {func(i *api.Instance) { i.Movable, i.Status, i.Halted = true, api.StatusDeleting, true }, 0},
		"failed":               {func(i *api.Instance) { i.Movable, i.Status = true, api.StatusError }, 0},
		"a volume":             {func(i *api.Instance) { i.Movable, i.Volume = true, "v" }, 0},
		"in a lease":           {func(i *api.Instance) { i.Movable, i.Within = true, "slot" }, 0},
		"on its way":           {func(i *api.Instance) { i.Movable, i.Target = true, "h2" }, evacuate},
		"never begun":          {func(i *api.Instance) { i.Status, i.Created = api.StatusBuild, c.beats.lastGiven("a")+1 }, drain | evacuate},
		"perhaps begun":        {func(i *api.Instance) { i.Status, i.Created = api.StatusBuild, c.beats.lastGiven("a") }, drain},
		"created later":        {func(i *api.Instance) { i.Created = c.beats.lastGiven("a") + 1 }, drain},
	} {
		got := 0
		one := []*api.Instance{made("i", host, x.edit)}
		if len(c.moveJobs(c.View(), one, false)) > 0 {
			got |= drain
		}
		if len(c.moveJobs(c.View(), one, true)) > 0 {
			got |= evacuate
		}
		assert.Equal(t, x.when, got, name)
		assert.Len(t, one, 1)
	}
	assert.False(t, c.isUnstarted(c.View(), made("i", "none", func(i *api.Instance) { i.Status, i.Created = api.StatusBuild, api.Forever })))
}

// TestWhatEnds: what lives and is not ending, and no volume that something has; one that is gone meanwhile is no failure.
func TestWhatEnds(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	for name, x := range map[string]struct {
		edit func(*api.Instance)
		want bool
	}{
		"active":   {func(*api.Instance) {}, true},
		"failed":   {func(i *api.Instance) { i.Status = api.StatusError }, true},
		"ending":   {func(i *api.Instance) { i.Status = api.StatusDeleting }, false},
		"ended":    {func(i *api.Instance) { i.Status = api.StatusDeleted }, false},
		"attached": {func(i *api.Instance) { i.Attached = "x" }, false},
	} {
		jobs := c.endJobs([]*api.Instance{made("i", "h", x.edit)})
		assert.Equal(t, x.want, len(jobs) == 1, name)
		for _, j := range jobs {
			assert.Equal(t, "i", j.Key)
			require.NoError(t, j.Run(t.Context()), "there is none")
		}
	}
	c.register("a", "h1")
	c.put("i", "h1")
	i, _ := c.View().Instance("i")
	jobs := c.endJobs([]*api.Instance{i})
	c.Fail(api.Errorf(api.CodeUnavailable, "no leader"))
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(jobs[0].Run(t.Context())))
	c.Fail(nil)
	require.NoError(t, jobs[0].Run(t.Context()))
	now, _ := c.View().Instance("i")
	assert.Equal(t, api.StatusDeleting, now.Status)
}

// TestWhatCountsAsGone: fenced instances that are to end on hosts that are lost, once their agents have been silent for long enough, in a
// zone whose nodes read the word.
func TestWhatCountsAsGone(t *testing.T) {
	for name, x := range map[string]struct {
		form  api.Form
		class api.Class
		end   bool
		lost  bool
		quiet time.Duration
		want  bool
	}{
		"gone":             {api.FormNewest, api.Preemptible, true, true, EvacuateAfter, true},
		"not yet":          {api.FormNewest, api.Preemptible, true, true, EvacuateAfter - 1, false},
		"it is to go on":   {api.FormNewest, api.Preemptible, false, true, EvacuateAfter, false},
		"it has no fence":  {api.FormNewest, api.Firm, true, true, EvacuateAfter, false},
		"its host is up":   {api.FormNewest, api.Preemptible, true, false, EvacuateAfter, false},
		"an earlier form":  {api.FormFourth - 1, api.Preemptible, true, true, EvacuateAfter, false},
		"the fourth form":  {api.FormFourth, api.Preemptible, true, true, EvacuateAfter, true},
		"nobody is silent": {api.FormNewest, api.Preemptible, true, true, 0, false},
	} {
		c := newClocked(t, api.FormNewest)
		c.register("a", "h1")
		req := api.Request{
			Reservation: "i", Project: "p", User: "u", Class: x.class, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
		}
		spec := []api.InstanceSpec{{ID: "i", Name: "i"}}
		c.Must(t, command.BootCreate{Stamp: c.zone.Stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "i", Request: req, Min: 1, Instances: spec}},
			command.Hold{Stamp: c.zone.Stamp(), ID: "i", Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: spec[0], Host: c.host("h1").ID}}})
		if x.end {
			c.Must(t, command.InstanceDelete{Stamp: c.zone.Stamp(), ID: "i"})
		}
		c.clock = c.clock.Add(time.Second)
		if x.lost {
			c.mark(api.HostDown, "h1")
		}
		c.beats.noteBeat("a", c.clock.Add(-x.quiet))
		c.form = x.form
		assert.Equal(t, x.want, len(c.dueSilences(c.View())) == 1, name)
	}
}

// TestHostsAreWatched: a host goes down once its agent has been silent for longer than its grace, and is up again when it was heard within
// half of it; not one that its agent does not serve, and not by a leader that has not heard the agent.
func TestHostsAreWatched(t *testing.T) {
	for name, x := range map[string]struct {
		down   bool
		silent time.Duration
		heard  bool // by this leader
		want   api.HostState
	}{
		"heard":                  {false, 0, true, api.HostUp},
		"for its grace":          {false, HostGraceDefault, true, api.HostUp},
		"for longer":             {false, HostGraceDefault + 1, true, api.HostDown},
		"down, heard":            {true, 0, true, api.HostUp},
		"down, nearly half":      {true, HostGraceDefault/2 - 1, true, api.HostUp},
		"down, half":             {true, HostGraceDefault / 2, true, api.HostDown},
		"down, and a new leader": {true, 0, false, api.HostDown},
		"up, and a new leader":   {false, 0, false, api.HostUp},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClocked(t, api.FormNewest)
			c.register("a", "h1", "h2")
			c.register("a", "h1") // h2 is not served any more
			if x.down {
				c.mark(api.HostDown, "h1")
			}
			c.BeginTerm()
			if x.heard {
				c.beats.noteBeat("a", c.clock.Add(-x.silent))
			}
			ctx, cancel := context.WithTimeout(t.Context(), AgentBeat/2+time.Millisecond)
			defer cancel()
			c.watchHosts(ctx)
			assert.Equal(t, x.want, c.host("h1").State, name)
			assert.Equal(t, api.HostDown, c.host("h2").State, name)
		})
	}
}

// TestWhatADrainLeaves: the outcome of what no drain moves, and why.
func TestWhatADrainLeaves(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	w := &leaving{f: c.Fleet, hosts: []api.HostID{"h1", "h2"}}
	for name, x := range map[string]struct {
		edit    func(*api.Instance)
		outcome Outcome
		reason  string
	}{
		"an instance":       {func(*api.Instance) {}, "", ""},
		"a volume":          {func(i *api.Instance) { i.Volume = "v" }, OutcomeStays, "a volume stays on its host until its owner deletes it"},
		"one that ended":    {func(i *api.Instance) { i.Status = api.StatusShutoff }, OutcomeStays, "it does not run: it is SHUTOFF"},
		"on its way":        {func(i *api.Instance) { i.Target = "h3" }, OutcomeMoves, ""},
		"on its way, in it": {func(i *api.Instance) { i.Target = "h2" }, OutcomeBreaks, "it is on its way to another of these hosts"},
		"an empty slot":     {func(i *api.Instance) { i.Reserved = true }, "", ""},
	} {
		outcome, reason := w.staysOf(c.View(), made("i", "h1", x.edit))
		assert.Equal(t, []string{string(x.outcome), x.reason}, []string{string(outcome), reason}, name)
	}
	assert.Equal(t, []int{0, 1, 2}, []int{rank(OutcomeBreaks), rank(OutcomeMoves), rank(OutcomeStays)})
}

// TestWhatIfKeepsItsView: the answer has the state that it is of, by whose names it is read.
func TestWhatIfKeepsItsView(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1", "h2")
	c.put("i", "h1")
	a, err := c.WhatIf(t.Context(), []string{"h1"}, 0)
	require.NoError(t, err)
	assert.Equal(t, c.View(), a.View)
	assert.Equal(t, c.zone.Instant(), a.At)
	assert.Equal(t, []api.HostID{c.host("h1").ID}, a.Hosts)
	require.Len(t, a.Owners, 1)
	assert.Equal(t, []any{OutcomeMoves, c.host("h2").ID}, []any{a.Owners[0].Outcome, a.Owners[0].Parts[0].To})
	assert.Equal(t, c.host("h1").ID, func() api.HostID { i, _ := c.View().Instance("i"); return i.Host }(), "nothing has moved")
}

// TestPoolsThatAHostReaches: a host takes what keeps its allocations from shared pools only if it can use all of them.
func TestPoolsThatAHostReaches(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1", "h2")
	pool := api.Share{Provider: c.host("h2").ID, Resources: api.Resources{api.DiskGB: 1}}
	v := c.View().Hosts()
	assert.True(t, reachesShares(v, c.host("h1").ID, nil))
	assert.False(t, reachesShares(v, "none", nil))
	assert.False(t, reachesShares(v, c.host("h1").ID, []api.Share{pool}), "it shares nothing")
	assert.False(t, reachesShares(v, c.host("h1").ID, []api.Share{{Provider: "none"}}))
	assert.Equal(t, api.Resources{api.VCPU: 2}, withoutShares(api.Resources{api.VCPU: 2, api.DiskGB: 5}, []api.Share{pool}))
	i := made("i", string(c.host("h1").ID), func(i *api.Instance) {
		i.Shares = []api.Share{pool, {Provider: "none"}, {Provider: c.host("h1").ID}}
	})
	assert.Equal(t, []api.Share{pool}, pooledShares(c.View(), i))
}

// TestSlotsThatHeal: those that begin soon on lost hosts, and all on hosts that are drained by moving.
func TestSlotsThatHeal(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1", "h2")
	now := c.zone.Instant()
	slot := func(id, host string, from time.Duration) {
		req := api.Request{
			Reservation: api.ReservationID(id), Project: "p", User: "u", Class: api.Firm, Window: api.Window{Start: now.Add(from), End: now.Add(from + time.Hour)}, Reserves: true,
			Groups: []api.Group{{Name: "g", Count: 1, Resources: api.Resources{api.VCPU: 1}}},
		}
		spec := []api.InstanceSpec{{ID: api.InstanceID(id), Name: id}}
		c.Must(t, command.BootCreate{Stamp: c.zone.Stamp(), BootTerms: command.BootTerms{Digest: []byte(id), Name: id, Request: req, Min: 1, Instances: spec}},
			command.Hold{Stamp: c.zone.Stamp(), ID: api.HoldID(id), Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: spec[0], Host: c.host(host).ID}}})
	}
	slot("soon", "h1", HealWithin)
	slot("later", "h1", HealWithin+time.Millisecond)
	slot("far", "h2", 99*time.Hour)
	due := func() []string { return keysOf(c.dueHeals(c.View())) }
	assert.Empty(t, due())
	c.mark(api.HostDown, "h1")
	assert.Equal(t, []string{"soon"}, due())
	why, move, end := "disks", api.DrainMove, api.DrainEnd
	c.Must(t, command.HostSet{Stamp: c.zone.Stamp(), ID: c.host("h2").ID, Maintenance: &why, Drain: &end})
	assert.Equal(t, []string{"soon"}, due())
	c.Must(t, command.HostSet{Stamp: c.zone.Stamp(), ID: c.host("h2").ID, Maintenance: &why, Drain: &move})
	assert.Equal(t, []string{"far", "soon"}, due())
	c.mark(api.HostDown, "h2")
	assert.Equal(t, []string{"soon"}, due(), "it may come back until then")
}

// TestNamesInALineOfTheLog: the first ones, in order.
func TestNamesInALineOfTheLog(t *testing.T) {
	assert.Equal(t, []string{"a", "b", "c"}, firstNames([]string{"c", "a", "b"}))
	var many []string
	for n := range namesMax + 1 {
		many = append([]string{string(rune('a' + n))}, many...)
	}
	slices.Reverse(many)
	want := slices.Clone(many[:namesMax])
	slices.Reverse(many)
	assert.Equal(t, want, firstNames(many))
}
