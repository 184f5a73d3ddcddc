package saga_test

import (
	"time"

	"berth/api"
)

// Limits of sagas that these tests wait for.
const (
	holdPatience    = time.Second      // for a child that has never held anything
	holdTimeout     = 10 * time.Second // for all children of one hold to answer
	holdAskAfter    = 15 * time.Second // after which an undecided hold asks upward
	probeEveryMax   = time.Minute      // how long a failing child is left alone at the most
	followWait      = 3 * time.Second  // long poll of a child's changes
	followNoteEvery = 10 * time.Second // how often is logged where to go on without news
	followIndexMax  = 1 << 62          // of a child's log
	pruneEvery      = time.Minute
	pruneAfter      = 24 * time.Hour                  // after an end
	pruneDead       = api.PlanTTLMax + 10*time.Minute // after the abort of a hold that never came
)
