package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// invalid fails the test unless err is an invalid-input error with a sentence
// that has says in it.
func invalid(t *testing.T, err error, says string) {
	t.Helper()
	require.Error(t, err)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	assert.Contains(t, api.MessageOf(err), says)
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "Z": true, "0": true, "a.b_c-D9": true, "web-1": true, strings.Repeat("x", api.NameMaxBytes): true,
		"": false, strings.Repeat("x", api.NameMaxBytes+1): false, ".a": false, "-a": false, "_a": false, "a b": false,
		"a/b": false, "ä": false, "a\x00b": false, "a\n": false, "a:b": false, "a%b": false,
	} {
		assert.Equal(t, want, api.ValidName(name), "%q", name)
		if err := api.CheckName("zone name", name); want {
			assert.NoError(t, err)
		} else {
			invalid(t, err, "zone name must be 1 to 64 characters")
		}
	}
}

func TestNewIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id, r := api.NewUUID(), string(api.NewReservationID())
		assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
		assert.Regexp(t, `^r-[0-9a-f]{12}$`, r)
		assert.True(t, api.ValidName(id) && api.ValidName(r))
		assert.False(t, seen[id] || seen[r])
		seen[id], seen[r] = true, true
	}
}

// classes returns one of each of n resource classes.
func classes(n int) api.Resources {
	r := api.Resources{}
	for i := range n {
		r[api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i))] = 1
	}
	return r
}

func pairs(n, size int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("%0*d", size, i)] = strings.Repeat("v", size)
	}
	return m
}

func TestFlavorValidate(t *testing.T) {
	good := func() api.Flavor {
		return api.Flavor{Name: "f", Resources: api.Resources{api.VCPU: 1}}
	}
	word := func(n int) string { return strings.Repeat("w", n) }
	for _, c := range []struct {
		name string
		edit func(*api.Flavor)
		says string // "" if it is valid
	}{
		{"smallest", func(*api.Flavor) {}, ""},
		{"no name", func(f *api.Flavor) { f.Name = "" }, "flavor name must be"},
		{"no resources", func(f *api.Flavor) { f.Resources = nil }, "at least one resource"},
		{"amount 0", func(f *api.Flavor) { f.Resources[api.VCPU] = 0 }, "amount of VCPU must be 1 to"},
		{"most of a class", func(f *api.Flavor) { f.Resources[api.VCPU] = api.AmountMax }, ""},
		{"more", func(f *api.Flavor) { f.Resources[api.VCPU] = api.AmountMax + 1 }, "amount of VCPU must be 1 to"},
		{"most classes", func(f *api.Flavor) { f.Resources = classes(api.ClassesMax) }, ""},
		{"more classes", func(f *api.Flavor) { f.Resources = classes(api.ClassesMax + 1) }, "at most 32 resource classes"},
		{"most specs", func(f *api.Flavor) { f.ExtraSpecs = pairs(api.ExtraSpecsMax, api.ExtraSpecMaxBytes) }, ""},
		{"more specs", func(f *api.Flavor) { f.ExtraSpecs = pairs(api.ExtraSpecsMax+1, 2) }, "extra_specs may have at most 64 entries, got 65"},
		{"longer specs", func(f *api.Flavor) { f.ExtraSpecs = pairs(1, api.ExtraSpecMaxBytes+1) }, "extra_specs: keys"},
		{"a spec without a name", func(f *api.Flavor) { f.ExtraSpecs = map[string]string{"": "v"} }, "extra_specs: keys"},
		{"a spec without a value", func(f *api.Flavor) { f.ExtraSpecs = map[string]string{"k": ""} }, ""},
		{"most words", func(f *api.Flavor) { f.Command = slices.Repeat([]string{"x"}, api.CommandArgsMax) }, ""},
		{"more words", func(f *api.Flavor) { f.Command = slices.Repeat([]string{"x"}, api.CommandArgsMax+1) }, "at most 64 words, got 65"},
		{"no program", func(f *api.Flavor) { f.Command = []string{"", "x"} }, "path of a program"},
		{"longest command", func(f *api.Flavor) { f.Command = []string{word(1), word(api.CommandMaxBytes - 1)} }, ""},
		{"longer command", func(f *api.Flavor) { f.Command = []string{word(1), word(api.CommandMaxBytes)} }, "at most 4096 bytes, got 4097"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := good()
			c.edit(&f)
			if err := f.Validate(); c.says != "" {
				invalid(t, err, c.says)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestRequestValidate(t *testing.T) {
	group := func(n int) api.Group {
		return api.Group{Count: n, Resources: api.Resources{api.VCPU: 1}}
	}
	groups := func(n int) []api.Group {
		var out []api.Group
		for range n {
			out = append(out, group(1))
		}
		return out
	}
	for _, c := range []struct {
		name string
		edit func(*api.Request)
		says string // "" if it is valid
	}{
		{"smallest", func(*api.Request) {}, ""},
		{"no group", func(r *api.Request) { r.Groups = nil }, "1 to 16 groups, got 0"},
		{"most groups", func(r *api.Request) { r.Groups = groups(api.GroupsMax) }, ""},
		{"more groups", func(r *api.Request) { r.Groups = groups(api.GroupsMax + 1) }, "1 to 16 groups, got 17"},
		{"count 0", func(r *api.Request) { r.Groups[0].Count = 0 }, "must ask for 1 to 10000 instances in all, got 0"},
		{"negative count", func(r *api.Request) { r.Groups[0].Count = -1 }, "count must be"},
		{"highest count", func(r *api.Request) { r.Groups[0].Count = api.CountMax }, ""},
		{"higher count", func(r *api.Request) { r.Groups[0].Count = api.CountMax + 1 }, "count must be"},
		{"highest count in all", func(r *api.Request) { r.Groups = []api.Group{group(api.CountMax - 1), group(1)} }, ""},
		{"higher count in all", func(r *api.Request) { r.Groups = []api.Group{group(api.CountMax), group(1)} }, "in all, got 10001"},
		{"no resources", func(r *api.Request) { r.Groups[0].Resources = nil }, "at least one resource"},
		{"bad class", func(r *api.Request) { r.Groups[0].Resources = api.Resources{"vcpu": 1} }, "upper case"},
		{"more specs", func(r *api.Request) { r.Groups[0].ExtraSpecs = pairs(api.ExtraSpecsMax+1, 2) }, "extra_specs may have"},
		{"empty window", func(r *api.Request) { r.Window = api.Window{Start: 5, End: 5} }, "window must end after it starts"},
		{"no class", func(r *api.Request) { r.Class = "" }, `class must be "firm" or "preemptible"`},
		{"preemptible", func(r *api.Request) { r.Class = api.Preemptible }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := api.Request{Groups: groups(1), Window: api.Window{Start: 0, End: api.Forever}, Class: api.Firm}
			c.edit(&r)
			if err := r.Validate(); c.says != "" {
				invalid(t, err, c.says)
			} else {
				require.NoError(t, err)
			}
		})
	}
	assert.Equal(t, 5, (&api.Request{Groups: []api.Group{group(2), group(3)}}).Count())
}

func TestOutcomes(t *testing.T) {
	for s, want := range map[api.BootState]bool{
		api.BootAccepted: false, api.BootHolding: false, api.BootBuilding: false, api.BootReleasing: false,
		api.BootActive: true, api.BootDegraded: true, api.BootReleased: true, api.BootFailed: true, "": false, "NEW": false,
	} {
		assert.Equal(t, want, s.Outcome(), s)
	}
}

func TestRoles(t *testing.T) {
	roles := []api.UserRole{"", "root", api.RoleReader, api.RoleMember, api.RoleAdmin}
	for i, has := range roles {
		for j, want := range roles[2:] {
			assert.Equal(t, i-2 >= j, api.Caller{Role: has}.Allows(want), "%q for %q", has, want)
		}
	}
}

func TestLive(t *testing.T) {
	assert.True(t, (&api.Instance{Status: api.StatusDeleting}).Live(), "its claim stays until it is gone")
	assert.False(t, (&api.Instance{Status: api.StatusDeleted}).Live())
}
