package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/golden"
	"berth/raftstore"
)

// tree calls see with every command there is.
func tree(c *cobra.Command, see func(*cobra.Command)) {
	see(c)
	for _, sub := range c.Commands() {
		tree(sub, see)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	tree(rootCommand(newEnv(os.Getenv, nil, nil, nil)), func(c *cobra.Command) {
		if c.IsAdditionalHelpTopicCommand() {
			assert.NotEmpty(t, c.Long, c.CommandPath())
			return
		}
		assert.NotEmpty(t, c.Short, c.CommandPath())
		assert.False(t, strings.HasSuffix(c.Short, "."), c.CommandPath())
		assert.True(t, strings.HasPrefix(c.Example, "  "), "%s: an example, indented by two", c.CommandPath())
		if c.HasParent() {
			assert.Contains(t, c.Example, "berth ", c.CommandPath())
		}
		assert.NotNil(t, c.Args, "%s: says which arguments it takes", c.CommandPath())
	})
}

func TestExamplesParse(t *testing.T) {
	tree(rootCommand(newEnv(os.Getenv, nil, nil, nil)), func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "berth" {
				continue
			}
			words = words[1:]
			for i, w := range words { // a shell would take these
				if w == ">" || w == "&&" || w == "|" {
					words = words[:i]
					break
				}
			}
			root := rootCommand(newEnv(os.Getenv, nil, nil, nil))
			found, rest, err := root.Find(words)
			if !assert.NoError(t, err, line) || !assert.NoError(t, found.ParseFlags(rest), line) {
				continue
			}
			if found.Args != nil {
				assert.NoError(t, found.Args(found, found.Flags().Args()), line)
			}
		}
	})
}

func TestHelp(t *testing.T) {
	var b bytes.Buffer
	tree(rootCommand(newEnv(os.Getenv, nil, nil, nil)), func(c *cobra.Command) {
		words := strings.Fields(c.CommandPath())[1:]
		if len(words) == 0 {
			return // lists the processes
		}
		r := berth(t.Context(), nil, "", append([]string{"help"}, words...)...)
		assert.Zero(t, r.exit, c.CommandPath())
		fmt.Fprintf(&b, "$ berth help %s\n%s\n", strings.Join(words, " "), strings.TrimSpace(r.out)+"\n")
	})
	golden.Check(t, "testdata/help.txt", b.Bytes())
	assert.Equal(t, exitUsage, berth(t.Context(), nil, "", "help", "nothing").exit)
	assert.Zero(t, berth(t.Context(), nil, "").exit, "alone it shows its help")
}

func TestUsage(t *testing.T) {
	var b bytes.Buffer
	for _, line := range []string{
		"bot", "boott --flavor x", "zone", "zone lst", "zone list extra", "zone show", "zone show a b", "boot", "boot --flavor small",
		"boot --flavor small --name web --count 0", "boot --flavor small --name web --count 10001", "boot --flavor small --name web --count 3 --min 4",
		"boot --flavor small --name web --min 0", "boot --flavor small --name web --metadata k", "boot --flavor small --name web --metadata k=1 --metadata k=2",
		"boot --flavor small --name web --wait --no-wait", "boot --flavor small --name web --timeout 0s", "boot --colour blue", "boot --count many",
		"flavor create small --ram 0.3M", "flavor create small --vcpus -1", "flavor create small --resource CUSTOM_X=many", "flavor create small -- /bin/true",
		"flavor create", "zone link", "zone set west", "host set h1", "host set h1 --pool blue", "hold resolve r-1 --yes", "token create --user ada",
		"join-token create --kind zone --name a", "join-token create --kind node", "join-token create --kind node --name n --disabled", "operator config set", "scheduler set", "scheduler set --cost spread", "scheduler set --cost spread=1 --reset", "scheduler set --filter instances:max",
		"boot --flavor small --name web --plan --apply f", "boot --flavor small --name web --out f", "boot --apply f --count 3", "boot --name web --groups f --count 3",
		"boot --name web --group-of web", "boot --name web --group-of web:small:x", "boot --name web --group-of web:small --count 2",
		"boot --flavor small --name web --query [", "boot --flavor small --name web --spread-zones 0", "boot --name web --group-of web:small --spread-zones -1",
		"boot --flavor small --name web --min-zones 0", "boot --flavor small --name web --lifetime 0s", "boot --name web --groups /nothing/there",
		"host drain h1", "host drain h1 h2 --policy move", "host drain --what-if", "host drain h1 --policy move --at +2h", "host drain h1 --what-if --policy end", "host drain h1 --what-if --wait",
		"host drain h1 --what-if --at soon", "host drain h1 --what-if --yes", "host drain h1 --policy stop", "host drain h1 --policy end --timeout 0s", "host evacuation h1 --timeout 0s", "aggregate add-host rack1",
		"aggregate set rack1", "server-group create web --policy near", "server-group create web --policy affinity --max-per-host 2", "server list --changed-since today",
		"capacity --at tomorrow", "provider", "provider show", "provider create a --uuid 1", "provider set h1", "provider set h1 --parent p --no-parent",
		"provider list --resources VCPU", "provider list --resources VCPU=0", "provider list --resources VCPU=1,VCPU=2", "provider inventory set h1",
		"provider inventory set h1 VCPU", "provider inventory set h1 VCPU=-1", "provider inventory set h1 VCPU=1:colour=2", "provider inventory set h1 VCPU=1:reserved=x",
		"provider inventory set h1 VCPU=1:allocation_ratio=0", "provider inventory unset", "provider inventory unset h1", "provider inventory unset h1 VCPU --all",
		"provider trait set h1", "provider trait unset h1", "provider aggregate set h1", "resource-class create", "trait delete", "allocation list",
		"allocation set c", "allocation set c --allocation h1", "allocation set c --allocation 11111111-1111-4111-8111-111111111111:VCPU=1",
		"allocation set c --allocation 11111111-1111-4111-8111-111111111111:VCPU=1 --allocation 11111111-1111-4111-8111-111111111111:DISK_GB=1",
		"candidates", "candidates --resources VCPU=1 --limit 0", "candidates --resources VCPU=1 --limit 10001", "candidates --group PGPU=1 --group PGPU=1", "candidates --group :PGPU=1",
		"candidates --group gpu:PGPU", "candidates --group gpu:PGPU=1 --group-required net:A", "candidates --group gpu:PGPU=1 --group-in-tree gpu",
		"lease create", "lease create a", "lease create a --for 2h", "lease create a --for 2h --end +2h --hosts 1", "lease create a --for 30s --hosts 1", "lease create a --for 2x --hosts 1",
		"lease create a --start tomorrow --for 2h --hosts 1", "lease create a --start +2h --end +1h --hosts 1", "lease create a --start 2030-01-31T12:00:30Z --for 2h --hosts 1",
		"lease create a --for 2h --hosts 0", "lease create a --for 2h --hosts 2:1", "lease create a --for 2h --hosts many", "lease create a --for 2h --instances 3",
		"lease create a --for 2h --instances 0 --flavor small", "lease create a --for 2h --instances 3 --flavor small --vcpus 1", "lease create a --for 2h --vcpus 1",
		"lease create a --for 2h --instances 3 --vcpus 1", "lease create a --for 2h --instances 3 --vcpus 1 --ram 1G --affinity maybe",
		"lease create a --for 2h --instances 3 --vcpus 1 --ram 1G --disk 0.3G", "lease create a --for 2h --instances 3 --flavor small --affinity true", "lease create a --for 2h --where []",
		"lease create a --for 2h --hosts 1 --where [", "lease create a --for 2h --reservation x", "lease create a --for 2h --reservation vcpus=1", "lease create a --for 2h --reservation id=r,type=physical:host", "lease create a --for 2h --reservation type=physical:host,min=-1",
		"lease create a --for 2h --reservation type=physical:host,colour=blue", "lease create a --for 2h --reservation type=physical:host,min=1,min=1",
		"lease create a --for 2h --reservation type=physical:host,resource-properties=[", "lease create a --for 2h --hosts 1 --before-end -x", "lease create a --for 2h --hosts 1 --timeout 5m",
		"lease create a --for 2h --hosts 1 --wait --timeout 0s", "lease create a --for 2h --hosts 1 --time-zone UTC", "lease create a --for 2h --hosts 1 --repeat FREQ=DAILY;COUNT=2 --wait",
		"lease create a --for 2h --hosts 1 --maintenance h1", "lease series", "lease series show", "lease series delete", "lease delete", "lease show", "lease update a", "lease update a --end now --prolong 1h", "lease update a --no-sharing --shared-with p",
		"lease update a --instances 0", "lease calendar --width 59", "lease calendar --width 1001", "lease calendar --from soon", "lease calendar --from -x", "lease calendar --for 0m",
		"lease find", "lease find --for 2h", "lease find --hosts 1", "lease find --for 30s --hosts 1", "lease find a --for 2h --hosts 1", "lease find --for 2h --hosts 1 --earliest soon",
		"lease find --for 2h --hosts 1 --latest -x", "lease find --for 2h --hosts 1 --earliest +1h --latest +2h", "lease find --for 2h --hosts 0", "lease plan", "lease plan nightly",
		"lease plan create", "lease plan create a --hosts 1", "lease plan create a --for 2h", "lease plan create a --for 2h --hosts 1 --wait", "lease plan update", "lease plan update a",
		"lease calendar --from 2030-01-31 --to 2030-01-30", "lease calendar --for 1d --to 2030-01-31", "lease calendar --for 4000d", "lease calendar --for 90s",
		"operator config set --tag a --no-tags", "operator config set --preemptible-firm a --preemptible-firm +b", "server delete", "server create web", "completion", "completion tcsh", "operator snapshot",
	} {
		r := berth(t.Context(), nil, "", strings.Fields(line)...)
		assert.Equal(t, exitUsage, r.exit, line)
		assert.Empty(t, r.out, line)
		record(&b, line, nil, r)
	}
	golden.Check(t, "testdata/usage.txt", b.Bytes())
}

func TestExitCodes(t *testing.T) {
	for code, exit := range map[api.Code]int{
		api.CodeInvalid: 2, api.CodeUnauthenticated: 6, api.CodeForbidden: 6, api.CodeOverQuota: 6, api.CodeNotFound: 3, api.CodeMethod: 1, api.CodeSlow: 1, api.CodeConflict: 4,
		api.CodeStale: 4, api.CodeTooLarge: 1, api.CodeMediaType: 1, api.CodePlanRefused: 4, api.CodeNoCapacity: 5, api.CodeContended: 4, api.CodePaused: 4, api.CodeUnreached: 4, api.CodeOverloaded: 1,
		api.CodeUnavailable: 1, api.CodeTimeout: 7, api.CodeInternal: 1, api.CodeExists: 4, api.CodeInUse: 4, api.CodeHasChildren: 4,
	} {
		z := newFakeZone(t)
		z.on("POST /flavors", answer{status: code.HTTPStatus(), body: refusalOf(string(code), "not so")}) // not repeated
		r := z.berth(t.Context(), "flavor", "create", "small", "--vcpus", "1")
		assert.Equal(t, exit, r.exit, code)
		sentence := "not so"
		if code == api.CodeInternal {
			sentence = api.MessageOf(api.Errorf(code, ""))
		}
		assert.True(t, strings.HasPrefix(r.errOut, fmt.Sprintf("berth: %s (%s, request req-1)\n", sentence, code)), r.errOut)
		assert.Empty(t, r.out)
	}
	assert.Equal(t, exitFailed, exitCode(errors.New("else")))
	assert.Equal(t, exitInterrupted, exitCode(fmt.Errorf("reading: %w", context.Canceled)))
	help := exitCodesHelp()
	for _, x := range exits {
		assert.Contains(t, help, fmt.Sprintf("%3d  %s\n", x.code, x.text))
	}
}

func TestErrorsAreOneLineAndAHint(t *testing.T) {
	var b bytes.Buffer
	assert.Equal(t, exitFailed, ReportError(&b, errors.New("first\nsecond")))
	assert.Equal(t, "berth: first; second\n", b.String())
	b.Reset()
	assert.Equal(t, exitNotFound, ReportError(&b, withHint(api.Errorf(api.CodeNotFound, "no zone"), "look elsewhere")))
	assert.Equal(t, "berth: no zone (not_found)\n  hint: look elsewhere\n", b.String())
	b.Reset()
	assert.Zero(t, ReportError(&b, withHint(nil, "nothing")))
	assert.Empty(t, b.String())
}

func TestLocalErrorsHaveNoHintsOfCalls(t *testing.T) {
	require.NoError(t, localError(nil))
	told := exitError(exitUsage, "do this", "no")
	assert.Equal(t, told, localError(told), "what a command knows better stays")
	assert.Equal(t, ExitBroken, exitCode(localError(fmt.Errorf("opening: %w", raftstore.ErrDamaged))))
	assert.Equal(t, exitInterrupted, exitCode(localError(context.Canceled)))
}

func TestWhoWaitsLongIsTold(t *testing.T) {
	for took, says := range map[time.Duration]string{
		slowAfter - time.Millisecond: "", slowAfter + time.Millisecond: "still waiting for https://zone:7600 ...\n", time.Hour: "still waiting for https://zone:7600 ...\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out, errOut bytes.Buffer
			e := newEnv(os.Getenv, nil, &out, &errOut)
			e.calling = "https://zone:7600"
			slow := func(context.Context) (rest.Member, error) {
				<-time.After(took)
				return rest.Member{}, errors.New("gone")
			}
			require.Error(t, showAnswer(t.Context(), e, slow, func(rest.Member) []table { return nil }))
			assert.Equal(t, says, errOut.String(), took)
			errOut.Reset()
			slowList := func(ctx context.Context) ([]rest.Member, error) { n, err := slow(ctx); return []rest.Member{n}, err }
			require.Error(t, listAll(t.Context(), e, "nodes", onePage(slowList), func([]rest.Member) []table { return nil }))
			assert.Equal(t, says, errOut.String(), took)
			assert.Empty(t, out.String(), "it is no data")
		})
	}
}

func TestSettingsTakeTheFirstThatIsGiven(t *testing.T) {
	z := newFakeZone(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "berth", "config.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("addr: "+z.URL+"\ntoken: berth_id_file\n"), 0o600))
	tokenFile := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(tokenFile, []byte("berth_id_tokenfile\n"), 0o600))
	for _, c := range []struct {
		environ map[string]string
		in      string
		args    []string
		token   string
	}{
		{map[string]string{}, "", nil, "berth_id_file"},
		{map[string]string{"BERTH_TOKEN": "berth_id_env"}, "", nil, "berth_id_env"},
		{map[string]string{"BERTH_TOKEN": "berth_id_env"}, "", []string{"--token", "berth_id_flag"}, "berth_id_flag"},
		{map[string]string{"BERTH_TOKEN": "berth_id_env"}, "", []string{"--token-file", tokenFile}, "berth_id_tokenfile"},
		{map[string]string{"BERTH_TOKEN_FILE": tokenFile}, "", nil, "berth_id_tokenfile"},
		{map[string]string{"BERTH_TOKEN_FILE": "-"}, "berth_id_stdin\n", nil, "berth_id_stdin"},
		{map[string]string{"BERTH_TOKEN_FILE": "/nowhere"}, "", []string{"--token", "berth_id_flag"}, "berth_id_flag"},
		{nil, "berth_id_stdin\n", []string{"--token-file", "-"}, "berth_id_stdin"},
	} {
		environ := map[string]string{"XDG_CONFIG_HOME": dir}
		for k, v := range c.environ {
			environ[k] = v
		}
		r := berth(t.Context(), environ, c.in, append([]string{"zone", "list"}, c.args...)...)
		require.Zero(t, r.exit, r.errOut)
		asked := z.asked("GET")
		assert.Equal(t, c.token, asked[len(asked)-1].token)
	}
}

func TestSettingsThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".config", "berth", "config.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	for text, says := range map[string]string{
		"colour: x":            `unknown setting "colour"`,
		"addr: [":              "reading",
		"token: berth_id_file": "chmod 600",
		"addr: zone.example":   "https://",
		"cacert: /nowhere":     "CA certificate",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o644))
		r := berth(t.Context(), map[string]string{"HOME": dir}, "", "zone", "list")
		assert.Equal(t, exitUsage, r.exit, text)
		assert.Contains(t, r.errOut, says, text)
	}
	r := berth(t.Context(), nil, "", "zone", "list", "--token", "a", "--token-file", "b")
	assert.Equal(t, exitUsage, r.exit)
	for _, in := range []string{"", "one\ntwo", strings.Repeat("x", secretMaxBytes+1)} {
		r = berth(t.Context(), nil, in, "zone", "list", "--token-file", "-")
		assert.Equal(t, exitUsage, r.exit)
		assert.NotContains(t, r.errOut, "two", "what a secret may be is not printed")
		r = berth(t.Context(), map[string]string{"BERTH_TOKEN_FILE": "-"}, in, "zone", "list")
		assert.Equal(t, exitUsage, r.exit)
	}
	for _, environ := range []map[string]string{{"BERTH_TOKEN_FILE": "/nowhere"}, {"BERTH_TOKEN_FILE": "a", "BERTH_TOKEN": "b"}} {
		assert.Equal(t, exitUsage, berth(t.Context(), environ, "", "zone", "list").exit)
	}
}

// TestSecretsThatOthersCanRead are not used, wherever a file with one is given.
func TestSecretsThatOthersCanRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("berth_id_x"), 0o600))
	e := newEnv(func(string) string { return "" }, nil, nil, nil)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o620: false} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := e.readSecret(path)
		assert.Equal(t, ok, err == nil, "%v: %v", mode, err)
	}
	require.NoError(t, os.Chmod(path, 0o644)) //nolint:gosec // what is refused
	for _, line := range []string{"zone list --token-file ", "login --token-file ", "context add a --token-file ", "zone link east --link-token-file "} {
		r := berth(t.Context(), nil, "", strings.Fields(line+path)...)
		assert.Equal(t, exitUsage, r.exit, line)
		assert.Contains(t, r.errOut, "chmod 600", line)
	}
	r := berth(t.Context(), map[string]string{"BERTH_TOKEN_FILE": path}, "", "zone", "list")
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, "chmod 600")
}

func TestSecretAtItsLimit(t *testing.T) {
	e := newEnv(os.Getenv, strings.NewReader(strings.Repeat("x", secretMaxBytes)), nil, nil)
	s, err := e.readSecret("-")
	require.NoError(t, err)
	assert.Len(t, s, secretMaxBytes)
}

func TestNamesAreCompleted(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /zones", answer{status: http.StatusOK, body: `{"zones": [` + cannedZone + `, ` + cannedParent + `]}`})
	for line, want := range map[string]string{
		"zone show": "west\neurope\n", "host show": "h1\n", "flavor show": "small\n", "boot --flavor": "small\n", "reservation show": "r-1\tweb\n",
		"explain": "r-1\tweb\n", "server delete": "web-1\ti-1\n", "server show": "web-1\ti-1\n", "volume show": "data\tv-1\n",
		"reservation list --state": "ACCEPTED\nHOLDING\nBUILDING\nACTIVE\nDEGRADED\nERROR\nRELEASING\nRELEASED\nFAILED\n",
		"boot --zone":              "home\nwest\n", "boot --exclude-zone": "home\nwest\n", "server list --zone": "home\nwest\n", "volume list --zone": "home\nwest\n",
		"volume create --zone": "home\nwest\n", "lease create --zone": "home\nwest\n", "capacity --zone": "home\nwest\n", "binding list --zone": "west\n", "server-group show": "apart\tanti-affinity\n", "aggregate add-host": "rack1\n", "aggregate add-host rack1": "h1\n",
		"boot --az": "az1\naz2\n", "boot --group": "apart\tanti-affinity\n", "host drain h1 --policy": "wait\nend\nmove\n",
		"scheduler set --filter": "pool\tthe pool takes the class\ninstances\tfew instances\nquery\tthe query is true\n", "hold resolve": "r-2.1\n", "host set h1 --pool": "on_demand\nreservable\nshared\n",
		"lease show":    leaseID + "\tnightly\n11111111-0000-4000-8000-000000000009\tearly\n",
		"boot --within": reservationID + "\tnightly\n11111111-0000-4000-8000-000000000003\tnightly\n11111111-0000-4000-8000-000000000004\tnightly\n",
		"provider show": "pool1\nh1-gpu0\nh1\n", "provider trait set h1": "COMPUTE_NODE\nCUSTOM_SSD\n", "resource-class delete": "CUSTOM_LICENSE\nVCPU\n",
		"zone show west": "", "zone list -o": "table\nwide\nname\ncsv\njson\nyaml\n",
	} {
		r := z.berth(t.Context(), append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		got, directive, _ := strings.Cut(r.out, ":")
		assert.Equal(t, want, got, line)
		assert.Equal(t, "4\n", directive, "%s: and no files", line)
	}
	z.on("GET /zones", answer{status: http.StatusForbidden, body: refusalOf("forbidden", "no")})
	r := z.berth(t.Context(), "__complete", "zone", "show", "")
	assert.Equal(t, ":4\n", r.out, "a shell is not told of errors")
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := berth(t.Context(), nil, "", "completion", shell)
		assert.Zero(t, r.exit, shell)
		assert.Contains(t, r.out, "berth", shell)
	}
}

func TestVersion(t *testing.T) {
	r := berth(t.Context(), nil, "", "version")
	assert.Regexp(t, `^berth dev \(go\S+ \S+, \w+/\w+\)\n$|^berth dev \(go\S+, \w+/\w+\)\n$`, r.out)
	assert.Equal(t, "berth dev\n", berth(t.Context(), nil, "", "--version").out)
	r = berth(t.Context(), nil, "", "version", "-o", "json")
	assert.Contains(t, r.out, `"version": "dev"`)
}

func TestSizes(t *testing.T) {
	for text, mib := range map[string]int64{
		"512": 512, "512M": 512, "512MiB": 512, "512MB": 512, "0.5G": 512, "1.5G": 1536, "2GiB": 2048, "1T": 1 << 20, "1": 1, ".5G": 512,
		"68719476736": api.AmountMax,
	} {
		got, ok := ParseSize(text, 1)
		assert.True(t, ok, text)
		assert.Equal(t, mib, got, text)
	}
	for _, text := range []string{
		"", "M", "0", "-1", "-1G", "0.3G", "1K", "1e3", "0x10", "Inf", "NaN", "5iB", "5B", "1 G", "1_0", "68719476737", "1G2",
	} {
		_, ok := ParseSize(text, 1)
		assert.False(t, ok, text)
	}
	gib, ok := ParseSize("10", 1<<10)
	assert.True(t, ok)
	assert.Equal(t, int64(10), gib)
	gib, ok = ParseSize("1T", 1<<10)
	assert.True(t, ok)
	assert.Equal(t, int64(1024), gib)
	_, ok = ParseSize("512M", 1<<10)
	assert.False(t, ok, "half a GiB is no disk")
}

// TestRefusalsNameFlags: what the API says of a field, the command line says of the flag, and never of what a caller wrote.
func TestRefusalsNameFlags(t *testing.T) {
	for sentence, want := range map[string]string{
		`flavorRef: there is no flavor "x" in this zone; see GET /flavors`: `--flavor: there is no flavor "x" in this zone; see: berth flavor list`,
		`scheduler_hints.build_near_host_ip must be an address`:            `--near must be an address`,
		`zones.allowed: there is no zone "a"`:                              `--zone: there is no zone "a"`,
		`zones.allowed_tags: none`:                                         `--zone-tag: none`,
		`groups[0].flavorRef: none`:                                        `groups[0].flavorRef: none`,
		`name must be short`:                                               `name must be short`,
		`traitsX must`:                                                     `traitsX must`,
		`traits.required must`:                                             `traits.required must`,
		`there is no "flavorRef: a"`:                                       `there is no "flavorRef: a"`,
		"":                                                                 "",
		`plan_ttl must be 1s to 1h0m0s`:                                    `--plan-ttl must be 1s to 1h0m0s`,
		`leases.extension_window needs leases.max_duration`:                `--lease-extension-window needs --lease-max-duration`,
		`leases.check.url: it is not allowed`:                              `--lease-check-url: it is not allowed`,
		`scheduler_hints.force_hosts and ignore_hosts need the role admin`:  `--force-host and --ignore-host need the role admin`,
		`host_prefix, hosts_max, host_capacity and disabled are for agents`: `--host-prefix, --hosts-max, --host-capacity and disabled are for agents`,
		`ttl must be more than 0s`:               `--ttl must be more than 0s`,
		`roles must name at least one of reader`: `--role must name at least one of reader`,
		`scheduler_hints.group: there is no server group "nope" in this project; see GET /server-groups`:     `--group: there is no server group "nope" in this project; see: berth server-group list`,
		`groups[1].scheduler_hints.reservation: there is no reservation "x"; see GET /reservation/v1/leases`: `groups[1].scheduler_hints.reservation: there is no reservation "x"; see: berth lease list`,
		`reservation r-1 is not decided yet; see GET /zones/boot/r-1`:                                        `reservation r-1 is not decided yet; see: berth reservation show r-1`,
		`a zone is admitted by POST /zones`:                                                                  `a zone is admitted by berth zone link-token`,
		`there is no "plan_ttl; see GET /flavors"`:                                                           `there is no "plan_ttl; see GET /flavors"`,
		`this call needs a valid token: send Authorization: Bearer berth_...`:                                `this call needs a valid token`,
	} {
		assert.Equal(t, want, inFlags(sentence))
	}
}

// TestPoints: an offset is given as the memory that it is worth, and printed so that it can be given again.
func TestPoints(t *testing.T) {
	for text, want := range map[string]int64{
		"64G": 64 << 10, "-64G": -64 << 10, "1T": 1 << 20, "-1.5T": -3 << 19, "1000": 1000, "-7M": -7, "0": 0, "1000000000000M": 1_000_000_000_000,
	} {
		var p, again points
		require.NoError(t, p.Set(text), text)
		assert.Equal(t, want, int64(p), text)
		require.NoError(t, again.Set(p.String()))
		assert.Equal(t, p, again, "%s is printed as %s", text, p.String())
	}
	for n, want := range map[int64]string{64 << 10: "64G", -1 << 20: "-1T", 1025: "1025M", -5: "-5M", 0: "0"} {
		assert.Equal(t, want, showPoints(n))
	}
	for _, text := range []string{"", "-", "--1G", "+-1G", "64K", "0.3G", "1e3", "much"} {
		require.Error(t, new(points).Set(text), text)
	}
}

// TestWordsThatAreNotUTF8AreRefused: they would be sent as another text.
func TestWordsThatAreNotUTF8AreRefused(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "f.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"boot", "--name", "a\xff", "--flavor", "small"}, "argument 3 is not valid UTF-8"},
		{[]string{"boot", "--name", "a", "--groups", file("groups:\n- name: \"\xff\"\n")}, "not valid UTF-8 at byte"},
		{[]string{"boot", "--name", "a", "--groups", file(`{"groups":[{"name":"\ud800"}]}`)}, "half of a surrogate pair"},
	} {
		err := (&Program{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}, Getenv: func(string) string { return "" }}).Run(t.Context(), c.args)
		require.Error(t, err)
		assert.Contains(t, err.Error(), c.says)
	}
}
