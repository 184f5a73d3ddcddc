package state

import (
	"berth/api"
	"berth/quota"
)

// countBoot counts an undecided boot, or no longer; its instances are counted when it is
// decided.
func (s *bootsBook) countBoot(b *Boot, counted bool) {
	switch r := &b.Request; {
	case !bootUsesQuota(r):
	case counted:
		s.addUse(r.Project, useOfBoot(r))
	default:
		s.removeUse(r.Project, useOfBoot(r))
	}
}

// bootUsesQuota reports whether the instances of a request count: not within a lease, nor the
// room of a lease, which is counted with its record.
func bootUsesQuota(r *api.Request) bool { return !r.Reserves && r.Within == "" }

// useOfBoot returns what a boot asks for. When its lifetime begins is not known before it is
// held, so it counts without an end.
func useOfBoot(r *api.Request) quota.Use {
	out := quota.Amounts{}
	for i := range r.Groups {
		out = out.Plus(quota.Count(familyOf(r.Class, r.Groups[i].Volume), r.Groups[i].Count, r.Groups[i].Resources))
	}
	return quota.Use{Window: api.Window{End: api.Forever}, Amounts: out}
}

// checkBoot refuses a boot that is over a quota of its project.
func (s *bootsBook) checkBoot(r *api.Request) Result {
	if !bootUsesQuota(r) {
		return Result{}
	}
	ask := useOfBoot(r)
	ask.Window = r.WindowAt(s.now)
	return s.checkQuota(r.Project, ask)
}
