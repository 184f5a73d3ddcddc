package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestQuestionsForOutputsAreChecked at each limit and beyond it.
func TestQuestionsForOutputsAreChecked(t *testing.T) {
	good := OutputQuestion{Instance: "i", Stream: Stdout, Limit: OutputMaxBytes, After: OutputTotalMax}
	assert.NoError(t, good.Validate())
	for name, spoil := range map[string]func(q *OutputQuestion){
		"no instance": func(q *OutputQuestion) { q.Instance = "" },
		"no stream":   func(q *OutputQuestion) { q.Stream = "" },
		"a file":      func(q *OutputQuestion) { q.Stream = "../../etc/passwd" },
		"nothing":     func(q *OutputQuestion) { q.Limit = 0 },
		"too much":    func(q *OutputQuestion) { q.Limit = OutputMaxBytes + 1 },
		"too far":     func(q *OutputQuestion) { q.After = OutputTotalMax + 1 },
	} {
		q := good
		spoil(&q)
		assert.Equal(t, CodeInvalid, CodeOf(q.Validate()), name)
	}
	least := OutputQuestion{Instance: "i", Stream: Stderr, Limit: 1}
	assert.NoError(t, least.Validate())
}

// TestOnlyAnswersToTheQuestionAreAccepted: others may send anything.
func TestOnlyAnswersToTheQuestionAreAccepted(t *testing.T) {
	four := []byte("four")
	for _, c := range []struct {
		why string
		q   OutputQuestion
		a   OutputAnswer
		ok  bool
	}{
		{"all of it", OutputQuestion{Limit: 4, After: 6}, OutputAnswer{Offset: 6, Total: 10, Data: four}, true},
		{"a byte too much", OutputQuestion{Limit: 3, After: 6}, OutputAnswer{Offset: 6, Total: 10, Data: four}, false},
		{"beyond the end", OutputQuestion{Limit: 4, After: 6}, OutputAnswer{Offset: 7, Total: 10, Data: four}, false},
		{"before what was asked for", OutputQuestion{Limit: 4, After: 6}, OutputAnswer{Offset: 5, Total: 10, Data: four}, false},
		{"what is kept", OutputQuestion{Limit: 4}, OutputAnswer{Offset: 6, Total: 10, Data: four}, true},
		{"nothing is there yet", OutputQuestion{Limit: 4, After: 6}, OutputAnswer{Offset: 2, Total: 2}, true},
		{"nothing, from nowhere", OutputQuestion{Limit: 4, After: 6}, OutputAnswer{Offset: 1, Total: 2}, false},
		{"the newest", OutputQuestion{Limit: 4, After: 6, Last: true}, OutputAnswer{Offset: 0, Total: 4, Data: four}, true},
		{"the last offset", OutputQuestion{Limit: 4}, OutputAnswer{Offset: OutputTotalMax - 4, Total: OutputTotalMax, Data: four}, true},
		{"one more", OutputQuestion{Limit: 4}, OutputAnswer{Offset: OutputTotalMax - 3, Total: OutputTotalMax + 1, Data: four}, false},
		{"a sum that overflows", OutputQuestion{Limit: 4}, OutputAnswer{Offset: 1<<64 - 2, Total: 2, Data: four}, false},
		{"a lack", OutputQuestion{Limit: 4}, OutputAnswer{Lack: OutputUnkept}, true},
		{"a lack and data", OutputQuestion{Limit: 4}, OutputAnswer{Lack: OutputUnkept, Total: 4, Data: four}, false},
	} {
		assert.Equal(t, c.ok, c.q.Accepts(&c.a), c.why)
	}
}
