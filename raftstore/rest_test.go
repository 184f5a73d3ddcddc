package raftstore

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// secretName is in commands of the tests, to be looked for on disks.
const secretName = "a-name-that-nobody-else-may-read"

func sealedBy(first byte) func(*Config) {
	return func(c *Config) {
		c.DiskKey = &DiskKey{first}
		c.Compact.Trailing = 1
	}
}

// holdsName reports whether a file in dir has the name in it.
func holdsName(t *testing.T, dir string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, []byte(secretName))
		return err
	})
	require.NoError(t, err)
	return found
}

// TestSealedDisk: what a node writes with a disk key is not to be read without it, and is
// there after a restart, from the snapshot and from the entries behind it.
func TestSealedDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sealed := range []bool{false, true} {
			n := solo(t, func(c *Config) {
				if sealed {
					sealedBy(1)(c)
				}
			})
			n.must(put("a", secretName))
			require.NoError(t, n.raft.Snapshot().Error())
			n.must(put("b", secretName))
			n = n.restart().leads()
			assert.Equal(t, secretName, addrOf(n.View(), "a"))
			assert.Equal(t, secretName, addrOf(n.View(), "b"))
			n.must(put("c", "3"))
			n.stop()
			assert.Equal(t, !sealed, holdsName(t, n.cfg.Dir), "sealed: %v", sealed)

			d, err := OpenDisk(n.cfg.Dir, n.cfg.DiskKey)
			require.NoError(t, err)
			st, err := d.State(d.Snapshots()[0].ID)
			require.NoError(t, err)
			assert.Equal(t, secretName, addrOf(st, "a"))
			var commands int
			for e, err := range d.Entries() {
				require.NoError(t, err)
				commands += len(e.Commands)
			}
			assert.Positive(t, commands)
			require.NoError(t, d.Close())
		}
	})
}

// TestEachNodeHasItsDiskKey: a snapshot goes from one node to another, each of which seals it
// with a key of its own, and one without any.
func TestEachNodeHasItsDiskKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead := solo(t, func(c *Config) {
			sealedBy(1)(c)
			c.Timing = steady
		})
		for range 5 {
			lead.must(put("a", strings.Repeat("long", 30_000))) // more than one chunk of a sealed stream
			lead.must(put("b", secretName))
		}
		require.NoError(t, lead.raft.Snapshot().Error())
		lead.must(put("c", "3"))
		for i, change := range []func(*Config){sealedBy(2), func(*Config) {}} {
			cfg := Config{ID: api.NodeID([]string{"n2", "n3"}[i]), Dir: t.TempDir(), Timing: steady}
			change(&cfg)
			n := start(t, cfg)
			require.NoError(t, lead.AddVoter(within(t), n.ID(), n.cfg.Advertise))
			n.catchUp(lead)
			list, err := n.raftSnapshots()
			require.NoError(t, err)
			require.NotEmpty(t, list, "it has got a snapshot")
			n = n.restart()
			n.catchUp(lead)
			assert.Equal(t, secretName, addrOf(n.View(), "b"))
			assert.Equal(t, cfg.DiskKey == nil, holdsName(t, cfg.Dir))
		}
	})
}

// raftSnapshots lists the files of the node's snapshots.
func (n *node) raftSnapshots() ([]string, error) {
	return filepath.Glob(filepath.Join(n.cfg.Dir, snapshotDir, "*"+snapshotSuffix))
}

// TestDiskKeysThatDoNotFit are refused, and nothing is written.
func TestDiskKeysThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain, sealed := solo(t, nil), solo(t, sealedBy(1))
		for _, n := range []*node{plain, sealed} {
			n.stop()
		}
		for _, c := range []struct {
			dir  string
			key  *DiskKey
			want string
		}{
			{plain.cfg.Dir, &DiskKey{1}, "was made without a disk key"},
			{sealed.cfg.Dir, nil, "is sealed: give the disk key"},
			{sealed.cfg.Dir, &DiskKey{2}, "with another disk key"},
		} {
			_, err := OpenDisk(c.dir, c.key)
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
			require.ErrorContains(t, prepareDir(c.dir, rest{"n1", c.key}, true), c.want)
		}
		_, err := Open(Config{ID: "n1", Memory: NewMemory(), Advertise: "a:1", Stream: newNetwork().listen("a:1"), Log: discard(), DiskKey: &DiskKey{1}})
		require.ErrorContains(t, err, "a memory has no disk key")
		for text, ok := range map[string]bool{
			strings.Repeat("ab", 32): true, strings.Repeat("ab", 31): false, strings.Repeat("ab", 33): false, strings.Repeat("xy", 32): false, "": false,
		} {
			_, err := ParseDiskKey(text)
			assert.Equal(t, ok, err == nil, text)
		}
		assert.NotContains(t, (&DiskKey{65, 65, 65}).String(), "A")
	})
}

// TestSealedEntriesStayInTheirPlace: an entry that was moved or changed does not open.
func TestSealedEntriesStayInTheirPlace(t *testing.T) {
	r := rest{"n1", &DiskKey{1}}
	l := &raft.Log{Index: 7, Term: 2, Type: raft.LogCommand, Data: []byte(secretName)}
	sealed := r.sealData(l)
	assert.Equal(t, secretName, string(l.Data), "what Raft holds is as it was")
	assert.NotContains(t, string(sealed.Data), secretName)
	assert.NotEqual(t, sealed.Data, r.sealData(l).Data, "no nonce is used twice")
	for name, c := range map[string]struct {
		by     rest
		change func(*raft.Log)
	}{
		"index": {r, func(l *raft.Log) { l.Index++ }},
		"term":  {r, func(l *raft.Log) { l.Term++ }},
		"type":  {r, func(l *raft.Log) { l.Type = raft.LogConfiguration }},
		"byte":  {r, func(l *raft.Log) { l.Data[30] ^= 1 }},
		"cut":   {r, func(l *raft.Log) { l.Data = l.Data[:10] }},
		"key":   {rest{"n1", &DiskKey{2}}, func(*raft.Log) {}},
		"node":  {rest{"n2", &DiskKey{1}}, func(*raft.Log) {}},
	} {
		moved := *sealed
		moved.Data = bytes.Clone(sealed.Data)
		c.change(&moved)
		require.ErrorIs(t, c.by.openData(&moved), ErrDamaged, name)
	}
	again := *sealed
	require.NoError(t, r.openData(&again))
	assert.Equal(t, secretName, string(again.Data))
}

// TestSealedFiles come back with their key and for their use alone.
func TestSealedFiles(t *testing.T) {
	path, key := filepath.Join(t.TempDir(), "f"), &DiskKey{1}
	write := func(b []byte, mode os.FileMode) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		require.NoError(t, os.Chmod(path, mode))
	}
	sealed := key.SealFile("kek", []byte(secretName))
	assert.NotContains(t, string(sealed), secretName)
	write(sealed, 0o600)
	got, err := key.ReadFile(path, "kek")
	require.NoError(t, err)
	assert.Equal(t, secretName, string(got))
	_, err = key.ReadFile(path, "other")
	require.ErrorContains(t, err, "another disk key")
	_, err = (&DiskKey{2}).ReadFile(path, "kek")
	require.ErrorContains(t, err, "another disk key")
	_, err = (*DiskKey)(nil).ReadFile(path, "kek")
	require.ErrorContains(t, err, "is sealed")
	write(sealed, 0o640)
	_, err = key.ReadFile(path, "kek")
	require.ErrorContains(t, err, "chmod 600")

	write((*DiskKey)(nil).SealFile("kek", []byte(secretName)), 0o600)
	got, err = (*DiskKey)(nil).ReadFile(path, "kek")
	require.NoError(t, err)
	assert.Equal(t, secretName, string(got))
	_, err = key.ReadFile(path, "kek")
	require.ErrorContains(t, err, "without a disk key")
}
