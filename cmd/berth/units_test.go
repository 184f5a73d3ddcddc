package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const unitsDir = "../../deploy/systemd"

// TestUnits: each unit of deploy/systemd runs commands that there are, is told of the process, and reloads it.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob(unitsDir + "/*.service")
	require.NoError(t, err)
	require.Len(t, units, len(processKinds()))
	for _, k := range processKinds() {
		b, err := os.ReadFile(filepath.Join(unitsDir, "berth-"+k.name+".service"))
		require.NoError(t, err)
		for _, want := range []string{"\nType=notify\n", "\nWatchdogSec=", "\nNotifyAccess=main\n", "\nExecReload=/bin/kill -HUP $MAINPID\n", "\nNoNewPrivileges=yes\n"} {
			if k.name == "agent" && strings.Contains(want, "NoNewPrivileges") {
				continue // its instances have other users
			}
			assert.Contains(t, string(b), want, k.name)
		}
		for _, key := range []string{"ExecStart", "ExecStartPre"} {
			_, line, found := strings.Cut(string(b), "\n"+key+"=/usr/bin/berth ")
			require.True(t, found, "%s of %s", key, k.name)
			line, _, _ = strings.Cut(line, "\n")
			words := strings.Fields(line)
			c := k.command(&env{})
			if words[0] == "config" {
				c = (&env{}).configCheck()
				words = words[1:]
				assert.Equal(t, k.name == "agent", strings.Contains(line, "--agent"))
			}
			assert.Equal(t, c.Name(), words[0])
			assert.NoError(t, c.ParseFlags(words[1:]), line)
		}
	}
}

// TestUnitsAreVerified by systemd, with a berth that there is.
func TestUnitsAreVerified(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze on this machine")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	args := []string{"verify", "--man=no"}
	for _, k := range processKinds() {
		name := "berth-" + k.name + ".service"
		b, err := os.ReadFile(filepath.Join(unitsDir, name))
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(b), "/usr/bin/berth", self)), 0o600))
		args = append(args, path)
	}
	out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	for line := range strings.Lines(string(out)) {
		assert.NotContains(t, line, "berth-", "a warning of ours")
	}
}
