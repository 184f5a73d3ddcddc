package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/filters"
)

func TestBootTellsEachStateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /zones/boot/r-1", bootIn("HOLDING"), bootIn("HOLDING"), bootIn("BUILDING"), bootIn("BUILDING"), bootIn("ACTIVE"))
		r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web")
		require.Zero(t, r.exit, r.errOut)
		assert.Equal(t, "r-1 HOLDING 2 of 3 active\nr-1 BUILDING 2 of 3 active\nr-1 ACTIVE 2 of 3 active\n", r.errOut)
		assert.Contains(t, r.out, "STATE        ACTIVE\n")
		assert.Equal(t, "GET /zones/boot/r-1?wait=1s", z.asked("GET")[0].call)
	})
}

func TestBootOnATerminalHasOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /zones/boot/r-1", bootIn("HOLDING"), bootIn("BUILDING"), bootIn("ACTIVE"))
		r := z.onTerminal(t.Context(), "", "boot", "--flavor", "small", "--name", "web")
		require.Zero(t, r.exit, r.errOut)
		assert.NotContains(t, r.errOut, "\n")
		assert.Equal(t, 4, strings.Count(r.errOut, "\r\x1b[K"), "three states, and the line is cleared")
		assert.True(t, strings.HasSuffix(r.errOut, "\r\x1b[K"))
	})
}

func TestBootOutcomes(t *testing.T) {
	for state, want := range map[string]struct {
		exit int
		says string
	}{
		"ACTIVE":   {exitDone, ""},
		"DEGRADED": {exitPartly, "1 of 3 instances of reservation r-1 failed; 2 run"},
		"ERROR":    {exitNoneRuns, "none of 1 instance of reservation r-1 runs: all failed"},
		"FAILED":   {exitNoCapacity, "berth explain r-1"},
		"RELEASED": {exitConflict, "deleted by another call"},
	} {
		z := newFakeZone(t)
		z.on("GET /zones/boot/r-1", bootIn(state))
		r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web")
		assert.Equal(t, want.exit, r.exit, state)
		assert.Contains(t, r.errOut, want.says, state)
		assert.Contains(t, r.out, "STATE        "+state, "the boot is printed whatever became of it")
	}
}

// TestAFailedBootExitsByItsCode: a boot that failed exits with the exit code of its code.
// An older zone has the code only in the reason.
func TestAFailedBootExitsByItsCode(t *testing.T) {
	for why, want := range map[string]int{
		`"code": "no_capacity", "reason": "no_capacity: 3 of 5 could be had, 5 are needed"`: exitNoCapacity,
		`"code": "timeout", "reason": "timeout: it was not decided within 5s"`:              exitTimeout,
		`"code": "timeout"`: exitTimeout,
		`"reason": "timeout: it was not decided within 5s"`:        exitTimeout,
		`"code": "contended", "reason": "no_capacity: a sentence"`: exitConflict,
		`"code": "unheard_of", "reason": "a sentence"`:             exitFailed,
		`"reason": "released before it was decided"`:               exitNoCapacity,
	} {
		z := newFakeZone(t)
		z.on("GET /zones/boot/r-1", answer{status: http.StatusOK, body: `{"boot": {"reservation_id": "r-1", "name": "web", "state": "FAILED", ` + why + `}}`})
		r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web")
		assert.Equal(t, want, r.exit, why)
	}
}

func TestBootThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /zones/boot/r-1", bootIn("BUILDING"))
		r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--timeout", "100ms")
		assert.Equal(t, exitTimeout, r.exit)
		assert.Contains(t, r.errOut, "berth: reservation r-1 is still BUILDING after 100ms\n  hint: it continues; check with: berth reservation show r-1\n")
		assert.Empty(t, r.out)
	})
}

func TestReleaseThatTakesTooLongNamesItsProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /zones/boot/r-1", bootIn("RELEASING"))
		r := z.berth(t.Context(), "reservation", "delete", "r-1", "--yes", "--project", "shop", "--timeout", "100ms")
		assert.Equal(t, exitTimeout, r.exit)
		assert.Contains(t, r.errOut, "check with: berth reservation show r-1 --project shop\n")
	})
}

func TestBootThatIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		z := newFakeZone(t)
		building := bootIn("BUILDING")
		building.do = cancel
		z.on("GET /zones/boot/r-1", building)
		r := z.berth(ctx, "boot", "--flavor", "small", "--name", "web")
		assert.Equal(t, exitInterrupted, r.exit)
		assert.Contains(t, r.errOut, "berth: interrupted\n  hint: reservation r-1 continues")
	})
}

func TestBootRepeatsWithOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("POST /zones/boot",
			answer{status: http.StatusServiceUnavailable, body: refusalOf("unavailable", "no leader")},
			answer{status: http.StatusAccepted, body: `{"reservation_id": "r-1"}`})
		r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--no-wait", "--no-headers")
		require.Zero(t, r.exit, r.errOut)
		assert.Equal(t, "r-1\n", r.out)
		asked := z.asked("POST /zones/boot")
		require.Len(t, asked, 2)
		assert.NotEmpty(t, asked[0].key)
		assert.Equal(t, asked[0], asked[1])
	})
}

func TestBootSaysWhatIsWanted(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--count", "10", "--min", "4",
		"--reservation-id", "mine", "--metadata", "a=1", "--metadata", "b=x=y", "--no-wait")
	require.Zero(t, r.exit, r.errOut)
	var body rest.BootBody
	require.NoError(t, json.Unmarshal([]byte(z.asked("POST")[0].body), &body))
	ten, four := 10, 4
	assert.Equal(t, rest.ServerCreate{
		Name: "web", FlavorRef: "small", MinCount: &four, MaxCount: &ten, Reservation: "mine", Metadata: map[string]string{"a": "1", "b": "x=y"},
	}, body.Server)
}

func TestPlanIsTakenUpAsItWasMade(t *testing.T) {
	z := newFakeZone(t)
	z.on("POST /servers", answer{status: http.StatusAccepted, body: `{"reservation_id": "r-1"}`})
	path := filepath.Join(t.TempDir(), "plan.json")
	r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--count", "10", "--trait", "A", "--lifetime", "2h", "--plan", "--out", path)
	require.Zero(t, r.exit, r.errOut)
	assert.Empty(t, z.asked("POST /zones/boot"), "a plan boots nothing")
	assert.Contains(t, r.errOut, "berth boot --apply "+path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	r = z.berth(t.Context(), "boot", "--apply", path)
	require.Zero(t, r.exit, r.errOut)
	var body rest.BootBody
	require.NoError(t, json.Unmarshal([]byte(z.asked("POST /servers")[0].body), &body))
	ten := 10
	assert.Equal(t, rest.ServerCreate{
		Name: "web", FlavorRef: "small", MaxCount: &ten, Reservation: "r-1", Blob: []byte("sealed"), ReturnRes: true,
		GroupWish: rest.GroupWish{Traits: &rest.Traits{Required: []string{"A"}}}, Lifetime: "2h0m0s",
	}, body.Server)
	assert.Equal(t, exitUsage, z.berth(t.Context(), "boot", "--apply", path, "--count", "3").exit)

	again := z.berth(t.Context(), "boot", "--apply", path)
	assert.Equal(t, r, again)
	asked := z.asked("POST /servers")
	require.Len(t, asked, 2)
	assert.Equal(t, asked[0], asked[1], "a zone knows the same command again")
	assert.True(t, api.ValidName(asked[0].key), asked[0].key)
	assert.NotEqual(t, applyKey([]byte("sealed")), applyKey([]byte("another")))
	assert.Equal(t, applyKey([]byte("sealed")), asked[0].key)
}

func TestPlanThatCannotBeHadIsNotSaved(t *testing.T) {
	z := newFakeZone(t)
	path := filepath.Join(t.TempDir(), "plan.json")
	for _, line := range []string{"--flavor small --count 12", "--group-of web:small:4 --group-of db:small"} {
		args := append([]string{"boot", "--name", "web", "--plan", "--out", path}, strings.Fields(line)...)
		r := z.berth(t.Context(), args...)
		assert.Equal(t, exitNoCapacity, r.exit, line)
		assert.NotContains(t, r.out, "GOOD FOR", line)
		assert.NoFileExists(t, path, line)
		assert.Contains(t, r.errOut, "berth explain r-1", line)
	}
}

func TestPlanFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	z := newFakeZone(t)
	for name, text := range map[string]string{
		"empty": "", "else": "[]", "without": `{"server": {"flavorRef": "small"}}`, "long": `{"x": "` + strings.Repeat("x", planFileMaxBytes) + `"}`,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		r := z.berth(t.Context(), "boot", "--apply", path)
		assert.Equal(t, exitUsage, r.exit, name)
		assert.Contains(t, r.errOut, "holds no plan", name)
	}
	assert.Equal(t, exitUsage, z.berth(t.Context(), "boot", "--apply", filepath.Join(dir, "none")).exit)
}

func TestGroupsComeFromAFile(t *testing.T) {
	yaml := `
groups:
  - {name: web, flavorRef: small, max_count: 3, min_count: 2}
  - name: db
    flavorRef: big
    traits: {required: [CUSTOM_SSD]}
    scheduler_hints: {query: ["=", "$host", "h"], different_host: [i-1]}
rules:
  - {policy: anti-affinity, groups: [web]}
zones: {min_zones: 2}
`
	z := newFakeZone(t)
	environ := map[string]string{"BERTH_ADDR": z.URL}
	r := berth(t.Context(), environ, yaml, "boot", "--name", "shop", "--groups", "-", "--no-wait")
	require.Zero(t, r.exit, r.errOut)
	var body rest.BootBody
	require.NoError(t, json.Unmarshal([]byte(z.asked("POST")[0].body), &body))
	three, two := 3, 2
	assert.True(t, api.ValidName(body.Server.Reservation), "chosen by the client")
	body.Server.Reservation = ""
	assert.Equal(t, rest.ServerCreate{
		Name: "shop",
		Groups: []rest.GroupCreate{
			{Name: "web", FlavorRef: "small", MaxCount: &three, MinCount: &two},
			{Name: "db", FlavorRef: "big", GroupWish: rest.GroupWish{
				Traits: &rest.Traits{Required: []string{"CUSTOM_SSD"}},
				Hints:  &rest.SchedulerHints{Query: json.RawMessage(`["=","$host","h"]`), DifferentHost: []api.InstanceID{"i-1"}},
			}},
		},
		Rules: []rest.RuleCreate{{Policy: api.AntiAffinity, Groups: []string{"web"}}},
		Zones: &rest.ZoneRule{MinZones: 2},
	}, body.Server)
	for text, says := range map[string]string{
		"rules: []":                        "contains no groups",
		"groups: 7":                        "does not fit: groups must be a list, not a number",
		"[]":                               "the file must be an object, not a list",
		"groups: [{max_count: yes}]":       "groups.max_count must be a whole number, not a text",
		"groups: [{max_count: 1.5}]":       "groups.max_count must be a whole number, not number 1.5",
		"groups: [{name: a, colour: red}]": `unknown field "colour"`,
		"groups: [":                        "neither YAML nor JSON",
		"x: " + strings.Repeat("x", yamlMaxBytes): "more than",
	} {
		r := berth(t.Context(), environ, text, "boot", "--name", "shop", "--groups", "-", "--no-wait")
		assert.Equal(t, exitUsage, r.exit, says)
		assert.Contains(t, r.errOut, says)
	}
}

func TestBootsOfSeveralGroupsAreShownByGroup(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /zones/boot/r-1", answer{status: http.StatusOK, body: `{"boot": {"reservation_id": "r-1", "name": "shop", "state": "ACTIVE", "min_count": 3, "max_count": 4,
		"request_id": "req-7", "ends": "2026-06-01T14:00:00.000Z", "instances": {"ACTIVE": 4},
		"groups": [{"name": "web", "flavor": "small", "min_count": 2, "max_count": 3, "instances": {"ACTIVE": 3}},
			{"name": "db", "flavor": "big", "min_count": 1, "max_count": 1, "instances": {"ACTIVE": 1}}]}}`})
	r := z.berth(t.Context(), "reservation", "show", "r-1")
	require.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.out, "ENDS         2026-06-01T14:00:00Z\n")
	assert.Contains(t, r.out, "REQUEST      req-7\n")
	assert.Contains(t, r.out, "web    small   3       2         3       ACTIVE 3\n")
	assert.NotContains(t, r.out, "FLAVOR       ")
}

func TestInstancesThatRunAreCounted(t *testing.T) {
	z := newFakeZone(t)
	boot := `{"reservation_id": "r-1", "name": "shop", "state": "ACTIVE", "min_count": 3, "max_count": 12, "instances": {"ACTIVE": 4, "DELETING": 1, "DELETED": 7},
		"groups": [{"name": "web", "flavor": "small", "min_count": 3, "max_count": 12, "instances": {"ACTIVE": 4, "DELETING": 1, "DELETED": 7}}],
		"zones": [{"zone": "west", "instances": {"ACTIVE": 4, "DELETING": 1, "DELETED": 7}}]}`
	z.on("GET /zones/boot/r-1", answer{status: http.StatusOK, body: `{"boot": ` + boot + `}`})
	z.on("GET /zones/boot", answer{status: http.StatusOK, body: `{"boots": [` + boot + `]}`})
	r := z.berth(t.Context(), "reservation", "show", "r-1")
	assert.Contains(t, r.out, "INSTANCES    4 of 12 wanted, at least 3\n")
	assert.Contains(t, r.out, "web    small   12      3         4       ACTIVE 4, DELETING 1, DELETED 7\n")
	assert.Contains(t, r.out, "west  4       ACTIVE 4, DELETING 1, DELETED 7\n")
	assert.Contains(t, z.berth(t.Context(), "reservation", "list").out, "  4/12  ")
}

func TestAdvice(t *testing.T) {
	names := []string{"min_zones"}
	for _, f := range filters.Known() {
		if filters.AdviceWithout(f.Name) != "" {
			names = append(names, f.Name)
		}
	}
	for _, name := range names {
		said := adviceOf(rest.Advice{Change: api.AdviceDrop, Name: name})
		assert.Contains(t, said, "would work", name)
		assert.NotContains(t, said, "turned hosts away", name)
	}
	assert.Equal(t, "leaving out the query would work", adviceOf(rest.Advice{Change: api.AdviceDrop, Name: "query"}))
	assert.Equal(t, `leaving out the condition of filter "new" would work`, adviceOf(rest.Advice{Change: api.AdviceDrop, Name: "new"}))
	assert.Equal(t, "a shorter lifetime would work: --lifetime 6d23h", adviceOf(rest.Advice{Change: api.AdviceLifetime, Value: 601_200}))
	assert.Equal(t, "allowing zone east would work", adviceOf(rest.Advice{Change: api.AdviceZone, Name: "east"}))
	assert.Equal(t, "1 byte, 0 bytes, 2 bytes", countThings(1, "byte")+", "+countThings(0, "byte")+", "+countThings(2, "byte"))
}

func TestSelectThatFindsTooLittle(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "select", "--flavor", "small", "--name", "web", "--count", "12")
	assert.Equal(t, exitNoCapacity, r.exit)
	assert.Contains(t, r.out, "10 of 12 wanted")
	assert.NotContains(t, r.out, "GOOD FOR", "it cannot be had")
	assert.Zero(t, z.berth(t.Context(), "select", "--flavor", "small", "--name", "web", "--count", "12", "--min", "10").exit)
}

// TestAPlanSaysWhatTheBootWouldLack: the reason of the zone, and not its own count.
func TestAPlanSaysWhatTheBootWouldLack(t *testing.T) {
	z := newFakeZone(t)
	z.on("POST /zones/select", answer{status: http.StatusOK, body: `{"reservation_id": "r-9", "weights": [[]], "zones": [], "refusals": [], "reason": "zones with slots for it: 3; 4 are needed"}`})
	r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--count", "10", "--min-zones", "4", "--plan")
	assert.Equal(t, exitNoCapacity, r.exit)
	assert.Contains(t, r.errOut, "nothing could be booted: zones with slots for it: 3; 4 are needed")
	assert.NotContains(t, r.errOut, "ask for fewer")
}

// TestALeastCountAloneIsTheCount: as it is for the API.
func TestALeastCountAloneIsTheCount(t *testing.T) {
	z := newFakeZone(t)
	require.Zero(t, z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--min", "2", "--no-wait").exit)
	sent := z.asked("POST")[0].body
	assert.Contains(t, sent, `"min_count":2`)
	assert.Contains(t, sent, `"max_count":2`)
}

func TestAServerThatIsOutOfReachIsToldSo(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /servers/i-9", answer{status: http.StatusOK, body: `{"server": {"id": "i-9", "name": "web", "status": "ACTIVE", "reachable": false, "unreachable_since": "2026-06-01T12:00:00.000Z"}}`})
	r := z.berth(t.Context(), "server", "show", "i-9")
	assert.Contains(t, r.out, "ACTIVE (unreachable)\n")
	assert.Regexp(t, `UNREACHABLE SINCE +2026-06-01T12:00:00Z`, r.out)
}

func TestAReservationThatIsOutOfReachIsToldSo(t *testing.T) {
	z := newFakeZone(t)
	boot := `{"reservation_id": "r-9", "name": "web", "state": "ACTIVE", "max_count": 3, "instances": {"ACTIVE": 3}, "unreachable": 2, "zones": [
		{"zone": "east", "instances": {"ACTIVE": 1}}, {"zone": "west", "instances": {"ACTIVE": 2}, "unreachable": 2}]}`
	z.on("GET /zones/boot/r-9", answer{status: http.StatusOK, body: `{"boot": ` + boot + `}`})
	z.on("GET /zones/boot", answer{status: http.StatusOK, body: `{"boots": [` + boot + `]}`})
	r := z.berth(t.Context(), "reservation", "show", "r-9")
	assert.Regexp(t, `UNREACHABLE +2 instances`, r.out)
	assert.Regexp(t, `west +2 +ACTIVE 2 \(2 unreachable\)`, r.out)
	assert.Regexp(t, `east +1 +ACTIVE 1\n`, r.out)
	assert.Regexp(t, `r-9 .* ACTIVE \(2 unreachable\) +3/3`, z.berth(t.Context(), "reservation", "list").out)
}

// TestAReservationNamesTheZonesItWaitsFor: one or several.
func TestAReservationNamesTheZonesItWaitsFor(t *testing.T) {
	for waits, says := range map[string]string{
		``: "", `, "waits_for": ["west"]`: `WAITS FOR +zone west to confirm\n`, `, "waits_for": ["east", "west"]`: `WAITS FOR +zones east, west to confirm\n`,
	} {
		z := newFakeZone(t)
		z.on("GET /zones/boot/r-9", answer{status: http.StatusOK, body: `{"boot": {"reservation_id": "r-9", "state": "RELEASING", "instances": {}` + waits + `}}`})
		r := z.berth(t.Context(), "reservation", "show", "r-9")
		assert.Zero(t, r.exit, r.errOut)
		if says == "" {
			assert.NotContains(t, r.out, "WAITS FOR")
		} else {
			assert.Regexp(t, says, r.out)
		}
	}
}

// TestAPlanThatHasExpiredSaysSo: a refused plan is refused without a reason; the file tells whether it is too
// old. Files that hold no plan are not replaced.
func TestAPlanThatHasExpiredSaysSo(t *testing.T) {
	z := newFakeZone(t)
	z.on("POST /servers", answer{status: http.StatusUnprocessableEntity, body: refusalOf("plan_refused", "the plan cannot be used; select again")})
	path := filepath.Join(t.TempDir(), "plan.json")
	plan := []string{"boot", "--flavor", "small", "--name", "web", "--plan", "--out", path}
	require.Zero(t, z.berth(t.Context(), plan...).exit)
	require.Zero(t, z.berth(t.Context(), plan...).exit, "a plan is replaced by the next one")
	r := z.berth(t.Context(), "boot", "--apply", path)
	assert.Equal(t, exitConflict, r.exit)
	assert.NotContains(t, r.errOut, "expired")

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var file map[string]any
	require.NoError(t, json.Unmarshal(b, &file))
	file["made_at"] = time.Now().Add(-time.Hour)
	b, err = json.Marshal(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	r = z.berth(t.Context(), "boot", "--apply", path)
	assert.Equal(t, exitConflict, r.exit)
	assert.Regexp(t, `hint: the plan expired 59m\S* ago; make one with: berth boot --plan --out FILE`, r.errOut)

	require.NoError(t, os.WriteFile(path, []byte("a letter"), 0o600))
	r = z.berth(t.Context(), plan...)
	assert.Equal(t, exitConflict, r.exit)
	assert.Contains(t, r.errOut, "exists, and holds no plan: it is not replaced")
	b, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "a letter", string(b))
}

// TestWhatGoesIntoAFileIsBare: secrets and snapshots can be sent where they are needed, with nothing beside them.
func TestWhatGoesIntoAFileIsBare(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "token", "create", "--user", "ada", "--project", "web")
	require.Zero(t, r.exit, r.errOut)
	assert.Regexp(t, `^\S+\n$`, r.out)
	assert.Contains(t, r.errOut, "berth token delete ")
	t.Chdir(t.TempDir())
	r = z.berth(t.Context(), "operator", "snapshot", "save", "-")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "the whole state", r.out)
	assert.Contains(t, r.errOut, "15 bytes saved to standard output")
	assert.NoFileExists(t, "-")
}

// TestCompletionKnowsTheZoneItself, and the statuses of servers.
func TestCompletionKnowsTheZoneItself(t *testing.T) {
	z := newFakeZone(t)
	assert.Regexp(t, `(?m)^home$`, z.berth(t.Context(), "__complete", "boot", "--zone", "").out)
	assert.Regexp(t, `(?m)^ERROR$`, z.berth(t.Context(), "__complete", "server", "list", "--status", "").out)
}

// TestAFlavorOfWhatNobodyHasIsNoted: it is made, because the hosts may come later.
func TestAFlavorOfWhatNobodyHasIsNoted(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "flavor", "create", "f", "--vcpus", "1", "--resource", "CUSTOM_NOPE=1")
	require.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.errOut, "no host here or below has CUSTOM_NOPE: ")
	r = z.berth(t.Context(), "flavor", "update", "small", "--resource", "CUSTOM_NOPE=1")
	assert.Zero(t, r.exit)
	assert.Contains(t, r.errOut, "no host here or below has CUSTOM_NOPE: ")
	assert.NotContains(t, r.errOut, "VCPU")
	z.on("GET /zones/info", answer{status: http.StatusForbidden, body: refusalOf("forbidden", "no")})
	r = z.berth(t.Context(), "flavor", "create", "f", "--resource", "CUSTOM_NOPE=1")
	require.Zero(t, r.exit)
	assert.Empty(t, r.errOut, "what is not known is not said")
}

// TestAPlanIsShort: a plan for all that is wanted is a few lines, in a unit that flags take; what was
// turned away is a detail of -o wide. Of a plan for less it is shown.
func TestAPlanIsShort(t *testing.T) {
	const body = `{"reservation_id": "r-1", "weights": [[1073000000, 1073000000, 1073004096]], "blob": "AAAA", "expires_in_ms": 60000,
		"zones": [{"zone": "home", "outcome": "answered", "wanted": 3, "offered": 3, "taken": 2, "cost": 2146000000},
			{"zone": "west", "outcome": "answered", "wanted": 3, "offered": 2, "taken": 1, "cost": 1073004096}],
		"refusals": [{"considered": 5, "offering": 3, "filters": [{"filter": "capacity", "hosts": 2, "tier": "not_now"}]}]}`
	z := newFakeZone(t)
	z.on("POST /zones/select", answer{status: http.StatusOK, body: body})
	r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--count", "3", "--plan")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "RESERVATION  r-1\nINSTANCES    3 of 3 wanted, at least 3\nGOOD FOR     1m0s\n\n"+
		"ZONE   INSTANCES  COST EACH\nhome   2          lowest\nwest   1          +4G\ntotal  3          -\n", r.out)

	wide := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--count", "3", "--plan", "-o", "wide").out
	assert.Contains(t, wide, "home   2          lowest     2146000000\n")
	assert.Contains(t, wide, "This zone's own hosts\n")
	less := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--count", "4", "--min", "3", "--plan")
	require.Zero(t, less.exit, less.errOut)
	assert.Contains(t, less.out, "This zone's own hosts\n", "one is missing")
}

// TestPointsAreRoundedAsMemory: as a flag takes them.
func TestPointsAreRoundedAsMemory(t *testing.T) {
	for n, want := range map[int64]string{0: "0M", 1: "1M", 1023: "1023M", 1024: "1G", 1536: "1.5G", 1<<20 - 1: "1024G", 1 << 20: "1T", 5 << 30: "5120T"} {
		assert.Equal(t, want, roundPoints(n), n)
	}
}

// TestImagePropertiesThatChooseNoHostAreNoted: the API takes them, as images may have any.
func TestImagePropertiesThatChooseNoHostAreNoted(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "boot", "--flavor", "small", "--name", "web", "--no-wait", "--image-property", "architecture=arm", "--image-property", "foo=bar")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "--image-property foo chooses no host; those that do are architecture, hypervisor_type, os_type\n", r.errOut)
}
