package intake

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func twoGroups() *BootOrder {
	web := &api.Flavor{ID: "web", Resources: api.Resources{"VCPU": 2}, ExtraSpecs: map[string]string{
		"trait:SSD": "required", "trait:GPU": "forbidden", "other": "required",
	}}
	return &BootOrder{
		Caller: api.Caller{Project: "p", User: "u"}, Name: "shop", Lifetime: 3600e9,
		Groups: []OrderGroup{
			{
				Name: "web", Flavor: web, Min: 1, Max: 2, AZ: "az",
				Traits: api.Traits{Required: []string{"AVX", "SSD"}, AnyOf: [][]string{{"B", "A", "B"}}},
			},
			{Name: "db", Flavor: &api.Flavor{ID: "db", Resources: api.Resources{"VCPU": 4}}, Min: 1, Max: 1},
		},
		Rules: []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}}},
		Zones: api.ZoneRule{MinZones: 2},
	}
}

func TestOrderRequest(t *testing.T) {
	o := twoGroups()
	r := o.Request()
	require.NoError(t, r.Validate())
	assert.Equal(t, 2, o.leastInstances())
	assert.Equal(t, api.Group{
		Count: 2, Min: 1, Name: "web", Flavor: "web", Resources: api.Resources{"VCPU": 2}, AZ: "az",
		ExtraSpecs: o.Groups[0].Flavor.ExtraSpecs,
		Traits: api.Traits{
			Required: []string{"AVX", "SSD"}, Forbidden: []string{"GPU"}, AnyOf: [][]string{{"A", "B"}},
		},
	}, r.Groups[0])
	assert.Equal(t, o.Lifetime, r.Lifetime)
	assert.Equal(t, o.Rules, r.Rules)
	assert.Equal(t, o.Zones, r.Zones)
}

func TestOrderNames(t *testing.T) {
	names := func(o *BootOrder) (out []string) {
		for _, s := range o.instanceSpecs() {
			out = append(out, s.Name)
		}
		return out
	}
	o := twoGroups()
	assert.Equal(t, []string{"shop-web-1", "shop-web-2", "shop-db-1"}, names(o))
	o.Groups = o.Groups[:1]
	assert.Equal(t, []string{"shop-1", "shop-2"}, names(o))
	o.Groups[0].Max = 1
	assert.Equal(t, []string{"shop"}, names(o))
}

// TestOrderDigest: each thing that is asked tells two boots apart, and what is
// not asked does not.
func TestOrderDigest(t *testing.T) {
	sum := func(change func(*BootOrder)) string {
		o := twoGroups()
		change(o)
		d, err := o.requestDigest()
		require.NoError(t, err)
		return string(d)
	}
	first := sum(func(*BootOrder) {})
	for name, change := range map[string]func(*BootOrder){
		"call":        func(o *BootOrder) { o.Call = "c" },
		"key":         func(o *BootOrder) { o.Key = "k" },
		"extra specs": func(o *BootOrder) { o.Groups[0].Flavor.ExtraSpecs = nil },
		"members": func(o *BootOrder) {
			o.Rules = append(o.Rules, api.Rule{ID: "g", Policy: api.Affinity, Groups: []int{0}})
		},
		"resources": func(o *BootOrder) { o.Groups[0].Flavor.Resources = nil },
	} {
		assert.Equal(t, first, sum(change), name)
	}
	seen := map[string]string{first: "nothing"}
	for name, change := range map[string]func(*BootOrder){
		"name":        func(o *BootOrder) { o.Name = "x" },
		"wanted":      func(o *BootOrder) { o.Wanted = "x" },
		"metadata":    func(o *BootOrder) { o.Metadata = map[string]string{"a": "b"} },
		"blob":        func(o *BootOrder) { o.Blob = []byte("x") },
		"rule":        func(o *BootOrder) { o.Rules[0].Max = 2 },
		"zones":       func(o *BootOrder) { o.Zones.Pack = true },
		"lifetime":    func(o *BootOrder) { o.Lifetime++ },
		"timeout":     func(o *BootOrder) { o.Timeout++ },
		"fewer":       func(o *BootOrder) { o.Groups = o.Groups[:1] },
		"group name":  func(o *BootOrder) { o.Groups[0].Name = "x" },
		"flavor":      func(o *BootOrder) { o.Groups[0].Flavor = &api.Flavor{ID: "x"} },
		"min":         func(o *BootOrder) { o.Groups[0].Min = 0 },
		"max":         func(o *BootOrder) { o.Groups[0].Max = 3 },
		"image":       func(o *BootOrder) { o.Groups[0].Image.Ref = "x" },
		"image facts": func(o *BootOrder) { o.Groups[0].Image.Properties = map[string]string{"a": "b"} },
		"traits":      func(o *BootOrder) { o.Groups[0].Traits.Forbidden = []string{"X"} },
		"az":          func(o *BootOrder) { o.Groups[0].AZ = "x" },
		"joins":       func(o *BootOrder) { o.Groups[0].Joins = "x" },
		"hints":       func(o *BootOrder) { o.Groups[0].Hints.SameHost = []api.InstanceID{"x"} },
	} {
		d := sum(change)
		assert.Empty(t, seen[d], "%s looks like", name)
		seen[d] = name
	}
}
