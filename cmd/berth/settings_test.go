package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"

	"berth/internal/golden"
)

// writeSettings writes a configuration file and returns its path.
func writeSettings(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestSettingsReference: docs/config.md has every setting of both processes.
func TestSettingsReference(t *testing.T) {
	golden.Check(t, "../../docs/config.md", []byte((&env{}).settingsReference()))
}

// TestEveryFlagIsASetting, but for --config itself, and no setting is without a flag.
func TestEveryFlagIsASetting(t *testing.T) {
	for _, k := range processKinds() {
		f := k.command(&env{}).Flags()
		for _, m := range regexp.MustCompile(`(?m)^ +(?:-., )?--([a-z-]+)`).FindAllStringSubmatch(f.FlagUsages(), -1) {
			if name := m[1]; name != "config" && name != "help" {
				assert.Contains(t, k.known, name, k.name)
				assert.NotEmpty(t, typeNames[f.Lookup(name).Value.Type()], name)
			}
		}
		for name, s := range k.known {
			assert.NotNil(t, f.Lookup(name), name)
			assert.NotEmpty(t, s.allowed, name)
		}
		assert.Subset(t, keysOf(k.known), keysOf(logSettings))
	}
	for _, name := range freeSettings {
		assert.True(t, agentSettings[name].kept, name)
	}
	for name := range fixedSettings {
		assert.True(t, agentSettings[name].kept, name)
	}
}

func keysOf(s settings) (names []string) {
	for name := range s {
		names = append(names, name)
	}
	return names
}

// TestAFileOfDefaultsIsRight: what berth config show prints is accepted, with each default written out.
func TestAFileOfDefaultsIsRight(t *testing.T) {
	for i, k := range processKinds() {
		agent := []string{"--agent"}[:i]
		exit, out, errOut := berth(t, append([]string{"config", "show"}, agent...)...)
		require.Zero(t, exit, errOut)
		exit, told, errOut := berth(t, append([]string{"config", "check", writeSettings(t, out)}, agent...)...)
		require.Zero(t, exit, errOut)
		assert.Equal(t, "ok\n", told)
		var lines []string
		for _, s := range (&env{}).listSettings(k) {
			assert.Contains(t, out, "\n#"+s.name+": ")
			if s.byDefault != "" {
				lines = append(lines, s.name+": "+s.byDefault)
			}
		}
		require.Greater(t, len(lines), 5)
		exit, told, errOut = berth(t, append([]string{"config", "check", writeSettings(t, strings.Join(lines, "\n"))}, agent...)...)
		assert.Zero(t, exit, errOut)
		assert.Equal(t, "ok\n", told)
	}
}

// TestMistakesInAFile: each is refused with its line, its key and what is allowed, all at once.
func TestMistakesInAFile(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open.key")
	require.NoError(t, os.WriteFile(open, []byte(strings.Repeat("k", 40)), 0o644))
	for _, c := range []struct {
		kind, text string
		want       []string // after the path
	}{
		{"node", "dir: /d\n\nlog_level: info", []string{":3: log_level: there is no such setting; it is spelled log-level"}},
		{"node", "colour: blue", []string{":1: colour: there is no such setting; there are admin-addr, "}},
		{"node", "driver: fake", []string{":1: driver: there is no such setting"}},
		{"agent", "backup-dir: /b", []string{":1: backup-dir: there is no such setting"}},
		{"node", "config: other.yaml", []string{":1: config: there is no such setting"}},
		{"node", "backup-keep: many\nlog-level: loud", []string{
			":1: backup-keep: must be a whole number, not a text; allowed is: 1 to 1000", ":2: log-level: must be debug, info, warn or error, not \"loud\"; allowed is: debug",
		}},
		{"node", "backup-keep: 1", nil},
		{"node", "backup-keep: 1000", nil},
		{"node", "backup-keep: 0", []string{":1: backup-keep: must be 1 to 1000, not 0"}},
		{"node", "backup-keep: 1001", []string{":1: backup-keep: must be 1 to 1000, not 1001"}},
		{"node", "backup-keep: 1.5", []string{":1: backup-keep: must be a whole number, not a number"}},
		{"node", "trace-ratio: 0.5", nil},
		{"node", "trace-ratio: 1", nil},
		{"node", "trace-ratio: 1.01", []string{":1: trace-ratio: must be 0 to 1, not 1.01"}},
		{"node", "trace-ratio: all", []string{":1: trace-ratio: must be a number, not a text"}},
		{"node", "trace-endpoint: https://collector.example:4318", nil},
		{"node", "trace-endpoint: collector", []string{":1: trace-endpoint: "}},
		{"node", "backup-every: 1m", nil},
		{"node", "backup-every: 59s", []string{":1: backup-every: must be 1m0s to 8784h0m0s, not 59s"}},
		{"node", "backup-every: 60", []string{":1: backup-every: must be a time such as 24h, as a text, not a whole number"}},
		{"node", "backup-every: soon", []string{":1: backup-every: must be 1m0s to"}},
		{"node", "conns-per-address: -1", []string{":1: conns-per-address: must be 0 to "}},
		{"node", "insecure-dev: yes please", []string{":1: insecure-dev: must be true or false, not a text"}},
		{"node", "dir: 7", []string{":1: dir: must be a text, not a whole number; put it in quotes"}},
		{"node", "dir: ''", []string{":1: dir: must not be empty"}},
		{"node", "dir:", []string{":1: dir: must be a text, not nothing; put it in quotes"}},
		{"node", "dir: [/d]", []string{":1: dir: must be a text, not a list"}},
		{"node", "api-name: west.example", []string{":1: api-name: must be a list of texts, not a text"}},
		{"node", "api-name: [west.example, 10.0.0.5]", nil},
		{"node", "api-name: ['a b']", []string{`:1: api-name: "a b" is neither an IP address nor a DNS name`}},
		{"node", "api-name: [7]", []string{":1: api-name: must be a list of texts, not a whole number"}},
		{"node", "rate: {writes: 0, reads: 1000000}", nil},
		{"node", "rate: {writes: 1000001}", []string{":1: rate: the rate writes must be 0 (no limit) to 1000000"}},
		{"node", "rate: {writes: -1}", []string{":1: rate: the rate writes must be 0 (no limit)"}},
		{"node", "rate:\n  lots: 3", []string{`:1: rate: there is no rate "lots"`}},
		{"node", "rate: [writes=3]", []string{":1: rate: must be an object of whole numbers, not a list"}},
		{"node", "rate: {writes: many}", []string{":1: rate: must be an object of whole numbers, not a text"}},
		{"node", "api-addr: 10.0.0.5", []string{`:1: api-addr: "10.0.0.5": it must be host:port`}},
		{"node", "api-addr: 10.0.0.5:65536", []string{":1: api-addr: "}},
		{"node", "api-addr: 10.0.0.5:65535", nil},
		{"node", "host: 0.0.0.0", []string{": the public API listener is to be on 0.0.0.0:7600"}},
		{"node", "host: 0.0.0.0\nadvertise-host: west.example", nil},
		{"node", "plan-key-file: " + open, []string{":1: plan-key-file: ", "chmod 600"}},
		{"node", "disk-key-file: " + open, []string{":1: disk-key-file: ", "chmod 600"}},
		{"node", "join-file: " + open, []string{": the token cannot be read: ", "chmod 600"}},
		{"node", "join-file: /gone/since", nil},
		{"agent", "pool: blue", []string{":1: pool: must be on_demand, reservable or shared, not \"blue\""}},
		{"agent", "hosts: 0", []string{":1: hosts: must be 1 to "}},
		{"agent", "trait: [ssd]", []string{`:1: trait: "ssd" is not a trait`}},
		{"agent", "attribute: [price]", []string{":1: attribute: attribute \"price\" must be key=value"}},
		{"agent", "attribute: [a=1, a=2]", []string{": attribute a is given twice"}},
		{"agent", "shape: vcpus", []string{":1: shape: shape \"vcpus\" must be name=amount"}},
		{"agent", "output-max: 0", []string{":1: output-max: must be a text, not a whole number"}},
		{"agent", "output-max: 1025G", []string{":1: output-max: must be a size such as 64M"}},
		{"agent", "disk-every: 999ms", []string{":1: disk-every: must be 1s to 1h0m0s"}},
		{"agent", "user: nobody\nusers: 200000-200009", []string{":2: users: user and users cannot be given together"}},
		{"agent", "user: ''\ntrait: []\ncgroup: ''\nreserve: ''", nil},
		{"node", "dir: /a\ndir: /b", []string{":2: it is not YAML: mapping key \"dir\" already defined"}},
		{"node", "dir: [", []string{":1: it is not YAML: "}},
		{"node", "- dir", []string{":1: it must have lines of key: value"}},
		{"node", "dir: /a\n---\ndir: /b", []string{":3: there must be one document"}},
		{"node", "dir: &a /d", []string{": line 1 has an anchor or alias"}},
		{"node", "", nil},
		{"node", "# nothing\n", nil},
		{"node", "dir: /" + strings.Repeat("d", 1<<20), []string{": it has more than 1048576 bytes"}},
	} {
		path := writeSettings(t, c.text)
		args := []string{"config", "check", path}
		if c.kind == "agent" {
			args = append(args, "--agent")
		}
		exit, out, errOut := berth(t, args...)
		if c.want == nil {
			assert.Zero(t, exit, "%s\n%s", c.text, errOut)
			assert.Equal(t, "ok\n", out)
			continue
		}
		assert.Equal(t, 2, exit, c.text)
		for i, want := range c.want {
			if i == 0 {
				want = path + want
			}
			assert.Contains(t, errOut, want, c.text)
		}
		assert.Empty(t, out)
		exit, out, _ = berth(t, append(args, "-o", "json")...)
		assert.Equal(t, 2, exit)
		var told checkedFile
		require.NoError(t, json.Unmarshal([]byte(out), &told))
		assert.Equal(t, checkedFile{path, c.kind, false, told.Errors}, told)
		assert.Len(t, told.Errors, strings.Count(errOut, path), c.text)
	}
}

// TestAFileThatOthersMayChangeIsRefused, by a check and by a process.
func TestAFileThatOthersMayChangeIsRefused(t *testing.T) {
	path := writeSettings(t, "dir: "+t.TempDir())
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o444: true, 0o664: false, 0o646: false} {
		require.NoError(t, os.Chmod(path, mode))
		for _, args := range [][]string{{"config", "check", path}, {"node", "--config", path}} {
			_, _, errOut := berth(t, args...)
			assert.Equal(t, !ok, strings.Contains(errOut, "chmod go-w"), "%v %o %s", args, mode, errOut)
		}
	}
}

// configured parses a command line and reads the file of its --config.
func configured(t *testing.T, k processKind, args ...string) (*cobra.Command, error) {
	t.Helper()
	c := k.command(&env{})
	require.NoError(t, c.ParseFlags(args))
	return c, c.PreRunE(c, nil)
}

// TestFlagsBeatTheFile, and the file beats defaults; what it gives counts as given.
func TestFlagsBeatTheFile(t *testing.T) {
	path := writeSettings(t, "dir: /d\nlog-level: debug\nbackup-keep: 3\napi-name: [a.example, b.example]\nrate: {writes: 7}\nhost: 10.0.0.5\nbackup-every: 2h")
	c, err := configured(t, processKinds()[0], "--config", path, "--log-level", "warn", "--api-name", "c.example", "--rate", "reads=1", "--backup-keep", "3")
	require.NoError(t, err)
	got := map[string]string{}
	for name := range nodeSettings {
		if f := c.Flags().Lookup(name); f.Changed {
			got[name] = f.Value.String()
		}
	}
	assert.Equal(t, map[string]string{
		"dir": "/d", "log-level": "warn", "backup-keep": "3", "api-name": "[c.example]", "rate": "[reads=1]", "host": "10.0.0.5", "backup-every": "2h0m0s",
	}, got)

	users := writeSettings(t, "dir: /d\nusers: 200000-200009\ntrait: []\nattribute: [price=3]")
	c, err = configured(t, processKinds()[1], "--config", users, "--user", "nobody")
	require.NoError(t, err)
	assert.False(t, c.Flags().Changed("users"), "another was given in its place")
	assert.True(t, c.Flags().Changed("trait"), "none is given")

	_, err = configured(t, processKinds()[0], "--config", writeSettings(t, "log-level: info"))
	require.ErrorContains(t, err, "--dir is required")
	_, err = configured(t, processKinds()[0], "--config", filepath.Join(t.TempDir(), "none"), "--dir", "/d")
	require.ErrorContains(t, err, "cannot be read")
	_, err = configured(t, processKinds()[0], "--config", "-", "--dir", "/d")
	require.ErrorContains(t, err, "must name a file")
}

// TestLogsWhatAFlagBeats, once at the start.
func TestLogsWhatAFlagBeats(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	(&configFlag{path: "berth.yaml", beaten: []string{"log-level", "host"}}).logUse(log)
	assert.Contains(t, b.String(), "flags=log-level,host")
	b.Reset()
	(&configFlag{}).logUse(log)
	assert.Empty(t, b.String())
}

// TestAFileChangesWhatAnAgentKept, and cannot change what names its hosts.
func TestAFileChangesWhatAnAgentKept(t *testing.T) {
	dir := keptAgent(t, newDevZone(t), "--driver fake --hosts 3 --pool reservable --trait CUSTOM_A")
	start := func(text string) (*agentFlags, error) {
		a := &agentFlags{}
		c := a.newCommand(&env{})
		require.NoError(t, c.ParseFlags([]string{"--config", writeSettings(t, "dir: "+dir+"\n"+text)}))
		require.NoError(t, c.PreRunE(c, nil))
		return a, a.useRemembered(c)
	}
	a, err := start("pool: shared\ntrait: []")
	require.NoError(t, err)
	assert.Equal(t, []any{"fake", 3, "shared"}, []any{a.driver, a.hosts, a.pool})
	assert.Empty(t, a.traits)
	_, err = start("hosts: 4")
	require.ErrorContains(t, err, "hosts was ")
}

func TestPeersAreRead(t *testing.T) {
	got, err := readPeers([]string{"node-2=10.0.9.6:7602", "node-3=west-3.example:7602"})
	require.NoError(t, err)
	assert.Equal(t, map[api.NodeID]string{"node-2": "10.0.9.6:7602", "node-3": "west-3.example:7602"}, got)
	for _, bad := range [][]string{
		{"node-2"}, {"node-2=10.0.9.6"}, {"node-2=:7602"}, {"node-2=10.0.9.6:0"}, {"=10.0.9.6:7602"}, {"no de=10.0.9.6:7602"},
		{"node-2=10.0.9.6:7602", "node-2=10.0.9.7:7602"},
	} {
		_, err := readPeers(bad)
		assert.ErrorContains(t, err, bad[len(bad)-1], "%v", bad)
	}
}
