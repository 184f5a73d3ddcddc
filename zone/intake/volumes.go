package intake

import (
	"cmp"
	"slices"

	"berth/api"
	"berth/api/rest"
)

// VolumeBody returns the body of the boot that makes one volume.
func VolumeBody(v *rest.VolumeCreate) *rest.BootBody {
	return &rest.BootBody{Server: rest.ServerCreate{
		Name: v.Name, Metadata: v.Metadata, Zones: v.Zones,
		Groups: []rest.GroupCreate{{Name: "volume", Volume: &rest.GroupVolume{VolumeSpec: v.VolumeSpec}, GroupWish: v.GroupWish}},
	}}
}

// readVolume reads the rest of a group of volumes. part is its path in the body.
func (rd *reading) readVolume(part string, g *rest.GroupCreate, out api.Group, joins string) error {
	if g.FlavorRef != "" || g.ImageRef != "" || g.ImageProperties != nil {
		return api.Errorf(api.CodeInvalid, "%sflavorRef, imageRef and image_properties are of instances; a volume has a size", part)
	}
	if g.Hints != nil && g.Hints.Preemptible != nil && bool(*g.Hints.Preemptible) {
		return api.Errorf(api.CodeInvalid, "%sscheduler_hints.preemptible: a volume is never preemptible", part)
	}
	if g.Hints != nil && g.Hints.Reservation != "" {
		return api.Errorf(api.CodeInvalid, "%sscheduler_hints.reservation: a volume is in no reservation; give it for the instances that get the volumes", part)
	}
	spec := g.Volume
	class := cmp.Or(spec.Class, api.DiskGB)
	switch {
	case spec.Size < 1 || spec.Size > api.VolumeMaxGB:
		return api.Errorf(api.CodeInvalid, "%svolume.size must be 1 to %d GiB, got %d", part, api.VolumeMaxGB, spec.Size)
	case !class.IsStorage():
		return api.Errorf(api.CodeInvalid, "%svolume.storage_class must be %s or a custom class, got %.64q", part, api.DiskGB, string(class))
	}
	out.Volume, out.AttachTo = cmp.Or(spec.Type, api.VolumeTypeDefault), spec.AttachTo
	out.Resources, out.ExtraSpecs = api.Resources{class: spec.Size}, spec.ExtraSpecs
	if err := api.CheckName(part+"volume.type", out.Volume); err != nil {
		return err
	}
	full := out
	full.Traits = joinTraits(out.Traits, out.ExtraSpecs)
	full.Traits.Required = slices.Compact(slices.Sorted(slices.Values(append(full.Traits.Required, api.TraitVolumes))))
	rd.checkHosts(part, &out.Hints)
	rd.kinds = append(rd.kinds, kind{part: part, name: g.Name})
	rd.order.Request.Groups, rd.order.Joins, rd.groups = append(rd.order.Request.Groups, out), append(rd.order.Joins, joins), append(rd.groups, full)
	return inPart(part, full.Validate())
}

// keepTogether has volumes and what is booted with them in one zone, and those that are attached
// each on the host of its instance.
func (rd *reading) keepTogether() error {
	req := &rd.order.Request
	if !req.HasVolumes() {
		return nil
	}
	req.Zones.Pack = req.Zones.Pack || len(rd.groups) > 1
	for n := range rd.groups {
		g := &rd.groups[n]
		if g.AttachTo == "" {
			continue
		}
		to := slices.IndexFunc(rd.groups, func(o api.Group) bool { return o.Name == g.AttachTo && o.Volume == "" })
		if to < 0 {
			return api.Errorf(api.CodeInvalid, "groups[%d].volume.attach_to: this boot has no group %q of instances", n, g.AttachTo)
		}
		if o := &rd.groups[to]; g.Count != o.Count || g.Min != o.Min {
			return api.Errorf(api.CodeInvalid, "groups[%d].volume.attach_to: each instance gets one volume, so %q and %q need the same counts", n, g.AttachTo, g.Name)
		}
		req.Rules = append(req.Rules, api.Rule{Policy: api.Affinity, Groups: []int{min(n, to), max(n, to)}, Pairs: rd.pairs})
	}
	return nil
}
