package cli

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestVolumeIsAwaited: create waits until the volume is there; it may fail, and it may take too long.
func TestVolumeIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		volumeIn := func(status string) answer {
			return answer{status: http.StatusOK, body: strings.Replace(canned["GET /volumes/v-1"], `"status": "in-use"`, `"status": "`+status+`"`, 1)}
		}
		z := newFakeZone(t)
		z.on("GET /volumes/v-1", volumeIn("creating"), volumeIn("creating"), volumeIn("available"))
		r := z.berth(t.Context(), "volume", "create", "data", "--size", "20")
		require.Zero(t, r.exit, r.errOut)
		assert.Contains(t, r.out, "available")
		assert.Len(t, z.asked("GET /volumes/v-1"), 3)

		z = newFakeZone(t)
		z.on("GET /volumes/v-1", volumeIn("creating"))
		r = z.berth(t.Context(), "volume", "create", "data", "--size", "20", "--no-wait")
		require.Zero(t, r.exit, r.errOut)
		assert.Contains(t, r.out, "creating")

		r = z.berth(t.Context(), "volume", "create", "data", "--size", "20", "--timeout", "100ms")
		assert.Equal(t, exitTimeout, r.exit)
		assert.Contains(t, r.errOut, "volume v-1 is still being made after 100ms\n  hint: it continues; check with: berth volume show v-1")

		z.on("GET /volumes/v-1", volumeIn("error"))
		r = z.berth(t.Context(), "volume", "create", "data", "--size", "20")
		assert.Equal(t, exitNoneRuns, r.exit)
		assert.Contains(t, r.errOut, "volume v-1 could not be made")
	})
}
