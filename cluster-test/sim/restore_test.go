package sim

import (
	"bytes"
	"context"
	"time"

	"berth/api/client"
	"berth/internal/await"
	"berth/internal/crash"
)

// backup saves the state of the zone.
func (z *zone) backup() *bytes.Buffer {
	z.w.t.Helper()
	var b bytes.Buffer
	z.insist("snapshot", func(ctx context.Context, c *client.Client) error {
		b.Reset()
		_, err := c.Snapshot(ctx, &b)
		return err
	})
	return &b
}

// restore puts a zone back to what it is just then, while things go wrong. Clients
// rest meanwhile: what a zone acknowledges between a backup and its restore is lost,
// and no promise is broken by that.
func (w *world) restore() {
	w.resting = true
	defer func() { w.resting = false }()
	w.heal()
	w.settle()
	w.endLives()
	z := w.anyZone()
	b := z.backup()
	if w.dice.IntN(2) == 0 {
		w.endInRestore(z)
	}
	for range w.dice.IntN(3) {
		w.disturb()
	}
	z.call("restore", z.nodes[w.dice.IntN(len(z.nodes))], func(ctx context.Context, c *client.Client) error {
		return c.Restore(ctx, b)
	})
	await.Sleep(time.Duration(w.dice.IntN(20_000)) * time.Millisecond)
	w.heal()
	w.settle()
	w.check()
}

// endInRestore ends one node of a zone, whichever is first, when it takes up a
// backup.
func (w *world) endInRestore(z *zone) {
	at, d, s := crash.RestoreLoading, w.lasts(), &shot{left: 1}
	if w.dice.IntN(2) == 0 {
		at = crash.RestoreLoaded
	}
	for _, p := range z.nodes {
		p.bomb.arm(at, 1, func() {
			s.hit(func() {
				w.tally.fault("killed at " + string(at))
				p.down(d)
			})
		})
	}
}
