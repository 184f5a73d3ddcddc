package clustertest

import (
	"flag"
	"os"
	"testing"

	"berth/cluster-test/lab"
)

// seedFlag repeats the random moments of an earlier run.
var seedFlag = flag.Uint64("seed", 0, "seed of the random moments; 0 takes one from the clock")

// roundsFlag is how often TestKillLeaderDuringBoot kills the leader of the root.
var roundsFlag = flag.Int("rounds", 3, "kills of the root's leader")

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
