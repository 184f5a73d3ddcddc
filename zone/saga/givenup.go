package saga

import (
	"context"
	"sync"
	"time"

	"berth/api"
)

// Boots that are given up have at most givenUpMax lines of the log in givenUpEvery, whoever asks for them.
const (
	givenUpMax   = 60
	givenUpEvery = time.Minute
)

// givenUp counts the lines about boots that were given up.
type givenUp struct {
	mu         sync.Mutex // guards what follows
	since      api.Instant
	lines      int
	suppressed int // since then
}

// takeLine reports whether there is a line at now, and how many there were not before it.
func (g *givenUp) takeLine(now api.Instant) (suppressed int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since == 0 || now >= g.since.Add(givenUpEvery) {
		g.since, g.lines = now, 0
		suppressed, g.suppressed = g.suppressed, 0
	}
	if g.lines == givenUpMax {
		g.suppressed++
		return 0, false
	}
	g.lines++
	return suppressed, true
}

// noteGivenUp logs that a boot of this zone was given up. The log adds the id of its call.
func (s *Saga) noteGivenUp(ctx context.Context, o bootOwner, why cause) {
	suppressed, ok := s.givenUp.takeLine(s.zone.Instant())
	if !ok {
		return
	}
	attrs := []any{"reservation", o.reservation, "project", o.project, "code", why.code, "reason", why.text}
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	s.zone.Log().InfoContext(ctx, "boot was given up", attrs...)
}
