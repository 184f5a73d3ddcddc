package state

import (
	"encoding/binary"

	"berth/api"
)

// endKey orders instances by the end of their window.
func endKey(i *api.Instance) string { return timeKey(i.Window.End) + string(i.ID) }

// beginKey orders slots by the start of their window.
func beginKey(i *api.Instance) string { return timeKey(i.Window.Start) + string(i.ID) }

// timeKey orders keys by time.
func timeKey(at api.Instant) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(at, 0)))) //nolint:gosec // not below 0
}

// endsByWindow reports whether something is left to do when the window of an instance is
// over.
func endsByWindow(i *api.Instance) bool {
	return i.Host != "" && i.Window.End != api.Forever && i.Live() && !i.Overdue
}

// Expired returns the own instances whose window is over and whose end nobody has requested,
// the oldest end first. Before api.FormFourth somebody must request it.
func (s *workBook) Expired(now api.Instant) []*api.Instance {
	var out []*api.Instance
	s.ends.Scan(func(k string) bool {
		i, ok := s.instances.Get(k[8:])
		if !ok || i.Window.End > now {
			return false
		}
		if i.Status != api.StatusDeleting {
			out = append(out, i)
		}
		return true
	})
	return out
}

// NextExpiry returns when the next of those that Expired returns is over, which may be in the
// past; api.Forever for none.
func (s *workBook) NextExpiry() api.Instant {
	next := api.Forever
	s.ends.Scan(func(k string) bool {
		i, ok := s.instances.Get(k[8:])
		if !ok || i.Status == api.StatusDeleting {
			return true
		}
		next = i.Window.End
		return false
	})
	return next
}
