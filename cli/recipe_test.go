package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recipe returns the script of "How to claim" in docs/placement.md, for the zone at addr.
func recipe(t *testing.T, addr string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/placement.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "## How to claim")
	require.True(t, found)
	_, after, found = strings.Cut(after, "```bash\n")
	require.True(t, found)
	script, _, found := strings.Cut(after, "```\n")
	require.True(t, found)
	const there = "P=https://zone.example:7600/"
	require.True(t, strings.HasPrefix(script, there))
	return strings.Replace(script, there, "P="+addr+"/", 1)
}

// TestTheRecipeForClaims runs the script of the manual until nothing is left, against a
// zone that is gone, and with a claim that gets lost.
func TestTheRecipeForClaims(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("the script needs ", tool)
		}
	}
	srv := liveZone(t)
	runs := func(script string) (string, error) {
		c := exec.CommandContext(t.Context(), "bash", "-c", script)
		c.Env = append(os.Environ(), "BERTH_TOKEN=")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	const room = 3 // times 2000 MiB on two hosts with 4000, less 512 for an instance
	script := strings.Replace(recipe(t, srv.URL), "MEMORY_MB:4096", "MEMORY_MB:2000", 1)
	lost := strings.Replace(script, "call PUT", "P=http://127.0.0.1:1 call PUT", 1)
	require.NotEqual(t, script, lost)
	out, err := runs(lost)
	require.Error(t, err)
	assert.Contains(t, out, "not known whether it was claimed")
	granted := 0
	for ; granted <= room; granted++ {
		if out, err = runs(script); err != nil {
			break
		}
		assert.Contains(t, out, "claimed by ")
	}
	assert.Equal(t, room, granted)
	assert.Contains(t, out, "nothing was claimed: no candidate was to be had")
	srv.Close()
	out, err = runs(script)
	require.Error(t, err)
	assert.Contains(t, out, "nothing was claimed: status 000")
}
