package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// faults has the deliberate faults, one file for each: lines "word: text", an empty
// line, and edits of the code; see edit. The words are
//
//	does  what the fault does, in a few words
//	test  the package and the test that have found it, to be tried first
//	only  the same, for a fault that no other test can find
//
//go:embed faults/*.txt
var faults embed.FS

// fault is one deliberate fault.
type fault struct {
	name  string // of its file, without its end
	does  string
	test  suite // zero for a fault that every suite is run for
	only  bool  // test is the one suite that can find it
	edits []edit
}

// readFaults returns all deliberate faults, in the order of their names.
func readFaults(files fs.FS) ([]fault, error) {
	names, err := fs.Glob(files, "faults/*.txt")
	if err != nil {
		return nil, fmt.Errorf("listing the faults: %w", err)
	}
	var all []fault
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading a fault: %w", err)
		}
		f, err := parseFault(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.name = strings.TrimSuffix(filepath.Base(name), ".txt")
		all = append(all, f)
	}
	return all, nil
}

// parseFault reads one file of a fault.
func parseFault(text []byte) (f fault, err error) {
	head, edits, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok {
		return fault{}, errors.New(`it must have lines "word: text", an empty line, and edits`)
	}
	if f.edits, err = parseEdits(string(edits)); err != nil {
		return fault{}, err
	}
	for line := range strings.Lines(string(head)) {
		word, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch word {
		case "does":
			f.does = value
		case "test", "only":
			pkg, test, ok := strings.Cut(value, " ")
			if !ok {
				return fault{}, fmt.Errorf("%q must name a package and a test", line)
			}
			f.test, f.only = suite{pkg, "^" + test + "$"}, word == "only"
		default:
			return fault{}, fmt.Errorf("%q begins with none of the words does, test and only", line)
		}
	}
	if f.does == "" {
		return fault{}, errors.New("it does not say what it does")
	}
	return f, nil
}

// change is new text for files of the module, by their paths in it.
type change map[string][]byte

// change returns the code with the fault. An edit that does not fit is an error: its code has changed.
func (f *fault) change(root string) (change, error) {
	c := change{}
	for _, e := range f.edits {
		if err := e.apply(root, c); err != nil {
			return nil, fmt.Errorf("%s: it does not fit the code any more: %w", f.name, err)
		}
	}
	return c, nil
}

// overlay writes changed files into a folder and returns the list that makes the compiler
// use them in place of the module's own.
func (c change) overlay(root, dir string) (string, error) {
	replace := map[string]string{}
	for file, text := range c {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(changed, text, 0o600); err != nil {
			return "", fmt.Errorf("writing a fault: %w", err)
		}
		replace[filepath.Join(root, file)] = changed
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("writing a fault: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err = os.WriteFile(path, list, 0o600); err != nil {
		return "", fmt.Errorf("writing a fault: %w", err)
	}
	return path, nil
}

// pick returns the faults of these names, all if there are none.
func pick(all []fault, names []string) ([]fault, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []fault
	for _, n := range names {
		i := slices.IndexFunc(all, func(f fault) bool { return f.name == n })
		if i < 0 {
			return nil, fmt.Errorf("no fault is called %q; -list says which there are", n)
		}
		out = append(out, all[i])
	}
	return out, nil
}
