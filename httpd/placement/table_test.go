package placement

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/httpd/openstack"
)

// heard is one call in a conversation.
type heard struct {
	call   string // method and path, with {names} for what varies
	at     version
	status string
}

// hear returns the calls of the conversation in a file.
func hear(tb testing.TB, routes []openstack.Call, file string) []heard {
	tb.Helper()
	text, err := os.ReadFile(file)
	require.NoError(tb, err)
	var out []heard
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		words := strings.Fields(strings.TrimPrefix(line, "> "))
		if !strings.HasPrefix(line, "> ") || len(words) < 3 {
			continue
		}
		minor, err := strconv.Atoi(strings.TrimPrefix(words[1], "1."))
		if words[1] != "-" && err != nil {
			continue
		}
		target, _, _ := strings.Cut(words[2], "?")
		status, _, _ := strings.Cut(lines[i+1], " ")
		out = append(out, heard{words[0] + " " + pattern(routes, target), version(minor), status})
	}
	return out
}

// pattern returns the path of the routes that a path matches.
func pattern(routes []openstack.Call, target string) string {
	have := strings.Split(target, "/")
	for _, c := range routes {
		want := strings.Split(c.Path, "/")
		same := len(want) == len(have)
		for i := 0; same && i < len(want); i++ {
			same = want[i] == have[i] || strings.HasPrefix(want[i], "{") && have[i] != ""
		}
		if same {
			return c.Path
		}
	}
	return target
}

// row is one row of the table of calls in docs/placement.md.
type row struct {
	since   version
	changed []version
	state   string
	held    []string // conversations
}

// rows reads the table of calls.
func rows(tb testing.TB) map[string]row {
	tb.Helper()
	text, err := os.ReadFile("../../docs/placement.md")
	require.NoError(tb, err)
	out := map[string]row{}
	_, table, _ := strings.Cut(string(text), "## Calls")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.Contains(cells[1], "`") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		r := row{since: minorOf(tb, cells[2]), state: cells[4]}
		for _, v := range items(cells[3]) {
			r.changed = append(r.changed, minorOf(tb, v))
		}
		r.held = items(cells[5])
		out[strings.Trim(cells[1], "`")] = r
	}
	return out
}

func items(cell string) []string {
	if cell == "" {
		return nil
	}
	return strings.Split(cell, ", ")
}

func minorOf(tb testing.TB, text string) version {
	tb.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(text, "1."))
	require.NoError(tb, err, text)
	return version(n)
}

func TestTheTableSaysWhatThereIs(t *testing.T) {
	table := rows(t)
	want := map[string]version{}
	for _, c := range new(dialect).listCalls() {
		name := c.Method + " " + c.Path
		if since, ok := want[name]; !ok || version(c.Since) < since {
			want[name] = version(c.Since)
		}
	}
	for name, since := range want {
		assert.Contains(t, table, name)
		assert.Equal(t, since, table[name].since, name)
	}
	for name, r := range table {
		assert.Contains(t, want, name)
		assert.True(t, r.state == "done" || strings.HasPrefix(r.state, "different: "), "%s: %q", name, r.state)
		assert.NotEmpty(t, r.held, name)
	}
}

// Every call is made at each microversion that changes it, at the one before, and
// where it is refused.
func TestEachRowIsHeldByItsConversations(t *testing.T) {
	routes := new(dialect).listCalls()
	for name, r := range rows(t) {
		t.Run(name, func(t *testing.T) {
			var calls []heard
			for _, file := range r.held {
				for _, h := range hear(t, routes, "testdata/"+file+".txt") {
					if h.call == name {
						calls = append(calls, h)
					}
				}
			}
			made := func(v version) bool {
				return slices.ContainsFunc(calls, func(h heard) bool { return h.at == v })
			}
			for _, v := range append([]version{r.since}, r.changed...) {
				assert.True(t, made(v), "it is not made at %s", v)
				assert.True(t, v == 0 || made(v-1), "it is not made at %s", v-1)
			}
			assert.True(t, slices.ContainsFunc(calls, func(h heard) bool { return h.status[0] == '2' }), "it is never granted")
			assert.True(t, name == "GET /" || slices.ContainsFunc(calls, func(h heard) bool { return h.status[0] == '4' }), "it is never refused")
		})
	}
}

func TestEveryConversationIsHeardAndNamed(t *testing.T) {
	named := map[string]bool{"versions": true, "media": true, "access": true}
	for _, r := range rows(t) {
		for _, file := range r.held {
			named[file] = true
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	var there []string
	for _, f := range files {
		there = append(there, strings.TrimSuffix(filepath.Base(f), ".txt"))
	}
	assert.Equal(t, there, slices.Sorted(maps.Keys(named)))
	heard := append(slices.Clone(conversations), "allocations", "candidates", "reshaper")
	assert.ElementsMatch(t, there, heard, fmt.Sprint(there))
}
