package node

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/federation"
	"berth/internal/await"
	"berth/raftstore"
)

// returns makes the first node of a zone that comes back, on a fresh disk.
func returns(t *world, dir string, backup []byte, keks federation.KEKs, change ...func(*InitOptions)) (*home, *Returned, error) {
	t.Helper()
	h := homeIn(t, dir).onDisk()
	o := InitOptions{Dir: dir, Placement: Placement{Listen: anyPorts()}, Now: time.Now()}
	for _, f := range change {
		f(&o)
	}
	r, err := InitFromBackup(o, backup, keks)
	h.opts.DiskKey = o.DiskKey
	if r != nil {
		h.token = r.Token
	}
	return h, r, err
}

// TestInitFromBackup: a zone comes back on a fresh disk with all that a backup has, as a later incarnation; its old node is no member,
// its keys change, and it can come back once more, from the same backup.
func TestInitFromBackup(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		old := newZone(t, "a").run()
		old.offers("before")
		backup, keks := old.backup().Bytes(), old.keys.KEKs()
		old.offers("after")
		index, term := old.view().Index(), old.store.Term()
		require.NoError(t, old.stop())

		key := &raftstore.DiskKey{5}
		h, back, err := returns(t, filepath.Join(t.TempDir(), "a"), backup, keks, func(o *InitOptions) { o.DiskKey = key })
		require.NoError(t, err)
		assert.Equal(t, "a", back.Zone)
		assert.NotEqual(t, old.rec.Node, back.Node)
		r := h.run()
		v := r.view()
		assert.Equal(t, old.rec.Zone, v.Zone)
		assert.Equal(t, back.Incarnation, v.Incarnation)
		_, ok := v.Flavor("before")
		assert.True(t, ok)
		_, ok = v.Flavor("after")
		assert.False(t, ok)
		assert.Greater(t, v.Index(), index+1<<32)
		assert.Greater(t, r.store.Term(), term+1<<20)
		assert.Equal(t, []api.NodeID{back.Node}, r.members())
		require.Error(t, r.checkMember(old.rec.Node, time.Now(), nil), "the old node is no member")
		assert.Equal(t, old.wallet.Newest(), r.wallet.Newest(), "the authority is the same")
		assert.NoFileExists(t, h.path(fileReturn))
		await.True(t, "the old nodes have the key", func() bool { return r.view().KEKDue == 0 })
		r.offers("later")
		second := r.backup().Bytes()
		require.NoError(t, r.stop())
		r = h.run()
		_, ok = r.view().Flavor("later")
		assert.True(t, ok)
		require.NoError(t, r.stop())

		late := func(o *InitOptions) { o.Now = time.Now().Add(time.Hour) }
		_, again, err := returns(t, filepath.Join(t.TempDir(), "a"), backup, keks, late)
		require.NoError(t, err)
		assert.Greater(t, again.Incarnation, back.Incarnation)
		_, _, err = returns(t, filepath.Join(t.TempDir(), "a"), second, r.keys.KEKs(), func(o *InitOptions) { o.Now = time.Unix(int64(back.Incarnation), 0) })
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "not later than what the backup has")
	})
}

// TestInitFromBackupRefuses: nothing is written for a backup that does not fit.
func TestInitFromBackupRefuses(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		a, b := newZone(t, "a").run(), newZone(t, "b").run()
		backup, keks := a.backup().Bytes(), a.keys.KEKs()
		refused := func(code api.Code, says string, backup []byte, keks federation.KEKs, change ...func(*InitOptions)) {
			t.Helper()
			dir := filepath.Join(t.TempDir(), "new")
			_, _, err := returns(t, dir, backup, keks, change...)
			assert.Equal(t, code, api.CodeOf(err), "%v", err)
			assert.ErrorContains(t, err, says)
			assert.NoDirExists(t, dir)
		}
		refused(api.CodeInvalid, "none of these key-encryption keys", backup, b.keys.KEKs())
		changed := bytes.Clone(backup)
		changed[len(changed)/2] ^= 1
		refused(api.CodeInvalid, "changed or cut", changed, keks)
		refused(api.CodeInvalid, "no sealed backup", a.plainBackup().Bytes(), keks)
		refused(api.CodeInvalid, `is of zone "a"`, backup, keks, func(o *InitOptions) { o.Name = "b" })
		refused(api.CodeConflict, "has a node", backup, keks, func(o *InitOptions) { o.Node = a.rec.Node })
		refused(api.CodeConflict, "set it", backup, keks, func(o *InitOptions) { o.Now = o.Now.Add(-time.Hour) })
		_, _, err := returns(t, a.home.opts.Dir, backup, keks)
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "a directory that holds a node")
	})
}

// TestReturnCutOff: a first start that ends anywhere is repeated.
func TestReturnCutOff(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		old := newZone(t, "a").run()
		backup, keks := old.backup().Bytes(), old.keys.KEKs()
		require.NoError(t, old.stop())
		h, _, err := returns(t, filepath.Join(t.TempDir(), "a"), backup, keks)
		require.NoError(t, err)
		begin, err := os.ReadFile(h.path(fileReturn))
		require.NoError(t, err)
		r := h.run()
		r.offers("x")
		require.NoError(t, r.stop())
		require.NoError(t, os.WriteFile(h.path(fileReturn), begin, 0o600)) // it was not removed
		r = h.run()
		_, ok := r.view().Flavor("x")
		assert.True(t, ok, "what has begun goes on")
	})
}
