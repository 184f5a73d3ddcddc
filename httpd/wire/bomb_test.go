package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// bombs are bodies of n bytes that would take many times their size once decoded.
func bombs(n int) map[string]string {
	fill := func(start, with, end string) string {
		return start + strings.Repeat(with, (n-len(start)-len(end))/len(with)) + end
	}
	var distinct strings.Builder
	for i := 0; distinct.Len() < n; i++ {
		fmt.Fprintf(&distinct, `,"%d":0`, i)
	}
	return map[string]string{
		"many names":     `{"pairs":{"":0` + distinct.String()[:n-20] + "}}",
		"nested lists":   fill("", "[", ""),
		"nested objects": fill("", `{"a":`, ""),
		"closed lists":   strings.Repeat("[", n/2) + strings.Repeat("]", n/2),
		"numbers":        fill(`{"any":[0`, ",0", "]}"),
		"texts":          fill(`{"any":[""`, `,""`, "]}"),
		"objects":        fill(`{"list":[{}`, ",{}", "]}"),
		"empty lists":    fill(`{"any":[[]`, ",[]", "]}"),
		"nulls":          fill(`{"list":[null`, ",null", "]}"),
		"only names":     fill(`{"pairs":{"":0`, `,"":0`, "}}"),
	}
}

func TestABombIsRefusedBeforeItIsDecoded(t *testing.T) {
	for name, body := range bombs(api.BodyMaxBytes) {
		b := []byte(body)
		scanned := testing.AllocsPerRun(5, func() { require.Error(t, checkJSON(b, shapeOf(reflect.TypeFor[outer]())), name) })
		assert.Less(t, scanned, 10.0, name) // the refusal
		whole := allocated(func() {
			_, err := read(body, api.BodyMaxBytes)
			assert.Contains(t, api.MessageOf(err), "the body may ", name)
		})
		reading := allocated(func() { _, _ = readBody(post(body), api.BodyMaxBytes) })
		assert.Less(t, whole, reading+uint64(len(body)/8), name) // it was read, and no more
	}
}

// A body of few values costs a bounded amount, whether it is refused later or
// decoded.
func TestWhatABodyMayCost(t *testing.T) {
	const costMax = 6 << 20
	groups := func(with string) string {
		return `{"server":{"groups":[` + strings.Repeat(with+",", jsonValuesMax-4) + with + `]}}`
	}
	rules := `{"server":{"rules":[{"groups":[` + strings.Repeat(`"",`, jsonValuesMax-6) + `""]}]}}`
	anyOf := `{"server":{"traits":{"any_of":[` + strings.Repeat(`[],`, jsonValuesMax-5) + `[]]}}}`
	most := `{"server":{"groups":[` + strings.Repeat("{},", jsonItemsMax-1) + `{}]}}`
	for name, body := range map[string]string{"objects": groups("{}"), "nulls": groups("null"), "texts": rules, "lists": anyOf, "most": most} {
		var v rest.BootBody
		var err error
		cost := allocated(func() { err = ReadJSON(post(body), api.BodyMaxBytes, &v) })
		t.Logf("%s: %d bytes cost %d, %d for each: %v", name, len(body), cost, cost/uint64(len(body)), err)
		assert.Less(t, cost, uint64(costMax), name)
	}
}

// fullest is a boot that says as much as the limits of package api admit.
func fullest() rest.BootBody {
	pairs := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("key", i)] = "value"
		}
		return out
	}
	ids := slices.Repeat([]api.InstanceID{"i"}, api.HintHostsMax)
	hosts := slices.Repeat([]string{"h"}, api.HintHostsMax)
	zones := slices.Repeat([]string{"z"}, api.ZoneNamesMax)
	traits := make([][]string, api.TraitsMax)
	for i := range traits {
		traits[i] = []string{"t"}
	}
	query := strings.Repeat(`["and",`, 6) + `["and"` + strings.Repeat(`,["or"]`, 249) + strings.Repeat("]", 7) // 8 deep, 256 lists
	one := 1
	wish := rest.GroupWish{
		ImageProperties: pairs(api.ExtraSpecsMax), Traits: &rest.Traits{AnyOf: traits}, AvailabilityZone: "az",
		Hints: &rest.SchedulerHints{
			Group: "g", SameHost: ids, DifferentHost: ids, ForceHosts: hosts, IgnoreHosts: hosts, NearHostIP: "10.0.0.1", CIDR: "/24", Query: []byte(query),
		},
	}
	group := rest.GroupCreate{Name: "web", FlavorRef: "f", ImageRef: "i", MinCount: &one, MaxCount: &one, GroupWish: wish}
	rule := rest.RuleCreate{Policy: api.AntiAffinity, Max: 1, Groups: slices.Repeat([]string{"web"}, api.GroupsMax)}
	return rest.BootBody{Server: rest.ServerCreate{
		Name: "n", FlavorRef: "f", ImageRef: "i", MinCount: &one, MaxCount: &one, NumInstances: &one, Reservation: "r", Metadata: pairs(api.MetadataMax),
		Blob: make([]byte, api.BlobMaxBytes), Groups: slices.Repeat([]rest.GroupCreate{group}, api.GroupsMax), GroupWish: wish,
		Rules: slices.Repeat([]rest.RuleCreate{rule}, api.RulesMax), Lifetime: "1h", Timeout: "1m",
		Zones: &rest.ZoneRule{Allowed: zones, Excluded: zones, AllowedTags: zones, ExcludedTags: zones, MaxSkew: 1, MinZones: 1, Pack: true},
	}, Hints: wish.Hints}
}

func TestTheFullestBootIsWithinTheLimits(t *testing.T) {
	want := fullest()
	body, err := json.Marshal(want)
	require.NoError(t, err)
	var got rest.BootBody
	require.NoError(t, ReadJSON(post(string(body)), api.ZoneBodyMaxBytes, &got))
	require.Equal(t, want, got)
}

func BenchmarkWalk(b *testing.B) {
	body := []byte(`{"any":[` + strings.Repeat("0,", jsonValuesMax-3) + "0]}")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	s := shapeOf(reflect.TypeFor[outer]())
	for b.Loop() {
		if err := checkJSON(body, s); err != nil {
			b.Fatal(err)
		}
	}
}
