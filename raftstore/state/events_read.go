package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sort"

	"berth/api"
)

// eventHistory is the history that the events of a zone belong to. A backup that replaces
// the state begins another one: the log goes on with indexes that may have been used before.
type eventHistory struct {
	Name  string      `cbor:"1,keyasint,omitempty"` // "" until the first backup
	Whole api.EventID `cbor:"2,keyasint,omitzero"`  // all events after it are kept

	Since uint64 `cbor:"3,keyasint,omitempty" form:"5"` // index of the entry with which it began; 0 for the first one
}

// historyNameBytes is the part of a checksum that names a history.
const historyNameBytes = 4

func (s *eventsBook) historyRecord() []*eventHistory {
	if s.history == nil {
		return nil
	}
	return []*eventHistory{s.history}
}

// beginHistory begins the first history once all nodes read it. Of events that were dropped
// before that nothing is known.
func (s *eventsBook) beginHistory() {
	if s.history != nil || s.form < api.FormFourth {
		return
	}
	s.history = &eventHistory{}
	if all := s.events.Values(); len(all) > 0 {
		s.history.Whole = api.EventID{Index: all[0].Index, Number: all[0].Number}
	}
}

// BeginNewHistory drops the events of a backup that has just replaced the state, and whose
// checksum is sum: they are of another stretch of the log, and what followed them is undone.
// Only the one goroutine that applies commands may call it.
func (s *eventsBook) BeginNewHistory(sum []byte) {
	if s.form < api.FormFourth {
		return
	}
	h := sha256.New()
	h.Write(sum) // a hash never fails
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.index), sortableInstant(s.now)))
	s.history = &eventHistory{Name: hex.EncodeToString(h.Sum(nil)[:historyNameBytes])}
	if s.form >= api.FormFifth {
		s.history.Since = s.index
	}
	s.events.Init()
}

// Restored returns the log index at which a backup last replaced the state, in any incarnation of the zone; 0 for never. It only grows.
func (s *eventsBook) Restored() uint64 {
	if s.history == nil {
		return 0
	}
	return s.history.Since
}

// historyName returns the name of the present history.
func (s *eventsBook) historyName() string {
	if s.history == nil {
		return ""
	}
	return s.history.Name
}

// EventID returns the id of one of the events.
func (s *eventsBook) EventID(e *Event) api.EventID {
	return api.EventID{Index: e.Index, Number: e.Number + 1, History: s.historyName()}
}

// EventsEnd returns the position after all events so far.
func (s *eventsBook) EventsEnd() api.EventID {
	if all := s.events.Values(); len(all) > 0 && all[len(all)-1].Index == s.index {
		return s.EventID(all[len(all)-1])
	}
	return api.EventID{Index: s.index, History: s.historyName()}
}

// EventsBegin returns the position from which all events are kept.
func (s *eventsBook) EventsBegin() api.EventID {
	begin := api.EventID{History: s.historyName()}
	switch all := s.events.Values(); {
	case s.history != nil:
		begin.Index, begin.Number = s.history.Whole.Index, s.history.Whole.Number
	case len(all) > 0:
		begin.Index, begin.Number = all[0].Index, all[0].Number
	}
	return begin
}

// Events returns at most limit of the events after a position, in order. whole is false if
// some events after it may have been dropped, or if a backup has replaced the state since:
// then the events are those that are kept, from the oldest on.
func (s *eventsBook) Events(after api.EventID, limit int) (list []*Event, whole bool) {
	begin := s.EventsBegin()
	if whole = after.History == begin.History && !begin.After(after); !whole {
		after = begin
	}
	all := s.events.Values()
	first := sort.Search(len(all), func(i int) bool { return s.EventID(all[i]).After(after) })
	end := first + min(limit, len(all)-first)
	return all[first:end:end], whole
}
