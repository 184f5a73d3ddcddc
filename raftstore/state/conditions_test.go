package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/filled"
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
