package raftstore

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// Memory is a data directory that is not on a disk: for tests and simulations,
// where no file may be touched. Handed to Open again after Close it stands for
// the same disk after a restart.
type Memory struct {
	log   *raft.InmemStore
	snaps memorySnapshots
}

// NewMemory returns an empty one.
func NewMemory() *Memory { return &Memory{log: raft.NewInmemStore()} }

// memorySnapshots keeps the newest snapshot. The one that comes with Raft shows a
// snapshot before it is written.
type memorySnapshots struct {
	mu   sync.Mutex // guards the fields below
	meta *raft.SnapshotMeta
	body []byte
}

var _ raft.SnapshotStore = (*memorySnapshots)(nil)

// Create implements raft.SnapshotStore.
func (m *memorySnapshots) Create(
	version raft.SnapshotVersion, index, term uint64,
	members raft.Configuration, membersFrom uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	return &memorySink{to: m, meta: raft.SnapshotMeta{
		Version: version, ID: snapshotID(index, term), Index: index, Term: term,
		Configuration: members, ConfigurationIndex: membersFrom,
	}}, nil
}

// List implements raft.SnapshotStore.
func (m *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meta == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{m.meta}, nil
}

// Open implements raft.SnapshotStore.
func (m *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meta == nil || m.meta.ID != id {
		return nil, nil, errors.New("no such snapshot")
	}
	return m.meta, io.NopCloser(bytes.NewReader(m.body)), nil
}

// memorySink is a snapshot that is being written; it counts once it is closed.
type memorySink struct {
	bytes.Buffer
	to   *memorySnapshots
	meta raft.SnapshotMeta
	done bool
}

// ID implements raft.SnapshotSink.
func (k *memorySink) ID() string { return k.meta.ID }

// Close implements raft.SnapshotSink.
func (k *memorySink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	k.meta.Size = int64(k.Len())
	k.to.mu.Lock()
	defer k.to.mu.Unlock()
	k.to.meta, k.to.body = &k.meta, k.Bytes()
	return nil
}

// Cancel implements raft.SnapshotSink.
func (k *memorySink) Cancel() error {
	k.done = true
	return nil
}
