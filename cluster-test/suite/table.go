package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// line is what packages.txt says of one package.
type line struct {
	pkg   string // its folder, from the root of the module
	suite string // test or cluster
	short float64
	whole float64
}

// cost returns the CPU seconds that the tests of the package take, short or whole.
func (l *line) cost(short bool) float64 {
	if short {
		return l.short
	}
	return l.whole
}

// table is packages.txt: the packages with tests and what these cost on the machine on which the unit
// of work took unit seconds.
type table struct {
	unit  float64
	lines []*line
}

const (
	unitWord  = "unit"
	suiteTest = "test"
	suiteReal = "cluster"
)

const tableHead = `# The packages with tests: the suite that runs them, and the CPU seconds that they take there with -short and
# without. A package that takes twice as much, and 3 s more, fails. "go run ./cluster-test/suite -suite NAME -write"
# measures. The first line is what a fixed piece of work took on the machine of these figures: others are scaled by it.
`

func readTable(path string) (*table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the table of packages: %w", err)
	}
	return parseTable(text)
}

func parseTable(text []byte) (*table, error) {
	t := &table{}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		numbers := make([]float64, 0, 2)
		for _, f := range fields[min(1, len(fields)-1):] {
			if n, err := strconv.ParseFloat(f, 64); err == nil && n >= 0 {
				numbers = append(numbers, n)
			}
		}
		switch {
		case len(fields) == 2 && fields[0] == unitWord && len(numbers) == 1 && numbers[0] > 0:
			t.unit = numbers[0]
		case len(fields) == 4 && len(numbers) == 2 && (fields[1] == suiteTest || fields[1] == suiteReal):
			t.lines = append(t.lines, &line{fields[0], fields[1], numbers[0], numbers[1]})
		default:
			return nil, fmt.Errorf("table of packages: %q is not a package, its suite (test or cluster) and two CPU times", s.Text())
		}
	}
	if t.unit == 0 {
		return nil, fmt.Errorf("table of packages: it has no line %q", unitWord)
	}
	return t, nil
}

// find returns the line of a package, nil for none.
func (t *table) find(pkg string) *line {
	if i := slices.IndexFunc(t.lines, func(l *line) bool { return l.pkg == pkg }); i >= 0 {
		return t.lines[i]
	}
	return nil
}

// packagesOf returns the packages of a suite as arguments of go test, the dearest first: they are what
// a run waits for in the end.
func (t *table) packagesOf(suite string) ([]string, error) {
	var of []*line
	for _, l := range t.lines {
		if l.suite == suite {
			of = append(of, l)
		}
	}
	if len(of) == 0 {
		return nil, fmt.Errorf("no suite is called %q: there are %s and %s", suite, suiteTest, suiteReal)
	}
	slices.SortStableFunc(of, func(a, b *line) int { return int(math.Ceil(b.short - a.short)) })
	var out []string
	for _, l := range of {
		out = append(out, "./"+l.pkg)
	}
	return out, nil
}

// write stores what packages cost, and writes the table.
func (t *table) write(path string, short bool, costs map[string]cost) error {
	for pkg, c := range costs {
		l := t.find(pkg)
		if l == nil {
			return fmt.Errorf("%s: it is not in the table; add a line with its suite", pkg)
		}
		n := math.Ceil(c.scaled(t.unit)*10-1e-6) / 10
		switch {
		case l.suite == suiteReal: // it knows no other way
			l.short, l.whole = n, n
		case short:
			l.short = n
		default:
			l.whole = n
		}
	}
	if err := os.WriteFile(path, t.text(), 0o600); err != nil {
		return fmt.Errorf("writing the table of packages: %w", err)
	}
	return nil
}

func (t *table) text() []byte {
	slices.SortFunc(t.lines, func(a, b *line) int { return strings.Compare(a.pkg, b.pkg) })
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s %.4f\n", tableHead, unitWord, t.unit)
	for _, l := range t.lines {
		fmt.Fprintf(&b, "%-34s %-8s %7.1f %7.1f\n", l.pkg, l.suite, l.short, l.whole)
	}
	return b.Bytes()
}
