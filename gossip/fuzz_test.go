package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// sent is a connection on which a peer has sent one message and waits for no answer.
type sent struct {
	net.Conn
	from *bytes.Reader
}

func (s *sent) Read(b []byte) (int, error) { return s.from.Read(b) }

// FuzzMembers hands whatever passes the guard to memberlist and so to the delegate, as packets and
// as streams: nothing panics, and the lists of members and digests stay within their limits.
func FuzzMembers(f *testing.F) {
	raw, err := encodeDigest(*digestOf("z1", 1))
	require.NoError(f, err)
	message, err := encodeMessage(carried{AgeMS: 1, Digest: raw})
	require.NoError(f, err)
	state, err := encodeState([]carried{{AgeMS: 1, Digest: raw}})
	require.NoError(f, err)
	user := append([]byte{msgUser}, message...)
	sum := func(b []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{msgChecksum}, crc32.ChecksumIEEE(b)), b...)
	}
	// A map of MessagePack: what a peer says of a third.
	alive := append([]byte{msgAlive, 0x84}, "\xabIncarnation\x01\xa4Node\xa1x\xa4Addr\xa4\x0a\x00\x00\x01\xa3Vsn\xa6\x01\x05\x05\x01\x01\x01"...)
	dead := append([]byte{msgDead, 0x83}, "\xabIncarnation\x01\xa4Node\xa1x\xa4From\xa1y"...)
	ping := append([]byte{msgPing, 0x82}, "\xa5SeqNo\x01\xa4Node\xa1x"...)
	for _, b := range [][]byte{user, sum(user), alive, sum(alive), dead, ping, compound(ping, user), sum(compound(alive, dead, user))} {
		f.Add(false, b)
	}
	f.Add(true, ping)
	f.Add(true, head([]byte{0}, binary.BigEndian.AppendUint16([]byte{0xcd}, uint16(len(state)))))                                   //nolint:gosec // a few hundred bytes
	f.Add(true, append(head([]byte{0}, append([]byte{0xcd}, binary.BigEndian.AppendUint16(nil, uint16(len(state)))...)), state...)) //nolint:gosec // a few hundred bytes
	f.Fuzz(func(t *testing.T, streams bool, b []byte) {
		if len(b) > 1<<13 || !streams && checkPacket(b) != nil || streams && checkStream(b) != nil {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{
				Name: "zone", Self: SyntheticName("zone", "z1", "n1"), Endpoints: func() []string { return nil },
				Dial:   func(context.Context, string) (net.Conn, error) { return nil, errUnreachable },
				Digest: func() *api.Digest { return nil }, Peers: &memory{}, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Drain: true,
			}
			p, err := New(cfg)
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				assert.NoError(t, p.Run(ctx))
			}()
			synctest.Wait()
			tr := p.transport.Load()
			if streams {
				near, far := net.Pipe()
				tr.streams <- &sent{near, bytes.NewReader(b)}
				_ = far.Close() // nobody reads the answer
			} else {
				tr.packets <- &memberlist.Packet{Buf: bytes.Clone(b), From: address(SyntheticName("zone", "z1", "n2")), Timestamp: time.Now()}
			}
			synctest.Wait()
			assert.LessOrEqual(t, len(p.Members()), membersMax)
			assert.LessOrEqual(t, len(p.spreader.heldDigests()), DigestsMax)
			stop()
			<-done
		})
	})
}
