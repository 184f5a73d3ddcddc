package state

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestCause: a record has the code of its failure beside the sentence; one of an
// earlier release has it in the sentence, or none.
func TestCause(t *testing.T) {
	for _, c := range []struct {
		b        Boot
		code     api.Code
		sentence string
	}{
		{Boot{Decision: api.DecisionAbort, Code: api.CodeTimeout, Reason: "it was not decided within 5s"}, api.CodeTimeout, "timeout: it was not decided within 5s"},
		{Boot{Decision: api.DecisionAbort, Reason: "timeout: it was not decided within 5s"}, api.CodeTimeout, "timeout: it was not decided within 5s"},
		{Boot{Decision: api.DecisionAbort, Reason: "no attempt was left"}, api.CodeNoCapacity, "no attempt was left"},
		{Boot{Decision: api.DecisionAbort, Ended: true, Reason: "released before it was decided"}, "", "released before it was decided"},
		{Boot{Decision: api.DecisionCommit}, "", ""},
		{Boot{Decision: api.DecisionPending}, "", ""},
	} {
		code, sentence := c.b.Cause()
		assert.Equal(t, c.code, code, c.sentence)
		assert.Equal(t, c.sentence, sentence)
	}
}
