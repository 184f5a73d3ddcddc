package leak

import (
	"bytes"
	"strconv"
	"strings"

	"berth/api"
)

// message has the framing of an HTTP message, from its head or the lack of one.
type message struct {
	chunked bool
	deflate bool // the content is in "deflate", which may have no recognisable start
	cbor    bool
}

// sink takes the bodies of a stream, one after the other.
type sink interface {
	begin(m message)
	write(p []byte)
	end()
}

// splitter splits a stream of HTTP/1.1 messages into bodies. Data that is not HTTP is one
// body to its end.
type splitter struct {
	to   sink
	step func(p []byte) (rest []byte) // reads some of p: at least a byte, or changes the step
	line []byte                       // a head or a line that is not whole yet
	left int64                        // of a body or a chunk
	open bool                         // a body has begun and not ended
}

// headMaxBytes is the longest head of a message.
const headMaxBytes = 64 << 10

func newSplitter(to sink) *splitter {
	s := &splitter{to: to}
	s.step = s.gatherHead
	return s
}

func (s *splitter) write(p []byte) {
	for len(p) > 0 {
		p = s.step(p)
	}
}

// end ends an open body. A truncated head counts as a body.
func (s *splitter) end() {
	if len(s.line) > 0 && !s.open {
		s.takeOpaque()
	}
	s.close()
	s.step = s.gatherHead
}

func (s *splitter) close() {
	if s.open {
		s.to.end()
	}
	s.open, s.line = false, nil
}

func (s *splitter) startMessage(m message) {
	s.open = true
	s.to.begin(m)
}

// takeOpaque treats the bytes read and all that follow as one body.
func (s *splitter) takeOpaque() {
	held := s.line
	s.line = nil
	s.startMessage(message{})
	s.step = func(p []byte) []byte {
		s.to.write(p)
		return nil
	}
	s.write(held)
}

var headEnd = []byte("\r\n\r\n")

// gatherHead gathers the head of a message.
func (s *splitter) gatherHead(p []byte) []byte {
	before := len(s.line)
	s.line = append(s.line, p[:min(len(p), headMaxBytes-before)]...)
	at := bytes.Index(s.line[max(0, before-len(headEnd)):], headEnd)
	if at < 0 {
		if !startsHTTP(s.line) || len(s.line) == headMaxBytes {
			taken := len(s.line) - before
			s.takeOpaque()
			return p[taken:]
		}
		return p[len(s.line)-before:]
	}
	size := max(0, before-len(headEnd)) + at + len(headEnd)
	rest := p[size-before:]
	text := string(s.line[:size-len(headEnd)])
	if !startsHTTP(s.line) {
		s.line = s.line[:size]
		s.takeOpaque()
		return rest
	}
	s.line = nil
	s.readFraming(text)
	return rest
}

// startsHTTP reports whether the beginning of a head may be that of a request or an answer.
func startsHTTP(b []byte) bool {
	for _, m := range []string{"HTTP/1.", "GET ", "POST ", "PUT ", "DELETE ", "PATCH ", "HEAD "} {
		if n := min(len(m), len(b)); string(b[:n]) == m[:n] {
			return true
		}
	}
	return false
}

// readFraming reads a head and continues with its body, if there is one.
func (s *splitter) readFraming(head string) {
	first, fields, _ := strings.Cut(head, "\r\n")
	var m message
	length := int64(-1)
	for _, f := range strings.Split(fields, "\r\n") {
		name, value, _ := strings.Cut(f, ":")
		value = strings.ToLower(strings.TrimSpace(value))
		switch strings.ToLower(name) {
		case "transfer-encoding":
			m.chunked = value == "chunked"
		case "content-encoding":
			m.deflate = value == "deflate"
		case "content-type":
			m.cbor = value == api.MediaCBOR
		case "content-length":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				length = n
			}
		}
	}
	answer, bare := strings.HasPrefix(first, "HTTP/"), isBodiless(first)
	switch {
	case bare || length == 0 || length < 0 && !m.chunked && !answer:
		s.step = s.gatherHead
	case m.chunked:
		s.startMessage(m)
		s.step = s.readSize
	case length > 0:
		s.startMessage(m)
		s.left = length
		s.step = s.takeBody
	default: // until the connection ends
		s.startMessage(m)
		s.step = func(p []byte) []byte { s.to.write(p); return nil }
	}
}

// isBodiless reports whether an answer has no body, by its status.
func isBodiless(first string) bool {
	parts := strings.Fields(first)
	return len(parts) > 1 && strings.HasPrefix(first, "HTTP/") &&
		(parts[1] == "204" || parts[1] == "304" || strings.HasPrefix(parts[1], "1"))
}

// takeBytes passes on the part of p that belongs to the present body or chunk.
func (s *splitter) takeBytes(p []byte) []byte {
	n := min(int64(len(p)), s.left)
	s.to.write(p[:n])
	s.left -= n
	return p[n:]
}

// takeBody takes a body of a known length.
func (s *splitter) takeBody(p []byte) []byte {
	rest := s.takeBytes(p)
	if s.left == 0 {
		s.close()
		s.step = s.gatherHead
	}
	return rest
}

// wholeLine returns a line once it is whole.
func (s *splitter) wholeLine(p []byte) (line string, rest []byte, ok bool) {
	at := bytes.IndexByte(p, '\n')
	if at < 0 {
		s.line = append(s.line, p...)
		return "", nil, false
	}
	line = strings.TrimRight(string(append(s.line, p[:at]...)), "\r")
	s.line = nil
	return line, p[at+1:], true
}

// readSize reads the line before a chunk.
func (s *splitter) readSize(p []byte) []byte {
	line, rest, ok := s.wholeLine(p)
	if !ok {
		return nil
	}
	digits, _, _ := strings.Cut(line, ";")
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 16, 64)
	switch {
	case err != nil: // not HTTP after all
		s.close()
		s.takeOpaque()
	case n == 0:
		s.step = s.readTrailer
	default:
		s.left = n
		s.step = s.takeChunk
	}
	return rest
}

// takeChunk takes a chunk.
func (s *splitter) takeChunk(p []byte) []byte {
	rest := s.takeBytes(p)
	if s.left == 0 {
		s.step = s.readGap
	}
	return rest
}

// readGap reads the end of line behind a chunk.
func (s *splitter) readGap(p []byte) []byte {
	_, rest, ok := s.wholeLine(p)
	if ok {
		s.step = s.readSize
	}
	return rest
}

// readTrailer reads fields up to an empty line.
func (s *splitter) readTrailer(p []byte) []byte {
	line, rest, ok := s.wholeLine(p)
	if ok && line == "" {
		s.close()
		s.step = s.gatherHead
	}
	return rest
}
