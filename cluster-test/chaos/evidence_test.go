//go:build chaos

package chaos

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan/seal"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
	"berth/cluster-test/leak"
	"berth/raftstore"
	"berth/raftstore/state"
	"berth/zone/estimate"
)

// evidence is what a federation that was stopped has left on its disks.
type evidence struct {
	logs     map[string]check.ZoneLog // by zone
	finals   []check.Final
	journals []check.Journal
	active   map[api.InstanceID]api.HostID
	states   map[string]*state.State // one for each zone
}

// stopAndRead stops every node of some zones, and then reads disks and journals.
func (f *fleet) stopAndRead(t *testing.T, of ...*lab.Zone) evidence {
	t.Helper()
	e := evidence{logs: map[string]check.ZoneLog{}, active: map[api.InstanceID]api.HostID{}, states: map[string]*state.State{}}
	for _, z := range of {
		log := check.ZoneLog{Zone: z.Name}
		for _, n := range z.Nodes {
			index, sum, err := n.State(t.Context())
			require.NoError(t, err)
			if err := n.Stop(); err != nil {
				n.Signal(syscall.SIGQUIT) // its log then says what it waits for
				lab.Pass(t.Context(), 2*time.Second)
				require.NoError(t, err, "%s stops", n.Name)
			}
			nodeLog, final := readDisk(t, n, index)
			var saved bytes.Buffer
			require.NoError(t, final.Save(&saved))
			assert.Equal(t, sum, fmt.Sprintf("%x", sha256.Sum256(saved.Bytes())), "%s had another state in memory than its disk tells", n.Name)
			log.Nodes = append(log.Nodes, nodeLog)
			log.States = append(log.States, check.NodeState{Node: string(n.ID), Index: final.Index(), Bytes: saved.Bytes()})
			e.finals = append(e.finals, check.Final{Zone: z.Name, Node: string(n.ID), State: final})
			e.states[z.Name] = final
		}
		e.logs[z.Name] = log
		for _, i := range e.states[z.Name].InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}}) {
			if i.Host != "" && i.Status == api.StatusActive {
				e.active[i.ID] = i.Host
			}
		}
		for _, a := range z.Agents {
			e.journals = append(e.journals, journal(t, z, a))
		}
	}
	return e
}

// readDisk reads the log of a stopped node up to what it had applied, and what
// comes of it.
func readDisk(t *testing.T, n *lab.NodeProc, applied uint64) (check.NodeLog, *state.State) {
	t.Helper()
	d, err := raftstore.OpenDisk(filepath.Join(n.Dir, "raft"), nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	log := check.NodeLog{Node: string(n.ID), Committed: applied}
	s := state.New()
	for entry, err := range d.Entries() {
		require.NoError(t, err)
		one := check.Entry{Index: entry.Index, Term: entry.Term, Commands: entry.Commands}
		if entry.Kind != raftstore.EntryCommand {
			one.Type = 1
		}
		log.Entries = append(log.Entries, one)
		if entry.Index > applied {
			continue
		}
		for _, c := range entry.Commands {
			s.Apply(entry.Index, c)
		}
	}
	return log, s
}

// journal reads what an agent wrote.
func journal(t *testing.T, z *lab.Zone, a *lab.AgentProc) check.Journal {
	t.Helper()
	j := check.Journal{Zone: z.Name, Agent: a.Agent, Ends: a.Lives()}
	for _, name := range []string{"journal.1", "journal"} { // the older one first
		file, err := os.Open(filepath.Join(a.Dir, "state", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, j.ReadJournal(file))
		require.NoError(t, file.Close())
	}
	return j
}

// scan searches what left each zone for what must stay there.
func (f *fleet) scan(t *testing.T, e evidence) {
	t.Helper()
	for _, z := range f.zones() {
		canaries, err := leak.OfState(e.states[z.Name])
		require.NoError(t, err)
		kek, err := os.ReadFile(filepath.Join(z.Nodes[0].Dir, "kek"))
		require.NoError(t, err)
		for one := range slices.Chunk(kek, 32) {
			canaries = append(canaries, leak.Key("key-encryption key", one)...)
		}
		scanner, err := leak.NewScanner(canaries)
		require.NoError(t, err)
		shapes := leak.NewShapes(seal.Sizes(), estimate.WeightQuantum)
		for _, n := range z.Nodes {
			totals, err := leak.ScanDir(f.TapDir(n.Name), scanner, shapes)
			require.NoError(t, err)
			sums.mu.Lock()
			sums.GatewayBytes += totals.Bytes
			sums.mu.Unlock()
			t.Logf("%s: %+v, %d canaries", n.Name, totals, len(canaries))
		}
		assert.Empty(t, scanner.Hits(), "%s has let something out", z.Name)
		assert.Empty(t, shapes.Faults(), "%s tells more by the shape of its plans than it should", z.Name)
	}
}
