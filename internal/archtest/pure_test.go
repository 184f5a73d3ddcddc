package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func isStatus(name string) bool { return strings.HasPrefix(name, "Status") }

// faults returns what keeps f, a file of package name, from being pure.
func faults(name string, f file) []string {
	var bad []string
	for imp, local := range f.imports() {
		if imp == "time" {
			bad = append(bad, clocks(f, local)...)
		}
		if !within(impure, imp) && !slices.Contains(impureExact, imp) {
			continue
		}
		i := slices.IndexFunc(excused, func(e excuse) bool { return e.pkg == name && e.imp == imp })
		if i < 0 {
			bad = append(bad, f.name+" imports "+imp)
			continue
		}
		f.uses(local, func(sel, at string) {
			if !excused[i].only(sel) {
				bad = append(bad, at+" uses "+imp+"."+sel+"; the exception is: "+excused[i].why)
			}
		})
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			bad = append(bad, f.set.Position(g.Pos()).String()+" starts a goroutine")
		}
		return true
	})
	slices.Sort(bad)
	return bad
}

// clocks returns the places where f reads the clock or waits.
func clocks(f file, local string) []string {
	if local == "." {
		return []string{f.name + ` imports "time" with a dot`}
	}
	var bad []string
	f.uses(local, func(sel, at string) {
		if slices.Contains(clock, sel) {
			bad = append(bad, at+" uses time."+sel)
		}
	})
	return bad
}

func TestCoreIsPure(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			if matches(pure, p.name) && !f.isTest {
				assert.Empty(t, faults(p.name, f), "%s: pure packages take time, seeds and keys as arguments", p.name)
			}
		}
	}
}

func TestFaultsAreFound(t *testing.T) {
	cases := []struct{ name, pkg, source, want string }{
		{"clock", "costs", `import "time"; var x = time.Now()`, "uses time.Now"},
		{"clock by another name", "costs", `import t "time"; var x = t.Now`, "uses time.Now"},
		{"clock with a dot", "costs", `import . "time"; var x = Now()`, "with a dot"},
		{"log/slog", "costs", `import "log/slog"`, "imports log/slog"},
		{"dice", "costs", `import "math/rand/v2"`, "imports math/rand/v2"},
		{"socket", "costs", `import "net"`, "imports net"},
		{"lock", "costs", `import "sync/atomic"`, "imports sync/atomic"},
		{"goroutine", "costs", `func f() { go f() }`, "starts a goroutine"},
		{"status", "costs", `import "net/http"; var x = http.StatusOK`, "imports net/http"},
		{"excused client", "api", `import "net/http"; var x = http.Get`, "uses net/http.Get"},
		{"excused status", "api", `import "net/http"; var x = http.StatusOK`, ""},
		{"values", "costs", `import ("net/netip"; "time"); var x netip.Addr; var y time.Duration`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(faults(c.pkg, fileOf(t, c.source)), "\n")
			if c.want == "" {
				assert.Empty(t, got)
			} else {
				assert.Contains(t, got, c.want)
			}
		})
	}
}
