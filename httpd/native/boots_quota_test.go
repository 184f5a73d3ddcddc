package native

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api/rest"
	"berth/quota"
	"berth/raftstore/command"
)

// TestABootShowsItsQuota: a boot that got fewer instances for a quota shows how many were asked for.
func TestABootShowsItsQuota(t *testing.T) {
	w := newWorld(t)
	had := w.zone.View().Usage("p1").At(w.zone.Instant())[quota.Instances]
	w.store.Must(t, command.QuotaSet{Stamp: w.zone.Stamp(), Project: "p1", Set: quota.Limits{quota.Instances: had + 3}})
	body := func(least string) string {
		return `{"server":{"name":"x","reservation_id":"r-x` + least + `","flavorRef":"small","min_count":` + least + `,"max_count":5}}`
	}
	w.answered(t, call{method: "POST", target: "/zones/boot", token: member, body: body("4")}, 403, nil)
	w.answered(t, call{method: "POST", target: "/zones/boot", token: member, body: body("2")}, 202, nil)
	var got struct{ Boot rest.Boot }
	w.answered(t, call{method: "GET", target: "/zones/boot/r-x2", token: member}, 200, &got)
	assert.Equal(t, []int{2, 3}, []int{got.Boot.MinCount, got.Boot.MaxCount})
	assert.Equal(t, &rest.QuotaCut{Asked: 5, Item: "instances"}, got.Boot.Cut)
}
