package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/golden"
)

// verbs is every verb that calls a zone, at least once.
var verbs = []string{
	"boot --flavor small --name web --count 5 --min 2",
	"boot --flavor small --name web --no-wait",
	"boot --flavor small --name batch --no-wait --preemptible --on-preempt requeue",
	"boot --flavor small --name web --no-wait --preemptible=false --preempt",
	"boot --flavor small --name web --count 10 --plan",
	"boot --flavor small --name web --count 10 --plan --az az1 --trait A --trait !B --trait C|D --image i --image-property os_type=linux --group apart --query [\"=\",\"$host\",\"h\"]" +
		" --same-host i-1 --different-host i-2 --near 10.0.0.1/16 --force-host h1 --ignore-host h2 --zone west --exclude-zone east --zone-tag ssd" +
		" --exclude-zone-tag old --spread-zones 1 --min-zones 2 --lifetime 2h --decide-within 30s",
	"boot --name shop --group-of web:small:3:2 --group-of db:big --pack --no-wait",
	"reservation list",
	"reservation show r-1",
	"reservation show r-2",
	"reservation delete r-1 --yes",
	"reservation list --project shop",
	"reservation show r-1 --project shop",
	"reservation delete r-1 --project shop --yes",
	"explain r-1",
	"explain r-1 --project shop",
	"select --flavor small --name web --count 10",
	"server list --status error --all-projects",
	"server list --host h1 --flavor small --group web --zone west --changed-since 2026-06-01T12:00:00Z",
	"server-group list",
	"server-group list --project shop",
	"server-group list --all-projects",
	"server-group show apart",
	"server-group create apart --policy anti-affinity --max-per-host 1",
	"server-group delete apart --yes",
	"availability-zone list",
	"server show web-1",
	"server show i-1 --no-headers",
	"server list --preemptible",
	"server show i-2",
	"server create web-1 --flavor small --metadata a=1 --metadata b=2",
	"server delete i-1 web-1 --yes",
	"server logs web-1",
	"server logs i-1 --stderr --tail 0 -o json",
	"server stop i-1 web-1 --no-wait",
	"server start web-1",
	"server restart i-1 -o json",
	"reservation restart r-1",
	"reservation restart r-1 --all --no-wait",
	"volume list",
	"volume list --name da --status IN-USE --type fast --zone west --all-projects",
	"volume list -o json",
	"volume show v-1",
	"volume show data",
	"volume create data --size 20",
	"volume create data --size 20 --type fast --storage-class CUSTOM_SSD --near web-1 --availability-zone az1 --zone west --metadata a=1 --spec affinity:resource=CAD",
	"volume create data",
	"volume attach data web-1",
	"volume detach v-1",
	"volume delete data --yes",
	"flavor list",
	"flavor show small",
	"flavor create small --vcpus 1 --ram 0.5G --disk 10G --resource CUSTOM_X=1 --property k=v --command -- /bin/sleep 3600",
	"flavor update small --ram 1G --vcpus 0 --property trait:CUSTOM_X=",
	"flavor delete small --yes",
	"zone list",
	"zone list --no-headers",
	"zone show west",
	"zone info",
	"zone tree",
	"zone tree -o name",
	"zone link-token west --weight-offset 64G",
	"zone link --link-token-file -",
	"zone set west --weight-scale 2 --name west",
	"zone set west --az az1 --tag +disk=slow --tag -gpu=cad --headroom VCPU=10 --headroom MEMORY_MB=5%",
	"zone set west --tag gpu=cad --no-headroom",
	"zone set west --no-tags --az=",
	"zone set europe --share-held 25 --share-committed 80",
	"zone maintenance west on --dry-run",
	"zone maintenance west on --dry-run -o json",
	"zone maintenance west on --yes",
	"zone maintenance west off",
	"binding list",
	"binding list --project web --zone west --az az1 --tag gpu=cad",
	"binding show b-1",
	"binding set web west --az az1 --tag gpu=cad --parent world",
	"binding move b-1 west",
	"binding end b-1 --yes",
	"binding history",
	"binding history web --after 2026-06-01T12:00:00+02:00 --before 2026-06-02T12:00Z",
	"zone pause west",
	"zone resume west",
	"zone unlink west --yes",
	"zone unlink west --force --yes",
	"zone unlink west --force --yes -o json",
	"zone unlink europe --force --end-work --yes",
	"host list",
	"host show h1",
	"host enable h1",
	"host disable h1",
	"host list --state up --pool shared --az az1 --aggregate rack1",
	"host set h1 --pool shared --generation 7",
	"host set h1 --attribute price=3 --attribute rack= --maintenance disk",
	"host drain h1 --policy move --reason disk",
	"host drain h1 h2 --what-if --at 2030-06-02T10:00Z",
	"host drain h1 --what-if --policy move",
	"host drain h1 --what-if -o json",
	"host undrain h1",
	"host evacuation h1 --wait",
	"host delete h1 --yes",
	"host forget h1 --lost --yes",
	"server delete i-1 --lost --yes",
	"volume delete v-1 --lost --yes",
	"quota list",
	"quota show",
	"quota show shop --no-headers",
	"quota set shop hosts=4 leases=none reserved.VCPU=default",
	"quota set --default hosts=2 leases=10",
	"quota delete shop --yes",
	"events",
	"events --after 4711-1 --kind boot --kind instance.error --reservation r-1 --lease l-1 --project shop --no-headers",
	"events --after now -o json",
	"events -o yaml",
	"webhook list",
	"webhook list --all-projects",
	"webhook show pager --project shop",
	"webhook create pager --url https://example.org/berth --kind boot --kind instance.error",
	"webhook create pager --url https://example.org/berth --secret-file -",
	"webhook resume pager",
	"webhook delete pager --yes",
	"operator members",
	"operator remove n3 --yes",
	"operator transfer n2",
	"operator config show",
	"operator autopilot show",
	"operator autopilot set --remove-dead-after 24h",
	"operator autopilot set --remove-dead-after 0",
	"operator config set --plan-ttl 90s --no-tags --default-az az1",
	"operator config set --lease-max-duration 2h --lease-extension-window 48h --lease-max-lead 720h --lease-before-end 0 --lease-exempt ops --lease-exempt lab",
	"operator config set --webhook-network 10.1.0.0/16 --webhook-network fd00::/8",
	"operator config set --lease-check-url https://10.1.0.7/leases --lease-check-token-file - --lease-check-timeout 10s --lease-check-fail-open",
	"operator config set --no-lease-check --no-webhook-networks",
	"operator config set --preemptible-grace 0 --preemptible-way hint --preemptible-way project --preemptible-project +batch --preemptible-project -lab --no-preemptible-firm",
	"operator config set --preemptible-project * --preemptible-project !web --preemptible-allow +lab --preemptible-closed-to-parents",
	"operator config set --binding-mode strict --binding-weigher idle_capacity=10 --binding-weigher price=-1 --binding-headroom VCPU=10 --binding-lost-after 2m --binding-general-on-tagged",
	"operator config set --no-binding-weighers --no-binding-headroom --binding-usage-age 0",
	"operator config set --fanout all --fanout-slack 4",
	"scheduler show",
	"scheduler set --cost spread=2 --cost special=1:traits=A,B,classes=PGPU",
	"scheduler set --filter pool --filter instances:max=50",
	"scheduler set --reset",
	"aggregate list",
	"aggregate show rack1",
	"aggregate create rack1 --metadata availability_zone=az1 --host h1 --host h2",
	"aggregate set rack1 --metadata ssd= --metadata rack=1",
	"aggregate add-host rack1 h3 h1",
	"aggregate remove-host rack1 h1 h2",
	"aggregate delete rack1 --yes",
	"operator keyring rotate",
	"operator upgrade status",
	"operator upgrade finish --yes",
	"operator ca status",
	"operator ca show",
	"operator ca rotate",
	"operator ca use --yes",
	"operator ca use --force --yes",
	"operator ca finish --force --yes",
	"hold list",
	"hold resolve r-2.1 --decision abort --yes",
	"token create --user ada --project web --role member --role reader --expires 1h",
	"token create --user ada --project web --expires never",
	"token create --service ci --project web --role deployer",
	"role list",
	"role set deployer --allow boots:write,servers:read",
	"role delete deployer --yes",
	"token list",
	"token list --all",
	"token revoke 0123456789abcdef --yes",
	"token delete 0123456789abcdef --yes",
	"join-token create --kind agent --name a1",
	"join-token create --kind agent --name a1 --host-prefix rack1- --hosts-max 40 --host-capacity VCPU=128,MEMORY_MB=4096 --disabled",
	"agent list",
	"agent revoke rack1 --yes",
	"capacity",
	"capacity --at 2026-06-02T12:00:00+02:00 --zone west",
	"provider list",
	"provider list --tree",
	"provider list --name pool1 --in-tree h1 --resources VCPU=4,MEMORY_MB=8192 --required CUSTOM_SSD,!CUSTOM_OLD --required in:A,B" +
		" --member-of rack1 --member-of !in:rack1," + uuidZ,
	"provider show h1",
	"provider show " + uuidGPU,
	"provider create pool2 --uuid " + uuidZ,
	"provider create h1-gpu1 --parent h1",
	"provider set pool1 --name pool2",
	"provider set h1-gpu0 --parent pool1",
	"provider set h1-gpu0 --no-parent",
	"provider delete pool1 --yes",
	"provider inventory list h1",
	"provider inventory set h1 VCPU=16 DISK_GB=1000:reserved=10,min_unit=5,max_unit=100,step_size=10,allocation_ratio=1.5",
	"provider inventory set h1 PGPU=1 --only --generation 0",
	"provider inventory set h1 VCPU MEMORY_MB:min_unit=4 --reserved 2 --ratio 1.5",
	"provider inventory set h1 VCPU:reserved=1,allocation_ratio=4",
	"provider inventory unset h1 VCPU",
	"provider inventory unset h1 --all --generation 6",
	"provider usage h1",
	"provider allocations h1",
	"provider trait list h1",
	"provider trait set h1 CUSTOM_NEW CUSTOM_SSD",
	"provider trait set h1 CUSTOM_NEW --only --generation 0",
	"provider trait unset h1 CUSTOM_SSD",
	"provider trait unset h1 --all",
	"provider aggregate list h1",
	"provider aggregate set h1 rack1 " + uuidZ,
	"provider aggregate unset h1 rack1",
	"resource-class list",
	"resource-class create CUSTOM_LICENSE",
	"resource-class delete CUSTOM_LICENSE --yes",
	"trait list",
	"trait list --prefix CUSTOM_ --used=false",
	"trait create CUSTOM_SSD",
	"trait delete CUSTOM_SSD --yes",
	"allocation list " + uuidC,
	"allocation list " + uuidZ,
	"allocation set " + uuidC + " --allocation h1:VCPU=1,MEMORY_MB=512 --allocation pool1:DISK_GB=10",
	"allocation set " + uuidZ + " --allocation h1:VCPU=1 --project web --user ada",
	"allocation set " + uuidC + " --allocation h1:VCPU=1 --type MIGRATION --user bob --generation 7",
	"allocation delete " + uuidC + " --yes",
	"candidates --resources VCPU=1,DISK_GB=10",
	"candidates --resources VCPU=1 --required A,!B --member-of rack1,rack1 --in-tree h1 --group gpu:PGPU=1 --group net:SRIOV_NET_VF=1 --group numa" +
		" --group-required numa:HW_NUMA_ROOT --group-member-of gpu:!rack1 --group-in-tree net:h1 --same-subtree gpu,net,numa --root-required X,!Y --limit 5",
	"candidates --group gpu:PGPU=1 --isolate",
}

// chosenID finds reservation ids that the client chose, each time another one.
var chosenID = regexp.MustCompile(`r-[0-9a-f]{12}\b`)

// record writes the result of a command line, and its calls of the zone.
func record(b *bytes.Buffer, line string, asked []seen, r result) {
	fmt.Fprintf(b, "$ berth %s\n", line)
	for _, s := range asked {
		fmt.Fprintf(b, "# %s\n", s.call)
		if s.body != "" {
			fmt.Fprintf(b, "#   %s\n", chosenID.ReplaceAllString(s.body, "r-CHOSEN"))
		}
	}
	for line := range strings.Lines(r.errOut) {
		fmt.Fprintf(b, "2> %s", line)
	}
	b.WriteString(r.out)
	if r.exit != 0 {
		fmt.Fprintf(b, "exit %d\n", r.exit)
	}
	b.WriteByte('\n')
}

func TestVerbs(t *testing.T) {
	var b bytes.Buffer
	for _, line := range verbs {
		z := newFakeZone(t)
		z.on("GET /servers/web-1", answer{status: http.StatusNotFound, body: refusalOf("not_found", "no such server")})
		if strings.HasPrefix(line, "reservation delete") {
			z.on("GET /zones/boot/r-1", bootIn("RELEASING"), bootIn("RELEASED"))
		}
		environ := map[string]string{"BERTH_ADDR": z.URL, "BERTH_TOKEN": "berth_id_env"}
		r := berth(t.Context(), environ, "link-token-text\n", strings.Fields(line)...)
		record(&b, line, z.asked(""), r)
		assert.NotContains(t, r.errOut, z.URL)
	}
	golden.Check(t, "testdata/verbs.txt", b.Bytes())
}

func TestOutputsAreTheZonesOwn(t *testing.T) {
	var b bytes.Buffer
	for _, line := range []string{
		"zone list -o json", "zone list -o yaml", "reservation show r-1 -o json", "reservation list -o yaml",
		"boot --flavor small --name web -o json", "boot --flavor small --name web --no-wait -o yaml", "flavor show small -o yaml",
		"token create --user ada --project web -o json", "hold list -o json", "zone list -o xml", "version -o xml",
	} {
		z := newFakeZone(t)
		record(&b, line, nil, z.berth(t.Context(), strings.Fields(line)...))
	}
	golden.Check(t, "testdata/outputs.txt", b.Bytes())

	z := newFakeZone(t)
	r := z.berth(t.Context(), "zone", "list", "-o", "json")
	assert.JSONEq(t, canned["GET /zones"], r.out)
	r = z.berth(t.Context(), "reservation", "show", "r-1", "-o", "json")
	assert.JSONEq(t, canned["GET /zones/boot/r-1"], r.out)
}

func TestListsJoinTheirPages(t *testing.T) {
	z := newFakeZone(t)
	first := answer{status: http.StatusOK, body: `{"hosts": [{"name": "a", "new": 1}], "next_marker": "a"}`}
	second := answer{status: http.StatusOK, body: `{"hosts": [{"name": "b"}]}`}
	z.on("GET /hosts", first, second)
	r := z.berth(t.Context(), "host", "list", "-o", "json")
	require.Zero(t, r.exit, r.errOut)
	assert.JSONEq(t, `{"hosts": [{"name": "a", "new": 1}, {"name": "b"}]}`, r.out)
	assert.Equal(t, "GET /hosts?marker=a", z.asked("GET /hosts")[1].call)

	z.on("GET /hosts", first, second)
	r = z.berth(t.Context(), "host", "list", "--no-headers")
	assert.Equal(t, 2, strings.Count(r.out, "\n"))
}

func TestEmptyLists(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /zones", answer{status: http.StatusOK, body: `{"zones": []}`})
	assert.Equal(t, "NAME  ROLE  STATE  HEALTH  CLOCK  WEIGHT OFFSET  WEIGHT SCALE  AZ  TAGS\n", z.berth(t.Context(), "zone", "list").out)
	assert.JSONEq(t, `{"zones": []}`, z.berth(t.Context(), "zone", "list", "-o", "json").out)
}

func TestTablesCannotCommandATerminal(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /zones", answer{status: http.StatusOK, body: `{"zones": [{"name": "a\u001b[2Jb\nc\u009b"}]}`})
	r := z.berth(t.Context(), "zone", "list", "--no-headers")
	assert.True(t, strings.HasPrefix(r.out, "a?[2Jb?c? "), "%q", r.out)
}

func TestServerNames(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /servers/detail", answer{status: http.StatusOK, body: `{"servers": [{"id": "i-1", "name": "web"}, {"id": "i-2", "name": "web"}, {"id": "i-3", "name": "web-3"}]}`})
	r := z.berth(t.Context(), "server", "show", "web")
	assert.Equal(t, exitConflict, r.exit)
	assert.Contains(t, r.errOut, "i-1, i-2")
	r = z.berth(t.Context(), "server", "show", "we")
	assert.Equal(t, exitNotFound, r.exit, "a part of a name is not a name")
	r = z.berth(t.Context(), "server", "delete", "--yes", "i-1", "web", "i-1")
	assert.Equal(t, exitConflict, r.exit, "it stops at the first that cannot be ended")
	assert.Contains(t, r.errOut, "server web: 2 servers")
	assert.Len(t, z.asked("DELETE"), 1)
}

func TestSnapshots(t *testing.T) {
	z := newFakeZone(t)
	path := filepath.Join(t.TempDir(), "zone.snapshot")
	r := z.berth(t.Context(), "operator", "snapshot", "save", path)
	require.Zero(t, r.exit, r.errOut)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "the whole state", string(b))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	r = z.berth(t.Context(), "operator", "snapshot", "save", path)
	assert.Equal(t, exitConflict, r.exit, "a file is not written over")

	r = z.berth(t.Context(), "operator", "snapshot", "restore", path)
	assert.Equal(t, exitUsage, r.exit)
	assert.Empty(t, z.asked("PUT"))
	r = z.berth(t.Context(), "operator", "snapshot", "restore", path, "--yes")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "the whole state", z.asked("PUT")[0].body)
}

func TestSnapshotThatFailsLeavesNothing(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /operator/snapshot", answer{status: http.StatusForbidden, body: refusalOf("forbidden", "this call needs the role admin")})
	dir := t.TempDir()
	r := z.berth(t.Context(), "operator", "snapshot", "save", filepath.Join(dir, "zone.snapshot"))
	assert.Equal(t, exitDenied, r.exit)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestDestructiveVerbsAsk(t *testing.T) {
	for _, line := range []string{
		"reservation delete r-1 --no-wait", "server delete i-1", "volume delete v-1", "flavor delete small", "zone unlink west", "host delete h1",
		"operator remove n3", "hold resolve r-2.1 --decision commit", "token delete 0123456789abcdef", "token revoke 0123456789abcdef", "role delete deployer", "agent revoke rack1", "aggregate delete rack1", "server-group delete apart",
		"provider delete pool1", "resource-class delete CUSTOM_LICENSE", "trait delete CUSTOM_SSD", "allocation delete " + uuidC,
		"lease delete " + leaseID, "quota delete shop", "binding end b-1",
	} {
		args := strings.Fields(line)
		z := newFakeZone(t)
		r := z.berth(t.Context(), args...)
		assert.Equal(t, exitUsage, r.exit, line)
		assert.Contains(t, r.errOut, "--yes", line)

		r = z.onTerminal(t.Context(), "n\n", args...)
		assert.Equal(t, exitFailed, r.exit, line)
		assert.Contains(t, r.errOut, "Continue? [y/N]", line)
		assert.Equal(t, exitFailed, z.onTerminal(t.Context(), "", args...).exit, line)
		assert.Empty(t, z.asked("DELETE"), line)
		assert.Empty(t, z.asked("POST"), line)

		r = z.onTerminal(t.Context(), "y\n", args...)
		assert.Zero(t, r.exit, "%s: %s", line, r.errOut)
		assert.Len(t, append(z.asked("DELETE"), z.asked("POST")...), 1, line)
	}
}

func TestYAMLSaysWhatJSONSays(t *testing.T) {
	const body = `{"z": 1, "a": [true, null, 2.5, "3", "yes", "null", "a: b", "two\nlines", "\u2028 \ud83d\ude00 \u001b", ""],
		"m": {"big": 9007199254740993, "neg": -1, "e": {}, "l": []}}`
	e := newEnv(os.Getenv, nil, nil, nil)
	var out bytes.Buffer
	e.out, e.format = &out, formatYAML
	require.NoError(t, e.printAnswer([]byte(body), nil))
	assert.True(t, strings.HasPrefix(out.String(), "z: 1\na:\n"), "the order is kept")
	var got any
	require.NoError(t, yaml.Unmarshal(out.Bytes(), &got))
	again, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, body, string(again))
	for _, bad := range []string{"", "{", "[1", `{"a"`, `{"a":}`} {
		assert.Error(t, e.printAnswer([]byte(bad), nil), bad)
	}
}

func TestRestoreThatWentWrong(t *testing.T) {
	z := newFakeZone(t)
	path := filepath.Join(t.TempDir(), "zone.snapshot")
	require.NoError(t, os.WriteFile(path, []byte("a backup"), 0o600))
	for code, want := range map[string]struct {
		exit int
		says string
	}{
		"timeout":     {exitTimeout, "berth: the zone's leader was lost or late during the restore, which has happened entirely or not at all (timeout, request req-1)\n  hint: see berth operator members"},
		"invalid":     {exitUsage, "berth: not so (invalid, request req-1)\n  hint: use an intact copy"},
		"unavailable": {exitFailed, "berth: not so (unavailable, request req-1)\n  hint: try again in a moment"},
		"forbidden":   {exitDenied, "berth: not so (forbidden, request req-1)\n  hint: the role of the token"},
	} {
		z.on("PUT /operator/snapshot", answer{status: api.Code(code).HTTPStatus(), body: refusalOf(code, "not so")})
		r := z.berth(t.Context(), "operator", "snapshot", "restore", path, "--yes")
		assert.Equal(t, want.exit, r.exit, code)
		assert.Contains(t, r.errOut, want.says)
	}
	z.Close()
	r := z.berth(t.Context(), "operator", "snapshot", "restore", path, "--yes")
	assert.Equal(t, exitFailed, r.exit)
	assert.Contains(t, r.errOut, "repeating is safe")
}

// TestAnEvenNumberOfVotersIsNoted, beside the list and not in it.
func TestAnEvenNumberOfVotersIsNoted(t *testing.T) {
	z := newFakeZone(t)
	for n, says := range map[int]string{1: "", 2: "2 voters may lose no more of them than 1 could", 3: "", 4: "4 voters may lose no more of them than 3 could"} {
		members := strings.TrimSuffix(strings.Repeat(`{"id": "n", "voter": true},`, n), ",")
		z.on("GET /operator/members", answer{status: http.StatusOK, body: `{"members": [{"id": "learner"}, ` + members + `]}`})
		r := z.berth(t.Context(), "operator", "members", "--no-headers")
		require.Zero(t, r.exit, r.errOut)
		assert.Equal(t, n+1, strings.Count(r.out, "\n"))
		assert.Contains(t, r.errOut, says)
		assert.Equal(t, says == "", r.errOut == "", r.errOut)
	}
}

func TestMembersThatHaveNotJoinedYet(t *testing.T) {
	z := newFakeZone(t)
	for _, joined := range []string{"", `, "joined": "1970-01-01T00:00:00.000Z"`} {
		z.on("GET /operator/members", answer{status: http.StatusOK, body: `{"members": [{"id": "n2", "alive": "alive"` + joined + `}]}`})
		r := z.berth(t.Context(), "operator", "members", "--no-headers")
		require.Zero(t, r.exit, r.errOut)
		assert.Regexp(t, `^n2 .* -  0 MiB  -  -\n$`, r.out)
	}
}
