package score

import (
	"errors"
	"fmt"
	"strings"
)

// The lines between which a report is in a document.
const (
	Begin = "<!-- begin of the report: written by make bench-report -->"
	End   = "<!-- end of the report -->"
)

// Splice returns doc with body in place of what is between Begin and End. It returns an error
// unless doc has each of them once, in this order.
func Splice(doc, body string) (string, error) {
	head, rest, ok := strings.Cut(doc, Begin)
	_, tail, ok2 := strings.Cut(rest, End)
	switch {
	case !ok || !ok2:
		return "", errors.New("the document lacks the lines between which the report goes")
	case strings.Contains(head, End) || strings.Contains(tail, End) || strings.Contains(rest, Begin):
		return "", errors.New("the document has the lines of the report more than once")
	}
	return head + Begin + "\n" + strings.Trim(body, "\n") + "\n" + End + tail, nil
}

// Markdown writes r as tables. The image of a curve is at images + its name + ".svg".
func Markdown(r *Report, images string) string {
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	size := "full size"
	if r.Short {
		size = "short: good for ratios at most"
	}
	put("One run of `make bench-report` on %d processors, %s, commit %s, %s (%s). Other processes used %.0f %% of the machine's processor time\n",
		r.CPUs, r.Go, r.Commit, r.At, size, 100*r.Others)
	put("meanwhile; where that is more than a few percent, figures are worse than they need be. Zones, agents, simulated hosts and the load\n")
	put("generator share one process, and \"CPU\" is all of it. \"Before\" is commit 034f99c, where the load generator was a process of its own. ")
	put("\"Of the floor\"\nis how close a figure comes to what a part can do alone: 1.00 would be as good.\n\n")
	put("| work | measured | before | goal | reached | of the floor |\n| --- | ---: | ---: | ---: | --- | --- |\n")
	for i := range r.Rows {
		for k := range r.Rows[i].Measures {
			putMeasure(put, &r.Rows[i], k)
		}
	}
	put("\n| floor | |\n| --- | ---: |\n")
	for _, f := range r.Floors {
		put("| `%s`: %s | %s %s |\n", f.Name, f.Title, Number(f.Value), f.Unit)
	}
	for i := range r.Curves {
		putCurve(put, &r.Curves[i], images)
	}
	return b.String()
}

func putMeasure(put func(string, ...any), r *Row, k int) {
	m := &r.Measures[k]
	title := ""
	if k == 0 {
		title = r.Title
		if r.Failed > 0 {
			title += fmt.Sprintf(" (%d failed)", r.Failed)
		}
	}
	floor := ""
	if m.Ratio > 0 {
		floor = fmt.Sprintf("%s of `%s`", Number(m.Ratio), m.Floor)
	}
	put("| %s | %s | %s | %s | %s | %s |\n", title, figure(m, m.Value), figure(m, m.Before), figure(m, m.Goal), Reached(m), floor)
}

// figure shows a value of m with its name and unit, "" for none.
func figure(m *Measure, v float64) string {
	if v == 0 {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Name, Number(v), m.Unit))
}

// Reached says whether m is at its goal, or how far from it; "" without a goal.
func Reached(m *Measure) string {
	switch {
	case m.Goal == 0:
		return ""
	case m.Value <= 0:
		return "not measured"
	}
	part := Ratio(m.Value, m.Goal, m.Lower)
	if part >= 1 {
		return "yes"
	}
	return fmt.Sprintf("no: %.1f times off", 1/part)
}

func putCurve(put func(string, ...any), c *Curve, images string) {
	put("\n### %s\n\n![%s](%s%s.svg)\n\n", c.Title, c.Title, images, c.Name)
	put("| %s | %s | CPU ms an operation |\n| ---: | ---: | ---: |\n", c.X, c.Y)
	for _, p := range c.Points {
		cpu := ""
		if p.CPU > 0 {
			cpu = Number(p.CPU)
		}
		put("| %s | %s | %s |\n", Number(p.X), Number(p.Y), cpu)
	}
	put("\nSlope of the logarithms: %.2f.", c.Slope)
	if c.Goal != "" {
		put(" Goal: %s.", c.Goal)
	}
	put("\n")
}

// Number shows three significant digits at least, and all digits before the point, with commas.
func Number(v float64) string {
	var text string
	switch {
	case v < 0:
		return "-" + Number(-v)
	case v == 0:
		return "0"
	case v < 0.001:
		return fmt.Sprintf("%.2g", v)
	case v < 1:
		text = fmt.Sprintf("%.4f", v)
		return strings.TrimRight(text, "0")
	case v < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.2f", v), ".00")
	case v < 100:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	text = fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
