//go:build chaos

package chaos

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
)

// adminProject is the project of a zone's admin.
const adminProject api.ProjectID = "admin"

// repeatedAfter is how long a call takes at least that may have been sent twice: then what was sent first may
// still be carried out after the answer.
const repeatedAfter = time.Second

// ackLog is the answers to clients that change something, for check.Acks.
type ackLog struct {
	began time.Time

	mu    sync.Mutex // guards what follows
	acks  []check.Ack
	again []check.Ack // what may have an effect after its answer
}

func newAckLog() *ackLog { return &ackLog{began: time.Now()} }

func (l *ackLog) now() int64 { return int64(time.Since(l.began)) }

// add notes an answer to a call that was made at a time. A call that may have been sent twice may also have an
// effect later, and is noted as one of unknown outcome as well.
func (l *ackLog) add(k check.Ack, called int64, tries int, err error) {
	k.Call, k.Return, k.Outcome, k.Code = called, l.now(), check.OutcomeOf(err), api.CodeOf(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, k)
	if k.Outcome == check.OK && (tries > 1 || time.Duration(k.Return-k.Call) > repeatedAfter) {
		k.Outcome = check.Unknown
		l.again = append(l.again, k)
	}
}

// end counts the answers, and returns all that was noted.
func (l *ackLog) end() []check.Ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums.acks(l.acks)
	return slices.Concat(l.acks, l.again)
}

// do makes a call at a zone as its administrator, and notes the answer. f fills in what only the answer tells.
func (l *ackLog) do(ctx context.Context, z *lab.Zone, k check.Ack, f func(ctx context.Context, c *client.Client, k *check.Ack) error) error {
	k.Zone = z.Name
	called, tries := l.now(), 0
	err := do(ctx, z, func(ctx context.Context, c *client.Client) error {
		tries++
		return f(ctx, c, &k)
	})
	l.add(k, called, tries, err)
	return err
}
