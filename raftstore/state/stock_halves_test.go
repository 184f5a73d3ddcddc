package state

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// TestFieldsOfAnInventory: each field that is set is taken, and each other one is not.
func TestFieldsOfAnInventory(t *testing.T) {
	theirs := api.Inventory{Total: 100, Reserved: 1, MinUnit: 2, MaxUnit: 50, StepSize: 4, AllocationRatio: 15_000}
	own := api.Inventory{Total: 80, Reserved: 11, MinUnit: 12, MaxUnit: 40, StepSize: 14, AllocationRatio: 30_000}
	for name, c := range map[string]struct {
		field api.InventoryFields
		set   func(v *api.Inventory)
	}{
		"total":     {api.FieldTotal, func(v *api.Inventory) { v.Total = 80 }},
		"reserved":  {api.FieldReserved, func(v *api.Inventory) { v.Reserved = 11 }},
		"min unit":  {api.FieldMinUnit, func(v *api.Inventory) { v.MinUnit = 12 }},
		"max unit":  {api.FieldMaxUnit, func(v *api.Inventory) { v.MaxUnit = 40 }},
		"step size": {api.FieldStepSize, func(v *api.Inventory) { v.StepSize = 14 }},
		"ratio":     {api.FieldAllocationRatio, func(v *api.Inventory) { v.AllocationRatio = 30_000 }},
		"nothing":   {0, func(*api.Inventory) {}},
	} {
		want := theirs
		c.set(&want)
		assert.Equal(t, want, withFields(theirs, own, c.field), name)
		changed := theirs
		c.set(&changed)
		assert.Equal(t, c.field, fieldsSet(theirs, changed), name)
	}
	unset := theirs
	unset.MinUnit, unset.MaxUnit, unset.StepSize, unset.AllocationRatio = 0, 0, 0, 0
	assert.Zero(t, fieldsSet(theirs, unset), "zero units and a zero ratio are not set")
	small := theirs
	small.Total, small.Reserved = 50, 50
	big := theirs
	big.Reserved = 70
	assert.Equal(t, api.FieldTotal, fieldsSet(big, small), "as much is reserved as there is")
	full := api.Inventory{Total: 10, Reserved: 20}
	assert.Equal(t, int64(10), overrideInventory(full, api.Inventory{}, 0).Reserved)
	for name, c := range map[string]struct {
		reported, own api.Inventory
		fields        api.InventoryFields
		want          int64
	}{
		"as reported":     {api.Inventory{Total: 10, MaxUnit: 20}, api.Inventory{}, api.FieldReserved, 20},
		"its own":         {api.Inventory{Total: 10, MaxUnit: 5}, api.Inventory{Total: 8, MaxUnit: 20}, api.FieldTotal | api.FieldMaxUnit, 20},
		"by a total":      {api.Inventory{Total: 10, MaxUnit: 20}, api.Inventory{Total: 8}, api.FieldTotal, 8},
		"a smaller one":   {api.Inventory{Total: 10, MaxUnit: 5}, api.Inventory{Total: 8}, api.FieldTotal, 5},
		"none":            {api.Inventory{Total: 10}, api.Inventory{Total: 8}, api.FieldTotal, 8},
		"none, reserved":  {api.Inventory{Total: 10, Reserved: 4}, api.Inventory{Total: 8}, api.FieldTotal, 4},
		"none, by ratio":  {api.Inventory{Total: 10}, api.Inventory{AllocationRatio: 5_000}, api.FieldAllocationRatio, 5},
		"none, by ratio'": {api.Inventory{Total: 10}, api.Inventory{AllocationRatio: 40_000}, api.FieldAllocationRatio, 10},
	} {
		assert.Equal(t, c.want, overrideInventory(c.reported, c.own, c.fields).MaxUnit, name)
	}
}

// TestInventoriesAreMerged: what is set as a whole replaces the report, what is set in part changes it, and what is reported no more
// stays if it has a total.
func TestInventoriesAreMerged(t *testing.T) {
	type inventory = map[api.ResourceClass]api.Inventory
	type fields = map[api.ResourceClass]api.InventoryFields
	const cpu, mem = api.VCPU, api.ResourceClass("MEMORY_MB")
	ten, five := api.Inventory{Total: 10}, api.Inventory{Total: 5}
	for name, c := range map[string]struct {
		declared, own inventory
		fields        fields
		want          inventory
	}{
		"nothing":                     {nil, nil, nil, nil},
		"reported":                    {inventory{cpu: ten}, nil, nil, inventory{cpu: ten}},
		"its own":                     {nil, inventory{cpu: five}, nil, inventory{cpu: five}},
		"its own, in part":            {nil, inventory{cpu: five}, fields{cpu: api.FieldTotal}, inventory{cpu: {Total: 5, MaxUnit: 5}}},
		"in part, and gone":           {nil, inventory{cpu: {Reserved: 1}}, fields{cpu: api.FieldReserved}, inventory{}},
		"both":                        {inventory{cpu: ten}, inventory{mem: five}, nil, inventory{cpu: ten, mem: five}},
		"the same":                    {inventory{cpu: ten}, inventory{cpu: five}, nil, inventory{cpu: five}},
		"in part":                     {inventory{cpu: ten}, inventory{cpu: {Reserved: 3}}, fields{cpu: api.FieldReserved}, inventory{cpu: {Total: 10, Reserved: 3}}},
		"one in part, the other gone": {inventory{mem: ten}, inventory{cpu: {Reserved: 3}}, fields{cpu: api.FieldReserved}, inventory{mem: ten}},
	} {
		w := &declaredProvider{declared: declaration{inventory: c.declared}, own: declaration{inventory: c.own, fields: c.fields}}
		assert.Equal(t, c.want, w.mergedInventory(), name)
	}
	for name, c := range map[string]struct {
		declared, own, next, want inventory
		fields, wantFields        fields
	}{
		"as reported":          {declared: inventory{cpu: ten}, own: inventory{cpu: ten}},
		"as reported now":      {own: inventory{cpu: ten}, next: inventory{cpu: ten}},
		"another total":        {declared: inventory{cpu: ten}, own: inventory{cpu: {Total: 5, StepSize: 1}}, want: inventory{cpu: five}, wantFields: fields{cpu: api.FieldTotal}},
		"before what is next":  {declared: inventory{cpu: ten}, own: inventory{cpu: ten}, next: inventory{cpu: five}},
		"a unit that is unset": {declared: inventory{cpu: ten}, own: inventory{cpu: {Total: 10, MaxUnit: unitUnset}}},
		"not reported":         {own: inventory{cpu: ten}, next: inventory{mem: ten}, want: inventory{cpu: ten}},
		"in part": {
			declared: inventory{cpu: ten}, own: inventory{cpu: ten}, fields: fields{cpu: api.FieldTotal}, want: inventory{cpu: ten}, wantFields: fields{cpu: api.FieldTotal},
		},
	} {
		w := &declaredProvider{declared: declaration{inventory: c.declared}, own: declaration{inventory: c.own, fields: c.fields}}
		own, set := w.narrowed(c.next)
		assert.Equal(t, c.want, own, name)
		assert.Equal(t, c.wantFields, set, name)
	}
}

// TestWhichConsumersAreRefused: by generation, by who it is, and by how many there are.
func TestWhichConsumersAreRefused(t *testing.T) {
	w := leaseWorld(t)
	some := []api.Share{{Provider: "h1", Resources: api.Resources{api.VCPU: 1}}}
	for _, id := range []string{"c1", "c2"} {
		w.s.consumers.Set(id, &api.Consumer{ID: api.ConsumerID(id), Generation: 3, Shares: some})
	}
	l := *w.s.limits
	l.consumers = 2
	gen := func(n uint64) *uint64 { return &n }
	for name, c := range map[string]struct {
		most    int
		entries []command.ConsumerEntry
		want    api.Code
	}{
		"any generation":       {2, []command.ConsumerEntry{{ID: "c1", Shares: some}}, ""},
		"its generation":       {2, []command.ConsumerEntry{{ID: "c1", Generation: gen(3), Shares: some}}, ""},
		"another generation":   {2, []command.ConsumerEntry{{ID: "c1", Generation: gen(2), Shares: some}}, api.CodeStale},
		"none of one it has":   {2, []command.ConsumerEntry{{ID: "c1", Generation: gen(0), Shares: some}}, api.CodeStale},
		"new, at no one":       {3, []command.ConsumerEntry{{ID: "c3", Generation: gen(0), Shares: some}}, ""},
		"new, at one":          {3, []command.ConsumerEntry{{ID: "c3", Generation: gen(1), Shares: some}}, api.CodeStale},
		"one too many":         {2, []command.ConsumerEntry{{ID: "c3", Shares: some}}, api.CodeOverloaded},
		"one for another":      {2, []command.ConsumerEntry{{ID: "c3", Shares: some}, {ID: "c1"}}, ""},
		"two for another":      {2, []command.ConsumerEntry{{ID: "c3", Shares: some}, {ID: "c4", Shares: some}, {ID: "c1"}}, api.CodeOverloaded},
		"new without any":      {2, []command.ConsumerEntry{{ID: "c3"}, {ID: "c4"}}, ""},
		"too many before":      {1, []command.ConsumerEntry{{ID: "c1", Shares: some}}, ""},
		"too many, one leaves": {0, []command.ConsumerEntry{{ID: "c1"}}, ""},
	} {
		l.consumers = c.most
		w.s.limits = &l
		assert.Equal(t, c.want, codeOf(w.s.checkConsumers(nil, command.ConsumersPut{Consumers: c.entries})), name)
	}
}

// codeOf returns the code of a refusal, "" for none.
func codeOf(r Result) api.Code {
	if r.Err == nil {
		return ""
	}
	return api.CodeOf(r.Err)
}

// TestWhatAnAgentMayTeach: names of the zone's own up to its limits and those of one agent; what brings none is let in whatever there is.
func TestWhatAnAgentMayTeach(t *testing.T) {
	put := func(name string, class api.ResourceClass, trait string) command.HostEntry {
		h := api.AgentHost{Name: name}
		if class != "" {
			h.Inventory = map[api.ResourceClass]api.Inventory{class: {Total: 1}}
		}
		if trait != "" {
			h.Traits = []string{trait}
		}
		return command.HostEntry{ID: api.HostID(name), Host: h}
	}
	for name, c := range map[string]struct {
		hosts                                                 []command.HostEntry
		customClasses, customTraits, agentClasses, agentTrait int
		want                                                  api.Code
	}{
		"nothing new, above": {[]command.HostEntry{put("h3", "CUSTOM_A", "CUSTOM_T")}, 0, 0, 0, 0, ""},
		"a class":            {[]command.HostEntry{put("h3", "CUSTOM_B", "")}, 2, 0, 9, 9, ""},
		"one too many":       {[]command.HostEntry{put("h3", "CUSTOM_B", "")}, 1, 9, 9, 9, api.CodeOverloaded},
		"twice the same":     {[]command.HostEntry{put("h3", "CUSTOM_B", ""), put("h4", "CUSTOM_B", "")}, 2, 9, 9, 9, ""},
		"a trait":            {[]command.HostEntry{put("h3", "", "CUSTOM_U")}, 0, 2, 9, 9, ""},
		"a trait too many":   {[]command.HostEntry{put("h3", "", "CUSTOM_U")}, 9, 1, 9, 9, api.CodeOverloaded},
		"its classes":        {[]command.HostEntry{put("h3", "CUSTOM_B", "")}, 9, 9, 2, 9, ""},
		"too many of it":     {[]command.HostEntry{put("h3", "CUSTOM_B", "")}, 9, 9, 1, 9, api.CodeOverloaded},
		"its traits":         {[]command.HostEntry{put("h3", "", "CUSTOM_U")}, 9, 9, 9, 2, ""},
		"too many traits":    {[]command.HostEntry{put("h3", "", "CUSTOM_U")}, 9, 9, 9, 1, api.CodeOverloaded},
		"instead":            {[]command.HostEntry{put("own", "CUSTOM_B", "CUSTOM_U")}, 9, 9, 1, 1, ""},
	} {
		w := leaseWorld(t)
		w.ok(command.HostsPut{Stamp: w.stamp(), Agent: "a9", Hosts: []command.HostEntry{put("own", "CUSTOM_A", "CUSTOM_T")}})
		l := *w.s.limits
		l.customClasses, l.customTraits, l.agentClasses, l.agentTraits = c.customClasses, c.customTraits, c.agentClasses, c.agentTrait
		w.s.limits = &l
		assert.Equal(t, c.want, codeOf(w.s.mayLearn(&command.HostsPut{Agent: "a9", Hosts: c.hosts})), name)
		if c.want != "" {
			l.agentHosts = 0
			old := codeOf(w.s.mayLearn(&command.HostsPut{Agent: "a9", Hosts: c.hosts}))
			assert.Equal(t, c.customClasses == 1 || c.customTraits == 1, old != "", "before there were limits of agents: %s", name)
		}
	}
}

// TestWhyAHostTakesNoWork: each reason alone, in their order.
func TestWhyAHostTakesNoWork(t *testing.T) {
	up := Host{Host: api.Host{Enabled: true, State: api.HostUp}}
	assert.True(t, up.takesWork())
	for name, c := range map[string]struct {
		change func(h *Host)
		why    string
	}{
		"disabled":    {func(h *Host) { h.Enabled, h.Maintenance = false, "disk" }, "disabled"},
		"maintenance": {func(h *Host) { h.Maintenance, h.Unserved = "disk", true }, "in maintenance"},
		"unserved":    {func(h *Host) { h.State, h.Unserved = api.HostDown, true }, "not served by its agent"},
		"down":        {func(h *Host) { h.State = api.HostDown }, string(api.HostDown)},
	} {
		h := up
		c.change(&h)
		assert.False(t, h.takesWork(), name)
		assert.Equal(t, c.why, h.whyNoWork(), name)
	}
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, mergeMaps(map[string]string{"a": "1"}, map[string]string{"b": "2"}))
	assert.Equal(t, map[string]string{"b": "2"}, mergeMaps(map[string]string{"a": "1"}, map[string]string{"a": "", "b": "2"}))
	assert.Nil(t, mergeMaps(map[string]string{"a": "1"}, map[string]string{"a": ""}))
	assert.Nil(t, mergeMaps(nil, nil))
}

// TestFailuresOfAHost are counted when a start fails, and begin anew when one succeeds.
func TestFailuresOfAHost(t *testing.T) {
	for _, c := range []struct {
		was, is       api.Status
		before, after int
	}{
		{api.StatusBuild, api.StatusError, 0, 1},
		{api.StatusBuild, api.StatusError, failuresMax, failuresMax},
		{api.StatusBuild, api.StatusError, failuresMax - 1, failuresMax},
		{api.StatusActive, api.StatusError, 2, 2},
		{api.StatusError, api.StatusError, 2, 2},
		{api.StatusBuild, api.StatusActive, 2, 0},
		{api.StatusError, api.StatusActive, 2, 0},
		{api.StatusActive, api.StatusActive, 2, 2},
		{api.StatusDeleting, api.StatusActive, 2, 2},
		{api.StatusBuild, api.StatusShutoff, 2, 2},
	} {
		w := leaseWorld(t)
		h, _ := w.s.hosts.Get("h1")
		cp := *h
		cp.Failures = c.before
		w.s.hosts.Set("h1", &cp)
		generation := w.generation("h1")
		clear(w.s.bumped)
		w.s.noteFailures(&api.Instance{InstanceTerms: &api.InstanceTerms{}, Host: "h1", Status: c.was}, c.is)
		w.s.noteFailures(&api.Instance{InstanceTerms: &api.InstanceTerms{}, Host: "none", Status: c.was}, c.is)
		h, _ = w.s.hosts.Get("h1")
		assert.Equal(t, c.after, h.Failures, "%+v", c)
		assert.Equal(t, c.before != c.after, w.generation("h1") != generation, "%+v", c)
	}
}

// TestWhoServesAHost: an agent that registers all of its hosts takes down those that it leaves out, once; and what is awaited of an agent
// is its hosts that are down.
func TestWhoServesAHost(t *testing.T) {
	w := leaseWorld(t)
	w.ok(hostPut(w.stamp(), "a2", "other", 4))
	whole := hostPut(w.stamp(), "a1", "h1", 4)
	whole.Whole = true
	w.ok(whole)
	h2, _ := w.s.Host("h2")
	assert.Equal(t, []any{api.HostDown, true, whole.At, whole.At}, []any{h2.State, h2.Unserved, h2.Updated, h2.DownSince})
	other, _ := w.s.Host("other")
	assert.Equal(t, []any{api.HostUp, false}, []any{other.State, other.Unserved})
	whole.Stamp = w.stamp()
	w.unchangedHosts(whole, "h2")
	w.ok(command.HostsState{Stamp: w.stamp(), Hosts: []api.HostID{"h2", "none"}, State: api.HostUp})
	h2, _ = w.s.Host("h2")
	assert.Equal(t, api.HostDown, h2.State, "its agent does not serve it")
	since := w.down("h1")
	w.unchangedHosts(command.HostsState{Stamp: w.stamp(), Hosts: []api.HostID{"h1"}, State: api.HostDown}, "h1")
	w.s.awaitAgent("a2")
	other, _ = w.s.Host("other")
	assert.False(t, other.Unserved, "it is up")
	w.s.awaitAgent("a1")
	h1, _ := w.s.Host("h1")
	assert.Equal(t, []any{true, since, w.s.Now()}, []any{h1.Unserved, h1.DownSince, h1.Updated})
	w.s.now++
	w.s.awaitAgent("a1")
	h1, _ = w.s.Host("h1")
	assert.Equal(t, w.s.Now()-1, h1.Updated, "it is awaited already")
}

// unchangedHosts applies a command after which some hosts are as they were.
func (w *world) unchangedHosts(c command.Command, hosts ...string) {
	before := make([]*Host, len(hosts))
	for n, id := range hosts {
		before[n], _ = w.s.hosts.Get(id)
	}
	w.ok(c)
	for n, id := range hosts {
		h, _ := w.s.hosts.Get(id)
		if h != before[n] {
			w.tb.Errorf("host %s was changed by %#v", id, c)
		}
	}
}
