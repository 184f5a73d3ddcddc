package state

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// checksUsual is how many histories each test with random ones plays, unless -rapid.checks says otherwise: half of
// what rapid does by itself, because there are many such tests here and each history is long.
const checksUsual = "50"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", checksUsual); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
