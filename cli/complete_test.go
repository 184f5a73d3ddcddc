package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// manyServers is a page of n servers from number first, web-0 and so on; next is its marker.
func manyServers(first, n int, next string) answer {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id": "i-%04d", "name": "web-%d"}`, first+i, first+i)
	}
	return answer{status: http.StatusOK, body: `{"servers": [` + strings.Join(items, ", ") + `], "next_marker": "` + next + `"}`}
}

// completed returns what a shell is offered, and the lines that it shows below.
func completed(t *testing.T, z *fakeZone, words ...string) (offered, shown []string) {
	t.Helper()
	r := z.berth(t.Context(), append([]string{"__complete"}, words...)...)
	require.Zero(t, r.exit, r.errOut)
	lines, _, _ := strings.Cut("\n"+r.out, "\n:")
	for line := range strings.Lines(strings.TrimPrefix(lines, "\n")) {
		if text, help := strings.CutPrefix(line, "_activeHelp_ "); help {
			shown = append(shown, strings.TrimSpace(text))
		} else {
			offered = append(offered, strings.TrimSpace(line))
		}
	}
	return offered, shown
}

// TestCompletionsHaveALimit: a shell is offered completeMax names, is told when there are more, and
// does not ask for more of them than it needs.
func TestCompletionsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /servers/detail", manyServers(0, completeMax, ""))
		offered, shown := completed(t, z, "server", "delete", "")
		assert.Len(t, offered, completeMax)
		assert.Empty(t, shown)
		assert.Equal(t, fmt.Sprintf("GET /servers/detail?limit=%d", completeMax+1), z.asked("GET /servers/detail")[0].call)

		z.on("GET /servers/detail", manyServers(0, completeMax+1, "i-0100"))
		offered, shown = completed(t, z, "server", "delete", "")
		assert.Len(t, offered, completeMax)
		assert.Equal(t, []string{"only the first 100 are shown; type more of the name"}, shown)
		assert.Len(t, z.asked("GET /servers/detail"), 2, "one page each")
	})
}

// TestCompletionsBeginAsTyped: what was typed is searched for in ids and in names, page by page, in at
// most completePages of them.
func TestCompletionsBeginAsTyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeZone(t)
		z.on("GET /servers/detail", manyServers(0, 1000, "a"), manyServers(1000, 1000, ""))
		offered, shown := completed(t, z, "server", "delete", "i-17")
		require.Len(t, offered, completeMax)
		assert.Equal(t, "i-1700\tweb-1700", offered[0])
		assert.Empty(t, shown)

		z.on("GET /servers/detail", manyServers(0, 1000, "a"), manyServers(1000, 1000, ""))
		offered, _ = completed(t, z, "server", "delete", "web-1999")
		assert.Equal(t, []string{"web-1999\ti-1999"}, offered)

		z = newFakeZone(t)
		z.on("GET /servers/detail", manyServers(0, 10, "a"))
		offered, _ = completed(t, z, "server", "delete", "none")
		assert.Empty(t, offered)
		assert.Len(t, z.asked("GET /servers/detail"), completePages)
	})
}
