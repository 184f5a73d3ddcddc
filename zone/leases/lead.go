package leases

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/raftstore/command"
)

// Times of the leader's loop.
const (
	lookEvery  = 2 * time.Second        // for a change of the zone's form or clock
	retryPause = 200 * time.Millisecond // after a tick that failed or left something due
)

// Lead moves the zone's time on whenever something is due and no other entry does it, and has leases give
// back the room that a silent zone was not told of. It returns when ctx ends.
func (l *Leases) Lead(ctx context.Context) {
	var looked api.Instant
	for ctx.Err() == nil {
		v := l.zone.View()
		if now := l.zone.Instant(); now >= looked.Add(trimEvery) {
			looked = now
			l.trimLeases(ctx, v)
		}
		wait := time.Duration(v.NextDue()-l.zone.Instant()) * time.Millisecond
		switch {
		case v.NextDue() == api.Forever || l.zone.Form() < api.FormFourth || wait > lookEvery:
			wait = lookEvery
		case wait <= 0:
			if err := l.tick(ctx); err != nil || l.zone.View().NextDue() <= l.zone.Instant() {
				backoff.Sleep(ctx, retryPause)
			}
			continue
		}
		timed, cancel := context.WithTimeout(ctx, wait)
		_, _ = l.zone.Store().Wait(timed, v.Index()) // an entry or the end of the wait: look again either way
		cancel()
	}
}

func (l *Leases) tick(ctx context.Context) error {
	_, err := l.zone.Propose(ctx, command.Tick{Stamp: l.zone.Stamp()})
	return err
}
