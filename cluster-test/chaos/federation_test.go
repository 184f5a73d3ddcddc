//go:build chaos

package chaos

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
)

// Sizes of the campaign against a whole federation.
const (
	federationRoom = 60 // instances in each zone
	realRoom       = 15 // more in west, as processes
	nemesisTime    = 190 * time.Second
)

// TestFederation lets clients use three zones of three nodes each while everything
// that can break breaks, and then judges logs, histories, journals, final states,
// and every byte that passed between zones.
func TestFederation(t *testing.T) {
	// Snapshots are taken often, and the log is kept for the checkers.
	disk := lab.DiskBytes + int64(*scaleFlag*(64<<20))
	f := newFleet(t, lab.Options{Env: []string{"BERTH_COMPACT=300:1000000"}, Tap: true, DiskBytes: disk}, 3, federationRoom)
	n := &nemesis{fleet: f, dice: f.dice, agent: f.realAgent(t, realRoom)}
	f.supervise()
	f.Allow(lab.Exit.DiskBroken)
	f.share(t)
	tr := newTraffic(t, f)

	injected := map[string]int{}
	until := time.Now().Add(time.Duration(float64(nemesisTime) * *scaleFlag))
	for fault := range n.draw(until) {
		before, began := tr.count(), time.Now()
		require.NoError(t, fault.do(n, t.Context()), fault.kind)
		broken := time.Since(began)
		require.NoError(t, n.rest(t.Context()), "after %s", fault.kind)
		injected[fault.kind]++
		if fault.kind != "power cut" { // it has counted itself
			sums.fault(fault.kind, 1)
		}
		t.Logf("%-20s %5.1f s, ready after %4.1f s more, %d operations meanwhile",
			fault.kind, broken.Seconds(), (time.Since(began) - broken).Seconds(), tr.count()-before)
	}
	ops, err := tr.end()
	require.NoError(t, err)
	f.judge(t, tr, ops, injected)
}

// judge lets the federation come to rest and checks everything that it leaves.
func (f *fleet) judge(t *testing.T, tr *traffic, ops []check.Op, injected map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	f.enableAll(ctx, t)
	states := map[api.BootState]int{}
	for _, id := range tr.ids {
		b, err := f.ends(ctx, id, api.BootState.Outcome)
		if api.CodeOf(errors.Unwrap(err)) == api.CodeNotFound || api.CodeOf(err) == api.CodeNotFound {
			continue // nobody has heard of it; Acks will say if that is right
		}
		require.NoError(t, err, "a reservation is stuck")
		states[b.State]++
	}
	t.Logf("reservations: %v", states)
	f.Audit()
	f.agree(t)

	var found []check.Violation
	sum := check.Summary{Faults: injected}
	evidence := f.stopAndRead(t)
	for _, z := range f.zones() {
		ls, v := check.Log(evidence.logs[z.Name])
		sum.Logs = append(sum.Logs, ls)
		found = append(found, v...)
		t.Logf("log of %s: %+v", z.Name, ls)
	}
	var v []check.Violation
	sum.Journals, v = check.Journals(evidence.journals, check.JournalOptions{Active: evidence.active})
	found = append(found, v...)
	t.Logf("journals: %+v", sum.Journals)
	sum.Acks, v = check.Acks(tr.acks, evidence.finals)
	found = append(found, v...)
	t.Logf("acknowledgements: %+v", sum.Acks)
	sum.History, v = check.History(ops, check.HistoryOptions{Dir: f.Dir})
	found = append(found, v...)
	t.Logf("history: %+v", sum.History)
	found = append(found, check.Gate(sum, check.Floor{
		Ops: scaled(2000), OK: scaled(1500), Partitions: 50, Provided: scaled(3000), Commands: 1000, Claims: 100,
		Drawn: scaled(100), Allocated: scaled(400), States: 9, Started: 50, Boots: 20,
	})...)
	for _, one := range found {
		assert.Fail(t, "a promise was broken", one.String())
	}
	sums.operations(sum.History.Ops)
	f.scan(t, evidence)
}

// enableAll enables the hosts that clients have disabled.
func (f *fleet) enableAll(ctx context.Context, t *testing.T) {
	t.Helper()
	yes := true
	for _, z := range f.zones() {
		for _, h := range z.Hosts() {
			require.NoError(t, z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error {
				_, err := c.UpdateHost(ctx, string(h.ID), client.HostSpec{Enabled: &yes})
				return err
			}))
		}
	}
}
