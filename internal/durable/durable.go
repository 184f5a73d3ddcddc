// Package durable replaces files so that a crash or a power cut leaves the old
// content or the new one, and never a mixture.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// nextSuffix ends the name under which the new content is written first.
const nextSuffix = ".next"

// ReplaceFile makes content the whole of the file at path. Once it returns nil, the
// content survives a power cut. Calls for one path must not overlap.
func ReplaceFile(path string, mode os.FileMode, content []byte) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err == nil {
		defer func() { _ = root.Close() }() // nothing was written through it
		err = ReplaceIn(root, filepath.Base(path), mode, content)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// ReplaceIn is ReplaceFile for a name directly below root.
func ReplaceIn(root *os.Root, name string, mode os.FileMode, content []byte) error {
	next := name + nextSuffix
	f, err := root.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = f.Chmod(mode) // before the content is there: a file of before may be open to others
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(next))
	}
	return SyncDir(root)
}

// SyncDir makes the names in a directory survive a power cut.
func SyncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// ReadPrivate reads a file with a secret. It is an error if others than its owner may use the
// file. A pipe has no others: whoever may open it is known by other means.
func ReadPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", path)
	}
	return os.ReadFile(path)
}
