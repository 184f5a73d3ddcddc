package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVolumeStatus(t *testing.T) {
	for _, tt := range []struct {
		i    Instance
		want VolumeStatus
	}{
		{Instance{InstanceTerms: &InstanceTerms{}, Status: StatusActive, InstanceExtras: &noExtras}, VolumeError}, // no volume
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusBuild, InstanceExtras: &noExtras}, VolumeCreating},
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusBuild, InstanceExtras: &InstanceExtras{Attached: "i"}}, VolumeCreating},
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusActive, InstanceExtras: &noExtras}, VolumeAvailable},
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusActive, InstanceExtras: &InstanceExtras{Attached: "i"}}, VolumeInUse},
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusError, InstanceExtras: &InstanceExtras{Attached: "i"}}, VolumeError},
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusShutoff, InstanceExtras: &noExtras}, VolumeError},
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusDeleting, InstanceExtras: &noExtras}, VolumeDeleting},
		{Instance{InstanceTerms: &InstanceTerms{Volume: "v"}, Status: StatusDeleted, InstanceExtras: &noExtras}, VolumeDeleted},
	} {
		assert.Equal(t, tt.want, tt.i.VolumeStatus(), "%+v", tt.i)
	}
	size, class := (&Instance{InstanceTerms: &InstanceTerms{Volume: "v", Resources: Resources{"CUSTOM_SSD": 7}}}).SizeGB()
	assert.EqualValues(t, 7, size)
	assert.Equal(t, ResourceClass("CUSTOM_SSD"), class)
	size, class = (&Instance{InstanceTerms: &InstanceTerms{Resources: Resources{DiskGB: 7}}}).SizeGB()
	assert.Zero(t, size)
	assert.Empty(t, class)
}

func TestVolumeGroups(t *testing.T) {
	volume := Group{Count: 2, Name: "data", Volume: "standard", Resources: Resources{DiskGB: VolumeMaxGB}}
	for want, change := range map[string]func(g *Group){
		"":                                  func(*Group) {},
		"only volumes are attached":         func(g *Group) { g.Volume, g.AttachTo = "", "web" },
		"volume type":                       func(g *Group) { g.Volume = "a b" },
		"no flavor and no image":            func(g *Group) { g.Flavor = "small" },
		"never evacuated or preempted":      func(g *Group) { g.ExtraSpecs = map[string]string{SpecEvacuate: "true"} },
		"never a whole host":                func(g *Group) { g.ShareIdle = true },
		"one storage class, got 2":          func(g *Group) { g.Resources = Resources{DiskGB: 1, "CUSTOM_A": 1} },
		"custom class, not of MEMORY_MB":    func(g *Group) { g.Resources = Resources{MemoryMB: 1} },
		"custom class, not of VGPU":         func(g *Group) { g.Resources = Resources{"VGPU": 1} },
		"1 to 1048576 GiB, got 1048577":     func(g *Group) { g.Resources = Resources{DiskGB: VolumeMaxGB + 1} },
		"attach_to":                         func(g *Group) { g.AttachTo = "a b" },
		"volume type must be 1 to 64 chara": func(g *Group) { g.Volume = strings.Repeat("a", NameMaxBytes+1) },
	} {
		g := volume
		change(&g)
		if err := g.Validate(); want != "" {
			assert.ErrorContains(t, err, want)
		} else {
			assert.NoError(t, err)
		}
	}
}

func TestRequestsWithVolumes(t *testing.T) {
	good := func() Request {
		return Request{
			Project: "p", Class: Firm, Window: Window{End: Forever}, Zones: ZoneRule{Pack: true},
			Groups: []Group{
				{Count: 2, Name: "web", Flavor: "small", Resources: Resources{VCPU: 1}},
				{Count: 1, Name: "data", Volume: "standard", Resources: Resources{DiskGB: 1}, AttachTo: "web"}, // one is held already
			},
			Rules: []Rule{{Policy: Affinity, Groups: []int{0, 1}}},
		}
	}
	r := good()
	require.NoError(t, r.Validate())
	require.True(t, r.HasVolumes())
	require.True(t, r.NeedsRoom())
	r.Within, r.Rules[0].Pairs = "r1", true
	require.NoError(t, r.Validate(), "beside a lease, in pairs")
	require.Equal(t, []ReservationID{"r1", ""}, []ReservationID{r.WithinOf(0), r.WithinOf(1)})
	require.True(t, r.NeedsRoom())
	r.Groups = r.Groups[:1]
	require.False(t, r.NeedsRoom())
	for want, change := range map[string]func(r *Request){
		"volumes are of class":  func(r *Request) { r.Class = Preemptible },
		"are in no reservation": func(r *Request) { r.Within = "r1" },
		"give attach_to": func(r *Request) {
			r.Within, r.Rules[0].Pairs = "r1", true
			r.Groups = append(r.Groups, Group{Count: 1, Name: "more", Volume: "standard", Resources: Resources{DiskGB: 1}})
		},
		"must be in one zone":      func(r *Request) { r.Zones.Pack = false },
		`no group "db"`:            func(r *Request) { r.Groups[1].AttachTo = "db" },
		`no group "data"`:          func(r *Request) { r.Groups[1].AttachTo = "data" },
		"needs a name":             func(r *Request) { r.Groups[1].Name = "" },
		`groups "web" and "data"`:  func(r *Request) { r.Rules = nil },
		`of policy "affinity" mus`: func(r *Request) { r.Rules[0].Policy = SoftAffinity },
		"kept together in pairs":   func(r *Request) { r.Rules[0].Pairs, r.Groups[1].AttachTo = true, "" },
		"are kept together in":     func(r *Request) { r.Rules[0].Pairs, r.Rules[0].ID = true, "g" },
	} {
		r = good()
		change(&r)
		require.ErrorContains(t, r.Validate(), want)
	}
	r = good()
	require.True(t, r.Attaches(0))
	require.True(t, r.Together(0))
	r.Rules = append(r.Rules, Rule{Policy: Affinity, Groups: []int{0, 1}, Pairs: true})
	require.NoError(t, r.Validate())
	require.True(t, r.Attaches(1))
	require.False(t, r.Attaches(0), "its owner wants that all are on one host")
	require.True(t, r.Together(0))
	r.Rules = r.Rules[1:]
	require.False(t, r.Together(0), "pairs may be on many hosts")
	r = good()
	r.Groups, r.Rules, r.Zones = r.Groups[1:], nil, ZoneRule{}
	r.Groups[0].AttachTo = ""
	require.NoError(t, r.Validate(), "volumes alone need no common zone")
}
