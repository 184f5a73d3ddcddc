package leases_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/filled"
	"berth/raftstore/state"
	"berth/zone/estimate"
	"berth/zone/leases"
)

// TestAnOrderHasWhatItsLeaseSays: nothing of the terms of a lease is missing in the order for its room. What is named here no lease has.
func TestAnOrderHasWhatItsLeaseSays(t *testing.T) {
	terms := filled.Of[api.LeaseTerms]()
	terms.Reservations[0].Type, terms.Reservations[0].Max = api.ReserveHosts, 2
	got, err := leases.OrderOf(&terms, "before")
	require.Error(t, err, "no lease has all of that")
	assert.Equal(t, []string{
		"Call", "Digest", "Fixed", "Key", "Metadata", "Refill", "Request.Attempt", "Request.Groups.AZ", "Request.Groups.AttachTo",
		"Request.Groups.Hints.DifferentHost", "Request.Groups.Hints.IgnoreHosts", "Request.Groups.Hints.Near", "Request.Groups.Hints.SameHost",
		"Request.Groups.Image.Properties", "Request.Groups.Image.Ref", "Request.Groups.Met", "Request.Groups.Volume", "Request.Lifetime",
		"Request.OnPreempt", "Request.Origin", "Request.Preempt", "Request.Rules.ID", "Request.Rules.Max", "Request.Rules.Pairs", "Request.Since",
		"Request.Way", "Request.Within", "Timeout",
	}, filled.Zero(got))
	r := terms.Reservations[0]
	assert.Equal(t, []any{r.Min, r.Max, string(r.ID)}, []any{got.Min, len(got.Instances), got.Request.Groups[0].Name})
	apart := false
	for _, c := range []struct {
		affinity *bool
		rules    []api.Rule
	}{
		{nil, nil},
		{terms.Reservations[0].Affinity, []api.Rule{{Policy: api.Affinity, Groups: []int{0}}}},
		{&apart, []api.Rule{{Policy: api.AntiAffinity, Groups: []int{0}, Max: 1}}},
	} {
		terms.Reservations[0].Affinity = c.affinity
		got, _ := leases.OrderOf(&terms, "")
		assert.Equal(t, c.rules, got.Request.Rules)
	}
	terms.Hosts, terms.Reservations[0].Type = nil, api.ReserveInstances
	got, _ = leases.OrderOf(&terms, "")
	assert.False(t, got.Request.Maintenance)
	assert.False(t, got.Request.Groups[0].Whole)
}

// TestDescribeAttempt: which reservations came out short, of what, and which filters turned hosts away in all zones.
func TestDescribeAttempt(t *testing.T) {
	req := &api.Request{Groups: []api.Group{{Min: 3}, {Min: 2, Whole: true}, {Min: 1}, {Min: 1}}}
	counts := func(name string, n int) []api.FilterCount { return []api.FilterCount{{Filter: name, Hosts: n}} }
	const from = api.Instant(1_700_000_000_000)
	a := &api.BootAttempt{
		Offered: []api.Offer{{Offered: 2}, {Offered: 1}, {Offered: 1}},
		Refusals: []api.Refusals{
			{Filters: counts("promised", 2), Limits: counts("capacity", 4), Promised: from}, {Filters: counts("capacity", 1), Limits: counts("capacity", 1), Promised: from},
			{Filters: counts("disabled", 1)},
		},
		Zones: []api.ZoneOutcome{
			{Refusals: []api.Refusals{{Filters: counts("promised", 3)}}},
			{Refusals: []api.Refusals{{Filters: counts("traits", 1)}, {Filters: counts("capacity", 5)}}},
		},
	}
	assert.Equal(t, "reservation 1 could have 2 of 3 slots (hosts turned away: promised 5 from 2023-11-14 22:13 UTC, traits 1; hosts that have no more: capacity 4); "+
		"reservation 2 could have 1 of 2 hosts (hosts turned away: capacity 6)", leases.DescribeAttempt(state.New(), req, a))
	a.Refusals, a.Zones = nil, nil
	assert.Equal(t, "reservation 1 could have 2 of 3 slots; reservation 2 could have 1 of 2 hosts", leases.DescribeAttempt(state.New(), req, a))
}

// TestIsWide: an order has more than its lease if it lasts longer, or one of its reservations has more.
func TestIsWide(t *testing.T) {
	order := func(end api.Instant, counts ...int) *state.Boot {
		b := &state.Boot{}
		b.Request.Window.End = end
		for _, n := range counts {
			b.Request.Groups = append(b.Request.Groups, api.Group{Count: n})
		}
		return b
	}
	terms := &api.LeaseTerms{Window: api.Window{End: 10}, Reservations: []api.Reservation{{Max: 1}, {Max: 2}}}
	for _, c := range []struct {
		order *state.Boot
		want  bool
	}{
		{order(10, 1, 2), false}, {order(9, 1, 2), false}, {order(11, 1, 2), true}, {order(10, 1, 3), true}, {order(10, 2, 2), true}, {order(10, 1), false}, {order(10), false},
	} {
		assert.Equal(t, c.want, leases.IsWide(c.order, terms), "%+v", c.order.Request)
	}
}

// TestCheckedPlaces: each host of the zone once, with what is known of it, and then each zone below.
func TestCheckedPlaces(t *testing.T) {
	s := state.New()
	s.Name = "here"
	below := []estimate.ZoneCount{{Zone: "kid", Slots: 3}}
	assert.Equal(t, []rest.CheckedPlace{{Zone: "kid", Amount: 3}}, leases.CheckedPlaces(s, &leases.PlannedReservation{Places: below}))
	r := &leases.PlannedReservation{Hosts: []api.HostID{"h1", "h2", "h1"}, Places: append([]estimate.ZoneCount{{Zone: "here", Slots: 3}}, below...)}
	assert.Equal(t, []rest.CheckedPlace{
		{ID: "h1", Zone: "here", Amount: 2}, {ID: "h2", Zone: "here", Amount: 1}, {Zone: "kid", Amount: 3},
	}, leases.CheckedPlaces(s, r))
}
