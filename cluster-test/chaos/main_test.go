//go:build chaos

package chaos

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cluster-test/lab"
)

var (
	scaleFlag  = flag.Float64("scale", 1, "how much of everything: 1 is make chaos, 7 is make soak")
	kindsFlag  = flag.String("kinds", "", "kinds of fault to draw alone, divided by commas; all by default")
	gatesFlag  = flag.String("gates", "", "file to which the gates of a whole run are added, a line for each")
	ledgerFlag = flag.String("ledger", "", "file to which a line with what was done is added")
)

// scaled returns n times the scale.
func scaled(n int) int { return max(1, int(float64(n)**scaleFlag)) }

// without is the environment variable that says which of what chaos needs is not
// there, and is not meant to be: "disks,namespaces". A run that lacks them and is
// not told so fails at once: it would prove little.
const without = "BERTH_CHAOS_WITHOUT"

// mayRun returns an error if this run lacks disks and namespaces and nobody has
// said that this is meant. lack is why they are not there, nil if they are.
func mayRun(lack error, said string) error {
	names := strings.Split(said, ",")
	if lack == nil || slices.Contains(names, "disks") && slices.Contains(names, "namespaces") {
		return nil
	}
	return fmt.Errorf("machines have no disks and no network namespaces of their own: %w; if this is meant, set %s=disks,namespaces", lack, without)
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := mayRun(lab.MayNamespaces(), os.Getenv(without)); err != nil {
		fmt.Println("FAIL: chaos:", err)
		os.Exit(1)
	}
	code := lab.Main(m)
	if text, err := json.Marshal(&sums); err == nil {
		fmt.Printf("chaos: %s\n", text)
	}
	if flag.Lookup("test.run").Value.String() == "" { // a whole run
		rows := gates(&sums)
		for _, g := range rows {
			fmt.Println(g.row())
			if !g.met() {
				code = 1
			}
		}
		if err := addLines(*gatesFlag, os.O_CREATE, rows); err != nil {
			fmt.Println("FAIL: the gates:", err)
			code = 1
		}
	}
	if err := addLines(*ledgerFlag, 0, []line{&sums}); err != nil {
		fmt.Println("FAIL: the ledger:", err)
		code = 1
	}
	os.Exit(code)
}

// line is what a file gets a line of.
type line interface{ row() string }

// addLines adds lines to a file, "" for none.
func addLines[L line](path string, flags int, lines []L) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, flags|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if _, err = fmt.Fprintln(f, l.row()); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// gate is the least that a whole run must have done to prove anything.
type gate struct {
	what        string
	done, floor int
	disks       bool // only with disks and wires of their own
}

// met reports whether there was enough, or nothing is asked for here.
func (g gate) met() bool { return g.done >= g.floor || g.disks && !hasDisks }

// row says what was wanted and what was done: "gate | what | done | wanted | ran".
func (g gate) row() string {
	how := "ran"
	switch {
	case g.disks && !hasDisks:
		how = "not run"
	case !g.met():
		how = "FAIL: too few"
	}
	return fmt.Sprintf("gate | %s | %d | %d | %s", g.what, g.done, g.floor, how)
}

// gates returns what a whole run is held to.
func gates(s *totals) []gate {
	return []gate{
		{"chaos: kinds of fault", len(s.Faults), 15, false},
		{"chaos: fault events", s.events(), scaled(200), true},
		{"chaos: fault events while another fault was there", s.Overlapping, scaled(20), false},
		{"chaos: stalls and vanished machines of 20 s and more", len(s.Lasting), scaled(3), false},
		{"chaos: machines that lost their power", s.Hit["power cut"], scaled(50), true},
		{"chaos: restores under load", s.Faults["snapshot restore"], scaled(5), false},
		{"chaos: nodes with a wrong clock", s.Faults["wrong clock"], scaled(1), false},
		{"chaos: wires that send packets twice", s.Faults["doubled packets"], scaled(1), true},
		{"chaos: damaged files", s.Faults["damaged file"], scaled(50), true},
		{"chaos: MB that left gateways", int(s.GatewayBytes >> 20), gatewayMBMin, false},
		{"chaos: hung disks that were timed", len(s.HungDisk), 1, true},
		{"chaos: operations", s.operations(), scaled(operationsMin), false},
		{"chaos: acknowledged writes", s.Writes, scaled(10_000), false},
		{"chaos: acknowledged boots", s.Boots, scaled(2000), false},
		{"chaos: sagas cut at named points", s.Sagas, scaled(500), false},
		{"chaos: named points", len(s.Points), 24, false},
		{"chaos: instances that moved", s.Moved, 5, false},
		{"chaos: kills of a leader that were timed", len(s.Failover), 10, false},
		{"chaos: seconds in which zones had to be available", int(s.Available.Seconds()), scaled(300), false},
	}
}

// hasDisks reports whether this run has machines with disks and wires of their own.
var hasDisks = lab.MayNamespaces() == nil

// TestMayRun holds when chaos refuses to run at all.
func TestMayRun(t *testing.T) {
	t.Parallel()
	lack := errors.New("not root")
	require.NoError(t, mayRun(nil, ""))
	require.NoError(t, mayRun(nil, "disks,namespaces"))
	require.NoError(t, mayRun(lack, "disks,namespaces"))
	for _, said := range []string{"", "disks", "namespaces", "1", "yes"} {
		require.ErrorContains(t, mayRun(lack, said), "not root", "%q", said)
	}
}

// TestGates holds that a run which did nothing meets none of them.
func TestGates(t *testing.T) {
	t.Parallel()
	for _, g := range gates(&totals{}) {
		assert.Positive(t, g.floor, g.what)
		assert.Equal(t, g.disks && !hasDisks, g.met(), g.what)
	}
	path := filepath.Join(t.TempDir(), "gates")
	require.NoError(t, addLines(path, os.O_CREATE, []gate{{"a", 2, 2, false}, {"b", 1, 2, false}}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "gate | a | 2 | 2 | ran\ngate | b | 1 | 2 | FAIL: too few\n", string(text))
}
