package state

import (
	"berth/api"
	"berth/quota"
)

// countUse counts instances that were booted at this zone outside leases. Their windows have
// begun when they are made, so only the ends are kept.
func (s *workBook) countUse(old, i *api.Instance) {
	was, is := usesQuota(old), usesQuota(i)
	if was == is && (!is || old.Window.End == i.Window.End) {
		return
	}
	if was {
		s.removeUse(old.Project, useOfInstance(old))
	}
	if is {
		s.addUse(i.Project, useOfInstance(i))
	}
}

// usesQuota reports whether an instance, which may be nil, counts for its project.
func usesQuota(i *api.Instance) bool {
	return i != nil && i.Origin == "" && !i.Reserved && !i.InLease && i.Live()
}

func useOfInstance(i *api.Instance) quota.Use {
	return quota.Use{Window: api.Window{End: i.Window.End}, Amounts: quota.Count(familyOf(i.Class, i.Volume), 1, i.Resources)}
}

// familyOf returns the item as which instances of a class count, or volumes of a type.
func familyOf(c api.Class, volume string) quota.Item {
	switch {
	case volume != "":
		return quota.Volumes
	case c == api.Preemptible:
		return quota.Preemptibles
	}
	return quota.Instances
}
