package state

import (
	"slices"
	"sort"

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

// bootUsesQuota reports whether something of a request counts: what is within a lease does not, nor
// the room of a lease, which is counted with its record.
func bootUsesQuota(r *api.Request) bool { return !r.Reserves && r.NeedsRoom() }

// useOfBoot returns what a boot counts until it is decided: itself, and what it asks for. When its
// lifetime begins is not known before it is held, so it counts without an end.
func useOfBoot(r *api.Request) quota.Use {
	out := quota.Amounts{quota.Boots: 1}
	for i := range r.Groups {
		if !r.Reserves && r.WithinOf(i) == "" {
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

// CutToQuota returns a boot with as many instances as the quotas of its project allow, if that is fewer than it asks for
// and at least its minimum: of each group in turn, a group of instances with the volumes that they get. Otherwise the
// boot stays as it is. What is cut is checked again in the entry, as any boot is.
func (s *bootsBook) CutToQuota(t command.BootTerms) command.BootTerms {
	r := &t.Request
	over := s.overQuota(&t)
	if over == nil || s.Form() < api.FormFifth || t.Fixed || r.Count() == t.Min {
		return t
	}
	most := make([]int, len(r.Groups))
	counts := make([]int, len(r.Groups))
	for g := range r.Groups {
		most[g], counts[g] = r.Groups[g].Count, r.Groups[g].Min
	}
	if s.overQuota(withCounts(&t, counts)) != nil {
		return t
	}
	for g := range counts {
		together := attachedTo(r, g)
		least := counts[g]
		set := func(n int) []int {
			next := slices.Clone(counts)
			for _, o := range together {
				next[o] = n
			}
			return next
		}
		more := sort.Search(most[g]-least, func(n int) bool { return s.overQuota(withCounts(&t, set(least+n+1))) != nil })
		counts = set(least + more)
	}
	cut := withCounts(&t, counts)
	if cut.Request.Count() < max(t.Min, 1) || cut.Request.Validate() != nil {
		return t
	}
	cut.Cut = &command.QuotaCut{Asked: r.Count(), Item: string(over.Item)}
	return *cut
}

// attachedTo returns a group and those of volumes that its instances get, one each.
func attachedTo(r *api.Request, group int) []int {
	out := []int{group}
	for g := range r.Groups {
		if to := r.Groups[g].AttachTo; to != "" && (to == r.Groups[group].Name || g != group && to == r.Groups[group].AttachTo) {
			out = append(out, g)
		}
	}
	for g := range r.Groups {
		if to := r.Groups[group].AttachTo; to != "" && r.Groups[g].Name == to {
			out = append(out, g)
		}
	}
	return out
}

// withCounts returns a boot with other counts of its groups, and of the instances that were allotted the first ones.
func withCounts(t *command.BootTerms, counts []int) *command.BootTerms {
	out := *t
	out.Request.Groups, out.Instances = slices.Clone(t.Request.Groups), nil
	at := 0
	for g := range out.Request.Groups {
		out.Instances = append(out.Instances, t.Instances[at:at+counts[g]]...)
		at += t.Request.Groups[g].Count
		out.Request.Groups[g].Count = counts[g]
	}
	return &out
}

// overQuota returns the quota that a boot is over, nil for none.
func (s *bootsBook) overQuota(t *command.BootTerms) *quota.Refusal {
	if !bootUsesQuota(&t.Request) {
		return nil
	}
	w := t.Request.WindowAt(s.now)
	w.Start = max(w.Start, s.now)
	ask := quota.Use{Window: w, Amounts: useOfBoot(&t.Request).Amounts.Plus(useOfRecord(t).Amounts)}
	return quota.Check(s.Usage(t.Request.Project), s.LimitsOf(t.Request.Project), &ask, 0)
}
