package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"berth/internal/crash"
)

// under is what a checked store writes to: bolt, or memory.
type under interface {
	raft.LogStore
	Set(key, value []byte) error
	Get(key []byte) ([]byte, error)
}

// checked is the log, term and vote of a node as Raft sees them. It seals what it
// writes, verifies what it reads, and knows by its ledger what must be there. Any
// error of the store under it ends the process.
type checked struct {
	under under
	guard *guard
	open  func() bool // Open has returned: errors no longer have a caller of ours

	mu    sync.Mutex // guards the fields below; written by whoever holds the guard's token
	book  ledger
	votes votes
	snap  position // where the newest snapshot ends
}

// termKey is where Raft keeps the newest term that it has heard of.
var termKey = []byte("CurrentTerm")

// position is one entry of the log: at one index and of one term there is only one.
type position struct{ index, term uint64 }

// endOf returns the last entry that is in a snapshot.
func endOf(m *raft.SnapshotMeta) position { return position{m.Index, m.Term} }

// ErrDiverged ends a process whose log has another entry than the zone's where a
// snapshot of the zone ends. Raft keeps such entries, refuses what follows the
// snapshot, and is sent the snapshot again, for ever (hashicorp/raft 1.8.0, issue
// 697). When the node is opened again, they are dropped: the zone never confirmed
// them.
var ErrDiverged = errors.New("the log of this node ends in entries that its zone has given up; the process ends to drop them")

var (
	_ raft.LogStore          = (*checked)(nil)
	_ raft.StableStore       = (*checked)(nil)
	_ raft.MonotonicLogStore = (*checked)(nil)
)

// formatChecked makes an empty store of node in u.
func formatChecked(u under, v votes, b ledger) error {
	record, err := v.encodeVotes()
	if err != nil {
		return err
	}
	page, err := b.encodePage()
	if err != nil {
		return err
	}
	if err := u.Set(votesKey, record); err != nil {
		return err
	}
	return u.StoreLog(page)
}

// openChecked opens a store that was formatted. newest is where the newest snapshot
// ends.
func openChecked(u under, g *guard, newest position, open func() bool) (*checked, error) {
	c := &checked{under: u, guard: g, open: open, snap: newest}
	var page raft.Log
	err := u.GetLog(ledgerIndex, &page)
	if errors.Is(err, raft.ErrLogNotFound) {
		return nil, damagef("its ledger is missing")
	}
	if err == nil {
		c.book, err = readLedger(g.node, &page)
	}
	if err != nil {
		return nil, err
	}
	record, err := u.Get(votesKey)
	if err == nil {
		c.votes, err = readVotes(g.node, record)
	} else if err.Error() == raftboltdb.ErrKeyNotFound.Error() { // the store in memory has its own error of that text
		err = damagef("its term and vote are missing")
	}
	if err != nil {
		return nil, err
	}
	if err := checkSnapshot(c.book, newest.index); err != nil {
		return nil, err
	}
	return c, c.finishCutOff(newest)
}

// checkSnapshot compares the ledger with the newest snapshot: it must not be older
// than one that was kept, and the log must not begin behind it.
func checkSnapshot(b ledger, newest uint64) error {
	if newest < b.Snap {
		return damagef("the snapshot up to index %d is missing; the newest reaches to %d", b.Snap, newest)
	}
	if b.First > newest+1 {
		return damagef("the log begins at index %d, behind the newest snapshot, which reaches to %d", b.First, newest)
	}
	return nil
}

// finishCutOff does what a crash cut off: to delete entries, and to drop a log that a
// snapshot from elsewhere has overtaken or contradicts.
func (c *checked) finishCutOff(newest position) error {
	c.book.Snap = max(c.book.Snap, newest.index)
	if c.book.DeadFrom != 0 {
		if err := c.under.DeleteRange(c.book.DeadFrom, c.book.DeadTo); err != nil {
			return fmt.Errorf("finishing to delete entries: %w", err)
		}
		c.book.DeadFrom, c.book.DeadTo = 0, 0
	}
	if c.book.isEmpty() {
		return nil
	}
	drop := c.book.Last < newest.index
	if !drop {
		var err error
		if drop, err = c.contradictsSnapshot(newest); err != nil {
			return err
		}
	}
	if drop {
		return c.DeleteRange(c.book.First, c.book.Last)
	}
	return nil
}

// contradictsSnapshot reports whether the log has another entry where a snapshot ends.
func (c *checked) contradictsSnapshot(end position) (bool, error) {
	if !c.currentLedger().hasEntry(end.index) {
		return false, nil
	}
	var l raft.Log
	err := c.GetLog(end.index, &l)
	return err == nil && l.Term != end.term, err
}

// holdsUpTo implements entries. What is behind the end of the log's own snapshot is in it.
func (c *checked) holdsUpTo(end position) bool {
	if end.index <= c.snapshotEnd().index {
		return true
	}
	var l raft.Log
	return c.currentLedger().hasEntry(end.index) && c.GetLog(end.index, &l) == nil && l.Term == end.term
}

// term implements entries.
func (c *checked) term() uint64 {
	t, err := c.GetUint64(termKey)
	if err != nil {
		return 0 // it has heard of none yet
	}
	return t
}

// IsMonotonic implements raft.MonotonicLogStore: the log has no holes.
func (c *checked) IsMonotonic() bool { return true }

func (c *checked) currentLedger() ledger {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.book
}

// snapshotEnd returns where the newest snapshot ends.
func (c *checked) snapshotEnd() position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snap
}

func (c *checked) setLedger(b ledger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book = b
}

// FirstIndex implements raft.LogStore.
func (c *checked) FirstIndex() (uint64, error) {
	if b := c.currentLedger(); !b.isEmpty() {
		return b.First, nil
	}
	return 0, nil
}

// LastIndex implements raft.LogStore.
func (c *checked) LastIndex() (uint64, error) {
	if b := c.currentLedger(); !b.isEmpty() {
		return b.Last, nil
	}
	return 0, nil
}

// GetLog implements raft.LogStore. An entry that should be there and is not, or is
// not what was written, ends the process. Of the entry that the newest snapshot ends
// with, position and nothing else is known when the log has been cut: without it Raft
// could not go back to the snapshot when the entries behind it are replaced. It sends
// no such entry to others: the one before it is not known. The first of all has none
// before it, so it is not made up.
func (c *checked) GetLog(index uint64, l *raft.Log) error {
	if !c.currentLedger().hasEntry(index) {
		if end := c.snapshotEnd(); index > 1 && index == end.index {
			*l = raft.Log{Index: end.index, Term: end.term, Type: raft.LogNoop}
			return nil
		}
		return raft.ErrLogNotFound
	}
	var stored raft.Log
	err := c.fetchEntry(index, &stored)
	if err == nil {
		*l, _, err = openEntry(index, &stored)
	}
	switch {
	case err == nil:
		return nil
	case !c.currentLedger().hasEntry(index): // it was deleted meanwhile
		return raft.ErrLogNotFound
	case errors.Is(err, raft.ErrLogNotFound):
		err = damagef("the entry at index %d is missing", index)
	}
	return c.guard.endProcess(fmt.Errorf("reading %s: %w", logFile, err))
}

// fetchEntry reads an entry. The libraries panic over some damage.
func (c *checked) fetchEntry(index uint64, l *raft.Log) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damagef("reading the entry at index %d: %v", index, p)
		}
	}()
	return c.under.GetLog(index, l)
}

// StoreLog implements raft.LogStore.
func (c *checked) StoreLog(l *raft.Log) error { return c.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. The entries follow each other and what is
// there; the ledger is in the same transaction.
func (c *checked) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	c.guard.crash.At(crash.LogWriting)
	err := c.guard.writeEntry("a write to the log", func() error {
		b := c.currentLedger()
		b.DeadFrom, b.DeadTo = 0, 0
		if b.isEmpty() && logs[0].Index == b.Snap+1 {
			b.First = b.Snap + 1
			b.Last = b.Snap
		}
		sealed := make([]*raft.Log, 0, len(logs)+1)
		for _, l := range logs {
			if b.Last++; l.Index != b.Last {
				return fmt.Errorf("entry %d should be at index %d", l.Index, b.Last)
			}
			sealed = append(sealed, sealEntry(l))
		}
		page, err := b.encodePage()
		if err != nil {
			return err
		}
		if err := c.under.StoreLogs(append(sealed, page)); err != nil {
			return err
		}
		c.setLedger(b)
		return nil
	})
	if err == nil {
		c.guard.crash.At(crash.LogWritten)
	}
	return err
}

// DeleteRange implements raft.LogStore: entries are cut off at one end. The ledger
// forgets them first; if a crash comes then, the next start deletes them.
func (c *checked) DeleteRange(low, high uint64) error {
	c.guard.crash.At(crash.TruncateWriting)
	err := c.guard.writeEntry("a deletion from the log", func() error {
		b := c.currentLedger()
		from, to := max(low, b.First), min(high, b.Last)
		switch {
		case from > to:
			return nil // nothing of it is there
		case to == b.Last: // all of it may go: then the next entry comes where these began
			b.Last = from - 1
		case from == b.First:
			b.First = to + 1
		default:
			return fmt.Errorf("to delete %d to %d would leave a hole in %d to %d", from, to, b.First, b.Last)
		}
		b.DeadFrom, b.DeadTo = from, to
		if err := c.putLedger(b); err != nil {
			return err
		}
		return c.under.DeleteRange(from, to)
	})
	if err == nil {
		c.guard.crash.At(crash.TruncateWritten)
	}
	return err
}

// putLedger writes the ledger alone.
func (c *checked) putLedger(b ledger) error {
	page, err := b.encodePage()
	if err != nil {
		return err
	}
	if err := c.under.StoreLog(page); err != nil {
		return err
	}
	c.setLedger(b)
	return nil
}

// noteSnapshot notes that there is a snapshot up to end now, which must not be lost. It ends
// the process with ErrDiverged if the log contradicts it.
func (c *checked) noteSnapshot(end position) error {
	return c.guard.writeEntry("noting a snapshot in the log", func() error {
		b := c.currentLedger()
		if b.Snap < end.index {
			b.Snap = end.index
			if err := c.putLedger(b); err != nil {
				return err
			}
		}
		c.mu.Lock()
		c.snap = end
		c.mu.Unlock()
		diverged, err := c.contradictsSnapshot(end)
		if diverged {
			return ErrDiverged
		}
		return err
	})
}

// Set implements raft.StableStore. Raft answers an error with a panic, so once the
// node has stopped, and this returns nevertheless, the goroutine ends here.
func (c *checked) Set(key, value []byte) error {
	c.guard.crash.At(crash.VoteWriting)
	err := c.guard.writeEntry("a write of term or vote", func() error {
		c.mu.Lock()
		v := votes{Node: c.votes.Node, Values: map[string][]byte{}}
		for k, old := range c.votes.Values {
			v.Values[k] = old
		}
		c.mu.Unlock()
		v.Values[string(key)] = append([]byte{}, value...)
		record, err := v.encodeVotes()
		if err != nil {
			return err
		}
		if err := c.under.Set(votesKey, record); err != nil {
			return err
		}
		c.mu.Lock()
		c.votes = v
		c.mu.Unlock()
		return nil
	})
	if err != nil && c.open() {
		runtime.Goexit()
	}
	if err == nil {
		c.guard.crash.At(crash.VoteWritten)
	}
	return err
}

// Get implements raft.StableStore. It reads what was verified when the store was
// opened, or written since.
func (c *checked) Get(key []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.votes.Values[string(key)]
	if !ok {
		return nil, raftboltdb.ErrKeyNotFound // Raft knows it by its text
	}
	return append([]byte{}, v...), nil
}

// SetUint64 implements raft.StableStore.
func (c *checked) SetUint64(key []byte, value uint64) error {
	return c.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (c *checked) GetUint64(key []byte) (uint64, error) {
	b, err := c.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, damagef("%s has %d bytes", key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
