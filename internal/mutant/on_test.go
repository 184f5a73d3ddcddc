//go:build mutants

package mutant

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestChoice(t *testing.T) {
	t.Setenv("BERTH_MUTANT", string(FsyncOff))
	assert.Equal(t, FsyncOff, choose())
	t.Setenv("BERTH_MUTANT", "")
	assert.Empty(t, choose())
	t.Setenv("BERTH_MUTANT", "no-such")
	assert.PanicsWithValue(t, `mutant: no fault is called "no-such"`, func() { choose() })
}
