package state

import (
	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// countBoot counts an undecided boot, or no longer; its instances are counted when it is
// decided.
func (s *bootsBook) countBoot(b *Boot, counted bool) {
	s.count(b.Request.Project, useOfBoot(&b.Request), counted)
}

// countRecord counts the record of a boot, decided or not, or no longer.
func (s *bootsBook) countRecord(b *Boot, counted bool) {
	u := useOfRecord(&b.BootTerms)
	s.count(b.Request.Project, u, counted)
	if counted {
		s.bootTexts += u.Amounts[quota.Data]
	} else {
		s.bootTexts -= u.Amounts[quota.Data]
	}
}

func (s *bootsBook) count(p api.ProjectID, u quota.Use, counted bool) {
	if counted {
		s.addUse(p, u)
	} else {
		s.removeUse(p, u)
	}
}

// bootUsesQuota reports whether the instances of a request count: not within a lease, nor the
// room of a lease, which is counted with its record.
func bootUsesQuota(r *api.Request) bool { return !r.Reserves && r.Within == "" }

// useOfBoot returns what a boot counts until it is decided: itself, and what it asks for. When its
// lifetime begins is not known before it is held, so it counts without an end.
func useOfBoot(r *api.Request) quota.Use {
	out := quota.Amounts{quota.Boots: 1}
	if bootUsesQuota(r) {
		for i := range r.Groups {
			out = out.Plus(quota.Count(familyOf(r.Class, r.Groups[i].Volume), r.Groups[i].Count, r.Groups[i].Resources))
		}
	}
	return always(out)
}

// useOfRecord returns what the record of a boot counts until it is forgotten.
func useOfRecord(t *command.BootTerms) quota.Use {
	return always(quota.Amounts{quota.Records: 1, quota.Data: quota.DataOf(t.Metadata, t.Instances)})
}

// CheckBootQuota returns why a project may not make a boot, because of its quotas; nil if it may. A
// repeat of a boot that is there is none.
func (s *bootsBook) CheckBootQuota(t *command.BootTerms) error { return s.checkBoot(t).Err }

// checkBoot refuses a boot that is over a quota of its project.
func (s *bootsBook) checkBoot(t *command.BootTerms) Result { return s.checkBoots(t) }

// checkBoots is checkBoot for several boots of one project that are made in one entry. Only the
// first may have instances that count.
func (s *bootsBook) checkBoots(all ...*command.BootTerms) Result {
	if len(all) == 0 {
		return Result{}
	}
	r, sum := &all[0].Request, quota.Amounts{}
	for _, t := range all {
		sum = sum.Plus(useOfBoot(&t.Request).Amounts).Plus(useOfRecord(t).Amounts)
	}
	w := api.Window{Start: s.now, End: api.Forever}
	if bootUsesQuota(r) {
		w = r.WindowAt(s.now)
	}
	return s.checkQuota(r.Project, quota.Use{Window: w, Amounts: sum})
}
