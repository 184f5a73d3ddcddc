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

// TestStateOfABoot: what a child has not confirmed keeps a boot from its end, and not from being ACTIVE.
func TestStateOfABoot(t *testing.T) {
	for _, c := range []struct {
		boot Boot
		want api.BootState
	}{
		{Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1}}, api.BootActive},
		{Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1}, Unacked: 1}, api.BootActive},
		{Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1, Build: 1}, Unacked: 1}, api.BootBuilding},
		{Boot{Decision: api.DecisionCommit, Counts: Counts{Active: 1, Error: 1}, Unacked: 1}, api.BootDegraded},
		{Boot{Decision: api.DecisionCommit, Counts: Counts{Error: 1}, Unacked: 1}, api.BootError},
		{Boot{Decision: api.DecisionCommit, Counts: Counts{Deleted: 1}, Unacked: 1}, api.BootReleasing},
		{Boot{Decision: api.DecisionCommit, Counts: Counts{Deleted: 1}}, api.BootReleased},
		{Boot{Decision: api.DecisionCommit, Ended: true, Counts: Counts{Deleted: 1}, Unacked: 1}, api.BootReleasing},
		{Boot{Decision: api.DecisionCommit, Ended: true, Counts: Counts{Deleted: 1}}, api.BootReleased},
		{Boot{Decision: api.DecisionAbort, Unacked: 1}, api.BootReleasing},
		{Boot{Decision: api.DecisionAbort}, api.BootFailed},
	} {
		if got := c.boot.State(); got != c.want {
			t.Errorf("%+v is %s, not %s", c.boot, got, c.want)
		}
	}
}
