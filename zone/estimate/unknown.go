package estimate

import "sync"

// unknown is what of the zone's configuration this node does not know, because it is older than the
// configuration. The zero unknown is ready to use.
type unknown struct {
	mu   sync.Mutex
	last map[string]string // by part of the configuration, the sentence that was logged last
}

// isNew reports whether a sentence about a part is not the one that was logged last.
func (u *unknown) isNew(part, sentence string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last[part] == sentence {
		return false
	}
	if u.last == nil {
		u.last = map[string]string{}
	}
	u.last[part] = sentence
	return true
}

// noteUnknown logs that this node does not know a part of the configuration. Every call meets it, and it is
// about none of them: it is logged once.
func (e *Estimator) noteUnknown(part string, err error) {
	if e.unknown.isNew(part, err.Error()) {
		e.zone.Log().Error("a part of the configuration is unknown here", "part", part, "error", err)
	}
}
