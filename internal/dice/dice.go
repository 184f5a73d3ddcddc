// Package dice draws what one run of a test does: seeds, and the part of all cases that a short run has
// time for. Every draw follows from one number of the process, which a failed test prints with the
// command that repeats it. It must never draw the same in each run: a fixed seed finds
// only what it found before.
package dice

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// SeedEnv names the variable that repeats the draws of an earlier run.
const SeedEnv = "BERTH_SEED"

// base is the number from which all draws of this process follow.
var base = sync.OnceValues(drawBase)

func drawBase() (uint64, error) {
	text := os.Getenv(SeedEnv)
	if text == "" { // no clock: that of a bubble always shows the same time
		return rand.Uint64N(1_000_000_000), nil // the one draw that follows from nothing
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", SeedEnv, err)
	}
	return n, nil
}

// Seed returns what the draws of a test begin with: another number in each run and for each test, unless
// BERTH_SEED is set. A test that fails prints how to repeat it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	from, err := base()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat it with: %s=%d go test -run '%s' (of this package)", SeedEnv, from, pattern(t.Name()))
		}
	})
	return mix(from, t.Name())
}

// pattern returns the argument of -run for one test.
func pattern(name string) string {
	return "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
}

func mix(from uint64, name string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", from, name) // a hash takes all
	return h.Sum64() % 1_000_000_000
}

// Rand returns a source of draws for a test; see Seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Part returns n of all cases in their order, drawn by the seed of the test, when tests run with -short, and
// all of them otherwise. It panics if n is not positive: a test must do something.
func Part[T any](t testing.TB, all []T, n int) []T {
	t.Helper()
	if n <= 0 {
		panic("dice: Part of no case")
	}
	if !testing.Short() || n >= len(all) {
		return all
	}
	picked := make([]bool, len(all))
	for _, i := range Rand(t).Perm(len(all))[:n] {
		picked[i] = true
	}
	var out []T
	for i, c := range all {
		if picked[i] {
			out = append(out, c)
		}
	}
	t.Logf("%d of %d cases", n, len(all))
	return out
}

// Seeds returns the seeds in testdata/seeds/TEST.txt, which once failed and run for ever, and after them n that
// are drawn. A line of the file is a seed and why it is there.
func Seeds(t testing.TB, n int) []uint64 {
	t.Helper()
	kept, err := readSeeds(filepath.Join("testdata", "seeds", strings.ReplaceAll(t.Name(), "/", "_")+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	r := Rand(t)
	for range n {
		kept = append(kept, r.Uint64N(1_000_000_000))
	}
	return kept
}

// roundsMax is how often Enough plays.
const roundsMax = 20

// Enough plays until the draws are rich enough to prove anything. poor says what they lack, "" if nothing. One round may be
// poor; a test whose rounds all are fails.
func Enough(t testing.TB, play func(), poor func() string) {
	t.Helper()
	for range roundsMax {
		if play(); t.Failed() || poor() == "" {
			return
		}
	}
	t.Fatalf("what was drawn in %d rounds proves nothing: %s", roundsMax, poor())
}

// Rare says which of the names were drawn less than a number of times, "" if none.
func Rare(counts map[string]int, least int, names ...string) string {
	var rare []string
	for _, n := range names {
		if counts[n] < least {
			rare = append(rare, fmt.Sprintf("%s %d times", n, counts[n]))
		}
	}
	if rare == nil {
		return ""
	}
	return fmt.Sprintf("drawn less than %d times: %s", least, strings.Join(rare, ", "))
}

func readSeeds(path string) (seeds []uint64, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading seeds: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		number, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s: %q is not a seed and why it is kept", path, line)
		}
		seeds = append(seeds, n)
	}
	return seeds, nil
}
