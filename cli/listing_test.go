package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bootRow is a boot in an answer.
func bootRow(id, project, state string, active, most int, day string) string {
	return fmt.Sprintf(`{"reservation_id": %q, "name": "web", "project_id": %q, "user_id": "u", "flavor": "small", "min_count": 1, "max_count": %d,`+
		`"state": %q, "attempts": [], "instances": {"ACTIVE": %d}, "zones": [], "created": "2026-%sT12:00:00.000Z", "updated": "2026-06-09T12:00:00.000Z", "index": 9}`,
		id, project, most, state, active, day)
}

func listingZone(t *testing.T) *fakeZone {
	t.Helper()
	z := newFakeZone(t)
	z.on("GET /zones/boot", answer{status: 200, body: `{"boots": [` + strings.Join([]string{
		bootRow("r-1", "p", "ACTIVE", 9, 9, "06-02"), bootRow("r-2", "q", "FAILED", 0, 2, "06-03"), bootRow("r-3", "p", "ACTIVE", 10, 10, "06-01"),
	}, ",") + `]}`})
	return z
}

// TestListsAreArranged: they are sorted and cut as their flags want it, in every format alike.
func TestListsAreArranged(t *testing.T) {
	z := listingZone(t)
	for line, want := range map[string]string{
		"":                                 "r-2 r-1 r-3", // the newest first
		"--sort created":                   "r-3 r-1 r-2",
		"--sort=-created":                  "r-2 r-1 r-3",
		"--sort ACTIVE":                    "r-2 r-1 r-3", // by number
		"--sort=-active":                   "r-3 r-1 r-2",
		"--sort state":                     "r-1 r-3 r-2", // as they came where they are equal
		"--limit 1":                        "r-2",
		"--sort created --limit 2":         "r-3 r-1",
		"--all-projects --sort=-project":   "r-2 r-1 r-3",
		"-o wide --sort reason --limit 99": "r-1 r-2 r-3",
	} {
		ids := strings.Fields(want)
		names := z.berth(t.Context(), strings.Fields("reservation list -o name "+line)...)
		if !strings.Contains(line, "-o ") {
			assert.Equal(t, strings.Join(ids, "\n")+"\n", names.out, line)
		}
		asJSON := z.berth(t.Context(), append(strings.Fields("reservation list "+strings.ReplaceAll(line, "-o wide", "")), "--jq", ".boots[].reservation_id")...)
		assert.Equal(t, strings.Join(ids, "\n")+"\n", asJSON.out, line)
	}
	for line, says := range map[string]string{
		"reservation list --sort colour":              `there is no column "colour"`,
		"reservation list --limit=-1":                 "--limit must be 0 or more",
		"reservation list --project a --all-projects": "not both",
		"reservation list --jq .boots[":               "--jq",
		"reservation list --jq .boots.a":              "--jq",
		"reservation list --jq . -o csv":              "cannot be given together",
	} {
		r := z.berth(t.Context(), strings.Fields(line)...)
		assert.Equal(t, exitUsage, r.exit, line)
		assert.Contains(t, r.errOut, says, line)
	}
	z.on("GET /zones/boot", answer{status: 200, body: `{"boots": []}`})
	assert.Equal(t, "{\n  \"boots\": []\n}\n", z.berth(t.Context(), "reservation", "list", "-o", "json").out)
}

// TestEveryListIsArranged goes over all that is called list: a flag in its help that it did not follow would be worse than none.
func TestEveryListIsArranged(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /placement/allocations/8d5d5f2c-2f7c-4a76-b2a4-f7a2b5a5d3a1", answer{status: 200, body: cannedHeld})
	z.on("GET /operator/audit", answer{status: 200, body: `{"audit": []}`})
	lists := 0
	tree(rootCommand(newEnv(os.Getenv, nil, nil, nil)), func(c *cobra.Command) {
		if c.Name() != "list" {
			return
		}
		lists++
		words := strings.Fields(firstLine(c.Example))[1:]
		for _, flag := range []string{"sort", "limit", "watch", "output", "jq"} {
			assert.NotNil(t, c.Flag(flag), "%s: --%s", c.CommandPath(), flag)
		}
		r := z.berth(t.Context(), append(slices.Clone(words), "--sort", "nope")...)
		assert.Equal(t, exitUsage, r.exit, "%s: %s", words, r.errOut)
		assert.Contains(t, r.errOut, `there is no column "nope"`, words)
		r = z.berth(t.Context(), append(slices.Clone(words), "-o", "name", "--limit", "1")...)
		assert.Zero(t, r.exit, "%s: %s", words, r.errOut)
		assert.LessOrEqual(t, strings.Count(r.out, "\n"), 1, words)
	})
	assert.Greater(t, lists, 25)
}

// TestListsOnOnePageAreArranged: also where the answer has an object in place of an array, or an item has several rows.
func TestListsOnOnePageAreArranged(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /quotas", answer{status: 200, body: `{"quotas": [{"limits": {"hosts": 2, "leases": 10}, "use": []}, ` +
		`{"project_id": "shop", "limits": {}, "use": [{"name": "hosts", "limit": 7, "used": 1, "peak": 3}]}, {"project_id": "idle", "limits": {}, "use": []}]}`})
	for line, want := range map[string]string{
		"quota list --sort=-limit -o name":                                           "(default)\nshop\n(default)\n",
		"quota list --sort=-limit --jq .quotas[].project_id":                         "null\nshop\nidle\n",
		"quota list --sort limit --jq .quotas[].project_id":                          "null\nshop\nidle\n",
		"quota list --sort=-used --jq .quotas[].project_id":                          "shop\nnull\nidle\n",
		"quota list --sort=-used --limit 1 --jq .quotas[].project_id":                "shop\n",
		"lease list --sort name -o name":                                             "11111111-0000-4000-8000-000000000009\n" + leaseID + "\n",
		"lease list --sort=-name --limit 1 --jq .leases[].name":                      "nightly\n",
		"provider inventory list h1 --sort total --limit 1 --jq .inventories|keys[]": "VCPU\n",
		"provider inventory list h1 --limit 1 --jq .resource_provider_generation>0":  "true\n",
		"provider trait list h1 --sort=-name -o name":                                "CUSTOM_SSD\nCOMPUTE_NODE\n",
		"provider trait list h1 --sort=-name --limit 1 --jq .traits[]":               "CUSTOM_SSD\n",
	} {
		r := z.berth(t.Context(), strings.Fields(line)...)
		assert.Equal(t, want, r.out, "%s: %s", line, r.errOut)
	}
}

// TestWaysToPrintLists: wide has more columns, csv has them too and quotes what it must, and what is narrow has not.
func TestWaysToPrintLists(t *testing.T) {
	z := listingZone(t)
	out := func(line string) string {
		r := z.berth(t.Context(), strings.Fields(line)...)
		require.Zero(t, r.exit, r.errOut)
		return r.out
	}
	assert.NotContains(t, out("reservation list"), "PROJECT")
	assert.Contains(t, out("reservation list --all-projects"), "RESERVATION  PROJECT  NAME")
	assert.Contains(t, out("reservation list -o wide"), "CREATED               PROJECT  USER  UPDATED")
	rows := strings.Split(out("reservation list -o csv"), "\n")
	assert.Equal(t, "RESERVATION,NAME,STATE,ACTIVE,FLAVOR,CREATED,PROJECT,USER,UPDATED,REQUEST,REASON", rows[0])
	assert.Equal(t, "r-2,web,FAILED,0/2,small,2026-06-03T12:00:00Z,q,u,2026-06-09T12:00:00Z,-,-", rows[1])
	assert.Equal(t, "r-2", strings.Split(out("reservation list -o csv --no-headers"), ",")[0])
	e := newEnv(func(string) string { return "" }, nil, nil, nil)
	b, err := e.spellCSV([]table{{header: []string{"A", "B"}, rows: [][]string{{"x,y", `"z"`}}}, {rows: [][]string{{"c"}}}})
	require.NoError(t, err)
	assert.Equal(t, "A,B\n\"x,y\",\"\"\"z\"\"\"\n\nc\n", string(b))
	for cell, want := range map[string]string{
		"=1+1": "'=1+1", "@x": "'@x", "+a": "'+a", "-a": "'-a", "-": "-", "": "", "-5": "-5", "+1.5": "+1.5", "a=b": "a=b", "'=": "'=",
	} {
		assert.Equal(t, want, spellCell(cell), "what a spreadsheet takes for a formula is a text")
	}
	b, err = e.spellCSV([]table{{rows: [][]string{{`=HYPERLINK("http://x","y")`}}}})
	require.NoError(t, err)
	assert.Equal(t, "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"\n", string(b))
	assert.Equal(t, "r-1\n", out("reservation show r-1 -o name"))
	assert.Equal(t, "true\n3\n{\"a\":\"ä\"}\nnull\n", out(`zone info --jq true,3,{"a":"ä"},null`))
}

// TestListsAreWatched: a list is made again at intervals, in the place of the one before on a terminal, and its error ends it.
func TestListsAreWatched(t *testing.T) {
	for tty, between := range map[bool]string{true: clearScreen, false: ""} {
		synctest.Test(t, func(t *testing.T) {
			var b strings.Builder
			e := newEnv(func(string) string { return "" }, nil, &b, nil)
			e.outTTY = tty
			n := 0
			require.ErrorContains(t, e.watchList(t.Context(), func() error {
				if n++; n > 2 {
					return errors.New("gone")
				}
				return e.writeOut([]byte("list\n"))
			}), "gone")
			assert.Equal(t, between+"list\n"+between+"list\n"+between, b.String())
		})
	}
}
