package client

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// The pauses between attempts: they double from the first up to the longest, and
// each is shortened by up to a half, so that callers do not come in step.
const (
	pauseFirst = 100 * time.Millisecond
	pauseMax   = 2 * time.Second
)

// pauses are the pauses of one call. The zero value is ready.
type pauses struct{ dice *rand.Rand }

// wait waits after a failed attempt, counted from 1, or until ctx ends; then it
// returns the error of ctx. It waits no less than least, within pauseMax.
func (p *pauses) wait(ctx context.Context, attempt int, least time.Duration) error {
	if p.dice == nil {
		var seed [16]byte
		_, _ = crand.Read(seed[:]) // never fails: crypto/rand ends the process instead
		p.dice = rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
	}
	full := min(pauseFirst<<(attempt-1), pauseMax)
	full -= time.Duration(p.dice.Int64N(int64(full/2) + 1))
	timer := time.NewTimer(max(full, min(least, pauseMax)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
