package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aliases returns YAML of a few hundred bytes that stands for 9 to the power of levels
// texts.
func aliases(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for n := 1; n < levels; n++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", n, n, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", n-1), 9), ","))
	}
	return b.String()
}

func TestAFileThatStandsForGigabytesIsRefused(t *testing.T) {
	text := aliases(9)
	require.Less(t, len(text), 500)
	require.ErrorContains(t, plainYAML([]byte(text)), "line 1 has an anchor or alias") // without this, no memory would do
	path := filepath.Join(t.TempDir(), "bomb.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	z := newFakeZone(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, line := range []string{"boot --name shop --groups " + path, "scheduler set --file " + path} {
		r := z.berth(t.Context(), strings.Fields(line)...)
		assert.Equal(t, exitUsage, r.exit, line)
		assert.Contains(t, r.errOut, "line 1 has an anchor or alias", line)
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	assert.Empty(t, z.asked(""))
}

func TestPlainYAML(t *testing.T) {
	deep := func(n int) []string {
		return []string{
			strings.Repeat("[", n) + strings.Repeat("]", n), strings.Repeat("{a: ", n) + strings.Repeat("}", n), strings.Repeat("- ", n) + "a",
		}
	}
	for _, text := range append(deep(yamlDepthMax), `a: "&x *y"`, "a: x & y", "a: '*'", "", "- a\n- - b\n", strings.Repeat("- a\n", yamlDepthMax+1)) {
		require.NoError(t, plainYAML([]byte(text)), text)
	}
	for _, text := range append(deep(yamlDepthMax+1), "a: &x 1", "a: *x", "<<: *x", "- &x\n") {
		require.Error(t, plainYAML([]byte(text)), text)
	}
}

func TestAFileAtItsLimit(t *testing.T) {
	e := newEnv(os.Getenv, nil, nil, nil)
	for size, refused := range map[int]bool{yamlMaxBytes: false, yamlMaxBytes + 1: true} {
		e.in = strings.NewReader("x: " + strings.Repeat("x", size-3))
		_, err := ReadYAML(e.in, "-")
		assert.Equal(t, refused, err != nil, size)
	}
}
