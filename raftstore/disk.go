package raftstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	bolterrors "go.etcd.io/bbolt/errors"

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
	diskFormat    = 2
	sealedFormat  = 3           // the same, sealed with a disk key
	lockTimeout   = time.Second // how long to wait for another process to let go of the log
	logCacheCount = 64          // newest entries kept in memory for followers
)

// stores is what Raft writes to.
type stores struct {
	logs      raft.LogStore
	stable    *checked // term and vote, and the log without what is before it
	snapshots raft.SnapshotStore
	close     func() error
}

// snapshotKeeper is a store of snapshots that tells the log of each.
type snapshotKeeper interface {
	raft.SnapshotStore
	// newest returns where the newest snapshot ends, the zero position without one.
	newest() position
	// tell sets what is called with the end of each snapshot that is kept.
	tell(kept func(end position) error)
}

// openStores opens and verifies what Raft writes to. opened says whether Open has
// returned.
func openStores(cfg Config, g *guard, opened func() bool) (stores, error) {
	if cfg.Memory != nil {
		return cfg.Memory.openStores(g, opened)
	}
	st, err := openDir(cfg, g, opened)
	if err == nil && !cfg.Ran && cfg.Made != nil {
		if err = cfg.Made(); err != nil {
			err = errors.Join(fmt.Errorf("noting that the node runs: %w", err), st.close())
		}
	}
	return st, refuseDamage(cfg.ID, err)
}

func openDir(cfg Config, g *guard, opened func() bool) (st stores, err error) {
	dir, at := cfg.Dir, rest{g.node, cfg.DiskKey}
	if err = prepareDir(dir, at, cfg.Ran); err != nil {
		return stores{}, err
	}
	path := filepath.Join(dir, logFile)
	if err = scrubLog(path, g.node); err != nil {
		return stores{}, err
	}
	bolt, err := openBolt(path) // and lock out other processes
	if err != nil {
		return stores{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, bolt.Close())
		}
	}()
	if err = removeLeftovers(dir); err != nil {
		return stores{}, err
	}
	snaps, err := openSnapshots(filepath.Join(dir, snapshotDir), g)
	if err != nil {
		return stores{}, fmt.Errorf("opening the snapshots: %w", err)
	}
	return joinChecks(bolt, snaps, at, g, opened, bolt.Close)
}

// joinChecks puts the checks between Raft and what it writes to.
func joinChecks(u under, snaps snapshotKeeper, at rest, g *guard, opened func() bool, closing func() error) (stores, error) {
	if g.wrap != nil {
		u = g.wrap(u)
	}
	log, err := openChecked(u, g, snaps.newest(), opened)
	if err != nil {
		return stores{}, err
	}
	snaps.tell(log.noteSnapshot)
	var (
		logs raft.LogStore      = log
		kept raft.SnapshotStore = snaps
	)
	if at.key != nil {
		logs, kept = sealedLog{log, at}, sealedSnapshots{snaps, at}
	}
	cached, err := raft.NewLogCache(logCacheCount, logs)
	if err != nil {
		return stores{}, err
	}
	return stores{cached, log, kept, closing}, nil
}

// removeLeftovers removes what a crash left in dir.
func removeLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// openBolt opens the log for writing.
func openBolt(path string) (*raftboltdb.BoltStore, error) {
	b, err := raftboltdb.New(raftboltdb.Options{
		Path: path, BoltOptions: boltOptions(), NoSync: false,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, inUse(err)
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
	Key    string     `json:"disk_key,omitempty"` // names the disk key, in sealedFormat
	Sum    uint32     `json:"crc32c"`             // of the others, as checksum returns it
}

func (id identity) checksum() uint32 {
	text := fmt.Appendf(nil, "%d %s", id.Format, id.Node)
	if id.Key != "" {
		text = fmt.Appendf(text, " %s", id.Key)
	}
	return crc32.Checksum(text, castagnoli)
}

// prepareDir makes dir the data directory of node, or checks that it is. Each
// step of making it may be cut off by a crash and is repeated by the next call. A
// node that ran before must have it.
func prepareDir(dir string, at rest, ran bool) error {
	node := at.node
	if err := makeDir(dir); err != nil {
		return err
	}
	owner, err := readIdentity(filepath.Join(dir, nodeFile))
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	if fresh && ran {
		return damagef("%s is missing, and with it perhaps all that the node knew", filepath.Join(dir, nodeFile))
	}
	if !fresh && owner.Node != node {
		return api.Errorf(api.CodeConflict, "data directory %s belongs to node %s, not to %s", dir, owner.Node, node)
	}
	if !fresh {
		if err = checkDiskKey(dir, owner.Key, at.key); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, logFile)
	_, err = os.Stat(path)
	switch {
	case err == nil && fresh:
		err = checkUnused(path, node)
	case errors.Is(err, fs.ErrNotExist) && !fresh:
		err = damagef("%s is missing", path)
	case errors.Is(err, fs.ErrNotExist):
		err = makeLog(path, node)
	}
	if err != nil || !fresh {
		return err
	}
	id := identity{Format: diskFormat, Node: node}
	if at.key != nil {
		id.Format, id.Key = sealedFormat, nameOf(at.key)
	}
	return writeIdentity(filepath.Join(dir, nodeFile), id)
}

// makeLog creates an empty log under another name first, so that a file of the
// right name is always a whole one.
func makeLog(path string, node api.NodeID) error {
	temp := path + tempSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := openBolt(temp)
	if err != nil {
		return err
	}
	err = formatChecked(b, votes{Node: node}, ledger{Node: node, First: 1})
	if err = errors.Join(err, b.Sync(), b.Close()); err != nil {
		return err
	}
	return renameDurably(temp, path)
}

// checkUnused accepts the log of a first start that a crash cut off, and no other:
// without node.json nobody knows whose votes it holds.
func checkUnused(path string, node api.NodeID) error {
	r, err := openLog(path, node)
	if err != nil {
		return err
	}
	used := r.isUsed()
	if err := r.Close(); err != nil {
		return err
	}
	if used {
		return damagef("%s is in use but %s is missing beside it", path, nodeFile)
	}
	return nil
}

// makeDir makes dir and makes its name durable.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func readIdentity(path string) (identity, error) {
	var id identity
	b, err := os.ReadFile(path)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(b, &id); err != nil {
		return id, fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	if first := id.Format == 1 && id.Sum == 0; !first && id.Sum != id.checksum() { // the first format had no checksum
		return id, fmt.Errorf("%s: %w: its checksum does not match", path, ErrDamaged)
	}
	if id.Format != diskFormat && id.Format != sealedFormat {
		return id, api.Errorf(api.CodeConflict, "%s has format %d; this version reads %d and %d", path, id.Format, diskFormat, sealedFormat)
	}
	return id, nil
}

func writeIdentity(path string, id identity) error {
	id.Sum = id.checksum()
	b, _ := json.Marshal(id) // texts and numbers can always be spelled
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
	return syncDir(filepath.Dir(to))
}

// syncDir makes the names in a directory durable.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
