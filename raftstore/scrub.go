package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"berth/api"
)

// The buckets of raft-boltdb.
const (
	bucketLogs = "logs"
	bucketConf = "conf"
)

const lockRetry = 10 * time.Millisecond

// logReader reads the log of a stopped node with plain reads, and keeps others
// from writing to it until it is closed.
type logReader struct {
	file  *os.File
	bolt  *boltFile
	book  ledger
	votes votes
}

// openLog opens and verifies the log at path, all of it: the structure of the
// file, the ledger, term and vote, and every entry from the first to the last.
func openLog(path string, node api.NodeID) (r *logReader, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r = &logReader{file: f}
	if err = lockShared(f); err == nil {
		err = r.verifyLog(node)
	}
	if errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// lockShared waits briefly for another process that writes, and then gives up.
func lockShared(f *os.File) error {
	late, again := time.NewTimer(lockTimeout), time.NewTicker(lockRetry)
	defer late.Stop()
	defer again.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		select {
		case <-again.C:
		case <-late.C:
			return inUse(err)
		}
	}
}

func inUse(err error) error {
	return api.Wrap(api.CodeConflict, "raftstore.Open", "another process uses the data directory", err)
}

func (r *logReader) verifyLog(node api.NodeID) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if r.bolt, err = readBolt(r.file, info.Size()); err != nil {
		return err
	}
	if err = r.readVotes(node); err != nil {
		return err
	}
	var found []uint64
	var told bool
	err = r.eachStored(func(index uint64, l *raft.Log) (err error) {
		if index == ledgerIndex {
			told = true
			r.book, err = readLedger(node, l)
			return err
		}
		found = append(found, index)
		_, _, err = openEntry(index, l)
		return err
	})
	if err == nil && !told {
		err = damagef("its ledger is missing")
	}
	if err != nil {
		return err
	}
	return r.book.checkEntries(found)
}

// checkEntries compares the entries that were found, in ascending order, with those that
// there should be.
func (b ledger) checkEntries(found []uint64) error {
	next := b.First
	for _, index := range found {
		switch {
		case b.hasEntry(index) && index == next:
			next++
		case b.hasEntry(index):
			return damagef("the entry at index %d is missing", next)
		case !b.isDead(index):
			return damagef("there is an entry at index %d, outside of %d to %d", index, b.First, b.Last)
		}
	}
	if next != b.Last+1 {
		return damagef("the entry at index %d is missing", next)
	}
	return nil
}

func (r *logReader) readVotes(node api.NodeID) error {
	var told bool
	err := r.bolt.walkBucket(bucketConf, func(key, value []byte) error {
		if string(key) != string(votesKey) {
			return damagef("it holds an unknown key %q", key)
		}
		told = true
		var err error
		r.votes, err = readVotes(node, value)
		return err
	})
	if err == nil && !told {
		err = damagef("its term and vote are missing")
	}
	return err
}

// eachStored calls f with everything in the log as it is stored, the ledger last.
func (r *logReader) eachStored(f func(index uint64, l *raft.Log) error) error {
	clear(r.bolt.seen)
	return r.bolt.walkBucket(bucketLogs, func(key, value []byte) error {
		if len(key) != 8 {
			return damagef("key %x is no index", key)
		}
		index := binary.BigEndian.Uint64(key)
		l, err := readPacked(value)
		if err != nil {
			return fmt.Errorf("the entry at index %d: %w", index, err)
		}
		return f(index, l)
	})
}

// isUsed reports whether the log holds anything of a zone.
func (r *logReader) isUsed() bool {
	for _, v := range r.votes.Values {
		for _, b := range v {
			if b != 0 {
				return true
			}
		}
	}
	return r.book != ledger{Node: r.book.Node, First: 1}
}

// Close releases the log.
func (r *logReader) Close() error { return r.file.Close() }

// scrubLog verifies the log at path.
func scrubLog(path string, node api.NodeID) error {
	r, err := openLog(path, node)
	if err != nil {
		return err
	}
	return r.Close()
}

// boltOptions are how bolt opens the log. The list of free pages is kept in memory
// only: writing it with every commit costs more than finding it again at start.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
}
