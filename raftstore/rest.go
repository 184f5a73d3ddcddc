package raftstore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/buildplan/seal"
	"berth/internal/durable"
)

// DiskKey is the key with which one node seals what it writes to its disk: the data of log
// entries, and snapshots. It belongs on another disk than these. Indexes, terms, times and
// votes are not sealed.
type DiskKey [diskKeyBytes]byte

const diskKeyBytes = 32

// ParseDiskKey returns the key that is written in hexadecimal digits.
func ParseDiskKey(text string) (*DiskKey, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != diskKeyBytes {
		return nil, api.Errorf(api.CodeInvalid, "a disk key is %d hexadecimal digits; make one with: openssl rand -hex %d", 2*diskKeyBytes, diskKeyBytes)
	}
	k := DiskKey(b)
	return &k, nil
}

// String returns no part of the key.
func (k *DiskKey) String() string { return "[secret]" }

// nameOf returns what names a key where everybody may read it: "" for none.
func nameOf(k *DiskKey) string {
	if k == nil {
		return ""
	}
	return hex.EncodeToString(seal.KEKID(*k))
}

// checkDiskKey compares the key that was given with the one that a directory was made with.
func checkDiskKey(dir string, made string, k *DiskKey) error {
	switch given := nameOf(k); {
	case given == made:
		return nil
	case given == "":
		return api.Errorf(api.CodeInvalid, "%s is sealed: give the disk key with which it was made (--disk-key-file)", dir)
	case made == "":
		return api.Errorf(api.CodeInvalid, "%s was made without a disk key and stays so: let a new node join with one, and remove this one", dir)
	}
	return api.Errorf(api.CodeInvalid, "%s was sealed with another disk key than this one", dir)
}

// rest seals what Raft writes, above the checks of what is written: damage is found without
// the key. A nil key seals nothing.
type rest struct {
	node api.NodeID
	key  *DiskKey
}

// labelOf names one entry, so that no other can stand in for it.
func (r rest) labelOf(l *raft.Log) string {
	return fmt.Sprintf("log/%s/%d/%d/%d", r.node, l.Index, l.Term, l.Type)
}

func (r rest) snapshotLabel(id string) string { return "snapshot/" + string(r.node) + "/" + id }

// sealData returns l with its data sealed.
func (r rest) sealData(l *raft.Log) *raft.Log {
	if r.key == nil {
		return l
	}
	var nonce [seal.SaltBytes]byte
	_, _ = rand.Read(nonce[:]) // never fails
	sealed := *l
	sealed.Data = seal.Wrap(*r.key, r.labelOf(l), l.Data, nonce)
	return &sealed
}

// openData replaces the sealed data of l by what was sealed.
func (r rest) openData(l *raft.Log) error {
	if r.key == nil {
		return nil
	}
	data, err := seal.Unwrap(*r.key, r.labelOf(l), l.Data)
	if err != nil {
		return damagef("the entry at index %d was sealed with another key or for another place", l.Index)
	}
	l.Data = data
	return nil
}

// openSnapshot returns the state in a snapshot, and its length.
func (r rest) openSnapshot(m *raft.SnapshotMeta, from io.ReadCloser) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if r.key == nil {
		return m, from, nil
	}
	plain, _, err := seal.NewStreamReader(from, [][diskKeyBytes]byte{*r.key}, r.snapshotLabel(m.ID))
	if err != nil {
		return nil, nil, errors.Join(damagef("snapshot %s: %v", m.ID, err), from.Close())
	}
	return r.measureSnapshot(m), fileReader{plain, from}, nil
}

// measureSnapshot returns m with the length of the state in it. Raft sends that many bytes.
func (r rest) measureSnapshot(m *raft.SnapshotMeta) *raft.SnapshotMeta {
	if r.key == nil {
		return m
	}
	plain := *m
	plain.Size = seal.StreamLength(m.Size)
	return &plain
}

// sealedLog is the log as Raft sees it, where entries are sealed.
type sealedLog struct {
	*checked
	rest rest
}

// GetLog implements raft.LogStore.
func (s sealedLog) GetLog(index uint64, l *raft.Log) error {
	if err := s.checked.GetLog(index, l); err != nil {
		return err
	}
	if !s.currentLedger().hasEntry(index) { // it stands for the end of a snapshot, or is deleted
		return nil
	}
	if err := s.rest.openData(l); err != nil {
		return s.guard.endProcess(fmt.Errorf("reading %s: %w", logFile, err))
	}
	return nil
}

// StoreLog implements raft.LogStore.
func (s sealedLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (s sealedLog) StoreLogs(logs []*raft.Log) error {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		sealed[i] = s.rest.sealData(l)
	}
	return s.checked.StoreLogs(sealed)
}

// sealedSnapshots are the snapshots as Raft sees them, where they are sealed.
type sealedSnapshots struct {
	snapshotKeeper
	rest rest
}

// List implements raft.SnapshotStore.
func (s sealedSnapshots) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.snapshotKeeper.List()
	for i, m := range all {
		all[i] = s.rest.measureSnapshot(m)
	}
	return all, err
}

// Open implements raft.SnapshotStore.
func (s sealedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, from, err := s.snapshotKeeper.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return s.rest.openSnapshot(m, from)
}

// Create implements raft.SnapshotStore.
func (s sealedSnapshots) Create(
	version raft.SnapshotVersion, index, term uint64,
	members raft.Configuration, membersFrom uint64, t raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.snapshotKeeper.Create(version, index, term, members, membersFrom, t)
	if err != nil {
		return nil, err
	}
	var salt [seal.SaltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails
	w, err := seal.NewStreamWriter(sink, *s.rest.key, s.rest.snapshotLabel(snapshotID(index, term)), salt)
	if err != nil {
		return nil, errors.Join(err, sink.Cancel())
	}
	return &sealedSink{SnapshotSink: sink, plain: w}, nil
}

// sealedSink seals a snapshot that is being written.
type sealedSink struct {
	raft.SnapshotSink
	plain io.WriteCloser
	done  bool
}

// Write implements io.Writer.
func (k *sealedSink) Write(p []byte) (int, error) { return k.plain.Write(p) }

// Close implements raft.SnapshotSink.
func (k *sealedSink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	if err := k.plain.Close(); err != nil {
		return errors.Join(fmt.Errorf("writing a snapshot: %w", err), k.Cancel())
	}
	return k.SnapshotSink.Close()
}

// SealFile returns the content of a small file of the node, such as one that holds keys, sealed
// under k for a use named by label; content as it is without a key.
func (k *DiskKey) SealFile(label string, content []byte) []byte {
	if k == nil {
		return content
	}
	var nonce [seal.SaltBytes]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return append([]byte(sealedFileMagic), seal.Wrap(*k, "file/"+label, content, nonce)...)
}

// sealedFileMagic begins a sealed file.
const sealedFileMagic = "BERTHSF\x01"

// ReadFile reads a private file whose content SealFile has made. It is an error if the file can be read by others, is sealed
// and there is no key or another one, or if it is not sealed and there is a key.
func (k *DiskKey) ReadFile(path, label string) ([]byte, error) {
	b, err := durable.ReadPrivate(path)
	if err != nil {
		return nil, err
	}
	sealed := len(b) >= len(sealedFileMagic) && string(b[:len(sealedFileMagic)]) == sealedFileMagic
	switch {
	case k == nil && sealed:
		return nil, checkDiskKey(path, "sealed", nil)
	case k == nil:
		return b, nil
	case !sealed:
		return nil, checkDiskKey(path, "", k)
	}
	content, err := seal.Unwrap(*k, "file/"+label, b[len(sealedFileMagic):])
	if err != nil {
		return nil, fmt.Errorf("%w, or it is damaged", checkDiskKey(path, "another", k))
	}
	return content, nil
}
