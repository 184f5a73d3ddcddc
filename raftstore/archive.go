package raftstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"berth/api"
	"berth/internal/codec"
)

// An archive is a whole state in one file. It is the only file format of a state, for the
// snapshots of Raft and the backups of an operator.
//
//	magic and version   8 bytes, "BERTHAR" and 1
//	header length       4 bytes, little endian
//	header              CBOR
//	payload             the state, to the end less 32 bytes
//	SHA-256             32 bytes, of everything before
//
// A reader verifies the whole file before it uses any part.

const (
	archiveMagic     = "BERTHAR\x01"
	headerMaxBytes   = 64 << 10
	archiveMinBytes  = len(archiveMagic) + 4 + sha256.Size
	archiveBufBytes  = 64 << 10
	archiveSumOffset = -sha256.Size
)

// archiveHeader describes the payload.
type archiveHeader struct {
	Node        api.NodeID `cbor:"1,keyasint"`           // the writer
	Index       uint64     `cbor:"2,keyasint"`           // last entry it holds
	Term        uint64     `cbor:"3,keyasint"`           // term of that entry, or of the writer
	Members     []byte     `cbor:"4,keyasint,omitempty"` // Raft configuration; snapshots only
	MembersFrom uint64     `cbor:"5,keyasint,omitempty"` // index of that configuration
}

// archiveWriter writes one archive: begin, any number of Writes, finish.
type archiveWriter struct {
	to      io.Writer
	sum     hash.Hash
	payload int64
}

func beginArchive(to io.Writer, h archiveHeader) (*archiveWriter, error) {
	header, err := codec.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(header) > headerMaxBytes {
		return nil, fmt.Errorf("archive header of %d bytes is above %d", len(header), headerMaxBytes)
	}
	start := binary.LittleEndian.AppendUint32([]byte(archiveMagic), uint32(len(header)))
	w := &archiveWriter{to: to, sum: sha256.New()}
	if _, err := w.Write(append(start, header...)); err != nil {
		return nil, err
	}
	w.payload = 0
	return w, nil
}

// Write appends to the payload.
func (w *archiveWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.sum.Write(p[:n]) // a hash never fails
	w.payload += int64(n)
	return n, err
}

func (w *archiveWriter) finishArchive() (sum [sha256.Size]byte, err error) {
	w.sum.Sum(sum[:0])
	_, err = w.to.Write(sum[:])
	return sum, err
}

// archive is a verified archive.
type archive struct {
	archiveHeader
	sum     [sha256.Size]byte
	payload *io.SectionReader
}

// openArchive reads all size bytes of r and verifies them.
func openArchive(r io.ReaderAt, size int64) (*archive, error) {
	if size < int64(archiveMinBytes) {
		return nil, fmt.Errorf("%w: %d bytes are too few", ErrDamaged, size)
	}
	body := io.NewSectionReader(r, 0, size+archiveSumOffset)
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{body}, make([]byte, archiveBufBytes)); err != nil {
		return nil, fmt.Errorf("reading an archive: %w", err)
	}
	a := &archive{}
	if _, err := r.ReadAt(a.sum[:], body.Size()); err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading an archive: %w", err)
	}
	if !bytes.Equal(h.Sum(nil), a.sum[:]) {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrDamaged)
	}
	start := make([]byte, len(archiveMagic)+4)
	if _, err := r.ReadAt(start, 0); err != nil {
		return nil, fmt.Errorf("reading an archive: %w", err)
	}
	if string(start[:len(archiveMagic)]) != archiveMagic {
		return nil, fmt.Errorf("%w: it does not begin like one", ErrDamaged)
	}
	length := int64(binary.LittleEndian.Uint32(start[len(archiveMagic):]))
	from := int64(len(start)) + length
	if length > headerMaxBytes || from > body.Size() {
		return nil, fmt.Errorf("%w: its header is cut short", ErrDamaged)
	}
	header := make([]byte, length)
	if _, err := r.ReadAt(header, int64(len(start))); err != nil {
		return nil, fmt.Errorf("reading an archive: %w", err)
	}
	if err := codec.Unmarshal(header, &a.archiveHeader); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	a.payload = io.NewSectionReader(r, from, body.Size()-from)
	return a, nil
}
