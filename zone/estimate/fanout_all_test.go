package estimate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/zone/zonetest"
)

// TestFanoutToAllWithASlowChild: a child that takes much longer than usual is done without if the others have
// enough, and not asked again at once; one that is always slow is waited for.
func TestFanoutToAllWithASlowChild(t *testing.T) {
	const ms = time.Millisecond
	const least = 300 * ms
	for name, c := range map[string]struct {
		usual, takes time.Duration
		count        int
		after        time.Duration
		next         string // the outcome of the next select there
	}{
		"in time":            {0, least - 2*ms, 2, least - 2*ms, api.OutcomeAnswered},
		"too late":           {0, least + 2*ms, 2, least, api.OutcomeSkipped},
		"it hangs":           {0, time.Hour, 2, least, api.OutcomeSkipped},
		"it is always slow":  {100 * ms, 798 * ms, 2, 798 * ms, api.OutcomeAnswered},
		"slower than always": {100 * ms, 802 * ms, 2, 800 * ms, api.OutcomeSkipped},
		"late and needed":    {0, 4 * time.Second, 4, 4 * time.Second, api.OutcomeAnswered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				w.Zone("kid", root, 2)
				w.HearAll()
				fanOut(root, api.FanoutAll, 1)
				takes := func(d time.Duration) {
					w.Delay(func(now zonetest.Call) time.Duration {
						if now.Op == "select" {
							return d / 2
						}
						return 0
					})
				}
				takes(c.usual)
				root.Pick(1, api.SelectTimeout)
				takes(c.takes)
				began := time.Now()
				_, offered := zonetest.OutcomesOf(root.Pick(c.count, api.SelectTimeout))
				assert.Equal(t, c.after, time.Since(began))
				assert.GreaterOrEqual(t, offered, c.count)
				w.Delay(nil)
				got, _ := zonetest.OutcomesOf(root.Pick(2, api.SelectTimeout))
				assert.Equal(t, c.next, got["kid"])
				got, _ = zonetest.OutcomesOf(root.Pick(4, api.SelectTimeout))
				assert.Equal(t, api.OutcomeAnswered, got["kid"], "it is needed")
			})
		})
	}
}
