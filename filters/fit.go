package filters

import (
	"strings"

	"berth/api"
	"berth/capacity"
)

// newAvailabilityZone returns the filter that passes hosts of the availability zone that the group names, if
// it names one.
func newAvailabilityZone() Filter {
	return Filter{Name: NameAvailabilityZone, Tier: api.TierNeverFits, Demand: true, Asks: demands[NameAvailabilityZone].stated, Keep: func(l *Look, pass *capacity.Set) {
		pass.And(l.View.AZ(l.Group().AZ))
	}}
}

// newDriver returns the filter that passes hosts whose driver can run the flavor of the group: a host that
// needs a command takes only flavors that have one. A group without a flavor has
// none; if it reserves room, it is not known yet what will run there, and all pass. Volumes have a trait for
// that, api.TraitVolumes.
func newDriver() Filter {
	asks := func(l *Look) bool {
		if l.Req.Reserves && l.Group().Flavor == "" || l.Group().Volume != "" {
			return false
		}
		has := l.World.HasCommand
		return has == nil || !has(l.Group().Flavor)
	}
	return Filter{Name: nameDriver, Tier: api.TierNeverFits, Asks: asks, Keep: func(l *Look, pass *capacity.Set) { l.View.DropCommanded(pass) }}
}

// newTraits returns the filter that passes hosts that have every required trait of the group, no forbidden
// one, and of each list of any_of at least one. A host has the traits of the
// providers below it too, but not those of others that share with it.
func newTraits() Filter {
	return Filter{Name: NameTraits, Tier: api.TierNeverFits, Demand: true, Asks: demands[NameTraits].stated, Keep: func(l *Look, pass *capacity.Set) {
		want := &l.Group().Traits
		for _, name := range want.Required {
			pass.And(l.View.TreeTrait(name))
		}
		for _, name := range want.Forbidden {
			pass.AndNot(l.View.TreeTrait(name))
		}
		for _, list := range want.AnyOf {
			either := capacity.NewSet(l.View.Rows())
			for _, name := range list {
				either.Or(l.View.TreeTrait(name))
			}
			pass.And(either)
		}
	}}
}

// imageProperties are the properties of images that hosts must match, and the
// attributes that they are matched with.
var imageProperties = [...]struct{ property, attribute string }{
	{"architecture", "arch"},
	{"hypervisor_type", "hypervisor_type"},
	{"os_type", "os"},
}

// ImageProperties returns the properties of images that hosts must match. Others ask nothing.
func ImageProperties() []string {
	out := make([]string, 0, len(imageProperties))
	for _, p := range imageProperties {
		out = append(out, p.property)
	}
	return out
}

// newImageProperties returns the filter that passes hosts that can run the image of the group: its property
// architecture equals the attribute arch, hypervisor_type the attribute
// hypervisor_type, and os_type the attribute os, in whatever case. A property
// that the image lacks asks nothing; an attribute that the host lacks fails.
// Other properties ask nothing.
func newImageProperties() Filter {
	asks := func(l *Look) bool { return len(l.Group().Image.Properties) > 0 }
	return Filter{Name: NameImageProperties, Tier: api.TierNeverFits, Demand: true, Asks: asks, Keep: func(l *Look, pass *capacity.Set) {
		for _, p := range imageProperties {
			want := l.Group().Image.Properties[p.property]
			if want == "" {
				continue
			}
			l.View.Attribute(p.attribute).Keep(pass, func(v *capacity.Value) bool {
				return v.Text == want || strings.EqualFold(v.Text, want)
			})
		}
	}}
}
