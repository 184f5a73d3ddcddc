package client

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"berth/internal/backoff"
)

// The pauses between attempts: they double from the first up to the longest, and each is
// shortened by up to a half, so that callers do not retry in step.
const (
	pauseFirst = 100 * time.Millisecond
	pauseMax   = 2 * time.Second
)

// pauses are the pauses of one call. The zero value is ready.
type pauses struct{ dice *rand.Rand }

// waitAfter waits after a failed attempt, counted from 1, or until ctx ends; then it
// returns the error of ctx. It waits at least for least, within pauseMax.
func (p *pauses) waitAfter(ctx context.Context, attempt int, least time.Duration) error {
	if p.dice == nil {
		var seed [16]byte
		_, _ = crand.Read(seed[:]) // never fails: crypto/rand ends the process instead
		p.dice = rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
	}
	full := backoff.Jitter(backoff.Double(pauseFirst, pauseMax, attempt-1), p.dice.Float64())
	if !backoff.Sleep(ctx, max(full, min(least, pauseMax))) {
		return ctx.Err()
	}
	return nil
}
