package main

import (
	"bytes"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSites holds what is changed in code: each line of the table is one fault.
func TestSites(t *testing.T) {
	t.Parallel()
	const code = `package p

func (s *S) do(a, b int) (bool, error) {
	if a < b && !s.on {
		return true, nil
	}
	if err := s.sure(); err != nil {
		return false, err
	}
	s.n += min(a, 2)
	s.log.Info("done", "n", a-1)
	for range a {
		if a > 3 {
			continue
		}
		s.call(T{X: a, Y: b})
	}
	switch a {
	case b, 7:
		s.n++
	case 8, 9:
	}
	switch s.v.(type) {
	case T, *T:
	}
	switch a {
	case 5, b:
	default:
		s.on = b
	}
	switch {
	case s.on, s.off:
	}
	defer s.call(b - 1)
	return false, fmt.Errorf("no %d", a-b)
}

func (s *S) String() string { return s.name + "!" }
`
	all, err := sitesIn("p/p.go", []byte(code))
	require.NoError(t, err)
	var got []string
	for _, s := range all {
		assert.Equal(t, "p", s.room)
		faulty := code[:s.begin] + s.text + code[s.end:]
		_, err := format.Source([]byte(faulty))
		require.NoError(t, err, "%s: it is not even code", &s)
		got = append(got, s.kind+": "+s.is)
	}
	assert.ElementsMatch(t, []string{
		"never: if false && (a < b && !s.on) {", "always: if true || (a < b && !s.on) {",
		"operator: if a <= b && !s.on {", "operator: if a < b || !s.on {", "negation dropped: if a < b && s.on {",
		"half of a condition dropped: if (true || (a < b)) && !s.on {", "half of a condition dropped: if a < b && (true || (!s.on)) {",
		"other answer: return false, nil", "other answer: return true, err",
		"never: if err := s.sure(); false && (err != nil) {", "error swallowed: return false, nil",
		"statement left out: ", "other extreme: s.n += max(a, 2)", "one more: s.n += min(a, (2 + 1))",
		"never: if false && (a > 3) {", "always: if true || (a > 3) {", "operator: if a >= 3 {", "one more: if a > (3 + 1) {",
		"other way: break", "statement left out: ", "field left out: s.call(T{Y: b})", "field left out: s.call(T{X: a, })",
		"case left out: case 7:", "case left out: case b:", "one more: case b, (7 + 1):", "statement left out: ",
		"one more: case (8 + 1), 9:", "one more: case 8, (9 + 1):",
		"case left out: case b:", "case left out: case 5:", "one more: case (5 + 1), b:", "statement left out: ",
		"case left out: case s.off:", "case left out: case s.on:",
		"other answer: return true, fmt.Errorf(\"no %d\", a-b)",
	}, got)
}

func TestDraw(t *testing.T) {
	t.Parallel()
	one, err := draw("../..", nil, 1)
	require.NoError(t, err)
	some, err := draw("../..", []string{"agent"}, 1)
	require.NoError(t, err)
	assert.False(t, slices.ContainsFunc(some, func(s site) bool { return s.room != "agent" }))
	again, err := draw("../..", []string{"agent"}, 1)
	require.NoError(t, err)
	assert.Equal(t, some, again, "a seed draws the same again")
	other, err := draw("../..", []string{"agent"}, 2)
	require.NoError(t, err)
	assert.NotEqual(t, some, other)
	_, err = draw("../..", []string{"no/such"}, 1)
	require.ErrorContains(t, err, `"no/such"`)
	assert.ElementsMatch(t, some, other, "and another seed the same in another order")
	names := map[string]bool{}
	for i := range one {
		names[one[i].name()] = true
	}
	assert.Len(t, names, len(one), "each has a name of its own")
	for i, r := range rooms {
		assert.Equal(t, r.pkg, one[i].room, "each room in its turn")
		assert.Equal(t, r.pkg, r.suites[0].pkg, "its own tests first")
	}
	for _, e := range excuses {
		found := false
		for _, s := range one {
			found = found || harmless(&s) == e.why && s.file == e.file && s.was == e.was
		}
		assert.True(t, found, "%s: `%s` for `%s` is nowhere any more", e.file, e.is, e.was)
		assert.NotEmpty(t, e.why)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	at := func(line int) site {
		return site{room: "zone", file: "zone/boot.go", line: line, begin: line, kind: "operator", was: "a || b", is: "a && b"}
	}
	all := []drawn{{site: at(1), hunt: hunt{by: "zone TestX", took: 1500 * time.Millisecond}}, {site: at(2), absent: true}, {site: at(3), why: "it is one"}}
	var out bytes.Buffer
	require.NoError(t, report(&out, all, 7))
	before, _, _ := strings.Cut(out.String(), "\nraftstore/state")
	assert.Equal(t, "| fault | found by | s |\n| --- | --- | ---: |\n"+
		"| zone/boot.go:1 operator: `a && b` for `a \\|\\| b` | zone TestX | 1.5 |\n\n"+
		"harmless: zone/boot.go:3 operator: `a && b` for `a || b`: it is one\n\n"+
		"zone: 1 of 1 found", before)
	assert.Contains(t, out.String(), "seed 7: 1 of 1 random faults found; 1 more did not compile\n")

	out.Reset()
	require.ErrorContains(t, report(&out, append(all, drawn{site: at(4)}), 7), "1 of 2 random faults were found")
	assert.Contains(t, out.String(), "not found: zone/boot.go:4 ")
	for range 8 {
		all = append(all, drawn{site: at(5), hunt: hunt{by: "zone TestY"}})
	}
	require.NoError(t, report(&out, append(all, drawn{site: at(4)}), 7), "nine of ten")
}

// TestRandomFault makes a fault in the code of another package, and sees that it is
// found, or that it does not compile, and that the code itself stays as it is.
func TestRandomFault(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles code")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	suites := []suite{{"internal/crash", ""}}
	h := newHunter(root, t.TempDir(), 1, nil, &bytes.Buffer{})
	file := "internal/crash/crash.go"
	before, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	all, err := sitesOf(root, "internal/crash")
	require.NoError(t, err)
	never := all[slices.IndexFunc(all, func(s site) bool { return s.kind == "never" })]
	wrong := never
	wrong.kind, wrong.text = "no type", "1"
	taken, err := h.joinRandom(t.Context(), []site{wrong, never, all[0]}, 1)
	require.NoError(t, err)
	assert.Equal(t, []site{wrong, never}, taken, "more than one, as one is not valid")
	require.NoError(t, h.measure(t.Context(), suites))
	d, err := h.try(t.Context(), never, suites)
	require.NoError(t, err)
	assert.Contains(t, d.by, "internal/crash Test", "%s", &never)
	d, err = h.try(t.Context(), wrong, suites)
	require.NoError(t, err)
	assert.True(t, d.absent)
	after, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	assert.Equal(t, before, after)
}
