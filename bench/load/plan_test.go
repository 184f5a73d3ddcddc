package load

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// sound is a plan in range.
func sound() Plan {
	return Plan{
		Work: Boots, Until: UntilActive, Flavor: "f", Count: 1, MinZones: 1, Callers: 1,
		Duration: time.Second, Timeout: time.Second,
	}
}

func TestPlanLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Plan)
		ok     bool
	}{
		"as it is":               {func(*Plan) {}, true},
		"unknown work":           {func(p *Plan) { p.Work = "rest" }, false},
		"unknown point":          {func(p *Plan) { p.Until = "never" }, false},
		"most instances":         {func(p *Plan) { p.Count = api.CountMax }, true},
		"more instances":         {func(p *Plan) { p.Count = api.CountMax + 1 }, false},
		"no instances":           {func(p *Plan) { p.Count = 0 }, false},
		"most zones":             {func(p *Plan) { p.MinZones = MinZonesMax }, true},
		"more zones":             {func(p *Plan) { p.MinZones = MinZonesMax + 1 }, false},
		"no zones":               {func(p *Plan) { p.MinZones = 0 }, false},
		"as many zones as slots": {func(p *Plan) { p.Work, p.Count, p.MinZones = Federated, 2, 2 }, true},
		"more zones than slots":  {func(p *Plan) { p.Work, p.Count, p.MinZones = Federated, 2, 3 }, false},
		"most callers":           {func(p *Plan) { p.Callers = CallersMax }, true},
		"more callers":           {func(p *Plan) { p.Callers = CallersMax + 1 }, false},
		"no callers":             {func(p *Plan) { p.Callers = 0 }, false},
		"highest rate":           {func(p *Plan) { p.Rate = RateMax }, true},
		"higher rate":            {func(p *Plan) { p.Rate = RateMax + 1 }, false},
		"negative rate":          {func(p *Plan) { p.Rate = -1 }, false},
		"no number":              {func(p *Plan) { p.Rate = math.NaN() }, false},
		"longest warm-up":        {func(p *Plan) { p.Warmup = DurationMax }, true},
		"longer warm-up":         {func(p *Plan) { p.Warmup = DurationMax + 1 }, false},
		"negative warm-up":       {func(p *Plan) { p.Warmup = -1 }, false},
		"longest":                {func(p *Plan) { p.Duration = DurationMax }, true},
		"longer":                 {func(p *Plan) { p.Duration = DurationMax + 1 }, false},
		"shortest":               {func(p *Plan) { p.Duration = DurationMin }, true},
		"shorter":                {func(p *Plan) { p.Duration = DurationMin - 1 }, false},
		"longest timeout":        {func(p *Plan) { p.Timeout = TimeoutMax }, true},
		"longer timeout":         {func(p *Plan) { p.Timeout = TimeoutMax + 1 }, false},
		"shortest timeout":       {func(p *Plan) { p.Timeout = TimeoutMin }, true},
		"shorter timeout":        {func(p *Plan) { p.Timeout = TimeoutMin - 1 }, false},
	} {
		p := sound()
		c.change(&p)
		err := p.Check()
		assert.Equal(t, c.ok, err == nil, "%s: %v", name, err)
		if err != nil {
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
		}
	}
}

func TestFederationLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Federation)
		ok     bool
	}{
		"as it is":       {func(*Federation) {}, true},
		"three nodes":    {func(f *Federation) { f.Nodes = 3 }, true},
		"two nodes":      {func(f *Federation) { f.Nodes = 2 }, false},
		"most zones":     {func(f *Federation) { f.Zones = ZonesMax }, true},
		"a zone more":    {func(f *Federation) { f.Zones = ZonesMax + 1 }, false},
		"no zone":        {func(f *Federation) { f.Zones = 0 }, false},
		"most hosts":     {func(f *Federation) { f.Hosts = HostsMax }, true},
		"a host more":    {func(f *Federation) { f.Hosts = HostsMax + 1 }, false},
		"no hosts":       {func(f *Federation) { f.Hosts = 0 }, false},
		"most standing":  {func(f *Federation) { f.Standing = StandingMax }, true},
		"one more":       {func(f *Federation) { f.Standing = StandingMax + 1 }, false},
		"negative count": {func(f *Federation) { f.Standing = -1 }, false},
	} {
		f := Federation{Nodes: 1, Zones: 1, Hosts: 1}
		c.change(&f)
		assert.Equal(t, c.ok, f.Check() == nil, name)
	}
}

func TestMixedCycle(t *testing.T) {
	p := sound()
	p.Work = Mixed
	got := map[Work]int{}
	for n := range int64(20) {
		got[p.workOf(n)]++
	}
	require.Equal(t, map[Work]int{Boots: 10, Leases: 4, Claims: 6}, got)
}
