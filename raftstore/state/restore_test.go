package state

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// parts cuts a backup into n parts or so.
func (w *world) parts(backup string, n int) []command.Restore {
	sum := sha256.Sum256([]byte(backup))
	size := max(1, (len(backup)+n-1)/n)
	var out []command.Restore
	for from := 0; from < len(backup); from += size {
		out = append(out, command.Restore{
			Sum: sum[:], Size: int64(len(backup)), Offset: int64(from),
			Data: []byte(backup[from:min(from+size, len(backup))]),
		})
	}
	return out
}

func (w *world) part(c command.Restore) command.Restore {
	c.Stamp = w.stamp()
	return c
}

// TestRestoreFromParts restores a state between commands of others.
func TestRestoreFromParts(t *testing.T) {
	w := placed(t)
	backup := saved(t, w.s)
	seen := w.s.Index()
	w.host("h9", 1)
	parts := w.parts(backup, 3)
	for i, c := range parts {
		assert.Equal(t, i == len(parts)-1, c.Last())
		before := w.s.Clone()
		w.ok(w.part(c))
		if !c.Last() {
			assert.Equal(t, facts(t, before.WithoutUpload()), facts(t, w.s.WithoutUpload()), "nothing shows yet")
			w.host(fmt.Sprint("between", i), 1)
		}
	}
	assert.Equal(t, w.index, w.s.Index())
	assert.Equal(t, w.now, w.s.Now())
	assert.Len(t, w.s.AllHosts(), 3)
	checkIndexes(t, w.s)
	assert.Len(t, w.s.WorkAfter("a1", seen), 3, "agents are told anew")
	assert.NotEmpty(t, w.s.Changes("up", seen, 10).Items, "and so is the parent")
	told := loaded(t, backup)
	told.index, told.now = w.s.index, w.s.now
	told.markRestored()
	assert.Equal(t, saved(t, told), saved(t, w.s), "else it is what the backup holds")

	for _, c := range parts[1:] {
		w.refused(api.CodeConflict, w.part(c))
	}
	w.ok(create(w.stamp(), "later", 1, 1))
}

func TestRestoreIsRefused(t *testing.T) {
	w := placed(t)
	backup := saved(t, w.s)
	parts := w.parts(backup, 3)
	other := w.parts(saved(t, w.s)+"x", 3)
	for name, bad := range map[string]command.Restore{
		"no data":    {Sum: parts[0].Sum, Size: 5},
		"nothing":    {},
		"too long":   {Sum: parts[0].Sum, Size: 2, Data: []byte("abc")},
		"too large":  {Sum: parts[0].Sum, Size: command.BackupMaxBytes + 1, Data: []byte("a")},
		"large part": {Sum: parts[0].Sum, Size: command.BackupMaxBytes, Data: make([]byte, command.BackupPartMaxBytes+1)},
		"negative":   {Sum: parts[0].Sum, Size: 5, Offset: -1, Data: []byte("a")},
		"wrong sum":  {Sum: []byte("no"), Size: 3, Data: []byte("abc")},
	} {
		r := w.do(w.part(bad))
		require.Error(t, r.Err, name)
	}
	w.ok(w.part(command.Restore{Sum: parts[0].Sum, Size: command.BackupMaxBytes, Data: make([]byte, command.BackupPartMaxBytes)}))
	w.refused(api.CodeConflict, w.part(parts[1]))
	w.ok(w.part(parts[0]))
	w.refused(api.CodeConflict, w.part(parts[2]))
	w.refused(api.CodeConflict, w.part(other[1]))
	w.ok(w.part(parts[1]))
	w.ok(w.part(parts[0])) // it begins anew
	w.refused(api.CodeConflict, w.part(parts[2]))

	abroad := &world{tb: t, s: New(), now: start}
	first := initial()
	first.Zone = "elsewhere"
	abroad.ok(first)
	foreign := w.parts(saved(t, abroad.s), 1)[0]
	w.refused(api.CodeInvalid, w.part(foreign))

	fresh := New()
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(fresh.Apply(1, w.part(w.parts(backup, 1)[0])).Err))
}

// TestUnloadableBackupStops: it was loaded by whoever proposed it.
func TestUnloadableBackupStops(t *testing.T) {
	w := newWorld(t)
	assert.Panics(t, func() { w.s.Apply(w.index+1, w.part(w.parts("nonsense", 1)[0])) })
}

// TestIdleUpload forgets a backup whose next part does not come.
func TestIdleUpload(t *testing.T) {
	w := placed(t)
	parts := w.parts(saved(t, w.s), 2)
	w.ok(w.part(parts[0]))
	w.now += api.Instant(uploadIdleMax / time.Millisecond)
	prune := command.Prune{Stamp: at(w.now), Limit: 1}
	w.ok(prune)
	require.NotNil(t, w.s.upload)
	prune.At++
	w.ok(prune)
	require.Nil(t, w.s.upload)
	w.refused(api.CodeConflict, w.part(parts[1]))
}

// TestUploadInASnapshot takes a state through a snapshot between two parts.
func TestUploadInASnapshot(t *testing.T) {
	w := placed(t)
	parts := w.parts(saved(t, w.s), 5)
	var views []*State
	var bytes []string
	for _, c := range parts {
		w.ok(w.part(c))
		views, bytes = append(views, w.s.Clone()), append(bytes, saved(t, w.s))
		w.s = loaded(t, saved(t, w.s))
		require.Equal(t, bytes[len(bytes)-1], saved(t, w.s))
	}
	assert.Nil(t, w.s.upload)
	for i, v := range views {
		assert.Equal(t, bytes[i], saved(t, v), "a view changed")
	}
	damaged := bytes[1]
	for n := len(damaged) - len(parts[0].Data); n < len(damaged); n++ {
		_, err := Load(strings.NewReader(damaged[:n]), api.FormNewest)
		require.Error(t, err, "cut to %d of %d bytes", n, len(damaged))
	}
}

// TestRestoreInAHistory restores in the middle of random histories, and lets two
// states that took the backup up differently go on side by side.
func TestRestoreInAHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDice(rt)
		for range d.n(60) {
			d.w.do(d.command())
		}
		parts := d.w.parts(saved(rt, d.w.s), 1+d.n(3))
		twin := loaded(rt, saved(rt, d.w.s))
		step := func(c command.Command) {
			c = d.w.reread(c)
			r := d.w.s.Apply(d.w.index+1, c)
			d.w.index++
			require.Equal(rt, r, twin.Apply(d.w.index, c), "%#v", c)
			require.Equal(rt, saved(rt, d.w.s), saved(rt, twin), "after %#v", c)
			if d.chance(4) {
				twin = loaded(rt, saved(rt, twin))
			}
		}
		for _, c := range parts {
			for range d.n(5) {
				step(d.command())
			}
			step(d.w.part(c))
		}
		checkIndexes(rt, d.w.s)
		for range 20 {
			step(d.command())
		}
	})
}
