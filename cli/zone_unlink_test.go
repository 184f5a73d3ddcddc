package cli

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWriteOffShowsTheLossesAndAsks: what would be lost is said first, by a call that changes nothing,
// and nothing is written off before it is confirmed.
func TestWriteOffShowsTheLossesAndAsks(t *testing.T) {
	force := []string{"zone", "unlink", "west", "--force"}
	const says = "with zone west are lost: 4 instances there, slots of leases included, and the confirmation of 1 decision"
	bodies := func(z *fakeZone) (out []string) {
		for _, s := range z.asked("POST") {
			out = append(out, s.body)
		}
		return out
	}
	dry, done := `{"dry_run":true}`, `{}`
	z := newFakeZone(t)
	r := z.berth(t.Context(), force...)
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, says)
	assert.Contains(t, r.errOut, "--yes")
	r = z.onTerminal(t.Context(), "n\n", force...)
	assert.Equal(t, exitFailed, r.exit)
	assert.Contains(t, r.errOut, `This will write off zone "west". Continue? [y/N]`)
	assert.Equal(t, []string{dry, dry}, bodies(z))
	r = z.onTerminal(t.Context(), "y\n", force...)
	assert.Zero(t, r.exit, r.errOut)
	assert.Equal(t, []string{dry, dry, dry, done}, bodies(z))
	assert.Empty(t, z.asked("DELETE"))

	r = z.berth(t.Context(), append(force, "--yes", "-o", "json")...)
	assert.Zero(t, r.exit, r.errOut)
	assert.JSONEq(t, canned["POST /zones/west/write-off"], r.out)
	assert.Contains(t, r.errOut, says, "a script has it in its log")
}

// TestWriteOffOfAParentIsRepeated: as long as work of the parent has to end the link stays, and the
// command says so.
func TestWriteOffOfAParentIsRepeated(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "zone", "unlink", "europe", "--force", "--end-work", "--yes")
	assert.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.errOut, "2 holds that it has not decided, and 3 instances of it here")
	assert.Contains(t, r.errOut, "3 instances must end first; repeat the command when that is done")
	assert.Equal(t, exitUsage, z.berth(t.Context(), "zone", "unlink", "europe", "--end-work", "--yes").exit, "without --force")
}

// TestWriteOffIsRefused: a refusal of the zone is shown before anything is asked.
func TestWriteOffIsRefused(t *testing.T) {
	z := newFakeZone(t)
	z.on("POST /zones/west/write-off", answer{status: http.StatusConflict, body: refusalOf("conflict", `zone \"west\" takes part in new work; pause it first`)})
	r := z.berth(t.Context(), "zone", "unlink", "west", "--force", "--yes")
	assert.NotZero(t, r.exit)
	assert.Contains(t, r.errOut, "pause it first")
	assert.Len(t, z.asked("POST"), 1)
}
