//go:build chaos

package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/cluster-test/lab"
	"berth/internal/crash"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "what the draws begin with; 0 takes one from the clock")
	scaleFlag  = flag.Float64("scale", 1, "how much of everything: 1 is make chaos, 7 is make soak")
	ledgerFlag = flag.String("ledger", "", "file to which a line with what was done is added")
)

// scaled returns n times the scale.
func scaled(n int) int { return max(1, int(float64(n)**scaleFlag)) }

func TestMain(m *testing.M) {
	flag.Parse()
	code := lab.Main(m)
	if text, err := json.Marshal(&sums); err == nil {
		fmt.Printf("chaos: %s\n", text)
	}
	switch {
	case code != 0 || flag.Lookup("test.run").Value.String() != "": // not a whole run
	case !hasDisks:
		fmt.Println("chaos: machines had no disks and wires of their own, so this run proves little: no gates")
	default:
		for _, g := range gates() {
			if g.done < g.floor {
				fmt.Printf("FAIL: %s: %d are too few, at least %d must be\n", g.what, g.done, g.floor)
				code = 1
			}
		}
	}
	if err := sums.record(*ledgerFlag); err != nil {
		fmt.Println("FAIL: the ledger:", err)
		code = 1
	}
	os.Exit(code)
}

// totals is what a run did, over all campaigns.
type totals struct {
	mu sync.Mutex // guards what follows

	Operations   int                 `json:"operations"`    // of clients, each checked against what must be
	Faults       map[string]int      `json:"faults"`        // injected, by kind
	Sagas        int                 `json:"sagas_cut"`     // boots and releases in flight when a process ended at a point
	Points       map[crash.Point]int `json:"points"`        // processes that ended there
	Moved        int                 `json:"moved"`         // instances that came to another host
	GatewayBytes int64               `json:"gateway_bytes"` // that left children and were scanned
	Failover     []time.Duration     `json:"failover"`      // from the kill of a leader to the next acknowledged claim, in ns
	HungDisk     []time.Duration     `json:"hung_disk"`     // from the hang of a leader's disk to the next, in ns
}

var sums = totals{Faults: map[string]int{}, Points: map[crash.Point]int{}}

// fault counts n injected faults of a kind.
func (s *totals) fault(kind string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Faults[kind] += n
}

// operations counts n checked operations.
func (s *totals) operations(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Operations += n
}

// moved counts n instances that came to another host.
func (s *totals) moved(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Moved += n
}

// cut counts a process that ended at a point, with so many sagas in flight.
func (s *totals) cut(at crash.Point, sagas int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Points[at]++
	s.Sagas += sagas
	s.Faults["kill at a named point"]++
}

// sagas returns how many were cut.
func (s *totals) sagas() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Sagas
}

// injections returns the number of all faults.
func (s *totals) injections() int {
	n := 0
	for _, k := range slices.Sorted(maps.Keys(s.Faults)) {
		n += s.Faults[k]
	}
	return n
}

// gate is the least that a whole run must have done to prove anything.
type gate struct {
	what        string
	done, floor int
}

func gates() []gate {
	return []gate{
		{"kinds of fault", len(sums.Faults), 15},
		{"faults", sums.injections(), scaled(200)},
		{"power cuts", sums.Faults["power cut"], scaled(50)},
		{"damaged files", sums.Faults["damaged file"], scaled(50)},
		{"MB that left gateways", int(sums.GatewayBytes >> 20), 100},
		{"hung disks that were timed", len(sums.HungDisk), 1},
		{"operations", sums.Operations, scaled(100_000)},
		{"sagas cut at named points", sums.Sagas, scaled(500)},
		{"named points", len(sums.Points), 24},
		{"instances that moved", sums.Moved, 10},
		{"kills of a leader that were timed", len(sums.Failover), 10},
	}
}

// hasDisks reports whether this run has machines with disks and wires of their own.
var hasDisks = lab.MayNamespaces() == nil

// record adds a line to the ledger.
func (s *totals) record(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	slices.Sort(s.Failover)
	median := time.Duration(0)
	if n := len(s.Failover); n > 0 {
		median = s.Failover[n/2]
	}
	_, err = fmt.Fprintf(f, "| %s | chaos x%g | %d | %d kinds, %d | %d | %d | %d | %d MB | %.1f s |\n",
		time.Now().UTC().Format(time.DateOnly), *scaleFlag, s.Operations, len(s.Faults), s.injections(),
		s.Faults["power cut"], s.Faults["damaged file"], s.Sagas, s.GatewayBytes>>20, median.Seconds())
	if err != nil {
		return err
	}
	return f.Close()
}
