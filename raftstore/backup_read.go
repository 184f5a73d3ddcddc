package raftstore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"berth/api"
	"berth/internal/codec"
	"berth/raftstore/state"
)

// BackupFile is a backup that was read to its end: its checksum fits, and this version can load it.
type BackupFile struct {
	Backup
	State *state.State // nobody else has it
}

// ReadBackup reads a whole backup as Snapshot returns it. It needs no store, and keeps nothing but the state.
//
// Errors: CodeInvalid for one that is damaged or that this version cannot load, CodeTooLarge above BackupMaxBytes, and those of from.
func ReadBackup(from io.Reader) (*BackupFile, error) { return readBackup(from, BackupMaxBytes) }

func readBackup(from io.Reader, limit int64) (*BackupFile, error) {
	source := &watchedReader{from: from, left: limit}
	body := &archiveBody{from: bufio.NewReaderSize(source, archiveBufBytes), sum: sha256.New()}
	out := &BackupFile{}
	h, err := body.readHeader()
	if err == nil {
		out.State, err = loadAll(body, api.FormNewest)
	}
	if _, rest := io.Copy(io.Discard, body); rest != nil {
		return nil, rest // of the source, also if the state could not be loaded because of it
	}
	out.SHA256, out.Bytes = [sha256.Size]byte(body.sum.Sum(nil)), limit-source.left
	switch {
	case source.left < 0:
		return nil, api.Errorf(api.CodeTooLarge, "a backup has at most %d bytes", limit)
	case !bytes.Equal(body.end, out.SHA256[:]):
		return nil, api.Wrap(api.CodeInvalid, "raftstore.ReadBackup", "the backup is damaged: its checksum does not match", ErrDamaged)
	case err == nil && out.State.Index() != h.Index:
		err = fmt.Errorf("its state is at index %d, its header at %d", out.State.Index(), h.Index)
	}
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "raftstore.ReadBackup", "this version cannot load the backup: "+err.Error(), err)
	}
	out.Node, out.Index, out.Term = h.Node, h.Index, h.Term
	return out, nil
}

// watchedReader reads at most left bytes and one more, and makes left negative then.
type watchedReader struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (r *watchedReader) Read(p []byte) (int, error) {
	if r.left < 0 {
		return 0, io.EOF
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left+1)])
	r.left -= int64(n)
	return n, err
}

// archiveBody reads an archive without its checksum, once and from its beginning. What it returns is not verified until its
// end was read and end compared with sum.
type archiveBody struct {
	from *bufio.Reader
	sum  hash.Hash // of what was read
	end  []byte    // the last bytes, when all others were read
}

// Read implements io.Reader.
func (a *archiveBody) Read(p []byte) (int, error) {
	b, err := a.from.Peek(min(len(p)+sha256.Size, a.from.Size()))
	n := copy(p, b[:max(0, len(b)-sha256.Size)])
	a.sum.Write(p[:n]) // a hash never fails
	if n > 0 {
		_, err = a.from.Discard(n) // they are in the buffer
		return n, err
	}
	if errors.Is(err, io.EOF) {
		a.end = bytes.Clone(b)
	}
	return 0, err
}

func (a *archiveBody) readHeader() (h archiveHeader, err error) {
	start := make([]byte, len(archiveMagic)+4)
	if _, err = io.ReadFull(a, start); err != nil {
		return h, err
	}
	length := binary.LittleEndian.Uint32(start[len(archiveMagic):])
	if string(start[:len(archiveMagic)]) != archiveMagic || length > headerMaxBytes {
		return h, errors.New("it does not begin like one")
	}
	header := make([]byte, length)
	if _, err = io.ReadFull(a, header); err != nil {
		return h, err
	}
	return h, codec.Unmarshal(header, &h)
}
