package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/goccy/go-yaml"
)

// The ways to print.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatJSON, formatYAML}

// table holds rows of text under a header, or without a header a list of names and
// values.
type table struct {
	title  string // a line above it; printed only together with the header
	header []string
	rows   [][]string
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
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, s)
}

// checkFormat refuses an unknown output format.
func (e *env) checkFormat() error {
	if !slices.Contains(formats, e.format) {
		return exitError(exitUsage, "use one of: "+strings.Join(formats, ", "), "unknown output format %q", e.format)
	}
	return nil
}

// printAnswer writes the body of an answer in the chosen format; show returns its tables.
func (e *env) printAnswer(body []byte, show func() []table) error {
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
	var b bytes.Buffer
	for i, t := range ts {
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
