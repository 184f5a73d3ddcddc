package binding_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	. "berth/binding"
)

func TestRuleOf(t *testing.T) {
	r, err := RuleOf(&api.BindingRule{})
	require.NoError(t, err)
	assert.Equal(t, map[Weigher]int64{WeigherCreation: 1}, r.Multipliers, "the default")
	r, err = RuleOf(&api.BindingRule{GeneralOnTagged: true, Weighers: []api.BindingWeigher{{Name: "price", Multiplier: -1000}, {Name: "idle_capacity", Multiplier: 1000}}})
	require.NoError(t, err)
	assert.Equal(t, Rule{Multipliers: map[Weigher]int64{WeigherPrice: -1000, WeigherIdle: 1000}, GeneralOnTagged: true}, r)

	for want, bad := range map[string]api.BindingRule{
		`weighers: "ram" is none of creation_order, idle_capacity and price`:              {Weighers: []api.BindingWeigher{{Name: "ram"}}},
		"weighers: price is there twice":                                                  {Weighers: []api.BindingWeigher{{Name: "price"}, {Name: "price"}}},
		"weighers: the multiplier of price must be -1000 to 1000, got 1001":               {Weighers: []api.BindingWeigher{{Name: "price", Multiplier: 1001}}},
		"weighers: the multiplier of price must be -1000 to 1000, got -1001":              {Weighers: []api.BindingWeigher{{Name: "price", Multiplier: -1001}}},
		`mode must be off, prefer or strict, got "auto"`:                                  {Mode: "auto"},
		"there may be at most 8 weighers, got 9":                                          {Weighers: make([]api.BindingWeigher, 9)},
		"headroom of VCPU must be 0 to 100 percent, got 101":                              {Headroom: map[api.ResourceClass]int64{api.VCPU: 101}},
		"lost_after must be 1ms to 24h0m0s, in whole milliseconds, or 0s for the default": {LostAfter: api.BindingLostAfterMax + 1},
		"usage_age must be 1ms to 1h0m0s, in whole milliseconds, or 0s for the default":   {UsageAge: -1},
	} {
		_, err := RuleOf(&bad)
		assert.Equal(t, want, api.MessageOf(err))
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	}
	for _, most := range []api.BindingRule{
		{LostAfter: api.BindingLostAfterMax, UsageAge: api.BindingUsageAgeMax, Headroom: map[api.ResourceClass]int64{api.VCPU: 100, api.MemoryMB: 0}, Mode: api.BindingStrict},
	} {
		_, err := RuleOf(&most)
		assert.NoError(t, err)
	}
}

func TestChildOf(t *testing.T) {
	rule := &api.BindingRule{Headroom: map[api.ResourceClass]int64{api.VCPU: 10}}
	l := &api.Link{ID: "a", Created: 5, Offset: 7, State: api.LinkActive}
	d := &api.Digest{Classes: use(10, 4), AZs: []string{"az1"}}
	assert.Equal(t, Child{Link: "a", Created: 5, Price: 7, Headroom: rule.Headroom}, ChildOf(rule, l, nil, false), "nothing is known of its use")
	assert.Equal(t, Child{Link: "a", Created: 5, Price: 7, Headroom: rule.Headroom, Usage: use(10, 4), AZs: []string{"az1"}}, ChildOf(rule, l, d, false))
	assert.Equal(t, []string{}, ChildOf(rule, l, &api.Digest{}, false).AZs, "it has none")
	assert.Nil(t, ChildOf(rule, l, &api.Digest{Partial: true}, false).AZs)
	assert.True(t, ChildOf(rule, l, &api.Digest{Paused: true}, false).Away)
	assert.True(t, ChildOf(rule, l, nil, true).Away)
	l.State = api.LinkPaused
	l.Terms = api.LinkTerms{AZ: "az2", Tags: []string{"resource=CAD"}, Maintenance: true, Headroom: map[api.ResourceClass]int64{api.VCPU: 0}}
	c := ChildOf(rule, l, d, false)
	assert.True(t, c.Away && c.Maintenance)
	assert.Equal(t, []string{"az2"}, c.AZs, "an operator's word counts")
	assert.Equal(t, l.Terms.Tags, c.Tags)
	assert.Zero(t, c.Headroom[api.VCPU])
}

func TestAZsOf(t *testing.T) {
	d := &api.Digest{AZs: []string{"east", "west"}}
	named := &api.Link{Terms: api.LinkTerms{AZ: "north"}}
	strict := &api.BindingRule{Mode: api.BindingStrict}
	assert.Equal(t, []string{"east", "west"}, AZsOf(strict, &api.Link{}, d))
	assert.Equal(t, []string{"north"}, AZsOf(strict, named, d))
	assert.Equal(t, []string{"east", "north", "west"}, AZsOf(&api.BindingRule{}, named, d), "nobody is bound, so both are asked for")
	named.Terms.AZ = "west"
	assert.Equal(t, []string{"east", "west"}, AZsOf(&api.BindingRule{}, named, d))
	assert.Equal(t, []string{"west"}, AZsOf(strict, named, &api.Digest{}))
}

func TestKeyOf(t *testing.T) {
	children := []*api.Link{{Terms: api.LinkTerms{Tags: []string{"disk=fast", "resource=CAD"}}}, {Terms: api.LinkTerms{Tags: []string{"resource=GPU"}}}}
	for _, c := range []struct {
		az    string
		specs map[string]string
		want  api.BindingKey
	}{
		{"", nil, api.BindingKey{}},
		{"az1", map[string]string{"hw:cpu": "shared"}, api.BindingKey{AZ: "az1"}},
		{"", map[string]string{"resource": "CAD"}, api.BindingKey{Tags: []string{"resource=CAD"}}},
		{"", map[string]string{"resource": "none has it"}, api.BindingKey{Tags: []string{"resource=none has it"}}},
		{"", map[string]string{"resource": "CAD", "disk": "slow", "res": "x"}, api.BindingKey{Tags: []string{"disk=slow", "resource=CAD"}}},
	} {
		assert.Equal(t, c.want, KeyOf(&api.Group{AZ: c.az, ExtraSpecs: c.specs}, children))
	}
}
