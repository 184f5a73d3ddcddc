package gossip

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// errBroken replaces every connection error that memberlist gets, because memberlist
// logs errors and even sends some to the peer, and the system's errors name both
// addresses of a connection.
var errBroken = errors.New("gossip: the connection broke")

// stream is what memberlist gets for one exchange: a connection on which each
// Write is one message, and which yields exactly one message and then io.EOF.
// Its addresses are synthetic and so are its errors.
type stream struct {
	conn    net.Conn
	local   address
	remote  address
	release func() // called once, by the first Close
	once    sync.Once
	in      *bytes.Reader // nil until the message has come; for the one reader only
}

var _ net.Conn = (*stream)(nil)

// Read returns bytes of the one message that the peer sends.
func (s *stream) Read(p []byte) (int, error) {
	if s.in == nil {
		msg, err := readFrame(s.conn, streamMaxBytes)
		if err == nil {
			err = checkStream(msg)
		}
		if err != nil {
			return 0, hideAddress(err)
		}
		s.in = bytes.NewReader(msg)
	}
	return s.in.Read(p)
}

// Write sends p as one message of at most streamMaxBytes.
func (s *stream) Write(p []byte) (int, error) {
	if err := writeFrame(s.conn, p, streamMaxBytes); err != nil {
		return 0, hideAddress(err)
	}
	return len(p), nil
}

// Close closes the connection; later calls do nothing.
func (s *stream) Close() error {
	var err error
	s.once.Do(func() {
		err = hideAddress(s.conn.Close())
		s.release()
	})
	return err
}

// LocalAddr returns this member's synthetic address.
func (s *stream) LocalAddr() net.Addr { return s.local }

// RemoteAddr returns the peer's synthetic address.
func (s *stream) RemoteAddr() net.Addr { return s.remote }

// SetDeadline sets when reads and writes give up.
func (s *stream) SetDeadline(t time.Time) error { return hideAddress(s.conn.SetDeadline(t)) }

// SetReadDeadline sets when reads give up.
func (s *stream) SetReadDeadline(t time.Time) error { return hideAddress(s.conn.SetReadDeadline(t)) }

// SetWriteDeadline sets when writes give up.
func (s *stream) SetWriteDeadline(t time.Time) error { return hideAddress(s.conn.SetWriteDeadline(t)) }

// hideAddress returns an error of the same kind as err that names no address.
func hideAddress(err error) error {
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errFrameSize):
		return errFrameSize
	case errors.Is(err, errRefused):
		return errRefused
	case err == io.EOF: //nolint:errorlint // a frame that was cut short is not an end
		return io.EOF
	case errors.As(err, &timeout) && timeout.Timeout():
		return os.ErrDeadlineExceeded
	}
	return errBroken
}
