package gossip

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"berth/api"
)

// digestSpreader sends and receives digests: it is memberlist's delegate. memberlist
// calls it from many goroutines.
type digestSpreader struct {
	own   func() *api.Digest
	now   func() time.Time
	log   *slog.Logger
	count *counters
	queue *memberlist.TransmitLimitedQueue // has a lock of its own

	mu    sync.Mutex // guards what follows
	table table
	mute  bool // the last own digest could not be sent, and that was logged
}

var _ memberlist.Delegate = (*digestSpreader)(nil)

// NodeMeta returns only the version.
func (v *digestSpreader) NodeMeta(int) []byte { return []byte{wireVersion} }

// GetBroadcasts returns digests that still have to be spread.
func (v *digestSpreader) GetBroadcasts(overhead, limit int) [][]byte {
	return v.queue.GetBroadcasts(overhead, limit)
}

// LocalState returns the digests that a push/pull carries.
func (v *digestSpreader) LocalState(bool) []byte {
	v.sayOwn()
	v.mu.Lock()
	list := v.table.carriedDigests(v.now())
	v.mu.Unlock()
	b, err := encodeState(list)
	if err != nil {
		v.log.Error("encoding digests failed", "err", err)
		return nil
	}
	return b
}

// MergeRemoteState handles the digests of a push/pull.
func (v *digestSpreader) MergeRemoteState(b []byte, _ bool) {
	list, err := decodeState(b)
	if err != nil || len(list) > DigestsMax {
		v.count.malformed.Add(1)
		return
	}
	for _, c := range list {
		v.hearDigest(c)
	}
}

// NotifyMsg handles a broadcast digest.
func (v *digestSpreader) NotifyMsg(b []byte) {
	c, err := decodeMessage(slices.Clone(b)) // memberlist may reuse b
	if err != nil {
		v.count.malformed.Add(1)
		return
	}
	v.hearDigest(c)
}

// sayOwn stores this zone's own digest and spreads it if it is new.
func (v *digestSpreader) sayOwn() {
	own := v.own()
	if own == nil {
		return
	}
	d := trimDigest(*own)
	raw, err := encodeDigest(d)
	v.mu.Lock()
	logged := v.mute
	v.mute = err != nil
	v.mu.Unlock()
	if err != nil {
		v.count.unsent.Add(1)
		if !logged {
			v.log.Warn("own digest is not spread", "err", err)
		}
		return
	}
	now := v.now()
	h := held{Heard: Heard{Digest: d, At: now}, raw: raw}
	v.mu.Lock()
	got := v.table.offerDigest(h, now)
	v.mu.Unlock()
	if got == verdictNewer {
		v.spreadDigest(h, now)
	}
}

// hearDigest stores a digest from a peer, and passes it on if it is newer than the one
// held before.
func (v *digestSpreader) hearDigest(c carried) {
	now := v.now()
	h, err := c.openDigest(v.table.ttl, now)
	switch {
	case errors.Is(err, errTooLarge):
		v.count.tooLarge.Add(1)
		return
	case err != nil:
		v.count.malformed.Add(1)
		return
	}
	v.mu.Lock()
	got := v.table.offerDigest(h, now)
	v.mu.Unlock()
	switch got {
	case verdictNewer:
		v.count.heard.Add(1)
		v.spreadDigest(h, now)
	case verdictForeign:
		v.count.foreign.Add(1)
	case verdictExpired:
		v.count.expired.Add(1)
	case verdictKnown:
	}
}

// spreadDigest queues a digest for broadcast unless it is too large for that. The
// queue holds one message per zone: a newer one takes the place of an older.
func (v *digestSpreader) spreadDigest(h held, now time.Time) {
	if len(h.raw) > broadcastMaxBytes {
		return
	}
	age := uint64(max(0, now.Sub(h.At).Milliseconds())) // not negative
	msg, err := encodeMessage(carried{AgeMS: age, Digest: h.raw})
	if err != nil {
		v.log.Error("encoding a digest failed", "err", err)
		return
	}
	v.queue.QueueBroadcast(broadcast{zone: h.Digest.Zone, msg: msg})
}

// repeatOwn sends the own digest every period until ctx ends.
func (v *digestSpreader) repeatOwn(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		v.sayOwn()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// heldDigests returns the held digests.
func (v *digestSpreader) heldDigests() map[api.ZoneID]Heard {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make(map[api.ZoneID]Heard, len(v.table.held))
	for zone, h := range v.table.held {
		all[zone] = h.Heard
	}
	return all
}

// broadcast is a queued digest.
type broadcast struct {
	zone api.ZoneID
	msg  []byte
}

var _ memberlist.NamedBroadcast = broadcast{}

// Name returns the zone: the queue keeps one message of each.
func (b broadcast) Name() string { return string(b.zone) }

// Message returns the encoded digest.
func (b broadcast) Message() []byte { return b.msg }

// Finished does nothing.
func (b broadcast) Finished() {}

// Invalidates reports whether o is an older digest of the same zone.
func (b broadcast) Invalidates(o memberlist.Broadcast) bool {
	older, ok := o.(broadcast)
	return ok && older.zone == b.zone
}
