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

// jointCode has every form of a function that faults are made in, and prints what they return.
const jointCode = `package main

import "fmt"

type pair[K comparable, V any] struct {
	k K
	v V
}

func (p pair[_, V]) second() V { return p.v }

func (pair[K, _]) zero(int, ...string) (k K) { return k }

func first[K comparable, V any](p pair[K, V], _ int, rest ...K) K {
	for _, r := range rest {
		return r
	}
	return p.k
}

func named(a int) (n int, err error) {
	defer func() { n++ }()
	if n, err := a, error(nil); n > 5 {
		return n, err
	}
	return a, nil
}

func down(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + down(n-1)
}

func show() { fmt.Println("shown") }

func safe() { _ = recover() }

var limit = 1

func main() {
	p := pair[string, int]{"k", 2}
	n, _ := named(3)
	fmt.Println(p.second(), p.zero(1, "x") == "", first(p, 0), first(p, 0, "r"), n, down(3), limit)
	show()
	safe()
}
`

// TestJoint compiles faults into one program and runs it with each.
func TestJoint(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module berth\n\ngo 1.25\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "x"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "x", "x.go"), []byte(jointCode), 0o600))
	const more = "package main\n\nfunc (p pair[_, _]) unused() int { return 1 }\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "x", "more.go"), []byte(more), 0o600))
	j := newJoint(root)
	require.NoError(t, j.add("elsewhere", change{"x/more.go": []byte(strings.Replace(more, "1", "2", 1))}))
	add := func(name string, replace ...string) error {
		text := strings.NewReplacer(replace...).Replace(jointCode)
		require.NotEqual(t, jointCode, text, name)
		return j.add(name, change{"x/x.go": []byte(text)})
	}
	for name, replace := range map[string][]string{
		"second":  {"return p.v", "var none V; return none"},
		"zero":    {"return k }", "return *new(K) }"},
		"first":   {"return p.k", "return rest[len(rest)-1]", "return r\n", "_ = r\n"},
		"first-2": {"return p.k", "return *new(K)"},
		"named":   {"n++", "n += 10"},
		"down":    {"return 1 +", "return 2 +"},
		"show":    {`import "fmt"`, "import (\n\t\"fmt\"\n\t\"os\"\n)", `fmt.Println("shown")`, `fmt.Fprintln(os.Stdout, "hidden")`},
		"unused":  {`import "fmt"`, "import (\n\t\"fmt\"\n\t\"maps\"\n)", "return p.v", "x := maps.Keys[map[int]int]; return p.v"},
		"types":   {"return 0\n", "return \"\"\n"},
	} {
		require.NoError(t, add(name, replace...), name)
	}
	for name, replace := range map[string][]string{
		"variable":  {"limit = 1", "limit = 2"},
		"recover":   {"_ = recover()", "recover()"},
		"signature": {"func show()", "func show(...int)"},
		"more":      {"func show()", "func more() {}\n\nfunc show()"},
		"import":    {`import "fmt"`, "import (\n\t\"fmt\"\n\t\"slices\"\n)", "limit = 1", "limit = slices.Max([]int{1})"},
	} {
		require.ErrorIs(t, add(name, replace...), errAlone, name)
	}
	require.ErrorContains(t, add("syntax", "return 0\n", "return (\n"), "reading code")

	dir := t.TempDir()
	overlay, broken, err := j.settle(t.Context(), dir)
	require.NoError(t, err)
	assert.Len(t, broken, 2, "what does not compile is told, and left out")
	assert.Contains(t, broken["unused"], "declared and not used")
	assert.Contains(t, broken["types"], "constant")
	program := filepath.Join(dir, "x.exe")
	_, err = compiler(t.Context(), root, "build", "-overlay", overlay, "-o", program, "./x")
	require.NoError(t, err)
	const plain = "2 true k r 4 3 1\nshown\n"
	for fault, want := range map[string]string{
		"":        plain,
		"no-such": plain,
		"second":  "0 true k r 4 3 1\nshown\n",
		"zero":    plain,
		"first-2": "2 true  r 4 3 1\nshown\n",
		"named":   "2 true k r 13 3 1\nshown\n",
		"down":    "2 true k r 4 6 1\nshown\n",
		"show":    "2 true k r 4 3 1\nhidden\n",
		"first":   "panic: runtime error: index out of range [-1]",
	} {
		c := exec.CommandContext(t.Context(), program)
		c.Env = append(os.Environ(), faultEnv+"="+fault)
		out, _ := c.CombinedOutput()
		if fault == "first" {
			assert.Contains(t, string(out), want)
			continue
		}
		assert.Equal(t, want, string(out), fault)
	}
	after, err := os.ReadFile(filepath.Join(root, "x", "x.go"))
	require.NoError(t, err)
	assert.Equal(t, jointCode, string(after), "the module stays as it is")
}
