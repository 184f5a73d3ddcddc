package state

import "berth/api"

// shareHold gives a loaded hold the texts and maps of its instances.
func (s *sagaBook) shareHold(h *Hold) {
	for n := range h.Slots {
		sl := &h.Slots[n]
		sl.Host = s.sharedHost(sl.Host)
		i, ok := s.instances.Get(string(sl.Instance.ID))
		if !ok {
			continue
		}
		shareSpec(&sl.Instance, api.InstanceSpec{ID: i.ID, Name: i.Name})
		shareMap(&h.Metadata, i.Metadata)
		if g := sl.Group; g >= 0 && g < len(h.Request.Groups) {
			shareMap(&h.Request.Groups[g].Resources, i.Resources)
		}
	}
}
