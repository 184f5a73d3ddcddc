package cli

import (
	"strings"

	"berth/api"
	"berth/internal/durable"
	"berth/raftstore"
)

// ReadDiskKey reads the disk key of a node from a private file; nil for no file.
func ReadDiskKey(path string) (*raftstore.DiskKey, error) {
	if path == "" {
		return nil, nil
	}
	b, err := durable.ReadPrivate(path)
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "berth", "the disk key cannot be read: "+err.Error(), err)
	}
	return raftstore.ParseDiskKey(strings.TrimSpace(string(b)))
}
