package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Marks of the table of faults in a document.
const (
	ledgerBegins = "<!-- written by make mutants -->\n"
	ledgerEnds   = "<!-- end of what make mutants writes -->\n"
)

// ledgerHead is the first row of the table.
var ledgerHead = []string{"fault", "what it does", "found by", "s", "from outside by", "s"}

// updateLedger rewrites the table of a document: a row for each fault there is, with what these findings
// say, and with what the table said before of faults that nobody looked for now.
func updateLedger(path string, all []fault, findings []finding) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the ledger: %w", err)
	}
	head, rest, begins := strings.Cut(string(text), ledgerBegins)
	rows, tail, ends := strings.Cut(rest, ledgerEnds)
	if !begins || !ends {
		return errors.New("the ledger has no marks for its table")
	}
	var table strings.Builder
	table.WriteString(head + ledgerBegins)
	for _, row := range ledgerRows(readRows(rows), all, findings) {
		fmt.Fprintf(&table, "| %s |\n", strings.Join(row, " | "))
	}
	table.WriteString(ledgerEnds + tail)
	if err = os.WriteFile(path, []byte(table.String()), 0o600); err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	return nil
}

// readRows returns the rows of a table by their first cell.
func readRows(table string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == len(ledgerHead) {
			rows[cells[0]] = cells
		}
	}
	return rows
}

// ledgerRows returns the rows of the table with its head.
func ledgerRows(before map[string][]string, all []fault, findings []finding) [][]string {
	rows := [][]string{ledgerHead, {"---", "---", "---", "---", "---", "---"}}
	now := map[string][]hunt{}
	for _, f := range findings {
		now[f.fault.name] = f.hunts
	}
	for _, f := range all {
		row := before[f.name]
		if row == nil {
			row = []string{f.name, "", "", "", "", ""}
		}
		row[1] = f.does
		for i, h := range now[f.name] {
			if !h.untried { // what was found elsewhere stays
				copy(row[2+2*i:], h.cells())
			}
		}
		rows = append(rows, row)
	}
	return rows
}
