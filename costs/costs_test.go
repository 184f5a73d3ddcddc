package costs_test

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
	"berth/costs"
)

// census is who is where, from tables.
type census struct {
	tenancy map[api.HostID]int
	members map[string]map[api.HostID]int
}

func (c census) Members(_ api.Tenant, rule string) (map[api.HostID]int, map[api.LinkID]int) {
	return c.members[rule], nil
}

func (c census) Tenancy(api.Tenant) iter.Seq2[api.HostID, int] {
	return func(yield func(api.HostID, int) bool) {
		for id, n := range c.tenancy {
			if !yield(id, n) {
				return
			}
		}
	}
}

// always is a window that is open from the beginning.
var always = api.Window{End: api.Forever}

// scene is hosts to be priced.
type scene struct {
	table  *capacity.Table
	req    *api.Request
	census census
}

// newScene has no hosts, and a request for one group.
func newScene(g api.Group) *scene {
	return &scene{table: capacity.NewTable(), req: &api.Request{Class: api.Firm, Window: always, Groups: []api.Group{g}}}
}

func (s *scene) host(spec capacity.Spec, has api.Resources) *scene {
	spec.Inventory = map[api.ResourceClass]api.Inventory{}
	for c, n := range has {
		spec.Inventory[c] = api.Inventory{Total: n}
	}
	s.table.Put(spec)
	return s
}

// look is a look at every host for the first group.
func (s *scene) look() *costs.Look {
	v := s.table.View()
	return &costs.Look{View: v, Pass: v.Hosts(), Req: s.req, Window: always, Census: s.census}
}

// price returns what a host costs when the group has slots on it already.
func price(t require.TestingT, l *costs.Look, id api.HostID, slots int64, w ...api.CostWeight) int64 {
	set, err := costs.New(w)
	require.NoError(t, err)
	row, ok := l.View.Row(id)
	require.True(t, ok)
	p := set.For(l)
	if slots == 0 {
		var word [capacity.WordRows]int64
		n := row / capacity.WordRows
		p.Word(n, &word)
		low, high := p.Bounds(n)
		for i, cost := range word {
			require.Equal(t, p.Of(n*capacity.WordRows+i, 0), cost)
			require.True(t, low <= cost && cost <= high, "%d is in [%d, %d]", cost, low, high)
		}
	}
	return p.Of(row, slots)
}

func weight(name string, n int64, options ...string) api.CostWeight {
	w := api.CostWeight{Name: name, Weight: n}
	for _, o := range options {
		if w.Options == nil {
			w.Options = map[string]string{}
		}
		key, value, _ := strings.Cut(o, "=")
		w.Options[key] = value
	}
	return w
}

func memory(mb int64) api.Group {
	return api.Group{Count: 1, Resources: api.Resources{api.MemoryMB: mb}}
}

func TestFreeRoom(t *testing.T) {
	s := newScene(api.Group{Count: 1, Resources: api.Resources{api.MemoryMB: 512, api.VCPU: 2}}).
		host(capacity.Spec{ID: "a"}, api.Resources{api.MemoryMB: 4096, api.VCPU: 8}).
		host(capacity.Spec{ID: "big"}, api.Resources{api.MemoryMB: api.AmountMax, api.VCPU: api.AmountMax}).
		host(capacity.Spec{ID: "over"}, api.Resources{api.MemoryMB: 10}).
		host(capacity.Spec{ID: "none"}, nil)
	s.table.Restore("over", api.Claim{Class: api.Firm, Window: always, Resources: api.Resources{api.MemoryMB: 15}})
	for _, c := range []struct {
		host  api.HostID
		slots int64
		w     api.CostWeight
		want  int64
	}{
		{"a", 0, weight(costs.FillFirst, 1), 4096},
		{"a", 2, weight(costs.FillFirst, 1), 3072},
		{"a", 9, weight(costs.FillFirst, 1), 0},
		{"a", 0, weight(costs.FillFirst, -1), -4096},
		{"a", 0, weight(costs.FillFirst, 1, "class=VCPU"), 8 * 4096},
		{"a", 3, weight(costs.FillFirst, 1, "class=VCPU"), 2 * 4096},
		{"a", 0, weight(costs.FillFirst, 1, "class=FPGA"), 0},
		{"over", 0, weight(costs.FillFirst, 1), 0},
		{"over", 0, weight(costs.Spread, 1), costs.ScaleMax},
		{"none", 0, weight(costs.Spread, 2), 2 * costs.ScaleMax},
		{"big", 0, weight(costs.FillFirst, 1000), 1000 * costs.ScaleMax},
		{"big", 10_000, weight(costs.FillFirst, 1, "class=VCPU"), costs.ScaleMax},
		{"big", 0, weight(costs.Spread, 1), 0},
		{"a", 0, weight(costs.Spread, 1), costs.ScaleMax - 4096},
		{"a", 1, weight(costs.Spread, 1), costs.ScaleMax - 3584},
		{"a", 0, weight(costs.Constant, 2), 2}, // acceptance case 31: a constant cost of weight 2
		{"none", 5, weight(costs.Constant, 2), 2},
		{"a", 0, weight(costs.Constant, 0), 0},
	} {
		assert.Equal(t, c.want, price(t, s.look(), c.host, c.slots, c.w), "%+v", c)
	}
	assert.Zero(t, price(t, s.look(), "a", 0), "case 30: no cost is a defined result")
	both := price(t, s.look(), "a", 0, weight(costs.FillFirst, 1), weight(costs.FillFirst, 2, "class=VCPU"))
	assert.Equal(t, int64(4096+2*8*4096), both, "one cost of two classes")
}

// TestFreeRoomOfWhatIsAskedFor: hosts are filled and spread over by memory, or for a group that asks for none by the
// class of which it asks for the most.
func TestFreeRoomOfWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		asks    api.Resources
		options []string
		want    int64 // of FillFirst before a slot is taken, and after
		after   int64
	}{
		{api.Resources{api.MemoryMB: 1, api.VCPU: 8}, nil, 4096, 4095},
		{api.Resources{api.VCPU: 2}, nil, 8 * 4096, 6 * 4096},
		{api.Resources{api.DiskGB: 10}, nil, 100 * 64, 90 * 64},
		{api.Resources{api.VCPU: 1, api.DiskGB: 10}, nil, 8 * 4096, 7 * 4096},
		{api.Resources{api.VCPU: 1, api.DiskGB: 65}, nil, 100 * 64, 35 * 64},
		{api.Resources{api.VCPU: 1, api.DiskGB: 64}, nil, 100 * 64, 36 * 64},
		{api.Resources{"CUSTOM_B": 1, "CUSTOM_A": 1}, nil, 0, 0},
		{api.Resources{api.VCPU: 2}, []string{"class=MEMORY_MB"}, 4096, 4096},
		{nil, nil, 4096, 4096},
	} {
		s := newScene(api.Group{Count: 1, Resources: c.asks}).
			host(capacity.Spec{ID: "a"}, api.Resources{api.MemoryMB: 4096, api.VCPU: 8, api.DiskGB: 100})
		for slots, want := range []int64{c.want, c.after} {
			assert.Equal(t, want, price(t, s.look(), "a", int64(slots), weight(costs.FillFirst, 1, c.options...)), "%+v", c)
			assert.Equal(t, costs.ScaleMax-want, price(t, s.look(), "a", int64(slots), weight(costs.Spread, 1, c.options...)), "%+v", c)
		}
	}
}

// Case 30: no hosts are no prices, and no reason to fall over.
func TestNoHosts(t *testing.T) {
	l := newScene(memory(1)).look()
	for _, name := range costs.Names() {
		w := weight(name, 1)
		if name == "attribute" {
			w = weight(name, 1, "attribute=price")
		}
		set, err := costs.New([]api.CostWeight{w})
		require.NoError(t, err)
		assert.NotPanics(t, func() { set.For(l) })
	}
}

// Case 29: free memory 512, 256, 512 with weight 1 and input/output 100, 400, 100
// with weight 2 made 1.5, 2.5, 1.5, because each was divided by the largest of the
// candidates. Ours are sums on a fixed scale: the ratio of the two costs is what
// their points say, so that prices of two zones, which have different candidates,
// can be compared. The order is the same.
func TestCase29FixedScale(t *testing.T) {
	s := newScene(memory(1)).
		host(capacity.Spec{ID: "1", Attributes: map[string]string{"io": "100"}}, api.Resources{api.MemoryMB: 512}).
		host(capacity.Spec{ID: "2", Attributes: map[string]string{"io": "400"}}, api.Resources{api.MemoryMB: 256}).
		host(capacity.Spec{ID: "3", Attributes: map[string]string{"io": "100"}}, api.Resources{api.MemoryMB: 512})
	w := []api.CostWeight{weight(costs.FillFirst, 1), weight("attribute", 2, "attribute=io", "scale=1")}
	assert.Equal(t, int64(712), price(t, s.look(), "1", 0, w...))
	assert.Equal(t, int64(1056), price(t, s.look(), "2", 0, w...))
	assert.Equal(t, int64(712), price(t, s.look(), "3", 0, w...))
}

// Case 33: sums as they are, not normalised. Free 512, 1024, 3072, 8192; costs
// x + 1000 and 2x. (Theirs was x + 10000; a weight here is at most 1000.)
func TestCase33Sums(t *testing.T) {
	s := newScene(memory(1))
	for i, mb := range []int64{512, 1024, 3072, 8192} {
		s.host(capacity.Spec{ID: api.HostID(fmt.Sprint("host", i+1))}, api.Resources{api.MemoryMB: mb})
	}
	first := []api.CostWeight{weight(costs.FillFirst, 1), weight(costs.Constant, 1000)}
	both := []api.CostWeight{weight(costs.FillFirst, 3), weight(costs.Constant, 1000)}
	assert.Equal(t, int64(1512), price(t, s.look(), "host1", 0, first...))
	assert.Equal(t, int64(2536), price(t, s.look(), "host1", 0, both...))
	for _, other := range []api.HostID{"host2", "host3", "host4"} {
		assert.Less(t, price(t, s.look(), "host1", 0, both...), price(t, s.look(), other, 0, both...))
	}
}

func TestSpecial(t *testing.T) {
	plain := memory(1)
	s := newScene(plain).
		host(capacity.Spec{ID: "plain"}, api.Resources{api.MemoryMB: 1, api.VCPU: 1}).
		host(capacity.Spec{ID: "gpu", Traits: []string{"CUSTOM_FAST"}}, api.Resources{"PGPU": 2, "CUSTOM_X": 1, api.VCPU: 1})
	const sp = 1 << 20
	assert.Zero(t, price(t, s.look(), "plain", 0, weight("special", 1)))
	assert.Equal(t, int64(2*sp), price(t, s.look(), "gpu", 0, weight("special", 1)), "dear for who needs none")
	assert.Equal(t, int64(2*sp), price(t, s.look(), "gpu", 7, weight("special", 1)), "however many")
	fast := weight("special", 1, "classes=FPGA, PGPU", "traits=CUSTOM_FAST,CUSTOM_SLOW")
	assert.Equal(t, int64(2*sp), price(t, s.look(), "gpu", 0, fast))
	for _, traits := range []api.Traits{{Required: []string{"CUSTOM_FAST"}}, {AnyOf: [][]string{{"CUSTOM_A"}, {"CUSTOM_B", "CUSTOM_FAST"}}}} {
		s.req.Groups[0].Traits = traits
		assert.Equal(t, int64(sp), price(t, s.look(), "gpu", 0, fast), "%+v", traits)
	}
	s.req.Groups[0].Traits = api.Traits{Forbidden: []string{"CUSTOM_FAST"}}
	assert.Equal(t, int64(2*sp), price(t, s.look(), "gpu", 0, fast), "to forbid is not to ask")
	s.req.Groups[0].Resources["PGPU"] = 1
	assert.Equal(t, int64(sp), price(t, s.look(), "gpu", 0, weight("special", 1)), "cheap for who does")
	for class, special := range map[api.ResourceClass]bool{
		"PGPU": true, "VGPU": true, "FPGA": true, "PCI_DEVICE": true, "SRIOV_NET_VF": true, "CUSTOM_A": true,
		api.VCPU: false, api.MemoryMB: false, api.DiskGB: false, "PCPU": false, "IPV4_ADDRESS": false,
	} {
		assert.Equal(t, special, costs.IsSpecial(class), "%s", class)
	}
}

func TestOwnerSpread(t *testing.T) {
	s := newScene(memory(1)).host(capacity.Spec{ID: "a"}, nil).host(capacity.Spec{ID: "b"}, nil)
	s.census.tenancy = map[api.HostID]int{"a": 3, "gone": 9}
	const op = 1 << 16
	assert.Equal(t, int64(3*op), price(t, s.look(), "a", 0, weight("owner_spread", 1)))
	assert.Equal(t, int64(-5*op), price(t, s.look(), "a", 2, weight("owner_spread", -1)))
	assert.Equal(t, int64(2*op), price(t, s.look(), "b", 2, weight("owner_spread", 1)))
	l := s.look()
	row, _ := l.View.Row("b")
	l.Req.Groups = append(l.Req.Groups, memory(1))
	l.Index, l.Earlier = 1, []costs.Taken{{Row: row, Slots: []int64{4, 0}}}
	assert.Equal(t, int64(5*op), price(t, l, "b", 1, weight("owner_spread", 1)), "earlier groups count")
	assert.Equal(t, int64(costs.ScaleMax), price(t, l, "b", 100_000, weight("owner_spread", 1)))
	l.Census = nil
	assert.Equal(t, int64(4*op), price(t, l, "b", 0, weight("owner_spread", 1)), "nobody is anywhere")
}

func TestSoftRules(t *testing.T) {
	s := newScene(memory(1)).host(capacity.Spec{ID: "a"}, nil).host(capacity.Spec{ID: "b"}, nil)
	s.req.Reservation = "r"
	s.req.Groups = append(s.req.Groups, memory(1))
	s.census.members = map[string]map[api.HostID]int{"sg": {"a": 2, "gone": 1}, "r#1": {"a": 1}}
	const mp, half = 1 << 24, costs.ScaleMax / 2
	l := s.look()
	soft := weight("server_group", 1)
	assert.Zero(t, price(t, l, "a", 5, soft), "no rule, no cost")
	l.Req.Rules = []api.Rule{
		{ID: "sg", Policy: api.SoftAntiAffinity, Groups: []int{0, 1}},
		{Policy: api.SoftAffinity, Groups: []int{1}},
		{Policy: api.Affinity, Groups: []int{0, 1}},
		{Policy: api.AntiAffinity, Max: 9, Groups: []int{0, 1}},
	}
	assert.Equal(t, int64(2*mp), price(t, l, "a", 0, soft), "apart")
	assert.Equal(t, int64(3*mp), price(t, l, "b", 3, soft))
	assert.Equal(t, int64(costs.ScaleMax), price(t, l, "b", 65, soft))
	l.Index = 1
	assert.Equal(t, int64(half+2*mp-mp), price(t, l, "a", 0, soft), "apart and together at once")
	assert.Equal(t, int64(half+2*mp-mp), price(t, l, "a", 9, soft))
	row, _ := l.View.Row("b")
	l.Earlier = []costs.Taken{{Row: row, Slots: []int64{7, 0}}}
	assert.Equal(t, int64(half+7*mp), price(t, l, "b", 1, soft), "only slots that the rule binds")
	l.Req.Rules = l.Req.Rules[1:2]
	s.census.members = nil
	l.Earlier = nil
	assert.Equal(t, int64(half-3*mp), price(t, l, "b", 3, soft), "together")
	assert.Zero(t, price(t, l, "b", 33, soft))
}

func TestCounts(t *testing.T) {
	s := newScene(memory(1)).
		host(capacity.Spec{ID: "a", Failures: 3}, api.Resources{api.MemoryMB: 9}).
		host(capacity.Spec{ID: "b", Failures: 65}, nil)
	require.NoError(t, s.table.Claim("a", api.Claim{Class: api.Firm, Window: always, Resources: api.Resources{api.MemoryMB: 1}}))
	assert.Equal(t, int64(3<<12), price(t, s.look(), "a", 2, weight("instances", 1)))
	assert.Zero(t, price(t, s.look(), "b", 0, weight("instances", 1)))
	assert.Equal(t, int64(3<<24), price(t, s.look(), "a", 2, weight("build_failures", 1)))
	assert.Equal(t, int64(costs.ScaleMax), price(t, s.look(), "b", 0, weight("build_failures", 1)), "64 count")
}

func TestAttribute(t *testing.T) {
	for _, c := range []struct {
		value  string
		weight api.CostWeight
		want   int64
	}{
		{"2", weight("attribute", 1, "attribute=x"), 2000},
		{"0.0019", weight("attribute", 3, "attribute=x"), 3},
		{"0.000999", weight("attribute", 1, "attribute=x"), 0},
		{"-4", weight("attribute", 1, "attribute=x"), 0},
		{"1.5", weight("attribute", -1, "attribute=x", "scale=10"), -15},
		{"2.9", weight("attribute", 1, "attribute=x", "scale=1"), 2},
		{"1073741823.999999", weight("attribute", 1, "attribute=x", "scale=1"), costs.ScaleMax - 1},
		{"1073741824", weight("attribute", 1, "attribute=x", "scale=1"), costs.ScaleMax},
		{"9223372036854.775807", weight("attribute", 1, "attribute=x", "scale=1073741824"), costs.ScaleMax},
		{"0.999999", weight("attribute", 1, "attribute=x", "scale=1073741824"), 1073740750},
		{"cheap", weight("attribute", 1, "attribute=x"), costs.ScaleMax},
		{"true", weight("attribute", 1, "attribute=x"), costs.ScaleMax},
		{"cheap", weight("attribute", -1, "attribute=x"), 0},
		{"2", weight("attribute", 1, "attribute=y"), costs.ScaleMax},
		{"2", weight("attribute", -2, "attribute=y"), 0},
	} {
		s := newScene(memory(1)).host(capacity.Spec{ID: "a", Attributes: map[string]string{"x": c.value}}, nil)
		assert.Equal(t, c.want, price(t, s.look(), "a", 3, c.weight), "%+v", c)
	}
}

func TestNewNamesEverythingThatIsWrong(t *testing.T) {
	_, err := costs.New([]api.CostWeight{
		weight("luck", 1),
		weight(costs.Spread, 1001),
		weight("moon", 1),
		weight(costs.Constant, 1),
		weight(costs.Constant, 1),
		weight(costs.FillFirst, -1001, "class=VCPU"),
		weight(costs.FillFirst, 1, "class=MEMORY_MB"),
		weight(costs.FillFirst, 1, "class=MEMORY_MB"),
		weight("attribute", 1),
		weight("attribute", 1, "attribute=price", "scale=0"),
		weight("special", 1, "classes=", "traits=fast", "colour=red"),
		weight(costs.Spread, 1, "class=memory"),
	})
	require.Error(t, err)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	for _, part := range []string{
		`"luck" is unknown`, `"moon" is unknown`, `1001`, `-1001`, `"constant" is given twice`, `"fill_first" is given twice`,
		`"attribute" needs the option "attribute"`, `"attribute" has the option scale="0"`, `"special" has no option "colour"`,
		`classes=""`, `traits="fast"`, `class="memory"`, "build_failures, constant, evictions, fill_first",
	} {
		assert.ErrorContains(t, err, part)
	}
}

func TestLimits(t *testing.T) {
	for n, ok := range map[int64]bool{1000: true, -1000: true, 1001: false, -1001: false} {
		_, err := costs.New([]api.CostWeight{weight(costs.Spread, n)})
		assert.Equal(t, ok, err == nil, "weight %d", n)
	}
	for scale, ok := range map[string]bool{"0": false, "1": true, "1073741824": true, "1073741825": false, "x": false} {
		_, err := costs.New([]api.CostWeight{weight("attribute", 1, "attribute=p", "scale="+scale)})
		assert.Equal(t, ok, err == nil, "scale %s", scale)
	}
	for n, ok := range map[int]bool{1: true, api.ExtraSpecMaxBytes: true, api.ExtraSpecMaxBytes + 1: false} {
		_, err := costs.New([]api.CostWeight{weight("attribute", 1, "attribute="+strings.Repeat("x", n))})
		assert.Equal(t, ok, err == nil, "attribute of %d bytes", n)
	}
	for over, ok := range []bool{true, false} {
		var classes, traits []string
		for i := range api.ClassesMax + over {
			classes = append(classes, fmt.Sprint("CUSTOM_", i))
		}
		for i := range api.TraitsMax + over {
			traits = append(traits, fmt.Sprint("CUSTOM_", i))
		}
		_, err := costs.New([]api.CostWeight{weight("special", 1, "classes="+strings.Join(classes, ","))})
		assert.Equal(t, ok, err == nil)
		_, err = costs.New([]api.CostWeight{weight("special", 1, "traits="+strings.Join(traits, ","))})
		assert.Equal(t, ok, err == nil)
		var many []api.CostWeight
		for i := range api.FiltersMax + over {
			many = append(many, weight("attribute", 1, fmt.Sprint("attribute=", i)))
		}
		_, err = costs.New(many)
		assert.Equal(t, ok, err == nil)
	}
}

func TestDefault(t *testing.T) {
	_, err := costs.New(costs.DefaultWeights())
	require.NoError(t, err)
	s := newScene(memory(1)).
		host(capacity.Spec{ID: "a"}, api.Resources{api.MemoryMB: 8192}).
		host(capacity.Spec{ID: "b"}, api.Resources{api.MemoryMB: 1024})
	w := costs.DefaultWeights()
	assert.Less(t, price(t, s.look(), "a", 0, w...), price(t, s.look(), "b", 0, w...), "emptier first")
	s.req.Rules = []api.Rule{{Policy: api.SoftAntiAffinity, Groups: []int{0}}}
	assert.Greater(t, price(t, s.look(), "a", 1, w...), price(t, s.look(), "b", 0, w...), "a rule weighs more")
}

// The worth of a unit divides the scale, whatever the class.
func TestPoints(t *testing.T) {
	for class, want := range map[api.ResourceClass]int64{
		api.MemoryMB: 1, api.VCPU: 4096, api.DiskGB: 64, "PGPU": 1 << 20, "CUSTOM_ANYTHING": 1 << 10,
	} {
		assert.Equal(t, want, costs.Points(class), "%s", class)
	}
	for _, class := range []api.ResourceClass{
		"VCPU", "MEMORY_MB", "DISK_GB", "PCPU", "PGPU", "VGPU", "VGPU_DISPLAY_HEAD", "FPGA", "PCI_DEVICE", "SRIOV_NET_VF",
		"IPV4_ADDRESS", "MEM_ENCRYPTION_CONTEXT", "NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB", "CUSTOM_A",
		"NET_BW_EGR_KILOBIT_PER_SEC", "NET_PACKET_RATE_KILOPACKET_PER_SEC",
	} {
		require.True(t, class.Valid())
		assert.Positive(t, costs.Points(class))
		assert.Zero(t, costs.ScaleMax%costs.Points(class), "%s", class)
	}
}

func TestWithinTheScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScene(memory(rapid.Int64Range(1, api.AmountMax).Draw(t, "amount")))
		s.req.Groups[0].Resources[api.VCPU] = rapid.Int64Range(1, api.AmountMax).Draw(t, "vcpus")
		s.req.Rules = []api.Rule{{Policy: rapid.SampledFrom([]api.Policy{api.SoftAffinity, api.SoftAntiAffinity}).Draw(t, "policy"), Groups: []int{0}}}
		many := rapid.IntRange(0, 100_000)
		s.census.tenancy = map[api.HostID]int{"a": many.Draw(t, "tenancy")}
		s.census.members = map[string]map[api.HostID]int{"#0": {"a": many.Draw(t, "members")}}
		s.host(capacity.Spec{
			ID: "a", Failures: many.Draw(t, "failures"),
			Attributes: map[string]string{"p": strconv.FormatInt(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "value"), 10)},
		}, api.Resources{
			api.MemoryMB: rapid.Int64Range(0, api.AmountMax).Draw(t, "memory"),
			api.VCPU:     rapid.Int64Range(0, api.AmountMax).Draw(t, "vcpu"), "PGPU": 1,
		})
		name := rapid.SampledFrom(costs.Names()).Draw(t, "name")
		w := weight(name, 1)
		switch name {
		case "attribute":
			w = weight(name, 1, "attribute=p")
		case costs.FillFirst, costs.Spread:
			w = weight(name, 1, "class="+rapid.SampledFrom([]string{"VCPU", "MEMORY_MB", "PGPU"}).Draw(t, "class"))
		}
		slots := int64(rapid.IntRange(0, api.CountMax).Draw(t, "slots"))
		one := price(t, s.look(), "a", slots, w)
		require.GreaterOrEqual(t, one, int64(0))
		require.LessOrEqual(t, one, int64(costs.ScaleMax))
		w.Weight = rapid.Int64Range(1, costs.WeightMax).Draw(t, "weight")
		require.Equal(t, w.Weight*one, price(t, s.look(), "a", slots, w))
	})
}

func ExampleNew() {
	_, err := costs.New([]api.CostWeight{{Name: "luck", Weight: 1}, {Name: "attribute", Weight: 1}})
	fmt.Println(err)
	// Output:
	// costs: "luck" is unknown, "attribute" needs the option "attribute"; known are attribute, build_failures, constant, evictions, fill_first, gap, instances, owner_spread, server_group, special, spread, each once for the same options, with a weight from -1000 to 1000
}

func ExampleSet_For() {
	t := capacity.NewTable()
	t.Put(capacity.Spec{ID: "a", Inventory: map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 2048}}})
	set, _ := costs.New([]api.CostWeight{{Name: costs.FillFirst, Weight: 2}, {Name: costs.Constant, Weight: 10}})
	req := &api.Request{Class: api.Firm, Groups: []api.Group{{Count: 9, Resources: api.Resources{api.MemoryMB: 512}}}}
	p := set.For(&costs.Look{View: t.View(), Pass: t.View().Hosts(), Req: req, Window: api.Window{End: api.Forever}})
	row, _ := t.View().Row("a")
	fmt.Println(p.Of(row, 0), p.Of(row, 1))
	// Output: 4106 3082
}

// What preemptibles have to leave makes a host dear, only for a request that may have their room.
func TestEvictions(t *testing.T) {
	s := newScene(memory(1024))
	s.host(capacity.Spec{ID: "a"}, api.Resources{api.MemoryMB: 4096}).host(capacity.Spec{ID: "b"}, api.Resources{api.MemoryMB: 4096})
	soft := api.Claim{Resources: api.Resources{api.MemoryMB: 2560}, Window: api.Window{End: api.Forever}, Class: api.Preemptible}
	require.True(t, s.table.Restore("a", soft))
	w := weight(costs.Evictions, 1)
	assert.Zero(t, price(t, s.look(), "a", 1, w), "a firm request does not have their room")
	s.req.Preempt = true
	for slots, want := range []int64{0, 512, 1536, 2560} {
		assert.Equal(t, want, price(t, s.look(), "a", int64(slots), w), "after %d slots", slots)
		assert.Zero(t, price(t, s.look(), "b", int64(slots), w))
	}
	s.req.Groups[0].Whole, s.req.Groups[0].Resources = true, nil
	assert.EqualValues(t, 2560, price(t, s.look(), "a", 0, w))
	assert.Zero(t, price(t, s.look(), "b", 0, w))
}

// Short work goes into the shortest gap that is long enough, and work without an end where the gap
// is longest. Firm work does not care.
func TestGap(t *testing.T) {
	s := newScene(memory(1024))
	lease := func(id api.HostID, start api.Instant) {
		s.host(capacity.Spec{ID: id}, api.Resources{api.MemoryMB: 4096})
		if start > 0 {
			c := api.Claim{Consumer: "l", Resources: api.Resources{api.MemoryMB: 4096}, Window: api.Window{Start: start, End: start + 1000}, Class: api.Preempting}
			require.True(t, s.table.Restore(id, c))
		}
	}
	lease("short", 60_000)
	lease("long", 600_000)
	lease("open", 0)
	w := weight(costs.Gap, 1)
	order := func(end api.Instant) (out []api.HostID) {
		l := s.look()
		l.Window = api.Window{End: end}
		out = []api.HostID{"short", "long", "open"}
		slices.SortStableFunc(out, func(a, b api.HostID) int { return cmp.Compare(price(t, l, a, 0, w), price(t, l, b, 0, w)) })
		return out
	}
	assert.Zero(t, price(t, s.look(), "short", 0, w), "a firm request")
	s.req.Class = api.Preemptible
	assert.Equal(t, []api.HostID{"short", "long", "open"}, order(60_000))
	assert.Equal(t, []api.HostID{"long", "open", "short"}, order(61_000), "a gap that is too short is the worst")
	assert.Equal(t, []api.HostID{"open", "long", "short"}, order(api.Forever))
}
