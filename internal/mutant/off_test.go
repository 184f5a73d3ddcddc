//go:build !mutants

package mutant

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNoFaultIsIn shows that nothing switches a fault on in an ordinary binary.
func TestNoFaultIsIn(t *testing.T) {
	for _, f := range Faults() {
		t.Setenv("BERTH_MUTANT", string(f.Name))
		assert.False(t, On(f.Name), f.Name)
	}
}
