package state

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestAttemptsKept records more attempts than are kept: the first ones and the last stay.
func TestAttemptsKept(t *testing.T) {
	b := &Boot{}
	for i := 1; i <= api.AttemptsKept; i++ {
		b.addAttempt(api.BootAttempt{Attempt: i})
	}
	assert.Len(t, b.Attempts, api.AttemptsKept)
	b.addAttempt(api.BootAttempt{Attempt: api.AttemptsKept + 1})
	assert.Len(t, b.Attempts, api.AttemptsKept)
	assert.Equal(t, 2, b.Attempts[1].Attempt)
	assert.Equal(t, 4, b.Attempts[2].Attempt)
	assert.Equal(t, api.AttemptsKept+1, b.Tried())
}
