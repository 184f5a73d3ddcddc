package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/filled"
	"berth/raftstore/command"
)

// anInstance returns a firm, active instance of the zone itself on a host, with a change.
func anInstance(change func(i *api.Instance)) *api.Instance {
	i := filled.Of[api.Instance]()
	i.Class, i.Status, i.Origin, i.Host, i.Within, i.Target = api.Firm, api.StatusActive, "", "h1", "", ""
	i.Reserved, i.InLease, i.Overdue, i.Waits, i.ShareIdle, i.Halted = false, false, false, false, false, false
	i.Window, i.Eviction = api.Window{Start: 1, End: 1000}, nil
	if change != nil {
		change(&i)
	}
	return &i
}

// TestWhatAnInstanceCountsAs: each condition alone decides.
func TestWhatAnInstanceCountsAs(t *testing.T) {
	assert.False(t, isLent(nil))
	assert.False(t, usesQuota(nil))
	for name, c := range map[string]struct {
		change           func(i *api.Instance)
		uses, lent, ends bool
	}{
		"own":         {nil, true, false, true},
		"a parent's":  {func(i *api.Instance) { i.Origin = "up" }, false, true, true},
		"reserved":    {func(i *api.Instance) { i.Reserved = true }, false, false, true},
		"in a lease":  {func(i *api.Instance) { i.InLease = true }, false, false, true},
		"gone":        {func(i *api.Instance) { i.Status = api.StatusDeleted }, false, false, false},
		"overdue":     {func(i *api.Instance) { i.Overdue = true }, true, false, false},
		"for ever":    {func(i *api.Instance) { i.Window.End = api.Forever }, true, false, false},
		"below":       {func(i *api.Instance) { i.Host = "" }, true, false, false},
		"lent below":  {func(i *api.Instance) { i.Origin, i.Host = "up", "" }, false, false, false},
		"lent within": {func(i *api.Instance) { i.Origin, i.Within = "up", "slot" }, false, false, true},
		"lent, gone":  {func(i *api.Instance) { i.Origin, i.Status = "up", api.StatusDeleted }, false, false, false},
	} {
		i := anInstance(c.change)
		assert.Equal(t, []bool{c.uses, c.lent, c.ends}, []bool{usesQuota(i), isLent(i), endsByWindow(i)}, name)
	}
	for name, c := range map[string]struct {
		change func(i *api.Instance)
		alike  bool
	}{
		"nothing":       {nil, true},
		"live":          {func(i *api.Instance) { i.Status = api.StatusError }, true},
		"gone":          {func(i *api.Instance) { i.Status = api.StatusDeleted }, false},
		"of a slot":     {func(i *api.Instance) { i.Status, i.Reserved = api.StatusError, true }, false},
		"of a lender":   {func(i *api.Instance) { i.Status, i.ShareIdle = api.StatusError, true }, false},
		"the same slot": {func(i *api.Instance) { i.Reserved = true }, true},
	} {
		assert.Equal(t, c.alike, isListedAlike(anInstance(nil), anInstance(c.change)), name)
	}
	assert.False(t, isListedAlike(anInstance(func(i *api.Instance) { i.Status = api.StatusDeleted }), anInstance(nil)), "it is back")
}

// TestLeasesThatCountAlike: what a project has by a lease changes with each of these, and with nothing else.
func TestLeasesThatCountAlike(t *testing.T) {
	of := func() *Lease {
		return &Lease{Status: api.LeaseActive, Terms: api.LeaseTerms{
			Name: "n", Window: api.Window{Start: 1, End: 2}, Reservations: []api.Reservation{{Type: api.ReserveHosts, Max: 2, Resources: api.Resources{api.VCPU: 1}}},
		}}
	}
	for name, c := range map[string]struct {
		change func(l *Lease)
		alike  bool
	}{
		"nothing":      {func(*Lease) {}, true},
		"its name":     {func(l *Lease) { l.Terms.Name = "m" }, true},
		"begun":        {func(l *Lease) { l.Status = api.LeasePending }, true},
		"over":         {func(l *Lease) { l.Status = api.LeaseTerminated }, false},
		"an update":    {func(l *Lease) { l.Next = &LeaseUpdate{} }, false},
		"its end":      {func(l *Lease) { l.Terms.Window.End = 3 }, false},
		"another type": {func(l *Lease) { l.Terms.Reservations[0].Type = api.ReserveInstances }, false},
		"more":         {func(l *Lease) { l.Terms.Reservations[0].Max = 3 }, false},
		"fewer":        {func(l *Lease) { l.Terms.Reservations = nil }, false},
		"larger":       {func(l *Lease) { l.Terms.Reservations[0].Resources = api.Resources{api.VCPU: 2} }, false},
		"at least":     {func(l *Lease) { l.Terms.Reservations[0].Min = 1 }, true},
	} {
		l := of()
		c.change(l)
		assert.Equal(t, c.alike, countsAlike(of(), l), name)
		assert.Equal(t, c.alike, countsAlike(l, of()), name)
	}
}

// TestAHostThatSaysTheSame: each of what it says counts, but for attributes.
func TestAHostThatSaysTheSame(t *testing.T) {
	said := filled.Of[api.AgentHost]()
	h := &Host{Host: api.Host{Agent: "a", Driver: said.Driver, Inventory: said.Inventory, Traits: said.Traits}}
	require.True(t, h.isReported("a", &said))
	assert.False(t, h.isReported("b", &said))
	for name, c := range map[string]struct {
		change func(h *Host, r *api.AgentHost)
		same   bool
	}{
		"unserved":   {func(h *Host, _ *api.AgentHost) { h.Unserved = true }, false},
		"driver":     {func(_ *Host, r *api.AgentHost) { r.Driver = "other" }, false},
		"inventory":  {func(_ *Host, r *api.AgentHost) { r.Inventory = nil }, false},
		"traits":     {func(_ *Host, r *api.AgentHost) { r.Traits = nil }, false},
		"attributes": {func(_ *Host, r *api.AgentHost) { r.Attributes = nil }, true},
	} {
		now, r := *h, said
		c.change(&now, &r)
		assert.Equal(t, c.same, now.isReported("a", &r), name)
	}
}

// TestCallsOnInstances: an instance is met only if it is one on a host of the zone, of the right tenant and agent, and there at all.
func TestCallsOnInstances(t *testing.T) {
	w := newWorld(t)
	w.form = api.FormNewest
	w.host("h1", 4)
	for name, c := range map[string]struct {
		change         func(i *api.Instance)
		reports, hosts bool
		power, attach  api.Code // refusals
	}{
		"active":       {nil, true, true, "", ""},
		"gone":         {func(i *api.Instance) { i.Status = api.StatusDeleted }, false, false, api.CodeNotFound, api.CodeNotFound},
		"below":        {func(i *api.Instance) { i.Host = "" }, false, false, api.CodeNotFound, api.CodeNotFound},
		"a slot":       {func(i *api.Instance) { i.Reserved = true }, true, true, api.CodeNotFound, api.CodeNotFound},
		"a volume":     {func(i *api.Instance) { i.Volume = "fast" }, true, true, api.CodeConflict, api.CodeNotFound},
		"being ended":  {func(i *api.Instance) { i.Status = api.StatusDeleting }, true, true, api.CodeConflict, api.CodeConflict},
		"another's":    {func(i *api.Instance) { i.Project = "q" }, true, false, "", api.CodeNotFound},
		"on its way":   {func(i *api.Instance) { i.Target = "h2" }, true, true, "", api.CodeConflict},
		"unknown host": {func(i *api.Instance) { i.Host = "h9" }, false, true, "", api.CodeConflict},
	} {
		i := anInstance(func(i *api.Instance) {
			i.ID, i.Project, i.Volume, i.Volumes, i.Attached = "a", "p", "", nil, ""
			if c.change != nil {
				c.change(i)
			}
		})
		vol := anInstance(func(i *api.Instance) { i.ID, i.Project, i.Volume, i.Attached = "v", "p", "fast", "" })
		w.s.instances.Set("a", i)
		w.s.instances.Set("v", vol)
		report := api.InstanceReport{Host: "h1", Instance: "a", Status: api.StatusActive}
		assert.Equal(t, c.reports, w.s.TakesReport("a1", &report), name)
		assert.False(t, w.s.TakesReport("a2", &report), name)
		_, ok := w.s.HostOf(api.Tenant{Project: "p"}, "a")
		assert.Equal(t, c.hosts, ok, name)
		assert.Equal(t, c.power, api.CodeOf(w.s.instancePower(command.InstancePower{ID: "a", Order: api.PowerStop, Run: i.Run()}).Err), name)
		w.s.instances.Set("a", i)
		if r := w.s.volumeAttach(command.VolumeAttach{Volume: "v", Instance: "a"}); name != "active" {
			assert.Equal(t, c.attach, api.CodeOf(r.Err), name)
		}
		if name != "active" {
			continue
		}
		for stay, ok := range map[uint64]bool{0: true, i.Stay(): true, i.Stay() + 1: false} {
			report.Stay = stay
			assert.Equal(t, ok, w.s.TakesReport("a1", &report), "stay %d", stay)
		}
		other := report
		other.Stay, other.Host = 0, "h2"
		assert.False(t, w.s.TakesReport("a1", &other), "another host")
		other.Host, other.Instance = "h1", "none"
		assert.False(t, w.s.TakesReport("a1", &other), "no such instance")
		assert.Equal(t, api.CodeInvalid, api.CodeOf(w.s.instancePower(command.InstancePower{ID: "a", Order: "dance"}).Err))
		assert.Equal(t, api.CodeInvalid, api.CodeOf(w.s.instancePower(command.InstancePower{ID: "a", Order: api.PowerStop, Run: i.Run() + 2}).Err))
	}
}

// TestJoinTokensAreChecked: each condition alone refuses, and all refusals are the same.
func TestJoinTokensAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		token func(t *api.JoinToken)
		use   func(c *command.JoinUse)
		ok    bool
	}{
		"good":         {nil, nil, true},
		"used":         {func(t *api.JoinToken) { t.Used, t.By = true, []byte("other") }, nil, false},
		"used by it":   {func(t *api.JoinToken) { t.Used, t.By = true, []byte("key") }, nil, true},
		"other kind":   {nil, func(c *command.JoinUse) { c.Want = api.JoinAgent }, false},
		"unknown":      {nil, func(c *command.JoinUse) { c.ID = "other" }, false},
		"another hash": {nil, func(c *command.JoinUse) { c.Hash = []byte("hush") }, false},
		"at its end":   {func(t *api.JoinToken) { t.Expires = start + 1000 }, nil, false},
		"just before":  {func(t *api.JoinToken) { t.Expires = start + 1001 }, nil, true},
	} {
		w := newWorld(t)
		w.form = api.FormNewest
		token := api.JoinToken{ID: "j", Hash: []byte("hash"), Kind: api.JoinNode, Name: "n2", Expires: api.Forever}
		if c.token != nil {
			c.token(&token)
		}
		w.s.joins.Set("j", &token)
		use := command.JoinUse{Stamp: command.Stamp{At: start + 1000}, ID: "j", Hash: []byte("hash"), Want: api.JoinNode, By: []byte("key")}
		if c.use != nil {
			c.use(&use)
		}
		w.s.now, w.s.limits = start+1000, limitsAt(api.FormNewest)
		r := w.s.joinUse(use)
		assert.Equal(t, c.ok, r.Err == nil, "%s: %v", name, r.Err)
		if !c.ok {
			assert.Equal(t, api.CodeUnauthenticated, api.CodeOf(r.Err), name)
		}
	}
	for name, c := range map[string]struct {
		kind  api.JoinKind
		terms api.AgentTerms
		ok    bool
	}{
		"agent":         {api.JoinAgent, api.AgentTerms{HostPrefix: strings.Repeat("p", api.NameMaxBytes)}, true},
		"node":          {api.JoinNode, api.AgentTerms{HostPrefix: "p"}, false},
		"long prefix":   {api.JoinAgent, api.AgentTerms{HostPrefix: strings.Repeat("p", api.NameMaxBytes+1)}, false},
		"hosts":         {api.JoinAgent, api.AgentTerms{HostsMax: -1}, false},
		"capacity":      {api.JoinAgent, api.AgentTerms{HostCapacity: api.Resources{api.VCPU: -1}}, false},
		"some capacity": {api.JoinAgent, api.AgentTerms{HostCapacity: api.Resources{api.VCPU: 1}}, true},
	} {
		w := newWorld(t)
		w.s.limits = limitsAt(api.FormNewest)
		r := w.s.joinPut(command.JoinPut{Token: api.JoinToken{ID: "j", Kind: c.kind, Terms: &c.terms}})
		assert.Equal(t, c.ok, r.Err == nil, "%s: %v", name, r.Err)
	}
}
