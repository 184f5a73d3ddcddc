package reservation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// noon is the time of these tests: half a minute after twelve.
var noon = api.InstantOf(time.Date(2030, 6, 1, 12, 0, 30, 0, time.UTC))

func at(hour, minute int) api.Instant {
	return api.InstantOf(time.Date(2030, 6, 2, hour, minute, 0, 0, time.UTC))
}

// tester is a reader of bodies with one flavor.
func tester() *terms {
	small := &api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 512}, ExtraSpecs: map[string]string{"trait:SSD": "required"}}
	return &terms{
		now: noon, beforeEnd: api.DefaultBeforeEnd, flavor: func(id api.FlavorID) (*api.Flavor, bool) { return small, id == small.ID },
		unknownZone: func([]string) string { return "" },
	}
}

// object reads JSON as a body is read.
func object(tb testing.TB, text string) map[string]any {
	tb.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out map[string]any
	require.NoError(tb, d.Decode(&out), text)
	return out
}

// with returns the body of a new lease on the next day, from ten to twelve, with more
// fields in front.
func with(more string) string {
	return `{` + more + `"name": "a", "start_date": "2030-06-02 10:00", "end_date": "2030-06-02 12:00"}`
}

func TestALease(t *testing.T) {
	yes := true
	for _, c := range []struct {
		more string
		want api.LeaseTerms
	}{
		{``, api.LeaseTerms{BeforeEnd: at(11, 0)}},
		{`"events": [], "reservations": [], "before_end_date": null, `, api.LeaseTerms{BeforeEnd: at(11, 0)}},
		{`"events": null, "reservations": null, "zones": null, `, api.LeaseTerms{BeforeEnd: at(11, 0)}},
		{`"before_end_date": "2030-06-02 11:15", `, api.LeaseTerms{BeforeEnd: at(11, 15)}},
		{`"shared_with": ["q", "b", "q"], "zones": ["east"], `, api.LeaseTerms{
			BeforeEnd: at(11, 0), Shared: []api.ProjectID{"b", "q"}, Zones: api.ZoneRule{Allowed: []string{"east"}},
		}},
		{
			`"reservations": [{"resource_type": "physical:host", "min": 1, "max": "2", "hypervisor_properties": "", "resource_properties": "[\"=\", \"$gpu\", \"A\"]"}], `,
			api.LeaseTerms{BeforeEnd: at(11, 0), Reservations: []api.Reservation{{
				Type: api.ReserveHosts, Min: 1, Max: 2, ResourceProperties: `["=", "$gpu", "A"]`, Query: `["=","$attributes.gpu","A"]`, BeforeEnd: "default",
			}}},
		},
		{
			`"reservations": [{"resource_type": "physical:host", "min": 2, "max": 2, "hypervisor_properties": [">=", "$vcpus", "4"], "before_end": ""}], `,
			api.LeaseTerms{BeforeEnd: at(11, 0), Reservations: []api.Reservation{{
				Type: api.ReserveHosts, Min: 2, Max: 2, HypervisorProperties: `[">=","$vcpus","4"]`, Query: `[">=","$vcpus_total",4]`,
			}}},
		},
		{
			`"reservations": [{"resource_type": "virtual:instance", "vcpus": 1, "memory_mb": "2", "disk_gb": 0, "amount": 3, "affinity": "True", "resource_properties": ""}], `,
			api.LeaseTerms{BeforeEnd: at(11, 0), Reservations: []api.Reservation{{
				Type: api.ReserveInstances, Min: 3, Max: 3, Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 2}, Affinity: &yes,
			}}},
		},
		{
			`"reservations": [{"resource_type": "flavor:instance", "flavor_id": "small", "amount": 3, "affinity": null}], `,
			api.LeaseTerms{BeforeEnd: at(11, 0), Reservations: []api.Reservation{{
				Type: api.ReserveFlavor, Min: 3, Max: 3, Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 512}, Flavor: "small",
				ExtraSpecs: map[string]string{"trait:SSD": "required"}, Traits: api.Traits{Required: []string{"SSD"}},
			}}},
		},
	} {
		got, err := tester().readLease(object(t, with(c.more)))
		require.NoError(t, err, c.more)
		c.want.Name, c.want.Window = "a", api.Window{Start: at(10, 0), End: at(12, 0)}
		assert.Equal(t, c.want, got, c.more)
	}
}

func TestNowIsThisMinute(t *testing.T) {
	got, err := tester().readLease(object(t, `{"name": "", "start_date": "now", "end_date": "2030-06-01 12:31"}`))
	require.NoError(t, err)
	assert.Equal(t, noon-30_000, got.Window.Start)
	assert.Equal(t, got.Window.Start, got.BeforeEnd, "a short lease has its event at the start")
	s := tester()
	s.beforeEnd = 0
	got, err = s.readLease(object(t, with("")))
	require.NoError(t, err)
	assert.Zero(t, got.BeforeEnd)
}

// The values of affinity that the stock client and others send.
func TestAffinity(t *testing.T) {
	for text, want := range map[string]string{
		`true`: "true", `"True"`: "true", `"TRUE"`: "true", `false`: "false", `"false"`: "false",
		`"None"`: "null", `"null"`: "null", `null`: "null", `""`: "null",
	} {
		got, err := tester().readLease(object(t, with(instances(`"affinity": `+text))))
		require.NoError(t, err, text)
		b, err := json.Marshal(got.Reservations[0].Affinity)
		require.NoError(t, err)
		assert.Equal(t, want, string(b), text)
	}
	got, err := tester().readLease(object(t, with(instances(``))))
	require.NoError(t, err)
	assert.Nil(t, got.Reservations[0].Affinity, "it may be left out")
	for _, text := range []string{`"maybe"`, `2`, `[]`, `{}`, `"yes"`} {
		_, err := tester().readLease(object(t, with(instances(`"affinity": `+text))))
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), text)
	}
}

// instances returns a reservation of instances in which one field is replaced or added.
func instances(field string) string {
	fields := map[string]string{"resource_type": `"virtual:instance"`, "vcpus": `1`, "memory_mb": `2`, "disk_gb": `3`, "amount": `4`}
	return reservationOf(fields, field)
}

// hosts is instances for whole hosts.
func hosts(field string) string {
	return reservationOf(map[string]string{"resource_type": `"physical:host"`, "min": `1`, "max": `2`}, field)
}

func reservationOf(fields map[string]string, field string) string {
	if name, value, ok := strings.Cut(field, ": "); ok {
		fields[strings.Trim(name, `"`)] = value
	}
	var b bytes.Buffer
	for name, value := range fields {
		if value != "MISSING" {
			fmt.Fprintf(&b, ", %q: %s", name, value)
		}
	}
	return `"reservations": [{` + strings.TrimPrefix(b.String(), ", ") + `}], `
}

func TestLeasesThatNobodyCanHave(t *testing.T) {
	long := strings.Repeat("x", api.LeaseNameMax)
	for body, want := range map[string]string{
		`{}`:            "Missing parameter name, start_date, end_date",
		`{"name": "a"}`: "Missing parameter start_date, end_date",
		`{"name": "a", "start_date": "2030-06-02 10:00"}`:                                    "Missing parameter end_date",
		`{"name": "a", "start_date": "2030-06-02 10:00", "end_date": "2030-06-02 09:00"}`:    "End date must be later than start date.",
		`{"name": "a", "start_date": "2030-06-02 10:00", "end_date": "2030-06-02 10:00"}`:    "End date must be later than start date.",
		`{"name": "a", "start_date": "2050-01-01 10:00:00", "end_date": "2050-01-01 10:00"}`: "2050-01-01 10:00:00 is an invalid date. Required format: %Y-%m-%d %H:%M",
		`{"name": "a", "start_date": "2050-01-01T10:00", "end_date": "2050-01-01 10:00"}`:    "2050-01-01T10:00 is an invalid date",
		`{"name": "a", "start_date": "Bogus", "end_date": "2050-01-01 10:00"}`:               "Bogus is an invalid date",
		`{"name": "a", "start_date": "2050-13-01 10:00", "end_date": "2050-01-01 10:00"}`:    "is an invalid date",
		`{"name": "a", "start_date": "2050-01-01 1:000", "end_date": "2050-01-01 10:00"}`:    "is an invalid date",
		`{"name": "a", "start_date": "0001-01-01 10:00", "end_date": "2050-01-01 10:00"}`:    "is an invalid date",
		`{"name": "a", "start_date": null, "end_date": "2050-01-01 10:00"}`:                  "None is an invalid date",
		`{"name": "a", "start_date": 5, "end_date": "2050-01-01 10:00"}`:                     "5 is an invalid date",
		`{"name": "a", "start_date": "now", "end_date": ["now"]}`:                            `["now"] is an invalid date`,
		`{"name": "` + long + `x", "start_date": "now", "end_date": "now"}`:                  "a text of at most 80 characters",
		`{"name": null, "start_date": "now", "end_date": "2050-01-01 10:00"}`:                "Malformed parameter name",
		with(`"project_id": "q", `):                                         "Unknown parameter 'project_id'",
		with(`"user_id": "q", "degraded": true, `):                          "Unknown parameter 'degraded', 'user_id'",
		with(`"events": [{}], `):                                            "events cannot be set",
		with(`"events": {}, `):                                              "Malformed parameter events",
		with(`"before_end_date": "now", `):                                  "before_end_date must be",
		with(`"before_end_date": "2030-06-02 12:00", `):                     "before_end_date must be",
		with(`"before_end_date": "soon", `):                                 "soon is an invalid date",
		with(`"shared_with": "q", `):                                        "Malformed parameter shared_with",
		with(`"shared_with": [""], `):                                       "Malformed parameter shared_with",
		with(`"shared_with": ["a b"], `):                                    "Malformed parameter shared_with",
		with(`"zones": ["a/b"], `):                                          "Malformed parameter zones",
		with(`"zones": [], `):                                               "zones: an empty list names no zone; leave the field out for all zones",
		with(`"maintenance_hosts": [], `):                                   "maintenance_hosts: an empty list names no host; leave the field out for a lease without maintenance",
		with(`"maintenance_hosts": null, `):                                 "maintenance_hosts: an empty list names no host",
		with(`"maintenance_hosts": [], ` + hosts(`"min": 1`)):               "maintenance_hosts: an empty list names no host",
		with(`"grace": "1h1ms", `):                                          "Malformed parameter grace: it must be a duration such as 5m",
		with(`"grace": "soon", `):                                           "Malformed parameter grace",
		with(`"share_idle": 1, `):                                           "Malformed parameter share_idle",
		with(`"reservations": {}, `):                                        "Malformed parameter reservations",
		with(`"reservations": [1], `):                                       "a list of objects",
		with(`"reservations": [{}], `):                                      "Missing parameter resource_type in reservations[0]",
		with(`"reservations": [{"resource_type": "virtual:floatingip"}], `): "The resource type 'virtual:floatingip' is not supported",
		with(hosts(`"min": MISSING`)):                                       "Missing parameter min",
		with(hosts(`"min": "a"`)):                                           "Malformed parameter min",
		with(hosts(`"min": 0`)):                                             "a whole number from 1 to 10000, not 0",
		with(hosts(`"max": 10001`)):                                         "a whole number from 1 to 10000, not 10001",
		with(hosts(`"min": 3`)):                                             "max must not be below min",
		with(hosts(`"vcpus": 3`)):                                           "Unknown parameter in reservations[0] 'vcpus'",
		with(hosts(`"id": "r"`)):                                            "Unknown parameter in reservations[0] 'id'",
		with(hosts(`"before_end": "email"`)):                                "Malformed parameter before_end",
		with(hosts(`"resource_properties": "nonsense"`)):                    "Malformed requirements nonsense",
		with(hosts(`"hypervisor_properties": ["and"]`)):                     "Malformed requirements",
		with(hosts(`"hypervisor_properties": {}`)):                          "Malformed requirements",
		with(instances(`"hypervisor_properties": ""`)):                      "Unknown parameter",
		with(instances(`"resource_properties": ["==","gpu","x"]`)):          "Malformed requirements",
		with(instances(`"amount": 0`)):                                      "Malformed parameter amount",
		with(instances(`"amount": -1`)):                                     "Malformed parameter amount",
		with(instances(`"amount": "x"`)):                                    "Malformed parameter amount",
		with(instances(`"amount": null`)):                                   "Malformed parameter amount",
		with(instances(`"amount": 2147483648`)):                             "Malformed parameter amount",
		with(instances(`"amount": MISSING`)):                                "Missing parameter amount",
		with(instances(`"vcpus": -1`)):                                      "Malformed parameter vcpus",
		with(instances(`"vcpus": 1.5`)):                                     "Malformed parameter vcpus",
		with(instances(`"vcpus": "x"`)):                                     "Malformed parameter vcpus",
		with(instances(`"vcpus": 0`)):                                       "Malformed parameter vcpus",
		with(instances(`"vcpus": true`)):                                    "Malformed parameter vcpus",
		with(instances(`"vcpus": MISSING`)):                                 "Missing parameter vcpus",
		with(instances(`"memory_mb": 99999999999999999999`)):                "Malformed parameter memory_mb",
		with(instances(`"disk_gb": "+1"`)):                                  "Malformed parameter disk_gb",
		with(reservationOf(map[string]string{"resource_type": `"flavor:instance"`, "flavor_id": `"large"`, "amount": "1"}, "")): "There is no flavor 'large'",
	} {
		_, err := tester().readLease(object(t, body))
		want403 := strings.HasPrefix(want, "before_end_date")
		assert.Equal(t, map[bool]api.Code{true: api.CodeForbidden, false: api.CodeInvalid}[want403], api.CodeOf(err), body)
		assert.Contains(t, api.MessageOf(err), want, body)
	}
	_, err := tester().readLease(object(t, with(reservationOf(map[string]string{
		"resource_type": `"flavor:instance"`, "flavor_id": `"small"`, "amount": "1", "affinity": "true",
	}, ""))))
	assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	_, err = tester().readLease(object(t, strings.Replace(with(""), `"a"`, `"`+long+`"`, 1)))
	require.NoError(t, err)
}

// TestNumbersOfThings: as many as there may be, and one more.
func TestNumbersOfThings(t *testing.T) {
	for field, most := range map[string]int{"reservations": api.ReservationsMax, "shared_with": api.SharedProjectsMax, "zones": api.ZoneNamesMax, "maintenance_hosts": api.MaintenanceMax} {
		item := map[string]string{"reservations": `{"resource_type": "physical:host", "min": 1, "max": 1}`, "shared_with": `"p"`, "zones": `"z"`, "maintenance_hosts": `"h"`}[field]
		list := func(n int) string {
			return with(`"` + field + `": [` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `], `)
		}
		_, err := tester().readLease(object(t, list(most)))
		require.NoError(t, err, field)
		_, err = tester().readLease(object(t, list(most+1)))
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), field)
	}
	long := func(n int) string {
		return with(hosts(`"resource_properties": "[` + strings.Repeat(" ", n-2) + `]"`))
	}
	_, err := tester().readLease(object(t, long(api.PropertiesMaxBytes)))
	require.NoError(t, err)
	_, err = tester().readLease(object(t, long(api.PropertiesMaxBytes+1)))
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
}

// standing is a lease with a reservation of each type.
func standing() *api.LeaseTerms {
	return &api.LeaseTerms{
		ID: "l", Name: "a", Window: api.Window{Start: at(10, 0), End: at(12, 0)},
		Reservations: []api.Reservation{
			{ID: "h", Type: api.ReserveHosts, Min: 1, Max: 2, HypervisorProperties: `["==","$a","x"]`, ResourceProperties: `["==","$b","y"]`},
			{ID: "i", Type: api.ReserveInstances, Min: 2, Max: 2, Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 2, api.DiskGB: 3}},
			{ID: "f", Type: api.ReserveFlavor, Min: 2, Max: 2, Resources: api.Resources{api.VCPU: 1}, Flavor: "small"},
		},
	}
}

func TestChanges(t *testing.T) {
	name, start, end, three, host := "b", at(9, 0), rulesMinute(), 3, api.ReserveHosts
	text, both, before := `["==","$c","z"]`, `["and",["=","$attributes.a","x"],["=","$attributes.c","z"]]`, ""
	larger, smaller := api.Resources{api.VCPU: 3, api.MemoryMB: 2, api.DiskGB: 3}, api.Resources{api.VCPU: 1, api.MemoryMB: 2}
	var none *bool
	shared, nobody := []api.ProjectID{"b"}, []api.ProjectID(nil)
	for body, want := range map[string]api.LeaseChange{
		`{}`:            {},
		`{"name": "b"}`: {Name: &name},
		`{"start_date": "2030-06-02 09:00", "end_date": "now"}`:       {Start: &start, End: &end},
		`{"before_end_date": null, "events": [], "reservations": []}`: {},
		`{"before_end_date": "2030-06-02 09:00"}`:                     {BeforeEnd: &start},
		`{"shared_with": ["b"]}`:                                      {Shared: &shared},
		`{"shared_with": []}`:                                         {Shared: &nobody},
		`{"reservations": [{"id": "h", "resource_type": "physical:host", "min": 3, "max": "3", "before_end": ""}]}`: {
			Reservations: []api.ReservationChange{{ID: "h", Type: &host, Min: &three, Max: &three, BeforeEnd: &before}},
		},
		`{"reservations": [{"id": "h", "resource_properties": "[\"==\",\"$c\",\"z\"]"}]}`: {
			Reservations: []api.ReservationChange{{ID: "h", ResourceProperties: &text, Query: &both}},
		},
		`{"reservations": [{"id": "i", "amount": 3}]}`: {Reservations: []api.ReservationChange{{ID: "i", Min: &three, Max: &three}}},
		`{"reservations": [{"id": "i", "vcpus": 3, "affinity": null}]}`: {
			Reservations: []api.ReservationChange{{ID: "i", Resources: &larger, Affinity: &none}},
		},
		`{"reservations": [{"id": "i", "disk_gb": 0}, {"id": "h"}]}`: {
			Reservations: []api.ReservationChange{{ID: "i", Resources: &smaller}, {ID: "h"}},
		},
	} {
		got, err := tester().readChange(object(t, body), standing())
		require.NoError(t, err, body)
		assert.Equal(t, &want, got, body)
	}
}

func rulesMinute() api.Instant { return noon - 30_000 }

func TestChangesThatNobodyCanMake(t *testing.T) {
	for body, code := range map[string]api.Code{
		`{"project_id": "q"}`:                                               api.CodeInvalid,
		`{"status": "ACTIVE"}`:                                              api.CodeInvalid,
		`{"name": 5}`:                                                       api.CodeInvalid,
		`{"start_date": null}`:                                              api.CodeInvalid,
		`{"reservations": [{"amount": 3}]}`:                                 api.CodeInvalid,
		`{"reservations": [{"id": 5}]}`:                                     api.CodeInvalid,
		`{"reservations": [{"id": "x"}]}`:                                   api.CodeInvalid,
		`{"reservations": [{"id": "h"}, {"id": "h"}]}`:                      api.CodeInvalid,
		`{"reservations": [{"id": "h", "amount": 3}]}`:                      api.CodeInvalid,
		`{"reservations": [{"id": "h", "min": 0}]}`:                         api.CodeInvalid,
		`{"reservations": [{"id": "h", "min": 3, "max": 2}]}`:               api.CodeInvalid,
		`{"reservations": [{"id": "i", "min": 3}]}`:                         api.CodeInvalid,
		`{"reservations": [{"id": "i", "amount": 0}]}`:                      api.CodeInvalid,
		`{"reservations": [{"id": "i", "resource_properties": "x"}]}`:       api.CodeInvalid,
		`{"reservations": [{"id": "i", "resource_type": "physical:host"}]}`: api.CodeConflict,
		`{"reservations": [{"id": "f", "amount": 3}]}`:                      api.CodeConflict,
	} {
		_, err := tester().readChange(object(t, body), standing())
		assert.Equal(t, code, api.CodeOf(err), body)
	}
}

// FuzzBodies: whatever a body has, it becomes terms or a refusal of the caller.
func FuzzBodies(f *testing.F) {
	f.Add(with(hosts(`"min": 1`)))
	f.Add(with(instances(`"affinity": "True"`)))
	f.Add(`{"reservations": [{"id": "i", "vcpus": 3, "resource_properties": ["!=", "$a", "1"]}], "end_date": "now", "shared_with": ["a"]}`)
	f.Add(`{"gpu": "A", "ram": 9, "old": null}`)
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var body map[string]any
		if d.Decode(&body) != nil {
			return
		}
		mine := func(err error) {
			if err != nil {
				require.Contains(t, []api.Code{api.CodeInvalid, api.CodeForbidden, api.CodeConflict}, api.CodeOf(err), err)
			}
		}
		_, err := tester().readLease(body)
		mine(err)
		_, err = tester().readChange(body, standing())
		mine(err)
		_, _, err = readNewHost(body)
		mine(err)
	})
}
