package state

import "berth/api"

// shareHold gives a loaded hold the texts and maps of its instances.
func (s *sagaBook) shareHold(h *Hold) {
	h.Request.Groups = s.sharedGroups(h.Request.Groups)
	s.shareMetadata(&h.Metadata)
	for n := range h.Slots {
		sl := &h.Slots[n]
		sl.Host = s.sharedHost(sl.Host)
		i, ok := s.instances.Get(string(sl.Instance.ID))
		if !ok {
			continue
		}
		shareSpec(&sl.Instance, api.InstanceSpec{ID: i.ID, Name: i.Name})
	}
}
