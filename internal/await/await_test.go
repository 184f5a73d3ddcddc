package await

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// judged is a test that may fail without failing the one that looks at it.
type judged struct {
	testing.TB
	ctx  context.Context //nolint:containedctx // a test has one
	said string
}

func (j *judged) Helper()                  {}
func (j *judged) Context() context.Context { return j.ctx }
func (j *judged) Name() string             { return "TestJudged" }
func (j *judged) Logf(string, ...any)      {}
func (j *judged) Log(...any)               {}
func (j *judged) Fatalf(format string, args ...any) {
	j.said = format
	runtime.Goexit()
}

// judge runs a test of its own and returns what it failed with, "" if it passed.
func judge(t *testing.T, run func(testing.TB)) string {
	t.Helper()
	j := &judged{TB: t, ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(j)
	}()
	<-done
	return j.said
}

var errNotYet = errors.New("not yet")

func TestUntilEndsWithWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		assert.Empty(t, judge(t, func(tb testing.TB) {
			True(tb, "an hour of looks", func() bool { return time.Since(began) > time.Minute })
		}))
		assert.Less(t, time.Since(began), time.Minute+lookEvery+time.Second)
		assert.NotEmpty(t, judge(t, func(tb testing.TB) { True(tb, "nothing", func() bool { return false }) }))
		c := make(chan int, 1)
		c <- 4
		assert.Equal(t, 4, Received(t, "what is there", c))
		close(c)
		assert.Zero(t, Received(t, "its end", c))
	})
}

// TestAMachineThatStandsStillCostsNoWait: looks of half a minute each are the machine's fault, and
// count as a quarter of a second.
func TestAMachineThatStandsStillCostsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		require.Error(t, Wait(t.Context(), func(context.Context) error {
			looks++
			Sleep(30 * time.Second)
			return errNotYet
		}))
		assert.Equal(t, int(Limit/turnMax)+1, looks)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, Wait(ctx, func(context.Context) error { return errNotYet }), errNotYet)
	})
}

func TestSleepIsVirtual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Sleep(400 * 24 * time.Hour)
		assert.Equal(t, 400*24*time.Hour, time.Since(began))
	})
	assert.Panics(t, func() { Sleep(0) })
}

func TestSteadily(t *testing.T) {
	stalls := filepath.Join(t.TempDir(), "stalls")
	t.Setenv(StallsEnv, stalls)
	for _, tt := range []struct {
		name    string
		allowed time.Duration
		fails   int // of the first tries
		tries   int
		passes  bool
	}{
		{"passes at once", 0, 0, 1, true},
		{"fails on a machine that ran", time.Hour, 1, 1, false},
		{"fails on a machine that stood still, and then passes", -1, 2, 3, true},
		{"passes at the last try", -1, triesMax - 1, triesMax, true},
		{"never passes", -1, triesMax, triesMax, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tries := 0
			said := judge(t, func(tb testing.TB) {
				Steadily(tb, tt.allowed, func(context.Context) error {
					tries++
					if tries <= tt.fails {
						return errNotYet
					}
					return nil
				})
			})
			assert.Equal(t, tt.passes, said == "")
			assert.Equal(t, tt.tries, tries)
		})
	}
	lines, err := os.ReadFile(stalls)
	require.NoError(t, err)
	assert.Equal(t, 2+2*(triesMax-1), strings.Count(string(lines), "\n"), "each repeat is counted: %s", lines)
}
