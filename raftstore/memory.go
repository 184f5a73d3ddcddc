package raftstore

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/internal/crash"
)

// Memory is a data directory that is not on a disk: for tests and simulations,
// where no file may be touched. Handed to Open again after Close it stands for
// the same disk after a restart. Its methods may be called from several goroutines.
type Memory struct {
	log *raft.InmemStore

	mu     sync.Mutex // guards the fields below
	era    uint64     // rises with every freeze: who opened it before may not write any more
	frozen bool
	meta   *raft.SnapshotMeta // the newest snapshot
	body   []byte
}

// NewMemory returns an empty one.
func NewMemory() *Memory { return &Memory{log: raft.NewInmemStore()} }

// Freeze stops the store that has the memory open from writing, for good: as a
// process that was killed. What it had written stays; its writes return errors that
// are reported to nobody, and a goroutine of Raft that would write a term or a vote
// ends. Close it, then Thaw, then Open.
func (m *Memory) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	m.frozen = true
}

// Thaw lets the memory be opened again after Freeze, as the same disk.
func (m *Memory) Thaw() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
}

func (m *Memory) openStores(g *guard, opened func() bool) (stores, error) {
	m.mu.Lock()
	era, frozen := m.era, m.frozen
	m.mu.Unlock()
	if frozen {
		return stores{}, api.Errorf(api.CodeConflict, "the memory of node %s is frozen", g.node)
	}
	d := &memoryDisk{Memory: m, era: era}
	var page raft.Log
	if err := d.GetLog(ledgerIndex, &page); err != nil { // it was never opened
		if err := formatChecked(d, votes{Node: g.node}, ledger{Node: g.node, First: 1}); err != nil {
			return stores{}, err
		}
	}
	return joinChecks(d, &memorySnapshots{disk: d, guard: g}, rest{}, g, opened, func() error { return nil })
}

// memoryDisk is a Memory as one Open sees it.
type memoryDisk struct {
	*Memory
	era uint64
}

var _ under = (*memoryDisk)(nil)

// write calls f unless the memory was frozen.
func (d *memoryDisk) write(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Memory.era != d.era {
		return errFrozen
	}
	return f()
}

// FirstIndex implements raft.LogStore.
func (d *memoryDisk) FirstIndex() (uint64, error) { return d.log.FirstIndex() }

// LastIndex implements raft.LogStore.
func (d *memoryDisk) LastIndex() (uint64, error) { return d.log.LastIndex() }

// GetLog implements raft.LogStore.
func (d *memoryDisk) GetLog(index uint64, l *raft.Log) error { return d.log.GetLog(index, l) }

// StoreLog implements raft.LogStore.
func (d *memoryDisk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (d *memoryDisk) StoreLogs(logs []*raft.Log) error {
	return d.write(func() error { return d.log.StoreLogs(logs) })
}

// DeleteRange implements raft.LogStore.
func (d *memoryDisk) DeleteRange(from, to uint64) error {
	return d.write(func() error { return d.log.DeleteRange(from, to) })
}

// Set writes one key.
func (d *memoryDisk) Set(key, value []byte) error {
	return d.write(func() error { return d.log.Set(key, value) })
}

// Get reads one key.
func (d *memoryDisk) Get(key []byte) ([]byte, error) { return d.log.Get(key) }

// memorySnapshots keeps the newest snapshot in a Memory. The store that comes with
// Raft shows a snapshot before it is written.
type memorySnapshots struct {
	disk  *memoryDisk
	guard *guard
	kept  func(end position) error
}

var _ snapshotKeeper = (*memorySnapshots)(nil)

func (m *memorySnapshots) tell(kept func(position) error) { m.kept = kept }

func (m *memorySnapshots) newest() position {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.disk.meta == nil {
		return position{}
	}
	return endOf(m.disk.meta)
}

// Create implements raft.SnapshotStore.
func (m *memorySnapshots) Create(
	version raft.SnapshotVersion, index, term uint64,
	members raft.Configuration, membersFrom uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	m.guard.crash.At(crash.SnapshotWriting)
	return &memorySink{to: m, meta: raft.SnapshotMeta{
		Version: version, ID: snapshotID(index, term), Index: index, Term: term,
		Configuration: members, ConfigurationIndex: membersFrom,
	}}, nil
}

// List implements raft.SnapshotStore.
func (m *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.disk.meta == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{m.disk.meta}, nil
}

// Open implements raft.SnapshotStore.
func (m *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.disk.meta == nil || m.disk.meta.ID != id {
		return nil, nil, errors.New("no such snapshot")
	}
	return m.disk.meta, io.NopCloser(bytes.NewReader(m.disk.body)), nil
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
	disk, g := k.to.disk, k.to.guard
	g.crash.At(crash.SnapshotWritten)
	err := g.writeSnapshotStep("keeping a snapshot", func() error {
		return disk.write(func() error {
			disk.meta, disk.body = &k.meta, k.Bytes()
			return nil
		})
	})
	if err != nil {
		return err
	}
	g.crash.At(crash.SnapshotKept)
	return k.to.kept(endOf(&k.meta))
}

// Cancel implements raft.SnapshotSink.
func (k *memorySink) Cancel() error {
	k.done = true
	return nil
}
