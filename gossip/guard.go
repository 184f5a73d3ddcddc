package gossip

import "encoding/binary"

// The guard checks each message before memberlist sees it and refuses messages that no
// Berth pool sends. memberlist unpacks compressed messages even where compression is
// off, and allocates for the number of nodes that the head of a push/pull claims; both
// let a few bytes of an authenticated but broken peer cost megabytes.

// The first byte of memberlist's messages, as its protocol fixes them.
const (
	msgPing         = 0
	msgIndirectPing = 1
	msgAck          = 2
	msgSuspect      = 3
	msgAlive        = 4
	msgDead         = 5
	msgPushPull     = 6
	msgCompound     = 7
	msgUser         = 8
	msgNack         = 11
	msgChecksum     = 12
	msgError        = 13
)

const (
	checksumBytes = 5 // type and CRC-32 before the message
	compoundDepth = 2 // compound messages within one another; members send 1
)

// checkPacket returns errRefused unless b is a packet that a member may send.
func checkPacket(b []byte) error {
	if len(b) > checksumBytes && b[0] == msgChecksum {
		b = b[checksumBytes:]
	}
	return checkCommand(b, 0)
}

func checkCommand(b []byte, depth int) error {
	if len(b) == 0 {
		return errRefused
	}
	switch b[0] {
	case msgPing, msgIndirectPing, msgAck, msgSuspect, msgAlive, msgDead, msgUser, msgNack:
		return nil
	case msgCompound:
		return checkCompound(b[1:], depth+1)
	default:
		return errRefused
	}
}

// checkCompound checks each part of a compound message: a count, two bytes of
// length for each part, the parts.
func checkCompound(b []byte, depth int) error {
	if depth > compoundDepth || len(b) == 0 || len(b) < 1+2*int(b[0]) {
		return errRefused
	}
	sizes, rest := b[1:1+2*int(b[0])], b[1+2*int(b[0]):]
	for ; len(sizes) > 0; sizes = sizes[2:] {
		size := int(binary.BigEndian.Uint16(sizes))
		if size > len(rest) {
			return errRefused
		}
		if err := checkCommand(rest[:size], depth); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return nil
}

// checkStream returns errRefused unless b is a message that a member may send on
// a stream.
func checkStream(b []byte) error {
	if len(b) == 0 {
		return errRefused
	}
	switch b[0] {
	case msgPing, msgAck, msgError:
		return nil
	case msgPushPull:
		return checkPushPull(b[1:])
	default:
		return errRefused
	}
}

// checkPushPull checks the MessagePack map at the head of a push/pull: it has the
// keys Nodes, UserStateLen and Join once each, at most nodesMax nodes and no
// more user state than bytes that follow.
func checkPushPull(b []byte) error {
	const threePairs = 0x83
	if len(b) == 0 || b[0] != threePairs {
		return errRefused
	}
	b = b[1:]
	limits := map[string]uint64{"Nodes": nodesMax, "UserStateLen": uint64(len(b)), "Join": 1}
	for range 3 {
		key, rest, ok := shortString(b)
		limit, known := limits[key]
		if !ok || !known {
			return errRefused
		}
		delete(limits, key)
		n, rest, ok := readNumber(rest)
		if !ok || n > limit {
			return errRefused
		}
		b = rest
	}
	return nil
}

// shortString reads a MessagePack string of at most 31 bytes.
func shortString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) == 0 || b[0]&0xe0 != 0xa0 || len(b) < 1+int(b[0]&0x1f) {
		return "", nil, false
	}
	end := 1 + int(b[0]&0x1f)
	return string(b[1:end]), b[end:], true
}

// readNumber reads a MessagePack integer that is not negative, or a boolean as 0 or 1.
func readNumber(b []byte) (n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	head, b := b[0], b[1:]
	size := 0
	switch {
	case head <= 0x7f:
		return uint64(head), b, true
	case head == 0xc2 || head == 0xc3: // false, true
		return uint64(head & 1), b, true
	case head >= 0xcc && head <= 0xcf: // unsigned of 1, 2, 4 and 8 bytes
		size = 1 << (head - 0xcc)
	case head >= 0xd0 && head <= 0xd3: // signed of 1, 2, 4 and 8 bytes
		size = 1 << (head - 0xd0)
	default:
		return 0, nil, false
	}
	if len(b) < size || head >= 0xd0 && b[0]&0x80 != 0 {
		return 0, nil, false
	}
	for _, c := range b[:size] {
		n = n<<8 | uint64(c)
	}
	return n, b[size:], true
}
