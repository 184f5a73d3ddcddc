package native

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
	"berth/quota"
)

func TestQuotas(t *testing.T) {
	w := newWorld(t)
	put := func(target, body string) call {
		return call{method: "PUT", target: target, token: admin, body: `{"limits":` + body + `}`}
	}
	var one struct{ Quota rest.Quota }
	w.answered(t, put("/quotas", `{"instances":9,"leases":2}`), 200, &one)
	assert.Equal(t, map[string]int64{
		"instances": 9, "leases": 2, "boots": quota.BootsDefault, "records": quota.RecordsDefault, "data": quota.DataDefault,
		"server_groups": quota.ServerGroupsDefault,
	}, one.Quota.Limits)
	one.Quota = rest.Quota{}
	w.answered(t, put("/quotas/p1", `{"instances":2,"hosts":null}`), 200, &one)
	assert.Equal(t, map[string]int64{"instances": 2}, one.Quota.Limits)
	assert.Equal(t, rest.QuotaUse{Name: "instances", Limit: 2, Used: 2, Peak: 2, PeakAt: w.zone.Instant()}, one.Quota.Use[findUse(one.Quota, "instances")])
	assert.Equal(t, rest.QuotaUse{Name: "leases", Limit: 2, Default: true}, one.Quota.Use[findUse(one.Quota, "leases")])

	w.refused(t, call{method: "POST", target: "/zones/boot", token: member, body: order()}, api.CodeOverQuota,
		"Quota exceeded for instances: 1 more asked for, but 2 of 2 are used")
	w.answered(t, call{method: "POST", target: "/zones/boot", token: other, body: order()}, 202, nil)

	var all struct{ Quotas []rest.Quota }
	w.answered(t, call{method: "GET", target: "/quotas", token: member}, 200, &all)
	assert.Equal(t, []api.ProjectID{"", "p1"}, projectsOf(all.Quotas))
	w.answered(t, call{method: "GET", target: "/quotas?own=true", token: admin}, 200, &all)
	assert.Equal(t, []api.ProjectID{"", "p1"}, projectsOf(all.Quotas))
	w.answered(t, call{method: "GET", target: "/quotas", token: admin}, 200, &all)
	assert.Equal(t, []api.ProjectID{"", "p1", "p2"}, projectsOf(all.Quotas))
	var page struct {
		Quotas []rest.Quota
		Next   string `json:"next_marker"`
	}
	w.answered(t, call{method: "GET", target: "/quotas?limit=2", token: admin}, 200, &page)
	assert.Equal(t, []api.ProjectID{"", "p1"}, projectsOf(page.Quotas))
	w.answered(t, call{method: "GET", target: "/quotas?limit=2&marker=" + page.Next, token: admin}, 200, &all)
	assert.Equal(t, []api.ProjectID{"p2"}, projectsOf(all.Quotas))
	w.refused(t, call{method: "GET", target: "/quotas/p2", token: member}, api.CodeForbidden, "the quota of another project needs the role admin")

	w.answered(t, call{method: "DELETE", target: "/quotas/p1", token: admin}, 204, nil)
	w.answered(t, call{method: "POST", target: "/zones/boot", token: member, body: order()}, 202, nil)
}

func projectsOf(all []rest.Quota) []api.ProjectID {
	out := []api.ProjectID{}
	for _, q := range all {
		out = append(out, q.Project)
	}
	return out
}

func findUse(q rest.Quota, name string) int {
	for n := range q.Use {
		if q.Use[n].Name == name {
			return n
		}
	}
	return 0
}

func TestQuotasThatAreRefused(t *testing.T) {
	w := newWorld(t)
	many := func(n int) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`"reserved.CUSTOM_%d":1`, i))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	for _, c := range []struct{ target, body, says string }{
		{"/quotas", `{}`, "limits must name at least one quota"},
		{"/quotas", `{"flavors":1}`, `there is no quota "flavors"`},
		{"/quotas", `{"flavors":null}`, `there is no quota "flavors"`},
		{"/quotas/p", `{"hosts":-2}`, "quota hosts must be 0 to"},
		{"/quotas/p", fmt.Sprintf(`{"hosts":%d}`, int64(quota.LimitMax)+1), "quota hosts must be 0 to"},
		{"/quotas/p", many(quota.ItemsMax + 1), "at most 64 limits are allowed, got 65"},
		{"/quotas/-", `{"hosts":1}`, "project"},
	} {
		w.refused(t, call{method: "PUT", target: c.target, token: admin, body: `{"limits":` + c.body + `}`}, api.CodeInvalid, c.says)
	}
	for _, body := range []string{fmt.Sprintf(`{"hosts":%d}`, int64(quota.LimitMax)), many(quota.ItemsMax)} {
		w.answered(t, call{method: "PUT", target: "/quotas/q", token: admin, body: `{"limits":` + body + `}`}, 200, nil)
		w.answered(t, call{method: "DELETE", target: "/quotas/q", token: admin}, 204, nil)
	}
}

// TestWhatIsOverAQuotaIsNotLogged: boots, leases and server groups.
func TestWhatIsOverAQuotaIsNotLogged(t *testing.T) {
	w := newWorld(t)
	w.answered(t, call{method: "PUT", target: "/quotas/p1", token: admin, body: `{"limits": {"boots": 0, "leases": 0, "server_groups": 0}}`}, 200, nil)
	before := w.zone.View().Index()
	w.refused(t, call{method: "POST", target: "/zones/boot", token: member, body: order()}, api.CodeOverQuota, "Quota exceeded for boots: 1 more asked for, but 0 of 0 are used")
	w.refused(t, call{method: "POST", target: "/server-groups", token: member, body: `{"server_group": {"name": "a", "policy": "affinity"}}`}, api.CodeOverQuota,
		"Quota exceeded for server_groups: 1 more asked for, but 1 of 0 are used")
	assert.Equal(t, before, w.zone.View().Index())
}
