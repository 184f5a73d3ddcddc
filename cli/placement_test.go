package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// The objects of the canned zone by UUID.
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

// TestPlacementRefusalsSayWhatToDo gives each verb its most likely refusal.
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
		{"provider inventory unset h1 VCPU", "PUT " + at + "/inventories", 409, undefined, exitConflict, "the agent reports it"},
		{"provider trait set h1 A", "PUT " + at + "/traits", 409, moved, exitConflict, "berth provider trait list h1"},
		{"provider trait set h1 A", "PUT " + at + "/traits", 400, undefined, exitUsage, "berth trait create"},
		{"provider aggregate set h1 rack1", "PUT " + at + "/aggregates", 409, moved, exitConflict, "berth provider aggregate list h1"},
		{"provider inventory set h1 VCPV=1", "PUT " + at + "/inventories", 400, undefined, exitUsage, "berth resource-class list"},
		{"provider list --required A", "GET /placement/resource_providers", 400, undefined, exitUsage, "berth trait list"},
		{"candidates --resources VCPV=1", "GET /placement/allocation_candidates", 400, undefined, exitUsage, "berth resource-class list"},
		{"allocation delete " + uuidC + " --yes", "DELETE /placement/allocations/" + uuidC, 404, undefined, exitNotFound, "holds nothing"},
		{"trait delete CUSTOM_SSD --yes", "DELETE /placement/traits/CUSTOM_SSD", 409, undefined, exitConflict, "berth provider list --required CUSTOM_SSD"},
		{"resource-class delete CUSTOM_LICENSE --yes", "DELETE /placement/resource_classes/CUSTOM_LICENSE", 409, undefined, exitConflict, "berth provider inventory unset PROVIDER CUSTOM_LICENSE"},
		{"allocation set " + uuidC + " --allocation h1:VCPU=1", "PUT /placement/allocations/" + uuidC, 409, undefined, exitNoCapacity, "berth candidates"},
		{"allocation set " + uuidC + " --allocation h1:VCPU=1", "PUT /placement/allocations/" + uuidC, 409, moved, exitConflict, "berth allocation list " + uuidC},
		{"provider show h1", "GET " + at + "/usages", 403, undefined, exitDenied, "the role of the token"},
		{"allocation list " + uuidC, "GET " + at, 403, undefined, exitDenied, "the role of the token"},
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
	for _, line := range []string{"allocation list " + uuidC, "provider usage " + uuidHost, "provider aggregate list " + uuidHost, "candidates --resources VCPU=1"} {
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
	const callsMax = 32 // of api/client
	for count, lists := range map[int]int{callsMax: 0, callsMax + 1: 1} {
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

// A provider whose parent is not in the list is at the top level.
func TestTreesThatAreNotWhole(t *testing.T) {
	z := newFakeZone(t)
	z.on("GET /placement/resource_providers", answer{status: http.StatusOK, body: `{"resource_providers": [` +
		cannedProvider(uuidGPU, "child", uuidZ, uuidZ) + `,` + cannedProvider(uuidC, "grandchild", uuidGPU, uuidZ) + `]}`})
	r := z.berth(t.Context(), "provider", "list", "--tree", "--no-headers")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "child         "+uuidGPU+"  "+uuidZ+"  5\n  grandchild  "+uuidC+"  child                                 5\n", r.out)
}

// Items that a provider does not have cannot be removed from it, and nothing is written.
func TestUnsetOfWhatIsNotThere(t *testing.T) {
	for line, says := range map[string]string{
		"provider inventory unset h1 VCPU NOPE":      "h1 has no NOPE; nothing was changed",
		"provider trait unset h1 CUSTOM_SSD NOPE":    "h1 has no trait NOPE; nothing was changed",
		"provider aggregate unset h1 rack1 " + uuidC: "h1 has no aggregate " + uuidC + "; nothing was changed",
	} {
		z := newFakeZone(t)
		r := z.berth(t.Context(), strings.Fields(line)...)
		assert.Equal(t, exitNotFound, r.exit, line)
		assert.Contains(t, r.errOut, says)
		assert.Contains(t, r.errOut, " list h1\n")
		assert.Empty(t, z.asked("PUT"), line)
	}
}

// Arguments that cannot be right are refused before anything is sent.
func TestWrongArgumentsAreNotSent(t *testing.T) {
	const id = "provider create a --uuid"
	for _, x := range []struct{ line, empty, says string }{
		{"provider inventory set h1 A=1:min_unit=0", "", "min_unit of A must be a whole number from 1 to 2147483647"},
		{"provider inventory set h1 A=1:max_unit=0", "", "max_unit of A must be"},
		{"provider inventory set h1 A=1:step_size=0", "", "step_size of A must be"},
		{"provider inventory set h1 A=1:reserved=2147483648", "", "reserved of A must be a whole number from 0 to"},
		{"provider inventory set h1 A=1:allocation_ratio=NaN", "", "a number from 0.0001 to 10000"},
		{"provider inventory set h1 A=0", "", "from 1 to 2147483647"},
		{"provider inventory set h1 A=2147483648", "", "from 1 to 2147483647"},
		{"provider inventory set h1 A", "", "changes nothing: give a total, such as A=1000, or an option"},
		{"provider inventory set h1 A --reserved -1", "", "reserved of A must be a whole number from 0 to"},
		{"provider inventory set h1 A --reserved 2147483648", "", "reserved of A must be a whole number from 0 to"},
		{"provider inventory set h1 A --ratio 0", "", "a number from 0.0001 to 10000"},
		{"provider inventory set h1 A= --ratio 1", "", "or like DISK_GB:reserved=10"},
		{"provider inventory set h1 A=1 A=2", "", "A is given twice"},
		{"provider inventory set h1 A=1:reserved=0,reserved=1", "", "reserved of A is given twice"},
		{"provider inventory set h1 A=1:", "", "an inventory has no"},
		{"provider list --resources A=2147483648", "", "from 1 to 2147483647"},
		{"provider create a --parent", "empty", "--parent is empty"},
		{id, "empty", "--uuid is empty"},
		{"provider create", "empty", "1 to 200 characters"},
		{"provider create " + strings.Repeat("x", api.ProviderNameMax+1), "", "1 to 200 characters, got 201"},
		{"provider set h1 --name " + strings.Repeat("x", api.ProviderNameMax+1), "", "1 to 200 characters, got 201"},
		{"provider set h1 --no-parent --name", "empty", "--name is empty"},
		{"provider list --in-tree", "empty", "--in-tree is empty"},
		{"candidates --resources", "empty", "--resources is empty"},
		{"provider trait set h1", "empty", "a trait must be"},
		{"provider aggregate set h1", "empty", "an aggregate must be given by"},
		{"trait create ssd", "", "CUSTOM_ followed by upper case"},
		{"resource-class create", "empty", "CUSTOM_ followed by upper case"},
		{"allocation list zzz", "", "CONSUMER must be a UUID"},
		{"allocation delete zzz --yes", "", "CONSUMER must be a UUID"},
		{"allocation set " + uuidC + " --allocation h1:VCPU=1 --type migration", "", "--type must be"},
		{"allocation set " + uuidC + " --allocation h1:VCPU=1 --project", "empty", "--project is empty"},
		{"allocation set " + uuidC + " --allocation h1:VCPU=1 --user", "empty", "--user is empty"},
	} {
		z := newFakeZone(t)
		words := strings.Fields(x.line)
		if x.empty != "" {
			words = append(words, "")
		}
		r := z.berth(t.Context(), words...)
		assert.Equal(t, exitUsage, r.exit, x.line)
		assert.Contains(t, r.errOut, x.says, x.line)
		for _, method := range []string{"PUT", "POST", "DELETE"} {
			assert.Empty(t, z.asked(method), x.line)
		}
	}
	z := newFakeZone(t)
	longest := z.berth(t.Context(), "provider", "create", strings.Repeat("ö", api.ProviderNameMax))
	assert.Zero(t, longest.exit, longest.errOut)
	most := z.berth(t.Context(), "provider", "inventory", "set", "h1", "VCPU=2147483647:reserved=0,min_unit=1,max_unit=2147483647,step_size=1")
	assert.Zero(t, most.exit, most.errOut)
}

// A refusal for want of room leads to the provider that it names, as the caller did.
func TestNoRoomNamesTheProvider(t *testing.T) {
	z := newFakeZone(t)
	z.on("PUT /placement/allocations/"+uuidC, answer{
		status: http.StatusConflict,
		body:   `{"errors": [{"status": 409, "title": "No", "detail": "no room on ` + uuidPool + `", "code": "placement.undefined_code", "request_id": "req-1"}]}`,
	})
	r := z.berth(t.Context(), "allocation", "set", uuidC, "--allocation", "h1:VCPU=1", "--allocation", "pool1:DISK_GB=1")
	assert.Equal(t, exitNoCapacity, r.exit)
	assert.Contains(t, r.errOut, "berth provider usage pool1,")
}

// All that the table of a provider shows is in its JSON too.
func TestAllOfAProviderIsInItsJSON(t *testing.T) {
	z := newFakeZone(t)
	r := z.berth(t.Context(), "provider", "show", strings.ToUpper(uuidGPU), "-o", "json")
	require.Zero(t, r.exit, r.errOut)
	assert.JSONEq(t, `{"uuid": "`+uuidGPU+`", "name": "h1-gpu0", "generation": 5, "parent_provider_uuid": "`+uuidHost+`", "root_provider_uuid": "`+uuidHost+`",
		"inventories": {"VCPU": {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 2},
			"MEMORY_MB": {"total": 2048, "reserved": 48, "min_unit": 1, "max_unit": 2147483647, "step_size": 64, "allocation_ratio": 1}},
		"usages": {"VCPU": 3, "MEMORY_MB": 512}, "traits": ["CUSTOM_SSD", "COMPUTE_NODE"], "aggregates": ["`+uuidRack+`", "`+uuidZ+`"]}`, r.out)
	assert.Contains(t, z.berth(t.Context(), "provider", "show", "h1", "-o", "json").out, `"parent_provider_uuid": null`)
}

// Names are printed without characters that could control a terminal.
func TestNamesCannotCommandATerminal(t *testing.T) {
	z := newFakeZone(t)
	z.on("DELETE /flavors/a\x1b[2J", answer{status: http.StatusNoContent})
	r := z.berth(t.Context(), "flavor", "delete", "a\x1b[2J", "--yes")
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "done: delete flavor a?[2J\n", r.errOut)
	z.on("DELETE /flavors/a\u202eb", answer{status: http.StatusNoContent})
	assert.Equal(t, "done: delete flavor a?b\n", z.berth(t.Context(), "flavor", "delete", "a\u202eb", "--yes").errOut)
	z.on("DELETE /flavors/a", answer{status: http.StatusConflict, body: refusalOf("conflict", `no \u001b[2J`)})
	assert.NotContains(t, z.berth(t.Context(), "flavor", "delete", "a", "--yes").errOut, "\x1b")
}
