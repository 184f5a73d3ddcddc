package state

import (
	"berth/api"
	"berth/internal/codec"
)

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
		if t == i.InstanceTerms || t.Equal(i.InstanceTerms) {
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

// instancesSection returns the section of instances. Since api.FormFifth a record has no terms when
// they are those of the record before: the ids of a boot follow each other, and so do its instances.
func (s *workBook) instancesSection() section {
	var last *api.InstanceTerms
	one := sectionOf("instances", s.instances.Values, func(i *api.Instance) {
		if i.InstanceTerms == nil {
			i.InstanceTerms = last
		}
		s.loadInstance(i)
		last = i.InstanceTerms
	})
	if s.form >= api.FormFifth {
		one.begin = s.beginInstances
	}
	return one
}

func (s *workBook) beginInstances() (count int, save func(codec.Encoder) error) {
	records := s.instances.Values()
	return len(records), func(e codec.Encoder) error {
		var last *api.InstanceTerms
		for _, i := range records {
			record := *i
			if last == i.InstanceTerms || last != nil && last.Equal(i.InstanceTerms) {
				record.InstanceTerms = nil
			}
			last = i.InstanceTerms
			if err := e.Encode(&record); err != nil {
				return err
			}
		}
		return nil
	}
}
