package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"

	"berth/api"
)

// The ways to print.
const (
	formatTable = "table"
	formatWide  = "wide" // a table with more columns
	formatName  = "name" // the first column of a list alone
	formatCSV   = "csv"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatWide, formatName, formatCSV, formatJSON, formatYAML}

// table holds rows of text under a header, or without a header a list of names and
// values.
type table struct {
	wide   int    // of the columns, how many at the end are for formatWide and formatCSV alone
	detail bool   // it is for formatWide and formatCSV alone
	title  string // a line above it; printed only together with the header
	header []string
	rows   [][]string
	of     []int // of a list, which item of the answer each row shows; nil if row i shows item i
}

// addRow adds one row; each cell is printed by fmt.Sprint.
func (t *table) addRow(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = stripControls(fmt.Sprint(c))
	}
	t.rows = append(t.rows, texts)
}

// stripControls returns s without characters that could control a terminal, break a
// table, or change the order in which others are shown.
func stripControls(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if api.IsHidden(r) {
			return '?'
		}
		return r
	}, s)
}

// checkFormat refuses an unknown output format.
func (e *env) checkFormat() error {
	if e.jq != "" && e.format != formatTable && e.format != formatJSON {
		return exitError(exitUsage, "", "--jq and --output %s cannot be given together", e.format)
	}
	if !slices.Contains(formats, e.format) {
		return exitError(exitUsage, "use one of: "+strings.Join(formats, ", "), "unknown output format %q", e.format)
	}
	return e.checkQuery()
}

// printsTables reports whether an answer is printed as tables, and not as it came.
func (e *env) printsTables() bool {
	return e.jq == "" && e.format != formatJSON && e.format != formatYAML
}

// printAnswer writes the body of an answer in the chosen format; show returns its tables.
func (e *env) printAnswer(body []byte, show func() []table) error {
	if e.jq != "" {
		return e.printQuery(body)
	}
	switch e.format {
	case formatJSON:
		var b bytes.Buffer
		if err := json.Indent(&b, bytes.TrimSpace(body), "", "  "); err != nil {
			return fmt.Errorf("printing JSON: %w", err)
		}
		b.WriteByte('\n')
		return e.writeOut(b.Bytes())
	case formatYAML:
		if !json.Valid(body) { // the conversion accepts all of YAML, which is more than JSON
			return errors.New("printing YAML: the answer is not JSON")
		}
		b, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("printing YAML: %w", err)
		}
		return e.writeOut(b)
	}
	return e.printTables(show()...)
}

// printTables writes tables with an empty line between them.
func (e *env) printTables(ts ...table) error {
	b, err := e.spellTables(ts)
	if err != nil {
		return err
	}
	return e.writeOut(b)
}

// noteTables writes tables for people to the error output.
func (e *env) noteTables(ts ...table) error {
	b, err := e.spellTables(ts)
	printText(e.errOut, "%s\n", b)
	return err
}

// spellTables returns tables as text, with an empty line between them.
func (e *env) spellTables(ts []table) ([]byte, error) {
	switch e.format {
	case formatCSV:
		return e.spellCSV(ts)
	case formatName:
		return spellNames(ts), nil
	}
	var b bytes.Buffer
	for i, t := range ts {
		if e.format != formatWide {
			if t.detail {
				continue
			}
			t = t.narrow()
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		if t.title != "" && !e.noHeaders {
			printText(&b, "%s\n", t.title)
		}
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		if t.header != nil && !e.noHeaders {
			printText(w, "%s\n", strings.Join(t.header, "\t"))
		}
		for _, r := range t.rows {
			printText(w, "%s\n", strings.Join(r, "\t"))
		}
		if err := w.Flush(); err != nil {
			return nil, fmt.Errorf("printing a table: %w", err)
		}
	}
	return trimLines(b.Bytes()), nil
}

// narrow returns t without the columns that only formatWide has.
func (t table) narrow() table {
	if t.wide == 0 {
		return t
	}
	t.header = t.header[:len(t.header)-t.wide]
	t.rows = slices.Clone(t.rows)
	for i, r := range t.rows {
		t.rows[i] = r[:len(r)-t.wide]
	}
	return t
}

// spellCell returns a value as a cell of CSV. One that a spreadsheet would take for a formula begins with an apostrophe, which
// makes it a text there: others may have written it.
func spellCell(s string) string {
	if s == "" || s == "-" || !strings.ContainsRune("=+-@", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// spellCells returns values as cells.
func spellCells(row []string) []string {
	out := make([]string, len(row))
	for i, s := range row {
		out[i] = spellCell(s)
	}
	return out
}

// spellCSV returns tables as CSV (RFC 4180), with an empty line between them.
func (e *env) spellCSV(ts []table) ([]byte, error) {
	var b bytes.Buffer
	for i, t := range ts {
		if i > 0 {
			b.WriteByte('\n')
		}
		w := csv.NewWriter(&b)
		if t.header != nil && !e.noHeaders {
			_ = w.Write(t.header) // what fails is told at the end
		}
		for _, row := range t.rows {
			_ = w.Write(spellCells(row)) // the same
		}
		if w.Flush(); w.Error() != nil {
			return nil, fmt.Errorf("printing CSV: %w", w.Error())
		}
	}
	return b.Bytes(), nil
}

// spellNames returns the first column of the first table if it is a list, and else its first value.
func spellNames(ts []table) []byte {
	var b bytes.Buffer
	switch {
	case len(ts) == 0 || len(ts[0].rows) == 0:
	case ts[0].header == nil:
		first := ts[0].rows[0]
		printText(&b, "%s\n", first[len(first)-1])
	default:
		for _, r := range ts[0].rows {
			printText(&b, "%s\n", r[0])
		}
	}
	return b.Bytes()
}

// trimLines removes spaces at the ends of lines.
func trimLines(b []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(b) {
		out.Write(bytes.TrimRight(line, " \n"))
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func (e *env) writeOut(b []byte) error {
	if _, err := e.out.Write(b); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// printNote writes one line for people to the error output.
func (e *env) printNote(format string, args ...any) {
	printText(e.errOut, format+"\n", args...)
}

// printText writes to memory, which never fails, or to the error output, where a failure
// could not be reported.
func printText(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
