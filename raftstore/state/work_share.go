package state

import "berth/api"

// termsKey names the hold that made an instance.
type termsKey struct {
	origin api.LinkID
	hold   api.HoldID
}

// termsSearched is how many terms of one hold are searched for equal ones. More than there are
// groups differ only where slots are whole hosts, or were changed one by one.
const termsSearched = 16

// shareLoaded gives a loaded instance the terms of others that were loaded before.
func (s *workBook) shareLoaded(i *api.Instance) {
	i.Complete()
	i.Status, i.Host, i.Link = sharedStatus(i.Status), s.sharedHost(i.Host), s.sharedLink(i.Link)
	k := termsKey{i.Origin, i.Hold}
	known := s.loading[k]
	for _, t := range known[:min(len(known), termsSearched)] {
		if t.Equal(i.InstanceTerms) {
			i.InstanceTerms = t
			return
		}
	}
	if s.loading == nil {
		s.loading = map[termsKey][]*api.InstanceTerms{}
	}
	s.shareTerms(i.InstanceTerms)
	s.loading[k] = append(known, i.InstanceTerms)
}
