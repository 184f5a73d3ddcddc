package lab

import (
	"flag"
	"os"
	"testing"
)

// seedFlag repeats what an earlier run drew.
var seedFlag = flag.Uint64("seed", 0, "seed of what is drawn; 0 takes one from the clock")

func TestMain(m *testing.M) { os.Exit(Main(m)) }
