package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFramesAreLimited(t *testing.T) {
	for size, ok := range map[int]bool{0: false, 1: true, frameMaxBytes: true, frameMaxBytes + 1: false} {
		var b bytes.Buffer
		err := writeFrame(&b, make([]byte, size), frameMaxBytes)
		assert.Equal(t, ok, err == nil, "writing %d", size)
		b.Reset()
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(size)))
		b.Write(make([]byte, size))
		got, err := readFrame(&b, frameMaxBytes)
		assert.Equal(t, ok, err == nil, "reading %d", size)
		if ok {
			assert.Len(t, got, size)
		} else {
			require.ErrorIs(t, err, errFrameSize)
		}
	}
	_, err := readFrame(bytes.NewReader(nil), frameMaxBytes)
	assert.Equal(t, io.EOF, err)
	_, err = readFrame(bytes.NewReader([]byte{0, 0, 0, 9, 1}), frameMaxBytes)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// compound packs messages as memberlist does.
func compound(parts ...[]byte) []byte {
	b := []byte{msgCompound, byte(len(parts))}
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	}
	return append(b, bytes.Join(parts, nil)...)
}

func TestGuardOfPackets(t *testing.T) {
	ping, squeezed := []byte{msgPing, 0x80}, []byte{9, 0x80}
	sum := func(b []byte) []byte { return append([]byte{msgChecksum, 1, 2, 3, 4}, b...) }
	cases := []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"ping", ping, true},
		{"user", []byte{msgUser}, true},
		{"checksum", sum(ping), true},
		{"checksum of nothing", sum(nil), false},
		{"checksum twice", sum(sum(ping)), false},
		{"compound", compound(ping, ping), true},
		{"compound of none", compound(), true},
		{"compound at the depth", compound(compound(ping)), true},
		{"compound beyond the depth", compound(compound(compound(ping))), false},
		{"compound of an empty one", compound(ping, nil), false},
		{"compound cut short", compound(ping, ping)[:7], false},
		{"compound without lengths", []byte{msgCompound, 3, 0}, false},
		{"compound without count", []byte{msgCompound}, false},
		{"compressed", squeezed, false},
		{"compressed within", sum(compound(ping, squeezed)), false},
		{"encrypted", []byte{10, 1}, false},
		{"labelled", []byte{244, 1, 'x', 0}, false},
		{"push/pull", []byte{msgPushPull, 0x83}, false},
		{"empty", nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.ok, checkPacket(c.b) == nil) })
	}
}

// head is the head of a push/pull.
func head(nodes, state []byte) []byte {
	b := append([]byte{msgPushPull, 0x83, 0xa5}, "Nodes"...)
	b = append(append(b, nodes...), 0xac)
	b = append(append(append(b, "UserStateLen"...), state...), 0xa4)
	return append(append(b, "Join"...), 0xc3)
}

func TestGuardOfStreams(t *testing.T) {
	cases := []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"ping", []byte{msgPing}, true},
		{"ack", []byte{msgAck}, true},
		{"error", []byte{msgError}, true},
		{"push/pull", head([]byte{2}, []byte{0}), true},
		{"nodes at the limit", head([]byte{0xd1, 0, nodesMax}, []byte{0}), true},
		{"nodes above the limit", head([]byte{0xd1, 0, nodesMax + 1}, []byte{0}), false},
		{"nodes by the million", head([]byte{0xce, 0, 0x10, 0, 0}, []byte{0}), false},
		{"nodes below zero", head([]byte{0xd0, 0x80}, []byte{0}), false},
		{"nodes in eight bytes", head([]byte{0xcf, 0, 0, 0, 0, 0, 0, 0, 1}, []byte{0}), true},
		{"state longer than what follows", head([]byte{1}, []byte{0xcd, 1, 0}), false},
		{"negative fixint", head([]byte{0xff}, []byte{0}), false},
		{"no number", head([]byte{0xa0}, []byte{0}), false},
		{"a key twice", bytes.Replace(head([]byte{1}, []byte{0}), []byte("\xacUserStateLen"), []byte("\xa5Nodes"), 1), false},
		{"an unknown key", bytes.Replace(head([]byte{1}, []byte{0}), []byte("Join"), []byte("Bomb"), 1), false},
		{"four keys", bytes.Replace(head([]byte{1}, []byte{0}), []byte{0x83}, []byte{0x84}, 1), false},
		{"cut short", head([]byte{1}, []byte{0})[:5], false},
		{"no head", []byte{msgPushPull}, false},
		{"user", []byte{msgUser}, false},
		{"compressed", []byte{9}, false},
		{"empty", nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.ok, checkStream(c.b) == nil) })
	}
}

func FuzzGuard(f *testing.F) {
	f.Add(compound([]byte{msgPing, 0x80}))
	f.Add(head([]byte{0xd1, 0, 9}, []byte{0}))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = checkPacket(b) // must not panic
		_ = checkStream(b)
	})
}

func TestStreamHidesWhatIsUnder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		released := 0
		s := &stream{conn: near, local: address(SyntheticName("a")), remote: address(SyntheticName("b")), release: func() { released++ }}
		require.NoError(t, s.SetWriteDeadline(time.Now().Add(time.Minute)))
		require.NoError(t, s.SetReadDeadline(time.Now().Add(time.Minute)))
		go func() {
			_, _ = readFrame(far, streamMaxBytes)
			_ = writeFrame(far, []byte{msgAck, 7}, streamMaxBytes)
		}()
		n, err := s.Write(make([]byte, streamMaxBytes))
		require.NoError(t, err)
		assert.Equal(t, streamMaxBytes, n)
		_, err = s.Write(make([]byte, streamMaxBytes+1))
		assert.Equal(t, errFrameSize, err)
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		assert.Equal(t, []byte{msgAck, 7}, got)
		assert.Contains(t, s.LocalAddr().String(), "2001:db8:")
		assert.Contains(t, s.RemoteAddr().String(), "2001:db8:")
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		assert.Equal(t, 1, released)
		_, err = s.Write([]byte{1})
		assert.Equal(t, errBroken, err)
	})
}

func TestTame(t *testing.T) {
	op := func(err error) error {
		return &net.OpError{Op: "read", Net: "tcp", Addr: endpointAddr("10.0.0.1:1"), Err: err}
	}
	for _, c := range []struct{ in, want error }{
		{nil, nil},
		{io.EOF, io.EOF},
		{op(os.ErrDeadlineExceeded), os.ErrDeadlineExceeded},
		{op(os.ErrClosed), errBroken},
		{errors.Join(errFrameSize, errDisk), errFrameSize},
		{errRefused, errRefused},
	} {
		assert.Equal(t, c.want, hideAddress(c.in))
	}
}

func TestTransportWantsNames(t *testing.T) {
	tr := newTransport(t.Context(), &Config{Now: time.Now}, newAddressBook("", time.Now, ZoneTuning()), func(string) bool { return true }, &counters{})
	t.Cleanup(func() { _ = tr.Shutdown() })
	name := SyntheticName("a")
	_, err := tr.WriteTo([]byte{1}, "[2001:db8::1]:1")
	assert.Equal(t, errNoName, err)
	_, err = tr.DialTimeout("[2001:db8::1]:1", time.Second)
	assert.Equal(t, errNoName, err)
	_, err = tr.WriteToAddress([]byte{1}, memberlist.Address{Name: "10.0.0.1"})
	assert.Equal(t, errNoName, err)
	_, err = tr.DialAddressTimeout(memberlist.Address{Name: "10.0.0.1"}, time.Second)
	assert.Equal(t, errNoName, err)
	_, err = tr.WriteToAddress(make([]byte, frameMaxBytes+1), memberlist.Address{Name: name})
	assert.Equal(t, errFrameSize, err)
	_, err = tr.WriteToAddress(make([]byte, frameMaxBytes), memberlist.Address{Name: name})
	require.NoError(t, err, "unreachable is no error")
	require.NoError(t, tr.Shutdown())
	_, err = tr.WriteToAddress([]byte{1}, memberlist.Address{Name: name})
	assert.Equal(t, errClosed, err)
}

func TestConnsAreLimited(t *testing.T) {
	tr := newTransport(t.Context(), &Config{Now: time.Now}, newAddressBook("", time.Now, ZoneTuning()), func(string) bool { return true }, &counters{})
	t.Cleanup(func() { _ = tr.Shutdown() })
	var last net.Conn
	for range connsMax {
		last, _ = net.Pipe()
		require.True(t, tr.registerConn(last))
	}
	extra, _ := net.Pipe()
	assert.False(t, tr.registerConn(extra))
	require.ErrorIs(t, extra.SetDeadline(time.Now()), io.ErrClosedPipe)
	tr.dropConn(last)
	extra, _ = net.Pipe()
	assert.True(t, tr.registerConn(extra))
}

func TestPeersAndQueuesAreLimited(t *testing.T) {
	tr := newTransport(t.Context(), &Config{Now: time.Now}, newAddressBook("", time.Now, ZoneTuning()), func(string) bool { return false }, &counters{})
	t.Cleanup(func() { _ = tr.Shutdown() })
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i := range peersMax {
		p := tr.entryOf(SyntheticName("p", string(rune(i))))
		require.NotNil(t, p)
		p.dialing = true
	}
	assert.Nil(t, tr.entryOf("one more"))
	first := tr.peers[SyntheticName("p", string(rune(0)))]
	first.dialing = false
	assert.NotNil(t, tr.entryOf("one more"), "an idle one gives way")
	p := tr.entryOf("one more")
	for range queueMax {
		assert.True(t, p.queuePacket([]byte{1}))
	}
	assert.False(t, p.queuePacket([]byte{1}))
	assert.Equal(t, uint64(queueMax), p.drainQueue())
}

func TestPacketConnsAreLimited(t *testing.T) {
	tr := newTransport(t.Context(), &Config{Now: time.Now}, newAddressBook("", time.Now, ZoneTuning()), func(string) bool { return true }, &counters{})
	t.Cleanup(func() { _ = tr.Shutdown() })
	far := make([]net.Conn, packetConns+1)
	for i := range far {
		var near net.Conn
		near, far[i] = net.Pipe()
		require.True(t, tr.registerConn(near))
		tr.adoptConn("n-peer", near)
	}
	_, err := far[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the oldest gave way")
	assert.True(t, tr.isLinked("n-peer"))
	p, err := tr.peerNamed("n-peer")
	require.NoError(t, err)
	require.True(t, p.queuePacket([]byte{msgPing}))
	tr.closePacketConns("n-peer")
	for _, c := range far[1:] {
		_, _ = io.Copy(io.Discard, c) // ends when the member's connections are closed
	}
}
