package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/cluster-test/lab"
	"berth/internal/await"
)

// pause is between two looks that start processes.
const pause = 300 * time.Millisecond

// rule is an alert of deploy/alerts.yaml. It holds if one of its comparisons does.
type rule struct {
	name, expr string
	any        []comparison
}

// comparison compares every group of one metric with a number, or every series with a part of another metric of the same labels.
type comparison struct {
	extreme string   // max or min of a group; "" if each series is one
	by      []string // labels that the series of a group share
	metric  string
	match   map[string]string // labels that a series must have
	op      string
	limit   float64
	share   string // the metric of which each series is compared with a part; "" for a number
}

// series is one line of what a process shows, with the labels that Prometheus adds.
type series struct {
	metric string
	labels map[string]string
	value  float64
}

var (
	ruleText   = regexp.MustCompile(`(?m)^ +- alert: (\w+)\n +expr: '(.*)'$`)
	comparing  = regexp.MustCompile(`^(?:(max|min) by \(([^)]*)\) \()?([a-z_]+)(?:\{([^}]*)\})?\)? (==|>|<) ([0-9.e* ]+)$`)
	sharing    = regexp.MustCompile(`^([a-z_]+) < ([a-z_]+) / ([0-9]+)$`)
	labelText  = regexp.MustCompile(`(\w+)="([^"]*)"`)
	seriesText = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
)

// findRule returns an alert as deploy/alerts.yaml has it. Its expression must compare metrics as they are with numbers:
// what needs a history of them is not for this test.
func findRule(t *testing.T, name string) *rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "alerts.yaml"))
	require.NoError(t, err)
	for _, found := range ruleText.FindAllStringSubmatch(string(text), -1) {
		if found[1] != name {
			continue
		}
		r := &rule{name: name, expr: strings.ReplaceAll(found[2], "''", "'")}
		for part := range strings.SplitSeq(r.expr, " or ") {
			if c := sharing.FindStringSubmatch(part); c != nil {
				parts, err := strconv.ParseFloat(c[3], 64)
				require.NoError(t, err)
				r.any = append(r.any, comparison{metric: c[1], op: "<", share: c[2], limit: 1 / parts})
				continue
			}
			c := comparing.FindStringSubmatch(part)
			require.NotNil(t, c, "%s: not a comparison: %s", name, part)
			one := comparison{extreme: c[1], by: strings.Split(c[2], ", "), metric: c[3], match: labelsOf(c[4]), op: c[5], limit: 1}
			for factor := range strings.SplitSeq(c[6], "*") {
				number, err := strconv.ParseFloat(strings.TrimSpace(factor), 64)
				require.NoError(t, err)
				one.limit *= number
			}
			r.any = append(r.any, one)
		}
		return r
	}
	require.Fail(t, "no such alert", name)
	return nil
}

func labelsOf(text string) map[string]string {
	out := map[string]string{}
	for _, l := range labelText.FindAllStringSubmatch(text, -1) {
		out[l[1]] = l[2]
	}
	return out
}

// holds reports whether the expression has a result.
func (r *rule) holds(all []series) bool {
	return slices.ContainsFunc(r.any, func(c comparison) bool { return c.holds(all) })
}

func (c *comparison) holds(all []series) bool {
	if c.share != "" {
		return slices.ContainsFunc(all, func(s series) bool {
			return s.metric == c.metric && slices.ContainsFunc(all, func(of series) bool {
				return of.metric == c.share && maps.Equal(of.labels, s.labels) && s.value < of.value*c.limit
			})
		})
	}
	groups := map[string]float64{}
	for n, s := range all {
		if s.metric != c.metric {
			continue
		}
		key := strconv.Itoa(n) // a group of its own
		if c.extreme != "" {
			key = ""
			for _, label := range c.by {
				key += s.labels[label] + "\n"
			}
		}
		matches := true
		for label, value := range c.match {
			matches = matches && s.labels[label] == value
		}
		before, there := groups[key]
		switch {
		case !matches:
		case !there:
			groups[key] = s.value
		case c.extreme == "max":
			groups[key] = max(before, s.value)
		default:
			groups[key] = min(before, s.value)
		}
	}
	for _, value := range groups {
		if c.op == "==" && value == c.limit || c.op == ">" && value > c.limit || c.op == "<" && value < c.limit {
			return true
		}
	}
	return false
}

// target is a process that is scraped.
type target struct {
	zone string
	addr string // of its metrics, on its machine
}

// scrape returns the series of a rule, from each process that is watched. As Prometheus does, it adds the labels of the
// target, and up.
func (w *story) scrape(r *rule) (all []series) {
	for name, at := range w.watched {
		added := map[string]string{"zone": at.zone, "instance": name, "job": "berth"}
		m := w.at(name)
		ctx, cancel := context.WithTimeout(context.Background(), lineMax)
		text, err := within(ctx, m.process, "curl", "-sf", "--max-time", "10", at.addr+"/metrics").Output()
		cancel()
		up := series{metric: "up", labels: added, value: 1}
		if err != nil {
			text, up.value = nil, 0
		}
		all = append(all, up)
		for _, found := range seriesText.FindAllStringSubmatch(string(text), -1) {
			value, err := strconv.ParseFloat(found[3], 64)
			if err == nil && strings.Contains(r.expr, found[1]) {
				labels := labelsOf(found[2])
				maps.Copy(labels, added)
				all = append(all, series{found[1], labels, value})
			}
		}
	}
	return all
}

// sighting is what was scraped when an alert was, or was not, to hold.
type sighting struct {
	when  string
	rule  *rule
	all   []series
	holds bool
}

// see waits until an alert holds, or does not, and keeps what was scraped then for askPromtool.
func (w *story) see(when string, r *rule, holds bool) {
	w.t.Helper()
	var all []series
	await.Until(w.t, fmt.Sprintf("%s: %s holds: %v", when, r.name, holds), func(context.Context) error {
		if all = w.scrape(r); r.holds(all) != holds {
			lab.Pass(w.t.Context(), pause)
			return fmt.Errorf("%s: %v", r.expr, all)
		}
		return nil
	})
	w.seen = append(w.seen, sighting{when, r, all, holds})
}

// askPromtool has Prometheus itself evaluate the expressions over what was scraped.
func askPromtool(t *testing.T, seen []sighting) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed: the expressions were evaluated by this test alone")
		return
	}
	type object = map[string]any
	var tests []object
	for _, s := range seen {
		var input []object
		for _, one := range s.all {
			var labels []string
			for _, name := range slices.Sorted(maps.Keys(one.labels)) {
				labels = append(labels, fmt.Sprintf("%s=%q", name, one.labels[name]))
			}
			input = append(input, object{"series": one.metric + "{" + strings.Join(labels, ",") + "}", "values": strconv.FormatFloat(one.value, 'f', -1, 64)})
		}
		result := 0
		if s.holds {
			result = 1
		}
		tests = append(tests, object{"name": s.when, "interval": "1m", "input_series": input, "promql_expr_test": []object{{
			"expr": "(count(" + s.rule.expr + ") > bool 0) or vector(0)", "eval_time": "0m", "exp_samples": []object{{"labels": "{}", "value": result}},
		}}})
	}
	text, err := json.Marshal(object{"evaluation_interval": "1m", "tests": tests}) // JSON is YAML
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "seen.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(t.Context(), tool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
