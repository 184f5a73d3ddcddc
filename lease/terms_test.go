package lease_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/lease"
)

// goodTerms returns terms with a reservation of each type, that may be made at 09:00:30.
func goodTerms(t *testing.T) *api.LeaseTerms {
	t.Helper()
	small := api.Resources{api.VCPU: 1, api.MemoryMB: 512}
	return &api.LeaseTerms{
		ID: "lease", Name: "training", Project: "astro", Window: over(t, "10:00", "12:00"), BeforeEnd: at(t, "11:00"),
		Reservations: []api.Reservation{
			{ID: "hosts", Type: api.ReserveHosts, Min: 1, Max: 2, BeforeEnd: api.BeforeEndDefault, HypervisorProperties: `["=","$gpu","A"]`},
			{ID: "slots", Type: api.ReserveInstances, Min: 4, Max: 4, Resources: small, Affinity: new(true)},
			{ID: "flavored", Type: api.ReserveFlavor, Min: 1, Max: 1, Resources: api.Resources{"VGPU": 1}, Flavor: "m1"},
		},
	}
}

func TestCheckTerms(t *testing.T) {
	invalid, forbidden := api.CodeInvalid, api.CodeForbidden
	for _, c := range []struct {
		name   string
		change func(*api.LeaseTerms)
		code   api.Code
		says   string
	}{
		{"as it is", func(*api.LeaseTerms) {}, "", ""},
		{"no name", func(l *api.LeaseTerms) { l.Name = "" }, "", ""},
		{"longest name", func(l *api.LeaseTerms) { l.Name = strings.Repeat("ä", api.LeaseNameMax) }, "", ""},
		{"name too long", func(l *api.LeaseTerms) { l.Name = strings.Repeat("ä", api.LeaseNameMax+1) }, invalid, "at most 80 characters"},
		{"name with a newline", func(l *api.LeaseTerms) { l.Name = "a\nb" }, invalid, "control characters"},
		{"name with a mark of direction", func(l *api.LeaseTerms) { l.Name = "a\u202eb" }, invalid, "marks of direction"},
		{"name with what is not seen", func(l *api.LeaseTerms) { l.Name = "a\u200bb" }, invalid, "marks of direction"},
		{"name with a separator of lines", func(l *api.LeaseTerms) { l.Name = "a\u2028b" }, invalid, "marks of direction"},
		{"name that is no text", func(l *api.LeaseTerms) { l.Name = "\xff" }, invalid, "plain text"},
		{"starts this minute", func(l *api.LeaseTerms) { l.Window.Start = at(t, "09:00") }, "", ""},
		{"starts before this minute", func(l *api.LeaseTerms) { l.Window.Start = at(t, "09:00") - 1 }, invalid, "Start date must be later than current date"},
		{"starts at the limit", func(l *api.LeaseTerms) { *l = moved(l, at(t, "09:00:30").Add(48*time.Hour)) }, "", ""},
		{"starts beyond the limit", func(l *api.LeaseTerms) { *l = moved(l, at(t, "09:00:30").Add(48*time.Hour)+1) }, invalid, "within 2 days"},
		{"ends at its start", func(l *api.LeaseTerms) { l.Window.End = l.Window.Start }, invalid, "End date must be later than start date."},
		{"ends before its start", func(l *api.LeaseTerms) { l.Window.End = at(t, "09:30") }, invalid, "End date must be later than start date."},
		{"does not end", func(l *api.LeaseTerms) { l.Window.End = api.Forever }, invalid, "needs an end"},
		{"lasts as long as possible", func(l *api.LeaseTerms) { l.Window.End = at(t, "13:00") }, "", ""},
		{"lasts longer", func(l *api.LeaseTerms) { l.Window.End = at(t, "13:00") + 1 }, invalid, "at most 3h0m0s"},
		{"no event before the end", func(l *api.LeaseTerms) { l.BeforeEnd = 0 }, "", ""},
		{"event at the start", func(l *api.LeaseTerms) { l.BeforeEnd = l.Window.Start }, "", ""},
		{"event before the start", func(l *api.LeaseTerms) { l.BeforeEnd = l.Window.Start - 1 }, forbidden, "before_end_date"},
		{"event at the end", func(l *api.LeaseTerms) { l.BeforeEnd = l.Window.End }, forbidden, "before_end_date"},
		{"shared", func(l *api.LeaseTerms) { l.Shared = []api.ProjectID{"bio", "chem"} }, "", ""},
		{"shared with all it may", func(l *api.LeaseTerms) { l.Shared = projects(api.SharedProjectsMax) }, "", ""},
		{"shared with one more", func(l *api.LeaseTerms) { l.Shared = projects(api.SharedProjectsMax + 1) }, invalid, "at most 64 projects"},
		{"shared twice", func(l *api.LeaseTerms) { l.Shared = []api.ProjectID{"bio", "bio"} }, invalid, "each once"},
		{"shared with itself", func(l *api.LeaseTerms) { l.Shared = []api.ProjectID{"astro"} }, invalid, "own project"},
		{"shared with no name", func(l *api.LeaseTerms) { l.Shared = []api.ProjectID{""} }, invalid, "shared project"},
		{"no reservations", func(l *api.LeaseTerms) { l.Reservations = nil }, "", ""},
		{"as many reservations as possible", func(l *api.LeaseTerms) { l.Reservations = many(api.ReservationsMax) }, "", ""},
		{"one more", func(l *api.LeaseTerms) { l.Reservations = many(api.ReservationsMax + 1) }, invalid, "at most 16 reservations"},
		{"one id twice", func(l *api.LeaseTerms) { l.Reservations[1].ID = "hosts" }, invalid, `reservation 2: id "hosts" is there twice`},
		{"no ids yet", func(l *api.LeaseTerms) { l.Reservations[0].ID, l.Reservations[1].ID = "", "" }, "", ""},
		{"bad id", func(l *api.LeaseTerms) { l.Reservations[1].ID = "a b" }, invalid, "reservation 2: id"},
		{"as many slots as possible in all", func(l *api.LeaseTerms) { l.Reservations[0].Max = api.CountMax - 5 }, "", ""},
		{"one more slot", func(l *api.LeaseTerms) { l.Reservations[0].Max = api.CountMax - 4 }, invalid, "at most 10000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			terms := goodTerms(t)
			c.change(terms)
			err := lease.CheckTerms(terms, at(t, "09:00:30"), lease.Limits{Duration: 3 * time.Hour, Lead: 48 * time.Hour})
			checkRefusal(t, err, c.code, c.says)
		})
	}
}

// checkRefusal checks the code of err, and that its sentence has some words.
func checkRefusal(t *testing.T, err error, code api.Code, says string) {
	t.Helper()
	require.Equal(t, code, api.CodeOf(err), "%v", err)
	if err != nil {
		assert.Contains(t, api.MessageOf(err), says)
	}
}

// moved returns terms that start at another time and last as long.
func moved(l *api.LeaseTerms, start api.Instant) api.LeaseTerms {
	out := *l
	by := start - l.Window.Start
	out.Window.Start += by
	out.Window.End += by
	out.BeforeEnd += by
	return out
}

func projects(n int) []api.ProjectID {
	var out []api.ProjectID
	for i := range n {
		out = append(out, api.ProjectID(fmt.Sprintf("p%03d", i)))
	}
	return out
}

func many(n int) []api.Reservation {
	var out []api.Reservation
	for i := range n {
		out = append(out, api.Reservation{ID: api.ReservationID(fmt.Sprintf("r%d", i)), Type: api.ReserveHosts, Min: 1, Max: 1})
	}
	return out
}

func TestLimitsOfAZoneStayWithinThoseOfAll(t *testing.T) {
	now := at(t, "09:00")
	for _, limits := range []lease.Limits{{}, {Duration: 2 * api.LeaseDurationMax, Lead: 2 * api.LeaseLeadMax}, {Duration: -1, Lead: -1}} {
		terms := api.LeaseTerms{Project: "astro", Window: api.Window{Start: now.Add(api.LeaseLeadMax)}}
		terms.Window.End = terms.Window.Start.Add(api.LeaseDurationMax)
		require.NoError(t, lease.CheckTerms(&terms, now, limits))
		terms.Window.End++
		checkRefusal(t, lease.CheckTerms(&terms, now, limits), api.CodeInvalid, "at most 3650 days")
		terms.Window.Start++
		checkRefusal(t, lease.CheckTerms(&terms, now, limits), api.CodeInvalid, "within 36500 days")
	}
}

func TestCheckReservation(t *testing.T) {
	hosts, slots, flavored := 0, 1, 2
	for _, c := range []struct {
		name   string
		of     int
		change func(*api.Reservation)
		says   string // "" if it is good
	}{
		{"unknown type", hosts, func(r *api.Reservation) { r.Type = "virtual:floatingip" }, "resource_type must be"},
		{"no type", hosts, func(r *api.Reservation) { r.Type = "" }, "resource_type must be"},
		{"min is 0", hosts, func(r *api.Reservation) { r.Min = 0 }, "min must be at least 1"},
		{"max below min", hosts, func(r *api.Reservation) { r.Min, r.Max = 2, 1 }, "max must be at least min"},
		{"max too large", hosts, func(r *api.Reservation) { r.Max = api.CountMax + 1 }, "max must be at most 10000"},
		{"hosts with sizes", hosts, func(r *api.Reservation) { r.Resources = api.Resources{api.VCPU: 1} }, "no sizes"},
		{"hosts with a flavor", hosts, func(r *api.Reservation) { r.Flavor = "m1" }, "no sizes"},
		{"hosts with affinity", hosts, func(r *api.Reservation) { r.Affinity = new(false) }, "no sizes"},
		{"two amounts", slots, func(r *api.Reservation) { r.Min = 1 }, "one amount"},
		{"amount 0", slots, func(r *api.Reservation) { r.Min, r.Max = 0, 0 }, "amount must be 1 to 10000, got 0"},
		{"amount -1", slots, func(r *api.Reservation) { r.Min, r.Max = -1, -1 }, "amount must be 1 to 10000, got -1"},
		{"amount too large", slots, func(r *api.Reservation) { r.Min, r.Max = api.CountMax+1, api.CountMax+1 }, "amount must be 1 to 10000"},
		{"largest amount of the original", slots, func(r *api.Reservation) { r.Min, r.Max = 1<<31-1, 1<<31-1 }, "amount must be 1 to 10000"},
		{"no disk", slots, func(r *api.Reservation) { r.Resources = api.Resources{api.VCPU: 1, api.MemoryMB: 1} }, ""},
		{"disk", slots, func(r *api.Reservation) { r.Resources = api.Resources{api.VCPU: 1, api.MemoryMB: 1, api.DiskGB: 1} }, ""},
		{"negative disk", slots, func(r *api.Reservation) { r.Resources = api.Resources{api.VCPU: 1, api.MemoryMB: 1, api.DiskGB: -1} }, "DISK_GB"},
		{"no vcpus", slots, func(r *api.Reservation) { r.Resources = api.Resources{api.MemoryMB: 1} }, "vcpus must be at least 1, got 0"},
		{"negative vcpus", slots, func(r *api.Reservation) { r.Resources = api.Resources{api.VCPU: -1, api.MemoryMB: 1} }, "vcpus must be at least 1, got -1"},
		{"no memory", slots, func(r *api.Reservation) { r.Resources = api.Resources{api.VCPU: 1} }, "memory_mb must be at least 1"},
		{"too much", slots, func(r *api.Reservation) { r.Resources = api.Resources{api.VCPU: api.AmountMax + 1, api.MemoryMB: 1} }, "VCPU"},
		{"no sizes", slots, func(r *api.Reservation) { r.Resources = nil }, "need sizes"},
		{"slots with a flavor", slots, func(r *api.Reservation) { r.Flavor = "m1" }, "a flavor is for"},
		{"slots with a host's condition", slots, func(r *api.Reservation) { r.HypervisorProperties = "[]" }, "hypervisor_properties"},
		{"no affinity", slots, func(r *api.Reservation) { r.Affinity = nil }, ""},
		{"no flavor", flavored, func(r *api.Reservation) { r.Flavor = "" }, "a flavor is for"},
		{"no sizes of a flavor", flavored, func(r *api.Reservation) { r.Resources = nil }, "need sizes"},
		{"nothing before the end", hosts, func(r *api.Reservation) { r.BeforeEnd = "" }, ""},
		{"snapshot before the end", hosts, func(r *api.Reservation) { r.BeforeEnd = "snapshot" }, ""},
		{"notify before the end", slots, func(r *api.Reservation) { r.BeforeEnd = "notify" }, ""},
		{"unknown before the end", hosts, func(r *api.Reservation) { r.BeforeEnd = "email" }, "before_end must be"},
		{"longest condition", slots, func(r *api.Reservation) { r.ResourceProperties = strings.Repeat(" ", api.PropertiesMaxBytes) }, ""},
		{"condition too long", slots, func(r *api.Reservation) { r.ResourceProperties = strings.Repeat(" ", api.PropertiesMaxBytes+1) }, "resource_properties must be at most"},
		{"other condition too long", hosts, func(r *api.Reservation) { r.HypervisorProperties = strings.Repeat(" ", api.PropertiesMaxBytes+1) }, "hypervisor_properties must be at most"},
		{"both conditions too long", hosts, func(r *api.Reservation) { r.Query = strings.Repeat(" ", api.PropertiesMaxBytes+1) }, "condition on hosts must be at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			terms := goodTerms(t)
			c.change(&terms.Reservations[c.of])
			err := lease.CheckTerms(terms, at(t, "09:00:30"), lease.Limits{})
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			checkRefusal(t, err, api.CodeInvalid, fmt.Sprintf("reservation %d: ", c.of+1))
			checkRefusal(t, err, api.CodeInvalid, c.says)
		})
	}
}

func TestMaintenance(t *testing.T) {
	terms := func(edit func(*api.LeaseTerms)) error {
		l := api.LeaseTerms{
			Project: "ops", Window: api.Window{Start: 60_000, End: 120_000}, Hosts: []string{"h1", "h2"},
			Reservations: []api.Reservation{{Type: api.ReserveHosts, Min: 2, Max: 2}},
		}
		edit(&l)
		return lease.CheckTerms(&l, 60_000, lease.Limits{})
	}
	named := func(n int) func(*api.LeaseTerms) {
		return func(l *api.LeaseTerms) {
			l.Hosts = nil
			for i := range n {
				l.Hosts = append(l.Hosts, fmt.Sprintf("h%d", i))
			}
			l.Reservations[0].Min, l.Reservations[0].Max = n, n
		}
	}
	require.NoError(t, terms(func(*api.LeaseTerms) {}))
	require.NoError(t, terms(named(api.MaintenanceMax)))
	for name, edit := range map[string]func(*api.LeaseTerms){
		"too many":       named(api.MaintenanceMax + 1),
		"twice":          func(l *api.LeaseTerms) { l.Hosts[1] = "h1" },
		"no name":        func(l *api.LeaseTerms) { l.Hosts[1] = "" },
		"fewer":          func(l *api.LeaseTerms) { l.Reservations[0].Min = 1 },
		"instances":      func(l *api.LeaseTerms) { l.Reservations[0].Type = api.ReserveInstances },
		"no reservation": func(l *api.LeaseTerms) { l.Reservations = nil },
		"shared":         func(l *api.LeaseTerms) { l.Shared = []api.ProjectID{"q"} },
		"zones":          func(l *api.LeaseTerms) { l.Zones.Allowed = []string{"west"} },
	} {
		assert.Equal(t, api.CodeInvalid, api.CodeOf(terms(edit)), name)
	}
}
