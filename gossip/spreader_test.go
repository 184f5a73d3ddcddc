package gossip

import (
	"context"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

// atRest returns a pool that does not run and has something to say.
func atRest(t *testing.T, own *api.Digest) *Pool {
	t.Helper()
	p, err := New(Config{
		Name: "link", Self: SyntheticName("link", "a"), Endpoints: func() []string { return nil },
		Dial:   func(context.Context, string) (net.Conn, error) { return nil, errDisk },
		Digest: func() *api.Digest { return own }, Logger: testLogger(), Now: time.Now,
	})
	require.NoError(t, err)
	return p
}

// state returns what a peer would push.
func state(t *testing.T, list ...*api.Digest) []byte {
	t.Helper()
	var all []carried
	for _, d := range list {
		raw, err := codec.Marshal(d)
		require.NoError(t, err)
		all = append(all, carried{Digest: raw})
	}
	b, err := encodeState(all)
	require.NoError(t, err)
	return b
}

// counted returns the counters of p that are not zero.
func counted(p *Pool) map[string]uint64 {
	c := p.count
	out := map[string]uint64{
		"heard": c.heard.Load(), "malformed": c.malformed.Load(), "too large": c.tooLarge.Load(), "foreign": c.foreign.Load(),
		"expired": c.expired.Load(), "unsent": c.unsent.Load(), "dropped": c.dropped.Load(), "garbage": c.garbage.Load(), "refused": c.refused.Load(),
	}
	maps.DeleteFunc(out, func(_ string, n uint64) bool { return n == 0 })
	return out
}

func TestPushedDigestsAreLimited(t *testing.T) {
	p := atRest(t, nil)
	p.spreader.MergeRemoteState(state(t, sized(t, digestMaxBytes+1)), false)
	assert.Equal(t, map[string]uint64{"too large": 1}, counted(p))
	assert.Empty(t, p.Digests())
	p.spreader.MergeRemoteState(state(t, sized(t, digestMaxBytes)), false)
	assert.Equal(t, map[string]uint64{"too large": 1, "heard": 1}, counted(p))
	assert.Len(t, p.Digests(), 1)
	p.spreader.MergeRemoteState(state(t, digestOf("z1", 6), digestOf("z2", 1), digestOf("z2", 2)), false)
	assert.Equal(t, map[string]uint64{"too large": 1, "heard": 1, "malformed": 1}, counted(p), "more than two at once")
	for _, b := range [][]byte{nil, {0}, {wireVersion + 1, 0x80}, {wireVersion}, {wireVersion, 0x9f}} {
		before := p.count.malformed.Load()
		p.spreader.MergeRemoteState(b, true)
		p.spreader.NotifyMsg(b)
		assert.Equal(t, before+2, p.count.malformed.Load(), "%x", b)
	}
}

func TestLargeDigestIsNotBroadcast(t *testing.T) {
	for size, want := range map[int]int{broadcastMaxBytes: 1, broadcastMaxBytes + 1: 0} {
		p := atRest(t, sized(t, size))
		p.spreader.sayOwn()
		assert.Len(t, p.spreader.GetBroadcasts(3, packetMaxBytes), want)
	}
}

func TestLargestStateFitsAStream(t *testing.T) {
	p := atRest(t, sized(t, digestMaxBytes))
	other := sized(t, digestMaxBytes)
	other.Zone = "z2"
	p.spreader.MergeRemoteState(state(t, other), false)
	const member = 256 // bytes that a node takes in a push/pull, generously
	assert.Less(t, len(p.spreader.LocalState(false))+nodesMax*member, streamMaxBytes)
}

func TestExpiredDigestIsCounted(t *testing.T) {
	p := atRest(t, nil)
	raw, err := encodeDigest(*digestOf("z1", 1))
	require.NoError(t, err)
	msg, err := encodeMessage(carried{AgeMS: 1 << 40, Digest: raw})
	require.NoError(t, err)
	p.spreader.NotifyMsg(msg)
	assert.Equal(t, map[string]uint64{"expired": 1}, counted(p))
}
