package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/admin"
	"berth/httpd/agents"
	httpdoor "berth/httpd/door"
	"berth/httpd/gateway"
	"berth/httpd/placement"
	"berth/httpd/reservation"
	"berth/httpd/tricircle"
)

// routeRow finds a row of the table of reads in docs/http.md.
var routeRow = regexp.MustCompile("(?m)^\\| ([a-z ]+) \\| ([a-z]+) \\| (`.*`) \\|$")

// TestTheTableOfReadsIsThatOfTheRoutes: every route of every door declares its kind of read,
// and docs/http.md agrees. The native API has a table of its own: see api/rest.
func TestTheTableOfReadsIsThatOfTheRoutes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "http.md"))
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "\n## Reads\n")
	table, _, _ = strings.Cut(table, "\n## ")
	said := map[string]string{}
	for _, m := range routeRow.FindAllStringSubmatch(table, -1) {
		said[m[1]+" "+m[2]] = m[3]
	}
	for name, routes := range map[string][]httpdoor.Route{
		"placement": placement.Routes(), "reservation": reservation.Routes(), "tricircle": tricircle.Routes(), "gateway": gateway.Routes(),
		"agents": agents.Routes(), "admin": admin.Routes(), "admin socket": admin.LocalRoutes(),
	} {
		require.NotEmpty(t, routes, name)
		byKind := map[api.Read][]string{}
		for _, r := range routes {
			assert.Contains(t, []api.Read{api.ReadLocal, api.ReadLinearizable, api.ReadLog}, r.Read, "%s: %s %s does not say which read it makes", name, r.Method, r.Path)
			byKind[r.Read] = append(byKind[r.Read], "`"+r.Method+" "+r.Path+"`")
		}
		for kind, list := range byKind {
			slices.Sort(list)
			assert.Equal(t, strings.Join(list, ", "), said[name+" "+string(kind)], "docs/http.md, table of reads: | %s | %s |", name, kind)
			delete(said, name+" "+string(kind))
		}
	}
	assert.Empty(t, said, "docs/http.md, table of reads: no such routes")
}
