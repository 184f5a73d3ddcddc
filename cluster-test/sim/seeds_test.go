// Handshakes are a third of what a simulation costs, and this exchange of keys half of them.
//
//go:debug tlsmlkem=0
package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/internal/dice"
	"berth/internal/sysinfo"
)

// TestMain lets the heap grow: collecting it is a tenth of what a simulation costs.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

var (
	seedFlag  = flag.Uint64("seed", 0, "the one seed to run; 0 to draw")
	forFlag   = flag.Duration("for", 0, "run new seeds until so much real time has passed; up to three times as much while -hours is not reached")
	hoursFlag = flag.Float64("hours", 0, "fail with fewer simulated zone hours than this: an hour of a federation of four zones is four")
	logFlag   = flag.Bool("log", false, "show what processes log")
)

// Seeds are drawn when nothing else is asked for: one, and others while this process has used less than this
// much time of processors since the first one began.
const (
	budget      = 8 * time.Second
	budgetShort = 3 * time.Second
)

// countSteps returns how many things happen in the life of one federation.
func countSteps() int {
	if testing.Short() {
		return 50
	}
	return 150
}

// TestSeeds lets federations live through faults that a seed draws. When the
// faults end, everything comes to rest, and every promise was kept.
func TestSeeds(t *testing.T) {
	began, sum := time.Now(), &total{ops: map[string]int{}, faults: map[string]int{}}
	t.Run("lives", func(t *testing.T) {
		switch {
		case *seedFlag != 0:
			one(t, *seedFlag, sum)
		case *forFlag != 0:
			for lane := range lanes {
				t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
					t.Parallel()
					seed := uint64(began.UnixMilli())*lanes + uint64(lane)
					for more(time.Since(began), sum) && one(t, seed, sum) {
						seed += lanes
					}
				})
			}
		default:
			runDrawn(t, sum)
		}
	})
	t.Log(sum.report(time.Since(began)))
	if got := sum.hours(); got < *hoursFlag {
		t.Errorf("%.1f zone hours are too few, at least %.1f must be simulated", got, *hoursFlag)
	}
}

// runDrawn runs the seeds that are kept, one that is drawn, and more while there is time.
func runDrawn(t *testing.T, sum *total) {
	t.Helper()
	most := budget
	if testing.Short() {
		most = budgetShort
	}
	const drawn = 100
	began, err := sysinfo.ProcessTime()
	require.NoError(t, err)
	seeds := dice.Seeds(t, drawn)
	for i, seed := range seeds {
		used, err := sysinfo.ProcessTime()
		require.NoError(t, err)
		if i > len(seeds)-drawn && used-began >= most {
			return
		}
		one(t, seed, sum)
	}
}

// more reports whether another seed should run after so much real time.
func more(passed time.Duration, sum *total) bool {
	return passed < *forFlag || passed < 3**forFlag && sum.hours() < *hoursFlag
}

// lanes is how many seeds run at the same time with -for: most of a simulation
// runs on one processor.
const lanes = 2

// one runs the life of one seed, and reports whether it went well.
func one(t *testing.T, seed uint64, sum *total) bool {
	t.Helper()
	return t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("again: go test ./cluster-test/sim -run TestSeeds -seed %d", seed)
			}
		}()
		synctest.Test(t, func(t *testing.T) { life(t, seed, sum) })
	})
}

// life is one federation from its beginning to its end.
func life(t *testing.T, seed uint64, sum *total) {
	t.Helper()
	w := newWorld(t, seed, family)
	t.Cleanup(func() { sum.add(w) })
	w.furnish()
	steps := countSteps()
	due, ten := w.dice.IntN(steps), newTenancy()
	for step := range steps {
		if step == due {
			w.restore()
		}
		if w.dice.IntN(8) == 0 {
			w.actOnLease(ten, step)
		} else {
			w.act(step)
		}
		if w.dice.IntN(10) == 0 {
			w.actOnBindings()
		}
		if w.dice.IntN(6) == 0 {
			w.actOnVolumes(step)
		}
		if w.dice.IntN(20) == 0 {
			w.actOnAuthority()
		}
		if w.dice.IntN(4) == 0 {
			w.disturb()
		}
		await.Sleep(time.Duration(w.dice.IntN(10_000)) * time.Millisecond)
		w.glance()
		w.holds()
	}
	w.heal()
	w.freeBindings()
	w.endLeases()
	w.settle()
	w.check()
	w.journals()
	w.awaitRequeued()
	w.checkRooms()
	w.empty()
}

// total is the sum over federations.
type total struct {
	mu                        sync.Mutex // guards what follows
	seeds, answered, restarts int
	simulated, zones          time.Duration // of federations; of their zones, added up
	ops, faults               map[string]int
	moved, again, tight       int // instances that were started elsewhere, and where they had been; beside what was being ended
}

// hours returns how many hours of zones were simulated.
func (s *total) hours() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.zones.Hours()
}

func (s *total) add(w *world) {
	c, lasted := &w.tally, time.Since(w.began)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds++
	w.books.mu.Lock()
	s.moved, s.again, s.tight = s.moved+w.books.moved, s.again+w.books.again, s.tight+w.books.tight
	w.books.mu.Unlock()
	s.answered += c.answered
	s.restarts += c.restarts
	s.simulated += lasted
	s.zones += lasted * time.Duration(len(w.zones))
	for k, n := range c.ops {
		s.ops[k] += n
	}
	for k, n := range c.faults {
		s.faults[k] += n
	}
}

func (s *total) report(took time.Duration) string {
	n := 0
	for _, k := range s.ops {
		n += k
	}
	faults := 0
	for _, k := range s.faults {
		faults += k
	}
	return fmt.Sprintf("%d seeds, %.2f federation hours (%.2f zone hours) simulated in %s (%.0f times), %d operations (%s; %d answered), %d faults (%s), %d restarts, %d moves, %d starts after a fence, %d beside what should have ended",
		s.seeds, s.simulated.Hours(), s.zones.Hours(), took.Round(time.Millisecond), float64(s.simulated)/float64(took),
		n, list(s.ops), s.answered, faults, list(s.faults), s.restarts, s.moved, s.again, s.tight)
}

func list(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprint(k, " ", m[k]))
	}
	return strings.Join(out, ", ")
}
