package estimate

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/turns"
)

// Limits of the selects that a node answers for parents.
const (
	selectsAtOnce = 64                     // of all parents together
	selectsLeast  = 4                      // of them, however short processors are
	selectLasts   = 100 * time.Millisecond // after which a select waits for zones below, unless processors are short
	selectWaits   = 2                      // it waits for its turn for one part in so many of its time: the rest is for the work
)

// newSelects returns the turns of selects for parents.
func newSelects(c *Config) *turns.Turns {
	return turns.New(turns.Config{AtOnce: selectsAtOnce, Least: selectsLeast, Lasts: selectLasts, Keep: true, Share: c.Share, Now: c.Zone.Now})
}

// takeTurn waits for the turn of a select for a parent, as long as it can still be answered in time. One that cannot is
// refused before anything is planned for it, so that the others are answered. Parents have their turns one after the other;
// a call of this zone, whose peer is "", has had its turn.
func (e *Estimator) takeTurn(ctx context.Context, peer api.ZoneID) (*turns.Turn, error) {
	if peer == "" {
		return nil, nil //nolint:nilnil // it needs none
	}
	wait := api.SelectTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = deadline.Sub(e.zone.Now())
	}
	ctx, stop := context.WithTimeout(ctx, wait/selectWaits)
	defer stop()
	turn, ok := e.selects.Take(ctx, turns.Queue{Party: string(peer)})
	if !ok {
		return nil, api.Errorf(api.CodeOverloaded, "the zone has more to plan than it can in time")
	}
	return turn, nil
}
