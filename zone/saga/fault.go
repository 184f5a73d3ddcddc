package saga

import (
	"context"

	"berth/api"
)

// tellEarly is a fault: it tells children what is not decided.
func (s *Saga) tellEarly(ctx context.Context, o owner, d api.Decision) {
	v := s.zone.View()
	w, ok := o.find(v)
	if !ok {
		return
	}
	for _, id := range w.holds {
		h, _ := v.Hold("", id)
		for _, p := range h.Parts {
			if link, ok := v.Link(p.Link); ok {
				_, _ = s.peers.Decide(ctx, link, h.ID, d) // a fault need not be thorough
			}
		}
	}
}
