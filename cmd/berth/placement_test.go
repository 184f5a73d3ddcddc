package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the canned zone knows by UUID.
const (
	uuidHost = "11111111-1111-4111-8111-111111111111"
	uuidGPU  = "22222222-2222-4222-8222-222222222222"
	uuidPool = "33333333-3333-4333-8333-333333333333"
	uuidC    = "44444444-4444-4444-8444-444444444444" // a consumer
	uuidZ    = "99999999-9999-4999-8999-999999999999" // nobody yet
	uuidRack = "55555555-5555-4555-8555-555555555555"
)

func cannedProvider(id, name, parent, root string) string {
	above := "null"
	if parent != "" {
		above = `"` + parent + `"`
	}
	return fmt.Sprintf(`{"uuid": %q, "name": %q, "generation": 5, "parent_provider_uuid": %s, "root_provider_uuid": %q,
		"links": [{"rel": "self", "href": "/placement/resource_providers/%s"}]}`, id, name, above, root, id)
}

const (
	cannedStock = `{"resource_provider_generation": 5, "inventories": {
		"VCPU": {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 2.0},
		"MEMORY_MB": {"total": 2048, "reserved": 48, "min_unit": 1, "max_unit": 2147483647, "step_size": 64, "allocation_ratio": 1.0}}}`
	cannedHeld = `{"allocations": {"` + uuidHost + `": {"resources": {"VCPU": 1, "MEMORY_MB": 512}, "generation": 5},
		"` + uuidPool + `": {"resources": {"DISK_GB": 10}, "generation": 2}},
		"project_id": "web", "user_id": "ada", "consumer_type": "unknown", "consumer_generation": 3}`
	cannedUsed       = `{"resource_provider_generation": 5, "usages": {"VCPU": 3, "MEMORY_MB": 512}}`
	cannedTraits     = `{"resource_provider_generation": 5, "traits": ["CUSTOM_SSD", "COMPUTE_NODE"]}`
	cannedAggregates = `{"resource_provider_generation": 5, "aggregates": ["` + uuidRack + `", "` + uuidZ + `"]}`
)

// cannedPlacement is what the zone answers to calls of the placement API unless a
// test says otherwise. Names are looked up in lists of all providers.
var cannedPlacement = func() map[string]string {
	host, gpu := cannedProvider(uuidHost, "h1", "", uuidHost), cannedProvider(uuidGPU, "h1-gpu0", uuidHost, uuidHost)
	pool := cannedProvider(uuidPool, "pool1", "", uuidPool)
	const at = "/placement/resource_providers"
	out := map[string]string{
		"GET " + at:                       `{"resource_providers": [` + pool + `, ` + gpu + `, ` + host + `]}`,
		"POST " + at:                      cannedProvider(uuidZ, "new", uuidHost, uuidHost),
		"GET /placement/resource_classes": `{"resource_classes": [{"name": "VCPU"}, {"name": "CUSTOM_LICENSE"}]}`,
		"PUT /placement/resource_classes/CUSTOM_LICENSE":    "",
		"DELETE /placement/resource_classes/CUSTOM_LICENSE": "",
		"GET /placement/traits":                             `{"traits": ["CUSTOM_SSD", "COMPUTE_NODE"]}`,
		"PUT /placement/traits/CUSTOM_SSD":                  "",
		"DELETE /placement/traits/CUSTOM_SSD":               "",
		"GET /placement/allocations/" + uuidC:               cannedHeld,
		"GET /placement/allocations/" + uuidZ:               `{"allocations": {}}`,
		"PUT /placement/allocations/" + uuidC:               "",
		"PUT /placement/allocations/" + uuidZ:               "",
		"DELETE /placement/allocations/" + uuidC:            "",
		"GET " + at + "/" + uuidHost + "/allocations":       `{"resource_provider_generation": 5, "allocations": {"` + uuidC + `": {"resources": {"VCPU": 1}, "consumer_generation": 3}}}`,
		"GET /capacity":                        cannedCapacity,
		"GET /placement/allocation_candidates": cannedCandidates,
	}
	for id, p := range map[string]string{uuidHost: host, uuidGPU: gpu, uuidPool: pool} {
		out["GET "+at+"/"+id], out["PUT "+at+"/"+id], out["DELETE "+at+"/"+id] = p, p, ""
		for name, body := range map[string]string{
			"inventories": cannedStock, "usages": cannedUsed, "traits": cannedTraits, "aggregates": cannedAggregates,
		} {
			out["GET "+at+"/"+id+"/"+name], out["PUT "+at+"/"+id+"/"+name] = body, body
		}
	}
	return out
}()

const (
	cannedCandidates = `{"allocation_requests": [
		{"allocations": {"` + uuidHost + `": {"resources": {"VCPU": 1}}, "` + uuidPool + `": {"resources": {"DISK_GB": 10}}},
			"mappings": {"": ["` + uuidHost + `", "` + uuidPool + `"]}},
		{"allocations": {"` + uuidHost + `": {"resources": {"VCPU": 1}}, "` + uuidGPU + `": {"resources": {"PGPU": 1}}},
			"mappings": {"": ["` + uuidHost + `"], "gpu": ["` + uuidGPU + `"], "numa": ["` + uuidGPU + `"]}}],
		"provider_summaries": {"` + uuidHost + `": {"resources": {"VCPU": {"capacity": 16, "used": 3}}, "traits": []},
			"` + uuidPool + `": {"resources": {"DISK_GB": {"capacity": 1000, "used": 0}}, "traits": []},
			"` + uuidGPU + `": {"resources": {"PGPU": {"capacity": 1, "used": 0}}, "traits": []}}}`
	cannedCapacity = `{"capacity": {"at": "2026-06-02T10:00:00.000Z", "zones": [
		{"name": "home", "exact": true, "heard": true, "classes": {"VCPU": {"total": 12, "reserved": 2, "capacity": 20, "used": 3, "free": 17, "free_at": 18}}},
		{"name": "west", "exact": false, "heard": true, "age_ms": 1400, "classes": {"VCPU": {"capacity": 64, "free": 32}, "MEMORY_MB": {"capacity": 1024, "free": 512}}},
		{"name": "east", "exact": false, "heard": true, "age_ms": 61000, "partial": true, "paused": true, "classes": {"VCPU": {"capacity": 8, "free": 8}}},
		{"name": "north", "exact": false, "heard": false, "partial": true, "classes": {}}],
		"sum": {"rounded": true, "partial": true, "classes": {"VCPU": {"capacity": 84, "free": 49}, "MEMORY_MB": {"capacity": 1024, "free": 512}}}}}`
)

// placementNo is a refusal in the shape of the placement API.
func placementNo(status int, code string) answer {
	return answer{status: status, body: fmt.Sprintf(`{"errors": [{"status": %d, "title": "No", "detail": "not so", "code": %q, "request_id": "req-1"}]}`, status, code)}
}

// TestPlacementRefusalsSayWhatToDo makes each verb meet the refusal that it is most
// likely to.
func TestPlacementRefusalsSayWhatToDo(t *testing.T) {
	const moved, undefined = "placement.concurrent_update", "placement.undefined_code"
	at := "/placement/resource_providers/" + uuidHost
	for _, x := range []struct {
		line, route string
		status      int
		code        string
		exit        int
		says        string
	}{
		{"provider create h1", "POST /placement/resource_providers", 409, "placement.duplicate_name", exitConflict, "use another name"},
		{"provider delete h1 --yes", "DELETE " + at, 409, "placement.resource_provider.inuse", exitConflict, "berth provider allocations h1"},
		{"provider delete h1 --yes", "DELETE " + at, 409, "placement.resource_provider.cannot_delete_parent", exitConflict, "berth provider list --tree --in-tree h1"},
		{"provider inventory set h1 VCPU=1", "PUT " + at + "/inventories", 409, moved, exitConflict, "read it again with berth provider inventory list h1, and repeat"},
		{"provider inventory unset h1 VCPU", "PUT " + at + "/inventories", 409, "placement.inventory.inuse", exitConflict, "berth provider allocations h1"},
		{"provider inventory unset h1 VCPU", "PUT " + at + "/inventories", 409, undefined, exitConflict, "read it again and decide"},
		{"provider trait set h1 A", "PUT " + at + "/traits", 409, moved, exitConflict, "berth provider trait list h1"},
		{"provider trait set h1 A", "PUT " + at + "/traits", 400, undefined, exitUsage, "berth trait create"},
		{"provider aggregate set h1 rack1", "PUT " + at + "/aggregates", 409, moved, exitConflict, "berth provider aggregate list h1"},
		{"trait create ssd", "PUT /placement/traits/ssd", 400, undefined, exitUsage, "CUSTOM_ and upper case"},
		{"trait delete CUSTOM_SSD --yes", "DELETE /placement/traits/CUSTOM_SSD", 409, undefined, exitConflict, "berth provider list --required TRAIT"},
		{"resource-class delete CUSTOM_LICENSE --yes", "DELETE /placement/resource_classes/CUSTOM_LICENSE", 409, undefined, exitConflict, "berth provider list"},
		{"allocation set " + uuidC + " --allocation h1:VCPU=1", "PUT /placement/allocations/" + uuidC, 409, undefined, exitNoCapacity, "berth candidates"},
		{"allocation set " + uuidC + " --allocation h1:VCPU=1", "PUT /placement/allocations/" + uuidC, 409, moved, exitConflict, "berth allocation list " + uuidC},
		{"provider show h1", "GET " + at + "/usages", 403, undefined, exitDenied, "higher role"},
		{"allocation list " + uuidC, "GET " + at, 403, undefined, exitDenied, "higher role"},
	} {
		z := newFakeZone(t)
		z.on(x.route, placementNo(x.status, x.code))
		r := z.berth(t.Context(), strings.Fields(x.line)...)
		assert.Equal(t, x.exit, r.exit, "%s: %s", x.line, r.errOut)
		assert.Contains(t, r.errOut, "not so (", x.line)
		assert.Contains(t, r.errOut, x.says, x.line)
	}
}

func TestProvidersThatAreNotThere(t *testing.T) {
	z := newFakeZone(t)
	for _, line := range []string{
		"provider show h", "provider delete none --yes", "provider create a --parent none", "provider inventory set none VCPU=1", "candidates --resources VCPU=1 --in-tree none",
	} {
		r := z.berth(t.Context(), strings.Fields(line)...)
		assert.Equal(t, exitNotFound, r.exit, line)
		assert.Contains(t, r.errOut, "berth provider list", line)
	}
	r := z.berth(t.Context(), "provider", "aggregate", "set", "h1", "rack9")
	assert.Equal(t, exitNotFound, r.exit)
	assert.Contains(t, r.errOut, "berth aggregate create")
	r = z.berth(t.Context(), "provider", "show", uuidZ)
	assert.Equal(t, exitNotFound, r.exit)
	for _, method := range []string{"PUT", "POST", "DELETE"} {
		assert.Empty(t, z.asked(method))
	}
}

// A table of one allocation asks for the names of its providers, and JSON for no more
// than it prints.
func TestNamesAreForTables(t *testing.T) {
	z := newFakeZone(t)
	for _, line := range []string{"allocation list " + uuidC, "provider show " + uuidHost, "provider usage " + uuidHost, "provider aggregate list " + uuidHost, "candidates --resources VCPU=1"} {
		before := len(z.asked("GET"))
		r := z.berth(t.Context(), append(strings.Fields(line), "-o", "json")...)
		require.Zero(t, r.exit, r.errOut)
		assert.Len(t, z.asked("GET"), before+1, line)
	}
	r := z.berth(t.Context(), "provider", "list", "--tree", "-o", "json")
	assert.JSONEq(t, cannedPlacement["GET /placement/resource_providers"], r.out)
}

// Names of few providers are asked for one by one, those of many in one list. Of one
// that is gone there is no name.
func TestNamesOfManyProviders(t *testing.T) {
	for count, lists := range map[int]int{nameCallsMax: 0, nameCallsMax + 1: 1} {
		z := newFakeZone(t)
		var held, all []string
		for i := range count {
			id := fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)
			held = append(held, `"`+id+`": {"resources": {"VCPU": 1}}`)
			p := cannedProvider(id, fmt.Sprint("p", i), "", id)
			if all = append(all, p); i > 0 { // the first is gone
				z.on("GET /placement/resource_providers/"+id, answer{status: http.StatusOK, body: p})
			}
		}
		z.on("GET /placement/resource_providers", answer{status: http.StatusOK, body: `{"resource_providers": [` + strings.Join(all[1:], ",") + `]}`})
		z.on("GET /placement/allocations/"+uuidC, answer{status: http.StatusOK, body: `{"allocations": {` + strings.Join(held, ",") + `}}`})
		r := z.berth(t.Context(), "allocation", "list", uuidC, "--no-headers")
		require.Zero(t, r.exit, r.errOut)
		assert.True(t, strings.HasPrefix(r.out, "-    00000000-1111"), r.out)
		assert.Contains(t, r.out, "p31  00000031-1111")
		assert.Len(t, z.asked("GET /placement/resource_providers/"), count*(1-lists), "count %d", count)
	}
}

// A provider whose parent is not in the list stands at the top.
func TestTreesThatAreNotWhole(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /placement/resource_providers", answer{status: http.StatusOK, body: `{"resource_providers": [` +
		cannedProvider(uuidGPU, "child", uuidZ, uuidZ) + `,` + cannedProvider(uuidC, "grandchild", uuidGPU, uuidZ) + `]}`})
	r := z.berth(t.Context(), "provider", "list", "--tree", "--no-headers")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "child         "+uuidGPU+"  "+uuidZ+"  5\n  grandchild  "+uuidC+"  child                                 5\n", r.out)
}
