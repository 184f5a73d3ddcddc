package clustertest

import (
	"flag"
	"os"
	"testing"

	"berth/cluster-test/lab"
)

// roundsFlag is how often TestKillLeaderDuringBoot kills the leader of the root.
var roundsFlag = flag.Int("rounds", 3, "kills of the root's leader")

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
