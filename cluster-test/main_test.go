package clustertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedFlag repeats the random moments of an earlier run.
var seedFlag = flag.Uint64("seed", 0, "seed of the random moments; 0 takes one from the clock")

// roundsFlag is how often TestKillLeaderDuringBoot kills the leader of the root.
var roundsFlag = flag.Int("rounds", 5, "kills of the root's leader")

// buildDir is where the binary is built, "" until it is.
var buildDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if buildDir != "" {
		_ = os.RemoveAll(buildDir) // only a temporary file would be left
	}
	os.Exit(code)
}

// binary builds berth the first time, and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "berth-cluster-test-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	path := filepath.Join(dir, "berth")
	args := append(append([]string{"build"}, raceFlags...), "-o", path, "berth/cmd/berth")
	if out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building berth: %w\n%s", err, out)
	}
	return path, nil
})

// pollEvery is the pause between two looks of within.
const pollEvery = 40 * time.Millisecond

// within calls f until it returns nil, and fails the test with its last error if
// that takes longer than d. Each call of f has what is left of d, at most 10 s.
func within(t *testing.T, d time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		one, stop := context.WithTimeout(ctx, 10*time.Second)
		err := f(one)
		stop()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(t, err, "%s: not within %s", what, d)
		}
	}
}

// pass lets a random moment pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
