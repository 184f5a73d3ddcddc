package state

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// Bounds of one run of a fuzz target.
const (
	fuzzCommandsMax = 60      // commands that are applied
	fuzzBytesMax    = 1 << 16 // bytes of input

	fuzzLoadBytesMax uint64 = 64 << 20 // that loading such an input may allocate
)

// readCommands reads commands as an entry of the log has them: each behind its length. It leaves
// out what cannot be read.
func readCommands(b []byte) []command.Command {
	var out []command.Command
	var last command.Command
	for len(b) > 0 && len(out) < fuzzCommandsMax {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			break
		}
		if c, err := command.DecodeAfter(last, b[n:n+int(size)], api.FormNewest); err == nil {
			out, last = append(out, c), c
		}
		b = b[n+int(size):]
	}
	return out
}

// writeCommands is the inverse of readCommands.
func writeCommands(tb interface {
	require.TestingT
	Helper()
}, cmds []command.Command,
) []byte {
	tb.Helper()
	var out []byte
	for _, c := range cmds {
		b, err := command.Encode(c, api.FormNewest)
		require.NoError(tb, err)
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out
}

// histories returns the commands of random histories of every kind, and the snapshots at
// their ends.
func histories() (commands, snapshots [][]byte) {
	for _, kind := range []struct {
		begin func(*rapid.T) *History
		first func(*History) []command.Command
		draw  func(*History) command.Command
	}{
		{NewHistory, (*History).First, (*History).Draw},
		{NewHistory, (*History).First, (*History).DrawRuled},
		{NewVolumeHistory, (*History).FirstOfVolumes, (*History).DrawVolume},
		{NewLeaseHistory, (*History).FirstOfLeases, (*History).DrawLease},
		{NewShareHistory, (*History).FirstOfPreempt, (*History).DrawShare},
	} {
		pair := rapid.Custom(func(rt *rapid.T) [2][]byte {
			h := kind.begin(rt)
			var all []command.Command
			apply := func(c command.Command) {
				all = append(all, c)
				h.Apply(0, c)
			}
			for _, c := range kind.first(h) {
				apply(c)
			}
			for len(all) < fuzzCommandsMax {
				apply(kind.draw(h))
			}
			return [2][]byte{writeCommands(rt, all), []byte(saved(rt, h.State()))}
		})
		for seed := range 2 {
			got := pair.Example(seed)
			commands, snapshots = append(commands, got[0]), append(snapshots, got[1])
		}
	}
	return commands, snapshots
}

// FuzzHistories applies a history that is read from bytes, saves the state after some of it, and
// lets what is loaded go on beside what was saved: both give the same answers and end the same.
func FuzzHistories(f *testing.F) {
	commands, _ := histories()
	for _, b := range commands {
		f.Add(byte(30), b)
		f.Add(byte(50), b)
	}
	f.Fuzz(func(t *testing.T, at byte, b []byte) {
		if len(b) > fuzzBytesMax {
			return
		}
		s, cmds := New(), readCommands(b)
		before := cmds[:min(int(at), len(cmds))]
		for i, c := range before {
			s.Apply(uint64(i+1), c)
		}
		bytes := saved(t, s)
		twin := loaded(t, bytes)
		require.Equal(t, bytes, saved(t, twin), "a snapshot of the loaded state")
		for i, c := range cmds[len(before):] {
			index := uint64(len(before) + i + 1)
			require.Equal(t, s.Apply(index, c), twin.Apply(index, c), "%#v", c)
		}
		require.Equal(t, saved(t, s), saved(t, twin), "at the end")
		checkIndexes(t, s)
	})
}

// unhex reads a golden snapshot.
func unhex(tb testing.TB, path string) []byte {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	b, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	require.NoError(tb, err)
	return b
}

// allocated returns how many bytes this process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// FuzzLoad loads snapshots that nobody has saved. What is not refused can be saved and loaded
// again, and has the indexes that its records ask for.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{"", "-scheduler", "-placement"} {
		f.Add(unhex(f, "testdata/snapshot-v3"+name+".hex"))
	}
	_, snapshots := histories()
	for _, b := range snapshots {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > fuzzBytesMax {
			return
		}
		before := allocated()
		s, err := Load(bytes.NewReader(b), api.FormNewest)
		require.Less(t, allocated()-before, fuzzLoadBytesMax, "bytes allocated for %d of a snapshot", len(b))
		if err != nil {
			return
		}
		first := saved(t, s)
		require.Equal(t, first, saved(t, loaded(t, first)), "a snapshot of what was loaded")
		checkBuilt(t, s)
	})
}
