package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"berth/api"
	"berth/buildplan/seal"
	"berth/federation"
	"berth/raftstore"
)

// ReadKEKs reads a file with key-encryption keys: the kek of a node's directory, or a copy of it. key is the disk key of
// that node, nil if it has none.
func ReadKEKs(path string, key *raftstore.DiskKey) (federation.KEKs, error) {
	b, err := key.ReadFile(path, fileKEK)
	if err != nil {
		return nil, fmt.Errorf("reading the key-encryption keys: %w", err)
	}
	keks, err := federation.ParseKEKs(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keks, nil
}

// SealedBackup returns the length of what is in a sealed backup of size bytes that begins with start, and false for a file
// that is not sealed.
func SealedBackup(start []byte, size int64) (int64, bool) {
	return max(0, seal.StreamLength(size)), seal.IsStream(start)
}

// ReadBackup reads a backup of a zone to its end with the zone's key-encryption keys, and reports whether it is sealed: one
// that is not may be anybody's, and needs no key.
//
// Errors: CodeInvalid for one that is damaged, sealed with none of these keys, or newer than this version.
func ReadBackup(r io.Reader, keks federation.KEKs) (b *raftstore.BackupFile, sealed bool, err error) {
	from := bufio.NewReader(r)
	start, err := from.Peek(seal.StreamStartBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("reading the backup: %w", err)
	}
	plain := io.Reader(from)
	if sealed = seal.IsStream(start); sealed {
		if plain, _, err = seal.NewStreamReader(from, keks, sealBackup); err != nil {
			return nil, sealed, backupError(err)
		}
	}
	b, err = raftstore.ReadBackup(plain)
	return b, sealed, backupError(err)
}

// backupError returns an error of a backup that is read with keys from a file.
func backupError(err error) error {
	if errors.Is(err, seal.ErrStream) {
		return api.Wrap(api.CodeInvalid, "node.ReadBackup", "the backup is sealed with none of these key-encryption keys, or was changed or cut since", err)
	}
	return err
}
