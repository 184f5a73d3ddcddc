package rogue

import (
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cluster-test/leak"
	"berth/internal/dice"
	"berth/raftstore/state"
)

var forFlag = flag.Duration("for", 0, "how long each party attacks; 0 for a few tries of each attack, without a look at latencies")

// slowerMax is how many times longer than without a rogue, before and after it, the boots of others may take, at p99;
// and slowerSpare what few of them may add to that.
const (
	slowerMax   = 3
	slowerSpare = 250 * time.Millisecond
)

// measuredMin is how long a phase must be for its latencies to say something, and idleMost how long one without a
// rogue is.
const (
	measuredMin = 10 * time.Second
	idleMost    = 15 * time.Second
)

// TestRogues lets one party after the other attack a zone that others use.
func TestRogues(t *testing.T) {
	if *forFlag == 0 { // nothing is measured
		t.Parallel()
	}
	w := newWorld(t)
	for _, who := range dice.Part(t, []party{tenant(), stranger(), parent(), hostile(), former(), child(), faithless(), flood()}, 3) {
		t.Run(who.name, func(t *testing.T) { w.suffers(t, &who, 0) })
	}
	t.Run("crowd", func(t *testing.T) {
		const zones = 2 // so that each boot is decided over zones
		who := crowd()
		w.suffers(t, &who, zones)
	})
}

// idle measures the load without a rogue. zones is in how many each boot is.
func (w *world) idle(t *testing.T, zones int) *load {
	t.Helper()
	l := load{zones: zones}
	done := make(chan struct{})
	time.AfterFunc(min(*forFlag, idleMost), func() { close(done) })
	before := w.root.size()
	l.run(w, done)
	assert.Empty(t, l.failed)
	t.Logf("alone: %s; grown by %s", &l, w.root.size().minus(before))
	return &l
}

// suffers lets a party attack while others boot. zones is in how many each boot is.
func (w *world) suffers(t *testing.T, who *party, zones int) {
	t.Helper()
	alone := w.idle(t, zones)
	p := &phase{world: w, party: who, answers: t.TempDir(), done: make(chan struct{})}
	l := load{zones: zones}
	secrets := w.secrets(t)
	before := w.root.size()
	var most int64
	var wg sync.WaitGroup
	wg.Go(func() { l.run(w, p.done) })
	wg.Go(func() { most = mostMemory(t, p.done) })
	p.attack(t, *forFlag)
	wg.Wait()
	grown := w.root.size().minus(before)
	for _, r := range p.records {
		t.Log(r)
		for _, err := range r.gained {
			t.Errorf("%s: %v", r.name, err)
		}
		assert.NotEmpty(t, r.outcomes, "%s did nothing", r.name)
	}
	t.Logf("%s: %s; grown by %s; at most %d MB of memory", who.name, &l, grown, most>>20)
	assert.Empty(t, l.failed, "boots and releases of others")
	own := perBoot.times(int64(l.count()))
	assert.LessOrEqual(t, grown.state, who.budget.state+own.state, "bytes of the state")
	assert.LessOrEqual(t, grown.log, who.budget.log+own.log, "bytes of the files")
	assert.LessOrEqual(t, grown.index, who.budget.index+own.index, "entries of the log")
	if who.memory > 0 {
		assert.LessOrEqual(t, most, who.memory, "bytes of memory of the process")
	}
	w.untouched(t)
	p.learnt(t, secrets)
	if *forFlag >= measuredMin {
		again := w.idle(t, zones) // the machine may be another one now
		took := max(quantile(alone.took, 0.99), quantile(again.took, 0.99))
		ended := max(quantile(alone.ended, 0.99), quantile(again.ended, 0.99))
		assert.LessOrEqual(t, quantile(l.took, 0.99), slowerMax*took+slowerSpare, "p99 of boots")
		assert.LessOrEqual(t, quantile(l.ended, 0.99), slowerMax*ended+slowerSpare, "p99 of releases")
	}
}

// perBoot is what one boot of others may add.
var perBoot = size{state: 8 << 10, log: 32 << 10, index: 20}

func (s size) times(n int64) size { return size{s.state * n, s.log * n, s.index * uint64(n)} }

// secrets are what no party may see: hosts and agents, and what others say.
func (w *world) secrets(t *testing.T) []leak.Canary {
	t.Helper()
	out := []leak.Canary{{Kind: "what others say", Text: secret}}
	for _, v := range []*state.State{w.root.node.Store().View(), w.west.node.Store().View()} {
		all, err := leak.OfState(v)
		require.NoError(t, err)
		for _, c := range all {
			if slices.Contains([]string{"host name", "host id", "agent id"}, c.Kind) {
				out = append(out, c)
			}
		}
	}
	return out
}

// learnt looks for secrets in all that was answered to a party.
func (p *phase) learnt(t *testing.T, secrets []leak.Canary) {
	t.Helper()
	s, err := leak.NewScanner(secrets)
	require.NoError(t, err)
	sum, err := leak.ScanDir(p.answers, s, nil)
	require.NoError(t, err)
	for _, h := range s.Hits() {
		t.Errorf("%s has learnt: %s", p.party.name, h)
	}
	t.Logf("%s: %d bytes of answers hold none of %d secrets", p.party.name, sum.Bytes, len(secrets))
}
