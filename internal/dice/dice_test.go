package dice

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSeed(t *testing.T) {
	assert.Equal(t, Seed(t), Seed(t), "one test draws the same again")
	var other uint64
	t.Run("other", func(t *testing.T) { other = Seed(t) })
	assert.NotEqual(t, Seed(t), other)
	assert.Equal(t, "^TestA$/^b$", pattern("TestA/b"))
}

// TestNoRunIsAlike: not even when the first draw is made in a bubble, whose clock begins at the same time.
func TestNoRunIsAlike(t *testing.T) {
	t.Setenv(SeedEnv, "")
	seen := map[uint64]bool{}
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			n, err := drawBase()
			require.NoError(t, err)
			seen[n] = true
		})
	}
	assert.Len(t, seen, 3)
	t.Setenv(SeedEnv, "47")
	n, err := drawBase()
	require.NoError(t, err)
	assert.EqualValues(t, 47, n)
	t.Setenv(SeedEnv, "x")
	_, err = drawBase()
	require.Error(t, err)
}

func TestPart(t *testing.T) {
	all := []int{1, 2, 3, 4, 5}
	assert.Equal(t, all, Part(t, all, 5))
	assert.Equal(t, all, Part(t, all, 6))
	part := Part(t, all, 2)
	if !testing.Short() {
		assert.Equal(t, all, part)
		return
	}
	assert.Len(t, part, 2)
	assert.True(t, slices.IsSorted(part))
	assert.Equal(t, part, Part(t, all, 2))
	assert.Panics(t, func() { Part(t, all, 0) })
}

func TestSeeds(t *testing.T) {
	t.Chdir(t.TempDir())
	assert.Len(t, Seeds(t, 2), 2)
	require.NoError(t, os.MkdirAll("testdata/seeds", 0o700))
	path := filepath.Join("testdata", "seeds", t.Name()+".txt")
	require.NoError(t, os.WriteFile(path, []byte("7 a lease was lost\n9 another\n"), 0o600))
	assert.Equal(t, []uint64{7, 9}, Seeds(t, 1)[:2])
	for _, bad := range []string{"7\n", "x why\n", "-1 why\n"} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := readSeeds(path)
		assert.Error(t, err, bad)
	}
}

// tester is a test that may fail in another one.
type tester struct {
	testing.TB
	failed bool
	said   string
}

func (t *tester) Failed() bool { return t.failed }
func (*tester) Helper()        {}

func (t *tester) Fatalf(format string, args ...any) { t.said = fmt.Sprintf(format, args...) }

func TestEnough(t *testing.T) {
	for _, c := range []struct{ richAt, failsAt, rounds int }{{1, 0, 1}, {3, 0, 3}, {roundsMax, 0, roundsMax}, {roundsMax + 1, 0, roundsMax}, {3, 2, 2}} {
		fake, n := &tester{}, 0
		Enough(fake, func() { n++; fake.failed = n == c.failsAt }, func() string {
			if n >= c.richAt {
				return ""
			}
			return "poor"
		})
		assert.Equal(t, c.rounds, n, "%+v", c)
		assert.Equal(t, c.richAt > roundsMax, fake.said != "", "%+v", c)
	}
}

func TestRare(t *testing.T) {
	counts := map[string]int{"a": 1, "b": 2}
	assert.Empty(t, Rare(counts, 1, "a", "b"))
	assert.Equal(t, "drawn less than 2 times: a 1 times, c 0 times", Rare(counts, 2, "a", "b", "c"))
}
