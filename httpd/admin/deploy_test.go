package admin

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// series returns every name under which a metric of the registries may be asked for.
func series() map[string]*metric {
	out := map[string]*metric{}
	for _, m := range slices.Concat(nodeMetrics.all, agentMetrics.all) {
		if m.kind != "histogram" {
			out[m.name] = m
			continue
		}
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			out[m.name+end] = m
		}
	}
	return out
}

var (
	named    = regexp.MustCompile(`\bberth_[a-z0-9_]+`)
	selector = regexp.MustCompile(`\b(berth_[a-z0-9_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)(?:=~|!=|=)`)
)

// TestRulesAndBoardNameMetrics: each metric and each label that an alert, the board or a runbook names is one that
// a process shows. The label zone comes from the configuration of Prometheus.
func TestRulesAndBoardNameMetrics(t *testing.T) {
	t.Parallel()
	known := series()
	for path, least := range map[string]int{"../../deploy/alerts.yaml": 20, "../../deploy/grafana.json": 20} {
		text := readText(t, path)
		found := map[string]bool{}
		for _, name := range named.FindAllString(text, -1) {
			found[name] = true
			assert.Contains(t, known, name, path)
		}
		assert.GreaterOrEqual(t, len(found), least, path)
		for _, s := range selector.FindAllStringSubmatch(text, -1) {
			for _, label := range matcher.FindAllStringSubmatch(s[2], -1) {
				if m := known[s[1]]; m != nil && label[1] != "zone" {
					assert.Contains(t, m.labels, label[1], "%s: label of %s", path, s[1])
				}
			}
		}
	}
	for _, name := range named.FindAllString(readText(t, "../../docs/runbooks.md"), -1) {
		_, shown := known[name]
		_, whole := known[name+"_count"]
		assert.True(t, shown || whole, "docs/runbooks.md: %s", name)
	}
}

// TestTheBoardCanBeImported: it is JSON, its panels have ids of their own, do not overlap and ask something.
func TestTheBoardCanBeImported(t *testing.T) {
	t.Parallel()
	var board struct {
		UID    string `json:"uid"`
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			GridPos struct{ X, Y, W, H int }
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal([]byte(readText(t, "../../deploy/grafana.json")), &board))
	assert.NotEmpty(t, board.UID)
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		assert.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.NotEmpty(t, target.Expr, p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				assert.Empty(t, places[at], p.Title)
				places[at] = p.Title
			}
		}
	}
}

// TestEachAlertHasItsRunbook: with the same meaning, a command to look with and something to do, and no runbook is of
// no alert. The commands and the sections that they name exist.
func TestEachAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	rules, books := readText(t, "../../deploy/alerts.yaml"), readText(t, "../../docs/runbooks.md")
	var alerts, titles []string
	for _, m := range regexp.MustCompile(`(?s)- alert: (\w+)\n.*?severity: (\w+).*?description: '([^\n]*)'\n\s+runbook_url: '([^\n]*)'`).FindAllStringSubmatch(rules, -1) {
		alerts = append(alerts, m[1])
		assert.Contains(t, []string{"info", "warning", "critical"}, m[2], m[1])
		assert.Equal(t, "docs/runbooks.md#"+strings.ToLower(m[1]), m[4])
		assert.Contains(t, books, "\n## "+m[1]+"\n\n"+strings.ReplaceAll(m[3], "''", "'")+"\n", m[1])
	}
	assert.Len(t, alerts, strings.Count(rules, "- alert: "))
	for _, m := range regexp.MustCompile("(?m)^## (\\w+)\n\n[^\n]+\n\n```sh\n[^`]+```\n\n[^\n]+\n").FindAllStringSubmatch(books, -1) {
		titles = append(titles, m[1])
	}
	assert.Equal(t, alerts, titles)

	help, operate := readText(t, "../../cli/testdata/help.txt")+readText(t, "../../docs/config.md"), readText(t, "../../docs/operate.md")
	for _, m := range regexp.MustCompile("(?m)(?:^|`)(berth(?: [a-z]+)+)").FindAllStringSubmatch(books, -1) {
		assert.Contains(t, help, m[1], "docs/runbooks.md")
	}
	for _, m := range regexp.MustCompile(`\*([A-Z][^*]+)\* (?:in operate.md|says)`).FindAllStringSubmatch(books, -1) {
		assert.Regexp(t, `(?m)^#+ `+regexp.QuoteMeta(m[1])+`$`, operate)
	}
}

// TestPromtoolTakesTheRules: and each of the tests in alerts_test.yaml fires what it says.
func TestPromtoolTakesTheRules(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	for _, args := range [][]string{{"check", "rules", "../../deploy/alerts.yaml"}, {"test", "rules", "../../deploy/alerts_test.yaml"}} {
		out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
}
