//go:build openstack

package openstack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/api"
	"berth/dev"
)

// client and blazar are the commands of the stock client, and patience ends a call of it that hangs: most of
// a call is the start of its interpreter.
const (
	client   = "openstack"
	blazar   = "blazar"
	patience = 10 * time.Minute
)

// packages are those of Debian that have the stock client.
var packages = []string{"python3-openstackclient", "python3-osc-placement", "python3-blazarclient"}

func TestMain(m *testing.M) {
	err := installed()
	if err != nil && install() {
		err = installed()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the stock client cannot be driven: %v\n"+
			"install it: apt-get install %s\n", err, strings.Join(packages, " "))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// installed returns an error unless the client has the commands of both services. Of one
// that it does not have it says so, and that it is well.
func installed() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for words, has := range map[string]string{
		client + " resource provider create --help": "--parent-provider",
		client + " reservation lease create --help": "--reservation",
		blazar + " help lease-create":               "--physical-reservation",
	} {
		args := strings.Fields(words)
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput() //nolint:gosec // they are above
		if err != nil {
			return fmt.Errorf("%s: %w: %s", words, err, out)
		}
		if !strings.Contains(string(out), has) {
			return fmt.Errorf("%s does not know %s: %s", words, has, out)
		}
	}
	return nil
}

// installPatience is how long the installation of the client may take.
const installPatience = 20 * time.Minute

// install installs the client where it can: as root, with the packages of Debian. It reports
// whether it did.
func install() bool {
	if os.Geteuid() != 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), installPatience)
	defer cancel()
	apt := func(words ...string) error {
		c := exec.CommandContext(ctx, "apt-get", words...) //nolint:gosec // words are below
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := c.CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "apt-get %s: %v\n%s", strings.Join(words, " "), err, out)
		}
		return err
	}
	packages := append([]string{"install", "-y"}, packages...)
	return apt(packages...) == nil || apt("update") == nil && apt(packages...) == nil // the lists may be old, or none
}

// startZone runs one zone until the test ends.
func startZone(t *testing.T, nodes, hosts int, insecure bool) *dev.Zone {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f, err := dev.Start(ctx, dev.Options{
		Dir: t.TempDir(), Tree: dev.Spec{Name: "root", Nodes: nodes, Hosts: &hosts}, Version: "test", Now: time.Now, Insecure: insecure, StartDelay: dev.StartDelayDefault,
		Shape: agent.Inventory{api.VCPU: {Total: 4}, api.MemoryMB: {Total: 8192}},
		Log:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		cancel()
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, f.Wait())
	})
	return f.Zones[0]
}

// stock is the stock client, logged in at one node.
type stock struct {
	t    *testing.T
	env  []string
	tool string // its command; "" for openstack
}

// command returns the command of the client.
func (s stock) command() string { return cmp.Or(s.tool, client) }

// login returns the client with settings in its environment, and no others.
func login(t *testing.T, node *dev.Process, settings ...string) stock {
	t.Helper()
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LC_ALL=C.UTF-8",
		"OS_ENDPOINT=http://" + node.Node.Addresses().API + "/placement", "OS_PLACEMENT_API_VERSION=1.39",
	}
	return stock{t: t, env: append(env, settings...)}
}

// at returns the client asking for another microversion.
func (s stock) at(version string) stock {
	env := append([]string{}, s.env...)
	return stock{t: s.t, env: append(env, "OS_PLACEMENT_API_VERSION="+version)}
}

// together does at the same time what may come in any order, and waits for all.
func (s stock) together(parts ...func(s stock)) {
	s.t.Run("together", func(t *testing.T) {
		for i, part := range parts {
			t.Run(strconv.Itoa(i+1), func(t *testing.T) {
				t.Parallel()
				part(stock{t: t, env: s.env})
			})
		}
	})
}

const noBreak = "\u00a0"

// run runs one command, given as words, and returns what it printed. A no-break space in a
// word is a space.
func (s stock) run(words string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var out, fault bytes.Buffer
	args := strings.Split(words, " ")
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], noBreak, " ")
	}
	c := exec.CommandContext(ctx, s.command(), args...)
	c.Env, c.Stdout, c.Stderr = s.env, &out, &fault
	err = c.Run()
	return out.String(), fault.String(), err
}

// do runs a command that must succeed, and returns what it printed.
func (s stock) do(words string, a ...any) string {
	s.t.Helper()
	words = fmt.Sprintf(words, a...)
	out, fault, err := s.run(words)
	require.NoError(s.t, err, "%s %s\n%s", s.command(), words, fault)
	return out
}

// row is a row of a table, or the fields of one thing: words by their names.
type row map[string]string

// list runs a command that lists, and returns the rows.
func (s stock) list(words string, a ...any) []row {
	s.t.Helper()
	var rows []map[string]any
	s.decode(words, a, &rows)
	out := make([]row, len(rows))
	for i := range rows {
		out[i] = texts(rows[i])
	}
	return out
}

// show runs a command that shows one thing, and returns its fields.
func (s stock) show(words string, a ...any) row {
	s.t.Helper()
	var fields map[string]any
	s.decode(words, a, &fields)
	return texts(fields)
}

func (s stock) decode(words string, a []any, into any) {
	s.t.Helper()
	d := json.NewDecoder(strings.NewReader(s.do(words+" -f json", a...)))
	d.UseNumber()
	require.NoError(s.t, d.Decode(into), words)
}

// texts returns fields as the client writes them; what is nested, as JSON.
func texts(fields map[string]any) row {
	out := row{}
	for name, v := range fields {
		switch v.(type) {
		case map[string]any, []any:
			b, _ := json.Marshal(v) // it was decoded from JSON
			out[name] = string(b)
		default:
			out[name] = fmt.Sprint(v)
		}
	}
	return out
}

// refused runs a command that the server must refuse with a status, for a reason
// that has a word in it.
func (s stock) refused(status int, reason, words string, a ...any) {
	s.t.Helper()
	words = fmt.Sprintf(words, a...)
	out, fault, err := s.run(words)
	require.Error(s.t, err, "%s %s\n%s", s.command(), words, out)
	assert.Contains(s.t, fault, fmt.Sprintf("(HTTP %d)", status), words)
	assert.Contains(s.t, fault, reason, words)
}
