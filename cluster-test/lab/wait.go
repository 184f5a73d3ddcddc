package lab

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Time limits on a busy machine.
const (
	StartTimeout  = 20 * time.Second
	SettleTimeout = 30 * time.Second
)

// Limits of waiting.
const (
	pollEvery = 40 * time.Millisecond // between two looks
	lookMax   = 10 * time.Second      // of one look
)

// Await calls f until it returns nil, and returns its last error if that takes longer than
// d. Each call of f has the rest of d, at most 10 s.
func Await(ctx context.Context, d time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		one, stop := context.WithTimeout(ctx, lookMax)
		err := f(one)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", d, err)
		}
	}
}

// Within is Await for a condition that must become true.
func Within(t *testing.T, d time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	require.NoError(t, Await(t.Context(), d, f), what)
}

// Pass lets a moment pass, or the rest of ctx if that is shorter.
func Pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// OrElse returns err, or an error with this text if there is none.
func OrElse(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}
