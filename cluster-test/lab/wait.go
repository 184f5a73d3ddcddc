package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/await"
)

// errNot is why a wait goes on that has no better reason.
var errNot = errors.New("not yet")

// Pass gives what a test has done a while to act, or the rest of ctx if that is shorter. Nothing may be
// concluded from how much has come of it: for what must come, tests wait with await.
func Pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// awaitTrue is await.Wait for a condition, of what has no test.
func awaitTrue(is func() bool) error {
	return await.Wait(context.Background(), func(context.Context) error {
		if is() {
			return nil
		}
		return errNot
	})
}

// OrElse returns err, or an error with this text if there is none.
func OrElse(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}
