package state

import (
	"encoding/binary"

	"berth/api"
)

// endKey orders instances by the end of their window.
func endKey(i *api.Instance) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(i.Window.End, 0)))) + string(i.ID) //nolint:gosec // not below 0
}

// endsByWindow reports whether the zone must end the instance when its window is over.
func endsByWindow(i *api.Instance) bool {
	return i.Host != "" && i.Window.End != api.Forever && i.Live() && i.Status != api.StatusDeleting
}

// Expired returns the own instances whose window is over and whose end nobody has requested,
// the oldest end first.
func (s *workBook) Expired(now api.Instant) []*api.Instance {
	var out []*api.Instance
	s.ends.Scan(func(k string) bool {
		i, ok := s.instances.Get(k[8:])
		if !ok || i.Window.End > now {
			return false
		}
		out = append(out, i)
		return true
	})
	return out
}

// NextExpiry returns when the next own instance must end, which may be in the past;
// api.Forever if none must.
func (s *workBook) NextExpiry() api.Instant {
	next := api.Forever
	s.ends.Scan(func(k string) bool {
		if i, ok := s.instances.Get(k[8:]); ok {
			next = i.Window.End
		}
		return false
	})
	return next
}
