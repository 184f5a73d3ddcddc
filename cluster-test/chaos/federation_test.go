//go:build chaos

package chaos

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/cluster-test/lab"
)

// Sizes of the campaign against a whole federation.
const (
	federationRoom = 60 // instances in each zone
	realRoom       = 15 // more in west, as processes
	nemesisTime    = 200 * time.Second
)

// TestFederation lets clients use three zones of three nodes each while everything
// that can break breaks, and then judges logs, histories, journals, final states,
// and every byte that passed between zones.
func TestFederation(t *testing.T) {
	// Snapshots are taken often, and the log is kept for the checkers.
	disk := lab.DiskBytes + int64(*scaleFlag*(64<<20))
	f := newFleet(t, lab.Options{Env: []string{"BERTH_COMPACT=300:1000000"}, Tap: true, DiskBytes: disk}, 3, federationRoom)
	n := &nemesis{fleet: f, dice: f.dice, agent: f.realAgent(t, realRoom), busy: map[*lab.NodeProc]bool{}}
	f.supervise()
	f.Allow(lab.Exit.DiskBroken)
	f.Allow(n.handedOver)
	f.share(t)
	tr := newTraffic(t, f)
	began := time.Now()
	n.campaign(t, tr, began.Add(time.Duration(float64(nemesisTime)**scaleFlag)))
	tr.reach(t, scaled(operationsMin), gatewayMBMin<<20)
	until := time.Now() // probers write no more while the last calls end
	ops, err := tr.end()
	require.NoError(t, err)
	for _, p := range tr.probers {
		p.judge(t, n.hits, began, until)
	}
	f.judge(t, tr, ops, n.count(t))
}

// handoverMax is how long after a lead was to be handed over a process may end
// because that did not come to an end.
const handoverMax = 30 * time.Second

// handedOver reports whether a process has ended because it was handing over its
// lead and was cut off: Raft does not recover from that, and a new process does.
func (n *nemesis) handedOver(e lab.Exit) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return e.How == "exit status 9" && strings.Contains(e.Last, "handing over its lead") && slices.ContainsFunc(n.hits, func(h *hit) bool {
		over := h.kind == "transfer leadership" || h.kind == "stop and start" || h.kind == "wrong clock"
		return over && strings.HasPrefix(e.Service, h.zone()+"-") && !e.At.Before(h.from) && e.At.Sub(h.until) <= handoverMax
	})
}

// campaign breaks everything until a moment: every second time two faults at once,
// beside one that lasts.
func (n *nemesis) campaign(t *testing.T, tr *traffic, until time.Time) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- n.last(t.Context(), until) }()
	next, stop := iter.Pull(n.draw(until))
	defer stop()
	for round := 0; ; round++ {
		var at []fault
		for range 1 + round%2 {
			if f, more := next(); more {
				at = append(at, f)
			}
		}
		if len(at) == 0 {
			break
		}
		n.broken(t, tr, at...)
	}
	require.NoError(t, <-done)
	require.NoError(t, n.rest(t.Context()))
}

// last injects the faults that last, one after the other.
func (n *nemesis) last(ctx context.Context, until time.Time) error {
	n.until = until
	for round := n.intn(len(lasting)); time.Until(until) > lastingMin; round++ {
		f := lasting[round%len(lasting)]
		if f.disk && !hasDisks {
			f = lasting[0]
		}
		if _, err := n.inject(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// broken injects faults at about the same time, and waits until all is well but for
// what lasts.
func (n *nemesis) broken(t *testing.T, tr *traffic, at ...fault) {
	t.Helper()
	before, began := tr.count(), time.Now()
	errs := make(chan error, len(at))
	var kinds []string
	for i, f := range at {
		kinds = append(kinds, f.kind)
		go func() {
			if i > 0 {
				n.hold(t.Context(), 0, time.Second)
			}
			_, err := n.inject(t.Context(), f)
			errs <- err
		}()
	}
	for range at {
		require.NoError(t, <-errs)
	}
	mended := time.Since(began)
	require.NoError(t, n.rest(t.Context()), "after %v", kinds)
	t.Logf("%-42s %5.1f s, ready after %4.1f s more, %d operations meanwhile", strings.Join(kinds, " and "),
		mended.Seconds(), (time.Since(began) - mended).Seconds(), tr.count()-before)
}

// count adds up the faults, and returns how many there were of each kind.
func (n *nemesis) count(t *testing.T) map[string]int {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	kinds := map[string]int{}
	var soon []*hit
	for _, h := range n.hits {
		kinds[h.kind]++
		sums.fault(h.kind, len(h.nodes))
		if slices.ContainsFunc(lasting, func(f fault) bool { return f.kind == h.kind }) {
			t.Logf("%s of %s: %s", h.kind, h.nodes[0].Name, h.until.Sub(h.from).Round(time.Second))
			sums.lasted(h.until.Sub(h.from))
		} else {
			soon = append(soon, h)
		}
	}
	at := overlapping(soon)
	sums.overlapped(at)
	t.Logf("%d faults, %d of them while another was there, and %d that lasted: %v", len(soon), at, len(n.hits)-len(soon), kinds)
	return kinds
}

// overlapping counts faults that were there while another was.
func overlapping(hits []*hit) (count int) {
	for _, h := range hits {
		if slices.ContainsFunc(hits, func(o *hit) bool { return o != h && o.from.Before(h.until) && h.from.Before(o.until) }) {
			count++
		}
	}
	return count
}

// judge lets the federation come to rest and checks everything that it leaves.
func (f *fleet) judge(t *testing.T, tr *traffic, ops []check.Op, injected map[string]int) {
	t.Helper()
	ctx := t.Context()
	f.enableAll(ctx, t)
	states := map[api.BootState]int{}
	for _, id := range tr.ids {
		b, err := f.ends(ctx, id, api.BootState.Outcome)
		if api.CodeOf(err) == api.CodeNotFound {
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
	evidence := f.stopAndRead(t, f.zones()...)
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
	sum.Acks, v = check.Acks(slices.Concat(tr.acks, tr.log.end()), evidence.finals)
	found = append(found, v...)
	t.Logf("acknowledgements: %+v", sum.Acks)
	sum.History, v = check.History(ops, check.HistoryOptions{Dir: f.Dir})
	found = append(found, v...)
	t.Logf("history: %+v", sum.History)
	found = append(found, check.Gate(sum, check.Floor{
		Ops: scaled(2000), OK: scaled(1500), Local: scaled(100), Partitions: 50, Provided: scaled(3000), Commands: 1000, Claims: 100,
		Drawn: scaled(100), Allocated: scaled(400), States: 9, Started: 50, Boots: 20, Values: 5,
		Acked:    map[check.AckKind]int{check.AckAttach: scaled(20), check.AckDetach: scaled(20), check.AckBind: 2, check.AckBindingEnd: 2},
		Outcomes: check.Outcomes{"binding began": 2, "VolumeAttach ok": 2, "VolumeDetach ok": 2},
	})...)
	for _, one := range found {
		assert.Fail(t, "a promise was broken", one.String())
	}
	judgeBindings(t, tr, evidence)
	sums.history(ops)
	f.scan(t, evidence)
}

// enableAll enables the hosts that clients have disabled.
func (f *fleet) enableAll(ctx context.Context, t *testing.T) {
	t.Helper()
	yes := true
	for _, z := range f.zones() {
		for _, h := range z.Hosts() {
			require.NoError(t, z.Do(ctx, z.Token, func(ctx context.Context, c *client.Client) error {
				_, err := c.UpdateHost(ctx, string(h.ID), rest.HostSpec{Enabled: &yes})
				return err
			}))
		}
	}
}
