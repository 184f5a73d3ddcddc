package seal

import (
	"bufio"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
)

// A sealed stream is a file of any length that only the zone that wrote it can read, and
// nobody else can have written or changed:
//
//	magic[8] | salt[24] | chunk | chunk | ...
//	key   = HKDF-SHA256(key-encryption key, salt, "berth/stream/v1" | label, 32)
//	chunk = XChaCha20-Poly1305(key, nonce = number[8] | last[1] | zeros, plaintext, magic)
//
// Each chunk but the last has streamChunkBytes of plaintext. A chunk opens only in its place,
// and the last one only as the last, so a file that is cut, joined or put in another order
// does not open.
const (
	streamMagic      = "BERTHSE\x01"
	streamChunkBytes = 64 << 10
	labelStream      = "berth/stream/v1"
)

// ErrStream is the error of a stream that was not sealed with this key for this label, or
// that is not whole.
var ErrStream = errors.New("seal: sealed with another key or for another use, or changed or cut since")

// IsStream reports whether a file that begins with start is a sealed stream; start should
// have at least StreamStartBytes.
func IsStream(start []byte) bool {
	return len(start) >= StreamStartBytes && string(start[:StreamStartBytes]) == streamMagic
}

// StreamStartBytes is by how many bytes a sealed stream is recognised.
const StreamStartBytes = len(streamMagic)

// StreamLength returns the length of what is in a sealed stream of this many bytes.
func StreamLength(sealed int64) int64 {
	body := sealed - int64(StreamStartBytes+SaltBytes)
	chunks := (body + streamChunkBytes + tagBytes - 1) / (streamChunkBytes + tagBytes)
	return body - chunks*tagBytes
}

// streamCipher numbers the chunks of one stream.
type streamCipher struct {
	aead   cipher.AEAD
	number uint64
}

func newStreamCipher(kek [secretBytes]byte, label string, salt []byte) streamCipher {
	return streamCipher{aead: newCipher(expandKey(kek[:], salt, labelStream+label, chacha20poly1305.KeySize))}
}

// nextNonce returns the nonce of the next chunk.
func (c *streamCipher) nextNonce(last bool) []byte {
	n := make([]byte, chacha20poly1305.NonceSizeX)
	binary.BigEndian.PutUint64(n, c.number)
	if last {
		n[8] = 1
	}
	c.number++
	return n
}

// streamWriter seals what is written to it.
type streamWriter struct {
	to     io.Writer
	cipher streamCipher
	plain  []byte // of the chunk that is not full, or not known to be followed by another
	sealed []byte
	err    error // of a write: nothing follows
}

// NewStreamWriter returns a writer that seals what it is given, for a use named by label,
// and passes it on to w. The stream is whole only when Close has returned nil; Close does
// not close w. The salt must be random and never used before. It is for one goroutine.
func NewStreamWriter(w io.Writer, kek [secretBytes]byte, label string, salt [SaltBytes]byte) (io.WriteCloser, error) {
	if _, err := w.Write(append([]byte(streamMagic), salt[:]...)); err != nil {
		return nil, err
	}
	return &streamWriter{
		to: w, cipher: newStreamCipher(kek, label, salt[:]),
		plain:  make([]byte, 0, streamChunkBytes),
		sealed: make([]byte, 0, streamChunkBytes+tagBytes),
	}, nil
}

// Write implements io.Writer.
func (s *streamWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && s.err == nil {
		if len(s.plain) == streamChunkBytes {
			s.sealChunk(false)
		}
		part := min(len(p), streamChunkBytes-len(s.plain))
		s.plain = append(s.plain, p[:part]...)
		p, n = p[part:], n+part
	}
	return n, s.err
}

// Close seals the last chunk.
func (s *streamWriter) Close() error {
	if s.err == nil {
		s.sealChunk(true)
	}
	return s.err
}

func (s *streamWriter) sealChunk(last bool) {
	s.sealed = s.cipher.aead.Seal(s.sealed[:0], s.cipher.nextNonce(last), s.plain, []byte(streamMagic))
	s.plain = s.plain[:0]
	_, s.err = s.to.Write(s.sealed)
}

// streamReader opens a stream.
type streamReader struct {
	from   *bufio.Reader
	cipher streamCipher
	sealed []byte
	plain  []byte // opened and not read yet
	err    error  // after plain
}

// NewStreamReader returns a reader of what was sealed in r with the same label and one of keks, and
// which of them that is. The reader returns io.EOF only after the whole stream was opened; bytes
// before may be thrown away if another error follows. The error of anything but a whole sealed
// stream is ErrStream. It is for one goroutine.
func NewStreamReader(r io.Reader, keks [][secretBytes]byte, label string) (plain io.Reader, key int, err error) {
	from := bufio.NewReaderSize(r, streamChunkBytes+tagBytes+1)
	start := make([]byte, StreamStartBytes+SaltBytes)
	if _, err = io.ReadFull(from, start); err != nil {
		return nil, 0, streamEnd(err)
	}
	if !IsStream(start) {
		return nil, 0, ErrStream
	}
	first, err := from.Peek(streamChunkBytes + tagBytes + 1)
	last := errors.Is(err, io.EOF)
	if err != nil && !last {
		return nil, 0, err
	}
	first = first[:min(len(first), streamChunkBytes+tagBytes)]
	for i, kek := range keks {
		s := &streamReader{from: from, cipher: newStreamCipher(kek, label, start[StreamStartBytes:]), sealed: make([]byte, streamChunkBytes+tagBytes)}
		if s.plain, err = s.cipher.aead.Open(nil, s.cipher.nextNonce(last), first, []byte(streamMagic)); err != nil {
			continue
		}
		if last {
			s.err = io.EOF
		}
		_, err = from.Discard(len(first)) // they are in the buffer
		return s, i, err
	}
	return nil, 0, ErrStream
}

// streamEnd returns ErrStream for a stream that ends too early.
func streamEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrStream
	}
	return err
}

// Read implements io.Reader.
func (s *streamReader) Read(p []byte) (int, error) {
	for len(s.plain) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.plain, s.err = s.openChunk()
	}
	n := copy(p, s.plain)
	s.plain = s.plain[n:]
	return n, nil
}

// openChunk returns the plaintext of the next chunk, with io.EOF for the last.
func (s *streamReader) openChunk() (plain []byte, end error) {
	n, err := io.ReadFull(s.from, s.sealed)
	if err == nil {
		_, err = s.from.Peek(1)
	}
	last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !last {
		return nil, err
	}
	plain, err = s.cipher.aead.Open(s.sealed[:0], s.cipher.nextNonce(last), s.sealed[:n], []byte(streamMagic))
	switch {
	case err != nil:
		return nil, ErrStream // err has no more detail
	case last:
		return plain, io.EOF
	}
	return plain, nil
}
