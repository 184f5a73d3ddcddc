package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/api/rest"
	"berth/internal/golden"
)

// leaseVerbs is every verb about leases, at least once.
var leaseVerbs = []string{
	"lease list",
	"lease list --status active --project p --no-headers",
	"lease show " + leaseID,
	"lease show nightly",
	"lease show nightly -o json",
	"lease create nightly --start 2030-06-02T10:00Z --for 2h --instances 3 --vcpus 2 --ram 2G --disk 10G --affinity false --key once",
	"lease create nightly --start 2030-06-02T12:00:00+02:00 --end 2030-06-02T12:00Z --instances 3 --flavor small --zone home --zone west --shared-with shop,web",
	`lease create nightly --start 2030-06-02T10:00Z --for 1d --hosts 1:2 --where ["==","$gpu","A"] --before-end -30m`,
	"lease create nightly --start 2030-06-02T10:00Z --for 2h --reservation type=virtual:instance,vcpus=2,memory-mb=2048,disk_gb=10,amount=3,affinity=none" +
		` --reservation type=physical:host,min=1,max=2,hypervisor-properties=["and",[">","$vcpus","4"],["==","$a,b","\"]"]],resource_properties=,before-end=notify` +
		" --reservation resource_type=flavor:instance,flavor_id=small,amount=1 --before-end 2030-06-02T11:00Z",
	"lease create class --start 2030-06-02T10:00Z --for 2h --instances 3 --flavor small --repeat FREQ=WEEKLY;COUNT=2 --time-zone Europe/Berlin",
	"lease create class --start 2030-06-02T10:00Z --for 2h --hosts 1 --repeat FREQ=DAILY;COUNT=2 -o json",
	"lease create nightly --start 2030-06-02T10:00Z --for 2h --hosts 1 --grace 5m --share-idle --reservation type=flavor:instance,flavor=small,amount=1,share-idle=false",
	"lease create repair --start 2030-06-02T10:00Z --for 2h --maintenance h1 --maintenance h2",
	"lease series list",
	"lease series show " + seriesID,
	"lease series show class",
	"lease series show unknown",
	"lease series delete class --yes",
	"lease update nightly --name weekly --prolong 2h --before-end -30m --instances 5 --shared-with shop --shared-with web",
	"lease update " + leaseID + " --start 2030-06-02T11:00Z --end 2030-06-02T13:00Z --before-end 2030-06-02T12:00Z --no-sharing --hosts 2:4",
	"lease update " + leaseID + " --prolong -90m --reservation id=" + reservationID + ",amount=5,affinity=none,resource-properties= --reservation id=other,min=1,max=3",
	"lease update " + leaseID + " --end now",
	"lease update " + leaseID + " --grace 0 --share-idle=false",
	"lease find --for 2h --hosts 2:4 --earliest 2030-06-02T10:00Z",
	"lease find --for 2h --hosts 2:4 --earliest 2030-06-02T10:00Z --no-headers",
	"lease find --for 90m --instances 3 --flavor small --earliest 2030-06-02T10:00Z --latest 2030-06-02T18:00Z --zone home --zone west",
	`lease find --for 1d --earliest 2030-06-02 --latest 2030-06-05 --instances 3 --vcpus 2 --ram 2G --affinity true --where ["==","$gpu","A"] --reservation type=physical:host,min=1,max=2 -o json`,
	"lease plan create nightly --start 2030-06-02T10:00Z --for 2h --instances 3 --flavor small --shared-with shop",
	"lease plan create nightly --start 2030-06-02T10:00Z --for 2h --hosts 1:4 -o json",
	"lease plan update nightly --prolong 2h",
	"lease plan update " + leaseID + " --name weekly -o json",
	"lease calendar --from 2030-06-01T08:30Z --for 1d",
	"lease calendar --from 2030-06-01 --status active",
	"lease calendar --from 2030-05-31 --to 2030-06-30T12:00Z --project q --width 120 --no-headers",
	"lease calendar --from 2030-06-02T09:00Z --for 3h -o json",
	"lease calendar --from 2040-01-01 --for 365d",
	"reservation show " + reservationID,
	"reservation show " + reservationID + " -o json",
	"reservation show 11111111-0000-4000-8000-000000000003",
	"reservation show 11111111-0000-4000-8000-000000000005",
	"lease delete " + leaseID + " --yes",
	"lease delete nightly " + leaseID + " --yes",
	"boot --within " + reservationID + " --name night --count 2 --no-wait",
	"boot --within nightly --name night --count 2 --no-wait",
	"boot --within single --name night --count 2 --no-wait",
	"boot --within unknown --name night",
	"boot --within later --name night",
	"boot --within hosts --name night",
	"boot --within hosts --flavor small --name night --no-wait",
	"boot --within " + reservationID + " --flavor small --name night --no-wait",
}

func TestLeaseVerbs(t *testing.T) {
	var b bytes.Buffer
	for _, line := range leaseVerbs {
		z := newFakeZone(t)
		if strings.HasPrefix(line, "lease update") { // with one reservation of each kind
			before, after, found := strings.Cut(cannedLease, ",\n\t\t\t{\"id\": \"11111111-0000-4000-8000-000000000004\"")
			require.True(t, found)
			_, after, found = strings.Cut(after, "],\n\t\t\"events\"")
			require.True(t, found)
			one := before + "],\n\t\t\"events\"" + after
			z.on("GET /reservation/v1/leases/"+leaseID, answer{status: http.StatusOK, body: `{"lease": ` + one + `}`})
		}
		if strings.HasPrefix(line, "lease delete nightly") {
			gone := answer{status: http.StatusNotFound, body: leaseRefusalOf(404, "Object not found")}
			there := answer{status: http.StatusOK, body: cannedLeases["GET /reservation/v1/leases/"+leaseID]}
			z.on("GET /reservation/v1/leases/"+leaseID, there, there, there, gone)
		}
		if strings.HasPrefix(line, "lease series delete") {
			there := answer{status: http.StatusOK, body: cannedLeases["GET /reservation/v1/series/"+seriesID]}
			z.on("GET /reservation/v1/series/"+seriesID, there, answer{status: http.StatusNotFound, body: leaseRefusalOf(404, "Object not found")})
		}
		r := z.berth(t.Context(), strings.Fields(line)...)
		record(&b, line, z.asked(""), r)
	}
	golden.Check(t, "testdata/leases.txt", b.Bytes())
}

// leaseRefusalOf returns a refusal in the shape of the reservation API.
func leaseRefusalOf(status int, message string) string {
	return `{"error_code": ` + strconv.Itoa(status) + `, "error_message": "` + message + `"}`
}

func statusOfLeases(route string) int {
	switch {
	case cannedLeases[route] == "":
		return http.StatusNoContent
	case strings.HasPrefix(route, http.MethodPost) && !strings.HasSuffix(route, "plan") && !strings.HasSuffix(route, "availability"):
		return http.StatusCreated
	}
	return http.StatusOK
}

const (
	seriesID      = "11111111-0000-4000-8000-000000000020"
	leaseID       = "11111111-0000-4000-8000-000000000001"
	reservationID = "11111111-0000-4000-8000-000000000002"

	cannedLease = `{"id": "` + leaseID + `", "name": "nightly", "user_id": "ada", "project_id": "p", "start_date": "2030-06-02T10:00:00.000000",
		"end_date": "2030-06-02T12:00:00.000000", "status": "ACTIVE", "status_reason": null, "degraded": true, "trust_id": null, "shared_with": ["shop"], "zones": ["home", "west"],
		"reservations": [
			{"id": "` + reservationID + `", "lease_id": "` + leaseID + `", "resource_id": "` + reservationID + `", "resource_type": "virtual:instance", "status": "active",
				"missing_resources": true, "resources_changed": true, "allocated": 2, "created_at": "2030-06-01 12:00:30", "updated_at": null, "resource_properties": "",
				"vcpus": 2, "memory_mb": 2048, "disk_gb": 10, "amount": 3, "affinity": false, "flavor_id": "` + reservationID + `", "server_group_id": null, "aggregate_id": null},
			{"id": "11111111-0000-4000-8000-000000000003", "lease_id": "` + leaseID + `", "resource_id": "11111111-0000-4000-8000-000000000003", "resource_type": "physical:host",
				"status": "active", "missing_resources": false, "resources_changed": false, "allocated": 1, "created_at": "2030-06-01 12:00:30", "updated_at": null,
				"resource_properties": "", "min": 1, "max": 2, "hypervisor_properties": "", "before_end": "default"},
			{"id": "11111111-0000-4000-8000-000000000004", "lease_id": "` + leaseID + `", "resource_id": "11111111-0000-4000-8000-000000000004", "resource_type": "flavor:instance",
				"status": "active", "missing_resources": false, "resources_changed": false, "allocated": 1, "created_at": "2030-06-01 12:00:30", "updated_at": null,
				"resource_properties": "{\"id\":\"small\",\"vcpus\":2,\"ram\":512,\"disk\":0,\"extra_specs\":{}}", "vcpus": 2, "memory_mb": 512, "disk_gb": 0, "amount": 1,
				"affinity": null, "flavor_id": "11111111-0000-4000-8000-000000000004", "server_group_id": null, "aggregate_id": null}],
		"events": [
			{"id": "e-1", "lease_id": "` + leaseID + `", "event_type": "start_lease", "time": "2030-06-02T10:00:00.000000", "status": "DONE", "created_at": "2030-06-01 12:00:30", "updated_at": "2030-06-02 10:00:00"},
			{"id": "e-2", "lease_id": "` + leaseID + `", "event_type": "before_end_lease", "time": "2030-06-02T11:00:00.000000", "status": "UNDONE", "created_at": "2030-06-01 12:00:30", "updated_at": null},
			{"id": "e-3", "lease_id": "` + leaseID + `", "event_type": "end_lease", "time": "2030-06-02T12:00:00.000000", "status": "UNDONE", "created_at": "2030-06-01 12:00:30", "updated_at": null}],
		"created_at": "2030-06-01 12:00:30", "updated_at": "2030-06-02 10:00:00"}`
	cannedSmallLease = `{"id": "11111111-0000-4000-8000-000000000009", "name": "early", "user_id": "bob", "project_id": "q", "start_date": "2030-06-01T10:00:00.000000",
		"end_date": "2030-06-04T22:30:12.345000", "status": "ERROR", "status_reason": "no room", "degraded": false, "trust_id": null, "shared_with": [], "zones": [],
		"reservations": [], "events": [], "created_at": "2030-06-01 09:00:00", "updated_at": null}`
)

const cannedSeries = `{"id": "` + seriesID + `", "name": "class", "user_id": "ada", "project_id": "p", "rule": "FREQ=WEEKLY;COUNT=2", "time_zone": "Europe/Berlin", "status": "READY",
	"leases": [{"id": "` + leaseID + `", "start_date": "2030-10-21T08:00:00.000000", "end_date": "2030-10-21T10:00:00.000000", "local_start": "2030-10-21T10:00:00+02:00", "status": "ACTIVE"},
		{"id": "11111111-0000-4000-8000-000000000021", "start_date": "2030-10-28T09:00:00.000000", "end_date": "2030-10-28T11:00:00.000000", "local_start": "2030-10-28T10:00:00+01:00", "status": "PENDING"}],
	"created_at": "2030-06-01 12:00:30"}`

const (
	cannedAvailability = `{"availability": {"earliest": "2030-06-02T11:00:00.000000", "reason": null, "windows": [
		{"start_date": "2030-06-02T11:00:00.000000", "end_date": "2030-06-02T11:01:00.000000"}, {"start_date": "2030-06-02T13:00:00.000000", "end_date": "2030-06-03T10:00:00.000000"}],
		"looked_until": "2030-06-16T08:01:00.000000", "complete": true, "estimate": true, "reservations": [{"resource_type": "physical:host", "min": 2, "max": 4, "would_get": 3,
			"zones": [{"zone": "home", "count": 2}, {"zone": "west", "count": 1}]}],
		"zones": [{"zone": "home", "outcome": "answered", "looked_until": "2030-06-16T08:01:00.000000"}, {"zone": "west", "outcome": "answered", "looked_until": "2030-06-16T08:01:00.000000"},
			{"zone": "east", "outcome": "skipped", "reason": "no host is that large", "looked_until": null}], "instead": []}}`
	cannedNowhere = `{"availability": {"earliest": null, "reason": null, "windows": [], "looked_until": "2030-06-02T12:00:00.000000", "complete": false, "estimate": false, "reservations": [],
		"zones": [{"zone": "home", "outcome": "answered", "looked_until": "2030-06-02T12:00:00.000000"}, {"zone": "west", "outcome": "late", "reason": "no answer in time", "looked_until": null}],
		"instead": [{"change": "fewer", "start_date": "2030-06-02T10:00:00.000000", "end_date": "2030-06-02T12:00:00.000000", "amounts": [2, 0]},
			{"change": "shorter", "start_date": "2030-06-02T10:30:00.000000", "end_date": "2030-06-02T11:15:00.000000"},
			{"change": "later", "start_date": "2030-06-20T10:00:00.000000", "end_date": "2030-06-20T12:00:00.000000"}]}}`
	cannedLeasePlan = `{"plan": {"fits": true, "reason": null, "start_date": "2030-06-02T10:00:00.000000", "end_date": "2030-06-02T12:00:00.000000", "needs_no_room": false,
		"contended": false, "reservations": [{"resource_type": "physical:host", "fits": true, "min": 1, "max": 4, "would_get": 3, "zones": [{"zone": "home", "count": 2}, {"zone": "west", "count": 1}],
			"refusals": {"considered": 3, "offering": 2, "filters": [{"filter": "pool", "hosts": 1, "tier": "not_allowed", "hosts_by_name": ["h3"]}], "advice": [{"change": "count", "value": 2}]}}],
		"zones": [{"zone": "home", "outcome": "answered", "would_get": 2}, {"zone": "west", "outcome": "answered", "would_get": 1, "refusals": [
			{"considered": 5, "offering": 1, "filters": [{"filter": "room", "hosts": 4, "tier": "not_now"}]}]}]}}`
	cannedShort = `{"plan": {"fits": false, "reason": "Not enough hosts available: reservation 2 could have 1 of 2 slots", "start_date": "2030-06-02T10:00:00.000000",
		"end_date": "2030-06-02T12:00:00.000000", "needs_no_room": false, "contended": %t, "reservations": [
			{"id": "` + reservationID + `", "resource_type": "physical:host", "fits": true, "min": 1, "max": 1, "would_get": 1, "zones": [{"zone": "home", "count": 1}], "refusals": {"considered": 3, "offering": 1}},
			{"id": "11111111-0000-4000-8000-000000000003", "resource_type": "virtual:instance", "fits": false, "min": 2, "max": 2, "would_get": 1, "zones": [{"zone": "home", "count": 1}],
				"refusals": {"considered": 3, "offering": 1, "filters": [{"filter": "room", "hosts": 2, "tier": "not_now"}]}}],
		"zones": [{"zone": "home", "outcome": "answered", "would_get": 2}, {"zone": "west", "outcome": "late", "reason": "no answer in time", "would_get": 0}]}}`
	cannedNoRoom = `{"plan": {"fits": true, "reason": null, "start_date": "2030-06-02T10:00:00.000000", "end_date": "2030-06-02T12:00:00.000000", "needs_no_room": true,
		"contended": false, "not_checked": true, "reservations": [], "zones": []}}`
)

// TestWhatDoesNotFitIsShownAndFails: the answer is printed in whole, and the exit code says that
// it is a no.
func TestWhatDoesNotFitIsShownAndFails(t *testing.T) {
	const find, plan, update = "POST /reservation/v1/availability", "POST /reservation/v1/leases/plan", "POST /reservation/v1/leases/" + leaseID + "/plan"
	var b bytes.Buffer
	for _, one := range []struct {
		line, call, body string
		exit             int
	}{
		{"lease find --for 2h --hosts 2", find, cannedNowhere, exitNoCapacity},
		{"lease find --for 2h --hosts 2 -o json", find, strings.Replace(cannedNowhere, `"reason": null`, `"reason": "Quota exceeded for hosts"`, 1), exitNoCapacity},
		{"lease find --for 2h --hosts 2 --no-headers", find, strings.NewReplacer(`"complete": false`, `"complete": true`, `"instead": [`, `"left": [`).Replace(cannedNowhere), exitNoCapacity},
		{"lease find --for 2h --hosts 2 --no-headers", find, strings.Replace(cannedNowhere, `"instead": [`, `"left": [`, 1), exitNoCapacity},
		{"lease plan create nightly --for 2h --hosts 1 --instances 2 --flavor small", plan, fmt.Sprintf(cannedShort, false), exitNoCapacity},
		{"lease plan create nightly --for 2h --hosts 1 --instances 2 --flavor small --no-headers", plan, fmt.Sprintf(cannedShort, true), exitConflict},
		{"lease plan create nightly --for 2h --hosts 1 --no-headers", plan, `{"plan": {"fits": false}}`, exitNoCapacity},
		{"lease plan update " + leaseID + " --name weekly", update, cannedNoRoom, exitDone},
	} {
		z := newFakeZone(t)
		z.on(one.call, answer{status: http.StatusOK, body: one.body})
		r := z.berth(t.Context(), strings.Fields(one.line)...)
		assert.Equal(t, one.exit, r.exit, one.line)
		record(&b, one.line, nil, r)
	}
	golden.Check(t, "testdata/nofit.txt", b.Bytes())
}

// cannedLeases has the default answers of the reservation API.
var cannedLeases = map[string]string{
	"GET /reservation/v1/leases":                       `{"leases": [` + cannedLease + `, ` + cannedSmallLease + `]}`,
	"POST /reservation/v1/leases":                      `{"lease": ` + cannedLease + `}`,
	"GET /reservation/v1/leases/" + leaseID:            `{"lease": ` + cannedLease + `}`,
	"POST /reservation/v1/availability":                cannedAvailability,
	"POST /reservation/v1/leases/plan":                 cannedLeasePlan,
	"GET /reservation/v1/series":                       `{"series": [` + cannedSeries + `]}`,
	"POST /reservation/v1/series":                      `{"series": ` + cannedSeries + `}`,
	"GET /reservation/v1/series/" + seriesID:           `{"series": ` + cannedSeries + `}`,
	"DELETE /reservation/v1/series/" + seriesID:        "",
	"PUT /reservation/v1/leases/" + leaseID:            `{"lease": ` + cannedLease + `}`,
	"DELETE /reservation/v1/leases/" + leaseID:         "",
	"POST /reservation/v1/leases/" + leaseID + "/plan": cannedNoRoom,
	"GET /reservation/v1/leases/later": `{"lease": {"id": "l-2", "name": "later", "status": "PENDING", "start_date": "2030-06-02T10:00:00.000000",
		"reservations": [{"id": "` + reservationID + `", "amount": 3}]}}`,
	"GET /reservation/v1/leases/hosts":  `{"lease": {"id": "l-3", "name": "hosts", "status": "ACTIVE", "reservations": [{"id": "` + reservationID + `", "min": 1, "max": 1}]}}`,
	"GET /reservation/v1/leases/single": `{"lease": {"id": "l-1", "name": "single", "reservations": [{"id": "` + reservationID + `"}]}}`,
	"GET /reservation/v1/leases/" + leaseID + "/hosts": `{"hosts": [` + strings.Join([]string{
		cannedSlot("home", `"h1"`, "active", true), cannedSlot("home", `"h2"`, "active", true), cannedSlot("home", `"h2"`, "active", true), cannedSlot("home", `"h3"`, "active", true),
		cannedSlot("home", `"h4"`, "active", true), cannedSlot("home", `"h5"`, "active", true), cannedSlot("west", "null", "active", true), cannedSlot("west", "null", "active", false),
	}, ", ") + `]}`,
}

func cannedSlot(zone, host, status string, reachable bool) string {
	return fmt.Sprintf(`{"reservation_id": "`+reservationID+`", "zone": %q, "resource_id": null, "hypervisor_hostname": %s, "status": %q, "resources_changed": false, "reachable": %t,
		"start_date": "2030-06-02T10:00:00.000000", "end_date": "2030-06-02T12:00:00.000000"}`, zone, host, status, reachable)
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "1.5h": 90 * time.Minute, "2d": 48 * time.Hour, "1w2d12h30m": 9*24*time.Hour + 12*time.Hour + 30*time.Minute, "0m": 0, "4095d": 4095 * 24 * time.Hour,
	} {
		got, ok := parseSpan(text)
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "4096d", "90", "30s", "-1h", "1h-30m", "1d1w", "1d1d", "1x", "3000000h", "4095w4095d2500000h"} {
		_, ok := parseSpan(text)
		assert.False(t, ok, text)
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 30 * time.Second: "30s", 10 * time.Minute: "10m", 10*time.Minute + 10*time.Second: "10m10s", time.Hour: "1h", 90 * time.Minute: "1h30m", 48 * time.Hour: "2d", 49 * time.Hour: "2d1h",
		24*time.Hour + 1500*time.Millisecond: "1d2s",
	} {
		assert.Equal(t, want, showSpan(d), d)
	}
}

func TestPairsAreSplitOutsideOfConditions(t *testing.T) {
	for text, want := range map[string][]string{
		"":                        {""},
		"a=1,b=2":                 {"a=1", "b=2"},
		`a=["x","y,"],b=`:         {`a=["x","y,"]`, "b="},
		`a=["\"],",["b","c"]],b=`: {`a=["\"],",["b","c"]]`, "b="},
		`a=],b=2`:                 {"a=]", "b=2"},
		`a=["x,b=2`:               {`a=["x,b=2`},
		`a="\`:                    {`a="\`},
	} {
		assert.Equal(t, want, splitPairs(text), text)
	}
}

// TestTimesAreFromThisMinute: a lease starts and ends at full minutes.
func TestTimesAreFromThisMinute(t *testing.T) {
	now := time.Date(2030, 6, 1, 12, 0, 59, 999, time.FixedZone("", 7200))
	for text, want := range map[string]string{
		"now": "now", "+0m": "2030-06-01 10:00", "+90m": "2030-06-01 11:30", "+1d": "2030-06-02 10:00", "2030-06-02": "2030-06-02 00:00", "2030-06-02 08:05": "2030-06-02 08:05",
		"2030-06-02T08:05": "2030-06-02 08:05", "2030-06-02T08:05+02:00": "2030-06-02 06:05", "2030-06-02T08:05:00-01:00": "2030-06-02 09:05", "2030-06-02 08:05:00": "2030-06-02 08:05",
	} {
		_, got, err := readTime(leaseCommand(&env{}), "start", text, now)
		require.NoError(t, err, text)
		assert.Equal(t, want, string(got), text)
	}
	for _, text := range []string{"", "+", "+30s", "-1h", "tomorrow", "2030-06-02 08:05:01", "2030-06-02T08:05:00.5Z", "2030-02-30 08:05"} {
		_, _, err := readTime(leaseCommand(&env{}), "start", text, now)
		assert.Equal(t, exitUsage, exitCode(err), text)
	}
}

// TestBucketsHaveTheMostOfAnyInstant compares the calendar with a count of each minute.
func TestBucketsHaveTheMostOfAnyInstant(t *testing.T) {
	origin := time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, 5000).Draw(t, "from")
		length := rapid.IntRange(1, 5000).Draw(t, "length")
		width := rapid.IntRange(calendarWidthMin, 120).Draw(t, "width")
		var leases []rest.Lease
		for range rapid.IntRange(0, 8).Draw(t, "leases") {
			start := rapid.IntRange(0, 12_000).Draw(t, "start")
			hosts, instances := rapid.IntRange(0, 3).Draw(t, "hosts"), rapid.IntRange(0, 3).Draw(t, "instances")
			l := rest.Lease{
				Name:  strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "name")),
				Start: timeAt(origin, start), End: timeAt(origin, start+rapid.IntRange(1, 3000).Draw(t, "minutes")),
				Status: rapid.SampledFrom([]api.LeaseStatus{api.LeasePending, api.LeaseActive, api.LeaseTerminated, api.LeaseError}).Draw(t, "status"),
			}
			l.Reservations = []rest.LeaseReservation{
				{Allocated: hosts, ReservedHosts: &rest.ReservedHosts{Min: 1, Max: 3}},
				{ReservedInstances: &rest.ReservedInstances{VCPUs: 2, Memory: 3, Amount: instances}},
			}
			leases = append(leases, l)
		}
		start := origin.Add(time.Duration(from) * time.Minute)
		cal := makeCalendar(leases, start, start.Add(time.Duration(length)*time.Minute), width)

		require.LessOrEqual(t, cal.From, api.InstantOf(start))
		require.GreaterOrEqual(t, cal.To, api.InstantOf(start).Add(time.Duration(length)*time.Minute))
		require.Less(t, start.Sub(cal.From.Time()), day)
		require.LessOrEqual(t, cal.columnOf(cal.To), width-cal.nameWidth-2)
		require.Equal(t, cal.From, cal.Buckets[0].Start)
		require.Equal(t, cal.To, cal.Buckets[len(cal.Buckets)-1].End)
		for _, b := range cal.Buckets {
			var want occupancy
			for at := b.Start; at < b.End; at = at.Add(time.Minute) {
				var now occupancy
				for i := range leases {
					if rest.LeaseTime(at) >= leases[i].Start && rest.LeaseTime(at) < leases[i].End {
						now.add(reservedBy(&leases[i]), 1)
					}
				}
				want.raise(now)
			}
			require.Equal(t, want, b.occupancy, "%s", b.Start)
		}
		for i := range cal.Leases {
			require.Len(t, cal.bar(&cal.Leases[i]), cal.columnOf(cal.To))
		}
		for _, line := range cal.tables(start)[0].rows {
			require.LessOrEqual(t, len(line[1]), width-cal.nameWidth-2)
		}
	})
}

func timeAt(origin time.Time, minutes int) rest.LeaseTime {
	return rest.LeaseTime(api.InstantOf(origin.Add(time.Duration(minutes) * time.Minute)))
}

// TestCalendarsOfEveryLength: at most a line is filled, and the buckets have labels.
func TestCalendarsOfEveryLength(t *testing.T) {
	start := time.Date(2030, 6, 5, 23, 59, 0, 0, time.UTC)
	for _, length := range []time.Duration{time.Minute, time.Hour, day, 7 * day, 31 * day, 365 * day, api.WindowMax} {
		for _, width := range []int{calendarWidthMin, calendarWidth, calendarWidthMax} {
			cal := makeCalendar([]rest.Lease{{Name: strings.Repeat("x", 100)}}, start, start.Add(length), width)
			assert.LessOrEqual(t, cal.columnOf(cal.To), width-cal.nameWidth-2, "%s in %d", length, width)
			labels := strings.Fields(cal.tables(start)[0].header[1])
			assert.Len(t, labels, len(cal.Buckets), "%s in %d", length, width)
		}
	}
}

func TestLeasesAreFollowedToTheirStart(t *testing.T) {
	at := func(status string) answer {
		return answer{status: http.StatusOK, body: strings.Replace(`{"lease": `+cannedLease+`}`, `"status": "ACTIVE"`, `"status": "`+status+`"`, 1)}
	}
	const line = "lease create nightly --for 2h --hosts 1 --wait --timeout 1m"
	z := newFakeZone(t)
	z.on("GET /reservation/v1/leases/"+leaseID, at("ACTIVE"))
	r := z.berth(t.Context(), strings.Fields(line)...)
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "lease nightly is ACTIVE\n", r.errOut)
	assert.Contains(t, r.out, "NAME         nightly")

	z.on("GET /reservation/v1/leases/"+leaseID, at("TERMINATED"))
	r = z.berth(t.Context(), strings.Fields(line)...)
	assert.Equal(t, exitFailed, r.exit)
	assert.Contains(t, r.errOut, "will not be active")

	z.on("GET /reservation/v1/leases/"+leaseID, at("PENDING"))
	r = z.berth(t.Context(), strings.Fields(strings.Replace(line, "1m", "10ms", 1))...)
	assert.Equal(t, exitTimeout, r.exit)
	assert.Regexp(t, "lease nightly is still (PENDING|ACTIVE) after 0s", r.errOut) // ACTIVE is what the POST was answered with
	assert.Empty(t, r.out)

	z.on("GET /reservation/v1/leases/"+leaseID, answer{status: http.StatusNotFound, body: leaseRefusalOf(404, "Object not found")})
	r = z.berth(t.Context(), strings.Fields(line)...)
	assert.Equal(t, exitNotFound, r.exit, "it was deleted")
}

func TestRefusedLeasesAreExplained(t *testing.T) {
	for _, line := range []string{"POST /reservation/v1/leases", "PUT /reservation/v1/leases/" + leaseID} {
		z := newFakeZone(t)
		z.on(line, answer{status: http.StatusConflict, body: refusalOf("no_capacity", "Not enough hosts available: 0 of 1")})
		args := []string{"lease", "create", "a", "--for", "2h", "--hosts", "1"}
		if strings.HasPrefix(line, http.MethodPut) {
			args = []string{"lease", "update", leaseID, "--prolong", "2h"}
		}
		r := z.berth(t.Context(), args...)
		assert.Equal(t, exitNoCapacity, r.exit)
		assert.Equal(t, "berth: Not enough hosts available: 0 of 1 (no_capacity, request req-1)\n  hint: see why with: berth explain req-1\n", r.errOut)
	}
}

func TestLeaseNames(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /reservation/v1/leases", answer{status: http.StatusOK, body: `{"leases": [{"id": "l-1", "name": "a"}, {"id": "l-2", "name": "a"}, {"id": "l-3", "name": "ab"}]}`})
	r := z.berth(t.Context(), "lease", "show", "a")
	assert.Equal(t, exitConflict, r.exit)
	assert.Contains(t, r.errOut, "l-1, l-2")
	assert.Equal(t, exitNotFound, z.berth(t.Context(), "lease", "show", "abc").exit)
	assert.Equal(t, exitUsage, z.berth(t.Context(), "lease", "update", leaseID, "--hosts", "1", "--instances", "0").exit)
	r = z.berth(t.Context(), "lease", "update", leaseID, "--instances", "5")
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, "this one has 2")
	assert.Empty(t, z.asked("PUT"))
	r = z.berth(t.Context(), "lease", "delete", "--yes", leaseID, "a")
	assert.Equal(t, exitConflict, r.exit)
	assert.Len(t, z.asked("DELETE"), 1)
}

// TestSpansOfLifetimes: what is advised can be typed.
func TestSpansOfLifetimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"6d23h": 167 * time.Hour, "1w": 168 * time.Hour, "90m": 90 * time.Minute, "1500ms": 1500 * time.Millisecond, "4s": 4 * time.Second, "2h57m": 177 * time.Minute,
	} {
		var v spanValue
		require.NoError(t, v.Set(text), text)
		assert.Equal(t, want, time.Duration(v), text)
	}
	assert.Error(t, new(spanValue).Set("soon"))
	assert.Empty(t, new(spanValue).String(), "there is no default")
}

// TestPromisedHostsAreNamed: a person reads from when on hosts are promised, where the zone says it.
func TestPromisedHostsAreNamed(t *testing.T) {
	at := api.InstantOf(time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		filter string
		from   api.Instant
		want   string
	}{
		{"capacity", at, ""},
		{"promised", at, ", free at first and promised from 2030-06-01T12:00:00Z on"},
		{"promised", 0, ", free at first and promised later"},
	} {
		assert.Equal(t, c.want, promisedFrom(rest.FilterCount{Filter: c.filter}, rest.Refusals{Promised: c.from}))
	}
}
