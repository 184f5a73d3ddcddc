//go:build mutants

package mutant

import (
	"fmt"
	"os"
	"slices"
)

// chosen is the fault that is on, "" for none.
var chosen = choose()

func choose() Name {
	n := Name(os.Getenv("BERTH_MUTANT"))
	if n != "" && !slices.Contains(Names(), n) {
		panic(fmt.Sprintf("mutant: no fault is called %q", string(n)))
	}
	return n
}

// On reports whether a fault was chosen.
func On(n Name) bool { return n == chosen }
