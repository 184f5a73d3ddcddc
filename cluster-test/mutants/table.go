package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// finding is the result of one fault.
type finding struct {
	fault fault
	hunts []hunt // by all suites, and then by the black boxes if requested
}

// untriedHere is the text for a fault that only root can search for.
const untriedHere = "not tried here: needs root"

// String returns the result of the search.
func (h hunt) String() string {
	switch {
	case h.broken != "":
		return h.broken
	case h.untried:
		return untriedHere
	case h.by == "":
		return fmt.Sprintf("not found in %.1f s", h.took.Seconds())
	}
	return fmt.Sprintf("found by %s in %.1f s", h.by, h.took.Seconds())
}

// cells returns the two columns of a search.
func (h hunt) cells() []string {
	switch {
	case h.broken != "":
		return []string{"- (it does not compile)", ""}
	case h.untried:
		return []string{untriedHere, ""}
	case h.by == "":
		return []string{"-", fmt.Sprintf("%.1f", h.took.Seconds())}
	}
	return []string{h.by, fmt.Sprintf("%.1f", h.took.Seconds())}
}

// table prints the results, one line for each fault.
func table(out io.Writer, all []finding) error {
	if len(all) == 0 {
		return nil
	}
	head := []string{"fault", "what it does", "found by", "s"}
	if len(all[0].hunts) > 1 {
		head = append(head, "from outside by", "s")
	}
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	row := func(cells []string) {
		_, _ = fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) // Flush returns the error
	}
	row(head)
	row(strings.Split(strings.Repeat("--- ", len(head)-1)+"---", " "))
	for _, f := range all {
		cells := []string{f.fault.name, f.fault.does}
		for _, h := range f.hunts {
			cells = append(cells, h.cells()...)
		}
		row(cells)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, sum(all))
	return err
}

// sum counts the results.
func sum(all []finding) string {
	found, untried := 0, 0
	for _, f := range all {
		switch h := f.hunts[0]; {
		case h.untried:
			untried++
		case h.by != "":
			found++
		}
	}
	text := fmt.Sprintf("\n%d of %d faults found", found, len(all)-untried)
	if untried > 0 {
		text += fmt.Sprintf(", %d %s", untried, untriedHere)
	}
	return text
}

// verdict returns an error with the names of the faults that were searched for and not
// found. Black boxes need not find them all.
func verdict(all []finding) error {
	var missed []string
	for _, f := range all {
		if h := f.hunts[0]; !h.untried && h.by == "" {
			missed = append(missed, f.fault.name)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("not found: %s", strings.Join(missed, ", "))
	}
	return nil
}
