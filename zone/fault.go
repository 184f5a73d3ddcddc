package zone

import (
	"context"

	"berth/api"
	"berth/raftstore/state"
)

// tellEarly is a fault: it tells children what is not decided.
func (z *Zone) tellEarly(ctx context.Context, b *state.Boot, d api.Decision) {
	v := z.store.View()
	now, _ := v.Boot(b.Request.Project, b.Request.Reservation)
	for _, id := range now.Holds {
		h, _ := v.Hold("", id)
		for _, p := range h.Parts {
			if link, ok := v.Link(p.Link); ok {
				_, _ = z.peers.Decide(ctx, link, h.ID, d) // a fault need not be thorough
			}
		}
	}
}
