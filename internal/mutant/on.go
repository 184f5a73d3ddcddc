//go:build mutants

package mutant

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// chosen is the fault that is on, "" for none.
var chosen = choose()

func choose() Name {
	n := Name(os.Getenv("BERTH_MUTANT"))
	if n != "" && !slices.ContainsFunc(Faults(), func(f Fault) bool { return f.Name == n }) {
		panic(fmt.Sprintf("mutant: no fault is called %q", string(n)))
	}
	return n
}

// On reports whether a fault was chosen.
func On(n Name) bool { return n == chosen }

// Clock reads the clock, in milliseconds, where nobody may.
func Clock() int64 { return time.Now().UnixMilli() } //nolint:forbidigo // that is the fault

// Shuffled returns s in the order of a map.
func Shuffled[T any](s []T) []T {
	m := map[int]T{}
	for i, v := range s {
		m[i] = v
	}
	out := make([]T, 0, len(s))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}
