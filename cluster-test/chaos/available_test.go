//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
)

// How a prober calls.
const (
	probeEvery = 100 * time.Millisecond
	probeMax   = time.Second // of one call; then the next node is asked
)

// prober is a client of one zone that writes all the time, as one that is connected
// to all of it does: it stays with the node that answered last, gives a call a
// second, and goes on to the next node that runs. A node that is frozen or has
// vanished costs it that second; one that has ended costs nothing.
type prober struct {
	z  *lab.Zone
	on api.ProviderID

	mu     sync.Mutex      // guards what follows
	acks   []time.Time     // when writes were acknowledged
	plain  []time.Duration // how long each of these took
	stalls []stall
}

// stall is a time in which the machine did not run what it should have.
type stall struct {
	until time.Time
	long  time.Duration
}

// stallMin is how late a prober must be for that.
const stallMin = 50 * time.Millisecond

// newProber makes what a prober writes to.
func newProber(t *testing.T, z *lab.Zone) *prober {
	t.Helper()
	return &prober{z: z, on: newProvider(t, z, z.Name+"-probed")}
}

// run writes until ctx ends.
func (p *prober) run(ctx context.Context) {
	nodes := p.z.Members()
	for at := 0; ctx.Err() == nil; p.pause(ctx) {
		o, began := nodes[at%len(nodes)], time.Now()
		if !o.Running() || p.write(ctx, o) != nil {
			at++
			continue
		}
		p.mu.Lock()
		p.acks, p.plain = append(p.acks, time.Now()), append(p.plain, time.Since(began))
		p.mu.Unlock()
	}
}

// pause waits until the next probe, and notes if that took too long.
func (p *prober) pause(ctx context.Context) {
	began := time.Now()
	lab.Pass(ctx, probeEvery)
	if late := time.Since(began) - probeEvery; late > stallMin {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stalls = append(p.stalls, stall{time.Now(), late})
	}
}

// spare is what a gap may be longer than was promised: by how long the machine stood still meanwhile, and by what ten
// writes take that nothing delays.
func (p *prober) spare(g gap) time.Duration {
	var sum time.Duration
	for _, s := range p.stalls {
		if s.until.After(g.from) && s.until.Add(-s.long).Before(g.from.Add(g.long)) {
			sum += s.long
		}
	}
	if plain := slices.Sorted(slices.Values(p.plain)); len(plain) > 0 {
		sum += plainFactor * plain[len(plain)/2]
	}
	return sum
}

// write changes how many seats there are.
func (p *prober) write(ctx context.Context, o *lab.NodeProc) error {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	c, err := o.TryClient(p.z.Token)
	if err != nil {
		return err
	}
	now, err := c.Linearizable().ProviderUsages(ctx, p.on)
	if err != nil {
		return err
	}
	_, err = c.SetInventories(ctx, p.on, client.Inventories{
		Generation: now.Generation, Inventories: map[api.ResourceClass]rest.Inventory{seat: {Total: 1 + int64(now.Generation%2)}},
	})
	return err
}

// gap is a time in which a zone should have acknowledged something and has not.
type gap struct {
	from    time.Time
	long    time.Duration
	promise time.Duration
}

// interval is a time in which a majority of a zone was connected and running.
type interval struct{ from, until time.Time }

// able returns when a majority of a zone's nodes, so many of them, was left alone by
// all faults.
func able(hits []*hit, zone string, nodes int, from, until time.Time) []interval {
	var moments []time.Time
	for _, h := range hits {
		moments = append(moments, h.from, h.until)
	}
	moments = slices.DeleteFunc(append(moments, from, until), func(m time.Time) bool { return m.Before(from) || m.After(until) })
	slices.SortFunc(moments, time.Time.Compare)
	var out []interval
	for i := range len(moments) - 1 {
		a, b := moments[i], moments[i+1]
		lost, slow := map[*lab.NodeProc]bool{}, false
		for _, h := range hits {
			for _, o := range h.nodes {
				if o.Zone.Name == zone && h.from.Before(b) && h.until.After(a) {
					lost[o], slow = true, slow || h.slow
				}
			}
		}
		switch last := len(out) - 1; {
		case slow || 2*(nodes-len(lost)) <= nodes:
		case last >= 0 && out[last].until.Equal(a):
			out[last].until = b
		default:
			out = append(out, interval{a, b})
		}
	}
	return out
}

// gaps returns how long a zone acknowledged nothing while it was able to, the
// longest first; and how long that was in all. When another fault hits the zone,
// its promise counts from then on.
func gaps(hits []*hit, zone string, when []interval, acks []time.Time) (all []gap, judged time.Duration) {
	moments := slices.Clone(acks)
	for _, h := range hits {
		if h.zone() == zone {
			moments = append(moments, h.from)
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	for _, in := range when {
		judged += in.until.Sub(in.from)
		last := in.from
		for _, at := range append(slices.Clone(moments), in.until) {
			if at.Before(last) || at.After(in.until) {
				continue
			}
			all = append(all, gap{last, at.Sub(last), promised(hits, zone, last, at)})
			last = at
		}
	}
	slices.SortFunc(all, func(a, b gap) int { return cmp.Compare(b.long, a.long) })
	return all, judged
}

// promised returns how soon a zone acknowledges again after what happened to it.
func promised(hits []*hit, zone string, from, until time.Time) time.Duration {
	promise := failoverMax
	for _, h := range hits {
		if h.zone() == zone && h.from.Before(until) && h.until.After(from) {
			promise = max(promise, h.promise)
		}
	}
	return promise
}

// judge fails the test for each gap that is longer than was promised.
func (p *prober) judge(t *testing.T, hits []*hit, from, until time.Time) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	all, judged := gaps(hits, p.z.Name, able(hits, p.z.Name, len(p.z.Members()), from, until), p.acks)
	var longest []time.Duration
	for _, g := range all {
		assert.LessOrEqual(t, g.long, g.promise+p.spare(g), "%s: nothing was acknowledged from %s on, while a majority was connected and running:\n%s",
			p.z.Name, g.from.Format(time.StampMilli), around(hits, g))
		if len(longest) < 3 {
			longest = append(longest, g.long.Round(time.Millisecond))
		}
	}
	t.Logf("%s: %d probes acknowledged; for %s a majority was connected and running, and the longest without one were %v",
		p.z.Name, len(p.acks), judged.Round(time.Second), longest)
	sums.available(judged, longest, len(p.acks))
}

// around tells the faults of a gap.
func around(hits []*hit, g gap) (text string) {
	for _, h := range hits {
		if !h.until.Before(g.from.Add(-2*time.Second)) && h.from.Before(g.from.Add(g.long)) {
			text += fmt.Sprintf("%s, %s to %s:", h.kind, h.from.Format(time.StampMilli), h.until.Format(time.StampMilli))
			for _, o := range h.nodes {
				text += " " + o.Name
			}
			text += "\n"
		}
	}
	return text
}

// TestAvailabilityGate holds what counts as a gap.
func TestAvailabilityGate(t *testing.T) {
	t.Parallel()
	z := &lab.Zone{Name: "west"}
	var nodes []*lab.NodeProc
	for range 3 {
		nodes = append(nodes, &lab.NodeProc{Zone: z})
	}
	began := time.Now()
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	during := func(from, until float64, promise time.Duration, of ...*lab.NodeProc) *hit {
		return &hit{from: at(from), until: at(until), nodes: of, promise: promise}
	}
	every := func(from, until float64) (out []time.Time) {
		for s := from; s <= until; s += 0.5 {
			out = append(out, at(s))
		}
		return out
	}
	judge := func(hits []*hit, acks []time.Time) (late []gap, judged time.Duration) {
		all, judged := gaps(hits, "west", able(hits, "west", 3, at(0), at(60)), acks)
		for _, g := range all {
			if g.long > g.promise {
				late = append(late, g)
			}
		}
		return late, judged
	}
	late, judged := judge(nil, every(0, 60))
	assert.Empty(t, late)
	assert.Equal(t, time.Minute, judged)
	late, _ = judge(nil, every(0, 50))
	assert.Len(t, late, 1, "nothing was acknowledged until the end")
	late, _ = judge(nil, append(every(0, 20), every(25.5, 60)...))
	require.Len(t, late, 1)
	assert.Equal(t, 5500*time.Millisecond, late[0].long)

	killed := during(20, 22, failoverMax, nodes[0])
	late, judged = judge([]*hit{killed}, append(every(0, 20), every(25, 60)...))
	assert.Empty(t, late, "within what is promised after a kill")
	assert.Equal(t, time.Minute, judged, "two of three are a majority")
	late, _ = judge([]*hit{killed}, append(every(0, 20), every(26, 60)...))
	assert.Len(t, late, 1)
	again := during(24, 25, failoverMax, nodes[1])
	late, _ = judge([]*hit{killed, again}, append(every(0, 20), every(28.5, 60)...))
	assert.Empty(t, late, "four seconds after each of two")
	late, _ = judge([]*hit{killed, again}, append(every(0, 20), every(29.5, 60)...))
	assert.Len(t, late, 1, "five and a half after the second")
	hung := during(20, 28, hungDiskMax, nodes[0])
	late, _ = judge([]*hit{hung}, append(every(0, 20), every(30, 60)...))
	assert.Empty(t, late, "a hung disk may take longer")
	late, _ = judge([]*hit{during(20, 28, hungDiskMax, &lab.NodeProc{Zone: &lab.Zone{Name: "edge"}})}, append(every(0, 20), every(30, 60)...))
	assert.Len(t, late, 1, "not that of another zone")

	both := []*hit{killed, during(21, 40, failoverMax, nodes[1])}
	late, judged = judge(both, append(every(0, 20), every(22, 60)...))
	assert.Empty(t, late)
	assert.Equal(t, 59*time.Second, judged, "for a second one node of three was left")
	late, _ = judge([]*hit{during(10, 40, failoverMax, nodes...)}, append(every(0, 10), every(44, 60)...))
	assert.Empty(t, late, "no majority, then four seconds")
	late, _ = judge([]*hit{during(10, 40, failoverMax, nodes...)}, append(every(0, 10), every(45.5, 60)...))
	assert.Len(t, late, 1)
	slow := during(10, 40, failoverMax, nodes[0])
	slow.slow = true
	_, judged = judge([]*hit{slow}, every(0, 60))
	assert.Equal(t, 30*time.Second, judged, "a leader behind a slow wire need not be quick")
}
