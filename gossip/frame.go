package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of messages on one connection.
const (
	packetMaxBytes = 16 << 10            // of one packet of memberlist
	frameMaxBytes  = packetMaxBytes + 16 // a packet with memberlist's checksum and compound header
	streamMaxBytes = 256 << 10           // one message on a stream: all members and DigestsMax digests
)

var (
	errFrameSize = errors.New("gossip: frame is empty or above its limit")
	errRefused   = errors.New("gossip: message of a kind that no member sends")
)

// writeFrame writes b preceded by four bytes of length, in one Write.
func writeFrame(w io.Writer, b []byte, limit int) error {
	if len(b) == 0 || len(b) > limit {
		return errFrameSize
	}
	msg := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))) // at most limit
	if _, err := w.Write(append(msg, b...)); err != nil {
		return fmt.Errorf("writing a frame: %w", err)
	}
	return nil
}

// readFrame reads one frame of 1 to limit bytes. It allocates nothing for a
// frame that claims more.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err // bare, so that io.EOF between frames stays itself
	}
	size := binary.BigEndian.Uint32(head[:])
	if size == 0 || uint64(size) > uint64(limit) { // limits are positive
		return nil, errFrameSize
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("reading a frame: %w", err)
	}
	return b, nil
}
