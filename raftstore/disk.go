package raftstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"berth/api"
)

// The data directory:
//
//	node.json   whose directory this is; written last when it is made
//	raft.db     log, term and vote; one bolt file, fsynced on every write
//	snapshots/  the newest snapshots, one archive each
//	*.tmp       what a crash left; removed when the directory is opened

const (
	nodeFile      = "node.json"
	logFile       = "raft.db"
	snapshotDir   = "snapshots"
	diskFormat    = 1
	lockTimeout   = time.Second // how long to wait for another process to let go of the log
	logCacheCount = 64          // newest entries kept in memory for followers
)

// stores is what Raft writes to.
type stores struct {
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	close     func() error
}

func openStores(cfg Config) (st stores, err error) {
	if m := cfg.Memory; m != nil {
		return stores{m.log, m.log, &m.snaps, func() error { return nil }}, nil
	}
	if err = prepareDir(cfg.Dir, cfg.ID); err != nil {
		return stores{}, err
	}
	bolt, err := openBolt(filepath.Join(cfg.Dir, logFile)) // and lock out other processes
	if err != nil {
		return stores{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, bolt.Close())
		}
	}()
	if err = sweep(cfg.Dir); err != nil {
		return stores{}, err
	}
	snaps, err := openSnapshots(filepath.Join(cfg.Dir, snapshotDir), cfg.ID)
	if err != nil {
		return stores{}, fmt.Errorf("opening the snapshots: %w", err)
	}
	// A store that checks what it reads and times what it writes belongs here,
	// between the cache and bolt.
	cached, err := raft.NewLogCache(logCacheCount, bolt)
	if err != nil {
		return stores{}, err
	}
	return stores{cached, bolt, snaps, bolt.Close}, nil
}

// sweep removes what a crash left in dir.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// openBolt opens the log. The list of free pages is kept in memory only: writing
// it with every commit costs more than finding it again at start.
func openBolt(path string) (*raftboltdb.BoltStore, error) {
	b, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
		Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	}})
	if errors.Is(err, bbolt.ErrTimeout) {
		return nil, api.Wrap(api.CodeConflict, "raftstore.Open", "another process uses the data directory", err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return b, nil
}

// identity is the content of node.json.
type identity struct {
	Format int        `json:"format"`
	Node   api.NodeID `json:"node_id"`
}

// prepareDir makes dir the data directory of node, or checks that it is. Each
// step of making it may be cut off by a crash and is repeated by the next call.
func prepareDir(dir string, node api.NodeID) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	owner, err := readIdentity(filepath.Join(dir, nodeFile))
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	if !fresh && owner.Node != node {
		return api.Errorf(api.CodeConflict, "data directory %s belongs to node %s, not to %s", dir, owner.Node, node)
	}
	path := filepath.Join(dir, logFile)
	_, err = os.Stat(path)
	switch {
	case err == nil && fresh:
		err = checkUnused(path)
	case errors.Is(err, fs.ErrNotExist) && !fresh:
		err = api.Errorf(api.CodeConflict,
			"data directory %s has lost its log: remove node %s from its zone and join under a new id", dir, node)
	case errors.Is(err, fs.ErrNotExist):
		err = makeLog(path)
	}
	if err != nil || !fresh {
		return err
	}
	return writeIdentity(filepath.Join(dir, nodeFile), identity{diskFormat, node})
}

// makeLog creates an empty log under another name first, so that a file of the
// right name is always a whole one.
func makeLog(path string) error {
	temp := path + tempSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := openBolt(temp)
	if err != nil {
		return err
	}
	if err := errors.Join(b.Sync(), b.Close()); err != nil {
		return err
	}
	return renameDurably(temp, path)
}

// checkUnused accepts the log of a first start that a crash cut off, and no other:
// without node.json nobody knows whose votes it holds.
func checkUnused(path string) error {
	b, err := openBolt(path)
	if err != nil {
		return err
	}
	used, err := raft.HasExistingState(b, b, &memorySnapshots{})
	err = errors.Join(err, b.Close())
	if err == nil && used {
		err = api.Errorf(api.CodeConflict, "%s is in use but %s is missing beside it", path, nodeFile)
	}
	return err
}

func readIdentity(path string) (identity, error) {
	var id identity
	b, err := os.ReadFile(path)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(b, &id); err != nil {
		return id, fmt.Errorf("reading %s: %w", path, err)
	}
	if id.Format != diskFormat {
		return id, api.Errorf(api.CodeConflict, "%s has format %d; this version reads %d", path, id.Format, diskFormat)
	}
	return id, nil
}

func writeIdentity(path string, id identity) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	temp := path + tempSuffix
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return renameDurably(temp, path)
}

// renameDurably renames within one directory and makes the new name durable.
func renameDurably(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
