package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// waiters may wait for a moment: internal/await is what all others use, and benchmarks measure how time passes.
var waiters = []string{"internal/await", "bench"}

// guessed are waits of testify with a bound that somebody guessed.
var guessed = []string{"Eventually", "Eventuallyf", "EventuallyWithT", "EventuallyWithTf", "Never", "Neverf"}

// fixedPort matches an address of this machine with a port that somebody chose.
var fixedPort = regexp.MustCompile(`^(127\.0\.0\.1|localhost|\[::1?\]|0\.0\.0\.0)?:[1-9][0-9]*$`)

// listening are functions that open what they are given.
var listening = []string{"Listen", "ListenPacket", "ListenTCP", "ListenUDP", "ListenAndServe", "ListenAndServeTLS"}

// waitsOf returns, by place, what a file of tests does that depends on time or on a port.
func waitsOf(f file) map[string]string {
	found := map[string]string{}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at := f.set.Position(call.Pos()).String()
		x, _ := sel.X.(*ast.Ident)
		switch name := sel.Sel.Name; {
		case x != nil && x.Name == "time" && name == "Sleep":
			found[at] = "wait for an event with await.Until, or sleep in virtual time with await.Sleep"
		case slices.Contains(guessed, name):
			found[at] = "wait for an event with await.Until: no bound is guessed there"
		case slices.Contains(listening, name) && slices.ContainsFunc(call.Args, isFixedPort):
			found[at] = "listen on port 0: another process may have this one"
		}
		return true
	})
	return found
}

func isFixedPort(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(lit.Value)
	return err == nil && fixedPort.MatchString(text)
}

// TestTestsWaitForEvents: nearly every test that failed without a fault of the product had waited for a
// moment, or had chosen a port.
func TestTestsWaitForEvents(t *testing.T) {
	for _, p := range load(t) {
		if slices.Contains(waiters, p.name) {
			continue
		}
		for _, f := range p.files {
			if !f.isTest && !slices.Contains(free, p.name) && !slices.Contains(tools, p.name) {
				continue
			}
			for at, why := range waitsOf(f) {
				t.Errorf("%s: %s", at, why)
			}
		}
	}
}

func TestWaitsOf(t *testing.T) {
	for source, found := range map[string]int{
		`time.Sleep(time.Second)`:                             1,
		`await.Sleep(time.Second)`:                            0,
		`require.Eventually(t, is, time.Minute, time.Second)`: 1,
		`assert.Never(t, is, time.Minute, time.Second)`:       1,
		`net.Listen("tcp", "127.0.0.1:0")`:                    0,
		`net.Listen("tcp", "127.0.0.1:7600")`:                 1,
		`c.Listen(ctx, "tcp", ":7600")`:                       1,
		`dial("127.0.0.1:1")`:                                 0,
		`time.After(time.Second)`:                             0,
	} {
		assert.Len(t, waitsOf(fileOf(t, "func f() {\n"+source+"\n}\n")), found, source)
	}
}
