package api

import (
	"slices"
	"strings"
)

// Limits of volumes.
const (
	VolumeMaxGB = 1 << 20 // of one volume: 1 PiB
	AttachedMax = 32      // volumes that are attached to one instance
)

// VolumeTypeDefault is the type of a volume whose maker names none.
const VolumeTypeDefault = "standard"

// TraitVolumes is the trait of hosts whose driver makes volumes and attaches them.
const TraitVolumes = "COMPUTE_VOLUME_ATTACH"

// AttributeVolumes is the attribute of a host whose driver makes volumes. Its value says whether
// the driver holds those that it makes to their size.
const (
	AttributeVolumes = "volumes"
	VolumesBounded   = "bounded"
	VolumesUnbounded = "unbounded"
)

// VolumeStatus is the life of a volume as its owner sees it.
type VolumeStatus string

// The statuses of volumes, in the order of a life.
const (
	VolumeCreating  VolumeStatus = "creating"  // decided; its agent has not reported it made yet
	VolumeAvailable VolumeStatus = "available" // made, and attached to nothing
	VolumeInUse     VolumeStatus = "in-use"    // made, and attached
	VolumeDeleting  VolumeStatus = "deleting"  // ordered to go; its claim stays until it is gone
	VolumeDeleted   VolumeStatus = "deleted"   // gone, and its claim with it
	VolumeError     VolumeStatus = "error"     // could not be made, or is lost; Fault is the reason
)

// VolumeStatus returns the status of a volume; VolumeError for an instance, which has none.
func (i *Instance) VolumeStatus() VolumeStatus {
	switch {
	case i.Volume == "":
		return VolumeError
	case i.Status == StatusBuild:
		return VolumeCreating
	case i.Status == StatusActive && i.Attached != "":
		return VolumeInUse
	case i.Status == StatusActive:
		return VolumeAvailable
	case i.Status == StatusDeleting:
		return VolumeDeleting
	case i.Status == StatusDeleted:
		return VolumeDeleted
	}
	return VolumeError
}

// SizeGB returns the size of a volume in GiB, and the storage class that it is of: the only
// one of its resources. It is 0 for an instance.
func (i *Instance) SizeGB() (int64, ResourceClass) {
	if i.Volume == "" {
		return 0, ""
	}
	for class, n := range i.Resources {
		return n, class
	}
	return 0, ""
}

// VolumeCall asks a child to attach a volume of the caller's to an instance, or to end that. For
// an end the instance may be "", which stands for any.
type VolumeCall struct {
	Volume   InstanceID `cbor:"1,keyasint" form:"4"`
	Instance InstanceID `cbor:"2,keyasint,omitempty" form:"4"`
}

// IsStorage reports whether c is a class that volumes can be of: DISK_GB, or a custom class
// whose unit is GiB.
func (c ResourceClass) IsStorage() bool {
	return c == DiskGB || strings.HasPrefix(string(c), CustomPrefix) && c.Valid()
}

// validateVolume returns an invalid-input error for a group of volumes that asks for more than
// room of one storage class, or for a group of instances that is attached.
func (g *Group) validateVolume() error {
	switch {
	case g.Volume == "" && g.AttachTo != "":
		return Errorf(CodeInvalid, "only volumes are attached; attach_to goes into their group")
	case g.Volume == "":
		return nil
	case !ValidName(g.Volume):
		return CheckName("volume type", g.Volume)
	case g.Flavor != "" || g.Image.Ref != "" || len(g.Image.Properties) > 0:
		return Errorf(CodeInvalid, "a volume has no flavor and no image")
	case g.ExtraSpecs[SpecEvacuate] != "" || g.ExtraSpecs[SpecPreemptible] != "":
		return Errorf(CodeInvalid, "a volume is never evacuated or preempted; leave out the extra specs %s and %s", SpecEvacuate, SpecPreemptible)
	case g.Whole || g.ShareIdle:
		return Errorf(CodeInvalid, "a volume is never a whole host, and lends nothing")
	case g.AttachTo != "" && !ValidName(g.AttachTo):
		return CheckName("attach_to", g.AttachTo)
	case len(g.Resources) != 1:
		return Errorf(CodeInvalid, "a volume has room of one storage class, got %d resource classes", len(g.Resources))
	}
	for class, n := range g.Resources {
		switch {
		case !class.IsStorage():
			return Errorf(CodeInvalid, "a volume is of %s or of a custom class, not of %s", DiskGB, class)
		case n > VolumeMaxGB:
			return Errorf(CodeInvalid, "the size of a volume must be 1 to %d GiB, got %d", VolumeMaxGB, n)
		}
	}
	return nil
}

// HasVolumes reports whether some of the slots are volumes.
func (r *Request) HasVolumes() bool {
	return slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Volume != "" })
}

// WithinOf returns the reservation in whose slots a group is to be; "" for none, as for volumes.
func (r *Request) WithinOf(group int) ReservationID {
	if r.Groups[group].Volume != "" {
		return ""
	}
	return r.Within
}

// NeedsRoom reports whether some group takes room that is not reserved for it.
func (r *Request) NeedsRoom() bool { return r.Within == "" || r.HasVolumes() }

// validateVolumes checks what a request with volumes may have. Volumes are never preempted, and
// what is attached to each other must be in one zone.
func (r *Request) validateVolumes() error {
	switch {
	case !r.HasVolumes():
		return nil
	case r.Class != Firm:
		return Errorf(CodeInvalid, "volumes are of class %q; boot preemptible instances by themselves", Firm)
	case r.Reserves:
		return Errorf(CodeInvalid, "volumes cannot be reserved")
	case r.Within != "" && !r.pairsVolumes():
		return Errorf(CodeInvalid, "volumes are in no reservation; one boot makes those alone that its servers there get, one each: give attach_to")
	case len(r.Groups) > 1 && !r.Zones.Pack:
		return Errorf(CodeInvalid, "volumes and what is booted with them must be in one zone: set zones.pack")
	}
	for n := range r.Groups {
		if r.Groups[n].AttachTo == "" {
			continue
		}
		if err := r.validateAttached(n); err != nil {
			return err
		}
	}
	return nil
}

// pairsVolumes reports whether every group of volumes is paired with the instances that get them.
func (r *Request) pairsVolumes() bool {
	for g := range r.Groups {
		paired := func(n int) bool { return r.Rules[n].Pairs }
		if r.Groups[g].Volume != "" && (r.Groups[g].AttachTo == "" || !slices.ContainsFunc(r.RulesOf(g), paired)) {
			return false
		}
	}
	return true
}

// Attaches reports whether Rules[n] only keeps volumes on the hosts of the instances of the same request to which they
// are attached. It binds where they are made. From then on attachments do: what is detached may move.
func (r *Request) Attaches(n int) bool {
	rule := &r.Rules[n]
	if rule.ID != "" || rule.Policy != Affinity || len(rule.Groups) != 2 || r.HasPairs() && !rule.Pairs { // this one is the owner's
		return false
	}
	a, b := &r.Groups[rule.Groups[0]], &r.Groups[rule.Groups[1]]
	return a.AttachTo != "" && a.AttachTo == b.Name || b.AttachTo != "" && b.AttachTo == a.Name
}

// validateAttached checks a group of volumes that are attached to instances of the same
// request, on their host. Counts are not compared: a part of a request may have fewer.
func (r *Request) validateAttached(n int) error {
	g := &r.Groups[n]
	to := slices.IndexFunc(r.Groups, func(o Group) bool { return o.Name == g.AttachTo })
	switch {
	case to < 0 || r.Groups[to].Volume != "":
		return Errorf(CodeInvalid, "attach_to: there is no group %q of instances", g.AttachTo)
	case g.Name == "":
		return Errorf(CodeInvalid, "a group of volumes with attach_to needs a name")
	}
	together := func(rule Rule) bool {
		return rule.Policy == Affinity && slices.Contains(rule.Groups, n) && slices.Contains(rule.Groups, to)
	}
	if !slices.ContainsFunc(r.Rules, together) {
		return Errorf(CodeInvalid, "attach_to: a rule of policy %q must keep groups %q and %q on one host", Affinity, g.AttachTo, g.Name)
	}
	return nil
}
