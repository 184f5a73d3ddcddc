package gossip

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"berth/api"
	"berth/internal/codec"
)

// Limits and the version of the hello.
const (
	HelloMaxBytes = 256             // of an encoded hello, without its length
	HelloTimeout  = 5 * time.Second // for the hellos of one connection
	helloVersion  = 1
)

// Kind is the content of a connection after the hellos.
type Kind uint8

// The kinds.
const (
	KindPacket Kind = 1 // datagrams of memberlist, both ways, until one end closes
	kindStream Kind = 2 // one message of memberlist each way
)

// Hello is the first message each way on a gossip connection: the dialer names the pool
// and itself, and the answer names the answering member. On the wire it is two bytes of
// length and a CBOR map.
type Hello struct {
	Version int    `cbor:"1,keyasint"`
	Pool    string `cbor:"2,keyasint"` // the pool's name; 1 to api.NameMaxBytes bytes
	Name    string `cbor:"3,keyasint"` // synthetic name of the sender
	Kind    Kind   `cbor:"4,keyasint"`
}

// ReadHello reads only the hello of an accepted connection, so that a listener can look
// up its pool. It fails with api.CodeTooLarge for a hello above HelloMaxBytes,
// api.CodeInvalid for a malformed one and api.CodeUnavailable if none came until the
// deadline; then the caller closes conn. The caller must check that the authenticated
// peer may use that pool and that name before it calls Pool.Accept.
func ReadHello(conn net.Conn, deadline time.Time) (Hello, error) {
	const op = "gossip.ReadHello"
	if err := conn.SetReadDeadline(deadline); err != nil {
		return Hello{}, api.Wrap(api.CodeUnavailable, op, "the connection is closed", err)
	}
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return Hello{}, api.Wrap(api.CodeUnavailable, op, "no hello was sent", err)
	}
	size := int(binary.BigEndian.Uint16(head[:]))
	if size > HelloMaxBytes {
		return Hello{}, api.Errorf(api.CodeTooLarge, "a hello may have at most %d bytes", HelloMaxBytes)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return Hello{}, api.Wrap(api.CodeUnavailable, op, "the hello was cut short", err)
	}
	h, err := decodeHello(body)
	if err != nil {
		return Hello{}, err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return Hello{}, api.Wrap(api.CodeUnavailable, op, "the connection is closed", err)
	}
	return h, nil
}

// decodeHello decodes and checks the body of a hello.
func decodeHello(body []byte) (Hello, error) {
	var h Hello
	if err := codec.Unmarshal(body, &h); err != nil {
		return Hello{}, api.Wrap(api.CodeInvalid, "gossip.ReadHello", "the hello is malformed", err)
	}
	return h, h.validate()
}

// validate returns an invalid-input error for the first invalid field.
func (h Hello) validate() error {
	if h.Version != helloVersion {
		return api.Errorf(api.CodeInvalid, "gossip version %d is not spoken here; %d is", h.Version, helloVersion)
	}
	if err := api.CheckName("pool", h.Pool); err != nil {
		return err
	}
	if h.Kind != KindPacket && h.Kind != kindStream {
		return api.Errorf(api.CodeInvalid, "there is no connection of kind %d", h.Kind)
	}
	return checkName(h.Name)
}

// writeHello sends h.
func writeHello(conn net.Conn, h Hello, deadline time.Time) error {
	body, err := codec.Marshal(h)
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("setting the deadline of a hello: %w", err)
	}
	msg := binary.BigEndian.AppendUint16(nil, uint16(len(body))) // at most HelloMaxBytes: names are limited
	if _, err := conn.Write(append(msg, body...)); err != nil {
		return fmt.Errorf("sending a hello: %w", err)
	}
	return conn.SetWriteDeadline(time.Time{})
}
